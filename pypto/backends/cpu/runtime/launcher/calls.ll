; A launch as Python calls it. `subscript` is `kernel[grid]`, `launch` is the call of what that gives, `prepared` the call
; of what `kernel.bind(...)` gives, and `direct` the call of a kernel in generated code. All are functions of Python's C
; API; the tuple that each is bound to begins with the address of a table, followed by whoever keeps that alive.
;
; A launch that no entry of the table is for goes to Python, with all its arguments: a miss is slow, and never wrong.
declare ptr @PyTuple_Pack(i64, ...)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare i32 @PyErr_ExceptionMatches(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyCFunction_NewEx(ptr, ptr, ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)

; A word of a table.
define internal ptr @word(ptr %table, i64 %n) alwaysinline {
  %p = getelementptr ptr, ptr %table, i64 %n
  %value = load ptr, ptr %p
  ret ptr %value
}

; An item of a tuple that is long enough, and its number of items.
define internal ptr @item(ptr %tuple, i64 %n) alwaysinline {
  %items = getelementptr i8, ptr %tuple, i64 <tuple.items>
  %item = call ptr @word(ptr %items, i64 %n)
  ret ptr %item
}

define internal i64 @length(ptr %sequence) alwaysinline {
  %size.p = getelementptr i8, ptr %sequence, i64 <size>
  %size = load i64, ptr %size.p
  ret i64 %size
}

; The table of a kernel, from what a function is bound to: bytes hold its address.
define internal ptr @kernel(ptr %self) alwaysinline {
  %bytes = call ptr @item(ptr %self, i64 0)
  %address.p = getelementptr i8, ptr %bytes, i64 <bytes.content>
  %address = load ptr, ptr %address.p, align 1
  ret ptr %address
}

; kernel[grid]: a new function bound to the grid, or one that is remembered.
define ptr @subscript(ptr %self, ptr %grid) {
start:
  %kernel = call ptr @kernel(ptr %self)
  %memory = call ptr @word(ptr %kernel, i64 <k.grids>)
  %pairs.p = getelementptr i8, ptr %memory, i64 <list.items>
  %pairs = load ptr, ptr %pairs.p
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n2, %more ]
  %some = icmp ult i64 %n, <grids>
  br i1 %some, label %look, label %make
look:
  %known = call ptr @word(ptr %pairs, i64 %n)
  %same = icmp eq ptr %known, %grid
  br i1 %same, label %hit, label %more
more:
  %n2 = add i64 %n, 2
  br label %head
hit:
  %at = add i64 %n, 1
  %old = call ptr @word(ptr %pairs, i64 %at)
  call void @Py_IncRef(ptr %old)
  ret ptr %old
make:
  %address = call ptr @item(ptr %self, i64 0)
  %keeper = call ptr @item(ptr %self, i64 1)
  %bound = call ptr (i64, ...) @PyTuple_Pack(i64 3, ptr %address, ptr %keeper, ptr %grid)
  %failed = icmp eq ptr %bound, null
  br i1 %failed, label %error, label %new
new:
  %shared = load ptr, ptr %kernel
  %method = call ptr @word(ptr %shared, i64 <s.launch>)
  %made = call ptr @PyCFunction_NewEx(ptr %method, ptr %bound, ptr null)
  call void @Py_DecRef(ptr %bound)
  %failed2 = icmp eq ptr %made, null
  br i1 %failed2, label %error, label %keep
keep:
  %turn.p = getelementptr i64, ptr %kernel, i64 <k.turn>
  %turn = load i64, ptr %turn.p
  %turn2 = add i64 %turn, 2
  %wraps = icmp uge i64 %turn2, <grids>
  %following = select i1 %wraps, i64 0, i64 %turn2
  store i64 %following, ptr %turn.p
  call void @Py_IncRef(ptr %grid)
  %set1 = call i32 @PyList_SetItem(ptr %memory, i64 %turn, ptr %grid)
  call void @Py_IncRef(ptr %made)
  %turn1 = add i64 %turn, 1
  %set2 = call i32 @PyList_SetItem(ptr %memory, i64 %turn1, ptr %made)
  ret ptr %made
error:
  ret ptr null
}

