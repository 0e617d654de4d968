# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Fields whose neighbours are compared along some axes only: each slice along these on its own.

Members, times and levels are not neighbours. Each slice is assessed like a field, and the sums over
all slices give the numbers of the report.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._blocks import blocks
from h5lossy._safeguards import NO_SAFEGUARDS
from h5lossy.assessment import _numbers as numbers
from h5lossy.assessment._climate import powers
from h5lossy.assessment._fields import Layout, position
from h5lossy.assessment._inputs import Input
from h5lossy.assessment._passes import Passes, Results, Task
from h5lossy.assessment._undefined import OVERFLOW, Undefined, fit
from h5lossy.assessment.schema import PerSlice, SliceNumbers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from h5lossy._blocks import Block
    from h5lossy.assessment._climate import Power
    from h5lossy.assessment._fields import Fields

    #: A number per slice, NaN if it has none, and conditions with the reason for that: the first
    #: counts.
    Numbers = tuple[npt.NDArray[np.float64], list[tuple[Any, str]]]

#: What is computed slice by slice. All else concerns single points, or has slices of its own.
OF_NEIGHBOURS = frozenset({"ssim", "derivatives", "autocorrelation", "spectrum"})

#: Maximum number of slices for spectra: one takes about a millisecond, however small the slice is.
_MOST_SLICES = 1 << 16

#: Maximum number of slices whose numbers are listed in a report.
_MOST_LISTED = 4096

#: The fraction of the memory limit for slices that are read together. The next ones need as much
#: again, and a source may need twice that while it computes its values.
_OF_LIMIT = 0.2


def find(
    task: Task, memory_limit: int, progress: Callable[[int, int], object]
) -> tuple[Results, SliceSums | None]:
    """Read the fields of a task as often as its metrics require.

    Return the results, and the sums over slices if neighbours are compared slice by slice.
    """
    fields = task.fields
    if fields.slices is None or not task.groups & OF_NEIGHBOURS:
        return Passes(task, memory_limit, progress).run(), None
    done = whole = 0

    def advance(read: int, total: int) -> None:
        nonlocal done, whole
        done, whole = total, total + fields.nbytes
        progress(read, whole)

    def advance_slices(points: int) -> None:
        nonlocal done
        done += points * fields.dtype.itemsize
        progress(done, whole)

    found = Passes(replace(task, groups=task.groups - OF_NEIGHBOURS), memory_limit, advance).run()
    sums = SliceSums(task)
    if not sums.why:
        sums.read(memory_limit, advance_slices)
    return found, sums


