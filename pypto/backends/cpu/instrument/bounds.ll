; What a checked kernel calls: exact tests of what an access touches, and who stored an element first.
;
; %report, one for a launch: whether something was found; its site, value, program and the other program; how many
; arrays there are; where the locks of owners are; how many programs there are; whether threads share them; from word 9 on
; the index that names no element; from word 24 on a record for every array.
; An array: address of its first byte in memory, bytes that a quick test may allow, bytes, bytes of an element, a byte
; for each element that exists (null: all do), the program that stored each element (null: nobody asks), the number
; before that of the launch's first program, and the program that stored each block of 64 elements as a whole: the
; number after that of the last program says that its elements have owners of their own.
; %access: the report, the array (null: any), site, program, bytes of an element, what a store does with owners (0: no
; store, 1: one of its own, 2: an atomic, which may come after others), base address, number of dimensions; then for
; every dimension offset, stride in elements, extent, and size of the tile.
define internal i1 @checks.fail(ptr %report, i64 %site, i64 %value, i64 %program, i64 %other) cold noinline nounwind {
entry:
  %pair = cmpxchg ptr %report, i64 0, i64 1 seq_cst seq_cst
  %first = extractvalue { i64, i1 } %pair, 1
  br i1 %first, label %note, label %done
note:
  %site.p = getelementptr i64, ptr %report, i64 1
  %value.p = getelementptr i64, ptr %report, i64 2
  %program.p = getelementptr i64, ptr %report, i64 3
  %other.p = getelementptr i64, ptr %report, i64 4
  store i64 %site, ptr %site.p
  store i64 %value, ptr %value.p
  store i64 %program, ptr %program.p
  store i64 %other, ptr %other.p
  br label %done
done:
  ret i1 true
}

; Fails with the index of an access, whose offsets are copied to the report.
define internal i1 @checks.beyond(ptr %access) cold noinline nounwind {
entry:
  %report = load ptr, ptr %access
  %pair = cmpxchg ptr %report, i64 0, i64 1 seq_cst seq_cst
  %first = extractvalue { i64, i1 } %pair, 1
  br i1 %first, label %note, label %done
note:
  %site.p = getelementptr i64, ptr %access, i64 2
  %program.p = getelementptr i64, ptr %access, i64 3
  %rank.p = getelementptr i64, ptr %access, i64 7
  %site = load i64, ptr %site.p
  %program = load i64, ptr %program.p
  %rank = load i64, ptr %rank.p
  %noted.site.p = getelementptr i64, ptr %report, i64 1
  %noted.program.p = getelementptr i64, ptr %report, i64 3
  store i64 %site, ptr %noted.site.p
  store i64 %program, ptr %noted.program.p
  br label %head
head:
  %d = phi i64 [ 0, %note ], [ %d.next, %body ]
  %more = icmp ult i64 %d, %rank
  br i1 %more, label %body, label %done
body:
  %d.word = mul i64 %d, 4
  %d.at = add i64 %d.word, 8
  %offset.p = getelementptr i64, ptr %access, i64 %d.at
  %offset = load i64, ptr %offset.p
  %to = add i64 %d, 9
  %to.p = getelementptr i64, ptr %report, i64 %to
  store i64 %offset, ptr %to.p
  %d.next = add i64 %d, 1
  br label %head
done:
  ret i1 true
}

; Fails with a number of its own for the access at hand.
define internal i1 @checks.blame(ptr %access, i64 %value, i64 %other) cold noinline nounwind {
entry:
  %site.p = getelementptr i64, ptr %access, i64 2
  %program.p = getelementptr i64, ptr %access, i64 3
  %report = load ptr, ptr %access
  %site = load i64, ptr %site.p
  %program = load i64, ptr %program.p
  %failed = call i1 @checks.fail(ptr %report, i64 %site, i64 %value, i64 %program, i64 %other)
  ret i1 true
}

