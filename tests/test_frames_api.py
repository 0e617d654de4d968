# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""encode, decode, inspect: what they accept, return and refuse."""

from __future__ import annotations

import array
import dataclasses
import functools
import mmap
import re
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import assert_same_bits
from h5lossy import (
    AATROX,
    PFPL,
    Auto,
    CorruptFrameError,
    CuSZp2,
    InvalidArgumentError,
    TruncatedFrameError,
    UnsupportedError,
)
from matrix import CODEC_NAMES, DTYPES, SETTINGS
from reference import frame as reference
from strategies import chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from h5lossy._codecs import Codec

SETTING = PFPL(absolute=1e-3)
VALUES = (np.sin(np.arange(10000) / 100) * 20).astype("<f4")
FRAME = h5lossy.encode(VALUES, SETTING)


# ------------------------------------------------------------------------------------------------
# encode
# ------------------------------------------------------------------------------------------------


def test_any_memory_layout_is_encoded_in_c_order(codec: type[Codec], dtype: np.dtype[Any]) -> None:
    plane = VALUES.astype(dtype).reshape(100, 100)
    for values in (
        plane.T,
        plane[::-1],
        plane[:, ::3],
        plane[5:, 7:],
        np.asfortranarray(plane),
        np.broadcast_to(plane[:, :1], plane.shape),
        plane.reshape(10, 10, -1).swapaxes(0, 2),
    ):
        assert h5lossy.encode(values, codec(absolute=0.1)) == h5lossy.encode(
            np.ascontiguousarray(values), codec(absolute=0.1)
        )


def test_values_need_no_alignment(codec: type[Codec], dtype: np.dtype[Any]) -> None:
    values = VALUES.astype(dtype)
    shifted = np.frombuffer(b"x" + values.tobytes(), dtype, offset=1)
    assert not shifted.flags.aligned
    frame = h5lossy.encode(shifted, codec(absolute=1e-3))
    assert frame == h5lossy.encode(values, codec(absolute=1e-3))
    unaligned_frame = memoryview(b"x" + frame)[1:]
    assert h5lossy.decode(unaligned_frame).tobytes() == h5lossy.decode(frame).tobytes()


def test_lists_numbers_and_read_only_arrays_are_encoded(codec: type[Codec]) -> None:
    setting = codec(absolute=0.25)
    assert h5lossy.decode(h5lossy.encode([1.0, 2.5], setting)).tolist() == [1.0, 2.5]
    assert h5lossy.decode(h5lossy.encode(np.float32(7.0), setting), shape=()).item() == 7.0
    read_only = VALUES.copy()
    read_only.flags.writeable = False
    assert h5lossy.encode(read_only, setting) == h5lossy.encode(VALUES, setting)


def test_integers_come_back_as_the_limitations_say(codec: type[Codec]) -> None:
    values = np.random.default_rng(0).integers(0, 100, (64, 64)).astype("f4")
    decoded = h5lossy.decode(h5lossy.encode(values, codec(absolute=0.5)), shape=values.shape)
    assert np.array_equal(decoded, values)


def test_masked_points_come_back_as_the_fill_value(codec: type[Codec]) -> None:
    masked, bound = np.ma.masked_greater(VALUES, 0), codec(absolute=1e-3)
    for fill, given in (
        (-99.5, {"fill_value": -99.5}),
        (1e20, {}),
        (np.nan, {"fill_value": np.nan}),
    ):
        decoded = h5lossy.decode(h5lossy.encode(masked, bound, **given))
        np.testing.assert_array_equal(decoded[masked.mask], VALUES.dtype.type(fill))
        assert abs(decoded - VALUES)[~masked.mask].max() <= 1e-3
    with pytest.raises(
        InvalidArgumentError, match=r"values are masked, and there is no fill value"
    ):
        h5lossy.encode(masked, bound, fill_value=None)
    assert h5lossy.encode(np.ma.array(VALUES), bound) == h5lossy.encode(VALUES, bound)


