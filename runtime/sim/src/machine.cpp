#include "machine.hpp"

#include <cstdio>
#include <cstring>
#include <string_view>

namespace ascsim {

namespace {

constexpr uint64_t KB = 1024;

// In the order of `Space`: what the public headers call TOTAL_UB_SIZE, TOTAL_L1_SIZE and so on, by __NPU_ARCH__, less
// what the compiler keeps of UB; BT, FB and alignments as the documentation of the copies there has them.
constexpr Arch kArch2201{2201,
    {UINT64_MAX, 192 * KB - 256 - 8 * KB, 512 * KB - 256, 64 * KB, 64 * KB, 128 * KB, 1 * KB, 2 * KB},
    {1, 32, 32, 512, 512, 64, 64, 128}, false, true};
constexpr Arch kArch3510{3510,
    {UINT64_MAX, 248 * KB, 512 * KB, 64 * KB, 64 * KB, 256 * KB, 4 * KB, 4 * KB},
    {1, 32, 32, 512, 512, 64, 64, 64}, true, false};

thread_local Core* the_core = nullptr;

uint32_t block_mask(uint64_t from, uint64_t to, uint64_t block) {
    const uint64_t first = from > block * kBlock ? from - block * kBlock : 0;
    const uint64_t last = to < (block + 1) * kBlock ? to - block * kBlock : kBlock;
    const uint64_t below_last = last == 32 ? 0xFFFFFFFFu : (uint64_t{1} << last) - 1;
    return static_cast<uint32_t>(below_last & ~((uint64_t{1} << first) - 1));
}

}  // namespace

const Arch& arch_of(int number) { return number == 3510 ? kArch3510 : kArch2201; }

const char* name_of(Space space) {
    constexpr const char* names[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"};
    return names[static_cast<int>(space)];
}

const char* name_of(Pipe pipe) {
    constexpr const char* names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
    return names[static_cast<int>(pipe)];
}

const char* name_of(DType dtype) {
    constexpr const char* names[] = {"int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t",
                                     "uint64_t", "half", "bfloat16_t", "float", "fp8_e4m3fn_t", "fp8_e5m2_t"};
    return names[static_cast<int>(dtype)];
}

const char* name_of(Op op) {
    constexpr const char* names[] = {
        "Add", "Sub", "Mul", "Div", "Max", "Min", "And", "Or", "MulAddDst", "AddRelu", "SubRelu", "Adds", "Muls", "Maxs",
        "Mins", "LeakyRelu", "Axpy", "ShiftLeft", "ShiftRight", "Exp", "Ln", "Sqrt", "Rsqrt", "Reciprocal", "Abs", "Relu",
        "Not", "Duplicate", "CreateVecIndex", "Copy", "Cast", "Compare", "CompareScalar", "Select", "Select",
        "WholeReduceSum", "WholeReduceMax", "WholeReduceMin", "BlockReduceSum", "BlockReduceMax", "BlockReduceMin",
        "PairReduceSum", "Brcb", "Gather", "GatherMask", "Sort32", "MrgSort", "Transpose"};
    return names[static_cast<int>(op)];
}

uint64_t size_of(DType dtype) {
    constexpr uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 1, 1};
    return sizes[static_cast<int>(dtype)];
}

bool is_float(DType dtype) { return dtype >= DType::F16; }

Core& current() {
    if (the_core == nullptr) throw Fault("a kernel's function was called outside of a launch");
    return *the_core;
}

void set_current(Core* core) { the_core = core; }

void LocalMemory::prepare(uint64_t bytes) {
    data.assign(bytes, 0xA5);  // whoever reads what nobody wrote finds no zeros
    defined.assign(bytes, 0);
    shadow.assign((bytes + kBlock - 1) / kBlock, Shadow{});
}

Allocation::Allocation(uint64_t at, uint64_t size) : address(at), bytes(size), written_(size / kBlock + 1) {}

void Allocation::note_written(uint64_t from, uint64_t count) {
    for (uint64_t b = from / kBlock; b * kBlock < from + count; ++b) written_[b] |= block_mask(from, from + count, b);
}

void Allocation::discard(uint64_t from, uint64_t count) {
    for (uint64_t b = from / kBlock; b * kBlock < from + count; ++b) written_[b] &= ~block_mask(from, from + count, b);
}

uint64_t Allocation::first_unwritten(uint64_t from, uint64_t count) const {
    for (uint64_t b = from / kBlock; b * kBlock < from + count; ++b)
        if (const uint32_t missing = block_mask(from, from + count, b) & ~written_[b]; missing != 0)
            return b * kBlock + static_cast<uint64_t>(__builtin_ctz(missing));
    return from + count;
}

void Allocation::note_copied(const Allocation& source, uint64_t source_from, uint64_t from, uint64_t count) {
    if (source.first_unwritten(source_from, count) == source_from + count) return note_written(from, count);
    const std::vector<uint32_t> before = source.written_;  // it may be this one
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t at = source_from + i;
        if ((before[at / kBlock] >> at % kBlock & 1) != 0) note_written(from + i, 1);
        else discard(from + i, 1);
    }
}

