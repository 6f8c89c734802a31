// The entry points of streams; what they do is in engine.h.
#include "contexts.h"
#include "engine.h"
#include "event_page.h"
#include "events.h"

namespace fake = forklift::device::cuda::fake;
using fake::engine;
using fake::enter;
using fake::Lock;
using fake::Needs;
using fake::Waiting;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::Event;
using forklift::device::cuda::Stream;

FAKE_CUDA CudaError cuStreamCreate(Stream* stream, unsigned flags) {
  return enter("cuStreamCreate", Needs::kContext, [&](Lock&) {
    if (stream == nullptr || flags > forklift::device::cuda::kStreamNonBlocking)
      return CudaError::kInvalidValue;
    *stream = engine().create(fake::contexts().current_device(), flags == 0);
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuStreamDestroy_v2(Stream stream) {
  return enter("cuStreamDestroy", Needs::kContext, [&](Lock&) { return engine().destroy(stream); });
}

FAKE_CUDA CudaError cuStreamSynchronize(Stream handle) {
  return enter("cuStreamSynchronize", Needs::kContext, [&](Lock& lock) {
    const auto stream = engine().find(handle);
    if (stream == nullptr) return CudaError::kInvalidHandle;
    engine().finish_all(stream, lock, Waiting::kYes);
    return fake::poison();
  });
}

FAKE_CUDA CudaError cuStreamQuery(Stream handle) {
  return enter("cuStreamQuery", Needs::kContext, [&](Lock& lock) {
    const auto stream = engine().find(handle);
    if (stream == nullptr) return CudaError::kInvalidHandle;
    const bool work = fake::query_does_work(stream->polls);
    if (work) engine().finish_all(stream, lock, Waiting::kNo);
    if (fake::poison() != CudaError::kSuccess) return fake::poison();
    return engine().is_idle(*stream) ? CudaError::kSuccess : CudaError::kNotReady;
  });
}

FAKE_CUDA CudaError cuStreamWaitEvent(Stream handle, Event event, unsigned flags) {
  return enter("cuStreamWaitEvent", Needs::kContext, [&](Lock&) {
    const auto stream = engine().find(handle);
    const auto state = fake::events().find(event);
    if (stream == nullptr || state == nullptr) return CudaError::kInvalidHandle;
    if (flags != 0) return CudaError::kInvalidValue;
    if (!state->is_done()) engine().submit(stream, state->wait());
    return CudaError::kSuccess;
  });
}
