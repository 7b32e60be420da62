"""Threads, locks and queues of the system, even where gevent has replaced them."""

import _thread  # noqa: F401 - looked up by its name
import queue  # noqa: F401 - looked up by its name
import sys
import threading
from collections.abc import Callable
from typing import Any


def new_lock() -> Any:
    """Return a lock, which has no owner."""
    return _original("_thread", "allocate_lock")()


def new_queue() -> Any:
    """Return a ``SimpleQueue``, into which a signal handler may put something, too."""
    return _original("queue", "SimpleQueue")()


def start_thread(target: Callable[[], None]) -> bool:
    """Start a thread, and return whether there was one to spare."""
    try:
        # A driver that waits in C would stop all greenlets of a thread.
        if "gevent.monkey" in sys.modules:
            _original("_thread", "start_new_thread")(target, ())
        else:
            name = "flask_notifications.usage"
            threading.Thread(target=target, name=name, daemon=True).start()
    except RuntimeError:  # no more threads, or the end of the process
        return False
    return True


def _original(module: str, name: str) -> Any:
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return getattr(sys.modules[module], name)
    return monkey.get_original(module, name)
