# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decides what happens to each dataset of a file, before anything is written."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import h5py
import numpy as np
from h5py import h5d, h5t

from h5lossy._blocks import TINY_BYTES, listed_chunks
from h5lossy._bounds import BoundKind
from h5lossy._chunking import access_of, chunks_for, is_small
from h5lossy._codecs import FILTER_ID
from h5lossy._errors import H5LossyError, InvalidArgumentError
from h5lossy._frames import encode, taking
from h5lossy._libhdf5 import filters_in, stored_size
from h5lossy._packing import Packing, for_integers, in_counts
from h5lossy._repacking.objects import (
    Datasets,
    ObjectKey,
    absent_filters,
    dataset_paths,
    name_in_read_errors,
    object_key,
    open_dataset,
    with_filters,
)
from h5lossy._scales import is_scale
from h5lossy._values import dtype_of, fill_bits, is_integer, own_fill_value
from h5lossy._variables import paths_referred_to
from h5lossy.missing import missing_when_stored

if TYPE_CHECKING:
    from h5lossy._codecs import Codec
    from h5lossy._recommendations import Recommendation

NO_BOUND = "no rule gives a bound"

SMALLER = "smaller as it is than losslessly"

OF_COUNTS = "a noise bound is of integers"

UNEQUAL_FILL = "the parts of its fill value differ, which only lossless keeps"

REFERRED_TO = "coordinate, bounds or the like of others"

#: Reasons to copy a dataset unchanged although it could be compressed.
OBJECTIONS = {
    NO_BOUND,
    SMALLER,
    OF_COUNTS,
    UNEQUAL_FILL,
    "no values, so no range",
    "dimension scale",
    REFERRED_TO,
    "skipped",
    "small",
}

_TYPES = [
    h5t.py_create(np.dtype(f"{order}{kind}{size}"))
    for order in "<>"
    for kind, sizes in (("f", "248"), ("i", "1248"), ("u", "1248"), ("c", ("8", "16")))
    for size in sizes
]
_TYPES += [
    getattr(h5t, name)  # new in HDF5 2
    for name in (f"COMPLEX_IEEE_F{bits}{order}" for bits in (32, 64) for order in ("LE", "BE"))
    if hasattr(h5t, name)
]

#: Number of chunks that are encoded to find out whether another filter made them smaller.
_SAMPLE_CHUNKS = 5

#: A fixed array, the index of datasets with limited extents, takes about 24 bytes per chunk.
_MOST_CHUNKS = 1 << 30


#: Regions with a smaller bound: an index or the path of a mask, as text, and the bound.
Regions: TypeAlias = tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a user requests for one dataset."""

    codec: Codec | None = None
    chunks: tuple[int, ...] | str = "keep"
    is_skipped: bool = False
    has_rule: bool = False  # whether a rule gives the bound
    is_named: bool = False  # whether that rule has no wildcards
    in_counts: bool = False  # whether the bound of packed values is in stored counts
    recommended: Recommendation | None = None  # if recommendations, and no rule, give the bound
    regions: Regions = ()


#: Returns what is requested for a dataset with these paths.
Wishes: TypeAlias = Callable[[Sequence[str], h5py.Dataset], Wish]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan for one dataset: why it is copied unchanged, or its codec and chunks."""

    file: h5py.File
    paths: tuple[str, ...]  # of its hard links; bytes that are not UTF-8 are lone surrogates
    key: ObjectKey
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None  # None where NumPy has no such type
    #: Type of the values if the dataset is compressed; else of what is stored.
    nbytes: int
    kept: str = ""
    codec: Codec | None = None  # as requested
    #: For packed integers; their bound was requested for the values, unless `in_counts`.
    packing: Packing | None = None
    in_counts: bool = False
    recommended: Recommendation | None = None  # of what is, or could be, compressed
    regions: Regions = ()  # with bounds as requested
    note: str = ""  # why integers are kept losslessly
    chunks: tuple[int, ...] = ()
    has_small_chunks: bool = False

    @property
    def path(self) -> str:
        """The first path, which names the dataset in output."""
        return self.paths[0]

    @property
    def stored_codec(self) -> Codec | None:
        """The codec with its bound on the stored numbers."""
        return self.codec and self.of_stored(self.codec)

    def of_stored(self, codec: Codec) -> Codec:
        """Return a requested codec with its bound on the stored numbers."""
        if self.packing is None or self.in_counts:
            return codec
        return in_counts(codec, self.packing.scale)

    def open(self, file: h5py.File | None = None) -> h5py.Dataset:
        """Open the dataset, or its copy; an open dataset keeps HDF5's cache for its chunks."""
        return open_dataset(file or self.file, self.path)