def test_what_is_too_large_is_refused_before_it_is_read() -> None:
    da = pytest.importorskip("dask.array")

    def fails() -> None:
        raise AssertionError

    values = da.map_blocks(fails, chunks=((1,) * 5, (1 << 30,)), dtype="f4", meta=VALUES[:0])
    with pytest.raises(InvalidArgumentError, match="less than 4 GiB"):
        h5lossy.encode(values, PFPL(absolute=1))


def test_masks_are_found_in_lists() -> None:
    bound = PFPL(absolute=1e-3)
    for values in (np.ma.masked, [1.0, np.ma.masked], [[[1.0]], (np.ma.array([2.0], mask=True),)]):
        decoded = h5lossy.decode(h5lossy.encode(values, bound))
        assert not np.isfinite(decoded[-1]) or decoded[-1] == 1e20, values


@pytest.mark.parametrize("bound", [{"absolute": 1e-3}, {"pointwise_relative": 1e-3}], ids=str)
def test_auto_gives_the_frame_of_one_codec(dtype: np.dtype[Any], bound: dict[str, Any]) -> None:
    # In chunks of less than 8192 values the sample is all of them, so the pick is the smallest.
    for shape in ((8000,), (80, 100), (20, 20, 20)):
        given = VALUES[:8000].astype(dtype).reshape(shape)
        frame = h5lossy.encode(given, Auto(**bound))
        codecs = [PFPL, *(functools.partial(CuSZp2, dimensions=n) for n in (1, 2, 3)), AATROX]
        others = [h5lossy.encode(given, codec(**bound)) for codec in codecs]
        assert frame in others
        assert len(frame) == min(map(len, others))
        assert h5lossy.inspect(frame).codec in CODEC_NAMES.values()


@pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("bound", [{"lossless": True}, {"absolute": 1e-40}], ids=str)
def test_where_nothing_may_be_lost_all_codecs_give_the_frame_of_pfpl(
    bound: dict[str, Any], make: Callable[..., Codec]
) -> None:
    values = np.tile(VALUES[:10], 1000).reshape(20, 20, 25)
    frame = h5lossy.encode(values, make(**bound))
    assert frame == h5lossy.encode(values, PFPL(**bound))
    info = h5lossy.inspect(frame)
    assert (info.codec, info.mode, info.settings, info.dims) == ("pfpl", 0, {}, ())


def test_auto_may_pick_another_codec_for_each_chunk() -> None:
    rng = np.random.default_rng(0)
    smooth = (np.add.outer(np.arange(200), np.arange(200)) ** 2).astype("<f4")
    fields = [smooth, smooth[:, ::-1] + rng.normal(size=smooth.shape).astype("<f4") * 1e3, VALUES]
    frames = [h5lossy.encode(values, Auto(absolute=1.0)) for values in fields]
    assert len({h5lossy.inspect(frame).codec for frame in frames}) > 1


def test_encoding_leaves_the_values_alone(codec: type[Codec], dtype: np.dtype[Any]) -> None:
    values = VALUES.astype(dtype)
    before = values.tobytes()
    h5lossy.encode(values, codec(absolute=1e-3))
    assert values.tobytes() == before


OTHER_TYPES = ["g", "?", "S4", "U4", "O", "M8[s]", [("x", "f4")]]


def test_other_types_are_refused_by_name(codec: type[Codec]) -> None:
    for values in (np.zeros(3, np.dtype(other)) for other in OTHER_TYPES):
        dtype = re.escape(str(values.dtype))
        expected = (
            f"float32, float64, .* and integers, of either byte order, not {dtype}; .*with astype"
        )
        with pytest.raises(UnsupportedError, match=expected) as error:
            h5lossy.encode(values, codec(absolute=1.0))
        assert isinstance(error.value, NotImplementedError)


@pytest.mark.parametrize("setting", [None, "gzip", 46412, (1, 0, 0, 0), 1e-3, PFPL], ids=str)
def test_what_is_no_codec_is_refused(setting: Any) -> None:
    with pytest.raises(
        TypeError, match=r"codec must be a codec such as PFPL\(absolute=1e-3\), got"
    ):
        h5lossy.encode(VALUES, setting)


