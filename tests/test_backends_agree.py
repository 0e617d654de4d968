# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""All backends write the same bytes and read each other's; so do threads, every time.

A process chooses its backend once, so each backend runs in a process of its own.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import golden
import h5lossy
import test_complex
import test_halves
import test_integers
import test_interp_integers
import test_labels
import test_noise
from checks import Array, bits_of, floats_of
from h5lossy import _native
from h5lossy._codecs import CODECS
from hdf5_helpers import environment, frames, run_python
from matrix import BACKENDS, BOUNDS, DTYPES, EXAMPLES, FLOATS
from strategies import border_values, chunks, in_every_mode, special_patterns

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy._codecs import Codec

WORKER = """
import hashlib, pickle, sys
import numpy as np
import h5lossy
from h5lossy import _native
jobs = pickle.load(sys.stdin.buffer)
backend = _native.backend_name()
answers = []
for values, codec, fill_value in jobs["encode"]:
    frame = h5lossy.encode(values, codec, fill_value=fill_value)
    answers.append((frame, h5lossy.decode(frame).tobytes()))
decoded = [hashlib.sha256(h5lossy.decode(frame).tobytes()).digest() for frame in jobs["decode"]]
pickle.dump((backend, answers, decoded), sys.stdout.buffer)
"""


def python(
    code: str, folder: Path, given: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run code in another Python process, with only the h5lossy under test."""
    package = str(Path(h5lossy.__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        input=given,
        env=os.environ | {"PYTHONPATH": path} | environment,
        cwd=folder,
        capture_output=True,
        timeout=200,
        check=False,
    )


def fields(dtype: np.dtype[Any], bound: dict[str, Any]) -> list[Array]:
    """Return fields that make a codec take all its branches, for some seconds in total."""
    size = dtype.itemsize
    rng = np.random.default_rng(11)
    smooth = np.sin(np.arange(20000) / 400).reshape(20, 25, 40) * 50
    borders = border_values(size, bound, rng.integers(-(2**13), 2**13, 9000))
    borders += rng.integers(-2, 3, borders.size).astype(f"i{size}").view(borders.dtype)
    special = np.tile(np.array([*special_patterns(size).values()], f"u{size}"), 50)
    noise = np.frombuffer(rng.bytes(size * 5000), f"u{size}")
    mixed = np.concatenate([borders[:4000], special, noise, borders[4000:], noise * 0])
    odd_ends = [smooth.reshape(-1)[:n].astype(dtype) for n in (0, 1, 33, 65, 4097)]
    return [
        smooth.astype(dtype),
        (smooth + rng.standard_normal(smooth.shape)).astype(dtype),
        floats_of(borders, dtype).reshape(90, 100),
        floats_of(mixed, dtype),
        *odd_ends,
    ]


def jobs() -> list[tuple[Array, Codec, Any]]:
    edges = [
        (frame.recipe.make_values().reshape(frame.recipe.shape), frame.recipe.bound)
        for frame in golden.load()
        if frame.name.startswith("auto-edge-")
    ]
    return [(values, h5lossy.Auto(**bound), None) for values, bound in edges] + [
        (values, make(**bound), fill_value)
        for make in EXAMPLES.values()
        for name in FLOATS
        for bound in BOUNDS.values()
        for values in fields(np.dtype(name), bound)
        for fill_value in (None, np.float32(0.125))
    ]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Any], list[bytes]]]:
    """Encode and decode everything with every backend, and also decode the first one's frames."""
    found: dict[str, tuple[list[Any], list[bytes]]] = {}
    frames: list[bytes] = []
    for name in BACKENDS:
        # Before protocol 5 NumPy turns big-endian arrays round.
        given = pickle.dumps({"encode": jobs(), "decode": frames}, protocol=5)
        folder = tmp_path_factory.mktemp(name)
        done = python(WORKER, folder, given, H5LOSSY_BACKEND=name)
        assert done.returncode == 0, done.stderr.decode()
        backend, encoded, decoded = pickle.loads(done.stdout)
        assert backend == name
        found[name] = encoded, decoded
        frames = frames or [frame for frame, _ in encoded]
    return found


def jobs_of_other_types() -> list[tuple[Array, Any, Any]]:
    """Return integers, halves and complex numbers, codecs and fill values."""
    # NumPy's pickles come back in the machine's byte order.
    integers, few = ([of.replace(">", "<") for of in m.TYPES] for m in (test_integers, test_noise))
    half = np.random.default_rng(0).normal(0, 1, (60, 70)).astype("f2")
    found: list[tuple[Array, Any, Any]] = [
        (half, h5lossy.Interp(absolute=1e-2), None),
        (half, h5lossy.Interp(pointwise_relative=0.1), 0.5),
    ]
    for of in integers:
        found += test_integers.random_jobs(of, range(40, 60))
        found += test_interp_integers.jobs(of, range(40, 52))
        found += test_labels.jobs(of)
    for of in few:
        found += test_noise.jobs(of, range(60, 75))
    for half_of in test_halves.HALVES.values():
        found += test_halves.jobs(half_of, range(60, 80))
    bounds = BOUNDS | {"absolute": {"absolute": 0.01}}
    found += [
        (test_complex.spirals(of), codec(**bound), 0)
        for codec in CODECS.values()
        for of in ("c8", "c16")
        for bound in bounds.values()
    ]
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_writes_the_same_frames_of_other_types(tmp_path: Path, backend: str) -> None:
    given = jobs_of_other_types()
    job = pickle.dumps({"encode": given, "decode": []})
    # ml_dtypes has to be there before a pickle names its types.
    said = python(f"import ml_dtypes{WORKER}", tmp_path, job, H5LOSSY_BACKEND=backend)
    assert said.returncode == 0, said.stderr.decode()
    used, answers, _ = pickle.loads(said.stdout)
    assert used == backend
    for (values, codec, fill), (frame, decoded) in zip(given, answers, strict=True):
        assert frame == h5lossy.encode(values, codec, fill_value=fill)
        assert decoded == h5lossy.decode(frame).tobytes()


def test_every_backend_writes_the_bytes_of_this_process(backend: str, answers: Any) -> None:
    encoded, _ = answers[backend]
    for (frame, raw), (values, setting, fill_value) in zip(encoded, jobs(), strict=True):
        assert frame == h5lossy.encode(values, setting, fill_value=fill_value)
        assert raw == h5lossy.decode(frame).tobytes()


def test_every_backend_reads_the_frames_of_the_first(backend: str, answers: Any) -> None:
    encoded, decoded = answers[backend]
    if backend == BACKENDS[0]:
        decoded = [hashlib.sha256(raw).digest() for _, raw in encoded]
    first, _ = answers[BACKENDS[0]]
    assert decoded == [hashlib.sha256(raw).digest() for _, raw in first]


def test_the_slowest_backend_is_scalar_and_always_there() -> None:
    assert BACKENDS[-1] == "scalar"


def test_this_process_uses_the_backend_that_was_asked_for() -> None:
    assert _native.backend_name() == (os.environ.get("H5LOSSY_BACKEND") or BACKENDS[0])


def test_an_unknown_backend_is_refused_by_name(tmp_path: Path) -> None:
    code = "import numpy, h5lossy; h5lossy.encode(numpy.zeros(9), h5lossy.PFPL(absolute=1.0))"
    done = python(code, tmp_path, H5LOSSY_BACKEND="abacus")
    assert done.returncode == 1
    message = done.stderr.decode().splitlines()[-1]
    assert "InvalidArgumentError" in message
    assert 'H5LOSSY_BACKEND is "abacus"' in message


def test_an_empty_variable_asks_for_no_backend(tmp_path: Path) -> None:
    code = "from h5lossy import _native; print(_native.backend_name())"
    done = python(code, tmp_path, H5LOSSY_BACKEND="")
    assert done.stdout.decode().strip() == BACKENDS[0]


@in_every_mode
@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_the_same_values_give_the_same_frame_twice(
    codec: type[Codec], dtype: str, data: st.DataObject
) -> None:
    chunk = data.draw(chunks(dtype))
    setting = codec(**chunk.bound)
    first = h5lossy.encode(chunk.values, setting, fill_value=chunk.fill_value)
    copy = chunk.values.copy()
    assert h5lossy.encode(copy, setting, fill_value=chunk.fill_value) == first
    assert (bits_of(copy) == bits_of(chunk.values)).all()


def test_sixteen_threads_write_and_read_what_one_does(codec: type[Codec]) -> None:
    work = [
        (values, codec(**bound))
        for bound in BOUNDS.values()
        for values in fields(np.dtype("<f4"), bound)
    ] * 4
    alone = [h5lossy.encode(values, setting) for values, setting in work]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda job: h5lossy.encode(*job), work))
        decoded = list(pool.map(h5lossy.decode, together))
    assert together == alone
    assert [array.tobytes() for array in decoded] == [h5lossy.decode(f).tobytes() for f in alone]


