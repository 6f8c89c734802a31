// forklift.ops.random: generators of random numbers.
#include "forklift/random.h"

#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/ops/operand.h"
#include "bindings/ops/ops.h"
#include "bindings/tensor/create.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

using ops::random::Generator;
using ops::random::State;

Dims shape_of(nb::handle shape) { return shape.is_none() ? Dims{} : Dims(DimSpan(lengths_of(shape))); }

std::optional<std::uint64_t> seed_of(nb::handle seed) {
  if (seed.is_none()) return std::nullopt;
  if (!PyIndex_Check(seed.ptr())) throw nb::type_error("a seed is an integer, or None");
  std::uint64_t number = 0;
  if (!nb::try_cast(nb::int_(seed), number))
    throw nb::value_error("a seed is an integer from 0 to before 2**64");
  return number;
}

using RealFunction = Tensor (Generator::*)(Dims, double, double, DType);

void bind_reals(nb::class_<Generator>& type, const char* name, RealFunction function, const char* first,
                const char* second) {
  type.def(
      name,
      [function](Generator& self, double a, double b, nb::handle shape, nb::handle dtype) {
        const Dims lengths = shape_of(shape);
        const DType wanted = dtype_or(dtype, DType::kFloat32);
        return compute(true, [&] { return (self.*function)(lengths, a, b, wanted); });
      },
      nb::arg(first) = 0.0, nb::arg(second) = 1.0, nb::kw_only(), nb::arg("shape") = nb::none(),
      nb::arg("dtype") = nb::none());
}

void bind_order(nb::class_<Generator>& type) {
  type.def(
          "integers",
          [](Generator& self, std::int64_t low, std::optional<std::int64_t> high, nb::handle shape,
             nb::handle dtype) {
            const Dims lengths = shape_of(shape);
            const DType wanted = dtype_or(dtype, DType::kInt64);
            return compute(
                true, [&] { return self.integers(lengths, high ? low : 0, high ? *high : low, wanted); });
          },
          nb::arg("low"), nb::arg("high") = nb::none(), nb::kw_only(), nb::arg("shape") = nb::none(),
          nb::arg("dtype") = nb::none())
      .def(
          "permutation",
          [](Generator& self, nb::handle object) {
            const PyOperand x = PyOperand::require(object.ptr());
            if (x.tensor() != nullptr) return compute(true, [&] { return self.permutation(*x.tensor()); });
            const auto count = nb::cast<std::int64_t>(object);
            return compute(true, [&] { return self.permutation(count); });
          },
          nb::arg("x"))
      .def(
          "shuffle",
          [](Generator& self, nb::handle object) {
            const PyOperand x = PyOperand::require(object.ptr());
            const Tensor& tensor = required_tensor(x);
            run_operation(true, [&] {
              self.shuffle(tensor);
              return true;
            });
          },
          nb::arg("x"));
}

void bind_state(nb::class_<Generator>& type) {
  const auto state_of = [](const Generator& self) {
    const State state = self.state();
    return nb::make_tuple(state.key, state.stream, state.position, state.spawned);
  };
  type.def("__getstate__", state_of)
      .def("__setstate__",
           [](Generator& self, nb::tuple numbers) {
             if (nb::len(numbers) != 4) throw nb::value_error("no state of a Generator");
             const auto number = [&](std::size_t i) { return nb::cast<std::uint64_t>(numbers[i]); };
             new (&self) Generator(State{number(0), number(1), number(2), number(3)});
           })
      .def_prop_ro("state", state_of);
}

}  // namespace

void bind_random(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("random", "Random numbers; see forklift.ops.random.Generator.");
  nb::class_<Generator> type(module, "Generator",
                             "Random numbers by Philox4x32-10, which depend on the seed alone.");
  module.attr("__name__") = "forklift.ops.random";
  type.attr("__module__") = "forklift.ops.random";
  type.def(
      "__init__", [](Generator* self, nb::handle seed) { new (self) Generator(seed_of(seed)); },
      nb::arg("seed") = nb::none());
  bind_reals(type, "uniform", &Generator::uniform, "low", "high");
  bind_reals(type, "normal", &Generator::normal, "mean", "std");
  bind_order(type);
  bind_state(type);
  type.def(
      "spawn",
      [](Generator& self, std::int64_t count) {
        std::vector<Generator> children = run_operation(false, [&] { return self.spawn(count); });
        nb::list made;
        for (Generator& child : children) made.append(nb::cast(std::move(child)));
        return made;
      },
      nb::arg("n"));
}

}  // namespace forklift::py
