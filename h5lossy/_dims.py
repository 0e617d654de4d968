# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The meaning of a field's axes, according to HDF5's dimension scales and the CF conventions."""

from __future__ import annotations

import contextlib
import re
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np

from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._names import name_of
from h5lossy._native import ASSESS_MAX_RANK
from h5lossy._scales import labels_of, scales_of
from h5lossy._values import as_list, is_number
from h5lossy._variables import is_h5netcdf_variable, is_netcdf4_variable, text_attribute

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

#: Names of axes that are spatial in a field that says nothing about its axes.
_MOST_UNNAMED = 3
_LAST = 2

_KINDS = {
    "X": re.compile(r"longitude|grid_longitude|projection_x_(angular_)?coordinate"),
    "Y": re.compile(r"latitude|grid_latitude|projection_y_(angular_)?coordinate"),
    "Z": re.compile(
        r"(air|sea_water)_pressure|height.*|altitude|depth.*|model_level_number|"
        r"(atmosphere|ocean)_.*_coordinate|air_potential_temperature|geopotential_height"
    ),
    "T": re.compile(r"time|forecast_(reference_time|period)"),
    "E": re.compile(r"realization"),
}
_UNITS = {
    "X": re.compile(r"degrees?_?(east|E)"),
    "Y": re.compile(r"degrees?_?(north|N)"),
    "Z": re.compile(r"[hk]?Pa|(milli|deci)?bars?|mb|level|layer|sigma_level"),
    "T": re.compile(r".+ since .+"),
}


#: The attribute NAME of scales that netCDF writes for dimensions without a variable.
_NO_COORDINATE = "This is a netCDF dimension but not a netCDF variable"

#: Exceptions for the scales of a damaged file.
UNREADABLE = (OSError, RuntimeError, KeyError, TypeError, ValueError, AttributeError)


class Axis(NamedTuple):
    """One axis of a field."""

    name: str = ""
    #: "X", "Y", "Z", "T" as in CF, "E" for members of an ensemble, or "".
    kind: str = ""
    coordinate: Any = None  # a variable with one value for each place along the axis

    @property
    def is_latitude(self) -> bool:
        """Whether it is a horizontal coordinate of the Earth, in degrees."""
        return self.kind == "Y" and bool(_UNITS["Y"].fullmatch(text_of(self.coordinate, "units")))


#: The axis of the two components of complex numbers.
COMPONENT = Axis("component")


def axes_of(values: Any) -> tuple[Axis, ...]:
    """Return what a field says about its axes; nothing if it has no names for them."""
    found: Iterable[tuple[str, Any]] = ()
    if is_h5netcdf_variable(values):
        values = values._h5ds  # noqa: SLF001 - it has no public name
    with contextlib.suppress(*UNREADABLE):
        if isinstance(values, h5py.Dataset):
            found = map(_named_scale, labels_of(values), scales_of(values))
        elif is_netcdf4_variable(values):
            found = [(name, _variable(values.group(), name)) for name in values.dimensions]
        elif hasattr(values, "coords") and hasattr(values, "dims"):  # of xarray
            found = [(str(name), values.coords.get(name)) for name in values.dims]
        axes = tuple(Axis(name, kind_of(coordinate), coordinate) for name, coordinate in found)
        return axes if any(axis.name for axis in axes) else ()
    return ()


def _named_scale(label: str, scale: h5py.Dataset | None) -> tuple[str, h5py.Dataset | None]:
    """Return the name of a dimension of HDF5, and its scale if that is a coordinate."""
    if scale is None:
        return label, None
    return label or name_of(scale).rpartition("/")[2], scale if has_places(scale) else None


def has_places(scale: h5py.Dataset) -> bool:
    """Return whether a scale is a coordinate, not just a netCDF dimension without a variable."""
    return not text_of(scale, "NAME").startswith(_NO_COORDINATE)


def _variable(group: Any, name: str) -> Any:
    """Return the coordinate of a dimension of netCDF4, which may be that of a group further up."""
    while group is not None and name not in group.dimensions:
        group = group.parent
    return None if group is None else group.variables.get(name)


def kind_of(coordinate: Any) -> str:
    """Return what a coordinate is, by CF's attributes."""
    if coordinate is None:
        return ""
    if np.dtype(coordinate.dtype).kind in "Mm":
        return "T"

    names = ("axis", "standard_name", "units")
    axis, standard, units = (text_of(coordinate, name) for name in names)
    if axis in _KINDS:
        return axis
    for text, patterns in ((standard, _KINDS), (units, _UNITS)):
        for kind, pattern in patterns.items():
            if pattern.fullmatch(text):
                return kind
    return "Z" if text_of(coordinate, "positive").lower() in {"up", "down"} else ""


def text_of(coordinate: Any, name: str) -> str:
    """Return an attribute that is text, or an empty one."""
    with contextlib.suppress(UnsupportedError):
        return text_attribute(coordinate, name) or ""
    return ""


def spatial(axes: Sequence[Axis], long: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes longer than 1 along which neighbours are compared.

    These are the horizontal axes; otherwise the last two of the axes that are not known to be time,
    level or member. If nothing is known, they are all axes if there are at most three, and the last
    two if there are more.
    """
    kinds = {axis: axes[axis].kind for axis in long}
    horizontal = tuple(axis for axis in long if kinds[axis] in {"X", "Y"})
    unknown = tuple(axis for axis in long if not kinds[axis])
    if horizontal:
        return horizontal
    if unknown and len(unknown) < len(long):
        return unknown[-_LAST:]
    return long if len(long) <= _MOST_UNNAMED else long[-_LAST:]


def chosen_axes(
    wanted: Any, axes: Sequence[Axis], shape: tuple[int, ...], long: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the axes that a user named or numbered, in order, without those of extent 1."""
    if wanted is None:
        return spatial(axes or (Axis(),) * len(shape), long)
    found = set()
    names = [axis.name for axis in axes]
    for one in as_list(wanted):
        if isinstance(one, str) and names.count(one) == 1:
            found.add(names.index(one))
        elif is_number(one, Integral) and -len(shape) <= int(one) < len(shape):
            found.add(int(one) % len(shape))
        else:
            known = f", named {', '.join(names)}" if any(names) else ", which have no names"
            raise InvalidArgumentError(
                f"axes takes some of the {len(shape)} axes of the field{known}; got {one!r}"
            )
    if len(found) > ASSESS_MAX_RANK or not found:
        raise InvalidArgumentError(f"axes takes 1 to {ASSESS_MAX_RANK} axes, got {wanted!r}")
    return tuple(axis for axis in sorted(found) if shape[axis] != 1) or (max(found),)


def broadcast(
    what: str,
    values: npt.NDArray[Any],
    own: Sequence[Axis],
    shape: tuple[int, ...],
    axes: Sequence[Axis],
) -> npt.NDArray[Any]:
    """Repeat an array along the axes that it lacks: by names, or else by NumPy's rules."""
    names, theirs = [axis.name for axis in own], [axis.name for axis in axes]
    extents = values.shape
    if names and all(name and theirs.count(name) == 1 for name in names):
        values = values.transpose(sorted(range(len(names)), key=lambda i: theirs.index(names[i])))
        values = values.reshape([extents[names.index(n)] if n in names else 1 for n in theirs])
    elif axes and axes[-1] is COMPONENT and values.ndim < len(shape):
        values = values[..., np.newaxis]
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise InvalidArgumentError(
            f"{what} must have the fields' shape {shape}, or the last axes of it, got {extents}; "
            "axes with the names of the fields' axes may be any"
        ) from None
