"""Helpers of ``spawn`` and ``start_processes``: processes that run one function and stop together."""
