# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The superblock of an HDF5 file ("HDF5 File Format Specification", II.A, versions 0 to 3).

It states how long the file is. HDF5 refuses a shorter file; a longer one is fine.
"""

from __future__ import annotations

import os
import struct
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNATURE = b"\x89HDF\r\n\x1a\n"

#: Bytes that hold any superblock: version 1 with addresses of 8 bytes, as far as it is read here.
_MOST_BYTES = 96

#: Consistency flags, since version 3: a writer has the file open, or an SWMR writer has.
_OPEN_FLAGS = 0x01 | 0x04

_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Superblock:
    """The fields of a superblock that matter if its writer was killed."""

    at: int  # in the file: 0, or after a user block
    version: int
    image: bytes  # all of it, as far as it is known here
    address_bytes: int
    end_at: int  # offset in the image of the end of the file
    flags_at: int  # offset in the image of the consistency flags

    @property
    def end(self) -> int:
        """Length of the file."""
        return int.from_bytes(self._address(self.end_at), "little")

    @property
    def is_open(self) -> bool:
        """Whether it says that a writer has the file open."""
        return self.version == 3 and bool(self.image[self.flags_at] & _OPEN_FLAGS)

    @property
    def is_part(self) -> bool:
        """Whether an old superblock says that the file is one of several that HDF5 uses as one."""
        driver = self._address(self.end_at + self.address_bytes)
        return self.version < 2 and driver != b"\xff" * self.address_bytes

    def _address(self, at: int) -> bytes:
        return self.image[at : at + self.address_bytes]

    def with_end(self, end: int) -> Superblock:
        """Return the same superblock of a file of another length."""
        image = bytearray(self.image)
        image[self.end_at : self.end_at + self.address_bytes] = end.to_bytes(
            self.address_bytes, "little"
        )
        return self._with(image)

    def closed(self) -> Superblock:
        """Return the same superblock of a file that no writer has open."""
        image = bytearray(self.image)
        if self.version == 3:
            image[self.flags_at] &= ~_OPEN_FLAGS
        return self._with(image)

    def _with(self, image: bytearray) -> Superblock:
        if self.version >= 2:
            image[-4:] = struct.pack("<I", lookup3(bytes(image[:-4])))
        return replace(self, image=bytes(image))

    def write(self, fd: int) -> None:
        """Write it to the file, at once."""
        if sys.platform == "win32":
            with _moved_to(fd, self.at):
                os.write(fd, self.image)
        else:
            os.pwrite(fd, self.image, self.at)


def read_superblock(fd: int) -> Superblock | None:
    """Return the superblock of an open file; None if there is none, or a damaged or unknown one."""
    size, at = os.fstat(fd).st_size, 0
    while at < size:
        image = _read_at(fd, at)
        if image.startswith(_SIGNATURE):
            return _parsed(at, image)
        at = 2 * at or 512
    return None


def _read_at(fd: int, at: int) -> bytes:
    if sys.platform == "win32":
        with _moved_to(fd, at):
            return os.read(fd, _MOST_BYTES)
    else:
        return os.pread(fd, _MOST_BYTES, at)


@contextmanager
def _moved_to(fd: int, at: int) -> Iterator[None]:
    """Restore the file's position after the block: on Windows, HDF5 relies on it."""
    before = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, at, os.SEEK_SET)
    try:
        yield
    finally:
        os.lseek(fd, before, os.SEEK_SET)


def _parsed(at: int, image: bytes) -> Superblock | None:
    if len(image) < 16:
        return None
    version = image[8]
    if version < 2:
        address_bytes, flags_at = image[13], 20
        base_at = 24 + 4 * version
        end_at, length = base_at + 2 * address_bytes, base_at + 4 * address_bytes
    elif version < 4:
        address_bytes, flags_at = image[9], 11
        end_at, length = 12 + 2 * address_bytes, 12 + 4 * address_bytes + 4
    else:
        return None
    if address_bytes not in {2, 4, 8} or len(image) < length:
        return None
    found = Superblock(at, version, image[:length], address_bytes, end_at, flags_at)
    is_damaged = version >= 2 and image[length - 4 : length] != struct.pack(
        "<I", lookup3(image[: length - 4])
    )
    return None if is_damaged else found


def lookup3(data: bytes) -> int:
    """Return the checksum of HDF5's metadata: Bob Jenkins' ``hashlittle`` of lookup3.

    >>> hex(lookup3(b"Four score and seven years ago"))
    '0x17770551'
    """

    def rotated(word: int, by: int) -> int:
        return (word << by | word >> 32 - by) & _WORD

    a = b = c = 0xDEADBEEF + len(data) & _WORD
    if not data:
        return c
    blocks = -(-len(data) // 12)
    words = struct.unpack(f"<{3 * blocks}I", data.ljust(12 * blocks, b"\0"))
    for i in range(0, len(words), 3):
        a, b, c = a + words[i] & _WORD, b + words[i + 1] & _WORD, c + words[i + 2] & _WORD
        if i + 3 == len(words):
            break
        a, c = (a - c & _WORD) ^ rotated(c, 4), c + b & _WORD
        b, a = (b - a & _WORD) ^ rotated(a, 6), a + c & _WORD
        c, b = (c - b & _WORD) ^ rotated(b, 8), b + a & _WORD
        a, c = (a - c & _WORD) ^ rotated(c, 16), c + b & _WORD
        b, a = (b - a & _WORD) ^ rotated(a, 19), a + c & _WORD
        c, b = (c - b & _WORD) ^ rotated(b, 4), b + a & _WORD
    c = (c ^ b) - rotated(b, 14) & _WORD
    a = (a ^ c) - rotated(c, 11) & _WORD
    b = (b ^ a) - rotated(a, 25) & _WORD
    c = (c ^ b) - rotated(b, 16) & _WORD
    a = (a ^ c) - rotated(c, 4) & _WORD
    b = (b ^ a) - rotated(a, 14) & _WORD
    return (c ^ b) - rotated(b, 24) & _WORD
