# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A value that is on the lattice never moves again (docs/design/bound.md, "Nothing drifts").

Data is partly overwritten, appended to, and copied, and encoded again each time, in any mode.
Values that are not overwritten stay as they are, except those that were kept exactly: these may
move once. So all values are within the bound of what was originally given, in exact arithmetic.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import Array, assert_kept, assert_same_bits, bits_of, floats_of
from h5lossy import Interp
from hdf5_helpers import field, run, run_python, tool, with_plugin
from matrix import DTYPES, SETTINGS
from strategies import EXTENTS, MANTISSA_BITS, bounds, special_patterns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from h5lossy._codecs import Codec

FINE_LIMIT = {4: 2**18 - 1, 8: 2**20}
"""Interp's G: fine points are numbered -G to G."""


def are_used(numbers: Array, size: int) -> Array:
    """Return which numbers are of fine points that Interp uses: far from zero not all are."""
    far = np.abs(numbers)
    grades = sum((far >= 2**e).astype(int) for e in (15, 16, 17)) if size == 4 else 0
    used: Array = (far <= FINE_LIMIT[size]) & (numbers % 2**grades == 0)
    return used


# ------------------------------------------------------------------------------------------------
# Hostile values
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lattice:
    """Where the values of a bound can lie: for making values, and for those that must not move."""

    dtype: np.dtype[Any]
    step: float | None  # None: everything is kept exactly
    is_interp: bool
    fill_value: Any

    def points(self, numbers: Array, unit: float) -> Array:
        kind = self.dtype.newbyteorder("=").type
        with np.errstate(over="ignore", under="ignore"):
            points: Array = numbers.astype(kind) * kind(unit) + kind(0)
        return points

    def has(self, values: Array) -> Array:
        """Return which values are fine points or bins of Interp; those never move at all."""
        if self.step is None or not self.is_interp:
            return np.zeros(values.shape, bool)
        size = self.dtype.itemsize
        found = np.zeros(values.shape, bool)
        bin_limit = 2.0 ** (MANTISSA_BITS[size] - 2) - 1
        with np.errstate(all="ignore"):
            for unit in (self.step / 16, self.step):
                number = np.rint(values.astype(np.float64) / unit)
                for offset in (-1, 0, 1):
                    other = number + offset
                    near = np.abs(other) <= bin_limit
                    if unit != self.step:
                        near = are_used(other, size)
                    number_here = np.where(near, other, 0)
                    same = bits_of(self.points(number_here, unit)) == bits_of(values)
                    found |= near & same.reshape(values.shape)
        if self.fill_value is not None:
            found &= (bits_of(values) != _bits(self.fill_value, self.dtype)).reshape(values.shape)
        return found


def _bits(value: Any, dtype: Any) -> int:
    return int(bits_of(np.array([value], dtype))[0])


