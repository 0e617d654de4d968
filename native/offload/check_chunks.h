// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The chunks with which kernels are checked (kernel_check.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "h5lossy.h"

namespace h5lossy {

// How a check's values are made: as codecs meet them in practice, and as they are hard for them.
enum class Field : std::uint32_t {
  smooth,     // waves
  layered,    // waves that differ in size from axis to axis
  noisy,      // waves with noise of some bins
  rough,      // a walk, some of whose steps are large
  masked,     // waves with regions of the fill value, and with NaN, infinities, zeros of both signs and subnormals
  packed,     // decimals with an offset: multiples of a step of their own
  sparse,     // zeros, nearly all, and then any bits, which codecs store
  arbitrary,  // any bits
};
inline constexpr std::uint32_t kFields = 8;

// Sets type, fill value, bound and shape of a request whose codec, mode and kind of bound are set: some tiles of every
// codec, the last ones cut off.
void set_check_type(h5l_params& params, std::uint32_t value_class, std::uint32_t value_bytes, std::uint32_t rank);

std::size_t count_check_values(const h5l_params& params);

// The values of a chunk for such a request, in its byte order.
std::vector<std::uint8_t> make_check_chunk(const h5l_params& params, Field field);

}  // namespace h5lossy
