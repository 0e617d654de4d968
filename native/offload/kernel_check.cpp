// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "offload/kernel_check.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "chunk/decode.h"
#include "chunk/encode.h"
#include "chunk/open_frame.h"
#include "chunk/params.h"
#include "offload/check_chunks.h"
#include "offload/gpu_requests.h"
#include "runtime/pool.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

using Bytes = std::vector<std::uint8_t>;
using gpu::Names;
using gpu::Outcome;

constexpr std::uint32_t kThreads = 8;  // the GPU's streams

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool contains_all(const Names& names, const Names& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& name) { return contains(names, name); });
}
bool contains_any(const Names& names, const Names& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& name) { return contains(names, name); });
}

Bytes encode_on_cpu(const h5l_params& params, const Bytes& raw) {
  Bytes frame(raw.size() + kHeaderBytes);
  std::size_t size = 0;
  if (encode_chunk(params, raw, frame, size, Message(nullptr)) != H5L_OK) throw std::bad_alloc();
  frame.resize(size);
  return frame;
}

Bytes decode_on_cpu(const Bytes& bytes, Frame& frame) {
  if (open_frame(bytes, frame, Message(nullptr)) != H5L_OK) throw std::bad_alloc();
  Bytes raw(frame.header.raw_bytes);
  if (decode_chunk(frame, raw, Message(nullptr)) != H5L_OK) throw std::bad_alloc();
  return raw;
}

// Chunk number `i` of a request: a field, or, above kFields, one that was decoded before.
constexpr std::uint32_t kChunks = 2 * kFields;
Bytes make_chunk(const h5l_params& params, std::size_t i) {
  const Bytes raw = make_check_chunk(params, static_cast<Field>(i % kFields));
  Frame frame;
  return i < kFields ? raw : decode_on_cpu(encode_on_cpu(params, raw), frame);
}

// What the GPU leaves to the host is not its own.
Outcome judge(Outcome outcome, bool is_equal) {
  if (outcome == Outcome::done) return is_equal ? Outcome::done : Outcome::invalid;
  return outcome == Outcome::left ? Outcome::done : outcome;
}

Outcome compare_frames(gpu::Device& device, const h5l_params& params, const Bytes& raw) {
  const Bytes expected = encode_on_cpu(params, raw);
  Bytes frame(raw.size() + kHeaderBytes);
  std::size_t size = 0;
  const gpu::EncodeCall call = make_encode_call(params, raw.size(), 1);
  const Outcome outcome = gpu::encode_chunk(device, call, raw, frame, size, true);
  frame.resize(size);
  return judge(outcome, frame == expected);
}

// All values of a frame, and some of them.
Outcome compare_values(gpu::Device& device, const h5l_params& params, const Bytes& raw) {
  const Bytes bytes = encode_on_cpu(params, raw);
  Frame frame;
  const Bytes expected = decode_on_cpu(bytes, frame);
  // A frame of another codec, which may be smaller, takes other kernels.
  const FrameHeader& header = frame.header;
  const bool is_own = header.codec == params.codec || header.codec == H5L_CODEC_STORED;
  if (!is_own && header.bound_kind != H5L_BOUND_LOSSLESS) return Outcome::done;
  const std::size_t value_bytes = header.value_bytes, count = raw.size() / value_bytes;
  Outcome result = Outcome::done;
  for (const auto& [first, wanted] : {std::pair<std::size_t, std::size_t>{0, count}, {count / 3, count / 2}}) {
    const gpu::DecodeCall call = make_decode_call(header, first, wanted, 1);
    Bytes values(wanted * value_bytes);
    const Outcome outcome = gpu::decode_chunk(device, call, bytes, values, true);
    const auto from = expected.begin() + static_cast<std::ptrdiff_t>(first * value_bytes);
    if (result == Outcome::done) result = judge(outcome, std::equal(values.begin(), values.end(), from));
  }
  return result;
}

// What the kernels of a call are for.
struct Subject {
  Direction direction;
  std::uint32_t codec;  // of frames
  std::uint32_t value_class, value_bytes, bound_kind;
  bool big_endian;
};

