/* What a profiled kernel calls. timing.py defines `profile_sites`, the number of sites. */
typedef long long i64;
typedef unsigned long long u64;
#define HELPER __attribute__((noinline, used, nothrow)) static

extern const i64 profile_sites;

struct event {
    i64 site, program, begin, end;
};
struct site {
    i64 cycles, runs, now; /* `now` has the cycles in the running program */
};

/* The end of a thread's scratch: where the next event goes, where their memory ends, and events that found no room; the
   same for programs, each of which is its number and then the cycles of every site; then the sites. */
struct area {
    struct event *event, *events_end;
    i64 dropped_events, *program, *programs_end, dropped_programs;
    struct site sites[];
};

HELPER void profile_add(struct area *area, i64 site, i64 begin, i64 end) {
    area->sites[site].cycles += end - begin;
    area->sites[site].runs += 1;
    area->sites[site].now += end - begin;
}

HELPER void profile_event(struct area *area, i64 site, i64 program, i64 begin, i64 end) {
    profile_add(area, site, begin, end);
    if (area->event < area->events_end)
        *area->event++ = (struct event){site, program, begin, end};
    else
        area->dropped_events++;
}

HELPER void profile_program(struct area *area, i64 site, i64 program, i64 begin, i64 end) {
    profile_event(area, site, program, begin, end);
    i64 *row = area->program < area->programs_end ? area->program : 0;
    if (row) {
        *row = program;
        area->program += profile_sites + 1;
    } else
        area->dropped_programs++;
    for (i64 k = 0; k < profile_sites; k++) {
        if (row)
            row[k + 1] = area->sites[k].now;
        area->sites[k].now = 0;
    }
}
