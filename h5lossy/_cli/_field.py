# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The datasets that ``sweep`` and ``tune`` work on, and the codecs to try."""

from __future__ import annotations

import dataclasses
import math
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from h5lossy import read
from h5lossy._cli._files import datasets_in, open_file
from h5lossy._cli._options import CODEC_NAMES, Request, own_settings, parsed, range_options
from h5lossy._cli._patterns import Chunks, parse_chunks, require_match
from h5lossy._cli._rules import Rules
from h5lossy._codecs import Auto, Codec, choice_text
from h5lossy._dims import axes_of, spatial
from h5lossy._frames import takes
from h5lossy._globs import names_one
from h5lossy._names import split_place
from h5lossy._packing import Packing
from h5lossy._repacking.objects import with_filters
from h5lossy._repacking.planning import Plan, chunk_shape, make_plans
from h5lossy._values import checked_dtype, fill_bits, has_numbers, is_integer, own_fill_value
from h5lossy.assessment.tradeoff import Field
from h5lossy.missing import missing_when_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import h5py
    import numpy.typing as npt


class _Numbers:
    """The stored numbers of a dataset, without unpacking or other effects of attributes."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self.shape: tuple[int, ...] = dataset.shape
        self.dtype: np.dtype[Any] = dataset.dtype
        self.chunks: tuple[int, ...] | None = dataset.chunks

    def __getitem__(self, where: tuple[slice, ...]) -> npt.NDArray[Any]:
        return np.asarray(read(self._dataset, where))


@dataclass(frozen=True, kw_only=True)
class Dataset(Field):
    """A dataset that is read part by part, and the chunks to try."""

    file: str
    path: str
    is_packed: bool  # then bounds are in stored counts


#: The candidates by name: codecs in their default mode, and auto for the smallest frames.
CANDIDATES: dict[str, Callable[..., Codec]] = {
    **CODEC_NAMES,
    "auto-size": partial(Auto, prefer="size"),
}

#: The default candidates: all except the one that chooses among the others for speed.
_CODECS = ",".join(name for name, codec in CANDIDATES.items() if codec is not Auto)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the options of `choice_options` say: which datasets, and which codecs to try."""

    place: str  # of a file, or file.h5:/path
    pattern: str | None
    chunks: str  # as for ``repack``
    codecs: str
    missing_value: tuple[float, ...]
    confirm_range: bool

    @property
    def candidates(self) -> list[Callable[..., Codec]]:
        """The candidates; each makes a codec from a bound."""
        found = []
        for name in self.codecs.split(","):
            codec = CANDIDATES.get(name.strip().lower())
            if codec is None:
                raise click.UsageError(f"a codec is one of {', '.join(CANDIDATES)}, got {name!r}")
            found.append(codec)
        return found

    @contextmanager
    def one(self) -> Iterator[Dataset]:
        """Open the file, and yield the one dataset."""
        file, patterns, wanted = self._parsed()
        with open_file(file) as opened:
            datasets = datasets_in(opened, patterns)
            found = [name for name, one in datasets.items() if has_numbers(one) and one.shape]
            fields = [name for name in found if not is_integer(datasets[name].dtype)]
            if len(fields) == 1:  # a single dataset needs no name
                found = fields
            if not found:
                raise click.UsageError(
                    "no dataset there has numbers that can have a bound; scalars, text and enums "
                    "cannot"
                )
            if len(found) != 1:
                names = ", ".join(found[:6])
                raise click.UsageError(f"choose one dataset with -d; these are there: {names}")
            yield self._field(file, found[0], with_filters(datasets[found[0]]), wanted)

    @contextmanager
    def each(self) -> Iterator[dict[str, Callable[[], Dataset]]]:
        """Open the file, and yield a reader for each dataset that ``repack`` would compress."""
        file, patterns, wanted = self._parsed()
        with open_file(file) as opened:
            rules = Rules(request=Request(bound={"absolute": 1.0}), packed_units=True)
            # Integers that are not packed may be indices or labels: they have to be named.
            plans = [
                plan
                for plan in make_plans(opened, rules.wish)
                if plan.codec and (patterns or not plan.note)
            ]
            for one in patterns:
                require_match("--dataset", one, {path: 0 for plan in plans for path in plan.paths})

            def read_one(plan: Plan) -> Dataset:
                return self._field(file, plan.path, plan.open(), wanted)

            yield {
                plan.path: partial(read_one, plan)
                for plan in plans
                if not patterns or any(names_one(plan.paths, one) for one in patterns)
            }

    def _parsed(self) -> tuple[str, list[str], Chunks]:
        """Return the file, the globs that name datasets in it, and the chunks."""
        file, path = split_place(self.place)
        return file, [one for one in (path, self.pattern) if one], parse_chunks(self.chunks)

    def _field(self, file: str, name: str, dataset: h5py.Dataset, wanted: Chunks) -> Dataset:
        """Return a dataset with its own description."""
        fill_bits(own_fill_value(dataset), checked_dtype(dataset.dtype))
        if not dataset.size:
            raise click.UsageError(f"{name} has no values: its shape is {dataset.shape}")
        if isinstance(wanted, tuple):
            if len(wanted) != dataset.ndim:
                raise click.UsageError(
                    f"--chunks gives {len(wanted)} extents, and {name} has {dataset.ndim} axes"
                )
            shape = tuple(min(c, n) for c, n in zip(wanted, dataset.shape, strict=True))
        else:
            shape = chunk_shape(name, dataset, wanted)
        axes, long = axes_of(dataset), [i for i, n in enumerate(dataset.shape) if n > 1]
        return Dataset(
            file=file,
            path=name,
            values=_Numbers(dataset),
            chunks=shape,
            axes=spatial(axes, tuple(long)) if axes and long else None,
            is_packed=is_integer(dataset.dtype) and Packing.of(dataset, dataset.dtype) is not None,
            missing=missing_when_stored(dataset, self.missing_value),
            confirm_range=self.confirm_range,
        )


#: Gives a command the options of a `Choice`; it gets `choice`.
choice_options = parsed(
    (
        click.argument("place", metavar="FILE"),
        click.option(
            "-d", "--dataset", "pattern", metavar="GLOB", help="The dataset, if there are several."
        ),
        click.option(
            "--codecs",
            default=_CODECS,
            show_default=True,
            metavar="NAMES",
            help="Which codecs, separated by commas.",
        ),
        click.option(
            "--chunks", default="keep", show_default=True, help="Chunk shape, as for repack."
        ),
        range_options,
    ),
    [field.name for field in dataclasses.fields(Choice)],
    "choice",
    lambda typed: Choice(**typed),
)


def taking(
    candidates: Sequence[Callable[..., Codec]], dtype: np.dtype[Any]
) -> list[Callable[..., Codec]]:
    """Return the candidates that take a type."""
    found = [make for make in candidates if takes(make(lossless=True), dtype)]
    if not found:
        raise click.UsageError(f"none of --codecs takes {dtype}; give pfpl, for example")
    return found


def candidate_name(codec: Codec) -> str:
    """Return the name of a candidate."""
    return "-".join([codec.codec_name, *map(choice_text, own_settings(codec).values())])


def plain_number(value: float | None) -> float | str | None:
    """Return a form for JSON: infinities are text, as in reports."""
    return str(value) if value is not None and math.isinf(value) else value
