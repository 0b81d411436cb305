; The feature level of an x86-64 CPU whose registers the system saves: 4, 3 or 2 for x86-64-v4 to v2, and 0 for less.
@level.known = internal global i32 -1

define internal i32 @level() {
start:
  %known = load atomic i32, ptr @level.known monotonic, align 4
  %new = icmp slt i32 %known, 0
  br i1 %new, label %look, label %told
told:
  ret i32 %known
look:
  %zero = call {i32, i32, i32, i32} asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 0, i32 0)
  %leaves = extractvalue {i32, i32, i32, i32} %zero, 0
  %enough = icmp uge i32 %leaves, 7
  br i1 %enough, label %ask, label %keep
ask:
  %one = call {i32, i32, i32, i32} asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 1, i32 0)
  %basic = extractvalue {i32, i32, i32, i32} %one, 2
  %seven = call {i32, i32, i32, i32} asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 7, i32 0)
  %wide = extractvalue {i32, i32, i32, i32} %seven, 1
  %amd = call {i32, i32, i32, i32} asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 -2147483647, i32 0)
  %extended = extractvalue {i32, i32, i32, i32} %amd, 2
  %saves = and i32 %basic, 134217728
  %saving = icmp ne i32 %saves, 0
  br i1 %saving, label %states, label %choose
states:
  %xcr = call {i32, i32} asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %saved = extractvalue {i32, i32} %xcr, 0
  br label %choose
choose:
  %state = phi i32 [ 0, %ask ], [ %saved, %states ]
  %two = call i1 @has(i32 %basic, i32 %wide, i32 %extended, i32 %state, <x86-64-v2>)
  %three = call i1 @has(i32 %basic, i32 %wide, i32 %extended, i32 %state, <x86-64-v3>)
  %four = call i1 @has(i32 %basic, i32 %wide, i32 %extended, i32 %state, <x86-64-v4>)
  %is.two = select i1 %two, i32 2, i32 0
  %is.three = select i1 %three, i32 3, i32 2
  %up.three = select i1 %two, i32 %is.three, i32 0
  %both = and i1 %two, %three
  %up.four = and i1 %both, %four
  %most = select i1 %up.four, i32 4, i32 %up.three
  br label %keep
keep:
  %found = phi i32 [ 0, %look ], [ %most, %choose ]
  store atomic i32 %found, ptr @level.known monotonic, align 4
  ret i32 %found
}

; Whether all bits are there that a level needs: of leaf 1, leaf 7, leaf 0x80000001, and of the states that are saved.
define internal i1 @has(i32 %a, i32 %b, i32 %c, i32 %d, i32 %wa, i32 %wb, i32 %wc, i32 %wd) {
  %a.have = and i32 %a, %wa
  %a.ok = icmp eq i32 %a.have, %wa
  %b.have = and i32 %b, %wb
  %b.ok = icmp eq i32 %b.have, %wb
  %c.have = and i32 %c, %wc
  %c.ok = icmp eq i32 %c.have, %wc
  %d.have = and i32 %d, %wd
  %d.ok = icmp eq i32 %d.have, %wd
  %ab = and i1 %a.ok, %b.ok
  %cd = and i1 %c.ok, %d.ok
  %all = and i1 %ab, %cd
  ret i1 %all
}
