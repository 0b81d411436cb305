// The simulated cores: memories with shadows that know what was written, by whom and when; clocks that know what every
// unit may rely on; and faults, which stop a core where it breaks a rule of the hardware.
#pragma once

#include <ucontext.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ascsim/abi.h"

namespace ascsim {

constexpr int kPipes = static_cast<int>(Pipe::COUNT);
constexpr int kSpaces = static_cast<int>(Space::COUNT);
constexpr uint64_t kBlock = 32;

using Clock = std::array<uint32_t, kPipes>;  // of each unit of a core, the last instruction that is known to be done

struct Fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Facts about an architecture that the checks rest on.
struct Arch {
    int number;
    std::array<uint64_t, kSpaces> capacity;   // bytes a program may use
    std::array<uint64_t, kSpaces> alignment;  // of addresses, in bytes
    bool orders_vector;                       // whether a vector instruction waits for the one before it
    bool loads_fractals_zz;                   // layout of L0A
};

const Arch& arch_of(int number);
const char* name_of(Space);
const char* name_of(Pipe);
const char* name_of(DType);
const char* name_of(Op);
uint64_t size_of(DType);
bool is_float(DType);

// Who touched a block of 32 bytes, and which bytes of it.
struct Touch {
    uint32_t seq = 0;
    uint32_t bytes = 0;
    uint16_t core = 0;
    uint8_t pipe = 0;
    bool adds = false;  // to what is there, in whatever order
};

struct Shadow {
    Touch write;
    std::array<uint32_t, kPipes> reads{};  // the last read by each unit
};

struct LocalMemory {
    std::vector<uint8_t> data, defined;
    std::vector<Shadow> shadow;
    void prepare(uint64_t bytes);
};

// A buffer of a queue goes from free to allocated, queued, taken, and back to free.
enum class Stage : uint8_t { Free, Allocated, Queued, Taken };

struct Queue {
    int position = 0, count = 0;
    std::map<uint64_t, Stage> stages;
    std::map<uint64_t, Clock> filled, freed;
};

struct Event {
    bool set = false;
    Clock clock{};
};

// 512 bytes of L0C under the unit flag: full from the last product until the fixpipe has taken them.
struct Unit {
    bool full = false;
    uint32_t products = 0, taken = 0;
    int line = 0;  // of the product that has filled it
};

// Lines of 512 bytes of GM that copies touch, and how many would do if every row began at one.
struct Lines {
    uint64_t touched = 0, needed = 0;
};

class Launch;

class Core {
public:
    Core(Launch& launch, const Arch& arch, int number, bool cube, int64_t block, int64_t sub_block);

    // An instruction begins: gives its number. Everything it touches is named by `reads` and `writes` after that.
    uint32_t issue(Pipe, int line, const char* what);
    void touch_read(const Ref&, uint64_t from, uint64_t bytes, bool needs_all = true);
    void touch_write(const Ref&, uint64_t from, uint64_t bytes);
    uint8_t* bytes_at(const Ref&, uint64_t from, uint64_t bytes);
    uint8_t* defined_at(const Ref&, uint64_t from);  // a byte for each byte of a local memory: whether it was written
    void small_product();  // what was issued is one that the next product does not wait for
    void unit_flag(const Ref&, uint64_t from, int flag);
    void moves_rows(const Ref& global, int64_t rows, uint64_t bytes, uint64_t pitch);  // of an array in GM

    void barrier(Pipe);
    void set_flag(Pipe from, Pipe to, int id);
    void wait_flag(Pipe from, Pipe to, int id);
    void queue_event(uint64_t queue, int event, uint64_t addr, int depth, int position);
    void finish();
    [[noreturn]] void fail(const std::string& what) const;
    void check_unit(Pipe) const;

    const Arch& arch;
    const int number;
    const bool cube;
    const int64_t block, sub_block;
    int line = 0;
    const char* doing = "";
    bool begun = false;     // the registers that kernels share are as they begin with
    bool has_pipe = false;  // a TPipe, which has events for instructions that need some, and ends a kernel by itself
    bool has_sync_base = false;  // SetSyncBaseAddr was called
    double deq_scale = 1.0;
    int atomic = 0;
    bool products_by_rows = false;
    DType atomic_dtype = DType::F32;
    std::array<uint64_t, kSpaces> allocated{};
    Clock issued{};
    std::array<Clock, kPipes> known{};
    std::vector<Clock> seen;  // of the other cores
    std::array<LocalMemory, kSpaces> memory;

private:
    void check_read(const Touch&, Pipe, uint32_t bytes, const char* memory, uint64_t at) const;
    void touch_global(const Ref&, uint64_t from, uint64_t bytes, bool writes);
    void require_known(const Touch& before, const char* hazard, const char* memory, uint64_t at) const;
    Launch& launch_;
    Pipe pipe_ = Pipe::S;
    uint32_t seq_ = 0;
    bool drained_ = true;  // nothing was issued since all units were waited for
    std::map<std::array<int, 3>, Event> events_;
    std::map<uint64_t, Queue> queues_;
    std::map<uint64_t, Unit> units_;
    Pipe waited_pipe_ = Pipe::S;  // which the unit flag has waited for, in the unit at hand
    uint32_t waited_seq_ = 0;     // up to this instruction
    std::set<uint32_t> small_products_;
};

// Device memory that a program has allocated, with a bit for each byte that anything has written.
struct Allocation {
    Allocation(uint64_t at, uint64_t size);
    void note_written(uint64_t from, uint64_t count);
    void note_copied(const Allocation& source, uint64_t source_from, uint64_t from, uint64_t count);
    void discard(uint64_t from, uint64_t count);                    // what is there is nobody's any more
    uint64_t first_unwritten(uint64_t from, uint64_t count) const;  // `from + count` when there is none
    const uint64_t address, bytes;
    std::vector<Touch> writes, reads;

private:
    std::vector<uint32_t> written_;  // a word for each block
};

// One launch: its cores, the flags between them, and whose turn it is.
struct Stack {
    Stack();
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;
    ~Stack();
    void* data;
};

class Launch {
public:
    Launch(const Entry& entry, int64_t blocks, int arch, uint64_t seed);
    std::string run(const void* args);  // empty, or the first fault

    void cross_set(Core&, int mode, Pipe, int id);
    void cross_wait(Core&, int id);
    void sync_all(Core&);
    void yield();
    Allocation* find(uint64_t address);
    double seconds_over() const;  // the limit, if the kernel has run for longer than that; else 0
    std::vector<std::string> remarks() const;  // on what is right, and slower than it need be

    std::map<int, Lines> lines;  // by the line of the copy
    const Entry& entry;
    const Arch& arch;
    const int64_t blocks;
    std::vector<std::unique_ptr<Core>> cores;

private:
    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    struct Fiber {
        ucontext_t context;
        Stack stack;
        bool done = false;
    };
    struct Message {
        int from;
        Clock clock;
    };
    static void start(unsigned low, unsigned high);
    std::vector<Core*> receivers(const Core&, int mode);
    uint64_t random();
    uint64_t state_;
    std::vector<std::unique_ptr<Fiber>> fibers_;
    int running_ = -1, arrived_ = 0, syncs_ = 0;
    bool progress_ = false;
    std::map<std::pair<int, int>, std::vector<Message>> flags_;  // by receiving core and number
    std::vector<Allocation*> touched_;
    std::string fault_;
    const void* args_ = nullptr;
};

Core& current();              // the core whose turn it is
void set_current(Core*);
Allocation* allocation_at(uint64_t address);  // of the device's memory
uint64_t sync_address();                      // where the flags between cores are

}  // namespace ascsim
