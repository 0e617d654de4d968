// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The functions of h5lossy_decode.h for JavaScript, and what teaches jsfive and zarrita to read with them.

import decoder from "./decoder.js";

/** The filter's number in HDF5. */
export const FILTER_ID = 46412;

// By their numbers in h5lossy_decode.h. The letters of classes are NumPy's, but for that of bfloat16.
const CODECS = ["stored", "PFPL", "cuSZp2", "AATROX", "Interp"];
const BOUNDS = ["absolute", "pointwise_relative", "range_relative", "lossless", "noise"];
const LETTERS = ["f", "u", "i", "f", "bf", "c"];
const ORDERS = ["stored", "little", "big"];
const OUT_OF_MEMORY = 6;
const INFO_BYTES = 64;

const ARRAYS = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  u8: BigUint64Array,
  i1: Int8Array,
  i2: Int16Array,
  i4: Int32Array,
  i8: BigInt64Array,
  f2: globalThis.Float16Array,
  f4: Float32Array,
  f8: Float64Array,
  c8: Float32Array,
  c16: Float64Array,
};

/** Says what is wrong with a frame. */
export class FrameError extends Error {
  name = "FrameError";
}

/** Checks the header of a frame, and says what the frame is. */
export function inspect(frame) {
  const { type, order, ...info } = withFrame(frame, inspected);
  return { dtype: type === undefined ? undefined : order + type, ...info };
}

/** Checks and decodes a frame: to a typed array of its values. */
export function decode(frame) {
  const { type, values } = decoded(frame, { order: "little" });
  if (type === "f2") return Float32Array.from(new Uint16Array(values.buffer), half);
  if (type === "bf2") {
    return new Float32Array(Uint32Array.from(new Uint16Array(values.buffer), (bits) => bits << 16).buffer);
  }
  return new ARRAYS[type ?? "u1"](values.buffer);
}

/** Checks and decodes a frame: to the bytes of its values. */
export function decodeBytes(frame, order = "stored") {
  return decoded(frame, { order }).values;
}

/** Has jsfive read datasets of h5lossy. */
export function registerJsfive(filters) {
  filters.set(
    FILTER_ID,
    (chunk, itemBytes, words) => decoded(chunk, { bytes: chunkBytes(words, itemBytes) }).values.buffer,
  );
}

/** Has zarrita read arrays of h5lossy. */
export function registerZarrita(registry) {
  registry.set("h5lossy", () => ZarrSerializer);
  registry.set("numcodecs.h5lossy", () => ZarrCompressor);
}

/** Of Zarr format 3. */
class ZarrSerializer {
  kind = "array_to_bytes";

  constructor({ dataType, shape }) {
    this.shape = shape;
    this.stride = shape.map((_, axis) => product(shape.slice(axis + 1)));
    this.type = zarrType(dataType);
    this.bytes = product(shape) * itemBytesOf(this.type);
  }

  static fromConfig(_, array) {
    return new ZarrSerializer(array);
  }

  decode(frame) {
    const { values } = decoded(frame, { order: "little", type: this.type, bytes: this.bytes });
    return { data: new ARRAYS[this.type](values.buffer), shape: this.shape, stride: this.stride };
  }

  encode() {
    throw new Error("h5lossy for JavaScript reads, and does not write");
  }
}

/** Of Zarr format 2, and of HDF5 files that are read as Zarr. */
class ZarrCompressor {
  kind = "bytes_to_bytes";

  constructor({ dataType, shape }) {
    this.type = zarrType(dataType);
    this.bytes = product(shape) * itemBytesOf(this.type);
  }

  static fromConfig(_, array) {
    return new ZarrCompressor(array);
  }

  decode(frame) {
    return decoded(frame, { type: this.type, bytes: this.bytes }).values;
  }

  encode = ZarrSerializer.prototype.encode;
}

/** Turns "float32" into "f4". */
function zarrType(dataType) {
  const [, name, bits] = /^(uint|int|float)(\d+)$/.exec(dataType) ?? [];
  const type = name && name[0] + bits / 8;
  if (ARRAYS[type] === undefined) {
    throw new TypeError(`h5lossy reads arrays of integers and floats that JavaScript has, got ${dataType}`);
  }
  return type;
}

function itemBytesOf(type) {
  return Number(/\d+/.exec(type));
}

function product(extents) {
  return extents.reduce((size, extent) => size * extent, 1);
}

