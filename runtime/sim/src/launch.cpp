// A launch: every core is a fiber. They run in a random order that a seed fixes, and change where one waits for another.

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "machine.hpp"

namespace ascsim {

namespace {

constexpr size_t kStack = 16 << 20, kGuard = 4096;  // a kernel of thousands of lines has as many tensors on its stack
constexpr int kMostFlags = 15, kFlagNumbers = 11;

ucontext_t the_scheduler;
Launch* the_launch = nullptr;

void check_flag(const Core& core, const Entry& entry, int id) {
    if (id < 0 || id >= kFlagNumbers) core.fail("the number of a flag between cores is between 0 and 10");
    if (entry.kind != 2) core.fail("a flag between cores needs a kernel that is __mix__");
    if (entry.vector_call != nullptr && core.arch.number == 2201 && !core.has_sync_base)
        core.fail("the address of the flags is not set: a kernel of two parts calls SetSyncBaseAddr first");
}

}  // namespace

// Memory that is there once it is touched, with a page below that never is.
Stack::Stack() : data(mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data == MAP_FAILED) data = nullptr;
    if (data != nullptr) mprotect(data, kGuard, PROT_NONE);
}

Stack::~Stack() {
    if (data != nullptr) munmap(data, kStack);
}

Launch::Launch(const Entry& kernel, int64_t count, int number, uint64_t seed)
    : entry(kernel), arch(arch_of(number)), blocks(count), state_(seed * 2 + 1) {
    const int vectors = kernel.kind == 0 ? 0 : kernel.kind == 1 ? 1 : kernel.ratio;
    for (int64_t b = 0; b < count; ++b) {
        if (kernel.kind != 1) cores.push_back(std::make_unique<Core>(*this, arch, static_cast<int>(cores.size()), true, b, 0));
        for (int s = 0; s < vectors; ++s)
            cores.push_back(std::make_unique<Core>(*this, arch, static_cast<int>(cores.size()), false, b, s));
    }
    for (auto& core : cores) core->seen.assign(cores.size(), Clock{});
}

uint64_t Launch::random() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_;
}

Allocation* Launch::find(uint64_t address) {
    for (Allocation* a : touched_)
        if (address >= a->address && address < a->address + a->bytes) return a;
    Allocation* found = allocation_at(address);
    if (found != nullptr) {
        const size_t blocks_of_32 = found->bytes / kBlock + 2;
        found->writes.assign(blocks_of_32, Touch{}), found->reads.assign(blocks_of_32, Touch{});
        touched_.push_back(found);
    }
    return found;
}

void Launch::start(unsigned low, unsigned high) {
    auto* launch = reinterpret_cast<Launch*>(static_cast<uint64_t>(low) | static_cast<uint64_t>(high) << 32);
    const int mine = launch->running_;
    Core& core = *launch->cores[static_cast<size_t>(mine)];
    try {
        const bool second = !core.cube && launch->entry.vector_call != nullptr;
        (second ? launch->entry.vector_call : launch->entry.call)(launch->args_);
        core.finish();
    } catch (const std::exception& fault) {
        if (launch->fault_.empty()) launch->fault_ = fault.what();
    }
    launch->fibers_[static_cast<size_t>(mine)]->done = true;
    swapcontext(&launch->fibers_[static_cast<size_t>(mine)]->context, &the_scheduler);
}