Core::Core(Launch& launch, const Arch& facts, int index, bool is_cube, int64_t block_index, int64_t sub)
    : arch(facts), number(index), cube(is_cube), block(block_index), sub_block(sub), launch_(launch) {
    for (int s = 1; s < kSpaces; ++s) {
        const bool vector_memory = static_cast<Space>(s) == Space::UB;
        memory[s].prepare(vector_memory == !cube ? arch.capacity[s] : 0);
    }
}

void Core::fail(const std::string& what) const {
    char where[160];
    std::snprintf(where, sizeof where, "%s, core %s %lld, line %d: %s: ", launch_.entry.name, cube ? "AIC" : "AIV",
                  static_cast<long long>(cube ? block : block * launch_.entry.ratio + sub_block), line, doing);
    throw Fault(where + what);
}

void Core::check_unit(Pipe pipe) const {
    const bool of_cube = pipe == Pipe::M || pipe == Pipe::MTE1 || pipe == Pipe::FIX;
    if (cube ? pipe == Pipe::V : of_cube) fail(std::string("this core has no unit ") + name_of(pipe));
}

uint32_t Core::issue(Pipe pipe, int at, const char* what) {
    pipe_ = pipe, line = at, doing = what;
    check_unit(pipe);
    if (!begun) fail("the state of the core is not known: InitSocState() is missing");
    drained_ = drained_ && pipe == Pipe::S;
    const int p = static_cast<int>(pipe);
    const auto& scalar = known[static_cast<int>(Pipe::S)];  // of what it wrote itself, it knows what events have told
    for (int q = 0; q < kPipes; ++q) known[p][q] = std::max(known[p][q], scalar[q]);
    seq_ = ++issued[p];
    waited_seq_ = 0;
    constexpr uint32_t kLook = 1024;  // a look at the clock takes longer than many an instruction
    if (seq_ % kLook == 0)
        if (const double limit = launch_.seconds_over(); limit > 0)
            fail("the kernel has run for more than " + std::to_string(static_cast<int64_t>(limit)) + " seconds; ASCSIM_SECONDS in the environment allows more");
    return seq_;
}

void Core::small_product() { small_products_.insert(seq_); }

void Core::require_known(const Touch& before, const char* hazard, const char* where, uint64_t at) const {
    const int p = static_cast<int>(pipe_), q = before.pipe;
    const bool is_read = std::string_view(hazard) == "read after write";
    if (before.core != number || before.seq == 0 || (q == p && before.seq == seq_)) return;
    if (known[p][q] >= before.seq) return;
    const bool by_unit = q == static_cast<int>(waited_pipe_) && before.seq <= waited_seq_ && std::string_view(where) == "L0C";
    if (by_unit && p != q) return;
    const bool in_order = p == q && (pipe_ == Pipe::S || pipe_ == Pipe::M || pipe_ == Pipe::FIX ||
                                     (pipe_ == Pipe::V && arch.orders_vector));
    const bool adds_too_soon = p == q && pipe_ == Pipe::M && is_read && small_products_.count(before.seq) != 0;
    if (in_order && !adds_too_soon) return;
    const std::string remedy = p == q ? std::string("PipeBarrier<PIPE_") + name_of(pipe_) + ">()"
                                      : std::string("SetFlag and WaitFlag of ") + name_of(static_cast<Pipe>(q)) + "_" + name_of(pipe_);
    fail(std::string(hazard) + " in " + where + " at byte " + std::to_string(at) + ": instruction " +
         std::to_string(before.seq) + " of " + name_of(static_cast<Pipe>(q)) + " may still be under way; " + remedy + " is missing");
}

