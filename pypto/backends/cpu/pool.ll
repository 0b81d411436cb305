; The thread pool. Each launch is a generation: workers wait for the next one, by spinning first and then on a futex,
; and draw tickets for chunks of programs from a common counter. Every other thread begins at the end of the grid, so
; that with two of them each finds in its own caches what it had there in the launch before, and long programs are no
; thread's last ones if they stand at one end. The chunks of the middle quarter are small, so that all threads end
; together. pool.py fills in what is in angle brackets.
;
; %pool, one cache line each: 0 generation (futex word) with the job: kernel, arguments, programs, chunk, threads, small
; chunk, programs with those that the last group lacks; 9 sleepers; 11 tickets drawn, at the end of the grid in the
; upper half, and 12 workers inside (the sign bit: closed); 14 whether a launch uses the pool, whether its workers are
; started, and memory for those with their number. What is read together lies together, since each line that goes from
; one core to another costs the launch some fifty nanoseconds.
%pool = type { i32, i32, ptr, ptr, i64, i64, i64, i64, i64, i32, [60 x i8], i64, i32, [52 x i8],
  i32, i32, ptr, i64 }
%worker = type { ptr, i64 }
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @syscall(i64, ...)
declare void <declared>
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

define internal void @work(ptr %p, i64 %thread) {
entry:
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
  %quarter = lshr i64 %total, 2
  %most = sub i64 %total, %quarter
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
  call void %f(i64 %first, i64 %last, i64 %thread, ptr %a)
  br label %take
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
; 0 or less stands for those along the grid's first axis, whose size is the first argument, and for so many where that
; is 1; times 2^32, for so many such rows, where there are so many for each thread. While another thread of the process
; uses the pool, the caller does it alone.
define void @pool_run(ptr %p, ptr %f, ptr %a, i64 %total, i64 %threads, i64 %least, i64 %group) {
entry:
  %busy = getelementptr %pool, ptr %p, i32 0, i32 14
  %old = atomicrmw xchg ptr %busy, i32 1 acquire
  %mine = icmp eq i32 %old, 0
  br i1 %mine, label %enter, label %alone
alone:
  call void %f(i64 0, i64 %total, i64 0, ptr %a)
  ret void
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
  %size = load i64, ptr %a
  %one = icmp eq i64 %size, 1
  %turned = sub i64 0, %group
  %programs = and i64 %turned, 4294967295
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
  call void @pool_share(ptr %p, ptr %f, ptr %a, i64 %total, i64 %large, i64 %threads)
  store atomic i32 0, ptr %busy release, align 4
  ret void
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
  br label %rest
end:
  ret void
}
