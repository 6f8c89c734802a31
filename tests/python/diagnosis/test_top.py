"""``forklift top``: its numbers are those of a program that did known amounts, in each form."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request

import forklift
import forklift.multiprocessing as mp
import pytest
from diagnosis_programs import running
from forklift import trace
from forklift.cli.top import command
from forklift.cli.top.metrics import as_metrics
from forklift.cli.top.sampling import Sample, Sampler
from forklift.cli.top.tables import TABLES, Table, as_text, size
from forklift.errors import WorkerDiedError

TOP = [sys.executable, "-m", "forklift", "top"]


@pytest.fixture(scope="module")
def program():
    with running("programs/counted.py") as started:
        word, holder = started.stdout.readline().split()
        assert word == "ready"
        started.holder = int(holder)
        yield started


def put(program, count):
    program.stdin.write(f"{count}\n")
    program.stdin.flush()
    assert program.stdout.readline() == "done\n"


def named(rows, label):
    (row,) = [row for row in rows if row["label"] == label]
    return row


def test_the_numbers_are_exact(program):
    said = subprocess.run(
        [*TOP, str(program.pid), "--once", "--json", "--seconds", "0.2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    (sample,) = json.loads(said.stdout)
    queue = named(sample["queues"], "numbers")
    assert {name: queue[name] for name in ("put", "got", "length", "capacity")} == {
        "put": 1000,
        "got": 400,
        "length": 600,
        "capacity": 2000,
    }
    assert queue["put_per_second"] == queue["got_per_second"] == 0
    assert 0.2 <= queue["oldest_seconds"] == sample["seconds"]
    assert program.pid in queue["holders"]
    assert named(sample["topics"], "news")["put"] == 50
    (pool,) = sample["pools"]
    assert (pool["owner"], pool["waiting"], pool["busy"], len(pool["idle"])) == (program.pid, 0, [], 3)
    assert pool["submitted"] == 10
    door = named(sample["locks"], "door")
    assert (door["kind"], door["owner"], door["waiting"]) == ("Lock", program.holder, [])
    processes = {each["process"]: each for each in sample["processes"]}
    assert processes[program.pid]["arena_bytes"] >= 8 << 20
    assert processes[program.holder]["waits_for"].startswith("Event ")
    assert processes[program.holder]["waits_seconds"] > 0
    assert len([each for each in sample["processes"] if not each["service"]]) == 5
    assert sample["arena"]["committed"] >= 8 << 20


def test_rates_are_what_happened_between_two_looks(program):
    sampler = Sampler(program.pid)
    before = named(sampler.look()[0].queues, "numbers")["put"]
    put(program, 500)
    (sample,) = sampler.look()
    queue = named(sample.queues, "numbers")
    assert queue["put"] == before + 500
    assert queue["put_per_second"] * sample.seconds == pytest.approx(500)
    assert queue["got_per_second"] == 0
    (sample,) = sampler.look()
    assert named(sample.queues, "numbers")["put_per_second"] == 0


def test_deaths_and_retries_of_a_pool_are_counted(tmp_path):
    with mp.Pool(2) as pool:
        (sample,) = Sampler(None).look()
        assert [(each["deaths"], each["retries"]) for each in sample.pools] == [(0, 0)]
        assert pool.apply(_die_until, (str(tmp_path), 2), retries=2) == "lived"
        with pytest.raises(WorkerDiedError):
            pool.apply(os._exit, (1,))
        (sample,) = Sampler(None).look()
        assert [(each["deaths"], each["retries"]) for each in sample.pools] == [(3, 2)]
        text = as_text([sample], 200)
        (heading,) = [line.split() for line in text.splitlines() if "DEATHS" in line]
        (row,) = [line.split() for line in text.splitlines() if line.split()[:1] == [str(os.getpid())]][-1:]
        assert len(row) <= len(heading)
        assert 'forklift_pool_deaths_total{domain="' in as_metrics([sample])


def _die_until(folder, times):
    """Kill this process the first so many times."""
    died = len(os.listdir(folder))
    if died == times:
        return "lived"
    with open(f"{folder}/{died}", "w"):
        os._exit(9)


def test_memory_that_one_process_keeps_shows_its_age():
    tensor = forklift.zeros((3 << 20,), dtype="uint8")
    sampler = Sampler(None)
    blocks = [{each["index"]: each for each in sampler.look()[0].blocks} for _ in range(2)]
    (index,) = [each for each, block in blocks[1].items() if block["bytes"] == 3 << 20]
    assert blocks[1][index]["holder"] == str(os.getpid())
    assert blocks[0][index]["held_seconds"] == 0
    assert 0 < blocks[1][index]["held_seconds"] < 60
    assert {each["old_bytes"] for each in sampler.look()[0].processes} == {0}
    assert tensor.nbytes == 3 << 20


def test_the_text_fits_the_terminal(program):
    samples = Sampler(program.pid).look()
    wide, narrow = as_text(samples, 200), as_text(samples, 40)
    assert max(map(len, narrow.splitlines())) <= 40
    assert len(wide.splitlines()) == len(narrow.splitlines())
    lines = [line.split() for line in wide.splitlines()]
    (queue,) = [line for line in lines if line[:1] == ["numbers"]]
    assert queue[1].endswith("/2000")
    only = as_text(samples, 200, "door")
    assert "door" in only
    assert "numbers" not in only


def test_rows_are_sorted_and_filtered(program):
    (sample,) = Sampler(program.pid).look()
    processes = TABLES[0]
    pids = [row["process"] for row in processes.rows(sample, sort=0)]
    assert pids == sorted(pids, reverse=True)
    assert [row["process"] for row in processes.rows(sample, sort=0, rising=True)] == pids[::-1]
    assert {row["process"] for row in processes.rows(sample, str(program.holder))} == {program.holder}


def test_prometheus_gets_the_same_numbers(program):
    with subprocess.Popen(
        [*TOP, str(program.pid), "--prometheus", "0"], stdout=subprocess.PIPE, text=True
    ) as top:
        url = top.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "x", timeout=30)
        top.send_signal(signal.SIGINT)
        assert top.wait(30) == 0
    (sample,) = Sampler(program.pid).look()
    put = named(sample.queues, "numbers")["put"]
    assert f'label="numbers"}} {put}\n' in text
    assert f'forklift_pool_idle{{domain="{sample.domain:x}",owner="{program.pid}"}} 3\n' in text
    assert set(as_metrics([sample]).splitlines()) >= {
        line for line in text.splitlines() if line.startswith("# ")
    }


def test_the_screen_sorts_and_filters(program):
    pytest.importorskip("textual", reason="the screen is textual's")
    from forklift.cli.top.rows import Rows
    from forklift.cli.top.screen import Screen

    def shown(screen, table):
        rows = screen.query_one(f"#{table}", Rows)
        return [rows.texts(i) for i in range(len(rows))]

    async def use():
        screen = Screen(Sampler(program.pid), 60, "")
        async with screen.run_test(size=(120, 40)) as pilot:
            assert [row for row in shown(screen, "queues") if row[0] == "numbers"]
            assert len(shown(screen, "processes")) >= 5
            for _ in range(6):  # from CPU% to PID, around
                await pilot.press("f6")
            pids = [int(row[0]) for row in shown(screen, "processes")]
            assert pids == sorted(pids, reverse=True)
            await pilot.press("I")
            await pilot.pause()
            assert [int(row[0]) for row in shown(screen, "processes")] == sorted(pids)
            await pilot.press("f4", *"numbers", "enter")
            assert [row[0] for row in shown(screen, "queues")] == ["numbers"]
            assert not screen.query_one("#processes", Rows).display
        async with Screen(Sampler(program.pid), 60, "").run_test(size=(40, 12)) as pilot:
            await pilot.press("f10")

    asyncio.run(use())


class Synthetic:
    """Looks at a program that is not there: processes and queues whose numbers change from look to look."""

    def __init__(self, processes, queues):
        self.counts = processes, queues
        self.looks = 0

    def look(self):
        self.looks += 1
        processes, queues = self.counts
        return [
            Sample(
                domain=1,
                seconds=1.0,
                arena={"committed": 0, "budget": 0, "warm": 0, "messages": self.looks, "blocks": 0},
                processes=[
                    {
                        "process": 1000 + number,
                        "name": f"worker {number}",
                        "cpu_percent": self.looks + number / 1000,
                        "own_bytes": 1 << 20,
                        "arena_bytes": 0,
                        "old_bytes": 0,
                        "blocks": 0,
                        "waits_for": "",
                        "waits_seconds": 0.0,
                        "state": "sleeps",
                    }
                    for number in range(processes)
                ],
                queues=[
                    {
                        "label": f"queue {number}",
                        "index": number,
                        "length": self.looks,
                        "capacity": 0,
                        "put_per_second": float(self.looks + number),
                        "got_per_second": 1.0,
                        "bytes_per_second": 1.0,
                        "oldest_seconds": 0.5,
                        "waiting_to_get": [],
                        "waiting_to_put": [],
                    }
                    for number in range(queues)
                ],
                topics=[],
                pools=[],
                locks=[],
                blocks=[],
            )
        ]


def use_screen(sampler, size, use):
    """Runs a coroutine with the screen and its pilot."""
    from forklift.cli.top.screen import Screen

    async def run():
        screen = Screen(sampler, 60, "")
        async with screen.run_test(size=size) as pilot:
            await use(screen, pilot)

    asyncio.run(run())


def drawn(screen):
    """The lines that are on the screen, as text."""
    return [
        "".join(segment.text for segment in strip).rstrip()
        for strip in screen.screen._compositor.render_strips()
    ]


def test_a_look_costs_what_is_on_the_screen(monkeypatch):
    """The text of 40 lines, not of 1,100: a look every two seconds takes less than 1 % of a processor."""
    pytest.importorskip("textual", reason="the screen is textual's")
    made = []
    texts = Table.texts
    monkeypatch.setattr(Table, "texts", lambda table, row: made.append(table.name) or texts(table, row))

    async def use(screen, pilot):
        for _ in range(3):
            made.clear()
            screen._look()
            await pilot.pause()
            assert 20 <= len(made) <= 40
        await pilot.press("tab", *["pagedown"] * 3)
        await pilot.pause()
        made.clear()
        screen._look()
        await pilot.pause()
        assert 20 <= len(made) <= 40
        assert "queues" in made

    use_screen(Synthetic(100, 1000), (120, 40), use)


def test_the_cursor_moves_and_stays_in_sight():
    pytest.importorskip("textual", reason="the screen is textual's")
    from forklift.cli.top.rows import Rows

    async def use(screen, pilot):
        rows = screen.query_one("#processes", Rows)
        await pilot.press("down", "down", "up")
        assert rows.cursor == 1
        await pilot.press("end")
        await pilot.pause()
        assert rows.cursor == 99
        assert any(" 1000 " in line for line in drawn(screen))  # sorted by CPU%: the least is the last
        await pilot.press("pageup")
        assert 60 < rows.cursor < 99
        await pilot.press("home")
        await pilot.pause()
        assert rows.cursor == 0
        assert any("NAME" in line for line in drawn(screen))
        await pilot.click("#processes", offset=(5, 4))
        assert rows.cursor == 3

    use_screen(Synthetic(100, 3), (120, 30), use)


def test_rows_that_go_take_the_cursor_along():
    pytest.importorskip("textual", reason="the screen is textual's")
    from forklift.cli.top.rows import Rows

    async def use(screen, pilot):
        await pilot.press("end")
        screen._sampler.counts = (4, 0)
        screen._look()
        await pilot.pause()
        rows = screen.query_one("#processes", Rows)
        assert (rows.cursor, len(rows)) == (3, 4)
        assert not screen.query_one("#queues", Rows).display
        assert sum("worker" in line for line in drawn(screen)) == 4

    use_screen(Synthetic(20, 3), (120, 40), use)


def test_a_narrow_terminal_is_shifted():
    pytest.importorskip("textual", reason="the screen is textual's")

    async def use(screen, pilot):
        assert max(map(len, drawn(screen))) <= 40
        assert any("NAME" in line for line in drawn(screen))
        assert not any("STATE" in line for line in drawn(screen))
        await pilot.press(*["right"] * 20)
        await pilot.pause()
        assert any("STATE" in line for line in drawn(screen))
        assert any("sleeps" in line for line in drawn(screen))
        await pilot.press(*["left"] * 20)
        await pilot.pause()
        assert any("PID" in line for line in drawn(screen))

    use_screen(Synthetic(5, 3), (40, 20), use)


WITHOUT_TEXTUAL = """
import sys
sys.modules["textual"] = None
sys.stdout.isatty = lambda: True
from forklift.cli.top.command import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_textual_the_error_names_the_line_that_installs_it(program):
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT_TEXTUAL, str(program.pid)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said.returncode == 1
    assert "the screen needs textual: python -m pip install textual" in said.stderr


