# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Complex numbers: frames of their components, the bound of components and of moduli, files."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import PFPL, BoundError, CorruptFrameError
from hdf5_helpers import h5lossy_command
from reference import frame as reference
from reference_frames import frame_of_reference
from test_decoder import sealed

if TYPE_CHECKING:
    from pathlib import Path

    from checks import Array

each_type = pytest.mark.parametrize("dtype", ["<c8", ">c8", "<c16", ">c16"])


def spirals(dtype: str) -> Array:
    """Return complex numbers of two axes."""
    phase = np.add.outer(np.arange(60) / 7, np.arange(50) / 11)
    return np.asarray(np.exp(1j * phase) * (1 + phase)).astype(dtype)


def components(values: Array) -> Array:
    """Return floats, with one more axis."""
    return values.view(f"{values.dtype.str[0]}f{values.itemsize // 2}").reshape(*values.shape, 2)


@each_type
def test_frames_are_those_of_the_components(codec: Any, dtype: str) -> None:
    values = spirals(dtype)
    for bound in ({"absolute": 0.01}, {"pointwise_relative": 0.01}, {"lossless": True}):
        setting = codec(**bound)
        frame = h5lossy.encode(values, setting)
        as_floats = bytearray(h5lossy.encode(components(values), setting))
        assert frame[7] == as_floats[7] | 0x50
        as_floats[7] = frame[7]
        assert frame[20:] == as_floats[20:]
        decoded = h5lossy.decode(frame, shape=values.shape)
        assert decoded.dtype == values.dtype
        as_floats[7] &= 0x8F
        as_floats[16:20] = h5lossy.encode(components(values), setting)[16:20]
        np.testing.assert_array_equal(components(decoded).reshape(-1), h5lossy.decode(as_floats))
        part = h5lossy.decode(frame, 7, 500)
        np.testing.assert_array_equal(part, decoded.reshape(-1)[7:500])
        info = h5lossy.inspect(frame)
        assert (info.dtype, info.count) == (values.dtype, values.size)


@each_type
def test_the_reference_has_them_too(decoder: Any, dtype: str) -> None:
    values = spirals(dtype)[:20]
    frame = h5lossy.encode(values, PFPL(absolute=0.01))
    assert frame == frame_of_reference(values, PFPL(absolute=0.01))
    decoded = h5lossy.decode(frame)
    assert reference.decode(frame).tobytes() == decoded.tobytes() == decoder.decode(frame)


@each_type
def test_the_modulus_of_errors_is_bounded(dtype: str) -> None:
    rng = np.random.default_rng(0)
    values = (rng.normal(0, 9, 20000) + 1j * rng.normal(0, 9, 20000)).astype(dtype)
    worst = Fraction(0)
    for modulus in (0.5, 1e-3):
        codec = PFPL(modulus=modulus)
        decoded = h5lossy.decode(h5lossy.encode(values, codec))
        for x, y in zip(values[:3000].tolist(), decoded[:3000].tolist(), strict=True):
            square = (Fraction(x.real) - Fraction(y.real)) ** 2
            square += (Fraction(x.imag) - Fraction(y.imag)) ** 2
            worst = max(worst, square / Fraction(modulus) ** 2)
    assert Fraction(9, 10) < worst <= 1


@pytest.mark.parametrize("modulus", [1, 0.1, 3e-200, 1e200, 5e-324, 1.7e308, 2**0.5])
def test_the_bound_of_a_modulus_is_the_largest(modulus: float) -> None:
    limit = Fraction(modulus) ** 2 / 2
    if modulus == 5e-324:
        with pytest.raises(BoundError, match="greater than 0"):
            PFPL(modulus=modulus)
        return
    bound = PFPL(modulus=modulus).absolute
    assert Fraction(bound) ** 2 <= limit < Fraction(math.nextafter(bound, math.inf)) ** 2
    assert PFPL(modulus=modulus) == PFPL(modulus=np.float64(modulus)) == PFPL(absolute=bound)


def test_other_moduli_are_refused() -> None:
    for modulus in (0, -1, math.inf, math.nan):
        with pytest.raises(BoundError):
            PFPL(modulus=modulus)
    with pytest.raises(TypeError, match="exactly one bound"):
        PFPL(modulus=1, absolute=1)


