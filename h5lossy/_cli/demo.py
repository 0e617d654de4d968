# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy demo``: write a field, read it back and check every value."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import h5py
import numpy as np

from h5lossy import BoundKind, ErrorBound, ErrorSummary
from h5lossy._cli._console import (
    bytes_text,
    error_text,
    print_table,
    ratio_text,
    say,
    shape_text,
)
from h5lossy._cli._interrupts import interruptible
from h5lossy._cli._options import Request, codec_text, request_option
from h5lossy._cli._progress import Advance, progress_bar
from h5lossy._codecs import CODECS, Codec
from h5lossy._verification.bound_checker import BoundChecker
from h5lossy.missing import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Extents of one level in y and x; a chunk is a quarter of it, 1 MiB.
_SIDE = 1024
_CHUNKS = (1, _SIDE // 2, _SIDE // 2)
_LEVEL_BYTES = _SIDE * _SIDE * 4

Level = np.ndarray[Any, np.dtype[np.float32]]

_LOSSLESS = ErrorBound(BoundKind.LOSSLESS)


class _Way:
    """One way to store the field, and its measurements."""

    def __init__(
        self,
        *,
        name: str,
        file_name: str,
        filters: dict[str, Any],
        bound: ErrorBound = _LOSSLESS,
        is_ours: bool = True,
    ) -> None:
        self.name = name
        self.is_ours = is_ours
        self._checker = BoundChecker(bound, Missing(np.dtype(np.float32)))
        self.seconds_writing = 0.0
        self.seconds_reading = 0.0
        self.stored_bytes = 0
        self.file_name = file_name
        self._filters = filters

    @property
    def summary(self) -> ErrorSummary:
        return self._checker.summary()

    def write(
        self, folder: Path, shape: tuple[int, ...], levels: Iterable[Level], advance: Advance
    ) -> None:
        """Write the field; only HDF5's part of it is timed, to the file's close."""
        clock = _Clock()
        with clock:
            file = h5py.File(folder / self.file_name, "w")
        with file:
            with clock:
                field = file.create_dataset("field", shape, "f4", chunks=_CHUNKS, **self._filters)
            for i, level in enumerate(levels):
                with clock:
                    field[i] = level
                advance(_LEVEL_BYTES, f"writing: {self.name}")
            with clock:
                file.flush()
            self.stored_bytes = field.id.get_storage_size()
            with clock:
                file.close()
        self.seconds_writing = clock.seconds

    def read(self, folder: Path, levels: Iterable[Level], advance: Advance) -> None:
        """Read the field and check every value; only the reading is timed."""
        clock = _Clock()
        with h5py.File(folder / self.file_name) as file:
            for i, level in enumerate(levels):
                with clock:
                    decoded = file["field"][i]
                self._checker.add((i, 0, 0), level[np.newaxis], decoded[np.newaxis])
                advance(_LEVEL_BYTES, f"reading: {self.name}")
        self.seconds_reading = clock.seconds


class _Clock:
    """Adds up the time spent in its blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_exception: object) -> None:
        self.seconds += time.perf_counter() - self._start


@click.command()
@request_option
@click.option(
    "--size",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    metavar="MB",
    help="Size of the field in MB (1e6 bytes), rounded up to whole levels of 4.2 MB.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Leave the files in DIR, which is made if need be, instead of a temporary folder.",
)
def demo(request: Request, size: int, keep: Path | None) -> None:
    """Write a field through the filter and check every value.

    The field is float32: planetary waves with turbulence on them, the same every time. It is
    stored with every codec, or the one of --codec (absolute 0.01 where no bound is given), with
    gzip, and without a filter; with SZ3, too, where hdf5plugin is installed and the bound is one
    that SZ3 has. The exit code is 1 if a value violates a bound of h5lossy's.
    """
    request = request.or_else(Request(bound={"absolute": 0.01}))
    made = [request.make(cls) for cls in ([request.codec] if request.codec else CODECS.values())]
    codecs = [codec for codec in made if codec]
    bound = codecs[0].bound
    levels = -(-size * 1_000_000 // _LEVEL_BYTES)
    with _folder(keep) as folder, interruptible():
        ways = _run(codecs, levels, folder)
    raw_bytes = levels * _LEVEL_BYTES
    shape = (levels, _SIDE, _SIDE)
    size_text = f"{shape_text(shape)}, {bytes_text(raw_bytes)}"
    say(f"field: float32, {size_text}, in chunks of {shape_text(_CHUNKS)}")
    if bound.kind is BoundKind.RANGE_RELATIVE:
        say(f"{bound} of the whole field is {ways[0].summary.bound}")
    print_table(
        ("codec", "bound", "error/bound", "checked", "broken", "ratio", "write MB/s", "read MB/s"),
        [_row(way, raw_bytes) for way in ways],
        optional=("checked", "bound"),
    )
    say("MB/s: one run on this machine, as busy as it is; 1 MB is 1e6 bytes of field")
    if keep is not None:
        say(f"files: {', '.join(sorted(str(path) for path in keep.glob('*.h5')))}")
    for way in ways:
        if way.is_ours and not way.summary.holds:
            raise click.ClickException(f"{way.name}: {'; '.join(way.summary.problems)}")


def _run(codecs: Sequence[Codec], levels: int, folder: Path) -> list[_Way]:
    """Store the field in every way, those to be shown first at the front."""
    shape = (levels, _SIDE, _SIDE)
    plain = _Way(name="no filter", file_name="plain.h5", filters={})
    others = [
        _Way(name="gzip 4", file_name="gzip-4.h5", filters={"compression": "gzip"}),
        _Way(
            name="shuffle + gzip 4",
            file_name="shuffle-gzip-4.h5",
            filters={"compression": "gzip", "shuffle": True},
        ),
    ]
    count = len(codecs) + len(others) + 1 + _has_sz3(codecs[0].bound)
    with progress_bar(2 * count * levels * _LEVEL_BYTES) as advance:
        plain.write(folder, shape, _levels(levels), advance)
        with h5py.File(folder / plain.file_name) as file:
            field = file["field"]
            plain.read(folder, field, advance)
            resolved = [codec.resolve(field) for codec in codecs]
            ours = [_way_of(codec) for codec in resolved]
            if _has_sz3(codecs[0].bound):
                others.insert(0, _sz3(resolved[0].bound))
            for way in (*ours, *others):
                way.write(folder, shape, field, advance)
                way.read(folder, field, advance)
    return [*ours, *others, plain]


def _has_sz3(bound: ErrorBound) -> bool:
    """Return whether SZ3 can be shown beside ours: it has no pointwise-relative bound."""
    kinds = {BoundKind.ABSOLUTE, BoundKind.RANGE_RELATIVE}
    return bound.kind in kinds and importlib.util.find_spec("hdf5plugin") is not None


def _sz3(bound: ErrorBound) -> _Way:
    """Store the field with SZ3, within an absolute bound."""
    filters = {"compression": importlib.import_module("hdf5plugin").SZ3(absolute=bound.value)}
    return _Way(name="SZ3", file_name="sz3.h5", filters=filters, bound=bound, is_ours=False)


def _way_of(codec: Codec) -> _Way:
    """Store the field with a codec."""
    return _Way(
        name=codec_text(codec),
        file_name=f"{codec.codec_name}.h5",
        filters={"compression": codec},
        bound=codec.bound,
    )


def _levels(count: int) -> Iterator[Level]:
    """Generate a temperature in kelvin, one moment in time for each level.

    The turbulence has Kolmogorov's energy spectrum k^(-5/3) with a dissipation range; smaller
    eddies turn faster. Memory does not grow with the number of levels.
    """
    rng = np.random.default_rng(46412)
    k = np.hypot(np.fft.fftfreq(_SIDE, 1 / _SIDE)[:, None], np.fft.rfftfreq(_SIDE, 1 / _SIDE))
    k[0, 0] = np.inf
    modes = np.exp(2j * np.pi * rng.random(k.shape) - (6 * k / _SIDE) ** 2) * k ** (-4 / 3)
    turn = np.exp(0.05j * np.minimum(k, _SIDE) ** (2 / 3))
    modes *= 2 / np.fft.irfft2(modes).std()
    y, x = np.linspace(-1, 1, _SIDE)[:, None], np.linspace(0, 2 * np.pi, _SIDE)
    for t in range(count):
        waves = 25 * np.cos(np.pi / 2 * y) + 6 * np.sin(5 * x - 0.1 * t) * (1 - y**2)
        yield (255 + waves + np.fft.irfft2(modes)).astype(np.float32)
        modes *= turn


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Make the folder for the files; a temporary one unless `keep` is given."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="h5lossy-demo-") as name:
        yield Path(name)


def _row(way: _Way, raw_bytes: int) -> tuple[str, ...]:
    """Return a row of the table."""
    return (
        way.name,
        str(way.summary.bound),
        error_text(way.summary),
        str(way.summary.count),
        str(way.summary.violations + way.summary.special_changed),
        ratio_text(raw_bytes, way.stored_bytes),
        f"{raw_bytes / 1e6 / way.seconds_writing:.0f}",
        f"{raw_bytes / 1e6 / way.seconds_reading:.0f}",
    )
