; Made from aot.c by clang 22: `python -m tests.house.compiled`.
; sha256 1bf1ca36d287077e781bd18beca36fd4f04e6681367e0b58ddc7d0fe26290d1b
define weak i32 @aot_level() nounwind {
entry:
  ret i32 0
}

define weak void @aot_share(ptr %run, ptr %block, i64 %programs, i64 %threads, i64 %least, i64 %group) nounwind {
entry:
  tail call void %run(i64 0, i64 %programs, i64 0, ptr %block)
  ret void
}

define i32 @aot_launch(ptr %bodies, i64 %count, ptr %grid, ptr %slots, i64 %threads) nounwind {
entry:
  %0 = load i64, ptr %grid, align 8
  %cmp.i = icmp ugt i64 %0, 2147483647
  %arrayidx1.i = getelementptr inbounds nuw i8, ptr %grid, i64 8
  %1 = load i64, ptr %arrayidx1.i, align 8
  %cmp3.i = icmp ugt i64 %1, 2147483647
  %or.cond.i.not = select i1 %cmp.i, i1 true, i1 %cmp3.i
  %arrayidx4.i = getelementptr inbounds nuw i8, ptr %grid, i64 16
  %2 = load i64, ptr %arrayidx4.i, align 8
  %cmp6.i = icmp ugt i64 %2, 2147483647
  %spec.select = select i1 %or.cond.i.not, i1 true, i1 %cmp6.i
  %mul.i = mul i64 %1, %0
  %3 = tail call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %mul.i, i64 %2)
  %4 = extractvalue { i64, i1 } %3, 1
  %5 = extractvalue { i64, i1 } %3, 0
  %cmp14.i = icmp slt i64 %5, 0
  %6 = or i1 %4, %cmp14.i
  %or.cond15.not.i = select i1 %spec.select, i1 true, i1 %6
  %cond.i = select i1 %or.cond15.not.i, i64 -1, i64 %5
  br i1 %or.cond15.not.i, label %cleanup37, label %if.end

if.end:
  %tobool.not = icmp eq i64 %5, 0
  br i1 %tobool.not, label %cleanup37, label %if.end2

if.end2:
  %call3 = tail call i32 @aot_level()
  %conv = sext i32 %call3 to i64
  %add.ptr.idx = shl nsw i64 %count, 6
  %add.ptr = getelementptr inbounds i8, ptr %bodies, i64 %add.ptr.idx
  %cmp4.not60 = icmp sgt i64 %count, 0
  br i1 %cmp4.not60, label %for.body, label %cleanup37

for.body:
  %body.061 = phi ptr [ %incdec.ptr, %for.inc34 ], [ %bodies, %if.end2 ]
  %level6 = getelementptr inbounds nuw i8, ptr %body.061, i64 32
  %7 = load i64, ptr %level6, align 8
  %cmp7.not = icmp sgt i64 %7, %conv
  br i1 %cmp7.not, label %for.inc34, label %if.then9

if.then9:
  %count10 = getelementptr inbounds nuw i8, ptr %body.061, i64 24
  %8 = load i64, ptr %count10, align 8
  %add = shl i64 %8, 3
  %mul = add i64 %add, 40
  %9 = alloca i8, i64 %mul, align 16
  br label %for.body15

for.cond18.preheader:
  %cmp2063 = icmp sgt i64 %8, 0
  br i1 %cmp2063, label %for.body23.lr.ph, label %for.cond.cleanup22

for.body23.lr.ph:
  %slots24 = getelementptr inbounds nuw i8, ptr %body.061, i64 8
  %10 = load ptr, ptr %slots24, align 8
  br label %for.body23

for.body15:
  %n.062 = phi i64 [ 0, %if.then9 ], [ %inc, %for.body15 ]
  %arrayidx = getelementptr inbounds nuw i64, ptr %grid, i64 %n.062
  %11 = load i64, ptr %arrayidx, align 8
  %arrayidx16 = getelementptr inbounds nuw i64, ptr %9, i64 %n.062
  store i64 %11, ptr %arrayidx16, align 8
  %inc = add nuw nsw i64 %n.062, 1
  %exitcond.not = icmp eq i64 %inc, 3
  br i1 %exitcond.not, label %for.cond18.preheader, label %for.body15

for.cond.cleanup22:
  %cmp6.i56 = icmp eq i64 %cond.i, 1
  br i1 %cmp6.i56, label %if.then.i, label %lor.lhs.false.i

