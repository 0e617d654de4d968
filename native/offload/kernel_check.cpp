// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "offload/kernel_check.h"

#include <algorithm>
#include <atomic>
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

bool contains_any(const Names& names, const Names& wanted) {
  return std::find_first_of(names.begin(), names.end(), wanted.begin(), wanted.end()) != names.end();
}
bool contains_all(const Names& names, const Names& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  });
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

Outcome compare_frames(gpu::Device& device, const CheckRequest& request, const Bytes& raw) {
  const h5l_params& params = request.params;
  const Bytes expected = encode_on_cpu(params, raw);
  Bytes frame(raw.size() + kHeaderBytes);
  std::size_t size = 0;
  const gpu::EncodeCall call = make_encode_call(params, raw.size(), 1);
  const Outcome outcome = gpu::encode_chunk(device, call, raw, frame, size, true);
  frame.resize(size);
  return judge(outcome, frame == expected);
}

// All values of a frame, and some of them.
Outcome compare_values(gpu::Device& device, const CheckRequest& request, const Bytes& raw) {
  const Bytes bytes = encode_on_cpu(request.params, raw);
  Frame frame;
  const Bytes expected = decode_on_cpu(bytes, frame);
  const std::size_t value_bytes = frame.header.value_bytes, count = raw.size() / value_bytes;
  Outcome result = Outcome::done;
  for (const auto& [first, wanted] : {std::pair<std::size_t, std::size_t>{0, count}, {count / 3, count / 2}}) {
    const gpu::DecodeCall call = make_decode_call(frame.header, first, wanted, 1);
    // A frame of another codec, which may be smaller, takes kernels that have not been loaded.
    if (!contains_all(request.kernels, gpu::kernels_of(call))) continue;
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
  // Frames of smaller chunks with as many axes take the same kernels, unless they are so small that they are stored.
  const std::uint32_t extent = params.rank == 1 ? 1728 : params.rank == 2 ? 42 : 12;
  for (std::uint32_t axis = 0; axis < params.rank; ++axis) params.shape[axis] = std::min(params.shape[axis], extent);
  const Bytes bytes = encode_on_cpu(params, make_check_chunk(params, Field::smooth));
  Frame frame;
  const Bytes raw = decode_on_cpu(bytes, frame);
  return gpu::kernels_of(make_decode_call(frame.header, 0, raw.size() / params.value_bytes, 1));
}

// The requests of which every kernel is one of these, in all modes, kinds of bounds and types that kernels may share,
// and in shapes of one to three axes.
std::vector<CheckRequest> requests_with(const Subject& subject, const Names& kernels) {
  const bool is_float = has_floats(subject.value_class), encodes = subject.direction == Direction::encode;
  const std::uint32_t lossless = lossless_codec(all_codecs(), subject.codec).number;
  std::vector<CheckRequest> requests;
  h5l_params params = {};
  params.big_endian = subject.big_endian ? 1 : 0;
  const auto add_types = [&] {
    for (std::uint32_t i = 0; i < (is_float ? 3 : 8); ++i) {
      is_float ? set_check_type(params, H5L_CLASS_FLOAT, subject.value_bytes, 1 + i)
               : set_check_type(params, i % 2 == 0 ? H5L_CLASS_UNSIGNED : H5L_CLASS_SIGNED, 1u << i / 2, 3 - i % 2);
      if (check_params(params, Message(nullptr)) != H5L_OK) continue;
      CheckRequest request = {params, kernels_of(subject, params)};
      if (contains_all(kernels, request.kernels)) requests.push_back(std::move(request));
    }
  };
  for (params.bound_kind = 0; params.bound_kind < H5L_BOUND_NOISE; ++params.bound_kind) {
    const bool is_lossless = params.bound_kind == H5L_BOUND_LOSSLESS;
    if (!encodes && params.bound_kind != subject.bound_kind && !is_lossless) continue;
    for (params.codec = 0; params.codec < 256; ++params.codec) {
      // Of floats, all codecs leave lossless chunks to one.
      const bool is_other = (is_lossless && is_float) || (!encodes && params.codec != subject.codec);
      if (is_other && params.codec != lossless) continue;
      // Codecs choose a layout by themselves; auto has kernels in mode 0.
      const CodecEntry* const entry = codec_entry(params.codec);
      const std::uint32_t unused_bits = entry == nullptr ? 255 : entry->codec->layout_bits;
      for (params.mode = 0; params.mode < 256; ++params.mode) {
        if ((params.mode & unused_bits) == 0) add_types();
      }
    }
  }
  return requests;
}

std::string describe(Direction direction, const h5l_params& params, std::size_t chunk) {
  const char* const codec = codec_name(params.codec);
  char text[200];
  std::snprintf(text, sizeof text, "%s of codec %s, mode %u, class %u, %u bytes, bound kind %u, rank %u, chunk %zu",
                direction == Direction::encode ? "frames" : "values", codec == nullptr ? "auto" : codec, params.mode,
                params.value_class, params.value_bytes, params.bound_kind, params.rank, chunk);
  return text;
}

// Runs the requests that use these kernels; `what` receives the first one that gives something else.
Outcome run(gpu::Device& device, Direction direction, const std::vector<CheckRequest>& requests, std::string& what) {
  std::mutex mutex;
  std::atomic<Outcome> result = Outcome::done;
  run_batch(requests.size() * kChunks, kThreads, [&](std::size_t i) {
    if (result != Outcome::done) return;
    const CheckRequest& request = requests[i / kChunks];
    Outcome outcome = Outcome::failed;
    try {
      const Bytes raw = make_chunk(request.params, i % kChunks);
      outcome = (direction == Direction::encode ? compare_frames : compare_values)(device, request, raw);
    } catch (const std::exception&) {  // out of memory
    }
    const std::lock_guard<std::mutex> lock(mutex);
    if (outcome == Outcome::done || result == Outcome::invalid) return;
    result = outcome == Outcome::invalid ? Outcome::invalid : Outcome::failed;
    if (outcome == Outcome::invalid) what = describe(direction, request.params, i % kChunks);
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

Subject subject_of(const gpu::EncodeCall& call) {
  const gpu::FinishPlan& plan = call.plan;
  return {Direction::encode, 0, plan.value_class, plan.value_bytes, plan.requested_kind, plan.big_endian != 0};
}
Subject subject_of(const gpu::DecodeCall& call) {
  return {Direction::decode, call.variant.number, call.value_class, call.value_bytes, call.kind, call.big_endian};
}

}  // namespace

template <class Call>
std::vector<CheckRequest> check_requests(const Call& call) {
  return requests_with(subject_of(call), gpu::kernels_of(call));
}
template std::vector<CheckRequest> check_requests(const gpu::EncodeCall&);
template std::vector<CheckRequest> check_requests(const gpu::DecodeCall&);

template <class Call>
Outcome check_kernels(gpu::Device& device, const Call& call) {
  return check(device, gpu::kernels_of(call), [&](const Names& unchecked, std::string& what) {
    std::vector<CheckRequest> requests = check_requests(call);
    std::erase_if(requests, [&](const CheckRequest& request) { return !contains_any(request.kernels, unchecked); });
    Names covered;
    for (const CheckRequest& request : requests) {
      covered.insert(covered.end(), request.kernels.begin(), request.kernels.end());
    }
    // What no chunk of the check takes is left to the host, but is not called wrong: other calls may share it.
    return contains_all(covered, unchecked) ? run(device, subject_of(call).direction, requests, what) : Outcome::left;
  });
}
template Outcome check_kernels(gpu::Device&, const gpu::EncodeCall&);
template Outcome check_kernels(gpu::Device&, const gpu::DecodeCall&);

Outcome check_kernels(gpu::Device& device, const CopyCall&) {
  return check(device, {"gather_chunks", "scatter_chunks", "pack_frames"}, [&](const Names&, std::string& what) {
    what = "copies of chunks";
    return compare_copies(device);
  });
}

}  // namespace h5lossy
