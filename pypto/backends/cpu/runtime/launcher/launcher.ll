; Made from launcher.c by clang 22: `python -m tests.house.compiled`.
; sha256 ef66d58b853259ffa57408ace35b523d2c6fb56c34a788536b4aa391ba48b115
%struct.place = type { ptr, i64 }
%union.word = type { i64 }
%struct.tensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }
%struct.view = type { ptr, ptr, ptr, i64, i64, i64 }
%struct.launch = type { ptr, ptr, ptr, ptr, i64, i64 }
%struct.unit = type { ptr, ptr, i64, i64 }

@object_list_items = external constant i64, align 8
@object_bytes_content = external constant i64, align 8
@object_tuple_items = external constant i64, align 8
@object_type = external constant i64, align 8
@object_size = external constant i64, align 8
@array_dtype = external constant i64, align 8
@array_axes = external constant i64, align 8
@array_flags = external constant i64, align 8
@array_data = external constant i64, align 8
@array_sizes = external constant i64, align 8
@array_strides = external constant i64, align 8
@polled_above = external constant i64, align 8
@long_above = external constant i64, align 8
@serial_below = external constant i64, align 8

define i64 @offer(ptr %shared, ptr %memory, i64 %size) nounwind {
entry:
  %scratch = getelementptr inbounds nuw i8, ptr %shared, i64 112
  br label %for.body

for.body:
  %n.023 = phi i64 [ 0, %entry ], [ %inc, %for.inc ]
  %arrayidx = getelementptr inbounds nuw %struct.place, ptr %scratch, i64 %n.023
  %bytes = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %0 = load i64, ptr %bytes, align 8
  %tobool.not = icmp eq i64 %0, 0
  br i1 %tobool.not, label %if.then, label %lor.lhs.false

lor.lhs.false:
  %cmp3 = icmp ult i64 %0, %size
  br i1 %cmp3, label %land.lhs.true, label %for.inc

land.lhs.true:
  %1 = load ptr, ptr %arrayidx, align 8
  %tobool6.not = icmp eq ptr %1, null
  br i1 %tobool6.not, label %for.inc, label %if.then

if.then:
  %bytes.le = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  store ptr %memory, ptr %arrayidx, align 8
  store i64 %size, ptr %bytes.le, align 8
  br label %cleanup

for.inc:
  %inc = add nuw nsw i64 %n.023, 1
  %exitcond = icmp eq i64 %inc, 4
  br i1 %exitcond, label %cleanup, label %for.body

cleanup:
  %spec.select = phi i64 [ %n.023, %if.then ], [ -1, %for.inc ]
  ret i64 %spec.select
}

define ptr @subscript(ptr %self, ptr %grid) nounwind {
entry:
  %0 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i52 = getelementptr inbounds i8, ptr %self, i64 %0
  %1 = load ptr, ptr %add.ptr.i52, align 8
  %2 = load i64, ptr @object_bytes_content, align 8
  %add.ptr.i = getelementptr inbounds i8, ptr %1, i64 %2
  %3 = load ptr, ptr %add.ptr.i, align 8
  %4 = load ptr, ptr %3, align 8
  %grids2 = getelementptr inbounds nuw i8, ptr %3, i64 72
  %5 = load ptr, ptr %grids2, align 8
  %6 = load i64, ptr @object_list_items, align 8
  %add.ptr = getelementptr inbounds i8, ptr %5, i64 %6
  %7 = load ptr, ptr %add.ptr, align 8
  br label %for.body

for.body:
  %n.056 = phi i64 [ 0, %entry ], [ %add6, %for.inc ]
  %arrayidx = getelementptr inbounds nuw ptr, ptr %7, i64 %n.056
  %8 = load ptr, ptr %arrayidx, align 8
  %cmp3 = icmp eq ptr %8, %grid
  br i1 %cmp3, label %cleanup, label %for.inc

for.inc:
  %add6 = add nuw nsw i64 %n.056, 2
  %cmp = icmp samesign ugt i64 %n.056, 5
  br i1 %cmp, label %for.end, label %for.body

cleanup:
  %arrayidx.le = getelementptr inbounds nuw ptr, ptr %7, i64 %n.056
  %arrayidx4 = getelementptr inbounds nuw i8, ptr %arrayidx.le, i64 8
  %9 = load ptr, ptr %arrayidx4, align 8
  tail call void @Py_IncRef(ptr %9)
  br label %cleanup29

for.end:
  %arrayidx10 = getelementptr inbounds nuw i8, ptr %add.ptr.i52, i64 8
  %10 = load ptr, ptr %arrayidx10, align 8
  %call11 = tail call ptr (i64, ...) @PyTuple_Pack(i64 3, ptr %1, ptr %10, ptr %grid)
  %tobool.not = icmp eq ptr %call11, null
  br i1 %tobool.not, label %cleanup29, label %if.end13

if.end13:
  %launch = getelementptr inbounds nuw i8, ptr %4, i64 80
  %11 = load ptr, ptr %launch, align 8
  %call14 = tail call ptr @PyCFunction_NewEx(ptr %11, ptr %call11, ptr null)
  tail call void @Py_DecRef(ptr %call11)
  %tobool15.not = icmp eq ptr %call14, null
  br i1 %tobool15.not, label %cleanup29, label %if.end17

if.end17:
  %turn18 = getelementptr inbounds nuw i8, ptr %3, i64 80
  %12 = load i64, ptr %turn18, align 8
  %add19 = add i64 %12, 2
  %rem = srem i64 %add19, 8
  store i64 %rem, ptr %turn18, align 8
  tail call void @Py_IncRef(ptr %grid)
  %call22 = tail call i32 @PyList_SetItem(ptr %5, i64 %12, ptr %grid)
  %add23 = add i64 %12, 1
  tail call void @Py_IncRef(ptr %call14)
  %call25 = tail call i32 @PyList_SetItem(ptr %5, i64 %add23, ptr %call14)
  br label %cleanup29

cleanup29:
  %retval.3 = phi ptr [ %9, %cleanup ], [ null, %for.end ], [ %call14, %if.end17 ], [ null, %if.end13 ]
  ret ptr %retval.3
}

declare ptr @PyTuple_Pack(i64, ...)

declare ptr @PyCFunction_NewEx(ptr, ptr, ptr)

declare void @Py_DecRef(ptr)

declare i32 @PyList_SetItem(ptr, i64, ptr)

define ptr @launch(ptr %self, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %0 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i4 = getelementptr inbounds i8, ptr %self, i64 %0
  %1 = load ptr, ptr %add.ptr.i4, align 8
  %2 = load i64, ptr @object_bytes_content, align 8
  %add.ptr.i = getelementptr inbounds i8, ptr %1, i64 %2
  %3 = load ptr, ptr %add.ptr.i, align 8
  %arrayidx = getelementptr inbounds nuw i8, ptr %add.ptr.i4, i64 16
  %4 = load ptr, ptr %arrayidx, align 8
  %call2 = tail call fastcc ptr @go(ptr %3, ptr %4, ptr %args, i64 %count, ptr %names)
  ret ptr %call2
}

define internal fastcc ptr @go(ptr %kernel, ptr %grid, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %type.i = alloca ptr, align 8
  %value.i = alloca ptr, align 8
  %trace.i = alloca ptr, align 8
  %overflow.i.i164 = alloca i32, align 4
  %overflow.i.i151 = alloca i32, align 4
  %overflow.i.i138 = alloca i32, align 4
  %overflow.i.i = alloca i32, align 4
  %mode.i = alloca ptr, align 8
  %values = alloca [96 x ptr], align 16
  %block = alloca [512 x %union.word], align 16
  %and.i = and i64 %count, 9223372036854775807
  %arity1.i = getelementptr inbounds nuw i8, ptr %kernel, i64 8
  %0 = load i64, ptr %arity1.i, align 8
  %names2.i = getelementptr inbounds nuw i8, ptr %kernel, i64 16
  %1 = load ptr, ptr %names2.i, align 8
  %defaults3.i = getelementptr inbounds nuw i8, ptr %kernel, i64 24
  %2 = load ptr, ptr %defaults3.i, align 8
  %cmp.i60 = icmp sgt i64 %and.i, %0
  br i1 %cmp.i60, label %if.then, label %for.cond.i.preheader

for.cond.i.preheader:
  %cmp4.i252.not = icmp eq i64 %0, 0
  br i1 %cmp4.i252.not, label %for.cond.cleanup.i, label %for.body.i

for.cond.cleanup.i:
  %tobool.not.i61 = icmp eq ptr %names, null
  br i1 %tobool.not.i61, label %for.cond39.i.preheader, label %cond.end11.i

for.body.i:
  %n.0.i253 = phi i64 [ %inc.i, %for.body.i ], [ 0, %for.cond.i.preheader ]
  %cmp5.i = icmp samesign ult i64 %n.0.i253, %and.i
  %args..i = select i1 %cmp5.i, ptr %args, ptr %2
  %cond.in.i = getelementptr inbounds nuw ptr, ptr %args..i, i64 %n.0.i253
  %cond.i = load ptr, ptr %cond.in.i, align 8
  %arrayidx7.i = getelementptr inbounds nuw ptr, ptr %values, i64 %n.0.i253
  store ptr %cond.i, ptr %arrayidx7.i, align 8
  %inc.i = add nuw nsw i64 %n.0.i253, 1
  %exitcond.not = icmp eq i64 %inc.i, %0
  br i1 %exitcond.not, label %for.cond.cleanup.i, label %for.body.i

cond.end11.i:
  %3 = load i64, ptr @object_size, align 8
  %add.ptr.i92.i = getelementptr inbounds i8, ptr %names, i64 %3
  %4 = load i64, ptr %add.ptr.i92.i, align 8
  %cmp14.not.i256 = icmp sgt i64 %4, 0
  br i1 %cmp14.not.i256, label %for.body16.i.lr.ph, label %for.cond39.i.preheader

for.body16.i.lr.ph:
  %5 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i.i62 = getelementptr inbounds i8, ptr %names, i64 %5
  %cmp19.i254 = icmp samesign ult i64 %and.i, %0
  %6 = load i64, ptr @object_size, align 8
  %7 = getelementptr ptr, ptr %args, i64 %and.i
  br label %for.body16.i

for.cond39.i.preheader:
  %cmp40.not.i259 = icmp slt i64 %and.i, %0
  br i1 %cmp40.not.i259, label %for.body42.i, label %lor.lhs.false

for.body16.i:
  %n8.0.i257 = phi i64 [ 0, %for.body16.i.lr.ph ], [ %inc33.i, %if.end30.i ]
  %arrayidx18.i = getelementptr inbounds nuw ptr, ptr %add.ptr.i.i62, i64 %n8.0.i257
  %8 = load ptr, ptr %arrayidx18.i, align 8
  br i1 %cmp19.i254, label %land.rhs.i64, label %if.else.i63

land.rhs.i64:
  %at.0.i255 = phi i64 [ %inc22.i, %while.body.i ], [ %and.i, %for.body16.i ]
  %arrayidx20.i = getelementptr inbounds nuw ptr, ptr %1, i64 %at.0.i255
  %9 = load ptr, ptr %arrayidx20.i, align 8
  %cmp21.not.i = icmp eq ptr %9, %8
  br i1 %cmp21.not.i, label %if.then24.i, label %while.body.i

while.body.i:
  %inc22.i = add nuw i64 %at.0.i255, 1
  %exitcond277.not = icmp eq i64 %inc22.i, %0
  br i1 %exitcond277.not, label %if.else.i63, label %land.rhs.i64

if.then24.i:
  %arrayidx25.i = getelementptr ptr, ptr %7, i64 %n8.0.i257
  %10 = load ptr, ptr %arrayidx25.i, align 8
  %arrayidx26.i = getelementptr inbounds nuw ptr, ptr %values, i64 %at.0.i255
  store ptr %10, ptr %arrayidx26.i, align 8
  br label %if.end30.i

if.else.i63:
  %11 = load ptr, ptr %kernel, align 8
  %ignored.i = getelementptr inbounds nuw i8, ptr %11, i64 88
  %12 = load ptr, ptr %ignored.i, align 8
  %13 = load ptr, ptr %1, align 8
  %tobool.not25.i = icmp eq ptr %13, null
  br i1 %tobool.not25.i, label %for.cond1.preheader.i, label %for.body.i177

for.cond.i179:
  %incdec.ptr.i = getelementptr inbounds nuw i8, ptr %parameter.026.i, i64 8
  %14 = load ptr, ptr %incdec.ptr.i, align 8
  %tobool.not.i180 = icmp eq ptr %14, null
  br i1 %tobool.not.i180, label %for.cond1.preheader.i, label %for.body.i177

for.cond1.preheader.i:
  %add.ptr.i23.i = getelementptr inbounds i8, ptr %12, i64 %6
  %15 = load i64, ptr %add.ptr.i23.i, align 8
  %cmp227.i = icmp sgt i64 %15, 0
  br i1 %cmp227.i, label %for.body4.lr.ph.i, label %if.then

for.body4.lr.ph.i:
  %add.ptr.i.i182 = getelementptr inbounds i8, ptr %12, i64 %5
  br label %for.body4.i

for.body.i177:
  %16 = phi ptr [ %14, %for.cond.i179 ], [ %13, %if.else.i63 ]
  %parameter.026.i = phi ptr [ %incdec.ptr.i, %for.cond.i179 ], [ %1, %if.else.i63 ]
  %cmp.i178 = icmp eq ptr %16, %8
  br i1 %cmp.i178, label %if.then, label %for.cond.i179

for.cond1.i:
  %inc.i185 = add nuw nsw i64 %n.028.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i185, %15
  br i1 %exitcond.not.i, label %if.then, label %for.body4.i

for.body4.i:
  %n.028.i = phi i64 [ 0, %for.body4.lr.ph.i ], [ %inc.i185, %for.cond1.i ]
  %arrayidx.i183 = getelementptr inbounds nuw ptr, ptr %add.ptr.i.i182, i64 %n.028.i
  %17 = load ptr, ptr %arrayidx.i183, align 8
  %cmp6.i184 = icmp eq ptr %17, %8
  br i1 %cmp6.i184, label %if.end30.i, label %for.cond1.i

if.end30.i:
  %inc33.i = add nuw nsw i64 %n8.0.i257, 1
  %exitcond278.not = icmp eq i64 %inc33.i, %4
  br i1 %exitcond278.not, label %for.cond39.i.preheader, label %for.body16.i

for.cond39.i:
  %inc48.i = add nuw i64 %n38.0.i260, 1
  %exitcond279.not = icmp eq i64 %inc48.i, %0
  br i1 %exitcond279.not, label %lor.lhs.false, label %for.body42.i

for.body42.i:
  %n38.0.i260 = phi i64 [ %inc48.i, %for.cond39.i ], [ %and.i, %for.cond39.i.preheader ]
  %arrayidx43.i = getelementptr inbounds nuw ptr, ptr %values, i64 %n38.0.i260
  %18 = load ptr, ptr %arrayidx43.i, align 8
  %tobool44.not.i = icmp eq ptr %18, null
  br i1 %tobool44.not.i, label %if.then, label %for.cond39.i

lor.lhs.false:
  %19 = load ptr, ptr %kernel, align 8
  %before.i = getelementptr inbounds nuw i8, ptr %kernel, i64 40
  %20 = load ptr, ptr %before.i, align 8
  %21 = load i64, ptr @object_size, align 8
  %add.ptr.i14.i = getelementptr inbounds i8, ptr %20, i64 %21
  %22 = load i64, ptr %add.ptr.i14.i, align 8
  %after.i = getelementptr inbounds nuw i8, ptr %kernel, i64 48
  %23 = load ptr, ptr %after.i, align 8
  %add.ptr.i.i = getelementptr inbounds i8, ptr %23, i64 %21
  %24 = load i64, ptr %add.ptr.i.i, align 8
  %or.i = or i64 %24, %22
  %tobool.not.i = icmp eq i64 %or.i, 0
  br i1 %tobool.not.i, label %if.end.i, label %is_elsewhere.exit.thread

if.end.i:
  %mode3.i = getelementptr inbounds nuw i8, ptr %19, i64 56
  %25 = load ptr, ptr %mode3.i, align 8
  %plain.i = getelementptr inbounds nuw i8, ptr %19, i64 64
  %26 = load ptr, ptr %plain.i, align 8
  %call4.i = call i32 @PyContextVar_Get(ptr %25, ptr %26, ptr %mode.i)
  %tobool5.not.i = icmp eq i32 %call4.i, 0
  br i1 %tobool5.not.i, label %is_elsewhere.exit, label %if.then6.i

if.then6.i:
  call void @PyErr_Clear()
  br label %is_elsewhere.exit.thread

is_elsewhere.exit.thread:
  br label %if.then

is_elsewhere.exit:
  %27 = load ptr, ptr %mode.i, align 8
  call void @Py_DecRef(ptr %27)
  %28 = load ptr, ptr %mode.i, align 8
  %29 = load ptr, ptr %plain.i, align 8
  %cmp.i.not = icmp eq ptr %28, %29
  br i1 %cmp.i.not, label %if.end, label %if.then

if.then:
  %call2 = call fastcc ptr @call_python(ptr %kernel, ptr %grid, ptr %args, i64 %count, ptr %names)
  br label %cleanup32

if.end:
  %30 = load ptr, ptr %kernel, align 8
  %arrayidx.i32.i = getelementptr inbounds nuw i8, ptr %block, i64 16
  store i64 1, ptr %arrayidx.i32.i, align 16
  %arrayidx1.i33.i = getelementptr inbounds nuw i8, ptr %block, i64 8
  store i64 1, ptr %arrayidx1.i33.i, align 8
  %31 = load i64, ptr @object_type, align 8
  %add.ptr.i78 = getelementptr inbounds i8, ptr %grid, i64 %31
  %32 = load ptr, ptr %add.ptr.i78, align 8
  %type_tuple.i35.i = getelementptr inbounds nuw i8, ptr %30, i64 40
  %33 = load ptr, ptr %type_tuple.i35.i, align 8
  %cmp.not.i36.i = icmp eq ptr %32, %33
  br i1 %cmp.not.i36.i, label %if.end.i40.i, label %if.then.i37.i

if.then.i37.i:
  %type_int.i.i166 = getelementptr inbounds nuw i8, ptr %30, i64 16
  %34 = load ptr, ptr %type_int.i.i166, align 8
  %cmp.not.i.i167 = icmp eq ptr %32, %34
  br i1 %cmp.not.i.i167, label %read_size.exit176, label %read_size.exit176.thread

read_size.exit176.thread:
  br label %if.end.i65

read_size.exit176:
  %call1.i.i170 = call i64 @PyLong_AsLongLongAndOverflow(ptr %grid, ptr %overflow.i.i164)
  store i64 %call1.i.i170, ptr %block, align 16
  %35 = load i32, ptr %overflow.i.i164, align 4
  %tobool.not.i.i171 = icmp eq i32 %35, 0
  %36 = icmp ult i64 %call1.i.i170, 2147483648
  %spec.select.i.i175 = select i1 %tobool.not.i.i171, i1 %36, i1 false
  br i1 %spec.select.i.i175, label %cond.end, label %if.end.i65

if.end.i40.i:
  %add.ptr.i30.i41.i = getelementptr inbounds i8, ptr %grid, i64 %21
  %37 = load i64, ptr %add.ptr.i30.i41.i, align 8
  %38 = add i64 %37, -4
  %or.cond.i42.i = icmp ult i64 %38, -3
  br i1 %or.cond.i42.i, label %if.end.i65, label %for.body.i48.i.lr.ph

for.body.i48.i.lr.ph:
  %39 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i.i49.i = getelementptr inbounds i8, ptr %grid, i64 %39
  %type_int.i.i = getelementptr inbounds nuw i8, ptr %30, i64 16
  br label %for.body.i48.i

for.cond.i43.i:
  %inc.i54.i = add nuw nsw i64 %n.0.i44.i262, 1
  %exitcond280.not = icmp eq i64 %inc.i54.i, %37
  br i1 %exitcond280.not, label %cond.end, label %for.body.i48.i

for.body.i48.i:
  %n.0.i44.i262 = phi i64 [ 0, %for.body.i48.i.lr.ph ], [ %inc.i54.i, %for.cond.i43.i ]
  %arrayidx11.i50.i = getelementptr inbounds nuw ptr, ptr %add.ptr.i.i49.i, i64 %n.0.i44.i262
  %40 = load ptr, ptr %arrayidx11.i50.i, align 8
  %add.ptr.i.i.i133 = getelementptr inbounds i8, ptr %40, i64 %31
  %41 = load ptr, ptr %add.ptr.i.i.i133, align 8
  %42 = load ptr, ptr %type_int.i.i, align 8
  %cmp.not.i.i134 = icmp eq ptr %41, %42
  br i1 %cmp.not.i.i134, label %read_size.exit, label %read_size.exit.thread

read_size.exit.thread:
  br label %if.end.i65

read_size.exit:
  %arrayidx12.i51.i = getelementptr inbounds nuw %union.word, ptr %block, i64 %n.0.i44.i262
  %call1.i.i = call i64 @PyLong_AsLongLongAndOverflow(ptr %40, ptr %overflow.i.i)
  store i64 %call1.i.i, ptr %arrayidx12.i51.i, align 8
  %43 = load i32, ptr %overflow.i.i, align 4
  %tobool.not.i.i = icmp eq i32 %43, 0
  %44 = icmp ult i64 %call1.i.i, 2147483648
  %spec.select.i.i137 = select i1 %tobool.not.i.i, i1 %44, i1 false
  br i1 %spec.select.i.i137, label %for.cond.i43.i, label %if.end.i65

if.end.i65:
  %45 = load ptr, ptr %add.ptr.i78, align 8
  %type_function.i = getelementptr inbounds nuw i8, ptr %30, i64 48
  %46 = load ptr, ptr %type_function.i, align 8
  %cmp.not.i = icmp eq ptr %45, %46
  br i1 %cmp.not.i, label %if.end4.i66, label %if.then20.thread

if.end4.i66:
  %call.i79 = call ptr @PyDict_New()
  %47 = load ptr, ptr %names2.i, align 8
  %tobool.not.i80 = icmp eq ptr %call.i79, null
  br i1 %tobool.not.i80, label %if.then6.i70, label %while.cond.i81.preheader

while.cond.i81.preheader:
  %48 = load i64, ptr %arity1.i, align 8
  %cmp.i83263 = icmp sgt i64 %48, 0
  br i1 %cmp.i83263, label %land.rhs.i86, label %while.end.i84

land.rhs.i86:
  %n.0.i82264 = phi i64 [ %inc.i89, %while.body.i88 ], [ 0, %while.cond.i81.preheader ]
  %arrayidx.i87 = getelementptr inbounds nuw ptr, ptr %47, i64 %n.0.i82264
  %49 = load ptr, ptr %arrayidx.i87, align 8
  %arrayidx2.i = getelementptr inbounds nuw ptr, ptr %values, i64 %n.0.i82264
  %50 = load ptr, ptr %arrayidx2.i, align 8
  %call3.i = call i32 @PyDict_SetItem(ptr %call.i79, ptr %49, ptr %50)
  %tobool4.not.i = icmp eq i32 %call3.i, 0
  %.pre.pre = load i64, ptr %arity1.i, align 8
  br i1 %tobool4.not.i, label %while.body.i88, label %while.end.i84

while.body.i88:
  %inc.i89 = add nuw nsw i64 %n.0.i82264, 1
  %cmp.i83 = icmp slt i64 %inc.i89, %.pre.pre
  br i1 %cmp.i83, label %land.rhs.i86, label %while.end.i84

while.end.i84:
  %51 = phi i64 [ %48, %while.cond.i81.preheader ], [ %.pre.pre, %land.rhs.i86 ], [ %.pre.pre, %while.body.i88 ]
  %n.0.i82.lcssa = phi i64 [ 0, %while.cond.i81.preheader ], [ %inc.i89, %while.body.i88 ], [ %n.0.i82264, %land.rhs.i86 ]
  %cmp6.i = icmp eq i64 %n.0.i82.lcssa, %51
  br i1 %cmp6.i, label %call_grid.exit, label %call_grid.exit.thread205

call_grid.exit.thread205:
  call void @Py_DecRef(ptr %call.i79)
  br label %if.then6.i70

call_grid.exit:
  %call8.i = call ptr @PyObject_CallOneArg(ptr %grid, ptr %call.i79)
  call void @Py_DecRef(ptr %call.i79)
  %tobool.not.i68 = icmp eq ptr %call8.i, null
  br i1 %tobool.not.i68, label %if.then6.i70, label %if.end11.i

if.then6.i70:
  %meant.i = getelementptr inbounds nuw i8, ptr %30, i64 104
  %52 = load ptr, ptr %meant.i, align 8
  %call7.i = call i32 @PyErr_ExceptionMatches(ptr %52)
  %tobool8.not.i = icmp eq i32 %call7.i, 0
  br i1 %tobool8.not.i, label %cleanup32, label %if.end10.i

if.end10.i:
  call void @PyErr_Clear()
  br label %if.then20.thread

if.end11.i:
  store i64 1, ptr %arrayidx.i32.i, align 16
  store i64 1, ptr %arrayidx1.i33.i, align 8
  %add.ptr.i = getelementptr inbounds i8, ptr %call8.i, i64 %31
  %53 = load ptr, ptr %add.ptr.i, align 8
  %54 = load ptr, ptr %type_tuple.i35.i, align 8
  %cmp.not.i.i = icmp eq ptr %53, %54
  br i1 %cmp.not.i.i, label %if.end.i.i, label %if.then.i.i

if.then.i.i:
  %type_int.i.i153 = getelementptr inbounds nuw i8, ptr %30, i64 16
  %55 = load ptr, ptr %type_int.i.i153, align 8
  %cmp.not.i.i154 = icmp eq ptr %53, %55
  br i1 %cmp.not.i.i154, label %read_size.exit163, label %read_size.exit163.thread

read_size.exit163.thread:
  br label %if.end14.i

read_size.exit163:
  %call1.i.i157 = call i64 @PyLong_AsLongLongAndOverflow(ptr %call8.i, ptr %overflow.i.i151)
  store i64 %call1.i.i157, ptr %block, align 16
  %56 = load i32, ptr %overflow.i.i151, align 4
  %tobool.not.i.i158 = icmp eq i32 %56, 0
  %57 = icmp ult i64 %call1.i.i157, 2147483648
  %spec.select.i.i162 = select i1 %tobool.not.i.i158, i1 %57, i1 false
  br i1 %spec.select.i.i162, label %cond.end, label %if.end14.i

if.end.i.i:
  %add.ptr.i30.i.i = getelementptr inbounds i8, ptr %call8.i, i64 %21
  %58 = load i64, ptr %add.ptr.i30.i.i, align 8
  %59 = add i64 %58, -4
  %or.cond.i.i = icmp ult i64 %59, -3
  br i1 %or.cond.i.i, label %if.end14.i, label %for.body.i.i.lr.ph

for.body.i.i.lr.ph:
  %60 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i.i.i = getelementptr inbounds i8, ptr %call8.i, i64 %60
  %type_int.i.i140 = getelementptr inbounds nuw i8, ptr %30, i64 16
  br label %for.body.i.i

for.cond.i.i:
  %inc.i.i = add nuw nsw i64 %n.0.i.i267, 1
  %exitcond281.not = icmp eq i64 %inc.i.i, %58
  br i1 %exitcond281.not, label %cond.end, label %for.body.i.i

for.body.i.i:
  %n.0.i.i267 = phi i64 [ 0, %for.body.i.i.lr.ph ], [ %inc.i.i, %for.cond.i.i ]
  %arrayidx11.i.i = getelementptr inbounds nuw ptr, ptr %add.ptr.i.i.i, i64 %n.0.i.i267
  %61 = load ptr, ptr %arrayidx11.i.i, align 8
  %add.ptr.i.i.i139 = getelementptr inbounds i8, ptr %61, i64 %31
  %62 = load ptr, ptr %add.ptr.i.i.i139, align 8
  %63 = load ptr, ptr %type_int.i.i140, align 8
  %cmp.not.i.i141 = icmp eq ptr %62, %63
  br i1 %cmp.not.i.i141, label %read_size.exit150, label %read_size.exit150.thread

read_size.exit150.thread:
  br label %if.end14.i

read_size.exit150:
  %arrayidx12.i.i = getelementptr inbounds nuw %union.word, ptr %block, i64 %n.0.i.i267
  %call1.i.i144 = call i64 @PyLong_AsLongLongAndOverflow(ptr %61, ptr %overflow.i.i138)
  store i64 %call1.i.i144, ptr %arrayidx12.i.i, align 8
  %64 = load i32, ptr %overflow.i.i138, align 4
  %tobool.not.i.i145 = icmp eq i32 %64, 0
  %65 = icmp ult i64 %call1.i.i144, 2147483648
  %spec.select.i.i149 = select i1 %tobool.not.i.i145, i1 %65, i1 false
  br i1 %spec.select.i.i149, label %for.cond.i.i, label %if.end14.i

if.end14.i:
  %again.i = getelementptr inbounds nuw i8, ptr %30, i64 72
  %66 = load ptr, ptr %again.i, align 8
  %call15.i = call ptr @PyObject_CallOneArg(ptr %66, ptr %call8.i)
  call void @Py_DecRef(ptr %call8.i)
  %tobool16.not.i = icmp eq ptr %call15.i, null
  br i1 %tobool16.not.i, label %cleanup32, label %if.then20

cond.end:
  %answer.0.ph = phi ptr [ %grid, %read_size.exit176 ], [ %call8.i, %for.cond.i.i ], [ %call8.i, %read_size.exit163 ], [ %grid, %for.cond.i43.i ]
  %call12 = call fastcc ptr @find(ptr %kernel, ptr %values, ptr %block)
  %tobool.not = icmp eq ptr %call12, null
  br i1 %tobool.not, label %if.then20, label %cond.true13

cond.true13:
  %67 = load ptr, ptr %kernel, align 8
  %68 = load i64, ptr %block, align 16
  %69 = load i64, ptr %arrayidx1.i33.i, align 8
  %mul.i90 = mul i64 %69, %68
  %70 = load i64, ptr %arrayidx.i32.i, align 16
  %71 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %mul.i90, i64 %70)
  %72 = extractvalue { i64, i1 } %71, 1
  %73 = extractvalue { i64, i1 } %71, 0
  br i1 %72, label %if.then20, label %if.end.i57

