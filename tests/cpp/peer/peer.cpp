// The C++ end of tests/python/package/test_cpp_peer.py: a program that a Python test starts with two queues.
//
//   peer kinds            every kind of Value, to be sent back as it came; answers {"same": bool, ...}
//   peer dtypes           every dtype in several layouts, the same
//   peer echo             what comes is sent back, {"kind": ..., "value": ...}, until "stop"
//   peer broken NAME      a message that no sender writes, then "after"
//   peer list             the NAMEs, a line each
//
// The queues are "there" (from here) and "back".
#include <forklift/multiprocessing.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forge.h"
#include "message/codec.h"
#include "node/node.h"

namespace forklift::test {
namespace {

using Queues = std::pair<Queue<Value>, Queue<Value>>;

Value answer_of(Queue<Value>& back) {
  std::optional<Value> answer = back.try_get(std::chrono::seconds(30));
  if (!answer) throw std::runtime_error("no answer for 30 s");
  return *std::move(answer);
}

Value nested(std::size_t depth) {
  Value value = "the innermost";
  for (std::size_t i = 0; i < depth; ++i) value = Value::List{std::move(value)};
  return value;
}

std::vector<std::pair<const char*, Value>> all_kinds() {
  const Value::Bytes bytes(300, std::byte{0xff});
  const Value::Bytes many(100'000, std::byte{7});
  return {
      {"null", Value()},
      {"true", true},
      {"false", false},
      {"zero", 0},
      {"least", INT64_MIN},
      {"most", INT64_MAX},
      {"beyond", UINT64_MAX},
      {"small", -32},
      {"half", 0.5},
      {"infinite", -HUGE_VAL},
      {"empty text", ""},
      {"text", "t\u00ebxt \U0001F69C"},
      {"long text", std::string(50'000, 'x')},
      {"no bytes", Value::Bytes()},
      {"bytes", bytes},
      {"many bytes", many},
      {"no list", Value::List()},
      {"list", Value::List{1, "two", Value::List{3.0}, Value()}},
      {"no map", Value::Map()},
      {"map", Value::Map{{"a", 1}, {2, "b"}, {bytes, true}, {2.5, Value::List{1}}, {false, Value::Map()}}},
      {"deep", nested(kMaxValueDepth - 2)},
  };
}

void send_kinds(Queues& queues) {
  for (auto& [name, value] : all_kinds()) {
    queues.first.put(Value::Map{{"name", name}, {"kind", kind_name(value.kind())}, {"value", value}});
    const Value answer = answer_of(queues.second);
    queues.first.put(Value::Map{{"same", answer == value}});
  }
  queues.first.put("stop");
}

// Elements whose bytes are 1, 2, 3, ... so that none is like another; zeros and ones for bool.
Tensor numbered(DType dtype, const Dims& shape) {
  Tensor tensor = Tensor::empty(shape, dtype);
  for (std::size_t i = 0; i < tensor.nbytes(); ++i) {
    tensor.raw()[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : i % 120);
  }
  return tensor;
}

std::vector<std::pair<const char*, Tensor>> layouts(DType dtype) {
  const Tensor plain = numbered(dtype, {4, 6});
  return {
      {"plain", plain},
      {"transposed", plain.transpose(0, 1)},
      {"backwards", plain.slice(0, {}, {}, -1).slice(1, {}, {}, -2)},
      {"column", plain.select(1, 3)},
      {"no dimensions", plain.select(0, 1).select(0, 2)},
      {"empty", numbered(dtype, {3, 0, 2})},
      {"read-only", plain.as_readonly()},
      {"large", numbered(dtype, {100, 300})},
  };
}

Value::Bytes elements(const Tensor& tensor) {
  Tensor plain = Tensor::empty(tensor.shape(), tensor.dtype());
  plain.copy_from(tensor);
  return {plain.raw(), plain.raw() + plain.nbytes()};
}

void send_dtypes(Queues& queues) {
  for (std::uint8_t code = kFirstDType; code <= kLastDType; ++code) {
    const auto dtype = static_cast<DType>(code);
    for (auto& [layout, tensor] : layouts(dtype)) {
      Value::List shape;
      for (const std::int64_t length : tensor.shape()) shape.emplace_back(length);
      queues.first.put(Value::Map{{"dtype", name(dtype)},
                                  {"layout", layout},
                                  {"shape", std::move(shape)},
                                  {"bytes", elements(tensor)},
                                  {"tensor", tensor}});
      const Value answer = answer_of(queues.second);
      const auto back = answer.as<Tensor>();
      queues.first.put(Value::Map{{"same", back.same_elements(tensor)}});
    }
  }
  queues.first.put("stop");
}

void echo(Queues& queues) {
  while (true) {
    Value value = answer_of(queues.second);
    if (const auto* text = value.get_if<std::string>(); text != nullptr && *text == "stop") return;
    std::string kind(kind_name(value.kind()));
    if (const auto* tensor = value.get_if<Tensor>()) kind = std::string(name(tensor->dtype()));
    queues.first.put(Value::Map{{"kind", kind}, {"value", std::move(value)}});
  }
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "list") {
    for (const std::string& name : forgeries()) std::puts(name.c_str());
    return 0;
  }
  Queues queues{Queue<Value>::inherited("there"), Queue<Value>::inherited("back")};
  if (mode == "kinds") {
    send_kinds(queues);
  } else if (mode == "dtypes") {
    send_dtypes(queues);
  } else if (mode == "echo") {
    echo(queues);
  } else if (mode == "broken" && argc > 2) {
    forge(argv[2], *detail::inherited_queue("there", 0));
    queues.first.put("after");
  } else {
    throw std::invalid_argument("usage: peer kinds|dtypes|echo|broken NAME|list");
  }
  return 0;
}

}  // namespace
}  // namespace forklift::test

int main(int argc, char** argv) {
  try {
    forklift::init(argc, argv);
    return forklift::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "peer: %s\n", error.what());
    return 1;
  }
}
