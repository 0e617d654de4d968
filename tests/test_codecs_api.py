# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings: what a codec's class accepts and refuses, and what is stored in a file."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import inspect
import math
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import floats_of
from h5lossy import (
    FILTER_ID,
    PFPL,
    Auto,
    BoundError,
    BoundKind,
    CuSZp2,
    ErrorBound,
    InvalidArgumentError,
    UnsupportedError,
    _blocks,
    _native,
    from_filter_options,
)
from h5lossy._codecs import CODECS
from matrix import BOUNDS, CODEC_NAMES, SETTINGS
from strategies import bounds, chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from h5lossy._codecs import Codec

KINDS = ["absolute", "pointwise_relative", "range_relative"]

checksums = st.booleans()


each_setting = pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)

#: The fields that only some codecs have.
OWN_FIELDS = {
    f"{cls.codec_name}-{field.name}": (cls, field)
    for cls in CODECS.values()
    for field in cls.choices()
}
each_own_field = pytest.mark.parametrize(("cls", "field"), OWN_FIELDS.values(), ids=OWN_FIELDS)


def test_every_codec_of_the_library_has_a_class() -> None:
    names = {number: cls.codec_name for number, cls in CODECS.items()}
    assert names == {0: "auto", **CODEC_NAMES}
    assert all(cls.codec_number == number for number, cls in CODECS.items())
    assert all(getattr(h5lossy, cls.__name__) is cls for cls in CODECS.values())
    assert {cls.__name__ for cls in CODECS.values()} <= set(h5lossy.__all__)


def test_a_codec_is_named_after_its_class(codec: type[Codec]) -> None:
    assert codec.codec_name == codec.__name__.lower()
    assert codec.__doc__
    assert codec.__doc__.splitlines()[0].endswith(".")


# ------------------------------------------------------------------------------------------------
# What is taken, and what is refused
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "got"),
    [
        ({}, "none"),
        ({"checksum": False}, "none"),
        ({"lossless": False}, "none"),
        ({"absolute": None}, "none"),
        ({"absolute": 1.0, "lossless": True}, "absolute and lossless"),
        ({"absolute": 1.0, "range_relative": 0.1}, "absolute and range_relative"),
        ({"pointwise_relative": 0.1, "range_relative": 0.1}, "pointwise_relative and range_"),
        ({"absolute": 1.0, "significant_digits": 3}, "absolute and significant_digits"),
    ],
    ids=str,
)
def test_exactly_one_bound_is_needed(
    codec: type[Codec], arguments: dict[str, Any], got: str
) -> None:
    message = (
        rf"{codec.__name__} takes exactly one bound \(absolute, pointwise_relative, "
        rf"range_relative, lossless, noise; or significant_digits, modulus\), got {got}"
    )
    with pytest.raises(TypeError, match=message):
        codec(**arguments)


@pytest.mark.parametrize("digits", range(1, 16))
def test_significant_digits_are_a_pointwise_relative_bound(codec: type[Codec], digits: int) -> None:
    bound = codec(significant_digits=digits).pointwise_relative
    assert Fraction(bound) <= Fraction(1, 2 * 10**digits) < Fraction(math.nextafter(bound, 1))
    assert codec(significant_digits=np.int8(digits)) == codec(pointwise_relative=bound)


@pytest.mark.parametrize("digits", [0, -1, 16, 10**30])
def test_other_numbers_of_digits_are_refused(codec: type[Codec], digits: int) -> None:
    with pytest.raises(BoundError, match=f"must be from 1 to 15, got {digits}"):
        codec(significant_digits=digits)


@pytest.mark.parametrize("digits", [3.0, True, "3"])
def test_digits_are_a_whole_number(codec: type[Codec], digits: Any) -> None:
    with pytest.raises(TypeError, match="significant_digits must be a whole number, got "):
        codec(significant_digits=digits)