if.end.i57:
  %tobool.not.i58 = icmp eq i64 %73, 0
  br i1 %tobool.not.i58, label %if.end22, label %if.end4.i

if.end4.i:
  %cost.i = getelementptr inbounds nuw i8, ptr %call12, i64 16
  %74 = load double, ptr %cost.i, align 8
  %conv.i = uitofp i64 %73 to double
  %mul.i = fmul double %74, %conv.i
  %cmp.i92 = icmp eq i64 %73, 1
  br i1 %cmp.i92, label %threads_for.exit, label %lor.lhs.false.i93

lor.lhs.false.i93:
  %75 = load i64, ptr @serial_below, align 8
  %conv.i94 = sitofp i64 %75 to double
  %cmp2.i = fcmp olt double %mul.i, %conv.i94
  br i1 %cmp2.i, label %threads_for.exit, label %if.end.i95

if.end.i95:
  %threads.i = getelementptr inbounds nuw i8, ptr %call12, i64 24
  %76 = load i64, ptr %threads.i, align 8
  %tobool.not.i96 = icmp eq i64 %76, 0
  br i1 %tobool.not.i96, label %cond.false.i, label %cond.end.i

cond.false.i:
  %77 = load i64, ptr %67, align 8
  br label %cond.end.i

cond.end.i:
  %cond.i97 = phi i64 [ %77, %cond.false.i ], [ %76, %if.end.i95 ]
  %asks.i = getelementptr inbounds nuw i8, ptr %call12, i64 32
  %78 = load ptr, ptr %asks.i, align 8
  %tobool6.not.i98 = icmp eq ptr %78, null
  br i1 %tobool6.not.i98, label %if.end9.i101, label %if.then7.i99

if.then7.i99:
  %call.i = call i32 %78()
  %conv8.i100 = zext i32 %call.i to i64
  br label %if.end9.i101

if.end9.i101:
  %wanted.0.i = phi i64 [ %conv8.i100, %if.then7.i99 ], [ %cond.i97, %cond.end.i ]
  %pool.i102 = getelementptr inbounds nuw i8, ptr %call12, i64 48
  %79 = load ptr, ptr %pool.i102, align 8
  %threads10.i = getelementptr inbounds nuw i8, ptr %79, i64 16
  %80 = load i64, ptr %threads10.i, align 8
  %cond16.i = call i64 @llvm.umin.i64(i64 %wanted.0.i, i64 %80)
  br label %threads_for.exit

threads_for.exit:
  %retval.0.i103 = phi i64 [ %cond16.i, %if.end9.i101 ], [ 1, %lor.lhs.false.i93 ], [ 1, %if.end4.i ]
  %unbounded.i = getelementptr inbounds nuw i8, ptr %call12, i64 40
  %81 = load i64, ptr %unbounded.i, align 8
  %tobool6.not.i = icmp eq i64 %81, 0
  br i1 %tobool6.not.i, label %lor.lhs.false.i, label %land.rhs.i

lor.lhs.false.i:
  %82 = load i64, ptr @polled_above, align 8
  %conv8.i = sitofp i64 %82 to double
  %cmp.i59 = fcmp ogt double %mul.i, %conv8.i
  br i1 %cmp.i59, label %land.rhs.i, label %land.end.i

land.rhs.i:
  %cmp10.i = icmp ne i64 %73, 1
  br label %land.end.i

land.end.i:
  %83 = phi i1 [ false, %lor.lhs.false.i ], [ %cmp10.i, %land.rhs.i ]
  %cmp13.i = icmp ugt i64 %retval.0.i103, 1
  %or.cond.i = select i1 %cmp13.i, i1 true, i1 %83
  br i1 %or.cond.i, label %land.lhs.true.i, label %if.end20.i

land.lhs.true.i:
  %pool.i = getelementptr inbounds nuw i8, ptr %call12, i64 48
  %84 = load ptr, ptr %pool.i, align 8
  %85 = load ptr, ptr %84, align 8
  %tobool18.not.i = icmp eq ptr %85, null
  br i1 %tobool18.not.i, label %if.then20, label %if.end20.i

if.end20.i:
  %scratch.i = getelementptr inbounds nuw i8, ptr %call12, i64 8
  %86 = load i64, ptr %scratch.i, align 8
  %mul21.i = mul i64 %86, %retval.0.i103
  %tobool.not.i104 = icmp eq i64 %mul21.i, 0
  br i1 %tobool.not.i104, label %if.then.i111, label %for.cond.i105.preheader

for.cond.i105.preheader:
  %place.0.ptr.i268 = getelementptr inbounds nuw i8, ptr %67, i64 112
  br label %for.body.i107

if.then.i111:
  %add.ptr.i112 = getelementptr inbounds nuw i8, ptr %67, i64 176
  %.pre282 = load ptr, ptr %add.ptr.i112, align 8
  br label %if.end25.i

for.body.i107:
  %place.0.ptr.i270 = phi ptr [ %place.0.ptr.i268, %for.cond.i105.preheader ], [ %place.0.ptr.i, %for.inc.i ]
  %place.0.idx.i269 = phi i64 [ 112, %for.cond.i105.preheader ], [ %place.0.add.i, %for.inc.i ]
  %bytes.i = getelementptr inbounds nuw i8, ptr %place.0.ptr.i270, i64 8
  %87 = load i64, ptr %bytes.i, align 8
  %cmp1.not.i = icmp ult i64 %87, %mul21.i
  br i1 %cmp1.not.i, label %for.inc.i, label %land.lhs.true.i108

land.lhs.true.i108:
  %88 = load ptr, ptr %place.0.ptr.i270, align 8
  %tobool2.not.i = icmp eq ptr %88, null
  br i1 %tobool2.not.i, label %for.inc.i, label %if.end25.i

for.inc.i:
  %place.0.add.i = add nuw nsw i64 %place.0.idx.i269, 16
  %place.0.ptr.i = getelementptr inbounds nuw i8, ptr %67, i64 %place.0.add.i
  %cmp.i106 = icmp samesign ugt i64 %place.0.idx.i269, 159
  br i1 %cmp.i106, label %if.then20, label %for.body.i107

if.end25.i:
  %89 = phi ptr [ %.pre282, %if.then.i111 ], [ %88, %land.lhs.true.i108 ]
  %retval.1.i110.ph = phi ptr [ %add.ptr.i112, %if.then.i111 ], [ %place.0.ptr.i270, %land.lhs.true.i108 ]
  %arrayidx.i = getelementptr inbounds nuw i8, ptr %block, i64 24
  store ptr %89, ptr %arrayidx.i, align 8
  %arrayidx27.i = getelementptr inbounds nuw i8, ptr %block, i64 32
  store i64 %86, ptr %arrayidx27.i, align 16
  store ptr null, ptr %retval.1.i110.ph, align 8
  br i1 %tobool6.not.i, label %lor.lhs.false32.i, label %if.then36.i

lor.lhs.false32.i:
  %90 = load i64, ptr @long_above, align 8
  %conv33.i = sitofp i64 %90 to double
  %cmp34.i = fcmp ogt double %mul.i, %conv33.i
  br i1 %cmp34.i, label %if.then36.i, label %if.else.i

if.then36.i:
  %call37.i = call ptr @PyEval_SaveThread()
  %91 = load ptr, ptr %call12, align 8
  %or.cond.i121 = or i1 %cmp13.i, %83
  br i1 %or.cond.i121, label %run_programs.exit132, label %run_programs.exit132.thread

run_programs.exit132.thread:
  call void %91(i64 0, i64 %73, i64 0, ptr %block)
  call void @PyEval_RestoreThread(ptr %call37.i)
  br label %98

run_programs.exit132:
  %pool2.i126 = getelementptr inbounds nuw i8, ptr %call12, i64 48
  %92 = load ptr, ptr %pool2.i126, align 8
  %93 = load ptr, ptr %92, align 8
  %state.i127 = getelementptr inbounds nuw i8, ptr %92, i64 8
  %94 = load ptr, ptr %state.i127, align 8
  %least.i128 = getelementptr inbounds nuw i8, ptr %call12, i64 56
  %95 = load i64, ptr %least.i128, align 8
  %group.i129 = getelementptr inbounds nuw i8, ptr %call12, i64 64
  %96 = load i64, ptr %group.i129, align 8
  %conv.i130 = zext i1 %83 to i64
  %call.i131 = call i32 %93(ptr %94, ptr %91, ptr %block, i64 %73, i64 %retval.0.i103, i64 %95, i64 %96, i64 %conv.i130)
  call void @PyEval_RestoreThread(ptr %call37.i)
  %call.i131.fr = freeze i32 %call.i131
  %97 = icmp eq i32 %call.i131.fr, 0
  br i1 %97, label %98, label %if.end41.i

98:
  br label %if.end41.i

if.else.i:
  %99 = load ptr, ptr %call12, align 8
  br i1 %cmp13.i, label %if.then.i118, label %if.end.i115

if.then.i118:
  %pool2.i = getelementptr inbounds nuw i8, ptr %call12, i64 48
  %100 = load ptr, ptr %pool2.i, align 8
  %101 = load ptr, ptr %100, align 8
  %state.i = getelementptr inbounds nuw i8, ptr %100, i64 8
  %102 = load ptr, ptr %state.i, align 8
  %least.i = getelementptr inbounds nuw i8, ptr %call12, i64 56
  %103 = load i64, ptr %least.i, align 8
  %group.i = getelementptr inbounds nuw i8, ptr %call12, i64 64
  %104 = load i64, ptr %group.i, align 8
  %call.i119 = call i32 %101(ptr %102, ptr %99, ptr %block, i64 %73, i64 %retval.0.i103, i64 %103, i64 %104, i64 0)
  br label %if.end41.i

if.end.i115:
  call void %99(i64 0, i64 %73, i64 0, ptr %block)
  br label %if.end41.i

if.end41.i:
  %105 = phi i1 [ false, %run_programs.exit132 ], [ true, %98 ], [ true, %if.then.i118 ], [ true, %if.end.i115 ]
  store ptr %89, ptr %retval.1.i110.ph, align 8
  br label %if.end22

if.then20.thread:
  %call21244 = call fastcc ptr @call_python(ptr %kernel, ptr %grid, ptr %args, i64 %count, ptr %names)
  br label %cleanup32

if.then20:
  %answer.0217226.ph = phi ptr [ %answer.0.ph, %land.lhs.true.i ], [ %answer.0.ph, %cond.true13 ], [ %call15.i, %if.end14.i ], [ %answer.0.ph, %cond.end ], [ %answer.0.ph, %for.inc.i ]
  %call21 = call fastcc ptr @call_python(ptr %kernel, ptr %answer.0217226.ph, ptr %args, i64 %count, ptr %names)
  %cmp.not.i73 = icmp eq ptr %answer.0217226.ph, %grid
  br i1 %cmp.not.i73, label %cleanup32, label %if.then.i74

if.then.i74:
  call void @Py_DecRef(ptr %answer.0217226.ph)
  br label %cleanup32

if.end22:
  %cond18 = phi i1 [ true, %if.end.i57 ], [ %105, %if.end41.i ]
  %cmp.not.i71 = icmp eq ptr %answer.0.ph, %grid
  br i1 %cmp.not.i71, label %forget.exit, label %if.then.i

if.then.i:
  call void @Py_DecRef(ptr %answer.0.ph)
  br label %forget.exit

forget.exit:
  %106 = load ptr, ptr %kernel, align 8
  br i1 %cond18, label %cond.true24, label %cond.false26

cond.true24:
  %none.i = getelementptr inbounds nuw i8, ptr %106, i64 8
  %107 = load ptr, ptr %none.i, align 8
  call void @Py_IncRef(ptr %107)
  br label %cleanup32

cond.false26:
  store ptr null, ptr %trace.i, align 8
  call void @PyErr_Fetch(ptr %type.i, ptr %value.i, ptr %trace.i)
  call void @PyErr_NormalizeException(ptr %type.i, ptr %value.i, ptr %trace.i)
  %stopped.i = getelementptr inbounds nuw i8, ptr %106, i64 96
  %108 = load ptr, ptr %stopped.i, align 8
  %program.i = getelementptr inbounds nuw i8, ptr %call12, i64 72
  %109 = load ptr, ptr %program.i, align 8
  %110 = load ptr, ptr %value.i, align 8
  %call.i186 = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %108, ptr %109, ptr %110, ptr null)
  %111 = load ptr, ptr %type.i, align 8
  call void @Py_DecRef(ptr %111)
  %112 = load ptr, ptr %value.i, align 8
  call void @Py_DecRef(ptr %112)
  %113 = load ptr, ptr %trace.i, align 8
  call void @Py_DecRef(ptr %113)
  br label %cleanup32

cleanup32:
  %retval.2 = phi ptr [ %call2, %if.then ], [ %call.i186, %cond.false26 ], [ %call21, %if.then.i74 ], [ %107, %cond.true24 ], [ null, %if.then6.i70 ], [ %call21, %if.then20 ], [ null, %if.end14.i ], [ %call21244, %if.then20.thread ]
  ret ptr %retval.2
}

