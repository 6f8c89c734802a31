"""The rows that the C++ program measures (bench/cpp): which there are, and what is good enough."""

from __future__ import annotations

from rows.spec import Row

RING = "SPSC ring"
LOCKED_RING = "ring, robust mutexes"

TWO_PASSES = "two passes of a robust mutex"

# The goals in nanoseconds and microseconds are of the machine on which they were set. Beside each stands what
# it was there of a floor or a peer, which is measured in the same run: virtual processors share their cores
# with strangers, and what is computed takes between one and two times as long, by the minute.
ROWS = (
    Row("cpp-rtt-64B", "us", at_most=0.5, floor_factor=1.5, floor_of=RING, repeat=15),
    Row(
        "cpp-rtt-64B-apart",
        "us",
        peer_factor=1.2,
        peer_of="forklift, unbound",
        floor_of=RING,
        note="each end may use one processor, another one each",
    ),
    # The kernel's wake-up is most of it, and that differs between machines by a factor of four.
    Row(
        "cpp-rtt-64B-waiting",
        "us",
        at_most=12,
        floor_factor=1.1,
        floor_of="bare futex",
        note="each end sleeps until its message comes",
    ),
    Row(
        "cpp-mpmc",
        "ns",
        at_most=80,
        floor_factor=1.5,
        floor_of=LOCKED_RING,
        note="8 bytes, one producer, one consumer",
    ),
    Row(
        "cpp-mpmc-2P2C",
        "ns",
        at_most=120,
        floor_factor=1.5,
        floor_of=LOCKED_RING,
        note="8 bytes, two and two",
    ),
    Row("cpp-mpmc-alone", "ns", note="put and get by one process"),
    Row("cpp-oneway-64B", "ns", at_most=150, floor_of=RING, repeat=9),
    # Moving 64 lines between two caches is most of it: the goal was 1.45 times the ring where it was set.
    Row("cpp-oneway-4K", "ns", at_most=350, floor_factor=1.45, floor_of=RING),
    # Both ends copy at the same time; one by itself is faster than a ring without any safety can be.
    Row(
        "cpp-oneway-1M",
        "us",
        floor_factor=1.1,
        floor_of="memcpy at both ends",
        note="copied in and out",
        repeat=15,
    ),
    # Through a list of a million values it took 100 times the bare vector.
    Row(
        "cpp-fields-1M",
        "ms",
        floor_factor=1.2,
        floor_of="bare vector",
        peer_factor=1.0,
        peer_of="msgpack-cxx",
        note="a struct with a name and 2^20 floats, put and got by one process",
    ),
    # iceoryx took 1.0 us there.
    Row(
        "cpp-handle-1M",
        "ns",
        at_most=300,
        peer_factor=0.3,
        peer_of="iceoryx",
        note="allocate, send, receive, free; no copy",
        repeat=9,
    ),
    # A count that can be repaired (a redo record under a robust mutex) took 27 ns there.
    Row(
        "cpp-lease",
        "ns",
        at_most=40,
        floor_factor=1.5,
        floor_of=TWO_PASSES,
        note="another right of a process, and its end",
        repeat=9,
    ),
    Row("cpp-lock", "ns", at_most=40, floor_of="robust mutex", note="lock and unlock, alone"),
    Row("cpp-lock-contended", "ns", floor_of="robust mutex", note="two processes"),
    Row("cpp-pool", "ns", floor_of="two channels", note="a trivial task, two workers, Pool::map"),
    Row("cpp-pool-apply", "us", floor_of="two channels", note="one task, from call to result"),
    Row(
        "cpp-alloc",
        "ns",
        at_most=60,
        floor_factor=2.2,
        floor_of=TWO_PASSES,
        note="1 MB, allocate and free",
        repeat=9,
    ),
    Row("cpp-start-fork", "us", floor_of="fork and wait", note="start and join, nothing to do"),
    Row("cpp-start-forkserver", "us", floor_of="fork and wait", note="likewise, from the zygote"),
    Row("cpp-start-spawn", "us", floor_of="posix_spawn and wait", note="likewise, a fresh process"),
    Row("cpp-start-grown", "us", note="from the zygote; this process holds 256 MB more"),
)
