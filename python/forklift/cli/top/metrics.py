"""The numbers for Prometheus: the text format of its exposition, served on loopback.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (version 0.0.4).
"""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from forklift.cli.top.sampling import Sample, Sampler

__all__ = ["as_metrics", "serve"]

# name, kind, help, the sample's list, what names a row, its value: a number, or what is counted
_METRICS = (
    ("process_cpu_seconds_total", "counter", "CPU time", "processes", ("process", "name"), "cpu_seconds"),
    ("process_own_bytes", "gauge", "private resident memory", "processes", ("process", "name"), "own_bytes"),
    ("process_arena_bytes", "gauge", "shared memory held", "processes", ("process", "name"), "arena_bytes"),
    ("process_old_bytes", "gauge", "held for a minute", "processes", ("process", "name"), "old_bytes"),
    ("queue_length", "gauge", "messages in the queue", "queues", ("index", "label"), "length"),
    ("queue_put_total", "counter", "messages put", "queues", ("index", "label"), "put"),
    ("queue_got_total", "counter", "messages taken", "queues", ("index", "label"), "got"),
    ("topic_put_total", "counter", "messages put", "topics", ("index", "label"), "put"),
    ("pool_waiting", "gauge", "tasks without a worker", "pools", ("owner",), "waiting"),
    ("pool_busy", "gauge", "workers at work", "pools", ("owner",), "busy"),
    ("pool_idle", "gauge", "workers without a task", "pools", ("owner",), "idle"),
    ("pool_deaths_total", "counter", "workers that died", "pools", ("owner",), "deaths"),
    ("pool_retries_total", "counter", "tasks sent again", "pools", ("owner",), "retries"),
    ("lock_waiting", "gauge", "processes that wait", "locks", ("kind", "index", "label"), "waiting"),
)


def as_metrics(samples: list[Sample]) -> str:
    """The samples in Prometheus' text format."""
    lines = []
    for name, kind, text, rows, by, value in _METRICS:
        lines += [f"# HELP forklift_{name} {text}", f"# TYPE forklift_{name} {kind}"]
        for sample in samples:
            for row in getattr(sample, rows):
                number = row[value] if not isinstance(row[value], list) else len(row[value])
                lines.append(f"forklift_{name}{{{_labels(sample, row, by)}}} {number}")
    for name in ("committed", "warm", "messages"):
        lines.append(f"# TYPE forklift_arena_{name}_bytes gauge")
        lines += [
            f'forklift_arena_{name}_bytes{{domain="{each.domain:x}"}} {each.arena[name]}' for each in samples
        ]
    return "\n".join(lines) + "\n"


def _labels(sample: Sample, row: dict[str, Any], by: tuple[str, ...]) -> str:
    def quoted(value: Any) -> str:
        return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return ",".join([f'domain="{sample.domain:x}"', *(f'{name}="{quoted(row[name])}"' for name in by)])


def serve(sampler: Sampler, port: int) -> HTTPServer:
    """A server on loopback that answers each request with what there is then. OSError: the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/", "/metrics"):
                self.send_error(404)
                return
            body = as_metrics(sampler.look()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return HTTPServer(("127.0.0.1", port), Handler)
