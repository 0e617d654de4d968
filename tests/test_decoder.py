# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The decoder next to the format's pages decodes and refuses the same frames as the library."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import golden
import h5lossy
from matrix import DECODER, slow_but

if TYPE_CHECKING:
    from pathlib import Path

GOLDEN = golden.load()


@pytest.mark.slow
@pytest.mark.parametrize("frame", GOLDEN, ids=str)
def test_it_decodes_the_frames_of_the_past(decoder: Any, frame: golden.Golden) -> None:
    decoded = np.frombuffer(decoder.decode(frame.frame), np.uint8)
    assert golden.digest(decoded) == frame.holds["decoded_sha256"]


def sealed(decoder: Any, frame: bytes) -> bytes:
    """Return a frame with right checksums of its contents, if its header tells what is summed."""
    sums = bytearray(frame)
    try:
        words, codec, type_byte, _, mode = struct.unpack_from("<5B", frame, 5)
        floats = {4: decoder.FLOAT32, 8: decoder.FLOAT64}
        of = (floats | decoder.INTEGERS)[type_byte & 127]
        axes = words - 10 if of in floats.values() else 4 if codec == decoder.INTERP else 3
        dims = struct.unpack_from(f"<{axes}I", frame, 40)
        count = struct.unpack_from("<I", frame, 12)[0] // of.size
        tiles = decoder.count_tiles(codec, mode, of, count, dims) if codec else 0
        front = 4 * (words + tiles)
        ends = struct.unpack_from(f"<{tiles}I", frame, 4 * words)
    except (struct.error, LookupError, ValueError, ZeroDivisionError):
        return frame
    payloads = decoder.cut(frame[front:], ends) if codec else [frame[front:]]
    if frame[10] & 1:
        struct.pack_into("<I", sums, 20, decoder.checksum(payloads))
    struct.pack_into("<I", sums, 16, decoder.checksum([bytes(sums[:16] + sums[20:front])]))
    return bytes(sums)


SMALL = [frame for frame in GOLDEN if len(frame.frame) < 2000]


def decoded_alike(decoder: Any, frame: bytes) -> bytes | None:
    """Return what library and decoder make of a frame; None if both refuse it in the same way."""
    refusals = {
        decoder.Unsupported: h5lossy.UnsupportedError,
        decoder.Truncated: h5lossy.TruncatedFrameError,
        decoder.Corrupt: h5lossy.CorruptFrameError,
    }
    try:
        expected = h5lossy.decode(frame).tobytes()
    except h5lossy.H5LossyError as error:
        with pytest.raises(decoder.Refused) as refused:
            decoder.decode(frame)
        assert type(error) is refusals[refused.type]  # noqa: PT017
        return None
    assert decoder.decode(frame) == expected
    return bytes(expected)


@pytest.mark.parametrize("frame", slow_but(SMALL, SMALL[::4]), ids=str)
def test_it_refuses_what_the_library_refuses(decoder: Any, frame: golden.Golden) -> None:
    numbers = random.Random(frame.name)
    for _ in range(2):
        changed = bytearray(frame.frame)
        # The sizes of the chunk stay as they are: what is tested is the payload.
        place = numbers.choice([*range(4, 12), *range(20, len(changed))])
        changed[place] ^= 1 << numbers.randrange(8)
        for one in (sealed(decoder, bytes(changed)), bytes(changed[: numbers.randrange(99)])):
            decoded_alike(decoder, one)


def test_it_is_a_program(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 999, dtype=">f4")
    frame = h5lossy.encode(values, h5lossy.Interp(absolute=1e-3))
    (tmp_path / "x.frame").write_bytes(frame)
    command = [sys.executable, str(DECODER), str(tmp_path / "x.frame")]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=tmp_path)
    assert said.stdout == h5lossy.decode(frame).tobytes()


def test_it_needs_nothing_but_python() -> None:
    code = f"""
import runpy, sys
before = set(sys.modules)
runpy.run_path({str(DECODER)!r}, run_name="decoder")
print([name for name in ("numpy", "h5py", "h5lossy") if name in sys.modules])
"""
    command = [sys.executable, "-P", "-c", code]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert said.stdout == "[]\n"
