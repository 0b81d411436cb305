; Which compiled version a launch may use. An entry of a kernel's table is a version with a list of steps, each of which
; checks something about an argument, or puts something into the argument block. Steps are six words: what, the number
; of the parameter, and four more, %a to %d. recipe.py writes them; the numbers in angle brackets come from native.py.
;
; %view: what was read of an array: data, sizes, strides, the shift from strides to elements, and the addresses of its
; first byte and behind its last, which are equal for an empty one.
%view = type { ptr, ptr, ptr, i64, i64, i64 }
%step = type { i64, i64, i64, i64, i64, i64 }
%dltensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyCell_Get(ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; The first entry whose steps all hold, with the argument block filled in; null if there is none.
define internal ptr @find(ptr %kernel, ptr %values, ptr %block) noinline {
start:
  %views = alloca [<parameters> x %view]
  %shared = load ptr, ptr %kernel
  %countp = getelementptr i64, ptr %kernel, i64 <k.entries>
  %count = load i64, ptr %countp
  %tablep = getelementptr i64, ptr %kernel, i64 <k.table>
  %table = load ptr, ptr %tablep
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %more ]
  %some = icmp ult i64 %n, %count
  br i1 %some, label %try, label %none
try:
  %entryp = getelementptr ptr, ptr %table, i64 %n
  %entry = load ptr, ptr %entryp
  %holds = call i1 @holds(ptr %shared, ptr %entry, ptr %values, ptr %views, ptr %block)
  br i1 %holds, label %found, label %more
more:
  %n1 = add i64 %n, 1
  br label %head
found:
  ret ptr %entry
none:
  ret ptr null
}

