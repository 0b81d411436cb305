; Made from bounds.c by clang 22: `python -m tests.house.compiled`.
; sha256 030b8fbe13772adb9937e569f7d12f5abe77bbe5a45ec13635973da27caa7941
%struct.dimension = type { i64, i64, i64, i64 }
%struct.array = type { i64, i64, i64, i64, ptr, ptr, i64, ptr }

define internal i1 @checks_fail(ptr %report, i64 %site, i64 %value, i64 %program, i64 %other) cold noinline nounwind {
entry:
  %0 = cmpxchg ptr %report, i64 0, i64 1 seq_cst seq_cst, align 8
  %1 = extractvalue { i64, i1 } %0, 1
  br i1 %1, label %if.then, label %if.end

if.then:
  %site1 = getelementptr inbounds nuw i8, ptr %report, i64 8
  store i64 %site, ptr %site1, align 8
  %value2 = getelementptr inbounds nuw i8, ptr %report, i64 16
  store i64 %value, ptr %value2, align 8
  %program3 = getelementptr inbounds nuw i8, ptr %report, i64 24
  store i64 %program, ptr %program3, align 8
  %other4 = getelementptr inbounds nuw i8, ptr %report, i64 32
  store i64 %other, ptr %other4, align 8
  br label %if.end

if.end:
  ret i1 true
}

define internal i1 @checks_beyond(ptr %access) cold noinline nounwind {
entry:
  %0 = load ptr, ptr %access, align 8
  %1 = cmpxchg ptr %0, i64 0, i64 1 seq_cst seq_cst, align 8
  %2 = extractvalue { i64, i1 } %1, 1
  br i1 %2, label %if.then, label %if.end

if.then:
  %site = getelementptr inbounds nuw i8, ptr %access, i64 16
  %3 = load i64, ptr %site, align 8
  %site2 = getelementptr inbounds nuw i8, ptr %0, i64 8
  store i64 %3, ptr %site2, align 8
  %program = getelementptr inbounds nuw i8, ptr %access, i64 24
  %4 = load i64, ptr %program, align 8
  %program3 = getelementptr inbounds nuw i8, ptr %0, i64 24
  store i64 %4, ptr %program3, align 8
  %rank = getelementptr inbounds nuw i8, ptr %access, i64 56
  %5 = load i64, ptr %rank, align 8
  %cmp15 = icmp sgt i64 %5, 0
  br i1 %cmp15, label %for.body.lr.ph, label %if.end

for.body.lr.ph:
  %dims = getelementptr inbounds nuw i8, ptr %access, i64 64
  %index = getelementptr inbounds nuw i8, ptr %0, i64 72
  br label %for.body

for.body:
  %d.016 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.body ]
  %arrayidx = getelementptr inbounds nuw %struct.dimension, ptr %dims, i64 %d.016
  %6 = load i64, ptr %arrayidx, align 8
  %arrayidx4 = getelementptr inbounds nuw i64, ptr %index, i64 %d.016
  store i64 %6, ptr %arrayidx4, align 8
  %inc = add nuw nsw i64 %d.016, 1
  %7 = load i64, ptr %rank, align 8
  %cmp = icmp slt i64 %inc, %7
  br i1 %cmp, label %for.body, label %if.end

if.end:
  ret i1 true
}

define internal i1 @checks_blame(ptr %access, i64 %value, i64 %other) cold noinline nounwind {
entry:
  %0 = load ptr, ptr %access, align 8
  %site = getelementptr inbounds nuw i8, ptr %access, i64 16
  %1 = load i64, ptr %site, align 8
  %program = getelementptr inbounds nuw i8, ptr %access, i64 24
  %2 = load i64, ptr %program, align 8
  %call = tail call i1 @checks_fail(ptr %0, i64 %1, i64 %value, i64 %2, i64 %other)
  ret i1 true
}

