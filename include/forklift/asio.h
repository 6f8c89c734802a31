// Forklift in a program that runs on Asio (https://think-async.com/Asio, standalone, 1.18 and later).
//
//   asio::awaitable<void> serve(forklift::AsioSource<forklift::Queue<Job>>& jobs, forklift::Queue<Result> results) {
//     for (;;) results.put(work(co_await jobs.async_get()));
//   }
//   asio::io_context io;
//   forklift::AsioSource jobs(io.get_executor(), queue);
//   asio::co_spawn(io, serve(jobs, results), asio::detached);
//
// AsioSource is for Asio's own coroutines and handlers; AsioReactor lets the coroutines of async.h run on an io_context.
//
// Header only: Forklift is built without Asio. Includes <asio.hpp>.
//
// Ownership: an AsioSource has a handle on its object, and a duplicate of its descriptor. Cancellation: Asio's own
// (cancellation slots, cancel()); what a cancelled wait did not take is still there.
// Thread safety: as Asio's I/O objects: one thread at a time, or a strand. Fork: before the child uses its io_context, see
// asio::execution_context::notify_fork; objects of this header are made anew there.
// Errors: as of the calls without async_; asio::system_error from Asio.
#pragma once

#if defined(__has_include)
#if !__has_include(<asio.hpp>)
#error "forklift/asio.h needs standalone Asio, which is not there: apt-get install libasio-dev"
#endif
#endif

#include <unistd.h>

#include <asio.hpp>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "forklift/async.h"

namespace forklift::inline abi_0_1 {

namespace detail {
// Asio owns what it is given.
inline int duplicated(int fd) {
  const int copy = ::dup(fd);
  if (copy < 0) throw_status(Status::system("dup", errno, "for Asio"));
  return copy;
}
}  // namespace detail

// A Queue, SimpleQueue, Subscription or Latest to get from.
template <class Source>
class AsioSource {
 public:
  using value_type = typename Source::value_type;

  // A handle on the source. Error (kSystem, kNoSpace): there is no descriptor.
  template <class Executor>
  AsioSource(const Executor& executor, Source source)
      : source_(std::move(source)), ready_(executor, detail::duplicated(source_.fileno())) {}

#if defined(ASIO_HAS_CO_AWAIT)  // not where Asio does not know the compiler's coroutines
  // The next message, for Asio's coroutines. Throws Closed, and what get() throws.
  asio::awaitable<value_type> async_get() {
    for (;;) {
      if (std::optional<value_type> item = source_.try_get()) co_return *std::move(item);
      co_await async_ready(asio::use_awaitable);
    }
  }
#endif
  // Until a try_get() may find a message or the end: for handlers, with any completion token.
  template <class Token>
  auto async_ready(Token&& token) {
    return ready_.async_wait(asio::posix::descriptor_base::wait_read, std::forward<Token>(token));
  }
  void cancel() { ready_.cancel(); }
  Source& source() noexcept { return source_; }

 private:
  Source source_;
  asio::posix::stream_descriptor ready_;
};
// AsioSource jobs(executor, queue).
template <class Executor, class Source>
AsioSource(const Executor&, Source) -> AsioSource<Source>;

// An io_context as a Reactor. It must outlive the coroutines that wait on it; the context must run in one thread.
class AsioReactor final : public Reactor {
 public:
  // Of this context.
  explicit AsioReactor(asio::io_context& context) : context_(context) {}

  void watch(int fd, Waiter& waiter) override {
    auto watched = std::make_shared<Watched>(context_, detail::duplicated(fd));
    watches_[{fd, &waiter}] = watched;
    wait(std::move(watched), waiter);
  }
  void forget(int fd, Waiter& waiter) noexcept override {
    const auto found = watches_.find({fd, &waiter});
    if (found == watches_.end()) return;
    const std::shared_ptr<Watched> ended = std::move(found->second);
    watches_.erase(found);
    ended->forgotten = true;
    asio::error_code ignored;
    (void)ended->descriptor.close(ignored);
  }
  void post(std::function<void()> call) override { asio::post(context_, std::move(call)); }

 private:
  struct Watched {
    Watched(asio::io_context& context, int fd) : descriptor(context, fd) {}
    asio::posix::stream_descriptor descriptor;
    bool forgotten = false;
  };

  void wait(std::shared_ptr<Watched> watched, Waiter& waiter) {
    asio::posix::stream_descriptor& descriptor = watched->descriptor;
    descriptor.async_wait(
        asio::posix::descriptor_base::wait_read,
        [this, watched = std::move(watched), &waiter](const asio::error_code& error) mutable {
          if (error || watched->forgotten) return;
          waiter.on_readable();
          if (!watched->forgotten) wait(std::move(watched), waiter);
        });
  }

  asio::io_context& context_;
  std::map<std::pair<int, Waiter*>, std::shared_ptr<Watched>> watches_;
};

}  // namespace forklift::inline abi_0_1
