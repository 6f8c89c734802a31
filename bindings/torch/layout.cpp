#include "bindings/torch/layout.h"

#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

namespace forklift::py::torch {

Layout layout;

namespace {

constexpr std::size_t kStorageWords = 16;
constexpr std::size_t kTensorWords = 32;
constexpr std::size_t kObjectWords = 8;
constexpr std::size_t kCounterWords = 4;

// The words at an address, as many as are mapped. `is_object`: something is known to lie there.
template <std::size_t N>
class Words {
 public:
  explicit Words(std::uintptr_t address, bool is_object = true) {
    const iovec to{words_.data(), sizeof words_};
    const iovec from{reinterpret_cast<void*>(address), sizeof words_};
    ssize_t got = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
    if (got < 0 && (errno == EFAULT || !is_object)) got = 0;
    if (got < 0) {
      // Not permitted (seccomp). The object itself is smaller than what was asked for, but the heap goes on
      // behind it at least to the end of its page.
      const std::size_t in_page = 4096 - address % 4096;
      got = static_cast<ssize_t>(std::min(sizeof words_, in_page));
      std::memcpy(words_.data(), reinterpret_cast<const void*>(address), static_cast<std::size_t>(got));
    }
    count_ = static_cast<std::size_t>(got) / sizeof(std::uint64_t);
  }
  std::size_t count() const noexcept { return count_; }
  std::uint64_t operator[](std::size_t i) const noexcept { return words_[i]; }
  std::uint8_t byte(std::size_t offset) const noexcept {
    return static_cast<std::uint8_t>(words_[offset / 8] >> (8 * (offset % 8)));
  }
  // Precondition: offset + sizeof(T) <= 8 * count().
  template <class T>
  T at(std::size_t offset) const noexcept {
    T value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(words_.data()) + offset, sizeof value);
    return value;
  }

 private:
  std::array<std::uint64_t, N> words_{};
  std::size_t count_ = 0;
};

template <std::size_t N, class Examples, class Address>
std::vector<Words<N>> read(const Examples& examples, Address&& address) {
  std::vector<Words<N>> all;
  all.reserve(examples.size());
  for (const auto& example : examples) all.emplace_back(address(example));
  return all;
}

template <std::size_t N>
std::size_t common(const std::vector<Words<N>>& all) {
  std::size_t least = N;
  for (const auto& words : all) least = std::min(least, words.count());
  return least;
}

// The first word from `begin` on that is in each example what `wanted` says.
template <std::size_t N, class Examples, class Wanted>
std::optional<std::size_t> find(const std::vector<Words<N>>& all, const Examples& examples, std::size_t begin,
                                Wanted&& wanted) {
  const std::size_t end = common(all);
  for (std::size_t at = begin; at < end; ++at) {
    bool everywhere = true;
    for (std::size_t i = 0; everywhere && i < all.size(); ++i) {
      everywhere = all[i][at] == wanted(examples[i]);
    }
    if (everywhere) return at;
  }
  return std::nullopt;
}

template <std::size_t N>
bool same_everywhere(const std::vector<Words<N>>& all, std::size_t at) {
  return std::all_of(all.begin(), all.end(), [&](const auto& words) { return words[at] == all[0][at]; });
}

// The first multiple of `step` bytes at which `matches(words, example, offset)` holds in all examples; 0: none.
template <class AllWords, class Examples, class Matches>
std::size_t find_byte(const AllWords& all, const Examples& examples, std::size_t begin, std::size_t end,
                      std::size_t step, Matches&& matches) {
  for (std::size_t at = begin; at + step <= end; at += step) {
    bool everywhere = true;
    for (std::size_t i = 0; everywhere && i < all.size(); ++i) {
      everywhere = matches(all[i], examples[i], at);
    }
    if (everywhere) return at;
  }
  return 0;
}

// Where the count of references is: behind the table of virtual functions.
template <std::size_t N, class Examples>
std::size_t find_references(const std::vector<Words<N>>& all, const Examples& examples) {
  return find_byte(all, examples, 8, 24, 4, [](const auto& words, const auto& example, std::size_t at) {
    return words.template at<std::uint32_t>(at) == example.references;
  });
}

bool is_code(std::uint64_t address) {
  Dl_info info{};
  return address != 0 && ::dladdr(reinterpret_cast<const void*>(address), &info) != 0;
}

}  // namespace

