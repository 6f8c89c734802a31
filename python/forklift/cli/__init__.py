"""The command ``forklift``, which is ``python -m forklift``: `command`, with `report` and `cmake`."""
