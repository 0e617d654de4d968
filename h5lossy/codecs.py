# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The codecs as HDF5 filter settings: immutable, checked, and what h5py takes for a filter.

A codec is a subclass of `Codec` with a number, a line in `CODECS`, and a field for each setting of
its own. Settings reach the library as cd_values (``docs/format/cd_values.md``), which the library
itself packs and unpacks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import h5py

from h5lossy import _native
from h5lossy.bounds import BoundKind, ErrorBound, value_range
from h5lossy.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h5lossy._values import Data

FILTER_ID: int = _native.FILTER_ID
"""The filter's HDF5 number: 46412, from the range for which no registration is needed."""

FILTER_NAME = "h5lossy"
"""The filter's name where hdf5plugin's functions take a name for a number."""


# eq=False keeps the comparison and hash of FilterRefBase, by filter number and options: dataclass's
# own would compare by field, and h5py, h5netcdf and hdf5plugin compare filters of different
# classes.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Codec(h5py.filters.FilterRefBase):  # type: ignore[misc]  # h5py has no types
    """What all codecs share: the bound, the checksum, and the way to cd_values and back."""

    absolute: float | None = None
    pointwise_relative: float | None = None
    range_relative: float | None = None
    lossless: bool = False
    checksum: bool = True
    #: Not an argument. It is here to be refused with a better message than Python's.
    relative: InitVar[None] = None

    filter_id: ClassVar[int] = FILTER_ID
    filter_name: ClassVar[str] = FILTER_NAME
    codec_number: ClassVar[int]

    def __post_init__(self, relative: object) -> None:
        if relative is not None:
            raise TypeError(
                "relative has two meanings in this field: give range_relative, a fraction of "
                "max - min (what hdf5plugin and SZ call relative), or pointwise_relative, a "
                "fraction of each value"
            )
        for flag in ("lossless", "checksum"):
            if not isinstance(getattr(self, flag), bool):
                raise TypeError(f"{flag} must be True or False, got {getattr(self, flag)!r}")
        given = self._given_bounds()
        if len(given) != 1:
            raise TypeError(
                f"{type(self).__name__} takes exactly one bound ({', '.join(BoundKind)}), "
                f"got {' and '.join(given) or 'none'}"
            )
        [kind] = given
        if kind is not BoundKind.LOSSLESS:
            object.__setattr__(self, kind, ErrorBound(kind, getattr(self, kind)).value)

    @property
    def bound(self) -> ErrorBound:
        """The error bound, exactly as it was given."""
        [kind] = self._given_bounds()
        return ErrorBound(kind, 0.0 if kind is BoundKind.LOSSLESS else getattr(self, kind))

    @property
    def filter_options(self) -> tuple[int, ...]:
        """The requested cd_values: codec, bound kind, bound (two words), flags unless 0."""
        words = _native.pack_cd_values(self.params())
        return words if words[4] else words[:4]

    def params(self) -> _native.Params:
        """Return the settings as the library takes them, without anything about the data."""
        bound = self.bound
        return _native.Params(
            codec=self.codec_number,
            bound_kind=bound.kind.number,
            bound=bound.value,
            no_checksum=not self.checksum,
        )

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this setting, without those left at their default."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }

    def resolve(self, data: Data, fill_value: Any = None) -> Self:
        """Turn a range-relative bound into the absolute one that it means for `data` as a whole.

        The filter itself sees one chunk at a time and can only take each chunk's own range, which
        keeps the promise but is often much stricter. Resolve first to get the best ratio, and data
        that can be appended to: an absolute bound is kept when a chunk is read, changed and written
        again.

        Parameters
        ----------
        data : array-like or h5py.Dataset
            All of the data, float32 or float64. A dataset is read in blocks of whole chunks, about
            32 MiB at a time.
        fill_value : float, optional
            Left out of the range. Default: for a dataset its own, if a user defined one; for an
            array none.

        Returns
        -------
        Codec
            The same class with ``absolute=``; with ``lossless=True`` where there is no valid value,
            or where the range is 0 or too small for a bound. Itself where the bound is not
            range-relative.

        Raises
        ------
        UnsupportedError
            If the data is neither float32 nor float64.

        Notes
        -----
        The bound is ``range_relative * (max - min)`` over the finite values that are not the fill
        value, rounded down.

        Examples
        --------
        >>> import numpy as np
        >>> PFPL(range_relative=0.5).resolve(np.array([2.0, 6.0, np.nan], np.float32))
        PFPL(absolute=1.9999999999999996)
        """
        if self.range_relative is None:
            return self
        found = value_range(data, fill_value)
        absolute = _native.absolute_bound(self.range_relative, *found) if found else 0.0
        return dataclasses.replace(
            self, range_relative=None, absolute=absolute or None, lossless=not absolute
        )

    @classmethod
    def _from_filter_options(cls, filter_options: Sequence[int]) -> Self:
        """Return the setting that requested or stored cd_values stand for."""
        return cls.from_params(unpacked(filter_options))

    @classmethod
    def from_params(cls, params: _native.Params) -> Self:
        """Return the setting that `params` holds; the inverse of `params`.

        Raises
        ------
        InvalidArgumentError
            If they are of another codec.
        """
        if params.codec != cls.codec_number:
            raise InvalidArgumentError(
                f"these cd_values are of codec {params.codec}, {cls.__name__} is {cls.codec_number}"
            )
        kind = BoundKind.from_number(params.bound_kind)
        bound: dict[str, Any] = {kind: True if kind is BoundKind.LOSSLESS else params.bound}
        return cls(**bound, checksum=not params.no_checksum)

    def _given_bounds(self) -> list[BoundKind]:
        # The class's attributes are the defaults of its fields.
        return [kind for kind in BoundKind if getattr(self, kind) is not getattr(Codec, kind)]

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PFPL(Codec):
    """PFPL: quantise, take differences, transpose bits, drop zero bytes.

    For every finite value the bound holds, in exact arithmetic. NaN, infinities and the dataset's
    fill value come back bit for bit. Exactly one bound is given; there is no default.

    Give it to h5py as ``compression=``, or by ``**`` where keyword arguments are passed on
    (h5netcdf, xarray)::

        f.create_dataset("t", data=t, chunks=(64, 512), compression=h5lossy.PFPL(absolute=1e-3))
        f.create_dataset("t", data=t, chunks=(64, 512), **h5lossy.PFPL(absolute=1e-3))

    Parameters
    ----------
    absolute : float, optional
        Largest ``|x - x'|``, in the data's own unit. Greater than 0, and finite.
    pointwise_relative : float, optional
        Largest ``|x - x'| / |x|``; the sign is kept, and 0 stays 0. Greater than 0, and less than
        1.
    range_relative : float, optional
        Largest ``|x - x'| / (max - min)``. Greater than 0, and finite. In the filter it is the
        range of each chunk, which is stricter than that of the whole: see `resolve`.
    lossless : bool, optional
        Keep every bit.
    checksum : bool, optional
        Whether frames carry a checksum of their payload, so that a damaged file is an error and not
        wrong data. It takes 4 bytes a chunk. On by default.

    Raises
    ------
    BoundError
        If the bound's value is not allowed.
    TypeError
        If not exactly one bound is given, or one is not a number.

    Notes
    -----
    The algorithm is that of Fallin, Azami, Di, Cappello and Burtscher, "Fast and
    Effective Lossy Compression on GPUs and CPUs with Guaranteed Error Bounds", IPDPS 2025, with
    stricter quantisers: ``docs/format/pfpl.md``.

    Examples
    --------
    >>> codec = PFPL(absolute=1e-3)
    >>> codec
    PFPL(absolute=0.001)
    >>> codec.filter_id, codec.filter_options
    (46412, (1, 0, 3539053052, 1062232653))
    """

    codec_number: ClassVar[int] = _native.CODEC_PFPL


