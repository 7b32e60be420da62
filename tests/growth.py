"""Measure whether the work of a function grows in proportion to the size of its input.

Processor time is compared at two sizes, so that the speed of the machine cancels out. A
quadratic function takes 256 times as long for 16 times the input, a linear one about 16
times.
"""

import gc
import logging
import signal
from collections.abc import Callable
from time import thread_time
from typing import TypeVar

Input = TypeVar("Input")

# The larger input is this many times as large, and may take this many times as long.
_FACTOR = 16
_LIMIT = 5 * _FACTOR

# The smaller input takes at least this many seconds, or counts as if it did: one of the
# largest size that is faster shows how memory grows, and no quadratic function is.
_MEASURABLE = 0.001
_LARGEST = 16_384

# Noise only adds time, so the fastest of several rounds counts.
_ROUNDS = 12
# Seconds of processor time until a function that does not return ends the process,
# whatever it executes.
_TIMEOUT = 60


def grows_linearly(
    function: Callable[[Input], object], make_input: Callable[[int], Input]
) -> bool:
    """Return whether a function's processor time grows linearly.

    :param function: called with one input; it may change it.
    :param make_input: returns a new input of a size, which is a number of repetitions.
    """
    size = 16
    while size < _LARGEST and _measure(function, make_input(size)) < _MEASURABLE:
        size *= 2
    small = large = float("inf")
    for _round in range(_ROUNDS):
        small = min(small, _measure(function, make_input(size)))
        large = min(large, _measure(function, make_input(size * _FACTOR)))
        if large <= max(small, _MEASURABLE) * _LIMIT:
            return True
    logging.getLogger(__name__).warning(
        "%d: %.6f s, %d times as much: %.6f s", size, small, _FACTOR, large
    )
    return False


def _measure(function: Callable[[Input], object], value: Input) -> float:
    """Return the seconds of processor time of one call."""
    signal.setitimer(signal.ITIMER_PROF, _TIMEOUT)
    gc.disable()  # a collection would count as time of the call that it interrupts
    try:
        start = thread_time()
        function(value)
        return thread_time() - start
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_PROF, 0)
