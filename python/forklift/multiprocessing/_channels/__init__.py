"""Helpers of `forklift.multiprocessing.queues` and `.connection`."""