def make_plans(file: h5py.File, wishes: Wishes) -> list[Plan]:
    """Decide what becomes of each dataset."""
    found = dataset_paths(file)
    # If several paths lead to a dataset, the names in its attributes count from each of them.
    named = paths_referred_to(Datasets(file, ((path,) for paths in found for path in paths)))
    return [
        _plan(file, paths, wishes, is_referred_to=not named.isdisjoint(paths)) for paths in found
    ]


def _plan(file: h5py.File, paths: tuple[str, ...], wishes: Wishes, *, is_referred_to: bool) -> Plan:
    dataset = open_dataset(file, paths[0])
    shape = dataset.shape
    kept = _obstacle(dataset)
    wish = Wish() if kept else wishes(paths, dataset)
    kept = kept or _objection(dataset, wish, is_referred_to=is_referred_to)
    packing, note = None, ""
    if not kept and is_integer(dataset.dtype):
        wish, packing, note = _for_integers(dataset, wish)
        kept = _objection_to_integers(paths[0], dataset, wish)
    elif not kept and wish.codec is not None:
        wish = dataclasses.replace(wish, codec=taking(wish.codec, dataset.dtype))
    plan = Plan(
        file=file,
        paths=paths,
        key=object_key(dataset.id),
        shape=shape,
        dtype=dtype_of(dataset),
        nbytes=dataset.id.get_storage_size() if kept else dataset.nbytes,
        kept=kept,
        recommended=None if kept and kept != NO_BOUND else wish.recommended,
    )
    if kept:
        return plan
    chunks = chunk_shape(plan.path, dataset, wish.chunks)
    return dataclasses.replace(
        plan,
        codec=wish.codec,
        packing=packing,
        in_counts=wish.in_counts,
        regions=wish.regions,
        note=note,
        chunks=chunks,
        has_small_chunks=is_small(shape, chunks, dataset.dtype.itemsize),
    )


def _for_integers(dataset: h5py.Dataset, wish: Wish) -> tuple[Wish, Packing | None, str]:
    """Return what is requested for integers, their packing, and why they are kept losslessly."""
    assert wish.codec is not None
    packing, problem = None, ""
    try:
        packing = Packing.of(dataset, dataset.dtype)
    except H5LossyError as error:
        problem = str(error)
    codec, why = for_integers(
        wish.codec,
        dataset.dtype,
        packing,
        fill_value=missing_when_stored(dataset).fill,
        is_asked_for=wish.has_rule and not problem,
        is_in_counts=wish.in_counts,
    )
    kept = None if codec.lossless else packing
    return dataclasses.replace(wish, codec=codec), kept, why and (problem or why)


