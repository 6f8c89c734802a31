"""The page of a recording: its numbers, that it needs nothing else, and that a browser shows it."""

import json
import re
import shutil
import subprocess

import pytest
import recordings as made
from forklift.trace.page import page_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TRICKY = "</script><img src=x onerror=alert(1)>"


def page(content, title="train.py"):
    return page_of(made.recording(content).report_json(), title)


def report_of(text):
    (found,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def tricky():
    content = made.pipeline()
    content["names"][1] = TRICKY
    content["processes"][1]["name"] = TRICKY
    content["queues"][3] = 'queue "\u2028\n\'@TITLE@ @REPORT@"'
    return content


def test_the_breakdown_has_the_numbers():
    found = made.recording(made.pipeline(20)).breakdown()
    loader, worker, _ = found["threads"]
    assert loader["name"] == "loader"
    assert loader["lifetime_ns"] == 21_000_000
    assert loader["shares"]["working"] == 20 * 900_000
    assert loader["shares"]["copying"] == 20 * 7_000
    assert loader["shares"]["passing messages"] == 20 * 3_000
    assert loader["shares"]["not recorded"] == 21_000_000 - 20 * 910_000
    assert all(sum(each["shares"].values()) == each["lifetime_ns"] for each in found["threads"])
    assert worker["pool"] == 9
    (train,) = found["tasks"]
    assert (train["name"], train["count"], train["median_ns"], train["p99_ns"]) == (
        "train",
        40 // 2,
        394_000,
        394_000,
    )
    (queue,) = found["queues"]
    assert (queue["puts"], queue["gets"], queue["put_bytes"], queue["most"]) == (20, 20, 20 << 20, 1)
    assert found["critical_path"][0]["process"] == "loader"
    assert found["sentences"] == [
        "The 2 workers of the pool of process 10 wait 70 % of their time for tasks: more workers will "
        "not help"
    ]
    assert found["locks"][0]["holds"] == 20


def test_the_page_has_the_report_and_needs_nothing_else():
    text = page(made.pipeline())
    report = report_of(text)
    assert [each["name"] for each in report["threads"]] == ["loader", "worker 1", "worker 2"]
    assert len(report["links"]) == 20
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", text.replace(json.dumps(report), ""))
    assert "default-src 'none'" in text


def test_no_name_leaves_its_place():
    text = page(tricky(), title=TRICKY)
    assert TRICKY not in text
    assert text.count("</script>") == 2
    report = report_of(text)
    assert report["threads"][1]["name"] == TRICKY
    assert TRICKY in report["names"]
    assert "@TITLE@ @REPORT@" in report["queues"][0]["name"]


def test_only_what_may_stand_in_a_page_is_put_there():
    with pytest.raises(ValueError, match="no '<'"):
        page_of('{"name": "<"}', "x")


def shown(path):
    answer = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return answer.stdout, [line for line in answer.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
@pytest.mark.parametrize("content", [tricky(), {}], ids=["tricky", "empty"])
def test_a_browser_shows_it(tmp_path, content):
    path = tmp_path / "report.html"
    path.write_text(page(content, title=TRICKY), encoding="utf-8")
    text, complaints = shown(path)
    assert complaints == []
    assert "<img" not in text
    if content:
        assert text.count('class="bar"') == 3
        assert "The 2 workers of the pool of process 10 wait" in text
        assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;</td>" in text
        assert "20 messages are drawn" in text
    else:
        assert "Nothing that was recorded" in text
