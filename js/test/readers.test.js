// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// h5wasm, jsfive and zarrita read what h5lossy has compressed, once they have been told how.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import * as h5wasm from "h5wasm/node";
import { File, Filters } from "jsfive";
import * as zarr from "zarrita";
import { registerH5wasm } from "../h5wasm.js";
import { decode, decodeBytes, FrameError, inspect, registerJsfive, registerZarrita } from "../index.js";

const golden = new URL("../../tests/golden/", import.meta.url);
const read = (name) => new Uint8Array(readFileSync(new URL(name, golden)));
const parsed = (name) => JSON.parse(readFileSync(new URL(name, golden), "utf8"));
const text = (value) => new TextEncoder().encode(JSON.stringify(value));

registerJsfive(Filters);
registerZarrita(zarr.registry);

test("h5wasm reads the files of ever", async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "h5lossy-"));
  context.after(() => rmSync(folder, { recursive: true }));
  registerH5wasm(await h5wasm.ready, folder);
  const path = join(folder, "x.h5");
  for (const name of readdirSync(new URL("files/v1", golden)).filter((name) => name.endsWith(".json"))) {
    const { holds } = parsed(`files/v1/${name}`);
    copyFileSync(new URL(`files/v1/${name.replace(".json", ".h5")}`, golden), path);
    const file = new h5wasm.File(path, "r");
    const { value } = file.get("x");
    assert.equal(createHash("sha256").update(value).digest("hex"), holds.values_sha256, name);
    file.close();
  }
});

test("h5wasm throws where a chunk is damaged, if it is told to", async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "h5lossy-"));
  context.after(() => rmSync(folder, { recursive: true }));
  const module = await h5wasm.ready;
  registerH5wasm(module, folder);
  const bytes = readFileSync(new URL("files/v1/aatrox.h5", golden));
  bytes[bytes.indexOf("H5LY") + 40] ^= 1;
  writeFileSync(join(folder, "x.h5"), bytes);
  const file = new h5wasm.File(join(folder, "x.h5"), "r");
  module.activate_throwing_error_handler();
  context.after(() => module.deactivate_throwing_error_handler());
  assert.throws(() => file.get("x").value, /filter returned failure/);
});

test("jsfive reads the files of ever", () => {
  const ARRAYS = { i4: Int32Array, u2: Uint16Array, f4: Float32Array, f8: Float64Array };
  let count = 0;
  for (const name of readdirSync(new URL("files/v1", golden)).filter((name) => name.endsWith(".json"))) {
    const { made_of: made, holds } = parsed(`files/v1/${name}`);
    // jsfive reads chunks in a B-tree of the oldest format, and has neither fill values nor bits of NaN.
    if (made.libver !== undefined || made.written !== undefined || made.values[0].piece === "spoilt") continue;
    const file = new File(read(`files/v1/${name.replace(".json", ".h5")}`).buffer);
    const values = ARRAYS[made.dtype.slice(1)].from(file.get("x").value);
    assert.equal(createHash("sha256").update(values).digest("hex"), holds.values_sha256, name);
    ++count;
  }
  assert(count > 10);
});

test("jsfive takes no more memory than a chunk has", () => {
  const filter = Filters.get(46412);
  const frame = read("v1/pfpl-absolute-f4.frame");
  const { bytes } = inspect(frame);
  const words = [1, 0, 0, 0, 0, 0x01000401, bytes / 4];
  assert.deepEqual(new Uint8Array(filter(frame.buffer, 4, words)), decodeBytes(frame));
  words[6] -= 1;
  assert.throws(() => filter(frame.buffer, 4, words), { name: "FrameError", message: /35568 bytes.*35564/ });
  // Without its shape.
  assert.deepEqual(new Uint8Array(filter(frame.buffer, 4, [1, 0, 0, 0])), decodeBytes(frame));
  // The numbers of a complex one are an axis.
  const pairs = read("v1/aatrox-complex-c8-absolute.frame");
  const complex = [3, 0, 0, 0, 0, 0x02005401, inspect(pairs).count, 2];
  assert.deepEqual(new Uint8Array(filter(pairs.buffer, 8, complex)), decodeBytes(pairs));
});

/** An array of one chunk, as zarrita reads it. */
async function readZarr(files) {
  const store = new Map(Object.entries(files));
  return zarr.get(await zarr.open(store, { kind: "array" }));
}

function formatThree(dataType, shape, frame, codec = "h5lossy") {
  return {
    "/zarr.json": text({
      zarr_format: 3,
      node_type: "array",
      shape,
      data_type: dataType,
      chunk_grid: { name: "regular", configuration: { chunk_shape: shape } },
      chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
      fill_value: 0,
      codecs: codec === "h5lossy" ? [{ name: codec, configuration: {} }]
        : [{ name: "bytes", configuration: { endian: "little" } }, { name: codec, configuration: {} }],
      attributes: {},
    }),
    [`/c/${shape.map(() => 0).join("/")}`]: frame,
  };
}

test("zarrita reads format 3", async () => {
  for (const [name, dataType] of [
    ["pfpl-absolute-f4", "float32"],
    ["interp-range-f8", "float64"],
    ["pfpl-integers-i64-absolute", "int64"],
    ["pfpl-integers-u8-absolute", "uint8"],
  ]) {
    const frame = read(`v1/${name}.frame`);
    const { count } = inspect(frame);
    for (const codec of ["h5lossy", "numcodecs.h5lossy"]) {
      const { data, shape, stride } = await readZarr(formatThree(dataType, [2, count / 2], frame, codec));
      assert.deepEqual(data, decode(frame));
      assert.deepEqual([shape, stride], [[2, count / 2], [count / 2, 1]]);
    }
  }
});

test("zarrita reads format 2, and what kerchunk makes of HDF5", async () => {
  const frame = read("v1/pfpl-absolute-f4.frame");
  const { count } = inspect(frame);
  const codec = { id: "h5lossy", codec: "PFPL", absolute: 0.01 };
  for (const codecs of [{ compressor: codec, filters: null }, { compressor: null, filters: [codec] }]) {
    const array = { zarr_format: 2, shape: [count], chunks: [count], dtype: "<f4", fill_value: 0, order: "C", ...codecs };
    const { data } = await readZarr({ "/.zarray": text(array), "/0": frame });
    assert.deepEqual(data, decode(frame));
  }

  const big = read("v1/pfpl-integers-big-endian.frame"); // whose bytes are in the order that the array's type says
  const array = { zarr_format: 2, shape: [3000], chunks: [3000], dtype: ">u2", fill_value: 0, order: "C", filters: null };
  const { data } = await readZarr({ "/.zarray": text({ ...array, compressor: codec }), "/0": big });
  assert.deepEqual(data, decode(big));
});

test("zarrita takes no chunks of other arrays", async () => {
  const frame = read("v1/pfpl-absolute-f4.frame");
  const { count } = inspect(frame);
  const cause = (message) => (error) => error.cause instanceof FrameError && message.test(error.cause.message);
  for (const codec of ["h5lossy", "numcodecs.h5lossy"]) {
    await assert.rejects(readZarr(formatThree("float32", [count - 1], frame, codec)), cause(/35568 bytes.*35564/));
    await assert.rejects(readZarr(formatThree("int32", [count], frame, codec)), cause(/type f4.*of i4/));
  }
  await assert.rejects(readZarr(formatThree("bool", [count], frame)), /got bool/);
});
