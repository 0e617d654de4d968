# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Units of weather and climate data, as the CF conventions and ECMWF write them."""

from __future__ import annotations

import re
from fractions import Fraction

_Unit = tuple[Fraction, dict[str, int]]


def _unit(factor: object, **powers: int) -> _Unit:
    return Fraction(str(factor)), powers


_PASCAL = {"kg": 1, "m": -1, "s": -2}

#: Factor and powers of base units, by symbol and name.
_UNITS = {
    "kg": _unit(1, kg=1),
    "g": _unit("1e-3", kg=1),
    "mg": _unit("1e-6", kg=1),
    "m": _unit(1, m=1),
    "meter": _unit(1, m=1),
    "metre": _unit(1, m=1),
    "km": _unit(1000, m=1),
    "cm": _unit("1e-2", m=1),
    "mm": _unit("1e-3", m=1),
    "s": _unit(1, s=1),
    "second": _unit(1, s=1),
    "min": _unit(60, s=1),
    "h": _unit(3600, s=1),
    "hr": _unit(3600, s=1),
    "hour": _unit(3600, s=1),
    "d": _unit(86400, s=1),
    "day": _unit(86400, s=1),
    "K": _unit(1, K=1),
    "kelvin": _unit(1, K=1),
    "Pa": _unit(1, **_PASCAL),
    "hPa": _unit(100, **_PASCAL),
    "kPa": _unit(1000, **_PASCAL),
    "mb": _unit(100, **_PASCAL),
    "mbar": _unit(100, **_PASCAL),
    "millibar": _unit(100, **_PASCAL),
    "N": _unit(1, kg=1, m=1, s=-2),
    "J": _unit(1, kg=1, m=2, s=-2),
    "W": _unit(1, kg=1, m=2, s=-3),
    "kJ": _unit(1000, kg=1, m=2, s=-2),
    "MJ": _unit("1e6", kg=1, m=2, s=-2),
    "%": _unit("1e-2"),
    "percent": _unit("1e-2"),
}

#: Scales whose zero is elsewhere: a difference of 1 is one of 1 K.
_WITH_OFFSET = {"degC", "degree_C", "degrees_C", "degree_Celsius", "degrees_Celsius", "Celsius"}
_WITH_OFFSET |= {name.lower() for name in _WITH_OFFSET} | {"\N{DEGREE SIGN}C"}

_NONE = {"", "1", "~", "dimensionless", "fraction", "(0 - 1)", "0-1"}


def has_offset(unit: str) -> bool:
    """Return whether the zero of a unit is arbitrary, so that ratios of values mean nothing."""
    return unit.strip() in _WITH_OFFSET


def ratio_of(unit: str, other: str) -> Fraction | None:
    """Return a difference of 1 in another unit; None if the units can't be compared.

    Examples
    --------
    >>> ratio_of("hPa", "Pa"), ratio_of("m s**-1", "m/s"), ratio_of("W m-2", "J m-2")
    (Fraction(100, 1), Fraction(1, 1), None)
    """
    if " ".join(unit.split()) == " ".join(other.split()):
        return Fraction(1)
    one, two = _read(unit), _read(other)
    return one[0] / two[0] if one and two and one[1] == two[1] else None


def _read(text: str) -> _Unit | None:
    """Return the factor of a unit, and the powers of base units; None if it is not known."""
    text = text.strip().removesuffix(" of water equivalent")
    if text in _WITH_OFFSET:
        text = "K"
    if text in _NONE:
        return Fraction(1), {}
    factor, powers = Fraction(1), dict[str, int]()
    text = re.sub(r"\*\*|\^", "", text).replace("*", " ").replace(".", " ")
    for sign, symbol, power in re.findall(r"\s*(/?)\s*(\S+?)([-+]?\d+)?(?=[\s/]|$)", text):
        found = _UNITS.get(symbol) or _UNITS.get(symbol.removesuffix("s"))
        if found is None:
            return None
        exponent = int(power or 1) * (-1 if sign else 1)
        factor *= found[0] ** exponent
        for base, own in found[1].items():
            powers[base] = powers.get(base, 0) + own * exponent
    return factor, {base: power for base, power in powers.items() if power}
