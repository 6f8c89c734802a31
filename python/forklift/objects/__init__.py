"""Shared objects that the standard library does not have, and the names under which programs find them.

`broadcast`: Broadcast and Latest. `frozen`: share and freeze. `portable`: queues with a C++ end, and programs
as children. `naming`: domains and objects with names. `forklift` exports all of these.
"""
