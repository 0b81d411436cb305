; Made from timing.c by clang 22: `python -m tests.house.compiled`.
; sha256 634f262455649eb63933108e73eed31e57d947d8b6eeaacc1fd32f581d95f8e0
%struct.site = type { i64, i64, i64 }

@profile_sites = external constant i64, align 8

define internal void @profile_add(ptr %area, i64 %site, i64 %begin, i64 %end) noinline nounwind {
entry:
  %sub = sub i64 %end, %begin
  %sites = getelementptr inbounds nuw i8, ptr %area, i64 48
  %arrayidx = getelementptr inbounds %struct.site, ptr %sites, i64 %site
  %0 = load i64, ptr %arrayidx, align 8
  %add = add i64 %0, %sub
  store i64 %add, ptr %arrayidx, align 8
  %runs = getelementptr inbounds nuw i8, ptr %arrayidx, i64 8
  %1 = load i64, ptr %runs, align 8
  %add3 = add i64 %1, 1
  store i64 %add3, ptr %runs, align 8
  %now = getelementptr inbounds nuw i8, ptr %arrayidx, i64 16
  %2 = load i64, ptr %now, align 8
  %add7 = add i64 %2, %sub
  store i64 %add7, ptr %now, align 8
  ret void
}

define internal void @profile_event(ptr %area, i64 %site, i64 %program, i64 %begin, i64 %end) noinline nounwind {
entry:
  tail call void @profile_add(ptr %area, i64 %site, i64 %begin, i64 %end)
  %0 = load ptr, ptr %area, align 8
  %events_end = getelementptr inbounds nuw i8, ptr %area, i64 8
  %1 = load ptr, ptr %events_end, align 8
  %cmp = icmp ult ptr %0, %1
  br i1 %cmp, label %if.then, label %if.else

if.then:
  %incdec.ptr = getelementptr inbounds nuw i8, ptr %0, i64 32
  store ptr %incdec.ptr, ptr %area, align 8
  store i64 %site, ptr %0, align 8
  %.compoundliteral.sroa.2.0..sroa_idx = getelementptr inbounds nuw i8, ptr %0, i64 8
  store i64 %program, ptr %.compoundliteral.sroa.2.0..sroa_idx, align 8
  %.compoundliteral.sroa.3.0..sroa_idx = getelementptr inbounds nuw i8, ptr %0, i64 16
  store i64 %begin, ptr %.compoundliteral.sroa.3.0..sroa_idx, align 8
  %.compoundliteral.sroa.4.0..sroa_idx = getelementptr inbounds nuw i8, ptr %0, i64 24
  store i64 %end, ptr %.compoundliteral.sroa.4.0..sroa_idx, align 8
  br label %if.end

if.else:
  %dropped_events = getelementptr inbounds nuw i8, ptr %area, i64 16
  %2 = load i64, ptr %dropped_events, align 8
  %inc = add i64 %2, 1
  store i64 %inc, ptr %dropped_events, align 8
  br label %if.end

if.end:
  ret void
}

define internal void @profile_program(ptr %area, i64 %site, i64 %program, i64 %begin, i64 %end) noinline nounwind {
entry:
  tail call void @profile_event(ptr %area, i64 %site, i64 %program, i64 %begin, i64 %end)
  %program1 = getelementptr inbounds nuw i8, ptr %area, i64 24
  %0 = load ptr, ptr %program1, align 8
  %programs_end = getelementptr inbounds nuw i8, ptr %area, i64 32
  %1 = load ptr, ptr %programs_end, align 8
  %cmp = icmp uge ptr %0, %1
  %tobool.not29 = icmp eq ptr %0, null
  %tobool.not = or i1 %tobool.not29, %cmp
  br i1 %tobool.not, label %if.else, label %if.then

if.then:
  store i64 %program, ptr %0, align 8
  %2 = load i64, ptr @profile_sites, align 8
  %3 = load ptr, ptr %program1, align 8
  %4 = getelementptr i64, ptr %3, i64 %2
  %add.ptr = getelementptr i8, ptr %4, i64 8
  store ptr %add.ptr, ptr %program1, align 8
  br label %if.end

if.else:
  %dropped_programs = getelementptr inbounds nuw i8, ptr %area, i64 40
  %5 = load i64, ptr %dropped_programs, align 8
  %inc = add i64 %5, 1
  store i64 %inc, ptr %dropped_programs, align 8
  %.pre = load i64, ptr @profile_sites, align 8
  br label %if.end

if.end:
  %6 = phi i64 [ %.pre, %if.else ], [ %2, %if.then ]
  %cmp430 = icmp sgt i64 %6, 0
  br i1 %cmp430, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  ret void

for.body:
  %k.031 = phi i64 [ %inc13, %if.end9 ], [ 0, %if.end ]
  br i1 %tobool.not, label %if.end9, label %if.then6

if.then6:
  %arrayidx = getelementptr %struct.site, ptr %area, i64 %k.031
  %now = getelementptr i8, ptr %arrayidx, i64 64
  %7 = load i64, ptr %now, align 8
  %8 = getelementptr i64, ptr %0, i64 %k.031
  %arrayidx8 = getelementptr i8, ptr %8, i64 8
  store i64 %7, ptr %arrayidx8, align 8
  br label %if.end9

if.end9:
  %arrayidx11 = getelementptr %struct.site, ptr %area, i64 %k.031
  %now12 = getelementptr i8, ptr %arrayidx11, i64 64
  store i64 0, ptr %now12, align 8
  %inc13 = add nuw nsw i64 %k.031, 1
  %exitcond.not = icmp eq i64 %inc13, %6
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}
