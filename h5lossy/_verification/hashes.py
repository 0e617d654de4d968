# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Hashes of a dataset's chunks, and their sums over groups of chunks.

A chunk's hash covers its decoded values and its place. It is 0 if all values are those that the
dataset has where nothing is stored, so it does not matter whether such a chunk is stored. The hash
of a group is the sum, modulo 2**64, of those of its chunks: chunks can be added, removed and
replaced one by one, and two groups are merged by addition. docs/howto/verify.md has the formulas.
The hashes reveal accidents, not forgery.
"""

from __future__ import annotations

import bisect
import functools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._values import as_bits, real_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

#: Number of values that share one set of weights.
_BLOCK = 1 << 14

#: Number of values that are converted at a time, so that a CPU's cache holds them.
_AT_ONCE_BYTES = 1 << 17

_MASK = (1 << 64) - 1


def hash_chunks(
    rows: npt.NDArray[Any], places: npt.NDArray[np.uint64], unwritten: Any, threads: int = 1
) -> Words:
    """Return the hashes of chunks, a row of values and a row of coordinates for each."""
    # Values outside of the dataset are set to `unwritten`, which contributes nothing to the hash.
    nothing = np.asarray(unwritten, rows.dtype).reshape(1)
    if rows.dtype.kind == "c":  # components, each a value
        rows = rows.view(real_dtype(rows.dtype))
        nothing = np.resize(nothing.view(rows.dtype), _BLOCK)
    nothing = as_bits(nothing)
    step = max(1, _AT_ONCE_BYTES // max(1, rows[:1].nbytes))
    parts = [rows[i : i + step] for i in range(0, len(rows), step)]

    def sums_of(part: npt.NDArray[Any]) -> Words:
        total = np.zeros(len(part), np.uint64)
        bits = as_bits(part)
        for i in range(0, bits.shape[1], _BLOCK):
            block = bits[:, i : i + _BLOCK]
            block = (block ^ nothing[: block.shape[1]]).astype(np.uint64, copy=False)
            low, high = (_weights(seed)[: block.shape[1]] for seed in (0, 1))
            if bits.itemsize <= 4:
                sums = np.einsum("ij,j->i", block, low)
            else:
                sums = np.einsum("ij,j->i", block & np.uint64(0xFFFFFFFF), low)
                sums += np.einsum("ij,j->i", block >> np.uint64(32), high)
            total += sums * _weights(2 + i // _BLOCK)[0]
        return total

    workers, hashes = min(threads, len(parts)), None
    if workers > 1:
        # No thread can be started, or this imported, while Python exits; or a limit is reached.
        with suppress(RuntimeError):
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

            with ThreadPoolExecutor(workers) as pool:
                hashes = [*pool.map(sums_of, parts)]
    if hashes is None:
        hashes = [*map(sums_of, parts)]
    found = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
    placed = found
    for axis in range(places.shape[1]):
        placed = _mixed(placed + places[:, axis])
    return np.where(found == 0, np.uint64(0), placed)


def _mixed(numbers: Words) -> Words:
    """Return the next number of the generator SplitMix64 for each state."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


@functools.lru_cache(maxsize=1024)
def _weights(seed: int) -> Words:
    """Return odd pseudorandom numbers: of values, their upper halves, and of block N for 2 + N."""
    count = _BLOCK if seed < 2 else 1
    return _mixed(
        np.arange(count, dtype=np.uint64) + (np.uint64(seed) << np.uint64(32))
    ) | np.uint64(1)


class Hashes:
    """The hashes of groups of `size` consecutive chunks each, where `size` is a power of two.

    Hashes of consecutive groups are stored together: the text has only these runs, and adding a
    chunk takes the same time for any number of groups.
    """

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._firsts: list[int] = []
        self._runs: list[bytearray] = []

    @property
    def count(self) -> int:
        """Return the number of groups, at least of those that have a hash."""
        return sum(map(len, self._runs)) // 8

    def get(self, number: int) -> int:
        """Return the hash of a chunk's group; 0 if there is none."""
        run, at = self._find(number // self.size)
        return 0 if run is None else int.from_bytes(run[at : at + 8], "big")

    def add(self, number: int, change: int) -> None:
        """Add to the hash of a chunk's group."""
        group = number // self.size
        run, at = self._find(group)
        if run is None:
            i = bisect.bisect(self._firsts, group)
            self._firsts.insert(i, group)
            self._runs.insert(i, run := bytearray())
        total = int.from_bytes(run[at : at + 8], "big") + change
        run[at : at + 8] = (total & _MASK).to_bytes(8, "big")

    def _find(self, group: int) -> tuple[bytearray | None, int]:
        """Return where the hash of a group is, or can be appended."""
        i = bisect.bisect(self._firsts, group) - 1
        at = 8 * (group - self._firsts[i]) if i >= 0 else 0
        return (self._runs[i], at) if i >= 0 and at <= len(self._runs[i]) else (None, 0)

    def items(self) -> Iterator[tuple[int, int]]:
        """Yield the groups that have a hash, in order, and their hashes."""
        for first, run in zip(self._firsts, self._runs, strict=True):
            for group, value in enumerate(np.frombuffer(run, ">u8").tolist(), first):
                if value:
                    yield group, value

    def cut(self, most_bytes: int) -> Hashes:
        """Return larger groups whose text has at most this many bytes; or these groups."""
        found = self
        while len(found.text()) > most_bytes:
            larger = Hashes(2 * found.size)
            for group, value in found.items():
                larger.add(group * found.size, value)
            found = larger
        return found

    def text(self) -> str:
        """Write the hashes as ``first group:hashes``, hexadecimal."""
        runs = zip(self._firsts, self._runs, strict=True)
        return " ".join([_NAME, *(f"{first:x}:{run.hex()}" for first, run in runs)])

    @classmethod
    def read(cls, text: str, size: int) -> Hashes:
        """Read what `text` wrote; raise ValueError for anything else."""
        name, *runs = text.split(" ")
        if name != _NAME:
            raise ValueError(f"unknown kind of hashes: {name[:20]!r}")
        found = cls(size)
        following = -1
        for part in runs:
            first, _, hashes = part.partition(":")
            group, run = int(first, 16), bytearray.fromhex(hashes)
            if group < following or len(run) % 8 or not run:
                raise ValueError(f"not a run of hashes: {part[:60]!r}")
            if group == following:
                found._runs[-1] += run  # of the same class
            else:
                found._firsts.append(group)
                found._runs.append(run)
            following = group + len(run) // 8
        return found


_NAME = "sum64"
