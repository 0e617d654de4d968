# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Every way to store and to compare values takes the same types, fill values and exact values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import PFPL, Interp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from checks import Array

numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr", "3.0.8")
from h5lossy.zarr import Compressor, Serializer  # noqa: E402

COUNT, CHUNK = 2000, 700


def by_encode(values: Array, codec: Any, fill: Any, _: Path) -> Array:
    return h5lossy.decode(h5lossy.encode(values, codec, fill_value=fill))


def by_h5py(values: Array, codec: Any, fill: Any, folder: Path) -> Array:
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(CHUNK,), compression=codec, fillvalue=fill)
    with h5py.File(path) as file:
        return file["x"][...]


def by_write(values: Array, codec: Any, fill: Any, folder: Path) -> Array:
    options = {"chunks": (CHUNK,), "compression": codec, "fillvalue": fill}
    with h5py.File(folder / "a.h5", "w") as file:
        dataset = file.create_dataset("x", values.shape, values.dtype, **options)
        h5lossy.write(dataset, values)
        assert h5lossy.verify(dataset).ok
        return h5lossy.read(dataset)


def by_zarr(values: Array, codec: Any, fill: Any, _: Path) -> Array:
    options = {"chunks": (CHUNK,), "serializer": Serializer(codec), "compressors": None}
    if fill is not None:
        options["fill_value"] = fill
    array = zarr.create_array({}, shape=values.shape, dtype=values.dtype, **options)
    array[...] = values
    return np.asarray(array[...])


def by_numcodecs(values: Array, codec: Any, fill: Any, _: Path) -> Array:
    made = Compressor(codec, fill_value=fill, dtype=values.dtype, chunks=values.shape)
    return np.asarray(numcodecs.get_codec(made.get_config()).decode(made.encode(values)))


def by_xarray(values: Array, codec: Any, fill: Any, folder: Path) -> Array:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    import h5lossy.xarray  # noqa: PLC0415

    attributes = {} if fill is None else {"_FillValue": fill}
    ds = xr.Dataset({"x": (("n",), values, attributes)})
    encoding = h5lossy.xarray.encoding(ds, {"x": codec})
    options = {"engine": "h5netcdf", "encoding": encoding, "invalid_netcdf": True}
    ds.to_netcdf(folder / "a.nc", **options)
    with h5py.File(folder / "a.nc") as file:
        return file["x"][...]


STORING = [by_encode, by_h5py, by_write, by_zarr, by_numcodecs, by_xarray]

# Types with the fill values that each takes, and those it does not.
ANY_FLOAT = [0.0, -0.0, 7.0, -1.0, 0.1, math.nan, math.inf]
UNEQUAL = "must have equal real and imaginary parts"
TABLE: list[tuple[str, list[Any], list[Any]]] = [
    ("f2", ANY_FLOAT, []),
    ("f4", [*ANY_FLOAT, 3e38], []),
    ("f8", [*ANY_FLOAT, 3e300], []),
    ("c8", [0j, 7 + 7j, complex(math.nan, math.nan)], [3 + 4j, 2 + 0j, complex(math.inf, 0)]),
    ("c16", [0j, -7 - 7j], [3 + 4j, 7j]),
    ("i1", [0, 7, -128], []),
    ("u1", [0, 7, 255], []),
    ("i2", [0, 7, -32768], []),
    ("u2", [7, 65535], []),
    ("i4", [7, -(2**31)], []),
    ("u4", [7, 2**32 - 1], []),
    ("i8", [7, -(2**63)], []),
    ("u8", [7, 2**64 - 1], []),
]
CASES = [
    (f"{order}{kind}", codec, fill, codec.lossless or fill not in refused)
    for kind, taken, refused in TABLE
    for order in "<>"
    for codec in (PFPL(absolute=2), Interp(absolute=2), PFPL(lossless=True))
    for fill in (None, *taken, *refused)
    if not (order == ">" and kind[1:] == "1")
]


def data(dtype: str, fill: Any) -> Array:
    """Return numbers with the fill value in some places."""
    kind = np.dtype(dtype)
    values = (np.arange(COUNT) % 97).astype(kind)
    if kind.kind == "c":
        values += np.array(np.arange(COUNT) % 89 * 1j, kind)
    values[::50] = 0 if fill is None else fill
    return values


def bits(values: Array) -> Array:
    """Return values such that others have other bits."""
    native = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
    return native.view(np.uint8).reshape(len(values), -1)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("store", STORING)
@pytest.mark.parametrize("kind", [row[0] for row in TABLE])
def test_fill_values(store: Callable[..., Array], kind: str, tmp_path: Path) -> None:
    if store is by_xarray and kind in {"c8", "c16"}:
        pytest.skip("netCDF has no complex numbers")
    for dtype, codec, fill, is_taken in CASES:
        if dtype[1:] != kind:
            continue
        values = data(dtype, fill)
        if not is_taken:
            with pytest.raises(ValueError, match=UNEQUAL):
                store(values, codec, fill, tmp_path)
            continue
        decoded = store(values, codec, fill, tmp_path)
        assert decoded.dtype == values.dtype
        if fill is not None:
            was, now = ((bits(v) == bits(values[:1])).all(axis=1) for v in (values, decoded))
            assert was[::50].all()
            assert now[was].all(), (dtype, codec, fill)
            if fill != 0:
                np.testing.assert_array_equal(was, now)
        found = h5lossy.largest_error(values, decoded, codec.bound, fill)
        assert found.holds, (dtype, codec, fill, found)


