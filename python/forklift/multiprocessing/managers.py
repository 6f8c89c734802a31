"""``multiprocessing.managers`` itself, under this package's name; see manager_channels for what is ours."""

import multiprocessing.managers as _std
import sys
from multiprocessing.managers import *  # noqa: F403

from forklift.multiprocessing import manager_channels

manager_channels.enable()
sys.modules[__name__] = _std