define internal i1 @holds(ptr %shared, ptr %entry, ptr %values, ptr %views, ptr %block) alwaysinline {
start:
  %met = alloca i1
  store i1 false, ptr %met
  %overflow = alloca i32
  %first = getelementptr i64, ptr %entry, i64 <e.steps>
  br label %next
next:
  %step = phi ptr [ %first, %start ], [ %after, %pass ]
  %what = load i64, ptr %step
  %p.p = getelementptr %step, ptr %step, i64 0, i32 1
  %p = load i64, ptr %p.p
  %a.p = getelementptr %step, ptr %step, i64 0, i32 2
  %a = load i64, ptr %a.p
  %b.p = getelementptr %step, ptr %step, i64 0, i32 3
  %b = load i64, ptr %b.p
  %c.p = getelementptr %step, ptr %step, i64 0, i32 4
  %c = load i64, ptr %c.p
  %d.p = getelementptr %step, ptr %step, i64 0, i32 5
  %d = load i64, ptr %d.p
  %value.p = getelementptr ptr, ptr %values, i64 %p
  %value = load ptr, ptr %value.p
  %type.p = getelementptr i8, ptr %value, i64 <type>
  %type = load ptr, ptr %type.p
  %view = getelementptr %view, ptr %views, i64 %p
  switch i64 %what, label %no [
    i64 <END>, label %yes
    i64 <IS>, label %is
    i64 <NUMPY>, label %numpy
    i64 <TENSOR>, label %tensor
    i64 <PLAIN>, label %plain
    i64 <KEYS>, label %keys
    i64 <DISTINCT>, label %distinct
    i64 <UNDISPATCHED>, label %undispatched
    i64 <UNRECORDED>, label %unrecorded
    i64 <NOTE_WRITE>, label %note.write
    i64 <SIZE>, label %size
    i64 <STRIDE>, label %stride
    i64 <INT>, label %int
    i64 <BOOL>, label %bool
    i64 <FLOAT32>, label %float
    i64 <FLOAT64>, label %float
    i64 <EQUAL>, label %equal
    i64 <GLOBAL>, label %global
    i64 <CELL>, label %cell
    i64 <PUT_WORD>, label %put.word
    i64 <PUT_ADDRESS>, label %put.address
    i64 <PUT_SIZE>, label %put.size
    i64 <PUT_STRIDE>, label %put.stride
    i64 <MEET>, label %meet
    i64 <MET>, label %compare.met
  ]
pass:
  %after = getelementptr %step, ptr %step, i64 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false

is:  ; the object %a
  %value.i = ptrtoint ptr %value to i64
  %is.ok = icmp eq i64 %value.i, %a
  br i1 %is.ok, label %pass, label %no

numpy:  ; of type %a and dtype %b, with %c axes, 2 ** (%d >> 32) bytes per element, and the flags %d
  %n.type = ptrtoint ptr %type to i64
  %n.ok1 = icmp eq i64 %n.type, %a
  br i1 %n.ok1, label %numpy.read, label %no
numpy.read:
  %n.dtype.p = getelementptr i8, ptr %value, i64 <array.dtype>
  %n.dtype = load i64, ptr %n.dtype.p
  %n.ok2 = icmp eq i64 %n.dtype, %b
  %n.axes.p = getelementptr i8, ptr %value, i64 <array.axes>
  %n.axes32 = load i32, ptr %n.axes.p
  %n.axes = sext i32 %n.axes32 to i64
  %n.ok3 = icmp eq i64 %n.axes, %c
  %n.flags.p = getelementptr i8, ptr %value, i64 <array.flags>
  %n.flags = load i32, ptr %n.flags.p
  %n.wanted = trunc i64 %d to i32
  %n.have = and i32 %n.flags, %n.wanted
  %n.ok4 = icmp eq i32 %n.have, %n.wanted
  %n.ok23 = and i1 %n.ok2, %n.ok3
  %n.ok = and i1 %n.ok23, %n.ok4
  br i1 %n.ok, label %numpy.view, label %no
numpy.view:
  %n.shift = lshr i64 %d, 32
  %n.data.p = getelementptr i8, ptr %value, i64 <array.data>
  %n.data = load ptr, ptr %n.data.p
  %n.sizes.p = getelementptr i8, ptr %value, i64 <array.sizes>
  %n.sizes = load ptr, ptr %n.sizes.p
  %n.strides.p = getelementptr i8, ptr %value, i64 <array.strides>
  %n.strides = load ptr, ptr %n.strides.p
  %n.read = call i1 @read(ptr %view, ptr %n.data, ptr %n.sizes, ptr %n.strides, i64 %c, i64 %n.shift, i64 %n.shift)
  br i1 %n.read, label %pass, label %no

tensor:  ; of type %a, with %b axes, 2 ** (%c >> 32) bytes per element, the DLPack dtype %c, described by function %d
  %t.type = ptrtoint ptr %type to i64
  %t.ok1 = icmp eq i64 %t.type, %a
  br i1 %t.ok1, label %tensor.read, label %no
tensor.read:
  %t.ok = call i1 @tensor(ptr %value, ptr %view, i64 %b, i64 %c, i64 %d)
  br i1 %t.ok, label %pass, label %no

plain:  ; tensor of type %a with %b axes, 2 ** (%c >> 32) bytes per element and dtype %c, by record %d
  %l.type = ptrtoint ptr %type to i64
  %l.ok1 = icmp eq i64 %l.type, %a
  br i1 %l.ok1, label %plain.read, label %no
plain.read:
  %l.ok = call i1 @plain(ptr %value, ptr %view, i64 %b, i64 %c, i64 %d)
  br i1 %l.ok, label %pass, label %no

keys:  ; of the tensor, at %b of its C++ object, whose address lies at %a, are %c
  %k.impl.p = getelementptr i8, ptr %value, i64 %a
  %k.impl = load ptr, ptr %k.impl.p
  %k.keys.p = getelementptr i8, ptr %k.impl, i64 %b
  %k.keys = load i64, ptr %k.keys.p
  %k.ok = icmp eq i64 %k.keys, %c
  br i1 %k.ok, label %pass, label %no

distinct:  ; no two elements of the array, which has %a axes, are one in memory
  %d.ok = call i1 @distinct(ptr %view, i64 %a)
  br i1 %d.ok, label %pass, label %no

undispatched:  ; no mode of torch's dispatcher is active, as function %a says, which gives their number
  %x.asks = inttoptr i64 %a to ptr
  %x.modes = call i64 %x.asks()
  %x.ok = icmp eq i64 %x.modes, 0
  br i1 %x.ok, label %pass, label %no

unrecorded:  ; the C++ object at %a requires no gradient, as function %b says, or none is recorded, as function %c says
  %u.impl.p = getelementptr i8, ptr %value, i64 %a
  %u.impl = load ptr, ptr %u.impl.p
  %u.asks = inttoptr i64 %b to ptr
  %u.known = call zeroext i1 %u.asks(ptr %u.impl)
  br i1 %u.known, label %unrecorded.mode, label %pass
unrecorded.mode:
  %u.mode = inttoptr i64 %c to ptr
  %u.records = call zeroext i1 %u.mode()
  br i1 %u.records, label %no, label %pass

note.write:  ; adds one to the version, at %c of the counter whose address is at %b of the object at %a, if there is one
  %w.impl.p = getelementptr i8, ptr %value, i64 %a
  %w.impl = load ptr, ptr %w.impl.p
  %w.counter.p = getelementptr i8, ptr %w.impl, i64 %b
  %w.counter = load ptr, ptr %w.counter.p
  %w.none = icmp eq ptr %w.counter, null
  br i1 %w.none, label %pass, label %note.count
note.count:
  %w.version.p = getelementptr i8, ptr %w.counter, i64 %c
  %w.old = atomicrmw add ptr %w.version.p, i32 1 monotonic, align 4
  br label %pass

size:  ; of axis %a is %b
  %s.sizes.p = getelementptr %view, ptr %view, i64 0, i32 1
  %s.sizes = load ptr, ptr %s.sizes.p
  %s.size.p = getelementptr i64, ptr %s.sizes, i64 %a
  %s.size = load i64, ptr %s.size.p
  %s.ok = icmp eq i64 %s.size, %b
  br i1 %s.ok, label %pass, label %no

stride:  ; of axis %a is %b: 0, 1, or 2 for any other; a last axis (%c) of size 1 counts as 1
  %r.stride = call i64 @stride(ptr %view, i64 %a)
  %r.sizes.p = getelementptr %view, ptr %view, i64 0, i32 1
  %r.sizes = load ptr, ptr %r.sizes.p
  %r.size.p = getelementptr i64, ptr %r.sizes, i64 %a
  %r.size = load i64, ptr %r.size.p
  %r.single = icmp eq i64 %r.size, 1
  %r.last = icmp ne i64 %c, 0
  %r.unused = and i1 %r.single, %r.last
  %r.other = select i1 %r.unused, i64 1, i64 2
  %r.known = icmp ult i64 %r.stride, 2
  %r.is = select i1 %r.known, i64 %r.stride, i64 %r.other
  %r.ok = icmp eq i64 %r.is, %b
  br i1 %r.ok, label %pass, label %no

int:  ; from %a to %b, goes to slot %c
  %i.type.p = getelementptr ptr, ptr %shared, i64 <s.int>
  %i.type = load ptr, ptr %i.type.p
  %i.ok1 = icmp eq ptr %type, %i.type
  br i1 %i.ok1, label %int.read, label %no
int.read:
  %i.value = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  %i.over = load i32, ptr %overflow
  %i.ok2 = icmp eq i32 %i.over, 0
  %i.ok3 = icmp sge i64 %i.value, %a
  %i.ok4 = icmp sle i64 %i.value, %b
  %i.slot = getelementptr i64, ptr %block, i64 %c
  store i64 %i.value, ptr %i.slot
  %i.ok34 = and i1 %i.ok3, %i.ok4
  %i.ok = and i1 %i.ok2, %i.ok34
  br i1 %i.ok, label %pass, label %no

bool:  ; of which True is %a, goes to slot %c
  %b.type.p = getelementptr ptr, ptr %shared, i64 <s.bool>
  %b.type = load ptr, ptr %b.type.p
  %b.value = ptrtoint ptr %value to i64
  %b.true = icmp eq i64 %b.value, %a
  %b.bit = zext i1 %b.true to i64
  %b.slot = getelementptr i64, ptr %block, i64 %c
  store i64 %b.bit, ptr %b.slot
  %b.ok = icmp eq ptr %type, %b.type
  br i1 %b.ok, label %pass, label %no

float:  ; goes to slot %c
  %f.type.p = getelementptr ptr, ptr %shared, i64 <s.float>
  %f.type = load ptr, ptr %f.type.p
  %f.ok = icmp eq ptr %type, %f.type
  br i1 %f.ok, label %float.read, label %no
float.read:
  %f.value = call double @PyFloat_AsDouble(ptr %value)
  %f.narrow = fptrunc double %f.value to float
  %f.bits32 = bitcast float %f.narrow to i32
  %f.bits = zext i32 %f.bits32 to i64
  %f.bits64 = bitcast double %f.value to i64
  %f.is64 = icmp eq i64 %what, <FLOAT64>
  %f.word = select i1 %f.is64, i64 %f.bits64, i64 %f.bits
  %f.slot = getelementptr i64, ptr %block, i64 %c
  store i64 %f.word, ptr %f.slot
  br label %pass

equal:  ; whether slot %a holds %b is %c
  %q.slot = getelementptr i64, ptr %block, i64 %a
  %q.word = load i64, ptr %q.slot
  %q.is = icmp eq i64 %q.word, %b
  %q.bit = zext i1 %q.is to i64
  %q.ok = icmp eq i64 %q.bit, %c
  br i1 %q.ok, label %pass, label %no

global:  ; %b in the dict %a is the object %c
  %g.dict = inttoptr i64 %a to ptr
  %g.name = inttoptr i64 %b to ptr
  %g.value = call ptr @PyDict_GetItemWithError(ptr %g.dict, ptr %g.name)
  %g.is = ptrtoint ptr %g.value to i64
  %g.ok = icmp eq i64 %g.is, %c
  br i1 %g.ok, label %pass, label %global.other
global.other:
  call void @PyErr_Clear()
  br label %no

cell:  ; the content of %a is the object %b
  %c.cell = inttoptr i64 %a to ptr
  %c.value = call ptr @PyCell_Get(ptr %c.cell)
  %c.is = ptrtoint ptr %c.value to i64
  %c.ok = icmp eq i64 %c.is, %b
  br i1 %c.ok, label %cell.same, label %cell.other
cell.same:
  call void @Py_DecRef(ptr %c.value)
  br label %pass
cell.other:
  call void @Py_DecRef(ptr %c.value)
  br label %no

put.word:  ; %b goes to slot %a
  %pw.slot = getelementptr i64, ptr %block, i64 %a
  store i64 %b, ptr %pw.slot
  br label %pass

put.address:  ; goes to slot %a
  %pa.data = load ptr, ptr %view
  %pa.slot = getelementptr ptr, ptr %block, i64 %a
  store ptr %pa.data, ptr %pa.slot
  br label %pass

put.size:  ; of axis %b goes to slot %a
  %ps.sizes.p = getelementptr %view, ptr %view, i64 0, i32 1
  %ps.sizes = load ptr, ptr %ps.sizes.p
  %ps.size.p = getelementptr i64, ptr %ps.sizes, i64 %b
  %ps.size = load i64, ptr %ps.size.p
  %ps.slot = getelementptr i64, ptr %block, i64 %a
  store i64 %ps.size, ptr %ps.slot
  br label %pass

put.stride:  ; of axis %b goes to slot %a
  %pr.stride = call i64 @stride(ptr %view, i64 %b)
  %pr.slot = getelementptr i64, ptr %block, i64 %a
  store i64 %pr.stride, ptr %pr.slot
  br label %pass

meet:  ; notes whether this array and that of parameter %a overlap
  %m.other = getelementptr %view, ptr %views, i64 %a
  %m.low.p = getelementptr %view, ptr %view, i64 0, i32 4
  %m.low = load i64, ptr %m.low.p
  %m.high.p = getelementptr %view, ptr %view, i64 0, i32 5
  %m.high = load i64, ptr %m.high.p
  %m.low2.p = getelementptr %view, ptr %m.other, i64 0, i32 4
  %m.low2 = load i64, ptr %m.low2.p
  %m.high2.p = getelementptr %view, ptr %m.other, i64 0, i32 5
  %m.high2 = load i64, ptr %m.high2.p
  %m.from = call i64 @llvm.smax.i64(i64 %m.low, i64 %m.low2)
  %m.to = call i64 @llvm.smin.i64(i64 %m.high, i64 %m.high2)
  %m.full = icmp ne i64 %m.low, %m.high
  %m.full2 = icmp ne i64 %m.low2, %m.high2
  %m.cross = icmp slt i64 %m.from, %m.to
  %m.both = and i1 %m.full, %m.full2
  %m.here = and i1 %m.both, %m.cross
  %m.before = load i1, ptr %met
  %m.now = or i1 %m.before, %m.here
  store i1 %m.now, ptr %met
  br label %pass

compare.met:  ; whether any did is %a
  %e.met = load i1, ptr %met
  %e.bit = zext i1 %e.met to i64
  %e.ok = icmp eq i64 %e.bit, %a
  br i1 %e.ok, label %pass, label %no
}

