# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of HDF5 and netCDF, which find the plugin by HDF5_PLUGIN_PATH.

They are separate programs, built with other HDF5 libraries, and run none of this package's Python.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from h5py import h5z

import h5lossy
from checks import assert_kept, assert_same_bits
from h5lossy import AATROX, FILTER_ID, PFPL, Auto, CuSZp2, _native
from hdf5_helpers import (
    bound_of,
    cd_values,
    environment,
    field,
    filters,
    frames,
    h5lossy_command,
    run,
    tool,
)

if TYPE_CHECKING:
    from pathlib import Path

    from h5lossy._codecs import Codec

CODECS = {
    "absolute": PFPL(absolute=1e-3),
    "pointwise_relative": PFPL(pointwise_relative=1e-4),
    "range_relative": PFPL(range_relative=1e-3),
    "lossless": PFPL(lossless=True),
    "cuszp2": CuSZp2(absolute=1e-3),
    "cuszp2 in another mode": CuSZp2(pointwise_relative=1e-4, mode="plain", dimensions=3),
    "aatrox": AATROX(absolute=1e-3),
    "auto": Auto(absolute=1e-3),
    "auto for size": Auto(absolute=1e-3, prefer="size"),
}
ABSOLUTE = CODECS["absolute"]


@pytest.fixture(scope="module")
def plugin() -> dict[str, str]:
    """Return the environment that the documentation recommends."""
    folder = h5lossy_command("plugin-path").stdout.removesuffix("\n")
    return environment(HDF5_PLUGIN_PATH=folder)


class Repack:
    """Runs h5repack on one file, which makes another one."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.program, self.env = tool("h5repack"), env
        self.source, self.target = folder / "a.h5", folder / "b.h5"

    def __call__(self, *options: str, **env: str) -> Any:
        return run(self.program, *options, self.source, self.target, env={**self.env, **env})


@pytest.fixture
def repack(tmp_path: Path, plugin: dict[str, str]) -> Repack:
    return Repack(tmp_path, plugin)


def plain_file(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Write datasets of all types that h5lossy encodes, uncompressed; return their values."""
    data = {
        "f4": field((50, 70)),
        "f8": field((50, 70), "f8", seed=1),
        "big4": field((50, 70), ">f4", seed=2),
        "big8": field((50, 70), ">f8", seed=3),
        "cube": field((9, 1, 40, 7), seed=4),
        "fill": field((50, 70), seed=5),
        "nan": field((50, 70), seed=6),
    }
    data["fill"][::3] = -999
    data["nan"][::3] = np.nan
    with h5py.File(path, "w") as file:
        for name, values in data.items():
            chunks = (4, 1, 16, 4) if name == "cube" else (32, 32)
            fill = {"fill": -999.0, "nan": np.nan}.get(name)
            file.create_dataset(name, data=values, chunks=chunks, fillvalue=fill)
    return data


def fill_of(name: str) -> Any:
    return np.float32(-999) if name == "fill" else None


def ud(words: tuple[int, ...], *, flag: int = 1, name: str = "") -> str:
    """Return the filter option of h5repack."""
    return f"{name}UD={FILTER_ID},{flag},{len(words)},{','.join(map(str, words))}"


# ------------------------------------------------------------------------------------------------
# h5repack
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [0, 1], ids=["mandatory", "optional"])
@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_h5repack_writes_the_file_that_h5py_writes(
    tmp_path: Path, plugin: dict[str, str], codec: Codec, flag: int
) -> None:
    h5repack = tool("h5repack")
    source, target, expected = (tmp_path / name for name in ("a.h5", "b.h5", "c.h5"))
    data = plain_file(source)
    with h5py.File(source) as plain, h5py.File(expected, "w") as file:
        for name, values in data.items():
            options = {"chunks": plain[name].chunks, "compression": codec}
            if fill_of(name) is not None or name == "nan":
                options["fillvalue"] = plain[name].fillvalue
            file.create_dataset(name, data=values, **options)

    run(h5repack, "-f", ud(codec.filter_options, flag=flag), source, target, env=plugin)

    with h5py.File(target) as ours, h5py.File(expected) as theirs:
        for name, values in data.items():
            assert filters(ours[name]) == filters(theirs[name])
            assert frames(ours[name]) == frames(theirs[name])
            assert_kept(values, ours[name][...], bound_of(codec), fill_of(name))