; The array that an address lies in.
define internal ptr @checks.find(ptr %report, i64 %address) noinline nounwind {
entry:
  %count.p = getelementptr i64, ptr %report, i64 5
  %count = load i64, ptr %count.p
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %none
body:
  %word = mul i64 %k, 8
  %word.at = add i64 %word, 24
  %array = getelementptr i64, ptr %report, i64 %word.at
  %size.p = getelementptr i64, ptr %array, i64 2
  %low = load i64, ptr %array
  %size = load i64, ptr %size.p
  %distance = sub i64 %address, %low
  %inside = icmp ult i64 %distance, %size
  br i1 %inside, label %found, label %next
next:
  %k.next = add i64 %k, 1
  br label %head
found:
  ret ptr %array
none:
  ret ptr null
}

; Elements of one array, %count of them, %step bytes apart: whether one does not exist, or is another program's.
define internal i1 @checks.run(ptr %access, i64 %start, i64 %step, i64 %count) noinline nounwind {
entry:
  %given.p = getelementptr i64, ptr %access, i64 1
  %item.p = getelementptr i64, ptr %access, i64 4
  %given = load ptr, ptr %given.p
  %item = load i64, ptr %item.p
  %is.given = icmp ne ptr %given, null
  br i1 %is.given, label %known, label %search
search:
  %report = load ptr, ptr %access
  %found = call ptr @checks.find(ptr %report, i64 %start)
  %is.found = icmp ne ptr %found, null
  br i1 %is.found, label %known, label %stray
stray:
  %strayed = call i1 @checks.blame(ptr %access, i64 %start, i64 -1)
  ret i1 true
known:
  %array = phi ptr [ %given, %entry ], [ %found, %search ]
  %size.p = getelementptr i64, ptr %array, i64 2
  %width.p = getelementptr i64, ptr %array, i64 3
  %exists.p = getelementptr i64, ptr %array, i64 4
  %low = load i64, ptr %array
  %size = load i64, ptr %size.p
  %width = load i64, ptr %width.p
  %exists = load ptr, ptr %exists.p
  %limit = sub i64 %size, %item
  %has.room = icmp sge i64 %limit, 0
  %first = sub i64 %start, %low
  %steps = sub i64 %count, 1
  %span.pair = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %step, i64 %steps)
  %span = extractvalue { i64, i1 } %span.pair, 0
  %wraps = extractvalue { i64, i1 } %span.pair, 1
  %last = add i64 %first, %span
  %first.inside = icmp ule i64 %first, %limit
  %last.inside = icmp ule i64 %last, %limit
  %no.gaps = icmp eq ptr %exists, null
  %straight = xor i1 %wraps, true
  %a1 = and i1 %has.room, %first.inside
  %a2 = and i1 %a1, %last.inside
  %a3 = and i1 %a2, %straight
  %all.inside = and i1 %a3, %no.gaps
  br i1 %all.inside, label %own, label %each
each:
  %j = phi i64 [ 0, %known ], [ %j.next, %next ]
  %moved = mul i64 %j, %step
  %at = add i64 %first, %moved
  %at.inside = icmp ule i64 %at, %limit
  %inside = and i1 %at.inside, %has.room
  br i1 %inside, label %reached, label %outside
reached:
  br i1 %no.gaps, label %next, label %gap
gap:
  %end = add i64 %at, %item
  %end.byte = sub i64 %end, 1
  %e.first = udiv i64 %at, %width
  %e.last = udiv i64 %end.byte, %width
  %e.first.p = getelementptr i8, ptr %exists, i64 %e.first
  %e.last.p = getelementptr i8, ptr %exists, i64 %e.last
  %there.first = load i8, ptr %e.first.p
  %there.last = load i8, ptr %e.last.p
  %there = and i8 %there.first, %there.last
  %is.there = icmp ne i8 %there, 0
  br i1 %is.there, label %next, label %outside
outside:
  %address = add i64 %low, %at
  %failed = call i1 @checks.blame(ptr %access, i64 %address, i64 -1)
  ret i1 true
next:
  %j.next = add i64 %j, 1
  %more = icmp ult i64 %j.next, %count
  br i1 %more, label %each, label %own
