#include "process/invitation.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>

#include "node/node.h"
#include "process/lifeline.h"

namespace forklift::inline abi_0_1::process {
namespace {

struct Inherited {
  Status status;
  std::map<std::string, channel::ChannelId, std::less<>> channels;
};

// Takes the next number from the front of `text`, together with the separator behind it.
bool take_number(std::string_view& text, std::uint32_t& number, char separator) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  if (stop == end ? separator != '\0' : *stop != separator) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()) + (stop == end ? 0 : 1));
  return true;
}

Status malformed(const char* variable, std::string_view text) {
  return {Code::kInvalid,
          std::string(variable) + "=\"" + std::string(text) + "\" is not what a parent writes"};
}

// Duplicates an inherited descriptor. The inherited one is left untouched, since the environment may be wrong
// about it.
Result<os::Fd> own_copy(std::uint32_t number) {
  const int copy = ::fcntl(static_cast<int>(number), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return Status::system("fcntl(F_DUPFD_CLOEXEC)", errno, "inherited descriptor " + std::to_string(number));
  }
  return os::Fd(copy);
}

Status join_domain(std::string_view text) {
  std::array<std::uint32_t, 5> numbers{};
  std::string_view rest = text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!take_number(rest, numbers[i], i + 1 < numbers.size() ? ',' : '\0')) {
      return malformed(kDomainVariable, text);
    }
  }
  std::array<os::Fd, 3> files;
  for (std::size_t i = 0; i < files.size(); ++i) {
    Result<os::Fd> copy = own_copy(numbers[i]);
    if (!copy) return copy.status();
    files[i] = *std::move(copy);
  }
  domain::ChildSlot slot{{numbers[3], numbers[4]}, std::move(files[2])};
  Result<node::Node*> node = node::Node::join(std::move(files[0]), std::move(files[1]), std::move(slot));
  if (!node) return node.status();
  // The descriptors were what the environment says, so this process may close them: no program that it starts
  // may inherit them, and with them the lock that proves that this process lives.
  for (std::size_t i = 0; i < files.size(); ++i) ::close(static_cast<int>(numbers[i]));
  return {};
}

Status read_channels(std::string_view text, Inherited& into) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) return malformed(kChannelsVariable, text);
    std::string_view numbers = entry.substr(equals + 1);
    channel::ChannelId id;
    if (!take_number(numbers, id.index, '.') || !take_number(numbers, id.generation, '\0')) {
      return malformed(kChannelsVariable, text);
    }
    into.channels.insert_or_assign(std::string(entry.substr(0, equals)), id);
  }
  return {};
}

// A daemon ends with the process that started it.
Status take_lifeline() {
  const char* variable = std::getenv(kLifelineVariable);
  if (variable == nullptr) return {};
  std::string_view text = variable;
  std::uint32_t number = 0;
  if (!take_number(text, number, '\0')) return malformed(kLifelineVariable, variable);
  Status status = end_with_parent(static_cast<int>(number)).status();
  if (status.ok()) ::close(static_cast<int>(number));
  ::unsetenv(kLifelineVariable);
  return status;
}

Inherited read_environment() {
  Inherited found;
  const char* domain = std::getenv(kDomainVariable);
  if (domain == nullptr) return found;
  found.status = take_lifeline();
  if (found.status.ok()) found.status = join_domain(domain);
  const char* channels = std::getenv(kChannelsVariable);
  if (found.status.ok() && channels != nullptr) found.status = read_channels(channels, found);
  ::unsetenv(kDomainVariable);
  ::unsetenv(kChannelsVariable);
  return found;
}

const Inherited& inherited() {
  static const Inherited* const found = new Inherited(read_environment());  // outlives main
  return *found;
}

}  // namespace

Result<ProgramInvitation> invite_program(node::Node& node, const NamedChannels& channels) {
  Result<node::Invitation> invitation = node.invite();
  if (!invitation) return invitation.status();
  std::string names;
  std::map<std::string_view, int> seen;
  for (const auto& [name, channel] : channels) {
    if (name.empty() || name.find_first_of(std::string_view("=;\0", 3)) != std::string::npos ||
        seen[name]++ > 0) {
      return {Code::kInvalid,
              "\"" + name + "\" as the name of an inherited queue: empty, twice, or with '=' or ';'"};
    }
    if (!channel) return {Code::kClosed, "the queue \"" + name + "\" is closed"};
    if (Status status = channel->offer(invitation->child.slot); !status) return status;
    const channel::ChannelId id = channel->id();
    if (!names.empty()) names += ';';
    names += name + "=" + std::to_string(id.index) + "." + std::to_string(id.generation);
  }
  const domain::ChildSlot& child = invitation->child;
  std::vector<int> files{invitation->control.get(), invitation->data.get(), child.lock.get()};
  std::string domain;
  for (const int file : files) domain += std::to_string(file) + ",";
  domain += std::to_string(child.slot.index) + "," + std::to_string(child.slot.generation);
  return ProgramInvitation{*std::move(invitation),
                           {{kDomainVariable, std::move(domain)}, {kChannelsVariable, std::move(names)}},
                           std::move(files)};
}

Status accept_invitation() { return inherited().status; }

Result<channel::ChannelPtr> inherited_channel(std::string_view name) {
  const Inherited& found = inherited();
  if (!found.status) return found.status;
  const auto at = found.channels.find(name);
  if (at == found.channels.end()) {
    std::string known;
    for (const auto& [other, id] : found.channels) known += (known.empty() ? "" : ", ") + other;
    return {Code::kInvalid, "this process inherited no queue \"" + std::string(name) + "\"" +
                                (known.empty() ? "; it was given none" : "; it was given: " + known)};
  }
  Result<node::Node*> node = node::Node::home();
  if (!node) return node.status();
  return channel::Channel::open((*node)->channels(), at->second);
}

}  // namespace forklift::inline abi_0_1::process
