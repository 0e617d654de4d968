# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`Assessor`: the same numbers as `assess`, from planes that come one after the other."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy.assessment._assess import Assessment, bound_of, make_settings, reach
from h5lossy.assessment._inputs import Input, Mask, common_dtype, missing_in
from h5lossy.assessment._walk import Fields, Layout
from h5lossy.errors import InvalidArgumentError
from h5lossy.missing import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from h5lossy.assessment.report import Report
    from h5lossy.bounds import ErrorBound


class _ToCome(Input):
    """A field of which only shape and type are known."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
        self.values = None
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.chunks = None
        self.is_array = self.is_contiguous = False
        self.device = None
        self.threads = None
        self.dataset = None
        self.mask = None
        self.packing = None
        self.units = None
        self.missing = Missing(dtype)


def _tell_nobody(_done: int, _total: int) -> None:
    """Take the progress, which the caller of `Assessor.update` knows; no lambda can be pickled."""


class Assessor:
    """Assess fields that come plane by plane, as a simulation makes them, or in several processes.

    Parameters
    ----------
    shape : tuple of int
        Of the whole fields.
    dtype : numpy dtype
        float32 or float64, of both.
    planes : tuple of int, optional
        (first, stop) along the first axis: the planes that this assessor answers for, where others
        take the rest and `merge` puts them together. Default: all.
    absolute, pointwise_relative, range_relative, lossless, bound, need : optional
        As for `assess`.
    metrics : str or iterable of str, optional
        As for `assess`, but for "climate", "spectrum", "per_chunk", "pointwise", "ssim_zchecker"
        and your own, which need the fields. Default: "standard" without the map of chunks, and
        without "ssim" where there is no `data_range`.
    data_range : float, optional
        Range of the original, known beforehand: SSIM and a range-relative bound need it.
    fill_value : optional
        As for `assess`; there is none by default.
    missing_value, spacing, ssim, lags, threshold_crossings, relative_threshold, threads : optional
        As for `assess`.

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

    def __init__(
        self,
        shape: Sequence[int],
        dtype: npt.DTypeLike,
        *,
        planes: tuple[int, int] | None = None,
        absolute: float | None = None,
        pointwise_relative: float | None = None,
        range_relative: float | None = None,
        lossless: bool = False,
        bound: ErrorBound | None = None,
        need: str | None = None,
        metrics: str | Iterable[str] | None = None,
        data_range: float | None = None,
        fill_value: float | Missing | None = None,
        missing_value: float | Sequence[float] = (),
        spacing: float | Sequence[float] | None = None,
        ssim: Mapping[str, int] | None = None,
        lags: int = 10,
        threshold_crossings: Mapping[str, float] | None = None,
        relative_threshold: float = 1e-4,
        threads: int | None = None,
    ) -> None:
        whole = tuple(int(n) for n in shape)
        if not whole or min(whole) < 1:
            raise InvalidArgumentError(f"shape must be positive along every axis, got {shape!r}")
        kind = np.dtype(dtype)
        if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise InvalidArgumentError(f"dtype must be float32 or float64, got {kind}")
        if metrics is None:
            metrics = ["derivatives", "autocorrelation", *(["ssim"] if data_range else [])]
        settings = make_settings(
            len(whole),
            bound_of(bound, absolute, pointwise_relative, range_relative, lossless=lossless),
            "given",
            need=need,
            metrics=metrics,
            data_range=data_range,
            spacing=spacing,
            ssim=ssim,
            lags=lags,
            threshold_crossings=threshold_crossings,
            relative_threshold=relative_threshold,
            threads=threads,
            memory_limit="1 MiB",
        )
        left = settings.groups - {"ssim", "derivatives", "autocorrelation"}
        if left or settings.metrics:
            raise InvalidArgumentError(
                "an Assessor has ssim, derivatives and autocorrelation; what else there is needs "
                f"the whole fields (assess), got {', '.join(sorted(left)) or 'metrics of your own'}"
            )
        relative = settings.bound is not None and settings.bound.kind == "range_relative"
        if data_range is None and ("ssim" in settings.groups or relative):
            raise InvalidArgumentError(
                "SSIM and a range-relative bound need the original's range beforehand: give "
                "data_range"
            )
        first, stop = (0, whole[0]) if planes is None else planes
        if not 0 <= first < stop <= whole[0]:
            raise InvalidArgumentError(
                f"planes must be (first, stop) within 0 to {whole[0]}, got {planes!r}"
            )
        # A field of one plane has no axis to come along; it comes at once.
        fields = Fields(
            original=_ToCome(whole, kind, "original"),
            decoded=_ToCome(whole, kind, "decoded"),
            mask=None,
            dtype=kind,
            layout=Layout.of(whole),
            missing=Missing(kind),
        )
        missing = missing_in(fields.original, fields.decoded, kind, fill_value, missing_value)
        fields = dataclasses.replace(fields, missing=missing)
        self._fields = fields
        self._work = Assessment(fields, settings, _tell_nobody)
        extent = Fraction(data_range or 0)
        self._range = data_range
        self._state = _native.AssessState(self._work.params(extent, data_range))
        self._absent = self._work.absent(self._state.params)
        # A state of its own, where others take planes that are reached into: only one that has been
        # given a point knows whether it is valid.
        self._field_state = (
            self._state if stop == whole[0] else _native.AssessState(self._state.params)
        )
        self._first, self._stop = first, stop
        self._next = first  # the plane to come
        self._own = first  # the first one whose stencils, pairs and windows are still to be taken
        self._held: list[npt.NDArray[Any]] = []  # planes from _own on

    @property
    def reach(self) -> int:
        """Planes behind the last own one that `update` wants, too, as far as there are any."""
        return reach(self._state.params)

    @property
    def wanted(self) -> tuple[int, int]:
        """The planes (next, stop) that are still to come."""
        return self._next, min(self._stop + self.reach, self._fields.original.shape[0])

    def update(self, original: Any, decoded: Any, *, mask: Any = None) -> None:
        """Take the next planes.

        Parameters
        ----------
        original, decoded : array-like
            Any number of planes along the first axis.
        mask : array-like of bool or integers, optional
            Not 0 where a point is left out.

        Raises
        ------
        InvalidArgumentError
            If a shape does not fit, the mask is of another type, or there are more planes than
            wanted.
        """
        x, y = Input(original, "original"), Input(decoded, "decoded")
        shape, dtype = self._fields.original.shape, self._fields.dtype
        came = common_dtype(x, y)
        begin, end = self.wanted
        if not x.shape or x.shape[1:] != shape[1:]:
            raise InvalidArgumentError(f"planes are of shape {shape[1:]}, got {x.shape}")
        if x.shape[0] > end - begin:
            raise InvalidArgumentError(
                f"planes {begin} to {end} are still to come, got {x.shape[0]} of them"
            )
        if came.itemsize > dtype.itemsize:
            raise InvalidArgumentError(f"this assessor compares {dtype}, got {came}")
        everything = tuple(slice(0, n) for n in x.shape)
        new = [x.read(everything, dtype), y.read(everything, dtype)]
        if mask is None:
            masked = np.zeros(x.shape, np.uint8)
        else:
            masked = Mask(mask, x.shape).read(everything, np.dtype(np.uint8))
        new.append(self._fields.missing.mark(new[0], masked))
        self._add(new)

    def _add(self, new: list[npt.NDArray[Any]]) -> None:
        plane = math.prod(self._fields.original.shape[1:])
        count = min(len(new[0]), max(0, self._stop - self._next))
        x, y, mask = (part[:count].reshape(-1) for part in new)
        if count:
            self._state.points(self._next * plane, x, y, mask if mask.any() else None)
            if self._absent is not None:
                self._absent.add(self._next * plane, x, y, mask)
        self._next += len(new[0])
        if not self.reach:
            return
        if self._field_state is not self._state:
            x, y, mask = (part.reshape(-1) for part in new)
            self._field_state.points(0, x, y, mask if mask.any() else None)
        if self._held:
            new = [np.concatenate(pair) for pair in zip(self._held, new, strict=True)]
        end = self._fields.original.shape[0]
        complete = self._next if self._next == end else self._next - self.reach
        cut = self._work.first_cut
        if self._next < self.wanted[1]:  # where slabs may be cut, so that sums come out the same
            complete = complete // cut * cut
        complete = min(complete, self._stop)
        if complete > self._own:
            self._take_fields(new, complete)
            new = [part[complete - self._own :] for part in new]
            self._own = complete
        self._held = [part.copy() for part in new]

    def _take_fields(self, parts: list[npt.NDArray[Any]], stop: int) -> None:
        """Take stencils, pairs and windows of the planes from `_own` to `stop`."""
        layout = self._fields.layout
        there = [part.reshape(self._without_ones(part.shape)) for part in parts]
        rank = len(layout.shape)
        along = layout.axes[0] == 0
        zeros = (0,) * rank
        self._field_state.field(
            _native.Piece(
                original=there[0],
                decoded=there[1],
                mask=there[2] if there[2].any() else None,
                origin=(self._own, *zeros[1:]) if along else zeros,
                own_origin=(self._own, *zeros[1:]) if along else zeros,
                own_shape=(stop - self._own, *layout.shape[1:]) if along else layout.shape,
            )
        )

    def _without_ones(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(shape[axis] for axis in self._fields.layout.axes)

    def merge(self, other: Assessor) -> None:
        """Add what an assessor of other planes of the same fields found.

        Parameters
        ----------
        other : Assessor
            With the same arguments but for `planes`. The result does not depend on the order but
            for the last few of 16 digits.

        Raises
        ------
        InvalidArgumentError
            If either waits for more planes, both took the same ones, or they are of unlike fields.
        """
        mine, theirs = self._state.params, other._state.params
        if (
            mine != theirs
            or self._fields.layout != other._fields.layout
            or self._fields.missing != other._fields.missing
        ):
            raise InvalidArgumentError("both assessors must have the same arguments but for planes")
        self._check_complete()
        other._check_complete()
        own, more = self._state.points_result().count, other._state.points_result().count
        size = self._fields.original.size
        if own + more > size:
            raise InvalidArgumentError(
                f"both assessors took some planes: {own} and {more} points, of {size}"
            )
        if self._field_state is self._state:
            self._field_state = _native.AssessState(mine, self._state.to_bytes())
        self._field_state.merge(other._field_state)
        self._state.merge(other._state)
        if self._absent is not None and other._absent is not None:
            self._absent.merge(other._absent)

    def _check_complete(self) -> None:
        begin, end = self.wanted
        if begin != end:
            raise InvalidArgumentError(f"planes {begin} to {end} are still to come")

    def result(self) -> Report:
        """Give the report.

        Returns
        -------
        Report
            About the planes that came, and those that were merged.

        Raises
        ------
        InvalidArgumentError
            If planes are still to come.
        """
        self._check_complete()
        return self._work.report(self._state, self._field_state, self._range, absent=self._absent)