@pytest.mark.parametrize("arguments", [["--json"], ["--seconds", "0"], ["--wrong"], ["1", "2"]])
def test_a_wrong_command(arguments, capsys):
    assert command.main(arguments) == 2
    assert "usage: forklift top" in capsys.readouterr().err


def test_a_process_that_is_not_there(capsys):
    child = subprocess.Popen(["true"])
    child.wait()
    assert command.main([str(child.pid), "--once"]) == 1
    assert capsys.readouterr().err.endswith(f"there is no process {child.pid}\n")


def test_sizes():
    assert [size(each) for each in (0, 999, 1000, 4 << 20, 150 << 30)] == ["0", "999", "1.0K", "4.0M", "150G"]


def test_how_long_tasks_take_is_recorded_on_request():
    sampler = Sampler(None, tasks=True)
    with mp.Pool(2) as pool:
        (sample,) = sampler.look()
        (row,) = sample.pools
        assert (row["ended"], row["median_seconds"]) == (0, None)
        assert pool.map(abs, range(40), chunksize=1) == list(range(40))
        (row,) = sampler.look()[0].pools
        assert row["ended"] == 40
        assert 0 < row["median_seconds"] <= row["p99_seconds"] < 10
        (row,) = sampler.look()[0].pools
        assert row["ended"] == 0
    del sampler
    assert not trace.is_on()