@pytest.mark.parametrize("digits", [1, 3, 6])
def test_every_value_keeps_its_significant_digits(
    codec: type[Codec], dtype: str, digits: int
) -> None:
    rng = np.random.default_rng(digits)
    # The last value below a power of ten, and the power, are where a digit is worth most and least.
    powers = np.array([float(f"1e{k}") for k in range(-30, 31)], dtype)
    values = np.concatenate(
        [
            powers,
            np.nextafter(powers, np.array(0, dtype)),
            (10 ** rng.uniform(-30, 30, 2000) * rng.choice([-1, 1], 2000)).astype(dtype),
        ]
    )
    frame = h5lossy.encode(values, codec(significant_digits=digits))
    assert h5lossy.inspect(frame).bound.kind is BoundKind.POINTWISE_RELATIVE
    for before, after in zip(values.tolist(), h5lossy.decode(frame).tolist(), strict=True):
        exact = abs(decimal.Decimal(before))
        # The place of the last digit that is kept, and half of its unit.
        half_unit = decimal.Decimal(5).scaleb(exact.adjusted() - digits)
        assert abs(Fraction(before) - Fraction(after)) <= Fraction(half_unit)


def test_none_stands_for_no_bound(codec: type[Codec]) -> None:
    assert codec(absolute=None, range_relative=0.5) == codec(range_relative=0.5)


@pytest.mark.parametrize("arguments", [{}, {"absolute": 1.0}])
def test_the_bare_word_relative_is_refused_and_explained(
    codec: type[Codec], arguments: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="two meanings") as raised:
        codec(relative=1e-3, **arguments)
    assert "range_relative" in str(raised.value)
    assert "pointwise_relative" in str(raised.value)


def test_an_unknown_argument_is_refused_with_those_that_there_are(codec: type[Codec]) -> None:
    own = [choice.name for choice in codec.choices()]
    for values, arguments, unknown in [((1e-3,), {}, "0.001"), ((), {"abs": 1e-3}, "abs")]:
        with pytest.raises(
            TypeError, match=f"^{codec.__name__} does not take {unknown};"
        ) as raised:
            codec(*values, **arguments)
        said = str(raised.value)
        assert all(name in said for name in ("absolute", "significant_digits", "by name", *own))


def test_subclasses_take_what_they_take(codec: type[Codec]) -> None:
    class Same(codec):
        pass

    class Own(codec):
        def __init__(self, tolerance: float, **others: Any) -> None:
            super().__init__(absolute=tolerance, **others)

    assert Same(absolute=0.5) == Own(0.5) == Own(tolerance=0.5) == codec(absolute=0.5)
    assert Own(0.5, checksum=False) == codec(absolute=0.5, checksum=False)
    with pytest.raises(TypeError, match=r"^Same does not take abs;"):
        Same(abs=0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_out_of_range_is_refused(codec: type[Codec], kind: str) -> None:
    for value in (0, 0.0, -0.0, -1e-3, -math.inf, math.inf, math.nan, np.nan):
        with pytest.raises(BoundError, match=f"^{kind} must be greater than 0 and ") as raised:
            codec(**{kind: value})
        assert f"got {value!r}" in str(raised.value)
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, InvalidArgumentError)


