#include "rendezvous/handshake.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/proc.h"

namespace forklift::inline abi_0_1::rendezvous {
namespace {

// A text ends at the first character that is not printable: it goes into messages for people.
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

Handshake handshake(MessageType type, std::uint64_t domain_id) {
  Handshake own;
  own.type = type;
  own.pid_namespace = os::pid_namespace();
  own.domain_id = domain_id;
  own.user = ::geteuid();
  copy_text(own.version, FORKLIFT_VERSION);
  return own;
}

void set_text(Handshake& handshake, const std::string& text) { copy_text(handshake.text, text); }
std::string text_of(const Handshake& handshake) { return printable(handshake.text); }

std::optional<Handshake> read_handshake(std::span<const std::byte> packet) {
  constexpr std::size_t kFixed = offsetof(Handshake, protocol) + sizeof(Handshake::protocol);
  Handshake read;
  if (packet.size() < kFixed) return std::nullopt;
  std::memcpy(static_cast<void*>(&read), packet.data(), kFixed);
  if (read.magic != kHandshakeMagic) return std::nullopt;
  // In another protocol the other fields may have another meaning.
  if (read.protocol != kHandshakeProtocol) return read;
  if (packet.size() != sizeof read) return std::nullopt;
  std::memcpy(static_cast<void*>(&read), packet.data(), sizeof read);
  return read;
}

Status check_match(const Handshake& own, const Handshake& other, const std::string& who) {
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

std::string version_of(const Handshake& handshake) {
  if (handshake.protocol != kHandshakeProtocol)
    return "another version (handshake " + std::to_string(handshake.protocol) + ")";
  return printable(handshake.version) + " (layout " + std::to_string(handshake.layout_version) + ", mutex " +
         std::to_string(handshake.mutex_bytes) + " bytes)";
}

}  // namespace forklift::inline abi_0_1::rendezvous