; kernel[grid](arguments...)
define ptr @launch(ptr %self, ptr %args, i64 %count, ptr %names) {
  %kernel = call ptr @kernel(ptr %self)
  %grid = call ptr @item(ptr %self, i64 2)
  %result = call ptr @go(ptr %kernel, ptr %grid, ptr %args, i64 %count, ptr %names)
  ret ptr %result
}

; kernel.bind(arguments..., grid=grid)()
define ptr @prepared(ptr %self, ptr %nothing) {
  %kernel = call ptr @kernel(ptr %self)
  %grid = call ptr @item(ptr %self, i64 2)
  %values = call ptr @item(ptr %self, i64 3)
  %items = getelementptr i8, ptr %values, i64 <tuple.items>
  %count = call i64 @length(ptr %values)
  %result = call ptr @go(ptr %kernel, ptr %grid, ptr %items, i64 %count, ptr null)
  ret ptr %result
}

; A launch from generated code: all arguments by position, and the grid is part of what was taught for such arguments.
define ptr @direct(ptr %self, ptr %args, i64 %count) {
start:
  %block = alloca [<slots> x i64], align 16
  %kernel = call ptr @kernel(ptr %self)
  %shared = load ptr, ptr %kernel
  %nothing = call ptr @word(ptr %shared, i64 <s.none>)
  %arity.p = getelementptr i64, ptr %kernel, i64 <k.arity>
  %arity = load i64, ptr %arity.p
  %fits = icmp eq i64 %count, %arity
  br i1 %fits, label %look, label %python
look:
  %elsewhere = call i1 @is_elsewhere(ptr %kernel)
  br i1 %elsewhere, label %python, label %search
search:
  %entry = call ptr @find(ptr %kernel, ptr %args, ptr %block)
  %none = icmp eq ptr %entry, null
  br i1 %none, label %python, label %run
run:
  %ran = call i32 @run(ptr %kernel, ptr %entry, ptr %block)
  switch i32 %ran, label %stopped [ i32 0, label %python
                                    i32 1, label %done ]
done:
  call void @Py_IncRef(ptr %nothing)
  ret ptr %nothing
stopped:
  %raised = call ptr @stopped(ptr %kernel, ptr %entry)
  ret ptr %raised
python:
  %result = call ptr @through_python(ptr %kernel, ptr %nothing, ptr %args, i64 %count, ptr null)
  ret ptr %result
}

define internal ptr @go(ptr %kernel, ptr %grid, ptr %args, i64 %count, ptr %names) {
start:
  %values = alloca [<parameters> x ptr]
  %block = alloca [<slots> x i64], align 16
  %answer = alloca ptr
  %bound = call i1 @bind(ptr %kernel, ptr %values, ptr %args, i64 %count, ptr %names)
  br i1 %bound, label %look, label %python
look:
  %elsewhere = call i1 @is_elsewhere(ptr %kernel)
  br i1 %elsewhere, label %python, label %measure
measure:
  store ptr %grid, ptr %answer
  %measured = call i32 @measure(ptr %kernel, ptr %grid, ptr %values, ptr %block, ptr %answer)
  switch i32 %measured, label %asked [ i32 0, label %python
                                       i32 1, label %search
                                       i32 2, label %error ]
search:
  %entry = call ptr @find(ptr %kernel, ptr %values, ptr %block)
  %none = icmp eq ptr %entry, null
  br i1 %none, label %asked, label %run
run:
  %ran = call i32 @run(ptr %kernel, ptr %entry, ptr %block)
  switch i32 %ran, label %stopped [ i32 0, label %asked
                                    i32 1, label %done ]
done:
  %given = load ptr, ptr %answer
  call void @forget(ptr %given, ptr %grid)
  %shared = load ptr, ptr %kernel
  %nothing = call ptr @word(ptr %shared, i64 <s.none>)
  call void @Py_IncRef(ptr %nothing)
  ret ptr %nothing
stopped:
  %told.grid = load ptr, ptr %answer
  call void @forget(ptr %told.grid, ptr %grid)
  %raised = call ptr @stopped(ptr %kernel, ptr %entry)
  ret ptr %raised
python:
  %result = call ptr @through_python(ptr %kernel, ptr %grid, ptr %args, i64 %count, ptr %names)
  ret ptr %result
asked:  ; what a function gave for the grid is not asked for again
  %told = load ptr, ptr %answer
  %result2 = call ptr @through_python(ptr %kernel, ptr %told, ptr %args, i64 %count, ptr %names)
  call void @forget(ptr %told, ptr %grid)
  ret ptr %result2
error:
  ret ptr null
}

