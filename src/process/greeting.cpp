#include "process/greeting.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/proc.h"

namespace forklift::process {
namespace {

// Zero bytes and what is not printable end a text: it goes into messages for people.
template <std::size_t N>
std::string printable(const std::array<char, N>& text) {
  const auto end = std::find_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; });
  return std::string(text.begin(), end);
}

template <std::size_t N>
void copy_text(std::array<char, N>& into, std::string_view text) {
  into.fill('\0');
  std::memcpy(into.data(), text.data(), std::min(text.size(), N - 1));
}

}  // namespace

Greeting greeting(Says says, std::uint64_t domain_id) {
  Greeting own;
  own.says = says;
  own.pid_namespace = os::pid_namespace();
  own.domain_id = domain_id;
  own.user = ::geteuid();
  copy_text(own.version, FORKLIFT_VERSION);
  return own;
}

void set_text(Greeting& greeting, const std::string& text) { copy_text(greeting.text, text); }
std::string text_of(const Greeting& greeting) { return printable(greeting.text); }

std::optional<Greeting> read_greeting(std::span<const std::byte> packet) {
  constexpr std::size_t kFixed = offsetof(Greeting, protocol) + sizeof(Greeting::protocol);
  Greeting read;
  if (packet.size() < kFixed) return std::nullopt;
  std::memcpy(static_cast<void*>(&read), packet.data(), kFixed);
  if (read.magic != kGreetingMagic) return std::nullopt;
  // Of another protocol nothing else is known to mean the same.
  if (read.protocol != kGreetingProtocol) return read;
  if (packet.size() != sizeof read) return std::nullopt;
  std::memcpy(static_cast<void*>(&read), packet.data(), sizeof read);
  return read;
}

Status check_match(const Greeting& own, const Greeting& other, const std::string& who) {
  if (own.protocol != other.protocol || own.layout_version != other.layout_version ||
      own.mutex_bytes != other.mutex_bytes) {
    return {Code::kVersion, "this program has Forklift " + version_of(own) + ", " + who + " has " +
                                version_of(other) + "; programs that meet must have one version"};
  }
  if (own.user != other.user) {
    return {Code::kRefused, who + " is of user " + std::to_string(other.user) + ", this program of user " +
                                std::to_string(own.user)};
  }
  if (own.pid_namespace != other.pid_namespace) {
    return {Code::kRefused, who +
                                " lives in another pid namespace (container): neither could tell whether the "
                                "other is alive"};
  }
  return {};
}

std::string version_of(const Greeting& greeting) {
  if (greeting.protocol != kGreetingProtocol)
    return "another version (handshake " + std::to_string(greeting.protocol) + ")";
  return printable(greeting.version) + " (layout " + std::to_string(greeting.layout_version) + ", mutex " +
         std::to_string(greeting.mutex_bytes) + " bytes)";
}

}  // namespace forklift::process