@pytest.mark.parametrize(
    ("fill_value", "message"),
    [
        ("x", "fill_value must be a number, None or .auto., got 'x'"),
        (True, "fill_value must be one real number, got True"),
        (1j, "fill_value must be one real number, got 1j"),
        ([1.0, 2.0], r"fill_value must be one real number, got \[1.0, 2.0\]"),
        (1e300, r"fill_value must be a float32 value, got 1e\+300"),
        (-1e-60, "fill_value must be a float32 value, got -1e-60"),
        (np.float64(0.1), "fill_value must be a float32 value, got (np.float64|0.1)"),
        (np.int64(2**24 + 1), "fill_value must be a float32 value, got (np.int64|16777217)"),
    ],
    ids=repr,
)
def test_a_fill_value_that_the_type_cannot_hold_is_refused(fill_value: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        h5lossy.encode(VALUES, SETTING, fill_value=fill_value)


@pytest.mark.parametrize(
    "fill_value", [0.1, np.float32(0.1), np.float64(np.float32(0.1)), np.array(0.1, ">f4")]
)
def test_a_fill_value_may_come_in_another_type(fill_value: Any) -> None:
    values = VALUES.copy()
    values[100:200] = np.float32(0.1)
    setting = PFPL(absolute=1.0)
    assert h5lossy.encode(values, setting, fill_value=fill_value) == h5lossy.encode(
        values, setting, fill_value=np.float32(0.1)
    )
    decoded = h5lossy.decode(h5lossy.encode(values, setting, fill_value=fill_value))
    assert (decoded[100:200] == np.float32(0.1)).all()


def test_values_of_4_gib_are_refused(tmp_path: Path) -> None:
    # A file with nothing in it, which takes no room.
    values = np.memmap(tmp_path / "sparse", "<f4", "w+", shape=(2**30 - 10,))
    with pytest.raises(InvalidArgumentError, match=r"less than 4 GiB - 40 bytes .* got 4294967256"):
        h5lossy.encode(values, SETTING)


def test_integers_in_lists_do_not_become_floats_that_differ() -> None:
    for values in ([2**63 + 1, 5], [[2**64 - 1], [3]], (2**53 + 1, 0.5)):
        with pytest.raises(InvalidArgumentError, match="integers that float64 does not hold"):
            h5lossy.encode(values, PFPL(lossless=True))
    for kept in ([2**64 - 1, 2**64 - 2], [2**63, 0.5, -np.inf], [np.nan, 1e300], [-5, 2**62]):
        decoded = h5lossy.decode(h5lossy.encode(kept, PFPL(lossless=True))).tolist()
        assert np.array_equal(decoded, kept, equal_nan=True)


@pytest.mark.parametrize("raw_bytes", [0, 1, 16384, 2**32 - 41])
def test_the_largest_frame_is_40_bytes_longer_than_its_values(raw_bytes: int) -> None:
    assert h5lossy.max_encoded_size(raw_bytes) == raw_bytes + 40


@pytest.mark.parametrize("raw_bytes", [-1, 2**32 - 40, 2**32, 2**64, 2**64 + 5])
def test_a_size_that_fits_no_frame_is_refused(raw_bytes: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"4 GiB - 40 bytes of values, got {raw_bytes}"):
        h5lossy.max_encoded_size(raw_bytes)


# ------------------------------------------------------------------------------------------------
# decode
# ------------------------------------------------------------------------------------------------


def test_decoded_values_have_the_type_and_byte_order_of_the_data(codec: type[Codec]) -> None:
    for dtype in DTYPES:
        values = VALUES.astype(dtype)
        decoded = h5lossy.decode(h5lossy.encode(values, codec(lossless=True)))
        assert decoded.dtype.str == dtype
        assert decoded.tobytes() == values.tobytes()


def test_decoded_values_are_an_array_of_their_own() -> None:
    first, second = h5lossy.decode(FRAME), h5lossy.decode(FRAME)
    assert first.flags.writeable
    first[:] = 0
    assert_same_bits(second, h5lossy.decode(FRAME))


@pytest.mark.parametrize(
    "shape",
    [(10000,), (100, 100), (10, 10, 10, 10), (100, -1), (-1,), -1, 10000, [50, 200]],
    ids=str,
)
def test_decoded_values_take_a_shape(shape: Any) -> None:
    decoded = h5lossy.decode(FRAME, shape=shape)
    assert decoded.shape == VALUES.reshape(shape).shape
    assert_same_bits(decoded.reshape(-1), h5lossy.decode(FRAME))


@pytest.mark.parametrize("shape", [(), (9999,), (100, 101), (-1, 3), (-1, -1), (0,)], ids=str)
def test_a_shape_of_another_size_is_refused(shape: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="shape must hold 10000 values, got "):
        h5lossy.decode(FRAME, shape=shape)


def test_values_and_frames_go_into_memory_of_the_caller(codec: type[Codec]) -> None:
    values = np.linspace(0, 1, 5000).astype(">f4").reshape(50, 100)
    setting = codec(absolute=1e-3)
    room = bytearray(h5lossy.max_encoded_size(values.nbytes) + 7)
    frame = h5lossy.encode(values, setting, out=room)
    assert isinstance(frame, memoryview)
    assert frame == h5lossy.encode(values, setting) == room[: len(frame)]
    expected = h5lossy.decode(frame)
    out = np.empty((50, 100), ">f4")
    assert h5lossy.decode(frame, out=out) is out
    assert out.tobytes() == expected.tobytes()
    out = np.full(10, -1, ">f4")
    assert h5lossy.decode(frame, 7, 13, out=out[2:8]) is not out
    assert out.tolist() == [-1, -1, *expected[7:13].tolist(), -1, -1]


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty(9, "f4"), "10 values of <f4, got 9 of <f4"),
        (np.empty(10, ">f4"), "10 values of <f4, got 10 of >f4"),
        (np.empty(20, "f4")[::2], "C order"),
        (np.broadcast_to(np.float32(0), 10), "writable"),
    ],
    ids=["size", "type", "gaps", "read-only"],
)
def test_an_out_that_does_not_fit_the_frame_is_refused(out: Any, message: str) -> None:
    frame = h5lossy.encode(np.zeros(10, "f4"), PFPL(absolute=1e-3))
    with pytest.raises(InvalidArgumentError, match=message):
        h5lossy.decode(frame, out=out)


