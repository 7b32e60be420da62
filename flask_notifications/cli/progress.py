"""The progress of long work, on a terminal."""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from .arguments import STANDARD_INPUT, open_file


class _Watched(io.RawIOBase):
    """A file that reports how many bytes have been read."""

    def __init__(self, path: Path, stream: Any, report: Callable[[int], object]) -> None:
        self.name = str(path)
        self._stream = stream
        self._report = report

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int]") -> int | None:  # type: ignore[override]
        size: int | None = self._stream.readinto(buffer)
        self._report(size or 0)
        return size


def is_watched() -> bool:
    """Return whether standard error is a terminal, where somebody sees progress; it may be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def open_logs(paths: Sequence[Path]) -> Iterator[list[io.RawIOBase]]:
    """Open files, each once, and show on standard error how much of them has been read, if that is a terminal."""
    different = list({path if path == STANDARD_INPUT else path.resolve(): path for path in paths}.values())
    size = sum(path.stat().st_size for path in different if path != STANDARD_INPUT)
    is_hidden = size == 0 or not is_watched()
    with (
        ExitStack() as stack,
        click.progressbar(length=size, label="Reading logs", file=sys.stderr, hidden=is_hidden) as bar,
    ):
        streams = [stack.enter_context(open_file(path)) for path in different]
        yield [_Watched(path, stream, bar.update) for path, stream in zip(different, streams, strict=True)]