@pytest.mark.parametrize("count", [4, 5, 16])
def test_h5repack_takes_4_words_or_5_or_stored_ones(
    tmp_path: Path, repack: Repack, count: int
) -> None:
    data = plain_file(repack.source)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        # Of another type, shape and fill value than any in the source.
        options = {"chunks": (5, 6, 7), "fillvalue": 3.0, "compression": ABSOLUTE}
        words = cd_values(file.create_dataset("x", (10, 10, 10), ">f8", **options))
    words = {4: words[:4], 5: (*words[:4], 512), 16: words}[count]

    repack("-f", ud(words))

    with h5py.File(repack.target) as file:
        for name, values in data.items():
            checksums = {h5lossy.inspect(f).checksum for f in frames(file[name]).values()}
            assert checksums == {count != 5}
            assert_kept(values, file[name][...], bound_of(ABSOLUTE), fill_of(name))
            assert cd_values(file[name])[14:] == ((0xC479C000, 0) if name == "fill" else (0, 0))


@pytest.mark.parametrize(
    "chunk", ["16x16", "50x70", "1x70", "7x64"], ids=["smaller", "all", "rows", "odd"]
)
def test_h5repack_gives_compressed_data_other_chunks_without_another_loss(
    repack: Repack, chunk: str
) -> None:
    # HDF5 feeds the stored cd_values in again, for chunks of another shape.
    data = field((50, 70))
    data[::3] = -999
    with h5py.File(repack.source, "w") as file:
        file.create_dataset("x", data=data, chunks=(32, 32), fillvalue=-999.0, **ABSOLUTE)
    with h5py.File(repack.source) as file:
        before = file["x"][...]

    repack("-l", f"CHUNK={chunk}")

    with h5py.File(repack.target) as file:
        assert file["x"].chunks == tuple(map(int, chunk.split("x")))
        words = cd_values(file["x"])
        assert words[:5] == (1, 0, 3539053052, 1062232653, 256)
        assert words[6:14] == (*(n for n in file["x"].chunks if n > 1), *[0] * 8)[:8]
        assert {h5lossy.inspect(frame).codec for frame in frames(file["x"]).values()} == {"pfpl"}
        assert_same_bits(file["x"][...], before)


def test_h5repack_copies_compressed_data_chunk_for_chunk(repack: Repack) -> None:
    with h5py.File(repack.source, "w") as file:
        file.create_dataset("x", data=field((50, 70)), chunks=(32, 32), **ABSOLUTE)

    repack()

    with h5py.File(repack.source) as old, h5py.File(repack.target) as new:
        assert filters(new["x"]) == filters(old["x"])
        assert frames(new["x"]) == frames(old["x"])


def test_h5repack_makes_one_huge_chunk_of_contiguous_data(repack: Repack) -> None:
    data = field((2048, 2048))
    with h5py.File(repack.source, "w") as file:
        file["x"] = data

    repack("-f", ud(ABSOLUTE.filter_options))

    with h5py.File(repack.target) as file:
        assert file["x"].chunks == data.shape
        [frame] = frames(file["x"]).values()
        assert frame == h5lossy.encode(data, ABSOLUTE)
        assert_kept(data, file["x"][...], bound_of(ABSOLUTE))


def test_h5repack_says_who_did_the_work_if_it_is_asked_to(repack: Repack) -> None:
    with h5py.File(repack.source, "w") as file:
        file.create_dataset("x", data=field((64, 96)), chunks=(32, 32))
    options = "-f", ud(ABSOLUTE.filter_options)
    assert repack(*options, H5LOSSY_DEVICE="cpu").stderr == ""
    said = repack(*options, H5LOSSY_DEVICE="cpu", H5LOSSY_COUNTS="1").stderr
    assert said == "h5lossy: chunks encoded: GPU 0, CPU 6; decoded: GPU 0, CPU 0\n"


@pytest.mark.parametrize("to", ["NONE", "GZIP=1"])
def test_h5repack_takes_the_compression_off(repack: Repack, to: str) -> None:
    data = plain_file(repack.source)
    with h5py.File(repack.source, "r+") as file:
        for name, values in data.items():
            chunks = file[name].chunks
            del file[name]
            file.create_dataset(name, data=values, chunks=chunks, **ABSOLUTE)
    with h5py.File(repack.source) as file:
        before = {name: file[name][...] for name in data}

    repack("-f", to)

    with h5py.File(repack.target) as file:
        for name in data:
            expected = [] if to == "NONE" else [h5z.FILTER_DEFLATE]
            assert [number for number, *_ in filters(file[name])] == expected
            assert_same_bits(file[name][...], before[name])


