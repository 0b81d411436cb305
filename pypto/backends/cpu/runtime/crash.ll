; Made from crash.c by clang 22: `python -m tests.house.compiled`.
; sha256 047e2fc926674e966d77875504c58b942985b82104444e1be5d9dab2cc21ae28
%struct.action = type { ptr, [16 x i64], i32, ptr }
%struct.row = type { i64, i64, ptr, i64, ptr, i64 }

@count = internal global i64 0, align 8
@rows = internal global ptr null, align 8
@crash_install.new = internal global %struct.action zeroinitializer, align 8
@old_segv = internal global %struct.action zeroinitializer, align 8
@old_bus = internal global %struct.action zeroinitializer, align 8
@old_abort = internal global %struct.action zeroinitializer, align 8
@crash_counter = external constant i64, align 8
@crash_link = external constant i64, align 8
@crash_is_stacked = external constant i64, align 8
@said = internal global i32 0, align 4

define void @crash_table(ptr %table, i64 %size) nounwind {
entry:
  store atomic i64 0, ptr @count seq_cst, align 8
  %0 = ptrtoint ptr %table to i64
  store atomic i64 %0, ptr @rows seq_cst, align 8
  store atomic i64 %size, ptr @count seq_cst, align 8
  ret void
}

define void @crash_install() nounwind {
entry:
  store ptr @handle, ptr @crash_install.new, align 8
  store i32 134217732, ptr getelementptr inbounds nuw (i8, ptr @crash_install.new, i64 136), align 8
  %call = tail call i32 @sigaction(i32 11, ptr @crash_install.new, ptr @old_segv)
  %call1 = tail call i32 @sigaction(i32 7, ptr @crash_install.new, ptr @old_bus)
  %call2 = tail call i32 @sigaction(i32 6, ptr @crash_install.new, ptr @old_abort)
  ret void
}