def test_a_pointwise_relative_bound_is_below_1(codec: type[Codec]) -> None:
    for value in (1, 1.0, 1.5, 100, np.nextafter(1.0, 2.0)):
        with pytest.raises(BoundError, match="greater than 0 and less than 1, got "):
            codec(pointwise_relative=value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_that_is_no_number_is_refused(codec: type[Codec], kind: str) -> None:
    for value in ("1e-3", b"1", True, False, 1j, [0.1], (), np.array([0.1]), object()):
        with pytest.raises(TypeError, match=f"{kind} must be a number, got "):
            codec(**{kind: value})


@pytest.mark.parametrize("flag", ["lossless", "checksum"])
def test_a_flag_is_true_or_false(codec: type[Codec], flag: str) -> None:
    arguments = {"absolute": 1.0} if flag == "checksum" else {}
    for value in (1, 0, None, "yes", 1e-3):
        with pytest.raises(TypeError, match=f"{flag} must be True or False, got {value!r}"):
            codec(**{flag: value}, **arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_is_kept_as_it_was_given(codec: type[Codec], kind: str) -> None:
    narrow = np.float64(0.1), np.float32(0.1), np.float16(0.1)
    for value in (0.1, *narrow, Fraction(1, 8), 1e-300, 5e-324):
        kept = getattr(codec(**{kind: value}), kind)
        assert type(kept) is float
        assert Fraction(kept) == Fraction(float(value))


def test_a_number_beyond_float64_is_rounded_down(codec: type[Codec]) -> None:
    wide = [np.nextafter(np.longdouble(0.3), np.longdouble(toward)) for toward in (0, 1)]
    thirds = Fraction(1, 10), Fraction(1, 3), Fraction(2, 3)
    typed = [np.int64(2**53 + 3), np.uint64(2**63 + 2**10 + 2**11 + 1)]
    for given in (*thirds, *wide, 2**53 + 1, 2**53 + 3, 10**400, *typed):
        kept = codec(absolute=given).absolute
        value = int(given) if isinstance(given, np.integer) else given  # compared exactly
        assert kept <= value < math.nextafter(kept, math.inf)


def test_an_exact_number_below_1_is_a_pointwise_relative_bound(codec: type[Codec]) -> None:
    almost = 1 - Fraction(1, 10**30)  # float() of it is 1.0
    assert codec(pointwise_relative=almost).pointwise_relative == math.nextafter(1.0, 0.0)


def test_decimal_numbers_are_refused_since_they_are_no_real_numbers_to_python(
    codec: type[Codec],
) -> None:
    with pytest.raises(TypeError, match="must be a number"):
        codec(absolute=decimal.Decimal("0.1"))


#: What no argument of a codec is.
NO_ARGUMENTS = (
    np.timedelta64(3),
    np.datetime64("2020-01-01"),
    datetime.date(2020, 1, 1),
    decimal.Decimal("0.5"),
    0.5j,
    np.complex64(1),
    np.ma.masked,
    np.array([[1.0]]),
    np.array([3], "m8[ns]"),
    [[1], [1, 2]],
    [1.0, None],
    (n for n in ()),
    b"auto",
    {1: 2},
    {1},
    object(),
)

ARGUMENTS = {
    f"{cls.codec_name}-{name}": (cls, name)
    for cls in CODECS.values()
    for name in inspect.signature(cls).parameters
    if cls is PFPL or name not in inspect.signature(PFPL).parameters
}


@pytest.mark.parametrize(("cls", "name"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_what_is_no_argument_is_named(cls: type[Codec], name: str) -> None:
    is_bound = name in {*BoundKind, "significant_digits"}
    for value in NO_ARGUMENTS:
        with pytest.raises((TypeError, InvalidArgumentError), match=f"^{name} ") as raised:
            cls(**{name: value} if is_bound else {"absolute": 1.0, name: value})
        assert f"got {value!r}" in str(raised.value)


def test_arrays_without_axes_are_what_they_hold() -> None:
    for name, value in (
        *((str(kind), 0.5) for kind in BoundKind if kind is not BoundKind.LOSSLESS),
        ("significant_digits", 3),
        ("lossless", True),
    ):
        assert PFPL(**{name: np.array(value)}) == PFPL(**{name: value})
    held = {"exact": 5, "thresholds": 0, "checksum": False, "wide": True}
    arrays = {name: np.array(value) for name, value in held.items()}
    assert PFPL(absolute=1, **arrays) == PFPL(absolute=1, **held)
    ends = [np.array(1), np.ma.array(2.5)]
    assert PFPL(absolute=1, valid_range=ends) == PFPL(absolute=1, valid_range=(1, 2.5))
    assert CuSZp2(absolute=1, dimensions=np.array(2)) == CuSZp2(absolute=1, dimensions=2)


def test_the_floor_of_noise_is_a_number() -> None:
    assert ErrorBound("noise", 0.5, np.array(0)) == ErrorBound("noise", 0.5)
    for value in ("", False, None, {}, np.zeros(0)):
        with pytest.raises(TypeError, match="absolute must be a number, got "):
            ErrorBound("noise", 0.5, value)


# ------------------------------------------------------------------------------------------------
# A setting as a value
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"absolute": 1e-3}, "(absolute=0.001)"),
        ({"pointwise_relative": 0.25}, "(pointwise_relative=0.25)"),
        ({"range_relative": np.float32(0.5)}, "(range_relative=0.5)"),
        ({"lossless": True}, "(lossless=True)"),
        ({"absolute": 2, "checksum": False}, "(absolute=2.0, checksum=False)"),
        ({"absolute": 2, "checksum": True}, "(absolute=2.0)"),
    ],
    ids=str,
)
def test_repr_is_the_call_that_makes_it(
    codec: type[Codec], arguments: dict[str, Any], text: str
) -> None:
    assert repr(codec(**arguments)) == codec.__name__ + text