def test_h5repack_compresses_the_datasets_that_are_named(repack: Repack) -> None:
    plain_file(repack.source)

    option = ud(ABSOLUTE.filter_options, name="f4,big8:")
    repack("-f", option, "-l", "f4:CHUNK=8x8")

    with h5py.File(repack.target) as file:
        assert {name for name in file if filters(file[name])} == {"f4", "big8"}
        assert file["f4"].chunks == (8, 8)


def other_data(file: h5py.File) -> dict[str, Any]:
    """Write datasets that the filter refuses; return the values that h5py reads from them."""
    pair_type = np.dtype([("x", "f4"), ("y", "f4")])
    file.create_dataset("bool", data=np.arange(100) > 50, chunks=(10,))
    file.create_dataset("long_double", data=np.arange(100, dtype=np.longdouble), chunks=(10,))
    file.create_dataset("compound", data=np.ones(100, pair_type), chunks=(10,))
    file.create_dataset("fixed", data=np.array([b"abcd"] * 100), chunks=(10,))
    return {name: file[name][...] for name in file}


@pytest.mark.parametrize("flag", [0, 1], ids=["mandatory", "optional"])
def test_h5repack_copies_what_we_refuse_as_it_was(repack: Repack, flag: int) -> None:
    with h5py.File(repack.source, "w") as file:
        data = other_data(file)
        taken = {"float": "f8", "half": "f2", "complex": "c8"}
        for name, dtype in taken.items():
            file.create_dataset(name, data=np.arange(100, dtype=dtype), chunks=(50,))

    option = ud(ABSOLUTE.filter_options, flag=flag)
    said = repack("-v", "-f", option)

    with h5py.File(repack.target) as file:
        assert {name for name in file if filters(file[name])} == {*taken}
        for name, values in data.items():
            assert f"could not create dataset </{name}>. Applying original settings" in (
                said.stdout + said.stderr
            )
            np.testing.assert_array_equal(file[name][...], values)


@pytest.mark.parametrize("flag", [0, 1], ids=["mandatory", "optional"])
def test_h5repack_keeps_strings_of_variable_length(repack: Repack, flag: int) -> None:
    # HDF5 does not ask an optional filter about these, but runs it.
    strings = [b"a" * i for i in range(20)]
    with h5py.File(repack.source, "w") as file:
        file.create_dataset("x", data=strings, dtype=h5py.string_dtype(), chunks=(8,))

    repack("-f", ud(ABSOLUTE.filter_options, flag=flag))

    with h5py.File(repack.target) as file:
        assert list(file["x"][...]) == strings


@pytest.mark.parametrize(
    "words",
    [(1, 0), (77, 0, 0, 0x3FF00000), (1, 0, 0, 0), (1, 1, 0, 0x3FF00000)],
    ids=["too few", "codec 77", "bound 0", "pointwise 1"],
)
def test_h5repack_compresses_nothing_with_bad_cd_values(
    repack: Repack, words: tuple[int, ...]
) -> None:
    data = plain_file(repack.source)

    said = repack("-v", "-f", ud(words))

    assert "Applying original settings" in said.stdout + said.stderr
    with h5py.File(repack.target) as file:
        for name, values in data.items():
            assert not filters(file[name])
            assert_same_bits(file[name][...], values)


