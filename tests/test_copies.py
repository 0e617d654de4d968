# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`h5lossy repack` keeps all objects of files of every kind, and notices if it does not."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from h5py import h5a, h5d, h5f, h5g, h5o, h5p, h5s, h5t

from h5lossy._libhdf5 import set_link_storage
from h5lossy._libraries import functions_in
from h5lossy._repacking.comparison import difference
from h5lossy._repacking.objects import object_key
from hdf5_helpers import field, h5lossy_command
from hdf5_objects import assert_same_objects

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIBVERS = ["earliest", "v108", "v110", "latest"]


def repack(source: Path) -> Path:
    """Compress a file, and compare the new one with it."""
    target = source.with_name(f"new-{source.name}")
    h5lossy_command("repack", "--absolute", "1e-3", source, target)
    assert assert_same_objects(source, target)
    return target


# ------------------------------------------------------------------------------------------------
# Files of every sort
# ------------------------------------------------------------------------------------------------


class RandomFile:
    """Fills a file with groups, links of every kind, attributes, references and types."""

    def __init__(self, file: h5py.File, seed: int) -> None:
        self.file, self.rng = file, np.random.default_rng(seed)
        self.groups: list[h5py.Group] = [file["/"]]
        self.objects: list[Any] = [file["/"]]
        self.types: list[Any] = []
        self.count = 0

    def pick(self, some: Any) -> Any:
        return some[int(self.rng.integers(len(some)))]

    def name(self) -> bytes:
        self.count += 1
        prefix = self.pick([b"v", b"a longer name ", "größe".encode(), b"\xff", b".x", b"Z"])
        return bytes(prefix) + str(self.count).encode()

    def fill(self) -> None:
        self.file["field"] = field((70, 90))
        for _ in range(4):
            self.new_type(self.file["/"])
            self.new_group(self.pick(self.groups))
        for group in list(self.groups):
            for _ in range(self.pick([0, 1, 8, 9, 30])):
                self.new_link(group)
        for obj in self.rng.permutation(len(self.objects))[:12]:
            for _ in range(self.pick([1, 8, 9, 20])):
                self.new_attribute(self.objects[obj])
        self.new_references()
        self.new_scales()
        for group in self.groups:  # holes in the creation orders, types and objects without links
            for name in [*group.keys()]:
                if name != "field" and self.rng.random() < 0.05:
                    del group[name]

    def new_group(self, parent: h5py.Group) -> None:
        track = bool(self.rng.integers(2))
        creation = h5p.create(h5p.GROUP_CREATE)
        if track:
            creation.set_link_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
            creation.set_attr_creation_order(h5p.CRT_ORDER_TRACKED)
        if self.rng.random() < 0.3:
            creation.set_attr_phase_change(3, 2)
            set_link_storage(creation.id, [4, 2, 20, 12])
        name = self.name()
        group = h5py.Group(h5g.create(parent.id, name, gcpl=creation))
        self.groups.append(group)
        self.objects.append(group)

    def new_type(self, group: h5py.Group) -> None:
        dtype = self.pick([np.dtype("f4"), np.dtype([("a", "f8"), ("b", "S3")]), np.dtype("i2")])
        name = self.name()
        group[name] = dtype
        self.types.append(group[name])
        self.objects.append(group[name])

    def new_link(self, group: h5py.Group) -> None:
        name = self.name()
        kind = self.rng.integers(12)
        if kind == 0:
            group[name] = h5py.SoftLink(self.pick(["/no/where", "field", "/field", "."]))
        elif kind == 1 and "earliest" not in self.file.libver:
            group[name] = h5py.ExternalLink("other.h5", self.pick(["/x", "größe"]))
        elif kind == 2:
            group[name] = self.pick(self.objects)  # cycles, too
        elif kind == 3:
            self.new_type(group)
        else:
            group[name] = self.pick(
                [
                    np.arange(3),
                    "text",
                    np.float32(7),
                    h5py.Empty("f4"),
                    np.array([b"a", b"bc"]),
                    np.zeros(2, [("x", "i1"), ("y", "f8")]),
                ]
            )
            if kind > 9:
                del group[name]
                typed = self.pick(self.types)
                group.create_dataset(name, (5,), dtype=typed, chunks=(2,), maxshape=(None,))
            self.objects.append(group[name])

    def new_attribute(self, obj: Any) -> None:
        name = self.name()
        kind = self.rng.integers(8)
        if kind == 0:
            obj.attrs.create(name, self.pick(self.objects).ref, dtype=h5py.ref_dtype)
        elif kind == 1:
            ragged = np.empty(2, object)
            for i in range(2):
                ragged[i] = np.array([self.pick(self.objects).ref] * i, h5py.ref_dtype)
            obj.attrs.create(name, ragged, dtype=h5py.vlen_dtype(h5py.ref_dtype))
        elif kind == 2:
            obj.attrs.create(name, self.file["field"].regionref[2:5, ::3])
        elif kind == 3:
            obj.attrs.create(name, ["größe", "", "b" * 50])
        elif kind == 4 and self.types:
            typed = self.pick(self.types)
            obj.attrs.create(name, np.zeros(2, typed.dtype), dtype=typed)
        else:
            obj.attrs[name] = self.pick(
                [7, np.arange(6.0).reshape(2, 3), "text", np.bytes_(b"x"), h5py.Empty("i4")]
            )

    def new_references(self) -> None:
        refs = self.file.create_dataset("refs", (20,), h5py.ref_dtype, chunks=(8,))
        for i in range(12):
            refs[i] = self.pick(self.objects).ref
        pairs = np.zeros(2, [("n", "i4"), ("ref", h5py.ref_dtype)])
        pairs["ref"] = [self.file.ref, self.file["field"].ref]
        self.file["pairs"] = pairs

    def new_scales(self) -> None:
        for axis, n in enumerate((70, 90)):
            scale = self.file.create_dataset(f"scale{axis}", data=np.arange(float(n)))
            scale.make_scale(f"axis {axis}")
            self.file["field"].dims[axis].attach_scale(scale)
            self.file["field"].dims[axis].label = f"label {axis}"