define internal ptr @checks_find(ptr %report, i64 %address) noinline nounwind {
entry:
  %arrays = getelementptr inbounds nuw i8, ptr %report, i64 192
  %count = getelementptr inbounds nuw i8, ptr %report, i64 40
  %0 = load i64, ptr %count, align 8
  %cmp15 = icmp sgt i64 %0, 0
  br i1 %cmp15, label %for.body, label %cleanup

for.cond:
  %inc = add nuw nsw i64 %k.016, 1
  %exitcond.not = icmp eq i64 %inc, %0
  br i1 %exitcond.not, label %cleanup, label %for.body

for.body:
  %k.016 = phi i64 [ %inc, %for.cond ], [ 0, %entry ]
  %arrayidx = getelementptr inbounds nuw %struct.array, ptr %arrays, i64 %k.016
  %1 = load i64, ptr %arrayidx, align 8
  %sub = sub i64 %address, %1
  %size = getelementptr inbounds nuw i8, ptr %arrayidx, i64 16
  %2 = load i64, ptr %size, align 8
  %cmp3 = icmp ult i64 %sub, %2
  br i1 %cmp3, label %cleanup, label %for.cond

cleanup:
  %3 = phi ptr [ null, %entry ], [ null, %for.cond ], [ %arrayidx, %for.body ]
  ret ptr %3
}

define internal ptr @checks_lock(ptr %access, i64 %element) noinline nounwind {
entry:
  %0 = load ptr, ptr %access, align 8
  %locks = getelementptr inbounds nuw i8, ptr %0, i64 48
  %1 = load ptr, ptr %locks, align 8
  %2 = lshr i64 %element, 9
  %mul = and i64 %2, 504
  %add.ptr = getelementptr inbounds nuw i64, ptr %1, i64 %mul
  %shared = getelementptr inbounds nuw i8, ptr %0, i64 64
  %3 = load i64, ptr %shared, align 8
  %tobool.not = icmp eq i64 %3, 0
  br i1 %tobool.not, label %if.end, label %while.cond.preheader

while.cond.preheader:
  %4 = atomicrmw xchg ptr %add.ptr, i64 1 acquire, align 8
  %tobool2.not11 = icmp eq i64 %4, 0
  br i1 %tobool2.not11, label %if.end, label %while.cond3

while.cond3:
  %5 = load atomic i64, ptr %add.ptr monotonic, align 8
  %tobool5.not = icmp eq i64 %5, 0
  br i1 %tobool5.not, label %while.end, label %while.cond3.backedge

while.cond3.backedge:
  br label %while.cond3

while.end:
  %6 = atomicrmw xchg ptr %add.ptr, i64 1 acquire, align 8
  %tobool2.not = icmp eq i64 %6, 0
  br i1 %tobool2.not, label %if.end, label %while.cond3.backedge

if.end:
  ret ptr %add.ptr
}

define internal i64 @checks_note(ptr %owners, i64 %count, i32 %before, i32 %mine, i1 %asks) noinline nounwind {
entry:
  %cmp.not58 = icmp slt i64 %count, 16
  br i1 %cmp.not58, label %for.end, label %for.body.lr.ph

for.body.lr.ph:
  %splat.splatinsert = insertelement <16 x i32> poison, i32 %before, i64 0
  %splat.splat = shufflevector <16 x i32> %splat.splatinsert, <16 x i32> poison, <16 x i32> zeroinitializer
  %splat.splatinsert2 = insertelement <16 x i32> poison, i32 %mine, i64 0
  %splat.splat3 = shufflevector <16 x i32> %splat.splatinsert2, <16 x i32> poison, <16 x i32> zeroinitializer
  br label %for.body

for.body:
  %add60 = phi i64 [ 16, %for.body.lr.ph ], [ %add, %cleanup ]
  %n.059 = phi i64 [ 0, %for.body.lr.ph ], [ %add60, %cleanup ]
  %add.ptr = getelementptr inbounds i32, ptr %owners, i64 %n.059
  %0 = load <16 x i32>, ptr %add.ptr, align 4
  %cmp1 = icmp ugt <16 x i32> %0, %splat.splat
  %cmp4 = icmp ne <16 x i32> %0, %splat.splat3
  %and55 = and <16 x i1> %cmp1, %cmp4
  %1 = bitcast <16 x i1> %and55 to i16
  %2 = icmp ne i16 %1, 0
  %and1056 = and i1 %asks, %2
  br i1 %and1056, label %for.end, label %cleanup

cleanup:
  store <16 x i32> %splat.splat3, ptr %add.ptr, align 4
  %add = add i64 %add60, 16
  %cmp.not = icmp sgt i64 %add, %count
  br i1 %cmp.not, label %for.end, label %for.body

for.end:
  %n.0.lcssa = phi i64 [ 0, %entry ], [ %n.059, %for.body ], [ %add60, %cleanup ]
  %cmp1862 = icmp slt i64 %n.0.lcssa, %count
  br i1 %cmp1862, label %for.body20, label %for.end33

for.body20:
  %n.163 = phi i64 [ %inc, %if.end30 ], [ %n.0.lcssa, %for.end ]
  br i1 %asks, label %land.lhs.true, label %if.end30

land.lhs.true:
  %arrayidx = getelementptr inbounds i32, ptr %owners, i64 %n.163
  %3 = load i32, ptr %arrayidx, align 4
  %cmp23 = icmp ule i32 %3, %before
  %cmp27.not = icmp eq i32 %3, %mine
  %or.cond = or i1 %cmp23, %cmp27.not
  br i1 %or.cond, label %if.end30, label %for.end33

if.end30:
  %arrayidx31 = getelementptr inbounds i32, ptr %owners, i64 %n.163
  store i32 %mine, ptr %arrayidx31, align 4
  %inc = add i64 %n.163, 1
  %exitcond.not = icmp eq i64 %inc, %count
  br i1 %exitcond.not, label %for.end33, label %for.body20

for.end33:
  %n.1.lcssa = phi i64 [ %n.0.lcssa, %for.end ], [ %n.163, %land.lhs.true ], [ %count, %if.end30 ]
  ret i64 %n.1.lcssa
}

