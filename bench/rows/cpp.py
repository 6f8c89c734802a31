"""The rows that the C++ program (bench/cpp) measures, and their goals."""

from __future__ import annotations

from rows.spec import Row

RING = "SPSC ring"
LOCKED_RING = "ring, robust mutexes"

TWO_PASSES = "two passes of a robust mutex"

# What two of the peers do otherwise. Nobody reads what has arrived in these rows, at either side.
POLLING = "Open MPI and UCX poll without end, and neither survives a killed end"
ONE_COPY = "Open MPI and UCX let the kernel copy once, into the receiver's buffer"

# The goals in nanoseconds and microseconds hold for the machine on which they were set. Beside each stands
# the same goal as a multiple of a floor or a peer that is measured in the same run: virtual processors share
# their cores with other virtual machines, and from minute to minute the same computation takes between one
# and two times as long.
ROWS = (
    Row("cpp-rtt-64B", "us", at_most=0.5, floor_factor=1.5, floor_of=RING, note=POLLING, repeat=15),
    Row(
        "cpp-rtt-64B-apart",
        "us",
        peer_factor=1.2,
        peer_of="forklift, unbound",
        floor_of=RING,
        note=f"each end may use one processor, another one each; {POLLING}",
    ),
    Row(
        "cpp-rtt-64B-together",
        "us",
        goal=1.0,
        # A bare futex there and back takes 4.8 us where a pipe takes 5.0; with a time-out, by which a sleeper
        # whose waker was killed goes on, 5.4.
        note="both ends may use the same one processor; each sleep has a time-out",
    ),
    # Most of this is the kernel's wake-up, which differs between machines by a factor of four.
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
    Row(
        "cpp-claim",
        "ns",
        floor_factor=1.3,
        floor_of="get",
        note="8 bytes, one and one; claimed and acknowledged by a loop over the queue, beside a plain get",
        repeat=9,
    ),
    # The floor, one cache line a message, is what a queue without packed records cannot go below.
    Row(
        "cpp-batch-8B",
        "ns",
        at_most=8,
        floor_of="ring of lines",
        note="batches of 64, put_many and get_many, one and one",
    ),
    Row("cpp-batch-8B-2p2c", "ns", at_most=15, note="likewise, two and two"),
    Row("cpp-oneway-64B", "ns", at_most=150, floor_of=RING, repeat=9),
    # Most of this is moving 64 lines between two caches: the goal was 1.45 times the ring on the machine
    # where it was set.
    Row("cpp-oneway-4K", "ns", at_most=350, floor_factor=1.45, floor_of=RING),
    # Both ends copy at the same time; one end alone is faster than even a ring without any safety can be.
    Row(
        "cpp-oneway-1M",
        "us",
        floor_factor=1.1,
        floor_of="memcpy at both ends",
        note=f"copied in and out; {ONE_COPY}",
        repeat=15,
    ),
    # The ring copies into warm shared memory and out of it, as the queue does.
    Row(
        "cpp-oneway-16M",
        "us",
        floor_factor=1.1,
        floor_of=RING,
        note=f"copied in and out; {ONE_COPY}",
        repeat=9,
    ),
    # When the vector travelled as a list of a million values, this took 100 times as long as the bare vector.
    Row(
        "cpp-fields-1M",
        "ms",
        floor_factor=1.2,
        floor_of="bare vector",
        peer_factor=1.0,
        peer_of="msgpack-cxx",
        note="a struct with a name and 2^20 floats, put and got by one process",
    ),
    # iceoryx took 1.0 us on the machine where the goal was set.
    Row(
        "cpp-handle-1M",
        "ns",
        at_most=300,
        peer_factor=0.3,
        peer_of="iceoryx",
        note="allocate, send, receive, free; no copy",
        repeat=9,
    ),
    Row(
        "cpp-loan-1M",
        "ns",
        at_most=300,
        floor_factor=1.2,
        floor_of="a tensor's handle",
        note="a struct is lent, written, published, received in place, given back",
        repeat=9,
    ),
    # A count that can be repaired (a redo record under a robust mutex) took 27 ns on that machine.
    Row(
        "cpp-lease",
        "ns",
        at_most=40,
        floor_factor=1.5,
        floor_of=TWO_PASSES,
        note="another right of a process, and its end",
        repeat=9,
    ),
    Row("cpp-trace-on", "ns", at_most=60, note="one event while somebody records"),
    Row("cpp-trace-off", "ns", at_most=3, note="one while nobody does"),
    Row("cpp-lock", "ns", at_most=40, floor_of="robust mutex", note="lock and unlock, alone"),
    Row("cpp-lock-contended", "ns", floor_of="robust mutex", note="two processes"),
    Row(
        "map-read", "ns", at_most=200, floor_of="unordered_map, no lock", note="100,000 elements; two readers"
    ),
    Row(
        "request-rtt",
        "us",
        floor_factor=1.3,
        floor_of="two queues",
        note="a call of 8 bytes and its response",
        repeat=9,
    ),
    Row(
        "waitset-1000",
        "us",
        floor_factor=1.2,
        floor_of="a set of 10",
        peer_factor=1.0,
        peer_of="epoll",
        note="one of 1,000 queues has a message; the answer goes back through a queue",
        repeat=9,
    ),
    Row(
        "asio-rtt",
        "us",
        floor_factor=1.3,
        floor_of="eventfd",
        note="there and back between two processes on Asio",
        repeat=9,
    ),
    Row("map-read-write", "ns", note="likewise; one reader, beside a writer"),
    Row("rw-lock-read", "ns", note="lock and unlock to read, two processes"),
    Row(
        "cpp-barrier",
        "ns",
        floor_factor=1.5,
        floor_of="bare spin",
        note="two ranks of a group",
        repeat=9,
    ),
    Row(
        "cpp-all-reduce-1M",
        "us",
        goal=1.2,
        note="two ranks, float32, in place",
    ),
    Row("cpp-all-reduce-64M", "us", goal=1.2, note="likewise"),
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
    Row(
        "cpp-cold-write-64M",
        "ms",
        floor_factor=1.1,
        floor_of="bare memfd",
        note="64 MB that nobody has used before, allocated and written",
        repeat=9,
    ),
    Row(
        "cpp-cold-read-64M",
        "ms",
        floor_factor=1.1,
        floor_of="bare memfd",
        note="likewise, received and read by another process",
        repeat=9,
    ),
    Row("cpp-start-fork", "us", floor_of="fork and wait", note="start and join, nothing to do"),
    Row("cpp-start-forkserver", "us", floor_of="fork and wait", note="likewise, from the zygote"),
    Row("cpp-start-spawn", "us", floor_of="posix_spawn and wait", note="likewise, a fresh process"),
    Row(
        "cpp-ops-tiny",
        "ns",
        at_most=1000,
        note="add one element to one, each a tensor; Eigen has no dtypes or shapes at run time",
    ),
    Row("cpp-ops-tiny-out", "ns", at_most=1000, note="likewise, into a tensor that is there"),
    Row("cpp-start-grown", "us", note="from the zygote; this process holds 256 MB more"),
)