@pytest.mark.slow
@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize("seed", range(3))
def test_random_files_are_kept(tmp_path: Path, seed: int, libver: str) -> None:
    options: dict[str, Any] = [{}, {"userblock_size": 1024}, {"fs_strategy": "page"}][seed % 3]
    track = seed % 2 == 1
    source = tmp_path / "a.h5"
    with h5py.File(source, "w", libver=libver, track_order=track, **options) as file:
        RandomFile(file, seed).fill()

    repack(source)


@pytest.mark.parametrize("libver", ["earliest", "v108", "latest"])
@pytest.mark.parametrize("track", [False, True])
def test_groups_of_any_size_are_kept(tmp_path: Path, libver: str, track: bool) -> None:
    source = tmp_path / "a.h5"
    with h5py.File(source, "w", libver=libver, track_order=track) as file:
        file["x"] = field((70, 90))
        for count in (0, 1, 7, 8, 9, 63, 700):
            group = file.create_group(f"{count}", track_order=track)
            for i in range(count):
                group[f"{i * 7919 % count}"] = file["x"] if i % 3 else h5py.SoftLink(f"/{i}")
            if count > 8:
                group["itself"] = group
                group["root"] = file["/"]

    repack(source)


def test_an_attribute_of_any_length_leaves_groups_apart(tmp_path: Path) -> None:
    # Two groups whose links are in heaps. With the list of the source, one group took the heap of
    # the other where that had the same place in the new file: here, for one of these lengths.
    for size in range(300, 318, 2):
        source = tmp_path / f"{size}.h5"
        with h5py.File(source, "w", libver="latest") as file:
            group = file.create_group("g")
            group.attrs["note"] = np.bytes_(b"x" * size)
            for i in range(9):
                group[f"s{i}"] = h5py.SoftLink(f"/v{i}")
            for i in range(11):
                file[f"r{i}"] = h5py.SoftLink("/v")
            file.create_dataset("v", data=field((64, 64)), chunks=(64, 64))

        repack(source)


