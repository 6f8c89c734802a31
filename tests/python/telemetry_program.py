"""Submits tasks in spans and writes all spans to a file: for tests/python/pool/test_traces.py."""

import contextlib
import os
import signal
import sys
import threading

import forklift
import forklift.multiprocessing as mp
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

tracer = trace.get_tracer("test")


def export_to(path):
    exporter = ConsoleSpanExporter(
        out=open(path, "a"),  # noqa: SIM115 (open as long as the process)
        formatter=lambda span: span.to_json(indent=None) + "\n",
    )
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def square(x):
    return x * x


def add(x, y):
    return x + y


def refuse(x):
    raise LookupError(f"no {x}")


def within(x):
    with tracer.start_as_current_span("inner"):
        return x


def die(_=None):
    trace.get_tracer_provider().force_flush()
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


def wait_for(path):
    while not os.path.exists(path):
        pass


def styles(pool):
    pool.map(square, range(6), 2)
    pool.apply(square, (3,))
    pool.starmap(add, [(1, 2)], 1)
    list(pool.imap(square, range(3)))
    pool.apply_async(add, (1,), {"y": 2}).get()
    pool.map(within, [1], 1)
    with contextlib.suppress(LookupError):
        pool.apply(refuse, (1,))


def many(pool, mark):
    """More tasks than the pool takes at once: a thread sends the rest."""
    pool.apply_async(wait_for, (mark,))
    results = [pool.apply_async(square, (i,)) for i in range(4200)]
    items = pool.imap(square, (i for i in range(10)))
    with open(mark, "w"):
        pass
    for result in results:
        result.get()
    list(items)


def calls(executor, mark):
    first = executor.submit(wait_for, mark)
    futures = [executor.submit(square, i) for i in range(4200)]
    with open(mark, "w"):
        pass
    for future in [first, *futures]:
        future.result()
    list(executor.map(square, range(4), chunksize=2))
    assert isinstance(executor.submit(refuse, 1).exception(), LookupError)


def kill(pool):
    with contextlib.suppress(forklift.WorkerDiedError):
        pool.apply(die)
    pool.apply(square, (2,))


def main(what, method, path):
    ctx = mp.get_context(method)
    export_to(path)
    initializer = () if method == "fork" else (export_to, (path,))
    forklift.use_opentelemetry()
    with tracer.start_as_current_span("outer"):
        if what == "calls":
            with forklift.ProcessPoolExecutor(2, ctx, *initializer) as executor:
                calls(executor, path + ".mark")
        else:
            with ctx.Pool(2, *initializer) as pool:
                {"styles": styles, "kill": kill}.get(what, lambda pool: many(pool, path + ".mark"))(pool)
    trace.get_tracer_provider().force_flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
