// What async.h defines, for the async_ members of the classes.
#pragma once

namespace forklift::inline abi_0_1 {

class Reactor;

namespace detail {
template <class Source>
struct Async;
}  // namespace detail

}  // namespace forklift::inline abi_0_1
