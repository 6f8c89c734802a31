// attempt(): what the library throws, as a Status.
#include "forklift/attempt.h"

#include <new>
#include <stdexcept>

#include "forklift/error.h"
#include "forklift/remote_error.h"

namespace forklift::inline abi_0_1::detail {

Status attempted(Guarded call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  } catch (const RemoteError& error) {
    return {Code::kRemote, error.what()};
  } catch (const ProcessExitedError& error) {
    return {Code::kRemote, error.what()};
  } catch (const std::out_of_range& error) {
    return {Code::kInvalid, error.what()};
  } catch (const std::bad_alloc&) {
    return {Code::kOverBudget, "this process's heap has no memory left"};
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::detail
