// Products of large matrices of floating-point numbers, by blocks that are copied to where they are read in order: the
// method of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34:3 (2008), which
// OpenBLAS uses as well.
//
//   - kDepth rows of `b` at a time are copied into panels of kColumns columns. One panel, of 24 KiB with AVX2 and 48 with
//     AVX-512, is read for all rows of a block. It stays in the first-level cache or, where it is larger, in the second.
//   - kBlockRows rows of `a` at a time are copied, turned, into panels of kTileRows rows. They stay in the second level.
//   - A tile of kTileRows x kColumns elements of the result is in registers while a panel of each is read once.
//
// Eigen, whose vectors these are, makes products of the same form, but of 1024 x 1024 numbers it takes a tenth to a
// fourth longer, and compiled by Clang twice as long (decisions 0352 and 0353). Included by matmul.cpp, after Eigen under
// its other name, in the variants with fused multiplication. With AVX2 12 sums, 3 vectors of `b` and one number of `a`
// are its 16 registers; with AVX-512 24 sums and the same beside them are 28 of 32.
#pragma once

#include <cstddef>
#include <cstdlib>

#include "kernels/isa/isa.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
// NOLINTNEXTLINE(cert-dcl59-cpp): see isa.h.
namespace {

namespace blocked {

using Index = std::ptrdiff_t;
template <class T>
using Packet = typename Eigen::internal::packet_traits<T>::type;
template <class T>
inline constexpr Index kPacket = Eigen::internal::packet_traits<T>::size;

#ifdef __AVX512F__
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTilePackets = 3;
template <class T>
inline constexpr Index kColumns = kTilePackets * kPacket<T>;
inline constexpr Index kDepth = 256;
inline constexpr Index kBlockRows = 192;
inline constexpr Index kBlockColumns = 2016;
// Whole panels: the copies have no room for more.
static_assert(kBlockRows % kTileRows == 0 && kBlockColumns % kColumns<float> == 0 &&
              kBlockColumns % kColumns<double> == 0);

inline Index least(Index a, Index b) { return a < b ? a : b; }
inline Index round_up(Index count, Index to) { return (count + to - 1) / to * to; }

// The copies, or nothing where memory is short.
template <class T>
class Copies {
 public:
  explicit Copies(Index count) : data_(allocate(count)) {}
  ~Copies() { std::free(data_); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  T* data() const { return data_; }

 private:
  static T* allocate(Index count) {
    const auto bytes = static_cast<std::size_t>(round_up(count * kStep<T>, 64));
    return static_cast<T*>(std::aligned_alloc(64, bytes));
  }

  T* const data_;
};

// Turns 4 x 4 elements: those of `in` that lie side by side are `out_step` apart in `out`.
inline void turn(const double* in, Index in_step, double* out, Index out_step) {
  namespace E = Eigen::internal;
  E::PacketBlock<E::Packet4d, 4> block;
  for (int i = 0; i < 4; ++i) block.packet[i] = E::ploadu<E::Packet4d>(in + i * in_step);
  E::ptranspose(block);
  for (int i = 0; i < 4; ++i) E::pstore(out + i * out_step, block.packet[i]);
}
inline void turn(const float* in, Index in_step, float* out, Index out_step) {
  namespace E = Eigen::internal;
  E::PacketBlock<E::Packet4f, 4> block;
  for (int i = 0; i < 4; ++i) block.packet[i] = E::ploadu<E::Packet4f>(in + i * in_step);
  E::ptranspose(block);
  for (int i = 0; i < 4; ++i) E::pstore(out + i * out_step, block.packet[i]);
}

// What is multiplied: `count` rows of `a`, or columns of `b`, of `depth` elements each. Their steps count elements.
template <class T>
struct Lines {
  const T* data;
  Index count;
  Index step;  // from one line to the next
  Index depth;
  Index depth_step;
};

// Copies the lines from `first` on, fewer than `width`, into one panel, and zeros beside them.
template <class T, Index width>
void pack_rest(const Lines<T>& lines, Index first, T* panel) {
  for (Index k = 0; k < lines.depth; ++k, panel += width) {
    for (Index i = 0; i < width; ++i) {
      const Index line = first + i;
      panel[i] = line < lines.count ? lines.data[line * lines.step + k * lines.depth_step] : T(0);
    }
  }
}

// Lines side by side. Four elements of each go into all panels before the next four: elements at a distance of 4 KiB or
// more share few places of the caches, which then lose what the next panel reads.
template <class T, Index width>
void pack_straight(const Lines<T>& lines, Index whole, T* panels) {
  constexpr Index kTogether = 4;
  for (Index k = 0; k < lines.depth; k += kTogether) {
    const Index together = least(kTogether, lines.depth - k);
    for (Index first = 0; first < whole; first += width) {
      const T* const in = lines.data + k * lines.depth_step + first;
      T* const out = panels + first * lines.depth + k * width;
      for (Index r = 0; r < together; ++r)
        __builtin_memcpy(out + r * width, in + r * lines.depth_step, width * sizeof(T));
    }
  }
}

// Lines whose elements lie side by side. Those of the next panel are fetched ahead: each lies in other pages.
template <class T, Index width>
void pack_turned(const Lines<T>& lines, Index whole, T* panels) {
  for (Index first = 0; first < whole; first += width) {
    const T* const in = lines.data + first * lines.step;
    T* const out = panels + first * lines.depth;
    Index k = 0;
    for (; k + 4 <= lines.depth; k += 4) {
      for (Index i = 0; i < width; i += 4) {
        for (Index r = 0; r < 4; ++r) __builtin_prefetch(in + (i + r + width) * lines.step + k);
        turn(in + i * lines.step + k, lines.step, out + k * width + i, width);
      }
    }
    for (; k < lines.depth; ++k) {
      for (Index i = 0; i < width; ++i) out[k * width + i] = in[i * lines.step + k];
    }
  }
}

// Copies lines into panels of `width`: in each the first elements of its lines, then the second ones, and so on.
template <class T, Index width>
void pack(const Lines<T>& lines, T* panels) {
  static_assert(width % 4 == 0);
  const Index whole = lines.count / width * width;
  if (lines.depth_step == 1) {
    pack_turned<T, width>(lines, whole, panels);
  } else {
    pack_straight<T, width>(lines, whole, panels);
  }
  if (whole < lines.count) pack_rest<T, width>(lines, whole, panels + whole * lines.depth);
}

// The result's elements that one tile makes.
template <class T>
struct Target {
  T* data;
  Index step;  // from one row to the next
  Index rows;
  Index columns;
  bool add;  // to what is there
};

template <class T, int rows, int packets>
using Sums = Packet<T>[rows][packets];

// Adds one row of the panel of `b`, times each of the numbers of `a`.
template <class T, int rows, int packets>
inline __attribute__((always_inline)) void add_row(const T* a, const T* b, Sums<T, rows, packets>& sums) {
  Packet<T> row[packets];
  for (int j = 0; j < packets; ++j) row[j] = Eigen::internal::pload<Packet<T>>(b + j * kPacket<T>);
  for (int i = 0; i < rows; ++i) {
    const Packet<T> factor = Eigen::internal::pset1<Packet<T>>(a[i]);
    for (int j = 0; j < packets; ++j) sums[i][j] = Eigen::internal::pmadd(factor, row[j], sums[i][j]);
  }
}

template <class T, int rows, int packets>
void store(const Sums<T, rows, packets>& sums, const Target<T>& out) {
  namespace E = Eigen::internal;
  if (out.rows == rows && out.columns == packets * kPacket<T>) {
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < packets; ++j) {
        T* const to = out.data + i * out.step + j * kPacket<T>;
        E::pstoreu(to, out.add ? E::padd(E::ploadu<Packet<T>>(to), sums[i][j]) : sums[i][j]);
      }
    }
    return;
  }
  alignas(64) T part[rows][packets * kPacket<T>];
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < packets; ++j) E::pstore(&part[i][j * kPacket<T>], sums[i][j]);
  }
  for (Index i = 0; i < out.rows; ++i) {
    for (Index j = 0; j < out.columns; ++j) {
      T& to = out.data[i * out.step + j];
      to = out.add ? to + part[i][j] : part[i][j];
    }
  }
}

