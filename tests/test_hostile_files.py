# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Files with false information on their chunks: each read is an error, and no memory leaks out."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import struct
import zlib
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from h5py import h5a, h5o, h5p, h5s, h5t, h5z

import h5lossy
from h5lossy import FILTER_ID, PFPL, CorruptFrameError, _native
from h5lossy._blocks import chunk_starts
from h5lossy._stored import StoredChunks
from hdf5_helpers import (
    FilterClass,
    call_filter,
    create,
    creation_list,
    environment,
    field,
    filter_class,
    h5lossy_command,
    h5lossy_program,
    leave_partial_chunks_unfiltered,
    run,
    run_python,
    tool,
    with_plugin,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CODEC = PFPL(absolute=0.5)


def bytes_frame(raw: bytes) -> bytes:
    """Encode like a filter that was not told the type."""
    frame = call_filter((), raw)
    assert frame is not None
    return frame


def frame_of(count: int, dtype: Any = "<f4") -> bytes:
    """Encode some values."""
    return bytes(h5lossy.encode(np.full(count, 7, dtype), CODEC))


def one_chunk(path: Path, stored: bytes, mask: int = 0) -> Path:
    """Make a dataset of 2 x 2 chunks of 40 float32, one of which is stored as given."""
    with h5py.File(path, "w") as file:  # to be opened anew: HDF5 keeps the mask that it had before
        x = file.create_dataset("x", (20, 8), "<f4", chunks=(10, 4), compression=CODEC)
        x.id.write_direct_chunk((10, 4), stored, mask)
    return path


@pytest.mark.parametrize(
    ("stored", "mask", "why"),
    [
        (frame_of(39), 0, "holds 156 bytes, and a chunk has 160"),
        (frame_of(41), 0, "holds 164 bytes, and a chunk has 160"),
        (frame_of(20, "<f8"), 0, "type is not the dataset's"),
        (frame_of(40, ">f4"), 0, "type is not the dataset's"),
        (bytes_frame(bytes(8)), 0, "holds 8 bytes, and a chunk has 160"),
        (frame_of(40)[:-1], 0, ""),
        (b"\0" * 8, 0, ""),
        (bytes(159), 1, "without filters as 159 bytes, and has 160"),
        (bytes(161), 1, "without filters as 161 bytes, and has 160"),
    ],
)
def test_a_chunk_is_compared_with_the_datasets_header(
    tmp_path: Path, stored: bytes, mask: int, why: str
) -> None:
    with h5py.File(one_chunk(tmp_path / "x.h5", stored, mask)) as file:
        dataset = file["x"]
        place = r"chunk \(10, 4\) of /x in .*x\.h5: .*"
        with pytest.raises(CorruptFrameError, match=place + why):
            StoredChunks(dataset).values((10, 4))
        with pytest.raises(CorruptFrameError, match=place + why):
            h5lossy.read(dataset)
        with pytest.raises(CorruptFrameError, match=place + why):
            h5lossy.read(dataset, np.s_[::3])


def test_chunks_that_are_right_are_given(tmp_path: Path) -> None:
    data = field((10, 4), "<f4")
    exact = bytes(h5lossy.encode(data, PFPL(lossless=True)))
    for stored, mask in ((exact, 0), (bytes_frame(data.tobytes()), 0), (data.tobytes(), 1)):
        with h5py.File(one_chunk(tmp_path / "x.h5", stored, mask)) as file:
            dataset = file["x"]
            np.testing.assert_array_equal(StoredChunks(dataset).values((10, 4)), data)
            np.testing.assert_array_equal(h5lossy.read(dataset)[10:, 4:], data)
            np.testing.assert_array_equal(dataset[10:, 4:], data)


def edited_entry(path: Path, size: int, mask: int, **options: Any) -> int:
    """Make a dataset with a 64 KiB chunk, and change its size in the index; return the true one."""
    with h5py.File(path, "w", libver="earliest") as file:
        x = file.create_dataset(
            "x", data=field((16, 1024), "<f4"), chunks=(16, 1024), compression=CODEC, **options
        )
        stored = int(x.id.get_storage_size())
    content, key = path.read_bytes(), struct.Struct("<IIQ")  # size, filter mask, place
    assert content.count(key.pack(stored, 0, 0)) == 1
    path.write_bytes(content.replace(key.pack(stored, 0, 0), key.pack(size, mask, 0)))
    return stored


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"fletcher32": True}], ids=["alone", "with-checksum"])
@pytest.mark.parametrize("mask", [0, 1])
@pytest.mark.parametrize("selection", ["...", "np.s_[3:5, ::7]"], ids=["whole", "stepped"])
def test_no_memory_is_taken_for_a_size_that_no_chunk_has(
    tmp_path: Path, selection: str, mask: int, options: dict[str, Any]
) -> None:
    path = tmp_path / "x.h5"
    edited_entry(path, 0x80000000, mask, **options)
    with path.open("ab") as file:
        file.truncate(3 << 30)  # so that there is as much to be read, all zeros
    done = run_python(
        """
import resource, sys, h5py, h5lossy, numpy as np
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
with h5py.File(sys.argv[1]) as file:
    try:
        h5lossy.read(file["x"], eval(sys.argv[2]))
    except h5lossy.CorruptFrameError as error:
        print(error)
""",
        path,
        "slice(None), slice(None)"
        if selection == np.s_[:]
        else "slice(3, 5), slice(None, None, 7)",
    )
    assert "chunk (0, 0) of /x" in done.stdout
    assert "more bytes than" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("size", range(4))
