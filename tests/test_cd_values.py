# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""cd_values: docs/format/cd_values.md compared with what the library packs, unpacks and stores."""

from __future__ import annotations

import functools
import itertools
import re
import shlex
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import pytest

from h5lossy import (
    FILTER_ID,
    PFPL,
    CuSZp2,
    InvalidArgumentError,
    UnsupportedError,
    _native,
    from_filter_options,
)
from h5lossy._codecs import CODECS
from h5lossy._native import Params, pack_cd_values, unpack_cd_values
from hdf5_helpers import cd_values, h5lossy_command
from matrix import BOUNDS, DTYPES, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from h5lossy._codecs import Codec

PAGE = (Path(__file__).parents[1] / "docs" / "format" / "cd_values.md").read_text("utf-8")

ONE = (0, 0x3FF00000)


def table_row(first: str) -> list[str]:
    """Return the cells of the page's table row that starts with `first`."""
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def words_of_the_example() -> tuple[int, ...]:
    """Return the stored cd_values that the page ends with."""
    block = PAGE[PAGE.rindex("Stored for a dataset") :]
    return tuple(map(int, re.search(r"```\n([\d ]+)\n", block)[1].split()))


# ------------------------------------------------------------------------------------------------
# The page
# ------------------------------------------------------------------------------------------------


def test_the_pages_codecs_have_the_librarys_numbers() -> None:
    numbers = re.findall(r"(\d+) \[(\w+)\]", table_row("0")[1].partition("codec: ")[2])

    assert {int(number): name.lower() for number, name in numbers} == {
        number: cls.codec_name for number, cls in CODECS.items()
    }


def test_the_worked_example_of_a_mode_is_what_the_class_asks_for() -> None:
    words = CuSZp2(absolute=1e-3, mode="plain", dimensions=2).filter_options

    assert f"`{' '.join(map(str, words))}`" in PAGE


def test_the_pages_bound_kinds_have_the_librarys_numbers() -> None:
    numbers = dict(re.findall(r"(\d) ([\w-]+)", table_row("1")[1]))

    assert numbers == {
        str(_native.BOUND_ABSOLUTE): "absolute",
        str(_native.BOUND_POINTWISE_RELATIVE): "pointwise-relative",
        str(_native.BOUND_RANGE_RELATIVE): "range-relative",
        str(_native.BOUND_LOSSLESS): "lossless",
        str(_native.BOUND_NOISE): "noise",
    }


