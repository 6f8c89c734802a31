"""Helpers for starting processes: what the parent does, and what it sends to the child."""
