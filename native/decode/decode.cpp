// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API of the library that only decodes.

#include <algorithm>
#include <span>

#include "chunk/decode.h"
#include "chunk/open_frame.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "h5lossy_decode.h"
#include "runtime/float_environment.h"

namespace h5lossy {
namespace {

// Statuses, classes and bounds have the numbers that they have in h5lossy.h.
static_assert(int{H5LD_INVALID_ARGUMENT} == int{H5L_INVALID_ARGUMENT} && int{H5LD_UNSUPPORTED} == int{H5L_UNSUPPORTED});
static_assert(int{H5LD_OUTPUT_TOO_SMALL} == int{H5L_OUTPUT_TOO_SMALL} && int{H5LD_TRUNCATED} == int{H5L_TRUNCATED});
static_assert(int{H5LD_CORRUPT} == int{H5L_CORRUPT} && int{H5LD_OUT_OF_MEMORY} == int{H5L_OUT_OF_MEMORY});
static_assert(H5LD_CLASS_FLOAT == H5L_CLASS_FLOAT && H5LD_CLASS_UNSIGNED == H5L_CLASS_UNSIGNED);
static_assert(H5LD_CLASS_SIGNED == H5L_CLASS_SIGNED && H5LD_CLASS_HALF == H5L_CLASS_HALF);
static_assert(H5LD_CLASS_BFLOAT == H5L_CLASS_BFLOAT && H5LD_CLASS_COMPLEX == H5L_CLASS_COMPLEX);
static_assert(H5LD_BOUND_ABSOLUTE == H5L_BOUND_ABSOLUTE && H5LD_BOUND_NOISE == H5L_BOUND_NOISE);
static_assert(H5LD_BOUND_POINTWISE_RELATIVE == H5L_BOUND_POINTWISE_RELATIVE);
static_assert(H5LD_BOUND_RANGE_RELATIVE == H5L_BOUND_RANGE_RELATIVE && H5LD_BOUND_LOSSLESS == H5L_BOUND_LOSSLESS);
static_assert(std::size(h5ld_info{}.dims) == kMaxDims);

h5ld_status as_status(h5l_status status) { return static_cast<h5ld_status>(status); }

h5l_status open(const void* bytes, std::size_t size, Frame& frame) {
  if (bytes == nullptr && size != 0) return H5L_INVALID_ARGUMENT;
  return open_frame({static_cast<const std::uint8_t*>(bytes), size}, frame, Message(nullptr));
}

}  // namespace
}  // namespace h5lossy

using namespace h5lossy;

extern "C" {

const char* h5ld_version(void) { return H5L_VERSION; }

const char* h5ld_status_text(h5ld_status status) {
  switch (status) {
    case H5LD_OK:
      return "ok";
    case H5LD_INVALID_ARGUMENT:
      return "a null pointer, or a byte order that there is not";
    case H5LD_UNSUPPORTED:
      return "a newer version of h5lossy has made the frame: use a newer one to read it";
    case H5LD_OUTPUT_TOO_SMALL:
      return "the buffer is too small for the values: h5ld_inspect tells how large they are";
    case H5LD_TRUNCATED:
      return "the frame ends too early: the file is damaged";
    case H5LD_CORRUPT:
      return "not a frame of h5lossy, or a damaged one";
    case H5LD_OUT_OF_MEMORY:
      return "out of memory";
  }
  return "not a status of h5lossy";
}

h5ld_status h5ld_inspect(const void* frame, size_t frame_bytes, h5ld_info* info) {
  if (info == nullptr) return H5LD_INVALID_ARGUMENT;
  *info = {};
  const FloatEnvironment environment;
  Frame opened;
  if (const h5l_status status = open(frame, frame_bytes, opened); status != H5L_OK) return as_status(status);
  const FrameHeader& header = opened.header;
  const std::uint32_t numbers = header.value_class == H5L_CLASS_COMPLEX ? 2 : 1;
  info->count = header.raw_bytes / (numbers * header.value_bytes);
  info->raw_bytes = header.raw_bytes;
  info->bound = header.bound;
  info->bound_kind = header.bound_kind;
  info->codec = header.codec;
  info->value_class = header.value_class;
  info->value_bytes = header.value_bytes;
  info->big_endian = header.big_endian ? 1 : 0;
  info->rank = header.dim_count;
  std::copy_n(header.dims, header.dim_count, info->dims);
  return H5LD_OK;
}

h5ld_status h5ld_decode(const void* frame, size_t frame_bytes, h5ld_byte_order order, void* values,
                        size_t values_bytes) {
  if (order != H5LD_AS_STORED && order != H5LD_LITTLE_ENDIAN && order != H5LD_BIG_ENDIAN) return H5LD_INVALID_ARGUMENT;
  if (values == nullptr && values_bytes != 0) return H5LD_INVALID_ARGUMENT;
  const FloatEnvironment environment;
  Frame opened;
  if (const h5l_status status = open(frame, frame_bytes, opened); status != H5L_OK) return as_status(status);
  FrameHeader& header = opened.header;
  if (values_bytes < header.raw_bytes) return H5LD_OUTPUT_TOO_SMALL;
  if (order != H5LD_AS_STORED) header.big_endian = order == H5LD_BIG_ENDIAN && header.value_bytes != 1;
  const std::span<std::uint8_t> raw(static_cast<std::uint8_t*>(values), header.raw_bytes);
  return as_status(decode_chunk(opened, raw, Message(nullptr)));
}

}  // extern "C"
