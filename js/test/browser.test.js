// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// All golden frames come out as they always did, in Chromium.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import test from "node:test";
import { options, run } from "./chromium.js";

const SCRIPT = `
  const { checkFrame } = await import("/js/test/frames.js");
  const names = await (await fetch("/names.json")).json();
  for (const name of names) {
    const frame = await (await fetch("/tests/golden/v1/" + name + ".frame")).arrayBuffer();
    const { holds } = await (await fetch("/tests/golden/v1/" + name + ".json")).json();
    try {
      await checkFrame(new Uint8Array(frame), holds.decoded_sha256);
    } catch (error) {
      await send({ error: name + ": " + error.message });
    }
  }
  await send({ checked: names.length });
`;

test("golden frames in Chromium", options, async (context) => {
  const names = readdirSync(new URL("../../tests/golden/v1/", import.meta.url))
    .filter((name) => name.endsWith(".frame"))
    .map((name) => name.replace(".frame", ""));
  assert(names.length > 200);
  const found = await run(context, SCRIPT, { "/names.json": JSON.stringify(names) });
  assert.deepEqual(found, { checked: names.length });
});
