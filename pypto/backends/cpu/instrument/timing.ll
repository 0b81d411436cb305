; What a profiled kernel calls. timing.py fills in the number of sites (in angle brackets).
;
; %area, at the end of a thread's scratch: where the next event goes, where their memory ends, events that found no
; room; the same for programs; then for every site: cycles, runs, cycles in the running program.
; An event: site, program, begin, end. A program: its number, then the cycles of every site.
define internal void @profile.add(ptr %area, i64 %site, i64 %begin, i64 %end) noinline nounwind {
entry:
  %cycles = sub i64 %end, %begin
  %scaled = mul i64 %site, 3
  %index = add i64 %scaled, 6
  %total.p = getelementptr i64, ptr %area, i64 %index
  %runs.p = getelementptr i64, ptr %total.p, i64 1
  %now.p = getelementptr i64, ptr %total.p, i64 2
  %total = load i64, ptr %total.p
  %runs = load i64, ptr %runs.p
  %now = load i64, ptr %now.p
  %total1 = add i64 %total, %cycles
  %runs1 = add i64 %runs, 1
  %now1 = add i64 %now, %cycles
  store i64 %total1, ptr %total.p
  store i64 %runs1, ptr %runs.p
  store i64 %now1, ptr %now.p
  ret void
}

define internal void @profile.event(ptr %area, i64 %site, i64 %program, i64 %begin, i64 %end) noinline nounwind {
entry:
  call void @profile.add(ptr %area, i64 %site, i64 %begin, i64 %end)
  %last.p = getelementptr i64, ptr %area, i64 1
  %next = load ptr, ptr %area
  %last = load ptr, ptr %last.p
  %room = icmp ult ptr %next, %last
  br i1 %room, label %keep, label %drop
keep:
  %program.p = getelementptr i64, ptr %next, i64 1
  %begin.p = getelementptr i64, ptr %next, i64 2
  %end.p = getelementptr i64, ptr %next, i64 3
  %after = getelementptr i64, ptr %next, i64 4
  store i64 %site, ptr %next
  store i64 %program, ptr %program.p
  store i64 %begin, ptr %begin.p
  store i64 %end, ptr %end.p
  store ptr %after, ptr %area
  ret void
drop:
  %dropped.p = getelementptr i64, ptr %area, i64 2
  %dropped = load i64, ptr %dropped.p
  %dropped1 = add i64 %dropped, 1
  store i64 %dropped1, ptr %dropped.p
  ret void
}

define internal void @profile.program(ptr %area, i64 %site, i64 %program, i64 %begin, i64 %end) noinline nounwind {
entry:
  call void @profile.event(ptr %area, i64 %site, i64 %program, i64 %begin, i64 %end)
  %next.p = getelementptr i64, ptr %area, i64 3
  %last.p = getelementptr i64, ptr %area, i64 4
  %next = load ptr, ptr %next.p
  %last = load ptr, ptr %last.p
  %room = icmp ult ptr %next, %last
  br i1 %room, label %keep, label %drop
keep:
  store i64 %program, ptr %next
  %after = getelementptr i64, ptr %next, i64 <row>
  store ptr %after, ptr %next.p
  br label %head
drop:
  %dropped.p = getelementptr i64, ptr %area, i64 5
  %dropped = load i64, ptr %dropped.p
  %dropped1 = add i64 %dropped, 1
  store i64 %dropped1, ptr %dropped.p
  br label %head
head:
  %i = phi i64 [ 0, %keep ], [ 0, %drop ], [ %i1, %cleared ]
  %more = icmp ult i64 %i, <sites>
  br i1 %more, label %one, label %out
one:
  %i1 = add i64 %i, 1
  %scaled = mul i64 %i, 3
  %index = add i64 %scaled, 8
  %now.p = getelementptr i64, ptr %area, i64 %index
  %now = load i64, ptr %now.p
  store i64 0, ptr %now.p
  br i1 %room, label %write, label %cleared
write:
  %cell = getelementptr i64, ptr %next, i64 %i1
  store i64 %now, ptr %cell
  br label %cleared
cleared:
  br label %head
out:
  ret void
}