@hypothesis.given(bound=bounds(), checksum=checksums)
def test_repr_config_copies_and_pickles_give_an_equal_setting(
    codec: type[Codec], bound: dict[str, Any], checksum: bool
) -> None:
    setting = codec(**bound, checksum=checksum)
    again = [
        eval(repr(setting), {codec.__name__: codec}),
        codec(**setting.get_config()),
        pickle.loads(pickle.dumps(setting)),
        copy.copy(setting),
        copy.deepcopy(setting),
        dataclasses.replace(setting),
    ]
    for one in again:
        assert type(one) is codec
        assert one == setting
        assert hash(one) == hash(setting)
        assert (one.bound, one.checksum) == (setting.bound, setting.checksum)
        assert repr(one) == repr(setting)


def test_settings_that_differ_are_not_equal(codec: type[Codec]) -> None:
    settings = [
        codec(absolute=1e-3),
        codec(absolute=np.nextafter(1e-3, 1)),
        codec(absolute=1e-3, checksum=False),
        codec(pointwise_relative=1e-3),
        codec(range_relative=1e-3),
        codec(lossless=True),
        codec(lossless=True, checksum=False),
    ]
    assert len(set(settings)) == len(settings)
    for i, one in enumerate(settings):
        assert [one == other for other in settings] == [i == j for j in range(len(settings))]
    assert codec(absolute=1e-3) != "gzip"


def test_a_setting_cannot_be_changed(codec: type[Codec]) -> None:
    setting = codec(absolute=1e-3)
    for field in ("absolute", "range_relative", "checksum", "bound", "filter_options"):
        with pytest.raises(AttributeError):
            setattr(setting, field, 1.0)
    assert setting == codec(absolute=1e-3)


def test_config_holds_the_arguments_given(codec: type[Codec]) -> None:
    assert codec(absolute=1).get_config() == {"absolute": 1.0}
    assert codec(lossless=True, checksum=False).get_config() == {
        "lossless": True,
        "checksum": False,
    }


@hypothesis.given(bound=bounds())
def test_a_setting_knows_its_bound(codec: type[Codec], bound: dict[str, Any]) -> None:
    [(kind, value)] = bound.items()
    expected = ErrorBound(kind, 0.0 if kind == "lossless" else value)
    assert codec(**bound).bound == expected


def test_a_setting_is_what_h5py_takes_for_a_filter(codec: type[Codec]) -> None:
    setting = codec(absolute=1e-3)
    assert isinstance(setting, h5py.filters.FilterRefBase)
    assert dict(setting) == {
        "compression": FILTER_ID,
        "compression_opts": setting.filter_options,
    }
    assert FILTER_ID == 46412 == setting.filter_id


# ------------------------------------------------------------------------------------------------
# What only some codecs have
# ------------------------------------------------------------------------------------------------


@each_own_field
def test_a_field_of_its_own_says_what_it_takes(cls: type[Codec], field: Any) -> None:
    choices = field.metadata["choices"]
    assert len(set(choices)) == len(choices) > 1
    assert {type(choice) for choice in choices} in ({str}, {int}, {bool}, {str, tuple})
    assert field.default in choices
    assert getattr(cls(absolute=1.0), field.name) == field.default
    assert field.metadata["help"].endswith(".")
    assert f"{field.name} : " in (cls.__doc__ or "")


@each_own_field
def test_every_choice_is_kept(cls: type[Codec], field: Any) -> None:
    for choice in field.metadata["choices"]:
        setting = cls(absolute=1.0, **{field.name: choice})
        assert getattr(setting, field.name) == choice
        config = setting.get_config()
        assert config == {"absolute": 1.0} | (
            {} if choice == field.default else {field.name: choice}
        )


