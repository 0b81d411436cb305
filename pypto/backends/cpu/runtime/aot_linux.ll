; Threads of a library on Linux: the pool of pool.ll, in memory of the library's own. Its workers are started with the
; first launch that wants several, one for each CPU but the caller's. A forked child, which has none, starts its own.
@pool.memory = internal global [<state> x i8] zeroinitializer, align 64
@pool.workers = internal global [<workers> x i8] zeroinitializer, align 16
@pool.process = internal global i32 0
@pool.lock = internal global i32 0
declare i32 @getpid()
declare i64 @sysconf(i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal void @share(ptr %body, ptr %block, i64 %programs, i64 %threads, i64 %least, i64 %group) {
start:
  %process = call i32 @getpid()
  br label %lock
lock:
  %held = atomicrmw xchg ptr @pool.lock, i32 1 acquire
  %mine = icmp eq i32 %held, 0
  br i1 %mine, label %look, label %lock
look:
  %owner = load i32, ptr @pool.process
  %same = icmp eq i32 %owner, %process
  br i1 %same, label %go, label %reset
reset:
  call void @llvm.memset.p0.i64(ptr @pool.memory, i8 0, i64 <state>, i1 false)
  %online = call i64 @sysconf(i32 84)
  %others = sub i64 %online, 1
  %some = icmp sgt i64 %others, 0
  %wanted = select i1 %some, i64 %others, i64 0
  %number = call i64 @llvm.umin.i64(i64 %wanted, i64 <others>)
  %workers.p = getelementptr i8, ptr @pool.memory, i64 <offset>
  store ptr @pool.workers, ptr %workers.p
  %number.p = getelementptr i64, ptr %workers.p, i64 1
  store i64 %number, ptr %number.p
  store i32 %process, ptr @pool.process
  br label %go
go:
  store atomic i32 0, ptr @pool.lock release, align 4
  %polled = call i32 @pool_run(ptr @pool.memory, ptr %body, ptr %block, i64 %programs, i64 %threads, i64 %least, i64 %group, i64 0)
  ret void
}
