"""Helpers of `forklift.multiprocessing.pool`."""
