# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Work on batches of chunks that overlaps with fetching the next batch and finishing the last."""

from __future__ import annotations

import mmap
import sys
from collections import deque
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


def overlap(
    batches: Iterator[_Batch],
    work: Callable[[_Batch], _Result],
    finish: Callable[[_Batch, _Result], None],
) -> None:
    """Do `work` on batches in a helper thread; fetch and finish others in this thread meanwhile.

    If a batch cannot be fetched, the earlier ones are finished before the error is raised.
    """
    failure: Exception | None = None
    started: deque[tuple[_Batch, Future[_Result]]] = deque()
    with helper_thread() as submit:
        while True:
            try:
                batch = next(batches, None)
            except Exception as error:  # noqa: BLE001  # raised below
                batch, failure = None, error
            if batch is None:
                break
            started.append((batch, submit(work, batch)))
            if len(started) == 2:
                before, future = started.popleft()
                finish(before, future.result())
                del before, future  # frees their memory before the next batch is fetched
        for before, future in started:
            finish(before, future.result())
    if failure is not None:
        raise failure


@contextmanager
def helper_thread() -> Iterator[Callable[..., Future[Any]]]:
    """Yield a function that runs another one in a helper thread, or in this thread."""
    try:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # fails at exit

        helper = ThreadPoolExecutor(1, thread_name_prefix="h5lossy")
        helper.submit(int)  # starts the thread
    except RuntimeError:  # Python exits (`atexit`), or the system's limit of threads is reached
        yield _run_at_once
        return
    with helper:
        yield helper.submit


def _run_at_once(work: Callable[..., _Result], *given: Any) -> Future[_Result]:
    """Do the work of `Executor.submit` in this thread."""
    future: Future[_Result] = Future()
    try:
        future.set_result(work(*given))
    except Exception as error:  # noqa: BLE001  # raised by result()
        future.set_exception(error)
    return future


class FrameBuffers:
    """Buffers used in turn: one for the current batch, one for the batch before or after it.

    They are reused, since the first use of fresh memory takes as long as encoding. `sparse` is for
    frames that leave most of their room unused.
    """

    def __init__(self, count: int = 2, *, sparse: bool = False) -> None:
        self._sparse = sparse
        self._buffers = [np.empty(0, np.uint8)] * count

    def next(self, count: int, frame_bytes: int) -> npt.NDArray[np.uint8]:
        """Return a row for each of `count` frames, which one of the next calls overwrites."""
        row_bytes = aligned(frame_bytes)
        buffer = self._buffers.pop(0)
        if len(buffer) < count * row_bytes:
            size = count * row_bytes
            buffer = _small_pages(size) if self._sparse else np.empty(size, np.uint8)
        self._buffers.append(buffer)
        return buffer[: count * row_bytes].reshape(count, row_bytes)


def aligned(frame_bytes: int) -> int:
    """Return the next multiple of a cache line."""
    return -(-frame_bytes // 64) * 64


def _small_pages(size: int) -> npt.NDArray[np.uint8]:
    """Return memory whose unused pages cost nothing."""
    if sys.platform == "win32":  # uses huge pages only on request
        return np.empty(size, np.uint8)
    # NumPy requests huge pages, and then a short frame in a long row would take a whole one.
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for frames of {size} bytes") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # Linux
        with suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8)
