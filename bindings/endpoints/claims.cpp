#include "bindings/endpoints/claims.h"

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/endpoints/queue.h"
#include "bindings/endpoints/queue_object.h"

namespace forklift::py {

namespace {

// Ends a claim of this thread, if it has one.
PyObject* end_oldest(PyObject* self, Status (channel::Channel::*end)(const channel::Receipt&)) {
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  Claims* claims = as_queue(self)->claims.get();
  const std::optional<channel::Receipt> oldest = claims != nullptr ? claims->take(*channel) : std::nullopt;
  if (!oldest) Py_RETURN_FALSE;
  GilRelease released;
  const Status status = (*channel.*end)(*oldest);
  released.acquire();
  if (!status) return raise(status);
  Py_RETURN_TRUE;
}

}  // namespace

void Claims::add(const channel::Receipt& receipt) {
  by_thread_[PyThread_get_thread_ident()].push_back(receipt);
}

std::optional<channel::Receipt> Claims::take(const channel::Channel& channel) {
  const auto found = by_thread_.find(PyThread_get_thread_ident());
  if (found == by_thread_.end()) return std::nullopt;
  std::optional<channel::Receipt> oldest;
  std::deque<channel::Receipt>& mine = found->second;
  while (!oldest && !mine.empty()) {
    if (channel.check_mine(mine.front())) oldest = mine.front();
    mine.pop_front();
  }
  if (mine.empty()) by_thread_.erase(found);
  return oldest;
}

Claims::Getting::Getting(QueueObject& queue, const channel::ChannelPtr& channel) : channel_(channel) {
  if (!channel->redelivers()) [[likely]]
    return;
  if (!queue.claims) {
    // Only what has task_done() can acknowledge; for any other queue class the channel refuses the get.
    if (PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(&queue)), "task_done") == 0) return;
    queue.claims = std::make_unique<Claims>();
  }
  claims_ = queue.claims.get();
}

void Claims::Getting::settle(const PyObject* object, const Status& status) {
  if (claims_ == nullptr || receipt_.place == channel::Receipts::kNone) return;
  if (object != nullptr) return claims_->add(receipt_);
  GilRelease released;
  (void)(status ? channel_->give_back(receipt_) : channel_->acknowledge(receipt_));
  released.acquire();
}

PyObject* queue_task_done(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  if (!channel) return nullptr;
  if (channel->redelivers()) return end_oldest(self, &channel::Channel::acknowledge);
  return PyBool_FromLong(channel->task_done() ? 1 : 0);
}

PyObject* queue_give_back(PyObject* self, PyObject*) {
  return end_oldest(self, &channel::Channel::give_back);
}

PyObject* queue_unacknowledged(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyLong_FromUnsignedLong(channel->unacknowledged()) : nullptr;
}

PyObject* queue_dropped(PyObject* self, PyObject*) {
  const channel::ChannelPtr channel = channel_of(self);
  return channel ? PyLong_FromUnsignedLongLong(channel->dropped()) : nullptr;
}

}  // namespace forklift::py