def test_out_is_an_array_with_a_shape_of_its_own() -> None:
    frame = h5lossy.encode(np.zeros(10, "f4"), PFPL(absolute=1e-3))
    with pytest.raises(TypeError, match="out must be a NumPy array, got bytearray"):
        h5lossy.decode(frame, out=bytearray(40))
    with pytest.raises(InvalidArgumentError, match="out or shape, not both"):
        h5lossy.decode(frame, shape=(10,), out=np.empty(10, "f4"))


@pytest.mark.parametrize("out", [bytearray(79), bytes(80)], ids=["short", "read-only"])
def test_a_frame_needs_enough_memory_to_write_to(out: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="at least 80 bytes"):
        h5lossy.encode(np.zeros(10, "f4"), PFPL(absolute=1e-3), out=out)


def test_the_memory_for_a_frame_may_be_of_any_numbers_but_not_of_objects() -> None:
    values, setting = np.zeros(10, "f4"), PFPL(absolute=1e-3)
    for dtype in (">f8", "c16", [("a", "i4"), ("b", ">u4")]):
        assert h5lossy.encode(values, setting, out=np.empty(10, dtype)) == h5lossy.encode(
            values, setting
        )
    objects = np.zeros(20, object)
    for out in (objects, np.zeros(20, [("a", "O"), ("b", "i8")])):
        with pytest.raises(InvalidArgumentError, match="an array of objects"):
            h5lossy.encode(values, setting, out=out)
    assert objects.tolist() == [0] * 20