; A stride in elements.
define internal i64 @stride(ptr %view, i64 %axis) alwaysinline {
  %strides.p = getelementptr %view, ptr %view, i64 0, i32 2
  %strides = load ptr, ptr %strides.p
  %shift.p = getelementptr %view, ptr %view, i64 0, i32 3
  %shift = load i64, ptr %shift.p
  %stride.p = getelementptr i64, ptr %strides, i64 %axis
  %stride = load i64, ptr %stride.p
  %elements = ashr i64 %stride, %shift
  ret i64 %elements
}

; Whether no axis of more than one element has a stride of 0, or the array has no elements.
define internal i1 @distinct(ptr %view, i64 %axes) alwaysinline {
start:
  %sizes.p = getelementptr %view, ptr %view, i64 0, i32 1
  %sizes = load ptr, ptr %sizes.p
  %strides.p = getelementptr %view, ptr %view, i64 0, i32 2
  %strides = load ptr, ptr %strides.p
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %axis ]
  %empty = phi i1 [ false, %start ], [ %empty1, %axis ]
  %repeated = phi i1 [ false, %start ], [ %repeated1, %axis ]
  %more = icmp slt i64 %n, %axes
  br i1 %more, label %axis, label %done
axis:
  %n1 = add i64 %n, 1
  %size.p = getelementptr i64, ptr %sizes, i64 %n
  %size = load i64, ptr %size.p
  %stride.p = getelementptr i64, ptr %strides, i64 %n
  %stride = load i64, ptr %stride.p
  %none = icmp eq i64 %size, 0
  %empty1 = or i1 %empty, %none
  %still = icmp eq i64 %stride, 0
  %several = icmp ugt i64 %size, 1
  %here = and i1 %still, %several
  %repeated1 = or i1 %repeated, %here
  br label %head
