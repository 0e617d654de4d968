// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A program in TypeScript that uses all of the package is accepted, and one with mistakes is not.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import test from "node:test";

const compiler = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
const program = fileURLToPath(new URL("types.ts", import.meta.url));

test("types", () => {
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"];
  const { status, stdout } = spawnSync(process.execPath, [compiler, ...options, program], { encoding: "utf8" });
  assert.equal(status, 0, stdout);
});