@pytest.mark.slow
def test_netcdf_files_are_kept(tmp_path: Path) -> None:
    netcdf = pytest.importorskip("netCDF4")
    source = tmp_path / "a.nc"
    with netcdf.Dataset(source, "w") as file:
        file.createDimension("time", None)
        file.title = "größe"
        pair = file.createCompoundType(np.dtype([("u", "f4"), ("v", "f4")]), "pair")
        for name, count in (("ocean", 7), ("ice", 40)):
            group = file.createGroup(name).createGroup("deep")
            for axis, n in (("y", 64), ("x", 60)):
                group.createDimension(axis, n)
                group.createVariable(axis, "f8", (axis,))[:] = np.arange(n)
            for i in range(count):
                values = group.createVariable(f"v{i}", "f4", ("y", "x"), fill_value=1e20)
                values[:] = field((64, 60), seed=i)
                values.units, values.coordinates = "K", "y x"
            group.createVariable("pairs", pair, ("x",))
            group.createVariable("names", str, ("x",))[0] = "a"
            series = group.createVariable("series", "f8", ("time", "x"), zlib=True)
            series[:3] = field((3, 60))

    target = repack(source)

    with netcdf.Dataset(target) as file:
        deep = file["ocean"]["deep"]
        assert [*deep.variables][:3] == ["y", "x", "v0"]
        assert deep["v3"].dimensions == ("y", "x")


def test_files_of_pytables_and_pandas_are_kept(tmp_path: Path) -> None:
    tables, pandas = pytest.importorskip("tables"), pytest.importorskip("pandas")
    source = tmp_path / "a.h5"
    frame = pandas.DataFrame({"a": field((500,)), "b": np.arange(500)})
    frame.to_hdf(source, key="fixed", mode="w")
    frame["c"] = pandas.Categorical(["x", "y"] * 250)
    frame.to_hdf(source, key="deep/table", format="table", data_columns=True)
    with tables.open_file(source, "a") as file:
        file.create_carray("/deep", "packed", obj=field((70, 90)), filters=tables.Filters(5))
        file.create_earray("/deep", "grows", obj=field((70, 90)))
        ragged = file.create_vlarray("/deep", "ragged", tables.Float32Atom())
        ragged.append([1, 2, 3])
        file.create_soft_link("/deep", "soft", "/deep/packed")
        file.create_hard_link("/", "hard", "/deep/packed")
        file.create_external_link("/", "outside", "b.h5:/x")

    target = repack(source)

    pandas.testing.assert_frame_equal(
        pandas.read_hdf(target, "deep/table"), frame, rtol=0, atol=1e-3
    )


def test_files_like_those_of_nexus_and_anndata_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "a.h5"
    with h5py.File(source, "w", track_order=True) as file:
        file.attrs["default"] = "entry"
        entry = file.create_group("entry")
        entry.attrs["NX_class"] = "NXentry"
        detector = entry.create_group("instrument/detector")
        counts = detector.create_dataset("data", data=field((10, 32, 32)), chunks=(1, 32, 32))
        counts.attrs["target"] = "/entry/instrument/detector/data"
        data = entry.create_group("data")
        data.attrs.update({"NX_class": "NXdata", "signal": "data", "axes": ["frame", "y", "x"]})
        data["data"] = counts
        data["raw"] = h5py.ExternalLink("raw.h5", "/entry/data")
        layout = h5py.VirtualLayout((20, 32, 32), "f4")
        layout[:10] = h5py.VirtualSource("raw_0.h5", "data", (10, 32, 32))
        layout[10:] = h5py.VirtualSource("raw_1.h5", "data", (10, 32, 32))
        data.create_virtual_dataset("all", layout)

        cells = file.create_group("obs")
        cells.attrs.update({"encoding-type": "dataframe", "_index": "cell"})
        cells.attrs.create("column-order", ["type", "depth"], dtype=h5py.string_dtype())
        cells.create_dataset("cell", data=[f"c{i}" for i in range(30)], dtype=h5py.string_dtype())
        kind = cells.create_group("type")
        kind.attrs["encoding-type"] = "categorical"
        kind["codes"] = np.arange(30, dtype="i1") % 2
        kind.create_dataset("categories", data=["a", "b"], dtype=h5py.string_dtype())
        kind["codes"].attrs["categories"] = kind["categories"].ref
        matrix = file.create_group("X")
        matrix.attrs["shape"] = (30, 1000)
        matrix.create_dataset("data", data=field((9000,)), chunks=(1000,), compression="gzip")
        matrix.create_dataset("indices", data=np.arange(9000), compression="lzf")
        for i in range(12):
            file.create_group(f"obsm/{i}")

    repack(source)


