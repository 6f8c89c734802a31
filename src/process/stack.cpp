#include "process/stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <typeinfo>

#include "os/call_site.h"

namespace forklift::inline abi_0_1::process {
namespace {

constexpr int kMostFrames = 64;

struct Noted {
  std::array<void*, kMostFrames> frames;
  int count = 0;
};
thread_local Noted noted;

// "load(int)+0x2f (./train+0x51c2)"; without the function's name if the symbol is not exported.
std::string describe_frame(void* frame) {
  Dl_info info{};
  if (::dladdr(frame, &info) == 0 || info.dli_fbase == nullptr) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", frame);
    return text;
  }
  const auto offset_from = [frame](const void* base) {
    char text[32];
    std::snprintf(text, sizeof text, "+0x%zx",
                  static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(frame) -
                                           reinterpret_cast<std::uintptr_t>(base)));
    return std::string(text);
  };
  std::string place = info.dli_fname + offset_from(info.dli_fbase);
  if (info.dli_sname == nullptr) return place;
  return os::demangled(info.dli_sname) + offset_from(info.dli_saddr) + " (" + place + ")";
}

// Is this a frame of the C++ library's throw? Those are the innermost ones.
bool is_machinery(void* frame) {
  Dl_info info{};
  if (::dladdr(frame, &info) == 0 || info.dli_sname == nullptr) return false;
  constexpr std::string_view kNames[] = {"__cxa_throw", "__cxa_rethrow", "_Unwind_", "__gxx_personality"};
  const std::string_view name = info.dli_sname;
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view each) { return name.find(each) != std::string_view::npos; });
}

}  // namespace

void forget_stack() noexcept { noted.count = 0; }

std::vector<std::string> throw_stack(const void* outermost) {
  constexpr int kMostMachinery = 12;
  int first = 0;
  for (int i = 0; i < std::min(noted.count, kMostMachinery); ++i)
    if (is_machinery(noted.frames[static_cast<std::size_t>(i)])) first = i + 1;
  std::vector<std::string> lines;
  for (int i = first; i < noted.count; ++i) {
    void* const frame = noted.frames[static_cast<std::size_t>(i)];
    // A return address may already belong to the next function.
    void* const call = static_cast<char*>(frame) - 1;
    if (::_Unwind_FindEnclosingFunction(call) == outermost) break;
    lines.push_back(describe_frame(frame));
  }
  return lines;
}

#if defined(__GLIBCXX__)

class AsksForStack final : public std::type_info {
 public:
  AsksForStack() : std::type_info("17ForkliftThrowSite") {}
  bool __do_catch(const std::type_info* /*thrown*/, void** /*object*/, unsigned /*outer*/) const override {
    noted.count = ::backtrace(noted.frames.data(), kMostFrames);
    return false;
  }
};

// Defined under the symbol by which catch clauses refer to it.
extern const AsksForStack throw_site_type __asm__("_ZTI17ForkliftThrowSite");
const AsksForStack throw_site_type;

#endif

}  // namespace forklift::inline abi_0_1::process

#if !defined(__GLIBCXX__)
ForkliftThrowSite::~ForkliftThrowSite() = default;
#endif