done:
  %apart = xor i1 %repeated, true
  %ok = or i1 %apart, %empty
  ret i1 %ok
}

; Fill a view. False if a stride is no multiple of the element, which has 2 ** %log bytes.
define internal i1 @read(ptr %view, ptr %data, ptr %sizes, ptr %strides, i64 %axes, i64 %shift, i64 %log) alwaysinline {
start:
  %from = ptrtoint ptr %data to i64
  %grow = sub i64 %log, %shift
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %axis ]
  %low = phi i64 [ %from, %start ], [ %low1, %axis ]
  %high = phi i64 [ %from, %start ], [ %high1, %axis ]
  %all = phi i64 [ 0, %start ], [ %all1, %axis ]
  %empty = phi i1 [ false, %start ], [ %empty1, %axis ]
  %more = icmp slt i64 %n, %axes
  br i1 %more, label %axis, label %done
axis:
  %n1 = add i64 %n, 1
  %size.p = getelementptr i64, ptr %sizes, i64 %n
  %size = load i64, ptr %size.p
  %stride.p = getelementptr i64, ptr %strides, i64 %n
  %stride = load i64, ptr %stride.p
  %all1 = or i64 %all, %stride
  %zero = icmp eq i64 %size, 0
  %empty1 = or i1 %empty, %zero
  %bytes = shl i64 %stride, %grow
  %last = sub i64 %size, 1
  %end = mul i64 %last, %bytes
  %down = call i64 @llvm.smin.i64(i64 %end, i64 0)
  %low1 = add i64 %low, %down
  %up = call i64 @llvm.smax.i64(i64 %end, i64 0)
  %high1 = add i64 %high, %up
  br label %head
