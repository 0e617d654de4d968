# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Features of Interp alone: its axes, its step, its dims, and its promise about rewriting."""

from __future__ import annotations

import ctypes
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_kept, assert_same_bits
from h5lossy import (
    PFPL,
    Auto,
    Interp,
    InvalidArgumentError,
    UnsupportedError,
    _device,
    _native,
)
from h5lossy._batched import gpu, gpu_decoder, gpu_encoder
from h5lossy._codecs import FILTER_ID, from_filter_options
from h5lossy.missing import Missing, keeping_missing
from hdf5_helpers import field, frames
from reference import frame as reference

if TYPE_CHECKING:
    from pathlib import Path

ONE = (0, 0x3FF00000)  # 1.0

# ------------------------------------------------------------------------------------------------
# The class
# ------------------------------------------------------------------------------------------------

#: Bits 0 to 3 are x, y, z, w: the last axis first.
MODES = {
    ("auto", False): 0,
    ("auto", True): 16,
    ((-1,), False): 1,
    ((-2,), False): 2,
    ((-2, -1), False): 3,
    ((-3,), False): 4,
    ((-3, -2, -1), False): 7,
    ((-4,), True): 24,
    ((-4, -3, -1), True): 29,
    ((-4, -3, -2), True): 30,
}


@pytest.mark.parametrize(("chosen", "mode"), MODES.items(), ids=str)
def test_modes_are_those_of_its_page(chosen: tuple[Any, bool], mode: int) -> None:
    setting = Interp(absolute=1.0, axes=chosen[0], rewritable=chosen[1])
    assert setting.params().mode == mode
    assert setting.filter_options == ((4, 0, *ONE, mode) if mode else (4, 0, *ONE))
    again = from_filter_options(FILTER_ID, setting.filter_options)
    assert (again.axes, again.rewritable) == chosen


def test_there_are_fourteen_sets_of_axes() -> None:
    modes = {mode for mode in range(256) if mode == 0 or _is_taken(mode)}
    assert modes == {m for m in range(32) if (m & 15).bit_count() <= 3}


def _is_taken(mode: int) -> bool:
    try:
        return Interp.chosen_by(mode) is not None
    except UnsupportedError:
        return False


@pytest.mark.parametrize(
    "axes",
    [
        (-1, -2),
        [-2, -1],
        np.array([-1, -2]),
        (np.int64(-2), np.int8(-1)),
        np.array([-2, -1], np.int16),
    ],
    ids=repr,
)
def test_axes_may_be_written_in_any_order_and_type(axes: Any) -> None:
    setting = Interp(absolute=1.0, axes=axes)
    assert setting.axes == (-2, -1)
    assert [type(axis) for axis in setting.axes] == [int, int]
    assert setting == Interp(absolute=1.0, axes=(-2, -1))
    assert repr(setting) == "Interp(absolute=1.0, axes=(-2, -1))"


@pytest.mark.parametrize("axis", [-1, -4, np.int64(-3), np.array(-2)], ids=repr)
def test_a_single_axis_needs_no_tuple(axis: Any) -> None:
    assert Interp(absolute=1.0, axes=axis).axes == (int(axis),)


@pytest.mark.parametrize(
    "axes",
    [0, 1, -5, (0,), (1, 2), (-1, -1), (), (-4, -3, -2, -1), "x", "Auto", "", 2**70, [-1, -5]],
    ids=repr,
)
def test_axes_that_are_not_there_are_refused(axes: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^axes must be \"auto\", or one to three of"):
        Interp(absolute=1.0, axes=axes)


@pytest.mark.parametrize(
    "axes", [None, True, (True,), -1.0, (-1.0,), b"auto", ("auto",), {-1}, ((-1,),)], ids=repr
)
def test_what_are_no_axes_is_refused(axes: Any) -> None:
    with pytest.raises(TypeError, match=r"^axes must be \"auto\", or one to three of") as raised:
        Interp(absolute=1.0, axes=axes)
    assert str(raised.value).endswith(f"got {axes!r}")