; Let Python say that a launch was ended by the exception that is set. Gives null, with the exception that is raised.
define internal ptr @stopped(ptr %kernel, ptr %entry) {
  %type = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  store ptr null, ptr %trace
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  call void @PyErr_NormalizeException(ptr %type, ptr %value, ptr %trace)
  %shared = load ptr, ptr %kernel
  %function = call ptr @word(ptr %shared, i64 <s.stopped>)
  %program = call ptr @word(ptr %entry, i64 <e.program>)
  %error = load ptr, ptr %value
  %result = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, ptr %program, ptr %error, ptr null)
  %kind = load ptr, ptr %type
  call void @Py_DecRef(ptr %kind)
  call void @Py_DecRef(ptr %error)
  %frames = load ptr, ptr %trace
  call void @Py_DecRef(ptr %frames)
  ret ptr %result
}

; Drop what a grid function gave, where there was one.
define internal void @forget(ptr %answer, ptr %grid) {
start:
  %own = icmp ne ptr %answer, %grid
  br i1 %own, label %drop, label %end
drop:
  call void @Py_DecRef(ptr %answer)
  br label %end
end:
  ret void
}

; The launch in Python: the function of the kernel's table, called with the grid before all arguments.
define internal ptr @through_python(ptr %kernel, ptr %grid, ptr %args, i64 %count, ptr %names) {
start:
  %none = icmp eq ptr %names, null
  br i1 %none, label %copy, label %named
named:
  %words = call i64 @length(ptr %names)
  br label %copy
copy:
  %more = phi i64 [ 0, %start ], [ %words, %named ]
  %positional = and i64 %count, 9223372036854775807
  %all = add i64 %positional, %more
  %room = add i64 %all, 1
  %given = alloca ptr, i64 %room
  store ptr %grid, ptr %given
  br label %head
head:
  %n = phi i64 [ 0, %copy ], [ %n1, %take ]
  %left = icmp ult i64 %n, %all
  br i1 %left, label %take, label %call
take:
  %from = getelementptr ptr, ptr %args, i64 %n
  %value = load ptr, ptr %from
  %n1 = add i64 %n, 1
  %to = getelementptr ptr, ptr %given, i64 %n1
  store ptr %value, ptr %to
  br label %head
call:
  %function = call ptr @word(ptr %kernel, i64 <k.python>)
  %number = add i64 %positional, 1
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %given, i64 %number, ptr %names)
  ret ptr %result
}

; The values of all parameters in order. False where it is not as simple as that.
define internal i1 @bind(ptr %kernel, ptr %values, ptr %args, i64 %count, ptr %names) alwaysinline {
start:
  %positional = and i64 %count, 9223372036854775807
  %arity.p = getelementptr i64, ptr %kernel, i64 <k.arity>
  %arity = load i64, ptr %arity.p
  %parameters = call ptr @word(ptr %kernel, i64 <k.names>)
  %defaults = call ptr @word(ptr %kernel, i64 <k.defaults>)
  %many = icmp ugt i64 %positional, %arity
  br i1 %many, label %no, label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %next ]
  %left = icmp ult i64 %n, %arity
  br i1 %left, label %fill, label %words
fill:
  %given = icmp ult i64 %n, %positional
  %table = select i1 %given, ptr %args, ptr %defaults
  %from = getelementptr ptr, ptr %table, i64 %n
  %value = load ptr, ptr %from
  %to = getelementptr ptr, ptr %values, i64 %n
  store ptr %value, ptr %to
  br label %next
next:
  %n1 = add i64 %n, 1
  br label %head
words:
  %none = icmp eq ptr %names, null
  br i1 %none, label %check, label %count.words
count.words:
  %all = call i64 @length(ptr %names)
  br label %word