Names kernels_of(const Subject& subject, h5l_params params) {
  if (subject.direction == Direction::encode) {
    return gpu::kernels_of(make_encode_call(params, count_check_values(params) * params.value_bytes, 1));
  }
  // Frames of chunks with as many axes take the same kernels.
  for (std::uint32_t axis = 0; axis < params.rank; ++axis) params.shape[axis] = std::min(params.shape[axis], 12u);
  const Bytes bytes = encode_on_cpu(params, make_check_chunk(params, Field::smooth));
  Frame frame;
  const Bytes raw = decode_on_cpu(bytes, frame);
  return gpu::kernels_of(make_decode_call(frame.header, 0, raw.size() / params.value_bytes, 1));
}

// Calls visit(params) for each request whose kernels may be those of the subject: all modes, kinds of bounds and types
// that kernels may share, and shapes of one to three axes.
template <class Visit>
void for_each_request(const Subject& subject, const Visit& visit) {
  const bool encodes = subject.direction == Direction::encode;
  const std::uint32_t lossless = lossless_codec(all_codecs(), subject.codec).number;
  const auto visit_types = [&](h5l_params params) {
    params.big_endian = subject.big_endian ? 1 : 0;
    const auto visit_one = [&](std::uint32_t value_class, std::uint32_t value_bytes, std::uint32_t rank) {
      set_check_type(params, value_class, value_bytes, rank);
      if (check_params(params, Message(nullptr)) == H5L_OK) visit(params);
    };
    if (has_floats(subject.value_class)) {  // kernels may differ by the number of axes
      for (const std::uint32_t rank : {1u, 2u, 3u}) visit_one(H5L_CLASS_FLOAT, subject.value_bytes, rank);
      return;
    }
    for (const std::uint32_t value_bytes : {1u, 2u, 4u, 8u}) {
      if (subject.big_endian && value_bytes == 1) continue;
      visit_one(H5L_CLASS_UNSIGNED, value_bytes, 3);
      visit_one(H5L_CLASS_SIGNED, value_bytes, 2);
    }
  };
  constexpr std::uint32_t kinds[] = {H5L_BOUND_ABSOLUTE, H5L_BOUND_POINTWISE_RELATIVE, H5L_BOUND_RANGE_RELATIVE,
                                     H5L_BOUND_LOSSLESS};
  for (const std::uint32_t kind : kinds) {
    if (!encodes && kind != subject.bound_kind && kind != H5L_BOUND_LOSSLESS) continue;
    h5l_params params = {};
    params.bound_kind = kind;
    // Of floats, all others leave lossless chunks to this one.
    const bool is_lossless = kind == H5L_BOUND_LOSSLESS && has_floats(subject.value_class);
    if (encodes && !is_lossless) visit_types(params);  // codec auto
    for (const CodecEntry& entry : all_codecs()) {
      if (is_lossless && entry.number != lossless) continue;
      if (!encodes && entry.number != subject.codec && entry.number != lossless) continue;
      params.codec = entry.number;
      for (params.mode = 0; params.mode < 256; ++params.mode) {
        // Codecs choose a layout by themselves.
        if ((params.mode & entry.codec->layout_bits) == 0 && entry.codec->has_mode(params.mode)) visit_types(params);
      }
    }
  }
}

// Runs the requests that use these kernels; `what` receives the first one that gives something else.
Outcome run(gpu::Device& device, const Subject& subject, const std::vector<CheckRequest>& requests, std::string& what) {
  std::mutex mutex;
  Outcome result = Outcome::done;
  run_batch(requests.size() * kChunks, kThreads, [&](std::size_t i) {
    const h5l_params& params = requests[i / kChunks].params;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (result != Outcome::done) return;
    }
    Outcome outcome = Outcome::failed;
    try {
      const Bytes raw = make_chunk(params, i % kChunks);
      outcome = subject.direction == Direction::encode ? compare_frames(device, params, raw)
                                                       : compare_values(device, params, raw);
    } catch (const std::exception&) {  // out of memory
    }
    const std::lock_guard<std::mutex> lock(mutex);
    if (outcome == Outcome::done || result == Outcome::invalid) return;
    result = outcome == Outcome::invalid ? Outcome::invalid : Outcome::failed;
    if (result == Outcome::failed) return;
    const char* const codec = codec_name(params.codec);
    what = std::string(subject.direction == Direction::encode ? "frames" : "values") + " of codec " +
           (codec == nullptr ? "auto" : codec) + ", mode " + std::to_string(params.mode) + ", class " +
           std::to_string(params.value_class) + ", " + std::to_string(params.value_bytes) + " bytes, bound kind " +
           std::to_string(params.bound_kind) + ", rank " + std::to_string(params.rank) + ", chunk " +
           std::to_string(i % kChunks);
  });
  return result;
}

