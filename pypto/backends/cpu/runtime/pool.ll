; Made from pool.c by clang 22: `python -m tests.house.compiled`.
; sha256 4fd4006410aa0c4489f12ac13157d96a446b7751df9da8bf88601f7a550fb219
%struct.control = type { i64, i64, i32 }
%struct.worker = type { ptr, i64 }

@pool_spins = external constant i64, align 8
@pool_futex = external constant i64, align 8
@pool_quick = external constant i64, align 8
@pool_slow = external constant i64, align 8
@pool_interval = external constant i64, align 8
@pool_parts = external constant i64, align 8

define i64 @pool_nanoseconds() nounwind {
entry:
  %time = alloca [2 x i64], align 16
  %call = call i32 @clock_gettime(i32 1, ptr %time)
  %0 = load i64, ptr %time, align 16
  %mul = mul i64 %0, 1000000000
  %arrayidx1 = getelementptr inbounds nuw i8, ptr %time, i64 8
  %1 = load i64, ptr %arrayidx1, align 8
  %add = add i64 %mul, %1
  ret i64 %add
}

declare i32 @clock_gettime(i32, ptr)

define noalias ptr @pool_worker(ptr %argument) nounwind {
entry:
  %0 = load ptr, ptr %argument, align 8
  %thread2 = getelementptr inbounds nuw i8, ptr %argument, i64 8
  %1 = load i64, ptr %thread2, align 8
  %2 = load i64, ptr @pool_spins, align 8
  %cmp340 = icmp sgt i64 %2, 0
  %sleepers = getelementptr inbounds nuw i8, ptr %0, i64 64
  %3 = load i64, ptr @pool_futex, align 8
  %inside = getelementptr inbounds nuw i8, ptr %0, i64 136
  %threads = getelementptr inbounds nuw i8, ptr %0, i64 40
  br label %for.cond

for.cond:
  %seen.0 = phi i32 [ 0, %entry ], [ %now.0, %if.end18 ]
  %4 = load atomic i32, ptr %0 acquire, align 64
  %cmp39 = icmp eq i32 %4, %seen.0
  %or.cond41 = select i1 %cmp39, i1 %cmp340, i1 false
  br i1 %or.cond41, label %while.body, label %while.end

while.body:
  %spins.042 = phi i64 [ %inc, %while.body ], [ 0, %for.cond ]
  %inc = add nuw nsw i64 %spins.042, 1
  tail call void @pool_pause()
  %5 = load atomic i32, ptr %0 acquire, align 64
  %cmp = icmp eq i32 %5, %seen.0
  %cmp3 = icmp slt i64 %inc, %2
  %or.cond = select i1 %cmp, i1 %cmp3, i1 false
  br i1 %or.cond, label %while.body, label %while.end

while.end:
  %.lcssa = phi i32 [ %4, %for.cond ], [ %5, %while.body ]
  %cmp.lcssa = phi i1 [ %cmp39, %for.cond ], [ %cmp, %while.body ]
  br i1 %cmp.lcssa, label %if.then, label %if.end

if.then:
  %6 = atomicrmw add ptr %sleepers, i32 1 seq_cst, align 64
  br label %do.body

do.body:
  %call = tail call i64 (i64, ...) @syscall(i64 %3, ptr %0, i32 128, i32 %seen.0, ptr null, ptr null, i32 0)
  %7 = load atomic i32, ptr %0 seq_cst, align 64
  %cmp9 = icmp eq i32 %7, %seen.0
  br i1 %cmp9, label %do.body, label %do.end

do.end:
  %8 = atomicrmw sub ptr %sleepers, i32 1 seq_cst, align 64
  br label %if.end

if.end:
  %now.0 = phi i32 [ %7, %do.end ], [ %.lcssa, %while.end ]
  %9 = atomicrmw add ptr %inside, i32 1 acq_rel, align 8
  %cmp15 = icmp sgt i32 %9, -1
  br i1 %cmp15, label %land.lhs.true, label %if.end18

land.lhs.true:
  %10 = load i64, ptr %threads, align 8
  %cmp16 = icmp slt i64 %1, %10
  br i1 %cmp16, label %if.then17, label %if.end18

if.then17:
  tail call fastcc void @work(ptr %0, i64 %1)
  br label %if.end18

if.end18:
  %11 = atomicrmw sub ptr %inside, i32 1 acq_rel, align 8
  br label %for.cond
}

