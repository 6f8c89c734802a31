"""``forklift top``: the processes, queues, pools, locks and memory of a running program, in numbers."""
