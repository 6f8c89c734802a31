// Builds a dictionary: Fields()("process", 12)("name", "loader").
#pragma once

#include <nanobind/nanobind.h>

namespace forklift::py {

class Fields {
 public:
  template <class T>
  Fields& operator()(const char* name, const T& value) {
    dict_[name] = value;
    return *this;
  }
  operator nanobind::dict() const { return dict_; }

 private:
  nanobind::dict dict_;
};

}  // namespace forklift::py
