# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Values that stay exact although there is a bound: up to two, including the fill value."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import (
    PFPL,
    Auto,
    Interp,
    InvalidArgumentError,
    _native,
)
from h5lossy._verification.recorder import Recorder
from hdf5_helpers import h5lossy_command
from reference import frame as reference
from reference import integers
from reference.common import Kind
from test_decoder import decoded_alike, sealed
from test_halves import HALVES, all_values, bits, finite
from test_integers import each_type, pattern, type_of
from test_noise import allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from checks import Array


def near(dtype: str, bound: int) -> list[int]:
    """Return values at the ends of the type and of bins, neighbours among them."""
    of, step = type_of(dtype), 2 * bound + 1
    last = (of.high + bound) // step * step
    ends = (of.low, of.low + 1, of.high - 1, of.high)
    inner = (-step, -1, 0, 1, step - 1, step, step + 1, step + bound, step + bound + 1, last)
    return sorted({x for x in (*ends, *inner) if of.low <= x <= of.high})


def decoded_of(values: Array, codec: Any, fill: Any = None) -> Array:
    """Return the decoded values; no tile is stored."""
    frame = h5lossy.encode(values, codec, fill_value=fill)
    info = h5lossy.inspect(frame)
    assert (info.codec, info.stored_tiles) == (codec.codec_name, 0)
    return h5lossy.decode(frame, shape=values.shape)


def check(
    values: Array, codec: Any, limit: Callable[[Array], Any], fill: int | None = None
) -> Array:
    """Encode values, and judge each decoded one in 64-bit integers."""
    decoded = decoded_of(values, codec, fill)
    wide = values.astype(np.int64)
    assert (np.abs(wide - decoded.astype(np.int64)) <= limit(wide)).all()
    for exact in (*codec.exact, *([] if fill is None else [fill])):
        np.testing.assert_array_equal(decoded == exact, values == exact)
    assert (decoded[values == 0] == 0).all()
    np.testing.assert_array_equal(decoded_of(decoded, codec, fill), decoded)
    return decoded