@each_own_field
def test_a_choice_may_be_numpys(cls: type[Codec], field: Any) -> None:
    for choice in field.metadata["choices"]:
        setting = cls(absolute=1.0, **{field.name: np.array(choice)[()]})
        assert type(getattr(setting, field.name)) is type(choice)
        assert setting == cls(absolute=1.0, **{field.name: choice})


@each_own_field
def test_what_is_no_choice_is_refused(cls: type[Codec], field: Any) -> None:
    if field.metadata["read"] is not None:  # see the tests of the codec
        return
    *first, last = map(repr, field.metadata["choices"])
    allowed = f"^{field.name} must be {', '.join(first)} or {last}, got "
    is_flag = isinstance(field.default, bool)
    wrong = ["", "Plain", "x"] if isinstance(field.default, str) else [-1, 0, 1000, 2**70]
    for value in [] if is_flag else wrong:
        with pytest.raises(InvalidArgumentError, match=allowed) as raised:
            cls(absolute=1.0, **{field.name: value})
        assert str(raised.value).endswith(f"got {value!r}")
    others = [None, 1 if is_flag else True, 1.0, b"plain", [1]]
    for value in [*others, 1 if isinstance(field.default, str) else "1"]:
        with pytest.raises(TypeError, match=allowed) as raised:
            cls(absolute=1.0, **{field.name: value})
        assert str(raised.value).endswith(f"got {value!r}")


@each_own_field
def test_other_codecs_do_not_take_it(codec: type[Codec], cls: type[Codec], field: Any) -> None:
    if field.name in {own.name for own in codec.choices()}:
        return
    with pytest.raises(TypeError, match=f"does not take {field.name};"):
        codec(absolute=1.0, **{field.name: field.default})


@each_setting
def test_every_mode_becomes_cd_values_and_comes_back(make: Callable[..., Codec]) -> None:
    for bound in BOUNDS.values():
        for checksum in (True, False):
            setting = make(**bound, checksum=checksum)
            again = from_filter_options(FILTER_ID, setting.filter_options)
            assert (type(again), again) == (type(setting), setting)
            assert again.get_config() == setting.get_config()
            assert repr(again) == repr(setting)
            assert setting.from_params(setting.params()) == setting
            mode = (*setting.filter_options, 0)[4] & 0xFF
            assert mode == setting.params().mode
            defaults = setting == type(setting)(**bound, checksum=checksum)
            assert (mode == 0) == defaults


def test_no_two_settings_are_equal() -> None:
    for bound in BOUNDS.values():
        settings = [make(**bound) for make in SETTINGS.values()]
        assert len(set(settings)) == len({repr(setting) for setting in settings}) == len(SETTINGS)


@each_setting
def test_every_mode_is_kept_where_a_bound_is_resolved(make: Callable[..., Codec]) -> None:
    resolved = make(range_relative=0.5).resolve(np.array([0.0, 4.0]))
    assert resolved == make(absolute=resolved.absolute)


CUSZP2_MODES = {
    ("plain", 1): 0x10,
    ("outlier", 1): 0,
    ("fixed", 1): 0x12,
    ("plain", 2): 0x20,
    ("outlier", 2): 0x21,
    ("fixed", 2): 0x22,
    ("plain", 3): 0x30,
    ("outlier", 3): 0x31,
    ("fixed", 3): 0x32,
}


@pytest.mark.parametrize(("chosen", "mode"), CUSZP2_MODES.items(), ids=str)
def test_cuszp2s_modes_are_those_of_its_page(chosen: tuple[str, int], mode: int) -> None:
    setting = CuSZp2(absolute=1.0, mode=chosen[0], dimensions=chosen[1])
    assert setting.params().mode == mode
    assert setting.filter_options == ((2, 0, *ONE, mode) if mode else (2, 0, *ONE))


def test_cuszp2s_default_may_be_spelled_out_in_cd_values() -> None:
    spelled = from_filter_options(FILTER_ID, (2, 0, *ONE, 0x11))
    assert spelled == CuSZp2(absolute=1.0)
    assert spelled.filter_options == (2, 0, *ONE)


