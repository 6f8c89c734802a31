// Value: what C++ and Python programs can say to each other without sharing types.
//
//   Value step = Value::Map{{"episode", 7}, {"frame", frame_tensor}, {"tags", Value::List{"a", 1}}};
//   auto episode = step.at("episode").as<std::int64_t>();     // TypeMismatch where it is none
//   Value scores = std::map<std::string, std::vector<float>>{{"left", {0.1f, 0.9f}}};
//   auto back = scores.try_as<std::map<std::string, std::vector<float>>>();                // an optional
//
// In Python: None, bool, int, float, str, bytes, list, dict, forklift.Tensor. A tensor inside a Value travels
// as a handle, everything else as MessagePack.
//
// Own types take part through ValueTraits; for a struct that is one line (fields.h):
//
//   template <> struct forklift::ValueTraits<Job> : forklift::Fields<&Job::name, &Job::image> {};
//
//   template <> struct forklift::ValueTraits<Pose> {        // or by hand
//     static Value to(const Pose& p) { return Value::List{p.x, p.y}; }
//     static Pose from(const Value& v);                     // throws TypeMismatch
//   };
//
// Not to be confused with Python's multiprocessing.Value, a number that processes share: SharedValue<T>
// (shared_value.h).
//
// Thread safety: as a std::vector: distinct objects may be used from distinct threads. Process safety: a
// Value lies in private memory; what is received is a new Value whose tensors (only) may share memory with
// the sender's.
//
// Invariants: an integer is a kUInt only where it does not fit an int64, so that equal numbers are equal
// Values. Maps keep their order and are not searched for equal keys; keys are scalars (anything but list, map
// and tensor), which is checked when a Value is sent. Lists and maps may be nested kMaxValueDepth deep,
// strings must be UTF-8 (use bytes for others); both are checked when a Value is sent and when it is
// received.
#pragma once

#include "forklift/detail/value_base.h"
#include "forklift/detail/value_lists.h"
#include "forklift/fields.h"
#include "forklift/value_traits.h"