own:
  %stores.p = getelementptr i64, ptr %access, i64 5
  %owners.p = getelementptr i64, ptr %array, i64 5
  %stores = load i64, ptr %stores.p
  %owners = load ptr, ptr %owners.p
  %is.store = icmp ne i64 %stores, 0
  %is.watched = icmp ne ptr %owners, null
  %claims = and i1 %is.store, %is.watched
  br i1 %claims, label %claim, label %fine
claim:
  %clash = call i1 @checks.claim(ptr %access, ptr %array, i64 %first, i64 %step, i64 %count)
  ret i1 %clash
fine:
  ret i1 false
}

; The lock of an element's stretch of owners. Each is asked and noted by one thread at a time, so that of two programs
; the second always sees the first. To take one waits for all that the thread has stored: a single one needs none.
define internal ptr @checks.lock(ptr %access, i64 %element) noinline nounwind {
entry:
  %report = load ptr, ptr %access
  %locks.p = getelementptr i64, ptr %report, i64 6
  %locks = load ptr, ptr %locks.p
  %stretch = lshr i64 %element, 12
  %number = and i64 %stretch, 63
  %line = shl i64 %number, 3
  %lock = getelementptr i64, ptr %locks, i64 %line
  %shared.p = getelementptr i64, ptr %report, i64 8
  %shared = load i64, ptr %shared.p
  %is.shared = icmp ne i64 %shared, 0
  br i1 %is.shared, label %try, label %done
try:
  %held = atomicrmw xchg ptr %lock, i64 1 acquire
  %free = icmp eq i64 %held, 0
  br i1 %free, label %done, label %wait
wait:
  %seen = load atomic i64, ptr %lock monotonic, align 8
  %still = icmp ne i64 %seen, 0
  br i1 %still, label %wait, label %try
done:
  ret ptr %lock
}

; Notes a program as the owner of neighbours; gives how many, which are fewer where one was another program's.
define internal i64 @checks.note(ptr %owners, i64 %count, i32 %before, i32 %mine, i1 %asks) noinline nounwind {
entry:
  %before.1 = insertelement <16 x i32> poison, i32 %before, i32 0
  %before.16 = shufflevector <16 x i32> %before.1, <16 x i32> poison, <16 x i32> zeroinitializer
  %mine.1 = insertelement <16 x i32> poison, i32 %mine, i32 0
  %mine.16 = shufflevector <16 x i32> %mine.1, <16 x i32> poison, <16 x i32> zeroinitializer
  br label %fast
fast:
  %v = phi i64 [ 0, %entry ], [ %v.next, %keep ]
  %v.next = add i64 %v, 16
  %enough = icmp ule i64 %v.next, %count
  br i1 %enough, label %many, label %head
many:
  %place = getelementptr i32, ptr %owners, i64 %v
  %seen.16 = load <16 x i32>, ptr %place, align 4
  %now.16 = icmp ugt <16 x i32> %seen.16, %before.16
  %other.16 = icmp ne <16 x i32> %seen.16, %mine.16
  %taken.16 = and <16 x i1> %now.16, %other.16
  %taken = call i1 @llvm.vector.reduce.or.v16i1(<16 x i1> %taken.16)
  %is.clash = and i1 %taken, %asks
  br i1 %is.clash, label %head, label %keep
keep:
  store <16 x i32> %mine.16, ptr %place, align 4
  br label %fast
head:
  %j = phi i64 [ %v, %fast ], [ %v, %many ], [ %j.next, %take ]
  %more = icmp ult i64 %j, %count
  br i1 %more, label %body, label %done
body:
  %owner.p = getelementptr i32, ptr %owners, i64 %j
  %seen = load i32, ptr %owner.p
  %now = icmp ugt i32 %seen, %before
  %other = icmp ne i32 %seen, %mine
  %taken.1 = and i1 %now, %other
  %clashes = and i1 %taken.1, %asks
  br i1 %clashes, label %done, label %take
take:
  store i32 %mine, ptr %owner.p
  %j.next = add i64 %j, 1
  br label %head
done:
  ret i64 %j
}

