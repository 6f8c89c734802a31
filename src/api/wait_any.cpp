#include "forklift/wait_any.h"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "api/stop.h"
#include "api/waitable.h"
#include "node/wait_any.h"

namespace forklift::inline abi_0_1::detail {

node::Source source_of(const Waitable& object) {
  if (!object.queue() && object.pipe() == nullptr && object.descriptor() < 0 && !object.reader() &&
      !object.lock().get())
    throw Error({Code::kClosed, "a handle to wait for is empty: closed, reset or moved from"});
  // To poll() it would be ready; or it is the next one that is opened, which may be our own.
  if (object.descriptor() >= 0 && ::fcntl(object.descriptor(), F_GETFD) < 0)
    throw Error(Status::system("wait", errno, "descriptor " + std::to_string(object.descriptor())));
  return {object.queue().get(), object.pipe(), object.descriptor(), object.reader().get(),
          object.lock().get().get()};
}

std::vector<std::size_t> wait_within(std::span<const Waitable> objects, Limit limit) {
  std::vector<node::Source> sources;
  sources.reserve(objects.size());
  for (const Waitable& object : objects) sources.push_back(source_of(object));
  std::vector<std::size_t> ready;
  (void)settled(node::wait_any(sources, deadline_of(limit), stop_of(limit), ready));
  return ready;
}

}  // namespace forklift::inline abi_0_1::detail
