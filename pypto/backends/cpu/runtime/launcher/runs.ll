; Running all programs of a grid: here, one after the other, or through the threads of the backend's pool.

; 0 where Python is to do it: for the first launch that needs the pool or more scratch memory than there is. 1 when all
; programs are done, and 2 with an exception set where a signal handler ended a launch that takes long.
define internal i32 @run(ptr %kernel, ptr %entry, ptr %block) alwaysinline {
start:
  %shared = load ptr, ptr %kernel
  %x = load i64, ptr %block
  %y.p = getelementptr i64, ptr %block, i64 1
  %y = load i64, ptr %y.p
  %z.p = getelementptr i64, ptr %block, i64 2
  %z = load i64, ptr %z.p
  %xy = mul i64 %x, %y
  %product = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %xy, i64 %z)
  %programs = extractvalue {i64, i1} %product, 0
  %over = extractvalue {i64, i1} %product, 1
  br i1 %over, label %python, label %count
count:
  %some = icmp ne i64 %programs, 0
  br i1 %some, label %weigh, label %done
weigh:
  %cost.p = getelementptr double, ptr %entry, i64 <e.cost>
  %cost = load double, ptr %cost.p
  %times = uitofp i64 %programs to double
  %work = fmul double %cost, %times
  %threads = call i64 @threads(ptr %shared, ptr %entry, i64 %programs, double %work)
  %pool = call ptr @word(ptr %entry, i64 <e.pool>)
  %function = load ptr, ptr %pool
  %missing = icmp eq ptr %function, null
  %several = icmp ugt i64 %threads, 1
  %open.p = getelementptr i64, ptr %entry, i64 <e.unbounded>
  %open = load i64, ptr %open.p
  %unbounded = icmp ne i64 %open, 0
  %very = fcmp ogt double %work, <polled>
  %lasting = or i1 %unbounded, %very
  %many = icmp ugt i64 %programs, 1
  %polled = and i1 %lasting, %many
  %pooled = or i1 %several, %polled
  %unready = and i1 %missing, %pooled
  br i1 %unready, label %python, label %prepare
prepare:
  %scratch.p = getelementptr i64, ptr %entry, i64 <e.scratch>
  %scratch = load i64, ptr %scratch.p
  %size = mul i64 %scratch, %threads
  %place = call ptr @take(ptr %shared, i64 %size)
  %lacking = icmp eq ptr %place, null
  br i1 %lacking, label %python, label %begin
begin:
  %memory = load ptr, ptr %place
  %memory.p = getelementptr ptr, ptr %block, i64 3
  store ptr %memory, ptr %memory.p
  %bytes.p = getelementptr i64, ptr %block, i64 4
  store i64 %scratch, ptr %bytes.p
  store ptr null, ptr %place
  %much = fcmp ogt double %work, <long>
  %long = or i1 %unbounded, %much
  br i1 %long, label %release, label %work.here
release:  ; what may take long lets Python's other threads run
  %state = call ptr @PyEval_SaveThread()
  %stopped = call i32 @programs(ptr %entry, ptr %pool, ptr %block, i64 %programs, i64 %threads, i1 %polled)
  call void @PyEval_RestoreThread(ptr %state)
  br label %end
work.here:
  %never = call i32 @programs(ptr %entry, ptr %pool, ptr %block, i64 %programs, i64 %threads, i1 false)
  br label %end
end:
  %failed = phi i32 [ %stopped, %release ], [ 0, %work.here ]
  store ptr %memory, ptr %place
  %result = add i32 %failed, 1
  ret i32 %result
done:
  ret i32 1
python:
  ret i32 0
}