@pytest.mark.parametrize("kind", [row[0] for row in TABLE])
def test_comparisons_take_the_same_fill_values(kind: str) -> None:
    for dtype, codec, fill, is_taken in CASES:
        if dtype[1:] != kind:
            continue
        values = data(dtype, fill)
        if not is_taken:
            for compare in (h5lossy.largest_error, h5lossy.assess):
                with pytest.raises(ValueError, match=UNEQUAL):
                    compare(values, values, bound=codec.bound, fill_value=fill)
            continue
        parts = values.view(values.real.dtype) if values.dtype.kind == "c" else values
        wanted = parts[np.isfinite(parts)]
        # With unequal components it is a number like others.
        if fill is not None and (values.dtype.kind != "c" or fill.real == fill.imag):
            wanted = wanted[(bits(wanted) != bits(parts[:1])).any(axis=1)]
        summary = h5lossy.largest_error(values, values, codec.bound, fill)
        report = h5lossy.assess(values, values, bound=codec.bound, fill_value=fill)
        assert summary.count == report.valid == wanted.size, (dtype, codec, fill)
        assert summary.holds
        assert report.ok


# Settings, types and fill values that nothing takes, and what it says.
NO_NOISE = "noise is a bound of integers of up to 32 bits"
REFUSED: list[tuple[Any, str, Any, str]] = [
    (PFPL(absolute=1, exact=7), "f4", None, "exact values are for integers and halves"),
    (PFPL(absolute=1, exact=7), "f4", None, "make the value that has to"),
    (PFPL(absolute=1, exact=7), "c16", None, "exact values are for integers and halves.* or NaN"),
    (PFPL(absolute=1, exact=(7, 8)), ">i8", None, "64 bits at most 1 can be exact.*give lossless"),
    (Interp(absolute=1, exact=7), "u8", 9, "64 bits at most 1 can be exact"),
    (PFPL(absolute=1, exact=(7, 8)), "i2", 9, "at most 2.* among them, got 3"),
    (PFPL(absolute=1, exact=-1), "u2", None, "value -1 is none of"),
    (PFPL(absolute=1, exact=128), "i1", None, "value 128 is none of"),
    (PFPL(absolute=1, exact=2049), "f2", None, "2049 is none of float16"),
    (PFPL(absolute=1, thresholds=3), "i2", None, "threshold"),
    (PFPL(absolute=1, thresholds=0.5), "f2", None, "threshold"),
    (PFPL(absolute=1, thresholds=0.5), "c8", None, "threshold"),
    (PFPL(absolute=1, valid_range=(0, 9)), "u1", None, "range"),
    (PFPL(absolute=1, valid_range=(0, 1)), "f2", None, "range"),
    (PFPL(absolute=1, valid_range=(0, 1)), "c8", None, "range"),
    *(
        (PFPL(absolute=1, wide=True), dtype, None, "wide bins are for integers; leave out")
        for dtype in ("f4", "f2", "c8")
    ),
    *((PFPL(noise=1), dtype, None, NO_NOISE) for dtype in ("f2", "f4", "f8", "u8", "i8")),
    (PFPL(pointwise_relative=0.1), "i4", None, "no pointwise-relative bound"),
    (h5lossy.Auto(pointwise_relative=0.1), "u2", None, "no pointwise-relative bound"),
    (h5lossy.CuSZp2(absolute=1), "i4", None, r"by PFPL and Interp.*2 \(cuszp2\); give .* counts"),
    (h5lossy.AATROX(lossless=True), ">u2", None, r"by PFPL and Interp.*got codec 3 \(aatrox\)"),
    (h5lossy.AATROX(noise=1), "u2", None, "by PFPL and Interp"),
    (h5lossy.CuSZp2(absolute=1), "f2", None, "halves are encoded by PFPL and Interp"),
    (PFPL(absolute=1), "?", None, "enum|not bool"),
]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("store", [each for each in STORING if each is not by_xarray])
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refusals(
    store: Callable[..., Array], case: tuple[Any, str, Any, str], tmp_path: Path
) -> None:
    codec, dtype, fill, why = case
    values = (np.arange(COUNT) % 97).astype(dtype)
    with pytest.raises((ValueError, NotImplementedError), match=why):
        store(values, codec, fill, tmp_path)


NOT_OF_THE_TYPE: list[tuple[str, Any]] = [
    ("u1", 300),
    ("u2", -1),
    ("u2", 65536),
    ("u2", 1.5),
    ("i4", math.nan),
    ("i1", 1.5),
    ("i8", 2**63),
    ("f2", 1e300),
    ("f2", np.float32(0.1)),
    ("f4", True),
    ("f4", [1, 2]),
    ("i2", [1, 2]),
    ("c8", b"x"),
    ("c16", [1, 2, 3]),
]


