# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The cost of safeguards on real fields, and a comparison with numcodecs-safeguards.

    H5LOSSY_CORPUS=... python benchmarks/safeguards.py

For each core field of floats, an absolute bound of 1e-2 and 1e-3 of its range, and each safeguard:
the ratio in HDF5 (in memory, chunks of about 1 MiB) and the encoder's speed (CPU time, one thread),
as fractions of those without it, geometric means over the fields. "physical" is the range [0,
largest value] if no value is negative, and otherwise one whose ends are far from all values.

Then signs are compared with numcodecs-safeguards 0.1.0rc5, which has to be installed: its codec
around PFPL, and h5lossy's own, on up to 2 MB of each field without a fill value, 1e-3 of the range.

"""

from __future__ import annotations

import os
import time
from typing import Any

os.environ["H5LOSSY_NUM_THREADS"] = "1"  # before the library is loaded

import numpy as np
from _common import geometric_mean, real_fields, save, through_hdf5
from fields import chunk_shape
from numcodecs_safeguards import SafeguardedCodec

import h5lossy
import h5lossy.zarr

SCALES = (1e-2, 1e-3)
CODECS = {
    "PFPL": h5lossy.PFPL,
    "cuSZp2": h5lossy.CuSZp2,
    "AATROX": h5lossy.AATROX,
    "Interp": h5lossy.Interp,
}
MOST_BYTES = 8 << 20
PEER_BYTES = 2 << 20


def safeguards_of(valid: np.ndarray) -> dict[str, dict[str, Any]]:
    """Name the safeguards for a field with these valid values."""
    low, high = float(valid.min()), float(valid.max())
    inside = (0.0, 2 * high) if low >= 0 else (2 * low - high, 2 * high - low)
    return {
        "sign": {"keep": "sign"},
        "median": {"thresholds": float(np.median(valid))},
        "physical": {"valid_range": inside},
        "extrema": {"valid_range": (low, high)},
    }


def of_peer(values: np.ndarray, bound: float) -> dict[str, float]:
    """Return ratio and MB/s of signs that numcodecs-safeguards keeps, around PFPL."""
    wanted = [{"kind": "eb", "type": "abs", "eb": bound}, {"kind": "sign"}]
    inner = h5lossy.zarr.Compressor(h5lossy.PFPL(absolute=bound))
    codec = SafeguardedCodec(codec=inner, safeguards=wanted)
    begin = time.process_time()
    encoded = bytes(codec.encode(values.reshape(-1)))  # decoded data have no shape
    return rates(values, len(encoded), time.process_time() - begin)


def rates(values: np.ndarray, size: int, seconds: float) -> dict[str, float]:
    """Return a ratio, and MB/s."""
    return {"ratio": values.nbytes / size, "MB/s": values.nbytes / seconds / 1e6}


def main() -> None:
    """Measure, print and save."""
    shares: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    beside: dict[str, Any] = {}
    for name, whole, fill in real_fields(core=1):
        if whole.dtype.kind != "f" or whole.dtype.itemsize < 4:
            continue
        values = whole[: max(1, len(whole) * MOST_BYTES // max(whole.nbytes, MOST_BYTES))]
        valid = values[np.isfinite(values) & (values != (np.nan if fill is None else fill))]
        chunks = chunk_shape(values)
        for scale in SCALES:
            bound = scale * float(valid.max() - valid.min())
            for codec_name, cls in CODECS.items():
                plain = through_hdf5(values, chunks, fill, {"compression": cls(absolute=bound)})
                for wanted, arguments in safeguards_of(valid).items():
                    codec = cls(absolute=bound, **arguments)
                    got = through_hdf5(values, chunks, fill, {"compression": codec})
                    if codec.safeguards.broken(values, got.values).any():
                        raise SystemExit(f"{name}: {codec} is broken")
                    of = shares.setdefault((f"{scale:g}", codec_name, wanted), {})
                    of.setdefault("ratio", []).append(plain.bytes / got.bytes)
                    of.setdefault("speed", []).append(plain.write_s / got.write_s)
        if fill is None:
            part = values[: max(1, len(values) * PEER_BYTES // max(values.nbytes, PEER_BYTES))]
            part = np.ascontiguousarray(part)
            bound = 1e-3 * float(part.max() - part.min())
            beside[name] = {"numcodecs-safeguards": of_peer(part, bound)}
            for cls in (h5lossy.PFPL, h5lossy.Interp):
                begin = time.process_time()
                size = len(h5lossy.encode(part, cls(absolute=bound, keep="sign")))
                beside[name][cls.__name__] = rates(part, size, time.process_time() - begin)
        print(name, beside.get(name), flush=True)
    found: dict[str, Any] = {}
    for (scale, codec_name, wanted), of in shares.items():
        found.setdefault(scale, {}).setdefault(codec_name, {})[wanted] = {
            "ratio": geometric_mean(of["ratio"]),
            "median": float(np.median(of["ratio"])),
            "worst": min(of["ratio"]),
            "speed": geometric_mean(of["speed"]),
        }
        print(scale, codec_name, wanted, found[scale][codec_name][wanted])
    save("safeguards", {"shares": found, "signs": beside})


if __name__ == "__main__":
    main()