define internal i64 @checks_note_blocks(ptr %array, i64 %from, i64 %stop, i32 %before, i32 %mine, i32 %single, i1 %asks) noinline nounwind {
entry:
  %cmp82 = icmp slt i64 %from, %stop
  br i1 %cmp82, label %for.body.lr.ph, label %for.cond._crit_edge

for.body.lr.ph:
  %blocks = getelementptr inbounds nuw i8, ptr %array, i64 56
  %owners = getelementptr inbounds nuw i8, ptr %array, i64 40
  br label %for.body

for.body:
  %e.083 = phi i64 [ %from, %for.body.lr.ph ], [ %cond, %for.inc ]
  %or = or i64 %e.083, 63
  %add = add i64 %or, 1
  %cond = tail call i64 @llvm.smin.i64(i64 %add, i64 %stop)
  %0 = load ptr, ptr %blocks, align 8
  %shr = lshr i64 %e.083, 6
  %add.ptr = getelementptr inbounds nuw i32, ptr %0, i64 %shr
  %1 = load i32, ptr %add.ptr, align 4
  %cmp4 = icmp eq i32 %1, %mine
  br i1 %cmp4, label %for.inc, label %if.end

if.end:
  %cmp5 = icmp ule i32 %1, %before
  %cmp6.not = icmp eq i32 %1, %single
  %or.cond = or i1 %cmp5, %cmp6.not
  br i1 %or.cond, label %if.end10, label %if.then7

if.then7:
  br i1 %asks, label %cleanup32.thread, label %for.inc

if.end10:
  %cmp11.not = icmp ugt i32 %1, %before
  %.pre = sub i64 %cond, %e.083
  br i1 %cmp11.not, label %if.end22, label %if.then12

if.then12:
  %cmp13 = icmp eq i64 %.pre, 64
  %cond17 = select i1 %cmp13, i32 %mine, i32 %single
  store i32 %cond17, ptr %add.ptr, align 4
  br i1 %cmp13, label %for.inc, label %if.end22

if.end22:
  %2 = load ptr, ptr %owners, align 8
  %add.ptr23 = getelementptr inbounds i32, ptr %2, i64 %e.083
  %call = tail call i64 @checks_note(ptr %add.ptr23, i64 %.pre, i32 %before, i32 %mine, i1 %asks)
  %cmp27.not = icmp eq i64 %call, %.pre
  br i1 %cmp27.not, label %for.inc, label %cleanup32.thread.loopexit.split.loop.exit

for.inc:
  %cmp = icmp slt i64 %add, %stop
  br i1 %cmp, label %for.body, label %for.cond._crit_edge

for.cond._crit_edge:
  %cond39 = tail call i64 @llvm.smax.i64(i64 %from, i64 %stop)
  br label %cleanup32.thread

cleanup32.thread.loopexit.split.loop.exit:
  %add29.le = add i64 %call, %e.083
  br label %cleanup32.thread

cleanup32.thread:
  %3 = phi i64 [ %cond39, %for.cond._crit_edge ], [ %add29.le, %cleanup32.thread.loopexit.split.loop.exit ], [ %e.083, %if.then7 ]
  ret i64 %3
}