declare void @pool_pause()

declare i64 @syscall(i64, ...)

define internal fastcc void @work(ptr %pool, i64 %thread) nounwind {
entry:
  %is_polled1 = getelementptr inbounds nuw i8, ptr %pool, i64 4
  %0 = load i32, ptr %is_polled1, align 4
  %tobool.not = icmp eq i32 %0, 0
  %and = and i64 %thread, 1
  %tobool2.not = icmp eq i64 %and, 0
  %body = getelementptr inbounds nuw i8, ptr %pool, i64 8
  %1 = load ptr, ptr %body, align 8
  %block4 = getelementptr inbounds nuw i8, ptr %pool, i64 16
  %2 = load ptr, ptr %block4, align 16
  %programs5 = getelementptr inbounds nuw i8, ptr %pool, i64 24
  %3 = load i64, ptr %programs5, align 8
  %total6 = getelementptr inbounds nuw i8, ptr %pool, i64 56
  %4 = load i64, ptr %total6, align 8
  %chunk7 = getelementptr inbounds nuw i8, ptr %pool, i64 32
  %5 = load i64, ptr %chunk7, align 32
  %small8 = getelementptr inbounds nuw i8, ptr %pool, i64 48
  %6 = load i64, ptr %small8, align 16
  %div122 = lshr i64 %4, 2
  %sub = sub i64 %4, %div122
  %div9 = udiv i64 %sub, %5
  %div10123 = lshr i64 %div9, 1
  %mul = mul i64 %div10123, %5
  %sub11 = sub i64 %4, %mul
  %mul12 = and i64 %div9, -2
  %7 = xor i64 %mul, -1
  %add = add i64 %6, %7
  %sub14 = add i64 %add, %sub11
  %div15 = udiv i64 %sub14, %6
  %add16 = add i64 %mul12, %div15
  %tickets = getelementptr inbounds nuw i8, ptr %pool, i64 128
  %cond = select i1 %tobool2.not, i64 1, i64 4294967296
  %8 = atomicrmw add ptr %tickets, i64 %cond monotonic, align 64
  %and17131 = and i64 %8, 4294967295
  %shr132 = lshr i64 %8, 32
  %add18133 = add nuw nsw i64 %and17131, %shr132
  %cmp.not134 = icmp ult i64 %add18133, %add16
  br i1 %cmp.not134, label %if.end.lr.ph, label %cleanup61.critedge

if.end.lr.ph:
  %control = getelementptr inbounds nuw i8, ptr %pool, i64 216
  br label %if.end

if.end:
  %shr136 = phi i64 [ %shr132, %if.end.lr.ph ], [ %shr, %if.end54 ]
  %and17135 = phi i64 [ %and17131, %if.end.lr.ph ], [ %and17, %if.end54 ]
  %9 = xor i64 %shr136, -1
  %sub21 = add i64 %add16, %9
  %cond22 = select i1 %tobool2.not, i64 %and17135, i64 %sub21
  %sub23 = sub i64 %add16, %cond22
  %cmp24 = icmp ult i64 %cond22, %div10123
  br i1 %cmp24, label %cond.end38.thread, label %cond.false27

cond.end38.thread:
  %mul26 = mul i64 %cond22, %5
  br label %cond.true42

cond.false27:
  %cmp28.not = icmp ugt i64 %sub23, %div10123
  br i1 %cmp28.not, label %cond.false44, label %cond.end38

cond.end38:
  %mul30 = mul i64 %sub23, %5
  %sub31 = sub i64 %4, %mul30
  br label %cond.true42

cond.true42:
  %cond39130 = phi i64 [ %mul26, %cond.end38.thread ], [ %sub31, %cond.end38 ]
  %add43 = add i64 %cond39130, %5
  br label %cond.end46

cond.false44:
  %sub33 = sub i64 %cond22, %div10123
  %mul34 = mul i64 %sub33, %6
  %add35 = add i64 %mul34, %mul
  %add45 = add i64 %add35, %6
  %cond.i124 = tail call i64 @llvm.umin.i64(i64 %add45, i64 %sub11)
  br label %cond.end46

cond.end46:
  %cond39129 = phi i64 [ %cond39130, %cond.true42 ], [ %add35, %cond.false44 ]
  %cond47 = phi i64 [ %add43, %cond.true42 ], [ %cond.i124, %cond.false44 ]
  %cond.i = tail call i64 @llvm.umin.i64(i64 %cond47, i64 %3)
  br i1 %tobool.not, label %if.then50, label %if.else

if.then50:
  tail call void %1(i64 %cond39129, i64 %cond.i, i64 %thread, ptr %2)
  br label %if.end54

if.else:
  %call51 = tail call fastcc i1 @stretch(ptr %control, ptr %1, ptr %2, i64 %cond39129, i64 %cond.i, i64 %thread, i1 false)
  br i1 %call51, label %cleanup61.critedge, label %if.end54

if.end54:
  %10 = atomicrmw add ptr %tickets, i64 %cond monotonic, align 64
  %and17 = and i64 %10, 4294967295
  %shr = lshr i64 %10, 32
  %add18 = add nuw nsw i64 %and17, %shr
  %cmp.not = icmp ult i64 %add18, %add16
  br i1 %cmp.not, label %if.end, label %cleanup61.critedge

cleanup61.critedge:
  ret void
}

