; A row of launches that is made again and again on other arrays of the same types, shapes and strides, as a plan makes
; them. Argument blocks are filled in once, by `resolve`; a replay checks the arrays, puts their addresses into the
; blocks, and runs. Launches that do not depend on each other are a wave: one launch whose grid is the union of theirs.
;
; %replay: what all kernels share, launches and their number, the launch to begin with, arrays and their number, the
; place for the units of a wave, and what the first arrays are like: each as its type, dtype, number of axes, sizes,
; then strides; the number of pairs of arrays that must not
; overlap, and these; whether an array may be given twice. %launch: the table of its kernel, its entry, its block, what of the arrays goes
; where in it, the number of these, and how many launches are a wave that begins here. %unit: a part of a wave, as
; body, block, first program and the one behind the last.
%replay = type { ptr, ptr, i64, i64, i64, i64, ptr, ptr, i64, ptr, i64 }
%launch = type { ptr, ptr, ptr, ptr, i64, i64 }
%move = type { i64, i64, i64 }  ; the bytes behind the address of an array go to a slot: slot, array, bytes
%unit = type { ptr, ptr, i64, i64 }
%pair = type { i64, i64, i64, i64 }  ; two arrays, which overlap where the distance of their addresses is between these
declare ptr @PyLong_FromLongLong(i64)

; The entry for some arguments, as a number, with the block filled in; 0 where there is none, or the grid is no tuple.
define i64 @resolve(ptr %kernel, ptr %grid, ptr %values, ptr %block) {
start:
  %shared = load ptr, ptr %kernel
  %count = call i64 @length(ptr %values)
  %arity.p = getelementptr i64, ptr %kernel, i64 <k.arity>
  %arity = load i64, ptr %arity.p
  %fits = icmp eq i64 %count, %arity
  br i1 %fits, label %measure, label %none
measure:
  %plain = call i1 @sizes(ptr %shared, ptr %grid, ptr %block)
  br i1 %plain, label %search, label %none
search:
  %items = getelementptr i8, ptr %values, i64 <tuple.items>
  %entry = call ptr @find(ptr %kernel, ptr %items, ptr %block)
  %found = ptrtoint ptr %entry to i64
  ret i64 %found
none:
  ret i64 0
}

; A replay on some arrays. None when all launches are done; the number of a launch that Python is to make, after which
; it calls again; -1 where the arrays are others, and nothing was done.
define ptr @replay(ptr %self, ptr %args, i64 %count) {
start:
  %r = call ptr @kernel(ptr %self)
  %shared = load ptr, ptr %r
  %given.p = getelementptr %replay, ptr %r, i64 0, i32 4
  %given = load i64, ptr %given.p
  %fits = icmp eq i64 %count, %given
  br i1 %fits, label %compare, label %others
compare:
  %alike = call i1 @alike(ptr %r, ptr %args)
  br i1 %alike, label %separate, label %others
separate:
  %apart = call i1 @apart(ptr %r, ptr %args)
  br i1 %apart, label %begin, label %others
begin:
  %next.p = getelementptr %replay, ptr %r, i64 0, i32 3
  %first = load i64, ptr %next.p
  %launches.p = getelementptr %replay, ptr %r, i64 0, i32 1
  %launches = load ptr, ptr %launches.p
  %total.p = getelementptr %replay, ptr %r, i64 0, i32 2
  %total = load i64, ptr %total.p
  br label %head
head:
  %n = phi i64 [ %first, %begin ], [ %n.alone, %alone.done ], [ %n.wave, %wave.done ]
  %left = icmp ult i64 %n, %total
  br i1 %left, label %look, label %done
look:
  %launch = getelementptr %launch, ptr %launches, i64 %n
  %wave.p = getelementptr %launch, ptr %launch, i64 0, i32 5
  %size = load i64, ptr %wave.p
  %several = icmp ugt i64 %size, 1
  br i1 %several, label %wave, label %alone
wave:
  %waved = call i1 @wave(ptr %r, ptr %launch, i64 %size, ptr %args)
  br i1 %waved, label %wave.done, label %alone
wave.done:
  %n.wave = add i64 %n, %size
  br label %head
alone:
  %kernel = load ptr, ptr %launch
  %entry.p = getelementptr %launch, ptr %launch, i64 0, i32 1
  %entry = load ptr, ptr %entry.p
  %block.p = getelementptr %launch, ptr %launch, i64 0, i32 2
  %block = load ptr, ptr %block.p
  %elsewhere = call i1 @is_elsewhere(ptr %kernel)
  br i1 %elsewhere, label %python, label %move
move:
  call void @move(ptr %launch, ptr %args)
  %ran = call i32 @run(ptr %kernel, ptr %entry, ptr %block)
  switch i32 %ran, label %stopped [ i32 0, label %python
                                    i32 1, label %alone.done ]
alone.done:
  %n.alone = add i64 %n, 1
  br label %head
done:
  store i64 0, ptr %next.p
  %nothing = call ptr @word(ptr %shared, i64 <s.none>)
  call void @Py_IncRef(ptr %nothing)
  ret ptr %nothing
python:
  %following = add i64 %n, 1
  store i64 %following, ptr %next.p
  %number = call ptr @PyLong_FromLongLong(i64 %n)
  ret ptr %number
stopped:
  store i64 0, ptr %next.p
  %raised = call ptr @stopped(ptr %kernel, ptr %entry)
  ret ptr %raised
others:
  %minus = call ptr @PyLong_FromLongLong(i64 -1)
  ret ptr %minus
}