def test_a_chunk_that_is_shorter_than_its_checksum_never_reaches_hdf5(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "x.h5"
    edited_entry(path, size, 0, fletcher32=True)
    for command in (("verify", path), ("repack", path, tmp_path / "y.h5", "--lossless")):
        done = h5lossy_program(*command, status=1)
        assert "checksum alone takes 4" in done.stdout + done.stderr


# ------------------------------------------------------------------------------------------------
# Through HDF5
# ------------------------------------------------------------------------------------------------

#: Values of a chunk of 1 MiB: past the end of a few bytes there is other memory.
COUNT = 1 << 18

OPTIONAL, MANDATORY = h5z.FLAG_OPTIONAL, h5z.FLAG_MANDATORY


def words_of(count: int, dtype: str = "<f4") -> tuple[int, ...]:
    """Return the words that set_local stores for chunks of `count` values, without a filter."""
    params = dataclasses.replace(
        _native.unpack_cd_values(CODEC.filter_options),
        value_bytes=np.dtype(dtype).itemsize,
        big_endian=dtype.startswith(">"),
        shape=(count,),
    )
    words = _native.pack_cd_values(params)
    assert len(words) == 16
    return words


@pytest.fixture(scope="module")
def bare_filter() -> Iterator[None]:
    """Register a filter without can_apply and set_local, so that a file may hold anything."""
    ours = filter_class()
    ask = type(ours.can_apply)
    bare = FilterClass(ours.version, ours.id, 1, 1, ours.name, ask(), ask(), ours.filter)
    h5z.register_filter(ctypes.addressof(bare))
    yield
    h5z.register_filter(ctypes.addressof(ours))


def hostile(
    path: Path,
    words: tuple[int, ...],
    stored: bytes,
    *,
    flags: int = MANDATORY,
    count: int = COUNT,
    dtype: str = "<f4",
    name: str = "x",
    behind: Callable[[h5p.PropDCID], None] | None = None,
) -> None:
    """Add a dataset of one chunk, with any type, cd_values and stored bytes."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((count,))
    creation.set_filter(FILTER_ID, flags, words)
    if behind is not None:
        behind(creation)
    with h5py.File(path, "a") as file:
        create(file, name, (count,), dtype, creation).id.write_direct_chunk((0,), stored)


def of_two_datasets(path: Path) -> None:
    """One dataset matches the cd_values, the other does not."""
    hostile(path, words_of(2), frame_of(2), count=2, name="a")
    hostile(path, words_of(2), frame_of(2))


TWO_VALUES, FEW_BYTES = frame_of(2), bytes_frame(bytes(range(1, 9)))

HOSTILE: dict[str, Callable[[Path], None]] = {
    "optional flag": lambda p: hostile(p, words_of(COUNT), FEW_BYTES, flags=OPTIONAL),
    "optional flag, typed": lambda p: hostile(p, words_of(COUNT), TWO_VALUES, flags=OPTIONAL),
    "no local words": lambda p: hostile(p, words_of(2)[:5], FEW_BYTES),
    "no local words, typed": lambda p: hostile(p, words_of(2)[:5], TWO_VALUES),
    "no words": lambda p: hostile(p, (), FEW_BYTES),
    "bad words": lambda p: hostile(p, (77, 0, 0, 1), FEW_BYTES),
    "words of a smaller chunk": lambda p: hostile(p, words_of(2), TWO_VALUES),
    "a chunk of 256 MiB": lambda p: hostile(p, words_of(2), TWO_VALUES, count=1 << 26),
    "few bytes under right words": lambda p: hostile(p, words_of(COUNT), FEW_BYTES),
    "float64": lambda p: hostile(
        p, words_of(COUNT // 2, "<f8"), frame_of(COUNT // 2, "<f8"), flags=OPTIONAL
    ),
    "big-endian": lambda p: hostile(p, words_of(COUNT, ">f4"), frame_of(COUNT, ">f4")),
    "integers": lambda p: hostile(p, words_of(COUNT), frame_of(COUNT), dtype="<i4"),
    "small integers": lambda p: hostile(p, words_of(COUNT), frame_of(COUNT), dtype="u1"),
    "long strings": lambda p: hostile(p, words_of(2), TWO_VALUES, dtype="S9"),
    "gzip behind": lambda p: hostile(
        p, words_of(2), zlib.compress(TWO_VALUES), behind=lambda creation: creation.set_deflate(1)
    ),
    "two datasets": of_two_datasets,
    "one byte": lambda p: hostile(p, words_of(COUNT), b"H"),
}

#: Reads "x" of each file, and says how many values are not 0, or that there are none.
READ_ALL = """
import sys
import numpy as np
import h5lossy

def with_h5py(path):
    import h5py
    with h5py.File(path) as file:
        opened = [file[name] for name in file]
        return file["x"][...]

def with_netCDF4(path):
    import netCDF4
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return file["x"][...]

def with_tables(path):
    import tables
    with tables.open_file(path) as file:
        return file.root.x[...]

for path in sys.argv[2:]:
    try:
        values = globals()["with_" + sys.argv[1]](path)
    except Exception:
        print("refused")
    else:
        print(np.count_nonzero(values))
"""


#: In such a process no byte of the heap is 0, neither in new nor in freed memory.
DIRTY = {"MALLOC_PERTURB_": "165"}


def read_elsewhere(package: str, *paths: Path, **changes: str) -> tuple[list[str], str]:
    """Read files in another process; return the values that it read, and its standard error."""
    done = run_python(READ_ALL, package, *paths, env=environment(**changes))
    return done.stdout.split(), done.stderr


PACKAGES = ["h5py", "netCDF4", "tables"]


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory: pytest.TempPathFactory, bare_filter: None) -> dict[str, Path]:
    del bare_filter
    folder = tmp_path_factory.mktemp("hostile")
    paths = {name: folder / f"{i}.h5" for i, name in enumerate(HOSTILE)}
    for name, path in paths.items():
        HOSTILE[name](path)
    return paths


@pytest.mark.parametrize("name", HOSTILE)
def test_h5lossy_says_what_is_wrong_with_a_hostile_file(
    hostile_files: dict[str, Path], name: str
) -> None:
    with h5py.File(hostile_files[name]) as file:
        _opened = [file[key] for key in file]
        for selection in (..., np.s_[3:5], np.s_[::7]):
            with pytest.raises(CorruptFrameError, match=r"chunk \(0,\) of /x in .*\.h5: "):
                h5lossy.read(file["x"], selection)


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_no_library_gives_values_of_a_hostile_file(
    hostile_files: dict[str, Path], package: str
) -> None:
    pytest.importorskip(package)
    found, said = read_elsewhere(package, *hostile_files.values(), **DIRTY)
    assert dict(zip(hostile_files, found, strict=True)) == dict.fromkeys(HOSTILE, "refused")
    assert said.count("h5lossy: a chunk can't be read: ") == 1
    assert "h5lossy.read(dataset) says which one (shown once)" in said


@pytest.mark.parametrize("name", ["optional flag", "words of a smaller chunk", "two datasets"])
def test_the_tools_of_hdf5_give_nothing_of_a_hostile_file(
    hostile_files: dict[str, Path], tmp_path: Path, name: str
) -> None:
    source, env = hostile_files[name], with_plugin() | DIRTY
    run(tool("h5dump"), "-d", "/x", "-o", tmp_path / "x", source, env=env, status=1)
    run(tool("h5repack"), "-f", "x:NONE", source, tmp_path / "y.h5", env=env, status=None)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify", "assess", "repack"])
@pytest.mark.parametrize("name", ["optional flag", "words of a smaller chunk"])
def test_the_command_line_ends_by_itself(
    hostile_files: dict[str, Path], tmp_path: Path, command: str, name: str
) -> None:
    path = hostile_files[name]
    others = {
        "assess": [path],
        "repack": [tmp_path / "y.h5", "--absolute", "1", "--recompress"],
    }.get(command, [])
    done = h5lossy_program(command, path, *others, status=None)
    assert done.returncode != 0
    assert not list(tmp_path.iterdir())


def test_an_edge_chunk_that_is_exempt_from_filters_is_no_frame(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    creation = creation_list((10, 4), CODEC.filter_options)
    leave_partial_chunks_unfiltered(creation)
    with h5py.File(path, "w", libver="latest") as file:
        x = create(file, "x", (20, 7), "<f4", creation)
        x[...] = field((20, 7))
        x.id.write_direct_chunk((10, 4), frame_of(40))
    with h5py.File(path) as file:
        x = file["x"]
        for selection in (np.s_[...], np.s_[10:, 5:], np.s_[12, 6]):
            with pytest.raises(CorruptFrameError, match=r"chunk \(10, 4\) .* without filters"):
                h5lossy.read(x, selection)
    h5lossy_program("repack", path, tmp_path / "y.h5", "--absolute", "1", status=1)
    assert not (tmp_path / "y.h5").exists()


def test_repack_and_info_end_by_themselves_where_a_chunk_is_listed_and_not_found(
    tmp_path: Path,
) -> None:
    path, new = one_chunk(tmp_path / "x.h5", frame_of(40)), tmp_path / "y.h5"
    content = bytearray(path.read_bytes())
    # The first key of a B-tree of chunks: bytes, filter mask, and where the chunk begins.
    at = content.index(b"TREE\x01") + 24 + 8
    assert content[at : at + 16] == struct.pack("<2Q", 10, 4)
    content[at : at + 8] = struct.pack("<Q", 10 << 20)
    path.write_bytes(content)
    with h5py.File(path) as file:
        assert chunk_starts(file["x"]) == [(10 << 20, 4)]
    told = h5lossy_program("repack", path, new, "--dataset", "/x:codec=pfpl,absolute=0.5")
    assert "errors add up" not in told.stdout
    assert new.exists()
    told = h5lossy_program("info", "--frames", path, status=2)
    assert f"chunk ({10 << 20}, 4) of /x" in told.stderr


@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("/b", 0),
        pytest.param("/b/t", 0, marks=pytest.mark.slow),
        pytest.param("/b/t", b"\3\2\3", marks=pytest.mark.slow),
    ],
)
def test_an_object_that_cannot_be_opened_is_named(
    tmp_path: Path, what: str, where: int | bytes
) -> None:
    """The version of its header is none, or that of its layout, which is read when it is opened."""
    path, new = tmp_path / "x.h5", tmp_path / "y.h5"
    with h5py.File(path, "w") as file:
        for name in ("a/t", "b/t"):
            file.create_dataset(name, (64, 64), "f4", chunks=(64, 64), compression=CODEC)
        at = h5o.get_info(file[what].id).addr
    content = bytearray(path.read_bytes())
    at = at if where == 0 else content.index(where, at)
    content[at] = 0xFF
    path.write_bytes(content)
    for command in (["info"], ["verify"], ["doctor"]):
        assert f"{what} can't be read" in h5lossy_program(*command, path, status=2).stderr
    with pytest.raises(h5lossy.H5LossyError, match=f"{what} can't be read"):
        h5lossy.assess_all(path, path)
    told = h5lossy_program("repack", path, new, "--absolute", "1", status=1).stderr
    assert f"{what} can't be read" in told


def test_a_damaged_index_of_chunks_is_that_of_one_dataset(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for name in "ab":
            file.create_dataset(name, data=np.ones((8, 8)), chunks=(4, 4), compression=CODEC)
    content = bytearray(path.read_bytes())
    at = content.index(b"TREE\x01")  # the node of the index of a
    content[at : at + 4] = b"LOST"
    path.write_bytes(content)
    wrong = rf"the chunks of /a in {re.escape(str(path))} can't be listed: .*B-tree"
    with h5py.File(path) as file:
        for use in (h5lossy.describe, h5lossy.verify, h5lossy.read):
            with pytest.raises(CorruptFrameError, match=wrong):
                use(file["a"])
        assert (h5lossy.read(file["b"]) == 1).all()
    told = h5lossy_program("info", path, status=2)
    assert re.search(wrong, told.stderr)
    assert re.search("^  /b ", told.stdout, re.MULTILINE)
    told = h5lossy_program("doctor", path, status=1)
    assert re.search(wrong, told.stderr)
    assert "codecs: 1 pfpl" in told.stdout


def test_a_chunk_at_a_place_that_no_dataset_has_is_an_error(tmp_path: Path) -> None:
    path, new = tmp_path / "x.h5", tmp_path / "y.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.ones((8, 8)), chunks=(4, 4), compression=CODEC)
    content = bytearray(path.read_bytes())
    # The second key of a B-tree of chunks: the first one, and the address of its chunk, are before.
    at = content.index(b"TREE\x01") + 24 + 32 + 8 + 8
    assert struct.unpack_from("<2Q", content, at) == (0, 4)
    struct.pack_into("<Q", content, at + 8, 2**64 - 4)
    path.write_bytes(content)
    wrong = "the chunks of /a in .* can't be listed: a chunk begins at 2\\*\\*63 or beyond"
    for use in (h5lossy.describe, h5lossy.verify):
        with h5py.File(path) as file, pytest.raises(CorruptFrameError, match=wrong):
            use(file["a"])
    for command in (["info"], ["verify"], ["repack", "--absolute", "1", "-d", "/a:absolute=1"]):
        end = [new] if command[0] == "repack" else []
        said = h5lossy_command(command[0], path, *end, *command[1:], status=None)
        assert isinstance(said.exception, SystemExit)
        assert re.search(wrong, said.output)
    assert not new.exists()


@pytest.mark.parametrize("command", ["verify", "info", "repack"])
def test_a_name_that_is_not_utf8(command: str, tmp_path: Path) -> None:
    path, out = tmp_path / "x.h5", tmp_path / "y.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(b"x\xf8\x1b", data=field((40, 40)), chunks=(10, 10), compression=CODEC)
    said = h5lossy_program(
        command, path, *((out, "--absolute", "1") if command == "repack" else ())
    )
    assert "\x1b" not in said.stdout + said.stderr


def _set_classes(dataset: h5py.Dataset, count: int) -> None:
    """Give a dataset the attribute of a dimension scale, with that many values."""
    type_id = h5t.C_S1.copy()  # h5py's text is not terminated by NUL
    type_id.set_size(16)
    made = h5a.create(dataset.id, b"CLASS", type_id, h5s.create_simple((count,)))
    if count:
        made.write(np.full(count, b"DIMENSION_SCALE", "S16"), type_id)


def _set_scales_of_one_axis(dataset: h5py.Dataset) -> None:
    scale = dataset.file.create_dataset("scale", (40,), "f4")
    dataset.dims[0].attach_scale(scale)
    values = dataset.attrs["DIMENSION_LIST"][:1]
    dataset.attrs.create("DIMENSION_LIST", values, dtype=h5py.vlen_dtype(h5py.ref_dtype))


def _set(name: str, values: Any, dtype: Any = None) -> Callable[[h5py.Dataset], None]:
    return lambda dataset: dataset.attrs.create(name, values, dtype=dtype)


#: Attributes that are not what HDF5's functions for dimension scales take them for.
NO_SCALES: dict[str, Callable[[h5py.Dataset], None]] = {
    "many classes": lambda dataset: _set_classes(dataset, 100_000),
    "no class": lambda dataset: _set_classes(dataset, 0),
    "numbers for scales": _set("DIMENSION_LIST", np.arange(1, 3)),
    "one axis with scales": _set_scales_of_one_axis,
    "numbers for labels": _set("DIMENSION_LABELS", np.arange(1, 100_000)),
    "one axis with a label": _set("DIMENSION_LABELS", ["a"]),
}


@pytest.mark.parametrize("name", NO_SCALES)
def test_attributes_with_the_names_of_scales_may_be_anything(tmp_path: Path, name: str) -> None:
    """HDF5's own functions take what they find for pointers, or write behind their memory."""
    path, new, env = tmp_path / "x.h5", tmp_path / "y.h5", environment(**DIRTY)
    with h5py.File(path, "w", libver="latest") as file:
        NO_SCALES[name](file.create_dataset("x", data=field((40, 50)), chunks=(20, 50)))
    h5lossy_program("repack", path, new, "--absolute", "1", env=env)
    h5lossy_program("assess", path, new, env=env)
    h5lossy_program("verify", new, "--against", path, env=env)
    h5lossy_program("sweep", f"{path}:/x", "--codecs", "pfpl", "--bounds", "1e-2", env=env)


@pytest.mark.parametrize("name", ["DIMENSION_LIST", "units", "lists", None])
@pytest.mark.parametrize("in_compound", [False, True])
def test_lists_of_region_references_are_not_read(
    tmp_path: Path, name: str | None, in_compound: bool
) -> None:
    """h5py (3.16) crashes when it reads, or writes, more than a few of them."""
    path, new, env = tmp_path / "x.h5", tmp_path / "y.h5", environment(**DIRTY)
    dtype = h5py.vlen_dtype(h5py.regionref_dtype)
    if in_compound:
        dtype = np.dtype([("a", dtype)])
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=field((40, 50)), chunks=(20, 50))
        if name is None:
            file.create_dataset("lists", (2,), dtype)
        else:
            h5a.create(
                x.id, name.encode(), h5t.py_create(dtype, logical=True), h5s.create_simple((2,))
            )
    h5lossy_program("assess", path, path, env=env)
    h5lossy_program("info", path, env=env)
    h5lossy_program("doctor", path, env=env)
    said = h5lossy_program("repack", path, new, "--absolute", "1", env=env, status=None)
    assert said.returncode == 1
    assert "lists of region references, which h5py can't read" in said.stderr
    assert not new.exists()


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("name", ["optional flag", "words of a smaller chunk"])
def test_a_virtual_dataset_gives_no_memory_of_a_hostile_source(
    hostile_files: dict[str, Path], tmp_path: Path, package: str, name: str
) -> None:
    # HDF5 opens the source internally, so the filter cannot learn the chunk size. HDF5 2.2 and up
    # check it; before that, the frame's values are followed by zeros. Not DIRTY: glibc would write
    # to all 4 GiB.
    pytest.importorskip(package)
    layout = h5py.VirtualLayout((COUNT,), "<f4")
    layout[...] = h5py.VirtualSource(str(hostile_files[name]), "x", shape=(COUNT,))
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    [found], _ = read_elsewhere(package, tmp_path / "v.h5")
    assert found in {"2", "refused"}


