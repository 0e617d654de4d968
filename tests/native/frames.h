// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API on vectors, for tests in which a call has to succeed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "check.h"
#include "h5lossy.h"

namespace h5lossy::test {

using Bytes = std::vector<std::uint8_t>;

inline h5l_params make_params(std::uint32_t kind, double bound, std::uint32_t value_bytes) {
  h5l_params params = {};
  params.codec = H5L_CODEC_PFPL;
  params.bound_kind = kind;
  params.bound = bound;
  params.value_bytes = value_bytes;
  return params;
}

inline Bytes encode(const h5l_params& params, std::span<const std::uint8_t> raw) {
  Bytes frame(h5l_max_encoded_size(raw.size()));
  std::size_t frame_bytes = 0;
  h5l_message message;
  const h5l_status status =
      h5l_encode(&params, raw.data(), raw.size(), frame.data(), frame.size(), &frame_bytes, &message);
  CHECK(status == H5L_OK, "%s", message.text);
  CHECK(frame_bytes <= frame.size(), "%zu bytes became %zu", raw.size(), frame_bytes);
  frame.resize(frame_bytes);
  return frame;
}

inline h5l_frame_info inspect(std::span<const std::uint8_t> frame) {
  h5l_frame_info info;
  h5l_message message;
  const h5l_status status = h5l_inspect(frame.data(), frame.size(), &info, &message);
  CHECK(status == H5L_OK, "%s", message.text);
  return info;
}

inline Bytes decode(std::span<const std::uint8_t> frame) {
  Bytes raw(inspect(frame).raw_bytes);
  h5l_message message;
  const h5l_status status = h5l_decode(frame.data(), frame.size(), raw.data(), raw.size(), &message);
  CHECK(status == H5L_OK, "%s", message.text);
  return raw;
}

// Where the payload begins: behind the header and the tile table.
inline std::size_t payload_begin(std::span<const std::uint8_t> frame) {
  const h5l_frame_info info = inspect(frame);
  return info.header_bytes + 4 * static_cast<std::size_t>(info.tiles);
}

}  // namespace h5lossy::test