; Whether the first arrays are like those that the blocks were filled in for, and none is given twice that may not be.
define internal i1 @alike(ptr %r, ptr %args) {
start:
  %count.p = getelementptr %replay, ptr %r, i64 0, i32 5
  %count = load i64, ptr %count.p
  %rows.p = getelementptr %replay, ptr %r, i64 0, i32 7
  %rows = load ptr, ptr %rows.p
  %repeats.p = getelementptr %replay, ptr %r, i64 0, i32 10
  %repeats = load i64, ptr %repeats.p
  %distinct = icmp eq i64 %repeats, 0
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %strides.done ]
  %row = phi ptr [ %rows, %start ], [ %following, %strides.done ]
  %left = icmp ult i64 %n, %count
  br i1 %left, label %look, label %yes
look:
  %n1 = add i64 %n, 1
  %value.p = getelementptr ptr, ptr %args, i64 %n
  %value = load ptr, ptr %value.p
  %type.p = getelementptr i8, ptr %value, i64 <type>
  %type = load ptr, ptr %type.p
  %type.want = load ptr, ptr %row
  %ok1 = icmp eq ptr %type, %type.want
  br i1 %ok1, label %fields, label %no
fields:
  %dtype.p = getelementptr i8, ptr %value, i64 <array.dtype>
  %dtype = load ptr, ptr %dtype.p
  %dtype.want = call ptr @word(ptr %row, i64 1)
  %ok2 = icmp eq ptr %dtype, %dtype.want
  %axes.p = getelementptr i8, ptr %value, i64 <array.axes>
  %axes32 = load i32, ptr %axes.p
  %axes = sext i32 %axes32 to i64
  %axes.want.p = getelementptr i64, ptr %row, i64 2
  %axes.want = load i64, ptr %axes.want.p
  %ok3 = icmp eq i64 %axes, %axes.want
  %ok23 = and i1 %ok2, %ok3
  br i1 %ok23, label %seek, label %no
seek:  ; an array that is given twice is one array of the plan, and not two
  %m = phi i64 [ 0, %fields ], [ %m1, %other ]
  %before = icmp ult i64 %m, %n
  %asks = and i1 %before, %distinct
  br i1 %asks, label %other, label %dimensions
other:
  %m1 = add i64 %m, 1
  %earlier.p = getelementptr ptr, ptr %args, i64 %m
  %earlier = load ptr, ptr %earlier.p
  %same = icmp eq ptr %earlier, %value
  br i1 %same, label %no, label %seek
dimensions:
  %sizes.p = getelementptr i8, ptr %value, i64 <array.sizes>
  %sizes = load ptr, ptr %sizes.p
  %strides.p = getelementptr i8, ptr %value, i64 <array.strides>
  %strides = load ptr, ptr %strides.p
  %sizes.want = getelementptr i64, ptr %row, i64 3
  %strides.want = getelementptr i64, ptr %sizes.want, i64 %axes
  br label %axis
axis:
  %a = phi i64 [ 0, %dimensions ], [ %a1, %axis.look ]
  %some = icmp ult i64 %a, %axes
  br i1 %some, label %axis.look, label %strides.done