@each_type
def test_datasets_are_written_and_read(tmp_path: Path, codec: Any, dtype: str) -> None:
    values = spirals(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = {"chunks": (32, 32), "compression": codec(absolute=0.01)}
        file.create_dataset("x", data=values, **options)
        h5lossy.write(file.create_dataset("y", values.shape, dtype, **options), values)
        exact = codec(lossless=True)
        file.create_dataset("z", data=values, chunks=(32, 32), compression=exact, fillvalue=1 + 2j)
    with h5py.File(tmp_path / "a.h5") as file:
        decoded = file["x"][...]
        assert decoded.dtype == values.dtype
        assert 0 < np.abs(components(decoded) - components(values)).max() <= 0.01
        np.testing.assert_array_equal(file["y"][...], decoded)
        np.testing.assert_array_equal(h5lossy.read(file["x"]), decoded)
        np.testing.assert_array_equal(file["z"][...], values)
        for name in "xyz":
            assert h5lossy.verify(file[name]).ok
        assert h5lossy.describe(file["x"]).ratio > 1
        _, frame = file["x"].id.read_direct_chunk((0, 0))
        assert h5lossy.inspect(frame).dtype == values.dtype
    said = h5lossy_command("info", str(tmp_path / "a.h5"), "--frames").stdout
    assert "absolute 0.01" in said
    h5lossy_command("info", "--json", str(tmp_path / "a.h5"))


def test_hdf5s_own_complex_type_is_taken(tmp_path: Path) -> None:
    of_hdf5 = getattr(h5py.h5t, "COMPLEX_IEEE_F32LE", None)
    if of_hdf5 is None:
        pytest.skip("h5py has no names for HDF5's complex types")
    values = spirals("<c8")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((32, 32))
        words = PFPL(absolute=0.01).filter_options
        plist.set_filter(h5lossy.FILTER_ID, h5py.h5z.FLAG_MANDATORY, words)
        space = h5py.h5s.create_simple(values.shape)
        made = h5py.h5d.create(file.id, b"x", of_hdf5, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values, of_hdf5)
    with h5py.File(tmp_path / "a.h5") as file:
        dataset = file["x"]
        assert np.abs(components(dataset[...]) - components(values)).max() <= 0.01
        assert h5lossy.inspect(dataset.id.read_direct_chunk((0, 0))[1]).dtype == values.dtype
        assert h5lossy.verify(dataset).ok


def test_other_compounds_are_refused() -> None:
    kinds = [[("r", "f4"), ("i", "f8")], [("r", "f4")], [("r", "f4"), ("i", "f4"), ("k", "f4")]]
    kinds += [[("r", "<f4"), ("i", ">f4")], [("r", "i4"), ("i", "i4")], [("r", "f2"), ("i", "f2")]]
    with h5py.File("none", "w", driver="core", backing_store=False) as file:
        for kind in kinds:
            with pytest.raises(ValueError, match="this dataset has another type"):
                file.create_dataset(
                    "x", (9,), np.dtype(kind), chunks=(3,), compression=PFPL(absolute=1)
                )


@pytest.mark.parametrize("code", [0x51, 0x52, 0x5F])
def test_components_of_other_sizes_are_refused(decoder: Any, code: int) -> None:
    broken = bytearray(h5lossy.encode(spirals("<c8"), PFPL(absolute=0.01)))
    broken[7] = code
    with pytest.raises(CorruptFrameError):
        h5lossy.decode(sealed(decoder, bytes(broken)))
    with pytest.raises(decoder.Corrupt):
        decoder.decode(sealed(decoder, bytes(broken)))


def test_half_a_number_is_refused(decoder: Any) -> None:
    odd = bytearray(h5lossy.encode(np.array([1.1, 2.3, 3.7], "<f4"), PFPL(lossless=True)))
    assert odd[6] == 0
    odd[7] |= 0x50
    odd[16:20] = decoder.checksum([bytes(odd[:16] + odd[20:40])]).to_bytes(4, "little")
    with pytest.raises(CorruptFrameError, match="not a multiple of the value size"):
        h5lossy.decode(bytes(odd))
    with pytest.raises(decoder.Corrupt):
        decoder.decode(bytes(odd))
