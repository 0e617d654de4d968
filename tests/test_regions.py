# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Regions whose chunks are written with a smaller bound."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import (
    AATROX,
    PFPL,
    Auto,
    BoundError,
    Codec,
    CuSZp2,
    ErrorBound,
    Interp,
    InvalidArgumentError,
)
from h5lossy._verification.recorder import Recorder
from hdf5_helpers import h5lossy_command

if TYPE_CHECKING:
    from pathlib import Path

SHAPE, CHUNKS = (70, 90), (16, 32)


def field(dtype: str = "f4") -> Any:
    rng = np.random.default_rng(4)
    smooth = np.cumsum(np.cumsum(rng.standard_normal(SHAPE), 0), 1)
    if np.dtype(dtype).kind == "c":
        smooth = smooth + 1j * smooth[::-1]
    return smooth.astype(dtype)


def written(path: Path, codec: Codec, values: Any, regions: Any, **how: Any) -> Any:
    """Return the contents of a closed file that was written with regions."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("t", SHAPE, values.dtype, chunks=CHUNKS, compression=codec)
        h5lossy.write(data, values, regions=regions, **how)
    with h5py.File(path) as file:
        result = h5lossy.verify(file["t"])
        assert not result.problems, result.problems
        return file["t"][...]


def in_chunks(mask: Any) -> Any:
    """Return a mask of all chunks with a point of a mask."""
    wide = np.zeros_like(mask)
    for i in range(0, SHAPE[0], CHUNKS[0]):
        for j in range(0, SHAPE[1], CHUNKS[1]):
            chunk = np.s_[i : i + CHUNKS[0], j : j + CHUNKS[1]]
            wide[chunk] = mask[chunk].any()
    return wide


@pytest.mark.parametrize(
    "codec",
    [PFPL(absolute=0.5), CuSZp2(absolute=0.5), AATROX(absolute=0.5), Interp(absolute=0.5),
     Auto(absolute=0.5, keep="sign")],
    ids=lambda codec: codec.codec_name,
)  # fmt: skip
@pytest.mark.parametrize("verify", [False, True])
def test_chunks_of_a_region_have_its_bound(tmp_path: Path, codec: Codec, verify: bool) -> None:
    values = field()
    mask = np.zeros(SHAPE, bool)
    mask[69, 89] = mask[20, 40] = True
    regions = [(mask, 1e-3), (np.s_[:5, 30:33], 0), (np.s_[0, :40], 0.01)]
    read = written(tmp_path / "a.h5", codec, values, regions, verify=verify, threads=2)
    error = np.abs(values.astype("f8") - read)
    wanted = np.full(SHAPE, 0.5)
    box = np.zeros(SHAPE, bool)
    box[0, :40] = True
    wanted[in_chunks(box)] = 0.01
    wanted[in_chunks(mask)] = 1e-3
    box[:] = False
    box[:5, 30:33] = True
    wanted[in_chunks(box)] = 0
    assert (error <= wanted).all()
    assert error[wanted == 0.5].max() > 0.2  # the others did not pay for it


@pytest.mark.parametrize(
    ("codec", "dtype", "value"),
    [
        (PFPL(pointwise_relative=0.1), "f8", 1e-3),
        (Interp(range_relative=0.1), "f4", 1e-3),
        (PFPL(absolute=9, exact=(3, 4)), "i4", 1),
        (Interp(absolute=9, wide=True), "i2", 0),
        (PFPL(noise=2, absolute=3), "u2", 1),
        (PFPL(modulus=0.5), "c8", 1e-3),
        (Interp(absolute=0.5), "f2", 0.1),
    ],
)
def test_bounds_of_all_kinds(tmp_path: Path, codec: Codec, dtype: str, value: float) -> None:
    values = np.abs(field(dtype)) if dtype == "u2" else field(dtype)
    inside, outside = np.s_[:16, :32], np.s_[16:, 32:]
    read = written(tmp_path / "a.h5", codec, values, [(np.s_[3, 4], value)], verify=True)
    kind = codec.bound.kind
    bound = ErrorBound(kind, value, codec.bound.floor) if value else ErrorBound("lossless")
    assert h5lossy.largest_error(values[inside], read[inside], bound).holds
    assert h5lossy.largest_error(values[outside], read[outside], codec.bound).holds
    if value:
        assert not h5lossy.largest_error(values[outside], read[outside], bound).holds


def test_masks_broadcast(tmp_path: Path) -> None:
    values = field()
    rows = np.zeros((SHAPE[0], 1), bool)
    rows[17] = True
    read = written(tmp_path / "a.h5", PFPL(absolute=0.5), values, [(rows, 0)])
    assert (read[16:32] == values[16:32]).all()
    assert (read[:16] != values[:16]).any()


def test_verify_judges_the_bound_of_a_region() -> None:
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        data = file.create_dataset("t", SHAPE, "f4", chunks=CHUNKS, compression=PFPL(absolute=0.5))
        recorder = Recorder(data)
        values = field()
        recorder.add((0, 0), values[:16], values[:16] + np.float32(0.25))
        recorder.check()
        bound = ErrorBound("absolute", 0.1)
        with pytest.raises(
            h5lossy.BoundViolationError, match=r"absolute 0\.1, the first at \(0, 32\)"
        ):
            recorder.check_part(
                bound, (0, 32), values[:16, 32:64], values[:16, 32:64] + np.float32(0.25)
            )


@pytest.mark.parametrize(
    ("regions", "error", "message"),
    [
        ([(np.s_[::2], 0.1)], InvalidArgumentError, "index of numbers and slices without steps"),
        ([(np.zeros((3, 3), bool), 0.1)], InvalidArgumentError, "broadcast to .70, 90."),
        ([(np.s_[:3], 0.6)], InvalidArgumentError, "smaller one than that of the dataset"),
        ([(np.s_[:3], -1)], BoundError, "got -1"),
        ([(np.s_[:3], "x")], TypeError, "bound of a region is a number.* got 'x'"),
        ([(np.s_[:3], ErrorBound("absolute", 0.1))], TypeError, "of an ErrorBound, its value"),
        ([np.s_[:3]], InvalidArgumentError, "pairs of a place and a bound"),
        (5, InvalidArgumentError, "pairs of a place and a bound"),
    ],
)  # fmt: skip
def test_what_is_no_region_is_refused(regions: Any, error: type[Exception], message: str) -> None:
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        data = file.create_dataset("t", SHAPE, "f4", chunks=CHUNKS, compression=PFPL(absolute=0.5))
        with pytest.raises(error, match=message):
            h5lossy.write(data, field(), regions=regions)
        assert not data.id.get_num_chunks()


def test_regions_need_whole_chunks_and_a_bound() -> None:
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        data = file.create_dataset("t", SHAPE, "f4", chunks=CHUNKS, compression=PFPL(absolute=0.5))
        with pytest.raises(InvalidArgumentError, match="regions need whole chunks"):
            h5lossy.write(data, field()[:5], np.s_[:5], regions=[(np.s_[0], 0.1)])
        plain = file.create_dataset("u", SHAPE, "f4", chunks=CHUNKS)
        with pytest.raises(InvalidArgumentError, match="regions need whole chunks"):
            h5lossy.write(plain, field(), regions=[(np.s_[0], 0.1)])
        exact = file.create_dataset(
            "v", SHAPE, "f4", chunks=CHUNKS, compression=PFPL(lossless=True)
        )
        with pytest.raises(InvalidArgumentError, match="smaller one"):
            h5lossy.write(exact, field(), regions=[(np.s_[0], 0.1)])


# ------------------------------------------------------------------------------------------------
# repack
# ------------------------------------------------------------------------------------------------


def test_repack_takes_an_index_or_a_mask(tmp_path: Path) -> None:
    source, packed = tmp_path / "a.h5", tmp_path / "b.h5"
    values, mask = field(), np.zeros(SHAPE, "i1")
    mask[40, 50] = 1
    with h5py.File(source, "w") as file:
        file.create_dataset("t", data=values, chunks=CHUNKS)
        file["mask"] = mask
        packing = file.create_dataset("p", data=np.rint(values).astype("i4"), chunks=CHUNKS)
        packing.attrs["scale_factor"] = 0.5
    wanted = [
        "--range-relative", "0.01", "--dataset", "/p:absolute=10", "--region", "/t", "[0, :3]",
        "1e-4", "--region", "/t", "/mask", "0", "--region", "/p", "[-1]", "2",
    ]  # fmt: skip
    h5lossy_command("repack", source, packed, *wanted)
    with h5py.File(packed) as file:
        t, p = file["t"][...], file["p"][...]
        said = json.loads(file["t"].attrs["h5lossy"])
    extent = float(values.max()) - float(values.min())
    error = np.abs(t.astype("f8") - values) / extent
    assert 0 < error[:16, :32].max() <= 1e-4
    assert not error[in_chunks(mask != 0)].any()
    assert 2e-3 < error.max() <= 0.01
    counts = np.abs(p - np.rint(values))
    assert 0 < counts[64:].max() <= 4 < counts.max() <= 20  # half of that unpacked
    assert said["requested"]["regions"] == [["[0, :3]", 1e-4], ["/mask", 0]]
    assert not h5lossy_command("verify", packed, "--against", source).exit_code
    # The same again is done; another is not.
    h5lossy_command("repack", source, packed, *wanted)
    refused = h5lossy_command("repack", source, packed, *wanted[:-1], "3", status=1)
    assert "another bound" in refused.output


def test_repack_judges_the_bounds_of_regions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_without(dataset: Any, values: Any, block: Any, *, regions: Any) -> None:
        assert regions
        h5lossy.write(dataset, values, block)

    monkeypatch.setattr("h5lossy._repacking.compressing.write", write_without)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=field(), chunks=CHUNKS)
    said = h5lossy_command(
        "repack", tmp_path / "a.h5", tmp_path / "b.h5", "--absolute", "1",
        "--region", "/t", "[20, 40]", "1e-3", status=1,
    )  # fmt: skip
    assert "are off by more than absolute 0.001" in " ".join(said.output.split())
    assert not (tmp_path / "b.h5").exists()


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (("/u", "[0]", "1e-3"), "names no dataset here"),
        (("/t", "[0:2:2]", "1e-3"), "a place is an index such as"),
        (("/t", "[0", "1e-3"), "a place is an index such as"),
        (("/t", "/nothing", "1e-3"), "SRC has no dataset of numbers /nothing"),
        (("/t", "[0]", "2"), "smaller one than that of the dataset"),
    ],
)
def test_repack_refuses_what_is_no_region(tmp_path: Path, region: Any, message: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=field(), chunks=CHUNKS)
    refused = h5lossy_command(
        "repack", tmp_path / "a.h5", tmp_path / "b.h5", "--absolute", "1", "--region", *region,
        status=None,
    )  # fmt: skip
    assert message in " ".join(refused.output.split())
    assert not (tmp_path / "b.h5").exists()


def test_errors_add_up_where_chunks_of_a_region_get_the_bound_of_the_dataset(
    tmp_path: Path,
) -> None:
    source, first, second, third = (tmp_path / f"{name}.h5" for name in "abcd")
    with h5py.File(source, "w") as file:
        file.create_dataset("t", data=field(), chunks=CHUNKS)
    bound = ("--codec", "pfpl", "--absolute", "1")
    h5lossy_command("repack", source, first, *bound, "--region", "/t", "[:20]", "1e-2")
    said = h5lossy_command("repack", first, second, *bound)
    with h5py.File(second) as file:
        error = float(np.abs(file["t"][...].astype("f8") - field()).max())
        stated = float(file["t"].attrs["lossy_compression_maximum_absolute_error"])
    assert 1 < error <= stated
    assert "the errors add up" in " ".join(said.output.split())
    # Without regions, the same bound again moves nothing.
    h5lossy_command("repack", source, third, *bound)
    again = h5lossy_command("repack", third, tmp_path / "e.h5", *bound)
    assert "add up" not in again.output
    with h5py.File(tmp_path / "e.h5") as file:
        assert file["t"].attrs["lossy_compression_maximum_absolute_error"] == 1


@pytest.mark.parametrize("place", [np.s_[5:5], np.s_[:, 40:35], np.s_[5:30, 40:40], np.s_[500:600]])
def test_an_empty_place_touches_no_chunk(tmp_path: Path, place: Any) -> None:
    plain = written(tmp_path / "a.h5", PFPL(absolute=1), field(), [])
    found = written(tmp_path / "b.h5", PFPL(absolute=1), field(), [(place, 0)])
    np.testing.assert_array_equal(found, plain)


def test_repack_refuses_a_region_of_what_it_copies(tmp_path: Path) -> None:
    source, packed = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("t", data=field(), chunks=CHUNKS)
        file["small"] = np.zeros(3, "f4")
    wanted = ["--absolute", "1", "--region", "/small", "[0]", "0"]
    refused = h5lossy_command("repack", source, packed, *wanted, status=1)
    assert "--region '/small' names nothing that is compressed (/small: small)" in refused.output
    h5lossy_command("repack", source, packed, "--absolute", "1", "--region", "/*", "[0]", "0")
