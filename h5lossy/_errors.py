# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The exceptions of h5lossy.

    H5LossyError
    ├── InvalidArgumentError (ValueError)           what the caller gave is not allowed
    │   ├── BoundError                              an error bound that is not allowed
    │   └── NotComparableError                      two fields of unlike shapes
    ├── UnsupportedError     (NotImplementedError)  this version can't: a type, a newer format
    ├── CorruptFrameError    (OSError)              a frame contradicts itself
    │   └── TruncatedFrameError                     a frame ends too early
    ├── BoundViolationError  (RuntimeError)         what was written is not within its bound
    ├── IncompleteWriteError (RuntimeError)         `h5lossy.write` ended early
    ├── DeviceError          (RuntimeError)         a GPU failed
    └── NativeError          (RuntimeError)         a fault of h5lossy's own, or of HDF5

The built-in bases are those that h5py and hdf5plugin raise in the same places, so code that catches
these keeps working. An argument of the wrong Python type raises `TypeError`, and running out of
memory `MemoryError`, as usual.
"""

from __future__ import annotations

from h5lossy._public import name_publicly


class H5LossyError(Exception):
    """Base of all exceptions that h5lossy defines."""


class InvalidArgumentError(H5LossyError, ValueError):
    """An argument that is not allowed. The message says what was given and what is allowed."""


class BoundError(InvalidArgumentError):
    """An error bound that is not above 0, not finite, or pointwise-relative and not below 1."""


class NotComparableError(InvalidArgumentError):
    """Two fields that can't be compared point by point."""


class UnsupportedError(H5LossyError, NotImplementedError):
    """Something that this version can't do: a data type, a codec, a newer format version."""


class CorruptFrameError(H5LossyError, OSError):
    """A frame that contradicts itself, or whose checksum is wrong. No values were returned."""


class TruncatedFrameError(CorruptFrameError):
    """A frame that ends too early."""


class BoundViolationError(H5LossyError, RuntimeError):
    """Decoded values that violate their bound: a bug, or a hardware fault. Please report it."""


class IncompleteWriteError(H5LossyError, RuntimeError):
    """`h5lossy.write` ended early; ``__cause__`` says why.

    The file can be read. Chunks that are not in `written` are unchanged; the one at which writing
    itself failed may be damaged if it existed before. `written` lists where the written chunks
    begin, `total` how many were to be written.
    """

    def __init__(
        self, message: str, written: tuple[tuple[int, ...], ...] = (), total: int = 0
    ) -> None:
        super().__init__(message)
        self.written = written
        self.total = total


class DeviceError(H5LossyError, RuntimeError):
    """A GPU that failed."""


class NativeError(H5LossyError, RuntimeError):
    """A bug in h5lossy, or an HDF5 library that refused the filter. Please report it."""


name_publicly(__name__)
