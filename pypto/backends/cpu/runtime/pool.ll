; The thread pool. Each launch is a generation: workers wait for the next one, by spinning first and then on a futex,
; and draw tickets for chunks of programs from a common counter. Every other thread begins at the end of the grid, so
; that with two of them each finds in its own caches what it had there in the launch before, and long programs are no
; thread's last ones if they stand at one end. The chunks of the middle quarter are small, so that all threads end
; together. pool.py fills in what is in angle brackets.
;
; A launch that may take long is polled: threads run stretches of a few milliseconds, and between two of them the caller
; lets Python handle signals every <interval> nanoseconds. Where a handler raises (Ctrl-C), no thread begins another
; stretch, and the launch returns 1 with the exception set. Other launches look at no clock.
;
; %pool, one cache line each: 0 generation (futex word), whether the launch is polled, and the job: kernel, arguments, programs, chunk, threads, small
; chunk, programs with those that the last group lacks; 9 sleepers; 11 tickets drawn, at the end of the grid in the
; upper half, and 12 workers inside (the sign bit: closed); 14 whether a launch uses the pool, whether its workers are
; started, memory for those with their number, and the control of a polled launch. What is read together lies together, since each line that goes from
; one core to another costs the launch some fifty nanoseconds.
%pool = type { i32, i32, ptr, ptr, i64, i64, i64, i64, i64, i32, [60 x i8], i64, i32, [52 x i8],
  i32, i32, ptr, i64, %control }
; Of a polled launch: when to ask next, programs that stay together, and whether it is stopped.
%control = type { i64, i64, i32 }
%worker = type { ptr, i64 }
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.readcyclecounter()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void <declared>
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; Nanoseconds, or on x86-64 ticks of the processor's clock, which are a few times as many and cheaper to read.
define internal i64 @now() alwaysinline {
  <now>
}