// One tile of the result, or what is left of one at an edge: of the panels it multiplies `rows` and `packets`, and keeps
// what the result has. Never inlined: among other variables GCC keeps fewer of the sums in registers.
template <class T, int rows, int packets>
__attribute__((noinline)) void tile(const T* a, const T* b, Index depth, const Target<T>& out) {
  Sums<T, rows, packets> sums;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < packets; ++j) {
      __builtin_prefetch(out.data + i * out.step + j * kPacket<T>, 1);
      sums[i][j] = Eigen::internal::pset1<Packet<T>>(T(0));
    }
    __builtin_prefetch(out.data + i * out.step + out.columns - 1, 1);
  }
  for (; depth >= 4; depth -= 4) {
    for (int u = 0; u < 4; ++u) add_row<T, rows, packets>(a + u * kTileRows, b + u * kColumns<T>, sums);
    a += 4 * kTileRows;
    b += 4 * kColumns<T>;
  }
  for (; depth > 0; --depth, a += kTileRows, b += kColumns<T>) add_row<T, rows, packets>(a, b, sums);
  store<T, rows, packets>(sums, out);
}

template <class T, int packets>
void tile_of_rows(const T* a, const T* b, Index depth, const Target<T>& out) {
  if (out.rows <= kTileRows / 2) return tile<T, kTileRows / 2, packets>(a, b, depth, out);
  return tile<T, kTileRows, packets>(a, b, depth, out);
}