define ptr @prepared(ptr %self, ptr %nothing) nounwind {
entry:
  %0 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i13 = getelementptr inbounds i8, ptr %self, i64 %0
  %arrayidx = getelementptr inbounds nuw i8, ptr %add.ptr.i13, i64 24
  %1 = load ptr, ptr %arrayidx, align 8
  %2 = load ptr, ptr %add.ptr.i13, align 8
  %3 = load i64, ptr @object_bytes_content, align 8
  %add.ptr.i = getelementptr inbounds i8, ptr %2, i64 %3
  %4 = load ptr, ptr %add.ptr.i, align 8
  %arrayidx3 = getelementptr inbounds nuw i8, ptr %add.ptr.i13, i64 16
  %5 = load ptr, ptr %arrayidx3, align 8
  %add.ptr.i11 = getelementptr inbounds i8, ptr %1, i64 %0
  %6 = load i64, ptr @object_size, align 8
  %add.ptr.i14 = getelementptr inbounds i8, ptr %1, i64 %6
  %7 = load i64, ptr %add.ptr.i14, align 8
  %call6 = tail call fastcc ptr @go(ptr %4, ptr %5, ptr %add.ptr.i11, i64 %7, ptr null)
  ret ptr %call6
}

define ptr @direct(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %type.i = alloca ptr, align 8
  %value.i = alloca ptr, align 8
  %trace.i = alloca ptr, align 8
  %mode.i = alloca ptr, align 8
  %block = alloca [512 x %union.word], align 16
  %0 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i37 = getelementptr inbounds i8, ptr %self, i64 %0
  %1 = load ptr, ptr %add.ptr.i37, align 8
  %2 = load i64, ptr @object_bytes_content, align 8
  %add.ptr.i = getelementptr inbounds i8, ptr %1, i64 %2
  %3 = load ptr, ptr %add.ptr.i, align 8
  %4 = load ptr, ptr %3, align 8
  %arity = getelementptr inbounds nuw i8, ptr %3, i64 8
  %5 = load i64, ptr %arity, align 8
  %cmp = icmp eq i64 %count, %5
  br i1 %cmp, label %land.rhs, label %if.then

land.rhs:
  %before.i = getelementptr inbounds nuw i8, ptr %3, i64 40
  %6 = load ptr, ptr %before.i, align 8
  %7 = load i64, ptr @object_size, align 8
  %add.ptr.i14.i = getelementptr inbounds i8, ptr %6, i64 %7
  %8 = load i64, ptr %add.ptr.i14.i, align 8
  %after.i = getelementptr inbounds nuw i8, ptr %3, i64 48
  %9 = load ptr, ptr %after.i, align 8
  %add.ptr.i.i = getelementptr inbounds i8, ptr %9, i64 %7
  %10 = load i64, ptr %add.ptr.i.i, align 8
  %or.i = or i64 %10, %8
  %tobool.not.i = icmp eq i64 %or.i, 0
  br i1 %tobool.not.i, label %if.end.i, label %is_elsewhere.exit.thread

if.end.i:
  %mode3.i = getelementptr inbounds nuw i8, ptr %4, i64 56
  %11 = load ptr, ptr %mode3.i, align 8
  %plain.i = getelementptr inbounds nuw i8, ptr %4, i64 64
  %12 = load ptr, ptr %plain.i, align 8
  %call4.i = call i32 @PyContextVar_Get(ptr %11, ptr %12, ptr %mode.i)
  %tobool5.not.i = icmp eq i32 %call4.i, 0
  br i1 %tobool5.not.i, label %is_elsewhere.exit, label %if.then6.i

if.then6.i:
  call void @PyErr_Clear()
  br label %is_elsewhere.exit.thread

is_elsewhere.exit.thread:
  br label %if.then

is_elsewhere.exit:
  %13 = load ptr, ptr %mode.i, align 8
  call void @Py_DecRef(ptr %13)
  %14 = load ptr, ptr %mode.i, align 8
  %15 = load ptr, ptr %plain.i, align 8
  %cmp.i.not = icmp eq ptr %14, %15
  br i1 %cmp.i.not, label %cond.end, label %if.then

cond.end:
  %call4 = call fastcc ptr @find(ptr %3, ptr %args, ptr %block)
  %tobool.not = icmp eq ptr %call4, null
  br i1 %tobool.not, label %if.then, label %cond.true5

cond.true5:
  %16 = load ptr, ptr %3, align 8
  %17 = load i64, ptr %block, align 16
  %arrayidx1.i = getelementptr inbounds nuw i8, ptr %block, i64 8
  %18 = load i64, ptr %arrayidx1.i, align 8
  %mul.i41 = mul i64 %18, %17
  %arrayidx2.i = getelementptr inbounds nuw i8, ptr %block, i64 16
  %19 = load i64, ptr %arrayidx2.i, align 16
  %20 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %mul.i41, i64 %19)
  %21 = extractvalue { i64, i1 } %20, 1
  %22 = extractvalue { i64, i1 } %20, 0
  br i1 %21, label %if.then, label %if.end.i38

if.end.i38:
  %tobool.not.i39 = icmp eq i64 %22, 0
  br i1 %tobool.not.i39, label %cond.true14, label %if.end4.i

if.end4.i:
  %cost.i = getelementptr inbounds nuw i8, ptr %call4, i64 16
  %23 = load double, ptr %cost.i, align 8
  %conv.i = uitofp i64 %22 to double
  %mul.i = fmul double %23, %conv.i
  %cmp.i42 = icmp eq i64 %22, 1
  br i1 %cmp.i42, label %threads_for.exit, label %lor.lhs.false.i43

lor.lhs.false.i43:
  %24 = load i64, ptr @serial_below, align 8
  %conv.i44 = sitofp i64 %24 to double
  %cmp2.i = fcmp olt double %mul.i, %conv.i44
  br i1 %cmp2.i, label %threads_for.exit, label %if.end.i45

if.end.i45:
  %threads.i = getelementptr inbounds nuw i8, ptr %call4, i64 24
  %25 = load i64, ptr %threads.i, align 8
  %tobool.not.i46 = icmp eq i64 %25, 0
  br i1 %tobool.not.i46, label %cond.false.i, label %cond.end.i

cond.false.i:
  %26 = load i64, ptr %16, align 8
  br label %cond.end.i

cond.end.i:
  %cond.i = phi i64 [ %26, %cond.false.i ], [ %25, %if.end.i45 ]
  %asks.i = getelementptr inbounds nuw i8, ptr %call4, i64 32
  %27 = load ptr, ptr %asks.i, align 8
  %tobool6.not.i47 = icmp eq ptr %27, null
  br i1 %tobool6.not.i47, label %if.end9.i, label %if.then7.i

if.then7.i:
  %call.i = call i32 %27()
  %conv8.i48 = zext i32 %call.i to i64
  br label %if.end9.i

if.end9.i:
  %wanted.0.i = phi i64 [ %conv8.i48, %if.then7.i ], [ %cond.i, %cond.end.i ]
  %pool.i49 = getelementptr inbounds nuw i8, ptr %call4, i64 48
  %28 = load ptr, ptr %pool.i49, align 8
  %threads10.i = getelementptr inbounds nuw i8, ptr %28, i64 16
  %29 = load i64, ptr %threads10.i, align 8
  %cond16.i = call i64 @llvm.umin.i64(i64 %wanted.0.i, i64 %29)
  br label %threads_for.exit

threads_for.exit:
  %retval.0.i50 = phi i64 [ %cond16.i, %if.end9.i ], [ 1, %lor.lhs.false.i43 ], [ 1, %if.end4.i ]
  %unbounded.i = getelementptr inbounds nuw i8, ptr %call4, i64 40
  %30 = load i64, ptr %unbounded.i, align 8
  %tobool6.not.i = icmp eq i64 %30, 0
  br i1 %tobool6.not.i, label %lor.lhs.false.i, label %land.rhs.i

lor.lhs.false.i:
  %31 = load i64, ptr @polled_above, align 8
  %conv8.i = sitofp i64 %31 to double
  %cmp.i40 = fcmp ogt double %mul.i, %conv8.i
  br i1 %cmp.i40, label %land.rhs.i, label %land.end.i

land.rhs.i:
  %cmp10.i = icmp ne i64 %22, 1
  br label %land.end.i

land.end.i:
  %32 = phi i1 [ false, %lor.lhs.false.i ], [ %cmp10.i, %land.rhs.i ]
  %cmp13.i = icmp ugt i64 %retval.0.i50, 1
  %or.cond.i = select i1 %cmp13.i, i1 true, i1 %32
  br i1 %or.cond.i, label %land.lhs.true.i, label %if.end20.i

land.lhs.true.i:
  %pool.i = getelementptr inbounds nuw i8, ptr %call4, i64 48
  %33 = load ptr, ptr %pool.i, align 8
  %34 = load ptr, ptr %33, align 8
  %tobool18.not.i = icmp eq ptr %34, null
  br i1 %tobool18.not.i, label %if.then, label %if.end20.i

if.end20.i:
  %scratch.i = getelementptr inbounds nuw i8, ptr %call4, i64 8
  %35 = load i64, ptr %scratch.i, align 8
  %mul21.i = mul i64 %35, %retval.0.i50
  %tobool.not.i51 = icmp eq i64 %mul21.i, 0
  br i1 %tobool.not.i51, label %if.then.i, label %for.cond.i.preheader

for.cond.i.preheader:
  %place.0.ptr.i101 = getelementptr inbounds nuw i8, ptr %16, i64 112
  br label %for.body.i

if.then.i:
  %add.ptr.i54 = getelementptr inbounds nuw i8, ptr %16, i64 176
  %.pre = load ptr, ptr %add.ptr.i54, align 8
  br label %if.end25.i

for.body.i:
  %place.0.ptr.i103 = phi ptr [ %place.0.ptr.i101, %for.cond.i.preheader ], [ %place.0.ptr.i, %for.inc.i ]
  %place.0.idx.i102 = phi i64 [ 112, %for.cond.i.preheader ], [ %place.0.add.i, %for.inc.i ]
  %bytes.i = getelementptr inbounds nuw i8, ptr %place.0.ptr.i103, i64 8
  %36 = load i64, ptr %bytes.i, align 8
  %cmp1.not.i = icmp ult i64 %36, %mul21.i
  br i1 %cmp1.not.i, label %for.inc.i, label %land.lhs.true.i53

land.lhs.true.i53:
  %37 = load ptr, ptr %place.0.ptr.i103, align 8
  %tobool2.not.i = icmp eq ptr %37, null
  br i1 %tobool2.not.i, label %for.inc.i, label %if.end25.i

for.inc.i:
  %place.0.add.i = add nuw nsw i64 %place.0.idx.i102, 16
  %place.0.ptr.i = getelementptr inbounds nuw i8, ptr %16, i64 %place.0.add.i
  %cmp.i52 = icmp samesign ugt i64 %place.0.idx.i102, 159
  br i1 %cmp.i52, label %if.then, label %for.body.i

if.end25.i:
  %38 = phi ptr [ %.pre, %if.then.i ], [ %37, %land.lhs.true.i53 ]
  %retval.1.i.ph = phi ptr [ %add.ptr.i54, %if.then.i ], [ %place.0.ptr.i103, %land.lhs.true.i53 ]
  %arrayidx.i = getelementptr inbounds nuw i8, ptr %block, i64 24
  store ptr %38, ptr %arrayidx.i, align 8
  %arrayidx27.i = getelementptr inbounds nuw i8, ptr %block, i64 32
  store i64 %35, ptr %arrayidx27.i, align 16
  store ptr null, ptr %retval.1.i.ph, align 8
  br i1 %tobool6.not.i, label %lor.lhs.false32.i, label %if.then36.i

lor.lhs.false32.i:
  %39 = load i64, ptr @long_above, align 8
  %conv33.i = sitofp i64 %39 to double
  %cmp34.i = fcmp ogt double %mul.i, %conv33.i
  br i1 %cmp34.i, label %if.then36.i, label %if.else.i

if.then36.i:
  %call37.i = call ptr @PyEval_SaveThread()
  %40 = load ptr, ptr %call4, align 8
  %or.cond.i63 = or i1 %cmp13.i, %32
  br i1 %or.cond.i63, label %run_programs.exit74, label %run_programs.exit74.thread

run_programs.exit74.thread:
  call void %40(i64 0, i64 %22, i64 0, ptr %block)
  call void @PyEval_RestoreThread(ptr %call37.i)
  br label %cond.end9.thread97

run_programs.exit74:
  %pool2.i68 = getelementptr inbounds nuw i8, ptr %call4, i64 48
  %41 = load ptr, ptr %pool2.i68, align 8
  %42 = load ptr, ptr %41, align 8
  %state.i69 = getelementptr inbounds nuw i8, ptr %41, i64 8
  %43 = load ptr, ptr %state.i69, align 8
  %least.i70 = getelementptr inbounds nuw i8, ptr %call4, i64 56
  %44 = load i64, ptr %least.i70, align 8
  %group.i71 = getelementptr inbounds nuw i8, ptr %call4, i64 64
  %45 = load i64, ptr %group.i71, align 8
  %conv.i72 = zext i1 %32 to i64
  %call.i73 = call i32 %42(ptr %43, ptr %40, ptr %block, i64 %22, i64 %retval.0.i50, i64 %44, i64 %45, i64 %conv.i72)
  call void @PyEval_RestoreThread(ptr %call37.i)
  %call.i73.fr = freeze i32 %call.i73
  %46 = icmp eq i32 %call.i73.fr, 0
  br i1 %46, label %cond.end9.thread97, label %cond.false16

if.else.i:
  %47 = load ptr, ptr %call4, align 8
  br i1 %cmp13.i, label %if.then.i60, label %if.end.i57

if.then.i60:
  %pool2.i = getelementptr inbounds nuw i8, ptr %call4, i64 48
  %48 = load ptr, ptr %pool2.i, align 8
  %49 = load ptr, ptr %48, align 8
  %state.i = getelementptr inbounds nuw i8, ptr %48, i64 8
  %50 = load ptr, ptr %state.i, align 8
  %least.i = getelementptr inbounds nuw i8, ptr %call4, i64 56
  %51 = load i64, ptr %least.i, align 8
  %group.i = getelementptr inbounds nuw i8, ptr %call4, i64 64
  %52 = load i64, ptr %group.i, align 8
  %call.i61 = call i32 %49(ptr %50, ptr %47, ptr %block, i64 %22, i64 %retval.0.i50, i64 %51, i64 %52, i64 0)
  br label %cond.end9.thread97

if.end.i57:
  call void %47(i64 0, i64 %22, i64 0, ptr %block)
  br label %cond.end9.thread97

cond.end9.thread97:
  store ptr %38, ptr %retval.1.i.ph, align 8
  br label %cond.true14

if.then:
  %none = getelementptr inbounds nuw i8, ptr %4, i64 8
  %53 = load ptr, ptr %none, align 8
  %call12 = call fastcc ptr @call_python(ptr %3, ptr %53, ptr %args, i64 %count, ptr null)
  br label %cleanup

cond.true14:
  %none.i = getelementptr inbounds nuw i8, ptr %4, i64 8
  %54 = load ptr, ptr %none.i, align 8
  call void @Py_IncRef(ptr %54)
  br label %cleanup

cond.false16:
  store ptr %38, ptr %retval.1.i.ph, align 8
  %55 = load ptr, ptr %3, align 8
  store ptr null, ptr %trace.i, align 8
  call void @PyErr_Fetch(ptr %type.i, ptr %value.i, ptr %trace.i)
  call void @PyErr_NormalizeException(ptr %type.i, ptr %value.i, ptr %trace.i)
  %stopped.i = getelementptr inbounds nuw i8, ptr %55, i64 96
  %56 = load ptr, ptr %stopped.i, align 8
  %program.i = getelementptr inbounds nuw i8, ptr %call4, i64 72
  %57 = load ptr, ptr %program.i, align 8
  %58 = load ptr, ptr %value.i, align 8
  %call.i75 = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %56, ptr %57, ptr %58, ptr null)
  %59 = load ptr, ptr %type.i, align 8
  call void @Py_DecRef(ptr %59)
  %60 = load ptr, ptr %value.i, align 8
  call void @Py_DecRef(ptr %60)
  %61 = load ptr, ptr %trace.i, align 8
  call void @Py_DecRef(ptr %61)
  br label %cleanup

cleanup:
  %retval.0 = phi ptr [ %call12, %if.then ], [ %54, %cond.true14 ], [ %call.i75, %cond.false16 ]
  ret ptr %retval.0
}

define internal fastcc ptr @find(ptr %kernel, ptr %values, ptr %block) noinline nounwind {
entry:
  %t.i = alloca %struct.tensor, align 8
  %overflow.i = alloca i32, align 4
  %views = alloca [96 x %struct.view], align 16
  %table1 = getelementptr inbounds nuw i8, ptr %kernel, i64 64
  %0 = load ptr, ptr %table1, align 8
  %entries = getelementptr inbounds nuw i8, ptr %kernel, i64 56
  %1 = load i64, ptr %entries, align 8
  %cmp.not110 = icmp sgt i64 %1, 0
  br i1 %cmp.not110, label %for.body.lr.ph, label %cleanup

for.body.lr.ph:
  %2 = load i64, ptr @object_type, align 8
  %device.i = getelementptr inbounds nuw i8, ptr %t.i, i64 8
  %axes1.i = getelementptr inbounds nuw i8, ptr %t.i, i64 16
  %kind5.i = getelementptr inbounds nuw i8, ptr %t.i, i64 20
  %strides.i80 = getelementptr inbounds nuw i8, ptr %t.i, i64 32
  %offset.i = getelementptr inbounds nuw i8, ptr %t.i, i64 40
  %sizes.i83 = getelementptr inbounds nuw i8, ptr %t.i, i64 24
  %3 = load i64, ptr @array_dtype, align 8
  %4 = load i64, ptr @array_axes, align 8
  %5 = load i64, ptr @array_flags, align 8
  %6 = load i64, ptr @array_data, align 8
  %7 = load i64, ptr @array_sizes, align 8
  %8 = load i64, ptr @array_strides, align 8
  br label %for.body

for.body:
  %n.0111 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.inc ]
  %9 = load ptr, ptr %kernel, align 8
  %arrayidx = getelementptr inbounds nuw ptr, ptr %0, i64 %n.0111
  %10 = load ptr, ptr %arrayidx, align 8
  %steps.i = getelementptr inbounds nuw i8, ptr %10, i64 80
  %type_float.i39 = getelementptr inbounds nuw i8, ptr %9, i64 24
  %type_bool.i = getelementptr inbounds nuw i8, ptr %9, i64 32
  %type_int.i = getelementptr inbounds nuw i8, ptr %9, i64 16
  br label %for.cond.i

for.cond.i:
  %step.0.i = phi ptr [ %steps.i, %for.body ], [ %incdec.ptr.i, %for.inc.i ]
  %have_met.0.i = phi i8 [ 0, %for.body ], [ %have_met.1.i, %for.inc.i ]
  %a2.i = getelementptr inbounds nuw i8, ptr %step.0.i, i64 16
  %11 = load i64, ptr %a2.i, align 8
  %b3.i = getelementptr inbounds nuw i8, ptr %step.0.i, i64 24
  %12 = load i64, ptr %b3.i, align 8
  %c4.i = getelementptr inbounds nuw i8, ptr %step.0.i, i64 32
  %13 = load i64, ptr %c4.i, align 8
  %d5.i = getelementptr inbounds nuw i8, ptr %step.0.i, i64 40
  %14 = load i64, ptr %d5.i, align 8
  %parameter.i = getelementptr inbounds nuw i8, ptr %step.0.i, i64 8
  %15 = load i64, ptr %parameter.i, align 8
  %arrayidx.i = getelementptr inbounds ptr, ptr %values, i64 %15
  %16 = load ptr, ptr %arrayidx.i, align 8
  %add.ptr.i = getelementptr inbounds %struct.view, ptr %views, i64 %15
  %17 = load i64, ptr %step.0.i, align 8
  switch i64 %17, label %for.inc [
    i64 0, label %if.then
    i64 1, label %sw.bb7.i
    i64 2, label %sw.bb8.i
    i64 3, label %sw.bb13.i
    i64 10, label %sw.bb20.i
    i64 4, label %sw.bb27.i
    i64 5, label %for.cond.i14.preheader
    i64 6, label %sw.bb37.i
    i64 7, label %sw.bb42.i
    i64 8, label %sw.bb46.i
    i64 9, label %sw.bb52.i
    i64 11, label %sw.bb54.i
    i64 12, label %sw.bb59.i
    i64 13, label %sw.bb64.i
    i64 14, label %sw.bb69.i
    i64 15, label %sw.bb78.i
    i64 16, label %sw.bb83.i
    i64 17, label %sw.bb88.i
    i64 18, label %sw.bb97.i
    i64 19, label %sw.bb101.i
    i64 20, label %sw.bb105.i
    i64 21, label %sw.bb107.i
    i64 22, label %sw.bb109.i
    i64 23, label %sw.bb113.i
    i64 24, label %sw.bb116.i
    i64 25, label %sw.bb122.i
  ]

for.cond.i14.preheader:
  %cmp.i1595 = icmp sgt i64 %11, 0
  br i1 %cmp.i1595, label %for.body.i.lr.ph, label %for.inc.i

for.body.i.lr.ph:
  %sizes.i16 = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 8
  %18 = load ptr, ptr %sizes.i16, align 8
  %strides.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 16
  %19 = load ptr, ptr %strides.i, align 16
  br label %for.body.i

sw.bb7.i:
  %20 = ptrtoint ptr %16 to i64
  %cmp.i = icmp eq i64 %11, %20
  br i1 %cmp.i, label %for.inc.i, label %for.inc

sw.bb8.i:
  %add.ptr.i232.i = getelementptr inbounds i8, ptr %16, i64 %2
  %21 = load ptr, ptr %add.ptr.i232.i, align 8
  %22 = ptrtoint ptr %21 to i64
  %cmp9.i = icmp eq i64 %11, %22
  br i1 %cmp9.i, label %land.lhs.true.i, label %for.inc

land.lhs.true.i:
  %23 = inttoptr i64 %12 to ptr
  %add.ptr.i11 = getelementptr inbounds i8, ptr %16, i64 %3
  %24 = load ptr, ptr %add.ptr.i11, align 8
  %cmp.not.i = icmp eq ptr %24, %23
  br i1 %cmp.not.i, label %lor.lhs.false.i13, label %for.inc

