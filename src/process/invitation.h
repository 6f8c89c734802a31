// How a program that this process starts becomes a member of the domain: it inherits descriptors, and its
// environment names them. This file has both sides, for C++ and for the bindings.
//
//   FORKLIFT_DOMAIN    "<control fd>,<data fd>,<slot lock fd>,<slot index>,<slot generation>"
//   FORKLIFT_CHANNELS  "<name>=<channel index>.<channel generation>;..."
//   FORKLIFT_LIFELINE  for a daemon: the descriptor whose other end the parent holds (lifeline.h)
//   FORKLIFT_FUNCTION  the registered function to run (spawned children of the same program only)
//
// The parent enters the child's slot as a holder of each channel beforehand, so no channel can vanish on the
// way. If the child never comes, its slot is unlocked as soon as the parent has closed its copy of the lock,
// and the reaper takes everything back.
//
// Thread safety: call the child's side before there are other threads (it changes the environment).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "channel/channel.h"
#include "node/node.h"

namespace forklift::inline abi_0_1::process {

inline constexpr const char* kDomainVariable = "FORKLIFT_DOMAIN";
inline constexpr const char* kChannelsVariable = "FORKLIFT_CHANNELS";
inline constexpr const char* kFunctionVariable = "FORKLIFT_FUNCTION";

using NamedChannels = std::vector<std::pair<std::string, channel::ChannelPtr>>;

// For the parent. Keep it until the child has been started.
struct ProgramInvitation {
  node::Invitation invitation;
  std::vector<std::pair<std::string, std::string>> variables;  // to be set in the child
  std::vector<int> descriptors;                                // to be inherited under the same numbers
};
// kInvalid: a name that is empty, occurs twice or holds '=' or ';'.
Result<ProgramInvitation> invite_program(node::Node& node, const NamedChannels& channels);

// For the child: joins the domain that the environment names, if it names one, and removes the names from the
// environment, so that they do not reach this program's own children. Later calls do nothing and return the
// first call's status.
Status accept_invitation();
// A channel of the invitation. kInvalid: nothing was inherited under this name.
Result<channel::ChannelPtr> inherited_channel(std::string_view name);

}  // namespace forklift::inline abi_0_1::process