def test_the_worked_example_is_what_the_file_gets(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = {"chunks": (100, 200), "fillvalue": -999, "compression": PFPL(absolute=1e-3)}
        dataset = file.create_dataset("x", (1000, 1000), "<f4", **options)
        assert cd_values(dataset) == words_of_the_example()


def test_the_worked_example_unpacks_to_what_the_page_says() -> None:
    words = words_of_the_example()
    expected = Params(
        codec=1,
        bound_kind=0,
        bound=1e-3,
        value_bytes=4,
        big_endian=False,
        fill_bits=0xC479C000,
        shape=(100, 200),
    )

    assert unpack_cd_values(words) == expected
    assert pack_cd_values(expected) == words
    assert f"0x{words[5]:08X}" in PAGE
    assert struct.unpack("<d", struct.pack("<II", *words[2:4])) == (1e-3,)


def forms_of_the_page() -> dict[str, str]:
    """Return the tools' forms of absolute 0.001."""
    rows = re.findall(r"^\| (h5py|h5repack|nccopy|ncgen)[^|]*\| `(.*)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    return dict(rows)


@pytest.mark.parametrize("tool", ["h5py", "h5repack", "nccopy", "ncgen"])
def test_the_command_line_prints_the_forms_of_the_page(tool: str) -> None:
    said = h5lossy_command("cd-values", "--absolute", "1e-3").stdout

    form = forms_of_the_page()[tool]
    assert any(line.startswith(tool) and form in line for line in said.splitlines())


def test_the_forms_of_the_page_all_mean_the_same() -> None:
    forms = forms_of_the_page()
    expected = (FILTER_ID, *PFPL(absolute=1e-3).filter_options)

    h5py_form = tuple(map(int, re.findall(r"\d+", forms["h5py"].replace("h5py", ""))))
    ud = shlex.split(forms["h5repack"])[1].partition("UD=")[2]
    number, flag, count, *words = map(int, ud.split(","))
    assert h5py_form == expected
    assert (number, *words) == expected
    assert (flag, count) == (1, 4)
    for tool in ("nccopy", "ncgen"):
        assert f"{FILTER_ID},1,0,0.001d" in forms[tool]


# ------------------------------------------------------------------------------------------------
# Packing and unpacking
# ------------------------------------------------------------------------------------------------


def params() -> Iterator[Params]:
    """Yield parameters that differ in one field each."""
    yield Params(codec=0, bound_kind=0, bound=1.0)
    yield Params(codec=1, bound_kind=1, bound=0.125)
    yield Params(codec=1, bound_kind=2, bound=5e-324)
    yield Params(codec=1, bound_kind=3)
    yield Params(codec=1, bound_kind=0, bound=1.7976931348623157e308, no_checksum=True)
    for number in CODECS:
        yield Params(codec=number, bound_kind=0, bound=1.0)
    yield Params(codec=2, bound_kind=1, bound=0.5, mode=0x32)
    yield Params(codec=2, bound_kind=3, mode=0x10, no_checksum=True, value_bytes=4, shape=(7, 9))
    for value_bytes in (4, 8):
        for big_endian in (False, True):
            for rank in range(9):
                yield Params(
                    codec=1,
                    bound_kind=0,
                    bound=1e-3,
                    value_bytes=value_bytes,
                    big_endian=big_endian,
                    shape=tuple(range(2, 2 + rank)),
                )
    whole = Params(codec=1, bound_kind=0, bound=1e-3, value_bytes=8, shape=(7,))
    yield Params(**{**vars(whole), "fill_bits": 0xC08F380000000000})
    yield Params(**{**vars(whole), "fill_bits": 1 << 63})  # -0.0
    yield Params(**{**vars(whole), "fill_bits": 1})
    yield Params(**{**vars(whole), "shape": (2**29 - 6,)})


@pytest.mark.parametrize("given", list(params()), ids=str)
def test_unpacking_is_the_inverse_of_packing(given: Params) -> None:
    words = pack_cd_values(given)

    assert len(words) == (16 if given.value_bytes else 5)
    assert unpack_cd_values(words) == given


@pytest.mark.parametrize("given", list(params()), ids=str)
def test_each_word_is_what_the_table_says(given: Params) -> None:
    words = pack_cd_values(given) + (0,) * 11
    low, high = struct.unpack("<II", struct.pack("<d", given.bound))
    fill = given.fill_bits or 0
    local = 1 | given.value_bytes << 8 | given.big_endian << 16 | len(given.shape) << 24

    assert words[0] == given.codec
    assert words[1] == given.bound_kind
    assert words[2:4] == (low, high)
    assert words[4] == given.mode | (given.fill_bits is not None) << 8 | given.no_checksum << 9
    assert words[5] == (local if given.value_bytes else 0)
    assert words[6:14] == given.shape + (0,) * (8 - len(given.shape))
    assert words[14:16] == (fill % 2**32, fill >> 32)


@pytest.mark.parametrize("fill_bits", [0, 0x7FC00000, 0xFFC00000, 0x7F800001])
def test_fill_values_that_come_back_in_any_case_are_left_out(fill_bits: int) -> None:
    # +0.0 and NaN.
    given = Params(codec=1, bound=1.0, value_bytes=4, fill_bits=fill_bits)

    assert unpack_cd_values(pack_cd_values(given)).fill_bits is None


def test_words_that_are_left_out_count_as_0() -> None:
    words = (1, 0, *ONE)

    assert unpack_cd_values(words) == unpack_cd_values((*words, *[0] * 12))
    assert unpack_cd_values((1, 3)) == unpack_cd_values((1, 3, *[0] * 14))


def test_words_past_the_16th_are_ignored() -> None:
    words = words_of_the_example()

    assert unpack_cd_values((*words, 1, 2, 3)) == unpack_cd_values(words)


def test_the_fill_value_counts_only_with_its_flag() -> None:
    words = list(words_of_the_example())
    words[4] = 0

    assert unpack_cd_values(words).fill_bits is None


NEGATIVE_1, INFINITE, NAN = (0, 0xBFF00000), (0, 0x7FF00000), (0, 0x7FF80000)
LOCAL = 0x01000401
LARGE = "a chunk of more than"

#: Words that no dataset can have. A user gives up to five; further ones are set_local's.
REFUSED: list[tuple[tuple[int, ...], type[Exception], str]] = [
    ((), InvalidArgumentError, "cd_values need at least 4 words .* got 0"),
    ((9,), UnsupportedError, "codec 9 is not in this version"),
    ((1, 0), InvalidArgumentError, "cd_values need at least 4 words .* got 2"),
    ((1, 0, 1), InvalidArgumentError, "cd_values need at least 4 words .* got 3"),
    ((5, 0, *ONE), UnsupportedError, "codec 5 is not in this version"),
    ((200, 0, *ONE), UnsupportedError, "codec 200 is not in this version"),
    ((1, 5, *ONE), InvalidArgumentError, r"bound kind must be 0 .* 4 \(noise\), got 5"),
    ((1, 2**32 - 1, *ONE), InvalidArgumentError, "bound kind must be .*, got 4294967295"),
    ((1, 0, 0, 0), InvalidArgumentError, "absolute bound must be greater than 0 .* got 0"),
    ((1, 0, 0, 1 << 31), InvalidArgumentError, "absolute bound must be .* finite, got -0"),
    ((1, 0, *NEGATIVE_1), InvalidArgumentError, "absolute bound must be .* got -1"),
    ((1, 0, *INFINITE), InvalidArgumentError, "absolute bound must be .* finite, got inf"),
    ((1, 0, *NAN), InvalidArgumentError, "absolute bound must be .* finite, got nan"),
    ((1, 1, *ONE), InvalidArgumentError, "pointwise-relative bound must be less than 1, got 1"),
    ((1, 1, 0, 0), InvalidArgumentError, "pointwise-relative bound must be greater than 0"),
    ((1, 1, *INFINITE), InvalidArgumentError, "pointwise-relative bound must be"),
    ((1, 2, 0, 0), InvalidArgumentError, "range-relative bound must be greater than 0"),
    ((1, 2, *INFINITE), InvalidArgumentError, "range-relative bound must be .* finite"),
    ((1, 2, 1, 0x7FF00000), InvalidArgumentError, "range-relative bound must be .* got -?nan"),
    ((1, 3, *ONE), InvalidArgumentError, r"lossless takes no bound \(0\), got 1"),
    ((1, 3, 0, 1 << 31), InvalidArgumentError, r"lossless takes no bound \(0\), got -0"),
    ((1, 4, 0, 0), InvalidArgumentError, "noise bound must be greater than 0"),
    ((1, 4, 0, 0x40800000), InvalidArgumentError, "noise bound must be from .* got 512"),
    ((1, 4, *ONE, 40000 << 16), InvalidArgumentError, "must be at most 32768, .* got 40000"),
    ((0, 0, *ONE, 0x11), UnsupportedError, r"the mode of codec 0 \(auto\) must be 0 .* or 1"),
    ((1, 0, *ONE, 1), UnsupportedError, "pfpl has no mode 1; 0 is its default"),
    ((2, 0, *ONE, 0x13), UnsupportedError, "cuszp2 has no mode 19; 0 is its default"),
    ((2, 0, *ONE, 0x01), UnsupportedError, "cuszp2 has no mode 1; 0 is its default"),
    ((2, 0, *ONE, 0x51), UnsupportedError, "cuszp2 has no mode 81; 0 is its default"),
    ((3, 0, *ONE, 0x10), UnsupportedError, "aatrox has no mode 16; 0 is its default"),
    ((1, 0, *ONE, 3 << 10), UnsupportedError, "newer h5lossy"),
    ((1, 0, *ONE, 1 << 14), UnsupportedError, "cd_values flags 0x4000 need a newer h5lossy"),
    ((1, 0, *ONE, 1 << 16), UnsupportedError, "cd_values flags 0x10000 need a newer h5lossy"),
    ((1, 0, *ONE, 1 << 31), UnsupportedError, "cd_values flags 0x80000000 need a newer h5lossy"),
    ((1, 0, *ONE, 1 << 13), InvalidArgumentError, "word 6 is 0: no safeguard"),
    ((1, 0, *ONE, 1 << 13, 0), InvalidArgumentError, "word 6 is 0: no safeguard"),
    ((1, 0, *ONE, 1 << 13, 0, 5), UnsupportedError, "word 6 is 0x5: safeguards .* newer"),
    ((1, 0, *ONE, 0, LOCAL + 1, 7), UnsupportedError, "word 5 is 0x01000402, of a newer layout"),
    ((1, 0, *ONE, 0, LOCAL - 1, 7), UnsupportedError, "word 5 is 0x01000400, of a newer layout"),
    ((1, 0, *ONE, 0, LOCAL | 1 << 17, 7), UnsupportedError, "word 5 .* of a newer layout"),
    ((1, 0, *ONE, 0, LOCAL | 1 << 23, 7), UnsupportedError, "word 5 .* of a newer layout"),
    ((1, 0, *ONE, 0, 0x01000201, 7), InvalidArgumentError, "values must have 4 bytes .* got 2"),
    ((1, 0, *ONE, 0, 0x01000001, 7), InvalidArgumentError, "word 5 gives values of 0 bytes"),
    ((1, 0, *ONE, 0, 0x1001), InvalidArgumentError, "word 5 gives values of 0 bytes"),
    ((1, 0, *ONE, 0, 0x1301), InvalidArgumentError, "got class 1 and 3 bytes"),
    ((1, 0, *ONE, 0, 0x6201), UnsupportedError, "word 5 gives type 0x62, which needs a newer"),
    ((1, 0, *ONE, 0, 0x5201), InvalidArgumentError, "values must have 4 bytes .* got 2"),
    ((1, 4, *ONE, 0, 0x401), UnsupportedError, "noise is a bound of integers of up to 32"),
    ((1, 1, 0, 0x3FE00000, 0, 0x1201), UnsupportedError, "integers take no pointwise-relative"),
    ((3, 0, *ONE, 0, 0x1201), UnsupportedError, "integers are encoded by PFPL and Interp"),
    ((1, 0, *ONE, 0, 0x09000401), InvalidArgumentError, "word 5 gives rank 9; at most 8"),
    ((1, 0, *ONE, 0, 0xFF000401, 7), InvalidArgumentError, "word 5 gives rank 255; at most 8"),
    ((1, 0, *ONE, 0, LOCAL, 2**30), InvalidArgumentError, LARGE),
    ((1, 0, *ONE, 0, LOCAL, 2**30 - 10), InvalidArgumentError, LARGE),
    ((1, 0, *ONE, 0, 0x02000401, 65536, 65536), InvalidArgumentError, LARGE),
    ((1, 0, *ONE, 0, 0x08000401, *[2**32 - 1] * 8), InvalidArgumentError, LARGE),
    ((1, 0, *ONE, 256, LOCAL, 7, *[0] * 7, 1, 1), InvalidArgumentError, "fill value"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "error", "message"), REFUSED, ids=str)
def test_words_that_are_not_allowed_are_refused(
    tmp_path: Path, words: tuple[int, ...], error: type[Exception], message: str
) -> None:
    for unpack in (unpack_cd_values, functools.partial(from_filter_options, FILTER_ID)):
        with pytest.raises(error, match=message):
            unpack(words)
    if len(words) <= 5:  # set_local writes the others itself
        options = {"chunks": (4,), "compression": FILTER_ID, "compression_opts": words}
        with (
            h5py.File(tmp_path / "a.h5", "w") as file,
            pytest.raises(ValueError, match=f"h5lossy: .*{message}"),
        ):
            file.create_dataset("x", (8,), "f4", **options)


@pytest.mark.parametrize("word", [-1, 2**32])
def test_words_have_32_bits(word: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"numbers from 0 to 2\*\*32 - 1, got \(1, 3, "):
        from_filter_options(FILTER_ID, (1, 3, word))


# ------------------------------------------------------------------------------------------------
# What set_local stores
# ------------------------------------------------------------------------------------------------

SHAPES: dict[tuple[int, ...], tuple[int, ...]] = {
    (5,): (5,),
    (1,): (),
    (1, 1, 1): (),
    (3, 1, 4): (3, 4),
    (1, 3, 1, 4, 1): (3, 4),
    (2, 3, 2, 3, 2, 3, 2, 3): (2, 3, 2, 3, 2, 3, 2, 3),
    (2, 3, 2, 3, 2, 3, 2, 3, 2): (6, 2, 3, 2, 3, 2, 3, 2),
    (2, 1, 3, 2, 1, 3, 2, 3, 2, 3, 2, 3): (12, 3, 2, 3, 2, 3, 2, 3),
}


@pytest.mark.parametrize(("chunks", "extents"), SHAPES.items(), ids=str)
def test_set_local_stores_the_extents_above_1(
    tmp_path: Path, chunks: tuple[int, ...], extents: tuple[int, ...]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "x", tuple(2 * n for n in chunks), "f4", chunks=chunks, **PFPL(absolute=1.0)
        )
        words = cd_values(dataset)

    assert words[5] == 0x401 | len(extents) << 24
    assert words[6:14] == extents + (0,) * (8 - len(extents))


@pytest.mark.parametrize("dtype", DTYPES)
def test_set_local_stores_type_and_byte_order(tmp_path: Path, dtype: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", (8,), dtype, chunks=(4,), **PFPL(absolute=1.0))
        local = cd_values(dataset)[5]

    assert local == 1 | int(dtype[-1]) << 8 | (dtype[0] == ">") << 16 | 1 << 24


@pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)
def test_set_local_keeps_what_the_user_asked_for(
    tmp_path: Path, make: Callable[..., Codec]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for kind, bound in BOUNDS.items():
            codec = make(**bound, checksum=False)
            words = cd_values(file.create_dataset(kind, (8,), "f4", chunks=(4,), **codec))
            assert words[:5] == codec.filter_options


def refused(words_of: Callable[[int], tuple[int, ...]]) -> dict[int, str]:
    """Return the numbers up to 255 whose cd_values no dataset takes, and why."""
    found = {}
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        for number in range(256):
            options = {"compression": FILTER_ID, "compression_opts": words_of(number)}
            try:
                file.create_dataset(f"{number}", (8,), "f4", chunks=(4,), **options)
            except ValueError as error:
                found[number] = str(error)
    return found


def test_every_codec_and_no_other_is_taken() -> None:
    why = refused(lambda number: (number, 0, *ONE))
    assert why.keys() == set(range(256)) - set(CODECS)
    for number, message in why.items():
        assert f"codec {number} is not in this version" in message


def test_every_mode_and_no_other_is_taken(codec: type[Codec]) -> None:
    why = refused(lambda mode: (codec.codec_number, 0, *ONE, mode))
    bits = (own.metadata["bits"].values() for own in codec.choices())
    assert why.keys() == set(range(256)) - {0, *map(sum, itertools.product(*bits))}
    for mode, message in why.items():
        assert "mode" in message
        with pytest.raises(UnsupportedError):
            codec.chosen_by(mode)
