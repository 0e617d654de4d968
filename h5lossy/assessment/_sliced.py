# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Fields whose neighbours are compared along some axes: each slice along these on its own.

Members, times and levels are no neighbours. A slice is assessed as a field is (`Passes`), and the
sums of all slices become the numbers of the report.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from h5lossy import _native
from h5lossy._blocks import blocks
from h5lossy._safeguards import NO_SAFEGUARDS
from h5lossy.assessment import _numbers as numbers
from h5lossy.assessment._climate import Power
from h5lossy.assessment._fields import MASK_DTYPE, Fields, Layout
from h5lossy.assessment._inputs import Input
from h5lossy.assessment._passes import Passes, Results, Task
from h5lossy.assessment._undefined import Undefined, without_lost_sums
from h5lossy.assessment.schema import PerSlice, SliceNumbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: What is computed slice by slice; all else is of points, or has slices of its own.
OF_NEIGHBOURS = frozenset({"ssim", "derivatives", "autocorrelation", "spectrum"})

#: A slice takes about a millisecond however small it is.
_MOST_SLICES = 1 << 16

#: Most slices whose numbers are in a report one by one.
_MOST_LISTED = 4096

#: The fraction of the memory limit that slices take which are read together: what is read next to
#: them takes as much again, and a source may take twice that while it makes its values.
_OF_LIMIT = 0.2


def find(
    task: Task, memory_limit: int, progress: Callable[[int, int], object]
) -> tuple[Results, SliceSums | None]:
    """Read the fields of a task as often as its metrics require.

    Return what was found, and what of neighbours if these are compared slice by slice.
    """
    fields, layout = task.fields, task.fields.slices
    groups = task.groups & OF_NEIGHBOURS
    if layout is None or not groups:
        return Passes(task, memory_limit, progress).run(), None
    done = whole = 0

    def advance(read: int, total: int) -> None:
        nonlocal done, whole
        done, whole = total, total + fields.nbytes
        progress(read, whole)

    found = Passes(replace(task, groups=task.groups - OF_NEIGHBOURS), memory_limit, advance).run()
    sums = SliceSums(task)
    if not sums.why:
        for at, part in _slices(fields, layout, memory_limit):
            sums.add(at, part, memory_limit)
            done += math.prod(layout.shape) * fields.dtype.itemsize
            progress(done, whole)
    return found, sums


def _slices(fields: Fields, layout: Layout, memory_limit: int) -> Iterator[tuple[Layout, Fields]]:
    """Yield the slices in C order, each with its place; those of a chunk are read together."""
    inputs = [fields.original, fields.decoded, *filter(None, [fields.mask])]
    others = tuple(layout.full_shape[axis] for axis in layout.others)
    block = fields.slices_at_once(layout, int(memory_limit * _OF_LIMIT))
    if math.prod(block) == 1 or fields.device is not None or all(f.is_array for f in inputs):
        for at in layout.each():
            yield at, replace(_plain(fields), layout=at)
        return
    for own in blocks(others, block):
        along = replace(layout, axes=layout.others).full(own, slice(0, 1))
        whole = [slice(0, n) for n in layout.full_shape]
        selection = tuple(whole[axis] if axis in layout.axes else s for axis, s in enumerate(along))
        original, decoded, *mask = (
            Input(field.read(selection, dtype), field.name)
            for field, dtype in zip(inputs, (fields.dtype, fields.dtype, MASK_DTYPE), strict=False)
        )
        part = replace(
            _plain(fields), original=original, decoded=decoded, mask=mask[0] if mask else None
        )
        yield from slices_of(part, layout, [s.start for s in selection])


def slices_of(
    part: Fields, layout: Layout, start: Sequence[int]
) -> Iterator[tuple[Layout, Fields]]:
    """Yield the slices of a part of the fields that begins somewhere, and has them whole."""
    for at in Layout(full_shape=part.original.shape, axes=layout.axes).each():
        place = tuple(i + first for i, first in zip(at.at, start, strict=True))
        yield replace(layout, at=place), replace(part, layout=at)


def _plain(fields: Fields) -> Fields:
    """Leave out what concerns points alone, and what most of is not there."""
    decoded = copy.copy(fields.decoded)
    decoded.mask = None
    return replace(fields, decoded=decoded, stored=None)


