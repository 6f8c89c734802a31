#include "api/manager_store.h"

#include <algorithm>
#include <utility>

#include "message/codec.h"

namespace forklift::inline abi_0_1::detail {
namespace {

using Answer = ManagerStore::Answer;

Answer fine(Value value = {}) { return {0, std::move(value)}; }
Answer wrong(const Status& status) {
  return {static_cast<int>(status.code()), Value(std::string(status.what()))};
}
Answer unknown(ManagerOp op, std::size_t arguments) {
  return wrong({Code::kInvalid, "a manager was asked for operation " + std::to_string(static_cast<int>(op)) +
                                    " with " + std::to_string(arguments) + " arguments"});
}

constexpr std::size_t arguments_of(ManagerOp op) noexcept {
  switch (op) {
    case ManagerOp::kNewDict:
    case ManagerOp::kNewList:
    case ManagerOp::kStop:
    case ManagerOp::kClear:
    case ManagerOp::kSize:
    case ManagerOp::kItems:
    case ManagerOp::kPopLast: return 0;
    case ManagerOp::kGet:
    case ManagerOp::kPop:
    case ManagerOp::kErase:
    case ManagerOp::kUpdate:
    case ManagerOp::kAppend:
    case ManagerOp::kExtend:
    case ManagerOp::kAt:
    case ManagerOp::kEraseAt: return 1;
    case ManagerOp::kSet:
    case ManagerOp::kSetDefault:
    case ManagerOp::kAdd:
    case ManagerOp::kInsert:
    case ManagerOp::kSetAt: return 2;
    case ManagerOp::kCompareAndSet:
    case ManagerOp::kSwap: return 3;
  }
  return SIZE_MAX;
}

// A key as bytes: equal keys, equal bytes.
Result<std::string> name_of_key(const Value& key) {
  if (!key.is_scalar() || key.is_null()) {
    return {Code::kInvalid, "a " + std::string(kind_name(key.kind())) + " as a key of a dictionary"};
  }
  const Result<message::Encoded> encoded = message::encode(key);
  if (!encoded) return encoded.status();
  return std::string(reinterpret_cast<const char*>(encoded->bytes.data()), encoded->bytes.size());
}

// Integers stay integers.
Value sum(const Value& a, const Value& b) {
  const auto left = a.try_as<std::int64_t>();
  const auto right = b.try_as<std::int64_t>();
  if (!left || !right) return Value(a.as<double>() + b.as<double>());
  std::int64_t both = 0;
  if (!__builtin_add_overflow(*left, *right, &both)) return Value(both);
  throw Error({Code::kInvalid, "the sum of " + std::to_string(*left) + " and " + std::to_string(*right) +
                                   " does not fit an integer"});
}

}  // namespace

Answer ManagerStore::apply(std::uint64_t object, ManagerOp op, const Value::List& arguments) {
  if (arguments.size() != arguments_of(op)) return unknown(op, arguments.size());
  if (op == ManagerOp::kNewDict || op == ManagerOp::kNewList) {
    const bool dict = op == ManagerOp::kNewDict;
    objects_.emplace(++last_object_, dict ? Object(Dict()) : Object(Value::List()));
    return fine(last_object_);
  }
  const auto found = objects_.find(object);
  if (found == objects_.end())
    return wrong({Code::kInvalid, "a manager has no object " + std::to_string(object)});
  try {
    if (auto* dict = std::get_if<Dict>(&found->second)) return on_dict(*dict, op, arguments);
    return on_list(std::get<Value::List>(found->second), op, arguments);
  } catch (const Error& error) {  // an argument of another kind
    return wrong(error.status());
  }
}

void ManagerStore::put(Dict& dict, const std::string& name, const Value& key, const Value& value) {
  const auto [at, fresh] = dict.by_key.try_emplace(name);
  if (fresh) at->second = dict.entries.insert(dict.entries.end(), {key, {}, 0});
  at->second->value = value;
  at->second->version = ++last_version_;
}

Answer ManagerStore::on_dict(Dict& dict, ManagerOp op, const Value::List& arguments) {
  switch (op) {
    case ManagerOp::kClear: dict = {}; return fine();
    case ManagerOp::kSize: return fine(std::uint64_t{dict.entries.size()});
    case ManagerOp::kItems: {
      Value::Map items;
      for (const Entry& entry : dict.entries) items.emplace_back(entry.key, entry.value);
      return fine(std::move(items));
    }
    case ManagerOp::kUpdate: {
      const auto* map = arguments[0].get_if<Value::Map>();
      if (map == nullptr) return wrong(wrong_kind(arguments[0], "map"));
      std::vector<std::string> names;
      for (const auto& [key, value] : *map) {
        Result<std::string> name = name_of_key(key);
        if (!name) return wrong(name.status());
        names.push_back(*std::move(name));
      }
      for (std::size_t i = 0; i < names.size(); ++i) put(dict, names[i], (*map)[i].first, (*map)[i].second);
      return fine();
    }
    default: break;
  }
  if (arguments.empty()) return unknown(op, 0);
  const Value& key = arguments[0];
  const Result<std::string> name = name_of_key(key);
  if (!name) return wrong(name.status());
  const auto at = dict.by_key.find(*name);
  const Entry* there = at == dict.by_key.end() ? nullptr : &*at->second;
  const auto put_if = [&](bool condition, const Value& value) {
    if (condition) put(dict, *name, key, value);
    return fine(condition);
  };
  switch (op) {
    case ManagerOp::kSet: put(dict, *name, key, arguments[1]); return fine();
    case ManagerOp::kGet: return fine(there ? Value(Value::List{there->value, there->version}) : Value());
    case ManagerOp::kPop:
    case ManagerOp::kErase: {
      Value out = there && op == ManagerOp::kPop ? Value(Value::List{there->value}) : Value();
      if (there) {
        dict.entries.erase(at->second);
        dict.by_key.erase(at);
      }
      return fine(op == ManagerOp::kPop ? std::move(out) : Value(there != nullptr));
    }
    case ManagerOp::kSetDefault:
      if (!there) put(dict, *name, key, arguments[1]);
      return fine(there ? there->value : arguments[1]);
    case ManagerOp::kCompareAndSet: {
      const auto* expected = arguments[1].get_if<Value::List>();
      if (expected == nullptr || expected->size() > 1) return unknown(op, arguments.size());
      return put_if(expected->empty() ? there == nullptr : there && there->value == expected->front(),
                    arguments[2]);
    }
    case ManagerOp::kSwap: {
      const auto version = arguments[1].as<std::uint64_t>();
      return put_if((there ? there->version : 0) == version, arguments[2]);
    }
    case ManagerOp::kAdd: {
      const Value next = sum(there ? there->value : Value(0), arguments[1]);
      put(dict, *name, key, next);
      return fine(next);
    }
    default: return unknown(op, arguments.size());
  }
}

Answer ManagerStore::on_list(Value::List& list, ManagerOp op, const Value::List& arguments) {
  switch (op) {
    case ManagerOp::kClear: list.clear(); return fine();
    case ManagerOp::kSize: return fine(std::uint64_t{list.size()});
    case ManagerOp::kItems: return fine(list);
    case ManagerOp::kAppend: list.push_back(arguments[0]); return fine();
    case ManagerOp::kExtend: {
      const auto* more = arguments[0].get_if<Value::List>();
      if (more == nullptr) return wrong(wrong_kind(arguments[0], "list"));
      list.insert(list.end(), more->begin(), more->end());
      return fine();
    }
    case ManagerOp::kPopLast: {
      if (list.empty()) return fine();
      Value last = Value::List{std::move(list.back())};
      list.pop_back();
      return fine(std::move(last));
    }
    default: break;
  }
  if (arguments.empty()) return unknown(op, 0);
  const auto index = arguments[0].as<std::uint64_t>();
  if (op == ManagerOp::kInsert) {
    const auto before = std::min<std::uint64_t>(index, list.size());
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(before), arguments[1]);
    return fine();
  }
  if (op != ManagerOp::kAt && op != ManagerOp::kSetAt && op != ManagerOp::kEraseAt)
    return unknown(op, arguments.size());
  if (index >= list.size()) {
    return {kMissing,
            Value("item " + std::to_string(index) + " of a list of " + std::to_string(list.size()))};
  }
  const auto item = list.begin() + static_cast<std::ptrdiff_t>(index);
  if (op == ManagerOp::kAt) return fine(*item);
  if (op == ManagerOp::kSetAt) {
    *item = arguments[1];
  } else {
    list.erase(item);
  }
  return fine();
}

}  // namespace forklift::inline abi_0_1::detail
