; What a process says before a kernel ends it. The handler of SIGSEGV and SIGBUS looks for the instruction in a table of
; the memory that holds kernels, writes a line for the one that it finds, and leaves the rest to the handler before it.
; Where the instruction is in none, or the C library has found the heap to be broken (SIGABRT), it writes the line of the
; latest kernel that may have done that. It calls `write`, `sigaction` and `raise` only, all of which may be called in a
; signal handler. crash.py fills in what is in angle brackets.
;
; %row: where a kernel's code begins and ends, its line and how long that is, then the line for what happens later.
; %action is glibc's `struct sigaction`.
%row = type { i64, i64, ptr, i64, ptr, i64 }
%action = type { ptr, [16 x i64], i32, ptr }
@rows = internal global ptr null
@count = internal global i64 0
@said = internal global i32 0
@segv = internal global %action zeroinitializer
@bus = internal global %action zeroinitializer
@abort = internal global %action zeroinitializer
declare i64 @write(i32, ptr, i64)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @raise(i32)

; The table from now on; the one before it stays where it is.
define void @crash_table(ptr %rows, i64 %count) {
  store atomic i64 0, ptr @count seq_cst, align 8
  store atomic ptr %rows, ptr @rows seq_cst, align 8
  store atomic i64 %count, ptr @count seq_cst, align 8
  ret void
}

define void @crash_install() {
  %new = alloca %action
  store %action zeroinitializer, ptr %new
  store ptr @handle, ptr %new
  %flags.p = getelementptr %action, ptr %new, i32 0, i32 2
  store i32 134217732, ptr %flags.p  ; SA_SIGINFO, SA_ONSTACK
  %a = call i32 @sigaction(i32 11, ptr %new, ptr @segv)
  %b = call i32 @sigaction(i32 7, ptr %new, ptr @bus)
  %c = call i32 @sigaction(i32 6, ptr %new, ptr @abort)
  ret void
}

; The row of an address; null where no kernel is.
define internal ptr @row_of(i64 %address) {
start:
  %count = load atomic i64, ptr @count seq_cst, align 8
  %rows = load atomic ptr, ptr @rows seq_cst, align 8
  br label %head
head:
  %n = phi i64 [ %count, %start ], [ %n1, %look ]
  %some = icmp ne i64 %n, 0
  br i1 %some, label %look, label %none
look:  ; the latest first: memory of a kernel that is gone may be another one's
  %n1 = sub i64 %n, 1
  %row = getelementptr %row, ptr %rows, i64 %n1
  %begin = load i64, ptr %row
  %end.p = getelementptr %row, ptr %row, i32 0, i32 1
  %end = load i64, ptr %end.p
  %above = icmp uge i64 %address, %begin
  %below = icmp ult i64 %address, %end
  %inside = and i1 %above, %below
  br i1 %inside, label %found, label %head
found:
  ret ptr %row
none:
  ret ptr null
}

; Writes a line, unless one was written.
define internal void @say(ptr %text, i64 %size) {
start:
  %before = atomicrmw xchg ptr @said, i32 1 seq_cst
  %first = icmp eq i32 %before, 0
  br i1 %first, label %say, label %end
say:
  %w = call i64 @write(i32 2, ptr %text, i64 %size)
  br label %end
end:
  ret void
}

; The latest kernel that has a line for a fault elsewhere.
define internal void @suspect() {
start:
  %count = load atomic i64, ptr @count seq_cst, align 8
  %rows = load atomic ptr, ptr @rows seq_cst, align 8
  br label %head
head:
  %n = phi i64 [ %count, %start ], [ %n1, %look ]
  %some = icmp ne i64 %n, 0
  br i1 %some, label %look, label %end
look:
  %n1 = sub i64 %n, 1
  %size.p = getelementptr %row, ptr %rows, i64 %n1, i32 5
  %size = load i64, ptr %size.p
  %silent = icmp eq i64 %size, 0
  br i1 %silent, label %head, label %found
found:
  %text.p = getelementptr %row, ptr %rows, i64 %n1, i32 4
  %text = load ptr, ptr %text.p
  call void @say(ptr %text, i64 %size)
  br label %end
end:
  ret void
}

define internal void @tell(ptr %context) {
start:
  %pc.p = getelementptr i8, ptr %context, i64 <pc>
  %pc = load i64, ptr %pc.p
  %here = call ptr @row_of(i64 %pc)
  %missing = icmp eq ptr %here, null
  br i1 %missing, label %caller, label %found
caller:  ; a function of the C library, which a kernel has called
  %link = getelementptr i8, ptr %context, i64 <link>
  %held = load i64, ptr %link
  <return>
  %there = call ptr @row_of(i64 %back)
  %nowhere = icmp eq ptr %there, null
  br i1 %nowhere, label %elsewhere, label %found
elsewhere:
  call void @suspect()
  ret void
found:
  %row = phi ptr [ %here, %start ], [ %there, %caller ]
  %text.p = getelementptr %row, ptr %row, i32 0, i32 2
  %text = load ptr, ptr %text.p
  %size.p = getelementptr %row, ptr %row, i32 0, i32 3
  %size = load i64, ptr %size.p
  call void @say(ptr %text, i64 %size)
  ret void
}

define internal void @handle(i32 %signal, ptr %info, ptr %context) {
start:
  %code.p = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code.p
  %fault = icmp sgt i32 %code, 0  ; of the processor, not sent by somebody
  br i1 %fault, label %look, label %sent
sent:
  %is.abort = icmp eq i32 %signal, 6
  %is.own = icmp eq i32 %code, -6  ; SI_TKILL: the process calls abort()
  %broken = and i1 %is.abort, %is.own
  br i1 %broken, label %heap, label %chain
heap:
  call void @suspect()
  br label %chain
look:
  call void @tell(ptr %context)
  br label %chain
chain:
  %is.segv = icmp eq i32 %signal, 11
  %is.bus = icmp eq i32 %signal, 7
  %bus.or.abort = select i1 %is.bus, ptr @bus, ptr @abort
  %old = select i1 %is.segv, ptr @segv, ptr %bus.or.abort
  %handler = load ptr, ptr %old
  %number = ptrtoint ptr %handler to i64
  %function = icmp ugt i64 %number, 1
  br i1 %function, label %call, label %default
call:
  call void %handler(i32 %signal, ptr %info, ptr %context)
  ret void
default:  ; the instruction fails again, now with the default action
  %r = call i32 @sigaction(i32 %signal, ptr %old, ptr null)
  br i1 %fault, label %end, label %again
again:
  %s = call i32 @raise(i32 %signal)
  br label %end
end:
  ret void
}
