# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bounds that a community recommends for variables, found by their CF metadata.

The file is that of the package compression-recommendations (PyPI), or one of its format: a list of
`filters`, all of which must match a variable, with the `requirements` for it. A variable gets the
requirements of all entries that match, and one bound that implies them.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._dims import axes_of, kind_of, text_of
from h5lossy._errors import InvalidArgumentError
from h5lossy._units import has_offset, ratio_of
from h5lossy._variables import text_attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike

#: The file of the package, if it is installed.
COMMUNITY = "community"

_PACKAGE = "compression_recommendations"

#: The units of absolute bounds, which the file does not state: those of ECMWF's data, which are not
#: always those of CF's table (fluxes are energy per area, accumulated over an hour).
_UNITS_OF = {
    "air_pressure_at_mean_sea_level": "Pa",
    "air_temperature": "K",
    "cloud_area_fraction": "1",
    "eastward_wind": "m s-1",
    "geopotential": "m2 s-2",
    "kinetic_energy_dissipation_in_atmosphere_boundary_layer": "J m-2",
    "lagrangian_tendency_of_air_pressure": "Pa s-1",
    "lwe_thickness_of_atmosphere_mass_content_of_water_vapor": "kg m-2",
    "lwe_thickness_of_convective_precipitation_amount": "m",
    "lwe_thickness_of_snowfall_amount": "m",
    "lwe_thickness_of_stratiform_precipitation_amount": "m",
    "lwe_thickness_of_surface_snow_amount": "m",
    "northward_wind": "m s-1",
    "sea_ice_area_fraction": "1",
    "surface_air_pressure": "Pa",
    "surface_downward_eastward_stress": "N m-2 s",
    "surface_downward_northward_stress": "N m-2 s",
    "surface_downwelling_shortwave_flux_in_air": "J m-2",
    "surface_net_downward_longwave_flux_assuming_clear_sky": "J m-2",
    "surface_net_downward_shortwave_flux": "J m-2",
    "surface_net_downward_shortwave_flux_assuming_clear_sky": "J m-2",
    "surface_net_upward_longwave_flux": "J m-2",
    "surface_temperature": "K",
    "surface_upward_latent_heat_flux": "J m-2",
    "surface_upward_sensible_heat_flux": "J m-2",
    "temperature_in_surface_snow": "K",
    "toa_net_upward_shortwave_flux": "J m-2",
    "toa_outgoing_longwave_flux": "J m-2",
}

#: Attributes of variables that answer each filter; cfgrib writes those of GRIB.
_MARKERS = {
    "cf-standard-name": "standard_name",
    "cf-short-name": "GRIB_cfVarName",
    "grib-short-name": "GRIB_shortName",
}

#: A pointwise bound implies the same bound on the mean.
_KINDS = {
    "max-pointwise-absolute-error-bound": BoundKind.ABSOLUTE,
    "mean-absolute-error-bound": BoundKind.ABSOLUTE,
    "max-pointwise-relative-error-bound": BoundKind.POINTWISE_RELATIVE,
    "mean-relative-error-bound": BoundKind.POINTWISE_RELATIVE,
    "max-pointwise-range-relative-error-bound": BoundKind.RANGE_RELATIVE,
    "mean-range-relative-error-bound": BoundKind.RANGE_RELATIVE,
}

