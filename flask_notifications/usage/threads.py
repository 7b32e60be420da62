"""Real threads, locks and queues, even where gevent has patched those of Python."""

import _thread  # noqa: F401 - looked up by its name
import queue  # noqa: F401 - looked up by its name
import sys
import threading
from collections.abc import Callable
from typing import Any


def new_lock() -> Any:
    """Return a lock. It has no owner: any thread may release it."""
    return _original("_thread", "allocate_lock")()


def new_queue() -> Any:
    """Return a ``SimpleQueue``: its ``put`` is safe in a signal handler, too."""
    return _original("queue", "SimpleQueue")()


def start_thread(target: Callable[[], None]) -> bool:
    """Start a daemon thread, and return whether the system allowed it."""
    try:
        # In a greenlet, a driver that waits in C would block all others of its thread.
        if "gevent.monkey" in sys.modules:
            _original("_thread", "start_new_thread")(target, ())
        else:
            name = "flask_notifications.usage"
            threading.Thread(target=target, name=name, daemon=True).start()
    except RuntimeError:  # the limit of threads is reached, or Python is exiting
        return False
    return True


def _original(module: str, name: str) -> Any:
    """Return an attribute of a module as it was before gevent replaced it."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None:
        return getattr(sys.modules[module], name)
    return monkey.get_original(module, name)
