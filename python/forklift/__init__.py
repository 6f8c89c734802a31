"""Forklift: processes share tensors almost the way threads do."""

from forklift._core import __version__

__all__ = ["__version__"]
