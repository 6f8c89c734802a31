"""Recordings made by hand, for tests of what is made of recordings. Times are in microseconds."""

from forklift._core import Recording

BEGAN = 1_000_000_000_000
PUT, GET, PUBLISH, READ, WAIT, TASK, COPY, RANGE = range(1, 9)
STARTED, GONE, FORKED, OVER_BUDGET, RANGE_BEGAN, COUNTER = range(38, 44)
TASK_BEGAN, LOCKED, UNLOCKED, ALLOCATED, RELEASED = range(33, 38)


def message(row, sequence):
    return row << 32 | sequence


def event(kind, begin, end, what, value):
    return (BEGAN + begin * 1000, (end - begin) * 1000, kind, what, value)


def moment(kind, time, what, value):
    return event(kind, time, time, what, value)


def process(pid, name, **more):
    return {"pid": pid, "parent": 1, "name": name, **more}


def thread(pid, events, **more):
    return {"pid": pid, "thread": pid, "events": sorted(events), **more}


def pipeline(rounds=20):
    """A loader puts frames into a queue of two places; two workers of a pool take them, and hold a lock."""
    loader, workers = [], {20: [], 21: []}
    for i in range(rounds):
        begin = i * 1000
        loader += [
            event(RANGE, begin, begin + 900, 0, 2),
            event(PUT, begin + 900, begin + 910, message(3, i), 1 << 20),
        ]
        loader += [
            event(COPY, begin + 901, begin + 908, 0, 1 << 20),
            moment(ALLOCATED, begin + 900, i, 1 << 20),
        ]
        pid = 20 + i % 2
        begin += 910
        before = max(0, begin - 1500)
        workers[pid] += [
            event(WAIT, before, begin, 300, 1),
            event(GET, begin, begin + 5, message(3, i), 1 << 20),
        ]
        workers[pid] += [
            moment(TASK_BEGAN, begin + 6, message(9, i), 1),
            event(TASK, begin + 6, begin + 400, message(9, i), 1),
        ]
        workers[pid] += [moment(LOCKED, begin + 300, 4, 0), moment(UNLOCKED, begin + 500, 4, 0)]
    return {
        "domain": 7,
        "began_ns": BEGAN,
        "ended_ns": BEGAN + rounds * 1_000_000 + 1_000_000,
        "wall_ns": 1_700_000_000_000_000_000,
        "processes": [
            process(10, "loader"),
            process(20, "worker 1", parent=10),
            process(21, "worker 2", parent=10),
        ],
        "threads": [thread(10, loader), thread(20, workers[20]), thread(21, workers[21])],
        "names": ["", "train", "read", "loss"],
        "queues": {3: 'queue "frames"'},
        "pools": {9: "pool of process 10"},
        "locks": {4: 'Lock "state"'},
        "places": {(300, 1): ("message", 'a message in queue "frames"')},
    }


def recording(content):
    return Recording.of(content)
