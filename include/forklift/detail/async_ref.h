// What async.h defines, for the async_ members of the classes.
#pragma once

namespace forklift {

class Reactor;

namespace detail {
template <class Source>
struct Async;
}  // namespace detail

}  // namespace forklift
