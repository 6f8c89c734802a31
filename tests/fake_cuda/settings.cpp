#include "settings.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

std::string text_of(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

long long number_of(const char* name, long long otherwise) {
  const std::string text = text_of(name, "");
  return text.empty() ? otherwise : std::strtoll(text.c_str(), nullptr, 0);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    word.erase(std::remove_if(word.begin(), word.end(), [](char c) { return c == ' ' || c == '\t'; }),
               word.end());
    words.push_back(word);
  }
  return words;
}

std::string uuid_text(int device) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  const std::string bytes = uuid_bytes(device);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// A word of CUDA_VISIBLE_DEVICES: an index, or a UUID or the beginning of one if that is unambiguous.
std::optional<int> device_of(const std::string& word, int devices) {
  if (word.starts_with("GPU-")) {
    std::optional<int> found;
    for (int device = 0; device < devices; ++device) {
      if (!uuid_text(device).starts_with(word)) continue;
      if (found) return std::nullopt;
      found = device;
    }
    return found;
  }
  if (word.empty() || word.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const long index = std::strtol(word.c_str(), nullptr, 10);
  if (index >= devices) return std::nullopt;
  return static_cast<int>(index);
}

// "If one of the indices is invalid, only the devices whose index precedes the invalid index are visible" (CUDA C++
// Programming Guide, environment variables). A device that is named twice hides all, as with the real driver.
std::vector<int> visible_devices(int devices) {
  std::vector<int> visible;
  const char* const asked = std::getenv("CUDA_VISIBLE_DEVICES");
  if (asked == nullptr) {
    for (int device = 0; device < devices; ++device) visible.push_back(device);
    return visible;
  }
  for (const std::string& word : split(asked)) {
    const std::optional<int> device = device_of(word, devices);
    if (!device) break;
    if (std::find(visible.begin(), visible.end(), *device) != visible.end()) return {};
    visible.push_back(*device);
  }
  return visible;
}

Settings read_settings() {
  Settings read;
  read.devices = static_cast<int>(number_of("FORKLIFT_FAKE_CUDA_DEVICES", read.devices));
  read.bytes =
      static_cast<std::size_t>(number_of("FORKLIFT_FAKE_CUDA_BYTES", static_cast<long long>(read.bytes)));
  read.bytes_are_set = !text_of("FORKLIFT_FAKE_CUDA_BYTES", "").empty();
  read.version = static_cast<int>(number_of("FORKLIFT_FAKE_CUDA_VERSION", read.version));
  read.no_peer = number_of("FORKLIFT_FAKE_CUDA_NO_PEER", 0) != 0;
  read.lazy = number_of("FORKLIFT_FAKE_CUDA_LAZY", 0) != 0;
  read.polls = static_cast<unsigned>(number_of("FORKLIFT_FAKE_CUDA_POLLS", read.polls));
  read.delay_us = static_cast<unsigned>(number_of("FORKLIFT_FAKE_CUDA_DELAY_US", read.delay_us));
  read.machine = text_of("FORKLIFT_FAKE_CUDA_MACHINE", read.machine);
  std::replace(read.machine.begin(), read.machine.end(), '.', '-');  // it is a part of names (physical.h)
  for (const std::string& word : split(text_of("FORKLIFT_FAKE_CUDA_OFF", ""))) {
    read.attributes_off.insert(std::atoi(word.c_str()));
  }
  read.visible = visible_devices(read.devices);
  return read;
}

}  // namespace

const Settings& settings() {
  static const auto* const read =
      new Settings(read_settings());  // also for threads that run while the process ends
  return *read;
}

std::string uuid_bytes(int device) {
  std::string bytes = "\xf0\x4b\x11\xf7\xfa\xce\x4f\xed\x80\x01";
  bytes.resize(16, '\0');
  bytes[14] = static_cast<char>(device >> 8);
  bytes[15] = static_cast<char>(device);
  return bytes;
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