@pytest.mark.parametrize("mode", [0x01, 0x03, 0x13, 0x02, 0x40, 0x51, 0x91, 0x100])
def test_a_mode_that_is_not_there_is_unsupported(mode: int) -> None:
    params = dataclasses.replace(CuSZp2(absolute=1.0).params(), mode=mode)
    with pytest.raises(UnsupportedError, match=f"CuSZp2 has no mode {mode:#04x}"):
        CuSZp2.from_params(params)


def test_only_codecs_with_choices_have_modes(codec: type[Codec]) -> None:
    assert codec.chosen_by(0) == {own.name: own.default for own in codec.choices()}
    if not codec.choices():
        with pytest.raises(UnsupportedError, match=f"{codec.__name__} has no mode 0x11"):
            codec.chosen_by(0x11)


# ------------------------------------------------------------------------------------------------
# cd_values
# ------------------------------------------------------------------------------------------------

ONE = (0, 0x3FF00000)  # 1.0


@hypothesis.given(bound=bounds(), checksum=checksums)
def test_cd_values_give_the_setting_back_exactly(
    codec: type[Codec], bound: dict[str, Any], checksum: bool
) -> None:
    setting = codec(**bound, checksum=checksum)
    options = setting.filter_options
    assert all(type(word) is int and 0 <= word < 2**32 for word in options)
    assert len(options) == (4 if checksum else 5)
    again = from_filter_options(FILTER_ID, options)
    assert (type(again), again) == (codec, setting)
    assert again.get_config() == setting.get_config()


@hypothesis.given(
    bound=bounds(),
    checksum=checksums,
    size=st.sampled_from([4, 8]),
    big_endian=st.booleans(),
    fill=st.none() | st.integers(0, 2**32 - 1),
    shape=st.lists(st.integers(2, 9), max_size=8).map(tuple),
)
def test_stored_cd_values_give_the_setting_and_the_local_part_back(
    codec: type[Codec],
    *,
    bound: dict[str, Any],
    checksum: bool,
    size: int,
    big_endian: bool,
    fill: int | None,
    shape: tuple[int, ...],
) -> None:
    setting = codec(**bound, checksum=checksum)
    params = dataclasses.replace(
        setting.params(), value_bytes=size, big_endian=big_endian, fill_bits=fill, shape=shape
    )
    words = _native.pack_cd_values(params)
    assert len(words) == 16
    assert from_filter_options("h5lossy", words) == setting
    # NaN and +0.0 need no care, and one form of cd_values has no mention of them.
    if fill is not None and not fill:
        fill = None
    if fill is not None and np.isnan(floats_of(np.array([fill], f"u{size}"), f"f{size}")[0]):
        fill = None
    again = _native.unpack_cd_values(words)
    assert (again.value_bytes, again.big_endian, again.shape) == (size, big_endian, shape)
    if fill is not None:
        assert again.fill_bits == fill
    # What is behind the 16th word is none of our business.
    assert from_filter_options(FILTER_ID, (*words, 1, 2, 3)) == setting


@pytest.mark.parametrize("container", [tuple, list, np.array])
def test_cd_values_may_come_in_any_sequence(codec: type[Codec], container: Any) -> None:
    setting = codec(absolute=0.25)
    assert from_filter_options(FILTER_ID, container(setting.filter_options)) == setting


def test_lossless_needs_two_words_or_the_codec_alone(codec: type[Codec]) -> None:
    for words in ((codec.codec_number, 3), (codec.codec_number,)):
        assert from_filter_options(FILTER_ID, words) == codec(lossless=True)


@pytest.mark.parametrize("filter_id", [1, 32015, "gzip", None])
def test_the_options_of_another_filter_are_refused(filter_id: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"filter_id must be 46412 or 'h5lossy', got "):
        from_filter_options(filter_id, PFPL(lossless=True).filter_options)


def test_the_options_of_another_codec_are_refused(codec: type[Codec]) -> None:
    other = Auto if codec is PFPL else PFPL
    message = f"codec {other.codec_number}, {codec.__name__} is {codec.codec_number}"
    with pytest.raises(InvalidArgumentError, match=message):
        codec.from_params(other(lossless=True).params())