// All tiles of a block: the rows of `out`, whose panels lie at `a`, and its columns, whose one panel lies at `b`.
template <class T>
void column_of_tiles(const T* a, const T* b, Index depth, Target<T> out) {
  static_assert(kTilePackets == 3);
  const Index packets = round_up(out.columns, kPacket<T>) / kPacket<T>;
  for (Index rows = out.rows; rows > 0; rows -= kTileRows) {
    out.rows = least(kTileRows, rows);
    if (packets == 3) {
      tile_of_rows<T, 3>(a, b, depth, out);
    } else if (packets == 2) {
      tile_of_rows<T, 2>(a, b, depth, out);
    } else {
      tile_of_rows<T, 1>(a, b, depth, out);
    }
    a += kTileRows * depth;
    out.data += kTileRows * out.step;
  }
}

}  // namespace blocked

// Does it take less time than Eigen's? For the copies to pay, the result has to be large in both directions, and each sum
// long.
inline bool blocked_product_pays(const MatrixView& a, const MatrixView& out) {
  if (out.rows < 4 || out.columns < 64 || a.columns < 8) return false;
  return static_cast<double>(out.rows) * static_cast<double>(out.columns) * static_cast<double>(a.columns) >=
         128.0 * 128.0 * 128.0;
}

// out = a b. False, with nothing done, where memory is short.
template <class T>
bool blocked_product(const MatrixView& a, const MatrixView& b, const MatrixView& out) {
  using namespace blocked;
  const auto* const left = reinterpret_cast<const T*>(a.data);
  const auto* const right = reinterpret_cast<const T*>(b.data);
  auto* const result = reinterpret_cast<T*>(out.data);
  const Index block_depth = least(kDepth, a.columns);
  const Index block_rows = least(kBlockRows, round_up(out.rows, kTileRows));
  const Index block_columns = least(kBlockColumns, round_up(out.columns, kColumns<T>));
  const Index of_b = block_depth * block_columns;
  // In one piece: two that are freed one after the other make the heap shrink and grow again with each product.
  const Copies<T> copies(round_up(of_b, 64) + block_depth * block_rows);
  if (copies.data() == nullptr) return false;
  T* const b_panels = copies.data();
  T* const a_panels = copies.data() + round_up(of_b, 64);
  for (Index j = 0; j < out.columns; j += block_columns) {
    const Index columns = least(block_columns, out.columns - j);
    for (Index k = 0; k < a.columns; k += block_depth) {
      const Index depth = least(block_depth, a.columns - k);
      pack<T, kColumns<T>>(
          {right + k * b.row_step + j * b.column_step, columns, b.column_step, depth, b.row_step}, b_panels);
      for (Index i = 0; i < out.rows; i += block_rows) {
        const Index rows = least(block_rows, out.rows - i);
        pack<T, kTileRows>(
            {left + i * a.row_step + k * a.column_step, rows, a.row_step, depth, a.column_step}, a_panels);
        for (Index panel = 0; panel < columns; panel += kColumns<T>) {
          column_of_tiles<T>(a_panels, b_panels + panel * depth, depth,
                             {result + i * out.row_step + j + panel, out.row_step, rows,
                              least(kColumns<T>, columns - panel), k != 0});
        }
      }
    }
  }
  return true;
}

}  // namespace
}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