lor.lhs.false.i13:
  %add.ptr1.i = getelementptr inbounds i8, ptr %16, i64 %4
  %25 = load i32, ptr %add.ptr1.i, align 4
  %conv.i = sext i32 %25 to i64
  %cmp2.not.i = icmp eq i64 %13, %conv.i
  br i1 %cmp2.not.i, label %if.end.i, label %for.inc

if.end.i:
  %add.ptr4.i = getelementptr inbounds i8, ptr %16, i64 %5
  %26 = load i32, ptr %add.ptr4.i, align 4
  %conv5.i = trunc i64 %14 to i32
  %and.i = and i32 %26, %conv5.i
  %cmp7.not.i = icmp eq i32 %and.i, %conv5.i
  br i1 %cmp7.not.i, label %if.end10.i, label %for.inc

if.end10.i:
  %add.ptr11.i = getelementptr inbounds i8, ptr %16, i64 %6
  %27 = load ptr, ptr %add.ptr11.i, align 8
  %add.ptr12.i = getelementptr inbounds i8, ptr %16, i64 %7
  %28 = load ptr, ptr %add.ptr12.i, align 8
  %add.ptr13.i = getelementptr inbounds i8, ptr %16, i64 %8
  %29 = load ptr, ptr %add.ptr13.i, align 8
  %shr.i = ashr i64 %14, 32
  %30 = ptrtoint ptr %27 to i64
  %cmp.i64100 = icmp sgt i64 %13, 0
  br i1 %cmp.i64100, label %for.body.i66, label %.thread

.thread:
  %shl27.i125 = shl nuw i64 1, %shr.i
  %add28.i126 = add i64 %shl27.i125, %30
  br label %34

for.body.i66:
  %low.0.i105 = phi i64 [ %add.i, %for.body.i66 ], [ %30, %if.end10.i ]
  %high.0.i104 = phi i64 [ %add16.i, %for.body.i66 ], [ %30, %if.end10.i ]
  %all.0.i103 = phi i64 [ %or.i, %for.body.i66 ], [ 0, %if.end10.i ]
  %is_empty.0.i63102 = phi i1 [ %or764.i, %for.body.i66 ], [ false, %if.end10.i ]
  %n.0.i62101 = phi i64 [ %inc.i70, %for.body.i66 ], [ 0, %if.end10.i ]
  %arrayidx.i67 = getelementptr inbounds nuw i64, ptr %28, i64 %n.0.i62101
  %31 = load i64, ptr %arrayidx.i67, align 8
  %.fr = freeze i64 %31
  %sub.i = add i64 %.fr, -1
  %arrayidx1.i = getelementptr inbounds nuw i64, ptr %29, i64 %n.0.i62101
  %32 = load i64, ptr %arrayidx1.i, align 8
  %mul.i = mul i64 %sub.i, %32
  %or.i = or i64 %32, %all.0.i103
  %cmp5.i68 = icmp eq i64 %.fr, 0
  %or764.i = or i1 %is_empty.0.i63102, %cmp5.i68
  %cond.i69 = call i64 @llvm.smin.i64(i64 %mul.i, i64 0)
  %add.i = add i64 %cond.i69, %low.0.i105
  %cond15.i = call i64 @llvm.smax.i64(i64 %mul.i, i64 0)
  %add16.i = add i64 %cond15.i, %high.0.i104
  %inc.i70 = add nuw nsw i64 %n.0.i62101, 1
  %exitcond115.not = icmp eq i64 %inc.i70, %13
  br i1 %exitcond115.not, label %is_numpy.exit, label %for.body.i66

is_numpy.exit:
  br i1 %or764.i, label %34, label %33

33:
  %shl27.i = shl nuw i64 1, %shr.i
  %add28.i = add i64 %add16.i, %shl27.i
  br label %34

34:
  %35 = phi i64 [ %30, %.thread ], [ %add.i, %33 ], [ %30, %is_numpy.exit ]
  %all.0.i.lcssa129136 = phi i64 [ 0, %.thread ], [ %or.i, %33 ], [ %or.i, %is_numpy.exit ]
  %36 = phi i64 [ %add28.i126, %.thread ], [ %add28.i, %33 ], [ %30, %is_numpy.exit ]
  store ptr %27, ptr %add.ptr.i, align 16
  %.compoundliteral.sroa.2.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 8
  store ptr %28, ptr %.compoundliteral.sroa.2.0..sroa_idx.i, align 8
  %.compoundliteral.sroa.3.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 16
  store ptr %29, ptr %.compoundliteral.sroa.3.0..sroa_idx.i, align 16
  %.compoundliteral.sroa.4.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 24
  store i64 %shr.i, ptr %.compoundliteral.sroa.4.0..sroa_idx.i, align 8
  %.compoundliteral.sroa.5.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 32
  store i64 %35, ptr %.compoundliteral.sroa.5.0..sroa_idx.i, align 16
  %.compoundliteral.sroa.6.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 40
  store i64 %36, ptr %.compoundliteral.sroa.6.0..sroa_idx.i, align 8
  %notmask.i = shl nsw i64 -1, %shr.i
  %sub38.i = xor i64 %notmask.i, -1
  %and.i65 = and i64 %all.0.i.lcssa129136, %sub38.i
  %tobool39.not.i = icmp eq i64 %and.i65, 0
  br i1 %tobool39.not.i, label %for.inc.i, label %for.inc

sw.bb13.i:
  %add.ptr.i231.i = getelementptr inbounds i8, ptr %16, i64 %2
  %37 = load ptr, ptr %add.ptr.i231.i, align 8
  %38 = ptrtoint ptr %37 to i64
  %cmp15.i = icmp eq i64 %11, %38
  br i1 %cmp15.i, label %land.lhs.true16.i, label %for.inc

land.lhs.true16.i:
  %39 = inttoptr i64 %14 to ptr
  %call.i = call i32 %39(ptr %16, ptr %t.i)
  %tobool.not.i71 = icmp eq i32 %call.i, 0
  br i1 %tobool.not.i71, label %if.end.i75, label %if.then.i72

if.then.i72:
  call void @PyErr_Clear()
  br label %is_tensor.exit.thread

if.end.i75:
  %40 = load i32, ptr %device.i, align 8
  %cmp.not.i76 = icmp eq i32 %40, 1
  %41 = load i32, ptr %axes1.i, align 8
  %conv.i77 = sext i32 %41 to i64
  %cmp2.not.i78 = icmp eq i64 %12, %conv.i77
  %or.cond24.i = select i1 %cmp.not.i76, i1 %cmp2.not.i78, i1 false
  %42 = load i32, ptr %kind5.i, align 4
  %conv6.i = trunc i64 %13 to i32
  %cmp7.not.i79 = icmp eq i32 %42, %conv6.i
  %or.cond25.i = select i1 %or.cond24.i, i1 %cmp7.not.i79, i1 false
  br i1 %or.cond25.i, label %lor.lhs.false9.i, label %is_tensor.exit.thread

lor.lhs.false9.i:
  %tobool10.i = icmp eq i64 %12, 0
  %43 = load ptr, ptr %strides.i80, align 8
  %tobool11.i = icmp ne ptr %43, null
  %or.cond.i81 = select i1 %tobool10.i, i1 true, i1 %tobool11.i
  br i1 %or.cond.i81, label %if.end13.i, label %is_tensor.exit.thread

if.end13.i:
  %44 = load ptr, ptr %t.i, align 8
  %45 = load i64, ptr %offset.i, align 8
  %add.ptr.i82 = getelementptr inbounds i8, ptr %44, i64 %45
  %46 = load ptr, ptr %sizes.i83, align 8
  %shr.i84 = ashr i64 %13, 32
  %47 = ptrtoint ptr %add.ptr.i82 to i64
  %cmp.i27.i = icmp sgt i64 %12, 0
  br i1 %cmp.i27.i, label %for.body.i.i, label %.thread.i

.thread.i:
  %shl27.i37.i = shl nuw i64 1, %shr.i84
  %add28.i38.i = add i64 %shl27.i37.i, %47
  br label %is_tensor.exit

for.body.i.i:
  %low.0.i31.i = phi i64 [ %add.i.i, %for.body.i.i ], [ %47, %if.end13.i ]
  %high.0.i30.i = phi i64 [ %add16.i.i, %for.body.i.i ], [ %47, %if.end13.i ]
  %is_empty.0.i29.i = phi i1 [ %or764.i.i, %for.body.i.i ], [ false, %if.end13.i ]
  %n.0.i28.i = phi i64 [ %inc.i.i, %for.body.i.i ], [ 0, %if.end13.i ]
  %arrayidx.i.i = getelementptr inbounds nuw i64, ptr %46, i64 %n.0.i28.i
  %48 = load i64, ptr %arrayidx.i.i, align 8
  %.fr.i = freeze i64 %48
  %sub.i.i = add i64 %.fr.i, -1
  %arrayidx1.i.i = getelementptr inbounds nuw i64, ptr %43, i64 %n.0.i28.i
  %49 = load i64, ptr %arrayidx1.i.i, align 8
  %shl.i.i = shl i64 %49, %shr.i84
  %mul.i.i = mul i64 %shl.i.i, %sub.i.i
  %cmp5.i.i = icmp eq i64 %.fr.i, 0
  %or764.i.i = or i1 %is_empty.0.i29.i, %cmp5.i.i
  %cond.i.i = call i64 @llvm.smin.i64(i64 %mul.i.i, i64 0)
  %add.i.i = add i64 %cond.i.i, %low.0.i31.i
  %cond15.i.i = call i64 @llvm.smax.i64(i64 %mul.i.i, i64 0)
  %add16.i.i = add i64 %cond15.i.i, %high.0.i30.i
  %inc.i.i = add nuw nsw i64 %n.0.i28.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i.i, %12
  br i1 %exitcond.not.i, label %land.rhs.i85, label %for.body.i.i

land.rhs.i85:
  br i1 %or764.i.i, label %is_tensor.exit, label %50

50:
  %shl27.i.i = shl nuw i64 1, %shr.i84
  %add28.i.i = add i64 %add16.i.i, %shl27.i.i
  br label %is_tensor.exit

is_tensor.exit.thread:
  br label %for.inc

is_tensor.exit:
  %51 = phi i64 [ %47, %.thread.i ], [ %add.i.i, %50 ], [ %47, %land.rhs.i85 ]
  %52 = phi i64 [ %add28.i38.i, %.thread.i ], [ %add28.i.i, %50 ], [ %47, %land.rhs.i85 ]
  store ptr %add.ptr.i82, ptr %add.ptr.i, align 16
  %.compoundliteral.sroa.2.0..sroa_idx.i.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 8
  store ptr %46, ptr %.compoundliteral.sroa.2.0..sroa_idx.i.i, align 8
  %.compoundliteral.sroa.3.0..sroa_idx.i.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 16
  store ptr %43, ptr %.compoundliteral.sroa.3.0..sroa_idx.i.i, align 16
  %.compoundliteral.sroa.4.0..sroa_idx.i.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 24
  store i64 0, ptr %.compoundliteral.sroa.4.0..sroa_idx.i.i, align 8
  %.compoundliteral.sroa.5.0..sroa_idx.i.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 32
  store i64 %51, ptr %.compoundliteral.sroa.5.0..sroa_idx.i.i, align 16
  %.compoundliteral.sroa.6.0..sroa_idx.i.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 40
  store i64 %52, ptr %.compoundliteral.sroa.6.0..sroa_idx.i.i, align 8
  %cmp.i26.i = icmp eq i64 %51, %52
  %tobool.i.i = icmp ne ptr %44, null
  %53 = or i1 %tobool.i.i, %cmp.i26.i
  br i1 %53, label %for.inc.i, label %for.inc

sw.bb20.i:
  %add.ptr.i230.i = getelementptr inbounds i8, ptr %16, i64 %2
  %54 = load ptr, ptr %add.ptr.i230.i, align 8
  %55 = ptrtoint ptr %54 to i64
  %cmp22.i = icmp eq i64 %11, %55
  br i1 %cmp22.i, label %land.lhs.true23.i, label %for.inc

land.lhs.true23.i:
  %56 = inttoptr i64 %14 to ptr
  %call24.i = call fastcc i1 @is_plain(ptr %16, ptr %add.ptr.i, i64 %12, i64 %13, ptr %56)
  br i1 %call24.i, label %for.inc.i, label %for.inc

sw.bb27.i:
  %add.ptr28.i = getelementptr inbounds i8, ptr %16, i64 %11
  %57 = load ptr, ptr %add.ptr28.i, align 8
  %add.ptr29.i = getelementptr inbounds i8, ptr %57, i64 %12
  %58 = load i64, ptr %add.ptr29.i, align 8
  %cmp30.i = icmp eq i64 %58, %13
  br i1 %cmp30.i, label %for.inc.i, label %for.inc

for.body.i:
  %n.0.i98 = phi i64 [ 0, %for.body.i.lr.ph ], [ %inc.i, %for.body.i ]
  %is_repeated.0.i97 = phi i1 [ false, %for.body.i.lr.ph ], [ %or12.i94, %for.body.i ]
  %is_empty.0.i96 = phi i1 [ false, %for.body.i.lr.ph ], [ %or26.i, %for.body.i ]
  %arrayidx.i17 = getelementptr inbounds nuw i64, ptr %18, i64 %n.0.i98
  %59 = load i64, ptr %arrayidx.i17, align 8
  %cmp1.i = icmp eq i64 %59, 0
  %or26.i = or i1 %is_empty.0.i96, %cmp1.i
  %arrayidx3.i = getelementptr inbounds nuw i64, ptr %19, i64 %n.0.i98
  %60 = load i64, ptr %arrayidx3.i, align 8
  %cmp4.i = icmp eq i64 %60, 0
  %cmp8.i = icmp ugt i64 %59, 1
  %narrow = select i1 %cmp4.i, i1 %cmp8.i, i1 false
  %or12.i94 = or i1 %is_repeated.0.i97, %narrow
  %inc.i = add nuw nsw i64 %n.0.i98, 1
  %exitcond.not = icmp eq i64 %inc.i, %11
  br i1 %exitcond.not, label %is_distinct.exit, label %for.body.i

is_distinct.exit:
  %61 = xor i1 %or12.i94, true
  %62 = select i1 %or26.i, i1 true, i1 %61
  br i1 %62, label %for.inc.i, label %for.inc

sw.bb37.i:
  %63 = inttoptr i64 %11 to ptr
  %call38.i = call i64 %63()
  %cmp39.i = icmp eq i64 %call38.i, 0
  br i1 %cmp39.i, label %for.inc.i, label %for.inc

sw.bb42.i:
  %64 = inttoptr i64 %11 to ptr
  %call43.i = call i1 %64()
  br i1 %call43.i, label %for.inc, label %for.inc.i

sw.bb46.i:
  %65 = inttoptr i64 %12 to ptr
  %add.ptr47.i = getelementptr inbounds i8, ptr %16, i64 %11
  %66 = load ptr, ptr %add.ptr47.i, align 8
  %call48.i = call i1 %65(ptr %66)
  br i1 %call48.i, label %lor.lhs.false.i, label %for.inc.i

lor.lhs.false.i:
  %67 = inttoptr i64 %13 to ptr
  %call49.i = call i1 %67()
  br i1 %call49.i, label %for.inc, label %for.inc.i

sw.bb52.i:
  %add.ptr53.i = getelementptr inbounds i8, ptr %16, i64 %11
  %68 = load ptr, ptr %add.ptr53.i, align 8
  %add.ptr.i18 = getelementptr inbounds i8, ptr %68, i64 %12
  %69 = load ptr, ptr %add.ptr.i18, align 8
  %tobool.not.i = icmp eq ptr %69, null
  br i1 %tobool.not.i, label %for.inc.i, label %if.then.i

if.then.i:
  %add.ptr1.i19 = getelementptr inbounds i8, ptr %69, i64 %13
  %70 = atomicrmw add ptr %add.ptr1.i19, i32 1 monotonic, align 4
  br label %for.inc.i

sw.bb54.i:
  %sizes.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 8
  %71 = load ptr, ptr %sizes.i, align 8
  %arrayidx55.i = getelementptr inbounds i64, ptr %71, i64 %11
  %72 = load i64, ptr %arrayidx55.i, align 8
  %cmp56.i = icmp eq i64 %72, %12
  br i1 %cmp56.i, label %for.inc.i, label %for.inc

sw.bb59.i:
  %tobool.i.not = icmp eq i64 %13, 0
  %strides.i51 = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 16
  %73 = load ptr, ptr %strides.i51, align 16
  %arrayidx.i52 = getelementptr inbounds i64, ptr %73, i64 %11
  %74 = load i64, ptr %arrayidx.i52, align 8
  %shift.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 24
  %75 = load i64, ptr %shift.i, align 8
  %shr.i53 = ashr i64 %74, %75
  %cmp.i22 = icmp ult i64 %shr.i53, 2
  %brmerge.i = or i1 %tobool.i.not, %cmp.i22
  %call.mux.i = call i64 @llvm.umin.i64(i64 %shr.i53, i64 2)
  br i1 %brmerge.i, label %kind_of_stride.exit, label %land.rhs.i

land.rhs.i:
  %sizes.i23 = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 8
  %76 = load ptr, ptr %sizes.i23, align 8
  %arrayidx.i24 = getelementptr inbounds i64, ptr %76, i64 %11
  %77 = load i64, ptr %arrayidx.i24, align 8
  %cmp1.i25 = icmp eq i64 %77, 1
  %78 = select i1 %cmp1.i25, i64 1, i64 2
  br label %kind_of_stride.exit

kind_of_stride.exit:
  %cond2.i = phi i64 [ %call.mux.i, %sw.bb59.i ], [ %78, %land.rhs.i ]
  %cmp61.i = icmp eq i64 %cond2.i, %12
  br i1 %cmp61.i, label %for.inc.i, label %for.inc

sw.bb64.i:
  %add.ptr.i.i26 = getelementptr inbounds i8, ptr %16, i64 %2
  %79 = load ptr, ptr %add.ptr.i.i26, align 8
  %80 = load ptr, ptr %type_int.i, align 8
  %cmp.not.i27 = icmp eq ptr %79, %80
  br i1 %cmp.not.i27, label %is_integer.exit, label %is_integer.exit.thread

is_integer.exit.thread:
  br label %for.inc

is_integer.exit:
  %arrayidx65.i = getelementptr inbounds %union.word, ptr %block, i64 %13
  %call1.i = call i64 @PyLong_AsLongLongAndOverflow(ptr %16, ptr %overflow.i)
  store i64 %call1.i, ptr %arrayidx65.i, align 8
  %81 = load i32, ptr %overflow.i, align 4
  %tobool.not.i31 = icmp eq i32 %81, 0
  %cmp2.not.i32 = icmp sge i64 %call1.i, %11
  %or.cond.i.not = select i1 %tobool.not.i31, i1 %cmp2.not.i32, i1 false
  %cmp3.i = icmp sle i64 %call1.i, %12
  %spec.select.i = select i1 %or.cond.i.not, i1 %cmp3.i, i1 false
  br i1 %spec.select.i, label %for.inc.i, label %for.inc

sw.bb69.i:
  %82 = ptrtoint ptr %16 to i64
  %cmp70.i = icmp eq i64 %11, %82
  %conv71.i = zext i1 %cmp70.i to i64
  %arrayidx72.i = getelementptr inbounds %union.word, ptr %block, i64 %13
  store i64 %conv71.i, ptr %arrayidx72.i, align 8
  %add.ptr.i.i = getelementptr inbounds i8, ptr %16, i64 %2
  %83 = load ptr, ptr %add.ptr.i.i, align 8
  %84 = load ptr, ptr %type_bool.i, align 8
  %cmp74.i = icmp eq ptr %83, %84
  br i1 %cmp74.i, label %for.inc.i, label %for.inc

sw.bb78.i:
  %add.ptr.i.i33 = getelementptr inbounds i8, ptr %16, i64 %2
  %85 = load ptr, ptr %add.ptr.i.i33, align 8
  %86 = load ptr, ptr %type_float.i39, align 8
  %cmp.not.i34 = icmp eq ptr %85, %86
  br i1 %cmp.not.i34, label %is_float.exit.thread, label %for.inc

is_float.exit.thread:
  %add.ptr79.i = getelementptr inbounds %union.word, ptr %block, i64 %13
  %call1.i36 = call double @PyFloat_AsDouble(ptr %16)
  %conv.i37 = fptrunc double %call1.i36 to float
  %87 = bitcast float %conv.i37 to i32
  %conv3.i = zext i32 %87 to i64
  store i64 %conv3.i, ptr %add.ptr79.i, align 8
  br label %for.inc.i

sw.bb83.i:
  %add.ptr.i.i38 = getelementptr inbounds i8, ptr %16, i64 %2
  %88 = load ptr, ptr %add.ptr.i.i38, align 8
  %89 = load ptr, ptr %type_float.i39, align 8
  %cmp.not.i40 = icmp eq ptr %88, %89
  br i1 %cmp.not.i40, label %is_float.exit45.thread, label %for.inc

is_float.exit45.thread:
  %add.ptr84.i = getelementptr inbounds %union.word, ptr %block, i64 %13
  %call1.i42 = call double @PyFloat_AsDouble(ptr %16)
  store double %call1.i42, ptr %add.ptr84.i, align 8
  br label %for.inc.i

sw.bb88.i:
  %arrayidx89.i = getelementptr inbounds %union.word, ptr %block, i64 %11
  %90 = load i64, ptr %arrayidx89.i, align 8
  %cmp90.i = icmp eq i64 %90, %12
  %conv92.i = zext i1 %cmp90.i to i64
  %cmp93.i = icmp eq i64 %13, %conv92.i
  br i1 %cmp93.i, label %for.inc.i, label %for.inc

sw.bb97.i:
  %91 = inttoptr i64 %11 to ptr
  %92 = inttoptr i64 %12 to ptr
  %93 = inttoptr i64 %13 to ptr
  %call.i46 = call ptr @PyDict_GetItemWithError(ptr %91, ptr %92)
  %cmp.i47 = icmp eq ptr %call.i46, %93
  br i1 %cmp.i47, label %for.inc.i, label %is_global.exit

