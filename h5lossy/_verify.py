# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Proof that a dataset still holds what was written, and that this was within its bound.

When a dataset is written with ``verify=True``, each chunk is decoded again and compared with its
original; two attributes hold the result (`records`). As every decoder gives the same bits
on every machine, `verify` can check later, without the original, that the values which were
compared are those that are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from h5lossy._datasets import describe
from h5lossy._progress import reporting
from h5lossy._public import name_publicly
from h5lossy._variables import takes_variables
from h5lossy._verification.chunk_check import ChunkCheck, Problem
from h5lossy._verification.records import HASH_ATTRIBUTE, REPORT_ATTRIBUTE
from h5lossy.assessment import assess

if TYPE_CHECKING:
    import h5py

    from h5lossy._bounds import ErrorBound
    from h5lossy._progress import Progress
    from h5lossy.assessment.report import Report


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What `verify` found for one dataset.

    Attributes
    ----------
    path : str
    codec : str or None
        None if h5lossy did not compress it; then no values were checked.
    bound : ErrorBound or None
    chunks : int
        Number of stored chunks that were decoded.
    recorded : int
        Number of those whose decoded values match the record.
    problems : tuple of Problem
        Damage: chunks that HDF5 can't read or would misread, broken bounds, lost chunks, and a
        record that was tampered with.
    outdated : tuple of Problem
        Why the record no longer matches, although the data is intact: values were changed, or the
        dataset was resized, compressed again or replaced, after the record was made.
    record : dict or None
        What was found when the dataset was written, if that was verified.
    report : Report or None
        Of the comparison with the original, where there is one.
    """

    path: str
    codec: str | None = None
    bound: ErrorBound | None = None
    chunks: int = 0
    recorded: int = 0
    problems: tuple[Problem, ...] = ()
    outdated: tuple[Problem, ...] = ()
    record: dict[str, Any] | None = None
    report: Report | None = field(default=None, repr=False)

    @property
    def is_damaged(self) -> bool:
        """Whether the data, or the record itself, is damaged."""
        return bool(self.problems) or (self.report is not None and not self.report.ok)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, and the record, if there is one, is of these values."""
        return not self.is_damaged and not self.outdated


@takes_variables
def verify(
    dataset: h5py.Dataset,
    *,
    against: Any = None,
    progress: Progress = False,
) -> Verification:
    """Check that a dataset can be decoded and still holds what was verified when it was written.

    Every stored chunk is decoded as HDF5 would read it. Its checksum, filter mask, length, type and
    byte order are checked, and its bound is compared with that of the dataset. The decoded values
    are compared with the recorded hash, if there is one. No original is needed. Time and memory
    depend on the number of stored chunks.

    Parameters
    ----------
    dataset : h5py.Dataset, or variable of h5netcdf or netCDF4
        Any dataset; if h5lossy did not compress it, no values are checked. With netCDF4, of a file
        that is open for reading.
    against : optional
        The original, as `assess` takes it: it is compared value by value, too, with the bound that
        the file says, if all of the dataset can be decoded.
    progress : function or bool, optional
        Called as ``progress(bytes_done, bytes_in_all)`` after each chunk; with `against`, the bytes
        are counted twice: decoded, and compared. True shows a bar on standard error.

    Returns
    -------
    Verification

    Notes
    -----
    A record reveals accidents, not forgery: whoever can write the file can write the record, too,
    or remove it.

    Examples
    --------
    >>> import h5py, h5lossy, numpy as np
    >>> codec = h5lossy.PFPL(absolute=0.5)
    >>> with h5py.File("a.h5", "w", driver="core", backing_store=False) as f:
    ...     t = f.create_dataset("t", (100,), "f4", chunks=(64,), compression=codec)
    ...     h5lossy.write(t, np.arange(100.0), verify=True)
    ...     found = h5lossy.verify(t)
    >>> found.ok, found.chunks, found.recorded
    (True, 2, 2)
    """
    described = describe(dataset)
    if described is None:
        return Verification(path=dataset.name, outdated=_of_a_dataset_before(dataset))
    check = ChunkCheck(dataset, described)
    report = None
    size = described.raw_bytes
    total = size if against is None else 2 * size
    with reporting(progress, f"verifying {dataset.name}") as report_bytes:
        check.run(lambda done: report_bytes(done, total))
        if against is not None and not check.is_readable:
            check.problem(None, "not compared with the original: not all of it can be decoded")
        elif against is not None:

            def compared(done: int, whole: int) -> None:
                report_bytes(size + size * done // max(1, whole), total)

            report = assess(against, dataset, progress=compared)
    return Verification(
        path=dataset.name,
        codec=described.codec,
        bound=described.bound,
        chunks=check.chunks,
        recorded=check.recorded,
        problems=tuple(check.problems),
        outdated=tuple(check.outdated),
        record=check.record,
        report=report,
    )


def _of_a_dataset_before(dataset: h5py.Dataset) -> tuple[Problem, ...]:
    """Look for the record of a dataset that was replaced by one without our filter."""
    if not any(name in dataset.attrs for name in (REPORT_ATTRIBUTE, HASH_ATTRIBUTE)):
        return ()
    why = "the record is of another dataset: h5lossy did not compress this one"
    return (Problem(chunk=None, why=why),)


name_publicly(__name__)