#: Requirements that a bound does not imply, but that may accompany one; lossless implies all.
_BESIDE = {"data-limits", "isovalue", "missing-value"}


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What is recommended for a variable, and the bound that follows.

    Attributes
    ----------
    bound : ErrorBound or None
        In the variable's own unit. None: there is no recommendation, or none that can be met.
    why : str
        Why there is no bound.
    source : str
        What the recommendation is for, and who gives it.
    requirements : tuple of str
        What is recommended; the bound implies it.
    not_promised : tuple of str
        What is also recommended, but not implied.
    """

    bound: ErrorBound | None = None
    why: str = ""
    source: str = ""
    requirements: tuple[str, ...] = ()
    not_promised: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.bound is None:
            return f"none: {self.why}"
        text = f"{self.bound}, {self.source}: {', '.join(self.requirements)}"
        return text + "".join(f"; not promised: {one}" for one in self.not_promised)

    @property
    def arguments(self) -> dict[str, Any]:
        """The bound as the argument of a codec."""
        if self.bound is None:
            return {}
        lossless = self.bound.kind is BoundKind.LOSSLESS
        return {str(self.bound.kind): True if lossless else self.bound.value}


class _RefusalError(Exception):
    """Says why a variable gets no bound."""


@dataclass(frozen=True, kw_only=True)
class Recommendations:
    """The recommendations of a file."""

    entries: Sequence[Mapping[str, Any]]
    name: str
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, given: str | PathLike[str]) -> Recommendations:
        """Read a file, or that of the installed package where "community" is given."""
        path, name = Path(given), Path(given).name
        if given == COMMUNITY:
            spec = importlib.util.find_spec(_PACKAGE)
            if spec is None or not spec.submodule_search_locations:
                raise InvalidArgumentError(
                    "the recommendations of the community are not installed: pip install "
                    "'h5lossy[recommendations]', or give their file, recommendations.yaml"
                )
            path = Path(next(iter(spec.submodule_search_locations))) / "recommendations.yaml"
            name = _PACKAGE.replace("_", "-")
        try:
            import yaml  # noqa: PLC0415 - only this needs it
        except ImportError as error:
            raise ImportError(
                f"recommendations are read with PyYAML ({error}): pip install PyYAML"
            ) from error
        try:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            content = yaml.load(path.read_text(encoding="utf-8"), loader)  # noqa: S506 - it is safe
            entries = [
                {"filters": list(one["filters"]), "requirements": list(one["requirements"])}
                for one in content["recommendations"]
            ]
            for entry in entries:
                for inner in ("filters", "requirements"):
                    for part in entry[inner]:
                        _require_form(part, inner)
            units = dict((content.get("metadata") or {}).get("units") or {})
            if not all(isinstance(unit, str | None) for unit in units.values()):
                raise TypeError(f"units are texts, not {[*units.values()]}")  # noqa: TRY301
            version = content.get("version", "")
        except (
            UnicodeDecodeError,
            yaml.YAMLError,
            AttributeError,
            TypeError,
            LookupError,
            ValueError,
            RecursionError,
        ) as error:
            raise InvalidArgumentError(
                f"{path} is no file of recommendations ({' '.join(repr(error).split())[:200]}): it "
                "must have those of the package compression-recommendations, in YAML"
            ) from error
        return cls(entries=entries, name=f"{name} {version}".strip(), units=_UNITS_OF | units)

    def of(self, variable: Any, extent: Callable[[], tuple[float, float] | None]) -> Recommendation:
        """Return the recommendation for a variable of h5py or xarray.

        `extent` finds the smallest and the largest value, in the variable's unit, if a file has an
        absolute and a relative requirement for it.
        """
        markers = {name: text_attribute(variable, has) for name, has in _MARKERS.items()}
        if not any(markers.values()):
            return Recommendation(why="it has no standard_name")
        markers["level-kind"] = level_kind(variable)
        name = next(value for value in markers.values() if value)
        place = f"of {markers['level-kind'] or 'unknown'} levels"
        found = [
            requirement
            for entry in self.entries
            if all(_matches(one, markers) for one in entry["filters"])
            for requirement in _flat(entry["requirements"])
        ]
        if not found:
            return Recommendation(why=f"{self.name} has none for {name} {place}")
        try:
            bound, beside = self._bound(found, variable, markers["cf-standard-name"], extent)
        except _RefusalError as error:
            return Recommendation(why=f"{name} {place}: {error}")
        return Recommendation(
            bound=bound,
            source=f"recommended for {name} {place} by {self.name}",
            requirements=tuple(_text(one) for one in found if one not in beside),
            not_promised=tuple(map(_text, beside)),
        )

    def _bound(
        self,
        found: Sequence[Mapping[str, Any]],
        variable: Any,
        standard_name: str | None,
        extent: Callable[[], tuple[float, float] | None],
    ) -> tuple[ErrorBound, list[Mapping[str, Any]]]:
        """Return one bound that implies what is recommended, and what it does not imply."""
        least: dict[BoundKind, Fraction] = {}
        beside = []
        for one in found:
            if one["kind"] == "lossless":
                return ErrorBound(BoundKind.LOSSLESS), []
            if one["kind"] in _KINDS:
                kind, value = _KINDS[one["kind"]], _number(one["value"])
                least[kind] = min(value, least.get(kind, value))
            elif one["kind"] in _BESIDE:
                beside.append(one)
            else:
                raise _RefusalError(f"h5lossy has no bound that implies {_text(one)}")
        if not least:
            raise _RefusalError(f"no bound is recommended, but {', '.join(map(_text, found))}")
        if 0 in least.values():
            return ErrorBound(BoundKind.LOSSLESS), []
        unit = text_attribute(variable, "units")
        if BoundKind.ABSOLUTE in least:
            least[BoundKind.ABSOLUTE] /= self._unit_ratio(variable, unit, standard_name)
        if BoundKind.POINTWISE_RELATIVE in least and has_offset(unit or ""):
            raise _RefusalError(f"a relative bound has no meaning in {unit}; convert the data")
        kind, value = _joined(least, extent)
        if kind is BoundKind.POINTWISE_RELATIVE:
            if value >= 1:
                raise _RefusalError("its relative bound is not below 1")
            beside = [one for one in beside if not _keeps_sign(one)]
        return ErrorBound(kind, value), beside  # type: ignore[arg-type]  # rounded down

    def _unit_ratio(self, variable: Any, unit: str | None, standard_name: str | None) -> Fraction:
        """Return the factor from the recommendation's unit to the variable's unit."""
        wanted = text_attribute(variable, "GRIB_units") or self.units.get(standard_name or "")
        if wanted is None:
            raise _RefusalError("the unit of its absolute bound is not known")
        if unit is None:
            raise _RefusalError(f"its bound is in {wanted}, and the variable says no units")
        ratio = ratio_of(unit, wanted)
        if ratio is None:
            raise _RefusalError(
                f"its bound is in {wanted}, and the variable's units are {unit!r}, which can't be "
                "converted"
            )
        return ratio


def level_kind(variable: Any) -> str | None:
    """Return "pressure" or "single", according to a variable's axes and scalar coordinates.

    None if it has other levels, or axes whose meaning is not known.
    """
    axes = axes_of(variable)
    long = [axis for axis, n in zip(axes, variable.shape or (), strict=False) if n > 1]
    vertical = [axis.coordinate for axis in axes if axis.kind == "Z"]
    vertical += [one for one in _scalar_coordinates(variable) if kind_of(one) == "Z"]
    if any(map(_is_pressure, vertical)):
        return "pressure"
    horizontal = [axis for axis in long if axis.kind in {"", "X", "Y"}]
    is_clear = axes and len(horizontal) <= 2 and not any(axis.kind == "Z" for axis in long)
    return "single" if is_clear else None


def _scalar_coordinates(variable: Any) -> Iterator[Any]:
    """Yield the coordinates of a variable that have one value."""
    if hasattr(variable, "coords"):  # of xarray
        yield from (one for one in variable.coords.values() if one.size == 1)
        return
    for name in (text_attribute(variable, "coordinates") or "").split():
        one = variable.parent.get(name)
        if getattr(one, "size", None) == 1:
            yield one


def _is_pressure(coordinate: Any) -> bool:
    name, unit = (text_of(coordinate, which) for which in ("standard_name", "units"))
    return name in {"", "air_pressure"} and ratio_of(unit, "Pa") is not None


def _require_form(one: Mapping[str, Any], inner: str) -> None:
    """Raise unless a filter or a requirement has the entries that are read, `inner` its parts."""
    kind = one["kind"]
    if kind in {"any", "all"}:
        for each in one[inner]:
            _require_form(each, inner)
    elif kind == "not":
        _require_form(one["filter"], inner)
    elif inner == "filters":
        one["value"]  # raises if there is none
    elif kind in _KINDS:
        _number(one["value"])


def _matches(one: Mapping[str, Any], markers: Mapping[str, str | None]) -> bool:
    """Return whether a filter matches; filters without an attribute (level-value, tag) do not."""
    kind = one["kind"]
    if kind == "any":
        return any(_matches(each, markers) for each in one["filters"])
    if kind == "all":
        return all(_matches(each, markers) for each in one["filters"])
    if kind == "not":
        return not _matches(one["filter"], markers)
    if kind not in {*_MARKERS, "level-kind", "level-value", "tag"}:
        raise InvalidArgumentError(f"the recommendations have a filter of unknown kind {kind!r}")
    value = markers.get(kind)
    return value is not None and value == str(one["value"])


def _flat(requirements: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield requirements that must all hold."""
    for one in requirements:
        if one["kind"] == "all":
            yield from _flat(one["requirements"])
        else:
            yield one


