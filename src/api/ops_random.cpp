// The generator of forklift/random.h. What the numbers are is in the ops room.
#include "ops/random.h"

#include <random>
#include <utility>

#include "api/attached.h"
#include "ops/elementwise.h"
#include "ops/indexing.h"

namespace forklift::inline abi_0_1::ops::random {
namespace {

std::uint64_t entropy() {
  std::random_device device;
  return device() | std::uint64_t{device()} << 32;
}

Tensor reordered(const Tensor& x, const Tensor& order) { return value_or_throw(taken(x, order, 0)); }

std::int64_t first_length(const Tensor& x) {
  if (x.ndim() == 0)
    throw Error(Status(Code::kInvalid, "random.permutation: a tensor without dimensions has no order"));
  return x.shape()[0];
}

}  // namespace

Generator::Generator(std::optional<std::uint64_t> seed)
    : Generator(State{seed ? *seed : entropy(), 0, 0, 0}) {}
Generator::Generator(const State& state) noexcept
    : key_(state.key), stream_(state.stream), position_(state.position), spawned_(state.spawned) {}
Generator& Generator::operator=(Generator&& other) noexcept {
  const State state = other.state();
  key_ = state.key;
  stream_ = state.stream;
  position_ = state.position;
  spawned_ = state.spawned;
  return *this;
}

State Generator::state() const noexcept { return {key_, stream_, position_.load(), spawned_.load()}; }

Tensor Generator::uniform(Dims shape, double low, double high, DType dtype) {
  const Plan plan = value_or_throw(plan_uniform(std::move(shape), low, high, dtype));
  return value_or_throw(generate(plan, {key_, stream_}, position_.fetch_add(plan.blocks)));
}
Tensor Generator::normal(Dims shape, double mean, double deviation, DType dtype) {
  const Plan plan = value_or_throw(plan_normal(std::move(shape), mean, deviation, dtype));
  return value_or_throw(generate(plan, {key_, stream_}, position_.fetch_add(plan.blocks)));
}
Tensor Generator::integers(Dims shape, std::int64_t low, std::int64_t high, DType dtype) {
  const Plan plan = value_or_throw(plan_integers(std::move(shape), low, high, dtype));
  return value_or_throw(generate(plan, {key_, stream_}, position_.fetch_add(plan.blocks)));
}
Tensor Generator::permutation(std::int64_t count) {
  const std::uint64_t first = position_.fetch_add(permutation_blocks(count));
  return value_or_throw(permuted_numbers(count, {key_, stream_}, first));
}
Tensor Generator::permutation(const Tensor& x) { return reordered(x, permutation(first_length(x))); }
void Generator::shuffle(const Tensor& x) {
  if (x.readonly()) throw Error(Status(Code::kInvalid, "random.shuffle: " + x.to_string() + " is read-only"));
  throw_if_failed(assign(x, reordered(x, permutation(first_length(x)))));
}

std::vector<Generator> Generator::spawn(std::int64_t count) {
  if (count < 0)
    throw Error(Status(Code::kInvalid, "random.spawn: " + std::to_string(count) + " generators"));
  const std::uint64_t first = spawned_.fetch_add(static_cast<std::uint64_t>(count));
  std::vector<Generator> children;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    const Source child = child_of({key_, stream_}, first + i);
    children.emplace_back(State{child.key, child.stream, 0, 0});
  }
  return children;
}

}  // namespace forklift::inline abi_0_1::ops::random