def test_neither_values_nor_frames_are_overwritten_while_they_are_read() -> None:
    room = np.zeros(4000)
    values, setting = room[:1000], PFPL(absolute=1e-3)
    with pytest.raises(InvalidArgumentError, match="out must not be memory that holds"):
        h5lossy.encode(values, setting, out=room)
    frame = h5lossy.encode(values, setting, out=room[1000:])
    with pytest.raises(InvalidArgumentError, match="out must not be memory that holds"):
        h5lossy.decode(frame, out=room[500:1500])
    assert h5lossy.decode(frame, out=values).tolist() == [0] * 1000


@hypothesis.given(data=st.data())
def test_a_part_of_a_frame_is_the_part_of_its_values(
    codec: type[Codec], data: st.DataObject
) -> None:
    chunk = data.draw(chunks(data.draw(st.sampled_from(DTYPES))))
    setting = codec(**chunk.bound)
    frame = h5lossy.encode(chunk.values, setting, fill_value=chunk.fill_value)
    whole = h5lossy.decode(frame)
    # Ends near the borders of tiles are the ones to try.
    border = -(-whole.size // max(1, h5lossy.inspect(frame).tiles))
    ends = st.integers(0, whole.size) | st.sampled_from(
        [
            n
            for n in (0, border - 1, border, border + 1, 2 * border, whole.size)
            if 0 <= n <= whole.size
        ]
    )
    start, stop = sorted((data.draw(ends), data.draw(ends)))
    assert_same_bits(h5lossy.decode(frame, start, stop), whole[start:stop])


def test_a_part_may_have_one_end_only_and_a_shape() -> None:
    whole = h5lossy.decode(FRAME)
    assert_same_bits(h5lossy.decode(FRAME, 9990), whole[9990:])
    assert_same_bits(h5lossy.decode(FRAME, stop=10), whole[:10])
    assert_same_bits(h5lossy.decode(FRAME, np.int64(5), np.uint8(9)), whole[5:9])
    assert h5lossy.decode(FRAME, 4000, 4100, shape=(10, 10)).shape == (10, 10)
    for nothing in (0, 17, 10000):
        assert h5lossy.decode(FRAME, nothing, nothing).size == 0


@pytest.mark.parametrize(
    ("start", "stop"), [(-1, None), (0, 10001), (10001, None), (5, 4), (None, -1), (2**70, 2**71)]
)
def test_a_part_that_is_not_in_the_frame_is_refused(start: Any, stop: Any) -> None:
    message = r"start and stop must be 0 <= start <= stop <= 10000, .*, got start=-?\d+, stop=-?\d+"
    with pytest.raises(InvalidArgumentError, match=message):
        h5lossy.decode(FRAME, start, stop)


@pytest.mark.parametrize("bad", [1.5, "1", [1]])
def test_a_part_is_given_by_whole_numbers(bad: Any) -> None:
    with pytest.raises(TypeError):
        h5lossy.decode(FRAME, bad)
    with pytest.raises(TypeError):
        h5lossy.decode(FRAME, 0, bad)


@pytest.mark.parametrize("checksum", [True, False])
def test_a_part_touches_only_the_tiles_that_hold_it(codec: type[Codec], checksum: bool) -> None:
    setting = codec(absolute=1e-3, checksum=checksum)
    values = np.resize(VALUES, 2**17)
    frame = h5lossy.encode(values, setting)
    parsed = reference.parse(frame)
    tile_values, rest = divmod(values.size, len(parsed.tiles))
    assert rest == 0
    assert tile_values in {4096, 32768}
    # All tiles but the third are broken beyond reading; the payload's sum is right all the same.
    tiles = tuple(t if i == 2 else bytes(len(t)) for i, t in enumerate(parsed.tiles))
    broken = reference.build(dataclasses.replace(parsed, tiles=tiles))
    first, last = 2 * tile_values, 3 * tile_values
    for start, stop in ((first, last), (first, first + 1), (last - 1, last), (first + 9, last - 9)):
        assert_same_bits(h5lossy.decode(broken, start, stop), h5lossy.decode(frame, start, stop))
    for start, stop, tile in ((first - 1, last, 1), (first, last + 1, 3), (0, 1, 0)):
        with pytest.raises(CorruptFrameError, match=f"tile {tile} contradicts itself"):
            h5lossy.decode(broken, start, stop)
    with pytest.raises(CorruptFrameError):
        h5lossy.decode(broken)


def test_a_part_is_given_although_the_payload_checksum_is_wrong() -> None:
    broken = FRAME[:-1] + bytes([FRAME[-1] ^ 1])
    with pytest.raises(CorruptFrameError, match="payload checksum"):
        h5lossy.decode(broken)
    assert_same_bits(h5lossy.decode(broken, 0, 4096), h5lossy.decode(FRAME, 0, 4096))


@pytest.mark.parametrize(
    "wrap",
    [
        bytes,
        bytearray,
        memoryview,
        lambda b: memoryview(bytearray(b)),
        lambda b: np.frombuffer(b, np.uint8),
        lambda b: array.array("b", b),
        lambda b: np.frombuffer(b + bytes(-len(b) % 8), np.uint8)[: len(b)],
        lambda b: memoryview(b"xyz" + b + b"z")[3:-1],
    ],
    ids=["bytes", "bytearray", "memoryview", "writable", "numpy", "array", "part", "slice"],
)
def test_a_frame_may_come_in_any_bytes_like_object(wrap: Any) -> None:
    frame = wrap(FRAME)
    assert_same_bits(h5lossy.decode(frame), h5lossy.decode(FRAME))
    assert_same_bits(h5lossy.decode(frame, 5, 10), h5lossy.decode(FRAME, 5, 10))
    assert h5lossy.inspect(frame) == h5lossy.inspect(FRAME)


def test_a_frame_may_be_in_a_file_that_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "frame").write_bytes(FRAME)
    with (
        (tmp_path / "frame").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert_same_bits(h5lossy.decode(mapped), h5lossy.decode(FRAME))


@pytest.mark.parametrize("wide", ["<u2", "<u4", "<f8"])
def test_a_frame_in_wider_words_is_read_as_bytes(wide: str) -> None:
    size = np.dtype(wide).itemsize
    # Such a view has whole words only.
    count = next(n for n in range(5000, 9000) if len(h5lossy.encode(VALUES[:n], SETTING)) % 8 == 0)
    frame = h5lossy.encode(VALUES[:count], SETTING)
    assert len(frame) % size == 0
    assert_same_bits(h5lossy.decode(np.frombuffer(frame, wide)), h5lossy.decode(frame))


@pytest.mark.parametrize(
    "not_bytes", [None, 5, "H5LY", 1.5, [1, 2], pytest.param(object(), id="object")], ids=str
)
def test_what_is_not_bytes_is_refused(not_bytes: Any) -> None:
    for read in (h5lossy.decode, h5lossy.inspect):
        with pytest.raises(TypeError, match="bytes-like"):
            read(not_bytes)


def test_bytes_that_are_not_contiguous_are_refused() -> None:
    doubled = np.repeat(np.frombuffer(FRAME, np.uint8), 2)
    for read in (h5lossy.decode, h5lossy.inspect):
        with pytest.raises((BufferError, ValueError), match="contiguous"):
            read(doubled[::2])


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b""), np.zeros(0, np.uint8)])
def test_no_bytes_are_a_truncated_frame(empty: Any) -> None:
    for read in (h5lossy.decode, h5lossy.inspect):
        with pytest.raises(TruncatedFrameError, match="at least 40 bytes, got 0"):
            read(empty)


