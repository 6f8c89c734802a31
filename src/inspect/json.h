// Builds a text of JSON, which may stand in a page of HTML: it has no "<", and no line ends of JavaScript's in strings.
//
//   Json json;
//   json.object([&] { json("name", "loader"); json.array("times", [&] { json.add(1); json.add(2); }); });
//
// Thread safety: as a struct.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace forklift::inline abi_0_1::inspect {

class Json {
 public:
  // Members of an object.
  template <class Value>
  Json& operator()(std::string_view key, const Value& value) {
    write_key(key);
    write(value);
    return *this;
  }
  template <class Fill>
  void object(std::string_view key, Fill fill) {
    write_key(key);
    enclose('{', '}', fill);
  }
  template <class Fill>
  void array(std::string_view key, Fill fill) {
    write_key(key);
    enclose('[', ']', fill);
  }
  // Elements of an array, or the whole.
  template <class Value>
  void add(const Value& value) {
    separate();
    write(value);
  }
  template <class Fill>
  void object(Fill fill) {
    separate();
    enclose('{', '}', fill);
  }
  template <class Fill>
  void array(Fill fill) {
    separate();
    enclose('[', ']', fill);
  }
  // [1,2,3]
  template <class... Values>
  void row(const Values&... values) {
    array([&] { (add(values), ...); });
  }

  std::string take() noexcept { return std::move(text_); }

 private:
  template <class Fill>
  void enclose(char open, char close, Fill& fill) {
    text_ += open;
    first_ = true;
    fill();
    text_ += close;
    first_ = false;
  }
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }
  void write_key(std::string_view key) {
    separate();
    write(key);
    text_ += ':';
  }
  template <std::integral Number>
  void write(Number value) {
    if constexpr (std::same_as<Number, bool>) {
      text_ += value ? "true" : "false";
    } else {
      text_ += std::to_string(value);
    }
  }
  void write(double value);
  void write(std::string_view value);  // what is no UTF-8 is replaced
  void write(const std::string& value) { write(std::string_view(value)); }
  void write(const char* value) { write(std::string_view(value)); }

  std::string text_;
  bool first_ = true;
};

}  // namespace forklift::inline abi_0_1::inspect
