# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Writing with parallel HDF5: all processes that have a file open write one dataset together.

HDF5 encodes through the filter, since only it can agree on the place of each chunk in the file:
direct chunk writes of different lengths leave the processes with different ideas of where the file
ends. A process that fails while the others write would leave them waiting forever. So all of them
say before each transfer whether they are ready, and either all write or all raise.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from h5py import h5fd, h5p, h5s

from h5lossy._batched.boxes import Box, as_selection
from h5lossy._batched.reader import checked_threads
from h5lossy._batched.sources import as_stored, make_source
from h5lossy._errors import IncompleteWriteError, InvalidArgumentError
from h5lossy._libhdf5 import is_parallel
from h5lossy._progress import reporting

if TYPE_CHECKING:
    from collections.abc import Iterator

    import h5py
    import numpy.typing as npt

    from h5lossy._batched.boxes import Place, Selection
    from h5lossy._batched.sources import Source
    from h5lossy._progress import Progress, Report


def is_collective(dataset: h5py.Dataset) -> bool:
    """Return whether this is in a block ``with dataset.collective``."""
    return is_parallel(dataset.file) and dataset._dxpl.get_dxpl_mpio() == h5fd.MPIO_COLLECTIVE  # noqa: SLF001


class _Failed(Exception):  # noqa: N818  # never leaves this module
    """A process failed; the argument says which, and why."""


class Ranks:
    """The processes that have a file open together."""

    def __init__(self, file: h5py.File) -> None:
        # A duplicate of the file's, so no message is mixed up with those of others.
        self._comm, info = file.id.get_access_plist().get_fapl_mpio()
        if info:
            info.Free()
        self.rank: int = self._comm.Get_rank()

    def close(self) -> None:
        """Give the communicator back."""
        self._comm.Free()

    def gather(self, mine: Any) -> list[Any]:
        """Return what each process gives."""
        found: list[Any] = self._comm.allgather(mine)
        return found

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """Run the block in all processes; where it succeeds, raise `_Failed` if it fails elsewhere.

        Where it fails, its own error is raised.
        """
        failure: BaseException | None = None
        try:
            yield
        except BaseException as error:  # noqa: BLE001  # raised below
            failure = error
        said = self.gather(failure and f"{type(failure).__name__}: {failure}")
        if failure is not None:
            raise failure
        failed = [rank for rank, message in enumerate(said) if message]
        if failed:
            others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise _Failed(f"rank {failed[0]} of {len(said)}{others}: {said[failed[0]]}")


def write_together(
    dataset: h5py.Dataset,
    values: Any,
    selection: Any,
    *,
    threads: int | None,
    verify: bool,
    progress: Progress,
) -> None:
    """Do what ``write(..., collective=True)`` does, in all processes that have the file open."""
    if not is_parallel(dataset.file):
        raise InvalidArgumentError(
            f"collective=True is for files that are open with driver='mpio', and "
            f"{dataset.file.filename} is open with {dataset.file.driver!r}; leave it out"
        )
    with ExitStack() as stack:
        ranks = Ranks(dataset.file)
        stack.callback(ranks.close)
        parts = _Parts(ranks, dataset)
        try:
            with ranks.agreeing():
                if verify:
                    raise InvalidArgumentError(
                        "verify=True records what one process wrote, and cannot be combined with "
                        "collective=True; compare with h5lossy.assess afterwards"
                    )
                count = checked_threads(threads)
                parts.report = stack.enter_context(reporting(progress, f"writing {dataset.name}"))
                parts.choose(values, selection, count)
            everyone = ranks.gather(parts.about)
            with ranks.agreeing():
                parts.check_others(everyone)
        except _Failed as failed:
            raise InvalidArgumentError(
                f"nothing was written to {dataset.name}, since all processes write together: "
                f"{failed}"
            ) from None
        parts.write(max(other.rounds for other in everyone))


class _About(NamedTuple):
    """What a process tells the others of its part."""

    name: str
    shape: Place
    start: Place
    stop: Place
    rounds: int