def test_a_codec_without_a_class_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    words = PFPL(lossless=True).filter_options
    others = {number: cls for number, cls in CODECS.items() if cls is not PFPL}
    monkeypatch.setattr("h5lossy._codecs.CODECS", others)
    with pytest.raises(UnsupportedError, match=r"no codec 1, only 2 \(CuSZp2\), "):
        from_filter_options(FILTER_ID, words)


# ------------------------------------------------------------------------------------------------
# Bounds
# ------------------------------------------------------------------------------------------------


def test_the_kinds_of_bounds_are_the_names_of_the_arguments(codec: type[Codec]) -> None:
    assert list(BoundKind) == [*BOUNDS, "noise", "modulus"]
    stored = [*BoundKind][:5]  # moduli are only compared
    assert [kind.number for kind in stored] == [0, 1, 2, 3, 4]
    assert [BoundKind.from_number(number) for number in range(5)] == stored


def test_a_bound_is_a_value() -> None:
    bound = ErrorBound("absolute", 0.5)
    assert bound == ErrorBound(BoundKind.ABSOLUTE, np.float32(0.5))
    assert len({bound, ErrorBound("absolute", 0.5), ErrorBound("lossless")}) == 2
    assert (str(bound), str(ErrorBound("lossless"))) == ("absolute 0.5", "lossless")
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.value = 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("relative", 0.1), "kind must be one of absolute, .*, got 'relative'"),
        (("absolute",), "absolute must be greater than 0 and finite, got 0.0"),
        (("lossless", 0.1), "a lossless bound has the value 0, got 0.1"),
    ],
)
def test_a_bound_that_is_not_allowed_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(BoundError, match=message):
        ErrorBound(*arguments)


# ------------------------------------------------------------------------------------------------
# resolve
# ------------------------------------------------------------------------------------------------


def exact_bound(values: np.ndarray[Any, Any], value: float, fill_value: Any) -> Fraction:
    """Return bound * (max - min) over the valid values."""
    with np.errstate(invalid="ignore"):
        valid = np.isfinite(values)
        if fill_value is not None:
            valid &= ~((values == fill_value) & (np.signbit(values) == np.signbit(fill_value)))
    found = values[valid].astype(float).tolist() or [0.0]
    return Fraction(value) * (Fraction(max(found)) - Fraction(min(found)))


@hypothesis.given(data=st.data())
def test_a_resolved_bound_is_a_little_below_the_exact_one(
    dtype: np.dtype[Any], data: st.DataObject
) -> None:
    chunk = data.draw(chunks(dtype, ["range_relative"], max_count=300))
    value = chunk.bound["range_relative"]
    resolved = PFPL(range_relative=value).resolve(
        chunk.values, fill_value=chunk.fill_value, confirm_range=True
    )
    exact = exact_bound(chunk.values, value, chunk.fill_value)
    if resolved.lossless:
        assert exact <= Fraction(1, 2**1071)  # some of the smallest subnormals
        return
    assert 0 < Fraction(resolved.absolute) <= exact
    # Two ulps down, or the largest number there is.
    assert Fraction(resolved.absolute) > min(
        exact * (1 - Fraction(1, 2**50)) - Fraction(3, 2**1074), Fraction(1.797e308)
    )


def test_only_a_range_relative_bound_is_resolved(codec: type[Codec]) -> None:
    values = np.arange(5.0)
    for bound in ({"absolute": 1.0}, {"pointwise_relative": 0.1}, {"lossless": True}):
        setting = codec(**bound)
        assert setting.resolve(values) is setting


def test_resolving_keeps_class_and_checksum(codec: type[Codec]) -> None:
    setting = codec(range_relative=0.5, checksum=False).resolve(np.array([0.0, 4.0]))
    assert type(setting) is codec
    assert setting == codec(absolute=math.nextafter(math.nextafter(2.0, 0), 0), checksum=False)