define i32 @pool_run(ptr %pool, ptr %run, ptr %block, i64 %total, i64 %threads, i64 %least, i64 %group, i64 %is_polled) nounwind {
entry:
  %id.i = alloca i64, align 8
  %control = alloca %struct.control, align 8
  %cmp = icmp ult i64 %threads, 2
  br i1 %cmp, label %if.then, label %lor.lhs.false

lor.lhs.false:
  %is_used = getelementptr inbounds nuw i8, ptr %pool, i64 192
  %0 = atomicrmw xchg ptr %is_used, i32 1 acquire, align 64
  %tobool.not = icmp eq i32 %0, 0
  br i1 %tobool.not, label %if.end3, label %if.then

if.then:
  %tobool1.not = icmp eq i64 %is_polled, 0
  br i1 %tobool1.not, label %if.end, label %if.then2

if.then2:
  store i64 0, ptr %control, align 8
  %cond.i63 = tail call i64 @llvm.smax.i64(i64 %group, i64 1)
  %unit.i = getelementptr inbounds nuw i8, ptr %control, i64 8
  store i64 %cond.i63, ptr %unit.i, align 8
  %is_stopped.i = getelementptr inbounds nuw i8, ptr %control, i64 16
  store atomic i32 0, ptr %is_stopped.i monotonic, align 8
  %call = call fastcc i1 @stretch(ptr %control, ptr %run, ptr %block, i64 0, i64 %total, i64 0, i1 true)
  %conv = zext i1 %call to i32
  br label %return

if.end:
  tail call void %run(i64 0, i64 %total, i64 0, ptr %block)
  br label %return

if.end3:
  %is_started = getelementptr inbounds nuw i8, ptr %pool, i64 196
  %1 = load i32, ptr %is_started, align 4
  %tobool4.not = icmp eq i32 %1, 0
  br i1 %tobool4.not, label %if.then5, label %if.end6

if.then5:
  store i32 1, ptr %is_started, align 4
  %workers.i = getelementptr inbounds nuw i8, ptr %pool, i64 200
  %count.i = getelementptr inbounds nuw i8, ptr %pool, i64 208
  %2 = load i64, ptr %count.i, align 16
  %cmp14.i = icmp sgt i64 %2, 0
  br i1 %cmp14.i, label %for.body.i, label %start.exit

for.body.i:
  %n.015.i = phi i64 [ %add.i65, %if.end.i67 ], [ 0, %if.then5 ]
  %3 = load ptr, ptr %workers.i, align 8
  %arrayidx.i64 = getelementptr inbounds nuw %struct.worker, ptr %3, i64 %n.015.i
  %add.i65 = add nuw nsw i64 %n.015.i, 1
  store ptr %pool, ptr %arrayidx.i64, align 8
  %.compoundliteral.sroa.2.0.arrayidx.sroa_idx.i = getelementptr inbounds nuw i8, ptr %arrayidx.i64, i64 8
  store i64 %add.i65, ptr %.compoundliteral.sroa.2.0.arrayidx.sroa_idx.i, align 8
  %4 = load ptr, ptr %workers.i, align 8
  %add.ptr.i = getelementptr inbounds nuw %struct.worker, ptr %4, i64 %n.015.i
  %call.i = call i32 @pthread_create(ptr %id.i, ptr null, ptr @pool_worker, ptr %add.ptr.i)
  %tobool.not.i66 = icmp eq i32 %call.i, 0
  br i1 %tobool.not.i66, label %if.end.i67, label %start.exit

if.end.i67:
  %5 = load i64, ptr %id.i, align 8
  %call3.i = call i32 @pthread_detach(i64 %5)
  %6 = load i64, ptr %count.i, align 16
  %cmp.i68 = icmp slt i64 %add.i65, %6
  br i1 %cmp.i68, label %for.body.i, label %start.exit

start.exit:
  br label %if.end6

if.end6:
  %conv7 = trunc i64 %is_polled to i32
  %is_polled8 = getelementptr inbounds nuw i8, ptr %pool, i64 4
  store i32 %conv7, ptr %is_polled8, align 4
  %body = getelementptr inbounds nuw i8, ptr %pool, i64 8
  store ptr %run, ptr %body, align 8
  %block9 = getelementptr inbounds nuw i8, ptr %pool, i64 16
  store ptr %block, ptr %block9, align 16
  %programs = getelementptr inbounds nuw i8, ptr %pool, i64 24
  store i64 %total, ptr %programs, align 8
  %threads10 = getelementptr inbounds nuw i8, ptr %pool, i64 40
  store i64 %threads, ptr %threads10, align 8
  %cmp.i = icmp eq i64 %group, 1
  br i1 %cmp.i, label %if.then.i, label %if.end.i

if.then.i:
  %7 = load i64, ptr @pool_parts, align 8
  %mul.i = mul i64 %7, %threads
  %div.i = udiv i64 %total, %mul.i
  %cond.i54 = call i64 @llvm.umax.i64(i64 %div.i, i64 1)
  %chunk.i = getelementptr inbounds nuw i8, ptr %pool, i64 32
  store i64 %cond.i54, ptr %chunk.i, align 32
  %div253.i = lshr i64 %cond.i54, 2
  %cond.i53 = call i64 @llvm.umax.i64(i64 %div253.i, i64 %least)
  %cond.i = call i64 @llvm.umin.i64(i64 %cond.i53, i64 %cond.i54)
  %small.i = getelementptr inbounds nuw i8, ptr %pool, i64 48
  store i64 %cond.i, ptr %small.i, align 16
  br label %cut.exit

if.end.i:
  %cmp.i57 = icmp sgt i64 %group, 1
  br i1 %cmp.i57, label %group_size.exit, label %if.end.i58

if.end.i58:
  %sub.i59 = sub i64 0, %group
  %shr.i60 = lshr i64 %sub.i59, 32
  %shr1.i = lshr i64 %sub.i59, 30
  %and2.i = and i64 %shr1.i, 3
  %arrayidx.i = getelementptr inbounds nuw i64, ptr %block, i64 %and2.i
  %8 = load i64, ptr %arrayidx.i, align 8
  %cmp3.i = icmp eq i64 %8, 1
  %and.i = and i64 %sub.i59, 1073741823
  %cond.i.i = call i64 @llvm.umax.i64(i64 %and.i, i64 1)
  %cond.i61 = select i1 %cmp3.i, i64 %cond.i.i, i64 %8
  %tobool.not.i = icmp eq i64 %shr.i60, 0
  br i1 %tobool.not.i, label %cond.false8.i, label %land.lhs.true.i

land.lhs.true.i:
  %mul.i62 = mul i64 %cond.i61, %shr.i60
  %mul4.i = mul i64 %mul.i62, %threads
  %cmp5.not.i = icmp ult i64 %total, %mul4.i
  br i1 %cmp5.not.i, label %cond.false8.i, label %group_size.exit

cond.false8.i:
  br label %group_size.exit

group_size.exit:
  %retval.0.i = phi i64 [ %group, %if.end.i ], [ %cond.i61, %cond.false8.i ], [ %mul.i62, %land.lhs.true.i ]
  %9 = freeze i64 %retval.0.i
  %div7.i = udiv i64 %total, %9
  %div8.i = udiv i64 %div7.i, %threads
  %cmp9.i = icmp ugt i64 %div8.i, 3
  br i1 %cmp9.i, label %if.then12.i, label %lor.lhs.false.i

lor.lhs.false.i:
  %mul10.i = mul i64 %9, %threads
  %rem.i = urem i64 %total, %mul10.i
  %cmp11.i = icmp eq i64 %rem.i, 0
  br i1 %cmp11.i, label %if.then12.i, label %if.end19.i

if.then12.i:
  %10 = load i64, ptr @pool_parts, align 8
  %div13.i = udiv i64 %div8.i, %10
  %cond.i55 = call i64 @llvm.umax.i64(i64 %div13.i, i64 1)
  %mul15.i = mul i64 %cond.i55, %9
  %chunk16.i = getelementptr inbounds nuw i8, ptr %pool, i64 32
  store i64 %mul15.i, ptr %chunk16.i, align 32
  %shr.i = lshr i64 %div7.i, 30
  %add.i = add nuw nsw i64 %shr.i, 1
  %mul17.i = mul i64 %add.i, %9
  %small18.i = getelementptr inbounds nuw i8, ptr %pool, i64 48
  store i64 %mul17.i, ptr %small18.i, align 16
  br label %cut.exit

if.end19.i:
  %cond.i56 = call i64 @llvm.umax.i64(i64 %div8.i, i64 1)
  %mul21.i = mul i64 %cond.i56, %threads
  %add22.i = add i64 %total, -1
  %sub.i = add i64 %add22.i, %mul21.i
  %div23.i = udiv i64 %sub.i, %mul21.i
  %small24.i = getelementptr inbounds nuw i8, ptr %pool, i64 48
  store i64 %div23.i, ptr %small24.i, align 16
  %chunk25.i = getelementptr inbounds nuw i8, ptr %pool, i64 32
  store i64 %div23.i, ptr %chunk25.i, align 32
  br label %cut.exit

cut.exit:
  %retval.1.i = phi i64 [ 1, %if.then.i ], [ %9, %if.then12.i ], [ 1, %if.end19.i ]
  %add = add i64 %total, -1
  %sub = add i64 %add, %retval.1.i
  %11 = urem i64 %sub, %retval.1.i
  %mul = sub nuw i64 %sub, %11
  %total12 = getelementptr inbounds nuw i8, ptr %pool, i64 56
  store i64 %mul, ptr %total12, align 8
  %tobool13.not = icmp eq i64 %is_polled, 0
  br i1 %tobool13.not, label %cond.end.critedge, label %if.then14

if.then14:
  %control15 = getelementptr inbounds nuw i8, ptr %pool, i64 216
  store i64 0, ptr %control15, align 8
  %cond.i69 = call i64 @llvm.smax.i64(i64 %retval.1.i, i64 1)
  %unit.i70 = getelementptr inbounds nuw i8, ptr %pool, i64 224
  store i64 %cond.i69, ptr %unit.i70, align 8
  %is_stopped.i71 = getelementptr inbounds nuw i8, ptr %pool, i64 232
  store atomic i32 0, ptr %is_stopped.i71 monotonic, align 8
  call fastcc void @share(ptr %pool)
  %12 = load atomic i32, ptr %is_stopped.i71 monotonic, align 8
  br label %cond.end

cond.end.critedge:
  call fastcc void @share(ptr %pool)
  br label %cond.end

cond.end:
  %cond = phi i32 [ %12, %if.then14 ], [ 0, %cond.end.critedge ]
  store atomic i32 0, ptr %is_used release, align 64
  br label %return

return:
  %retval.0 = phi i32 [ %conv, %if.then2 ], [ 0, %if.end ], [ %cond, %cond.end ]
  ret i32 %retval.0
}

