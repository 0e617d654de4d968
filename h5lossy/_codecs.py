# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The codecs as HDF5 filter settings: immutable, validated, and accepted by h5py as filters.

A codec is a subclass of `Codec` with a number and a name, an entry in `CODECS`, and a field for
each of its own settings (`_choices`). The command line and the tests derive everything from these.
Settings reach the library as cd_values (``docs/format/cd_values.md``), which the library itself
packs and unpacks.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import operator
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import h5py
import numpy as np

from h5lossy import _native
from h5lossy._bounds import (
    STORED_BOUNDS,
    BoundKind,
    ErrorBound,
    bound_of_digits,
    bound_of_modulus,
)
from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._public import name_publicly
from h5lossy._ranges import confirmed_range, prepared
from h5lossy._safeguards import Safeguards
from h5lossy._values import as_list, as_scalar, is_number
from h5lossy.missing import with_zero_threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from h5lossy._values import Data

FILTER_ID: int = _native.FILTER_ID
"""The filter's HDF5 number: 46412, from the range for which no registration is needed."""

FILTER_NAME = "h5lossy"
"""The filter's name, for hdf5plugin's functions, which take a name instead of a number."""

FILTERS: dict[str, int] = {FILTER_NAME: FILTER_ID}
"""Name and number of the filter, in the form of hdf5plugin's list."""


#: The bounds that take a value.
_BOUND_FIELDS: tuple[BoundKind, ...] = tuple(
    kind for kind in STORED_BOUNDS if kind is not BoundKind.LOSSLESS
)
_LOSSLESS = ErrorBound(BoundKind.LOSSLESS)


