# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which arrays are on a GPU, and what is waited for, as far as this can be tested without one.

tests/gpu tests the libraries themselves.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import h5lossy
from h5lossy import _arrays
from h5lossy._arrays import is_device_array

CPU, CUDA, CUDA_HOST, ROCM, MANAGED = 1, 2, 3, 10, 13


class Exported:
    """Tells by DLPack where its values are; its other interface raises, as that of tensors may."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("nobody has to ask for the values")

    def __dlpack_device__(self) -> tuple[int, int]:
        if isinstance(self.kind, Exception):
            raise self.kind
        return self.kind, 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise RuntimeError("can't get it of what requires gradients")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(CPU, False), (CUDA, True), (CUDA_HOST, False), (ROCM, False), (MANAGED, True)],
)
def test_dlpack_says_where_values_are(kind: int, expected: bool) -> None:
    assert is_device_array(Exported(kind)) is expected


@pytest.mark.parametrize("error", [BufferError, RuntimeError, ValueError])
def test_what_is_on_no_single_device_is_left_to_numpy(error: type[Exception]) -> None:
    assert not is_device_array(Exported(error("only for unsharded arrays")))


def test_the_other_interface_is_asked_where_there_is_no_dlpack() -> None:
    class Raising:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise RuntimeError("it was given away")

    assert is_device_array(SimpleNamespace(__cuda_array_interface__={"version": 2}))
    with pytest.raises(
        h5lossy.UnsupportedError, match=r"Raising can't be taken: it was given away"
    ):
        is_device_array(Raising())
    for other in (np.zeros(3), b"", memoryview(b""), [1.0], 3.0, None, np.float32(1)):
        assert not is_device_array(other)


class Recorder(ModuleType):
    """Takes the place of CuPy, and records the calls in order."""

    class ndarray:  # noqa: N801  # CuPy's name
        def __init__(self) -> None:
            self.data = SimpleNamespace(ptr=0)
            self.shape, self.strides, self.dtype = (), (), np.dtype("f4")

    def __init__(self) -> None:
        super().__init__("cupy")
        self.calls: list[Any] = []
        note = self.calls.append

        class Device:
            def __init__(self, number: int) -> None:
                self.number = number

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def synchronize(self) -> None:
                note(("wait for all of", self.number))

        runtime = SimpleNamespace(streamSynchronize=lambda stream: note(("wait for", stream)))
        self.cuda = SimpleNamespace(Device=Device, runtime=runtime)

    def asarray(self, array: Any) -> Any:
        del array
        self.calls.append("take")
        return self.ndarray()

    def from_dlpack(self, array: Any) -> Any:
        del array
        self.calls.append("take by DLPack")
        return self.ndarray()


@pytest.mark.parametrize(
    ("interface", "calls"),
    [
        ({"version": 2}, [("wait for all of", 0), "take"]),
        ({"version": 3, "stream": None}, [("wait for all of", 0), "take"]),
        ({"version": 3, "stream": 1}, [("wait for", 1), "take"]),
        ({"version": 3, "stream": 77}, [("wait for", 77), "take"]),
    ],
)
def test_the_producer_is_waited_for_before_an_array_is_taken(
    monkeypatch: pytest.MonkeyPatch, interface: dict[str, Any], calls: list[Any]
) -> None:
    cupy = Recorder()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(_arrays, "_libraries", {})
    _arrays.cupy_memory(SimpleNamespace(__cuda_array_interface__={"data": (0, False), **interface}))
    assert cupy.calls == calls


def test_dlpack_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = Recorder()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(_arrays, "_libraries", {})
    _arrays.cupy_memory(Exported(CUDA))
    assert cupy.calls == ["take by DLPack"]


class Tensor:
    """Like PyTorch on the host: NumPy gets no tensor that requires gradients or is negated."""

    dtype, shape = "torch.float32", (3,)

    def __init__(self, shown: Any, left: tuple[str, ...] = ("detach", "resolve_neg")) -> None:
        self.shown, self.left = shown, left

    def detach(self) -> Any:
        return Tensor(self.shown, tuple(step for step in self.left if step != "detach"))

    def resolve_neg(self) -> Any:
        return Tensor(self.shown, tuple(step for step in self.left if step != "resolve_neg"))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        del copy
        if self.left:
            raise RuntimeError(f"call {self.left} first")
        return np.asarray(self.shown, dtype)


def test_tensors_on_the_host_show_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = ModuleType("torch")
    monkeypatch.setattr(torch, "Tensor", Tensor, raising=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    values = np.array([1, -2, 3], "f4")
    codec = h5lossy.PFPL(range_relative=1e-3)
    assert h5lossy.encode(Tensor(values), codec) == h5lossy.encode(values, codec)
    assert codec.resolve(Tensor(values)) == codec.resolve(values)
