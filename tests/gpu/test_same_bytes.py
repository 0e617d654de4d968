# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The GPU gives the CPU's bytes: frames of GPU arrays, and what they decode to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpu_data as data
import h5lossy
from matrix import BOUNDS, SETTINGS

SHAPES: list[tuple[int, ...]] = [
    (1,),
    (2,),
    (33,),
    (4095,),
    (4096,),
    (4097,),
    (70_001,),
    (262_144,),
    (3, 10),
    (129, 257),
    (512, 512),
    (5, 6, 7),
    (33, 34, 35),
    (23, 64, 96),
    (64, 64, 64),
    (2, 3, 17, 19),
]


def same_bits(left: Any, right: Any) -> bool:
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_frames_and_values_are_the_same(setting: str, bound: str, dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    codec = SETTINGS[setting](**BOUNDS[bound])
    for shape in SHAPES:
        for kind in data.KINDS:
            values = data.make(kind, shape, dtype)
            fill = data.FILL if kind == "masked" else None
            expected = h5lossy.encode(values, codec, fill_value=fill)
            frame = h5lossy.encode(cupy.asarray(values), codec, fill_value=fill)
            assert isinstance(frame, cupy.ndarray)
            assert frame.get().tobytes() == expected, (shape, kind)
            decoded = h5lossy.decode(expected)
            assert same_bits(h5lossy.decode(frame).get(), decoded), (shape, kind)
            first, end = values.size // 3, values.size // 3 + max(1, values.size // 4)
            part = h5lossy.decode(frame, first, end).get()
            assert same_bits(part, decoded[first:end]), (shape, kind)


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("grade", range(4))
def test_closed_tiles_of_all_grades_are_the_same(grade: int, dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    codec = h5lossy.Interp(absolute=0.5)
    for shape in SHAPES:
        values = data.graded(grade, shape, dtype)
        far = values.copy()
        far.flat[::2039] *= 1.75
        is_masked = np.sin(np.arange(values.size) / 700.0).reshape(shape) > 0.2
        masked = np.where(is_masked, data.FILL, values).astype(dtype)
        decoded = h5lossy.decode(h5lossy.encode(values, codec)).reshape(shape)
        for given in (values, far, masked, decoded):
            expected = h5lossy.encode(given, codec)
            frame = h5lossy.encode(cupy.asarray(given), codec)
            assert frame.get().tobytes() == expected, shape
            assert same_bits(h5lossy.decode(frame).get(), h5lossy.decode(expected)), shape


INTEGER_BOUNDS: list[dict[str, Any]] = [
    {"lossless": True},
    {"absolute": 1},
    {"absolute": 200},
    {"range_relative": 1e-2},
    {"noise": 1.0},
    {"wide": True, "absolute": 3},
    {"exact": (0, 7), "absolute": 3},
]


def integers(shape: tuple[int, ...], dtype: str) -> Any:
    """Counts around a slope, with their largest value in places."""
    random = np.random.default_rng(46412)
    info = np.iinfo(dtype)
    slope = np.arange(np.prod(shape), dtype=np.float64).reshape(shape) % 700 / 9
    values = (slope + random.poisson(40, shape)).astype(dtype)
    values[random.random(shape) < 1e-3] = info.max
    return values


@pytest.mark.parametrize("bound", INTEGER_BOUNDS, ids=lambda bound: next(iter(bound)))
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
def test_integers(dtype: str, bound: dict[str, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    if "noise" in bound and dtype.endswith("8"):
        pytest.skip("not for 64 bits")
    if "exact" in bound and dtype.endswith("8"):
        bound = bound | {"exact": (7,)}
    codec = h5lossy.PFPL(**bound)
    for shape in [*SHAPES, (300, 1000), (2, 1024, 512)]:
        values = integers(shape, dtype)
        for scale, fill in ((1, None), (3, 7), (1, np.iinfo(dtype).max)):
            if "exact" in bound and fill not in {None, 7}:
                continue  # a third one
            own = values // 3 * 3 if scale == 3 else values
            expected = h5lossy.encode(own, codec, fill_value=fill)
            frame = h5lossy.encode(cupy.asarray(own), codec, fill_value=fill)
            assert frame.get().tobytes() == expected, (shape, fill)
            decoded = h5lossy.decode(expected)
            assert same_bits(h5lossy.decode(frame).get(), decoded), (shape, fill)
            first, end = own.size // 3, own.size // 3 + max(1, own.size // 4)
            part = h5lossy.decode(frame, first, end).get()
            assert same_bits(part, decoded[first:end]), (shape, fill)


def fields(shape: tuple[int, ...], dtype: str) -> list[Any]:
    """Counts: noise, waves with and without noise, and waves with missing values."""
    random = np.random.default_rng(46412)
    info = np.iinfo(dtype)
    reach = float(min(info.max, 2**40)) / 5
    axes = np.ogrid[tuple(slice(n) for n in shape)]
    parts = [np.sin(axis / (7.0 + 5 * i)) for i, axis in enumerate(axes)]
    wave = np.asarray(sum(parts, start=np.zeros(shape))) / len(shape)
    smooth = (reach * (2 + wave)).astype(dtype)
    noisy = smooth + random.integers(0, 6, shape).astype(dtype)
    few, regions, mixed, unnamed = (noisy.copy() for _ in range(4))
    few[random.random(shape) < 1e-3] = info.max
    regions[wave > 0.3] = info.max
    mixed[wave > 0.1] = random.choice(np.array([info.max, 7], dtype), int((wave > 0.1).sum()))
    unnamed[wave < -0.2] = 0
    return [integers(shape, dtype), smooth, noisy, few, regions, mixed, unnamed]


@pytest.mark.parametrize("bound", INTEGER_BOUNDS, ids=lambda bound: next(iter(bound)))
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
def test_interp_encodes_integers(dtype: str, bound: dict[str, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    if "noise" in bound and dtype.endswith("8"):
        pytest.skip("not for 64 bits")
    largest = int(np.iinfo(dtype).max)
    if "exact" in bound:
        bound = bound | {"exact": (largest,) if dtype.endswith("8") else (7, largest)}
    for number, shape in enumerate([*SHAPES, (300, 1000), (3, 5, 70, 90)]):
        options = {"axes": (-1,)} if number % 3 == 2 else {"rewritable": number % 2 == 0}
        codec = h5lossy.Interp(**bound, **options)
        for i, values in enumerate(fields(shape, dtype)):
            fill = largest if i % 2 else None
            expected = h5lossy.encode(values, codec, fill_value=fill)
            frame = h5lossy.encode(cupy.asarray(values), codec, fill_value=fill)
            assert frame.get().tobytes() == expected, (shape, i, fill)


@pytest.mark.parametrize("bound", [{"lossless": True}, {"absolute": 1e-2}])
def test_interp_encodes_halves(bound: dict[str, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    codec = h5lossy.Interp(**bound)
    for shape in ((33,), (129, 257), (33, 34, 35)):
        values = data.make("rough", shape, "f4").astype("f2")
        expected = h5lossy.encode(values, codec)
        assert h5lossy.encode(cupy.asarray(values), codec).get().tobytes() == expected, shape


@pytest.mark.parametrize("bound", [{"lossless": True}, {"absolute": 1e-2}])
@pytest.mark.parametrize("dtype", ["f2", "c8", "c16"])
def test_halves_and_complex_numbers(dtype: str, bound: dict[str, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    codec = h5lossy.PFPL(**bound)
    for shape in ((33,), (129, 257), (33, 34, 35)):
        values = data.make("rough", (*shape, 2), "f4").astype("f8")
        own = values[..., 0].astype(dtype)
        if dtype.startswith("c"):
            own = (values[..., 0] + 1j * values[..., 1]).astype(dtype)
        expected = h5lossy.encode(own, codec)
        frame = h5lossy.encode(cupy.asarray(own), codec)
        assert frame.get().tobytes() == expected, shape
        decoded = h5lossy.decode(expected)
        assert same_bits(h5lossy.decode(frame).get(), decoded), shape
        assert same_bits(h5lossy.decode(frame, 5, 20).get(), decoded[5:20]), shape


@pytest.mark.parametrize("rewritable", [False, True])
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("kind", ["waves", *data.KINDS])
def test_interp_chooses_as_on_the_cpu(kind: str, dtype: str, rewritable: bool) -> None:
    """Axes and forms, also of what was decoded, of integers, and of packed values."""
    cupy = pytest.importorskip("cupy")
    for shape in ((40_000,), (700, 300), (50, 60, 70), (6, 10, 41, 43), (12, 1, 90, 80)):
        if kind == "waves":
            axes = np.ogrid[tuple(slice(n) for n in shape)]
            waves = [np.sin(axis / (7.0 + 5 * i)) for i, axis in enumerate(axes)]
            values = np.asarray(sum(waves, start=np.zeros(shape)), dtype)
        else:
            values = data.make(kind, shape, dtype)
        fill = data.FILL if kind == "masked" else None
        for bound in ({"absolute": 1e-1}, {"absolute": 1e-4}, {"range_relative": 1e-3}):
            if "range_relative" in bound and kind in {"random_bits", "special"}:
                continue
            codec = h5lossy.Interp(**bound, rewritable=rewritable)
            expected = h5lossy.encode(values, codec, fill_value=fill)
            frame = h5lossy.encode(cupy.asarray(values), codec, fill_value=fill)
            assert frame.get().tobytes() == expected, (shape, bound)
            with np.errstate(invalid="ignore"):
                others = [np.rint(values), h5lossy.decode(expected, shape=shape)]
            for other in others if "absolute" in bound else ():
                again = h5lossy.encode(other, codec, fill_value=fill)
                frame = h5lossy.encode(cupy.asarray(other), codec, fill_value=fill)
                assert frame.get().tobytes() == again, (shape, bound)


@pytest.mark.parametrize("kind", data.KINDS)
@pytest.mark.parametrize("setting", ["pfpl", "cuszp2-outlier-1", "cuszp2-plain-1", "aatrox"])
def test_large_chunks(setting: str, kind: str) -> None:
    cupy = pytest.importorskip("cupy")
    assert setting in SETTINGS
    for dtype, count in (("<f4", 20_000_003), ("<f8", 5_000_001)):
        values = data.make(kind, (count,), dtype)
        codec = SETTINGS[setting](absolute=1e-3)
        frame = h5lossy.encode(cupy.asarray(values), codec)
        assert frame.get().tobytes() == h5lossy.encode(values, codec)
        assert same_bits(h5lossy.decode(frame).get(), h5lossy.decode(frame.get().tobytes()))


def test_layouts_and_offsets() -> None:
    cupy = pytest.importorskip("cupy")
    values = cupy.asarray(data.make("rough", (70, 81), "f4"))
    codec = h5lossy.CuSZp2(absolute=1e-3)
    for view in (values.T, values[::2], values[:, 1:], values.ravel()[1:], values.ravel()[3:]):
        assert h5lossy.encode(view, codec).get().tobytes() == h5lossy.encode(view.get(), codec)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    values = data.make("rough", (300, 301), "f4")
    codec = h5lossy.PFPL(absolute=1e-3)
    frame = h5lossy.encode(torch.from_numpy(values).cuda(), codec)
    assert isinstance(frame, torch.Tensor)
    assert frame.is_cuda
    assert frame.cpu().numpy().tobytes() == h5lossy.encode(values, codec)
    decoded = h5lossy.decode(frame, shape=(300, 301))
    assert isinstance(decoded, torch.Tensor)
    assert same_bits(decoded.cpu().numpy().ravel(), h5lossy.decode(frame.cpu().numpy().tobytes()))


def test_other_streams() -> None:
    cupy = pytest.importorskip("cupy")
    codec = h5lossy.AATROX(absolute=1e-3)
    values = data.make("rough", (1_000_003,), "f4")
    expected = h5lossy.encode(values, codec)
    for non_blocking in (False, True):
        with cupy.cuda.Stream(non_blocking=non_blocking):
            frame = h5lossy.encode(cupy.asarray(values), codec)
            assert frame.get().tobytes() == expected
            decoded = h5lossy.decode(frame).get()
        assert np.abs(decoded - values).max() <= 1e-3