def hostile(lattice: Lattice, bound: dict[str, Any], seed: int, shape: tuple[int, ...]) -> Array:
    """Make values: smooth, on or next to points of the lattice, special, far away, or all of it."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    size = lattice.dtype.itemsize
    [(kind, given)] = bound.items()
    scale = 1.0 if kind != "absolute" else float(np.clip(given, 1e-30, 1e30))
    unit = (lattice.step or scale) / 16
    limit = FINE_LIMIT[size]
    at = np.linspace(0, rng.uniform(0.1, 30), count)

    def smooth() -> Array:
        offset = rng.choice([0, 0, 0, 100, *2.0 ** np.array([12, 13, 14, 15, 21, 40])])
        wave = np.sin(at + rng.uniform(0, 6)) * rng.choice([0.3, 3, 50, 2000])
        noise = rng.normal(0, rng.choice([0, 0.1, 1.5]), count)
        with np.errstate(over="ignore"):
            return bits_of((scale * (offset + wave + noise)).astype(f"f{size}"))

    def fine_points() -> Array:
        reach = int(rng.choice([20, 1000, 2**15, 2**16, limit]))
        numbers = rng.integers(-reach, reach + 1, count)
        if rng.integers(0, 2):
            numbers &= -8  # all of these are used
        return bits_of(lattice.points(numbers, unit))

    def around_the_limits() -> Array:
        bins = 2 ** (MANTISSA_BITS[size] - 2)
        near = rng.choice([limit // 16, limit // 16 + 1, bins], count)
        numbers = (near + rng.integers(-3, 4, count)) * rng.choice([-1, 1], count)
        ends = rng.choice([2**15, 2**16, 2**17, limit], count) + rng.integers(-12, 13, count)
        edges = rng.choice([-1, 1], count) * ends
        on_bins = rng.integers(0, 2, count).astype(bool)
        return bits_of(
            np.where(on_bins, lattice.points(numbers, 16 * unit), lattice.points(edges, unit))
        )

    def half_way() -> Array:
        numbers = rng.integers(-400, 400, count)
        with np.errstate(over="ignore"):
            words = bits_of(lattice.points(numbers, unit / 2))
        words += rng.integers(-2, 3, count).astype(f"i{size}").view(f"u{size}")
        return words

    def special() -> Array:
        words = np.array(list(special_patterns(size).values()), f"u{size}")
        if lattice.fill_value is not None:
            words = np.append(words, bits_of(np.array([lattice.fill_value])))
        return words[rng.integers(0, words.size, count)]

    def patterns() -> Array:
        return np.frombuffer(rng.bytes(count * size), f"u{size}").copy()

    def own_lattice() -> Array:
        # Decimals, and packed values: further apart than the bound's step, or less.
        digits = np.floor(-np.log10(scale)) - rng.integers(-1, 4)
        per_unit = 10.0**digits * rng.choice([1, 1, 0.37])
        wave = np.rint(np.sin(at) * rng.choice([3, 50, 2000]) + rng.choice([0, 1000]))
        offset = rng.choice([0, 0, 273.15]) * scale
        number = np.dtype(f"f{size}").type
        if rng.integers(0, 2):  # rounded twice
            return bits_of(wave.astype(number) * number(1 / per_unit) + number(offset))
        return bits_of((wave / per_unit + offset).astype(number))

    words = own_lattice() if rng.integers(0, 4) == 0 else smooth()
    for make in (fine_points, around_the_limits, half_way, special, patterns):
        share = rng.choice([0, 0, 0, 0.01, 0.3, 1], p=[0.3, 0.2, 0.2, 0.2, 0.08, 0.02])
        if share:
            where = rng.random(count) < share
            if rng.integers(0, 2):
                where = np.sort(where)  # all at the end
            words[where] = make()[where]
    if lattice.fill_value is not None:
        words[rng.random(count) < rng.choice([0, 0.05])] = _bits(lattice.fill_value, lattice.dtype)
    return floats_of(words, lattice.dtype).reshape(shape)


# ------------------------------------------------------------------------------------------------
# Data that are written again and again
# ------------------------------------------------------------------------------------------------


class Rewritten:
    """The values given, the values read, and which of them have moved since they were given."""

    def __init__(self, lattice: Lattice, bound: dict[str, Any], first: Array) -> None:
        self.lattice, self.bound = lattice, bound
        self.given, self.now = first.copy(), first.copy()
        self.has_moved = np.zeros(first.shape, bool)

    def put(self, box: Any, values: Array) -> None:
        """Overwrite a part with new values."""
        self.given[box] = self.now[box] = values
        self.has_moved[box] = False

    def copy(self, box: Any, other: Any) -> None:
        """Overwrite a part with the contents of another part, as they were read."""
        for array in (self.given, self.now, self.has_moved):
            array[box] = array[other].copy()

    def check(self, read: Array) -> None:
        """Accept the values that are read now, if they are as they should be."""
        before, after = bits_of(self.now), bits_of(read)
        moved = (before != after).reshape(read.shape)
        assert not (moved & self.has_moved).any(), "a value moved a second time"
        is_on_lattice = self.lattice.has(self.now)
        assert not (moved & is_on_lattice).any(), "a point of the lattice moved"
        assert_kept(self.given, read, self.bound, self.lattice.fill_value)
        self.has_moved |= moved
        self.now = read


def box_of(data: st.DataObject, shape: tuple[int, ...]) -> tuple[slice, ...]:
    sides = []
    for n in shape:
        first = data.draw(st.integers(0, n - 1))
        sides.append(slice(first, data.draw(st.integers(first + 1, n))))
    return tuple(sides)


FILL_VALUES = st.none() | st.sampled_from([-999.0, 0.0, -0.0, 1e30]) | st.integers(-40, 40)
"""Integers stand for points of the lattice."""


def choices_of(codec: type[Codec]) -> list[Callable[..., Codec]]:
    """Return the modes of a codec, each to be called with a bound."""
    return [make for make in SETTINGS.values() if isinstance(make(absolute=1.0), codec)]


def draw_lattice(
    data: st.DataObject, dtype: str, bound: dict[str, Any], make: Callable[..., Codec]
) -> Lattice:
    step = h5lossy.inspect(h5lossy.encode(np.zeros(100, dtype), make(**bound))).step
    fill_value = data.draw(FILL_VALUES, "fill value")
    kind = np.dtype(dtype).newbyteorder("=").type
    if isinstance(fill_value, int):
        fill_value = fill_value * (step or 1.0) / 16 + 0.0
    if fill_value is not None:
        fill_value = kind(np.clip(fill_value, -1e38, 1e38))
    is_interp = make(**bound).step_share == Interp.step_share and "absolute" in bound
    return Lattice(np.dtype(dtype), step, is_interp, fill_value)


@hypothesis.given(
    dtype=st.sampled_from(DTYPES),
    bound=bounds(["absolute", "absolute", "pointwise_relative"])
    | st.sampled_from([0.1, 1.0, 1.5, 0.37, 1000.0]).map(lambda b: {"absolute": b}),
    data=st.data(),
)
def test_what_is_not_overwritten_stays(
    codec: type[Codec], dtype: str, bound: dict[str, Any], data: st.DataObject
) -> None:
    first = data.draw(st.sampled_from(choices_of(codec)), "first")(**bound)
    choices = [make for make in choices_of(codec) if make(**bound).step_share == first.step_share]
    lattice = draw_lattice(data, dtype, bound, choices[0])
    shape = tuple(data.draw(st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=4), "shape"))
    while np.prod(shape) > 20000:
        shape = shape[1:]
    seeds = st.integers(0, 2**32 - 1)
    values = hostile(lattice, bound, data.draw(seeds, "seed"), shape)
    if data.draw(st.booleans(), "is grown"):  # all but the first rows are yet to be appended
        values[data.draw(st.integers(0, shape[0])) :] = lattice.fill_value or 0
    rewritten = Rewritten(lattice, bound, values)
    for _ in range(data.draw(st.integers(1, 7), "times")):
        setting = data.draw(st.sampled_from(choices), "setting")(**bound)
        frame = h5lossy.encode(rewritten.now, setting, fill_value=lattice.fill_value)
        rewritten.check(h5lossy.decode(frame, shape=shape).astype(dtype))
        what = data.draw(st.sampled_from(["box", "row", "copy", "turn"]), "what")
        if what in {"box", "row"}:
            box = box_of(data, shape if what == "box" else shape[:1])
            part = rewritten.now[box].shape
            rewritten.put(box, hostile(lattice, bound, data.draw(seeds, "seed"), part))
        elif what == "copy" and rewritten.now.size > 1:
            count = data.draw(st.integers(1, rewritten.now.size // 2), "count")
            for array in (rewritten.given, rewritten.now, rewritten.has_moved):
                flat = array.reshape(-1)
                flat[-count:] = flat[:count].copy()
        elif what == "turn":
            axis = data.draw(st.integers(0, len(shape) - 1), "axis")
            by = data.draw(st.integers(1, 40), "by")
            for own in ("given", "now", "has_moved"):
                setattr(rewritten, own, np.roll(getattr(rewritten, own), by, axis))


@pytest.mark.parametrize("rewritable", [False, True])
def test_every_point_of_the_lattice_stays(dtype: np.dtype[Any], rewritable: bool) -> None:
    size = dtype.itemsize
    for bound in (1.0, 0.1, 1e-3, 1.5, 2.0**40, 2.0**-100, 1.9999999e-5):
        make = functools.partial(Interp, absolute=bound, rewritable=rewritable)
        step = h5lossy.inspect(h5lossy.encode(np.zeros(100, dtype), make())).step
        lattice = Lattice(dtype, step, True, None)
        limit = FINE_LIMIT[size]
        near = limit - np.arange(3000)
        # Those of float32 are all there are.
        fine = np.arange(-limit, limit + 1) if size == 4 else np.concatenate([near, -near])
        fine = fine[are_used(fine, size)]
        bins = 2 ** (MANTISSA_BITS[size] - 2) - np.arange(3000)
        rng = np.random.default_rng(3)
        for numbers, unit in ((fine, step / 16), (bins, step), (-bins, step)):
            points = lattice.points(numbers, unit)
            for values in (points, rng.permutation(points)):
                for axes in ((-1,), (-2, -1), "auto"):
                    square = values[: values.size // 50 * 50].reshape(50, -1)
                    frame = h5lossy.encode(square, make(axes=axes))
                    assert_same_bits(h5lossy.decode(frame, shape=square.shape), square)
            # The same among smooth values that are no points.
            at = np.arange(2 * points.size)
            mixed = (
                lattice.points(np.repeat(numbers, 2), unit) + np.sin(at / 50) * bound * 3
            ).astype(dtype)
            mixed[::2] = points
            decoded = h5lossy.decode(h5lossy.encode(mixed, make()))
            assert_same_bits(decoded[::2], points)
            assert_kept(mixed, decoded, {"absolute": bound})


@pytest.mark.parametrize("rewritable", [False, True])
@pytest.mark.parametrize("is_fill", [True, False], ids=["fill value", "infinite"])
def test_a_point_stays_where_its_bin_cannot_be(
    dtype: np.dtype[Any], is_fill: bool, rewritable: bool
) -> None:
    # Half a step below a bin that is the fill value, or infinite; the bin below is as near.
    rng = np.random.default_rng(8)
    for bound in (1.0, 0.37, 1e-3) if is_fill else (float(np.finfo(dtype).max) / 19,):
        codec = Interp(absolute=bound, rewritable=rewritable)
        lattice = lattice_of(dtype, codec)
        step = dtype.type(lattice.step)
        smooth = lattice.points(rng.integers(-3, 4, (40, 50)), step)
        # The step is more than a tenth of the largest number, so bin 10 is infinite.
        for k in (-4, -3, 7, 8, 1001) if is_fill else (10,):
            [fill_value, point] = lattice.points(np.array([16 * k, 16 * k - 8]), step / 16)
            assert np.isinf(fill_value) != is_fill
            values = smooth.copy()
            values[5, 5] = point
            values[9, 9:] = fill_value if is_fill else 0
            frame = h5lossy.encode(values, codec, fill_value=fill_value if is_fill else None)
            assert_same_bits(h5lossy.decode(frame, shape=values.shape), values)


# ------------------------------------------------------------------------------------------------
# Through HDF5
# ------------------------------------------------------------------------------------------------

ABSOLUTE: dict[str, Any] = {"absolute": 0.05}
SHAPE = (21, 40, 50)

INTERPS: dict[str, dict[str, Any]] = {
    "auto": {},
    "rewritable": {"rewritable": True},
    "last": {"axes": -1},
    "first": {"axes": (-3,)},
    "all": {"axes": (-3, -2, -1)},
}


def some_box(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[slice, ...]:
    first = [int(rng.integers(n)) for n in shape]
    end = [1 + int(rng.integers(at, n)) for at, n in zip(first, shape, strict=True)]
    return tuple(map(slice, first, end))


def some_values(
    rng: np.random.Generator, lattice: Lattice, base: Array, box: tuple[slice, ...]
) -> Array:
    """Return new values for a box: smooth ones, or hostile ones."""
    part = base[box]
    if rng.integers(0, 3):
        return (part + rng.normal(0, 0.2) + rng.normal(0, 0.01, part.shape)).astype(part.dtype)
    return hostile(lattice, ABSOLUTE, int(rng.integers(2**32)), part.shape)


def lattice_of(dtype: Any, codec: Codec, fill_value: Any = None) -> Lattice:
    step = h5lossy.inspect(h5lossy.encode(np.zeros(100, dtype), codec)).step
    return Lattice(np.dtype(dtype), step, codec.codec_name == "interp", fill_value)


@pytest.mark.parametrize("choice", INTERPS.values(), ids=INTERPS)
@pytest.mark.parametrize("by_h5lossy", [False, True], ids=["h5py", "h5lossy.write"])
def test_chunks_without_a_cache_are_written_in_part(
    tmp_path: Path, choice: dict[str, Any], by_h5lossy: bool, dtype: np.dtype[Any]
) -> None:
    rng = np.random.default_rng(11)
    codec = Interp(**ABSOLUTE, **choice)
    lattice = lattice_of(dtype, codec, dtype.type(-999))
    data = field((60, *SHAPE[1:]), dtype) / 10
    with h5py.File(tmp_path / "a.h5", "w", rdcc_nbytes=0) as file:
        dataset = file.create_dataset(
            "x",
            data=data[: SHAPE[0]],
            maxshape=(None, *SHAPE[1:]),
            chunks=(9, 33, 50),
            fillvalue=lattice.fill_value,
            compression=codec,
        )
        rewritten = Rewritten(lattice, ABSOLUTE, data[: SHAPE[0]])
        rewritten.check(dataset[...])
        box: tuple[slice, ...]
        for turn in range(14):
            n = dataset.shape[0]
            if turn % 3 == 2:  # append
                dataset.resize(n + 2, 0)
                grown = Rewritten(lattice, ABSOLUTE, data[: n + 2])
                for name in ("given", "now", "has_moved"):
                    getattr(grown, name)[:n] = getattr(rewritten, name)
                rewritten, box = grown, (slice(n, n + 2),)
                values = data[n : n + 2]
            elif turn % 5 == 3:  # a piece goes elsewhere as it was read
                box, other = (slice(0, 4), slice(0, 20)), (slice(n - 4, n), slice(20, 40))
                rewritten.copy(box, other)
                values = rewritten.now[box]
            else:
                box = some_box(rng, dataset.shape)
                values = some_values(rng, lattice, data, box)
            if turn % 5 != 3:
                rewritten.put(box, values)
            if by_h5lossy:
                h5lossy.write(dataset, values, box)
            else:
                dataset[box] = values
            rewritten.check(dataset[...])


_NETCDF = """
import sys
import netCDF4, numpy as np
with netCDF4.Dataset(sys.argv[1], "a") as nc, np.load(sys.argv[2]) as given:
    x = nc["x"]
    x.set_auto_maskandscale(False)
    x.set_var_chunk_cache(0, 1, 0.0)
    read = {}
    for turn in range(int(given["turns"])):
        z, y, shape = *given[f"at{turn}"], given[f"new{turn}"].shape
        x[:, z : z + shape[1], y : y + shape[2]] = given[f"new{turn}"]
        nc.sync()
        read[f"read{turn}"] = x[...]