def _objection_to_integers(path: str, dataset: h5py.Dataset, wish: Wish) -> str:
    """Return why integers that nobody named should keep their filters."""
    assert wish.codec is not None
    chunks = dataset.chunks
    filters = [number for number, *_ in filters_in(dataset.id.get_create_plist())]
    is_asked_for = wish.is_named or not wish.codec.lossless
    if is_asked_for or not (chunks and filters) or FILTER_ID in filters:
        return ""
    found = listed_chunks(dataset).places
    before = after = 0
    for start in found[:: -(-len(found) // _SAMPLE_CHUNKS) or 1].tolist():
        inside = tuple(slice(s, s + c) for s, c in zip(start, chunks, strict=True))
        before += stored_size(dataset.id.id, tuple(start)) or 0
        with name_in_read_errors(path):
            values = dataset[inside]
        after += len(encode(values, wish.codec, fill_value=None))
    return SMALLER if after > before else ""


def _obstacle(dataset: h5py.Dataset) -> str:
    """Return why a dataset can't be compressed; nothing if it can."""
    type_id, creation = dataset.id.get_type(), dataset.id.get_create_plist()
    if not any(map(type_id.equal, _TYPES)):
        whys = {h5t.ENUM: "an enumeration", h5t.FLOAT: "not IEEE floats of 16, 32 or 64 bits"}
        return whys.get(type_id.get_class(), "not floats, complex numbers or integers")
    if not dataset.shape:
        return "scalar or null"
    if creation.get_layout() == h5d.VIRTUAL:
        return "virtual"
    if creation.get_external_count():
        return "external storage"
    if 0 in dataset.shape and dataset.maxshape == dataset.shape:
        return "empty"
    filters = absent_filters(with_filters(dataset).id.get_create_plist())
    return f"no filter {filters} here" if filters else ""


def _objection(dataset: h5py.Dataset, wish: Wish, *, is_referred_to: bool) -> str:
    """Return why a dataset should not be compressed; nothing if it should."""
    if wish.is_skipped:
        return "skipped"
    role = "" if wish.is_named else _role(dataset, wish, is_referred_to=is_referred_to)
    if wish.codec is None:
        return role if wish.recommended and role else NO_BOUND
    why = _objection_to_type(dataset, wish.codec)
    if why:
        return why
    is_relative = wish.codec.bound.kind is BoundKind.RANGE_RELATIVE
    if is_relative and not dataset.id.get_storage_size():
        return "no values, so no range"
    if role:
        return role
    is_tiny = dataset.nbytes <= TINY_BYTES and dataset.maxshape == dataset.shape
    return "small" if is_tiny and not wish.is_named else ""


def _role(dataset: h5py.Dataset, wish: Wish, *, is_referred_to: bool) -> str:
    """Return why a dataset has to stay exact; nothing if it need not, or stays so."""
    if is_scale(dataset):
        return "dimension scale"
    is_exact = wish.codec is not None and wish.codec.lossless
    return REFERRED_TO if is_referred_to and not is_exact else ""


def _objection_to_type(dataset: h5py.Dataset, codec: Codec) -> str:
    """Return why values of a dataset's type can't have a bound; nothing if they can."""
    if codec.bound.kind is BoundKind.NOISE and not is_integer(dataset.dtype):
        return OF_COUNTS
    problem = codec.safeguards.problem_of(dataset.dtype)
    if problem and not is_integer(dataset.dtype):
        return problem
    if dataset.dtype.kind == "c" and not codec.lossless:
        try:
            fill_bits(own_fill_value(dataset), dataset.dtype)
        except InvalidArgumentError:
            return UNEQUAL_FILL
    return ""


def chunk_shape(path: str, dataset: h5py.Dataset, wanted: tuple[int, ...] | str) -> tuple[int, ...]:
    """Return the chunks for a dataset."""
    size, most = dataset.dtype.itemsize, dataset.maxshape
    if wanted == "keep" and dataset.chunks and _fits_frame(dataset.chunks, size):
        return tuple(dataset.chunks)
    if isinstance(wanted, str):
        access = access_of("auto" if wanted == "keep" else wanted)
        return chunks_for(dataset.shape, dataset.dtype, access, maxshape=most)
    chunks = tuple(n if m is None else min(n, m) for n, m in zip(wanted, most, strict=True))
    if not _fits_frame(chunks, size):
        raise InvalidArgumentError(
            f"chunks of {'x'.join(map(str, chunks))} are too large for {path}: a chunk takes less "
            "than 4 GiB"
        )
    return chunks


def _fits_frame(chunks: tuple[int, ...], size: int) -> bool:
    """Return whether a frame can hold a chunk."""
    return math.prod(chunks) * size < 2**32 - 40


def require_possible_index(plan: Plan, most: tuple[int | None, ...]) -> None:
    """Raise if HDF5 would make an index for more chunks than a disk can hold."""
    if None in most:
        return
    count = math.prod(-(-m // c) for m, c in zip(most, plan.chunks, strict=True) if m)
    if count > _MOST_CHUNKS:
        raise InvalidArgumentError(
            f"its maximal extents {most} hold {count} chunks of {plan.chunks}, and at most "
            f"{_MOST_CHUNKS} are possible, as HDF5 makes an index for all of them: give larger "
            "--chunks, or make an extent unlimited"
        )
