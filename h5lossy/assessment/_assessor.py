# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`Assessor`: the same numbers as `assess`, from planes that arrive one after the other."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._bounds import BoundKind
from h5lossy._errors import InvalidArgumentError
from h5lossy._values import no_number, unmasked
from h5lossy.assessment._fields import MASK_DTYPE, Fields
from h5lossy.assessment._inputs import Input, combined_mask, common_dtype, require_bound
from h5lossy.assessment._make_report import make_report
from h5lossy.assessment._options import AssessOptions, checked_spacing, takes_options
from h5lossy.assessment._passes import Results, Task, groups_for, halo_of
from h5lossy.assessment._sliced import OF_NEIGHBOURS, SliceSums
from h5lossy.assessment._undefined import Undefined
from h5lossy.assessment._walk import first_cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from h5lossy.assessment.report import Report


_NAMES = ("original", "decoded", "mask")

#: For slices whose power spectrum is computed, which no assessor does.
_MEMORY_LIMIT = 1 << 28


class Assessor:
    """Assess fields that arrive plane by plane, as from a simulation, or in several processes.

    Parameters
    ----------
    shape : tuple of int
        Of the whole fields.
    dtype : numpy dtype
        The type of both; any that `assess` takes.
    planes : tuple of int, optional
        (first, stop) along the first axis: the planes of this assessor, if others take the rest and
        `merge` combines the results. Default: all.
    metrics : str or iterable of str, optional
        Any of "ssim", "derivatives" and "autocorrelation"; all other metrics need the whole fields.
        Default: all three, but "ssim" only if `data_range` is given.
    **options
        As documented for `h5lossy.assessment.AssessOptions`. SSIM and a range-relative bound
        require `data_range`, the range of the original.

    Notes
    -----
    It may be pickled, and copied, at any time.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.sin(np.linspace(0, 9, 24_000)).reshape(24, 1000)
    >>> assessor = Assessor(x.shape, x.dtype, absolute=0.005, data_range=2.0)
    >>> for time in range(0, 24, 6):  # four steps of a simulation
    ...     now = x[time : time + 6]
    ...     assessor.update(now, np.round(now, 2))
    >>> report = assessor.result()
    >>> import h5lossy
    >>> report.ok, report.error == h5lossy.assess(x, np.round(x, 2)).error
    (True, True)
    """

    @takes_options
    def __init__(
        self,
        shape: Sequence[int],
        dtype: npt.DTypeLike,
        *,
        planes: tuple[int, int] | None = None,
        metrics: str | Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        if metrics is None:
            has_range = options.get("data_range") is not None
            metrics = ["derivatives", "autocorrelation", *(["ssim"] if has_range else [])]
        checked = AssessOptions(metrics=metrics, **options)
        self._task = whole = _task(tuple(int(n) for n in shape), np.dtype(dtype), checked)
        self._slices: SliceSums | None = None
        if whole.fields.slices is not None and whole.groups & OF_NEIGHBOURS:
            whole = replace(whole, groups=whole.groups - OF_NEIGHBOURS)
            self._slices = SliceSums(self._task)
        self._shape = self._task.fields.layout.full_shape
        first, stop = (0, self._shape[0]) if planes is None else planes
        if not 0 <= first < stop <= self._shape[0]:
            raise InvalidArgumentError(
                f"planes must be (first, stop) within 0 to {self._shape[0]}, got {planes!r}"
            )
        data_range = checked.data_range
        self._state = _native.new_state(whole.params(Fraction(data_range or 0), data_range))
        self._absent = self._task.absent(self._state.params)
        # A state knows whether a point is valid only if it was given that point. Points of the halo
        # belong to another assessor, so they must not count in `_state`.
        self._field_state = (
            self._state if stop == self._shape[0] else _native.new_state(self._state.params)
        )
        self._stop = stop
        self._next = first  # the next plane to be given
        self._own = first  # the first plane whose stencils, lags and windows are not computed yet
        self._held: list[npt.NDArray[Any]] = []  # planes from _own on

    @property
    def halo(self) -> int:
        """Number of planes after its own that an assessor also needs, up to the last plane."""
        return halo_of(self._state.params)

    @property
    def wanted(self) -> tuple[int, int]:
        """The planes (next, stop) that are still to be given."""
        return self._next, min(self._stop + self.halo, self._shape[0])

    def update(self, original: Any, decoded: Any, *, mask: Any = None) -> None:
        """Take the next planes.

        Parameters
        ----------
        original, decoded : array_like
            Any number of planes along the first axis.
        mask : array_like of bool or integers, optional
            Not 0 where a point is left out.

        Raises
        ------
        InvalidArgumentError
            If a shape does not fit, the mask is of another type, or there are more planes than
            wanted.
        """
        x, y = Input(original, "original"), Input(decoded, "decoded")
        shape, dtype = self._shape, self._task.fields.dtype
        came, own = common_dtype(x, y), self._task.fields.original
        if x.is_complex != own.is_complex:  # components are one more axis
            raise InvalidArgumentError(f"this assessor compares {own.given}, got {x.given}")
        begin, end = self.wanted
        if not x.shape or x.shape[1:] != shape[1:]:
            raise InvalidArgumentError(f"planes are of shape {shape[1:]}, got {x.shape}")
        if x.shape[0] > end - begin:
            raise InvalidArgumentError(
                f"planes {begin} to {end} are still to come, got {x.shape[0]} of them"
            )
        if came.itemsize > dtype.itemsize or came.kind != dtype.kind:
            raise InvalidArgumentError(f"this assessor compares {own.given}, got {x.given}")
        everything = tuple(slice(0, n) for n in x.shape)
        new = [x.read(everything, dtype), y.read(everything, dtype)]
        both = combined_mask(mask, x)
        if both is None:
            masked = np.zeros(x.shape, MASK_DTYPE)
        else:
            masked = both.read(everything, MASK_DTYPE)
        if y.mask is not None:  # points that only it masks are lost
            lost = np.ma.array(new[1], mask=y.mask & (masked == 0))
            new[1] = unmasked(lost, no_number(dtype))
        new.append(self._task.fields.missing.mark(new[0], masked))
        self._add(new)

    def _add(self, new: list[npt.NDArray[Any]]) -> None:
        plane = math.prod(self._shape[1:])
        count = min(len(new[0]), max(0, self._stop - self._next))
        x, y, mask = (part[:count].reshape(-1) for part in new)
        if count:
            self._state.points(self._next * plane, x, y, mask if mask.any() else None)
            if self._absent is not None:
                self._absent.add(self._next * plane, x, y, mask)
            if self._slices is not None:
                self._add_slices([part[:count] for part in new])
        self._next += len(new[0])
        if not self.halo:
            return
        if self._field_state is not self._state:
            x, y, mask = (part.reshape(-1) for part in new)
            self._field_state.points(0, x, y, mask if mask.any() else None)
        if self._held:
            new = [np.concatenate(pair) for pair in zip(self._held, new, strict=True)]
        complete = self._next if self._next == self._shape[0] else self._next - self.halo
        cut = first_cut(len(self._task.fields.layout.shape))
        if self._next < self.wanted[1]:  # slabs may be cut here without changing any sum
            complete = complete // cut * cut
        complete = min(complete, self._stop)
        if complete > self._own:
            self._take_fields(new, complete)
            new = [part[complete - self._own :] for part in new]
            self._own = complete
        self._held = [part.copy() for part in new]

    def _add_slices(self, planes: list[npt.NDArray[Any]]) -> None:
        """Assess the slices of complete planes."""
        assert self._slices is not None
        layout = self._slices.layout
        here = slice(self._next, self._next + len(planes[0]))
        block = (here, *(slice(0, n) for n in self._slices.grid[1:]))
        x, y, mask = map(layout.stacked, planes)
        self._slices.add(block, x, y, mask, _MEMORY_LIMIT)

    def _take_fields(self, parts: list[npt.NDArray[Any]], stop: int) -> None:
        """Take stencils, pairs and windows of the planes from `_own` to `stop`."""
        layout = self._task.fields.layout
        there = [part.reshape([part.shape[axis] for axis in layout.axes]) for part in parts]
        along = layout.axes[0] == 0
        origin = (self._own if along else 0, *(0,) * (len(layout.shape) - 1))
        self._field_state.field(
            _native.Piece(
                original=there[0],
                decoded=there[1],
                mask=there[2] if there[2].any() else None,
                origin=origin,
                own_origin=origin,
                own_extent=(stop - self._own, *layout.shape[1:]) if along else layout.shape,
            )
        )

    def merge(self, other: Assessor) -> None:
        """Add what an assessor of other planes of the same fields has found.

        Parameters
        ----------
        other : Assessor
            With the same arguments except `planes`. The result does not depend on the order, except
            for the last few of 16 digits.

        Raises
        ------
        InvalidArgumentError
            If either waits for more planes, both took the same ones, or their fields differ.
        """
        if self._arguments != other._arguments:
            raise InvalidArgumentError("both assessors must have the same arguments but for planes")
        self._check_complete()
        other._check_complete()
        own, more = self._state.points_result().count, other._state.points_result().count
        size = math.prod(self._shape)
        if own + more > size:
            raise InvalidArgumentError(
                f"both assessors took some planes: {own} and {more} points, of {size}"
            )
        if self._field_state is self._state:
            self._field_state = copy.deepcopy(self._state)
        self._field_state.merge(other._field_state)
        self._state.merge(other._state)
        if self._absent is not None and other._absent is not None:
            self._absent.merge(other._absent)
        if self._slices is not None and other._slices is not None:
            self._slices.merge(other._slices)

    @property
    def _arguments(self) -> tuple[Any, ...]:
        """What must be equal in assessors that are merged."""
        fields, slices = self._task.fields, self._slices
        of_slices = None if slices is None else (fields.axes, slices.params)
        return self._shape, fields.missing, self._state.params, of_slices

    def _check_complete(self) -> None:
        begin, end = self.wanted
        if begin != end:
            raise InvalidArgumentError(f"planes {begin} to {end} are still to come")

    def result(self) -> Report:
        """Return the report.

        Returns
        -------
        Report
            On all planes of this assessor and of those that were merged.

        Raises
        ------
        InvalidArgumentError
            If planes are still to come.
        """
        self._check_complete()
        found = Results(
            params=self._state.params,
            points=self._state.points_result(),
            field=self._field_state.field_result(),
            value_range=self._task.options.data_range,
            undefined=Undefined(),
            absent=self._absent,
        )
        return make_report(self._task, found, self._slices)


def _task(shape: tuple[int, ...], dtype: np.dtype[Any], options: AssessOptions) -> Task:
    """Decide what an assessor computes."""
    if not shape or min(shape) < 1:
        raise InvalidArgumentError(f"shape must be positive along every axis, got {shape!r}")
    more = options.groups - {"ssim", "derivatives", "autocorrelation"}
    if more or options.own_metrics:
        raise InvalidArgumentError(
            "an Assessor computes ssim, derivatives and autocorrelation; other metrics need the "
            f"whole fields (assess), got {', '.join(sorted(more)) or 'metrics of your own'}"
        )
    # Only shape and type of the fields are known yet.
    x, y = (Input(np.broadcast_to(np.zeros((), dtype), shape), name) for name in _NAMES[:2])
    x.values = y.values = None  # otherwise pickle would write all of them
    fields = Fields.of(
        x, y, None, fill=options.fill_value, missing=options.missing_value, axes=options.axes
    )
    if fields.slices is not None and 0 in fields.axes:
        raise InvalidArgumentError(
            f"an Assessor takes planes along axis 0, so axes must be all axes longer than 1, or "
            f"without axis 0, got {options.axes!r}"
        )
    bound = options.given_bound
    is_relative = bound is not None and bound.kind is BoundKind.RANGE_RELATIVE
    needs_range = "ssim" in options.groups and fields.slices is None
    if options.data_range is None and (needs_range or is_relative):
        raise InvalidArgumentError(
            "SSIM and a range-relative bound require data_range, the original's range"
        )
    require_bound(x, y, bound)
    return Task(
        fields=fields,
        options=options,
        bound=bound,
        bound_source="given",
        groups=groups_for(x, options),
        spacing=checked_spacing(options.spacing, len(x.shape)),
    )