np.savez(sys.argv[3], **read)
"""


@pytest.mark.parametrize("rewritable", [False, True])
def test_netcdf_without_a_cache_writes_chunks_in_part(tmp_path: Path, rewritable: bool) -> None:
    pytest.importorskip("netCDF4")
    rng = np.random.default_rng(12)
    codec = Interp(**ABSOLUTE, rewritable=rewritable)
    lattice = lattice_of("f4", codec, np.float32(-999))
    data = field(SHAPE) / 10
    path = tmp_path / "a.nc"
    with h5py.File(path, "w", track_order=True) as file:  # else netCDF only reads it
        options = {"chunks": (21, 21, 30), "fillvalue": -999.0, "compression": codec}
        dataset = file.create_dataset("x", data=data, **options)
        dataset.attrs["_FillValue"] = np.array([-999], "f4")
        for axis, (name, n) in enumerate(zip("tzy", SHAPE, strict=True)):
            file[name] = np.arange(n, dtype="f8")
            file[name].make_scale(name)
            dataset.dims[axis].attach_scale(file[name])
        rewritten = Rewritten(lattice, ABSOLUTE, data)
        rewritten.check(dataset[...])
    turns = 8
    given: dict[str, Any] = {}
    for turn in range(turns):
        z, y = (int(rng.integers(n - 1)) for n in SHAPE[1:])
        box = (slice(None), slice(z, z + 9), slice(y, y + 12))
        given[f"at{turn}"], given[f"new{turn}"] = (z, y), some_values(rng, lattice, data, box)
    np.savez(tmp_path / "given.npz", turns=turns, **given)
    files = (path, tmp_path / "given.npz", tmp_path / "read.npz")
    run_python(_NETCDF, *files, env=with_plugin())
    with np.load(tmp_path / "read.npz") as read:
        for turn in range(turns):
            (z, y), new = given[f"at{turn}"], given[f"new{turn}"]
            box = (slice(None), slice(z, z + new.shape[1]), slice(y, y + new.shape[2]))
            rewritten.put(box, new)
            rewritten.check(read[f"read{turn}"])


@pytest.mark.parametrize("choice", INTERPS.values(), ids=INTERPS)
def test_h5repack_moves_nothing_there_and_back(tmp_path: Path, choice: dict[str, Any]) -> None:
    h5repack = tool("h5repack")
    codec = Interp(**ABSOLUTE, **choice)
    lattice = lattice_of("f4", codec)
    rng = np.random.default_rng(13)
    data = field(SHAPE) / 10
    with np.errstate(invalid="ignore"):  # NaNs that signal
        data[:, :20] += hostile(lattice, ABSOLUTE, 5, (21, 20, 50))
    path = tmp_path / "0.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(21, 20, 50), compression=codec)
        rewritten = Rewritten(lattice, ABSOLUTE, data)
        rewritten.check(file["x"][...])
    for turn, chunks in enumerate(("7x40x50", "21x13x17", "1x40x50", "21x20x50"), 1):
        target = tmp_path / f"{turn}.h5"
        run(h5repack, "-l", f"CHUNK={chunks}", path, target, env=with_plugin())
        path = target
        with h5py.File(path, "a") as file:
            rewritten.check(file["x"][...])
            box = some_box(rng, SHAPE)
            values = some_values(rng, lattice, data, box)
            rewritten.put(box, values)
            file["x"][box] = values
        with h5py.File(path) as file:
            rewritten.check(file["x"][...])
