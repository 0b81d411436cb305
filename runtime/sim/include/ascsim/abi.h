// What a kernel compiled for the simulated device asks of it. The templates of kernel_operator.h are thin: they fill one
// of these records and call one of these functions, so that kernels compile fast and every check stands in one library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ascsim {

enum class Space : uint8_t { GM, UB, L1, L0A, L0B, L0C, BT, FB, COUNT };
enum class Pipe : uint8_t { S, V, M, MTE1, MTE2, MTE3, FIX, COUNT, ALL };
enum class DType : uint8_t { I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F8E4M3, F8E5M2, COUNT };

enum class Op : uint8_t {
    Add, Sub, Mul, Div, Max, Min, And, Or, MulAddDst, AddRelu, SubRelu,
    Adds, Muls, Maxs, Mins, LeakyRelu, Axpy, ShiftLeft, ShiftRight,
    Exp, Ln, Sqrt, Rsqrt, Reciprocal, Abs, Relu, Not,
    Duplicate, VecIndex, Copy, Cast, Compare, Compares, Select, Selects,
    WholeSum, WholeMax, WholeMin, BlockSum, BlockMax, BlockMin, PairSum,
    Brcb, Gather, GatherMask, Sort32, MrgSort, Transpose, COUNT
};

// A tensor as an instruction sees it: bytes from `addr` in a memory, `bytes` of them. In GM, `addr` is a pointer.
struct Ref {
    Space space = Space::UB;
    DType dtype = DType::F32;
    uint64_t addr = 0;
    uint64_t bytes = 0;
};

// Strides of a vector instruction: of blocks within a repeat, and of repeats, both in units of 32 bytes.
struct Walk {
    int64_t block = 1;
    int64_t repeat = 8;
};

struct Vector {
    Op op = Op::Add;
    Ref dst, a, b;
    Walk dst_walk, a_walk, b_walk;
    uint64_t mask[2] = {0, 0};
    int64_t repeat = 0;
    int64_t count = -1;  // elements in all, where the call gives a count; then `mask` and `repeat` are not used
    double scalar = 0;
    int64_t integer = 0;  // scalar of integer instructions, bits of other ones, offset of Gather
    int mode = 0;         // RoundMode, CMPMODE, SELMODE or ReduceOrder
    int line = 0;
};

// Up to four lists of pairs, the greatest scores first, that become one.
struct Merge {
    Ref dst, lists[4];
    int64_t lengths[4] = {0, 0, 0, 0};  // in pairs of 8 bytes
    int64_t valid = 0, repeat = 1;
    bool stops_early = false;
    int line = 0;
};

struct Copy {
    Ref dst, src;
    int64_t blocks = 1, block_bytes = 0;
    int64_t src_gap = 0, dst_gap = 0;  // in bytes
    bool pads = false, pads_value = false;
    int64_t left = 0, right = 0;  // padding in elements
    double value = 0;
    int line = 0;
};

struct Nd2Nz {
    Ref dst, src;
    int64_t matrices = 1, rows = 0, cols = 0, src_matrix = 0, src_pitch = 0, dst_c0 = 0, dst_n = 1, dst_matrix = 0;
    int line = 0;
};

struct Load2D {
    Ref dst, src;
    int64_t start = 0, repeat = 1, src_stride = 0, dst_gap = 0;
    bool transpose = false;
    bool pairs = false;        // LoadDataWithTranspose: `start` and `src_stride` count squares, not fractals
    int64_t fractal_gap = 0;   // between the two fractals of a square
    int line = 0;
};

struct Load2DV2 {
    Ref dst, src;
    int64_t m_start = 0, k_start = 0, m_step = 0, k_step = 0, src_stride = 0, dst_stride = 0;
    bool transpose = false;
    int line = 0;
};

struct Load3D {
    Ref dst, src;
    int64_t height = 0, width = 0, channels = 0, k = 0, m = 0, k_start = 0, m_start = 0;
    bool plain = true;  // a filter of one pixel, steps of one, no padding
    bool transpose = false;
    int line = 0;
};

struct Fill {
    Ref dst;
    int64_t repeat = 1, blocks = 0, gap = 0;
    double value = 0;
    int line = 0;
};

struct Mmad {
    Ref c, a, b;
    int64_t m = 0, n = 0, k = 0;
    bool starts_from_zero = true, adds_bias = false, whole_squares = false;
    int unit_flag = 0;
    int line = 0;
};

struct Fixpipe {
    Ref dst, src;
    int64_t n = 0, m = 0, src_stride = 0, dst_stride = 0, matrices = 1;
    bool relu = false, row_major = true;
    int quant = 0;
    uint64_t scale = 0;
    int unit_flag = 0;
    int line = 0;
};

// The record that the driver writes beside every kernel, for the loader. Compilers before 8.5 compile a mixed kernel
// once for each kind of core; the loader joins the two records into one, of which vector cores run `vector_call`.
struct Entry {
    const char* name;
    int kind;   // 0 cube, 1 vector, 2 mix
    int ratio;  // vector cores to a cube core
    size_t args_bytes;
    void (*call)(const void* args);
    int part = 0;  // 1 the cube part of a mixed kernel, 2 its vector part
    void (*vector_call)(const void* args) = nullptr;
};

}  // namespace ascsim

extern "C" {
void ascsim_vector(const ascsim::Vector&);
void ascsim_merge(const ascsim::Merge&);
void ascsim_copy(const ascsim::Copy&);
void ascsim_nd2nz(const ascsim::Nd2Nz&);
void ascsim_load2d(const ascsim::Load2D&);
void ascsim_load2d_v2(const ascsim::Load2DV2&);
void ascsim_load3d(const ascsim::Load3D&);
void ascsim_fill(const ascsim::Fill&);
void ascsim_mmad(const ascsim::Mmad&);
void ascsim_fixpipe(const ascsim::Fixpipe&);
void ascsim_scalar_read(const ascsim::Ref&, void* value, int line);
void ascsim_scalar_write(const ascsim::Ref&, const void* value, int line);
void ascsim_barrier(ascsim::Pipe, int line);
void ascsim_set_flag(ascsim::Pipe from, ascsim::Pipe to, int id, int line);
void ascsim_wait_flag(ascsim::Pipe from, ascsim::Pipe to, int id, int line);
void ascsim_cross_set(int mode, ascsim::Pipe, int id, int line);
void ascsim_cross_wait(int id, ascsim::Pipe, int line);
void ascsim_sync_all(int line);
void ascsim_sync_base(uint64_t address, int line);
void ascsim_atomic(int mode, ascsim::DType, int line);
void ascsim_product_order(bool by_rows, int line);
void ascsim_deq_scale(double);
void ascsim_check_tensor(const ascsim::Ref&, uint64_t capacity_used, int line);
uint64_t ascsim_allocate(ascsim::Space, uint64_t bytes, int line);
void ascsim_begin(int has_pipe);  // InitSocState, or a TPipe, which does more
void ascsim_reset_allocation();
void ascsim_queue(uint64_t queue, int event, uint64_t addr, int depth, int position, int line);
void ascsim_fail(const char* what, int line);
int ascsim_is_cube();
int64_t ascsim_block_index();
int64_t ascsim_block_count();
int64_t ascsim_sub_block();
int64_t ascsim_task_ratio();
int ascsim_arch();
int64_t ascsim_cycle();
}