word:
  %w = phi i64 [ 0, %count.words ], [ %w1, %word.next ]
  %more = icmp ult i64 %w, %all
  br i1 %more, label %look, label %check
look:
  %name = call ptr @item(ptr %names, i64 %w)
  br label %seek
seek:
  %i = phi i64 [ %positional, %look ], [ %i1, %seek.next ]
  %inside = icmp ult i64 %i, %arity
  br i1 %inside, label %compare, label %unknown
compare:
  %parameter.p = getelementptr ptr, ptr %parameters, i64 %i
  %parameter = load ptr, ptr %parameter.p
  %same = icmp eq ptr %parameter, %name
  br i1 %same, label %put, label %seek.next
seek.next:
  %i1 = add i64 %i, 1
  br label %seek
unknown:  ; a word that means nothing here, or a mistake
  %idle = call i1 @means_nothing(ptr %kernel, ptr %name)
  br i1 %idle, label %word.next, label %no
put:
  %at = add i64 %positional, %w
  %word.p = getelementptr ptr, ptr %args, i64 %at
  %word.value = load ptr, ptr %word.p
  %place = getelementptr ptr, ptr %values, i64 %i
  store ptr %word.value, ptr %place
  br label %word.next
word.next:
  %w1 = add i64 %w, 1
  br label %word
check:
  %c = phi i64 [ %positional, %words ], [ %positional, %word ], [ %c1, %check.next ]
  %unchecked = icmp ult i64 %c, %arity
  br i1 %unchecked, label %is.there, label %yes
is.there:
  %held.p = getelementptr ptr, ptr %values, i64 %c
  %held = load ptr, ptr %held.p
  %missing = icmp eq ptr %held, null
  br i1 %missing, label %no, label %check.next
check.next:
  %c1 = add i64 %c, 1
  br label %check
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether launches of GPU compilers know a word, and it is no parameter of the kernel.
define internal i1 @means_nothing(ptr %kernel, ptr %name) {
start:
  %shared = load ptr, ptr %kernel
  %words = call ptr @word(ptr %shared, i64 <s.ignored>)
  %count = call i64 @length(ptr %words)
  %parameters = call ptr @word(ptr %kernel, i64 <k.names>)
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %n1, %next ]
  %left = icmp ult i64 %n, %count
  br i1 %left, label %look, label %no
look:
  %word = call ptr @item(ptr %words, i64 %n)
  %same = icmp eq ptr %word, %name
  %n1 = add i64 %n, 1
  br i1 %same, label %own, label %next
next:
  br label %head
own:
  %p = phi i64 [ 0, %look ], [ %p1, %other ]
  %parameter = call ptr @word(ptr %parameters, i64 %p)
  %end = icmp eq ptr %parameter, null
  br i1 %end, label %yes, label %compare
compare:
  %given = icmp eq ptr %parameter, %name
  br i1 %given, label %no, label %other
other:
  %p1 = add i64 %p, 1
  br label %own
yes:
  ret i1 true
no:
  ret i1 false
}

; True while somebody wants launches to go through Python: hooks, the interpreter, a profile.
define internal i1 @is_elsewhere(ptr %kernel) alwaysinline {
start:
  %mode = alloca ptr
  %shared = load ptr, ptr %kernel
  %hooks.before = call ptr @word(ptr %kernel, i64 <k.before>)
  %before = call i64 @length(ptr %hooks.before)
  %hooks.after = call ptr @word(ptr %kernel, i64 <k.after>)
  %after = call i64 @length(ptr %hooks.after)
  %hooks = or i64 %before, %after
  %some = icmp ne i64 %hooks, 0
  br i1 %some, label %yes, label %ask
ask:
  %variable = call ptr @word(ptr %shared, i64 <s.mode>)
  %plain = call ptr @word(ptr %shared, i64 <s.plain>)
  %failed = call i32 @PyContextVar_Get(ptr %variable, ptr %plain, ptr %mode)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %unknown, label %compare
unknown:
  call void @PyErr_Clear()
  br label %yes
compare:
  %is = load ptr, ptr %mode
  call void @Py_DecRef(ptr %is)
  %other = icmp ne ptr %is, %plain
  ret i1 %other
yes:
  ret i1 true
}