std::string Launch::run(const void* args) {
    args_ = args, the_launch = this;
    std::vector<int> order;
    for (size_t i = 0; i < cores.size(); ++i) {
        auto fiber = std::make_unique<Fiber>();
        if (fiber->stack.data == nullptr) return std::string(entry.name) + ": the machine has no memory for the stacks of so many cores";
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack.data, fiber->context.uc_stack.ss_size = kStack;
        const auto self = reinterpret_cast<uint64_t>(this);
        makecontext(&fiber->context, reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
        fibers_.push_back(std::move(fiber));
        order.push_back(static_cast<int>(i));
    }
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    while (!order.empty() && fault_.empty()) {
        progress_ = false;
        for (const int i : order) {
            running_ = i;
            set_current(cores[static_cast<size_t>(i)].get());
            swapcontext(&the_scheduler, &fibers_[static_cast<size_t>(i)]->context);
            if (!fault_.empty()) break;
        }
        const size_t before = order.size();
        order.erase(std::remove_if(order.begin(), order.end(), [&](int i) { return fibers_[static_cast<size_t>(i)]->done; }), order.end());
        if (fault_.empty() && order.size() == before && !progress_)
            fault_ = std::string(entry.name) + ": every core that is left waits for another one";
    }
    set_current(nullptr);
    for (const auto& [to, waiting] : flags_)
        if (fault_.empty() && !waiting.empty())
            fault_ = std::string(entry.name) + ": flag " + std::to_string(to.second) + " between cores is left over: the next kernel's wait would take it";
    for (Allocation* a : touched_) a->writes.clear(), a->reads.clear();
    return fault_;
}

std::vector<std::string> Launch::remarks() const {
    constexpr uint64_t kFew = 256;  // 128 KB, which are moved in less time than a launch takes
    std::vector<std::string> found;
    for (const auto& [line, count] : lines)
        if (count.touched > kFew && count.touched * 10 > count.needed * 11)
            found.push_back(std::string(entry.name) + ", line " + std::to_string(line) + ": " + std::to_string(count.touched) + " " + std::to_string(count.needed));
    return found;
}

double Launch::seconds_over() const {
    const char* text = std::getenv("ASCSIM_SECONDS");
    const double limit = text != nullptr ? std::strtod(text, nullptr) : 600;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
    return passed.count() > limit ? limit : 0;
}

void Launch::yield() { swapcontext(&fibers_[static_cast<size_t>(running_)]->context, &the_scheduler); }

std::vector<Core*> Launch::receivers(const Core& from, int mode) {
    std::vector<Core*> found;
    for (auto& core : cores) {
        const bool same_block = core->block == from.block;
        if (mode == 0 ? core->cube == from.cube : mode == 1 ? same_block && !core->cube && !from.cube : same_block && core->cube != from.cube)
            found.push_back(core.get());
    }
    return found;
}

void Launch::cross_set(Core& from, int mode, Pipe pipe, int id) {
    check_flag(from, entry, id);
    if (pipe == Pipe::S || pipe == Pipe::ALL) from.fail("a signal comes from one unit, and not from the scalar unit");
    from.check_unit(pipe);
    Clock clock = from.known[static_cast<int>(pipe)];
    for (int q = 0; q < kPipes; ++q) clock[q] = std::max(clock[q], from.known[0][q]);
    clock[static_cast<int>(pipe)] = from.issued[static_cast<int>(pipe)];
    for (Core* to : receivers(from, mode)) {
        auto& waiting = flags_[{to->number, id}];
        waiting.push_back({from.number, clock});
        const auto mine = std::count_if(waiting.begin(), waiting.end(), [&](const auto& w) { return w.from == from.number; });
        if (mine > static_cast<int64_t>(kMostFlags)) from.fail("more than 15 signals wait at one flag");
    }
    progress_ = true;
}

// A wait takes one signal from each core that signals: all vector cores of a block, or the one cube core.
void Launch::cross_wait(Core& core, int id) {
    check_flag(core, entry, id);
    auto& waiting = flags_[{core.number, id}];
    const size_t needed = core.cube && entry.kind == 2 ? static_cast<size_t>(entry.ratio) : 1;
    const auto first_of_each = [&] {
        std::map<int, size_t> found;  // by sender: one that signals twice does not stand for another one
        for (size_t i = 0; i < waiting.size(); ++i) found.emplace(waiting[i].from, i);
        return found;
    };
    while (first_of_each().size() < needed) yield();
    const auto taken = first_of_each();
    std::vector<Message> left;
    for (size_t i = 0, count = 0; i < waiting.size(); ++i) {
        const Message& m = waiting[i];
        if (count == needed || taken.at(m.from) != i) {
            left.push_back(m);
            continue;
        }
        ++count;
        for (int q = 0; q < kPipes; ++q) core.seen[static_cast<size_t>(m.from)][q] = std::max(core.seen[static_cast<size_t>(m.from)][q], m.clock[q]);
        const auto& further = cores[static_cast<size_t>(m.from)]->seen;
        for (size_t c = 0; c < further.size(); ++c)
            for (int q = 0; q < kPipes; ++q) core.seen[c][q] = std::max(core.seen[c][q], further[c][q]);
    }
    waiting = left;
    progress_ = true;
}

void Launch::sync_all(Core& core) {
    const int round = syncs_;
    core.barrier(Pipe::ALL);
    if (++arrived_ == static_cast<int>(cores.size())) {
        for (auto& one : cores)
            for (auto& other : cores) one->seen[static_cast<size_t>(other->number)] = other->issued;
        arrived_ = 0, ++syncs_;
    }
    progress_ = true;
    while (syncs_ == round) yield();
}

}  // namespace ascsim

