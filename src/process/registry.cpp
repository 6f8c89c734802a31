#include "process/registry.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/release.h"
#include "forklift/detail/hash.h"

namespace forklift::inline abi_0_1::process {
namespace {

struct Entry {
  Address function;
  Runner runner;
  std::vector<Address> others;  // that were registered under the same name
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Entry, std::less<>> by_name;
  std::unordered_map<Address, std::uint64_t> keys;
};

Registry& registry();

// Locks the registry across forks: if one thread forked during a look-up of another one, the child, which
// looks its function up, would wait for that thread for ever.
Registry* made_for_forks() {
  ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   [] { registry().mutex.unlock(); });
  return new Registry;
}

Registry& registry() {
  static Registry* const instance = made_for_forks();  // static objects of other files use it, in any order
  return *instance;
}

// The function's name, if its symbol is exported.
std::string described(Address function) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(function), &info) == 0 || info.dli_sname == nullptr ||
      info.dli_saddr != reinterpret_cast<void*>(function)) {
    return "the function";
  }
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, nullptr), std::free);
  return plain ? without_release(plain.get()) : info.dli_sname;
}

// Can a fresh process find a function by this name? This is checked when the process is started, not at
// registration: that happens before main, where no code could catch an exception.
Status usable(std::string_view name, const Entry& entry) {
  if (name.empty())
    return {Code::kInvalid, described(entry.function) +
                                " is registered under an empty name: it needs one, "
                                "by which a fresh process finds it"};
  if (entry.others.empty()) return {};
  std::string functions = described(entry.function);
  for (const Address other : entry.others) functions += ", " + described(other);
  return {Code::kInvalid,
          "two functions are registered as \"" + std::string(name) + "\" (" + functions + ")"};
}

bool holds(const Entry& entry, Address function) {
  return entry.function == function ||
         std::find(entry.others.begin(), entry.others.end(), function) != entry.others.end();
}

}  // namespace

void register_function(std::string_view name, Address function, Runner runner) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto [at, fresh] = all.by_name.try_emplace(std::string(name), Entry{function, runner, {}});
  if (!fresh && !holds(at->second, function)) at->second.others.push_back(function);
}

Result<std::string> name_of(Address function) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Status refused;
  for (const auto& [name, entry] : all.by_name) {
    if (!holds(entry, function)) continue;
    Status status = usable(name, entry);
    if (status.ok()) return name;
    refused = std::move(status);  // the function may have another name
  }
  if (!refused.ok()) return refused;
  return {Code::kInvalid, described(function) +
                              " is not registered: a fresh process finds it only if some file has the line "
                              "`static const forklift::Registered<&function> registered{\"its name\"};`"};
}

Result<Runner> runner_of(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto at = all.by_name.find(name);
  if (at == all.by_name.end()) {
    return {Code::kInvalid, "this program registered no function \"" + std::string(name) +
                                "\": was it registered by a library that is loaded later than init()?"};
  }
  if (Status status = usable(name, at->second); !status.ok()) return status;
  return at->second.runner;
}

Result<std::uint64_t> key_of(Address function) {
  Registry& all = registry();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto at = all.keys.find(function);
    if (at != all.keys.end()) return at->second;
  }
  Result<std::string> name = name_of(function);
  if (!name) return name.status();
  const std::uint64_t key = detail::hash_of(*name);
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.keys.emplace(function, key);
  return key;
}

Result<Address> function_of(std::uint64_t key) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Entry* found = nullptr;
  for (const auto& [name, entry] : all.by_name) {
    if (detail::hash_of(name) != key) continue;
    if (Status status = usable(name, entry); !status.ok()) return status;
    if (found != nullptr)
      return {Code::kInvalid, "two functions are registered under names of one key, one of them \"" + name +
                                  "\": give it another"};
    found = &entry;
  }
  if (found == nullptr)
    return {Code::kInvalid, "this program registered no function of the key that was sent"};
  return found->function;
}

}  // namespace forklift::inline abi_0_1::process