def _choices(
    bits: dict[Any, int], text: str, read: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """Make the metadata of a field of a codec: its choices with the bits of each in the mode."""
    # `read` returns the choice that an argument means, if it can be written in several ways.
    return {"choices": tuple(bits), "bits": bits, "help": text, "read": read}


def choice_text(choice: Any) -> str:
    """Return a choice as typed on the command line.

    >>> choice_text("outlier"), choice_text((-2, -1))
    ('outlier', '-2,-1')
    """
    return ",".join(map(str, choice)) if isinstance(choice, tuple) else str(choice)


def _check_arguments(cls: type[Codec], values: Sequence[object], arguments: dict[str, Any]) -> None:
    """Raise if a codec has no such arguments; a subclass may have some of its own."""
    signature = inspect.signature(cls.__init__)
    try:
        signature.bind(None, *values, **arguments)
    except TypeError as error:
        names = [*signature.parameters][1:]
        unknown = [*map(repr, values), *(name for name in arguments if name not in names)]
        if unknown:
            raise TypeError(
                f"{cls.__name__} does not take {', '.join(unknown)}; it takes {', '.join(names)}, "
                f"each by name: {cls.__name__}(absolute=1e-3), for example"
            ) from error


class _StepShare:
    """A class attribute of a codec: the bin width of a frame whose bound is 0.5."""

    def __get__(self, codec: Codec | None, cls: type[Codec]) -> float:
        return _step_share(cls.codec_number, 0 if codec is None else codec.params().mode)


@functools.cache
def _step_share(codec: int, mode: int) -> float:
    params = _native.Params(codec=codec, mode=mode, bound=0.5, value_bytes=8, shape=(999,))
    return _native.inspect(_native.encode(params, np.zeros(999))).step


# eq=False keeps the comparison and hash of FilterRefBase, by filter number and options: those of
# dataclass would compare by field, but h5py, h5netcdf and hdf5plugin compare filters of different
# classes.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Codec(h5py.filters.FilterRefBase):  # type: ignore[misc]  # h5py has no types
    """Base of the codecs: PFPL, CuSZp2, AATROX, Interp and Auto.

    The bound holds for every finite value, in exact arithmetic. NaN, infinities, the dataset's fill
    value and values named by `exact` come back bit for bit. Exactly one bound is given; there is no
    default.

    Give a codec to h5py as ``compression=``, or by ``**`` to functions that pass keyword arguments
    on (h5netcdf, xarray):

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
        Largest ``|x - x'| / (max - min)``. Greater than 0, and finite. The filter uses the range of
        each chunk, which is stricter than that of the whole: see `resolve`.
    noise : float, optional
        For integers of up to 32 bits that count something, such as photons: largest ``|x - x'| /
        sqrt(|x|)``, in counts, rounded down. From 1/16 to 256. If `absolute` is also given, the
        bound is never less than that: ``max(absolute, noise * sqrt(|x|))``.
    significant_digits : int, optional
        Another way to give `pointwise_relative`: 0.5 * 10**-n, for n from 1 to 15. No value is off
        by more than half a unit of its n-th significant decimal digit, as netCDF's quantization
        promises for its number of significant digits.
    modulus : float, optional
        For complex numbers, another way to give `absolute`, which bounds the real and the imaginary
        part each: the largest absolute bound that keeps ``|x - x'|``, the modulus of the
        difference, within this value.
    exact : int or sequence of int, optional
        For integers and halves: values that come back unchanged, and that no other value becomes,
        such as 65535 and 65534 for gaps and dead pixels. The dataset's fill value always is one,
        unless it is 0, and need not be given. At most two in all; for integers of 64 bits, one.
        Numbers from 2**63 on are for uint64: cd_values have the same words for 2**64 less.
        `lossless` does not need them, and ignores them.
    wide : bool, optional
        For integers with an absolute or range-relative bound: overlapping bins, so that each value
        comes back as one of two multiples of the bound plus 1, the one that its neighbours suggest.
        Frames are smaller if neighbours differ by less than the bound (noise), and larger
        otherwise. The largest error is the same, the mean error larger. `lossless` ignores it.
    thresholds : float or sequence of float, optional
        Numbers whose sides values keep: a value below, at or above one of them still is when it
        comes back. At most four. `lossless` ignores them, and the valid range. For integers and
        halves, 0 is the only one allowed, and counts as one of the values that `exact` names.
    valid_range : (float, float), optional
        Values in this range, its ends included, stay in it, and no other value moves into it. For
        floats of 32 and 64 bits.
    keep : {"sign", "zero"}, optional
        Another way to give 0 as a threshold: no value changes its sign, zeros stay zero, and no
        other value becomes zero.
    lossless : bool, optional
        Keep every bit. The frames are then PFPL's, since no other codec has a lossless form; for
        integers and halves Interp has one, too.
    checksum : bool, optional
        Whether frames carry a checksum of their payload, so that a damaged file raises an error
        instead of giving wrong data. It takes 4 bytes a chunk. On by default.

    Raises
    ------
    BoundError, InvalidArgumentError
        If the value of the bound, or of one of the codec's own parameters, is not allowed.
    TypeError
        If not exactly one bound is given, or an argument has the wrong type. Numbers are those of
        Python and NumPy, fractions, and arrays without axes that hold one; bool, text, complex and
        decimal numbers are none.

    Examples
    --------
    >>> PFPL(absolute=3, exact=(65535, 65534))
    PFPL(absolute=3.0, exact=(65534, 65535))
    """

    absolute: float | None = None
    pointwise_relative: float | None = None
    range_relative: float | None = None
    noise: float | None = None
    exact: int | Sequence[int] = ()
    wide: bool = False
    thresholds: float | Sequence[float] = ()
    valid_range: Sequence[float] | None = None
    lossless: bool = False
    checksum: bool = True
    #: Another way to give `pointwise_relative`.
    significant_digits: InitVar[int | None] = None
    #: Another way to give `absolute`.
    modulus: InitVar[float | None] = None
    #: Another way to give 0 as one of the `thresholds`.
    keep: InitVar[str | None] = None

    filter_id: ClassVar[int] = FILTER_ID
    filter_name: ClassVar[str] = FILTER_NAME
    codec_number: ClassVar[int]
    codec_name: ClassVar[str]
    #: The bit of a frame's mode that says that the values lie on their own lattice, and are exact;
    #: it is never requested.
    exact_bit: ClassVar[int] = 0
    #: The width of a bin as a fraction of twice the bound, as in the library.
    step_share: ClassVar[_StepShare] = _StepShare()

    def __new__(cls, *values: object, **arguments: Any) -> Self:
        """Check the names of arguments before ``__init__``, so that errors can list valid names."""
        if "relative" in arguments:
            raise TypeError(
                "relative has two meanings in this field: give range_relative, a fraction of "
                "max - min (what hdf5plugin and SZ call relative), or pointwise_relative, a "
                "fraction of each value"
            )
        if values or arguments.keys() - cls.__dataclass_fields__.keys():
            _check_arguments(cls, values, arguments)
        made: Self = super().__new__(cls)
        return made

    def __post_init__(
        self, significant_digits: int | None, modulus: float | None, keep: str | None
    ) -> None:
        values: dict[str, Any] = self.__dict__  # a frozen dataclass allows nothing else
        for flag in ("wide", "lossless", "checksum"):
            given_flag = as_scalar(getattr(self, flag))
            if not isinstance(given_flag, bool | np.bool_):
                raise TypeError(f"{flag} must be True or False, got {given_flag!r}")
            values[flag] = bool(given_flag)
        given = {kind: values[kind] for kind in _BOUND_FIELDS if values[kind] is not None}
        if self.lossless:
            given[BoundKind.LOSSLESS] = 0.0
        floor = given.pop(BoundKind.ABSOLUTE, 0) if BoundKind.NOISE in given else 0
        others = {"significant_digits": significant_digits, "modulus": modulus}
        named = [*given, *(name for name, value in others.items() if value is not None)]
        if len(named) != 1:
            raise TypeError(
                f"{type(self).__name__} takes exactly one bound ({', '.join(STORED_BOUNDS)}; or "
                f"{', '.join(others)}), got {' and '.join(named) or 'none'}"
            )
        if modulus is not None:
            given[BoundKind.ABSOLUTE] = bound_of_modulus(modulus)
        if significant_digits is not None:
            given[BoundKind.POINTWISE_RELATIVE] = bound_of_digits(significant_digits)
        [(kind, value)] = given.items()
        values["bound"] = ErrorBound(kind, value, floor)
        if kind is not BoundKind.LOSSLESS:
            values[str(kind)] = self.bound.value
        if kind is BoundKind.NOISE:
            values["absolute"] = self.bound.floor or None
        exact = _read_exact(self.exact)
        values["exact"] = () if self.lossless else exact
        safeguards = Safeguards.read(self.thresholds, self.valid_range, keep)
        values |= (Safeguards() if self.lossless else safeguards)._asdict()
        values["wide"] = self.wide and not self.lossless
        if self.wide and kind not in {BoundKind.ABSOLUTE, BoundKind.RANGE_RELATIVE}:
            raise InvalidArgumentError(
                f"wide goes with absolute or range_relative, not with {kind}; leave out wide"
            )
        for own in self.choices():
            values[own.name] = _checked_choice(own, values[own.name])

    def __getstate__(self) -> dict[str, Any]:
        """Return only what was given, so that equal codecs have equal pickles."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    @functools.cache
    def choices(cls) -> tuple[dataclasses.Field[Any], ...]:
        """Return the codec's own fields: ``metadata`` has their ``choices`` and ``help``."""
        return tuple(own for own in dataclasses.fields(cls) if "choices" in own.metadata)

    @functools.cached_property
    def bound(self) -> ErrorBound:
        """The error bound, exactly as it was given."""
        if self.noise is not None:
            return ErrorBound(BoundKind.NOISE, self.noise, int(self.absolute or 0))
        given = [kind for kind in _BOUND_FIELDS if getattr(self, kind) is not None]
        return ErrorBound(given[0], getattr(self, given[0])) if given else _LOSSLESS

    @functools.cached_property  # h5py asks for it three times, for each dataset
    def filter_options(self) -> tuple[int, ...]:
        """The requested cd_values: codec, bound kind, bound (two words), flags unless 0."""
        words = _native.pack_cd_values(self.params())
        return words if words[4] else words[:4]

    def params(self) -> _native.Params:
        """Return the settings as the library takes them, without any property of the data."""
        return self._params

    @functools.cached_property  # each chunk that is encoded asks for it
    def _params(self) -> _native.Params:
        bound = self.bound
        return _native.Params(
            codec=self.codec_number,
            bound_kind=bound.kind.number,
            bound=bound.value,
            mode=self._mode(),
            no_checksum=not self.checksum,
            noise_floor=bound.floor,
            exact=self._exact,
            wide=self.wide,
            **self.safeguards._asdict(),
        )

    @property
    def safeguards(self) -> Safeguards:
        """The thresholds and the valid range."""
        return Safeguards(self.thresholds, self.valid_range)  # type: ignore[arg-type]  # as read

    @property
    def _exact(self) -> tuple[int, ...]:
        return self.exact  # type: ignore[return-value]  # what __post_init__ makes of it

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this setting, without those at their default."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }

    def resolve(
        self,
        data: Data,
        fill_value: Any = "auto",
        *,
        missing_value: Any = (),
        confirm_range: bool = False,
    ) -> Self:
        """Turn a range-relative bound into the absolute bound that it means for all of `data`.

        The filter itself sees one chunk at a time and can only use each chunk's own range, which
        keeps the promise but is often much stricter. Resolve first for the best ratio, and for data
        that will be appended to or changed: an absolute bound is kept when a chunk is read, changed
        and written again.

        Parameters
        ----------
        data : array_like or h5py.Dataset
            All of the data, of any type that `encode` takes. A dataset is read in blocks of whole
            chunks, about 32 MiB at a time, on as many threads as `write` takes by default. Of
            complex numbers the range is that of all components.
        fill_value : float, "auto" or None, optional
            Left out of the range, as `h5lossy.missing.no_data` takes it.
        missing_value : float or sequence of float, optional
            Left out likewise, and so are values that are `exact`.
        confirm_range : bool, optional
            Accept the range even if the largest or the smallest value occurs several times, and the
            range without it is more than a million times smaller. Such a value usually marks
            missing values, and a bound relative to such a range would lose all data: that is an
            `InvalidArgumentError` by default.

        Returns
        -------
        Codec
            The same class with ``absolute=``, ``range_relative * (max - min)`` over the valid
            values, rounded down, of integers to a whole number; with ``lossless=True`` where there
            is no valid value, or where the range is 0 or too small for a bound. Itself where the
            bound is not range-relative.

        Examples
        --------
        >>> import numpy as np
        >>> PFPL(range_relative=0.5).resolve(np.array([2.0, 6.0, np.nan], np.float32))
        PFPL(absolute=1.9999999999999996)
        """
        if self.range_relative is None:
            return self
        data, missing = prepared(data, fill_value, [*as_list(missing_value), *self._exact])
        missing = with_zero_threshold(missing, self)
        found = confirmed_range(data, missing, self.bound, confirmed=confirm_range)
        return self.resolved_for(found)

    def resolved_for(self, found: tuple[float, float] | None) -> Self:
        """Return the codec with the absolute bound for data between two values."""
        assert self.range_relative is not None
        absolute: float = 0
        if found and isinstance(found[0], int):
            absolute = math.floor(Fraction(self.range_relative) * (int(found[1]) - found[0]))
        elif found:
            absolute = _native.absolute_bound(self.range_relative, *found)
        return self.with_bound(absolute=absolute) if absolute else self.with_bound(lossless=True)

    def with_bound(self, **bound: Any) -> Self:
        """Return the same setting with another bound."""
        none: dict[str, Any] = {**dict.fromkeys(map(str, _BOUND_FIELDS)), "lossless": False}
        return dataclasses.replace(self, **none | bound)

    @classmethod
    def from_params(cls, params: _native.Params) -> Self:
        """Return the setting that `params` describes; the inverse of `params`."""
        if params.codec != cls.codec_number:
            raise InvalidArgumentError(
                f"these cd_values are of codec {params.codec}, {cls.__name__} is {cls.codec_number}"
            )
        kind = BoundKind.from_number(params.bound_kind)
        bound: dict[str, Any] = {kind: True if kind is BoundKind.LOSSLESS else params.bound}
        if params.noise_floor:
            bound[BoundKind.ABSOLUTE] = params.noise_floor
        settings = cls.chosen_by(params.mode)
        return cls(
            **bound,
            **settings,
            exact=params.exact,
            wide=params.wide,
            thresholds=params.thresholds,
            valid_range=params.valid_range,
            checksum=not params.no_checksum,
        )

    @classmethod
    def chosen_by(cls, mode: int) -> dict[str, Any]:
        """Return the codec's own settings (`choices`) that a mode means; 0: the defaults."""
        fields = cls.choices()
        if mode == 0:
            return {own.name: own.default for own in fields}
        for chosen in itertools.product(*(own.metadata["bits"].items() for own in fields)):
            if mode == sum(bits for _, bits in chosen):
                return {own.name: value for own, (value, _) in zip(fields, chosen, strict=True)}
        raise UnsupportedError(f"{cls.__name__} has no mode {mode:#04x} in this version of h5lossy")

    def _mode(self) -> int:
        """Return the mode as the library takes it: 0 if all settings are the defaults."""
        settings = {own: getattr(self, own.name) for own in self.choices()}
        if all(value == own.default for own, value in settings.items()):
            return 0
        return sum(own.metadata["bits"][value] for own, value in settings.items())

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PFPL(Codec):
    """PFPL: quantize, take differences, transpose bits, drop zero bytes.

    The parameters are those of `Codec`.

    Notes
    -----
    The algorithm is that of Fallin, Azami, Di, Cappello and Burtscher, "Fast and
    Effective Lossy Compression on GPUs and CPUs with Guaranteed Error Bounds", IPDPS 2025, with
    stricter quantizers: ``docs/format/pfpl.md``.

    Examples
    --------
    >>> PFPL(absolute=1e-3).filter_options
    (1, 0, 3539053052, 1062232653)
    """

    codec_number: ClassVar[int] = 1
    codec_name: ClassVar[str] = "pfpl"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CuSZp2(Codec):
    """cuSZp2: quantize, take differences in small blocks, keep each block with its own bit width.

    Parameters
    ----------
    **bound
        Bound and checksum, as in `Codec`.
    mode : {"outlier", "plain", "fixed"}, optional
        What is kept of a block. "plain": differences of neighbours. "outlier": the same, but the
        first one of a block may be kept apart where that takes less room. "fixed": the quantized
        values themselves.
    dimensions : {1, 2, 3}, optional
        Blocks of 32 values in a row, of 8 x 8, or of 4 x 4 x 4. A chunk with fewer extents other
        than 1 is taken with as many dimensions as it has.

    Notes
    -----
    The algorithm is that of Huang, Di, Li and Cappello, "cuSZp2: A GPU Lossy Compressor with
    Extreme Throughput and Optimized Compression Ratio", SC 2024, with the quantizers of `PFPL`:
    ``docs/format/cuszp2.md``.

    Examples
    --------
    >>> codec = CuSZp2(absolute=1e-3, dimensions=2)
    >>> codec, codec.filter_options
    (CuSZp2(absolute=0.001, dimensions=2), (2, 0, 3539053052, 1062232653, 33))
    """

    mode: str = field(
        default="outlier",
        metadata=_choices(
            {"plain": 0x00, "outlier": 0x01, "fixed": 0x02},
            "What is kept of a block: differences (plain), the same with the first one apart "
            "where that is shorter (outlier), or the quantized values themselves (fixed).",
        ),
    )
    dimensions: int = field(
        default=1,
        metadata=_choices(
            {1: 0x10, 2: 0x20, 3: 0x30}, "Dimensions of the blocks in which values are kept."
        ),
    )

    codec_number: ClassVar[int] = 2
    codec_name: ClassVar[str] = "cuszp2"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AATROX(Codec):
    """AATROX: quantize, take differences in long layers, keep each 32 with their own bit width.

    The parameters are those of `Codec`.

    Notes
    -----
    The algorithm is that of Zhang, Huang, Di, Song, Li and Cappello, "Pushing the Limits of GPU
    Lossy Compression: A Hierarchical Delta Approach", ICS 2025, with the quantizers of `PFPL`. The
    paper gives no layout of the bytes; ``docs/format/aatrox.md`` does.
    """

    codec_number: ClassVar[int] = 3
    codec_name: ClassVar[str] = "aatrox"


#: One to three of the last four.
_AXES = [axes for n in (1, 2, 3) for axes in itertools.combinations((-4, -3, -2, -1), n)]


def _read_axes(value: Any) -> Any:
    """Return the choice of axes that an argument means, regardless of order."""
    message = (
        'axes must be "auto", or one to three of -1 (the last axis), -2, -3 and -4, as (-2, -1), '
        f"got {value!r}"
    )
    if isinstance(value, str):
        if value != "auto":
            raise InvalidArgumentError(message)
        return str(value)
    axes = as_list(value)
    if not all(is_number(axis, numbers.Integral) for axis in axes):
        raise TypeError(message)
    chosen = tuple(sorted(map(int, axes)))
    if chosen not in _AXES:
        raise InvalidArgumentError(message)
    return chosen


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Interp(Codec):
    """Interp: predict each value from those around it, keep what is missing, and code it by rANS.

    The codec for archives, networks and slow disks: its frames are much smaller than those of the
    other codecs, and take several times as long to write and to read.

    Integers and halves have the same values as with `PFPL`, in smaller frames. `rewritable` has no
    effect on them: their frames never lose ratio when a part is overwritten.

    `Codec`'s promises hold here with one difference. A value changes at most once, however often it
    is written and whatever is overwritten around it, but a chunk that is decoded and encoded again
    may get another frame, of another size.

    Parameters
    ----------
    **bound
        Bound and checksum, as in `Codec`.
    axes : "auto" or tuple of int, optional
        The axes of a chunk along which values are predicted: one to three of -1 (the last one,
        whose values are next to each other in memory), -2, -3 and -4, in any order; a single one
        may be given as it is. "auto": chosen for each chunk, after a sample of its values. That
        takes time, and is right unless the data is known well: variables or components that
        have little to do with each other belong on an axis that is left out.
        Axes are counted without extents of 1: in a chunk of shape (1, 64, 1, 512), -2 is the axis
        of 64. If more than four are left, the first ones count as one, -4. An axis that a chunk
        does not have is ignored.
    rewritable : bool, optional
        For data of which parts are overwritten again and again, or that is appended step by step to
        chunks that span many steps. A chunk that is changed in part keeps its other values exactly
        as they were decoded, and these are harder to predict than the original: by default, such a
        chunk loses much of its ratio until all of it is written again. With True it loses little,
        but the ratio is lower from the start: on average by a fifth with a bound of 1e-2 of the
        range, by a few per cent with tight ones. False by default, which is right for data that is
        written in whole chunks.

    Notes
    -----
    The format is ``docs/format/interp.md``.

    Examples
    --------
    >>> Interp(absolute=1e-3, axes=(-2, -1), rewritable=True).filter_options
    (4, 0, 3539053052, 1062232653, 19)
    """

    axes: str | tuple[int, ...] = field(
        default="auto",
        metadata=_choices(
            {"auto": 0} | {axes: sum(1 << (-1 - axis) for axis in axes) for axes in _AXES},
            "Axes to predict along: one to three of -1 (the last one), -2, -3, -4, separated by "
            "commas and counted without extents of 1; auto chooses for each chunk.",
            _read_axes,
        ),
    )
    rewritable: bool = field(
        default=False,
        metadata=_choices(
            {False: 0x00, True: 0x10},
            "For data of which parts are overwritten time and again: the ratio is somewhat lower, "
            "but overwriting does not lower it further.",
        ),
    )

    codec_number: ClassVar[int] = 4
    codec_name: ClassVar[str] = "interp"
    exact_bit: ClassVar[int] = 0x20


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Auto(Codec):
    """Codec 0: h5lossy picks a codec for each chunk that gives a small frame.

    Parameters
    ----------
    **bound
        Bound and checksum, as in `Codec`.
    prefer : {"speed", "size"}, optional
        What the codec is picked for. "speed", the default: of the fast codecs (all but `Interp`)
        the one whose frame promises to be smallest, by a sample of the chunk. "size": the smallest
        frame of all codecs. That is nearly always `Interp`'s, and takes somewhat longer to write;
        GPUs only decode it.

    Notes
    -----
    The rules give the same frames everywhere: ``docs/format/auto.md``. A frame names the codec that
    was picked (`inspect`).

    With "size", what `Codec` promises holds as for `Interp`: a value changes at most once, but a
    chunk that is decoded and encoded again may get another frame. All frames have `Interp`'s step.

    Examples
    --------
    >>> Auto(absolute=1e-3, prefer="size").filter_options
    (0, 0, 3539053052, 1062232653, 1)
    """

    prefer: str = field(
        default="speed",
        metadata=_choices(
            {"speed": 0, "size": 1},
            "What the codec of a chunk is picked for: speed (among the fast codecs), or size (the "
            "smallest frame of all codecs).",
        ),
    )

    codec_number: ClassVar[int] = 0
    codec_name: ClassVar[str] = "auto"


CODECS: dict[int, type[Codec]] = {
    cls.codec_number: cls for cls in (PFPL, CuSZp2, AATROX, Interp, Auto)
}
"""The class of each codec number in cd_values."""


def get_filters(
    filters: int | str | Sequence[int | str] = FILTER_NAME,
) -> tuple[type[Codec], ...]:
    """Return the classes of the filter, as hdf5plugin's function of this name does for its own.

    Parameters
    ----------
    filters : int, str or sequence of them, optional
        "h5lossy" or 46412, which is all that there is; or "registered". Others raise
        `InvalidArgumentError`.

    Examples
    --------
    >>> [cls.__name__ for cls in get_filters()]
    ['PFPL', 'CuSZp2', 'AATROX', 'Interp', 'Auto']
    """
    asked = [filters] if isinstance(filters, int | str) else filters
    for one in asked:
        _check_filter(one.lower() if isinstance(one, str) else one, "registered")
    return tuple(CODECS.values()) if asked else ()


def _check_filter(filter_id: object, *others: str) -> None:
    """Raise unless it is this filter's number or name, or one of the others."""
    if filter_id not in (FILTER_ID, FILTER_NAME, *others):
        raise InvalidArgumentError(
            f"filter_id must be {FILTER_ID} or {FILTER_NAME!r}, got {filter_id!r}"
        )


def unpacked(filter_options: Sequence[int]) -> _native.Params:
    """Return what requested or stored cd_values mean, according to the library."""
    refusal = InvalidArgumentError(
        f"cd_values are whole numbers from 0 to 2**32 - 1, got {filter_options!r}"
    )
    try:
        words = [operator.index(word) for word in filter_options]
    except TypeError:
        raise refusal from None
    if not all(0 <= word < 2**32 for word in words):
        raise refusal
    return _native.unpack_cd_values(words)


def checked_codec(codec: Any) -> Codec:
    """Return `codec` if it is one, else raise TypeError."""
    if not isinstance(codec, Codec):
        raise TypeError(f"codec must be a codec such as PFPL(absolute=1e-3), got {codec!r}")
    return codec


def codec_from_params(params: _native.Params) -> Codec:
    """Return the setting that `params` describes."""
    if params.codec not in CODECS:
        raise UnsupportedError(
            f"this version of h5lossy has no codec {params.codec}, only "
            f"{', '.join(f'{number} ({cls.__name__})' for number, cls in CODECS.items())}"
        )
    return CODECS[params.codec].from_params(params)


def from_filter_options(filter_id: int | str, filter_options: Sequence[int]) -> Codec:
    """Return exactly the setting that a dataset was made with.

    Parameters
    ----------
    filter_id : int or str
        46412 or "h5lossy".
    filter_options : sequence of int
        The filter's cd_values, as requested or as stored in a file.

    Raises
    ------
    InvalidArgumentError
        If it is another filter, or the cd_values are not allowed. (A ValueError.)
    UnsupportedError
        If a later version wrote the cd_values. (A NotImplementedError.)

    Examples
    --------
    >>> from_filter_options("h5lossy", (1, 1, 3539053052, 1062232653))
    PFPL(pointwise_relative=0.001)
    """
    _check_filter(filter_id)
    return codec_from_params(unpacked(filter_options))


def _read_exact(given: Any) -> tuple[int, ...]:
    """Return the exact values that an argument means, in order."""
    values = as_list(given)
    if not all(is_number(one, numbers.Integral) for one in values):
        raise TypeError(
            "exact takes a whole number, or a tuple, list or array of them, as 65535 or "
            f"(65535, 65534), got {given!r}; of floats, the dataset's fill value, NaN and "
            "infinities are exact"
        )
    exact = tuple(sorted({*map(int, values)}))
    if len(exact) > _native.MAX_EXACT:
        raise InvalidArgumentError(
            f"exact takes at most {_native.MAX_EXACT} values, with the fill value of the dataset, "
            f"got {given!r}; leave some out, or use lossless"
        )
    if not all(-(2**63) <= value < 2**64 for value in exact):
        raise InvalidArgumentError(
            f"exact takes numbers that integers of 64 bits have, from {-(2**63)} to {2**64 - 1}, "
            f"got {given!r}; leave out what the data cannot have"
        )
    return exact


def _checked_choice(own: dataclasses.Field[Any], value: Any) -> Any:
    """Return the choice that equals a value."""
    choices: tuple[Any, ...] = own.metadata["choices"]
    if own.metadata["read"] is not None:
        return own.metadata["read"](value)
    *others, last = map(repr, choices)
    message = f"{own.name} must be {', '.join(others)} or {last}, got {value!r}"
    is_flag = isinstance(own.default, bool)
    value = as_scalar(value)
    if is_flag:
        is_right = isinstance(value, bool | np.bool_)
    elif isinstance(own.default, str):
        is_right = isinstance(value, str)
    else:
        is_right = is_number(value, numbers.Integral)
    if not is_right:
        raise TypeError(message)
    if value not in choices:
        raise InvalidArgumentError(message)
    return choices[choices.index(value)]


name_publicly(__name__)
