// Fields: a struct of one's own in messages, by one line; included by value.h.
//
//   struct Job {
//     std::string name;
//     std::vector<std::string> tags;
//     forklift::Tensor image;                       // travels as a handle
//     std::optional<Pose> start;                    // Pose: likewise, with a line of its own
//   };
//   template <> struct forklift::ValueTraits<Job>
//       : forklift::Fields<&Job::name, &Job::tags, &Job::image, &Job::start> {};
//
//   forklift::Queue<Job> jobs;
//
// The line stands outside of any namespace, behind the struct. A struct of numbers needs none: it travels as
// its bytes. In Python a Job is a list of its fields in that order; with NamedFields<...>, which takes the
// same arguments, a dict by their names, of which later programs may know more: unknown names are ignored,
// and only those that the struct has must be there.
//
// Thread and process safety: compile-time only. The struct must be default constructible.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "forklift/value_traits.h"

namespace forklift {

namespace detail {

template <class T>
struct MemberOf;
template <class C, class M>
struct MemberOf<M C::*> {
  using Class = C;
  using Type = M;
};

// "name" of &Job::name.
template <auto Member>
constexpr std::string_view member_name() noexcept {
  // "... [with auto Member = &Job::name; ...]", "... = (& Job::name)..." or "... [Member = &Job::name]"
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("Member = ") + 9);
  text = text.substr(0, text.find_first_of(";])"));
  return text.substr(text.rfind(':') + 1);
}

template <class C, auto... Members>
struct FieldsOf {
  static_assert((std::is_member_object_pointer_v<decltype(Members)> && ...),
                "forklift: Fields takes pointers to data members: forklift::Fields<&Job::name, &Job::image>");
  static_assert((std::same_as<typename MemberOf<decltype(Members)>::Class, C> && ...),
                "forklift: the members of Fields belong to several classes");

 protected:
  // Checked where a value is made or read: the types are complete there.
  static constexpr void check() {
    static_assert(std::is_default_constructible_v<C>,
                  "forklift: a struct with Fields must be default constructible to be received");
    static_assert((KnownToValue<std::remove_cv_t<typename MemberOf<decltype(Members)>::Type>>::value && ...),
                  "forklift: a field of this struct cannot be sent to another process: give its type a "
                  "ValueTraits, too (one line with forklift::Fields), and send what a pointer or view refers "
                  "to");
  }
  template <auto Member>
  static Status read(const Value* value, C& into) {
    constexpr std::string_view kName = member_name<Member>();
    if (value == nullptr) return {Code::kInvalid, "the field " + std::string(kName) + " is missing"};
    auto item = value->as<std::remove_cv_t<typename MemberOf<decltype(Member)>::Type>>();
    if (!item) {
      return {item.code(), "field " + std::string(kName) + ": " + std::string(item.status().what())};
    }
    into.*Member = *std::move(item);
    return {};
  }
  // The first failure, or the struct.
  template <class At>
  static Result<C> read_all(At&& at) {
    C object;
    std::size_t i = 0;
    Status status;
    ((status.ok() ? void(status = read<Members>(at(i++, member_name<Members>()), object)) : void()), ...);
    if (!status.ok()) return status;
    return object;
  }
};

template <auto...>
struct FirstOf;
template <auto First, auto... Rest>
struct FirstOf<First, Rest...> : MemberOf<decltype(First)> {};
template <auto... Members>
using ClassOf = typename FirstOf<Members...>::Class;

}  // namespace detail

template <auto... Members>
class Fields : detail::FieldsOf<detail::ClassOf<Members...>, Members...> {
  using C = detail::ClassOf<Members...>;
  using Base = detail::FieldsOf<C, Members...>;

 public:
  // A struct as a list of its fields, and back.
  static Value to(const C& object) {
    Base::check();
    return Value::List{Value(object.*Members)...};
  }
  static Result<C> from(const Value& value) {
    const auto* list = value.get_if<Value::List>();
    if (list == nullptr || list->size() != sizeof...(Members)) {
      return detail::wrong_kind(value, "a list of " + std::to_string(sizeof...(Members)) + " fields");
    }
    return Base::read_all([&](std::size_t i, std::string_view) { return &(*list)[i]; });
  }
};

// As Fields, as a dict by the members' names.
template <auto... Members>
class NamedFields : detail::FieldsOf<detail::ClassOf<Members...>, Members...> {
  using C = detail::ClassOf<Members...>;
  using Base = detail::FieldsOf<C, Members...>;

 public:
  // A struct as a dict of its fields, and back.
  static Value to(const C& object) {
    Base::check();
    return Value::Map{{Value(detail::member_name<Members>()), Value(object.*Members)}...};
  }
  static Result<C> from(const Value& value) {
    const auto* map = value.get_if<Value::Map>();
    if (map == nullptr) return detail::wrong_kind(value, "a map of fields");
    return Base::read_all([&](std::size_t i, std::string_view name) -> const Value* {
      // Mostly in the order in which they were written.
      if (i < map->size()) {
        const auto* key = (*map)[i].first.template get_if<std::string>();
        if (key != nullptr && *key == name) return &(*map)[i].second;
      }
      return value.find(Value(name));
    });
  }
};

}  // namespace forklift