; The same for neighbours from an element on to before another one, block by block; gives where it stopped.
define internal i64 @checks.note.blocks(ptr %array, i64 %from, i64 %stop, i32 %before, i32 %mine, i32 %single, i1 %asks) noinline nounwind {
entry:
  %owners.p = getelementptr i64, ptr %array, i64 5
  %blocks.p = getelementptr i64, ptr %array, i64 7
  %owners = load ptr, ptr %owners.p
  %blocks = load ptr, ptr %blocks.p
  br label %head
head:
  %e = phi i64 [ %from, %entry ], [ %end, %next ]
  %more = icmp ult i64 %e, %stop
  br i1 %more, label %body, label %done
body:
  %last = or i64 %e, 63
  %after = add i64 %last, 1
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %stop)
  %size = sub i64 %end, %e
  %is.whole = icmp eq i64 %size, 64
  %number = lshr i64 %e, 6
  %block.p = getelementptr i32, ptr %blocks, i64 %number
  %block = load i32, ptr %block.p
  %is.mine = icmp eq i32 %block, %mine
  br i1 %is.mine, label %next, label %others
others:
  %is.now = icmp ugt i32 %block, %before
  br i1 %is.now, label %taken, label %free
free:
  %new = select i1 %is.whole, i32 %mine, i32 %single
  store i32 %new, ptr %block.p
  br i1 %is.whole, label %next, label %singly
taken:
  %is.single = icmp eq i32 %block, %single
  br i1 %is.single, label %singly, label %whole
whole:
  br i1 %asks, label %done, label %next
singly:
  %place = getelementptr i32, ptr %owners, i64 %e
  %noted = call i64 @checks.note(ptr %place, i64 %size, i32 %before, i32 %mine, i1 %asks)
  %all = icmp eq i64 %noted, %size
  br i1 %all, label %next, label %stopped
next:
  br label %head
stopped:
  %at = add i64 %e, %noted
  ret i64 %at
done:
  ret i64 %e
}

; Notes the program as the owner of elements that exist; whether one was another program's.
define internal i1 @checks.claim(ptr %access, ptr %array, i64 %first, i64 %step, i64 %count) noinline nounwind {
entry:
  %program.p = getelementptr i64, ptr %access, i64 3
  %item.p = getelementptr i64, ptr %access, i64 4
  %stores.p = getelementptr i64, ptr %access, i64 5
  %width.p = getelementptr i64, ptr %array, i64 3
  %owners.p = getelementptr i64, ptr %array, i64 5
  %before.p = getelementptr i64, ptr %array, i64 6
  %program = load i64, ptr %program.p
  %item = load i64, ptr %item.p
  %stores = load i64, ptr %stores.p
  %width = load i64, ptr %width.p
  %blocks.p = getelementptr i64, ptr %array, i64 7
  %owners = load ptr, ptr %owners.p
  %blocks = load ptr, ptr %blocks.p
  %before.wide = load i64, ptr %before.p
  %low = load i64, ptr %array
  %report = load ptr, ptr %access
  %programs.p = getelementptr i64, ptr %report, i64 7
  %programs = load i64, ptr %programs.p
  %single.past = add i64 %before.wide, %programs
  %single.wide = add i64 %single.past, 1
  %single = trunc i64 %single.wide to i32
  %mine.past = add i64 %before.wide, %program
  %mine.wide = add i64 %mine.past, 1
  %mine = trunc i64 %mine.wide to i32
  %before = trunc i64 %before.wide to i32
  %asks = icmp eq i64 %stores, 1
  %inside = urem i64 %first, %width
  %aligned = icmp eq i64 %inside, 0
  %is.next = icmp eq i64 %step, %width
  %is.whole = icmp eq i64 %item, %width
  %in.row = and i1 %aligned, %is.next
  %neighbours = and i1 %in.row, %is.whole
  %runs = select i1 %neighbours, i64 1, i64 %count
  %run.bytes.all = mul i64 %count, %width
  %run.bytes = select i1 %neighbours, i64 %run.bytes.all, i64 %item
  br label %head
head:
  %j = phi i64 [ 0, %entry ], [ %j.next, %run.done ]
  %more = icmp ult i64 %j, %runs
  br i1 %more, label %body, label %done
body:
  %moved = mul i64 %j, %step
  %at = add i64 %first, %moved
  %end = add i64 %at, %run.bytes
  %end.byte = sub i64 %end, 1
  %e.first = udiv i64 %at, %width
  %e.last = udiv i64 %end.byte, %width
  %e.end = add i64 %e.last, 1
  br label %piece
piece:
  %e = phi i64 [ %e.first, %body ], [ %e.next, %piece.done ]
  %stretch = or i64 %e, 4095
  %stretch.end = add i64 %stretch, 1
  %stop = call i64 @llvm.smin.i64(i64 %stretch.end, i64 %e.end)
  %lock = call ptr @checks.lock(ptr %access, i64 %e)
  %e.next = call i64 @checks.note.blocks(ptr %array, i64 %e, i64 %stop, i32 %before, i32 %mine, i32 %single, i1 %asks)
  %whole = icmp eq i64 %e.next, %stop
  br i1 %whole, label %piece.done, label %clash
piece.done:
  store atomic i64 0, ptr %lock release, align 8
  %e.more = icmp ult i64 %e.next, %e.end
  br i1 %e.more, label %piece, label %run.done
run.done:
  %j.next = add i64 %j, 1
  br label %head
clash:
  %number = lshr i64 %e.next, 6
  %block.p = getelementptr i32, ptr %blocks, i64 %number
  %owner.p = getelementptr i32, ptr %owners, i64 %e.next
  %block = load i32, ptr %block.p
  %is.single = icmp eq i32 %block, %single
  %holder.p = select i1 %is.single, ptr %owner.p, ptr %block.p
  %owner = load i32, ptr %holder.p
  store atomic i64 0, ptr %lock release, align 8
  %owner.wide = zext i32 %owner to i64
  %past = sub i64 %owner.wide, %before.wide
  %who = sub i64 %past, 1
  %bytes = mul i64 %e.next, %width
  %address = add i64 %low, %bytes
  %failed = call i1 @checks.blame(ptr %access, i64 %address, i64 %who)
  ret i1 true
done:
  ret i1 false
}

