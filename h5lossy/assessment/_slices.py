# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Slices of both fields for a report's figure, reduced in size."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from h5lossy._blocks import block_shape, blocks
from h5lossy.assessment._fields import Layout
from h5lossy.assessment._sparse import MOST_READ
from h5lossy.assessment.schema import FieldSlice

if TYPE_CHECKING:
    import numpy.typing as npt

    from h5lossy.assessment._fields import Fields

#: Longest side of a slice, in points; longest line.
_LONGEST = 320
_LONGEST_LINE = 1200

#: How many bytes of a slice are read at once, as float64.
_PART_BYTES = 4 << 20


def take_slices(fields: Fields, max_at: tuple[int, ...] | None) -> tuple[FieldSlice, ...]:
    """Read the middle slice, and the one with the largest error, which is at `max_at`."""
    layout = Layout(full_shape=fields.layout.full_shape, axes=fields.axes[-2:])
    middle = layout.at_index([layout.full_shape[axis] // 2 for axis in layout.others])
    places = {"middle slice": middle}
    if max_at is not None:
        worst = layout.at_index([max_at[axis] for axis in layout.others])
        if worst != middle:
            places["slice with the largest error"] = worst
    return tuple(
        _take(replace(fields, layout=at), _title(what, fields, at))
        for what, at in places.items()
        if layout.shape and 0 < math.prod(layout.shape) <= MOST_READ
    )


def _title(what: str, fields: Fields, layout: Layout) -> str:
    """Name a slice by its place: ``middle slice: time 5 (1895.5 years)``, or ``[5, :, :]``."""
    if not layout.others:
        return "the whole field"
    if not fields.coordinates:
        index = (":" if axis in layout.axes else str(i) for axis, i in enumerate(layout.at))
        return f"{what} [{', '.join(index)}]"
    return f"{what}: {', '.join(fields.coordinates[a].at(layout.at[a]) for a in layout.others)}"


def _take(fields: Fields, title: str) -> FieldSlice:
    """Read a slice, with every n-th point."""
    rest = fields.layout.shape
    longest = _LONGEST if len(rest) > 1 else _LONGEST_LINE
    steps = tuple(max(1, -(-n // longest)) for n in rest)
    original, decoded, error = (
        np.empty([-(-n // step) for n, step in zip(rest, steps, strict=True)]) for _ in range(3)
    )
    for part in blocks(rest, block_shape(rest, steps, 8, most_bytes=_PART_BYTES)):
        x, y, valid = fields.part(part)
        every = tuple(slice(None, None, step) for step in steps)
        with np.errstate(over="ignore"):
            off = np.where(valid, y - x, np.nan)
        off[np.isinf(off)] = np.nan  # no colour for an error that float64 can't hold
        for axis, step in enumerate(steps):
            off = _largest_of(off, axis, step)
        to = tuple(
            slice(s.start // step, -(-s.stop // step)) for s, step in zip(part, steps, strict=True)
        )
        original[to] = np.where(valid, x, np.nan)[every]
        decoded[to] = np.where(valid, y, np.nan)[every]
        error[to] = off
    return FieldSlice(
        title=title,
        axes=fields.layout.axes,
        extent=rest,
        original=original,
        decoded=decoded,
        error=error,
    )


def _largest_of(error: npt.NDArray[np.float64], axis: int, step: int) -> npt.NDArray[np.float64]:
    """Reduce every `step` values along an axis to the one with the largest magnitude."""
    if step == 1:
        return error
    error = np.moveaxis(error, axis, 0)
    short = -len(error) % step
    padded = np.concatenate([error, np.full((short, *error.shape[1:]), np.nan)])
    groups = padded.reshape(-1, step, *error.shape[1:])
    sizes = np.where(np.isnan(groups), -1.0, np.abs(groups))
    best = np.take_along_axis(groups, sizes.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.moveaxis(best, 0, axis)