def test_a_chunk_that_threads_share_is_what_one_of_them_writes(
    setting: Callable[..., Codec], tmp_path: Path
) -> None:
    values = (np.sin(np.arange(2**20) / 300) * 40).astype("<f4")  # a MiB for each of four threads
    codec = setting(absolute=1e-3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = {"chunks": values.shape, "compression": codec}
        dataset = file.create_dataset("x", values.shape, values.dtype, **options)
        h5lossy.write(dataset, values, threads=4)
        [frame] = frames(dataset).values()
    assert frame == h5lossy.encode(values, codec)


RANGES = """
import sys
import numpy as np
from h5lossy import _native

random = np.random.default_rng(0)
found = []
for i in range(2000):
    dtype = np.dtype(str(random.choice(["<f4", ">f4", "<f8", ">f8"])))
    size = int(random.integers(0, 200 if i % 50 else 200_000))  # large ones have several parts
    values = (random.normal(size=size) * 10.0 ** random.integers(-40, 38)).astype(dtype)
    if random.random() < 0.5:
        values = random.integers(0, 256, values.nbytes, dtype="u1").view(dtype)
    for special in (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42):
        if size and random.random() < 0.3:
            values[random.integers(size)] = special
    native = values.astype(dtype.newbyteorder("<"))
    bits = native.view(f"u{dtype.itemsize}")
    fill = int(bits[0]) if size and random.random() < 0.5 else None
    skip_zeros = bool(random.random() < 0.5)
    params = _native.Params(
        codec=1, bound_kind=2, bound=1e-3, mode=0, no_checksum=False, value_bytes=dtype.itemsize,
        big_endian=dtype.str[0] == ">", fill_bits=fill, maybe_padded=skip_zeros, shape=(),
    )
    valid = native[np.isfinite(native) & (bits != fill if fill is not None else True)]
    valid = valid[valid != 0] if skip_zeros else valid
    expected = (float(valid.min()), float(valid.max())) if valid.size else None
    assert _native.value_range(params, values, 1 + i % 3) == expected, (values, expected)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_ranges_are_what_numpy_says(backend: str) -> None:
    run_python(RANGES, env=environment(H5LOSSY_BACKEND=backend))
