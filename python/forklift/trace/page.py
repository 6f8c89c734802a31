"""A recording as one page of HTML, which needs no network and no other file.

    page = page_of(recording.report_json(), title="train.py")

The page is a template with an element of JSON in it; its script shows what that says. What the JSON has is in
src/inspect/report_json.cpp.
"""

from __future__ import annotations

import html
from importlib import resources

_JSON = "@REPORT@"
_TITLE = "@TITLE@"


def page_of(report: str, title: str) -> str:
    """Put a report (``Recording.report_json``) into the page."""
    if "<" in report:
        raise ValueError("the JSON of a report has no '<': the page would end its script there")
    template = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    before, marker, after = template.partition(_JSON)
    if not marker:
        raise ValueError("the template has no place for the report")
    return before.replace(_TITLE, html.escape(title)) + report + after