done:
  %element = shl i64 1, %log
  %behind = add i64 %high, %element
  %low2 = select i1 %empty, i64 %from, i64 %low
  %high2 = select i1 %empty, i64 %from, i64 %behind
  store ptr %data, ptr %view
  %sizes.p = getelementptr %view, ptr %view, i64 0, i32 1
  store ptr %sizes, ptr %sizes.p
  %strides.p = getelementptr %view, ptr %view, i64 0, i32 2
  store ptr %strides, ptr %strides.p
  %shift.p = getelementptr %view, ptr %view, i64 0, i32 3
  store i64 %shift, ptr %shift.p
  %low.p = getelementptr %view, ptr %view, i64 0, i32 4
  store i64 %low2, ptr %low.p
  %high.p = getelementptr %view, ptr %view, i64 0, i32 5
  store i64 %high2, ptr %high.p
  %unit = shl i64 1, %shift
  %mask = sub i64 %unit, 1
  %odd = and i64 %all, %mask
  %whole = icmp eq i64 %odd, 0
  ret i1 %whole
}

; Read a tensor from torch's object. The record has the places of that object's address, keys, dtype, storage, data in
; the storage, offset and sizes, and the keys that are wanted; then the place of the function that frees the storage, and
; one which that must not be. False if it is another kind of tensor, or not in memory.
define internal i1 @plain(ptr %value, ptr %view, i64 %axes, i64 %kind, i64 %record) {
start:
  %places = inttoptr i64 %record to ptr
  %impl.n = call i64 @place(ptr %places, i64 0)
  %impl.p = getelementptr i8, ptr %value, i64 %impl.n
  %impl = load ptr, ptr %impl.p
  %keys.n = call i64 @place(ptr %places, i64 1)
  %keys.p = getelementptr i8, ptr %impl, i64 %keys.n
  %keys = load i64, ptr %keys.p
  %wanted = call i64 @place(ptr %places, i64 2)
  %ok1 = icmp eq i64 %keys, %wanted
  %dtype.n = call i64 @place(ptr %places, i64 3)
  %dtype.p = getelementptr i8, ptr %impl, i64 %dtype.n
  %dtype = load i16, ptr %dtype.p
  %want = trunc i64 %kind to i16
  %ok2 = icmp eq i16 %dtype, %want
  %sizes.n = call i64 @place(ptr %places, i64 7)
  %axes.p = getelementptr i8, ptr %impl, i64 %sizes.n
  %have = load i64, ptr %axes.p
  %ok3 = icmp eq i64 %have, %axes
  %ok12 = and i1 %ok1, %ok2
  %ok = and i1 %ok12, %ok3
  br i1 %ok, label %fill, label %no
fill:
  %storage.n = call i64 @place(ptr %places, i64 4)
  %storage.p = getelementptr i8, ptr %impl, i64 %storage.n
  %storage = load ptr, ptr %storage.p
  %data.n = call i64 @place(ptr %places, i64 5)
  %data.p = getelementptr i8, ptr %storage, i64 %data.n
  %base = load ptr, ptr %data.p
  %frees.n = call i64 @place(ptr %places, i64 8)
  %frees.p = getelementptr i8, ptr %storage, i64 %frees.n
  %frees = load i64, ptr %frees.p
  %refused = call i64 @place(ptr %places, i64 9)
  %own = icmp ne i64 %frees, %refused
  %offset.n = call i64 @place(ptr %places, i64 6)
  %offset.p = getelementptr i8, ptr %impl, i64 %offset.n
  %offset = load i64, ptr %offset.p
  %log = lshr i64 %kind, 32
  %bytes = shl i64 %offset, %log
  %data = getelementptr i8, ptr %base, i64 %bytes
  %sizes = getelementptr i64, ptr %axes.p, i64 1
  %strides = getelementptr i64, ptr %axes.p, i64 <behind>
  %read = call i1 @read(ptr %view, ptr %data, ptr %sizes, ptr %strides, i64 %axes, i64 0, i64 %log)
  %there = call i1 @there(ptr %view, ptr %base)
  %whole = and i1 %there, %read
  %good = and i1 %whole, %own
  ret i1 %good
no:
  ret i1 false
}