def test_what_is_right_is_read_although_nothing_says_the_type(
    tmp_path: Path, bare_filter: None
) -> None:
    del bare_filter
    data = field((COUNT,), "<f4")
    path = tmp_path / "x.h5"
    hostile(path, words_of(2)[:5], bytes_frame(data.tobytes()))
    hostile(path, words_of(2)[:5], bytes_frame(data[:9].tobytes()), count=9, name="y")
    with h5py.File(path) as file:
        x, y = file["x"], file["y"]
        np.testing.assert_array_equal(x[...], data)
        np.testing.assert_array_equal(y[...], data[:9])
        np.testing.assert_array_equal(h5lossy.read(x), data)
    for package in PACKAGES:
        pytest.importorskip(package)
        assert read_elsewhere(package, path)[0] == [str(COUNT)]


def test_datasets_that_come_and_go_are_asked_anew(tmp_path: Path, bare_filter: None) -> None:
    del bare_filter
    path = tmp_path / "x.h5"
    hostile(path, words_of(9), frame_of(9), count=9, name="right")
    hostile(path, words_of(9), frame_of(9), count=COUNT, name="wrong")
    with h5py.File(path) as file:
        for _ in range(20):
            assert file["right"][...].tolist() == [7] * 9
            with pytest.raises(OSError, match="filter returned failure"):
                file["wrong"][...]


def test_a_write_to_part_of_a_hostile_chunk_is_refused(tmp_path: Path, bare_filter: None) -> None:
    del bare_filter
    path = tmp_path / "x.h5"
    hostile(path, words_of(2), TWO_VALUES)
    code = """
import sys, h5py, h5lossy
with h5py.File(sys.argv[1], "r+") as file:
    try:
        file["x"][1000:2000] = 3
    except OSError:
        print("refused")
"""
    assert run_python(code, path, env=environment(**DIRTY)).stdout == "refused\n"