define internal i64 @clock() {
  %time = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.p
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; Let Python handle signals where it is time for that. True from the moment on where a handler has raised.
define internal i1 @ask(ptr %c, i64 %now) {
entry:
  %stop.p = getelementptr %control, ptr %c, i32 0, i32 2
  %stopped = load atomic i32, ptr %stop.p monotonic, align 4
  %over = icmp ne i32 %stopped, 0
  %due = load i64, ptr %c
  %new = icmp eq i64 %due, 0
  br i1 %new, label %first, label %compare
first:
  %then = add i64 %now, <interval>
  store i64 %then, ptr %c
  br label %same
compare:
  %early = icmp slt i64 %now, %due
  %idle = or i1 %over, %early
  br i1 %idle, label %same, label %python
same:
  ret i1 %over
python:
  %state = call i32 @PyGILState_Ensure()
  %failed = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %after = call i64 @now()
  %next = add i64 %after, <interval>
  store i64 %next, ptr %c
  %raised = icmp ne i32 %failed, 0
  %word = zext i1 %raised to i32
  store atomic i32 %word, ptr %stop.p monotonic, align 4
  ret i1 %raised
}

; Programs %first to %last of a polled launch: one at first, then as many as take some milliseconds. True where the
; launch is stopped. Behind the last one, signals matter only to a caller who has more to do.
define internal i1 @stretch(ptr %c, ptr %f, ptr %a, i64 %first, i64 %last, i64 %thread, i1 %alone) {
entry:
  %stop.p = getelementptr %control, ptr %c, i32 0, i32 2
  %unit.p = getelementptr %control, ptr %c, i32 0, i32 1
  %unit = load i64, ptr %unit.p
  %caller = icmp eq i64 %thread, 0
  %begin = call i64 @now()
  br label %head
head:
  %at = phi i64 [ %first, %entry ], [ %end, %next ]
  %count = phi i64 [ 1, %entry ], [ %following, %next ]
  %before = phi i64 [ %begin, %entry ], [ %after, %next ]
  %stopped = load atomic i32, ptr %stop.p monotonic, align 4
  %stop = icmp ne i32 %stopped, 0
  br i1 %stop, label %leave, label %run
run:
  %size = mul i64 %count, %unit
  %behind = add i64 %at, %size
  %end = call i64 @llvm.umin.i64(i64 %behind, i64 %last)
  call void %f(i64 %at, i64 %end, i64 %thread, ptr %a)
  %ends = icmp uge i64 %end, %last
  %over = and i1 %ends, %alone
  br i1 %over, label %done, label %look
look:
  %after = call i64 @now()
  br i1 %caller, label %signals, label %more
signals:
  %raised = call i1 @ask(ptr %c, i64 %after)
  br i1 %raised, label %leave, label %more
more:
  %left = icmp ult i64 %end, %last
  br i1 %left, label %next, label %done
next:
  %took = sub i64 %after, %before
  %quick = icmp slt i64 %took, <quick>
  %slow = icmp sgt i64 %took, <slow>
  %more.of = shl i64 %count, 3
  %part.of = lshr i64 %count, 3
  %least = call i64 @llvm.umax.i64(i64 %part.of, i64 1)
  %up = select i1 %quick, i64 %more.of, i64 %count
  %following = select i1 %slow, i64 %least, i64 %up
  br label %head
leave:
  ret i1 true
done:
  ret i1 false
}

; Begin a polled launch: the programs of a group stay together where the group is a number of programs.
define internal void @begin(ptr %c, i64 %group) {
  %grouped = icmp sgt i64 %group, 1
  %unit = select i1 %grouped, i64 %group, i64 1
  store i64 0, ptr %c
  %unit.p = getelementptr %control, ptr %c, i32 0, i32 1
  store i64 %unit, ptr %unit.p
  %stop.p = getelementptr %control, ptr %c, i32 0, i32 2
  store atomic i32 0, ptr %stop.p monotonic, align 4
  ret void
}

define internal void @work(ptr %p, i64 %thread) {
entry:
  %lp = getelementptr %pool, ptr %p, i32 0, i32 1
  %polled = load i32, ptr %lp
  %long = icmp ne i32 %polled, 0
  %c = getelementptr %pool, ptr %p, i32 0, i32 18
  %fp = getelementptr %pool, ptr %p, i32 0, i32 2
  %f = load ptr, ptr %fp
  %ap = getelementptr %pool, ptr %p, i32 0, i32 3
  %a = load ptr, ptr %ap
  %tp = getelementptr %pool, ptr %p, i32 0, i32 4
  %there = load i64, ptr %tp
  %ep = getelementptr %pool, ptr %p, i32 0, i32 8
  %total = load i64, ptr %ep
  %cp = getelementptr %pool, ptr %p, i32 0, i32 5
  %chunk = load i64, ptr %cp
  %sp = getelementptr %pool, ptr %p, i32 0, i32 7
  %small = load i64, ptr %sp
  %np = getelementptr %pool, ptr %p, i32 0, i32 11
  %part.of = lshr i64 %total, 2
  %most = sub i64 %total, %part.of
  %both = udiv i64 %most, %chunk
  %many = lshr i64 %both, 1  ; large chunks at each end
  %large = mul i64 %many, %chunk
  %begin = sub i64 %total, %large
  %middle = sub i64 %begin, %large
  %less = sub i64 %small, 1
  %up = add i64 %middle, %less
  %few = udiv i64 %up, %small
  %ends = shl i64 %many, 1
  %chunks = add i64 %ends, %few
  %odd = and i64 %thread, 1
  %far = icmp ne i64 %odd, 0
  %draw = select i1 %far, i64 4294967296, i64 1
  br label %take
take:
  %old = atomicrmw add ptr %np, i64 %draw monotonic
  %near.drawn = and i64 %old, 4294967295
  %far.drawn = lshr i64 %old, 32
  %drawn = add i64 %near.drawn, %far.drawn
  %some = icmp ult i64 %drawn, %chunks
  br i1 %some, label %run, label %done
run:
  %left = sub i64 %chunks, %far.drawn
  %final = sub i64 %left, 1
  %i = select i1 %far, i64 %final, i64 %near.drawn
  %rest = sub i64 %chunks, %i
  %front = icmp ult i64 %i, %many
  %back = icmp ule i64 %rest, %many
  %outer = or i1 %front, %back
  %size = select i1 %outer, i64 %chunk, i64 %small
  %before = mul i64 %i, %chunk
  %behind = mul i64 %rest, %chunk
  %at.back = sub i64 %total, %behind
  %within = sub i64 %i, %many
  %smalls = mul i64 %within, %small
  %at.middle = add i64 %large, %smalls
  %inner = select i1 %back, i64 %at.back, i64 %at.middle
  %first = select i1 %front, i64 %before, i64 %inner
  %limit = select i1 %back, i64 %total, i64 %begin
  %end = add i64 %first, %size
  %whole = call i64 @llvm.umin.i64(i64 %end, i64 %limit)
  %last = call i64 @llvm.umin.i64(i64 %whole, i64 %there)
  br i1 %long, label %parts, label %whole.chunk
whole.chunk:
  call void %f(i64 %first, i64 %last, i64 %thread, ptr %a)
  br label %take
parts:
  %stopped = call i1 @stretch(ptr %c, ptr %f, ptr %a, i64 %first, i64 %last, i64 %thread, i1 false)
  br i1 %stopped, label %done, label %take
done:
  ret void
}

define ptr @pool_worker(ptr %w) {
entry:
  %p = load ptr, ptr %w
  %ip = getelementptr %worker, ptr %w, i32 0, i32 1
  %thread = load i64, ptr %ip
  %sleepers = getelementptr %pool, ptr %p, i32 0, i32 9
  %inside = getelementptr %pool, ptr %p, i32 0, i32 12
  %allowed.p = getelementptr %pool, ptr %p, i32 0, i32 6
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %now, %leave ]
  br label %spin
spin:
  %n = phi i32 [ 0, %wait ], [ %n1, %again ]
  %g = load atomic i32, ptr %p acquire, align 4
  %new = icmp ne i32 %g, %seen
  br i1 %new, label %enter, label %again
again:
  call void <pause>
  %n1 = add i32 %n, 1
  %more = icmp ult i32 %n1, <spins>
  br i1 %more, label %spin, label %sleep
sleep:
  %s0 = atomicrmw add ptr %sleepers, i32 1 seq_cst
  br label %doze
doze:
  %r = call i64 (i64, ...) @syscall(i64 <futex>, ptr %p, i64 128, i32 %seen, ptr null, ptr null, i32 0)
  %g2 = load atomic i32, ptr %p seq_cst, align 4
  %new2 = icmp ne i32 %g2, %seen
  br i1 %new2, label %woken, label %doze
woken:
  %s1 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %enter
enter:
  %now = phi i32 [ %g, %spin ], [ %g2, %woken ]
  %was = atomicrmw add ptr %inside, i32 1 acq_rel
  %closed = icmp slt i32 %was, 0
  br i1 %closed, label %leave, label %look
look:
  %allowed = load i64, ptr %allowed.p
  %mine = icmp slt i64 %thread, %allowed
  br i1 %mine, label %join, label %leave
join:
  call void @work(ptr %p, i64 %thread)
  br label %leave
leave:
  %out = atomicrmw sub ptr %inside, i32 1 acq_rel
  br label %wait
}

