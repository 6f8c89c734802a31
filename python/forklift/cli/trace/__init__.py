"""``forklift trace``: what a program does over time, for Perfetto or as a page."""
