// The functions that a fresh process of this program can be asked to run. Filled before main by static
// objects (forklift/spawn.h), the same in parent and child because they run the same program.
//
// Thread safety: yes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "channel/channel.h"

namespace forklift::process {

using Runner = int (*)(const channel::ChannelPtr& arguments);
// A function's address, as a key.
using Address = void (*)();

void register_function(std::string_view name, Address function, Runner runner);
// kInvalid: never registered, or only under an empty name or one that another function has, too.
Result<std::string> name_of(Address function);
Result<Runner> runner_of(std::string_view name);
// The hash of a registered function's name: short enough for every task of a pool to carry it.
Result<std::uint64_t> key_of(Address function);
// kInvalid: no function, or several, of that key.
Result<Address> function_of(std::uint64_t key);

}  // namespace forklift::process