define internal void @handle(i32 %signal, ptr %info, ptr %context) nounwind {
entry:
  %add.ptr = getelementptr inbounds nuw i8, ptr %info, i64 8
  %0 = load i32, ptr %add.ptr, align 4
  %cmp = icmp sgt i32 %0, 0
  br i1 %cmp, label %if.then, label %if.else

if.then:
  %1 = load i64, ptr @crash_counter, align 8
  %add.ptr.i = getelementptr inbounds i8, ptr %context, i64 %1
  %2 = load i64, ptr %add.ptr.i, align 8
  %3 = load atomic i64, ptr @count seq_cst, align 8
  %4 = load atomic i64, ptr @rows seq_cst, align 8
  %5 = inttoptr i64 %4 to ptr
  %tobool.not12.i.i = icmp eq i64 %3, 0
  br i1 %tobool.not12.i.i, label %if.then.i, label %while.body.i.i

while.body.i.i:
  %dec13.in.i.i = phi i64 [ %dec13.i.i, %if.end.i.i ], [ %3, %if.then ]
  %dec13.i.i = add i64 %dec13.in.i.i, -1
  %arrayidx.i.i = getelementptr inbounds %struct.row, ptr %5, i64 %dec13.i.i
  %6 = load i64, ptr %arrayidx.i.i, align 8
  %cmp.not.i.i = icmp ult i64 %2, %6
  br i1 %cmp.not.i.i, label %if.end.i.i, label %land.lhs.true.i.i

land.lhs.true.i.i:
  %end.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i.i, i64 8
  %7 = load i64, ptr %end.i.i, align 8
  %cmp3.i.i = icmp ult i64 %2, %7
  br i1 %cmp3.i.i, label %if.then5.i, label %if.end.i.i

if.end.i.i:
  %tobool.not.i.i = icmp eq i64 %dec13.i.i, 0
  br i1 %tobool.not.i.i, label %if.then.i, label %while.body.i.i

if.then.i:
  %8 = load i64, ptr @crash_link, align 8
  %add.ptr1.i = getelementptr inbounds i8, ptr %context, i64 %8
  %9 = load i64, ptr %add.ptr1.i, align 8
  %10 = load i64, ptr @crash_is_stacked, align 8
  %tobool2.not.i = icmp eq i64 %10, 0
  br i1 %tobool2.not.i, label %cond.end.i, label %cond.true.i

cond.true.i:
  %11 = inttoptr i64 %9 to ptr
  %12 = load i64, ptr %11, align 8
  br label %cond.end.i

cond.end.i:
  %cond.i = phi i64 [ %12, %cond.true.i ], [ %9, %if.then.i ]
  %13 = load atomic i64, ptr @count seq_cst, align 8
  %14 = load atomic i64, ptr @rows seq_cst, align 8
  %15 = inttoptr i64 %14 to ptr
  %tobool.not12.i12.i = icmp eq i64 %13, 0
  br i1 %tobool.not12.i12.i, label %if.else.i, label %while.body.i13.i

while.body.i13.i:
  %dec13.in.i14.i = phi i64 [ %dec13.i15.i, %if.end.i21.i ], [ %13, %cond.end.i ]
  %dec13.i15.i = add i64 %dec13.in.i14.i, -1
  %arrayidx.i16.i = getelementptr inbounds %struct.row, ptr %15, i64 %dec13.i15.i
  %16 = load i64, ptr %arrayidx.i16.i, align 8
  %cmp.not.i17.i = icmp ult i64 %cond.i, %16
  br i1 %cmp.not.i17.i, label %if.end.i21.i, label %land.lhs.true.i18.i

land.lhs.true.i18.i:
  %end.i19.i = getelementptr inbounds nuw i8, ptr %arrayidx.i16.i, i64 8
  %17 = load i64, ptr %end.i19.i, align 8
  %cmp3.i20.i = icmp ult i64 %cond.i, %17
  br i1 %cmp3.i20.i, label %if.then5.i, label %if.end.i21.i

if.end.i21.i:
  %tobool.not.i22.i = icmp eq i64 %dec13.i15.i, 0
  br i1 %tobool.not.i22.i, label %if.else.i, label %while.body.i13.i

if.then5.i:
  %row.0.i = phi ptr [ %arrayidx.i16.i, %land.lhs.true.i18.i ], [ %arrayidx.i.i, %land.lhs.true.i.i ]
  %line.i = getelementptr inbounds nuw i8, ptr %row.0.i, i64 16
  %18 = load ptr, ptr %line.i, align 8
  %size.i = getelementptr inbounds nuw i8, ptr %row.0.i, i64 24
  %19 = load i64, ptr %size.i, align 8
  %20 = atomicrmw xchg ptr @said, i32 1 seq_cst, align 4
  %tobool.not.i25.i = icmp eq i32 %20, 0
  br i1 %tobool.not.i25.i, label %if.then.i.i, label %if.end4

if.then.i.i:
  %call.i.i = tail call i64 @write(i32 2, ptr %18, i64 %19)
  br label %if.end4

if.else.i:
  %21 = load atomic i64, ptr @count seq_cst, align 8
  %22 = load atomic i64, ptr @rows seq_cst, align 8
  %23 = inttoptr i64 %22 to ptr
  br label %while.cond.i.i

while.cond.i.i:
  %size.0.i.i = phi i64 [ %21, %if.else.i ], [ %dec.i.i, %while.body.i28.i ]
  %tobool.not.i27.i = icmp eq i64 %size.0.i.i, 0
  br i1 %tobool.not.i27.i, label %if.end4, label %while.body.i28.i

while.body.i28.i:
  %dec.i.i = add i64 %size.0.i.i, -1
  %arrayidx.i29.i = getelementptr inbounds %struct.row, ptr %23, i64 %dec.i.i
  %later_size.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i29.i, i64 40
  %24 = load i64, ptr %later_size.i.i, align 8
  %tobool2.not.i.i = icmp eq i64 %24, 0
  br i1 %tobool2.not.i.i, label %while.cond.i.i, label %if.then.i30.i

if.then.i30.i:
  %later.i.i = getelementptr inbounds nuw i8, ptr %arrayidx.i29.i, i64 32
  %25 = load ptr, ptr %later.i.i, align 8
  %26 = atomicrmw xchg ptr @said, i32 1 seq_cst, align 4
  %tobool.not.i.i.i = icmp eq i32 %26, 0
  br i1 %tobool.not.i.i.i, label %if.then.i.i.i, label %if.end4

if.then.i.i.i:
  %call.i.i.i = tail call i64 @write(i32 2, ptr %25, i64 %24)
  br label %if.end4

if.else:
  %cmp1 = icmp eq i32 %signal, 6
  %cmp2 = icmp eq i32 %0, -6
  %or.cond = and i1 %cmp1, %cmp2
  br i1 %or.cond, label %if.then3, label %if.end4

if.then3:
  %27 = load atomic i64, ptr @count seq_cst, align 8
  %28 = load atomic i64, ptr @rows seq_cst, align 8
  %29 = inttoptr i64 %28 to ptr
  br label %while.cond.i

while.cond.i:
  %size.0.i = phi i64 [ %27, %if.then3 ], [ %dec.i, %while.body.i ]
  %tobool.not.i = icmp eq i64 %size.0.i, 0
  br i1 %tobool.not.i, label %if.end4, label %while.body.i

while.body.i:
  %dec.i = add i64 %size.0.i, -1
  %arrayidx.i = getelementptr inbounds %struct.row, ptr %29, i64 %dec.i
  %later_size.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 40
  %30 = load i64, ptr %later_size.i, align 8
  %tobool2.not.i29 = icmp eq i64 %30, 0
  br i1 %tobool2.not.i29, label %while.cond.i, label %if.then.i30

if.then.i30:
  %later.i = getelementptr inbounds nuw i8, ptr %arrayidx.i, i64 32
  %31 = load ptr, ptr %later.i, align 8
  %32 = atomicrmw xchg ptr @said, i32 1 seq_cst, align 4
  %tobool.not.i.i31 = icmp eq i32 %32, 0
  br i1 %tobool.not.i.i31, label %if.then.i.i32, label %if.end4

if.then.i.i32:
  %call.i.i33 = tail call i64 @write(i32 2, ptr %31, i64 %30)
  br label %if.end4

if.end4:
  %cmp5 = icmp eq i32 %signal, 11
  %cmp6 = icmp eq i32 %signal, 7
  %cond = select i1 %cmp6, ptr @old_bus, ptr @old_abort
  %cond7 = select i1 %cmp5, ptr @old_segv, ptr %cond
  %33 = load ptr, ptr %cond7, align 8
  %cmp8 = icmp ugt ptr %33, inttoptr (i64 1 to ptr)
  br i1 %cmp8, label %if.then9, label %if.end11

if.then9:
  tail call void %33(i32 %signal, ptr %info, ptr %context)
  br label %cleanup

if.end11:
  %call = tail call i32 @sigaction(i32 %signal, ptr %cond7, ptr null)
  br i1 %cmp, label %cleanup, label %if.then13

if.then13:
  %call14 = tail call i32 @raise(i32 %signal)
  br label %cleanup

cleanup:
  ret void
}

declare i32 @sigaction(i32, ptr, ptr)

declare i32 @raise(i32)

declare i64 @write(i32, ptr, i64)