class _Parts:
    """The values of this process, and the boxes that they are written in."""

    report: Report
    _source: Source
    _chosen: Selection

    def __init__(self, ranks: Ranks, dataset: h5py.Dataset) -> None:
        self._ranks = ranks
        self._dataset = dataset
        self._boxes: list[Box] = []
        self._written: list[Box] = []
        self._transfer = h5p.create(h5p.DATASET_XFER)
        self._transfer.set_dxpl_mpio(h5fd.MPIO_COLLECTIVE)

    def choose(self, values: Any, selection: Any, threads: int) -> None:
        """Take the selection of this process, and the values for it, or raise."""
        dataset = self._dataset
        if dataset.file.mode == "r":
            raise InvalidArgumentError(
                f"{dataset.file.filename} is open for reading only; open it with mode 'r+'"
            )
        if dataset.shape == ():
            raise InvalidArgumentError(
                f"{dataset.name} is a scalar, which processes cannot share; write it in one of "
                "them, without collective=True"
            )
        chosen = as_selection(selection, dataset.shape, may_be_empty=True)
        if chosen is None:
            raise InvalidArgumentError(
                f"collective=True takes numbers and slices without steps, within {dataset.shape}, "
                f"got {selection!r}; a process without values gives an empty slice, such as "
                "numpy.s_[:0], and an array without values"
            )
        self._source = make_source(values, chosen.shape, dataset, threads)
        self._chosen, box = chosen, chosen.box
        if 0 in box.shape:
            return
        grid = chosen.grid(dataset, self._source.cuts)
        is_filtered = dataset.id.get_create_plist().get_nfilters() > 0
        if is_filtered and grid.whole != box:
            raise InvalidArgumentError(
                f"collective=True writes whole chunks: {_shown(box)} must begin and end at "
                f"multiples of the chunk {dataset.chunks}, or at the end of {dataset.shape}"
            )
        self._boxes = list(grid.boxes())

    @property
    def about(self) -> _About:
        """What the other processes have to know."""
        box = self._chosen.box
        dataset = self._dataset
        return _About(dataset.name, dataset.shape, box.start, box.stop, len(self._boxes))

    def check_others(self, everyone: list[_About]) -> None:
        """Raise if another process writes another dataset, or some of the same values."""
        mine = self._ranks.rank
        own = everyone[mine]
        for rank, other in enumerate(everyone):
            if (other.name, other.shape) != (own.name, own.shape):
                raise InvalidArgumentError(
                    f"all processes must write one dataset: rank {mine} was given {own.name} of "
                    f"{own.shape}, and rank {rank} {other.name} of {other.shape}"
                )
        starts, stops = (np.array(ends) for ends in list(zip(*everyone, strict=True))[2:4])
        both = (np.maximum(starts, own.start) < np.minimum(stops, own.stop)).all(axis=1)
        both[mine] = False
        if both.any():
            rank = int(np.flatnonzero(both)[0])
            common = Box(own.start, own.stop).intersection(Box(*everyone[rank][2:4]))
            raise InvalidArgumentError(
                f"ranks {mine} and {rank} both write {_shown(common)}; give each process values "
                "of its own"
            )

    def write(self, rounds: int) -> None:
        """Write a box in each round; where there are no more, take part without."""
        dataset = self._dataset
        total = math.prod(self._chosen.box.shape) * dataset.dtype.itemsize
        try:
            for i in range(rounds):
                box = self._boxes[i] if i < len(self._boxes) else None
                block = np.empty(0, dataset.dtype)
                with self._ranks.agreeing():
                    if box is not None:
                        values = self._source.read(self._chosen.of_kept(box))
                        block = as_stored(values, dataset.dtype).reshape(box.shape)
                with self._ranks.agreeing():
                    self._transfer_box(box, np.ascontiguousarray(block))
                    if box is not None:
                        self._written.append(box)
                        done = sum(math.prod(part.shape) for part in self._written)
                        self.report(done * dataset.dtype.itemsize, total)
            with self._ranks.agreeing():
                self._source.finish()
            dataset.file.flush()  # the other processes can read it now
        except _Failed as failed:
            raise self._incomplete(str(failed)) from None
        except Exception as error:
            raise self._incomplete(f"{type(error).__name__}: {error}") from error

    def _incomplete(self, why: str) -> IncompleteWriteError:
        return IncompleteWriteError(
            f"rank {self._ranks.rank} wrote {len(self._written)} of its {len(self._boxes)} parts "
            f"of {self._dataset.name}: {why}",
            self._places(self._written),
            len(self._places(self._boxes)),
        )

    def _places(self, boxes: list[Box]) -> tuple[Place, ...]:
        """Return where the chunks of some boxes begin."""
        chunks = self._dataset.chunks
        return tuple(place for box in boxes for place in box.places(chunks)) if chunks else ()

    def _transfer_box(self, box: Box | None, block: npt.NDArray[Any]) -> None:
        """Call ``H5Dwrite``, as all processes have to; h5py would not for an empty selection."""
        there = self._dataset.id.get_space()
        here = h5s.create_simple(block.shape)
        if box is None:
            there.select_none()
            here.select_none()
        else:
            there.select_hyperslab(box.start, box.shape)
        self._dataset.id.write(here, there, block, dxpl=self._transfer)


def _shown(box: Box) -> str:
    """Return a box as it is written between brackets."""
    return f"[{', '.join(f'{a}:{b}' for a, b in zip(box.start, box.stop, strict=True))}]"
