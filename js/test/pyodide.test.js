// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// All golden frames come out as they always did, in Python in Pyodide: the wheel that pyodide/README.md builds.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { loadPyodide } from "pyodide";
import { damages } from "./frames.js";

const golden = new URL("../../tests/golden/v1/", import.meta.url);
const wheels = new URL("../../build/pyodide/", import.meta.url);

const CHECK = `
import hashlib
import json
import re

from h5lossy_decode import FrameError, decode, inspect


def is_refused(frame):
    try:
        decode(frame)
    except FrameError:
        return True
    return False


def check_frame(frame, damaged, about):
    # Returns how many of the damaged ones are decoded though they must not be.
    frame = frame.to_bytes()
    values = decode(memoryview(frame))
    assert hashlib.sha256(values).hexdigest() == json.loads(about)["holds"]["decoded_sha256"]

    info = inspect(frame)
    order, letter, size = re.fullmatch(r"([<>|])(\\D+)(\\d+)", info.dtype or "|u1").groups()
    width = int(size) // (2 if letter == "c" else 1)
    assert info.nbytes == len(values) == info.count * int(size)
    swapped = b"".join(values[i : i + width][::-1] for i in range(0, len(values), width))
    assert decode(frame, "little" if order == ">" else "big") == swapped

    has_checksum = frame[10] & 1  # without one, it may be other values
    return sum(
        not is_refused(cut) and bool(has_checksum or len(cut) < len(frame))
        for cut in (part.to_bytes() for part in damaged)
    )


check_frame
`;

test("golden frames in Pyodide", async () => {
  const python = await loadPyodide();
  const built = readdirSync(wheels).filter((name) => name.endsWith(".whl"));
  assert.equal(built.length, 1);
  python.unpackArchive(new Uint8Array(readFileSync(new URL(built[0], wheels))), "wheel");
  const check = python.runPython(CHECK);
  const names = readdirSync(golden).filter((name) => name.endsWith(".frame"));
  assert(names.length > 200);
  for (const name of names) {
    const frame = new Uint8Array(readFileSync(new URL(name, golden)));
    const about = readFileSync(new URL(name.replace(".frame", ".json"), golden), "utf8");
    const accepted = check(frame, [...damages(frame)], about);
    assert.equal(accepted, 0, name);
  }
});
