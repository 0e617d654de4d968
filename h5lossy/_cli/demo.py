# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy demo``: write a field, read it back and check every value."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import h5py
import numpy as np

from h5lossy import BoundKind, ErrorBound, ErrorSummary
from h5lossy._cli._console import error_text, print_table, ratio_text, say, shape_text
from h5lossy._cli._interrupts import interruptible
from h5lossy._cli._options import Request, codec_text, request_option
from h5lossy._cli._progress import progress_bar
from h5lossy._codecs import CODECS
from h5lossy._printable import bytes_text
from h5lossy._verification.bound_checker import BoundChecker
from h5lossy.missing import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt


#: Extents of one level in y and x; a chunk is a quarter of it, 1 MiB.
_SIDE = 1024
_CHUNKS = (1, _SIDE // 2, _SIDE // 2)
_LEVEL_BYTES = _SIDE * _SIDE * 4


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
    help="Leave demo.h5 in DIR, which is made if need be, instead of a temporary folder.",
)
def demo(request: Request, size: int, keep: Path | None) -> None:
    """Write a field through the filter and check every value.

    The field is float32: planetary waves with turbulence, the same every time. It is stored with
    every codec, or with that of --codec (absolute 0.01 if no bound is given), and with gzip. The
    exit code is 1 if a value violates a bound.
    """
    request = request.or_else(Request(bound={"absolute": 0.01}))
    made = [request.make(cls) for cls in ([request.codec] if request.codec else CODECS.values())]
    field = np.stack([*_levels(-(-size * 1_000_000 // _LEVEL_BYTES))])
    codecs = [codec.resolve(field) for codec in made if codec]
    ways: dict[str, tuple[str, ErrorBound, dict[str, Any]]] = {
        codec.codec_name: (codec_text(codec), codec.bound, {"compression": codec})
        for codec in codecs
    }
    gzip = {"compression": "gzip", "shuffle": True}
    ways["gzip"] = ("shuffle + gzip 4", ErrorBound(BoundKind.LOSSLESS), gzip)
    rows, broken = [], []
    with tempfile.TemporaryDirectory(prefix="h5lossy-demo-") as folder, interruptible():
        path = (keep or Path(folder)) / "demo.h5"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with progress_bar(2 * len(ways) * field.nbytes) as advance:
            for name, (title, bound, filters) in ways.items():
                began = time.perf_counter()
                with h5py.File(path, "a") as file:
                    file.create_dataset(name, data=field, chunks=_CHUNKS, **filters)
                    stored = file[name].id.get_storage_size()
                seconds = time.perf_counter() - began
                advance(field.nbytes, f"writing: {title}")
                summary, seconds_reading = _checked(path, name, field, bound)
                advance(field.nbytes, f"reading: {title}")
                if not summary.holds:
                    broken.append(f"{title}: {'; '.join(summary.problems)}")
                rows.append(
                    (
                        title,
                        str(bound),
                        error_text(summary),
                        str(summary.count),
                        str(summary.violations + summary.special_changed),
                        ratio_text(field.nbytes, stored),
                        f"{field.nbytes / 1e6 / seconds:.0f}",
                        f"{field.nbytes / 1e6 / seconds_reading:.0f}",
                    )
                )
    size_text = f"{shape_text(field.shape)}, {bytes_text(field.nbytes)}"
    say(f"field: float32, {size_text}, in chunks of {shape_text(_CHUNKS)}")
    if made[0] and made[0].bound.kind is BoundKind.RANGE_RELATIVE:
        say(f"{made[0].bound} of the whole field is {codecs[0].bound}")
    print_table(
        ("codec", "bound", "error/bound", "checked", "broken", "ratio", "write MB/s", "read MB/s"),
        rows,
        optional=("checked", "bound"),
    )
    say("MB/s: one run on this machine, as busy as it is; 1 MB is 1e6 bytes of field")
    if keep is not None:
        say(f"file: {path}")
    if broken:
        raise click.ClickException("; ".join(broken))


def _checked(
    path: Path, name: str, field: npt.NDArray[np.float32], bound: ErrorBound
) -> tuple[ErrorSummary, float]:
    """Read a dataset back, and compare every value; return what was found, and how long it took."""
    checker, seconds = BoundChecker(bound, Missing(field.dtype)), 0.0
    with h5py.File(path) as file:
        for i, level in enumerate(field):
            began = time.perf_counter()
            decoded = file[name][i]
            seconds += time.perf_counter() - began
            checker.add((i, 0, 0), level[np.newaxis], decoded[np.newaxis])
    return checker.summary(), seconds


def _levels(count: int) -> Iterator[npt.NDArray[np.float32]]:
    """Generate a temperature in kelvin, one moment in time for each level.

    The turbulence has Kolmogorov's energy spectrum k^(-5/3) with a dissipation range; smaller
    eddies turn faster.
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