define internal i1 @checks_claim(ptr %access, ptr %array, i64 %first, i64 %step, i64 %count) noinline nounwind {
entry:
  %width1 = getelementptr inbounds nuw i8, ptr %array, i64 24
  %0 = load i64, ptr %width1, align 8
  %item2 = getelementptr inbounds nuw i8, ptr %access, i64 32
  %1 = load i64, ptr %item2, align 8
  %before3 = getelementptr inbounds nuw i8, ptr %array, i64 48
  %2 = load i64, ptr %before3, align 8
  %conv = trunc i64 %2 to i32
  %program = getelementptr inbounds nuw i8, ptr %access, i64 24
  %3 = load i64, ptr %program, align 8
  %add = add i64 %3, %2
  %4 = trunc i64 %add to i32
  %conv6 = add i32 %4, 1
  %5 = load ptr, ptr %access, align 8
  %programs = getelementptr inbounds nuw i8, ptr %5, i64 56
  %6 = load i64, ptr %programs, align 8
  %add8 = add i64 %6, %2
  %7 = trunc i64 %add8 to i32
  %conv10 = add i32 %7, 1
  %stores = getelementptr inbounds nuw i8, ptr %access, i64 40
  %8 = load i64, ptr %stores, align 8
  %cmp = icmp eq i64 %8, 1
  %rem = urem i64 %first, %0
  %cmp12 = icmp eq i64 %rem, 0
  %cmp14 = icmp eq i64 %step, %0
  %or.cond = and i1 %cmp14, %cmp12
  %cmp16 = icmp eq i64 %1, %0
  %spec.select = select i1 %or.cond, i1 %cmp16, i1 false
  %cond = select i1 %spec.select, i64 1, i64 %count
  %cmp26.not138 = icmp sgt i64 %cond, 0
  br i1 %cmp26.not138, label %for.body.lr.ph, label %cleanup76

for.body.lr.ph:
  %mul = mul i64 %0, %count
  %cond25 = select i1 %spec.select, i64 %mul, i64 %1
  %add30 = add i64 %cond25, -1
  br label %for.body

for.body:
  %j.0139 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.inc ]
  %mul28 = mul i64 %j.0139, %step
  %add29 = add i64 %mul28, %first
  %sub = add i64 %add30, %add29
  %div = udiv i64 %sub, %0
  %add31 = add i64 %div, 1
  %div32 = udiv i64 %add29, %0
  %cmp34.not136 = icmp slt i64 %div32, %add31
  br i1 %cmp34.not136, label %for.body37, label %for.inc

for.body37:
  %e.0137 = phi i64 [ %cond46, %cleanup ], [ %div32, %for.body ]
  %or = or i64 %e.0137, 4095
  %add38 = add i64 %or, 1
  %cond46 = tail call i64 @llvm.smin.i64(i64 %add38, i64 %add31)
  %call = tail call ptr @checks_lock(ptr %access, i64 %e.0137)
  %call48 = tail call i64 @checks_note_blocks(ptr %array, i64 %e.0137, i64 %cond46, i32 %conv, i32 %conv6, i32 %conv10, i1 %cmp)
  %cmp49.not = icmp eq i64 %call48, %cond46
  br i1 %cmp49.not, label %cleanup, label %if.then

if.then:
  %blocks = getelementptr inbounds nuw i8, ptr %array, i64 56
  %9 = load ptr, ptr %blocks, align 8
  %shr = lshr i64 %call48, 6
  %arrayidx = getelementptr inbounds nuw i32, ptr %9, i64 %shr
  %10 = load i32, ptr %arrayidx, align 4
  %cmp51 = icmp eq i32 %10, %conv10
  br i1 %cmp51, label %cond.true53, label %cleanup67

