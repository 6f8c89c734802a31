"""``forklift.ProcessPoolExecutor``: the standard library's executor on the engine of Forklift's pools."""