# ------------------------------------------------------------------------------------------------
# inspect
# ------------------------------------------------------------------------------------------------


def test_inspect_says_what_is_in_a_frame(codec: type[Codec]) -> None:
    info = h5lossy.inspect(h5lossy.encode(VALUES, codec(absolute=0.01)))
    assert info.version == 1
    if codec is Auto:
        assert info.codec in CODEC_NAMES.values()
    else:
        assert info.codec == codec.codec_name
        chosen = {"axes": (-1,)} if "axes" in info.settings else {}  # no frame says "auto"
        assert info.settings == codec.chosen_by(0) | chosen
    assert info.bound == h5lossy.ErrorBound("absolute", 0.01)
    assert info.requested_bound == 0.01
    assert info.dtype == np.dtype("<f4")
    assert info.checksum
    assert (info.raw_bytes, info.count) == (40000, 10000)
    assert info.ratio == 40000 / info.frame_bytes
    assert 0 < info.step <= 0.02
    assert info.stored_tiles == 0


@pytest.mark.parametrize("bound", [1e-6, 1e-3, 0.25])
def test_bins_of_a_pointwise_relative_frame_are_within_twice_the_bound(
    codec: type[Codec], bound: float
) -> None:
    step = h5lossy.inspect(h5lossy.encode(VALUES, codec(pointwise_relative=bound))).step
    one = float(np.finfo("f4").eps)
    assert 2 * bound - 2 * one < step <= 2 * bound + one


