# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What `describe` returns for datasets, and `get_config` for the process."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import (
    FILTER_ID,
    PFPL,
    Auto,
    ErrorBound,
    InvalidArgumentError,
    UnsupportedError,
    describe,
    get_config,
)
from hdf5_helpers import (
    create,
    creation_list,
    edit_cd_values,
    environment,
    field,
    frames,
    run_python,
)
from matrix import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from h5lossy._codecs import Codec

ABSOLUTE = PFPL(absolute=1e-3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


@pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)
def test_it_says_what_was_asked_for_and_what_came_of_it(
    path: Path, bound: dict[str, Any], make: Callable[..., Codec]
) -> None:
    dtype = np.dtype(">f8" if "absolute" in bound else "<f4")
    checksum = "lossless" not in bound
    codec = make(**bound, checksum=checksum)
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "group/x", data=field((50, 70), dtype), chunks=(32, 32), compression=codec
        )

    with h5py.File(path) as file:
        said = describe(file["group/x"])
        stored = frames(file["group/x"])

    assert said.path == "/group/x"
    assert (said.shape, said.chunks, said.dtype) == ((50, 70), (32, 32), dtype)
    assert said.codec == codec.codec_name
    assert said.bound == codec.bound
    assert said.config == codec
    assert type(said.config) is type(codec)
    assert repr(said.config) == repr(codec)
    assert said.checksum is checksum
    assert said.fill_value is None
    assert said.other_filters == ()
    assert (said.chunks_stored, said.chunks_filtered, said.chunks_unfiltered) == (6, 6, 0)
    assert said.raw_bytes == 50 * 70 * dtype.itemsize
    assert said.stored_bytes == sum(map(len, stored.values()))
    assert said.ratio == said.raw_bytes / said.stored_bytes


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (32, 32)},
        {"chunks": (32, 32), "compression": "gzip", "shuffle": True, "fletcher32": True},
        {"chunks": (32, 32), "compression": "lzf"},
    ],
    ids=["contiguous", "chunked", "gzip", "lzf"],
)
def test_it_is_none_for_other_datasets(path: Path, options: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        assert describe(file.create_dataset("x", data=field((50, 70)), **options)) is None


def test_it_is_none_for_datasets_without_a_shape(path: Path) -> None:
    with h5py.File(path, "w") as file:
        assert describe(file.create_dataset("scalar", data=1.0)) is None
        assert describe(file.create_dataset("null", data=h5py.Empty("f4"))) is None


def test_an_unwritten_dataset_has_no_ratio(path: Path) -> None:
    with h5py.File(path, "w") as file:
        said = describe(
            file.create_dataset("x", (50, 70), "f4", chunks=(32, 32), compression=ABSOLUTE)
        )

    assert (said.chunks_stored, said.raw_bytes, said.stored_bytes) == (0, 0, 0)
    assert said.ratio is None


def test_raw_bytes_count_the_values_in_stored_chunks_alone(path: Path) -> None:
    # One chunk inside, one at a corner of which 18 x 6 values belong to the dataset.
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (50, 70), "f4", chunks=(32, 32), compression=ABSOLUTE)
        dataset[0, 0] = dataset[49, 69] = 1
        file.flush()
        said = describe(dataset)

    assert said.chunks_stored == 2
    assert said.raw_bytes == (32 * 32 + 18 * 6) * 4


def test_chunks_that_went_around_the_filter_are_counted(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (64, 32), "f4", chunks=(32, 32), compression=ABSOLUTE)
        values = field((32, 32))
        dataset.id.write_direct_chunk((0, 0), values.tobytes(), filter_mask=1)
        dataset.id.write_direct_chunk((32, 0), h5lossy.encode(values, ABSOLUTE))
        said = describe(dataset)

    assert (said.chunks_stored, said.chunks_filtered, said.chunks_unfiltered) == (2, 1, 1)


def test_the_filter_mask_of_another_filter_does_not_count(path: Path) -> None:
    creation = creation_list((32, 32), ABSOLUTE.filter_options)
    creation.set_deflate(1)
    with h5py.File(path, "w") as file:
        dataset = create(file, "x", (64, 32), "f4", creation)
        frame = h5lossy.encode(field((32, 32)), ABSOLUTE)
        dataset.id.write_direct_chunk((0, 0), frame, filter_mask=2)  # gzip left out
        dataset.id.write_direct_chunk((32, 0), frame, filter_mask=3)  # and h5lossy too
        said = describe(dataset)

    assert said.other_filters == ("deflate",)
    assert said.chunks_unfiltered == 1


@pytest.mark.parametrize(("mode", "prefer"), [(0, "speed"), (1, "size")])
def test_a_codec_that_is_picked_for_each_chunk_is_auto(path: Path, mode: int, prefer: str) -> None:
    words = (0, *ABSOLUTE.filter_options[1:4], mode)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "x", (8,), "f4", chunks=(4,), compression=FILTER_ID, compression_opts=words
        )
        said = describe(dataset)

    assert (said.codec, said.config) == ("auto", Auto(absolute=1e-3, prefer=prefer))
    assert said.bound == ErrorBound("absolute", 1e-3)