# ------------------------------------------------------------------------------------------------
# All values
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_all_pairs_of_8_bits_come_back_and_nothing_becomes_them(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.tile(np.arange(info.min, info.max + 1).astype(dtype), (16, 1))
    for bound in (1, 2, 3, 7, 42, 63, 64, 126, 127):
        for i, pair in enumerate(itertools.combinations(near(dtype, bound), 2)):
            fill = pair[0] if i % 3 and pair[0] != 0 else None
            exact = pair[1] if i % 3 == 1 and fill is not None else pair
            decoded = check(values, PFPL(absolute=bound, exact=exact), lambda _, b=bound: b, fill)
            if i % 7 == 0:
                interp = check(
                    values, Interp(absolute=bound, exact=exact), lambda _, b=bound: b, fill
                )
                np.testing.assert_array_equal(interp, decoded)


@pytest.mark.parametrize("dtype", ["<u2", ">i2"])
def test_pairs_of_16_bits_come_back_and_nothing_becomes_them(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.arange(info.min, info.max + 1).astype(dtype).reshape(256, 256)
    for bound in (1, 2, 127, 1000, 10923, 32767):
        pairs = [*itertools.combinations(near(dtype, bound), 2)]
        for pair in random.Random(bound).sample(pairs, min(len(pairs), 12)):
            decoded = check(values, PFPL(absolute=bound, exact=pair), lambda _, b=bound: b)
            interp = h5lossy.encode(values, Interp(absolute=bound, exact=pair))
            if not h5lossy.inspect(interp).stored_tiles:
                np.testing.assert_array_equal(h5lossy.decode(interp, shape=(256, 256)), decoded)


@pytest.mark.parametrize("dtype", ["u1", "i1", "<u2", "<i2"])
@pytest.mark.parametrize(("noise", "floor"), [(1.0, 0), (0.5, 3), (4.0, 1), (16.0, 0)])
def test_noise_bounds_keep_exact_values(dtype: str, noise: float, floor: int) -> None:
    info = np.iinfo(dtype)
    values = np.arange(info.min, info.max + 1).astype(dtype)
    lattice = integers.NoiseLattice(
        type_of(dtype), Kind.NOISE, floor, noise=math.floor(256 * noise)
    )
    middles = [lattice.middle(k) for k in (1, 2, 3, lattice.last, lattice.last - 1)]
    picked = {x + d for x in middles for d in (-1, 0, 1)} | {0, 1, info.min, info.max}
    pairs = [*itertools.combinations(sorted(x for x in picked if info.min <= x <= info.max), 2)]
    limits = np.array([allowed(noise, floor, int(x)) for x in values])
    table = np.tile(values, (16, 1))
    for pair in random.Random(dtype).sample(pairs, min(len(pairs), 6)):
        codec = PFPL(noise=noise, absolute=floor or None, exact=pair)
        frame = h5lossy.encode(table, codec)
        decoded = h5lossy.decode(frame, shape=table.shape)[0]
        assert (np.abs(values.astype(int) - decoded.astype(int)) <= limits).all()
        for exact in pair:
            np.testing.assert_array_equal(decoded == exact, values == exact)
        again = h5lossy.decode(h5lossy.encode(np.tile(decoded, (16, 1)), codec))
        np.testing.assert_array_equal(again[: values.size], decoded)
        interp = h5lossy.encode(table, Interp(**codec.get_config()))
        if not h5lossy.inspect(interp).stored_tiles:
            np.testing.assert_array_equal(h5lossy.decode(interp)[: values.size], decoded)


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("kind", ["absolute", "pointwise_relative"])
@pytest.mark.parametrize("pair", [(-512, 0), (2, 3), (1, 2), (-1, 0), (256, -256), (0, 4096)])
def test_all_halves_come_back_and_nothing_becomes_exact(
    name: str, kind: str, pair: tuple[int, int]
) -> None:
    values = all_values(HALVES[name])
    codec = PFPL(**{kind: 0.3}, exact=pair)
    decoded = decoded_of(np.repeat(values, 32), codec)[::32]
    is_finite = finite(values)
    x, y = (v[is_finite].astype(np.float64) for v in (values, decoded))
    assert (np.abs(x - y) <= 0.3 * (1 if kind == "absolute" else np.abs(x))).all()
    for exact in pair:
        np.testing.assert_array_equal(y == exact, x == exact)
    np.testing.assert_array_equal(bits(decoded)[~is_finite], bits(values)[~is_finite])
    again = decoded_of(np.repeat(decoded, 32), codec)[::32]
    np.testing.assert_array_equal(bits(again), bits(decoded))
    interp = h5lossy.decode(h5lossy.encode(np.repeat(values, 32), Interp(**codec.get_config())))
    np.testing.assert_array_equal(bits(interp[::32]), bits(decoded))


@pytest.mark.parametrize("dtype", ["<u4", ">i4", "<u8", "<i8"])
def test_values_of_32_and_64_bits_come_back_as_the_page_says(dtype: str) -> None:
    of, picked = type_of(dtype), random.Random(dtype)
    most = 2 ** (of.word_bits - 1) - 1
    for bound in (1, 2, 1000, 2**23 + 1, 2**31 - 1, most // 3):
        counts = min(math.floor(float(bound)), most)
        marks = near(dtype, counts)
        for _ in range(6):
            exact = picked.sample(marks, 1 if of.size == 8 else 2)
            values = [x + d for x in marks for d in range(-3, 4) if of.low <= x + d <= of.high]
            patterns = tuple(sorted(pattern(x, dtype) for x in exact))
            lattice = integers.Lattice(of, Kind.ABSOLUTE, 2 * counts + 1, patterns)
            expected = [of.number(lattice.value(of.number(lattice.word(x)))) for x in values]
            assert all(abs(x - y) <= counts for x, y in zip(values, expected, strict=True))
            assert [y in exact for y in expected] == [x in exact for x in values]
            array = np.repeat(np.array(values, dtype), 64)
            for codec in (PFPL, Interp):
                decoded = decoded_of(array, codec(absolute=bound, exact=exact))[::64]
                assert [int(y) for y in decoded] == expected


# ------------------------------------------------------------------------------------------------
# The bytes
# ------------------------------------------------------------------------------------------------


def jobs(dtype: str) -> list[tuple[Array, Any, int | None]]:
    """Return images with gaps and dead pixels, codecs and fill values."""
    rng, info, made = np.random.default_rng(1), np.iinfo(dtype), []
    for seed in range(16):
        shape = [(300,), (20, 50), (3, 20, 30), (40, 70)][seed % 4]
        marks = [(info.max, info.max - 1), (0, info.max), (5, 6), (info.min, 40)][seed // 4]
        values = 30 + 3 * np.add.outer(np.zeros(shape[:-1], int), np.arange(shape[-1])) // 7
        values = (values + rng.integers(0, 5, shape)) % 120
        values = np.where(rng.random(shape) < 0.2, 0, values).astype(object)
        for mark in marks:
            values = np.where(rng.random(shape) < 0.05, int(mark), values)
        kind: Any = [{"absolute": 2}, {"absolute": 7}, {"range_relative": 0.05}, {"noise": 1.0}]
        bound = kind[(seed + seed // 4) % 4]
        if info.bits == 64:
            marks, bound = marks[1:], {"absolute": 3} if "noise" in bound else bound
        fill = int(marks[-1]) if seed % 3 == 0 else None
        exact = marks if seed % 2 or len(marks) == 1 else marks[:-1] if fill else marks
        made.append((values.astype(dtype), PFPL(**bound, exact=[*map(int, exact)]), fill))
    return made


@each_type
def test_interp_has_the_same_values_in_frames_that_the_reference_reads(
    decoder: Any, dtype: str
) -> None:
    for values, codec, fill in jobs(dtype)[::4]:
        small = Interp(**codec.get_config())
        frame = h5lossy.encode(values, small, fill_value=fill)
        decoded = h5lossy.decode(frame)
        np.testing.assert_array_equal(decoded, reference.decode(frame))
        assert decoder.decode(frame) == decoded.tobytes()
        info = h5lossy.inspect(frame)
        if info.codec == "interp" and not info.stored_tiles:
            same = h5lossy.encode(np.repeat(values.reshape(-1), 32), codec, fill_value=fill)
            if "range_relative" not in codec.get_config():
                np.testing.assert_array_equal(h5lossy.decode(same)[::32], decoded)


@pytest.mark.parametrize("codec", [PFPL, Interp])
def test_marks_cost_little(codec: Any) -> None:
    """Exact values are not numbers from which neighbours are predicted."""
    rng = np.random.default_rng(0)
    image = 1000 + np.add.outer(np.arange(120), np.arange(200)) + rng.integers(0, 9, (120, 200))
    image[40:60], image[:, 90:97] = 65535, 65534
    frame = h5lossy.encode(image.astype("u2"), codec(absolute=4, exact=(65535, 65534)))
    plain = h5lossy.encode(image.astype("u2"), codec(absolute=4))
    assert len(frame) <= len(plain) * 1.1 + 100


@pytest.mark.slow
@each_type
def test_damaged_frames_are_refused_or_decoded_alike(decoder: Any, dtype: str) -> None:
    picked = random.Random(dtype)
    for values, codec, fill in jobs(dtype)[::3]:
        for kind in (codec, Interp(**codec.get_config())):
            frame = h5lossy.encode(values.reshape(-1)[:400], kind, fill_value=fill)
            for _ in range(8):
                changed = bytearray(frame)
                at = picked.choice([picked.randrange(40, 80), picked.randrange(len(frame))])
                changed[at] ^= 1 << picked.randrange(8)
                decoded_alike(decoder, sealed(decoder, bytes(changed)))


# ------------------------------------------------------------------------------------------------
# Settings
# ------------------------------------------------------------------------------------------------


def test_the_argument_takes_one_or_two_whole_numbers() -> None:
    assert PFPL(absolute=3, exact=65535).exact == (65535,)
    assert PFPL(absolute=3, exact=np.uint16(7)).exact == (7,)
    assert PFPL(absolute=3, exact=np.array([9, 4, 9])).exact == (4, 9)
    assert PFPL(absolute=3).exact == ()
    codec = Interp(noise=0.5, exact=[65535, 65534])
    assert repr(codec) == "Interp(noise=0.5, exact=(65534, 65535))"
    assert eval(repr(codec), {"Interp": Interp}) == codec
    assert PFPL(lossless=True, exact=5).exact == ()  # all values are
    assert Auto(range_relative=0.1, exact=5).with_bound(absolute=3) == Auto(absolute=3, exact=5)
    for wrong in (1.5, "7", True, (1, 2.0), None):
        with pytest.raises(TypeError, match="exact takes a whole number"):
            PFPL(absolute=3, exact=wrong)
    with pytest.raises(InvalidArgumentError, match="at most 2 values, with the fill value"):
        PFPL(absolute=3, exact=(1, 2, 3))
    with pytest.raises(InvalidArgumentError, match="numbers that integers of 64 bits have"):
        PFPL(absolute=3, exact=2**64)


@pytest.mark.parametrize("exact", [(65535,), (65534, 65535), (0, 65535), (-1, 7), (-(2**63),)])
def test_settings_survive_requested_cd_values(exact: Sequence[int]) -> None:
    codec = Interp(absolute=3, exact=exact, axes=-1)
    words = codec.filter_options
    assert len(words) == 6 + 2 * len(exact)
    assert h5lossy.from_filter_options("h5lossy", words) == codec
    assert h5lossy.from_filter_options("h5lossy", words).exact == tuple(exact)


def test_the_page_has_cd_values_that_come_out() -> None:
    codec = PFPL(absolute=3, exact=(65534, 65535))
    assert codec.filter_options == (1, 0, 0, 1074266112, 2048, 0, 65534, 0, 65535, 0)
    stored = h5lossy._frames.complete_filter_options(codec, np.dtype("u2"), (8, 8), 65535)
    assert stored[4] == 1 << 8 | 1 << 11
    assert stored[14:] == (65534, 65535) or stored[14:] == (65535, 65534)
    assert stored[14] == 65535


@pytest.mark.parametrize(
    ("dtype", "fill", "exact"),
    [
        ("u2", None, (65535,)),
        ("u2", None, (65534, 65535)),
        ("u2", 65535, (65534,)),
        ("u2", 65534, (65534, 65535)),
        ("u2", 65535, (65534, 65535)),
        ("u2", 65535, (65535,)),
        ("u2", 0, (0, 65535)),
        (">i2", -9999, (-32768,)),
        ("i1", None, (-128, 127)),
        ("u8", None, (2**64 - 1,)),
        ("u8", 2**64 - 1, (2**64 - 1,)),
        ("i8", -1, (-1,)),
        ("f2", -1000, (0,)),
        ("f2", None, (-1000, 1000)),
    ],
)
@pytest.mark.parametrize("kind", [PFPL, Interp])
def test_datasets_keep_them_also_where_chunks_are_rewritten(
    tmp_path: Path, kind: Any, dtype: str, fill: int | None, exact: Sequence[int]
) -> None:
    marks = [*exact, *([] if fill is None else [fill])]
    rng = np.random.default_rng(3)
    values = rng.integers(20, 90, (64, 64)).astype(dtype)
    values[:9] = 50
    for mark in marks:
        values[rng.random((64, 64)) < 0.1] = mark
    codec = kind(absolute=3, exact=exact)
    with h5py.File(tmp_path / "a.h5", "w", rdcc_nbytes=0) as f:  # what is read was decoded
        a = f.create_dataset("a", data=values, chunks=(64, 64), fillvalue=fill, compression=codec)
        described = h5lossy.describe(a)
        assert described.config == codec
        assert described.config.exact == tuple(exact)
        stored = a.id.get_create_plist().get_filter_by_id(h5lossy.FILTER_ID)[1]
        first = a[...]
        a[3, 5:9] = 50
        second = a[...]
        expected = first.copy()
        expected[3, 5:9] = second[3, 5:9]
        np.testing.assert_array_equal(second, expected)
        # Stored cd_values given again, to a dataset with another fill value.
        b = f.create_dataset("b", data=values, chunks=(64, 64), compression=h5lossy.FILTER_ID,
                             compression_opts=stored)  # fmt: skip
        assert h5lossy.describe(b).config.exact == tuple(exact)
        c = f.create_dataset(
            "c", (64, 64), dtype, chunks=(64, 64), fillvalue=fill, compression=codec
        )
        h5lossy.write(c, values, verify=True)
        np.testing.assert_array_equal(c[...], first)
        wrong = first.copy()
        wrong[values == 50] = exact[0]
        recorder = Recorder(c)
        recorder.add((0, 0), values, wrong)
        assert recorder.checker.summary().special_changed
    for mark in exact:
        np.testing.assert_array_equal(first == mark, values == mark)
    assert (np.abs(first.astype(float) - values.astype(float)) <= 3).all()


def test_the_library_refuses_them_beside_lossless() -> None:
    params = _native.Params(bound_kind=3, value_class=1, value_bytes=2, exact=(7,))
    with pytest.raises(InvalidArgumentError, match="none with lossless"):
        _native.encode(params, np.arange(100, dtype="u2"))


@pytest.mark.parametrize("dtype", ["u2", "i4", "f2"])
def test_the_range_leaves_them_out(dtype: str) -> None:
    values = np.tile(np.arange(100), 40).astype(dtype)
    values[::7], values[1::9] = 30000, 20000
    codec = PFPL(range_relative=0.1, exact=(30000, 20000))
    if dtype == "f2":
        values[::7], values[1::9] = 30000, 20000
    decoded = h5lossy.decode(h5lossy.encode(values, codec))
    error = np.abs(decoded.astype(float) - values.astype(float))
    assert 0 < error.max() <= 0.1 * 99
    assert (error[values > 99] == 0).all()
    assert codec.resolve(values).absolute == pytest.approx(9 if dtype != "f2" else 9.9)


def test_the_command_prints_them_and_info_shows_them(tmp_path: Path) -> None:
    options = ("--absolute", "3", "--exact", "65535", "--exact", "65534")
    printed = h5lossy_command("cd-values", *options).stdout
    assert "2048, 0, 65534, 0, 65535, 0" in printed
    assert "PFPL(absolute=3.0, exact=(65534, 65535))" in printed
    with h5py.File(tmp_path / "a.h5", "w") as f:
        codec = PFPL(absolute=3, exact=(65534, 65535))
        f.create_dataset("a", data=np.arange(5000, dtype="u2"), chunks=(5000,), compression=codec)
    assert "65534, 65535" in h5lossy_command("info", str(tmp_path / "a.h5")).stdout


@pytest.mark.parametrize(("dtype", "exact"), [("i2", 2**64 - 1), ("i8", 2**63), ("u8", -1)])
def test_a_number_that_the_type_does_not_have_is_not_another_one(dtype: str, exact: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"the exact value {exact} is none of u?int"):
        h5lossy.encode(np.zeros(9, dtype), PFPL(absolute=3, exact=exact))


def test_repacking_keeps_what_was_exact(tmp_path: Path) -> None:
    source, packed = tmp_path / "a.h5", tmp_path / "b.h5"
    rng = np.random.default_rng(1)
    image = (1000 + rng.integers(0, 99, (90, 90)).cumsum(1)).astype("u2")
    image[:, 3], image[7] = 65535, 65534
    codec = PFPL(absolute=2, exact=(65535, 65534))
    with h5py.File(source, "w") as file:
        file.create_dataset("t", data=image, chunks=(45, 90), compression=codec)
    h5lossy_command("repack", source, packed, "--dataset", "/t:absolute=30,codec=interp")
    with h5py.File(packed) as file:
        kept = h5lossy.describe(file["t"]).config.exact
        assert {*kept, int(file["t"].fillvalue)} >= {*codec.exact}
        read = file["t"][...]
    for exact in codec.exact:
        np.testing.assert_array_equal(read == exact, image == exact)
    assert (read != image).any()