define internal i64 @place(ptr %places, i64 %n) alwaysinline {
  %p = getelementptr i64, ptr %places, i64 %n
  %value = load i64, ptr %p
  ret i64 %value
}

; Whether a view is of memory that begins at %base, or of nothing.
define internal i1 @there(ptr %view, ptr %base) alwaysinline {
  %low.p = getelementptr %view, ptr %view, i64 0, i32 4
  %low = load i64, ptr %low.p
  %high.p = getelementptr %view, ptr %view, i64 0, i32 5
  %high = load i64, ptr %high.p
  %empty = icmp eq i64 %low, %high
  %some = icmp ne ptr %base, null
  %is = or i1 %empty, %some
  ret i1 %is
}

; Read a tensor through DLPack's exchange API. False if it is not on the CPU, not in memory, or another than expected.
define internal i1 @tensor(ptr %value, ptr %view, i64 %axes, i64 %kind, i64 %describe) {
start:
  %t = alloca %dltensor
  %function = inttoptr i64 %describe to ptr
  %failed = call i32 %function(ptr %value, ptr %t)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %check, label %error
error:
  call void @PyErr_Clear()
  ret i1 false
check:
  %device.p = getelementptr %dltensor, ptr %t, i64 0, i32 1
  %device = load i32, ptr %device.p
  %ok1 = icmp eq i32 %device, 1
  %axes.p = getelementptr %dltensor, ptr %t, i64 0, i32 3
  %axes32 = load i32, ptr %axes.p
  %axes64 = sext i32 %axes32 to i64
  %ok2 = icmp eq i64 %axes64, %axes
  %kind.p = getelementptr %dltensor, ptr %t, i64 0, i32 4
  %have = load i32, ptr %kind.p
  %want = trunc i64 %kind to i32
  %ok3 = icmp eq i32 %have, %want
  %strides.p = getelementptr %dltensor, ptr %t, i64 0, i32 6
  %strides = load ptr, ptr %strides.p
  %none = icmp eq i64 %axes, 0
  %given = icmp ne ptr %strides, null
  %ok4 = or i1 %none, %given
  %ok12 = and i1 %ok1, %ok2
  %ok34 = and i1 %ok3, %ok4
  %ok = and i1 %ok12, %ok34
  br i1 %ok, label %fill, label %no
fill:
  %base = load ptr, ptr %t
  %offset.p = getelementptr %dltensor, ptr %t, i64 0, i32 7
  %offset = load i64, ptr %offset.p
  %data = getelementptr i8, ptr %base, i64 %offset
  %sizes.p = getelementptr %dltensor, ptr %t, i64 0, i32 5
  %sizes = load ptr, ptr %sizes.p
  %log = lshr i64 %kind, 32
  %read = call i1 @read(ptr %view, ptr %data, ptr %sizes, ptr %strides, i64 %axes, i64 0, i64 %log)
  %there = call i1 @there(ptr %view, ptr %base)
  %good = and i1 %there, %read
  ret i1 %good
no:
  ret i1 false
}
