// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "offload/chunks.h"

#include "chunk/decode.h"
#include "chunk/decode_parts.h"
#include "chunk/encode.h"
#include "chunk/integers.h"
#include "chunk/params.h"
#include "gpu/chunks.h"
#include "offload/device_selection.h"
#include "offload/gpu_requests.h"
#include "offload/kernel_check.h"

namespace h5lossy::offload {
namespace {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

// False if the CPU was selected or the GPU failed.
bool encode_on_gpu(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes) {
  if (moves_values(params)) return false;
  gpu::Device* const device =
      select_device(Direction::encode, params.codec, params.mode, params.value_class, params.bound_kind, raw.size());
  if (device == nullptr) return false;
  const gpu::EncodeCall call = make_encode_call(params, raw.size(), 1);
  const gpu::Outcome outcome =
      run_checked(*device, call, [&] { return gpu::encode_chunk(*device, call, raw, frame, frame_bytes); });
  if (outcome == gpu::Outcome::failed) report_failure(*device);
  return outcome == gpu::Outcome::done;
}

gpu::Device* device_for(const FrameHeader& header) {
  return select_device(Direction::decode, header.codec, header.mode, header.value_class, header.bound_kind,
                       header.raw_bytes);
}

// Also false if the GPU rejected the frame: decoding on the CPU then gives the error message.
bool decode_on(gpu::Device& device, const Frame& frame, MutableBytes raw) {
  const gpu::DecodeCall call = make_decode_call(frame.header, 0, raw.size() / frame.header.value_bytes, 1);
  const gpu::Outcome outcome =
      run_checked(device, call, [&] { return gpu::decode_chunk(device, call, frame.bytes, raw); });
  if (outcome == gpu::Outcome::failed) report_failure(device);
  return outcome == gpu::Outcome::done;
}

}  // namespace

h5l_status encode_chunk(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes,
                        const Message& why, std::uint32_t threads) {
  const bool is_encoded = has_typed_values(params, raw.size());
  const bool is_on_gpu = is_encoded && encode_on_gpu(params, raw, frame, frame_bytes);
  const h5l_status status = is_on_gpu ? H5L_OK : h5lossy::encode_chunk(params, raw, frame, frame_bytes, why, threads);
  if (is_encoded && status == H5L_OK) count_chunk(Direction::encode, is_on_gpu);
  return status;
}

h5l_status decode_chunk(const Frame& frame, MutableBytes raw, const Message& why, std::uint32_t threads) {
  const bool is_encoded = frame.header.codec != H5L_CODEC_STORED && !raw.empty();
  gpu::Device* const device = is_encoded ? device_for(frame.header) : nullptr;
  const bool is_on_gpu = device != nullptr && decode_on(*device, frame, raw);
  const h5l_status status = is_on_gpu ? H5L_OK : h5lossy::decode_chunk(frame, raw, why, threads);
  if (is_encoded && status == H5L_OK) count_chunk(Direction::decode, is_on_gpu);
  return status;
}

h5l_status decode_part(const Frame& frame, const Part& part, std::uint8_t* array, Scratch& scratch, const Message& why,
                       std::uint32_t threads) {
  const FrameHeader& header = frame.header;
  const bool is_encoded = header.codec != H5L_CODEC_STORED;
  bool is_on_gpu = false;
  if (is_encoded && needs_most_tiles(frame, part)) {  // GPUs decode whole chunks
    gpu::Device* const device = device_for(header);
    std::uint8_t* const chunk = device == nullptr ? nullptr : scratch.get(header.raw_bytes);
    is_on_gpu = chunk != nullptr && decode_on(*device, frame, {chunk, header.raw_bytes});
    if (is_on_gpu) part.scatter(0, part.chunk_values(), chunk, array);
  }
  const h5l_status status = is_on_gpu ? H5L_OK : h5lossy::decode_part(frame, part, array, scratch, why, threads);
  if (is_encoded && status == H5L_OK) count_chunk(Direction::decode, is_on_gpu);
  return status;
}

}  // namespace h5lossy::offload
