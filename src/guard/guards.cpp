#include "guard/guards.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "guard/libraries.h"
#include "guard/runtimes.h"
#include "guard/threads.h"

namespace forklift::inline abi_0_1::guard {

namespace {

using Registered = std::vector<std::pair<std::string, Guard>>;

Registered& registered() {
  static auto* const instance = new Registered;  // never destroyed
  return *instance;
}

Finding failure_of(const std::string& name, const char* what) {
  Finding finding;
  finding.library = name;
  finding.state = "unknown";
  finding.verdict = Verdict::kMayHang;
  finding.evidence = std::string("its guard failed: ") + what;
  finding.remedy = "repair the guard that was registered under this name";
  return finding;
}

}  // namespace

void register_guard(const std::string& name, Guard guard) {
  Registered& all = registered();
  const std::lock_guard<std::mutex> lock(tables_mutex());
  const auto found = std::ranges::find(all, name, &std::pair<std::string, Guard>::first);
  if (found == all.end()) {
    if (guard) all.emplace_back(name, std::move(guard));
  } else if (guard) {
    found->second = std::move(guard);
  } else {
    all.erase(found);
  }
}

std::vector<Finding> examine() {
  std::vector<Finding> findings = examine_runtimes();
  Registered guards;
  {
    // A guard may register another one, so none is called under the lock.
    const std::lock_guard<std::mutex> lock(tables_mutex());
    guards = registered();
  }
  for (const auto& [name, guard] : guards) {
    try {
      std::ranges::move(guard(), std::back_inserter(findings));
    } catch (const std::exception& error) {
      findings.push_back(failure_of(name, error.what()));
    } catch (...) {
      findings.push_back(failure_of(name, "with an exception that is no std::exception"));
    }
  }
  return findings;
}

bool needs_examination() {
  if (count_threads() != 1) return true;
  const std::lock_guard<std::mutex> lock(tables_mutex());
  return !registered().empty();
}

}  // namespace forklift::inline abi_0_1::guard

namespace forklift::inline abi_0_1 {

std::string_view verdict_name(ForkVerdict verdict) noexcept {
  switch (verdict) {
    case ForkVerdict::kSafe: return "safe";
    case ForkVerdict::kSafeIfIdle: return "safe if idle";
    case ForkVerdict::kMayHang: return "may hang";
    case ForkVerdict::kWillHang: break;
  }
  return "will hang";
}

}  // namespace forklift::inline abi_0_1