axis.look:
  %a1 = add i64 %a, 1
  %size.p = getelementptr i64, ptr %sizes, i64 %a
  %size = load i64, ptr %size.p
  %size.want.p = getelementptr i64, ptr %sizes.want, i64 %a
  %size.want = load i64, ptr %size.want.p
  %stride.p = getelementptr i64, ptr %strides, i64 %a
  %stride = load i64, ptr %stride.p
  %stride.want.p = getelementptr i64, ptr %strides.want, i64 %a
  %stride.want = load i64, ptr %stride.want.p
  %ok4 = icmp eq i64 %size, %size.want
  %equal = icmp eq i64 %stride, %stride.want
  %one = icmp eq i64 %size, 1  ; no stride is taken along it
  %ok5 = or i1 %equal, %one
  %ok45 = and i1 %ok4, %ok5
  br i1 %ok45, label %axis, label %no
strides.done:
  %following = getelementptr i64, ptr %strides.want, i64 %axes
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether no pair of arrays overlaps.
define internal i1 @apart(ptr %r, ptr %args) {
start:
  %count.p = getelementptr %replay, ptr %r, i64 0, i32 8
  %count = load i64, ptr %count.p
  %pairs.p = getelementptr %replay, ptr %r, i64 0, i32 9
  %pairs = load ptr, ptr %pairs.p
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %look ]
  %left = icmp ult i64 %n, %count
  br i1 %left, label %look, label %yes
look:
  %n1 = add i64 %n, 1
  %a.p = getelementptr %pair, ptr %pairs, i64 %n, i32 0
  %a = load i64, ptr %a.p
  %b.p = getelementptr %pair, ptr %pairs, i64 %n, i32 1
  %b = load i64, ptr %b.p
  %low.p = getelementptr %pair, ptr %pairs, i64 %n, i32 2
  %low = load i64, ptr %low.p
  %high.p = getelementptr %pair, ptr %pairs, i64 %n, i32 3
  %high = load i64, ptr %high.p
  %one.p = getelementptr ptr, ptr %args, i64 %a
  %one = load ptr, ptr %one.p
  %one.data.p = getelementptr i8, ptr %one, i64 <array.data>
  %one.data = load i64, ptr %one.data.p
  %other.p = getelementptr ptr, ptr %args, i64 %b
  %other = load ptr, ptr %other.p
  %other.data.p = getelementptr i8, ptr %other, i64 <array.data>
  %other.data = load i64, ptr %other.data.p
  %distance = sub i64 %one.data, %other.data
  %above = icmp sgt i64 %distance, %low
  %below = icmp slt i64 %distance, %high
  %meet = and i1 %above, %below
  br i1 %meet, label %no, label %head
yes:
  ret i1 true
no:
  ret i1 false
}

; Put addresses of arrays into the block of a launch.
define internal void @move(ptr %launch, ptr %args) alwaysinline {
start:
  %block.p = getelementptr %launch, ptr %launch, i64 0, i32 2
  %block = load ptr, ptr %block.p
  %moves.p = getelementptr %launch, ptr %launch, i64 0, i32 3
  %moves = load ptr, ptr %moves.p
  %count.p = getelementptr %launch, ptr %launch, i64 0, i32 4
  %count = load i64, ptr %count.p
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %put ]
  %left = icmp ult i64 %n, %count
  br i1 %left, label %put, label %done
put:
  %n1 = add i64 %n, 1
  %slot.p = getelementptr %move, ptr %moves, i64 %n, i32 0
  %slot = load i64, ptr %slot.p
  %array.p = getelementptr %move, ptr %moves, i64 %n, i32 1
  %array = load i64, ptr %array.p
  %bytes.p = getelementptr %move, ptr %moves, i64 %n, i32 2
  %bytes = load i64, ptr %bytes.p
  %value.p = getelementptr ptr, ptr %args, i64 %array
  %value = load ptr, ptr %value.p
  %data.p = getelementptr i8, ptr %value, i64 <array.data>
  %data = load ptr, ptr %data.p
  %address = getelementptr i8, ptr %data, i64 %bytes
  %to = getelementptr ptr, ptr %block, i64 %slot
  store ptr %address, ptr %to
  br label %head
done:
  ret void
}