define internal fastcc i1 @stretch(ptr %control, ptr %run, ptr %block, i64 %first, i64 %last, i64 %thread, i1 %is_alone) nounwind {
entry:
  %call = tail call i64 @pool_now()
  %is_stopped = getelementptr inbounds nuw i8, ptr %control, i64 16
  %0 = load atomic i32, ptr %is_stopped monotonic, align 8
  %tobool.not49 = icmp eq i32 %0, 0
  br i1 %tobool.not49, label %while.body.lr.ph, label %cleanup21

while.body.lr.ph:
  %unit = getelementptr inbounds nuw i8, ptr %control, i64 8
  %tobool3.not = icmp eq i64 %thread, 0
  %1 = load i64, ptr @pool_interval, align 8
  %2 = load i64, ptr @pool_quick, align 8
  %3 = load i64, ptr @pool_slow, align 8
  br label %while.body

while.body:
  %first.addr.052 = phi i64 [ %first, %while.body.lr.ph ], [ %cond.i, %cleanup20 ]
  %count.051 = phi i64 [ 1, %while.body.lr.ph ], [ %count.3, %cleanup20 ]
  %before.050 = phi i64 [ %call, %while.body.lr.ph ], [ %call2, %cleanup20 ]
  %4 = load i64, ptr %unit, align 8
  %mul = mul i64 %4, %count.051
  %add = add i64 %mul, %first.addr.052
  %cond.i = tail call i64 @llvm.umin.i64(i64 %add, i64 %last)
  tail call void %run(i64 %first.addr.052, i64 %cond.i, i64 %thread, ptr %block)
  %cmp = icmp uge i64 %add, %last
  %or.cond = and i1 %is_alone, %cmp
  br i1 %or.cond, label %cleanup21, label %if.end

if.end:
  %call2 = tail call i64 @pool_now()
  br i1 %tobool3.not, label %land.lhs.true4, label %if.end7

land.lhs.true4:
  %5 = load atomic i32, ptr %is_stopped monotonic, align 8
  %tobool.i = icmp ne i32 %5, 0
  %6 = load i64, ptr %control, align 8
  %tobool2.not.i = icmp eq i64 %6, 0
  br i1 %tobool2.not.i, label %if.then.i, label %if.end.i

if.then.i:
  %add.i = add i64 %1, %call2
  store i64 %add.i, ptr %control, align 8
  %brmerge45 = or i1 %cmp, %tobool.i
  br i1 %brmerge45, label %cleanup21, label %if.end10

if.end.i:
  %cmp.i = icmp slt i64 %call2, %6
  %or.cond.i = or i1 %tobool.i, %cmp.i
  br i1 %or.cond.i, label %ask.exit, label %if.end8.i

if.end8.i:
  %call.i = tail call i32 @PyGILState_Ensure()
  %call9.i = tail call i32 @PyErr_CheckSignals()
  %tobool10.i = icmp ne i32 %call9.i, 0
  tail call void @PyGILState_Release(i32 %call.i)
  %call12.i = tail call i64 @pool_now()
  %add13.i = add i64 %1, %call12.i
  store i64 %add13.i, ptr %control, align 8
  %conv.i = zext i1 %tobool10.i to i32
  store atomic i32 %conv.i, ptr %is_stopped monotonic, align 8
  %brmerge = or i1 %cmp, %tobool10.i
  br i1 %brmerge, label %cleanup21, label %if.end10

ask.exit:
  %brmerge47 = or i1 %cmp, %tobool.i
  br i1 %brmerge47, label %cleanup21, label %if.end10

if.end7:
  br i1 %cmp, label %cleanup21, label %if.end10

if.end10:
  %sub = sub i64 %call2, %before.050
  %cmp11 = icmp slt i64 %sub, %2
  br i1 %cmp11, label %if.then12, label %if.else

if.then12:
  %mul13 = shl i64 %count.051, 3
  br label %cleanup20

if.else:
  %cmp15 = icmp sgt i64 %sub, %3
  br i1 %cmp15, label %if.then16, label %cleanup20

if.then16:
  %div38 = lshr i64 %count.051, 3
  %cond.i39 = tail call i64 @llvm.umax.i64(i64 %div38, i64 1)
  br label %cleanup20

cleanup20:
  %count.3 = phi i64 [ %mul13, %if.then12 ], [ %cond.i39, %if.then16 ], [ %count.051, %if.else ]
  %7 = load atomic i32, ptr %is_stopped monotonic, align 8
  %tobool.not = icmp eq i32 %7, 0
  br i1 %tobool.not, label %while.body, label %cleanup21

cleanup21:
  %retval.3 = phi i1 [ true, %entry ], [ false, %while.body ], [ %tobool.i, %if.then.i ], [ %tobool.i, %ask.exit ], [ %tobool10.i, %if.end8.i ], [ false, %if.end7 ], [ true, %cleanup20 ]
  ret i1 %retval.3
}