def test_inspect_says_what_is_in_a_stored_frame(codec: type[Codec], dtype: np.dtype[Any]) -> None:
    frame = h5lossy.encode(np.array([1.5], dtype), codec(range_relative=0.5))
    info = h5lossy.inspect(frame)
    assert info.codec == "stored"
    assert info.bound == h5lossy.ErrorBound("range_relative", 0.5)
    assert info.dtype == dtype
    assert (info.tiles, info.stored_tiles, info.step, info.count) == (0, 0, 0.0, 1)
    assert len(frame) == info.frame_bytes == 40 + dtype.itemsize


def test_inspect_counts_tiles() -> None:
    noise = np.frombuffer(np.random.default_rng(1).bytes(16384), "<f4")
    info = h5lossy.inspect(h5lossy.encode(np.concatenate([VALUES[:4096], noise]), SETTING))
    assert (info.tiles, info.stored_tiles, info.header_bytes) == (2, 1, 40)
    assert (info.mode, info.dims) == (0, ())


def test_inspect_tells_a_bound_that_was_too_small() -> None:
    info = h5lossy.inspect(h5lossy.encode(np.zeros(100, "<f4"), PFPL(absolute=1e-40)))
    assert (info.bound, info.requested_bound) == (h5lossy.ErrorBound("lossless"), 1e-40)
    info = h5lossy.inspect(h5lossy.encode(np.zeros(100, "<f4"), PFPL(lossless=True)))
    assert (info.bound, info.requested_bound) == (h5lossy.ErrorBound("lossless"), 0.0)


def test_a_frame_without_a_checksum_says_so_and_is_as_long(codec: type[Codec]) -> None:
    with_sum = h5lossy.encode(VALUES, codec(absolute=1e-3))
    without = h5lossy.encode(VALUES, codec(absolute=1e-3, checksum=False))
    assert not h5lossy.inspect(without).checksum
    assert len(without) == len(with_sum)
    assert without[20:24] == bytes(4)
    assert_same_bits(h5lossy.decode(without), h5lossy.decode(with_sum))


@pytest.mark.parametrize("more", [4, 12, 100, 980])
def test_fields_of_a_later_minor_version_are_skipped(more: int) -> None:
    parsed = reference.parse(FRAME)
    later = reference.build(dataclasses.replace(parsed, later_fields=b"\x5a" * more))
    assert len(later) == len(FRAME) + more
    assert_same_bits(h5lossy.decode(later), h5lossy.decode(FRAME))
    assert h5lossy.inspect(later).header_bytes == 40 + more


@pytest.mark.parametrize("bit", range(1, 8))
def test_flags_that_may_be_ignored_are(bit: int) -> None:
    parsed = reference.parse(FRAME)
    flagged = reference.build(dataclasses.replace(parsed, flags=parsed.flags | 1 << bit))
    assert_same_bits(h5lossy.decode(flagged), h5lossy.decode(FRAME))
    assert h5lossy.inspect(flagged) == h5lossy.inspect(FRAME)