// Loads kernels, and compares the results of those that have not been checked before: compare(unchecked, what) does it.
// It returns `invalid` if one is wrong, and sets `what` to a description of what differs.
template <class Compare>
Outcome check(gpu::Device& device, const Names& kernels, const Compare& compare) {
  const std::lock_guard<std::mutex> lock(device.check_mutex());
  if (device.is_refused(kernels)) return Outcome::left;
  {
    const gpu::Current current(device);
    if (!current.ok() || !device.load(kernels)) return Outcome::failed;
  }
  const Names unchecked = device.unchecked(kernels);
  if (unchecked.empty()) return Outcome::done;
  std::string what;
  const Outcome outcome = compare(unchecked, what);
  if (outcome == Outcome::done) device.accept(unchecked);
  if (outcome != Outcome::invalid) return outcome;
  device.refuse(unchecked);
  std::fprintf(stderr,
               "h5lossy: %s: GPU kernels that were just compiled give wrong results (%s): %s; the CPU does their work "
               "in this process, with the right bytes; please report this line, and try another version of CUDA "
               "(H5LOSSY_NVRTC)\n",
               device.describe().c_str(), what.c_str(), device.describe(unchecked).c_str());
  return Outcome::left;
}

// The requests of which every kernel is one of these.
std::vector<CheckRequest> requests_with(const Subject& subject, const Names& kernels) {
  std::vector<CheckRequest> requests;
  for_each_request(subject, [&](const h5l_params& params) {
    CheckRequest request = {params, kernels_of(subject, params)};
    if (contains_all(kernels, request.kernels)) requests.push_back(std::move(request));
  });
  return requests;
}

Outcome check(gpu::Device& device, const Subject& subject, const Names& kernels) {
  return check(device, kernels, [&](const Names& unchecked, std::string& what) {
    std::vector<CheckRequest> requests = requests_with(subject, kernels);
    std::erase_if(requests, [&](const CheckRequest& request) { return !contains_any(request.kernels, unchecked); });
    Names covered;
    for (const CheckRequest& request : requests) {
      covered.insert(covered.end(), request.kernels.begin(), request.kernels.end());
    }
    // What no chunk of the check takes is left to the host, but is not called wrong: other calls may share it.
    return contains_all(covered, unchecked) ? run(device, subject, requests, what) : Outcome::left;
  });
}

Subject subject_of(const gpu::EncodeCall& call) {
  const gpu::FinishPlan& plan = call.plan;
  return {Direction::encode, 0, plan.value_class, plan.value_bytes, plan.requested_kind, plan.big_endian != 0};
}
Subject subject_of(const gpu::DecodeCall& call) {
  return {Direction::decode, call.variant.number, call.value_class, call.value_bytes, call.kind, call.big_endian};
}

}  // namespace

std::vector<CheckRequest> check_requests(const gpu::EncodeCall& call) {
  return requests_with(subject_of(call), gpu::kernels_of(call));
}
std::vector<CheckRequest> check_requests(const gpu::DecodeCall& call) {
  return requests_with(subject_of(call), gpu::kernels_of(call));
}

Outcome check_kernels(gpu::Device& device, const gpu::EncodeCall& call) {
  return check(device, subject_of(call), gpu::kernels_of(call));
}
Outcome check_kernels(gpu::Device& device, const gpu::DecodeCall& call) {
  return check(device, subject_of(call), gpu::kernels_of(call));
}

Outcome check_kernels(gpu::Device& device, const CopyCall&) {
  return check(device, {"gather_chunks", "scatter_chunks", "pack_frames"}, [&](const Names&, std::string& what) {
    what = "copies of chunks";
    return compare_copies(device);
  });
}

}  // namespace h5lossy