define internal void @pool_start(ptr %p, ptr %workers, i64 %count) {
entry:
  %id = alloca i64
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %make, label %end
make:
  %i1 = add i64 %i, 1
  %w = getelementptr %worker, ptr %workers, i64 %i
  store ptr %p, ptr %w
  %ip = getelementptr %worker, ptr %w, i32 0, i32 1
  store i64 %i1, ptr %ip
  %r = call i32 @pthread_create(ptr %id, ptr null, ptr @pool_worker, ptr %w)
  %failed = icmp ne i32 %r, 0
  br i1 %failed, label %end, label %next
next:
  %t = load i64, ptr %id
  %d = call i32 @pthread_detach(i64 %t)
  br label %head
end:
  ret void
}

; Run programs 0 to %total on some threads, small chunks being %least programs or more. Those of a %group stay together;
; 0 or less stands for those along one axis of the grid, whose size is one of the first arguments, and for so many where
; that is 1; times 2^32, for so many such rows, where there are so many for each thread; bits 30 and 31 are the axis.
; While another thread of the process uses the pool, and with one thread, the caller does it alone. Gives 0, or 1 where
; a polled launch was stopped.
define i32 @pool_run(ptr %p, ptr %f, ptr %a, i64 %total, i64 %threads, i64 %least, i64 %group, i64 %polled) {
first:
  %own = alloca %control
  %word = trunc i64 %polled to i32
  %long = icmp ne i64 %polled, 0
  %serial = icmp ult i64 %threads, 2
  br i1 %serial, label %alone, label %entry
entry:
  %busy = getelementptr %pool, ptr %p, i32 0, i32 14
  %old = atomicrmw xchg ptr %busy, i32 1 acquire
  %mine = icmp eq i32 %old, 0
  br i1 %mine, label %enter, label %alone
alone:
  br i1 %long, label %stretches, label %all
all:
  call void %f(i64 0, i64 %total, i64 0, ptr %a)
  ret i32 0
stretches:
  call void @begin(ptr %own, i64 %group)
  %stopped = call i1 @stretch(ptr %own, ptr %f, ptr %a, i64 0, i64 %total, i64 0, i1 true)
  %told = zext i1 %stopped to i32
  ret i32 %told
enter:
  %started.p = getelementptr %pool, ptr %p, i32 0, i32 15
  %started = load i32, ptr %started.p
  %new = icmp eq i32 %started, 0
  br i1 %new, label %start, label %open
start:  ; workers that could not be started are not waited for
  store i32 1, ptr %started.p
  %wp = getelementptr %pool, ptr %p, i32 0, i32 16
  %workers = load ptr, ptr %wp
  %np = getelementptr %pool, ptr %p, i32 0, i32 17
  %number = load i64, ptr %np
  call void @pool_start(ptr %p, ptr %workers, i64 %number)
  br label %open
open:
  %parts = mul i64 %threads, <parts>
  %even = udiv i64 %total, %parts
  %chunk = call i64 @llvm.umax.i64(i64 %even, i64 1)
  %part = lshr i64 %chunk, 2
  %enough = call i64 @llvm.umax.i64(i64 %part, i64 %least)
  %small = call i64 @llvm.umin.i64(i64 %enough, i64 %chunk)
  %single = icmp eq i64 %group, 1
  br i1 %single, label %share, label %together
together:
  %along = icmp slt i64 %group, 1
  br i1 %along, label %row, label %count
row:
  %turned = sub i64 0, %group
  %high = lshr i64 %turned, 30
  %axis = and i64 %high, 3
  %size.p = getelementptr i64, ptr %a, i64 %axis
  %size = load i64, ptr %size.p
  %one = icmp eq i64 %size, 1
  %programs = and i64 %turned, 1073741823
  %many = call i64 @llvm.umax.i64(i64 %programs, i64 1)
  %line = select i1 %one, i64 %many, i64 %size
  %strips = lshr i64 %turned, 32
  %block = mul i64 %line, %strips
  %needed = mul i64 %block, %threads
  %fits = icmp uge i64 %total, %needed
  %strip = icmp ne i64 %strips, 0
  %merged = and i1 %fits, %strip
  %x = select i1 %merged, i64 %block, i64 %line
  br label %count
count:
  %g = phi i64 [ %x, %row ], [ %group, %together ]
  %groups = udiv i64 %total, %g
  %each = udiv i64 %groups, %threads
  %plenty = icmp uge i64 %each, 4
  %turn = mul i64 %g, %threads
  %over = urem i64 %total, %turn
  %exact = icmp eq i64 %over, 0
  %whole = or i1 %plenty, %exact
  br i1 %whole, label %groupwise, label %parted
groupwise:
  %times = udiv i64 %each, <parts>
  %most = call i64 @llvm.umax.i64(i64 %times, i64 1)
  %wide = mul i64 %most, %g
  %bulk = lshr i64 %groups, 30  ; so that no half of the counter overflows
  %some = add i64 %bulk, 1
  %narrow = mul i64 %some, %g
  br label %share
parted:  ; few groups that leave a rest would keep some threads waiting: parts of one size, with a cut in some group
  %rounds = call i64 @llvm.umax.i64(i64 %each, i64 1)
  %pieces = mul i64 %rounds, %threads
  %less = sub i64 %pieces, 1
  %up = add i64 %total, %less
  %piece = udiv i64 %up, %pieces
  br label %share
share:
  %large = phi i64 [ %chunk, %open ], [ %wide, %groupwise ], [ %piece, %parted ]
  %last = phi i64 [ %small, %open ], [ %narrow, %groupwise ], [ %piece, %parted ]
  %unit = phi i64 [ 1, %open ], [ %g, %groupwise ], [ 1, %parted ]
  %small.p = getelementptr %pool, ptr %p, i32 0, i32 7
  store i64 %last, ptr %small.p
  %under = sub i64 %unit, 1
  %above = add i64 %total, %under
  %units = udiv i64 %above, %unit
  %ends = mul i64 %units, %unit
  %ep = getelementptr %pool, ptr %p, i32 0, i32 8
  store i64 %ends, ptr %ep
  %polled.p = getelementptr %pool, ptr %p, i32 0, i32 1
  store i32 %word, ptr %polled.p
  %c = getelementptr %pool, ptr %p, i32 0, i32 18
  br i1 %long, label %polling, label %running
polling:
  call void @begin(ptr %c, i64 %unit)
  br label %running
running:
  call void @pool_share(ptr %p, ptr %f, ptr %a, i64 %total, i64 %large, i64 %threads)
  br i1 %long, label %result, label %plain
result:
  %stop.p = getelementptr %control, ptr %c, i32 0, i32 2
  %stop = load atomic i32, ptr %stop.p monotonic, align 4
  store atomic i32 0, ptr %busy release, align 4
  ret i32 %stop
plain:
  store atomic i32 0, ptr %busy release, align 4
  ret i32 0
}