def dataset_of(
    file: h5py.File, name: bytes, type_id: h5t.TypeID, values: bytes, fill: bytes = b""
) -> None:
    """Make a dataset of any type, even one that h5py can't write."""
    creation = h5p.create(h5p.DATASET_CREATE)
    functions = functions_in(
        h5py.h5z.__file__,
        {
            "H5Pset_fill_value": "int (*)(int64_t, int64_t, const void *)",
            "H5Dwrite": "int (*)(int64_t, int64_t, int64_t, int64_t, int64_t, const void *)",
        },
    )
    if fill:
        assert functions["H5Pset_fill_value"](creation.id, type_id.id, fill) >= 0
    space = h5s.create_simple((len(values) // type_id.get_size(),))
    dataset = h5d.create(file.id, name, type_id, space, creation)
    assert functions["H5Dwrite"](dataset.id, type_id.id, 0, 0, 0, values) >= 0


def wide_integer() -> h5t.TypeID:
    """Return the type of integers of 128 bits, which NumPy does not have."""
    wide = h5t.STD_I64LE.copy()
    wide.set_size(16)
    wide.set_precision(128)
    return wide


def opaque(tag: bytes) -> h5t.TypeID:
    type_id = h5t.create(h5t.OPAQUE, 16)
    type_id.set_tag(tag)
    return type_id


ODD_TYPES = {
    "integers of 128 bits": wide_integer,
    "a tagged opaque type": lambda: opaque(b"of a detector"),
    "bits": h5t.STD_B32LE.copy,
    "arrays": lambda: h5t.array_create(h5t.STD_I32LE, (2, 2)),
    "times": h5t.UNIX_D64LE.copy,
}


@pytest.mark.parametrize("make", ODD_TYPES.values(), ids=ODD_TYPES)
def test_fill_values_of_types_that_numpy_lacks_are_kept(tmp_path: Path, make: Any) -> None:
    def write(path: Path, fill: bytes) -> None:
        with h5py.File(path, "w") as file:
            file["field"] = field((70, 90))
            size = make().get_size()
            dataset_of(file, b"odd", make(), bytes(range(3 * size)), fill[:size])

    source, other = tmp_path / "a.h5", tmp_path / "b.h5"
    write(source, bytes(range(16)))
    write(other, bytes(range(1, 17)))
    h5lossy_command("repack", "--absolute", "1e-3", source, tmp_path / "new.h5")
    with h5py.File(source) as old, h5py.File(other) as new:
        assert "the fill value" in difference(old, new, set())


def test_attributes_of_types_that_numpy_lacks_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "a.h5"
    text = h5t.C_S1.copy()
    text.set_size(h5t.VARIABLE)
    kind = h5t.create(h5t.COMPOUND, 32)
    kind.insert(b"number", 0, wide_integer())
    kind.insert(b"text", 16, text)
    with h5py.File(source, "w") as file:
        file["field"] = field((70, 90))
        h5a.create(file["field"].id, b"odd", kind, h5s.create_simple((2,)))
    h5lossy_command("repack", "--absolute", "1e-3", source, tmp_path / "new.h5")


def test_arrays_of_references_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "a.h5"
    pairs = h5t.array_create(h5t.STD_REF_OBJ, (2,))
    with h5py.File(source, "w") as file:
        file["field"], file["z"] = field((70, 90)), 1
        addresses = [h5o.get_info(file[name].id).addr for name in ("field", "z", "z", "field")]
        dataset_of(file, b"pairs", pairs, np.array(addresses, "<u8").tobytes())
    with h5py.File(repack(source)) as new:
        assert [new[ref].name for ref in new["pairs"][...].ravel()] == [
            "/field",
            "/z",
            "/z",
            "/field",
        ]


@pytest.mark.parametrize("folder", [".", "new"])
def test_virtual_datasets_that_grow_with_their_sources_are_kept(
    tmp_path: Path, folder: str
) -> None:
    source, target = tmp_path / "a.h5", tmp_path / folder / "b.h5"
    target.parent.mkdir(exist_ok=True)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("x", data=field((7, 10)), maxshape=(None, 10))
    for name in ("x", "y"):
        with h5py.File(tmp_path / f"{name}.h5", "w", libver="latest") as file:
            file["field"] = field((70, 90))
            layout = h5py.VirtualLayout((1, 10), "f4", maxshape=(None, 10))
            values = h5py.VirtualSource("s.h5", name, shape=(1, 10), maxshape=(None, 10))
            layout[: h5s.UNLIMITED, :] = values[: h5s.UNLIMITED, :]
            file.create_virtual_dataset("grows", layout)
    (tmp_path / "x.h5").rename(source)

    for _ in range(2):  # the second time it counts as done
        h5lossy_command("repack", "--absolute", "1e-3", source, target)
    with h5py.File(target) as new:
        assert new["grows"].shape == ((7, 10) if folder == "." else (0, 10))
    with h5py.File(source) as old, h5py.File(tmp_path / "y.h5") as new:
        assert "/grows: the files that hold its values" in difference(old, new, set())


# ------------------------------------------------------------------------------------------------
# What the comparison before the rename notices
# ------------------------------------------------------------------------------------------------


def stored_in(name: str) -> list[tuple[str, int, int]]:
    return [(name, 0, h5f.UNLIMITED)]


def fill(file: h5py.File) -> None:
    """Write something of everything that may differ."""
    ordered = file.create_group("ordered", track_order=True)
    for name in ("b", "a", "c"):
        ordered[name] = h5py.SoftLink("/x")
        ordered.attrs[name] = 1
    plain = file.create_group("plain")
    plain["soft"], plain["root"] = h5py.SoftLink("/x"), file["/"]
    plain["external"] = h5py.ExternalLink("b.h5", "/x")
    x = file.create_dataset("x", (6, 4), "f4", chunks=(2, 2), maxshape=(None, 4), fillvalue=-1)
    x[...] = 7
    file["z"] = np.arange(4)
    plain["x"] = x
    file.create_dataset("packed", data=np.arange(40), chunks=(10,), compression="gzip")
    file["text"] = "a"
    file.create_dataset("outside", (10,), "f8", external=stored_in("raw.bin"))
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("c.h5", "v", (4,))
    file.create_virtual_dataset("virtual", layout)
    file.create_group("empty")
    file.create_dataset("filled", (6,), "f8", chunks=(2,), fillvalue=1)
    file.create_dataset("grows", (4,), "i4", chunks=(2,), maxshape=(None,))
    set_charset(h5t.CSET_UTF8)(file)
    file["type"] = np.dtype("f4")
    file["type"].attrs["of"] = 1
    file.create_dataset("typed", (3,), file["type"])
    refs = file.create_dataset("refs", (2,), h5py.ref_dtype)
    refs[0] = x.ref
    x.attrs["number"], x.attrs["text"], x.attrs["ref"] = 7, "größe", file["z"].ref
    x.attrs["region"] = x.regionref[1:3]
    ragged = ragged_of(np.arange(3), np.arange(1))
    x.attrs.create("ragged", ragged, dtype=h5py.vlen_dtype("i4"))
    x.attrs.create("typed", 2.0, dtype=file["type"])
    scale = file.create_dataset("scale", data=np.arange(4.0))
    scale.make_scale("of x")
    x.dims[1].attach_scale(scale)
    x.dims[1].label = "label"


def link_again(name: str, new: Any) -> Callable[[h5py.File], None]:
    """Replace a link."""

    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = new(file) if callable(new) else new

    return change


def created_again(
    name: str, change: Callable[[Any], Any] = lambda _: None, **other: Any
) -> Callable[[h5py.File], None]:
    """Make a dataset again with changed properties, type or space."""

    def make(file: h5py.File) -> None:
        old = file[name]
        creation, values = old.id.get_create_plist(), None if "type" in other else old[()]
        change(creation)
        space = other.get("space") or old.id.get_space()
        new = h5d.create(file.id, None, other.get("type") or old.id.get_type(), space, creation)
        del file[name]
        h5o.link(new, file.id, name.encode())
        if values is not None and not other:
            file[name][()] = values

    return make


def group_again(name: str, **properties: Any) -> Callable[[h5py.File], None]:
    """Make a group again with changed properties."""

    def make(file: h5py.File) -> None:
        old = file[name]
        creation = h5p.create(h5p.GROUP_CREATE)
        for key, value in (
            {"link_creation_order": 1, "attr_creation_order": 1} | properties
        ).items():
            if key == "storage":
                set_link_storage(creation.id, value)
            else:
                getattr(creation, f"set_{key}")(*(value if isinstance(value, tuple) else [value]))
        names, attributes = list(old), dict(old.attrs)
        del file[name]
        new = h5py.Group(h5g.create(file.id, name.encode(), gcpl=creation))
        for link in names:
            new[link] = h5py.SoftLink("/x")
        new.attrs.update(attributes)

    return make


def set_attribute(path: str, name: str, value: Any, **options: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        given = value(file) if callable(value) else value
        file[path].attrs.create(name, given, **options)

    return change


def set_charset(charset: int) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        naming = h5p.create(h5p.LINK_CREATE)
        naming.set_char_encoding(charset)
        if "charset" in file["plain"]:
            del file["plain/charset"]
        h5o.link(file["x"].id, file["plain"].id, b"charset", naming)

    return change


def ragged_of(*parts: Any) -> Any:
    ragged = np.empty(len(parts), object)
    ragged[:] = [np.array(part, "i4") for part in parts]
    return ragged


def swap(first: str, second: str) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        file.move(first, "other")
        file.move(second, first)
        file.move("other", second)

    return change


def moved_to_end(file: h5py.File) -> None:
    value = file["ordered"].attrs["b"]
    del file["ordered"].attrs["b"]
    file["ordered"].attrs["b"] = value


def copied(file: h5py.File) -> None:
    """Replace a second link by an object of its own."""
    del file["plain/x"]
    file.copy("x", "plain/x")


def dataset_again(name: str, *arguments: Any, **options: Any) -> Callable[[h5py.File], None]:
    """Make a dataset without values in place of another one."""

    def change(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, *arguments, **options)

    return change


def virtual_again(file: h5py.File) -> None:
    del file["virtual"]
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("c.h5", "w", (4,))
    file.create_virtual_dataset("virtual", layout)


CHANGES: dict[str, Callable[[h5py.File], Any]] = {
    "a link is missing": lambda file: file["plain"].pop("soft"),
    "a link is new": lambda file: file.create_group("plain/new"),
    "a link has another name": lambda file: file.move("plain/soft", "plain/soft2"),
    "a link has another character set": set_charset(h5t.CSET_ASCII),
    "links have another order": link_again("ordered/a", h5py.SoftLink("/x")),
    "a soft link has another target": link_again("plain/soft", h5py.SoftLink("/y")),
    "a soft link is hard": link_again("plain/soft", lambda file: file["x"]),
    "an external link has another file": link_again(
        "plain/external", h5py.ExternalLink("c.h5", "/x")
    ),
    "an external link has another path": link_again(
        "plain/external", h5py.ExternalLink("b.h5", "/y")
    ),
    "a cycle ends elsewhere": link_again("plain/root", lambda file: file["plain"]),
    "an object with two links is two": copied,
    "two objects are one": link_again("z", lambda file: file["packed"]),
    "objects are exchanged": swap("typed", "z"),
    "a group is a dataset": link_again("empty", 3),
    "links are not in order": group_again("ordered", link_creation_order=0),
    "links are indexed": group_again("ordered", link_creation_order=3),
    "links are stored otherwise": group_again("ordered", storage=[5, 3, 4, 8]),
    "links are estimated otherwise": group_again("ordered", storage=[8, 6, 5, 8]),
    "attributes are not in order": group_again("ordered", attr_creation_order=0),
    "attributes are stored otherwise": group_again("ordered", attr_phase_change=(5, 2)),
    "an attribute is missing": lambda file: file["x"].attrs.pop("number"),
    "an attribute is new": set_attribute("x", "new", 1),
    "an attribute of ours is new": set_attribute("x", "h5lossy", 1),
    "attributes have another order": moved_to_end,
    "an attribute has another value": set_attribute("x", "number", 8),
    "an attribute has another type": set_attribute("x", "number", 7, dtype=">i8"),
    "an attribute has another shape": set_attribute("x", "number", [7]),
    "an attribute is empty": set_attribute("x", "number", h5py.Empty("i8")),
    "an attribute has another text": set_attribute("x", "text", "grösse"),
    "an attribute has other lengths": set_attribute(
        "x", "ragged", ragged_of(np.arange(3), np.arange(2)), dtype=h5py.vlen_dtype("i4")
    ),
    "an attribute has other parts": set_attribute(
        "x", "ragged", ragged_of(np.arange(3), [9]), dtype=h5py.vlen_dtype("i4")
    ),
    "an attribute's type has no name": set_attribute("x", "typed", 2.0, dtype="f4"),
    "the attribute of a type has another value": set_attribute("type", "of", 2),
    "a reference means something else": set_attribute("x", "ref", lambda file: file["x"].ref),
    "a reference means nothing": set_attribute("x", "ref", h5py.Reference(), dtype=h5py.ref_dtype),
    "a reference means another region": set_attribute(
        "x", "region", lambda file: file["x"].regionref[1:4]
    ),
    "a scale is missing": lambda file: file["x"].dims[1].detach_scale(file["scale"]),
    "a scale has another name": set_attribute("scale", "NAME", np.bytes_(b"of y")),
    "an axis has another label": lambda file: setattr(file["x"].dims[1], "label", "other"),
    "references of a dataset mean something else": lambda f: f["refs"].__setitem__(0, f["z"].ref),
    "null references mean something": lambda f: f["refs"].__setitem__(1, f["z"].ref),
    "another type": created_again("z", type=h5t.STD_I64BE),
    "another type of text": created_again("text", type=h5t.FORTRAN_S1),
    "a type without a name": dataset_again("typed", (3,), "f4"),
    "another shape": created_again("z", space=h5s.create_simple((5,))),
    "another maximal shape": dataset_again("grows", (4,), "i4", chunks=(2,), maxshape=(8,)),
    "another fill value": created_again("filled", lambda c: c.set_fill_value(np.array(2.0))),
    "no fill value": dataset_again("filled", (6,), "f8", chunks=(2,)),
    "another fill time": created_again("filled", lambda c: c.set_fill_time(h5d.FILL_TIME_NEVER)),
    "another allocation": created_again("z", lambda c: c.set_alloc_time(h5d.ALLOC_TIME_EARLY)),
    "other chunks": created_again("packed", lambda c: c.set_chunk((20,))),
    "another filter": created_again("packed", lambda c: c.set_fletcher32()),
    "no filter": created_again("packed", lambda c: c.remove_filter(1)),
    "another layout": created_again("z", lambda c: c.set_layout(h5d.COMPACT)),
    "values that are not stored": dataset_again("z", (4,), "i8"),
    "another external file": dataset_again("outside", (10,), "f8", external=stored_in("c.bin")),
    "another virtual source": virtual_again,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        fill(file)
    return path


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_difference_is_noticed(
    original: Path, tmp_path: Path, change: Callable[[h5py.File], Any]
) -> None:
    copy = tmp_path / "copy.h5"
    shutil.copy(original, copy)
    with h5py.File(original) as source:
        with h5py.File(copy) as target:
            assert difference(source, target, set()) == ""
        with h5py.File(copy, "r+", libver="latest") as target:
            change(target)
        with h5py.File(copy) as target:
            assert difference(source, target, set())


def test_files_have_to_be_laid_out_alike(original: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "b.h5", "w", libver="latest", userblock_size=512) as target:
        fill(target)
        with h5py.File(original) as source:
            assert "the properties of the file" in difference(source, target, set())


def test_a_compressed_dataset_may_differ_in_its_storage_only(
    original: Path, tmp_path: Path
) -> None:
    def changed(change: Callable[[h5py.File], Any]) -> str:
        copy = tmp_path / "copy.h5"
        shutil.copy(original, copy)
        with h5py.File(copy, "r+", libver="latest") as target, h5py.File(original) as source:
            change(target)
            return difference(source, target, {object_key(source["packed"].id)})

    assert changed(set_attribute("packed", "h5lossy", 1)) == ""
    assert changed(created_again("packed", lambda c: c.set_chunk((20,)))) == ""
    assert "the attributes" in changed(set_attribute("packed", "other", 1))
    assert "the fill time" in changed(
        created_again("packed", lambda c: c.set_fill_time(h5d.FILL_TIME_NEVER))
    )


def test_a_copy_that_differs_is_not_left(
    tmp_path: Path, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.h5"
    shutil.copy(original, source)
    with h5py.File(source, "r+") as file:
        file["field"] = field((70, 90))
    copy_object = h5o.copy

    def copy_badly(group: Any, name: bytes, *arguments: Any) -> None:
        copy_object(group, b"x" if name == b"packed" else name, *arguments)

    monkeypatch.setattr(h5o, "copy", copy_badly)
    arguments = [
        "repack",
        "--absolute",
        "1e-3",
        "-d",
        "/x:lossless",
        str(source),
        str(tmp_path / "b.h5"),
    ]
    result = h5lossy_command(*arguments, status=1)
    assert "the copy differs from SRC: /packed: the dataset has another type" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]
