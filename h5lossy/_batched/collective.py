# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Writing through HDF5, a box at a time: alone, or collectively in all processes of an open file.

In parallel HDF5, HDF5 calls the filter itself, since only HDF5 can agree on the place of each chunk
in the file: direct chunk writes of different lengths would leave the processes with different ideas
of where the file ends. A process that fails while the others write would leave them waiting
forever. So before each transfer, every process announces whether it is ready, and then either all
write or all raise.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
from h5py import h5f, h5fd, h5p, h5s

from h5lossy._batched.boxes import Box, Place, Selection, as_selection
from h5lossy._batched.sources import Source, as_stored
from h5lossy._errors import IncompleteWriteError, InvalidArgumentError
from h5lossy._libhdf5 import is_parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from h5lossy._progress import Report


def is_collective(dataset: h5py.Dataset) -> bool:
    """Return whether this is in a block ``with dataset.collective``."""
    return is_parallel(dataset) and dataset._dxpl.get_dxpl_mpio() == h5fd.MPIO_COLLECTIVE  # noqa: SLF001


class _Failed(Exception):  # noqa: N818  # never leaves this module
    """A process failed; the argument says which, and why."""


class Ranks:
    """The processes that have the file open together; a single process has no communicator."""

    def __init__(self, file: h5py.File | None = None) -> None:
        self.rank: int = 0
        self._comm: Any = None
        if file is not None:
            # A duplicate of the file's communicator, so that messages do not mix with those of
            # others.
            self._comm, info = file.id.get_access_plist().get_fapl_mpio()
            if info:
                info.Free()
            self.rank = self._comm.Get_rank()

    def close(self) -> None:
        """Free the communicator."""
        if self._comm is not None:
            self._comm.Free()

    def gather(self, mine: Any) -> list[Any]:
        """Gather what each process gives."""
        return [mine] if self._comm is None else [*self._comm.allgather(mine)]

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """Run the block in all processes; raise `_Failed` where only others have failed."""
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


def tell_others(error: Exception) -> None:
    """Tell waiting processes about this one, which was given no dataset of their file."""
    # Uses the one parallel file that is open here; if there are several, the others keep waiting.
    opened = [h5py.File(file) for file in h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE)]
    shared = [file for file in opened if is_parallel(file)]
    if len(shared) == 1:
        ranks = Ranks(shared[0])
        ranks.gather(f"{type(error).__name__}: {error}")
        ranks.close()


def write_together(
    dataset: h5py.Dataset,
    selection: Any,
    prepare: Callable[[], tuple[Report, Callable[[Place], Source]]],
) -> None:
    """Implement ``write(..., collective=True)``, in all processes that have the file open."""
    if not is_parallel(dataset):
        error = InvalidArgumentError(
            f"collective=True is for files that are open with driver='mpio', and "
            f"{dataset.file.filename} is open with {dataset.file.driver!r}; leave it out"
        )
        tell_others(error)
        raise error
    ranks = Ranks(dataset.file)
    try:
        with ranks.agreeing():
            report, source_for = prepare()
            chosen = _chosen_by_one(dataset, selection)
            writer = BoxWriter(dataset, chosen, source_for(chosen.shape), report, ranks)
        everyone = ranks.gather(writer.about)
        with ranks.agreeing():
            writer.check_others(everyone)
        writer.run(max(other.rounds for other in everyone))
    except _Failed as failed:
        raise InvalidArgumentError(
            f"nothing was written to {dataset.name}, since all processes write together: {failed}"
        ) from None
    finally:
        ranks.close()


def _chosen_by_one(dataset: h5py.Dataset, selection: Any) -> Selection:
    """Return the selection of this process, or raise."""
    if not dataset.shape:
        kind = "a scalar" if dataset.shape == () else "a null dataspace"
        raise InvalidArgumentError(
            f"{dataset.name} is {kind}, which processes cannot share; write it in one of "
            "them, without collective=True"
        )
    chosen = as_selection(selection, dataset, may_be_empty=True)
    if chosen is None:
        raise InvalidArgumentError(
            f"collective=True takes numbers and slices without steps, within {dataset.shape}, "
            f"got {selection!r}; a process without values gives an empty slice, such as "
            "numpy.s_[:0], and an array without values"
        )
    is_filtered = dataset.id.get_create_plist().get_nfilters() > 0
    if is_filtered and 0 not in chosen.box.shape and not chosen.is_whole:
        raise InvalidArgumentError(
            f"collective=True writes whole chunks: {chosen.box} must begin and end at "
            f"multiples of the chunk {dataset.chunks}, or at the end of {dataset.shape}"
        )
    return chosen