define internal fastcc void @share(ptr %pool) nounwind {
entry:
  %tickets = getelementptr inbounds nuw i8, ptr %pool, i64 128
  store atomic i64 0, ptr %tickets monotonic, align 64
  %inside = getelementptr inbounds nuw i8, ptr %pool, i64 136
  %0 = atomicrmw and ptr %inside, i32 2147483647 seq_cst, align 8
  %1 = atomicrmw add ptr %pool, i32 1 seq_cst, align 64
  %sleepers = getelementptr inbounds nuw i8, ptr %pool, i64 64
  %2 = load atomic i32, ptr %sleepers seq_cst, align 64
  %cmp = icmp sgt i32 %2, 0
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %3 = load i64, ptr @pool_futex, align 8
  %call = tail call i64 (i64, ...) @syscall(i64 %3, ptr %pool, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  br label %if.end

if.end:
  tail call fastcc void @work(ptr %pool, i64 0)
  %4 = atomicrmw or ptr %inside, i32 -2147483648 seq_cst, align 8
  %5 = load atomic i32, ptr %inside acquire, align 8
  %and25 = and i32 %5, 2147483647
  %tobool.not26 = icmp eq i32 %and25, 0
  br i1 %tobool.not26, label %while.end, label %while.body.lr.ph

while.body.lr.ph:
  %is_polled = getelementptr inbounds nuw i8, ptr %pool, i64 4
  %control = getelementptr inbounds nuw i8, ptr %pool, i64 216
  %is_stopped1.i = getelementptr inbounds nuw i8, ptr %pool, i64 232
  %6 = load i64, ptr @pool_interval, align 8
  br label %while.body

while.body:
  tail call void @pool_pause()
  %7 = load i32, ptr %is_polled, align 4
  %tobool11.not = icmp eq i32 %7, 0
  br i1 %tobool11.not, label %if.end15, label %if.then12

if.then12:
  %call13 = tail call i64 @pool_now()
  %8 = load atomic i32, ptr %is_stopped1.i monotonic, align 8
  %9 = load i64, ptr %control, align 8
  %tobool2.not.i = icmp eq i64 %9, 0
  br i1 %tobool2.not.i, label %if.then.i, label %if.end.i

if.then.i:
  %add.i = add i64 %6, %call13
  store i64 %add.i, ptr %control, align 8
  br label %if.end15

if.end.i:
  %tobool.i = icmp ne i32 %8, 0
  %cmp.i = icmp slt i64 %call13, %9
  %or.cond.i = or i1 %tobool.i, %cmp.i
  br i1 %or.cond.i, label %if.end15, label %if.end8.i

if.end8.i:
  %call.i = tail call i32 @PyGILState_Ensure()
  %call9.i = tail call i32 @PyErr_CheckSignals()
  %tobool10.i = icmp ne i32 %call9.i, 0
  tail call void @PyGILState_Release(i32 %call.i)
  %call12.i = tail call i64 @pool_now()
  %add13.i = add i64 %6, %call12.i
  store i64 %add13.i, ptr %control, align 8
  %conv.i = zext i1 %tobool10.i to i32
  store atomic i32 %conv.i, ptr %is_stopped1.i monotonic, align 8
  br label %if.end15

if.end15:
  %10 = load atomic i32, ptr %inside acquire, align 8
  %and = and i32 %10, 2147483647
  %tobool.not = icmp eq i32 %and, 0
  br i1 %tobool.not, label %while.end, label %while.body

while.end:
  ret void
}

define i32 @pool_locked(ptr %pool, ptr %run, ptr %block, i64 %total, i64 %threads, i64 %least, i64 %group, i64 %is_polled) nounwind {
entry:
  %call = tail call ptr @PyEval_SaveThread()
  %call1 = tail call i32 @pool_run(ptr %pool, ptr %run, ptr %block, i64 %total, i64 %threads, i64 %least, i64 %group, i64 %is_polled)
  tail call void @PyEval_RestoreThread(ptr %call)
  ret i32 %call1
}

declare ptr @PyEval_SaveThread()

declare void @PyEval_RestoreThread(ptr)

declare i64 @pool_now()

declare i32 @PyGILState_Ensure()

declare i32 @PyErr_CheckSignals()

declare void @PyGILState_Release(i32)

declare i32 @pthread_create(ptr, ptr, ptr, ptr)

declare i32 @pthread_detach(i64)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.umin.i64(i64, i64)

declare i64 @llvm.umax.i64(i64, i64)
