; The grid of a launch: whole numbers in an int or a tuple, or a function of the arguments that gives them. Anything else
; is for Python to look at, which knows the words for what is wrong with it.

; The sizes of a grid, to the first slots of the argument block. 1: done; 0: Python is to look at the grid; 2: an error
; is set; 3: Python is to look at what a function gave. That is in %answer then, and if it is done.
define internal i32 @measure(ptr %kernel, ptr %grid, ptr %values, ptr %block, ptr %answer) alwaysinline {
start:
  %shared = load ptr, ptr %kernel
  %plain = call i1 @sizes(ptr %shared, ptr %grid, ptr %block)
  br i1 %plain, label %done, label %other
other:
  %type.p = getelementptr i8, ptr %grid, i64 <type>
  %type = load ptr, ptr %type.p
  %function = call ptr @word(ptr %shared, i64 <s.function>)
  %is = icmp eq ptr %type, %function
  br i1 %is, label %gather, label %python
gather:
  %dict = call ptr @PyDict_New()
  %parameters = call ptr @word(ptr %kernel, i64 <k.names>)
  %arity.p = getelementptr i64, ptr %kernel, i64 <k.arity>
  %arity = load i64, ptr %arity.p
  %failed = icmp eq ptr %dict, null
  br i1 %failed, label %error, label %head
head:
  %n = phi i64 [ 0, %gather ], [ %n1, %put ]
  %left = icmp ult i64 %n, %arity
  br i1 %left, label %put, label %call
put:
  %name = call ptr @word(ptr %parameters, i64 %n)
  %value = call ptr @word(ptr %values, i64 %n)
  %set = call i32 @PyDict_SetItem(ptr %dict, ptr %name, ptr %value)
  %n1 = add i64 %n, 1
  %fine = icmp eq i32 %set, 0
  br i1 %fine, label %head, label %drop
drop:
  call void @Py_DecRef(ptr %dict)
  br label %error
call:
  %given = call ptr @PyObject_CallOneArg(ptr %grid, ptr %dict)
  call void @Py_DecRef(ptr %dict)
  %raised = icmp eq ptr %given, null
  br i1 %raised, label %refused, label %take
refused:  ; Python asks again, and has the words for what is wrong
  %meant = call ptr @word(ptr %shared, i64 <s.meant>)
  %known = call i32 @PyErr_ExceptionMatches(ptr %meant)
  %unknown = icmp eq i32 %known, 0
  br i1 %unknown, label %error, label %clear
clear:
  call void @PyErr_Clear()
  br label %python
take:
  store ptr %given, ptr %answer
  %usable = call i1 @sizes(ptr %shared, ptr %given, ptr %block)
  br i1 %usable, label %done, label %wrap
wrap:  ; a function that gives it again, so that Python sees all of it as the grid
  %again = call ptr @word(ptr %shared, i64 <s.again>)
  %wrapped = call ptr @PyObject_CallOneArg(ptr %again, ptr %given)
  call void @Py_DecRef(ptr %given)
  %bad = icmp eq ptr %wrapped, null
  br i1 %bad, label %error, label %asked
asked:
  store ptr %wrapped, ptr %answer
  ret i32 3
done:
  ret i32 1
python:
  ret i32 0
error:
  ret i32 2
}

; Sizes out of an int or a tuple of up to three.
define internal i1 @sizes(ptr %shared, ptr %grid, ptr %block) alwaysinline {
start:
  %type.p = getelementptr i8, ptr %grid, i64 <type>
  %type = load ptr, ptr %type.p
  %tuple = call ptr @word(ptr %shared, i64 <s.tuple>)
  %y.p = getelementptr i64, ptr %block, i64 1
  store i64 1, ptr %y.p
  %z.p = getelementptr i64, ptr %block, i64 2
  store i64 1, ptr %z.p
  %is = icmp eq ptr %type, %tuple
  br i1 %is, label %count, label %single
single:
  %one = call i1 @size(ptr %shared, ptr %grid, ptr %block)
  ret i1 %one
count:
  %axes = call i64 @length(ptr %grid)
  %less = sub i64 %axes, 1
  %ok = icmp ult i64 %less, 3
  br i1 %ok, label %head, label %no
head:
  %n = phi i64 [ 0, %count ], [ %n1, %next ]
  %left = icmp ult i64 %n, %axes
  br i1 %left, label %take, label %yes
take:
  %item = call ptr @item(ptr %grid, i64 %n)
  %slot = getelementptr i64, ptr %block, i64 %n
  %fine = call i1 @size(ptr %shared, ptr %item, ptr %slot)
  br i1 %fine, label %next, label %no
next:
  %n1 = add i64 %n, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

; One size of a grid.
define internal i1 @size(ptr %shared, ptr %value, ptr %slot) alwaysinline {
start:
  %overflow = alloca i32
  %type.p = getelementptr i8, ptr %value, i64 <type>
  %type = load ptr, ptr %type.p
  %int = call ptr @word(ptr %shared, i64 <s.int>)
  %is = icmp eq ptr %type, %int
  br i1 %is, label %read, label %no
read:
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  %over = load i32, ptr %overflow
  %ok1 = icmp eq i32 %over, 0
  %ok2 = icmp ule i64 %n, 2147483647
  %ok = and i1 %ok1, %ok2
  store i64 %n, ptr %slot
  ret i1 %ok
no:
  ret i1 false
}