cond.true53:
  %owners = getelementptr inbounds nuw i8, ptr %array, i64 40
  %11 = load ptr, ptr %owners, align 8
  %arrayidx54 = getelementptr inbounds i32, ptr %11, i64 %call48
  %12 = load i32, ptr %arrayidx54, align 4
  br label %cleanup67

cleanup:
  store atomic i64 0, ptr %call release, align 8
  %cmp34.not = icmp slt i64 %add38, %add31
  br i1 %cmp34.not, label %for.body37, label %for.inc

cleanup67:
  %cond57 = phi i32 [ %12, %cond.true53 ], [ %10, %if.then ]
  %conv58 = zext i32 %cond57 to i64
  store atomic i64 0, ptr %call release, align 8
  %13 = load i64, ptr %array, align 8
  %mul59 = mul i64 %call48, %0
  %add60 = add i64 %13, %mul59
  %14 = load i64, ptr %before3, align 8
  %15 = xor i64 %14, -1
  %sub63 = add i64 %15, %conv58
  %call64 = tail call i1 @checks_blame(ptr %access, i64 %add60, i64 %sub63)
  br label %cleanup76

for.inc:
  %inc = add nuw nsw i64 %j.0139, 1
  %exitcond.not = icmp eq i64 %inc, %cond
  br i1 %exitcond.not, label %cleanup76, label %for.body

cleanup76:
  %cmp26.not135 = phi i1 [ true, %cleanup67 ], [ false, %entry ], [ false, %for.inc ]
  ret i1 %cmp26.not135
}

define internal i1 @checks_run(ptr %access, i64 %start, i64 %step, i64 %count) noinline nounwind {
entry:
  %array1 = getelementptr inbounds nuw i8, ptr %access, i64 8
  %0 = load ptr, ptr %array1, align 8
  %tobool.not = icmp eq ptr %0, null
  br i1 %tobool.not, label %cond.end, label %if.end

cond.end:
  %1 = load ptr, ptr %access, align 8
  %call = tail call ptr @checks_find(ptr %1, i64 %start)
  %tobool3.not = icmp eq ptr %call, null
  br i1 %tobool3.not, label %if.then, label %if.end

if.then:
  %call4 = tail call i1 @checks_blame(ptr %access, i64 %start, i64 -1)
  br label %cleanup65

if.end:
  %cond111 = phi ptr [ %call, %cond.end ], [ %0, %entry ]
  %item5 = getelementptr inbounds nuw i8, ptr %access, i64 32
  %2 = load i64, ptr %item5, align 8
  %size = getelementptr inbounds nuw i8, ptr %cond111, i64 16
  %3 = load i64, ptr %size, align 8
  %sub = sub i64 %3, %2
  %4 = load i64, ptr %cond111, align 8
  %sub6 = sub i64 %start, %4
  %sub7 = add i64 %count, -1
  %5 = tail call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %step, i64 %sub7)
  %6 = extractvalue { i64, i1 } %5, 1
  %7 = extractvalue { i64, i1 } %5, 0
  %cmp = icmp sgt i64 %sub, -1
  %cmp8.not = icmp ule i64 %sub6, %sub
  %add = add i64 %sub6, %7
  %cmp10.not = icmp ule i64 %add, %sub
  %.not115 = and i1 %cmp8.not, %cmp10.not
  %or.cond108.not = select i1 %cmp, i1 %.not115, i1 false
  %lnot = xor i1 %6, true
  %8 = and i1 %or.cond108.not, %lnot
  br i1 %8, label %lor.lhs.false, label %if.then14

lor.lhs.false:
  %exists = getelementptr inbounds nuw i8, ptr %cond111, i64 32
  %9 = load ptr, ptr %exists, align 8
  %tobool13.not = icmp ne ptr %9, null
  %cmp15.not116 = icmp sgt i64 %count, 0
  %or.cond = and i1 %tobool13.not, %cmp15.not116
  br i1 %or.cond, label %for.body.lr.ph, label %if.end51

