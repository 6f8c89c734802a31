"""``python -m forklift doctor``: examines the machine and the installation."""
