#include "os/call_site.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/release.h"

namespace forklift::inline abi_0_1::os {

namespace {

constexpr int kMostFrames = 32;

std::string text_of(void* frame) {
  Dl_info info{};
  if (::dladdr(frame, &info) == 0 || info.dli_fbase == nullptr) return {};
  const bool named = info.dli_sname != nullptr;
  const auto base = reinterpret_cast<std::uintptr_t>(named ? info.dli_saddr : info.dli_fbase);
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%zx",
                static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(frame) - base));
  if (named) return demangled(info.dli_sname) + offset;
  const std::string_view file = info.dli_fname;
  return std::string(file.substr(file.rfind('/') + 1)) + offset;
}

}  // namespace

std::string demangled(const char* symbol) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(symbol, nullptr, nullptr, &failed),
                                                     std::free);
  return failed == 0 && plain ? without_release(plain.get()) : symbol;
}

std::string call_site() {
  std::array<void*, kMostFrames> frames;
  const int count = ::backtrace(frames.data(), kMostFrames);
  std::string text;
  for (int i = 0; i < count; ++i) {
    // A return address may already belong to the next function.
    const std::string frame = text_of(static_cast<char*>(frames[static_cast<std::size_t>(i)]) - 1);
    if (frame.empty() || frame.starts_with("forklift::")) continue;
    if (!text.empty()) text += " < ";
    text += frame;
  }
  return text;
}

}  // namespace forklift::inline abi_0_1::os