if.then14:
  %cmp15.not116.old = icmp sgt i64 %count, 0
  br i1 %cmp15.not116.old, label %for.body.lr.ph, label %if.end51

for.body.lr.ph:
  %width17 = getelementptr inbounds nuw i8, ptr %cond111, i64 24
  %10 = load i64, ptr %width17, align 8
  %exists25 = getelementptr inbounds nuw i8, ptr %cond111, i64 32
  %add32 = add i64 %2, -1
  br label %for.body

for.body:
  %j.0117 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.inc ]
  %mul = mul i64 %j.0117, %step
  %add16 = add i64 %mul, %sub6
  %cmp20 = icmp ule i64 %add16, %sub
  %11 = select i1 %cmp, i1 %cmp20, i1 false
  br i1 %11, label %land.lhs.true24, label %if.then42

land.lhs.true24:
  %12 = load ptr, ptr %exists25, align 8
  %tobool26.not = icmp eq ptr %12, null
  br i1 %tobool26.not, label %for.inc, label %if.then27

if.then27:
  %div = udiv i64 %add16, %10
  %arrayidx = getelementptr inbounds nuw i8, ptr %12, i64 %div
  %13 = load i8, ptr %arrayidx, align 1
  %tobool29.not = icmp eq i8 %13, 0
  br i1 %tobool29.not, label %if.then42, label %if.end40

if.end40:
  %sub33 = add i64 %add32, %add16
  %div34 = udiv i64 %sub33, %10
  %arrayidx35 = getelementptr inbounds nuw i8, ptr %12, i64 %div34
  %14 = load i8, ptr %arrayidx35, align 1
  %tobool37.not = icmp eq i8 %14, 0
  br i1 %tobool37.not, label %if.then42, label %for.inc

if.then42:
  %add44 = add i64 %mul, %start
  %call45 = tail call i1 @checks_blame(ptr %access, i64 %add44, i64 -1)
  br label %cleanup65

for.inc:
  %inc = add nuw nsw i64 %j.0117, 1
  %exitcond.not = icmp eq i64 %inc, %count
  br i1 %exitcond.not, label %if.end51, label %for.body

if.end51:
  %stores = getelementptr inbounds nuw i8, ptr %access, i64 40
  %15 = load i64, ptr %stores, align 8
  %tobool52.not = icmp eq i64 %15, 0
  br i1 %tobool52.not, label %cleanup65, label %land.lhs.true53

land.lhs.true53:
  %owners = getelementptr inbounds nuw i8, ptr %cond111, i64 40
  %16 = load ptr, ptr %owners, align 8
  %tobool54.not = icmp eq ptr %16, null
  br i1 %tobool54.not, label %cleanup65, label %land.rhs55

land.rhs55:
  %call56 = tail call i1 @checks_claim(ptr %access, ptr %cond111, i64 %sub6, i64 %step, i64 %count)
  br label %cleanup65

cleanup65:
  %retval.4 = phi i1 [ true, %if.then ], [ true, %if.then42 ], [ false, %land.lhs.true53 ], [ false, %if.end51 ], [ %call56, %land.rhs55 ]
  ret i1 %retval.4
}

declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)