CODECS: dict[int, type[Codec]] = {cls.codec_number: cls for cls in (PFPL,)}
"""The class of each codec number."""


def unpacked(filter_options: Sequence[int]) -> _native.Params:
    """Return what cd_values say, as the library reads them.

    Parameters
    ----------
    filter_options : sequence of int
        Requested or stored cd_values, each from 0 to 2**32 - 1.

    Returns
    -------
    Params

    Raises
    ------
    InvalidArgumentError
        If they are no cd_values of h5lossy.
    UnsupportedError
        If a later version wrote them.
    """
    words = [int(word) for word in filter_options]
    if not all(0 <= word < 2**32 for word in words):
        raise InvalidArgumentError(f"cd_values are numbers from 0 to 2**32 - 1, got {words}")
    return _native.unpack_cd_values(words)


def codec_from_params(params: _native.Params) -> Codec:
    """Return the setting that `params` holds.

    Raises
    ------
    UnsupportedError
        If the codec was left to the library ("auto"), or has no class in this version.
    """
    if params.codec in CODECS:
        return CODECS[params.codec].from_params(params)
    if params.codec == _native.CODEC_AUTO:
        raise UnsupportedError(
            "these cd_values leave the codec to h5lossy (codec 0, auto), for which this version "
            "has no class; describe(dataset) shows what they ask for"
        )
    raise UnsupportedError(
        f"this version of h5lossy has no codec {params.codec}, only "
        f"{', '.join(f'{number} ({cls.__name__})' for number, cls in CODECS.items())}"
    )


def from_filter_options(filter_id: int | str, filter_options: Sequence[int]) -> Codec:
    """Return the setting that a dataset was made with, exactly.

    Parameters
    ----------
    filter_id : int or str
        46412 or "h5lossy".
    filter_options : sequence of int
        The filter's cd_values, as requested or as stored in a file.

    Returns
    -------
    PFPL
        Equal to the one that the dataset was created with.

    Raises
    ------
    InvalidArgumentError
        If it is another filter, or the cd_values are not allowed. (A ValueError.)
    UnsupportedError
        If a later version wrote the cd_values, or their codec has no class. (A
        NotImplementedError.)

    Examples
    --------
    >>> from_filter_options("h5lossy", (1, 1, 3539053052, 1062232653))
    PFPL(pointwise_relative=0.001)
    """
    if filter_id not in (FILTER_ID, FILTER_NAME):
        raise InvalidArgumentError(
            f"filter_id must be {FILTER_ID} or {FILTER_NAME!r}, got {filter_id!r}"
        )
    return codec_from_params(unpacked(filter_options))