; Programs of a launch, none where they are too many to count, and their work.
define internal i64 @amount(ptr %launch, ptr %work) alwaysinline {
  %entry.p = getelementptr %launch, ptr %launch, i64 0, i32 1
  %entry = load ptr, ptr %entry.p
  %block.p = getelementptr %launch, ptr %launch, i64 0, i32 2
  %block = load ptr, ptr %block.p
  %x = load i64, ptr %block
  %y.p = getelementptr i64, ptr %block, i64 1
  %y = load i64, ptr %y.p
  %z.p = getelementptr i64, ptr %block, i64 2
  %z = load i64, ptr %z.p
  %xy = mul i64 %x, %y
  %product = call {i64, i1} @llvm.umul.with.overflow.i64(i64 %xy, i64 %z)
  %programs = extractvalue {i64, i1} %product, 0
  %over = extractvalue {i64, i1} %product, 1
  %counted = select i1 %over, i64 0, i64 %programs
  %cost.p = getelementptr double, ptr %entry, i64 <e.cost>
  %cost = load double, ptr %cost.p
  %times = uitofp i64 %counted to double
  %whole = fmul double %cost, %times
  store double %whole, ptr %work
  ret i64 %counted
}

; Run some launches as one. False where nothing was done: they are made one after the other then.
define internal i1 @wave(ptr %r, ptr %launch, i64 %size, ptr %args) noinline {
start:
  %work.p = alloca double
  %entry.p = getelementptr %launch, ptr %launch, i64 0, i32 1
  %entry = load ptr, ptr %entry.p
  %pool = call ptr @word(ptr %entry, i64 <e.pool>)
  %function = load ptr, ptr %pool
  %shared = load ptr, ptr %r
  %units.p = getelementptr %replay, ptr %r, i64 0, i32 6
  %units = load ptr, ptr %units.p
  %missing = icmp eq ptr %function, null
  br i1 %missing, label %no, label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %next ]
  %programs = phi i64 [ 0, %start ], [ %programs1, %next ]
  %work = phi double [ 0.0, %start ], [ %work1, %next ]
  %scratch = phi i64 [ 0, %start ], [ %scratch1, %next ]
  %left = icmp ult i64 %n, %size
  br i1 %left, label %look, label %weigh
look:
  %n1 = add i64 %n, 1
  %l = getelementptr %launch, ptr %launch, i64 %n
  %kernel = load ptr, ptr %l
  %e.p = getelementptr %launch, ptr %l, i64 0, i32 1
  %e = load ptr, ptr %e.p
  %elsewhere = call i1 @is_elsewhere(ptr %kernel)
  %pool2 = call ptr @word(ptr %e, i64 <e.pool>)
  %other = icmp ne ptr %pool2, %pool
  %open.p = getelementptr i64, ptr %e, i64 <e.unbounded>
  %open = load i64, ptr %open.p
  %unbounded = icmp ne i64 %open, 0
  %bad1 = or i1 %elsewhere, %other
  %bad = or i1 %bad1, %unbounded
  br i1 %bad, label %no, label %next
next:
  %own = call i64 @amount(ptr %l, ptr %work.p)
  %mine = load double, ptr %work.p
  %programs1 = add i64 %programs, %own
  %work1 = fadd double %work, %mine
  %bytes.p = getelementptr i64, ptr %e, i64 <e.scratch>
  %bytes = load i64, ptr %bytes.p
  %scratch1 = call i64 @llvm.umax.i64(i64 %scratch, i64 %bytes)
  br label %head
weigh:
  %very = fcmp ogt double %work, <polled>
  %threads = call i64 @threads(ptr %shared, ptr %entry, i64 %programs, double %work)
  %single = icmp ult i64 %threads, 2
  %refused = or i1 %very, %single
  br i1 %refused, label %no, label %reserve
reserve:
  %needed = mul i64 %scratch, %threads
  %place = call ptr @take(ptr %shared, i64 %needed)
  %lacking = icmp eq ptr %place, null
  br i1 %lacking, label %no, label %part
part:  ; parts of about equal work, eight for a thread
  %memory = load ptr, ptr %place
  store ptr null, ptr %place
  %parts = shl i64 %threads, 3
  %parts.f = uitofp i64 %parts to double
  %even = fdiv double %work, %parts.f
  %little = fcmp olt double %even, 2000.0
  %portion = select i1 %little, double 2000.0, double %even
  br label %each
