// Searching in what is sorted: searchsorted, isin, and the distinct elements.
#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "ops/arrangement.h"
#include "ops/elementwise.h"
#include "ops/indexing.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/range_job.h"
#include "ops/sort_key.h"
#include "ops/sorting.h"
#include "ops/walk.h"

namespace forklift::inline abi_0_1::ops {
namespace {

Result<Tensor> with_dtype(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? Result<Tensor>(x) : convert(x, dtype);
}

// The first place in a sorted line whose key is not less than `key`; or, on the right, greater.
template <class T, class Key>
std::int64_t place_in(const std::byte* line, std::ptrdiff_t step, std::int64_t length, const Key& key,
                      bool right) noexcept {
  std::int64_t low = 0;
  std::int64_t high = length;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const Key here = key_of(load<T>(line + middle * step));
    if (here < key || (right && here == key)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Calls each(T{}, line, step, length, element, result) for all elements of `values` and of `out`.
template <class Each>
Status search_each(std::string_view name, const Tensor& line, const Tensor& values, const Tensor& out,
                   Each each) {
  Walk walk;
  walk.begin(values.shape());
  walk.add(values);
  walk.add(out);
  walk.finish();
  const double steps =
      std::max(1.0, static_cast<double>(std::bit_width(static_cast<std::uint64_t>(line.numel()))));
  const std::ptrdiff_t step = line.strides()[0] * static_cast<std::ptrdiff_t>(line.item_size());
  return with_element(line.dtype(), [&](auto zero) {
    return compute_range(name, {&line, &values}, out, values.numel(),
                         static_cast<double>(values.numel()) * steps * 3,
                         [=, from = address_of(line), length = line.numel(), in = address_of(values),
                          to = address_of(out)](std::int64_t first, std::int64_t last) {
                           walk.for_each(first, last, [&](const std::int64_t* offsets, std::int64_t count) {
                             for (std::int64_t i = 0; i < count; ++i) {
                               each(zero, from, step, length, in + offsets[0] + i * walk.inner_step(0),
                                    to + offsets[1] + i * walk.inner_step(1));
                             }
                           });
                         });
  });
}

// All elements in C order, in one dimension and without gaps.
Result<Tensor> flattened(const Tensor& x) { return rearrange(x, Dims{x.numel()}); }

// Where each distinct value begins in the sorted order. `at` gives the i-th smallest element.
template <class T, class At>
std::vector<std::int64_t> beginnings(std::int64_t count, At at) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = at(i);
    if (i == 0 || is_nan(value) || !(key_of(value) == key_of(at(i - 1)))) found.push_back(i);
  }
  return found;
}

std::int64_t* numbers_of(const Tensor& tensor) noexcept {
  return reinterpret_cast<std::int64_t*>(address_of(tensor));
}

}  // namespace

Result<Tensor> insertion_places(const Tensor& line, const Tensor& values, bool right,
                                const std::optional<Tensor>& sorter) {
  const auto refused = [&](std::string_view why) {
    return Status(Code::kInvalid, describe("searchsorted", {&line, &values}) + ": " + std::string(why));
  };
  if (line.ndim() != 1) return refused("the sorted tensor has not one dimension");
  if (sorter && !(sorter->shape() == line.shape()))
    return refused("sorter=" + sorter->to_string() + " has not its shape");
  if (Status status = refuse_on_gpu("searchsorted", {&line, &values, sorter ? &*sorter : nullptr}); !status)
    return status;
  const DType common = promote(line.dtype(), values.dtype());
  Result<Tensor> sorted_line = sorter ? taken(line, *sorter, 0) : Result<Tensor>(line);
  if (sorted_line) sorted_line = with_dtype(*sorted_line, common);
  Result<Tensor> wanted = with_dtype(values, common);
  if (!sorted_line || !wanted) return sorted_line ? wanted : sorted_line;
  Result<Place> where = place_of("searchsorted", {&line, &values});
  if (!where) return where.status();
  Result<Tensor> out = where->make(values.shape(), DType::kInt64);
  if (!out) return out;
  Status status =
      search_each("searchsorted", *sorted_line, *wanted, *out,
                  [right](auto zero, const std::byte* from, std::ptrdiff_t step, std::int64_t length,
                          const std::byte* element, std::byte* result) {
                    using T = decltype(zero);
                    store(result, place_in<T>(from, step, length, key_of(load<T>(element)), right));
                  });
  if (!status) return status;
  return out;
}

Result<Tensor> membership(const Tensor& x, const Tensor& set, bool invert) {
  if (Status status = refuse_on_gpu("isin", {&x, &set}); !status) return status;
  const DType common = promote(x.dtype(), set.dtype());
  Result<Place> where = place_of("isin", {&x, &set});
  if (!where) return where.status();
  Result<Tensor> elements = with_dtype(x, common);
  Result<Tensor> line = flattened(set);
  if (line) line = with_dtype(*line, common);
  if (line) line = sorted(*line, {});
  if (!elements || !line) return elements ? line : elements;
  Result<Tensor> out = where->make(x.shape(), DType::kBool);
  if (!out) return out;
  Status status = search_each("isin", *line, *elements, *out,
                              [invert](auto zero, const std::byte* from, std::ptrdiff_t step,
                                       std::int64_t length, const std::byte* element, std::byte* result) {
                                using T = decltype(zero);
                                const T value = load<T>(element);
                                const auto key = key_of(value);
                                const std::int64_t place = place_in<T>(from, step, length, key, false);
                                const bool is_in = !is_nan(value) && place < length &&
                                                   key_of(load<T>(from + place * step)) == key;
                                store(result, is_in != invert);
                              });
  if (!status) return status;
  return out;
}

Result<Tensor> distinct_values(const Tensor& x) {
  if (Status status = refuse_on_gpu("unique_values", {&x}); !status) return status;
  Result<Place> where = place_of("unique_values", {&x});
  if (!where) return where.status();
  Result<Tensor> line = flattened(x);
  if (line) line = sorted(*line, {});
  if (!line) return line;
  if (Status status = await_elements(*line); !status) return status;
  return with_element(x.dtype(), [&](auto zero) -> Result<Tensor> {
    using T = decltype(zero);
    const std::byte* const from = address_of(*line);
    const auto at = [from](std::int64_t i) {
      return load<T>(from + i * static_cast<std::int64_t>(sizeof(T)));
    };
    const std::vector<std::int64_t> begins = beginnings<T>(line->numel(), at);
    Result<Tensor> values = where->make({static_cast<std::int64_t>(begins.size())}, x.dtype());
    if (!values) return values;
    std::byte* to = address_of(*values);
    for (const std::int64_t begin : begins) {
      store(to, at(begin));
      to += sizeof(T);
    }
    return values;
  });
}

Result<Unique> distinct_elements(const Tensor& x) {
  if (Status status = refuse_on_gpu("unique_all", {&x}); !status) return status;
  Result<Place> where = place_of("unique_all", {&x});
  if (!where) return where.status();
  Result<Tensor> line = flattened(x);
  if (!line) return line.status();
  Result<Tensor> order = sorting_order(*line, {});
  if (!order) return order.status();
  if (Status status = await_elements(*order); !status) return status;
  if (Status status = await_elements(*line); !status) return status;
  return with_element(x.dtype(), [&](auto zero) -> Result<Unique> {
    using T = decltype(zero);
    const std::byte* const from = address_of(*line);
    const std::int64_t* const places = numbers_of(*order);
    const std::int64_t size = line->numel();
    const auto at = [&](std::int64_t i) {
      return load<T>(from + places[i] * static_cast<std::int64_t>(sizeof(T)));
    };
    const std::vector<std::int64_t> begins = beginnings<T>(size, at);
    const auto found = static_cast<std::int64_t>(begins.size());
    Result<Tensor> values = where->make({found}, x.dtype());
    Result<Tensor> indices = where->make({found}, DType::kInt64);
    Result<Tensor> inverse = where->make(x.shape(), DType::kInt64);
    Result<Tensor> counts = where->make({found}, DType::kInt64);
    for (const Result<Tensor>* const each : {&values, &indices, &inverse, &counts}) {
      if (!*each) return each->status();
    }
    for (std::int64_t rank = 0; rank < found; ++rank) {
      const std::int64_t begin = begins[static_cast<std::size_t>(rank)];
      const std::int64_t end = rank + 1 < found ? begins[static_cast<std::size_t>(rank) + 1] : size;
      store(address_of(*values) + rank * static_cast<std::int64_t>(sizeof(T)), at(begin));
      numbers_of(*indices)[rank] = places[begin];
      numbers_of(*counts)[rank] = end - begin;
      for (std::int64_t i = begin; i < end; ++i) numbers_of(*inverse)[places[i]] = rank;
    }
    return Unique{*std::move(values), *std::move(indices), *std::move(inverse), *std::move(counts)};
  });
}

}  // namespace forklift::inline abi_0_1::ops