lor.lhs.false.i:
  %12 = tail call i64 @llvm.smax.i64(i64 %threads, i64 1)
  %13 = tail call i64 @llvm.umin.i64(i64 %12, i64 256)
  %cost.i = getelementptr inbounds nuw i8, ptr %body.061, i64 16
  %14 = load double, ptr %cost.i, align 8
  %conv.i = uitofp nneg i64 %cond.i to double
  %mul.i57 = fmul double %14, %conv.i
  %cmp7.i = fcmp olt double %mul.i57, 8.000000e+03
  br i1 %cmp7.i, label %if.then.i, label %if.end.i

if.then.i:
  br label %if.end.i

if.end.i:
  %threads.0.i = phi i64 [ 1, %if.then.i ], [ %13, %lor.lhs.false.i ]
  %pages.i = getelementptr inbounds nuw i8, ptr %body.061, i64 40
  %15 = load i64, ptr %pages.i, align 8
  %tobool.not.i = icmp eq i64 %15, 0
  br i1 %tobool.not.i, label %if.end19.i, label %cond.end13.i

cond.end13.i:
  %mul11.i = mul i64 %15, %threads.0.i
  %call.i = tail call ptr @aligned_alloc(i64 4096, i64 %mul11.i)
  %.pre.i = load i64, ptr %pages.i, align 8
  %16 = icmp eq i64 %.pre.i, 0
  %tobool17.i = icmp ne ptr %call.i, null
  %or.cond.i58 = select i1 %16, i1 true, i1 %tobool17.i
  br i1 %or.cond.i58, label %if.end19.i, label %cleanup37

if.end19.i:
  %17 = phi i64 [ %.pre.i, %cond.end13.i ], [ 0, %if.end.i ]
  %cond1452.i = phi ptr [ %call.i, %cond.end13.i ], [ null, %if.end.i ]
  %18 = ptrtoint ptr %cond1452.i to i64
  %arrayidx.i = getelementptr inbounds nuw i8, ptr %9, i64 24
  store i64 %18, ptr %arrayidx.i, align 8
  %arrayidx21.i = getelementptr inbounds nuw i8, ptr %9, i64 32
  store i64 %17, ptr %arrayidx21.i, align 16
  %cmp22.i = icmp eq i64 %threads.0.i, 1
  %19 = load ptr, ptr %body.061, align 8
  br i1 %cmp22.i, label %if.then24.i, label %if.else.i

if.then24.i:
  call void %19(i64 0, i64 %cond.i, i64 0, ptr %9)
  br label %if.end26.i

if.else.i:
  %least.i = getelementptr inbounds nuw i8, ptr %body.061, i64 48
  %20 = load i64, ptr %least.i, align 8
  %group.i = getelementptr inbounds nuw i8, ptr %body.061, i64 56
  %21 = load i64, ptr %group.i, align 8
  call void @aot_share(ptr %19, ptr %9, i64 %cond.i, i64 %threads.0.i, i64 %20, i64 %21)
  br label %if.end26.i

if.end26.i:
  call void @free(ptr %cond1452.i)
  br label %cleanup37

for.body23:
  %n17.064 = phi i64 [ 0, %for.body23.lr.ph ], [ %inc30, %for.body23 ]
  %arrayidx25 = getelementptr inbounds nuw i64, ptr %10, i64 %n17.064
  %22 = load i64, ptr %arrayidx25, align 8
  %arrayidx26 = getelementptr inbounds i64, ptr %slots, i64 %22
  %23 = load i64, ptr %arrayidx26, align 8
  %24 = getelementptr i64, ptr %9, i64 %n17.064
  %arrayidx28 = getelementptr i8, ptr %24, i64 40
  store i64 %23, ptr %arrayidx28, align 8
  %inc30 = add nuw nsw i64 %n17.064, 1
  %exitcond66.not = icmp eq i64 %inc30, %8
  br i1 %exitcond66.not, label %for.cond.cleanup22, label %for.body23

for.inc34:
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %body.061, i64 64
  %cmp4.not = icmp ult ptr %incdec.ptr, %add.ptr
  br i1 %cmp4.not, label %for.body, label %cleanup37

cleanup37:
  %retval.2 = phi i32 [ 1, %entry ], [ 0, %if.end ], [ 4, %cond.end13.i ], [ 0, %if.end26.i ], [ 3, %if.end2 ], [ 3, %for.inc34 ]
  ret i32 %retval.2
}

declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

declare ptr @aligned_alloc(i64, i64)

declare void @free(ptr)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.umin.i64(i64, i64)