; Threads for so much work.
define internal i64 @threads(ptr %shared, ptr %entry, i64 %programs, double %work) alwaysinline {
start:
  %few = icmp ult i64 %programs, 2
  %little = fcmp olt double %work, <serial>
  %serial = or i1 %few, %little
  br i1 %serial, label %one, label %choose
choose:
  %own.p = getelementptr i64, ptr %entry, i64 <e.threads>
  %own = load i64, ptr %own.p
  %common.p = getelementptr i64, ptr %shared, i64 <s.threads>
  %common = load i64, ptr %common.p
  %stated = icmp ne i64 %own, 0
  %fixed = select i1 %stated, i64 %own, i64 %common
  %asks = call ptr @word(ptr %entry, i64 <e.asks>)
  %unasked = icmp eq ptr %asks, null
  br i1 %unasked, label %limit, label %ask
ask:  ; the function of another library that says on how many threads it runs
  %told = call i32 %asks()
  %told64 = zext i32 %told to i64
  br label %limit
limit:
  %wanted = phi i64 [ %fixed, %choose ], [ %told64, %ask ]
  %pool = call ptr @word(ptr %entry, i64 <e.pool>)
  %most.p = getelementptr i64, ptr %pool, i64 2
  %most = load i64, ptr %most.p
  %threads = call i64 @llvm.umin.i64(i64 %wanted, i64 %most)
  ret i64 %threads
one:
  ret i64 1
}

define internal i32 @programs(ptr %entry, ptr %pool, ptr %block, i64 %programs, i64 %threads,
                              i1 %polled) alwaysinline {
start:
  %body = load ptr, ptr %entry
  %several = icmp ugt i64 %threads, 1
  %pooled = or i1 %several, %polled
  br i1 %pooled, label %parallel, label %serial
serial:
  call void %body(i64 0, i64 %programs, i64 0, ptr %block)
  ret i32 0
parallel:
  %run = load ptr, ptr %pool
  %state = call ptr @word(ptr %pool, i64 1)
  %least.p = getelementptr i64, ptr %entry, i64 <e.least>
  %least = load i64, ptr %least.p
  %group.p = getelementptr i64, ptr %entry, i64 <e.group>
  %group = load i64, ptr %group.p
  %asks = zext i1 %polled to i64
  %stopped = call i32 %run(ptr %state, ptr %body, ptr %block, i64 %programs, i64 %threads, i64 %least, i64 %group,
                           i64 %asks)
  ret i32 %stopped
}

; The place of free scratch memory of at least a size: an address and a number of bytes. Its address is null while the
; memory is in use, which nobody else changes: all this happens under the interpreter's lock. A size of 0 gets a place
; that holds nothing; null means that there is none.
define internal ptr @take(ptr %shared, i64 %size) alwaysinline {
start:
  %places = getelementptr i64, ptr %shared, i64 <s.scratch>
  %nothing = icmp eq i64 %size, 0
  br i1 %nothing, label %empty, label %head
empty:
  %last = getelementptr i64, ptr %places, i64 <places>
  ret ptr %last
head:
  %n = phi i64 [ 0, %start ], [ %n2, %more ]
  %left = icmp ult i64 %n, <places>
  br i1 %left, label %look, label %none
look:
  %place = getelementptr i64, ptr %places, i64 %n
  %memory = load ptr, ptr %place
  %bytes.p = getelementptr i64, ptr %place, i64 1
  %bytes = load i64, ptr %bytes.p
  %enough = icmp uge i64 %bytes, %size
  %free = icmp ne ptr %memory, null
  %good = and i1 %enough, %free
  br i1 %good, label %found, label %more
more:
  %n2 = add i64 %n, 2
  br label %head
found:
  ret ptr %place
none:
  ret ptr null
}

; Put memory into a place that has none, or less and not in use. Gives the number of the place, or -1.
define i64 @offer(ptr %shared, ptr %memory, i64 %size) {
start:
  %places = getelementptr i64, ptr %shared, i64 <s.scratch>
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n2, %more ]
  %left = icmp ult i64 %n, <places>
  br i1 %left, label %look, label %none
look:
  %place = getelementptr i64, ptr %places, i64 %n
  %old = load ptr, ptr %place
  %bytes.p = getelementptr i64, ptr %place, i64 1
  %bytes = load i64, ptr %bytes.p
  %unused = icmp eq i64 %bytes, 0
  %smaller = icmp ult i64 %bytes, %size
  %free = icmp ne ptr %old, null
  %replaced = and i1 %smaller, %free
  %good = or i1 %unused, %replaced
  br i1 %good, label %put, label %more
more:
  %n2 = add i64 %n, 2
  br label %head
put:
  store ptr %memory, ptr %place
  store i64 %size, ptr %bytes.p
  %number = lshr i64 %n, 1
  ret i64 %number
none:
  ret i64 -1
}
