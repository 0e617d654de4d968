// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The checksum on a CPU. Compiled once for each backend.

#include "codecs/checksum.h"

namespace h5lossy::H5L_TARGET {
namespace {

u32 checksum_of(const u8* bytes, u32 size, u32 tile, u32 first_word) { return checksum(bytes, size, tile, first_word); }

}  // namespace

extern const ChecksumFunction checksum_function;
const ChecksumFunction checksum_function = checksum_of;

}  // namespace h5lossy::H5L_TARGET
