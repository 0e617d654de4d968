// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A tile's codes (i32 or i64): how to plan, write and read them. They are padded with zeros to whole blocks, and all
// arithmetic on them wraps around.
#pragma once

#include "codecs/interp/coding.h"
#include "codecs/interp/units.h"

namespace h5lossy::H5L_TARGET::interp {

// Chooses classes, a set of tables and a model, and computes what follows from them.
template <class I>
void plan_coding(const I* codes, u32 count, Coding& plan);

// Switches to the cheapest path of classes if that lowers the total cost, and then to a table of the tile's own.
// `scratch` has kShortenBytes.
template <class I>
void shorten_coding(const I* codes, u32 count, Coding& plan, u8* scratch);

// Writes states, words, escapes and raw planes to `out`, which has room_of(plan) bytes; `scratch` has
// kWriteScratchBytes. Returns the number of bytes.
template <class I>
u32 write_codes(const I* codes, u32 count, const Coding& plan, u8* out, u8* scratch);

// What the decoder stores for a tile: classes, and the tables that it builds (OwnReading in tile_codes.cpp).
struct ReadScratch {
  u8 classes[kMaxBlocks];
  alignas(64) u8 own[(kEncodes ? 1 : kSymbolTables) * kFrequencySum * 4 + 512];
};

// Reads `count` codes that write_codes has written; `in` has `bytes` bytes. steps[i] is code i times the unit, and 0
// from `count` up to a multiple of 32. Returns false if the bytes are corrupt.
template <class I>
bool read_codes(const Head& head, const Units& units, const u8* in, u32 bytes, u32 count, I* steps,
                ReadScratch& scratch);

}  // namespace h5lossy::H5L_TARGET::interp