define internal i1 @checks_box(ptr %access) noinline nounwind {
entry:
  %rank = getelementptr inbounds nuw i8, ptr %access, i64 56
  %0 = load i64, ptr %rank, align 8
  %sub = add i64 %0, -1
  %item1 = getelementptr inbounds nuw i8, ptr %access, i64 32
  %1 = load i64, ptr %item1, align 8
  %dims = getelementptr inbounds nuw i8, ptr %access, i64 64
  %arrayidx = getelementptr inbounds %struct.dimension, ptr %dims, i64 %sub
  %inner.sroa.0.0.copyload = load i64, ptr %arrayidx, align 8
  %inner.sroa.6.0.arrayidx.sroa_idx = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %inner.sroa.6.0.copyload = load i64, ptr %inner.sroa.6.0.arrayidx.sroa_idx, align 8
  %inner.sroa.7.0.arrayidx.sroa_idx = getelementptr inbounds nuw i8, ptr %arrayidx, i64 16
  %inner.sroa.7.0.copyload = load i64, ptr %inner.sroa.7.0.arrayidx.sroa_idx, align 8
  %inner.sroa.9.0.arrayidx.sroa_idx = getelementptr inbounds nuw i8, ptr %arrayidx, i64 24
  %inner.sroa.9.0.copyload = load i64, ptr %inner.sroa.9.0.arrayidx.sroa_idx, align 8
  %cond = tail call i64 @llvm.smax.i64(i64 %inner.sroa.0.0.copyload, i64 0)
  %add = add i64 %inner.sroa.9.0.copyload, %inner.sroa.0.0.copyload
  %cond9 = tail call i64 @llvm.smin.i64(i64 %add, i64 %inner.sroa.7.0.copyload)
  %mul = mul i64 %inner.sroa.6.0.copyload, %1
  %cmp10.not = icmp sgt i64 %cond9, %cond
  br i1 %cmp10.not, label %for.cond.preheader, label %cleanup55

for.cond.preheader:
  %cmp1199 = icmp sgt i64 %sub, 0
  br i1 %cmp1199, label %for.body, label %for.body19.lr.ph

for.cond16.preheader:
  %cmp17.not109 = icmp sgt i64 %mul15, 0
  br i1 %cmp17.not109, label %for.body19.lr.ph, label %cleanup55

for.body19.lr.ph:
  %rows.0.lcssa116 = phi i64 [ %mul15, %for.cond16.preheader ], [ 1, %for.cond.preheader ]
  %base = getelementptr inbounds nuw i8, ptr %access, i64 48
  %mul20 = mul i64 %mul, %cond
  %sub23 = add i64 %0, -2
  %cmp25102 = icmp sgt i64 %sub23, -1
  %sub45 = sub nsw i64 %cond9, %cond
  br label %for.body19

for.body:
  %rows.0101 = phi i64 [ %mul15, %for.body ], [ 1, %for.cond.preheader ]
  %d.0100 = phi i64 [ %inc, %for.body ], [ 0, %for.cond.preheader ]
  %arrayidx13 = getelementptr inbounds nuw %struct.dimension, ptr %dims, i64 %d.0100
  %size14 = getelementptr inbounds nuw i8, ptr %arrayidx13, i64 24
  %2 = load i64, ptr %size14, align 8
  %mul15 = mul i64 %2, %rows.0101
  %inc = add nuw nsw i64 %d.0100, 1
  %exitcond.not = icmp eq i64 %inc, %sub
  br i1 %exitcond.not, label %for.cond16.preheader, label %for.body

for.body19:
  %row.0110 = phi i64 [ 0, %for.body19.lr.ph ], [ %inc51, %if.end47 ]
  %3 = load i64, ptr %base, align 8
  %add21 = add i64 %3, %mul20
  br i1 %cmp25102, label %for.body27, label %land.lhs.true44

for.cond.cleanup26:
  br i1 %7, label %land.lhs.true44, label %if.end47

for.body27:
  %d22.0106 = phi i64 [ %dec, %land.end ], [ %sub23, %for.body19 ]
  %exists.0105 = phi i1 [ %7, %land.end ], [ true, %for.body19 ]
  %left.0104 = phi i64 [ %div, %land.end ], [ %row.0110, %for.body19 ]
  %start.0103 = phi i64 [ %add40, %land.end ], [ %add21, %for.body19 ]
  %arrayidx29 = getelementptr inbounds nuw %struct.dimension, ptr %dims, i64 %d22.0106
  %4 = load i64, ptr %arrayidx29, align 8
  %size31 = getelementptr inbounds nuw i8, ptr %arrayidx29, i64 24
  %5 = load i64, ptr %size31, align 8
  %rem = urem i64 %left.0104, %5
  %add32 = add i64 %rem, %4
  %div = udiv i64 %left.0104, %5
  %cmp34 = icmp sgt i64 %add32, -1
  %or.cond = select i1 %exists.0105, i1 %cmp34, i1 false
  br i1 %or.cond, label %land.rhs, label %land.end

land.rhs:
  %extent35 = getelementptr inbounds nuw i8, ptr %arrayidx29, i64 16
  %6 = load i64, ptr %extent35, align 8
  %cmp36 = icmp slt i64 %add32, %6
  br label %land.end

land.end:
  %7 = phi i1 [ %cmp36, %land.rhs ], [ false, %for.body27 ]
  %stride37 = getelementptr inbounds nuw i8, ptr %arrayidx29, i64 8
  %8 = load i64, ptr %stride37, align 8
  %mul38 = mul i64 %add32, %1
  %mul39 = mul i64 %mul38, %8
  %add40 = add i64 %mul39, %start.0103
  %dec = add nsw i64 %d22.0106, -1
  %cmp25 = icmp sgt i64 %d22.0106, 0
  br i1 %cmp25, label %for.body27, label %for.cond.cleanup26

land.lhs.true44:
  %start.0.lcssa119 = phi i64 [ %add40, %for.cond.cleanup26 ], [ %add21, %for.body19 ]
  %call = tail call i1 @checks_run(ptr %access, i64 %start.0.lcssa119, i64 %mul, i64 %sub45)
  br i1 %call, label %cleanup55, label %if.end47

if.end47:
  %inc51 = add nuw nsw i64 %row.0110, 1
  %exitcond113.not = icmp eq i64 %inc51, %rows.0.lcssa116
  br i1 %exitcond113.not, label %cleanup55, label %for.body19

cleanup55:
  %retval.3 = phi i1 [ false, %entry ], [ false, %for.cond16.preheader ], [ true, %land.lhs.true44 ], [ false, %if.end47 ]
  ret i1 %retval.3
}

