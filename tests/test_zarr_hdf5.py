# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 files read as Zarr, by kerchunk and VirtualiZarr, from disk and over HTTP: bit for bit."""

from __future__ import annotations

import gc
import http.server
import importlib.metadata
import importlib.util
import json
import re
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_same_bits
from h5lossy import AATROX, PFPL, Auto, CuSZp2, Interp
from hdf5_helpers import environment, field, h5lossy_command, run, run_python

zarr = pytest.importorskip("zarr", minversion="3.1.6", reason="zarr 3.1.6 is not installed")

import h5lossy.zarr  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTRIB = Path(__file__).parents[1] / "contrib"

pytestmark = [
    # Others' own affairs: what they write is in no specification of Zarr 3.
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
]

DATASETS: dict[str, dict[str, Any]] = {
    "absolute": {"compression": PFPL(absolute=1e-3)},
    "big": {"data": field((70, 90), ">f8"), "compression": Interp(absolute=1e-3, axes=-1)},
    "filled": {"compression": CuSZp2(absolute=0.5, dimensions=2), "fillvalue": -999},
    "nan": {"compression": AATROX(pointwise_relative=1e-2), "fillvalue": np.nan},
    "range": {"compression": Auto(range_relative=1e-3), "fillvalue": 5},
    "exact": {"compression": PFPL(lossless=True), "chunks": (70, 90)},
    "deep": {
        "data": field((3, 4, 5, 6), "f8"),
        "chunks": (2, 3, 4, 5),
        "compression": PFPL(absolute=1e-3, checksum=False),
    },
    "line": {"data": field((999,)), "chunks": (100,), "compression": Interp(absolute=1e-3)},
    "gzip": {"compression": "gzip"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file that has each dataset, and one more in a group."""
    folder = tmp_path_factory.mktemp("served")
    values = field((70, 90))
    values[5, 7:40], values[60:], values[3, 3] = -999, np.nan, np.inf
    with h5py.File(folder / "a.h5", "w", libver="latest") as file:
        for name, options in DATASETS.items():
            file.create_dataset(name, **({"data": values, "chunks": (32, 40)} | options))
        file.create_dataset("group/inner", data=values, compression=PFPL(absolute=1e-3))
        holes = file.create_dataset(
            "holes", (64, 64), "f4", chunks=(32, 32), fillvalue=-1, **PFPL(absolute=1e-3)
        )
        holes[40:, 40:] = 3
    return folder


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """A file server that supports ranges, which the standard library's does not."""

    protocol_version = "HTTP/1.1"  # many requests a connection

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer(only_head=True)

    def _answer(self, *, only_head: bool = False) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        self.send_response(206 if asked else 200)
        if asked:
            size = len(content)
            first, last = asked.groups()
            start = int(first) if first else size - int(last)
            stop = min(int(last) + 1, size) if first and last else size
            content = content[start:stop]
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not only_head:
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Keep silent."""


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """Serve the folder over HTTP; return its address."""

    def handler(*arguments: Any) -> RangeHandler:
        return RangeHandler(*arguments, directory=str(folder))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


def values_in_hdf5(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with h5py.File(path) as file:
        return {name: file[name][...] for name in (*DATASETS, "group/inner", "holes")}


def assert_reads_as_hdf5(group: Any, path: Path) -> None:
    for name, expected in values_in_hdf5(path).items():
        found = np.asarray(group[name][...])
        assert_same_bits(found.astype(expected.dtype), expected)  # Zarr 3 has one byte order
        assert_same_bits(
            np.asarray(group[name][1:3]).astype(expected.dtype), np.ascontiguousarray(expected[1:3])
        )


# ------------------------------------------------------------------------------------------------
# kerchunk
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def references() -> Any:
    """Return a function that makes references with kerchunk, after registering the codec."""
    hdf = pytest.importorskip("kerchunk.hdf", reason="kerchunk is not installed")
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    h5lossy.zarr.register_kerchunk()

    def make(url: str, **options: Any) -> Any:
        # kerchunk holds h5py's lock while it waits for Zarr's thread. If the garbage collector
        # frees objects of h5py there, it waits for that lock: VirtualiZarr's issue 1072.
        gc.collect()
        gc.disable()
        try:
            with fsspec.open(url) as file:
                return hdf.SingleHdf5ToZarr(file, url, inline_threshold=0, **options).translate()
        finally:
            gc.enable()

    return make


def open_references(made: Any, **options: Any) -> Any:
    return zarr.open_group(
        "reference://", storage_options={"fo": made} | options, mode="r", zarr_format=2
    )


def test_kerchunk_reads_what_hdf5_reads(references: Any, folder: Path) -> None:
    made = references(str(folder / "a.h5"))

    config = json.loads(made["refs"]["filled/.zarray"])["filters"]
    assert config == [
        {
            "id": "h5lossy",
            "codec": "CuSZp2",
            "absolute": 0.5,
            "dimensions": 2,
            "fill_value": -999.0,
            "dtype": "<f4",
            "chunks": [32, 40],
        }
    ]
    assert_reads_as_hdf5(open_references(made), folder / "a.h5")


def test_kerchunk_reads_over_http(references: Any, folder: Path, server: str) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")

    made = references(f"{server}/a.h5")

    assert made["refs"]["line/3"][0] == f"{server}/a.h5"
    group = open_references(made, remote_protocol="http", remote_options={"asynchronous": True})
    assert_reads_as_hdf5(group, folder / "a.h5")


def test_xarray_reads_references_of_a_netcdf_file(references: Any, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
    path = tmp_path / "a.nc"
    values = field((30, 40))
    values[3:5, 7:9] = np.nan
    written = xarray.Dataset({"t": (("y", "x"), values)}, {"x": np.arange(40.0)})
    encoding = {"compression": PFPL(absolute=1e-3), "chunksizes": (16, 16)}
    written.to_netcdf(path, engine="h5netcdf", encoding={"t": encoding})

    with (
        xarray.open_dataset(path, engine="h5netcdf") as expected,
        xarray.open_dataset(
            "reference://",
            engine="zarr",
            backend_kwargs={
                "storage_options": {"fo": references(str(path))},
                "consolidated": False,
            },
        ) as opened,
    ):
        assert_same_bits(opened["t"].values, expected["t"].values)
        assert_same_bits(opened["x"].values, np.arange(40.0))


def test_kerchunk_keeps_the_order_of_filters(references: Any, tmp_path: Path) -> None:
    path = tmp_path / "two.h5"
    with h5py.File(path, "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((32,))
        codec = PFPL(absolute=1e-3)
        creation.set_filter(h5lossy.FILTER_ID, h5py.h5z.FLAG_OPTIONAL, codec.filter_options)
        creation.set_deflate(4)
        space = h5py.h5s.create_simple((100,))
        h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, creation)
        file["x"][...] = field((100,))
    with h5py.File(path) as file:
        expected = file["x"][...]

    made = references(str(path))

    filters = json.loads(made["refs"]["x/.zarray"])["filters"]
    assert [config["id"] for config in filters] == ["h5lossy", "zlib"]
    assert_same_bits(np.asarray(open_references(made)["x"][...]), expected)


def test_kerchunk_goes_on_refusing_other_filters(
    references: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin", reason="hdf5plugin is not installed")
    path = tmp_path / "bitshuffle.h5"
    with h5py.File(path, "w") as file:
        data = np.arange(10_000)
        file.create_dataset("x", data=data, chunks=(1000,), compression=hdf5plugin.Bitshuffle())

    with pytest.raises(RuntimeError, match="bitshuffle compression - not supported by kerchunk"):
        references(str(path), error="raise")


# ------------------------------------------------------------------------------------------------
# VirtualiZarr
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def virtualizarr() -> Any:
    """Give VirtualiZarr, which has been taught."""
    module = pytest.importorskip("virtualizarr", reason="VirtualiZarr is not installed")
    h5lossy.zarr.register_virtualizarr()
    return module


def registry_of(url: str) -> Any:
    obstore = pytest.importorskip("obstore.store", reason="obstore is not installed")
    registry = pytest.importorskip("obspec_utils.registry", reason="obspec_utils is not installed")
    options = {"client_options": {"allow_http": True}} if url.startswith("http:") else {}
    return registry.ObjectStoreRegistry({url: obstore.from_url(url, **options)})


@pytest.mark.parametrize("way", ["disk", "http"])
def test_virtualizarr_reads_what_hdf5_reads(
    virtualizarr: Any, folder: Path, server: str, way: str
) -> None:
    root, address = ("file://", f"file://{folder}") if way == "disk" else (server, server)

    parser = virtualizarr.parsers.HDFParser()
    store = parser(f"{address}/a.h5", registry=registry_of(root))

    assert_reads_as_hdf5(zarr.open_group(store, mode="r", zarr_format=3), folder / "a.h5")


def test_what_virtualizarr_saves_can_be_read_without_being_taught(
    virtualizarr: Any, folder: Path, tmp_path: Path
) -> None:
    names = [name for name in DATASETS if DATASETS[name].get("chunks") != (2, 3, 4, 5)]
    parser = virtualizarr.parsers.HDFParser(drop_variables=["deep", "holes", "line"])
    with virtualizarr.open_virtual_dataset(
        f"file://{folder}/a.h5",
        registry=registry_of("file://"),
        parser=parser,
        loadable_variables=[],
    ) as virtual:
        virtual.vz.to_kerchunk(str(tmp_path / "refs.json"), format="json")
    code = f"""
import h5lossy.zarr, sys, zarr
import numpy as np
group = zarr.open_group("reference://", storage_options={{"fo": "refs.json"}}, mode="r")
np.savez("read.npz", **{{name: group[name][...] for name in {sorted({*names} - {"line"})}}})
assert "virtualizarr" not in sys.modules and "kerchunk" not in sys.modules
"""
    run_python(code, cwd=tmp_path, env=environment())

    expected = values_in_hdf5(folder / "a.h5")
    with np.load(tmp_path / "read.npz") as read:
        assert len(read) == 7
        for name, values in read.items():
            assert_same_bits(values, expected[name])


def test_virtualizarr_joins_files_that_were_repacked(virtualizarr: Any, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("h5netcdf", reason="h5netcdf is not installed")
    parser, parts, written = virtualizarr.parsers.HDFParser(), [], []
    for i in range(2):
        data = {"t": (("time", "x"), field((40, 50)) + i)}
        xarray.Dataset(data, {"time": np.arange(40) + 40 * i}).to_netcdf(
            tmp_path / "plain.nc",
            engine="h5netcdf",
            encoding={"t": {"chunksizes": (10, 50)}},
            unlimited_dims=["time"],
        )
        repacked = tmp_path / f"{i}.nc"
        h5lossy_command("repack", tmp_path / "plain.nc", repacked, "--absolute", "0.01")
        with h5py.File(tmp_path / "plain.nc") as plain, h5py.File(repacked) as file:
            values = file["t"][...]
            assert np.abs(values.astype("f8") - plain["t"][...]).max() <= 0.01
        written.append(values)
        parts.append(
            virtualizarr.open_virtual_dataset(
                f"file://{repacked}", registry=registry_of("file://"), parser=parser
            )
        )
    joined = xarray.concat(parts, "time", coords="minimal", compat="override")
    joined.vz.to_kerchunk(str(tmp_path / "refs.json"), format="json")

    options = {"storage_options": {"fo": str(tmp_path / "refs.json")}, "consolidated": False}
    with xarray.open_dataset("reference://", engine="zarr", backend_kwargs=options) as ds:
        assert_same_bits(ds["t"].values, np.concatenate(written))
        assert ds["time"].values.tolist() == list(range(80))


# ------------------------------------------------------------------------------------------------
# Teaching
# ------------------------------------------------------------------------------------------------


def test_teaching_twice_is_teaching_once() -> None:
    hdf = pytest.importorskip("kerchunk.hdf", reason="kerchunk is not installed")
    h5lossy.zarr.register_kerchunk()
    taught = hdf.SingleHdf5ToZarr._decode_filters

    h5lossy.zarr.register_kerchunk()

    assert hdf.SingleHdf5ToZarr._decode_filters is taught


def test_a_version_that_cannot_be_taught_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hdf = pytest.importorskip("kerchunk.hdf", reason="kerchunk is not installed")
    monkeypatch.delattr(hdf.SingleHdf5ToZarr, "_decode_filters")

    with pytest.raises(h5lossy.UnsupportedError, match="it has no _decode_filters; see contrib/"):
        h5lossy.zarr.register_kerchunk()


READING = {
    "kerchunk": """
import h5lossy, h5lossy.zarr, h5py, numpy as np, zarr
from kerchunk.hdf import SingleHdf5ToZarr
with open("a.h5", "rb") as file:
    refs = SingleHdf5ToZarr(file, "a.h5", inline_threshold=0).translate()
group = zarr.open_group("reference://", storage_options={"fo": refs}, mode="r", zarr_format=2)
""",
    "virtualizarr": """
import h5lossy, h5lossy.zarr, h5py, numpy as np, os, zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr.parsers import HDFParser
registry = ObjectStoreRegistry({"file://": LocalStore()})
store = HDFParser()(f"file://{os.getcwd()}/a.h5", registry=registry)
group = zarr.open_group(store, mode="r", zarr_format=3)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READING)
def test_the_patches_for_upstream_do_it_too(name: str, folder: Path, tmp_path: Path) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"{name} is not installed")
    if shutil.which("git") is None:
        pytest.skip("there is no git to apply patches with")
    installed = importlib.metadata.version(name)
    if f"`{name}.patch` | {installed} |" not in (CONTRIB / "README.md").read_text():
        pytest.skip(f"the patch is for another version of {name} than {installed}")
    shutil.copytree(Path(spec.origin).parent, tmp_path / name)
    run("git", "apply", "-p1", CONTRIB / f"{name}.patch", cwd=tmp_path)
    shutil.copy(folder / "a.h5", tmp_path)
    code = f"""
import sys
sys.path.insert(0, ".")
{READING[name]}
import {name}
assert {name}.__file__.startswith({str(tmp_path)!r}), {name}.__file__
with h5py.File("a.h5") as file:
    for key in ("absolute", "big", "filled", "group/inner"):
        assert np.array_equal(group[key][...], file[key][...], equal_nan=True), key
"""
    run_python(code, cwd=tmp_path, env=environment())