uint8_t* Core::bytes_at(const Ref& ref, uint64_t from, uint64_t bytes) {
    if (bytes > ref.bytes || from > ref.bytes - bytes)
        fail("bytes " + std::to_string(from) + " to " + std::to_string(from + bytes) + " of a tensor in " + name_of(ref.space) +
             " that has " + std::to_string(ref.bytes));
    if (ref.space == Space::GM) {
        const Allocation* found = launch_.find(ref.addr + from);
        if (found == nullptr || ref.addr + from + bytes > found->address + found->bytes)
            fail("address outside of all device memory that was allocated");
        return reinterpret_cast<uint8_t*>(ref.addr + from);
    }
    auto& local = memory[static_cast<int>(ref.space)];
    if (ref.addr + from + bytes > local.data.size())
        fail(std::string(name_of(ref.space)) + " has " + std::to_string(local.data.size()) + " bytes, but the tensor ends at " +
             std::to_string(ref.addr + from + bytes));
    return local.data.data() + ref.addr + from;
}

void Core::touch_read(const Ref& ref, uint64_t from, uint64_t bytes, bool needs_all) {
    if (bytes == 0) return;
    bytes_at(ref, from, bytes);
    if (ref.space == Space::GM) return touch_global(ref, from, bytes, false);
    auto& local = memory[static_cast<int>(ref.space)];
    const uint64_t first = ref.addr + from, last = first + bytes;
    if (const void* hole = needs_all ? std::memchr(local.defined.data() + first, 0, bytes) : nullptr)
        fail(std::string("reads byte ") + std::to_string(static_cast<const uint8_t*>(hole) - local.defined.data()) + " of " +
             name_of(ref.space) + ", which nothing has written");
    for (uint64_t b = first / kBlock; b * kBlock < last; ++b) {
        Shadow& s = local.shadow[b];
        if (s.write.bytes & block_mask(first, last, b)) require_known(s.write, "read after write", name_of(ref.space), b * kBlock);
        s.reads[static_cast<int>(pipe_)] = seq_;
    }
}

uint8_t* Core::defined_at(const Ref& ref, uint64_t from) {
    return memory[static_cast<int>(ref.space)].defined.data() + ref.addr + from;
}

// The hardware's own order between products and the fixpipe, unit by unit; whoever waits for what never comes hangs.
// `bytes` lie in one unit. What has waited for a unit knows that unit to be done, and nothing else.
void Core::unit_flag(const Ref& ref, uint64_t from, int flag) {
    constexpr uint64_t kUnit = 512;
    waited_seq_ = 0;
    const auto found = units_.find((ref.addr + from) / kUnit);
    if (flag == 0) {
        if (found != units_.end() && found->second.full)
            fail("a unit of L0C is full since unitFlag 3 at line " + std::to_string(found->second.line) +
                 (pipe_ == Pipe::M ? ", of which this product takes no notice" : "; without unitFlag it stays full, and the next product waits for ever"));
        return;
    }
    Unit& unit = found != units_.end() ? found->second : units_[(ref.addr + from) / kUnit];
    if (pipe_ == Pipe::M) {
        if (unit.full && unit.products != seq_)
            fail("a unit of L0C is full since unitFlag 3 at line " + std::to_string(unit.line) + ", and no Fixpipe has taken it: the core waits for ever");
        waited_pipe_ = Pipe::FIX, waited_seq_ = unit.taken;
        if (flag == 3) unit.full = true, unit.products = seq_, unit.line = line;
    } else {
        if (!unit.full && unit.taken != seq_) fail("a unit of L0C was not filled by a product with unitFlag 3: the core waits for ever");
        waited_pipe_ = Pipe::M, waited_seq_ = unit.products;
        if (flag == 3) unit.full = false, unit.taken = seq_;
    }
}

void Core::touch_write(const Ref& ref, uint64_t from, uint64_t bytes) {
    if (bytes == 0) return;
    bytes_at(ref, from, bytes);
    if (ref.space == Space::GM) return touch_global(ref, from, bytes, true);
    auto& local = memory[static_cast<int>(ref.space)];
    const uint64_t first = ref.addr + from, last = first + bytes;
    const auto me = static_cast<uint16_t>(number);
    for (uint64_t b = first / kBlock; b * kBlock < last; ++b) {
        Shadow& s = local.shadow[b];
        const uint32_t mask = block_mask(first, last, b);
        if (s.write.bytes & mask) require_known(s.write, "write after write", name_of(ref.space), b * kBlock);
        for (int q = 0; q < kPipes; ++q)
            if (s.reads[q] != 0 && q != static_cast<int>(pipe_) && q != static_cast<int>(Pipe::S))  // which has read at once
                require_known({s.reads[q], mask, me, static_cast<uint8_t>(q)}, "write after read", name_of(ref.space), b * kBlock);
        const bool same = s.write.pipe == static_cast<uint8_t>(pipe_);
        s.write = {seq_, same ? s.write.bytes | mask : mask, me, static_cast<uint8_t>(pipe_)};
    }
    std::memset(local.defined.data() + first, 1, bytes);
}

