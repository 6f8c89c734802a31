"""What ``Process.start()`` takes besides: a time-out, and a fork policy."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["start_with", "take_options"]

_NAME = "_forklift_start_options"


def start_with(start: Any, process_obj: Any, timeout: float | None, policy: str | None) -> None:
    """Call ``start()``, whose Popen finds these options, and watch the child if asked to."""
    from forklift.fork.hang import check_seconds, watch_child
    from forklift.fork.policy import check_policy

    process_obj.__dict__[_NAME] = check_seconds(timeout), check_policy(policy)
    try:
        start()
    finally:
        process_obj.__dict__.pop(_NAME, None)
    if timeout is not None:
        watch_child(process_obj, timeout)


def take_options(process_obj: Any) -> tuple[float | None, str | None]:
    """The options (time-out, fork policy) of the start that goes on, removed from the process object."""
    timeout, policy = getattr(process_obj, "__dict__", {}).pop(_NAME, (None, None))
    return timeout, policy or getattr(type(process_obj), "_fork_policy", None)
