// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Masks in coding order (prediction.h). Compiled once for each backend.

#include "codecs/blocks.h"
#include "codecs/interp/prediction.h"
#include "codecs/interp/walk.h"

namespace h5lossy::H5L_TARGET::interp {

// Bits 0, 2, 4, …
static u32 every_second(u32 bits) {
  bits &= 0x55555555;
  bits = (bits | bits >> 1) & 0x33333333;
  bits = (bits | bits >> 2) & 0x0F0F0F0F;
  bits = (bits | bits >> 4) & 0x00FF00FF;
  return (bits | bits >> 8) & 0xFFFF;
}

// Bits in a row.
class BitRow {
 public:
  explicit BitRow(u32* to) : to_(to) {}
  void put(u64 bits, u32 count) {
    bits_ |= bits << found_;
    found_ += count;
    if (found_ < 32) return;
    *to_++ = static_cast<u32>(bits_);
    bits_ >>= 32;
    found_ -= 32;
  }
  void finish() {
    if (found_ != 0) *to_ = static_cast<u32>(bits_);
  }

 private:
  u32* to_;
  u64 bits_ = 0;
  u32 found_ = 0;
};

#if defined(H5L_DECODE_ONLY)
[[gnu::cold]]  // for small code
#endif
void order_mask(const Shape& shape, bool is_lorenzo, const u32* mask, u32* ordered) {
  BitRow bits(ordered);
  const u32 length = shape.extents[3];
  if (kEncodes && is_lorenzo && (shape.extents[1] > 1 || shape.extents[2] > 1)) {
    const u32 width = shape.extents[1] > 1 ? 4 : 8;
    for_row_groups(shape, [&](const RowGroup& group) {
      for (u32 x = 0; x < length; x += width) {
        const u32 count = length - x < width ? length - x : width;
        for (u32 k = 0; k < group.count; ++k) bits.put(mask_bits(mask, group.positions[k] + x, count), count);
      }
    });
    return bits.finish();
  }
  for_coded(shape, is_lorenzo, [&](u32 first, u32 step, u32 left) {
    // Values within 32 positions are taken together, unless small code counts. Steps are powers of two, and 0 where
    // there is one value.
    const u32 most = !kEncodes || step == 0 || step > 16 ? 1 : 32 / step;
    while (left != 0) {
      const u32 count = left < most ? left : most;
      u64 some = mask_bits(mask, first, (count - 1) * step + 1);
      for (u32 s = most; s > 1 && s < 32; s *= 2) some = every_second(static_cast<u32>(some));
      bits.put(some, count);
      left -= count;
      first += count * step;
    }
  });
  bits.finish();
}

}  // namespace h5lossy::H5L_TARGET::interp
