# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of CuPy, PyTorch, JAX and Numba, handed over while the GPU still works on them.

Each call has to come after that work, on whatever streams the two libraries are; what the memory
holds before it are other values.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import gpu_data as data
import h5lossy
from h5lossy._arrays import is_device_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to the others

cupy: Any = pytest.importorskip("cupy")

# What the libraries say of each other is theirs.
pytestmark = [
    pytest.mark.filterwarnings(f"default::{kind}")
    for kind in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
]

SHAPE = (64, 128, 256)
VALUES = data.make("rough", SHAPE, "f4")
CODEC = h5lossy.CuSZp2(absolute=1e-2)
CYCLES = 200_000_000  # about 0.1 s


def on_host(array: Any) -> Any:
    """Return values of a GPU's array of CuPy or PyTorch."""
    return array.get() if isinstance(array, cupy.ndarray) else array.cpu().numpy()


def encoded(array: Any) -> Any:
    frame = h5lossy.encode(array, CODEC)
    return frame if isinstance(frame, bytes) else on_host(frame).tobytes()


def written(array: Any) -> Any:
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        chunks = (array.shape[0] // 4, *array.shape[1:])
        dataset = file.create_dataset("a", array.shape, "f4", chunks=chunks, compression=CODEC)
        h5lossy.write(dataset, array)
        file.flush()
        return [
            dataset.id.read_direct_chunk((i * chunks[0], *(0 for _ in chunks[1:])))[1]
            for i in range(4)
        ]


def assessed(array: Any) -> Any:
    other: Any = np.zeros(array.shape, "f4")
    if is_device_array(array):
        other = cupy.asarray(other)
        cupy.cuda.get_current_stream().synchronize()
    told = json.loads(h5lossy.assess(array, other, absolute=1.0).to_json())
    told.pop("provenance")
    return told


def resolved(array: Any) -> Any:
    return h5lossy.PFPL(range_relative=1e-3).resolve(array)


USES: dict[str, Callable[[Any], Any]] = {
    "encode": encoded,
    "write": written,
    "assess": assessed,
    "resolve": resolved,
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return {name: use(VALUES) for name, use in USES.items()}


@contextmanager
def cupys_stream(kind: str) -> Iterator[Any]:
    """Make a stream CuPy's current one."""
    stream = cupy.cuda.Stream.null if kind == "null" else cupy.cuda.Stream(non_blocking=True)
    with stream:
        yield stream
        stream.synchronize()


@pytest.mark.parametrize("kind", ["null", "own"])
@pytest.mark.parametrize("use", USES)
def test_cupy(use: str, kind: str, expected: dict[str, Any]) -> None:
    slow = cupy.RawKernel(data.SLOW, "slow")
    with cupys_stream(kind) as stream:
        source, array = cupy.asarray(VALUES), cupy.zeros(SHAPE, "f4")
        USES[use](array)  # loads what it takes
        stream.synchronize()
        slow((1,), (1,), (np.int64(CYCLES),))
        array[...] = source
        done = cupy.cuda.Event(disable_timing=True)
        done.record()
        assert not done.done
        assert USES[use](array) == expected[use]


@pytest.mark.parametrize("kind", ["null", "own"])
@pytest.mark.parametrize("use", USES)
def test_pytorch(use: str, kind: str, expected: dict[str, Any]) -> None:
    torch: Any = pytest.importorskip("torch")
    with cupys_stream(kind), torch.cuda.stream(torch.cuda.Stream()):
        source = torch.from_numpy(VALUES).cuda()
        array = torch.zeros(SHAPE, device="cuda")
        USES[use](array)
        torch.cuda.synchronize()
        torch.cuda._sleep(CYCLES)
        array.copy_(source)
        done = torch.cuda.Event()
        done.record()
        assert not done.query()
        assert USES[use](array) == expected[use]


@pytest.mark.parametrize("kind", ["null", "own"])
@pytest.mark.parametrize("use", USES)
def test_jax(use: str, kind: str) -> None:
    jax: Any = pytest.importorskip("jax")

    @jax.jit
    def long(values: Any) -> Any:
        for _ in range(24):
            values = jax.numpy.tanh(values @ values * 1e-3) + values * 0.5
        return values

    device = jax.devices("gpu")[0]
    start = jax.device_put(data.make("rough", (4096, 4096), "f4"), device).block_until_ready()
    expected = USES[use](np.asarray(long(start)))
    USES[use](start)
    with cupys_stream(kind):
        for _ in range(4):
            array = long(start)
            assert not array.is_ready()
            assert USES[use](array) == expected
            del array


@pytest.mark.parametrize("kind", ["null", "own"])
def test_jax_that_is_still_copied_to_the_gpu(kind: str) -> None:
    jax: Any = pytest.importorskip("jax")
    device = jax.devices("gpu")[0]
    fields = [data.make("rough", (4096, 4096), "f4", seed) for seed in range(2)]
    expected = [encoded(values) for values in fields]
    encoded(cupy.asarray(fields[0]))
    with cupys_stream(kind):
        for i in range(8):
            array = jax.device_put(fields[i % 2], device)
            assert encoded(array) == expected[i % 2]
            del array
        frame = np.frombuffer(expected[0], np.uint8)
        decoded = h5lossy.decode(jax.device_put(frame, device))
        assert on_host(decoded).tobytes() == h5lossy.decode(frame).tobytes()


def numba_kernel() -> tuple[Any, Any]:
    cuda: Any = pytest.importorskip("numba.cuda")

    @cuda.jit
    def slow_copy(to: Any, source: Any, rounds: int) -> None:
        x = 1.0
        for _ in range(rounds):
            x = x * 0.999999 + 1e-9
        rows, columns = to.shape[1], to.shape[2]
        for i in range(cuda.grid(1), to.shape[0] * rows * columns, cuda.gridsize(1)):
            if x > -1.0:  # always, which the compiler does not know
                at = (i // (rows * columns), i // columns % rows, i % columns)
                to[at] = source[at]

    try:
        slow_copy.compile("float32[:, :, ::1], float32[:, :, ::1], int64")
    except AttributeError as error:  # a Numba that is older than NumPy asks it for what is gone
        pytest.skip(f"Numba cannot compile with NumPy {np.__version__}: {error}")
    return cuda, slow_copy


# A stream that the array names, and the default stream, which none does. Numba's are ordered with
# CuPy's null stream in any case.
@pytest.mark.parametrize("where", ["named", "default"])
@pytest.mark.parametrize("use", USES)
def test_numba(use: str, where: str, expected: dict[str, Any]) -> None:
    cuda, slow_copy = numba_kernel()
    stream = cuda.stream() if where == "named" else 0
    source = cuda.to_device(VALUES)
    array = cuda.device_array(SHAPE, np.float32, stream=stream)
    slow_copy[512, 256, stream](array, source, 1)  # compiles it
    cuda.synchronize()
    with cupys_stream("own"):
        USES[use](array)
        cuda.to_device(np.zeros(SHAPE, "f4"), to=array)
        cuda.synchronize()
        slow_copy[512, 256, stream](array, source, 10_000_000)
        done = cuda.event(timing=False)
        done.record(stream)
        assert not done.query()
        assert USES[use](array) == expected[use]


class Old:
    """What gives its memory as version 2 of the CUDA array interface does: no word of streams."""

    def __init__(self, array: Any) -> None:
        self.shape = array.shape
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.data.ptr, False),
            "version": 2,
        }


@pytest.mark.parametrize("use", USES)
def test_an_interface_without_streams(use: str, expected: dict[str, Any]) -> None:
    slow = cupy.RawKernel(data.SLOW, "slow")
    source, array = cupy.asarray(VALUES), cupy.zeros(SHAPE, "f4")
    USES[use](array)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        slow((1,), (1,), (np.int64(CYCLES),))
        array[...] = source
        done = cupy.cuda.Event(disable_timing=True)
        done.record()
    with cupys_stream("own"):
        assert not done.done
        assert USES[use](Old(array)) == expected[use]


# ------------------------------------------------------------------------------------------------
# Arrays to be filled
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def dataset() -> Iterator[h5py.Dataset]:
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        chunks = (16, *SHAPE[1:])
        made = file.create_dataset("a", data=VALUES, chunks=chunks, compression=CODEC)
        file.flush()
        yield made


@pytest.mark.parametrize("kind", ["null", "own"])
def test_reading_into_a_tensor_comes_after_what_is_done_to_it(
    dataset: h5py.Dataset, kind: str
) -> None:
    torch: Any = pytest.importorskip("torch")
    with cupys_stream(kind), torch.cuda.stream(torch.cuda.Stream()):
        array = torch.nn.Parameter(torch.zeros(SHAPE, device="cuda"))
        h5lossy.read(dataset, out=array)
        for selection in (np.s_[...], np.s_[::2]):  # of the second, the values come from the host
            out = array if selection is ... else array[selection]
            torch.cuda._sleep(CYCLES)
            out.detach().zero_()
            assert h5lossy.read(dataset, selection, out=out) is out
            assert on_host(out.detach() + 0).tobytes() == dataset[selection].tobytes()


def test_reading_into_an_array_of_numba(dataset: h5py.Dataset) -> None:
    cuda: Any = pytest.importorskip("numba.cuda")
    stream = cuda.stream()
    array = cuda.device_array(SHAPE, np.float32, stream=stream)
    with cupys_stream("own"):
        h5lossy.read(dataset, out=array)
    assert array.copy_to_host(stream=0).tobytes() == dataset[...].tobytes()


def test_what_must_not_be_written_to_is_refused(dataset: h5py.Dataset) -> None:
    read_only = Old(cupy.zeros(SHAPE, "f4"))
    read_only.__cuda_array_interface__["data"] = (
        read_only.__cuda_array_interface__["data"][0],
        True,
    )
    with pytest.raises(h5lossy.InvalidArgumentError, match="writable"):
        h5lossy.read(dataset, out=read_only)


def test_arrays_of_jax_are_not_written_to(dataset: h5py.Dataset) -> None:
    jax: Any = pytest.importorskip("jax")
    array = jax.device_put(np.zeros(SHAPE, "f4"), jax.devices("gpu")[0])
    with pytest.raises(h5lossy.InvalidArgumentError, match="JAX can't be written to"):
        h5lossy.read(dataset, out=array)
    assert not np.asarray(array).any()


# ------------------------------------------------------------------------------------------------
# What tensors show, and their memory does not hold
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("use", USES)
def test_tensors_with_gradients_and_negatives(
    use: str, device: str, expected: dict[str, Any]
) -> None:
    torch: Any = pytest.importorskip("torch")
    tensor = torch.from_numpy(VALUES).to(device)
    negative = USES[use](-VALUES)
    assert USES[use](torch.nn.Parameter(tensor)) == expected[use]
    assert USES[use](tensor.clone().requires_grad_() * 1.0) == expected[use]
    assert USES[use](torch._neg_view(tensor)) == negative
    assert USES[use](torch.complex(tensor, tensor).conj().imag) == negative
    assert USES[use](torch._neg_view(tensor.clone()).requires_grad_()) == negative
    repeated = tensor[:1].expand(SHAPE)
    assert USES[use](repeated) == USES[use](np.broadcast_to(VALUES[:1], SHAPE))


def test_a_negative_view_is_not_read_into(dataset: h5py.Dataset) -> None:
    torch: Any = pytest.importorskip("torch")
    tensor = torch.zeros(SHAPE, device="cuda")
    with pytest.raises(h5lossy.InvalidArgumentError, match="shows the negative"):
        h5lossy.read(dataset, out=torch._neg_view(tensor))
    assert not tensor.any()


def test_tensors_of_other_types_and_layouts_are_refused() -> None:
    torch: Any = pytest.importorskip("torch")
    tensor = torch.zeros((4, 256, 256), device="cuda")
    for other in (tensor.bfloat16(), tensor.to_sparse()):
        for use in (encoded, resolved):
            with pytest.raises(h5lossy.UnsupportedError):
                use(other)
    for other in (tensor.half(), tensor.int()):  # whose ranges are measured on the host
        with pytest.raises(h5lossy.UnsupportedError):
            resolved(other)


@pytest.mark.parametrize("name", ["uint8", "int16", "uint16", "uint32", "int64", "float16"])
def test_tensors_of_other_types(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    if not hasattr(torch, name):
        pytest.skip(f"this PyTorch has no {name}")
    values = np.arange(20_000).astype(name)
    codec = h5lossy.PFPL(lossless=True)
    frame = h5lossy.encode(torch.from_numpy(values).cuda(), codec)
    assert frame.cpu().numpy().tobytes() == h5lossy.encode(values, codec)
    decoded = h5lossy.decode(frame)
    assert decoded.dtype == getattr(torch, name)
    assert decoded.cpu().numpy().tobytes() == values.tobytes()


def test_managed_memory(expected: dict[str, Any]) -> None:
    with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
        array = cupy.asarray(VALUES)
    assert is_device_array(array)
    for name, use in USES.items():
        assert use(array) == expected[name]


def test_an_array_of_jax_on_two_gpus(expected: dict[str, Any]) -> None:
    jax: Any = pytest.importorskip("jax")
    if len(jax.devices("gpu")) < 2:
        pytest.skip("needs two GPUs")
    mesh = jax.sharding.Mesh(np.array(jax.devices("gpu")[:2]), ("z",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("z"))
    array = jax.device_put(VALUES, sharding)
    for name, use in USES.items():
        assert use(array) == expected[name]
