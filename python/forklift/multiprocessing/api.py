"""What ``forklift.multiprocessing`` exports.

A module of its own, since children import that package for parts of it only.
"""

import sys
from multiprocessing import AuthenticationError as AuthenticationError
from multiprocessing import BufferTooShort as BufferTooShort
from multiprocessing import ProcessError as ProcessError
from multiprocessing import TimeoutError as TimeoutError
from multiprocessing import process as process
from multiprocessing import reduction as reduction

from forklift.multiprocessing import context  # noqa: F401
from forklift.multiprocessing.context import Process as Process
from forklift.multiprocessing.context import _default_context

# The standard library's own modules, under our names, too. Here rather than by an import of each: they are
# there already.
reducer = reduction
sys.modules["forklift.multiprocessing.process"] = process
sys.modules["forklift.multiprocessing.reduction"] = reduction

TYPE_CHECKING = False
SUBDEBUG = 5
SUBWARNING = 25

if TYPE_CHECKING:  # as classes: programs write Queue[int]
    from forklift.multiprocessing.queues import JoinableQueue as JoinableQueue
    from forklift.multiprocessing.queues import Queue as Queue
    from forklift.multiprocessing.queues import SimpleQueue as SimpleQueue
else:
    JoinableQueue = _default_context.JoinableQueue
    Queue = _default_context.Queue
    SimpleQueue = _default_context.SimpleQueue

Array = _default_context.Array
Barrier = _default_context.Barrier
BoundedSemaphore = _default_context.BoundedSemaphore
Condition = _default_context.Condition
Event = _default_context.Event
Lock = _default_context.Lock
Manager = _default_context.Manager
Pipe = _default_context.Pipe
Pool = _default_context.Pool
RLock = _default_context.RLock
RawArray = _default_context.RawArray
RawValue = _default_context.RawValue
Semaphore = _default_context.Semaphore
Value = _default_context.Value
active_children = _default_context.active_children
allow_connection_pickling = _default_context.allow_connection_pickling
cpu_count = _default_context.cpu_count
current_process = _default_context.current_process
freeze_support = _default_context.freeze_support
get_all_start_methods = _default_context.get_all_start_methods
get_context = _default_context.get_context
get_logger = _default_context.get_logger
get_start_method = _default_context.get_start_method
log_to_stderr = _default_context.log_to_stderr
parent_process = _default_context.parent_process
set_executable = _default_context.set_executable
set_forkserver_preload = _default_context.set_forkserver_preload
set_start_method = _default_context.set_start_method