def test_without_a_range_the_bound_is_resolved_to_lossless(
    codec: type[Codec], dtype: np.dtype[Any]
) -> None:
    setting = codec(range_relative=0.1, checksum=False)
    special = [np.nan, np.inf, -np.inf], [0.0, -0.0], [np.nan, 1.0, -999.0]
    for values in ([], [5.0], [5.0, 5.0], *special):
        resolved = setting.resolve(np.array(values, dtype), fill_value=-999.0, confirm_range=True)
        assert resolved == codec(lossless=True, checksum=False)


def test_zeros_count_where_a_whole_array_is_seen(codec: type[Codec]) -> None:
    resolved = codec(range_relative=0.1).resolve(np.array([0.0, 1000.0, 1001.0]))
    assert resolved.absolute == pytest.approx(100.1)


def test_lists_and_shapes_can_be_resolved(codec: type[Codec]) -> None:
    setting = codec(range_relative=0.5)
    assert setting.resolve([0.0, 4.0]) == setting.resolve(np.array([[4.0], [0.0]]))
    assert setting.resolve(np.float32(3.0)) == codec(lossless=True)


@pytest.mark.parametrize("values", [[True], ["a"], np.zeros(3, "M8[s]")])
def test_only_numbers_can_be_resolved(codec: type[Codec], values: Any) -> None:
    with pytest.raises(UnsupportedError, match="complex128 and integers, of either byte order"):
        codec(range_relative=0.1).resolve(values)


@pytest.mark.parametrize("block_bytes", [1, 500, 1 << 26])
@pytest.mark.parametrize("chunk_shape", [None, (7, 5, 3), (1, 1, 10)])
def test_a_dataset_is_resolved_block_by_block(
    dtype: np.dtype[Any],
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    block_bytes: int,
    chunk_shape: tuple[int, ...] | None,
) -> None:
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", block_bytes)
    values = np.random.default_rng(1).standard_normal((9, 6, 10)).astype(dtype)
    values[0, 0, 0], values[8, 5, 9], values[3, 3, 3] = -50, 70, np.nan
    setting = PFPL(range_relative=1e-3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("a", data=values, chunks=chunk_shape)
        assert setting.resolve(dataset) == setting.resolve(values)
        assert setting.resolve(dataset).absolute == pytest.approx(0.12)


def test_a_datasets_own_fill_value_is_left_out(codec: type[Codec], tmp_path: Path) -> None:
    setting = codec(range_relative=0.5)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        filled = file.create_dataset("filled", (10,), "f4", chunks=(5,), fillvalue=1e35)
        filled[:3] = 0, 4, 1
        assert setting.resolve(filled).absolute == pytest.approx(2.0)
        given = setting.resolve(filled, fill_value=4.0, confirm_range=True)
        assert given.absolute == pytest.approx(5e34)
        # HDF5's own fill value is a zero like any other.
        plain = file.create_dataset("plain", (10,), "f4", chunks=(5,))
        plain[:3] = 8, 4, 6
        assert setting.resolve(plain).absolute == pytest.approx(4.0)
        empty = file.create_dataset("empty", data=h5py.Empty("f4"))
        assert setting.resolve(empty) == codec(lossless=True)


def test_a_codec_that_was_used_is_pickled_as_a_new_one(setting: Any) -> None:
    used = setting(absolute=1e-3)
    assert pickle.loads(pickle.dumps(used)).filter_options == used.filter_options
    assert pickle.dumps(used) == pickle.dumps(setting(absolute=1e-3))


def test_hdf5plugins_names_are_here() -> None:
    assert h5lossy.FILTERS == {"h5lossy": 46412}
    for asked in ("h5lossy", "H5LOSSY", 46412, ("h5lossy",), "registered"):
        assert h5lossy.get_filters(asked) == tuple(CODECS.values())
    assert h5lossy.get_filters(()) == ()
    assert h5lossy.register("h5lossy", force=True) == h5lossy.register() != ()
    for other in ("zfp", 32013, ("h5lossy", "zfp")):
        with pytest.raises(InvalidArgumentError, match="must be 46412 or 'h5lossy', got"):
            h5lossy.get_filters(other)
        with pytest.raises(InvalidArgumentError, match="must be 46412 or 'h5lossy', got"):
            h5lossy.register(other)