class SliceSums:
    """The sums of stencils, lags and windows of all slices, and the numbers of each."""

    def __init__(self, task: Task) -> None:
        layout = task.fields.slices
        assert layout is not None
        self.layout = layout
        self._task = replace(
            task,
            groups=task.groups & OF_NEIGHBOURS,
            bound=None,
            safeguards=NO_SAFEGUARDS,
            own_metrics=(),
            weights=None,
        )
        self.why = self._why_not(task.fields)
        self.value_range: float | None = None  # the largest of a slice
        self.power: Power | str = "there is no slice"
        self._numbers: dict[tuple[int, ...], dict[str, float | None]] = {}
        self._reasons: dict[str, str] = {}
        self._sums: _native.AssessState | None = None
        self._worst: tuple[float, tuple[int, ...]] = (-1.0, ())

    def _why_not(self, fields: Fields) -> str:
        count = math.prod(self.layout.full_shape[axis] for axis in self.layout.others)
        if fields.why_not_read:
            return fields.why_not_read
        if count > _MOST_SLICES:
            return f"of {count} slices at most {_MOST_SLICES} can be taken; choose other axes"
        return "" if count else numbers.NO_POINTS

    def add(self, at: Layout, fields: Fields, memory_limit: int) -> None:
        """Assess the slice at a place."""
        task = replace(self._task, fields=fields)
        found = Passes(task, memory_limit, lambda *_: None).run()
        assert found.state is not None
        if self._sums is None:
            self._sums = _native.new_state(found.params)
        self._sums.merge(found.state)
        if found.field.windows:
            self._worst = max(
                self._worst,
                (found.field.window_worst, at.place(found.field.window_at)),
                key=lambda one: one[0],
            )
        if found.value_range is not None:
            self.value_range = max(self.value_range or 0.0, found.value_range)
        self._add_power(found.power)
        self._numbers[at.index] = self._of_one(found, at)

    def _add_power(self, power: Power | str | None) -> None:
        if isinstance(power, Power):
            self.power = power if isinstance(self.power, str) else self.power + power
        elif power is not None and isinstance(self.power, str):
            self.power = power

    def _of_one(self, found: Results, at: Layout) -> dict[str, float | None]:
        """Return the numbers of one slice."""
        task, undefined = self._task, Undefined()
        points, field = without_lost_sums(found.points, found.field)
        error = numbers.errors(points, at, None, undefined)
        correlation = numbers.correlation(points, undefined)
        one = {
            "max_abs": error.max_abs,
            "rmse": error.rmse,
            "mean": error.mean,
            "one_minus_pearson": correlation.one_minus_pearson,
        }
        if "ssim" in task.groups:
            sides, own = found.params.window, {"value_range": found.value_range}
            ssim = numbers.similarity(field, at, sides, undefined, step=found.params.step, **own)
            one["one_minus_ssim"] = ssim.one_minus_mean
        if "derivatives" in task.groups:
            slopes = numbers.derivatives(field, at, found.params.spacing, undefined)
            one |= {name: getattr(slopes, name) for name in ("gradient_rmse", "laplacian_rmse")}
        if "spectrum" in task.groups:
            one["spectrum_deviation"] = numbers.spectrum(found.power, undefined).max_deviation
        for name, value in one.items():
            if value is None:
                part = {"one_minus_ssim": "ssim", "one_minus_pearson": "correlation"}
                group = part.get(name, name.partition("_")[0])
                why = [w for key, w in undefined.items() if group in key] or [*undefined.values()]
                self._reasons.setdefault(name, why[0])
        return one

    def merge(self, other: SliceSums) -> None:
        """Add what was found of other slices."""
        if self._sums is None:
            self._sums = copy.deepcopy(other._sums)
        elif other._sums is not None:
            self._sums.merge(other._sums)
        ranges = [r for r in (self.value_range, other.value_range) if r is not None]
        self.value_range = max(ranges, default=None)
        self._add_power(other.power)
        self._worst = max(self._worst, other._worst, key=lambda one: (one[0], [-i for i in one[1]]))
        self._numbers = dict(sorted((self._numbers | other._numbers).items()))
        self._reasons = other._reasons | self._reasons

    @property
    def field(self) -> _native.FieldResult:
        """The sums of all slices."""
        state = self._sums or _native.new_state(self.params)
        return state.field_result()

    @property
    def params(self) -> _native.AssessParams:
        """The parameters of a slice."""
        fields = replace(self._task.fields, layout=self.layout)
        return replace(self._task, fields=fields).params(Fraction(0), None)

    @property
    def window_layout(self) -> Layout:
        """The layout at the worst window."""
        return replace(self.layout, at=self._worst[1] or (0,) * len(self.layout.full_shape))

    def result(self, undefined: Undefined) -> PerSlice:
        """Return the numbers of each slice, and the worst and the mean."""
        found = self._numbers
        names = next(iter(found.values()), {})
        if self.why or not names:
            undefined["per_slice"] = self.why or numbers.NO_POINTS
        each: dict[str, Any] = {}
        for name in names:
            known = {at: v for at, one in found.items() if (v := one[name]) is not None}
            if len(known) < len(found):
                undefined[f"per_slice.{name}"] = (
                    f"{len(found) - len(known)} of {len(found)} slices have none: "
                    f"{self._reasons[name]}"
                )
            worst = max(known, key=lambda at: abs(known[at]), default=None)
            each[name] = SliceNumbers(
                worst=None if worst is None else known[worst],
                worst_at=worst,
                mean=math.fsum(known.values()) / len(known) if known else None,
                values=tuple(one[name] for one in found.values())
                if len(found) <= _MOST_LISTED
                else (),
            )
        return PerSlice(
            axes=self.layout.others,
            shape=tuple(self.layout.full_shape[axis] for axis in self.layout.others),
            **each,
        )