using ascsim::current;

void ascsim_barrier(ascsim::Pipe pipe, int line) { current().line = line, current().barrier(pipe); }

void ascsim_set_flag(ascsim::Pipe from, ascsim::Pipe to, int id, int line) { current().line = line, current().set_flag(from, to, id); }

void ascsim_wait_flag(ascsim::Pipe from, ascsim::Pipe to, int id, int line) { current().line = line, current().wait_flag(from, to, id); }

void ascsim_cross_set(int mode, ascsim::Pipe pipe, int id, int line) {
    current().line = line, current().doing = "CrossCoreSetFlag";
    ascsim::the_launch->cross_set(current(), mode, pipe, id);
}

void ascsim_cross_wait(int id, ascsim::Pipe, int line) {
    current().line = line, current().doing = "CrossCoreWaitFlag";
    ascsim::the_launch->cross_wait(current(), id);
}

void ascsim_sync_all(int line) {
    current().line = line, current().doing = "SyncAll";
    ascsim::the_launch->sync_all(current());
}

void ascsim_sync_base(uint64_t address, int line) {
    current().line = line, current().doing = "SetSyncBaseAddr";
    if (address != ascsim::sync_address()) current().fail("this is not the address that aclrtGetHardwareSyncAddr gives");
    current().has_sync_base = true;
}

void ascsim_deq_scale(double scale) { current().deq_scale = scale; }

void ascsim_check_tensor(const ascsim::Ref& ref, uint64_t, int line) {
    auto& core = current();
    core.line = line, core.doing = "LocalTensor";
    if (ref.space == ascsim::Space::GM) core.fail("a local tensor does not lie in GM");
    const uint64_t capacity = core.arch.capacity[static_cast<int>(ref.space)];
    if (ref.addr + ref.bytes > capacity)
        core.fail(std::string(ascsim::name_of(ref.space)) + " has " + std::to_string(capacity) + " bytes for programs, and the tensor ends at byte " + std::to_string(ref.addr + ref.bytes));
}

uint64_t ascsim_allocate(ascsim::Space space, uint64_t bytes, int line) {
    auto& core = current();
    core.line = line, core.doing = "InitBuffer";
    auto& used = core.allocated[static_cast<size_t>(space)];
    const uint64_t at = used, capacity = core.arch.capacity[static_cast<int>(space)];
    used += bytes;
    if (used > capacity) core.fail("the buffers need " + std::to_string(used) + " bytes of " + ascsim::name_of(space) + ", which has " + std::to_string(capacity));
    return at;
}

void ascsim_begin(int has_pipe) {
    auto& core = current();
    core.begun = true, core.has_pipe = core.has_pipe || has_pipe != 0;
}

void ascsim_reset_allocation() { current().allocated = {}; }

void ascsim_queue(uint64_t queue, int event, uint64_t addr, int depth, int position, int line) {
    current().line = line;
    current().queue_event(queue, event, addr, depth, position);
}

void ascsim_fail(const char* what, int line) {
    current().line = line, current().doing = "error";
    current().fail(what);
}

int ascsim_is_cube() { return current().cube ? 1 : 0; }

int64_t ascsim_block_index() {
    const auto& core = current();
    return core.cube ? core.block : core.block * ascsim::the_launch->entry.ratio + core.sub_block;
}

int64_t ascsim_block_count() { return ascsim::the_launch->blocks; }

int64_t ascsim_sub_block() { return current().sub_block; }

int64_t ascsim_task_ratio() { return ascsim::the_launch->entry.ratio; }

int ascsim_arch() { return current().arch.number; }

int64_t ascsim_cycle() {
    uint64_t sum = 0;
    for (const uint32_t n : current().issued) sum += n;
    return static_cast<int64_t>(sum);
}