; The same for a caller that holds the interpreter's lock, which is free meanwhile.
define i32 @pool_locked(ptr %p, ptr %f, ptr %a, i64 %total, i64 %threads, i64 %least, i64 %group, i64 %polled) {
  %state = call ptr @PyEval_SaveThread()
  %r = call i32 @pool_run(ptr %p, ptr %f, ptr %a, i64 %total, i64 %threads, i64 %least, i64 %group, i64 %polled)
  call void @PyEval_RestoreThread(ptr %state)
  ret i32 %r
}

define internal void @pool_share(ptr %p, ptr %f, ptr %a, i64 %total, i64 %chunk, i64 %threads) {
entry:
  %fp = getelementptr %pool, ptr %p, i32 0, i32 2
  store ptr %f, ptr %fp
  %ap = getelementptr %pool, ptr %p, i32 0, i32 3
  store ptr %a, ptr %ap
  %tp = getelementptr %pool, ptr %p, i32 0, i32 4
  store i64 %total, ptr %tp
  %cp = getelementptr %pool, ptr %p, i32 0, i32 5
  store i64 %chunk, ptr %cp
  %lp = getelementptr %pool, ptr %p, i32 0, i32 6
  store i64 %threads, ptr %lp
  %np = getelementptr %pool, ptr %p, i32 0, i32 11
  store atomic i64 0, ptr %np monotonic, align 8
  %inside = getelementptr %pool, ptr %p, i32 0, i32 12
  %open = atomicrmw and ptr %inside, i32 2147483647 seq_cst
  %g = atomicrmw add ptr %p, i32 1 seq_cst
  %sp = getelementptr %pool, ptr %p, i32 0, i32 9
  %asleep = load atomic i32, ptr %sp seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %wake, label %own
wake:
  %r = call i64 (i64, ...) @syscall(i64 <futex>, ptr %p, i64 129, i32 2147483647, ptr null, ptr null, i32 0)
  br label %own
own:
  call void @work(ptr %p, i64 0)
  %c = atomicrmw or ptr %inside, i32 -2147483648 seq_cst
  br label %rest
rest:
  %n = load atomic i32, ptr %inside acquire, align 4
  %left = and i32 %n, 2147483647
  %busy = icmp ne i32 %left, 0
  br i1 %busy, label %hold, label %end
hold:
  call void <pause>
  %polled.p = getelementptr %pool, ptr %p, i32 0, i32 1
  %polled = load i32, ptr %polled.p
  %long = icmp ne i32 %polled, 0
  br i1 %long, label %signals, label %rest
signals:
  %control = getelementptr %pool, ptr %p, i32 0, i32 18
  %now = call i64 @now()
  %raised = call i1 @ask(ptr %control, i64 %now)
  br label %rest
end:
  ret void
}
