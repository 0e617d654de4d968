# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Signals that end long work between two of its steps, so that the work can clean up.

An exception raised by a signal handler would do for most programs. But Python drops it if the
signal comes while a finalizer runs, and h5py and cffi run one for almost every call.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")

_received: list[int] = []


class InterruptedBySignal(BaseException):
    """The command was interrupted by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def interruptible() -> Iterator[None]:
    """Record SIGINT, SIGTERM and SIGHUP while the block runs, for `raise_if_interrupted`."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        _received.append(number)
        if len(_received) > 1:  # the first signal has not ended the command
            raise InterruptedBySignal(number)

    _received.clear()
    before = {}
    try:
        for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
            # A shell's background jobs may have some of them ignored, and that stays so.
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                before[number] = signal.signal(number, interrupt)
    except ValueError:  # only Python's main thread may set handlers
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_if_interrupted() -> None:
    """Raise if a signal was received; called between steps of work."""
    if _received:
        raise InterruptedBySignal(_received[-1])
