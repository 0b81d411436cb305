; Made from aot_x86.c by clang 22: `python -m tests.house.compiled`.
; sha256 8a1ba70e7ab977683174a1cbfe636a587ccdb70a7b7a87ac49e1183780320bab
%struct.features = type { i32, i32, i32, i32 }

@aot_level.known = internal global i32 -1, align 4
@aot_needed = external constant [3 x %struct.features], align 16

define i32 @aot_level() nounwind {
entry:
  %0 = load atomic i32, ptr @aot_level.known monotonic, align 4
  %cmp = icmp sgt i32 %0, -1
  br i1 %cmp, label %cleanup, label %if.end

if.end:
  %1 = tail call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0, i32 0)
  %asmresult.i = extractvalue { i32, i32, i32, i32 } %1, 0
  %cmp1 = icmp ugt i32 %asmresult.i, 6
  br i1 %cmp1, label %if.then2, label %if.end6

if.then2:
  %2 = tail call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 1, i32 0)
  %asmresult2.i.i = extractvalue { i32, i32, i32, i32 } %2, 2
  %3 = tail call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 7, i32 0)
  %4 = tail call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 -2147483647, i32 0)
  %5 = and i32 %asmresult2.i.i, 134217728
  %tobool.not.i = icmp eq i32 %5, 0
  br i1 %tobool.not.i, label %present.exit, label %if.then.i

if.then.i:
  %6 = tail call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)
  %asmresult.i15 = extractvalue { i32, i32 } %6, 0
  %7 = xor i32 %asmresult.i15, -1
  br label %present.exit

present.exit:
  %retval.sroa.6.0.i = phi i32 [ %7, %if.then.i ], [ -1, %if.then2 ]
  %asmresult2.i25.i = extractvalue { i32, i32, i32, i32 } %4, 2
  %asmresult1.i10.i = extractvalue { i32, i32, i32, i32 } %3, 1
  %not.i = xor i32 %asmresult2.i.i, -1
  %not3.i = xor i32 %asmresult1.i10.i, -1
  %not8.i = xor i32 %asmresult2.i25.i, -1
  br label %land.rhs

land.rhs:
  %indvars.iv = phi i64 [ 0, %present.exit ], [ %indvars.iv.next, %while.body ]
  %arrayidx = getelementptr inbounds nuw %struct.features, ptr @aot_needed, i64 %indvars.iv
  %8 = load i64, ptr %arrayidx, align 16
  %9 = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %10 = load i64, ptr %9, align 8
  %want.sroa.0.0.extract.trunc.i = trunc i64 %8 to i32
  %want.sroa.3.8.extract.trunc.i = trunc i64 %10 to i32
  %want.sroa.5.8.extract.shift.i = lshr i64 %10, 32
  %want.sroa.5.8.extract.trunc.i = trunc nuw i64 %want.sroa.5.8.extract.shift.i to i32
  %and.i = and i32 %want.sroa.0.0.extract.trunc.i, %not.i
  %tobool.not.i19 = icmp eq i32 %and.i, 0
  br i1 %tobool.not.i19, label %land.lhs.true.i, label %while.end

land.lhs.true.i:
  %want.sroa.2.0.extract.shift.i = lshr i64 %8, 32
  %want.sroa.2.0.extract.trunc.i = trunc nuw i64 %want.sroa.2.0.extract.shift.i to i32
  %and4.i = and i32 %want.sroa.2.0.extract.trunc.i, %not3.i
  %tobool5.not.i = icmp eq i32 %and4.i, 0
  br i1 %tobool5.not.i, label %land.lhs.true6.i, label %while.end

land.lhs.true6.i:
  %and9.i = and i32 %want.sroa.3.8.extract.trunc.i, %not8.i
  %tobool10.not.i = icmp eq i32 %and9.i, 0
  %and13.i = and i32 %retval.sroa.6.0.i, %want.sroa.5.8.extract.trunc.i
  %tobool14.not.i = icmp eq i32 %and13.i, 0
  %or.cond = select i1 %tobool10.not.i, i1 %tobool14.not.i, i1 false
  br i1 %or.cond, label %while.body, label %while.end

while.body:
  %indvars.iv.next = add i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, 3
  br i1 %exitcond.not, label %if.end6, label %land.rhs

while.end:
  %11 = trunc nuw nsw i64 %indvars.iv to i32
  %tobool.not = icmp eq i64 %indvars.iv, 0
  %add = add nuw nsw i32 %11, 1
  %spec.select = select i1 %tobool.not, i32 0, i32 %add
  br label %if.end6

if.end6:
  %level.1 = phi i32 [ 0, %if.end ], [ %spec.select, %while.end ], [ 4, %while.body ]
  store atomic i32 %level.1, ptr @aot_level.known monotonic, align 4
  br label %cleanup

cleanup:
  %retval.0 = phi i32 [ %level.1, %if.end6 ], [ %0, %entry ]
  ret i32 %retval.0
}
