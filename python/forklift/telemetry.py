"""Traces by OpenTelemetry: a task is a span in its worker, a child of the span in which it was submitted.

    forklift.use_opentelemetry()
    with tracer.start_as_current_span("render the film"), Pool(4, make_provider) as pool:
        pool.map(render, scenes)                  # a span "render" for each task, below "render the film"

Tasks of ``Pool`` and ``ProcessPoolExecutor`` carry the submitter's context (by the API's propagators: W3C
trace context and baggage by default). A span has the function's qualified name and the attributes
``forklift.pool``, ``forklift.worker``, ``forklift.chunk`` (how many items the task has), ``process.pid`` and
``code.function.name``; one of a task that fails has the exception and the status ERROR. It is current while
the function runs.

Where the spans go is up to the provider of each worker. A forked worker has its parent's. Others have what
the pool's initializer sets, or else, where ``OTEL_TRACES_EXPORTER`` is set, what opentelemetry-sdk makes of
the environment. A worker exports what it has when it ends, also by ``terminate()``; what it has when it is
killed is lost.
"""

from __future__ import annotations

import json
import os
import signal
import threading

from forklift import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["begin_span", "flush", "use_opentelemetry"]

# A pool's terminate() kills a worker a second after it asked it to end.
_FLUSH_MS = 800
_TRACER = "forklift"
_BY_ENVIRONMENT = "OTEL_TRACES_EXPORTER"

_prepared_in: int | None = None  # the process whose provider and signal handler are looked after


def use_opentelemetry() -> None:
    """From now on, tasks that this process submits carry its OpenTelemetry context, and are spans in workers.

    ImportError where opentelemetry-api is not installed.
    """
    try:
        from opentelemetry import propagate
    except ImportError as error:
        raise ImportError(
            f"use_opentelemetry() needs opentelemetry: python -m pip install opentelemetry-api ({error})"
        ) from error

    def context() -> bytes:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return json.dumps(carrier).encode()

    _core.carry_task_context(context)


class _Span:
    """The span of a task that runs."""

    def __init__(self, span: Any, token: Any) -> None:
        self._span = span
        self._token = token

    def end(self, exception: BaseException | None) -> None:
        from opentelemetry import context, trace

        if exception is not None:
            self._span.record_exception(exception)
            self._span.set_status(trace.StatusCode.ERROR, f"{type(exception).__name__}: {exception}")
        context.detach(self._token)
        self._span.end()


def begin_span(carried: bytes, pool: str, worker: int, function: Any, items: int) -> _Span:
    """Begin the span of a task, in its worker. Called by the core for each task that carries a context."""
    from opentelemetry import context, propagate, trace

    _prepare(trace)
    parent = propagate.extract(json.loads(carried))
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    span = trace.get_tracer(_TRACER, _core.__version__).start_span(
        name,
        parent,
        attributes={
            "forklift.pool": pool,
            "forklift.worker": worker,
            "forklift.chunk": items,
            "process.pid": os.getpid(),
            "code.function.name": f"{module}.{name}" if module else name,
        },
    )
    return _Span(span, context.attach(trace.set_span_in_context(span, parent)))


def _prepare(trace: Any) -> None:
    """Before a worker's first span: make its provider from the environment, if it asks and none is set."""
    global _prepared_in
    if _prepared_in == os.getpid():
        return
    _prepared_in = os.getpid()
    if os.environ.get(_BY_ENVIRONMENT) and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        _configure_by_environment()
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, _end_by_signal)


def _configure_by_environment() -> None:
    """As ``opentelemetry-instrument``: the installed distribution's configurator, or else the SDK's own."""
    from importlib.metadata import entry_points

    made = [each.load() for each in entry_points(group="opentelemetry_configurator")]
    if not made:
        try:
            from opentelemetry.sdk._configuration import _OTelSDKConfigurator
        except ImportError:
            return
        made.append(_OTelSDKConfigurator)
    made[0]().configure()


def _end_by_signal(number: int, _frame: Any) -> None:
    """End the worker by the signal that its pool sends, as before, but with its spans exported."""
    if _prepared_in == os.getpid():
        flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def flush() -> None:
    """Export the spans of this process that wait for it."""
    from opentelemetry import trace

    force: Any = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force is not None:
        force(_FLUSH_MS)
