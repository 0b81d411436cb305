; Made from aot_linux.c by clang 22: `python -m tests.house.compiled`.
; sha256 e3268dd314ff1adae0496e6eb99cd04971af3b7ff33b17989ae4c7c16d3e6056
%struct.pool = type { i32, i32, ptr, ptr, i64, i64, i64, i64, i64, i32, [60 x i8], i64, i32, [52 x i8], i32, i32, ptr, i64, %struct.control, [16 x i8] }
%struct.control = type { i64, i64, i32 }
%struct.worker = type { ptr, i64 }

@lock = internal global i32 0, align 4
@process = internal global i32 0, align 4
@memory = internal global %struct.pool zeroinitializer, align 64
@workers = internal global [256 x %struct.worker] zeroinitializer, align 16

define i32 @PyGILState_Ensure() nounwind {
entry:
  ret i32 0
}

define void @PyGILState_Release(i32 %state) nounwind {
entry:
  ret void
}

define i32 @PyErr_CheckSignals() nounwind {
entry:
  ret i32 0
}

define noalias ptr @PyEval_SaveThread() nounwind {
entry:
  ret ptr null
}

define void @PyEval_RestoreThread(ptr %state) nounwind {
entry:
  ret void
}

define void @aot_share(ptr %run, ptr %block, i64 %programs, i64 %threads, i64 %least, i64 %group) nounwind {
entry:
  %call = tail call i32 @getpid()
  br label %while.cond

while.cond:
  %0 = atomicrmw xchg ptr @lock, i32 1 acquire, align 4
  %tobool.not = icmp eq i32 %0, 0
  br i1 %tobool.not, label %while.end, label %while.cond

while.end:
  %1 = load i32, ptr @process, align 4
  %cmp.not = icmp eq i32 %1, %call
  br i1 %cmp.not, label %if.end, label %if.then

if.then:
  %call1 = tail call i64 @sysconf(i32 84)
  %sub = add i64 %call1, -1
  tail call void @llvm.memset.p0.i64(ptr align 64 @memory, i8 0, i64 256, i1 false)
  store ptr @workers, ptr getelementptr inbounds nuw (i8, ptr @memory, i64 200), align 8
  %2 = tail call i64 @llvm.smax.i64(i64 %sub, i64 0)
  %3 = tail call i64 @llvm.umin.i64(i64 %2, i64 255)
  store i64 %3, ptr getelementptr inbounds nuw (i8, ptr @memory, i64 208), align 16
  store i32 %call, ptr @process, align 4
  br label %if.end

if.end:
  store atomic i32 0, ptr @lock release, align 4
  %call12 = tail call i32 @pool_run(ptr @memory, ptr %run, ptr %block, i64 %programs, i64 %threads, i64 %least, i64 %group, i64 0)
  ret void
}

declare i32 @getpid()

declare i64 @sysconf(i32)

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)

declare i32 @pool_run(ptr, ptr, ptr, i64, i64, i64, i64, i64)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.umin.i64(i64, i64)
