#include "sync/label.h"

#include <array>
#include <bit>
#include <cstring>

namespace forklift::inline abi_0_1::sync {

namespace {

bool may_be_shown(char c) noexcept { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; }

}  // namespace

Status Label::set(std::string_view name) noexcept {
  if (name.size() > kLabelBytes) {
    return {Code::kInvalid, "a label of " + std::to_string(name.size()) + " bytes; at most " +
                                std::to_string(kLabelBytes) + " have room"};
  }
  for (const char c : name)
    if (!may_be_shown(c)) return {Code::kInvalid, "a label with a control character"};
  std::array<char, kLabelBytes> bytes{};
  std::memcpy(bytes.data(), name.data(), name.size());
  const auto words = std::bit_cast<std::array<std::uint64_t, kLabelBytes / sizeof(Word)>>(bytes);
  for (std::size_t i = 0; i < words.size(); ++i) words_[i].store(words[i], std::memory_order_relaxed);
  return {};
}

std::string Label::text() const {
  std::array<std::uint64_t, kLabelBytes / sizeof(Word)> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_relaxed);
  const auto bytes = std::bit_cast<std::array<char, kLabelBytes>>(words);
  std::string text;
  for (const char c : bytes) {
    if (c == 0) break;
    text += may_be_shown(c) ? c : '?';
  }
  return text;
}

bool Label::is(std::string_view name) const noexcept {
  std::array<char, kLabelBytes> bytes{};
  if (name.size() > bytes.size()) return false;
  std::memcpy(bytes.data(), name.data(), name.size());
  const auto words = std::bit_cast<std::array<std::uint64_t, kLabelBytes / sizeof(Word)>>(bytes);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words_[i].load(std::memory_order_relaxed) != words[i]) return false;
  return true;
}

std::string labelled(std::string_view what, const Label& label) {
  std::string text(what);
  if (const std::string name = label.text(); !name.empty()) text += " \"" + name + "\"";
  return text;
}

}  // namespace forklift::inline abi_0_1::sync