is_global.exit:
  call void @PyErr_Clear()
  br label %for.inc

sw.bb101.i:
  %94 = inttoptr i64 %11 to ptr
  %95 = inttoptr i64 %12 to ptr
  %call.i49 = call ptr @PyCell_Get(ptr %94)
  call void @Py_DecRef(ptr %call.i49)
  %cmp.i50 = icmp eq ptr %call.i49, %95
  br i1 %cmp.i50, label %for.inc.i, label %for.inc

sw.bb105.i:
  %arrayidx106.i = getelementptr inbounds %union.word, ptr %block, i64 %11
  store i64 %12, ptr %arrayidx106.i, align 8
  br label %for.inc.i

sw.bb107.i:
  %96 = load ptr, ptr %add.ptr.i, align 16
  %arrayidx108.i = getelementptr inbounds %union.word, ptr %block, i64 %11
  store ptr %96, ptr %arrayidx108.i, align 8
  br label %for.inc.i

sw.bb109.i:
  %sizes110.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 8
  %97 = load ptr, ptr %sizes110.i, align 8
  %arrayidx111.i = getelementptr inbounds i64, ptr %97, i64 %12
  %98 = load i64, ptr %arrayidx111.i, align 8
  %arrayidx112.i = getelementptr inbounds %union.word, ptr %block, i64 %11
  store i64 %98, ptr %arrayidx112.i, align 8
  br label %for.inc.i

sw.bb113.i:
  %strides.i54 = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 16
  %99 = load ptr, ptr %strides.i54, align 16
  %arrayidx.i55 = getelementptr inbounds i64, ptr %99, i64 %12
  %100 = load i64, ptr %arrayidx.i55, align 8
  %shift.i56 = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 24
  %101 = load i64, ptr %shift.i56, align 8
  %shr.i57 = ashr i64 %100, %101
  %arrayidx115.i = getelementptr inbounds %union.word, ptr %block, i64 %11
  store i64 %shr.i57, ptr %arrayidx115.i, align 8
  br label %for.inc.i

sw.bb116.i:
  %low.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 32
  %102 = load i64, ptr %low.i, align 16
  %high.i = getelementptr inbounds nuw i8, ptr %add.ptr.i, i64 40
  %103 = load i64, ptr %high.i, align 8
  %cmp14.not.i = icmp eq i64 %102, %103
  br i1 %cmp14.not.i, label %for.inc.i, label %land.lhs.true.i59

land.lhs.true.i59:
  %add.ptr117.i = getelementptr inbounds %struct.view, ptr %views, i64 %11
  %high4.i = getelementptr inbounds nuw i8, ptr %add.ptr117.i, i64 40
  %104 = load i64, ptr %high4.i, align 8
  %cond11.i = call i64 @llvm.smin.i64(i64 %103, i64 %104)
  %low1.i = getelementptr inbounds nuw i8, ptr %add.ptr117.i, i64 32
  %105 = load i64, ptr %low1.i, align 16
  %..i = call i64 @llvm.smax.i64(i64 %102, i64 %105)
  %cmp17.not.i = icmp ne i64 %105, %104
  %cmp18.i = icmp slt i64 %..i, %cond11.i
  %spec.select.i60 = and i1 %cmp17.not.i, %cmp18.i
  %106 = zext i1 %spec.select.i60 to i8
  %107 = or i8 %have_met.0.i, %106
  br label %for.inc.i

sw.bb122.i:
  %conv124.i = zext nneg i8 %have_met.0.i to i64
  %cmp125.i = icmp eq i64 %11, %conv124.i
  br i1 %cmp125.i, label %for.inc.i, label %for.inc

for.inc.i:
  %have_met.1.i = phi i8 [ %have_met.0.i, %sw.bb7.i ], [ %have_met.0.i, %34 ], [ %have_met.0.i, %is_tensor.exit ], [ %have_met.0.i, %land.lhs.true23.i ], [ %have_met.0.i, %sw.bb27.i ], [ %have_met.0.i, %is_distinct.exit ], [ %have_met.0.i, %sw.bb37.i ], [ %have_met.0.i, %sw.bb42.i ], [ %have_met.0.i, %lor.lhs.false.i ], [ %have_met.0.i, %sw.bb46.i ], [ %have_met.0.i, %sw.bb122.i ], [ %have_met.0.i, %sw.bb54.i ], [ %have_met.0.i, %kind_of_stride.exit ], [ %have_met.0.i, %is_integer.exit ], [ %have_met.0.i, %sw.bb69.i ], [ %have_met.0.i, %is_float.exit.thread ], [ %have_met.0.i, %is_float.exit45.thread ], [ %have_met.0.i, %sw.bb88.i ], [ %have_met.0.i, %if.then.i ], [ %have_met.0.i, %sw.bb101.i ], [ %have_met.0.i, %sw.bb105.i ], [ %have_met.0.i, %sw.bb107.i ], [ %have_met.0.i, %sw.bb109.i ], [ %have_met.0.i, %sw.bb113.i ], [ %have_met.0.i, %sw.bb116.i ], [ %have_met.0.i, %sw.bb52.i ], [ %have_met.0.i, %sw.bb97.i ], [ %107, %land.lhs.true.i59 ], [ %have_met.0.i, %for.cond.i14.preheader ]
  %incdec.ptr.i = getelementptr inbounds nuw i8, ptr %step.0.i, i64 48
  br label %for.cond.i

if.then:
  %arrayidx.le = getelementptr inbounds nuw ptr, ptr %0, i64 %n.0111
  %108 = load ptr, ptr %arrayidx.le, align 8
  br label %cleanup

for.inc:
  %inc = add nuw nsw i64 %n.0111, 1
  %109 = load i64, ptr %entries, align 8
  %cmp.not = icmp slt i64 %inc, %109
  br i1 %cmp.not, label %for.body, label %cleanup

cleanup:
  %spec.select = phi ptr [ %108, %if.then ], [ null, %entry ], [ null, %for.inc ]
  ret ptr %spec.select
}