class _About(NamedTuple):
    """What a process tells the others about its part."""

    name: str
    shape: Place
    start: Place
    stop: Place
    rounds: int


class BoxWriter:
    """Writes the values of this process in boxes; `ranks` are all writing processes, if any."""

    def __init__(
        self,
        dataset: h5py.Dataset,
        chosen: Selection,
        source: Source,
        report: Report,
        ranks: Ranks | None = None,
    ) -> None:
        self._dataset = dataset
        self._chosen = chosen = chosen.cut_near(source.cuts)
        self._source = source
        self._report = report
        self._ranks = ranks or Ranks()
        self._together = ranks is not None
        self._boxes = [] if 0 in chosen.box.shape else list(chosen.boxes())
        self._written: list[Box] = []

    @property
    def about(self) -> _About:
        """What the other processes have to know."""
        box, dataset = self._chosen.box, self._dataset
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
                f"ranks {mine} and {rank} both write {common}; give each process values of its own"
            )

    def run(self, rounds: int | None = None) -> None:
        """Write one box per round; after the last one, take part with an empty selection."""
        try:
            for i in range(len(self._boxes) if rounds is None else rounds):
                box = self._boxes[i] if i < len(self._boxes) else None
                with self._ranks.agreeing():
                    block = self._values(box)
                with self._ranks.agreeing():
                    self._put(box, block)
            with self._ranks.agreeing():
                self._source.finish()
            if self._together:
                self._dataset.file.flush()  # the other processes can read it now
        except _Failed as failed:
            raise self._incomplete(str(failed)) from None
        except Exception as error:
            raise self._incomplete(f"{type(error).__name__}: {error}") from error

    def _values(self, box: Box | None) -> npt.NDArray[Any]:
        dtype = self._dataset.dtype
        if box is None:
            return np.empty(0, dtype)
        values = self._source.read(self._chosen.of_kept(box))
        if self._together:  # HDF5 converts nothing in collective writes
            values = np.ascontiguousarray(as_stored(values, dtype))
        return values.reshape(box.shape)

    def _put(self, box: Box | None, block: npt.NDArray[Any]) -> None:
        if self._together:
            self._transfer(box, block)
        else:
            assert box is not None
            self._dataset[box.slices] = block
        if box is not None:
            self._written.append(box)
            done = sum(math.prod(part.shape) for part in self._written)
            self._report(done * self._chosen.value_bytes, self._chosen.nbytes)

    def _transfer(self, box: Box | None, block: npt.NDArray[Any]) -> None:
        """Call ``H5Dwrite``, as all processes must; h5py skips it for an empty selection."""
        there = self._dataset.id.get_space()
        here = h5s.create_simple(block.shape)
        if box is None:
            there.select_none()
            here.select_none()
        else:
            there.select_hyperslab(box.start, box.shape)
        transfer = h5p.create(h5p.DATASET_XFER)
        transfer.set_dxpl_mpio(h5fd.MPIO_COLLECTIVE)
        self._dataset.id.write(here, there, block, dxpl=transfer)

    def _incomplete(self, why: str) -> IncompleteWriteError:
        whose = f"rank {self._ranks.rank}: " if self._together else ""
        return IncompleteWriteError(
            f"{whose}{len(self._written)} of {len(self._boxes)} parts of {self._dataset.name} were "
            f"written: {why}",
            self._places(self._written),
            len(self._places(self._boxes)),
        )

    def _places(self, boxes: list[Box]) -> tuple[Place, ...]:
        """Return where the chunks of some boxes begin."""
        chunks = self._dataset.chunks
        return tuple(place for box in boxes for place in box.places(chunks)) if chunks else ()