def _joined(
    least: Mapping[BoundKind, Fraction], extent: Callable[[], tuple[float, float] | None]
) -> tuple[BoundKind, Fraction]:
    """Return one bound that implies several, for values of this extent."""
    if len(least) == 1:
        return next(iter(least.items()))
    ends = extent() or (0.0, 0.0)
    low, high = map(Fraction, ends)
    largest = max(abs(low), abs(high))
    absolute = [least[BoundKind.ABSOLUTE]] if BoundKind.ABSOLUTE in least else []
    if BoundKind.RANGE_RELATIVE in least:
        absolute.append(least[BoundKind.RANGE_RELATIVE] * (high - low))
    if 0 in absolute:  # all values are one
        return BoundKind.LOSSLESS, Fraction(0)
    relative = least.get(BoundKind.POINTWISE_RELATIVE)
    if relative is None:
        return BoundKind.ABSOLUTE, min(absolute)
    # No value is larger, so its relative bound limits all errors.
    values = [value / largest for value in absolute if largest]
    return BoundKind.POINTWISE_RELATIVE, min([relative, *values])


def _keeps_sign(one: Mapping[str, Any]) -> bool:
    """Return whether limits are at zero, which a pointwise-relative bound keeps."""
    limits = [one[name] for name in ("minimum", "maximum") if one.get(name) is not None]
    return one["kind"] == "data-limits" and len(limits) == 1 and not float(limits[0])


def _number(value: Any) -> Fraction:
    """Return a number; YAML reads 1e-05, without a point, as text."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise InvalidArgumentError(f"the recommendations have a bound {value!r}")
    return Fraction(number)


def _text(one: Mapping[str, Any]) -> str:
    """Write a requirement as it stands in the file."""
    settings = [
        f"{'' if name == 'value' else f'{name} '}{value}"
        for name, value in one.items()
        if name != "kind"
    ]
    return " ".join([str(one["kind"]), *settings])