define internal fastcc ptr @call_python(ptr %kernel, ptr %grid, ptr %args, i64 %count, ptr %names) nounwind {
entry:
  %and = and i64 %count, 9223372036854775807
  %tobool.not = icmp eq ptr %names, null
  br i1 %tobool.not, label %cond.end, label %cond.true

cond.true:
  %0 = load i64, ptr @object_size, align 8
  %add.ptr.i = getelementptr inbounds i8, ptr %names, i64 %0
  %1 = load i64, ptr %add.ptr.i, align 8
  br label %cond.end

cond.end:
  %cond = phi i64 [ %1, %cond.true ], [ 0, %entry ]
  %add = add i64 %cond, %and
  %add1 = shl i64 %add, 3
  %mul = add i64 %add1, 8
  %2 = alloca i8, i64 %mul, align 16
  store ptr %grid, ptr %2, align 16
  %cmp16 = icmp sgt i64 %add, 0
  br i1 %cmp16, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  %python = getelementptr inbounds nuw i8, ptr %kernel, i64 32
  %3 = load ptr, ptr %python, align 8
  %add5 = add nuw i64 %and, 1
  %call6 = call ptr @PyObject_Vectorcall(ptr %3, ptr %2, i64 %add5, ptr %names)
  ret ptr %call6

for.body:
  %n.017 = phi i64 [ %add3, %for.body ], [ 0, %cond.end ]
  %arrayidx2 = getelementptr inbounds nuw ptr, ptr %args, i64 %n.017
  %4 = load ptr, ptr %arrayidx2, align 8
  %add3 = add nuw nsw i64 %n.017, 1
  %arrayidx4 = getelementptr inbounds nuw ptr, ptr %2, i64 %add3
  store ptr %4, ptr %arrayidx4, align 8
  %exitcond.not = icmp eq i64 %add3, %add
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define i64 @resolve(ptr %kernel, ptr %grid, ptr %values, ptr %block) nounwind {
entry:
  %overflow.i.i10 = alloca i32, align 4
  %overflow.i.i = alloca i32, align 4
  %0 = load i64, ptr @object_size, align 8
  %add.ptr.i8 = getelementptr inbounds i8, ptr %values, i64 %0
  %1 = load i64, ptr %add.ptr.i8, align 8
  %arity = getelementptr inbounds nuw i8, ptr %kernel, i64 8
  %2 = load i64, ptr %arity, align 8
  %cmp.not = icmp eq i64 %1, %2
  br i1 %cmp.not, label %lor.lhs.false, label %return

lor.lhs.false:
  %3 = load ptr, ptr %kernel, align 8
  %arrayidx.i = getelementptr inbounds nuw i8, ptr %block, i64 16
  store i64 1, ptr %arrayidx.i, align 8
  %arrayidx1.i = getelementptr inbounds nuw i8, ptr %block, i64 8
  store i64 1, ptr %arrayidx1.i, align 8
  %4 = load i64, ptr @object_type, align 8
  %add.ptr.i9 = getelementptr inbounds i8, ptr %grid, i64 %4
  %5 = load ptr, ptr %add.ptr.i9, align 8
  %type_tuple.i = getelementptr inbounds nuw i8, ptr %3, i64 40
  %6 = load ptr, ptr %type_tuple.i, align 8
  %cmp.not.i = icmp eq ptr %5, %6
  br i1 %cmp.not.i, label %if.end.i, label %if.then.i

if.then.i:
  %type_int.i.i12 = getelementptr inbounds nuw i8, ptr %3, i64 16
  %7 = load ptr, ptr %type_int.i.i12, align 8
  %cmp.not.i.i13 = icmp eq ptr %5, %7
  br i1 %cmp.not.i.i13, label %read_size.exit22, label %read_size.exit22.thread

read_size.exit22.thread:
  br label %return

read_size.exit22:
  %call1.i.i16 = call i64 @PyLong_AsLongLongAndOverflow(ptr %grid, ptr %overflow.i.i10)
  store i64 %call1.i.i16, ptr %block, align 8
  %8 = load i32, ptr %overflow.i.i10, align 4
  %tobool.not.i.i17 = icmp eq i32 %8, 0
  %9 = icmp ult i64 %call1.i.i16, 2147483648
  %spec.select.i.i21 = select i1 %tobool.not.i.i17, i1 %9, i1 false
  br i1 %spec.select.i.i21, label %read_size.exit22.if.end_crit_edge, label %return

read_size.exit22.if.end_crit_edge:
  %.pre = load i64, ptr @object_tuple_items, align 8
  br label %if.end

if.end.i:
  %add.ptr.i30.i = getelementptr inbounds i8, ptr %grid, i64 %0
  %10 = load i64, ptr %add.ptr.i30.i, align 8
  %11 = add i64 %10, -4
  %or.cond.i = icmp ult i64 %11, -3
  br i1 %or.cond.i, label %return, label %for.body.i.lr.ph

for.body.i.lr.ph:
  %.pre30 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i.i = getelementptr inbounds i8, ptr %grid, i64 %.pre30
  %type_int.i.i = getelementptr inbounds nuw i8, ptr %3, i64 16
  br label %for.body.i

for.cond.i:
  %inc.i = add nuw nsw i64 %n.0.i29, 1
  %exitcond.not = icmp eq i64 %inc.i, %10
  br i1 %exitcond.not, label %if.end, label %for.body.i

for.body.i:
  %n.0.i29 = phi i64 [ 0, %for.body.i.lr.ph ], [ %inc.i, %for.cond.i ]
  %arrayidx11.i = getelementptr inbounds nuw ptr, ptr %add.ptr.i.i, i64 %n.0.i29
  %12 = load ptr, ptr %arrayidx11.i, align 8
  %add.ptr.i.i.i = getelementptr inbounds i8, ptr %12, i64 %4
  %13 = load ptr, ptr %add.ptr.i.i.i, align 8
  %14 = load ptr, ptr %type_int.i.i, align 8
  %cmp.not.i.i = icmp eq ptr %13, %14
  br i1 %cmp.not.i.i, label %read_size.exit, label %read_size.exit.thread

read_size.exit.thread:
  br label %return

read_size.exit:
  %arrayidx12.i = getelementptr inbounds nuw %union.word, ptr %block, i64 %n.0.i29
  %call1.i.i = call i64 @PyLong_AsLongLongAndOverflow(ptr %12, ptr %overflow.i.i)
  store i64 %call1.i.i, ptr %arrayidx12.i, align 8
  %15 = load i32, ptr %overflow.i.i, align 4
  %tobool.not.i.i = icmp eq i32 %15, 0
  %16 = icmp ult i64 %call1.i.i, 2147483648
  %spec.select.i.i = select i1 %tobool.not.i.i, i1 %16, i1 false
  br i1 %spec.select.i.i, label %for.cond.i, label %return

if.end:
  %17 = phi i64 [ %.pre, %read_size.exit22.if.end_crit_edge ], [ %.pre30, %for.cond.i ]
  %add.ptr.i = getelementptr inbounds i8, ptr %values, i64 %17
  %call3 = call fastcc ptr @find(ptr %kernel, ptr %add.ptr.i, ptr %block)
  %18 = ptrtoint ptr %call3 to i64
  br label %return

return:
  %retval.0 = phi i64 [ %18, %if.end ], [ 0, %if.end.i ], [ 0, %entry ], [ 0, %read_size.exit22.thread ], [ 0, %read_size.exit22 ], [ 0, %read_size.exit.thread ], [ 0, %read_size.exit ]
  ret i64 %retval.0
}

define ptr @replay(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %type.i = alloca ptr, align 8
  %value.i = alloca ptr, align 8
  %trace.i = alloca ptr, align 8
  %mode.i = alloca ptr, align 8
  %0 = load i64, ptr @object_tuple_items, align 8
  %add.ptr.i68 = getelementptr inbounds i8, ptr %self, i64 %0
  %1 = load ptr, ptr %add.ptr.i68, align 8
  %2 = load i64, ptr @object_bytes_content, align 8
  %add.ptr.i = getelementptr inbounds i8, ptr %1, i64 %2
  %3 = load ptr, ptr %add.ptr.i, align 8
  %launches1 = getelementptr inbounds nuw i8, ptr %3, i64 8
  %4 = load ptr, ptr %launches1, align 8
  %arrays = getelementptr inbounds nuw i8, ptr %3, i64 32
  %5 = load i64, ptr %arrays, align 8
  %cmp.not = icmp eq i64 %count, %5
  br i1 %cmp.not, label %lor.lhs.false, label %if.then

lor.lhs.false:
  %addresses1.i = getelementptr inbounds nuw i8, ptr %3, i64 88
  %6 = load ptr, ptr %addresses1.i, align 8
  %compared.i = getelementptr inbounds nuw i8, ptr %3, i64 40
  %7 = load i64, ptr %compared.i, align 8
  %cmp.not101.i = icmp slt i64 %7, 1
  br i1 %cmp.not101.i, label %for.end17.i, label %for.body.lr.ph.i

for.body.lr.ph.i:
  %like.i = getelementptr inbounds nuw i8, ptr %3, i64 56
  %8 = load ptr, ptr %like.i, align 8
  %9 = load i64, ptr @object_type, align 8
  %10 = load i64, ptr @array_dtype, align 8
  %11 = load i64, ptr @array_axes, align 8
  %12 = load i64, ptr @array_data, align 8
  %13 = load i64, ptr @array_sizes, align 8
  %14 = load i64, ptr @array_strides, align 8
  %repeats.i = getelementptr inbounds nuw i8, ptr %3, i64 80
  br label %for.body.i113

for.body.i113:
  %n.0103.i = phi i64 [ 0, %for.body.lr.ph.i ], [ %inc14.i, %for.end.critedge.i ]
  %row.0102.i = phi ptr [ %8, %for.body.lr.ph.i ], [ %add.ptr12.i, %for.end.critedge.i ]
  %arrayidx.i114 = getelementptr inbounds nuw ptr, ptr %args, i64 %n.0103.i
  %15 = load ptr, ptr %arrayidx.i114, align 8
  %add.ptr.i115 = getelementptr inbounds nuw i64, ptr %6, i64 %n.0103.i
  %add.ptr.i.i.i = getelementptr inbounds i8, ptr %15, i64 %9
  %16 = load ptr, ptr %add.ptr.i.i.i, align 8
  %17 = load ptr, ptr %row.0102.i, align 8
  %cmp.not.i.i = icmp eq ptr %16, %17
  br i1 %cmp.not.i.i, label %if.end.i.i, label %if.then

if.end.i.i:
  %arrayidx1.i.i = getelementptr inbounds nuw i8, ptr %row.0102.i, i64 16
  %18 = load i64, ptr %arrayidx1.i.i, align 8
  %arrayidx2.i.i = getelementptr inbounds nuw i8, ptr %row.0102.i, i64 24
  %19 = load ptr, ptr %arrayidx2.i.i, align 8
  %tobool.not.i.i = icmp eq ptr %19, null
  br i1 %tobool.not.i.i, label %if.else.i.i, label %if.then3.i.i

if.then3.i.i:
  %arrayidx4.i.i = getelementptr inbounds nuw i8, ptr %row.0102.i, i64 8
  %20 = load i64, ptr %arrayidx4.i.i, align 8
  %21 = load i64, ptr %19, align 8
  %add.ptr.i63.i = getelementptr inbounds i8, ptr %15, i64 %21
  %22 = load ptr, ptr %add.ptr.i63.i, align 8
  %keys.i.i = getelementptr inbounds nuw i8, ptr %19, i64 8
  %23 = load i64, ptr %keys.i.i, align 8
  %add.ptr2.i64.i = getelementptr inbounds i8, ptr %22, i64 %23
  %24 = load i64, ptr %add.ptr2.i64.i, align 8
  %wanted.i.i = getelementptr inbounds nuw i8, ptr %19, i64 16
  %25 = load i64, ptr %wanted.i.i, align 8
  %cmp.not.i65.i = icmp eq i64 %24, %25
  br i1 %cmp.not.i65.i, label %lor.lhs.false.i67.i, label %if.then

lor.lhs.false.i67.i:
  %dtype.i.i = getelementptr inbounds nuw i8, ptr %19, i64 24
  %26 = load i64, ptr %dtype.i.i, align 8
  %add.ptr3.i.i = getelementptr inbounds i8, ptr %22, i64 %26
  %27 = load i16, ptr %add.ptr3.i.i, align 2
  %conv4.i.i = trunc i64 %20 to i16
  %cmp6.not.i.i = icmp eq i16 %27, %conv4.i.i
  br i1 %cmp6.not.i.i, label %if.end.i68.i, label %if.then

if.end.i68.i:
  %sizes8.i.i = getelementptr inbounds nuw i8, ptr %19, i64 56
  %28 = load i64, ptr %sizes8.i.i, align 8
  %add.ptr9.i.i = getelementptr inbounds i8, ptr %22, i64 %28
  %storage10.i.i = getelementptr inbounds nuw i8, ptr %19, i64 32
  %29 = load i64, ptr %storage10.i.i, align 8
  %add.ptr11.i69.i = getelementptr inbounds i8, ptr %22, i64 %29
  %30 = load ptr, ptr %add.ptr11.i69.i, align 8
  %31 = load i64, ptr %add.ptr9.i.i, align 8
  %cmp12.not.i70.i = icmp eq i64 %31, %18
  br i1 %cmp12.not.i70.i, label %lor.lhs.false14.i.i, label %if.then

lor.lhs.false14.i.i:
  %frees.i.i = getelementptr inbounds nuw i8, ptr %19, i64 64
  %32 = load i64, ptr %frees.i.i, align 8
  %add.ptr15.i.i = getelementptr inbounds i8, ptr %30, i64 %32
  %33 = load i64, ptr %add.ptr15.i.i, align 8
  %refused.i.i = getelementptr inbounds nuw i8, ptr %19, i64 72
  %34 = load i64, ptr %refused.i.i, align 8
  %cmp16.i.i = icmp eq i64 %33, %34
  br i1 %cmp16.i.i, label %if.then, label %if.end19.i71.i

if.end19.i71.i:
  %data.i72.i = getelementptr inbounds nuw i8, ptr %19, i64 40
  %35 = load i64, ptr %data.i72.i, align 8
  %add.ptr20.i.i = getelementptr inbounds i8, ptr %30, i64 %35
  %36 = load ptr, ptr %add.ptr20.i.i, align 8
  %offset.i.i = getelementptr inbounds nuw i8, ptr %19, i64 48
  %37 = load i64, ptr %offset.i.i, align 8
  %add.ptr22.i.i = getelementptr inbounds i8, ptr %22, i64 %37
  %38 = load i64, ptr %add.ptr22.i.i, align 8
  %shr.i.i = ashr i64 %20, 32
  %shl.i.i = shl i64 %38, %shr.i.i
  %add.ptr23.i.i = getelementptr inbounds i8, ptr %36, i64 %shl.i.i
  %add.ptr24.i.i = getelementptr inbounds nuw i8, ptr %add.ptr9.i.i, i64 8
  %add.ptr26.i.i = getelementptr inbounds nuw i8, ptr %add.ptr9.i.i, i64 48
  %39 = ptrtoint ptr %add.ptr23.i.i to i64
  %cmp.i55.i.i = icmp sgt i64 %18, 0
  br i1 %cmp.i55.i.i, label %for.body.i.i.i, label %is_plain.exit.i

for.body.i.i.i:
  %low.0.i59.i.i = phi i64 [ %add.i.i.i, %for.body.i.i.i ], [ %39, %if.end19.i71.i ]
  %high.0.i58.i.i = phi i64 [ %add16.i.i.i, %for.body.i.i.i ], [ %39, %if.end19.i71.i ]
  %is_empty.0.i57.i.i = phi i1 [ %or764.i.i.i, %for.body.i.i.i ], [ false, %if.end19.i71.i ]
  %n.0.i56.i.i = phi i64 [ %inc.i.i.i, %for.body.i.i.i ], [ 0, %if.end19.i71.i ]
  %arrayidx.i.i.i = getelementptr inbounds nuw i64, ptr %add.ptr24.i.i, i64 %n.0.i56.i.i
  %40 = load i64, ptr %arrayidx.i.i.i, align 8
  %.fr.i.i = freeze i64 %40
  %sub.i.i.i = add i64 %.fr.i.i, -1
  %arrayidx1.i.i.i = getelementptr inbounds nuw i64, ptr %add.ptr26.i.i, i64 %n.0.i56.i.i
  %41 = load i64, ptr %arrayidx1.i.i.i, align 8
  %shl.i.i.i = shl i64 %41, %shr.i.i
  %mul.i.i.i = mul i64 %shl.i.i.i, %sub.i.i.i
  %cmp5.i.i.i = icmp eq i64 %.fr.i.i, 0
  %or764.i.i.i = or i1 %is_empty.0.i57.i.i, %cmp5.i.i.i
  %cond.i.i.i = tail call i64 @llvm.smin.i64(i64 %mul.i.i.i, i64 0)
  %add.i.i.i = add i64 %cond.i.i.i, %low.0.i59.i.i
  %cond15.i.i.i = tail call i64 @llvm.smax.i64(i64 %mul.i.i.i, i64 0)
  %add16.i.i.i = add i64 %cond15.i.i.i, %high.0.i58.i.i
  %inc.i.i.i = add nuw nsw i64 %n.0.i56.i.i, 1
  %exitcond.not.i.i = icmp eq i64 %inc.i.i.i, %18
  br i1 %exitcond.not.i.i, label %land.rhs.i.i, label %for.body.i.i.i

land.rhs.i.i:
  br i1 %or764.i.i.i, label %if.end19.i.thread.i, label %42

if.end19.i.thread.i:
  store i64 %39, ptr %add.ptr.i115, align 8
  br label %for.body.i.lr.ph.i

42:
  %shl27.i.i.i = shl nuw i64 1, %shr.i.i
  %add28.i.i.i = add i64 %add16.i.i.i, %shl27.i.i.i
  %43 = icmp eq i64 %add.i.i.i, %add28.i.i.i
  br label %is_plain.exit.i

is_plain.exit.i:
  %cmp.i54.i.i = phi i1 [ %43, %42 ], [ false, %if.end19.i71.i ]
  %tobool.i.i.i = icmp ne ptr %36, null
  %44 = or i1 %tobool.i.i.i, %cmp.i54.i.i
  br i1 %44, label %if.end19.i.i, label %if.then

if.else.i.i:
  %add.ptr.i.i118 = getelementptr inbounds i8, ptr %15, i64 %10
  %45 = load ptr, ptr %add.ptr.i.i118, align 8
  %arrayidx9.i.i = getelementptr inbounds nuw i8, ptr %row.0102.i, i64 8
  %46 = load ptr, ptr %arrayidx9.i.i, align 8
  %cmp10.not.i.i = icmp eq ptr %45, %46
  br i1 %cmp10.not.i.i, label %lor.lhs.false.i.i, label %if.then

lor.lhs.false.i.i:
  %add.ptr11.i.i = getelementptr inbounds i8, ptr %15, i64 %11
  %47 = load i32, ptr %add.ptr11.i.i, align 4
  %conv.i.i = sext i32 %47 to i64
  %cmp12.not.i.i = icmp eq i64 %18, %conv.i.i
  br i1 %cmp12.not.i.i, label %if.end15.i.i, label %if.then

if.end15.i.i:
  %add.ptr16.i.i = getelementptr inbounds i8, ptr %15, i64 %12
  %48 = load ptr, ptr %add.ptr16.i.i, align 8
  %add.ptr17.i.i = getelementptr inbounds i8, ptr %15, i64 %13
  %49 = load ptr, ptr %add.ptr17.i.i, align 8
  %add.ptr18.i.i = getelementptr inbounds i8, ptr %15, i64 %14
  %50 = load ptr, ptr %add.ptr18.i.i, align 8
  %.pre.i = ptrtoint ptr %48 to i64
  br label %if.end19.i.i

if.end19.i.i:
  %.pre-phi.i = phi i64 [ %39, %is_plain.exit.i ], [ %.pre.i, %if.end15.i.i ]
  %view.i.sroa.8.2.i = phi ptr [ %add.ptr26.i.i, %is_plain.exit.i ], [ %50, %if.end15.i.i ]
  %view.i.sroa.5.2.i = phi ptr [ %add.ptr24.i.i, %is_plain.exit.i ], [ %49, %if.end15.i.i ]
  store i64 %.pre-phi.i, ptr %add.ptr.i115, align 8
  %cmp21.not.i97.i = icmp sgt i64 %18, 0
  br i1 %cmp21.not.i97.i, label %for.body.i.lr.ph.i, label %for.cond2.preheader.i

for.body.i.lr.ph.i:
  %view.i.sroa.5.2122.i = phi ptr [ %add.ptr24.i.i, %if.end19.i.thread.i ], [ %view.i.sroa.5.2.i, %if.end19.i.i ]
  %view.i.sroa.8.2121.i = phi ptr [ %add.ptr26.i.i, %if.end19.i.thread.i ], [ %view.i.sroa.8.2.i, %if.end19.i.i ]
  %51 = getelementptr %union.word, ptr %row.0102.i, i64 %18
  %52 = getelementptr i8, ptr %51, i64 32
  br label %for.body.i.i

for.cond.i.i:
  %inc.i.i = add nuw nsw i64 %n.0.i98.i, 1
  %exitcond.not.i = icmp eq i64 %inc.i.i, %18
  br i1 %exitcond.not.i, label %for.cond2.preheader.i, label %for.body.i.i

for.cond2.preheader.i:
  %cmp399.not.i = icmp eq i64 %n.0103.i, 0
  br i1 %cmp399.not.i, label %for.end.critedge.i, label %land.rhs.lr.ph.i

land.rhs.lr.ph.i:
  %53 = load i64, ptr %repeats.i, align 8
  %tobool.not.i116 = icmp eq i64 %53, 0
  br i1 %tobool.not.i116, label %land.rhs.lr.ph.split.i, label %for.end.critedge.i

land.rhs.lr.ph.split.i:
  %54 = load ptr, ptr %arrayidx.i114, align 8
  br label %land.rhs.i117

for.body.i.i:
  %n.0.i98.i = phi i64 [ 0, %for.body.i.lr.ph.i ], [ %inc.i.i, %for.cond.i.i ]
  %arrayidx24.i.i = getelementptr inbounds nuw i64, ptr %view.i.sroa.5.2122.i, i64 %n.0.i98.i
  %55 = load i64, ptr %arrayidx24.i.i, align 8
  %56 = getelementptr %union.word, ptr %row.0102.i, i64 %n.0.i98.i
  %arrayidx25.i.i = getelementptr i8, ptr %56, i64 32
  %57 = load i64, ptr %arrayidx25.i.i, align 8
  %cmp26.not.i.i = icmp eq i64 %55, %57
  br i1 %cmp26.not.i.i, label %if.end29.i.i, label %if.then

if.end29.i.i:
  %arrayidx31.i.i = getelementptr inbounds nuw i64, ptr %view.i.sroa.8.2121.i, i64 %n.0.i98.i
  %58 = load i64, ptr %arrayidx31.i.i, align 8
  %arrayidx34.i.i = getelementptr %union.word, ptr %52, i64 %n.0.i98.i
  %59 = load i64, ptr %arrayidx34.i.i, align 8
  %cmp35.not.i.i = icmp eq i64 %58, %59
  %cmp39.not.i.i = icmp eq i64 %55, 1
  %or.cond.i.i = or i1 %cmp39.not.i.i, %cmp35.not.i.i
  br i1 %or.cond.i.i, label %for.cond.i.i, label %if.then

for.cond2.i:
  %inc.i = add nuw nsw i64 %m.0100.i, 1
  %exitcond110.not.i = icmp eq i64 %inc.i, %n.0103.i
  br i1 %exitcond110.not.i, label %for.end.critedge.i, label %land.rhs.i117

land.rhs.i117:
  %m.0100.i = phi i64 [ 0, %land.rhs.lr.ph.split.i ], [ %inc.i, %for.cond2.i ]
  %arrayidx6.i = getelementptr inbounds nuw ptr, ptr %args, i64 %m.0100.i
  %60 = load ptr, ptr %arrayidx6.i, align 8
  %cmp8.i = icmp eq ptr %60, %54
  br i1 %cmp8.i, label %if.then, label %for.cond2.i

for.end.critedge.i:
  %61 = load i64, ptr %arrayidx1.i.i, align 8
  %.idx.i = shl i64 %61, 4
  %62 = getelementptr i8, ptr %row.0102.i, i64 %.idx.i
  %add.ptr12.i = getelementptr i8, ptr %62, i64 32
  %inc14.i = add nuw nsw i64 %n.0103.i, 1
  %63 = load i64, ptr %compared.i, align 8
  %cmp.not.not.i = icmp slt i64 %inc14.i, %63
  br i1 %cmp.not.not.i, label %for.body.i113, label %for.end17.i.loopexit

for.end17.i.loopexit:
  %.pre = load i64, ptr %arrays, align 8
  br label %for.end17.i

for.end17.i:
  %64 = phi i64 [ %count, %lor.lhs.false ], [ %.pre, %for.end17.i.loopexit ]
  %65 = phi i64 [ %7, %lor.lhs.false ], [ %63, %for.end17.i.loopexit ]
  %cmp21105.i = icmp slt i64 %65, %64
  br i1 %cmp21105.i, label %for.body23.lr.ph.i, label %lor.lhs.false3

for.body23.lr.ph.i:
  %layout1.i.i = getelementptr inbounds nuw i8, ptr %3, i64 104
  %66 = load i64, ptr @object_type, align 8
  %numpy.i.i = getelementptr inbounds nuw i8, ptr %3, i64 96
  %67 = load i64, ptr @array_data, align 8
  br label %for.body23.i

for.body23.i:
  %n18.0106.i = phi i64 [ %65, %for.body23.lr.ph.i ], [ %inc28.i, %address_of.exit.i ]
  %arrayidx24.i = getelementptr inbounds ptr, ptr %args, i64 %n18.0106.i
  %68 = load ptr, ptr %arrayidx24.i, align 8
  %69 = load ptr, ptr %layout1.i.i, align 8
  %tobool.not.i57.i = icmp eq ptr %69, null
  br i1 %tobool.not.i57.i, label %if.then.i.i, label %lor.lhs.false.i58.i

lor.lhs.false.i58.i:
  %add.ptr.i.i59.i = getelementptr inbounds i8, ptr %68, i64 %66
  %70 = load ptr, ptr %add.ptr.i.i59.i, align 8
  %71 = load ptr, ptr %numpy.i.i, align 8
  %cmp.i.i = icmp eq ptr %70, %71
  br i1 %cmp.i.i, label %if.then.i.i, label %if.end.i60.i

if.then.i.i:
  %add.ptr.i62.i = getelementptr inbounds i8, ptr %68, i64 %67
  br label %address_of.exit.i

if.end.i60.i:
  %72 = load i64, ptr %69, align 8
  %add.ptr2.i.i = getelementptr inbounds i8, ptr %68, i64 %72
  %73 = load ptr, ptr %add.ptr2.i.i, align 8
  %storage3.i.i = getelementptr inbounds nuw i8, ptr %69, i64 32
  %74 = load i64, ptr %storage3.i.i, align 8
  %add.ptr4.i.i = getelementptr inbounds i8, ptr %73, i64 %74
  %75 = load ptr, ptr %add.ptr4.i.i, align 8
  %data.i.i = getelementptr inbounds nuw i8, ptr %69, i64 40
  %76 = load i64, ptr %data.i.i, align 8
  %add.ptr5.i.i = getelementptr inbounds i8, ptr %75, i64 %76
  br label %address_of.exit.i

address_of.exit.i:
  %retval.0.in.i.i = phi ptr [ %add.ptr.i62.i, %if.then.i.i ], [ %add.ptr5.i.i, %if.end.i60.i ]
  %retval.0.i.i = load i64, ptr %retval.0.in.i.i, align 8
  %arrayidx26.i = getelementptr inbounds i64, ptr %6, i64 %n18.0106.i
  store i64 %retval.0.i.i, ptr %arrayidx26.i, align 8
  %inc28.i = add nsw i64 %n18.0106.i, 1
  %77 = load i64, ptr %arrays, align 8
  %cmp21.i = icmp slt i64 %inc28.i, %77
  br i1 %cmp21.i, label %for.body23.i, label %lor.lhs.false3

lor.lhs.false3:
  %pairs.i = getelementptr inbounds nuw i8, ptr %3, i64 72
  %78 = load ptr, ptr %pairs.i, align 8
  %count.i119 = getelementptr inbounds nuw i8, ptr %3, i64 64
  %79 = load i64, ptr %count.i119, align 8
  %add.ptr.idx.i = shl nsw i64 %79, 5
  %add.ptr.i120 = getelementptr inbounds i8, ptr %78, i64 %add.ptr.idx.i
  %80 = load ptr, ptr %addresses1.i, align 8
  %cmp18.i = icmp slt i64 %79, 1
  br i1 %cmp18.i, label %lor.lhs.false5, label %for.body.i122

for.body.i122:
  %pair.019.i = phi ptr [ %incdec.ptr.i126, %if.end.i125 ], [ %78, %lor.lhs.false3 ]
  %81 = load i64, ptr %pair.019.i, align 8
  %arrayidx.i123 = getelementptr inbounds i64, ptr %80, i64 %81
  %82 = load i64, ptr %arrayidx.i123, align 8
  %other.i = getelementptr inbounds nuw i8, ptr %pair.019.i, i64 8
  %83 = load i64, ptr %other.i, align 8
  %arrayidx2.i124 = getelementptr inbounds i64, ptr %80, i64 %83
  %84 = load i64, ptr %arrayidx2.i124, align 8
  %sub.i = sub i64 %82, %84
  %low.i = getelementptr inbounds nuw i8, ptr %pair.019.i, i64 16
  %85 = load i64, ptr %low.i, align 8
  %cmp3.i = icmp sgt i64 %sub.i, %85
  br i1 %cmp3.i, label %land.lhs.true.i127, label %if.end.i125

land.lhs.true.i127:
  %high.i = getelementptr inbounds nuw i8, ptr %pair.019.i, i64 24
  %86 = load i64, ptr %high.i, align 8
  %cmp4.i = icmp slt i64 %sub.i, %86
  br i1 %cmp4.i, label %if.then, label %if.end.i125

if.end.i125:
  %incdec.ptr.i126 = getelementptr inbounds nuw i8, ptr %pair.019.i, i64 32
  %cmp.not.i = icmp ult ptr %incdec.ptr.i126, %add.ptr.i120
  br i1 %cmp.not.i, label %for.body.i122, label %lor.lhs.false5

lor.lhs.false5:
  %layout1.i = getelementptr inbounds nuw i8, ptr %3, i64 104
  %87 = load ptr, ptr %layout1.i, align 8
  %tobool.not.i128 = icmp eq ptr %87, null
  br i1 %tobool.not.i128, label %if.end, label %if.end.i129

if.end.i129:
  %modes.i = getelementptr inbounds nuw i8, ptr %3, i64 112
  %88 = load ptr, ptr %modes.i, align 8
  %call.i130 = tail call i64 %88()
  %tobool2.not.i131 = icmp eq i64 %call.i130, 0
  br i1 %tobool2.not.i131, label %if.end4.i133, label %if.then

if.end4.i133:
  %gradients.i = getelementptr inbounds nuw i8, ptr %3, i64 120
  %89 = load ptr, ptr %gradients.i, align 8
  %call5.i = tail call i1 %89()
  br i1 %call5.i, label %for.cond.preheader.i, label %if.end

for.cond.preheader.i:
  %90 = load i64, ptr %compared.i, align 8
  %cmp.not27.i = icmp slt i64 %90, 1
  br i1 %cmp.not27.i, label %if.end, label %for.body.lr.ph.i135

for.body.lr.ph.i135:
  %91 = load i64, ptr @object_type, align 8
  %numpy.i = getelementptr inbounds nuw i8, ptr %3, i64 96
  %requires.i = getelementptr inbounds nuw i8, ptr %3, i64 128
  br label %for.body.i136

for.body.i136:
  %92 = phi i64 [ %90, %for.body.lr.ph.i135 ], [ %99, %for.inc.i141 ]
  %n.028.i = phi i64 [ 0, %for.body.lr.ph.i135 ], [ %inc.i142, %for.inc.i141 ]
  %arrayidx.i137 = getelementptr inbounds nuw ptr, ptr %args, i64 %n.028.i
  %93 = load ptr, ptr %arrayidx.i137, align 8
  %add.ptr.i.i138 = getelementptr inbounds i8, ptr %93, i64 %91
  %94 = load ptr, ptr %add.ptr.i.i138, align 8
  %95 = load ptr, ptr %numpy.i, align 8
  %cmp9.not.i = icmp eq ptr %94, %95
  br i1 %cmp9.not.i, label %for.inc.i141, label %if.then10.i

if.then10.i:
  %96 = load ptr, ptr %requires.i, align 8
  %97 = load i64, ptr %87, align 8
  %add.ptr.i139 = getelementptr inbounds i8, ptr %93, i64 %97
  %98 = load ptr, ptr %add.ptr.i139, align 8
  %call12.i = tail call i1 %96(ptr %98)
  br i1 %call12.i, label %if.then, label %if.then10.for.inc_crit_edge.i

if.then10.for.inc_crit_edge.i:
  %.pre.i140 = load i64, ptr %compared.i, align 8
  br label %for.inc.i141

for.inc.i141:
  %99 = phi i64 [ %.pre.i140, %if.then10.for.inc_crit_edge.i ], [ %92, %for.body.i136 ]
  %inc.i142 = add nuw nsw i64 %n.028.i, 1
  %cmp.not.not.i143 = icmp slt i64 %inc.i142, %99
  br i1 %cmp.not.not.i143, label %for.body.i136, label %if.end

if.then:
  %call7 = tail call ptr @PyLong_FromLongLong(i64 -1)
  br label %cleanup37

if.end:
  %next = getelementptr inbounds nuw i8, ptr %3, i64 24
  %100 = load i64, ptr %next, align 8
  %total = getelementptr inbounds nuw i8, ptr %3, i64 16
  %101 = load i64, ptr %total, align 8
  %cmp8193 = icmp slt i64 %100, %101
  br i1 %cmp8193, label %while.body.lr.ph, label %while.end

while.body.lr.ph:
  %102 = load i64, ptr @object_size, align 8
  %103 = load i64, ptr @serial_below, align 8
  %conv.i79 = sitofp i64 %103 to double
  %104 = load i64, ptr @polled_above, align 8
  %conv8.i = sitofp i64 %104 to double
  %105 = load i64, ptr @long_above, align 8
  %conv33.i = sitofp i64 %105 to double
  br label %while.body

while.body:
  %n.0194 = phi i64 [ %100, %while.body.lr.ph ], [ %n.1, %cleanup33 ]
  %add.ptr = getelementptr inbounds %struct.launch, ptr %4, i64 %n.0194
  %wave = getelementptr inbounds nuw i8, ptr %add.ptr, i64 40
  %106 = load i64, ptr %wave, align 8
  %cmp9 = icmp ugt i64 %106, 1
  br i1 %cmp9, label %land.lhs.true, label %if.end14

land.lhs.true:
  %call11 = call fastcc i1 @wave(ptr %3, ptr %add.ptr, i64 %106)
  br i1 %call11, label %if.then12, label %if.end14

if.then12:
  %107 = load i64, ptr %wave, align 8
  br label %cleanup33

if.end14:
  %108 = load ptr, ptr %add.ptr, align 8
  %109 = load ptr, ptr %108, align 8
  %before.i = getelementptr inbounds nuw i8, ptr %108, i64 40
  %110 = load ptr, ptr %before.i, align 8
  %add.ptr.i14.i = getelementptr inbounds i8, ptr %110, i64 %102
  %111 = load i64, ptr %add.ptr.i14.i, align 8
  %after.i = getelementptr inbounds nuw i8, ptr %108, i64 48
  %112 = load ptr, ptr %after.i, align 8
  %add.ptr.i.i = getelementptr inbounds i8, ptr %112, i64 %102
  %113 = load i64, ptr %add.ptr.i.i, align 8
  %or.i = or i64 %113, %111
  %tobool.not.i = icmp eq i64 %or.i, 0
  br i1 %tobool.not.i, label %if.end.i, label %is_elsewhere.exit.thread

if.end.i:
  %mode3.i = getelementptr inbounds nuw i8, ptr %109, i64 56
  %114 = load ptr, ptr %mode3.i, align 8
  %plain.i = getelementptr inbounds nuw i8, ptr %109, i64 64
  %115 = load ptr, ptr %plain.i, align 8
  %call4.i = call i32 @PyContextVar_Get(ptr %114, ptr %115, ptr %mode.i)
  %tobool5.not.i = icmp eq i32 %call4.i, 0
  br i1 %tobool5.not.i, label %is_elsewhere.exit, label %if.then6.i

if.then6.i:
  call void @PyErr_Clear()
  br label %is_elsewhere.exit.thread

is_elsewhere.exit.thread:
  br label %if.then22

is_elsewhere.exit:
  %116 = load ptr, ptr %mode.i, align 8
  call void @Py_DecRef(ptr %116)
  %117 = load ptr, ptr %mode.i, align 8
  %118 = load ptr, ptr %plain.i, align 8
  %cmp.i.not = icmp eq ptr %117, %118
  br i1 %cmp.i.not, label %if.then16, label %if.then22

if.then16:
  %119 = load ptr, ptr %addresses1.i, align 8
  %moves.i = getelementptr inbounds nuw i8, ptr %add.ptr, i64 24
  %120 = load ptr, ptr %moves.i, align 8
  %count.i = getelementptr inbounds nuw i8, ptr %add.ptr, i64 32
  %121 = load i64, ptr %count.i, align 8
  %add.ptr.i72.idx = mul nsw i64 %121, 24
  %add.ptr.i72 = getelementptr inbounds i8, ptr %120, i64 %add.ptr.i72.idx
  %cmp.i73188 = icmp sgt i64 %121, 0
  br i1 %cmp.i73188, label %for.body.i.lr.ph, label %move.exit

for.body.i.lr.ph:
  %block.i = getelementptr inbounds nuw i8, ptr %add.ptr, i64 16
  br label %for.body.i

for.body.i:
  %move.0.i189 = phi ptr [ %120, %for.body.i.lr.ph ], [ %incdec.ptr.i, %for.body.i ]
  %array.i = getelementptr inbounds nuw i8, ptr %move.0.i189, i64 8
  %122 = load i64, ptr %array.i, align 8
  %arrayidx.i74 = getelementptr inbounds i64, ptr %119, i64 %122
  %123 = load i64, ptr %arrayidx.i74, align 8
  %bytes.i = getelementptr inbounds nuw i8, ptr %move.0.i189, i64 16
  %124 = load i64, ptr %bytes.i, align 8
  %add.i = add i64 %124, %123
  %125 = load ptr, ptr %block.i, align 8
  %126 = load i64, ptr %move.0.i189, align 8
  %arrayidx1.i = getelementptr inbounds %union.word, ptr %125, i64 %126
  store i64 %add.i, ptr %arrayidx1.i, align 8
  %incdec.ptr.i = getelementptr inbounds nuw i8, ptr %move.0.i189, i64 24
  %cmp.i73 = icmp ult ptr %incdec.ptr.i, %add.ptr.i72
  br i1 %cmp.i73, label %for.body.i, label %move.exit

move.exit:
  %127 = load ptr, ptr %add.ptr, align 8
  %entry18 = getelementptr inbounds nuw i8, ptr %add.ptr, i64 8
  %128 = load ptr, ptr %entry18, align 8
  %block = getelementptr inbounds nuw i8, ptr %add.ptr, i64 16
  %129 = load ptr, ptr %block, align 8
  %130 = load ptr, ptr %127, align 8
  %131 = load i64, ptr %129, align 8
  %arrayidx1.i75 = getelementptr inbounds nuw i8, ptr %129, i64 8
  %132 = load i64, ptr %arrayidx1.i75, align 8
  %mul.i76 = mul i64 %132, %131
  %arrayidx2.i = getelementptr inbounds nuw i8, ptr %129, i64 16
  %133 = load i64, ptr %arrayidx2.i, align 8
  %134 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %mul.i76, i64 %133)
  %135 = extractvalue { i64, i1 } %134, 1
  %136 = extractvalue { i64, i1 } %134, 0
  br i1 %135, label %if.then22, label %if.end.i69

if.end.i69:
  %tobool.not.i70 = icmp eq i64 %136, 0
  br i1 %tobool.not.i70, label %cleanup33, label %if.end4.i

if.end4.i:
  %cost.i = getelementptr inbounds nuw i8, ptr %128, i64 16
  %137 = load double, ptr %cost.i, align 8
  %conv.i = uitofp i64 %136 to double
  %mul.i = fmul double %137, %conv.i
  %cmp.i77 = icmp eq i64 %136, 1
  %cmp2.i = fcmp olt double %mul.i, %conv.i79
  %or.cond = select i1 %cmp.i77, i1 true, i1 %cmp2.i
  br i1 %or.cond, label %threads_for.exit, label %if.end.i80

if.end.i80:
  %threads.i = getelementptr inbounds nuw i8, ptr %128, i64 24
  %138 = load i64, ptr %threads.i, align 8
  %tobool.not.i81 = icmp eq i64 %138, 0
  br i1 %tobool.not.i81, label %cond.false.i, label %cond.end.i

cond.false.i:
  %139 = load i64, ptr %130, align 8
  br label %cond.end.i

cond.end.i:
  %cond.i = phi i64 [ %139, %cond.false.i ], [ %138, %if.end.i80 ]
  %asks.i = getelementptr inbounds nuw i8, ptr %128, i64 32
  %140 = load ptr, ptr %asks.i, align 8
  %tobool6.not.i82 = icmp eq ptr %140, null
  br i1 %tobool6.not.i82, label %if.end9.i, label %if.then7.i

if.then7.i:
  %call.i = call i32 %140()
  %conv8.i83 = zext i32 %call.i to i64
  br label %if.end9.i

if.end9.i:
  %wanted.0.i = phi i64 [ %conv8.i83, %if.then7.i ], [ %cond.i, %cond.end.i ]
  %pool.i84 = getelementptr inbounds nuw i8, ptr %128, i64 48
  %141 = load ptr, ptr %pool.i84, align 8
  %threads10.i = getelementptr inbounds nuw i8, ptr %141, i64 16
  %142 = load i64, ptr %threads10.i, align 8
  %cond16.i = call i64 @llvm.umin.i64(i64 %wanted.0.i, i64 %142)
  br label %threads_for.exit

threads_for.exit:
  %retval.0.i85 = phi i64 [ %cond16.i, %if.end9.i ], [ 1, %if.end4.i ]
  %unbounded.i = getelementptr inbounds nuw i8, ptr %128, i64 40
  %143 = load i64, ptr %unbounded.i, align 8
  %tobool6.not.i = icmp ne i64 %143, 0
  %cmp.i71 = fcmp ogt double %mul.i, %conv8.i
  %or.cond196 = select i1 %tobool6.not.i, i1 true, i1 %cmp.i71
  %cmp10.i = icmp ne i64 %136, 1
  %spec.select = select i1 %or.cond196, i1 %cmp10.i, i1 false
  %cmp13.i = icmp ugt i64 %retval.0.i85, 1
  %or.cond.i = select i1 %cmp13.i, i1 true, i1 %spec.select
  br i1 %or.cond.i, label %land.lhs.true.i, label %if.end20.i

land.lhs.true.i:
  %pool.i = getelementptr inbounds nuw i8, ptr %128, i64 48
  %144 = load ptr, ptr %pool.i, align 8
  %145 = load ptr, ptr %144, align 8
  %tobool18.not.i = icmp eq ptr %145, null
  br i1 %tobool18.not.i, label %if.then22, label %if.end20.i

if.end20.i:
  %scratch.i = getelementptr inbounds nuw i8, ptr %128, i64 8
  %146 = load i64, ptr %scratch.i, align 8
  %mul21.i = mul i64 %146, %retval.0.i85
  %tobool.not.i86 = icmp eq i64 %mul21.i, 0
  br i1 %tobool.not.i86, label %if.then.i, label %for.cond.i87.preheader

for.cond.i87.preheader:
  %place.0.ptr.i190 = getelementptr inbounds nuw i8, ptr %130, i64 112
  br label %for.body.i89

if.then.i:
  %add.ptr.i92 = getelementptr inbounds nuw i8, ptr %130, i64 176
  %.pre218 = load ptr, ptr %add.ptr.i92, align 8
  br label %if.end25.i

for.body.i89:
  %place.0.ptr.i192 = phi ptr [ %place.0.ptr.i190, %for.cond.i87.preheader ], [ %place.0.ptr.i, %for.inc.i ]
  %place.0.idx.i191 = phi i64 [ 112, %for.cond.i87.preheader ], [ %place.0.add.i, %for.inc.i ]
  %bytes.i90 = getelementptr inbounds nuw i8, ptr %place.0.ptr.i192, i64 8
  %147 = load i64, ptr %bytes.i90, align 8
  %cmp1.not.i = icmp ult i64 %147, %mul21.i
  br i1 %cmp1.not.i, label %for.inc.i, label %land.lhs.true.i91

land.lhs.true.i91:
  %148 = load ptr, ptr %place.0.ptr.i192, align 8
  %tobool2.not.i = icmp eq ptr %148, null
  br i1 %tobool2.not.i, label %for.inc.i, label %if.end25.i

for.inc.i:
  %place.0.add.i = add nuw nsw i64 %place.0.idx.i191, 16
  %place.0.ptr.i = getelementptr inbounds nuw i8, ptr %130, i64 %place.0.add.i
  %cmp.i88 = icmp samesign ugt i64 %place.0.idx.i191, 159
  br i1 %cmp.i88, label %if.then22, label %for.body.i89

if.end25.i:
  %149 = phi ptr [ %.pre218, %if.then.i ], [ %148, %land.lhs.true.i91 ]
  %retval.1.i.ph = phi ptr [ %add.ptr.i92, %if.then.i ], [ %place.0.ptr.i192, %land.lhs.true.i91 ]
  %arrayidx.i = getelementptr inbounds nuw i8, ptr %129, i64 24
  store ptr %149, ptr %arrayidx.i, align 8
  %arrayidx27.i = getelementptr inbounds nuw i8, ptr %129, i64 32
  %150 = load i64, ptr %scratch.i, align 8
  store i64 %150, ptr %arrayidx27.i, align 8
  store ptr null, ptr %retval.1.i.ph, align 8
  %cmp34.i = fcmp ogt double %mul.i, %conv33.i
  %or.cond198 = select i1 %tobool6.not.i, i1 true, i1 %cmp34.i
  br i1 %or.cond198, label %if.then36.i, label %if.else.i

if.then36.i:
  %call37.i = call ptr @PyEval_SaveThread()
  %151 = load ptr, ptr %128, align 8
  %or.cond.i101 = or i1 %cmp13.i, %spec.select
  br i1 %or.cond.i101, label %run_programs.exit112, label %run_programs.exit112.thread

run_programs.exit112.thread:
  call void %151(i64 0, i64 %136, i64 0, ptr %129)
  call void @PyEval_RestoreThread(ptr %call37.i)
  br label %if.end20.thread164

run_programs.exit112:
  %pool2.i106 = getelementptr inbounds nuw i8, ptr %128, i64 48
  %152 = load ptr, ptr %pool2.i106, align 8
  %153 = load ptr, ptr %152, align 8
  %state.i107 = getelementptr inbounds nuw i8, ptr %152, i64 8
  %154 = load ptr, ptr %state.i107, align 8
  %least.i108 = getelementptr inbounds nuw i8, ptr %128, i64 56
  %155 = load i64, ptr %least.i108, align 8
  %group.i109 = getelementptr inbounds nuw i8, ptr %128, i64 64
  %156 = load i64, ptr %group.i109, align 8
  %conv.i110 = zext i1 %spec.select to i64
  %call.i111 = call i32 %153(ptr %154, ptr %151, ptr %129, i64 %136, i64 %retval.0.i85, i64 %155, i64 %156, i64 %conv.i110)
  call void @PyEval_RestoreThread(ptr %call37.i)
  %call.i111.fr = freeze i32 %call.i111
  %157 = icmp eq i32 %call.i111.fr, 0
  br i1 %157, label %if.end20.thread164, label %if.then27

if.else.i:
  %158 = load ptr, ptr %128, align 8
  br i1 %cmp13.i, label %if.then.i98, label %if.end.i95

if.then.i98:
  %pool2.i = getelementptr inbounds nuw i8, ptr %128, i64 48
  %159 = load ptr, ptr %pool2.i, align 8
  %160 = load ptr, ptr %159, align 8
  %state.i = getelementptr inbounds nuw i8, ptr %159, i64 8
  %161 = load ptr, ptr %state.i, align 8
  %least.i = getelementptr inbounds nuw i8, ptr %128, i64 56
  %162 = load i64, ptr %least.i, align 8
  %group.i = getelementptr inbounds nuw i8, ptr %128, i64 64
  %163 = load i64, ptr %group.i, align 8
  %call.i99 = call i32 %160(ptr %161, ptr %158, ptr %129, i64 %136, i64 %retval.0.i85, i64 %162, i64 %163, i64 0)
  br label %if.end20.thread164

if.end.i95:
  call void %158(i64 0, i64 %136, i64 0, ptr %129)
  br label %if.end20.thread164

if.end20.thread164:
  store ptr %149, ptr %retval.1.i.ph, align 8
  br label %cleanup33

if.then22:
  %inc158 = add i64 %n.0194, 1
  store i64 %inc158, ptr %next, align 8
  %call24 = call ptr @PyLong_FromLongLong(i64 %n.0194)
  br label %cleanup37

if.then27:
  %entry18.le = getelementptr inbounds nuw i8, ptr %add.ptr, i64 8
  store ptr %149, ptr %retval.1.i.ph, align 8
  store i64 0, ptr %next, align 8
  %164 = load ptr, ptr %add.ptr, align 8
  %165 = load ptr, ptr %entry18.le, align 8
  %166 = load ptr, ptr %164, align 8
  store ptr null, ptr %trace.i, align 8
  call void @PyErr_Fetch(ptr %type.i, ptr %value.i, ptr %trace.i)
  call void @PyErr_NormalizeException(ptr %type.i, ptr %value.i, ptr %trace.i)
  %stopped.i = getelementptr inbounds nuw i8, ptr %166, i64 96
  %167 = load ptr, ptr %stopped.i, align 8
  %program.i = getelementptr inbounds nuw i8, ptr %165, i64 72
  %168 = load ptr, ptr %program.i, align 8
  %169 = load ptr, ptr %value.i, align 8
  %call.i144 = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %167, ptr %168, ptr %169, ptr null)
  %170 = load ptr, ptr %type.i, align 8
  call void @Py_DecRef(ptr %170)
  %171 = load ptr, ptr %value.i, align 8
  call void @Py_DecRef(ptr %171)
  %172 = load ptr, ptr %trace.i, align 8
  call void @Py_DecRef(ptr %172)
  br label %cleanup37

