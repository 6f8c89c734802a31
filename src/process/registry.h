// The functions that a fresh process of this program can run on request. Static objects (forklift/spawn.h)
// fill the registry before main. It is the same in parent and child because they run the same program.
//
// Thread safety: yes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "channel/channel.h"

namespace forklift::inline abi_0_1::process {

using Runner = int (*)(const channel::ChannelPtr& arguments);
// A function's address, as a key.
using Address = void (*)();

void register_function(std::string_view name, Address function, Runner runner);
// kInvalid: never registered, or only under an empty name or a name that another function has, too.
Result<std::string> name_of(Address function);
Result<Runner> runner_of(std::string_view name);
// The hash of a registered function's name: short enough to be carried by every task of a pool.
Result<std::uint64_t> key_of(Address function);
// kInvalid: no function has that key, or several do.
Result<Address> function_of(std::uint64_t key);

}  // namespace forklift::inline abi_0_1::process