# ------------------------------------------------------------------------------------------------
# Chunks and dims
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dims", "tiles"),
    [
        ((64, 64, 64), (1, 64, 64, 64), 8),
        ((1, 64, 1, 64, 64), (1, 64, 64, 64), 8),
        ((262144,), (1, 1, 1, 262144), 8),
        ((2, 3, 4, 50, 60), (6, 4, 50, 60), 3),
    ],
)
def test_frames_have_four_dims(
    shape: tuple[int, ...], dims: tuple[int, ...], tiles: int, dtype: np.dtype[Any]
) -> None:
    data = field(shape, dtype)
    frame = h5lossy.encode(data, Interp(absolute=1e-2, axes=(-3, -2, -1)))
    info = h5lossy.inspect(frame)
    assert (info.codec, info.header_bytes) == ("interp", 56)
    assert (info.dims, info.tiles) == (dims, tiles)
    assert info.settings == {"axes": (-3, -2, -1), "rewritable": False}
    assert_kept(data, h5lossy.decode(frame, shape=shape), {"absolute": 1e-2})


@pytest.mark.parametrize("rewritable", [False, True])
def test_a_frame_says_which_axes_were_picked(rewritable: bool) -> None:
    for shape in ((1000,), (60, 50), (20, 30, 10), (4, 10, 20, 10), (2, 2, 4, 10, 10)):
        data = field(shape, np.dtype("f4"))
        codec = Interp(absolute=1e-2, rewritable=rewritable)
        settings = h5lossy.inspect(h5lossy.encode(data, codec)).settings
        assert settings["rewritable"] is rewritable
        assert set(settings["axes"]) <= set(range(-min(4, len(shape)), 0))


@pytest.mark.parametrize("bound", [0.5, 0.05])
def test_very_smooth_planes_are_interpolated_along_both_axes(bound: float) -> None:
    # Nearly all of the bytes are due to the first values of rows, which nothing interpolates.
    y, x = np.meshgrid(np.linspace(-0.4, 0.4, 400), np.linspace(-0.4, 0.4, 440), indexing="ij")
    latitudes = np.degrees(np.arcsin(0.6 * np.sin(y) + 0.8 * np.cos(y) * np.cos(x)))
    values = latitudes.astype("f4")
    frame = h5lossy.encode(values, Interp(absolute=bound))
    assert h5lossy.inspect(frame).settings["axes"] == (-2, -1)
    rows = h5lossy.encode(values, Interp(absolute=bound, axes=-1))
    assert 2 * len(frame) < len(rows)


@pytest.mark.parametrize("shape", [(5000, 7), (1000, 33)])
def test_rows_of_one_value_each_are_interpolated_along_rows(shape: tuple[int, int]) -> None:
    # Only their first values cost anything, with differences along rows, too.
    levels = np.random.default_rng(0).normal(size=(shape[0], 1))
    values = np.broadcast_to(levels, shape).astype("f4")
    frame = h5lossy.encode(values, Interp(absolute=1e-4))
    assert h5lossy.inspect(frame).settings["axes"] == (-1,)
    assert len(frame) < 3 * shape[0]


# ------------------------------------------------------------------------------------------------
# The step
# ------------------------------------------------------------------------------------------------


