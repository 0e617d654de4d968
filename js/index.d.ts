// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

/** The filter's number in HDF5. */
export const FILTER_ID: 46412;

/** Says what is wrong with a frame: it is damaged, or none, or made by a newer version, or not of the size that is wanted. */
export class FrameError extends Error {}

/** The bytes of a chunk, as they are in the file. */
export type Frame = ArrayBuffer | ArrayBufferView;

/** What a frame is. */
export interface FrameInfo {
  /** The type in NumPy's words, as "<f4"; "<bf2" is bfloat16. Undefined if the encoder did not know it. */
  dtype: string | undefined;
  /** How many values; a complex number is one. */
  count: number;
  /** How many bytes they take. */
  bytes: number;
  codec: "stored" | "PFPL" | "cuSZp2" | "AATROX" | "Interp";
  boundKind: "absolute" | "pointwise_relative" | "range_relative" | "lossless" | "noise";
  /** As requested; 0 if lossless. */
  bound: number;
  /** (w,) z, y, x: the shape of the chunk, the first of more axes multiplied into one. Empty if the codec has no use for it. */
  dims: number[];
}

export type Values =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

/**
 * Checks the header of a frame, and says what the frame is.
 *
 * @throws {FrameError} if it is none.
 */
export function inspect(frame: Frame): FrameInfo;

/**
 * Checks and decodes a frame.
 *
 * @returns The values, in an array of their type. float16 and bfloat16 come as Float32Array, complex numbers as pairs of real
 *   and imaginary part, and values of a type that the encoder did not know as bytes.
 * @throws {FrameError} if it is none, or damaged.
 */
export function decode(frame: Frame): Values;

/**
 * Checks and decodes a frame to bytes.
 *
 * @param order Byte order of the values: that of the dataset ("stored", the default), "little" or "big".
 * @throws {FrameError} if it is none, or damaged.
 */
export function decodeBytes(frame: Frame, order?: "stored" | "little" | "big"): Uint8Array;

/** Has jsfive read datasets that h5lossy has compressed: `registerJsfive(Filters)` with jsfive's `Filters`. */
export function registerJsfive(filters: { set(id: number, filter: (...args: any[]) => ArrayBuffer): unknown }): void;

/** Has zarrita read arrays that h5lossy has compressed: `registerZarrita(registry)` with zarrita's `registry`. */
export function registerZarrita(registry: { set(name: string, codec: () => any): unknown }): void;
