#include "ops/sorting.h"

#include <bit>
#include <memory>
#include <string>
#include <utility>

#include "ops/arrangement.h"
#include "ops/indexing.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/range_job.h"
#include "ops/sort_items.h"
#include "ops/walk.h"

namespace forklift::inline abi_0_1::ops {
namespace {

// A line of so many elements is sorted in pieces, if there are too few lines for all threads.
constexpr std::int64_t kLongLine = 1 << 16;

// The lines of `x` along a dimension, and those of a result of the same shape.
struct Lines {
  Walk walk;
  std::int64_t length = 0;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::ptrdiff_t in_step = 0;
  std::ptrdiff_t out_step = 0;
  bool descending = false;

  Lines(const Tensor& x, const Tensor& result, std::size_t axis, bool reversed)
      : length(x.shape()[axis]), in(address_of(x)), out(address_of(result)), descending(reversed) {
    in_step = x.strides()[axis] * static_cast<std::ptrdiff_t>(x.item_size());
    out_step = result.strides()[axis] * static_cast<std::ptrdiff_t>(result.item_size());
    Dims shape = x.shape();
    Dims strides = x.strides();
    Dims result_strides = result.strides();
    shape.erase(axis);
    strides.erase(axis);
    result_strides.erase(axis);
    walk.begin(shape);
    walk.add(shape, strides, x.item_size());
    walk.add(shape, result_strides, result.item_size());
    walk.finish();
  }
};

// Elements as keys: sorted, they become elements again.
template <class T>
struct ByValue {
  using Item = UnsignedOf<sizeof(T)>;
  static Item item(const std::byte* from, std::int64_t, bool descending) noexcept {
    const T value = load<T>(from);
    const Item key = exact_key_of(value);
    return descending ? descending_key(key, value) : key;
  }
  static void put(std::byte* to, Item key, bool descending) noexcept {
    if (!descending || (is_float_v<T> && key == std::numeric_limits<Item>::max())) {
      store(to, value_of<T>(key));
    } else {
      store(to, value_of<T>(static_cast<Item>(~key)));
    }
  }
};

// Elements as keys with their places: sorted, they become the order.
template <class T>
struct ByPlace {
  using Item = Ranked<KeyOf<T>>;
  static Item item(const std::byte* from, std::int64_t index, bool descending) noexcept {
    const T value = load<T>(from);
    return {descending ? descending_key(key_of(value), value) : key_of(value), index};
  }
  static void put(std::byte* to, const Item& item, bool) noexcept { store(to, item.index); }
};

template <class How>
Status sort_lines(std::string_view name, const Tensor& x, const Tensor& out, const Lines& lines,
                  double nanoseconds) {
  using Item = typename How::Item;
  return compute_range(
      name, {&x}, out, lines.walk.size(), nanoseconds, [lines](std::int64_t first, std::int64_t last) {
        const auto length = static_cast<std::size_t>(lines.length);
        const auto items = std::make_unique_for_overwrite<Item[]>(length);
        const auto spare = std::make_unique_for_overwrite<Item[]>(length);
        lines.walk.for_each(first, last, [&](const std::int64_t* offsets, std::int64_t count) {
          for (std::int64_t line = 0; line < count; ++line) {
            const std::byte* const from = lines.in + offsets[0] + line * lines.walk.inner_step(0);
            std::byte* const to = lines.out + offsets[1] + line * lines.walk.inner_step(1);
            for (std::int64_t i = 0; i < lines.length; ++i)
              items[static_cast<std::size_t>(i)] = How::item(from + i * lines.in_step, i, lines.descending);
            const Item* const sorted = sort_items(items.get(), spare.get(), lines.length);
            for (std::int64_t i = 0; i < lines.length; ++i)
              How::put(to + i * lines.out_step, sorted[i], lines.descending);
          }
        });
      });
}

// One long line in pieces: each is sorted, then neighbours are merged, all threads taking part in each merge. The
// executor completes one job before it begins the next.
template <class How>
Status sort_in_pieces(std::string_view name, const Tensor& x, const Tensor& out, const Lines& lines,
                      const std::int64_t* offsets, double nanoseconds) {
  using Item = typename How::Item;
  struct Memory {
    std::unique_ptr<Item[]> items;
    std::unique_ptr<Item[]> spare;
  };
  const std::int64_t length = lines.length;
  const auto threads = static_cast<std::uint64_t>(runtime::Executor::instance().threads());
  const auto pieces = static_cast<std::int64_t>(std::bit_ceil(threads));
  const auto memory = std::make_shared<Memory>();
  memory->items = std::make_unique_for_overwrite<Item[]>(static_cast<std::size_t>(length));
  memory->spare = std::make_unique_for_overwrite<Item[]>(static_cast<std::size_t>(length));
  const std::byte* const from = lines.in + offsets[0];
  Status status = compute_range(name, {&x}, out, pieces, nanoseconds,
                                [memory, from, length, pieces, step = lines.in_step,
                                 descending = lines.descending](std::int64_t first, std::int64_t last) {
                                  for (std::int64_t piece = first; piece < last; ++piece) {
                                    const std::int64_t begin = share_of(length, pieces, piece);
                                    const std::int64_t end = share_of(length, pieces, piece + 1);
                                    Item* const items = memory->items.get();
                                    for (std::int64_t i = begin; i < end; ++i)
                                      items[i] = How::item(from + i * step, i, descending);
                                    const Item* const sorted =
                                        sort_items(items + begin, memory->spare.get() + begin, end - begin);
                                    if (sorted != items + begin)
                                      std::copy(sorted, sorted + (end - begin), items + begin);
                                  }
                                });
  bool swapped = false;
  for (std::int64_t run = 1; run < pieces && status; run *= 2) {
    status = compute_range(name, {}, out, length, nanoseconds,
                           [memory, length, pieces, run, swapped](std::int64_t first, std::int64_t last) {
                             const Item* const source = swapped ? memory->spare.get() : memory->items.get();
                             Item* const target = swapped ? memory->items.get() : memory->spare.get();
                             for (std::int64_t piece = 0; piece < pieces; piece += 2 * run) {
                               const std::int64_t begin = share_of(length, pieces, piece);
                               const std::int64_t middle = share_of(length, pieces, piece + run);
                               const std::int64_t end = share_of(length, pieces, piece + 2 * run);
                               const std::int64_t low = std::max(first, begin);
                               const std::int64_t high = std::min(last, end);
                               if (low >= high) continue;
                               merge_part(source + begin, middle - begin, source + middle, end - middle,
                                          low - begin, high - begin, target + low);
                             }
                           });
    swapped = !swapped;
  }
  if (!status) return status;
  std::byte* const to = lines.out + offsets[1];
  return compute_range(name, {}, out, length, nanoseconds,
                       [memory, to, swapped, step = lines.out_step, descending = lines.descending](
                           std::int64_t first, std::int64_t last) {
                         const Item* const sorted = swapped ? memory->spare.get() : memory->items.get();
                         for (std::int64_t i = first; i < last; ++i)
                           How::put(to + i * step, sorted[i], descending);
                       });
}

template <class How>
Status sort_with(std::string_view name, const Tensor& x, const Tensor& out, const Lines& lines) {
  const double nanoseconds = static_cast<double>(x.numel()) * 20;
  const auto threads = static_cast<std::int64_t>(runtime::Executor::instance().threads());
  if (lines.length < kLongLine || lines.walk.size() >= threads)
    return sort_lines<How>(name, x, out, lines, nanoseconds);
  Status status;
  lines.walk.for_each(0, lines.walk.size(), [&](const std::int64_t* offsets, std::int64_t count) {
    for (std::int64_t line = 0; line < count && status; ++line) {
      const std::int64_t places[] = {offsets[0] + line * lines.walk.inner_step(0),
                                     offsets[1] + line * lines.walk.inner_step(1)};
      status = sort_in_pieces<How>(name, x, out, lines, places, nanoseconds);
    }
  });
  return status;
}

// What the two functions have in common: the dimension, and a tensor for the result.
struct Sorting {
  std::size_t axis;
  Tensor out;
};
Result<Sorting> prepare_sorting(std::string_view name, const Tensor& x, const SortOrder& how, DType dtype) {
  if (x.ndim() == 0)
    return {Code::kInvalid, describe(name, {&x}) + ": a tensor without dimensions has no order"};
  Result<std::size_t> axis = axis_of(name, x, how.axis, x.ndim());
  if (!axis) return axis.status();
  Result<Place> where = place_of(name, {&x});
  if (!where) return where.status();
  Result<Tensor> out = where->make(x.shape(), dtype);
  if (!out) return out.status();
  return Sorting{*axis, *std::move(out)};
}

}  // namespace

Result<Tensor> sorted(const Tensor& x, const SortOrder& how) {
  if (Status status = refuse_on_gpu("sort", {&x}); !status) return status;
  if (kind_of(x.dtype()) == Kind::kComplex) {  // their keys do not become elements again
    Result<Tensor> order = sorting_order(x, how);
    return order ? take_along(x, *order, how.axis) : order;
  }
  Result<Sorting> plan = prepare_sorting("sort", x, how, x.dtype());
  if (!plan) return plan.status();
  if (x.numel() == 0) return std::move(plan->out);
  const Lines lines(x, plan->out, plan->axis, how.descending);
  Status status = with_element(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (is_complex_v<T>) {
      return Status();
    } else {
      return sort_with<ByValue<T>>("sort", x, plan->out, lines);
    }
  });
  if (!status) return status;
  return std::move(plan->out);
}

Result<Tensor> sorting_order(const Tensor& x, const SortOrder& how) {
  if (Status status = refuse_on_gpu("argsort", {&x}); !status) return status;
  Result<Sorting> plan = prepare_sorting("argsort", x, how, DType::kInt64);
  if (!plan) return plan.status();
  if (x.numel() == 0) return std::move(plan->out);
  const Lines lines(x, plan->out, plan->axis, how.descending);
  Status status = with_element(x.dtype(), [&](auto zero) {
    return sort_with<ByPlace<decltype(zero)>>("argsort", x, plan->out, lines);
  });
  if (!status) return status;
  return std::move(plan->out);
}

}  // namespace forklift::inline abi_0_1::ops
