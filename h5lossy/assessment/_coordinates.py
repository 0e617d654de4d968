# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Coordinates of a field's axes, for pictures and messages."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._dims import UNREADABLE, text_of
from h5lossy._errors import H5LossyError
from h5lossy.assessment._inputs import Input
from h5lossy.assessment.schema import Coordinate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from h5lossy._dims import Axis

#: Longer axes have no coordinates, only numbers.
_LONGEST = 1 << 20

#: Units of coordinates drawn downwards; so are all with the attribute ``positive`` "down".
_PRESSURES = {"Pa", "hPa", "kPa", "mb", "mbar", "millibar", "millibars"}

#: Units of times that are shown as dates, with their lengths in seconds; the supported calendars;
#: the largest time in seconds; and the date from which these calendars agree.
_SINCE = re.compile(
    r"(second|minute|hour|day)s? since (\d+)-(\d+)-(\d+)(?:[ T](\d+):(\d+)(?::(\d+)(?:\.0*)?)?)?Z?"
)
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_CALENDARS = {"", "standard", "gregorian", "proleptic_gregorian"}
_MOST_SECONDS = 1e12
_SAME_FROM = np.datetime64("1582-10-15")


def coordinates(axes: Sequence[Axis], shape: tuple[int, ...]) -> tuple[Coordinate, ...]:
    """Return what is known of the places along the axes; nothing if they have no names."""
    return tuple(_coordinate(axis, n) for axis, n in zip(axes, shape, strict=False))


def _coordinate(axis: Axis, n: int) -> Coordinate:
    found, given = Coordinate(name=axis.name), axis.coordinate
    if given is None:
        return found
    units = text_of(given, "units")
    found = replace(
        found,
        long_name=text_of(given, "long_name"),
        units=units,
        rises=text_of(given, "positive").lower() != "down" and units not in _PRESSURES,
    )
    values = None
    with contextlib.suppress(H5LossyError, *UNREADABLE):
        values = _values(given, n)
    dates = None if values is None else _dates(given, units, values)
    if dates is not None:
        return replace(found, values=dates, units="")
    return found if values is None else replace(found, values=values)


def _dates(given: Any, units: str, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Return times as dates, if NumPy supports their calendar."""
    if values.dtype.kind == "M":
        return values
    since = _SINCE.fullmatch(units)
    if since is None or text_of(given, "calendar").lower() not in _CALENDARS:
        return None
    try:
        # NumPy requires two digits each, and four for the year.
        year, month, day, *time = (int(part or 0) for part in since.groups()[1:])
        clock = ":".join(f"{part:02}" for part in time)
        start = np.datetime64(f"{year:04}-{month:02}-{day:02}T{clock}", "s")
    except ValueError:  # year 0, or 30 February
        return None
    seconds = values * _SECONDS[since[1]]
    if not np.abs(seconds).max() < _MOST_SECONDS:
        return None
    dates: npt.NDArray[Any] = start + np.rint(seconds).astype("m8[s]")
    is_known = len(np.unique(dates)) == len(dates)  # else numbers tell more
    return dates if is_known and min(dates.min(), start) >= _SAME_FROM else None


def _values(given: Any, n: int) -> npt.NDArray[Any] | None:
    """Return one value for each place, if they only rise or only fall."""
    if tuple(given.shape) != (n,) or not 0 < n <= _LONGEST:
        return None
    if np.dtype(given.dtype).kind == "M":
        values = np.asarray(given[...]).astype("datetime64[s]")
        numbers = values.astype(np.float64)
        numbers[np.isnat(values)] = np.nan
    else:
        numbers = values = Input(given, "coordinate").read((slice(0, n),), np.dtype(np.float64))
    steps = np.diff(numbers)
    is_ordered = (steps > 0).all() or (steps < 0).all()
    return values if is_ordered and np.isfinite(numbers).all() else None
