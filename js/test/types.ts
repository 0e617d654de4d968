// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

import { decode, decodeBytes, FILTER_ID, FrameError, inspect, registerJsfive, registerZarrita } from "../index.js";
import { registerH5wasm } from "../h5wasm.js";
import * as h5wasm from "h5wasm/node";
import { registry } from "zarrita";

registerZarrita(registry);
registerH5wasm(await h5wasm.ready, "/tmp/plugins");
registerJsfive(new Map<number, (chunk: ArrayBuffer, itemBytes: number, words: number[]) => ArrayBuffer>());

const frame = new Uint8Array(100);
try {
  const { dtype, bytes, dims } = inspect(frame);
  const values = decode(frame.buffer);
  if (values instanceof Float64Array && dtype === "<f8") console.log(values[0].toFixed(2), bytes / dims[0], FILTER_ID);
  const raw: Uint8Array = decodeBytes(frame, "big");
  console.log(raw);
} catch (error) {
  if (error instanceof FrameError) console.log(error.message);
}

// @ts-expect-error: numbers are no bytes
decode([1, 2, 3]);
// @ts-expect-error: there is no such order
decodeBytes(frame, "middle");
