# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Packed data of the CF conventions: numbers that represent values, and bounds for both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._bounds import BoundKind
from h5lossy._errors import NotComparableError, UnsupportedError
from h5lossy._frames import taking
from h5lossy._variables import attribute_of, text_attribute

if TYPE_CHECKING:
    import numpy.typing as npt

    from h5lossy._codecs import Codec
    from h5lossy.missing import Missing


@dataclass(frozen=True)
class Packing:
    """A value is its stored number times `scale` plus `offset`, in float64."""

    scale: float
    offset: float
    #: The type that ``_Unsigned`` gives the numbers, if it is not their own.
    meant: np.dtype[Any] | None = None

    @classmethod
    def of(cls, values: Any, dtype: np.dtype[Any]) -> Packing | None:
        """Return the packing that attributes describe; None if numbers and values are the same."""
        found, declared = [], False
        for name, plain in (("scale_factor", 1.0), ("add_offset", 0.0)):
            try:
                value = attribute_of(values, name)
            except UnsupportedError as error:
                raise NotComparableError(f"{error}; it must be one number") from error
            declared |= value is not None
            given = np.ravel(np.asarray(plain if value is None else value))
            if given.dtype.kind not in "fiu" or given.size != 1 or not np.isfinite(given[0]):
                raise NotComparableError(f"attribute {name} must be one number, got {value!r}")
            found.append(float(given[0]))
        meant = meant_dtype(values, dtype)
        is_plain = found == [1.0, 0.0] and dtype.kind == "f"
        scale, offset = found
        return cls(scale, offset, meant) if meant or (declared and not is_plain) else None

    def unpacked(self, numbers: npt.NDArray[Any], missing: Missing) -> npt.NDArray[np.float64]:
        """Return the values, with NaN for numbers that are missing or invalid."""
        none = missing.missing(numbers) | missing.outside(numbers)
        if missing.fill is not None:
            none |= numbers == missing.fill
        if self.meant is not None:
            numbers = numbers.view(self.meant)
        with np.errstate(all="ignore"):
            values = np.asarray(numbers.astype(np.float64) * self.scale + self.offset)
        values[none] = np.nan
        return values

    @property
    def is_plain(self) -> bool:
        """Whether numbers and values are the same."""
        return self == Packing(1.0, 0.0)

    def __str__(self) -> str:
        return f"scale_factor {self.scale!r}, add_offset {self.offset!r}"


def meant_dtype(values: Any, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type that the attribute ``_Unsigned`` gives integers; None if it is their own."""
    if dtype.kind not in "iu":
        return None
    says = str(text_attribute(values, "_Unsigned") or "").lower()
    kind = {"true": "u", "false": "i"}.get(says, dtype.kind)
    return None if kind == dtype.kind else np.dtype(dtype.str.replace(dtype.kind, kind))


def for_integers(
    codec: Codec,
    dtype: np.dtype[Any],
    packing: Packing | None,
    *,
    fill_value: Any,
    is_asked_for: bool,
    is_in_counts: bool = False,
) -> tuple[Codec, str]:
    """Return a codec that supports integers, and why it is lossless although a bound was given.

    Most integers in a file are not measurements, but indices, flags or labels, which no bound
    suits: only packed integers, and those that were named explicitly, get one.
    """
    codec = taking(codec, dtype)
    if codec.bound.kind is BoundKind.LOSSLESS:
        return codec, ""
    if packing is None and not is_asked_for:
        why = "integers that are not packed, and not named for a bound"
    elif packing is not None and packing.meant is not None:
        why = "_Unsigned makes other numbers of them, for which a bound would not hold"
    elif codec.bound.kind is BoundKind.POINTWISE_RELATIVE:
        why = "integers have no pointwise-relative bound"
    elif codec.bound.kind is BoundKind.NOISE and packing is not None:
        why = "a noise bound is of counts, and these stand for other values"
    elif codec.bound.kind is BoundKind.NOISE and dtype.itemsize > 4:
        why = "integers of 64 bits have no noise bound"
    elif why := codec.safeguards.problem_of(dtype):
        pass
    elif codec.thresholds and packing is not None and packing.offset and not is_in_counts:
        why = "a threshold of 0 is of the values, and add_offset makes it another number of these"
    elif codec.thresholds and dtype.itemsize == 8 and fill_value not in {None, 0}:
        why = "integers of 64 bits have no threshold beside a fill value other than 0"
    else:
        return codec, ""
    return codec.with_bound(lossless=True), why


def in_counts(codec: Codec, scale: float) -> Codec:
    """Convert a codec's absolute bound on values to one on the stored integers.

    The bound is rounded down to whole counts, in exact arithmetic. Below one it is lossless.
    """
    if codec.bound.kind is not BoundKind.ABSOLUTE:
        return codec
    counts = math.floor(Fraction(codec.bound.value) / abs(Fraction(scale))) if scale else 0
    return codec.with_bound(absolute=counts) if counts else codec.with_bound(lossless=True)
