"""What the rows measure, in words: for README.md, the chart and the first table of RESULTS.md."""

from __future__ import annotations

WORDS = {
    "queue-rtt": "a small int there and back, through two queues",
    "tail": "its 99th percentile",
    "queue-oneway": "small ints, one producer, one consumer",
    "4p4c": "small ints, four producers, four consumers",
    "array-4K": "NumPy array of 4 KB: put, taken, every element read",
    "array-64K": "NumPy array of 64 KB: put, taken, every element read",
    "array-1M": "NumPy array of 1 MB: put, taken, every element read",
    "array-16M": "NumPy array of 16 MB: put, taken, every element read",
    "array-256M": "NumPy array of 256 MB: put, taken, every element read",
    "pipe-rtt": "a small int there and back, through a pipe",
    "torch-fresh-1M": "a new CPU tensor of 1 MB, sent",
    "torch-fresh-256M": "a new CPU tensor of 256 MB, sent",
    "torch-shared-256M": "a tensor of 256 MB that is shared already, sent again",
    "torch-list100": "a list of 100 tensors of 4 KB, sent",
    "spawn-8": "`spawn` of eight ranks that do nothing",
    "loan-16M": "a loan of 16 MB: filled in place, sent",
    "lock": "an uncontended lock: acquired, released",
    "create-lock": "making a lock",
    "create-queue": "making a queue",
    "pool-map-1": "`Pool(2).map` of trivial tasks",
    "start-spawn": "starting a process by spawn",
    "cpp-rtt-64B": "C++: 64 bytes there and back",
    "cpp-rtt-64B-waiting": "C++: 64 bytes there and back, each end asleep until its message comes",
    "cpp-mpmc": "C++: 8 bytes, one way",
    "cpp-oneway-1M": "C++: 1 MB copied in and out",
    "cpp-oneway-16M": "C++: 16 MB copied in and out",
    "bytes-lent-16M": "`bytes` of 16 MB, received with `copy=False` and read",
}
