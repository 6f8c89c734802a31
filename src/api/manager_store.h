// What a manager's server keeps, and what may be asked of it: the one place that knows the requests.
//
//   request  [reply channel, its generation, object, operation, arguments...]
//   answer   [0, result] or [code, what]          codes: Code, or kMissing
//
// Both are portable values (codec.h), so a client can be of any language. Object 0 is the server itself.
//
//   operation           arguments                   result
//   0 new dict          -                           number of the object
//   1 new list          -                           number of the object
//   2 stop              -                           null; the server ends
//   3 clear             -                           null
//   4 size              -                           integer
//   5 items             -                           dict: map; list: list
//   dict
//   10 set              key, value                  null
//   11 get              key                         [value, version], or null
//   12 pop              key                         [value], or null
//   13 erase            key                         bool: was there
//   14 update           map                         null
//   15 set default      key, value                  what is there now
//   16 compare and set  key, [] or [expected], new  bool: was set
//   17 swap             key, version or 0, value    bool: was set; 0: there is no such key
//   18 add              key, number                 the sum
//   list
//   30 append           value                       null
//   31 extend           list                        null
//   32 insert           index, value                null
//   33 at               index                       value
//   34 set at           index, value                null
//   35 pop              -                           [value], or null
//   36 erase at         index                       null
//
// Thread safety: none. Invariant: a request that fails changes nothing.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "forklift/manager.h"

namespace forklift::inline abi_0_1::detail {

enum class ManagerOp : std::uint8_t {
  kNewDict = 0,
  kNewList = 1,
  kStop = 2,
  kClear = 3,
  kSize = 4,
  kItems = 5,
  kSet = 10,
  kGet = 11,
  kPop = 12,
  kErase = 13,
  kUpdate = 14,
  kSetDefault = 15,
  kCompareAndSet = 16,
  kSwap = 17,
  kAdd = 18,
  kAppend = 30,
  kExtend = 31,
  kInsert = 32,
  kAt = 33,
  kSetAt = 34,
  kPopLast = 35,
  kEraseAt = 36,
};

}  // namespace forklift::inline abi_0_1::detail

namespace forklift::inline abi_0_1::detail {

// Beside Code in an answer: an index that is not there.
inline constexpr int kMissing = 100;

class ManagerStore {
 public:
  struct Answer {
    int code = 0;
    Value value;  // the result, or what is wrong
  };
  Answer apply(std::uint64_t object, ManagerOp op, const Value::List& arguments);

 private:
  struct Entry {
    Value key;
    Value value;
    std::uint64_t version = 0;
  };
  struct Dict {
    std::list<Entry> entries;  // in order of insertion
    std::unordered_map<std::string, std::list<Entry>::iterator> by_key;
  };
  using Object = std::variant<Dict, Value::List>;

  Answer on_dict(Dict& dict, ManagerOp op, const Value::List& arguments);
  Answer on_list(Value::List& list, ManagerOp op, const Value::List& arguments);
  void put(Dict& dict, const std::string& name, const Value& key, const Value& value);

  std::unordered_map<std::uint64_t, Object> objects_;
  std::uint64_t last_object_ = 0;
  std::uint64_t last_version_ = 0;
};

}  // namespace forklift::inline abi_0_1::detail
