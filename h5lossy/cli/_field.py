# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The one dataset that ``sweep`` and ``tune`` work on, and the codecs to try."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from h5lossy import read
from h5lossy._blocks import auto_chunks
from h5lossy._values import checked_dtype
from h5lossy.cli._files import datasets_in, is_float, open_file, split_place
from h5lossy.cli._options import CODEC_NAMES
from h5lossy.cli._patterns import parse_chunks
from h5lossy.missing import Missing, missing_when_stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from h5lossy.codecs import Codec


@dataclass(frozen=True, kw_only=True)
class Field:
    """A dataset in memory.

    Attributes
    ----------
    file, path : str
    values : numpy.ndarray
    chunks : tuple of int
    missing : Missing
        Which values are no data, as for `repack`.
    """

    file: str
    path: str
    values: npt.NDArray[Any]
    chunks: tuple[int, ...]
    missing: Missing


def read_field(
    place: str, pattern: str | None, chunks: str, missing_value: Sequence[float] = ()
) -> Field:
    """Read one dataset.

    Parameters
    ----------
    place : str
        A file, or file.h5:/path.
    pattern : str, optional
        Glob that names one dataset of the file.
    chunks : str
        "keep", "auto", or extents, as for ``repack``.
    missing_value : sequence of float, optional
        Missing values, in addition to those that the dataset declares.

    Returns
    -------
    Field

    Raises
    ------
    click.ClickException
        If there is not exactly one dataset, or chunks do not fit it.
    """
    file, path = split_place(place)
    wanted = parse_chunks(chunks)
    with open_file(file) as opened:
        patterns = [p for p in (path, pattern) if p]
        found = {
            name: d for name, d in datasets_in(opened, patterns).items() if is_float(d) and d.shape
        }
        if len(found) != 1:
            names = ", ".join(list(found)[:6]) or "none"
            raise click.UsageError(f"choose one float dataset with -d; these are there: {names}")
        [(name, dataset)] = found.items()
        dtype = checked_dtype(dataset.dtype)
        if isinstance(wanted, tuple):
            if len(wanted) != dataset.ndim:
                raise click.UsageError(
                    f"--chunks gives {len(wanted)} extents, and {name} has {dataset.ndim} axes"
                )
            shape = tuple(min(c, n) for c, n in zip(wanted, dataset.shape, strict=True))
        elif wanted == "keep" and dataset.chunks:
            shape = dataset.chunks
        else:
            shape = auto_chunks(dataset.shape, dataset.maxshape, dtype.itemsize)
        return Field(
            file=file,
            path=name,
            values=read(dataset),
            chunks=shape,
            missing=missing_when_stored(dataset, missing_value),
        )


def codecs_named(names: str) -> list[type[Codec]]:
    """Read a list of codecs.

    Parameters
    ----------
    names : str
        Separated by commas.

    Returns
    -------
    list of type of Codec

    Raises
    ------
    click.UsageError
        If there is none of a name.
    """
    found = []
    for name in names.split(","):
        codec = CODEC_NAMES.get(name.strip().lower())
        if codec is None:
            raise click.UsageError(f"a codec is one of {', '.join(CODEC_NAMES)}, got {name!r}")
        found.append(codec)
    return found


def plain_number(value: float | None) -> float | str | None:
    """Return what JSON can hold: infinities are text, as in reports.

    Parameters
    ----------
    value : float or None

    Returns
    -------
    float, str or None
    """
    return str(value) if value is not None and math.isinf(value) else value
