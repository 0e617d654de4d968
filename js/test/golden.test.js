// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// All golden frames come out as they always did, in Node.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { gzipSync } from "node:zlib";
import decoder from "../decoder.js";
import { decode, decodeBytes, FrameError, inspect } from "../index.js";
import { checkFrame, damages } from "./frames.js";

const golden = new URL("../../tests/golden/v1/", import.meta.url);
const read = (name) => new Uint8Array(readFileSync(new URL(name, golden)));

const wasm = Buffer.from(decoder, "base64");

test("the decoder is small, and needs nothing", () => {
  assert(gzipSync(wasm, { level: 9 }).length <= 100 * 1024);
  assert.deepEqual(WebAssembly.Module.imports(new WebAssembly.Module(wasm)), []);
});

test("golden frames", async () => {
  const names = readdirSync(golden).filter((name) => name.endsWith(".frame"));
  assert(names.length > 200);
  for (const name of names) {
    const { holds } = JSON.parse(readFileSync(new URL(name.replace(".frame", ".json"), golden), "utf8"));
    await checkFrame(read(name), holds.decoded_sha256).catch((error) => assert.fail(`${name}: ${error.message}`));
  }
});

test("values have their type", () => {
  assert.deepEqual(inspect(read("pfpl-absolute-f4.frame")), {
    dtype: "<f4",
    count: 8892,
    bytes: 35568,
    codec: "PFPL",
    boundKind: "absolute",
    bound: 0.01,
    dims: [],
  });
  assert(decode(read("pfpl-absolute-f4.frame")) instanceof Float32Array);
  assert(decode(read("pfpl-integers-i64-absolute.frame")) instanceof BigInt64Array);
  assert(decode(read("aatrox-complex-c8-absolute.frame")) instanceof Float32Array);
});

test("halves are the floats that they mean", () => {
  // From the definition of the types: what is the bits' value, in powers of 2?
  for (const [name, exponentBits] of [["pfpl-halves-f16-special", 5], ["pfpl-halves-bf16-special", 8]]) {
    const frame = read(`${name}.frame`);
    const bits = new Uint16Array(decodeBytes(frame, "little").buffer);
    const fractionBits = 15 - exponentBits;
    const bias = 2 ** (exponentBits - 1) - 1;
    decode(frame).forEach((value, i) => {
      const exponent = (bits[i] >> fractionBits) & (2 ** exponentBits - 1);
      const fraction = bits[i] & (2 ** fractionBits - 1);
      const [whole, power] = exponent === 0 ? [fraction, 1] : [fraction + 2 ** fractionBits, exponent];
      const sign = bits[i] >> 15 ? -1 : 1;
      const expected = exponent === 2 ** exponentBits - 1 ? (fraction ? NaN : sign * Infinity)
        : sign * whole * 2 ** (power - bias - fractionBits);
      assert(Object.is(value, expected), `${bits[i]}: ${value}`);
    });
  }
});

test("a frame may be anything that holds bytes", () => {
  const frame = read("pfpl-absolute-f4.frame");
  const shifted = new Uint8Array(frame.length + 3);
  shifted.set(frame, 3);
  const expected = decode(frame);
  assert.deepEqual(decode(shifted.subarray(3)), expected);
  assert.deepEqual(decode(new DataView(shifted.buffer, 3)), expected);
  assert.deepEqual(decode(shifted.slice(3).buffer), expected);
});

test("errors say what was given", () => {
  assert.throws(() => decode([1, 2, 3]), { name: "TypeError", message: /ArrayBuffer.*got object/ });
  assert.throws(() => decodeBytes(new Uint8Array(9), "middle"), { name: "TypeError", message: /little.*got middle/ });
  assert.throws(() => decode(new Uint8Array(100)), { name: "FrameError", message: /not a frame of h5lossy/ });
  assert.throws(() => inspect(new Uint8Array(0)), FrameError);
});

test("damaged frames take no memory for good", () => {
  const { exports: library } = new WebAssembly.Instance(new WebAssembly.Module(wasm));
  library._initialize();
  const frame = read("interp-range-f8.frame");
  const address = library.malloc(frame.length);
  const roomBytes = 1 << 20;
  const room = library.malloc(roomBytes);
  const decodeAll = () => {
    const accepted = [...damages(frame), frame].filter((damaged) => {
      new Uint8Array(library.memory.buffer).set(damaged, address);
      return library.h5ld_decode(address, damaged.length, 0, room, roomBytes) === 0;
    });
    assert.deepEqual(accepted, [frame]);
    return library.memory.buffer.byteLength;
  };
  const bytes = decodeAll();
  for (let i = 0; i < 100; ++i) assert.equal(decodeAll(), bytes);
});
