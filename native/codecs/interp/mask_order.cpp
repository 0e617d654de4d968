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

// Writes bits one after the other.
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

// Adds the bits of rows, at the places of a list.
class RowTaker {
 public:
  RowTaker(const u32* mask, const List& list)
      : mask_(mask),
        list_(list),
        most_(list.step == 0 || list.step > 16 ? 1 : 32 / list.step),
        regular_(list.last == list.first + (list.count - 1) * list.step ? list.count : list.count - 1) {}

  void take(u32 row, BitRow& bits) const {
    u32 first = row + list_.first;
    const u32 step = list_.step, most = kEncodes ? most_ : 1;  // else small code counts
    for (u32 left = list_.count; left != 0;) {
      const u32 regular = left - (list_.count - regular_);
      if (regular == 0) first = row + list_.last;
      const u32 count = regular == 0 ? 1 : regular < most ? regular : most;
      u64 some = mask_bits(mask_, first, (count - 1) * step + 1);
      for (u32 s = most; s > 1 && s < 32; s *= 2) some = every_second(static_cast<u32>(some));
      bits.put(some, count);
      left -= count;
      first += count * step;
    }
  }

 private:
  const u32* const mask_;
  const List& list_;
  // Values within 32 positions are taken together. Steps are powers of two, and 0 if there is only one value.
  const u32 most_;
  const u32 regular_;  // values at regular steps: all, or all but the last
};

// Adds the bits of `count` rows of `length` bits, each `words` after the previous one, in pieces of `width`.
template <u32 width>
static void take_pieces(const u32* rows, u32 words, u32 count, u32 length, BitRow& bits) {
  constexpr u32 all = (1u << width) - 1, most = 32 / width;
  for (u32 x = 0; x < length; x += width) {
    const u32* const from = rows + x / 32;
    const u32 left = length - x < width ? length - x : width;
    if (kEncodes && left == width && count == most) {
      u32 some = 0;
      for (u32 k = 0; k < most; ++k) some |= (from[k * words] >> x % 32 & all) << k * width;
      bits.put(some, 32);
    } else {
      for (u32 k = 0; k < count; ++k) bits.put(from[k * words] >> x % 32 & ((1u << left) - 1), left);
    }
  }
}

#if defined(H5L_DECODE_ONLY)
[[gnu::cold]]  // for small code
#endif
void order_mask(const Shape& shape, bool is_lorenzo, const u32* mask, u32* ordered) {
  BitRow bits(ordered);
  for_passes(shape, is_lorenzo, [&](const Places& places, const PassGrid& grid) {
    const u32(&counts)[kAxes] = grid.counts;
    const RowTaker row_taker(mask, *grid.lists[3]);
    const bool has_depth = counts[1] > 1, has_rows = has_depth || counts[2] > 1;
    const u32 depth = has_depth ? 2 : 1, height = has_rows ? 4 : 1, words = counts[3] / 32 + 1;
    const bool are_whole = has_rows && counts[3] <= (has_depth ? 4 : 8);  // rows that are not cut into pieces
    u32 rows[kTileValues / 32 + 8];
    for (u32 w = 0; w < counts[0]; ++w) {
      for (u32 z = 0; z < counts[1]; z += depth) {
        for (u32 y = 0; y < counts[2]; y += height) {
          if (!has_rows) {
            row_taker.take(grid.row(places, w, z, y), bits);
            continue;
          }
          if (kEncodes && are_whole) {
            const u32 left = counts[2] - y, adjacent = !is_lorenzo ? 1 : left < height ? left : height;
            for (u32 i = z; i < z + depth && i < counts[1]; ++i) {
              for (u32 j = y; j < y + height && j < counts[2]; j += adjacent) {
                const u32 row = grid.row(places, w, i, j), values = adjacent * counts[3];
                is_lorenzo ? bits.put(mask_bits(mask, row, values), values) : row_taker.take(row, bits);
              }
            }
            continue;
          }
          u32 count = 0;
          for (u32 i = z; i < z + depth && i < counts[1]; ++i) {
            for (u32 j = y; j < y + height && j < counts[2]; ++j) {
              BitRow row(rows + words * count++);
              row_taker.take(grid.row(places, w, i, j), row);
              row.finish();
            }
          }
          has_depth ? take_pieces<4>(rows, words, count, counts[3], bits)
                    : take_pieces<8>(rows, words, count, counts[3], bits);
        }
      }
    }
  });
  bits.finish();
}

}  // namespace h5lossy::H5L_TARGET::interp
