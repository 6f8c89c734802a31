// Messages that no sender of ours writes: what the other end makes of them is the tests' question.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "channel/channel.h"

namespace forklift::test {

std::vector<std::string> forgeries();
// Puts the forgery of that name into an empty channel that nobody else uses meanwhile.
void forge(std::string_view name, channel::Channel& channel);

}  // namespace forklift::test
