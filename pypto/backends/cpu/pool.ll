; The thread pool. Each launch is a generation: workers wait for the next one, by spinning first and then on a futex,
; and take chunks of programs from a common counter. pool.py fills in what depends on the machine (in angle brackets).
;
; %pool, one cache line each: 0 generation (futex word), 1 sleepers, 2 next program, 3 workers inside (the sign bit:
; closed), 4 the job: kernel, arguments, programs, chunk, threads.
%pool = type { i32, [60 x i8], i32, [60 x i8], i64, [56 x i8], i32, [60 x i8], ptr, ptr, i64, i64, i64 }
%worker = type { ptr, i64 }
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @syscall(i64, ...)
declare void <declared>

define internal void @work(ptr %p, i64 %thread) {
entry:
  %fp = getelementptr %pool, ptr %p, i32 0, i32 8
  %f = load ptr, ptr %fp
  %ap = getelementptr %pool, ptr %p, i32 0, i32 9
  %a = load ptr, ptr %ap
  %tp = getelementptr %pool, ptr %p, i32 0, i32 10
  %total = load i64, ptr %tp
  %cp = getelementptr %pool, ptr %p, i32 0, i32 11
  %chunk = load i64, ptr %cp
  %np = getelementptr %pool, ptr %p, i32 0, i32 4
  br label %take
take:
  %first = atomicrmw add ptr %np, i64 %chunk monotonic
  %some = icmp slt i64 %first, %total
  br i1 %some, label %run, label %done
run:
  %end = add i64 %first, %chunk
  %fits = icmp slt i64 %end, %total
  %last = select i1 %fits, i64 %end, i64 %total
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
  %sleepers = getelementptr %pool, ptr %p, i32 0, i32 2
  %inside = getelementptr %pool, ptr %p, i32 0, i32 6
  %allowed.p = getelementptr %pool, ptr %p, i32 0, i32 12
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

define i32 @pool_start(ptr %p, ptr %workers, i64 %count) {
entry:
  %id = alloca i64
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %make, label %ok
make:
  %i1 = add i64 %i, 1
  %w = getelementptr %worker, ptr %workers, i64 %i
  store ptr %p, ptr %w
  %ip = getelementptr %worker, ptr %w, i32 0, i32 1
  store i64 %i1, ptr %ip
  %r = call i32 @pthread_create(ptr %id, ptr null, ptr @pool_worker, ptr %w)
  %failed = icmp ne i32 %r, 0
  br i1 %failed, label %bad, label %next
next:
  %t = load i64, ptr %id
  %d = call i32 @pthread_detach(i64 %t)
  br label %head
ok:
  ret i32 0
bad:
  ret i32 %r
}

define void @pool_run(ptr %p, ptr %f, ptr %a, i64 %total, i64 %chunk, i64 %threads) {
entry:
  %fp = getelementptr %pool, ptr %p, i32 0, i32 8
  store ptr %f, ptr %fp
  %ap = getelementptr %pool, ptr %p, i32 0, i32 9
  store ptr %a, ptr %ap
  %tp = getelementptr %pool, ptr %p, i32 0, i32 10
  store i64 %total, ptr %tp
  %cp = getelementptr %pool, ptr %p, i32 0, i32 11
  store i64 %chunk, ptr %cp
  %lp = getelementptr %pool, ptr %p, i32 0, i32 12
  store i64 %threads, ptr %lp
  %np = getelementptr %pool, ptr %p, i32 0, i32 4
  store atomic i64 0, ptr %np monotonic, align 8
  %inside = getelementptr %pool, ptr %p, i32 0, i32 6
  %open = atomicrmw and ptr %inside, i32 2147483647 seq_cst
  %g = atomicrmw add ptr %p, i32 1 seq_cst
  %sp = getelementptr %pool, ptr %p, i32 0, i32 2
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