; A structured access, row by row of its last dimension.
define internal i1 @checks.box(ptr %access) noinline nounwind {
entry:
  %item.p = getelementptr i64, ptr %access, i64 4
  %base.p = getelementptr i64, ptr %access, i64 6
  %rank.p = getelementptr i64, ptr %access, i64 7
  %item = load i64, ptr %item.p
  %base = load i64, ptr %base.p
  %rank = load i64, ptr %rank.p
  %outer = sub i64 %rank, 1
  %inner.word = mul i64 %outer, 4
  %inner.at = add i64 %inner.word, 8
  %inner = getelementptr i64, ptr %access, i64 %inner.at
  %inner.stride.p = getelementptr i64, ptr %inner, i64 1
  %inner.extent.p = getelementptr i64, ptr %inner, i64 2
  %inner.size.p = getelementptr i64, ptr %inner, i64 3
  %offset = load i64, ptr %inner
  %stride = load i64, ptr %inner.stride.p
  %extent = load i64, ptr %inner.extent.p
  %size = load i64, ptr %inner.size.p
  %stop = add i64 %offset, %size
  %from = call i64 @llvm.smax.i64(i64 %offset, i64 0)
  %to = call i64 @llvm.smin.i64(i64 %stop, i64 %extent)
  %count = sub i64 %to, %from
  %some = icmp sgt i64 %to, %from
  %step = mul i64 %stride, %item
  %into = mul i64 %from, %step
  %start0 = add i64 %base, %into
  br label %count.rows
count.rows:
  %k = phi i64 [ 0, %entry ], [ %k.next, %count.row ]
  %rows = phi i64 [ 1, %entry ], [ %rows.next, %count.row ]
  %k.more = icmp slt i64 %k, %outer
  br i1 %k.more, label %count.row, label %rows.head
count.row:
  %k.word = mul i64 %k, 4
  %k.at = add i64 %k.word, 11
  %k.size.p = getelementptr i64, ptr %access, i64 %k.at
  %k.size = load i64, ptr %k.size.p
  %rows.next = mul i64 %rows, %k.size
  %k.next = add i64 %k, 1
  br label %count.rows
rows.head:
  %row = phi i64 [ 0, %count.rows ], [ %row.next, %row.done ]
  %rows.left = icmp ult i64 %row, %rows
  %go.on = and i1 %rows.left, %some
  br i1 %go.on, label %dims, label %fine
dims:
  %d = phi i64 [ %outer, %rows.head ], [ %d.below, %dim ]
  %left = phi i64 [ %row, %rows.head ], [ %left.next, %dim ]
  %start = phi i64 [ %start0, %rows.head ], [ %start.next, %dim ]
  %exists = phi i1 [ true, %rows.head ], [ %exists.next, %dim ]
  %d.more = icmp sgt i64 %d, 0
  br i1 %d.more, label %dim, label %row.known
dim:
  %d.below = sub i64 %d, 1
  %d.word = mul i64 %d.below, 4
  %d.at = add i64 %d.word, 8
  %d.p = getelementptr i64, ptr %access, i64 %d.at
  %d.stride.p = getelementptr i64, ptr %d.p, i64 1
  %d.extent.p = getelementptr i64, ptr %d.p, i64 2
  %d.size.p = getelementptr i64, ptr %d.p, i64 3
  %d.offset = load i64, ptr %d.p
  %d.stride = load i64, ptr %d.stride.p
  %d.extent = load i64, ptr %d.extent.p
  %d.size = load i64, ptr %d.size.p
  %d.index = urem i64 %left, %d.size
  %left.next = udiv i64 %left, %d.size
  %at = add i64 %d.offset, %d.index
  %not.before = icmp sge i64 %at, 0
  %not.behind = icmp slt i64 %at, %d.extent
  %within = and i1 %not.before, %not.behind
  %exists.next = and i1 %exists, %within
  %d.step = mul i64 %d.stride, %item
  %d.into = mul i64 %at, %d.step
  %start.next = add i64 %start, %d.into
  br label %dims
row.known:
  br i1 %exists, label %row.run, label %row.done
row.run:
  %bad = call i1 @checks.run(ptr %access, i64 %start, i64 %step, i64 %count)
  br i1 %bad, label %failed, label %row.done
row.done:
  %row.next = add i64 %row, 1
  br label %rows.head
failed:
  ret i1 true
fine:
  ret i1 false
}