void Core::moves_rows(const Ref& global, int64_t rows, uint64_t bytes, uint64_t pitch) {
    constexpr uint64_t kLine = 512;
    if (rows <= 0 || bytes == 0) return;
    const bool is_one_run = pitch == bytes;
    const uint64_t length = is_one_run ? static_cast<uint64_t>(rows) * bytes : bytes;
    Lines& found = launch_.lines[line];
    for (uint64_t row = 0; row < (is_one_run ? 1 : static_cast<uint64_t>(rows)); ++row) {
        const uint64_t first = global.addr + row * pitch;
        found.touched += (first + length - 1) / kLine - first / kLine + 1;
        found.needed += (length + kLine - 1) / kLine;
    }
}

void Core::touch_global(const Ref& ref, uint64_t from, uint64_t bytes, bool writes) {
    if (ref.addr % size_of(ref.dtype) != 0) fail("the array begins between two elements: its address must be a multiple of their size");
    if (from % size_of(ref.dtype) != 0) fail("a row begins between two elements: its address must be a multiple of their size");
    if (writes && pipe_ == Pipe::S) fail("what the scalar unit writes to GM stays in its cache: store it from UB");
    const bool adds = writes && atomic != 0;
    Allocation& a = *launch_.find(ref.addr + from);
    const uint64_t first = ref.addr + from - a.address, last = first + bytes;
    if (!writes || adds)
        if (const uint64_t hole = a.first_unwritten(first, bytes); hole != last)
            fail(std::string(adds ? "adds to" : "reads") + " byte " + std::to_string(hole) + " of device memory that has " + std::to_string(a.bytes) +
                 ", which nothing has written");
    if (writes) a.note_written(first, bytes);
    const Touch mine{seq_, 0, static_cast<uint16_t>(number), static_cast<uint8_t>(pipe_), adds};
    for (uint64_t b = first / kBlock; b * kBlock < last; ++b) {
        const uint32_t mask = block_mask(first, last, b);
        if (pipe_ == Pipe::S && (a.writes[b].bytes & mask) != 0) fail("the scalar unit's cache may have what was in GM before this kernel wrote it: copy it to UB");
        for (Touch* before : {&a.writes[b], writes ? &a.reads[b] : nullptr}) {
            if (before == nullptr || (before->bytes & mask) == 0) continue;
            const bool own = before->core == number;
            if (own && before == &a.reads[b] && before->pipe == static_cast<uint8_t>(Pipe::S)) continue;
            if (own) {
                require_known(*before, writes ? "write after an access" : "read after write", "GM", ref.addr + from);
            } else if (seen[before->core][before->pipe] < before->seq && !(adds && before->adds)) {
                fail("two cores use the same bytes of device memory, at least one writes, and nothing orders them");
            }
        }
        Touch& entry = writes ? a.writes[b] : a.reads[b];
        const bool extends = entry.core == mine.core && entry.pipe == mine.pipe;
        entry = mine;
        entry.bytes = mask | (extends ? entry.bytes : 0);
    }
}

void Core::barrier(Pipe pipe) {
    doing = "PipeBarrier";
    if (pipe == Pipe::ALL) {
        drained_ = true;
        for (auto& clock : known) clock = issued;
        small_products_.clear();
        return;
    }
    check_unit(pipe);
    const int p = static_cast<int>(pipe);
    known[p][p] = issued[p];
    if (pipe == Pipe::M) small_products_.clear();
}

void Core::set_flag(Pipe from, Pipe to, int id) {
    doing = "SetFlag";
    check_unit(from), check_unit(to);
    if (id < 0 || id > 5) fail("the number of an event is between 0 and 5; 6 and 7 are the system's");
    Event& event = events_[{static_cast<int>(from), static_cast<int>(to), id}];
    if (event.set) fail(std::string("event ") + name_of(from) + "_" + name_of(to) + " " + std::to_string(id) + " is set already and nothing has waited for it");
    const int p = static_cast<int>(from);
    event.set = true;
    event.clock = known[p];
    for (int q = 0; q < kPipes; ++q) event.clock[q] = std::max(event.clock[q], known[static_cast<int>(Pipe::S)][q]);
    event.clock[p] = issued[p];
}

