# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Make ``native/runtime/device_speeds.def``, by which ``H5LOSSY_DEVICE=auto`` chooses.

    python benchmarks/device_speeds.py

measures the GPU, and the CPU with each backend that it can run. A backend that this machine cannot
run keeps its lines; the GPU's speed is replaced in all lines.
"""

from __future__ import annotations

import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import h5lossy
from h5lossy._device_speeds import measure

TABLE = Path(__file__).parent.parent / "native" / "runtime" / "device_speeds.def"
LINE = re.compile(r"H5L_DEVICE_SPEED\((\w+), (\w+), (\w+), ([\d.]+), ([\d.]+)\)")
HEAD = """\
// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// GB/s of float32 in chunks of 1 MiB, one after the other: on a core with a backend's instructions,
// and on a GPU with the copies there and back. Made by `python benchmarks/device_speeds.py`.
//
"""


def cpu_name() -> str:
    """Return what the processor is called."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    """Measure, and write the table."""
    config = h5lossy.get_config()
    assert config.devices, "this machine has no GPU"
    assert not config.devices[0].problem, config.devices[0].problem
    on_gpu = measure("gpu")
    speeds = {
        match.group(1, 2, 3): float(match[4]) for match in LINE.finditer(TABLE.read_text("utf-8"))
    }
    here = [name for name, is_usable in config.backends.items() if is_usable]
    for backend in here:
        for codec, directions in measure("cpu", backend).items():
            for direction, speed in directions.items():
                speeds[codec, direction, backend] = speed
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    text = HEAD + (
        f"// {datetime.now(UTC):%Y-%m-%d}, commit {commit}: {config.devices[0].name}; "
        f"{cpu_name()} ({', '.join(here)})\n"
    )
    for (codec, direction, backend), speed in speeds.items():
        if (codec, direction) != ("auto", "decode"):  # frames name the codec that was used
            gpu = on_gpu[codec][direction]
            text += f"H5L_DEVICE_SPEED({codec}, {direction}, {backend}, {speed:.1f}, {gpu:.1f})\n"
    TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
