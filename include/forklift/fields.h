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
// its bytes, as a message and as a field. Vectors of numbers and of such structs travel in one piece, as fast
// as without a struct around them. Members may be inherited, and arrays (char[16]: 16 bytes); where all are
// inherited, the struct is named: forklift::FieldsOf<Job, &Job::name>. In Python a Job is a list of its
// fields in that order; with NamedFields<...>, which takes the same arguments, a dict by their names, of
// which later programs may know more: unknown names are ignored, and only those that the struct has must be
// there.
//
// Thread and process safety: compile-time only. The struct must be default constructible.
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "forklift/detail/caught.h"
#include "forklift/value_traits.h"

namespace forklift::inline abi_0_1 {

namespace detail {

template <class T>
struct MemberOf;
template <class C, class M>
struct MemberOf<M C::*> {
  using Class = C;
  using Type = M;
};

// What has to be sent for a member: of an array, its elements.
template <class Member>
using FieldItem = std::remove_cv_t<std::remove_all_extents_t<typename MemberOf<Member>::Type>>;

// The class whose members these are: the one that inherits from all others.
template <class... Classes>
struct MostDerived;
template <class C>
struct MostDerived<C> {
  using type = C;
};
template <class A, class B, class... Rest>
struct MostDerived<A, B, Rest...> : MostDerived<std::conditional_t<std::is_base_of_v<A, B>, B, A>, Rest...> {
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
struct FieldReader {
  static_assert((std::is_member_object_pointer_v<decltype(Members)> && ...),
                "forklift: Fields takes pointers to data members: forklift::Fields<&Job::name, &Job::image>");
  static_assert((std::is_base_of_v<typename MemberOf<decltype(Members)>::Class, C> && ...),
                "forklift: the members of Fields belong to several classes");

 protected:
  static constexpr bool known() { return (KnownToValue<FieldItem<decltype(Members)>>::value && ...); }
  // Checked where a value is made or read: the types are complete there. False: one error is enough.
  static constexpr bool check() {
    constexpr bool kCanBeMade = std::is_default_constructible_v<C>;
    constexpr bool kKnown = known();
    static_assert(kCanBeMade, "forklift: a struct with Fields must be default constructible to be received");
    constexpr bool kKeepsNull = (!LosesNull<FieldItem<decltype(Members)>>::value && ...);
    static_assert(kKeepsNull,
                  "forklift: an optional of what may be null itself (an optional, a forklift::Value) could "
                  "arrive as an empty one; send a forklift::Value or a std::variant");
    static_assert(kKnown || !kKeepsNull,
                  "forklift: a field of this struct cannot be sent to another process: give its type a "
                  "ValueTraits, too (one line with forklift::Fields), and send what a pointer or view refers "
                  "to");
    return kCanBeMade && kKnown;
  }
  template <auto Member>
  static void read(const Value* value, C& into) {
    constexpr std::string_view kName = member_name<Member>();
    if (value == nullptr) throw_mismatch({Code::kInvalid, "the field " + std::string(kName) + " is missing"});
    using Type = typename MemberOf<decltype(Member)>::Type;
    const Status mismatch = mismatch_in([&] {
      if constexpr (std::is_array_v<Type>) {
        read_array(*value, into.*Member);
      } else {
        into.*Member = value_as<std::remove_cv_t<Type>>(*value);
      }
    });
    if (!mismatch.ok()) [[unlikely]]
      throw_mismatch({mismatch.code(), "field " + std::string(kName) + ": " + std::string(mismatch.what())});
  }
  template <class At>
  static C read_all(At&& at) {
    if constexpr (check()) {
      C object;
      std::size_t i = 0;
      (read<Members>(at(i++, member_name<Members>()), object), ...);
      return object;
    } else {
      std::terminate();  // never: so that one error is all that the compiler says
    }
  }
};

template <auto... Members>
using ClassOf = typename MostDerived<typename MemberOf<decltype(Members)>::Class...>::type;

}  // namespace detail

// As Fields; for a struct all of whose members are inherited, which the members' types do not tell.
template <class C, auto... Members>
class FieldsOf : detail::FieldReader<C, Members...> {
  using Base = detail::FieldReader<C, Members...>;

 public:
  // Can all of them be sent?
  static constexpr bool fields_are_known() { return Base::known(); }
  // A struct as a list of its fields, and back.
  template <bool Lend>
  static Value make(const C& object) {
    Value::List list;
    if constexpr (Base::check()) {
      list.reserve(sizeof...(Members));
      (list.push_back(detail::value_of<Lend>(object.*Members)), ...);
    }
    return list;
  }
  static Value to(const C& object) { return make<false>(object); }
  static C from(const Value& value) {
    const auto* list = value.get_if<Value::List>();
    if (list == nullptr || list->size() != sizeof...(Members)) {
      detail::mismatch(value, "a list of " + std::to_string(sizeof...(Members)) + " fields");
    }
    return Base::read_all([&](std::size_t i, std::string_view) { return &(*list)[i]; });
  }
};

// As FieldsOf, as a dict by the members' names.
template <class C, auto... Members>
class NamedFieldsOf : detail::FieldReader<C, Members...> {
  using Base = detail::FieldReader<C, Members...>;

 public:
  // Can all of them be sent?
  static constexpr bool fields_are_known() { return Base::known(); }
  // A struct as a dict of its fields, and back.
  template <bool Lend>
  static Value make(const C& object) {
    Value::Map map;
    if constexpr (Base::check()) {
      map.reserve(sizeof...(Members));
      (map.emplace_back(Value(detail::member_name<Members>()), detail::value_of<Lend>(object.*Members)), ...);
    }
    return map;
  }
  static Value to(const C& object) { return make<false>(object); }
  static C from(const Value& value) {
    const auto* map = value.get_if<Value::Map>();
    if (map == nullptr) detail::mismatch(value, "a map of fields");
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

// A struct as a list of these members, and back.
template <auto... Members>
class Fields : public FieldsOf<detail::ClassOf<Members...>, Members...> {};

// As Fields, as a dict by the members' names.
template <auto... Members>
class NamedFields : public NamedFieldsOf<detail::ClassOf<Members...>, Members...> {};

}  // namespace forklift::inline abi_0_1