cleanup33:
  %.pn = phi i64 [ %107, %if.then12 ], [ 1, %if.end20.thread164 ], [ 1, %if.end.i69 ]
  %n.1 = add i64 %.pn, %n.0194
  %173 = load i64, ptr %total, align 8
  %cmp8 = icmp slt i64 %n.1, %173
  br i1 %cmp8, label %while.body, label %while.end

while.end:
  store i64 0, ptr %next, align 8
  %174 = load ptr, ptr %3, align 8
  %none.i = getelementptr inbounds nuw i8, ptr %174, i64 8
  %175 = load ptr, ptr %none.i, align 8
  call void @Py_IncRef(ptr %175)
  br label %cleanup37

cleanup37:
  %retval.4 = phi ptr [ %call7, %if.then ], [ %175, %while.end ], [ %call.i144, %if.then27 ], [ %call24, %if.then22 ]
  ret ptr %retval.4
}

declare ptr @PyLong_FromLongLong(i64)

define internal fastcc i1 @wave(ptr %replay, ptr %launch, i64 %size) noinline nounwind {
entry:
  %mode.i = alloca ptr, align 8
  %0 = load ptr, ptr %replay, align 8
  %entry2 = getelementptr inbounds nuw i8, ptr %launch, i64 8
  %1 = load ptr, ptr %entry2, align 8
  %pool3 = getelementptr inbounds nuw i8, ptr %1, i64 48
  %2 = load ptr, ptr %pool3, align 8
  %3 = load ptr, ptr %2, align 8
  %tobool.not = icmp ne ptr %3, null
  %cmp.not198 = icmp sgt i64 %size, 0
  %or.cond234 = and i1 %tobool.not, %cmp.not198
  br i1 %or.cond234, label %for.body.lr.ph, label %cleanup86

for.body.lr.ph:
  %4 = load i64, ptr @object_size, align 8
  br label %for.body

for.body:
  %programs.0202 = phi i64 [ 0, %for.body.lr.ph ], [ %add, %for.inc ]
  %scratch.0201 = phi i64 [ 0, %for.body.lr.ph ], [ %.scratch.0, %for.inc ]
  %work.0200 = phi double [ 0.000000e+00, %for.body.lr.ph ], [ %add16, %for.inc ]
  %n.0199 = phi i64 [ 0, %for.body.lr.ph ], [ %inc, %for.inc ]
  %arrayidx = getelementptr inbounds nuw %struct.launch, ptr %launch, i64 %n.0199
  %entry5 = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %5 = load ptr, ptr %entry5, align 8
  %6 = load ptr, ptr %arrayidx, align 8
  %7 = load ptr, ptr %6, align 8
  %before.i = getelementptr inbounds nuw i8, ptr %6, i64 40
  %8 = load ptr, ptr %before.i, align 8
  %add.ptr.i14.i = getelementptr inbounds i8, ptr %8, i64 %4
  %9 = load i64, ptr %add.ptr.i14.i, align 8
  %after.i = getelementptr inbounds nuw i8, ptr %6, i64 48
  %10 = load ptr, ptr %after.i, align 8
  %add.ptr.i.i = getelementptr inbounds i8, ptr %10, i64 %4
  %11 = load i64, ptr %add.ptr.i.i, align 8
  %or.i = or i64 %11, %9
  %tobool.not.i = icmp eq i64 %or.i, 0
  br i1 %tobool.not.i, label %if.end.i, label %is_elsewhere.exit.thread

if.end.i:
  %mode3.i = getelementptr inbounds nuw i8, ptr %7, i64 56
  %12 = load ptr, ptr %mode3.i, align 8
  %plain.i = getelementptr inbounds nuw i8, ptr %7, i64 64
  %13 = load ptr, ptr %plain.i, align 8
  %call4.i = call i32 @PyContextVar_Get(ptr %12, ptr %13, ptr %mode.i)
  %tobool5.not.i = icmp eq i32 %call4.i, 0
  br i1 %tobool5.not.i, label %is_elsewhere.exit, label %if.then6.i

if.then6.i:
  call void @PyErr_Clear()
  br label %is_elsewhere.exit.thread

is_elsewhere.exit.thread:
  br label %cleanup86

is_elsewhere.exit:
  %14 = load ptr, ptr %mode.i, align 8
  call void @Py_DecRef(ptr %14)
  %15 = load ptr, ptr %mode.i, align 8
  %16 = load ptr, ptr %plain.i, align 8
  %cmp.i.not = icmp eq ptr %15, %16
  br i1 %cmp.i.not, label %lor.lhs.false, label %cleanup86

lor.lhs.false:
  %pool7 = getelementptr inbounds nuw i8, ptr %5, i64 48
  %17 = load ptr, ptr %pool7, align 8
  %cmp8.not = icmp eq ptr %17, %2
  br i1 %cmp8.not, label %lor.lhs.false9, label %cleanup86

lor.lhs.false9:
  %unbounded = getelementptr inbounds nuw i8, ptr %5, i64 40
  %18 = load i64, ptr %unbounded, align 8
  %tobool10.not = icmp eq i64 %18, 0
  br i1 %tobool10.not, label %for.inc, label %cleanup86

for.inc:
  %block.i152 = getelementptr inbounds nuw i8, ptr %arrayidx, i64 16
  %19 = load ptr, ptr %block.i152, align 8
  %20 = load i64, ptr %19, align 8
  %arrayidx1.i.i = getelementptr inbounds nuw i8, ptr %19, i64 8
  %21 = load i64, ptr %arrayidx1.i.i, align 8
  %mul.i.i = mul i64 %21, %20
  %arrayidx2.i.i = getelementptr inbounds nuw i8, ptr %19, i64 16
  %22 = load i64, ptr %arrayidx2.i.i, align 8
  %23 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %mul.i.i, i64 %22)
  %24 = extractvalue { i64, i1 } %23, 1
  %25 = extractvalue { i64, i1 } %23, 0
  %cond.i153 = select i1 %24, i64 0, i64 %25
  %add = add i64 %cond.i153, %programs.0202
  %26 = load ptr, ptr %entry5, align 8
  %cost.i = getelementptr inbounds nuw i8, ptr %26, i64 16
  %27 = load double, ptr %cost.i, align 8
  %conv.i154 = uitofp i64 %cond.i153 to double
  %mul.i = fmul double %27, %conv.i154
  %add16 = fadd double %work.0200, %mul.i
  %scratch17 = getelementptr inbounds nuw i8, ptr %5, i64 8
  %28 = load i64, ptr %scratch17, align 8
  %.scratch.0 = call i64 @llvm.smax.i64(i64 %28, i64 %scratch.0201)
  %inc = add nuw nsw i64 %n.0199, 1
  %exitcond.not = icmp eq i64 %inc, %size
  br i1 %exitcond.not, label %for.end, label %for.body

for.end:
  %.pre = load ptr, ptr %entry2, align 8
  %29 = icmp ult i64 %add, 2
  br i1 %29, label %cleanup86, label %lor.lhs.false.i

lor.lhs.false.i:
  %30 = load i64, ptr @serial_below, align 8
  %conv.i = sitofp i64 %30 to double
  %cmp2.i = fcmp olt double %add16, %conv.i
  br i1 %cmp2.i, label %cleanup86, label %if.end.i143

if.end.i143:
  %threads.i = getelementptr inbounds nuw i8, ptr %.pre, i64 24
  %31 = load i64, ptr %threads.i, align 8
  %tobool.not.i144 = icmp eq i64 %31, 0
  br i1 %tobool.not.i144, label %cond.false.i, label %cond.end.i

cond.false.i:
  %32 = load i64, ptr %0, align 8
  br label %cond.end.i

cond.end.i:
  %cond.i = phi i64 [ %32, %cond.false.i ], [ %31, %if.end.i143 ]
  %asks.i = getelementptr inbounds nuw i8, ptr %.pre, i64 32
  %33 = load ptr, ptr %asks.i, align 8
  %tobool6.not.i = icmp eq ptr %33, null
  br i1 %tobool6.not.i, label %threads_for.exit, label %if.then7.i

if.then7.i:
  %call.i = call i32 %33()
  %conv8.i = zext i32 %call.i to i64
  br label %threads_for.exit

threads_for.exit:
  %wanted.0.i = phi i64 [ %conv8.i, %if.then7.i ], [ %cond.i, %cond.end.i ]
  %pool.i = getelementptr inbounds nuw i8, ptr %.pre, i64 48
  %34 = load ptr, ptr %pool.i, align 8
  %threads10.i = getelementptr inbounds nuw i8, ptr %34, i64 16
  %35 = load i64, ptr %threads10.i, align 8
  %cond16.i = call i64 @llvm.umin.i64(i64 %wanted.0.i, i64 %35)
  %36 = load i64, ptr @polled_above, align 8
  %conv = sitofp i64 %36 to double
  %cmp24 = fcmp ogt double %add16, %conv
  %cmp27 = icmp ult i64 %cond16.i, 2
  %or.cond = select i1 %cmp24, i1 true, i1 %cmp27
  br i1 %or.cond, label %cleanup86, label %cond.false30

