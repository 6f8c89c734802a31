// Random numbers: forklift::ops::random.
//
//   ops::random::Generator random(42);
//   Tensor noise = random.normal({3, 4});
//   Tensor dice = random.integers({100}, 1, 7);
//   Tensor order = random.permutation(10);
//   std::vector<ops::random::Generator> own = random.spawn(8);       // one for each worker
//
// The bits are those of Philox4x32-10, by number: results depend on the seed and on the calls before, and not on the
// number of threads. Integers, uniform numbers and permutations are the same on every machine and with every set of
// instructions; normal numbers may differ in their last bits, as the machine's logarithm does.
//
// Errors: Error with kInvalid for an empty range, a dtype that cannot hold it, a tensor that is read-only; else as
// forklift/ops.h. Thread safety: yes; which thread gets which numbers is then open. Process safety: a copy in a forked
// child gives the same numbers as its parent's; spawn() gives others.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "forklift/dtype.h"
#include "forklift/shape.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::ops::random {

// Where a generator stands.
struct State {
  // Which sequence.
  std::uint64_t key = 0;
  std::uint64_t stream = 0;
  // How many blocks of 128 bits were used, and how many generators were spawned.
  std::uint64_t position = 0;
  std::uint64_t spawned = 0;

  bool operator==(const State&) const = default;
};

// Gives random numbers, each call those behind the ones before.
class Generator {
 public:
  // Without a seed one of the system's entropy.
  explicit Generator(std::optional<std::uint64_t> seed = std::nullopt);
  // Goes on where another one stood.
  explicit Generator(const State& state) noexcept;
  // Not while another thread uses it.
  Generator(Generator&& other) noexcept : Generator(other.state()) {}
  Generator& operator=(Generator&& other) noexcept;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  ~Generator() = default;

  // At least `low` and less than `high`. float32 or float64.
  Tensor uniform(Dims shape, double low = 0, double high = 1, DType dtype = DType::kFloat32);
  // Of the normal distribution. float32 or float64.
  Tensor normal(Dims shape, double mean = 0, double deviation = 1, DType dtype = DType::kFloat32);
  // At least `low` and less than `high`, each with the same probability.
  Tensor integers(Dims shape, std::int64_t low, std::int64_t high, DType dtype = DType::kInt64);
  // The numbers (int64) from 0 to before `count` in random order.
  Tensor permutation(std::int64_t count);
  // A copy whose elements along the first dimension are in random order.
  Tensor permutation(const Tensor& x);
  // The same in place.
  void shuffle(const Tensor& x);

  // Generators whose numbers have nothing to do with each other's, nor with this one's.
  std::vector<Generator> spawn(std::int64_t count);

  // Where it stands.
  State state() const noexcept;

 private:
  std::uint64_t key_;
  std::uint64_t stream_;
  std::atomic<std::uint64_t> position_;
  std::atomic<std::uint64_t> spawned_;
};

}  // namespace forklift::inline abi_0_1::ops::random
