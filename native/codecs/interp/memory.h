// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The memory in which Interp's encoder codes a tile in one form after another.
#pragma once

#include "codecs/interp/choice.h"
#include "codecs/interp/coding.h"
#include "codecs/interp/exceptions.h"
#include "codecs/interp/labels.h"
#include "codecs/interp/masks.h"
#include "codecs/interp/patches.h"
#include "codecs/interp/prediction.h"

namespace h5lossy::H5L_TARGET::interp {

// A tile in one form, before it is written.
template <class T>
struct Coded {
  Form form;
  bool is_narrow = false;
  i64 base = 0;
  bool has_exceptions = false;
  u32 patch_entries = 0;
  u32 codes = 0;  // number of codes
  Coding coding;
};

// The encoder's arrays for a form. Results found after the prediction reuse the predictor's scratch memory, and the
// coder works in the memory of the integers.
template <class I>
struct Arrays {
  static constexpr u32 kRowsBytes = sizeof(I) * kLorenzoScratch;
  struct Additions {
    Patch patches[kMaxPatches];
    u32 others[kMaxMaskWords];
  };

  I integers[kTileValues + kSpareCodes];
  I codes[sizeof(I) == 4 ? 2 : 1][kTileValues + kSpareCodes];
  union {
    alignas(64) u8 prediction[kInterpolationBytes<I> > kRowsBytes ? kInterpolationBytes<I> : kRowsBytes];
    Additions additions;
  };
  u8* coder_scratch() { return reinterpret_cast<u8*>(integers); }
  static_assert(sizeof(integers) >= kWriteScratchBytes && sizeof(integers) >= kShortenBytes &&
                sizeof(integers) >= kMaskScratchBytes && sizeof(integers) >= kLabelsScratchBytes);
};

// The encoder's workspace for a tile.
template <class T>
struct Memory {
  i32 positions[kTileValues + kSpareCodes];
  u32 mask[kMaxMaskWords];
  u32 measured[kMaxMaskWords];  // the mask whose section was measured last
  MaskDecisions decisions;      // of that section
  Coded<T> coded[2];            // the form being tried, and the best so far; for 32-bit codes
  Patch patches[kMaxPatches];   // of the best form, as is its mask
  u32 best_mask[kMaxMaskWords];
  T numbers[kTileValues];  // of the points of an own lattice
  union {
    Arrays<i32> narrow;
    Arrays<Int<T>> wide;
  };
};

}  // namespace h5lossy::H5L_TARGET::interp