bool Layout::learn_storages(const std::vector<KnownStorage>& owned,
                            const std::vector<KnownStorage>& foreign) {
  storages_ = false;
  if (owned.size() < 2 || foreign.size() < 2) return false;
  const auto address = [](const KnownStorage& one) { return one.address; };
  const auto ours = read<kStorageWords>(owned, address);
  const auto theirs = read<kStorageWords>(foreign, address);
  const auto is_data = [](const KnownStorage& one) { return one.data; };
  const std::optional<std::size_t> data = find(ours, owned, 0, is_data);
  if (!data || data != find(theirs, foreign, 0, is_data)) return false;
  const std::size_t end = std::min(common(ours), common(theirs));
  if (*data + 4 >= end) return false;

  // torch's allocator is its own context, and all of its storages have one deleter; memory of others has
  // another deleter and a context that is not the memory. One of each must be right behind the data.
  std::optional<std::size_t> context;
  std::optional<std::size_t> deleter;
  for (const std::size_t at : {*data + 1, *data + 2}) {
    bool is_context = true;
    for (std::size_t i = 0; i < owned.size(); ++i) is_context = is_context && ours[i][at] == owned[i].data;
    for (std::size_t i = 0; i < foreign.size(); ++i) {
      is_context = is_context && theirs[i][at] != foreign[i].data;
    }
    const bool is_deleter = same_everywhere(ours, at) && same_everywhere(theirs, at) &&
                            is_code(ours[0][at]) && is_code(theirs[0][at]) && ours[0][at] != theirs[0][at];
    if (is_context) context = at;
    if (is_deleter) deleter = at;
  }
  if (!context || !deleter || context == deleter) return false;

  const auto is_size = [](const KnownStorage& one) { return one.bytes; };
  const std::optional<std::size_t> size = find(ours, owned, *data + 3, is_size);
  if (!size || size != find(theirs, foreign, *data + 3, is_size) || *size + 1 >= end) return false;

  // The flag that says whether it may be resized, among those behind the size; without it moved storages stay
  // resizable, which is only less strict.
  resizable_ = 0;
  for (std::size_t at = (*size + 1) * 8; at < (*size + 2) * 8 && resizable_ == 0; ++at) {
    const auto is = [&](const auto& all, std::uint8_t value) {
      return std::all_of(all.begin(), all.end(), [&](const auto& one) { return one.byte(at) == value; });
    };
    if (is(ours, 1) && is(theirs, 0)) resizable_ = at;
  }
  data_ = *data * 8;
  context_ = *context * 8;
  deleter_ = *deleter * 8;
  bytes_ = *size * 8;
  storage_references_ = find_references(ours, owned);
  plain_deleter_ = reinterpret_cast<Deleter>(ours[0][*deleter]);
  storages_ = true;
  return true;
}

bool Layout::learn_tensors(const std::vector<KnownTensor>& tensors,
                           const std::vector<std::uint64_t>& plain_keys) {
  tensors_ = false;
  if (tensors.size() < 3 || plain_keys.empty()) return false;
  const auto objects = read<kObjectWords>(tensors, [](const KnownTensor& one) { return one.object; });
  const auto impls = read<kTensorWords>(tensors, [](const KnownTensor& one) { return one.address; });
  const std::optional<std::size_t> impl =
      find(objects, tensors, 2, [](const KnownTensor& one) { return one.address; });
  const std::optional<std::size_t> storage =
      find(impls, tensors, 0, [](const KnownTensor& one) { return one.storage; });
  if (!impl || !storage || *storage + 1 >= common(impls)) return false;
  const std::optional<std::size_t> keys =
      find(impls, tensors, *storage + 1, [](const KnownTensor& one) { return one.keys; });
  if (!keys) return false;
  // Right behind the storage, null as long as autograd has nothing to do with the tensor.
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if ((impls[i][*storage + 1] != 0) != tensors[i].grad) return false;
  }
  const std::optional<std::size_t> offset =
      find(impls, tensors, *storage + 1, [](const KnownTensor& one) { return one.offset; });
  if (!offset) return false;
  impl_ = *impl * 8;
  offset_ = *offset * 8;
  tensor_references_ = find_references(impls, tensors);
  storage_ = *storage * 8;
  autograd_ = (*storage + 1) * 8;
  keys_ = *keys * 8;
  plain_[0] = plain_keys.front();
  plain_[1] = plain_keys.back();
  learn_versions(tensors);
  tensors_ = true;
  return true;
}

void Layout::learn_versions(const std::vector<KnownTensor>& tensors) {
  counter_ = version_ = 0;
  std::vector<KnownTensor> counted;
  for (const KnownTensor& one : tensors) {
    if (one.version >= 0) counted.push_back(one);
  }
  const auto impls = read<kTensorWords>(counted, [](const KnownTensor& one) { return one.address; });
  for (std::size_t word = storage_ / 8 + 1; !counted.empty() && word < common(impls); ++word) {
    std::vector<Words<kCounterWords>> counters;
    for (const auto& words : impls) counters.emplace_back(words[word], false);
    version_ = find_byte(counters, counted, 8, 8 * common(counters), 4,
                         [](const auto& words, const KnownTensor& one, std::size_t at) {
                           return words.template at<std::uint32_t>(at) == one.version;
                         });
    if (version_ != 0) {
      counter_ = 8 * word;
      return;
    }
  }
}

bool Layout::learn_types(const std::vector<KnownType>& types) {
  types_known_ = false;
  if (types.size() < 2) return false;
  const auto impls = read<kTensorWords>(types, [](const KnownType& one) { return one.address; });
  const std::size_t end = 8 * common(impls);
  for (std::size_t at = storage_ + 8; at + 2 <= end && !types_known_; at += 2) {
    elements_ = {};
    types_known_ = true;
    for (std::size_t i = 0; i < types.size() && types_known_; ++i) {
      const auto number = impls[i].at<std::uint16_t>(at);
      const auto same = std::find(elements_.begin(), elements_.end(), types[i].element);
      if (number >= elements_.size()) {
        types_known_ = false;
      } else if (same == elements_.end()) {
        types_known_ = elements_[number].bits == 0;
        elements_[number] = types[i].element;
      } else {
        types_known_ = same == elements_.begin() + number;
      }
    }
    type_ = at;
  }
  return types_known_;
}

}  // namespace forklift::py::torch