@pytest.mark.parametrize(("dtype", "fill"), NOT_OF_THE_TYPE)
def test_what_is_no_value_of_the_type_is_no_fill_value(dtype: str, fill: Any) -> None:
    values = np.arange(99).astype(dtype)
    for codec in (PFPL(absolute=1), PFPL(lossless=True)):
        for take in (
            lambda codec: h5lossy.encode(values, codec, fill_value=fill),
            lambda _: h5lossy.PFPL(range_relative=0.1).resolve(values, fill),
            lambda codec: h5lossy.largest_error(values, values, codec.bound, fill),
            lambda codec: h5lossy.assess(values, values, bound=codec.bound, fill_value=fill),
            lambda codec: Compressor(codec, fill_value=fill, dtype=dtype, chunks=(99,)),
        ):
            with pytest.raises(h5lossy.InvalidArgumentError, match="fill_value must be"):
                take(codec)


@pytest.mark.parametrize("dtype", ["i1", "u1", ">i2", "u8", "i4", "f2", "f4", "c8"])
def test_masked_points_count_by_place(dtype: str) -> None:
    values = (np.arange(200) % 90).astype(dtype)
    values[[5, 7]] = 99, 98
    mask = np.arange(200) % 13 == 5
    masked = np.ma.array(values, mask=mask)
    part = 2 if masked.dtype.kind == "c" else 1
    bound = PFPL(absolute=1).bound
    other = np.where(mask, values + 9, values + 1).astype(dtype)
    for decoded in (other, np.ma.array(other, mask=mask)):
        for given in (bound, PFPL(range_relative=1.1 / 89).bound):  # without the masked 99
            found = h5lossy.largest_error(masked, decoded, given)
            assert (found.holds, found.count) == (True, part * np.count_nonzero(~mask))
        assessor = h5lossy.Assessor(values.shape, dtype, bound=bound)
        assessor.update(masked, decoded)
        for report in (h5lossy.assess(masked, decoded, bound=bound), assessor.result()):
            assert (report.ok, report.valid) == (True, found.count)
    # What only the decoded field masks is lost.
    lost = h5lossy.largest_error(values, np.ma.array(values, mask=mask), bound)
    assert (lost.violations, lost.special_changed) == (0, part * np.count_nonzero(mask))
    assert "the first at (5" in lost.problems[0]
    assert not h5lossy.assess(values, np.ma.array(values, mask=mask), bound=bound).ok


@pytest.mark.parametrize("dtype", ["i1", ">u4", "i8", "f2", "f8"])
def test_the_fill_value_of_a_masked_array_counts_unless_another_is_given(dtype: str) -> None:
    masked = np.ma.array([9, 5, 8, 7], dtype, mask=[0, 1, 0, 0], fill_value=9)
    bound = PFPL(absolute=1).bound
    for fill, valid in (("auto", 2), (None, 3), (4, 3)):
        assert h5lossy.largest_error(masked, masked.data, bound, fill).count == valid
        report = h5lossy.assess(masked, masked.data, bound=bound, fill_value=fill)
        assert report.valid == valid
        # That of the decoded field has no say.
        assert h5lossy.assess(masked.data, masked, bound=bound).valid == 4
        resolved = PFPL(range_relative=1).resolve(masked, fill)
        assert resolved.bound.value == pytest.approx(1 if fill == "auto" else 2)


@pytest.mark.parametrize("kind", ["array", "Series", "Variable", "DataArray", "list"])
def test_integers_with_gaps_stay_integers(kind: str, tmp_path: Path) -> None:
    numbers, large = [5, 2**53 + 1, 0, -(2**53) - 1], PFPL(lossless=True)
    masked = np.ma.array(numbers, mask=[0, 0, 1, 0])
    if kind == "list":
        given: Any = [masked, np.ma.array(numbers)]
    else:
        pandas = pytest.importorskip("pandas")
        given = pandas.array([*numbers[:2], None, numbers[3]], dtype="Int64")
        if kind == "Series":
            given = pandas.Series(given)
        elif kind != "array":
            given = getattr(pytest.importorskip("xarray"), kind)(data=given, dims="x")
    wanted = [5, 2**53 + 1, -1, -(2**53) - 1, *(numbers if kind == "list" else [])]
    decoded = h5lossy.decode(h5lossy.encode(given, large, fill_value=-1))
    assert (decoded.dtype, decoded.tolist()) == (np.int64, wanted)
    shape = np.shape(given)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = {"chunks": shape, "compression": large}
        dataset = file.create_dataset("x", shape, "i8", fillvalue=-1, **options)
        h5lossy.write(dataset, given)
        assert dataset[...].reshape(-1).tolist() == wanted
        with pytest.raises(h5lossy.H5LossyError, match="masked, and there is no fill value"):
            h5lossy.write(file.create_dataset("y", shape, "i8", **options), given)
    decoded = decoded.reshape(shape)
    for change, is_same in ((0, True), (1, False)):
        decoded[..., 1] += change
        assert h5lossy.largest_error(given, decoded, large.bound).holds == is_same
        assert h5lossy.assess(given, decoded, lossless=True).ok == is_same