; Single elements: those of %count addresses whose byte in %on is not 0.
define internal i1 @checks.lanes(ptr %access, ptr %addresses, ptr %on, i64 %count) noinline nounwind {
entry:
  br label %head
head:
  %j = phi i64 [ 0, %entry ], [ %j.next, %next ]
  %more = icmp ult i64 %j, %count
  br i1 %more, label %body, label %fine
body:
  %on.p = getelementptr i8, ptr %on, i64 %j
  %on.j = load i8, ptr %on.p
  %is.on = icmp ne i8 %on.j, 0
  br i1 %is.on, label %test, label %next
test:
  %address.p = getelementptr i64, ptr %addresses, i64 %j
  %address = load i64, ptr %address.p
  %bad = call i1 @checks.run(ptr %access, i64 %address, i64 0, i64 1)
  br i1 %bad, label %failed, label %next
next:
  %j.next = add i64 %j, 1
  br label %head
failed:
  ret i1 true
fine:
  ret i1 false
}

; Fails with the first of %count values whose byte in %on is not 0; one is.
define internal i1 @checks.values(ptr %access, ptr %values, ptr %on, i64 %count) cold noinline nounwind {
entry:
  br label %head
head:
  %j = phi i64 [ 0, %entry ], [ %j.next, %next ]
  %on.p = getelementptr i8, ptr %on, i64 %j
  %on.j = load i8, ptr %on.p
  %is.on = icmp ne i8 %on.j, 0
  br i1 %is.on, label %found, label %next
next:
  %j.next = add i64 %j, 1
  br label %head
found:
  %value.p = getelementptr i64, ptr %values, i64 %j
  %value = load i64, ptr %value.p
  %failed = call i1 @checks.blame(ptr %access, i64 %value, i64 -1)
  ret i1 true
}
