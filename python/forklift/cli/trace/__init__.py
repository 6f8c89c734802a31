"""``forklift trace``: what a program does over time."""
