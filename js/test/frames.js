// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What has to hold for a golden frame, in Node and in browsers.

import { decode, decodeBytes, FrameError, inspect } from "../index.js";

const DAMAGES = 32;
const { subtle } = globalThis.crypto ?? (await import("node:crypto")).webcrypto; // of Node 18

/** Throws unless the frame is decoded to the values whose digest is given, and refused if it is damaged. */
export async function checkFrame(frame, decodedSha256) {
  const values = decodeBytes(frame);
  const digest = new Uint8Array(await subtle.digest("SHA-256", values));
  const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== decodedSha256) throw new Error("other values");

  const info = inspect(frame);
  if (info.bytes !== values.length) throw new Error("the size is another one");
  const [, order, letter, size] = /^([<>|])(\D+)(\d+)$/.exec(info.dtype ?? "|u1");
  const numbers = (letter === "c" ? 2 : 1) * info.count;
  if (info.count * size !== info.bytes || decode(frame).length !== numbers) throw new Error("the count is another one");
  const swapped = decodeBytes(frame, order === ">" ? "little" : "big");
  const width = info.bytes / numbers;
  for (let i = 0; i < values.length; ++i) {
    if (swapped[i - (i % width) + width - 1 - (i % width)] !== values[i]) throw new Error("not the other byte order");
  }

  for (const damaged of damages(frame)) {
    try {
      decode(damaged);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      continue;
    }
    const hasChecksum = frame[10] & 1; // without one, it may be other values
    if (hasChecksum || damaged.length < frame.length) throw new Error("decoded though it is damaged");
  }
}

/** Frames that are cut short, and with a bit flipped; the same for each run. */
export function* damages(frame) {
  let state = 46412;
  for (let i = 0; i < DAMAGES; ++i) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const at = Math.floor((state / 2 ** 32) * frame.length);
    if (i % 4 === 0) {
      yield frame.slice(0, at);
    } else {
      const flipped = frame.slice();
      flipped[at] ^= 1 << i % 8;
      yield flipped;
    }
  }
}