def test_the_step_is_somewhat_less_than_twice_the_bound(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(7)
    for bound in [1.0, 0.1, 1e-3, *np.exp(rng.uniform(-60, 60, 50))]:
        narrow = dtype.type(bound)
        if float(narrow) > bound:
            narrow = np.nextafter(narrow, dtype.type(0))
        frame = h5lossy.encode(np.zeros(1000, dtype), Interp(absolute=bound))
        expected = 2 * (narrow * dtype.type(Interp.step_share))
        assert h5lossy.inspect(frame).step == float(expected)


def lattice_data(dtype: np.dtype[Any], step: float, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return multiples of a step, rounded once, with NaN, an infinity and a fill value."""
    smooth = field(shape, np.dtype("f8"))
    values = np.rint(smooth / np.ptp(smooth) * 2000).astype(dtype) * dtype.type(step)
    values.flat[7:9] = np.nan, -np.inf
    values.flat[100:140] = 1e35
    return values


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("rewritable", [False, True])
@pytest.mark.parametrize("step", [1.0, 0.01, 3.7, -0.0625, 2.0**-40])
def test_values_on_a_lattice_that_the_bound_allows_are_exact(
    dtype: np.dtype[Any], step: float, rewritable: bool, order: str
) -> None:
    values = lattice_data(dtype, step, (6, 50, 60))
    for share in (0.5, 0.02):
        codec = Interp(absolute=share * abs(step), rewritable=rewritable)
        frame = h5lossy.encode(
            values.astype(dtype.newbyteorder(order)), codec, fill_value=dtype.type(1e35)
        )
        info = h5lossy.inspect(frame)
        assert info.is_exact
        assert info.settings["rewritable"] is rewritable
        assert info.step == pytest.approx(abs(step), rel=1e-6)
        decoded = h5lossy.decode(frame)
        assert_same_bits(decoded.astype(dtype).ravel() + 0, values.ravel() + 0)  # -0.0 becomes 0.0


def decimals(dtype: np.dtype[Any], digits: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers as read from text with this many digits."""
    smooth = field(shape, np.dtype("f8"))
    counts: np.ndarray[Any, Any] = np.rint(smooth / np.ptp(smooth) * 3000)
    return (counts / 10**digits).astype(dtype)


def packed(scale: float, offset: float, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return int16 values that were unpacked as doubles and stored as float32."""
    smooth = field(shape, np.dtype("f8"))
    counts = np.rint((smooth - smooth.min()) / np.ptp(smooth) * 6000 - 3000).astype("i2")
    values: np.ndarray[Any, Any] = (counts * scale + offset).astype("f4")
    return values


def unpacked(
    scale: float, offset: float, shape: tuple[int, ...], dtype: np.dtype[Any], least: int = -9000
) -> np.ndarray[Any, Any]:
    """Return 16-bit integers that were unpacked in the type of the values."""
    smooth = field(shape, np.dtype("f8"))
    counts = np.rint((smooth - smooth.min()) / np.ptp(smooth) * 6000 + least)
    values: np.ndarray[Any, Any] = counts.astype(dtype) * dtype.type(scale) + dtype.type(offset)
    return values


def lattices() -> dict[str, tuple[np.ndarray[Any, Any], float]]:
    """Return values on lattices, and their distances."""
    shape = (6, 50, 60)
    found = {
        f"{digits} digits, {code}": (decimals(np.dtype(code), digits, shape), 10.0**-digits)
        for digits in (1, 2, 3)
        for code in ("f4", "f8")
    }
    found |= {
        f"{scale} k + {offset}": (packed(scale, offset, shape), scale)
        for scale, offset in (
            (0.25, 273.15),
            (0.0137, 288.12),
            (0.01, -1e-3),
            (7, 1000),
            (3e5, 1e5),
        )
    }
    found |= {
        f"{scale} k + {offset}, rounded twice, {code}": (
            unpacked(scale, offset, shape, np.dtype(code), least), scale,
        )
        for code in ("f4", "f8")
        for scale, offset, least in (
            (0.01, 477.66, -30000),
            (0.0017653271, 271.316482, -3000),
            (3.3e-7 / 7, -1e-3 / 3, 59000),
            (7e6 / 3, 1e10 / 7, -9000),
        )
    }  # fmt: skip
    return found


def comes_back(values: np.ndarray[Any, Any], codec: Interp, fill_value: Any = None) -> bytes:
    """Check the decoded values, here and in the reference, and that they stay; return the frame."""
    frame = h5lossy.encode(values, codec, fill_value=fill_value)
    decoded = h5lossy.decode(frame, shape=values.shape)
    assert_kept(values, decoded, {"absolute": codec.absolute}, fill_value)
    assert_same_bits(decoded, reference.decode(frame))
    again = h5lossy.encode(decoded, codec, fill_value=fill_value)
    assert_same_bits(h5lossy.decode(again, shape=values.shape), decoded)
    if h5lossy.inspect(frame).is_exact:
        assert_same_bits(decoded + 0, values + 0)
    return frame


@pytest.mark.parametrize("bound", [2e-3, 1e-5])
@pytest.mark.parametrize("most", [30, 100, 300])
@pytest.mark.parametrize("factor", [1, 5])
def test_decimals_that_are_far_apart_are_exact(factor: int, most: int, bound: float) -> None:
    # The differences between samples have many steps, and their rounding is not much below a step.
    counts = np.random.default_rng(2).integers(0, most * 100 // factor, (100, 100)) * factor
    values = (counts / 100).astype("f4")
    frame = comes_back(values, Interp(absolute=bound))
    assert h5lossy.inspect(frame).is_exact
    assert len(frame) < (np.log2(most * 100 / factor) + 1) * values.size / 8


@pytest.mark.parametrize("name", lattices())
def test_decimals_and_packed_values_are_exact_and_small(name: str) -> None:
    values, apart = lattices()[name]
    sizes = set()
    for share in (2.0, 0.7, 0.49, 0.2, 1e-2, 1e-3):
        frame = comes_back(values, Interp(absolute=share * apart))
        info = h5lossy.inspect(frame)
        assert info.is_exact == (share < 0.5)
        if info.is_exact:
            assert info.step == pytest.approx(apart, rel=1e-4)
            sizes.add(len(frame))
    assert max(sizes) < values.size * 1.2
    assert max(sizes) < min(sizes) * 1.05  # a smaller bound costs nothing


SOME_LATTICES = [
    "2 digits, f4",
    "2 digits, f8",
    "0.0137 k + 288.12",
    "0.01 k + 477.66, rounded twice, f4",
    "0.0017653271 k + 271.316482, rounded twice, f8",
]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("name", SOME_LATTICES)
def test_values_beside_the_lattice_are_exceptions(name: str, order: str) -> None:
    values, apart = lattices()[name]
    rng = np.random.default_rng(5)
    codec = Interp(absolute=apart / 10)
    beside = values.copy()
    places = rng.integers(0, values.size, 20)
    beside.flat[places] += (rng.uniform(0.2, 0.8, 20) * apart).astype(values.dtype)
    beside.flat[3000:3200] = np.nan
    beside.flat[4000:4002] = np.inf, -0.0
    beside.flat[5000:5900] = 1e35
    frame = comes_back(beside.astype(beside.dtype.newbyteorder(order)), codec, 1e35)
    assert h5lossy.inspect(frame).is_exact
    assert len(frame) < 1.3 * len(h5lossy.encode(values, codec)) + 400
    # Where a large part is beside it, the bound gives the step.
    noise = (rng.normal(size=values.shape) * apart).astype(values.dtype)
    beside = np.where(rng.random(values.shape) < 0.3, values + noise, values)
    assert not h5lossy.inspect(comes_back(beside, codec)).is_exact


def test_zeros_of_either_sign_and_a_fill_value_on_the_lattice(dtype: np.dtype[Any]) -> None:
    values = decimals(dtype, 2, (40, 50))
    values[10:20] = 0.0
    values[12:18:2] = -0.0
    for fill_value in (0.0, -0.0, 0.07, float(values[0, 0]), None):
        fill = None if fill_value is None else dtype.type(fill_value)
        frame = comes_back(values, Interp(absolute=1e-3), fill)
        assert h5lossy.inspect(frame).is_exact


@pytest.mark.parametrize("name", SOME_LATTICES)
def test_parts_that_are_overwritten_move_nothing_else(name: str) -> None:
    values, apart = lattices()[name]
    given, held = values.copy(), values.copy()
    rng = np.random.default_rng(3)
    codec = Interp(absolute=0.3 * apart)
    for turn in range(8):
        box = np.s_[turn % 6, 5 * turn : 5 * turn + 9]
        new = rng.normal(values.mean(), 30 * apart, values[box].shape)
        if turn % 3 == 2:  # back to the lattice
            new = values[box]
        given[box] = held[box] = new
        before = held.copy()
        held = h5lossy.decode(h5lossy.encode(held, codec), shape=values.shape)
        assert_kept(given, held, {"absolute": codec.absolute})
        moved = held != before
        # Only what had not been moved before moves.
        assert np.array_equal(before[moved], given[moved])


def test_a_lattice_finer_than_the_bound_is_left_alone(dtype: np.dtype[Any]) -> None:
    values = np.rint(field((6, 50, 60), np.dtype("f8")) * 1000).astype(dtype)
    frame = h5lossy.encode(values, Interp(absolute=3.0))
    assert not h5lossy.inspect(frame).is_exact
    assert_kept(values, h5lossy.decode(frame).reshape(values.shape), {"absolute": 3.0})


def test_constants_come_back(dtype: np.dtype[Any]) -> None:
    for value in (3.7, -1e30, 17.0):
        values = np.full((40, 50), value, dtype)
        assert_same_bits(h5lossy.decode(h5lossy.encode(values, Interp(absolute=0.5))), values)


def test_exact_chunks_that_are_overwritten_keep_the_bound_of_the_original(
    tmp_path: Path, dtype: np.dtype[Any]
) -> None:
    values = np.rint(field((40, 50), np.dtype("f8")) * 100).astype(dtype)
    rng = np.random.default_rng(3)
    codec = Interp(absolute=0.4)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", values.shape, dtype, chunks=(40, 50), compression=codec)
        h5lossy.write(dataset, values, verify=True)
        assert_same_bits(dataset[...], values + 0)
        assert not h5lossy.verify(dataset).problems
        for turn in range(5):
            box = np.s_[5 * turn : 5 * turn + 5, 10:30]
            values[box] += rng.normal(size=(5, 20))
            dataset[box] = values[box]
            assert_kept(values, dataset[...], {"absolute": 0.4})


@pytest.mark.parametrize(("dtype", "least"), [("f4", 2.0**-121), ("f8", 2.0**-1017)])
def test_smaller_bounds_are_lossless(dtype: str, least: float) -> None:
    values = np.concatenate([np.sqrt(np.arange(50)) * 3 * least, np.zeros(1000)]).astype(dtype)
    for bound in (least, np.nextafter(least, 0)):
        frame = h5lossy.encode(values, Interp(absolute=bound))
        info = h5lossy.inspect(frame)
        assert info.requested_bound == bound
        assert_kept(values, h5lossy.decode(frame), {"absolute": bound})
        if bound == least:
            assert (info.codec, info.step) == ("interp", 2 * least * Interp.step_share)
        else:
            assert (info.codec, str(info.bound)) == ("pfpl", "lossless")
            assert_same_bits(h5lossy.decode(frame), values)


def test_lossless_frames_are_those_of_pfpl() -> None:
    data = field((40, 50), np.dtype("f4"))
    assert h5lossy.encode(data, Interp(lossless=True, axes=-1)) == h5lossy.encode(
        data, PFPL(lossless=True)
    )


def test_a_range_is_resolved_to_the_same_bound_as_for_other_codecs() -> None:
    data = field((40, 50), np.dtype("f4"))
    ours, theirs = (cls(range_relative=1e-3).resolve(data) for cls in (Interp, PFPL))
    assert ours.absolute == theirs.absolute
    by_filter = h5lossy.inspect(h5lossy.encode(data, Interp(range_relative=1e-3))).step
    assert by_filter == h5lossy.inspect(h5lossy.encode(data, ours)).step


@pytest.mark.parametrize("missing", [(-999.0,), (1e20,), (-9999.0, 273.15)])
def test_missing_values_are_kept_by_a_slightly_smaller_bound(missing: tuple[float, ...]) -> None:
    dtype = np.dtype("f4")
    kept = keeping_missing(Interp(absolute=0.01), Missing(dtype, values=missing))
    assert 0.9 * 0.01 < kept.absolute <= 0.01
    if len(missing) == 1:
        values = np.full(5000, missing[0], dtype)
        assert_same_bits(h5lossy.decode(h5lossy.encode(values, kept)), values)


def test_missing_values_are_kept_among_other_values() -> None:
    missing = Missing(np.dtype("f4"), values=(np.float32(-999),))
    for codec in (Interp(absolute=0.7), Auto(absolute=0.7, prefer="size")):
        kept = keeping_missing(codec, missing)
        assert 0.9 * 0.7 < kept.absolute < 0.7
        values = np.random.default_rng(0).normal(0, 30, 20000).astype("f4")
        values[::37] = -999
        decoded = h5lossy.decode(h5lossy.encode(values, kept))
        assert (decoded[::37] == -999).all()


# ------------------------------------------------------------------------------------------------
# Nothing drifts
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rewritable", [False, True])
def test_overwriting_a_part_moves_no_other_value(tmp_path: Path, rewritable: bool) -> None:
    rng = np.random.default_rng(5)
    data = field((24, 40, 50), np.dtype("f4"))
    bound = {"absolute": 1e-2}
    codec = Interp(**bound, rewritable=rewritable)
    with h5py.File(tmp_path / "a.h5", "w", rdcc_nbytes=0) as file:
        dataset = file.create_dataset("x", data=data, chunks=(12, 40, 50), compression=codec)
        before = dataset[...]
        for _ in range(10):
            starts = [n // 8 * int(rng.integers(7)) for n in data.shape]
            box = tuple(slice(at, at + n // 4) for at, n in zip(starts, data.shape, strict=True))
            data[box] += rng.normal(0, 0.1, data[box].shape).astype("f4")
            dataset[box] = data[box]
            after = dataset[...]
            outside = np.ones(data.shape, bool)
            outside[box] = False
            assert_same_bits(after[outside], before[outside])
            assert_kept(data, after, bound)
            before = after
        assert {h5lossy.inspect(frame).codec for frame in frames(dataset).values()} == {"interp"}


# ------------------------------------------------------------------------------------------------
# Kernels, and not among auto's candidates for speed
# ------------------------------------------------------------------------------------------------


def test_there_are_kernels() -> None:
    for number, mode in ((0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 7)):
        assert _native.has_kernels(_native.Params(codec=number, mode=mode), decode=False)
    auto_for_size = h5lossy.Auto(absolute=1, prefer="size").params()
    for_size = auto_for_size.mode
    assert not _native.has_kernels(auto_for_size, decode=False)
    for number, mode in ((0, for_size), (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 7)):
        params = _native.Params(codec=number, mode=mode)
        has_any_mode = number == Interp.codec_number  # in one batch
        assert _native.has_kernels(params, decode=True) == (2 if has_any_mode else 1)
    batch = _native.DeviceBatch(count=1, raw_bytes=4000)
    for bound, mode in itertools.product(({"absolute": 1.0}, {"range_relative": 0.1}), (0, 7)):
        params = Interp(**bound, **Interp.chosen_by(mode)).params()
        assert _native.device_encode_workspace(_with_type(params), batch) > batch.raw_bytes
    smallest = _with_type(h5lossy.Auto(absolute=1.0, prefer="size").params())
    with pytest.raises(UnsupportedError, match="auto for size has no GPU kernels for encoding"):
        _native.device_encode_workspace(smallest, batch)


def _with_type(params: _native.Params) -> _native.Params:
    return _native.Params(
        codec=params.codec,
        bound_kind=params.bound_kind,
        bound=params.bound,
        mode=params.mode,
        value_bytes=4,
    )


class HostLibrary:
    """Takes the place of a library of GPU arrays; its arrays are NumPy's."""

    def wrap(self, owner: Any) -> Any:
        return SimpleNamespace(
            owner=owner,
            library=self,
            dtype=owner.dtype,
            shape=owner.shape,
            size=owner.size,
            nbytes=owner.nbytes,
            address=owner.ctypes.data,
            is_contiguous=owner.flags.c_contiguous,
        )

    def empty(self, shape: tuple[int, ...], dtype: Any, _device: int) -> Any:
        return self.wrap(np.empty(shape, dtype))

    def upload(self, values: Any, _device: int) -> Any:
        return self.wrap(values)

    def to_host(self, memory: Any) -> Any:
        return memory.owner

    def contiguous(self, memory: Any) -> Any:
        return self.wrap(np.ascontiguousarray(memory.owner))

    def current_stream(self, _device: int) -> int:
        return 0

    def stream(self, _device: int) -> Any:
        return None

    def pinned(self, size: int) -> Any:
        return np.empty(size, np.uint8)

    def copy(self, _device: int, to: int, source: int, size: int, _stream: Any) -> None:
        ctypes.memmove(to, source, size)

    def mark(self, _device: int, _stream: Any) -> Any:
        return SimpleNamespace(synchronize=lambda: None)


@pytest.fixture
def host_library(monkeypatch: pytest.MonkeyPatch) -> HostLibrary:
    """Arrays on a GPU, whose chunks are encoded by the host: they are NumPy's."""
    library = HostLibrary()

    def leave_chunks(_params: _native.Params, batch: _native.DeviceBatch) -> None:
        ctypes.memset(batch.frame_bytes, 0, 8 * batch.count)

    def gather(array: _native.DeviceArray, first: int, batch: _native.DeviceBatch) -> None:
        # Whole rows of two axes.
        width = array.chunk[0] * array.strides[0]
        ctypes.memmove(batch.raw, array.data + first * width, batch.count * width)

    monkeypatch.setattr(_device, "device_memory", library.wrap)
    for module in (_device, gpu):
        monkeypatch.setattr(module, "device_of", lambda _memory: 0)
    monkeypatch.setattr(_native, "device_encode", leave_chunks)
    monkeypatch.setattr(_native, "device_gather", gather)
    monkeypatch.setattr(_native, "device_pack", lambda _batch, _packed: None)
    return library


@pytest.mark.usefixtures("host_library")
def test_a_small_gpu_leaves_an_array_to_the_host() -> None:
    values = field((30, 40), np.dtype("f4"))
    params = _with_type(Interp(absolute=1e-2).params())
    for array in (values, np.asfortranarray(values)):
        frame = _device.encode(array, lambda _memory: params)
        assert frame.tobytes() == _native.encode(params, values)


def test_a_small_gpu_leaves_the_chunks_of_a_batch_to_the_host(host_library: HostLibrary) -> None:
    values = field((30, 40), np.dtype("f4"))
    memory = host_library.wrap(values)
    memory.strides = values.strides
    params = _with_type(Interp(absolute=1e-2).params())
    found = [
        frame.tobytes()
        for batch in gpu_encoder.encode(memory, params, (10, 40), 0)
        for frame in batch
    ]
    assert found == [_native.encode(params, values[at : at + 10]) for at in range(0, 30, 10)]


def test_batches_have_its_frames_as_a_kind() -> None:
    values = field((30, 40), np.dtype("f4"))
    frames = [
        h5lossy.encode(values, codec)
        for codec in (Interp(absolute=1e-2), PFPL(absolute=1e-2), Interp(lossless=True))
    ]
    sizes = np.array([len(frame) for frame in frames])
    buffers = np.zeros((len(frames), sizes.max()), np.uint8)
    for buffer, frame in zip(buffers, frames, strict=True):
        buffer[: len(frame)] = np.frombuffer(frame, np.uint8)
    array = SimpleNamespace(start=(0, 0), shape=values.shape, chunk=values.shape)
    chunks: Any = SimpleNamespace(chunk_bytes=values.nbytes, dtype=values.dtype, array=array)
    decoder = gpu_decoder._Decoder(chunks, lambda *_: None)
    kinds = decoder._kinds(buffers, sizes)
    assert [(info.codec, info.bound_kind) for info in kinds] == [(4, 0), (1, 0)]
    assert [info.codec for info in decoder._kinds(buffers[:1], sizes[:1])] == [4]
    # A chunk that is not stored has whatever was in the buffer before.
    again = np.concatenate([buffers[1:2], buffers])
    found = decoder._kinds(again, np.concatenate([[0], sizes]))
    assert sorted((info.codec, info.bound_kind) for info in found) == [(1, 0), (4, 0)]


def test_auto_picks_it_for_size_only() -> None:
    data = field((64, 64, 64), np.dtype("f4"))
    for bound in (1e-1, 1e-2, 1e-3):
        for prefer in ("speed", "size"):
            codec = h5lossy.Auto(absolute=bound, prefer=prefer)
            info = h5lossy.inspect(h5lossy.encode(data, codec))
            assert (info.codec == "interp") == (prefer == "size")