class SliceSums:
    """The sums of stencils, lags and windows over all slices, and the numbers of each slice."""

    def __init__(self, task: Task) -> None:
        layout = task.fields.slices
        assert layout is not None
        self.layout = layout
        self.grid = tuple(layout.full_shape[axis] for axis in layout.others)
        decoded = copy.copy(task.fields.decoded)
        decoded.mask = None  # points that it alone masks concern metrics of points only
        self._task = replace(
            task,
            fields=replace(task.fields, layout=layout, decoded=decoded, stored=None),
            groups=task.groups & OF_NEIGHBOURS,
            bound=None,
            safeguards=NO_SAFEGUARDS,
            own_metrics=(),
            weights=None,
        )
        self.params = self._task.params(Fraction(0), None)  # of a slice
        self.why = self._why_not(task.fields)
        self.power: Power | str = "there is no slice"
        count = 0 if self.why else math.prod(self.grid)
        self._is_found = np.zeros(count, np.bool_)
        self._found = np.zeros(count, _native.SLICE_RESULT_DTYPE)
        self._deviations = np.full(count, np.nan)  # of spectra
        self._no_deviation = ""  # why a slice has no deviation
        self._sums = _native.new_state(self.params)

    def _why_not(self, fields: Fields) -> str:
        count = math.prod(self.grid)
        if fields.why_not_read:
            return fields.why_not_read
        if count > _MOST_SLICES:
            return f"of {count} slices at most {_MOST_SLICES} can be taken; choose other axes"
        return "" if fields.original.size else numbers.NO_POINTS

    def read(self, memory_limit: int, progress: Callable[[int], object]) -> None:
        """Read all slices, those of a chunk together; `progress` takes the number of points."""
        fields, layout = self._task.fields, self.layout
        most = int(memory_limit * _OF_LIMIT)
        # On a GPU, and if several do not fit in memory, each slice is read like a field.
        is_apart = fields.device is not None or fields.slice_bytes(layout) > most
        at_once = (1,) * len(self.grid) if is_apart else fields.slices_at_once(layout, most)
        for block in blocks(self.grid, at_once):
            if is_apart:
                self._read_one(block, memory_limit)
            else:
                self.add(block, *fields.read_slices(layout, block), memory_limit)
            progress(math.prod(s.stop - s.start for s in block) * math.prod(layout.shape))

    def add(self, block: Block, x: Any, y: Any, mask: Any, memory_limit: int) -> None:
        """Assess slices that are stacked along the first axis of arrays."""
        found = np.zeros(len(x), _native.SLICE_RESULT_DTYPE)
        found["value_range"] = self._value_ranges(x, mask)
        self._sums.slices(x, y, mask, found)
        places = self._places(block)
        self._found[places], self._is_found[places] = found, True
        if "spectrum" not in self._task.groups:
            return
        for i, place in enumerate(places.tolist()):
            own = replace(
                self._task.fields,
                original=Input(x[i], "original"),
                decoded=Input(y[i], "decoded"),
                mask=None if mask is None else Input(mask[i], "mask"),
                layout=Layout(full_shape=x[i].shape, axes=tuple(range(x[i].ndim))),
            )
            self._add_power(powers(own, memory_limit), place)

    def _read_one(self, block: Block, memory_limit: int) -> None:
        """Read a slice like a field."""
        [place] = self._places(block).tolist()
        at = self.layout.at_index([s.start for s in block])
        task = replace(self._task, fields=replace(self._task.fields, layout=at))
        one = Passes(task, memory_limit, lambda *_: None).run()
        assert one.state is not None
        self._sums.merge(one.state)
        known = vars(one.points) | vars(one.field)
        known["value_range"] = math.nan if one.value_range is None else one.value_range
        self._found[place] = tuple(known[name] for name in self._found.dtype.names or ())
        self._is_found[place] = True
        if one.power is not None:
            self._add_power(one.power, place)

    def _places(self, block: Block) -> npt.NDArray[np.int64]:
        """Return the numbers of some slices in C order."""
        return np.arange(math.prod(self.grid)).reshape(self.grid)[block].reshape(-1)

    def _value_ranges(self, x: npt.NDArray[Any], mask: npt.NDArray[Any] | None) -> Any:
        """Return the ranges for SSIM; NaN if the library finds the range, or there is none."""
        options, missing = self._task.options, self._task.fields.missing
        if options.data_range is not None:
            return float(options.data_range)
        if x.dtype.kind == "f" or "ssim" not in self._task.groups:
            return math.nan
        valid = [one[is_data] for one, is_data in zip(x, missing.is_data(x, mask), strict=True)]
        return [float(int(v.max()) - int(v.min())) if v.size else math.nan for v in valid]

    def _add_power(self, power: Power | str, place: int | None = None) -> None:
        """Add the power of the slice at `place`, or of several slices if that is None."""
        if not isinstance(power, str):
            self.power = power if isinstance(self.power, str) else self.power + power
        elif isinstance(self.power, str):
            self.power = power
        if place is not None:
            undefined = Undefined()
            deviation = numbers.spectrum(power, undefined).max_deviation
            if deviation is None:
                self._no_deviation = self._no_deviation or next(iter(undefined.values()))
            else:
                self._deviations[place] = deviation

    def merge(self, other: SliceSums) -> None:
        """Add the results of other slices."""
        self._sums.merge(other._sums)
        self._found[other._is_found] = other._found[other._is_found]
        self._deviations[other._is_found] = other._deviations[other._is_found]
        self._is_found |= other._is_found
        self._add_power(other.power)
        self._no_deviation = self._no_deviation or other._no_deviation

    @property
    def field(self) -> _native.FieldResult:
        """The sums over all slices; the worst window is at a place in `worst_slice`."""
        field, worst = self._sums.field_result(), self._worst
        if worst is None:
            return field
        at = tuple(self._found["window_at"][worst].tolist())
        return replace(field, window_at=at)

    @property
    def _worst(self) -> int | None:
        """The number of the slice with the worst window."""
        with_windows = np.flatnonzero(self._found["windows"])
        if not with_windows.size:
            return None
        return int(with_windows[self._found["window_worst"][with_windows].argmax()])

    @property
    def worst_slice(self) -> Layout:
        """The layout at the slice with the worst window."""
        worst = self._worst
        if worst is None:
            return self.layout
        return self.layout.at_index(position(worst, self.grid))

    @property
    def value_range(self) -> float | None:
        """The largest range of a slice."""
        known = self._found["value_range"][self._is_found]
        known = known[~np.isnan(known)]
        return float(known.max()) if known.size else None

    def result(self, undefined: Undefined) -> PerSlice:
        """Return the numbers of each slice, and their worst and mean."""
        places = np.flatnonzero(self._is_found)
        if self.why or not places.size:
            undefined["per_slice"] = self.why or numbers.NO_POINTS
        each: dict[str, Any] = {}
        for name, (values, whys) in self._numbers(places).items() if places.size else ():
            is_known = ~np.isnan(values)
            known, at = values[is_known], places[is_known]
            if len(known) < len(values):
                first = int(is_known.argmin())
                why = next(reason for is_so, reason in whys if (is_so & ~is_known)[first])
                undefined[f"per_slice.{name}"] = (
                    f"{len(values) - len(known)} of {len(values)} slices have none: {why}"
                )
            worst = int(np.abs(known).argmax()) if known.size else None
            listed = values[: len(values) if len(values) <= _MOST_LISTED else 0]
            each[name] = SliceNumbers(
                worst=None if worst is None else float(known[worst]),
                worst_at=None if worst is None else position(int(at[worst]), self.grid),
                mean=math.fsum(known.tolist()) / len(known) if known.size else None,
                values=tuple(None if math.isnan(v) else v for v in listed.tolist()),
            )
        return PerSlice(axes=self.layout.others, shape=self.grid, **each)

    def _numbers(self, places: npt.NDArray[np.intp]) -> dict[str, Numbers]:
        """Return the numbers of some slices, as `_numbers` defines them for a field."""
        found, groups = self._found[places], self._task.groups
        with np.errstate(all="ignore"):
            each = _of_points(found)
            if "ssim" in groups:
                each["one_minus_ssim"] = _of_windows(found, self.layout, self.params.window)
            if "derivatives" in groups:
                each |= _of_derivatives(found)
        if "spectrum" in groups:
            each["spectrum_deviation"] = self._deviations[places], [(True, self._no_deviation)]
        return each