void Core::wait_flag(Pipe from, Pipe to, int id) {
    doing = "WaitFlag";
    check_unit(from), check_unit(to);
    Event& event = events_[{static_cast<int>(from), static_cast<int>(to), id}];
    if (!event.set) fail(std::string("event ") + name_of(from) + "_" + name_of(to) + " " + std::to_string(id) + " was never set: the core waits for ever");
    event.set = false;
    auto& clock = known[static_cast<int>(to)];
    for (int q = 0; q < kPipes; ++q) clock[q] = std::max(clock[q], event.clock[q]);
}

void Core::finish() {
    doing = "end of the kernel";
    for (const auto& [key, event] : events_)
        if (event.set)
            fail(std::string("event ") + name_of(static_cast<Pipe>(key[0])) + "_" + name_of(static_cast<Pipe>(key[1])) + " " +
                 std::to_string(key[2]) + " was set and nothing has waited for it");
    for (const auto& [id, queue] : queues_)
        for (const auto& [at, stage] : queue.stages)
            if (stage != Stage::Free) fail("a tensor of a queue was not given back: FreeTensor is missing");
    for (const auto& [at, unit] : units_)
        if (unit.full) fail("the unit of L0C at byte " + std::to_string(at * 512) + " is full since unitFlag 3 at line " +
                            std::to_string(unit.line) + ", and no Fixpipe has taken it: the next product waits for ever");
    if (atomic != 0) fail("SetAtomicNone is missing");
    if (products_by_rows) fail("SetMMLayoutTransform(false) is missing: the next kernel finds products by rows");
    if (!drained_ && !has_pipe) fail("instructions may still be under way: PipeBarrier<PIPE_ALL>() is missing");
}

namespace {

// The units at either end of a queue: who fills its buffers, and who empties them. In the order of TPosition.
struct Ends {
    Pipe fills, empties;
};

Ends queue_ends(int position) {
    switch (position) {
        case 1: case 3: case 5: return {Pipe::MTE2, Pipe::MTE1};  // A1, B1, C1
        case 2: case 4: case 6: return {Pipe::MTE1, Pipe::M};     // A2, B2, C2
        case 7: case 8: return {Pipe::M, Pipe::FIX};              // CO1, CO2
        case 9: return {Pipe::MTE2, Pipe::V};                     // VECIN
        case 10: return {Pipe::V, Pipe::MTE3};                    // VECOUT
        default: return {Pipe::V, Pipe::V};
    }
}

void join(Clock& into, const Clock& from) {
    for (int q = 0; q < kPipes; ++q) into[q] = std::max(into[q], from[q]);
}

}  // namespace

void Core::queue_event(uint64_t id, int event, uint64_t addr, int depth, int position) {
    constexpr const char* names[] = {"InitBuffer", "AllocTensor", "EnQue", "DeQue", "FreeTensor"};
    constexpr Stage before[] = {Stage::Free, Stage::Free, Stage::Allocated, Stage::Queued, Stage::Taken};
    constexpr Stage after[] = {Stage::Free, Stage::Allocated, Stage::Queued, Stage::Taken, Stage::Free};
    doing = names[event];
    Queue& queue = queues_[id];
    if (event == 0) {
        queue = Queue{position, depth, {}, {}, {}};
        return;
    }
    const auto [filler, emptier] = queue_ends(position);
    Stage& stage = queue.stages[addr];
    const bool skips = event == 4 && stage == Stage::Allocated;  // a buffer that was never handed on
    if (stage != before[event] && !skips) {
        constexpr const char* stages[] = {"free", "allocated", "queued", "taken"};
        fail(std::string("the buffer is ") + stages[static_cast<int>(stage)] + (event == 1 ? ": every buffer of the queue is in use" : ""));
    }
    stage = after[event];
    const int fills = static_cast<int>(filler), empties = static_cast<int>(emptier);
    if (event == 1) join(known[fills], queue.freed[addr]);
    if (event == 2) queue.filled[addr] = known[fills], queue.filled[addr][fills] = issued[fills];
    if (event == 3) join(known[empties], queue.filled[addr]);
    if (event == 4) queue.freed[addr] = known[empties], queue.freed[addr][empties] = issued[empties];
}

}  // namespace ascsim
