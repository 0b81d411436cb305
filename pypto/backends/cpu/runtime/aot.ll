; What stands around kernels that are compiled ahead of time: which CPU this is, scratch memory, and threads.
; ahead.py fills in what is in angle brackets, and writes an entry for each version of a kernel in front of this.
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)

; The number of programs of a grid; -1 where it is none.
define internal i64 @programs(ptr %grid) {
start:
  %x = load i64, ptr %grid
  %y.p = getelementptr i64, ptr %grid, i64 1
  %y = load i64, ptr %y.p
  %z.p = getelementptr i64, ptr %grid, i64 2
  %z = load i64, ptr %z.p
  %x.ok = icmp ult i64 %x, 2147483648
  %y.ok = icmp ult i64 %y, 2147483648
  %z.ok = icmp ult i64 %z, 2147483648
  %xy.ok = and i1 %x.ok, %y.ok
  %ok = and i1 %xy.ok, %z.ok
  %xy = mul i64 %x, %y
  %product = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %xy, i64 %z)
  %all = extractvalue {i64, i1} %product, 0
  %over = extractvalue {i64, i1} %product, 1
  %signed = icmp slt i64 %all, 0
  %much = or i1 %over, %signed
  %fits = xor i1 %much, true
  %good = and i1 %ok, %fits
  %count = select i1 %good, i64 %all, i64 -1
  ret i64 %count
}

; Run all programs: %pages bytes of scratch memory for each thread go to the block. 4 where there is no memory.
define internal i32 @run(ptr %body, ptr %block, i64 %programs, i64 %asked, i64 %pages, double %cost, i64 %least, i64 %group) {
start:
  %times = uitofp i64 %programs to double
  %work = fmul double %cost, %times
  %little = fcmp olt double %work, <serial>
  %few = icmp ult i64 %programs, 2
  %alone = or i1 %little, %few
  %positive = icmp sgt i64 %asked, 1
  %several = select i1 %positive, i64 %asked, i64 1
  %bounded = call i64 @llvm.umin.i64(i64 %several, i64 <most>)
  %threads = select i1 %alone, i64 1, i64 %bounded
  %bytes.p = getelementptr i64, ptr %block, i64 4
  store i64 %pages, ptr %bytes.p
  %size = mul i64 %pages, %threads
  %none = icmp eq i64 %size, 0
  br i1 %none, label %go, label %allocate
allocate:
  %made = call ptr @aligned_alloc(i64 <page>, i64 %size)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %poor, label %go
poor:
  ret i32 4
go:
  %memory = phi ptr [ null, %start ], [ %made, %allocate ]
  %memory.p = getelementptr ptr, ptr %block, i64 3
  store ptr %memory, ptr %memory.p
  %one = icmp eq i64 %threads, 1
  br i1 %one, label %serial, label %parallel
serial:
  call void %body(i64 0, i64 %programs, i64 0, ptr %block)
  br label %done
parallel:
  call void @share(ptr %body, ptr %block, i64 %programs, i64 %threads, i64 %least, i64 %group)
  br label %done
done:
  call void @free(ptr %memory)
  ret i32 0
}
