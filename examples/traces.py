"""A trace over processes: each task of a pool is a span, a child of the span in which it was submitted.

    python examples/traces.py [SPANS.JSONL]

Needs opentelemetry-sdk. The spans of all processes go to one file as lines of JSON, which this program then
draws as a tree. In production their place is a collector (opentelemetry-exporter-otlp).
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import forklift
import forklift.multiprocessing as mp
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

tracer = trace.get_tracer("traces.py")


def export_to(path: str) -> None:
    """Export this process's spans: the initializer of each worker."""
    exporter = ConsoleSpanExporter(
        out=open(path, "a"),  # noqa: SIM115 (open as long as the process)
        formatter=lambda span: str(span.to_json(indent=None)) + "\n",
    )
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def render(scene: int) -> int:
    with tracer.start_as_current_span("light"):
        time.sleep(0.01)
    if scene == 5:
        raise ValueError("no such scene")
    return scene * scene


def main(path: str) -> None:
    export_to(path)
    forklift.use_opentelemetry()
    with (
        tracer.start_as_current_span("film"),
        mp.get_context("spawn").Pool(2, initializer=export_to, initargs=(path,)) as pool,
    ):
        pool.map(render, range(4), chunksize=2)
        try:
            pool.apply(render, (5,))
        except ValueError as error:
            print("failed:", error)
    # The pool's workers have exported theirs when it ended.
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    provider.force_flush()
    draw([json.loads(line) for line in Path(path).read_text().splitlines()])


def draw(spans: list[dict[str, object]], parent: object = None, depth: int = 0) -> None:
    for span in sorted(spans, key=lambda each: str(each["start_time"])):
        if span["parent_id"] != parent:
            continue
        context, status, attributes = span["context"], span["status"], span["attributes"]
        assert isinstance(context, dict)
        assert isinstance(status, dict)
        assert isinstance(attributes, dict)
        chunk = attributes.get("forklift.chunk")
        more = f" of {chunk} items" if chunk not in (None, 1) else ""
        failed = f": {status['description']}" if status["status_code"] == "ERROR" else ""
        print("  " * depth + str(span["name"]) + more + failed)
        draw(spans, context["span_id"], depth + 1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(str(Path(folder) / "spans.jsonl"))