define internal i1 @checks_lanes(ptr %access, ptr %addresses, ptr %on, i64 %count) noinline nounwind {
entry:
  %cmp7 = icmp sgt i64 %count, 0
  br i1 %cmp7, label %for.body, label %cleanup

for.body:
  %j.08 = phi i64 [ %inc, %for.inc ], [ 0, %entry ]
  %arrayidx = getelementptr inbounds nuw i8, ptr %on, i64 %j.08
  %0 = load i8, ptr %arrayidx, align 1
  %tobool.not = icmp eq i8 %0, 0
  br i1 %tobool.not, label %for.inc, label %land.lhs.true

land.lhs.true:
  %arrayidx1 = getelementptr inbounds nuw i64, ptr %addresses, i64 %j.08
  %1 = load i64, ptr %arrayidx1, align 8
  %call = tail call i1 @checks_run(ptr %access, i64 %1, i64 0, i64 1)
  br i1 %call, label %cleanup, label %for.inc

for.inc:
  %inc = add nuw nsw i64 %j.08, 1
  %exitcond.not = icmp eq i64 %inc, %count
  br i1 %exitcond.not, label %cleanup, label %for.body

cleanup:
  %cmp.lcssa = phi i1 [ false, %entry ], [ false, %for.inc ], [ true, %land.lhs.true ]
  ret i1 %cmp.lcssa
}

define internal i1 @checks_values(ptr %access, ptr %values, ptr %on, i64 %count) cold noinline nounwind {
entry:
  %sub = add i64 %count, -1
  %cmp5 = icmp sgt i64 %sub, 0
  br i1 %cmp5, label %land.rhs, label %while.end

land.rhs:
  %j.06 = phi i64 [ %inc, %while.body ], [ 0, %entry ]
  %arrayidx = getelementptr inbounds nuw i8, ptr %on, i64 %j.06
  %0 = load i8, ptr %arrayidx, align 1
  %tobool.not = icmp eq i8 %0, 0
  br i1 %tobool.not, label %while.body, label %while.end

while.body:
  %inc = add nuw nsw i64 %j.06, 1
  %exitcond.not = icmp eq i64 %inc, %sub
  br i1 %exitcond.not, label %while.end, label %land.rhs

while.end:
  %j.0.lcssa = phi i64 [ 0, %entry ], [ %sub, %while.body ], [ %j.06, %land.rhs ]
  %arrayidx1 = getelementptr inbounds nuw i64, ptr %values, i64 %j.0.lcssa
  %1 = load i64, ptr %arrayidx1, align 8
  %call = tail call i1 @checks_blame(ptr %access, i64 %1, i64 -1)
  ret i1 true
}

declare i64 @llvm.smin.i64(i64, i64)

declare i64 @llvm.smax.i64(i64, i64)
