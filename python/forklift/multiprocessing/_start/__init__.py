"""Helpers of starting processes: what the parent does, and what travels to the child."""