/** Takes the size of a chunk from the filter's parameters in the file, cd_values; undefined if they do not tell it. */
function chunkBytes(words, itemBytes) {
  const layout = words?.[5] ?? 0;
  if (layout === 0) return undefined;
  const isComplex = LETTERS[(layout >>> 12) & 7] === "c"; // its two numbers are an axis
  return product(Array.from(words).slice(6, 6 + (layout >>> 24))) * (isComplex ? itemBytes / 2 : itemBytes);
}

/** Turns the bits of a float16 into a number. */
function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15));
}

/**
 * Decodes a frame. With `type` and `bytes`, it must hold values of this type, if it tells theirs, and this many bytes of
 * them: no more memory is taken then.
 */
function decoded(frame, { order = "stored", type, bytes }) {
  if (!ORDERS.includes(order)) throw new TypeError(`the order is one of ${ORDERS.join(", ")}, got ${order}`);
  return withFrame(frame, (library, address, size, take) => {
    const info = inspected(library, address, size, take);
    if (bytes !== undefined && info.bytes !== bytes) {
      throw new FrameError(`the frame holds ${info.bytes} bytes of values, and a chunk has ${bytes}`);
    }
    if (type !== undefined && info.type !== undefined && info.type !== type) {
      throw new FrameError(`the frame holds values of type ${info.type}, and the array is of ${type}`);
    }
    const values = take(info.bytes);
    check(library, library.h5ld_decode(address, size, ORDERS.indexOf(order), values, info.bytes));
    return { type: info.type, values: new Uint8Array(library.memory.buffer).slice(values, values + info.bytes) };
  });
}

function inspected(library, address, size, take) {
  const place = take(INFO_BYTES);
  check(library, library.h5ld_inspect(address, size, place));
  const view = new DataView(library.memory.buffer, place, INFO_BYTES);
  const word = (at) => view.getUint32(at, true);
  const valueClass = word(32);
  const valueBytes = word(36);
  const isTyped = !(valueClass === 0 && valueBytes === 1);
  return {
    type: isTyped ? LETTERS[valueClass] + (LETTERS[valueClass] === "c" ? 2 * valueBytes : valueBytes) : undefined,
    order: valueBytes === 1 ? "|" : word(40) ? ">" : "<",
    count: Number(view.getBigUint64(0, true)),
    bytes: Number(view.getBigUint64(8, true)),
    codec: CODECS[word(28)],
    boundKind: BOUNDS[word(24)],
    bound: view.getFloat64(16, true),
    dims: Array.from({ length: word(44) }, (_, axis) => word(48 + 4 * axis)),
  };
}

let module;
let instance;

/**
 * Calls `use` with the exports of h5lossy_decode.wasm, address and size of a copy of the frame, and a function that takes
 * more memory, which is there until the call has ended.
 */
function withFrame(frame, use) {
  if (!(frame instanceof ArrayBuffer || ArrayBuffer.isView(frame))) {
    throw new TypeError(`a frame is an ArrayBuffer or a view of one, such as a Uint8Array, got ${typeof frame}`);
  }
  const bytes = new Uint8Array(frame.buffer ?? frame, frame.byteOffset ?? 0, frame.byteLength);
  module ??= new WebAssembly.Module(Uint8Array.from(atob(decoder), (letter) => letter.charCodeAt(0)));
  instance ??= new WebAssembly.Instance(module);
  const library = instance.exports;
  const taken = [];
  const take = (size) => {
    const address = size < 2 ** 32 ? library.malloc(size || 1) >>> 0 : 0;
    if (address === 0) check(library, OUT_OF_MEMORY);
    taken.push(address);
    return address;
  };
  try {
    const address = take(bytes.length);
    new Uint8Array(library.memory.buffer).set(bytes, address);
    return use(library, address, bytes.length, take);
  } finally {
    taken.forEach((address) => library.free(address));
    // Memory of WebAssembly never shrinks.
    if (library.memory.buffer.byteLength > 2 ** 26) instance = undefined;
  }
}

/** Throws what a status means, unless it is H5LD_OK. */
function check(library, status) {
  if (status === 0) return;
  const bytes = new Uint8Array(library.memory.buffer);
  const start = library.h5ld_status_text(status);
  throw new FrameError(new TextDecoder().decode(bytes.subarray(start, bytes.indexOf(0, start))));
}
