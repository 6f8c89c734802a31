"""``multiprocessing.managers`` itself, under this package's name, with Forklift's connections."""

import multiprocessing.managers as _std
import sys
from multiprocessing.managers import *  # noqa: F403

from forklift.multiprocessing._channels import manager_connections

manager_connections.enable()
sys.modules[__name__] = _std