@pytest.mark.parametrize("fill", [-999.0, 0.0, -0.0, 1e20, np.nan])
def test_a_fill_value_is_told_where_a_user_gave_one(
    path: Path, fill: float, dtype: np.dtype[Any]
) -> None:
    with h5py.File(path, "w") as file:
        options = {"chunks": (4,), "fillvalue": fill, "compression": ABSOLUTE}
        said = describe(file.create_dataset("x", (8,), dtype, **options))

    np.testing.assert_array_equal(said.fill_value, dtype.type(fill))
    assert np.signbit(said.fill_value) == np.signbit(fill)


BOUNDS = [0.1, 1e-3, 1 / 3, 1e-300, 5e-324, 1.7976931348623157e308, 2**-24, math.pi]


@pytest.mark.parametrize("value", BOUNDS)
@pytest.mark.parametrize("kind", ["absolute", "pointwise_relative", "range_relative"])
def test_the_bound_in_the_file_is_the_one_that_was_asked_for(
    path: Path, kind: str, value: float
) -> None:
    if kind == "pointwise_relative" and value >= 1:
        value = math.nextafter(1, 0)
    codec = PFPL(**{kind: value})
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (8,), "f4", chunks=(4,), compression=codec)

    with h5py.File(path) as file:
        said = describe(file["x"])
        [(number, _, words, _)] = [file["x"].id.get_create_plist().get_filter(0)]

    assert said.bound == ErrorBound(kind, value)
    assert h5lossy.from_filter_options(number, words) == codec
    assert h5lossy.from_filter_options(number, words).get_config() == {kind: value}


def test_cd_values_that_were_cut_off_are_enough(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=field((8,)), chunks=(4,), compression=ABSOLUTE)
    edit_cd_values(path, count=4)

    with h5py.File(path) as file:
        assert describe(file["x"]).config == ABSOLUTE


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({4: 1 << 14}, UnsupportedError, "newer h5lossy"),
        # Anyone may use the filter number for tests of their own.
        ({1: 9}, InvalidArgumentError, "bound kind must be"),
    ],
    ids=["later version", "another program"],
)
def test_cd_values_of_others_are_refused(
    path: Path, words: dict[int, int], error: type[Exception], message: str
) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=field((8,)), chunks=(4,), compression=ABSOLUTE)
    edit_cd_values(path, words)

    with h5py.File(path) as file, pytest.raises(error, match=message):
        describe(file["x"])


def test_it_works_where_the_filter_is_not_registered(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=field((50, 70)), chunks=(32, 32), compression=ABSOLUTE)
    code = """
import sys, h5py, h5lossy
h5py.h5z.unregister_filter(h5lossy.FILTER_ID)
assert not h5py.h5z.filter_avail(h5lossy.FILTER_ID)
with h5py.File(sys.argv[1]) as file:
    said = h5lossy.describe(file["x"])
    try:
        file["x"][...]
    except OSError:
        print(said.codec, said.bound, said.config, said.chunks_stored, said.raw_bytes)
"""
    said = run_python(code, path, env=environment()).stdout
    assert said == "pfpl absolute 0.001 PFPL(absolute=0.001) 6 14000\n"


def test_it_looks_at_every_chunk_of_many(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (3000,), "f4", chunks=(1,), compression=ABSOLUTE)
        dataset[:] = np.arange(3000)
        file.flush()
        said = describe(dataset)

    assert said.chunks_stored == 3000
    assert said.stored_bytes == 3000 * (4 + 40)


# ------------------------------------------------------------------------------------------------
# The process
# ------------------------------------------------------------------------------------------------


def test_get_config_says_what_is_here() -> None:
    config = get_config()

    assert config.version == h5lossy.__version__
    assert config.plugin_path == h5lossy.PLUGIN_PATH
    assert config.backends["scalar"] is True
    assert config.backend in config.backends
    assert config.libhdf5s[0].version == h5py.version.hdf5_version
    assert config.libhdf5s[0].registered_by == "h5lossy"


def test_get_config_sees_where_the_filter_is_missing() -> None:
    code = """
import h5py, h5lossy
h5py.h5z.unregister_filter(h5lossy.FILTER_ID)
print(h5lossy.get_config().libhdf5s[0].registered_by)
h5lossy.register(force=False)
print(h5lossy.get_config().libhdf5s[0].registered_by)
"""
    assert run_python(code, env=environment()).stdout.split() == ["none", "h5lossy"]


def test_get_config_has_no_backend_where_none_can_run() -> None:
    code = "import h5lossy; print(h5lossy.get_config().backend)"

    assert run_python(code, env=environment(H5LOSSY_BACKEND="turbo")).stdout == "None\n"


def test_what_is_no_dataset_of_h5py_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be an h5py\.Dataset, or .*, got ndarray"):
        h5lossy.describe(np.zeros(3))
    with pytest.raises(TypeError, match=r"must be an h5py\.Dataset, or .*, got ndarray"):
        h5lossy.verify(np.zeros(3))