def _of_points(found: npt.NDArray[Any]) -> dict[str, Numbers]:
    """Return the numbers of points: `numbers.errors` and `numbers.correlation`."""
    low, high, mean = found["error_min"], found["error_max"], found["mean_error"]
    has_none = found["valid"] == 0
    vx, ve, c = found["squares_original"], found["squares_error"], found["products"]
    has_x, has_e = _fit(found)
    is_known = has_x & has_e
    mse = np.where(has_e, ve, np.nan) / found["valid"] + mean * mean
    is_constant = [found[f"{name}_min"] == found[f"{name}_max"] for name in ("original", "decoded")]
    has_moments = is_known & (vx > 0) & (vx + 2 * c + ve > 0)
    none = (has_none, numbers.NO_POINTS)
    constant = (is_constant[0] | is_constant[1], numbers.CONSTANT)
    rmse = np.where(low == high, np.abs(low), np.sqrt(np.where(mse < 0, 0.0, mse)))
    pearson = numbers.pearson(vx, ve, c)[1]
    return {
        "max_abs": _known(np.maximum(high, -low), [none]),
        "rmse": _known(rmse, [none]),
        "mean": _known(mean, [none]),
        "one_minus_pearson": _known(pearson, [none, constant, (~has_moments, OVERFLOW)]),
    }


def _of_windows(found: npt.NDArray[Any], layout: Layout, sides: tuple[int, ...]) -> Numbers:
    """Return 1 - SSIM: `numbers.similarity`."""
    value_range = found["value_range"]
    short = numbers.too_short(layout.shape, sides)
    return _known(
        found["window_sum"] / found["windows"],
        [
            (bool(short), short),
            (np.isnan(value_range), numbers.NO_ORIGINAL),
            (value_range == 0, numbers.CONSTANT_ORIGINAL),
            (np.isinf(value_range), OVERFLOW),
            (found["windows"] == 0, numbers.NO_WINDOW),
        ],
    )


def _of_derivatives(found: npt.NDArray[Any]) -> dict[str, Numbers]:
    """Return root mean squares of derivatives: `numbers.derivatives`."""
    has_x, has_e = _fit(found)
    is_known = {"gradient": has_x & has_e, "laplacian": has_e}
    n = found["interior"]
    none = (n == 0, numbers.NO_NEIGHBOURS)
    return {
        f"{name}_rmse": _known(
            np.sqrt(found[f"{name}_error_squares"] / n),
            [none, (~(fits & fit(found[f"{name}_error_max"])), OVERFLOW)],
        )
        for name, fits in is_known.items()
    }


def _fit(found: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return whether sums of squares fit in float64: of the original, and of the error."""
    of_x, of_e = (
        fit(found[f"{name}_min"]) & fit(found[f"{name}_max"]) for name in ("original", "error")
    )
    return of_x, of_e


def _known(values: npt.NDArray[np.float64], whys: list[tuple[Any, str]]) -> Numbers:
    """Replace numbers for which there is a reason by NaN."""
    for is_so, _ in whys:
        values = np.where(is_so, np.nan, values)
    values = np.where(np.isfinite(values), values, np.nan)
    return values, [*whys, (True, OVERFLOW)]