# ------------------------------------------------------------------------------------------------
# h5dump, h5ls, h5diff, h5copy
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def compressed(tmp_path: Path) -> Path:
    """Return a file with one compressed dataset."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        options = {"chunks": (32, 32), "fillvalue": -999.0, "compression": ABSOLUTE}
        file.create_dataset("x", data=field((50, 70)), **options)
    return path


def test_h5dump_shows_the_filter_and_its_parameters(
    compressed: Path, plugin: dict[str, str]
) -> None:
    said = run(tool("h5dump"), "-p", "-H", "-d", "/x", compressed, env=plugin).stdout

    assert f"FILTER_ID {FILTER_ID}" in said
    assert re.search(r"COMMENT h5lossy .*pip install h5lossy", said)
    # h5dump takes the words for signed ones.
    params = re.search(r"PARAMS \{ (.*) \}", said)
    assert params
    with h5py.File(compressed) as file:
        assert [int(n) % 2**32 for n in params[1].split()] == list(cd_values(file["x"]))


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
def test_h5dump_prints_the_values_that_h5py_reads(
    tmp_path: Path, plugin: dict[str, str], dtype: str
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=field((50, 70), dtype), chunks=(32, 32), **ABSOLUTE)

    said = run(tool("h5dump"), "-y", "-w", "0", "-m", "%.17g", "-d", "/x", path, env=plugin).stdout

    values = re.search(r"\bDATA \{\s*(.*?)\}", said, re.DOTALL)
    assert values
    printed = np.array(values[1].replace(",", " ").split(), np.float64)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(printed, file["x"][...].ravel())


def test_a_plugin_with_a_signature_behind_it_works(compressed: Path, tmp_path: Path) -> None:
    # What h5sign adds: the signature, and 12 bytes that begin with the number 0x48444635.
    signed = tmp_path / "plugins" / _native.LIBRARY_PATH.name
    signed.parent.mkdir()
    signature = bytes(range(256)) * 2 + struct.pack("<3I", 0x48444635, 512, 3)
    signed.write_bytes(_native.LIBRARY_PATH.read_bytes() + signature)

    run(
        tool("h5dump"), "-d", "/x", compressed, env=environment(HDF5_PLUGIN_PATH=str(signed.parent))
    )


def test_h5ls_shows_the_filter(compressed: Path, plugin: dict[str, str]) -> None:
    said = run(tool("h5ls"), "-v", compressed, env=plugin).stdout

    with h5py.File(compressed) as file:
        words = ", ".join(map(str, cd_values(file["x"])))
    assert re.search(
        rf"Filter-0: +h5lossy .*pip install h5lossy.*-{FILTER_ID} +\{{{words}\}}", said
    )


def test_h5diff_finds_no_value_off_by_more_than_the_bound(
    compressed: Path, plugin: dict[str, str]
) -> None:
    h5diff = tool("h5diff")
    plain = compressed.with_name("b.h5")
    with h5py.File(plain, "w") as file:
        file.create_dataset("x", data=field((50, 70)), chunks=(32, 32), fillvalue=-999.0)

    run(h5diff, "-d", "1.0001e-3", compressed, plain, env=plugin)
    run(h5diff, compressed, plain, env=plugin, status=1)


def test_h5copy_moves_chunks_without_the_plugin(compressed: Path) -> None:
    target = compressed.with_name("b.h5")

    run(tool("h5copy"), "-i", compressed, "-s", "x", "-o", target, "-d", "y", env=environment())

    with h5py.File(compressed) as old, h5py.File(target) as new:
        assert frames(new["y"]) == frames(old["x"])
        assert_same_bits(new["y"][...], old["x"][...])


# ------------------------------------------------------------------------------------------------
# netCDF's programs
# ------------------------------------------------------------------------------------------------

#: The variable t in 4 chunks, by hand; w and i are of no interest to the filter.
CDL = """netcdf t {{
dimensions:
    y = 50 ; x = 40 ;
variables:
    float t(y, x) ;
        t:_FillValue = -999.f ;
        t:units = "K" ;
        t:_ChunkSizes = 32, 32 ;
        {filter}
    double w(y, x) ;
    int i(x) ;
data:
    t = {t} ;
    i = {i} ;
}}
"""


def netcdf_file(folder: Path, env: dict[str, str], *, with_filter: str = "") -> Any:
    """Make a netCDF-4 file with ncgen; return its path and the values of t."""
    ncgen = tool("ncgen")
    values = field((50, 40))
    values[3, ::2] = -999
    line = f't:_Filter = "{with_filter}" ;' if with_filter else ""
    text = CDL.format(
        filter=line,
        t=", ".join(f"{value:#.9g}f" for value in values.flat),
        i=", ".join(map(str, range(40))),
    )
    (folder / "t.cdl").write_text(text)
    run(ncgen, "-4", "-o", folder / "t.nc", folder / "t.cdl", env=env)
    return folder / "t.nc", values


def test_ncgen_applies_the_filter(tmp_path: Path, plugin: dict[str, str]) -> None:
    path, values = netcdf_file(tmp_path, plugin, with_filter=f"{FILTER_ID},1,0,0.001d")

    with h5py.File(path) as file:
        assert file["t"].chunks == (32, 32)
        assert cd_values(file["t"])[:5] == (*ABSOLUTE.filter_options, 256)
        assert_kept(values, file["t"][...], bound_of(ABSOLUTE), np.float32(-999))
        assert not filters(file["w"])


def test_nccopy_applies_the_filter(tmp_path: Path, plugin: dict[str, str]) -> None:
    nccopy = tool("nccopy")
    source, values = netcdf_file(tmp_path, plugin)
    target = tmp_path / "b.nc"

    run(nccopy, "-F", f"t,{FILTER_ID},1,0,0.001d", source, target, env=plugin)

    with h5py.File(target) as file:
        assert cd_values(file["t"])[:4] == ABSOLUTE.filter_options
        assert_kept(values, file["t"][...], bound_of(ABSOLUTE))
        assert not filters(file["i"])
        assert file["t"].attrs["units"] == b"K"


def test_nccopy_is_refused_a_filter_behind_that_takes_frames_for_numbers(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    nccopy = tool("nccopy")
    source, _ = netcdf_file(tmp_path, plugin)
    target = tmp_path / "b.nc"
    filters = f"t,{FILTER_ID},1,0,0.001d|6,0,2"
    assert run(nccopy, "-F", filters, source, target, env=plugin, status=None).returncode != 0


def test_nco_which_passes_the_last_word_of_cmp_on_is_told_why_it_is_refused(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    ncks = tool("ncks")
    source, _ = netcdf_file(tmp_path, plugin)
    target = tmp_path / "b.nc"
    words = ",".join(map(str, ABSOLUTE.filter_options))
    said = run(ncks, f"--cmp={FILTER_ID},{words}", source, target, env=plugin, status=None)
    assert said.returncode != 0
    # netCDF drops what HDF5 says.
    assert f"h5lossy: codec {ABSOLUTE.filter_options[-1]} is not in this version" in said.stderr


def test_nccopy_copies_what_is_compressed_already(tmp_path: Path, plugin: dict[str, str]) -> None:
    # It reads, and writes with the stored cd_values.
    nccopy = tool("nccopy")
    source, values = netcdf_file(tmp_path, plugin, with_filter=f"{FILTER_ID},1,0,0.001d")
    target = tmp_path / "b.nc"

    run(nccopy, "-M", "0", "-c", "t:16,16", source, target, env=plugin)

    with h5py.File(source) as old, h5py.File(target) as new:
        assert new["t"].chunks == (16, 16)
        assert cd_values(new["t"])[:4] == ABSOLUTE.filter_options
        assert cd_values(new["t"])[6:8] == (16, 16)
        assert_kept(values, new["t"][...], bound_of(ABSOLUTE))
        assert_same_bits(new["t"][...][values != -999], old["t"][...][values != -999])


def test_ncdump_shows_the_filter_and_the_values(tmp_path: Path, plugin: dict[str, str]) -> None:
    ncdump = tool("ncdump")
    path, _ = netcdf_file(tmp_path, plugin, with_filter=f"{FILTER_ID},1,0,0.001d")

    said = run(ncdump, "-s", "-p", "9,17", "-v", "t", path, env=plugin).stdout

    assert f't:_Filter = "{FILTER_ID},1,0,3539053052,1062232653,256,' in said
    values = re.search(r"\n t =\s+(.*?);", said, re.DOTALL)
    assert values
    printed = np.array(values[1].replace("_", "-999").replace(",", " ").split(), np.float32)
    with h5py.File(path) as file:
        assert_same_bits(printed, file["t"][...].ravel())


# ------------------------------------------------------------------------------------------------
# Where the plugin is missing
# ------------------------------------------------------------------------------------------------


def test_without_the_plugin_hdf5_says_what_to_install(compressed: Path) -> None:
    said = run(
        tool("h5dump"), "--enable-error-stack", "-d", "/x", compressed, env=environment(), status=1
    )

    assert re.search(r"required filter 'h5lossy .*pip install h5lossy.*' is not", said.stderr)


def test_without_the_plugin_the_parameters_can_still_be_seen(compressed: Path) -> None:
    said = run(tool("h5dump"), "-p", "-H", compressed, env=environment()).stdout

    assert "pip install h5lossy" in said
    assert "PARAMS { 1 0 " in said


def test_without_the_plugin_h5repack_warns(compressed: Path) -> None:
    target = compressed.with_name("b.h5")

    said = run(tool("h5repack"), "-f", "NONE", compressed, target, env=environment())

    assert "user defined filter is not available" in said.stdout + said.stderr


def test_without_the_plugin_ncdump_says_that_a_filter_is_missing(
    tmp_path: Path, plugin: dict[str, str]
) -> None:
    ncdump = tool("ncdump")
    path, _ = netcdf_file(tmp_path, plugin, with_filter=f"{FILTER_ID},1,0,0.001d")

    said = run(ncdump, path, env=environment(), status=1)

    assert "undefined filter" in said.stderr
