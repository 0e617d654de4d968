# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What can be assessed: arrays, datasets and places in files, read part by part."""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from h5lossy._arrays import as_shown, cupy_memory, device_of, is_device_array
from h5lossy._values import fill_bits, own_fill_value
from h5lossy.errors import InvalidArgumentError, NotComparableError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

#: Integers that float64 holds exactly.
_EXACT_INTEGERS = {"i1", "i2", "i4", "u1", "u2", "u4", "b1"}


class _Reading:
    """How datasets are read: the package itself brings the two together (`read_datasets_with`)."""

    @staticmethod
    def read(dataset: h5py.Dataset, selection: Any, *, threads: int | None) -> Any:
        del threads
        return dataset[selection]


_reading: Any = _Reading


def read_datasets_with(read: Any) -> None:
    """Have parts of datasets read by a function with the arguments of `h5lossy.read`."""
    _reading.read = staticmethod(read)


class Input:
    """One of the two fields.

    Parameters
    ----------
    values : array-like, h5py.Dataset, or anything with a shape, a dtype and ``[]``
    name : str
        For messages and reports.
    """

    def __init__(self, values: Any, name: str) -> None:
        values = as_shown(values)
        if is_device_array(values):
            values = cupy_memory(values).owner
        elif not _has_numpy_type(values):
            values = _as_numpy(values, name)
        if isinstance(values, np.ma.MaskedArray):
            raise InvalidArgumentError(
                f"{name} is a masked array; give its data, and its mask as mask="
            )
        if values.shape is None:
            raise NotComparableError(f"{name} has no dataspace to hold values")
        self.values = values
        self.name = name
        self.shape: tuple[int, ...] = tuple(int(n) for n in values.shape)
        self.dtype: np.dtype[Any] = np.dtype(values.dtype)
        chunks = getattr(values, "chunks", None)
        # dask's chunks are tuples of tuples; those of HDF5 and Zarr are extents.
        is_extents = isinstance(chunks, tuple) and all(isinstance(n, int) for n in chunks)
        self.chunks: tuple[int, ...] | None = chunks if is_extents else None
        self.is_array = isinstance(values, np.ndarray)
        self.is_contiguous = self.is_array and bool(values.flags.c_contiguous)
        #: The number of the GPU whose memory the values are in.
        self.device: int | None = int(values.device.id) if is_device_array(values) else None
        #: At most so many decode, where h5lossy does.
        self.threads: int | None = None
        self.dataset: h5py.Dataset | None = values if isinstance(values, h5py.Dataset) else None

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    def read(self, selection: tuple[slice, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Read a part as a C-contiguous array of `dtype`, without a copy where it is one."""
        if self.dataset is not None:
            # On all threads where the filter is ours alone, and what is in the file, whatever a
            # chunk that HDF5 has just written still holds in its cache.
            part = _reading.read(self.dataset, selection, threads=self.threads)
        else:
            part = self.values[selection] if self.shape else self.values[()]
        if self.device is not None:  # CuPy: a part at a time comes to the host
            part = part.get()
        if np.ma.is_masked(part):  # netCDF4's variables give such, without saying so before
            raise InvalidArgumentError(
                f"{self.name} gives masked arrays; have it give its values (netCDF4's "
                "set_auto_maskandscale(False)), and say which to leave out: mask= or fill_value="
            )
        return np.ascontiguousarray(self._typed(np.asarray(part), dtype)).reshape(
            [s.stop - s.start for s in selection] if self.shape else ()
        )

    def read_on_device(self, selection: tuple[slice, ...], dtype: np.dtype[Any]) -> Any:
        """Give a part as CuPy's C-contiguous array, without a copy where it is one."""
        whole = tuple(slice(0, n) for n in self.shape)
        part = self.values if selection in ((), whole) else self.values[selection]
        memory = cupy_memory(self._typed(part, dtype))
        if not memory.is_contiguous:
            memory = memory.library.contiguous(memory)
        if memory.owner is not self.values:
            memory.library.wait(device_of(memory))
        return memory.owner

    def _typed(self, part: Any, dtype: np.dtype[Any]) -> Any:
        """Give values of NumPy's or CuPy's a type that holds them exactly."""
        with np.errstate(invalid="ignore"):  # NaNs that signal
            return part.astype(dtype, copy=False)


class Mask(Input):
    """Which points are left out: those where it is not 0.

    Parameters
    ----------
    values : array-like of bool or integers, h5py.Dataset, or anything that can be cut like them
    shape : tuple of int
        Of the fields.

    Raises
    ------
    InvalidArgumentError
        If it is of another shape or of another type.
    """

    def __init__(self, values: Any, shape: tuple[int, ...]) -> None:
        super().__init__(values, "mask")
        if self.shape != shape:
            raise InvalidArgumentError(
                f"mask must have the fields' shape {shape}, got {self.shape}; "
                "numpy.broadcast_to repeats a smaller one along further axes"
            )
        if self.dtype.kind not in {"b", "u", "i"}:
            raise InvalidArgumentError(f"mask must be of bool or integers, got {self.dtype}")

    def _typed(self, part: Any, dtype: np.dtype[Any]) -> Any:
        return (part if part.dtype.kind == "b" else part != 0).view(dtype)


def _has_numpy_type(values: Any) -> bool:
    """Return whether values say their shape, and a type that NumPy knows."""
    try:
        np.dtype(values.dtype)
    except (AttributeError, TypeError):
        return False
    return hasattr(values, "shape")


def _as_numpy(values: Any, name: str) -> npt.NDArray[Any]:
    """Turn numbers, lists, and arrays of other libraries that are in the host's memory."""
    if not hasattr(values, "__dlpack__"):
        return np.asarray(values)
    try:
        return np.from_dlpack(values)
    except (BufferError, RuntimeError, TypeError) as error:
        raise UnsupportedError(f"{name} can't be taken through DLPack: {error}") from error


@contextmanager
def opened(original: Any, decoded: Any) -> Iterator[tuple[Input, Input]]:
    """Open what ``"file.h5:/path"`` names, for as long as the block runs.

    Parameters
    ----------
    original, decoded : str, path-like, or what `Input` takes

    Yields
    ------
    tuple of Input
    """
    with ExitStack() as stack:
        yield (
            _open(original, "original", stack),
            _open(decoded, "decoded", stack),
        )


def _open(values: Any, name: str, stack: ExitStack) -> Input:
    if not isinstance(values, str | Path):
        return Input(values, getattr(values, "name", None) or name)
    file, separator, path = str(values).rpartition(":/")
    if not separator:
        raise InvalidArgumentError(
            f'{name} must name a dataset in a file, as "file.h5:/path" does, got {str(values)!r}'
        )
    opened_file = stack.enter_context(h5py.File(file, "r"))
    found = opened_file.get(f"/{path}")
    if not isinstance(found, h5py.Dataset):
        raise InvalidArgumentError(f"there is no dataset /{path} in {file}")
    return Input(found, str(values))


def common_dtype(original: Input, decoded: Input) -> np.dtype[Any]:
    """Return the type that both are compared in: float32 or float64, which holds both exactly.

    Parameters
    ----------
    original, decoded : Input

    Returns
    -------
    numpy.dtype

    Raises
    ------
    NotComparableError
        If the shapes differ, or values are no real numbers, or do not fit into float64.
    """
    if original.shape != decoded.shape:
        raise NotComparableError(
            f"original and decoded must have one shape, got {original.shape} and {decoded.shape}"
        )
    kinds = [_exact_dtype(field) for field in (original, decoded)]
    wide = max(kinds, key=lambda dtype: dtype.itemsize)
    same = kinds[0] == kinds[1]
    # Bytes are turned round by the library, if all else fits.
    return kinds[0] if same else np.dtype(np.float64 if wide.itemsize == 8 else np.float32)


def _exact_dtype(field: Input) -> np.dtype[Any]:
    dtype = field.dtype
    if dtype.kind == "f" and dtype.itemsize in {4, 8}:
        return dtype
    if dtype.kind == "f" and dtype.itemsize == 2:
        return np.dtype(np.float32)
    if dtype.str[1:] in _EXACT_INTEGERS:
        return np.dtype(np.float64)
    raise NotComparableError(
        f"{field.name} must hold floats of 16, 32 or 64 bits, or integers of at most 32, "
        f"not {dtype}"
    )


def resolve_fill(fill_value: Any, original: Input, decoded: Input, dtype: np.dtype[Any]) -> Any:
    """Return the fill value to leave out: the caller's, or with "auto" what the datasets say.

    Parameters
    ----------
    fill_value : float, "auto" or None
    original, decoded : Input
    dtype : numpy.dtype
        As of `common_dtype`.

    Returns
    -------
    numpy scalar or None
    """
    if isinstance(fill_value, str):
        if fill_value != "auto":
            raise InvalidArgumentError(
                f'fill_value must be a number, None or "auto", got {fill_value!r}'
            )
        fill_value = None
        for field in (original, decoded):
            if field.dataset is not None and fill_value is None:
                fill_value = own_fill_value(field.dataset)
                if fill_value is None:
                    fill_value = _declared_fill_value(field.dataset)
    if fill_value is None or fill_bits(fill_value, dtype) is None:
        return None
    return np.asarray(fill_value).astype(dtype)[()]


def _declared_fill_value(dataset: h5py.Dataset) -> Any:
    """Return what the attribute ``_FillValue`` says, in the dataset's type; None for nothing.

    NetCDF wants it to be of that type. Whoever sets it by hand often leaves it to be float64.
    """
    declared = np.ravel(dataset.attrs.get("_FillValue", ()))
    if declared.size != 1 or declared.dtype.kind not in "fiu":
        return None
    with np.errstate(all="ignore"):
        return declared.astype(dataset.dtype)[0]