cond.false30:
  %mul = mul i64 %cond16.i, %.scratch.0
  %tobool.not.i146 = icmp eq i64 %mul, 0
  br i1 %tobool.not.i146, label %if.then.i, label %for.cond.i147.preheader

for.cond.i147.preheader:
  %place.0.ptr.i205 = getelementptr inbounds nuw i8, ptr %0, i64 112
  br label %for.body.i149

if.then.i:
  %add.ptr.i151 = getelementptr inbounds nuw i8, ptr %0, i64 176
  %.pre224 = load ptr, ptr %add.ptr.i151, align 8
  br label %if.end36

for.body.i149:
  %place.0.ptr.i207 = phi ptr [ %place.0.ptr.i205, %for.cond.i147.preheader ], [ %place.0.ptr.i, %for.inc.i ]
  %place.0.idx.i206 = phi i64 [ 112, %for.cond.i147.preheader ], [ %place.0.add.i, %for.inc.i ]
  %bytes.i150 = getelementptr inbounds nuw i8, ptr %place.0.ptr.i207, i64 8
  %37 = load i64, ptr %bytes.i150, align 8
  %cmp1.not.i = icmp ult i64 %37, %mul
  br i1 %cmp1.not.i, label %for.inc.i, label %land.lhs.true.i

land.lhs.true.i:
  %38 = load ptr, ptr %place.0.ptr.i207, align 8
  %tobool2.not.i = icmp eq ptr %38, null
  br i1 %tobool2.not.i, label %for.inc.i, label %if.end36

for.inc.i:
  %place.0.add.i = add nuw nsw i64 %place.0.idx.i206, 16
  %place.0.ptr.i = getelementptr inbounds nuw i8, ptr %0, i64 %place.0.add.i
  %cmp.i148 = icmp samesign ugt i64 %place.0.idx.i206, 159
  br i1 %cmp.i148, label %cleanup86, label %for.body.i149

if.end36:
  %39 = phi ptr [ %.pre224, %if.then.i ], [ %38, %land.lhs.true.i ]
  %cond33 = phi ptr [ %add.ptr.i151, %if.then.i ], [ %place.0.ptr.i207, %land.lhs.true.i ]
  store ptr null, ptr %cond33, align 8
  %addresses = getelementptr inbounds nuw i8, ptr %replay, i64 88
  br label %for.body44

for.cond.cleanup43:
  %mul55 = shl i64 %cond16.i, 3
  %conv56 = uitofp i64 %mul55 to double
  %div = fdiv double %add16, %conv56
  %units = getelementptr inbounds nuw i8, ptr %replay, i64 48
  %40 = load ptr, ptr %units, align 8
  %cmp57 = fcmp ogt double %div, 2.000000e+03
  %cond62 = select i1 %cmp57, double %div, double 2.000000e+03
  %add.ptr.i156.idx = mul nuw nsw i64 %size, 48
  %add.ptr.i156 = getelementptr inbounds nuw i8, ptr %launch, i64 %add.ptr.i156.idx
  br label %for.body.i159

for.body.i159:
  %launch.addr.0.i218 = phi ptr [ %incdec.ptr.i170, %for.cond.cleanup13.i ], [ %launch, %for.cond.cleanup43 ]
  %filled.0.i217 = phi i64 [ %filled.1.i.lcssa, %for.cond.cleanup13.i ], [ 0, %for.cond.cleanup43 ]
  %block.i.i160 = getelementptr inbounds nuw i8, ptr %launch.addr.0.i218, i64 16
  %41 = load ptr, ptr %block.i.i160, align 8
  %42 = load i64, ptr %41, align 8
  %arrayidx1.i.i.i161 = getelementptr inbounds nuw i8, ptr %41, i64 8
  %43 = load i64, ptr %arrayidx1.i.i.i161, align 8
  %mul.i.i.i162 = mul i64 %43, %42
  %arrayidx2.i.i.i163 = getelementptr inbounds nuw i8, ptr %41, i64 16
  %44 = load i64, ptr %arrayidx2.i.i.i163, align 8
  %45 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %mul.i.i.i162, i64 %44)
  %46 = extractvalue { i64, i1 } %45, 1
  %47 = extractvalue { i64, i1 } %45, 0
  %cond.i.i165 = select i1 %46, i64 0, i64 %47
  %entry1.i.i = getelementptr inbounds nuw i8, ptr %launch.addr.0.i218, i64 8
  %48 = load ptr, ptr %entry1.i.i, align 8
  %cost.i.i = getelementptr inbounds nuw i8, ptr %48, i64 16
  %49 = load double, ptr %cost.i.i, align 8
  %conv.i.i = uitofp i64 %cond.i.i165 to double
  %mul.i.i166 = fmul double %49, %conv.i.i
  %div.i = fdiv double %mul.i.i166, %cond62
  %add.i167 = fadd double %div.i, 5.000000e-01
  %conv.i168 = fptoui double %add.i167 to i64
  %cond.i169 = call i64 @llvm.umax.i64(i64 %conv.i168, i64 1)
  %cond9.i = call i64 @llvm.umin.i64(i64 %cond.i169, i64 %cond.i.i165)
  %cmp11.i212.not = icmp eq i64 %cond.i.i165, 0
  br i1 %cmp11.i212.not, label %for.cond.cleanup13.i, label %for.body14.i

for.cond.cleanup13.i:
  %filled.1.i.lcssa = phi i64 [ %filled.0.i217, %for.body.i159 ], [ %inc.i, %for.body14.i ]
  %incdec.ptr.i170 = getelementptr inbounds nuw i8, ptr %launch.addr.0.i218, i64 48
  %cmp.i158 = icmp ult ptr %incdec.ptr.i170, %add.ptr.i156
  br i1 %cmp.i158, label %for.body.i159, label %cut.exit

for.body14.i:
  %filled.1.i214 = phi i64 [ %inc.i, %for.body14.i ], [ %filled.0.i217, %for.body.i159 ]
  %n.0.i213 = phi i64 [ %add20.i, %for.body14.i ], [ 0, %for.body.i159 ]
  %50 = load ptr, ptr %entry1.i.i, align 8
  %51 = load ptr, ptr %50, align 8
  %inc.i = add i64 %filled.1.i214, 1
  %arrayidx.i171 = getelementptr inbounds %struct.unit, ptr %40, i64 %filled.1.i214
  %52 = load ptr, ptr %block.i.i160, align 8
  %mul.i172 = mul i64 %n.0.i213, %cond.i.i165
  %div19.i = udiv i64 %mul.i172, %cond9.i
  %add20.i = add nuw i64 %n.0.i213, 1
  %mul21.i = mul i64 %add20.i, %cond.i.i165
  %div22.i = udiv i64 %mul21.i, %cond9.i
  store ptr %51, ptr %arrayidx.i171, align 8
  %.compoundliteral.sroa.2.0.arrayidx.sroa_idx.i = getelementptr inbounds nuw i8, ptr %arrayidx.i171, i64 8
  store ptr %52, ptr %.compoundliteral.sroa.2.0.arrayidx.sroa_idx.i, align 8
  %.compoundliteral.sroa.3.0.arrayidx.sroa_idx.i = getelementptr inbounds nuw i8, ptr %arrayidx.i171, i64 16
  store i64 %div19.i, ptr %.compoundliteral.sroa.3.0.arrayidx.sroa_idx.i, align 8
  %.compoundliteral.sroa.4.0.arrayidx.sroa_idx.i = getelementptr inbounds nuw i8, ptr %arrayidx.i171, i64 24
  store i64 %div22.i, ptr %.compoundliteral.sroa.4.0.arrayidx.sroa_idx.i, align 8
  %exitcond223.not = icmp eq i64 %add20.i, %cond9.i
  br i1 %exitcond223.not, label %for.cond.cleanup13.i, label %for.body14.i

cut.exit:
  %53 = load i64, ptr @long_above, align 8
  %conv64 = sitofp i64 %53 to double
  %cmp65 = fcmp ogt double %add16, %conv64
  br i1 %cmp65, label %cond.true67, label %cond.end70

for.body44:
  %n39.0211 = phi i64 [ 0, %if.end36 ], [ %inc52, %move.exit ]
  %add.ptr45 = getelementptr inbounds nuw %struct.launch, ptr %launch, i64 %n39.0211
  %54 = load ptr, ptr %addresses, align 8
  %moves.i = getelementptr inbounds nuw i8, ptr %add.ptr45, i64 24
  %55 = load ptr, ptr %moves.i, align 8
  %count.i = getelementptr inbounds nuw i8, ptr %add.ptr45, i64 32
  %56 = load i64, ptr %count.i, align 8
  %add.ptr.i.idx = mul nsw i64 %56, 24
  %add.ptr.i = getelementptr inbounds i8, ptr %55, i64 %add.ptr.i.idx
  %cmp.i141208 = icmp sgt i64 %56, 0
  br i1 %cmp.i141208, label %for.body.i.lr.ph, label %move.exit

for.body.i.lr.ph:
  %block.i = getelementptr inbounds nuw i8, ptr %add.ptr45, i64 16
  br label %for.body.i

for.body.i:
  %move.0.i209 = phi ptr [ %55, %for.body.i.lr.ph ], [ %incdec.ptr.i, %for.body.i ]
  %array.i = getelementptr inbounds nuw i8, ptr %move.0.i209, i64 8
  %57 = load i64, ptr %array.i, align 8
  %arrayidx.i = getelementptr inbounds i64, ptr %54, i64 %57
  %58 = load i64, ptr %arrayidx.i, align 8
  %bytes.i = getelementptr inbounds nuw i8, ptr %move.0.i209, i64 16
  %59 = load i64, ptr %bytes.i, align 8
  %add.i = add i64 %59, %58
  %60 = load ptr, ptr %block.i, align 8
  %61 = load i64, ptr %move.0.i209, align 8
  %arrayidx1.i = getelementptr inbounds %union.word, ptr %60, i64 %61
  store i64 %add.i, ptr %arrayidx1.i, align 8
  %incdec.ptr.i = getelementptr inbounds nuw i8, ptr %move.0.i209, i64 24
  %cmp.i141 = icmp ult ptr %incdec.ptr.i, %add.ptr.i
  br i1 %cmp.i141, label %for.body.i, label %move.exit

move.exit:
  %block = getelementptr inbounds nuw i8, ptr %add.ptr45, i64 16
  %62 = load ptr, ptr %block, align 8
  %arrayidx47 = getelementptr inbounds nuw i8, ptr %62, i64 24
  store ptr %39, ptr %arrayidx47, align 8
  %63 = load ptr, ptr %block, align 8
  %arrayidx50 = getelementptr inbounds nuw i8, ptr %63, i64 32
  store i64 %.scratch.0, ptr %arrayidx50, align 8
  %inc52 = add nuw nsw i64 %n39.0211, 1
  %exitcond222.not = icmp eq i64 %inc52, %size
  br i1 %exitcond222.not, label %for.cond.cleanup43, label %for.body44

cond.true67:
  %call68 = call ptr @PyEval_SaveThread()
  br label %cond.end70

cond.end70:
  %cond71 = phi ptr [ %call68, %cond.true67 ], [ null, %cut.exit ]
  %64 = load ptr, ptr %2, align 8
  %state73 = getelementptr inbounds nuw i8, ptr %2, i64 8
  %65 = load ptr, ptr %state73, align 8
  %66 = load ptr, ptr %units, align 8
  %call75 = call i32 %64(ptr %65, ptr @run_units, ptr %66, i64 %filled.1.i.lcssa, i64 %cond16.i, i64 1, i64 1, i64 0)
  %tobool76.not = icmp eq ptr %cond71, null
  br i1 %tobool76.not, label %if.end78, label %if.then77

if.then77:
  call void @PyEval_RestoreThread(ptr %cond71)
  br label %if.end78

if.end78:
  store ptr %39, ptr %cond33, align 8
  br label %cleanup86

cleanup86:
  %retval.4 = phi i1 [ false, %entry ], [ true, %if.end78 ], [ false, %lor.lhs.false.i ], [ false, %is_elsewhere.exit.thread ], [ false, %for.end ], [ false, %for.inc.i ], [ false, %threads_for.exit ], [ false, %is_elsewhere.exit ], [ false, %lor.lhs.false ], [ false, %lor.lhs.false9 ]
  ret i1 %retval.4
}

declare void @Py_IncRef(ptr)

declare i32 @PyErr_ExceptionMatches(ptr)

declare void @PyErr_Clear()

declare ptr @PyObject_CallOneArg(ptr, ptr)

declare ptr @PyDict_New()

declare i32 @PyDict_SetItem(ptr, ptr, ptr)

declare i32 @PyContextVar_Get(ptr, ptr, ptr)

define internal fastcc i1 @is_plain(ptr %value, ptr %view, i64 %axes, i64 %kind, ptr %layout) nounwind {
entry:
  %0 = load i64, ptr %layout, align 8
  %add.ptr = getelementptr inbounds i8, ptr %value, i64 %0
  %1 = load ptr, ptr %add.ptr, align 8
  %keys = getelementptr inbounds nuw i8, ptr %layout, i64 8
  %2 = load i64, ptr %keys, align 8
  %add.ptr2 = getelementptr inbounds i8, ptr %1, i64 %2
  %3 = load i64, ptr %add.ptr2, align 8
  %wanted = getelementptr inbounds nuw i8, ptr %layout, i64 16
  %4 = load i64, ptr %wanted, align 8
  %cmp.not = icmp eq i64 %3, %4
  br i1 %cmp.not, label %lor.lhs.false, label %cleanup32

lor.lhs.false:
  %dtype = getelementptr inbounds nuw i8, ptr %layout, i64 24
  %5 = load i64, ptr %dtype, align 8
  %add.ptr3 = getelementptr inbounds i8, ptr %1, i64 %5
  %6 = load i16, ptr %add.ptr3, align 2
  %conv4 = trunc i64 %kind to i16
  %cmp6.not = icmp eq i16 %6, %conv4
  br i1 %cmp6.not, label %if.end, label %cleanup32

if.end:
  %sizes8 = getelementptr inbounds nuw i8, ptr %layout, i64 56
  %7 = load i64, ptr %sizes8, align 8
  %add.ptr9 = getelementptr inbounds i8, ptr %1, i64 %7
  %storage10 = getelementptr inbounds nuw i8, ptr %layout, i64 32
  %8 = load i64, ptr %storage10, align 8
  %add.ptr11 = getelementptr inbounds i8, ptr %1, i64 %8
  %9 = load ptr, ptr %add.ptr11, align 8
  %10 = load i64, ptr %add.ptr9, align 8
  %cmp12.not = icmp eq i64 %10, %axes
  br i1 %cmp12.not, label %lor.lhs.false14, label %cleanup32

lor.lhs.false14:
  %frees = getelementptr inbounds nuw i8, ptr %layout, i64 64
  %11 = load i64, ptr %frees, align 8
  %add.ptr15 = getelementptr inbounds i8, ptr %9, i64 %11
  %12 = load i64, ptr %add.ptr15, align 8
  %refused = getelementptr inbounds nuw i8, ptr %layout, i64 72
  %13 = load i64, ptr %refused, align 8
  %cmp16 = icmp eq i64 %12, %13
  br i1 %cmp16, label %cleanup32, label %if.end19

if.end19:
  %data = getelementptr inbounds nuw i8, ptr %layout, i64 40
  %14 = load i64, ptr %data, align 8
  %add.ptr20 = getelementptr inbounds i8, ptr %9, i64 %14
  %15 = load ptr, ptr %add.ptr20, align 8
  %offset = getelementptr inbounds nuw i8, ptr %layout, i64 48
  %16 = load i64, ptr %offset, align 8
  %add.ptr22 = getelementptr inbounds i8, ptr %1, i64 %16
  %17 = load i64, ptr %add.ptr22, align 8
  %shr = ashr i64 %kind, 32
  %shl = shl i64 %17, %shr
  %add.ptr23 = getelementptr inbounds i8, ptr %15, i64 %shl
  %add.ptr24 = getelementptr inbounds nuw i8, ptr %add.ptr9, i64 8
  %add.ptr26 = getelementptr inbounds nuw i8, ptr %add.ptr9, i64 48
  %18 = ptrtoint ptr %add.ptr23 to i64
  %cmp.i55 = icmp sgt i64 %axes, 0
  br i1 %cmp.i55, label %for.body.i, label %.thread

.thread:
  %shl27.i65 = shl nuw i64 1, %shr
  %add28.i66 = add i64 %shl27.i65, %18
  br label %22

for.body.i:
  %low.0.i59 = phi i64 [ %add.i, %for.body.i ], [ %18, %if.end19 ]
  %high.0.i58 = phi i64 [ %add16.i, %for.body.i ], [ %18, %if.end19 ]
  %is_empty.0.i57 = phi i1 [ %or764.i, %for.body.i ], [ false, %if.end19 ]
  %n.0.i56 = phi i64 [ %inc.i, %for.body.i ], [ 0, %if.end19 ]
  %arrayidx.i = getelementptr inbounds nuw i64, ptr %add.ptr24, i64 %n.0.i56
  %19 = load i64, ptr %arrayidx.i, align 8
  %.fr = freeze i64 %19
  %sub.i = add i64 %.fr, -1
  %arrayidx1.i = getelementptr inbounds nuw i64, ptr %add.ptr26, i64 %n.0.i56
  %20 = load i64, ptr %arrayidx1.i, align 8
  %shl.i = shl i64 %20, %shr
  %mul.i = mul i64 %shl.i, %sub.i
  %cmp5.i = icmp eq i64 %.fr, 0
  %or764.i = or i1 %is_empty.0.i57, %cmp5.i
  %cond.i = tail call i64 @llvm.smin.i64(i64 %mul.i, i64 0)
  %add.i = add i64 %cond.i, %low.0.i59
  %cond15.i = tail call i64 @llvm.smax.i64(i64 %mul.i, i64 0)
  %add16.i = add i64 %cond15.i, %high.0.i58
  %inc.i = add nuw nsw i64 %n.0.i56, 1
  %exitcond.not = icmp eq i64 %inc.i, %axes
  br i1 %exitcond.not, label %land.rhs, label %for.body.i

land.rhs:
  br i1 %or764.i, label %22, label %21

21:
  %shl27.i = shl nuw i64 1, %shr
  %add28.i = add i64 %add16.i, %shl27.i
  br label %22

22:
  %23 = phi i64 [ %18, %.thread ], [ %add.i, %21 ], [ %18, %land.rhs ]
  %24 = phi i64 [ %add28.i66, %.thread ], [ %add28.i, %21 ], [ %18, %land.rhs ]
  store ptr %add.ptr23, ptr %view, align 8
  %.compoundliteral.sroa.2.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %view, i64 8
  store ptr %add.ptr24, ptr %.compoundliteral.sroa.2.0..sroa_idx.i, align 8
  %.compoundliteral.sroa.3.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %view, i64 16
  store ptr %add.ptr26, ptr %.compoundliteral.sroa.3.0..sroa_idx.i, align 8
  %.compoundliteral.sroa.4.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %view, i64 24
  store i64 0, ptr %.compoundliteral.sroa.4.0..sroa_idx.i, align 8
  %.compoundliteral.sroa.5.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %view, i64 32
  store i64 %23, ptr %.compoundliteral.sroa.5.0..sroa_idx.i, align 8
  %.compoundliteral.sroa.6.0..sroa_idx.i = getelementptr inbounds nuw i8, ptr %view, i64 40
  store i64 %24, ptr %.compoundliteral.sroa.6.0..sroa_idx.i, align 8
  %cmp.i54 = icmp eq i64 %23, %24
  %tobool.i = icmp ne ptr %15, null
  %25 = or i1 %tobool.i, %cmp.i54
  br label %cleanup32

cleanup32:
  %retval.1 = phi i1 [ false, %entry ], [ false, %lor.lhs.false ], [ false, %if.end ], [ false, %lor.lhs.false14 ], [ %25, %22 ]
  ret i1 %retval.1
}

declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)

declare double @PyFloat_AsDouble(ptr)

declare ptr @PyDict_GetItemWithError(ptr, ptr)

declare ptr @PyCell_Get(ptr)

declare ptr @PyEval_SaveThread()

declare void @PyEval_RestoreThread(ptr)

declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)

declare void @PyErr_Fetch(ptr, ptr, ptr)

declare void @PyErr_NormalizeException(ptr, ptr, ptr)

declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)

define internal void @run_units(i64 %first, i64 %last, i64 %thread, ptr %units) nounwind {
entry:
  %add.ptr1 = getelementptr inbounds %struct.unit, ptr %units, i64 %last
  %cmp10 = icmp slt i64 %first, %last
  br i1 %cmp10, label %for.body.preheader, label %for.cond.cleanup

for.body.preheader:
  %add.ptr = getelementptr inbounds %struct.unit, ptr %units, i64 %first
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %unit.011 = phi ptr [ %incdec.ptr, %for.body ], [ %add.ptr, %for.body.preheader ]
  %0 = load ptr, ptr %unit.011, align 8
  %first2 = getelementptr inbounds nuw i8, ptr %unit.011, i64 16
  %1 = load i64, ptr %first2, align 8
  %last3 = getelementptr inbounds nuw i8, ptr %unit.011, i64 24
  %2 = load i64, ptr %last3, align 8
  %block = getelementptr inbounds nuw i8, ptr %unit.011, i64 8
  %3 = load ptr, ptr %block, align 8
  tail call void %0(i64 %1, i64 %2, i64 %thread, ptr %3)
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %unit.011, i64 32
  %cmp = icmp ult ptr %incdec.ptr, %add.ptr1
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

declare i64 @llvm.smin.i64(i64, i64)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.umin.i64(i64, i64)

declare i64 @llvm.umax.i64(i64, i64)
