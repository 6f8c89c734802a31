// The packets that a joiner and the server of a domain exchange before anything is mapped: one in each
// direction. docs/layout.md describes them byte by byte.
//
//   joiner -> server   Handshake{kJoin}
//   server -> joiner   Handshake{kWelcome, slot} and three descriptors: control, data, the slot's lock
//
// Magic and protocol must never move: programs of any version read and write them, so that a mismatch is an
// error that names both versions, and not a crash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "domain/domain.h"

namespace forklift::inline abi_0_1::rendezvous {

inline constexpr std::uint64_t kHandshakeMagic = 0x314e494f4a4b4c46ULL;  // "FLKJOIN1"
inline constexpr std::uint32_t kHandshakeProtocol = 1;

enum class MessageType : std::uint32_t {
  kJoin = 1,     // from a joiner: asks for a slot
  kStandBy = 2,  // from a member: it has a slot and keeps the connection
  kWelcome = 16,
  kOtherVersion = 17,
  kOtherUser = 18,
  kOtherNamespace = 19,
  kOtherDomain = 20,  // to a member of another domain
  kNoSlot = 21,       // `text` says why not
};

struct Handshake {
  std::uint64_t magic = kHandshakeMagic;
  std::uint32_t protocol = kHandshakeProtocol;
  MessageType type = MessageType::kJoin;
  std::uint32_t layout_version = domain::kLayoutVersion;
  std::uint32_t mutex_bytes = sizeof(pthread_mutex_t);
  std::uint64_t pid_namespace = 0;
  std::uint64_t domain_id = 0;  // of the sender; 0: none yet
  std::uint32_t user = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t reserved = 0;
  std::array<char, 16> version{};  // of the library
  std::array<char, 120> text{};    // the reason for a refusal, for people
};
static_assert(sizeof(Handshake) == 192 && std::is_trivially_copyable_v<Handshake>);

// A handshake with all facts about this program filled in.
Handshake handshake(MessageType type, std::uint64_t domain_id);
void set_text(Handshake& handshake, const std::string& text);
std::string text_of(const Handshake& handshake);

// Reads a packet as a handshake; nullopt if it is none of ours. A handshake of another protocol may have any
// length.
std::optional<Handshake> read_handshake(std::span<const std::byte> packet);

// May the two share memory? kVersion, kRefused (another user, another pid namespace). The message is phrased
// from the side of `own`: "this program ..., <who> ...".
Status check_match(const Handshake& own, const Handshake& other, const std::string& who);

// "0.1.0 (layout 3, handshake 1)"
std::string version_of(const Handshake& handshake);

}  // namespace forklift::inline abi_0_1::rendezvous
