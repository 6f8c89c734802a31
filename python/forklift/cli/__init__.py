"""The command ``forklift``, the same as ``python -m forklift``: in `command`, with `report` and `cmake`."""