each:
  %k = phi i64 [ 0, %part ], [ %k1, %cut.done ]
  %filled = phi i64 [ 0, %part ], [ %filled.now, %cut.done ]
  %more = icmp ult i64 %k, %size
  br i1 %more, label %fill, label %go
fill:
  %k1 = add i64 %k, 1
  %m = getelementptr %launch, ptr %launch, i64 %k
  call void @move(ptr %m, ptr %args)
  %m.block.p = getelementptr %launch, ptr %m, i64 0, i32 2
  %m.block = load ptr, ptr %m.block.p
  %memory.p = getelementptr ptr, ptr %m.block, i64 3
  store ptr %memory, ptr %memory.p
  %m.bytes.p = getelementptr i64, ptr %m.block, i64 4
  store i64 %scratch, ptr %m.bytes.p
  %m.entry.p = getelementptr %launch, ptr %m, i64 0, i32 1
  %m.entry = load ptr, ptr %m.entry.p
  %body = load ptr, ptr %m.entry
  %m.programs = call i64 @amount(ptr %m, ptr %work.p)
  %m.work = load double, ptr %work.p
  %ratio = fdiv double %m.work, %portion
  %cuts.f = fadd double %ratio, 0.5
  %cuts.i = fptoui double %cuts.f to i64
  %cuts.1 = call i64 @llvm.umax.i64(i64 %cuts.i, i64 1)
  %cuts = call i64 @llvm.umin.i64(i64 %cuts.1, i64 %m.programs)
  br label %cut
cut:
  %c = phi i64 [ 0, %fill ], [ %c1, %cut.put ]
  %filled.now = phi i64 [ %filled, %fill ], [ %filled1, %cut.put ]
  %uncut = icmp ult i64 %c, %cuts
  br i1 %uncut, label %cut.put, label %cut.done
cut.put:
  %c1 = add i64 %c, 1
  %filled1 = add i64 %filled.now, 1
  %from.all = mul i64 %c, %m.programs
  %from = udiv i64 %from.all, %cuts
  %to.all = mul i64 %c1, %m.programs
  %to = udiv i64 %to.all, %cuts
  %u.body = getelementptr %unit, ptr %units, i64 %filled.now, i32 0
  store ptr %body, ptr %u.body
  %u.block = getelementptr %unit, ptr %units, i64 %filled.now, i32 1
  store ptr %m.block, ptr %u.block
  %u.first = getelementptr %unit, ptr %units, i64 %filled.now, i32 2
  store i64 %from, ptr %u.first
  %u.last = getelementptr %unit, ptr %units, i64 %filled.now, i32 3
  store i64 %to, ptr %u.last
  br label %cut
cut.done:
  br label %each
go:
  %run = load ptr, ptr %pool
  %state = call ptr @word(ptr %pool, i64 1)
  %long = fcmp ogt double %work, <long>
  br i1 %long, label %release, label %here
release:
  %python = call ptr @PyEval_SaveThread()
  %r1 = call i32 %run(ptr %state, ptr @units, ptr %units, i64 %filled, i64 %threads, i64 1, i64 1, i64 0)
  call void @PyEval_RestoreThread(ptr %python)
  br label %end
here:
  %r2 = call i32 %run(ptr %state, ptr @units, ptr %units, i64 %filled, i64 %threads, i64 1, i64 1, i64 0)
  br label %end
end:
  store ptr %memory, ptr %place
  ret i1 true
no:
  ret i1 false
}

; The body of a wave: its programs are units.
define internal void @units(i64 %first, i64 %last, i64 %thread, ptr %units) {
start:
  br label %head
head:
  %n = phi i64 [ %first, %start ], [ %n1, %call ]
  %left = icmp ult i64 %n, %last
  br i1 %left, label %call, label %done
call:
  %n1 = add i64 %n, 1
  %body.p = getelementptr %unit, ptr %units, i64 %n, i32 0
  %body = load ptr, ptr %body.p
  %block.p = getelementptr %unit, ptr %units, i64 %n, i32 1
  %block = load ptr, ptr %block.p
  %from.p = getelementptr %unit, ptr %units, i64 %n, i32 2
  %from = load i64, ptr %from.p
  %to.p = getelementptr %unit, ptr %units, i64 %n, i32 3
  %to = load i64, ptr %to.p
  call void %body(i64 %from, i64 %to, i64 %thread, ptr %block)
  br label %head
done:
  ret void
}
