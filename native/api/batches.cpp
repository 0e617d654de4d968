// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API's batches: one call per chunk, on many threads. The calls for one chunk (guards.h) set the floating-point
// environment and catch exceptions; this file checks the batch's arguments and handles the chunks' memory layout.

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <vector>

#include "api/guards.h"
#include "chunk/decode.h"
#include "chunk/strided_chunks.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "runtime/entry.h"
#include "runtime/pool.h"
#include "runtime/threads.h"

namespace h5lossy {
namespace {

// The results of a batch.
struct BatchResults {
  std::size_t count;
  h5l_status* statuses;
  h5l_message* messages;
  Message why;

  [[nodiscard]] h5l_message* message_of(std::size_t i) const { return messages == nullptr ? nullptr : messages + i; }

  // Sets all statuses without processing any chunk.
  [[nodiscard]] h5l_status refuse(h5l_status status) const {
    for (std::size_t i = 0; statuses != nullptr && i < count; ++i) {
      statuses[i] = status;
      static_cast<void>(Message(message_of(i)));
    }
    return status;
  }
};

// A thread's buffer for one chunk that is not contiguous in memory.
class Scratch {
 public:
  // Null if out of memory.
  std::uint8_t* get(std::size_t bytes) {
    if (memory_ == nullptr) memory_.reset(new (std::nothrow) std::uint8_t[bytes]);
    return memory_.get();
  }

 private:
  std::unique_ptr<std::uint8_t[]> memory_;
};

// One chunk of a batch, and the resources for it.
struct Task {
  std::size_t i;
  std::uint32_t threads;  // for the tiles of this chunk
  Scratch& scratch;
  h5l_message* message;
};

// Calls call(Task) for each chunk.
template <class Call>
h5l_status run(const BatchResults& results, std::uint32_t requested, Call call) {
  std::uint32_t threads = 1;
  std::vector<Scratch> scratches;
  try {
    if (const h5l_status status = choose_threads(requested, threads, results.why); status != H5L_OK) {
      return results.refuse(status);
    }
    scratches.resize(std::min<std::size_t>(threads, results.count));
  } catch (const std::exception&) {
    return results.refuse(results.why.fail(H5L_OUT_OF_MEMORY, "out of memory"));
  }
  const auto share = static_cast<std::uint32_t>((threads - 1) / results.count + 1);
  run_batch(results.count, threads, [&](std::size_t i, std::uint32_t worker) {
    results.statuses[i] = call(Task{i, share, scratches[worker], results.message_of(i)});
  });
  for (std::size_t i = 0; i < results.count; ++i) {
    const h5l_status status = results.statuses[i];
    if (status == H5L_OK) continue;
    return results.why.fail(status, "%s",
                            results.messages == nullptr ? h5l_status_name(status) : results.messages[i].text);
  }
  return H5L_OK;
}

h5l_status encode_one(const h5l_params* params, const h5l_parts* parts, const void* raw, std::size_t raw_bytes,
                      void* frame, std::size_t capacity, std::size_t* frame_bytes, const Task& task) {
  if (parts != nullptr) {
    const Part part(*parts, task.i, params->value_bytes);
    if (!part.is_chunk()) {
      std::uint8_t* const chunk = task.scratch.get(raw_bytes);
      if (chunk == nullptr) return Message(task.message).fail(H5L_OUT_OF_MEMORY, "out of memory for a chunk");
      part.gather(static_cast<const std::uint8_t*>(raw), chunk);
      raw = chunk;
    }
  }
  return encode_checked(params, raw, raw_bytes, frame, capacity, frame_bytes, task.threads, task.message);
}

// Checks that a frame has the chunks' type and byte order.
h5l_status check_type(const h5l_params* expected, const void* frame, std::size_t frame_bytes, h5l_frame_info& info,
                      h5l_message* message) {
  if (const h5l_status status = h5l_inspect(frame, frame_bytes, &info, message); status != H5L_OK) return status;
  if (expected == nullptr || expected->value_bytes == 0 || info.value_bytes == 1) return H5L_OK;
  if (info.value_bytes == expected->value_bytes && (info.big_endian != 0) == (expected->big_endian != 0)) return H5L_OK;
  return Message(message).fail(H5L_CORRUPT,
                               "the frame holds %s-endian values of %u bytes, expected %s-endian values of %u",
                               info.big_endian != 0 ? "big" : "little", info.value_bytes,
                               expected->big_endian != 0 ? "big" : "little", expected->value_bytes);
}

// Checks the payload's checksum, then decodes some of the values.
h5l_status decode_some(const void* frame, std::size_t frame_bytes, std::uint64_t first, void* raw,
                       std::size_t raw_bytes, h5l_message* message) noexcept {
  return guarded(message, [&](const Message& why) {
    Frame opened;
    if (const h5l_status status = open_checked(frame, frame_bytes, opened, why); status != H5L_OK) return status;
    if (const h5l_status status = check_sum(opened, why); status != H5L_OK) return status;
    return decode_values(opened, first, bytes_of(raw, raw_bytes), why);
  });
}

// Decodes the values from the part's first to its last one, and copies the part into the array.
h5l_status decode_part(const Part& part, const h5l_params& params, const h5l_frame_info& info, const void* frame,
                       std::size_t frame_bytes, void* raw, std::size_t raw_bytes, const Task& task) {
  const std::uint64_t values = raw_bytes / params.value_bytes;
  std::uint64_t begin = 0, count = 0;
  part.span(begin, count);
  if (2 * count > values) begin = 0, count = values;  // decoding the whole chunk can use several threads
  std::uint8_t* const chunk = task.scratch.get(raw_bytes);
  if (chunk == nullptr) return Message(task.message).fail(H5L_OUT_OF_MEMORY, "out of memory for a chunk");
  const std::uint64_t scale = params.value_bytes / info.value_bytes;  // in frames of unknown type, values are bytes
  const h5l_status status = count == values
                                ? decode_checked(frame, frame_bytes, chunk, raw_bytes, task.threads, task.message)
                                : decode_some(frame, frame_bytes, begin * scale, chunk,
                                              static_cast<std::size_t>(count * params.value_bytes), task.message);
  if (status == H5L_OK) part.scatter(chunk, begin, static_cast<std::uint8_t*>(raw));
  return status;
}

h5l_status decode_one(const h5l_params* params, const h5l_parts* parts, const void* frame, std::size_t frame_bytes,
                      void* raw, std::size_t raw_bytes, const Task& task) {
  h5l_frame_info info;
  const h5l_status status = check_type(params, frame, frame_bytes, info, task.message);
  if (status != H5L_OK) return status;
  if (parts != nullptr) {
    if (info.raw_bytes != raw_bytes) {
      return Message(task.message)
          .fail(H5L_CORRUPT, "the frame holds %llu bytes, but a chunk has %zu",
                static_cast<unsigned long long>(info.raw_bytes), raw_bytes);
    }
    const Part part(*parts, task.i, params->value_bytes);
    if (!part.is_chunk()) return decode_part(part, *params, info, frame, frame_bytes, raw, raw_bytes, task);
  }
  return decode_checked(frame, frame_bytes, raw, raw_bytes, task.threads, task.message);
}

template <class... Pointers>
bool any_null(const Pointers*... pointers) {
  return ((pointers == nullptr) || ...);
}

}  // namespace
}  // namespace h5lossy

using namespace h5lossy;

extern "C" {

h5l_status h5l_default_threads(uint32_t* threads, h5l_message* message) {
  const Message why(message);
  if (threads == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "threads must not be null");
  *threads = 0;
  try {
    std::uint32_t chosen = 0;
    const h5l_status status = choose_threads(0, chosen, why);
    if (status == H5L_OK) *threads = chosen;
    return status;
  } catch (const std::exception&) {
    return why.fail(H5L_OUT_OF_MEMORY, "out of memory");
  }
}

h5l_status h5l_encode_batch(const h5l_params* params, const h5l_parts* parts, size_t count, const void* const* raw,
                            const size_t* raw_bytes, void* const* frames, const size_t* capacities, size_t* frame_bytes,
                            h5l_status* statuses, h5l_message* messages, uint32_t threads, h5l_message* message) {
  const BatchResults results{count, statuses, messages, Message(message)};
  if (count == 0) return H5L_OK;
  if (any_null(params, raw, raw_bytes, frames, capacities, frame_bytes, statuses)) {
    return results.refuse(results.why.fail(H5L_INVALID_ARGUMENT, "only parts, messages and message may be null"));
  }
  std::fill(frame_bytes, frame_bytes + count, std::size_t{0});
  if (parts != nullptr) {
    const h5l_status status = check_parts(*parts, count, raw_bytes, params->value_bytes, results.why);
    if (status != H5L_OK) return results.refuse(status);
  }
  return run(results, threads, [&](const Task& task) {
    const std::size_t i = task.i;
    return encode_one(params, parts, raw[i], raw_bytes[i], frames[i], capacities[i], &frame_bytes[i], task);
  });
}

h5l_status h5l_decode_batch(const h5l_params* params, const h5l_parts* parts, size_t count, const void* const* frames,
                            const size_t* frame_bytes, void* const* raw, const size_t* raw_bytes, h5l_status* statuses,
                            h5l_message* messages, uint32_t threads, h5l_message* message) {
  const BatchResults results{count, statuses, messages, Message(message)};
  if (count == 0) return H5L_OK;
  if (any_null(frames, frame_bytes, raw, raw_bytes, statuses) || (parts != nullptr && params == nullptr)) {
    return results.refuse(results.why.fail(H5L_INVALID_ARGUMENT,
                                           "only parts, messages and message may be null, and params without parts"));
  }
  if (parts != nullptr) {
    const h5l_status status = check_parts(*parts, count, raw_bytes, params->value_bytes, results.why);
    if (status != H5L_OK) return results.refuse(status);
  }
  return run(results, threads, [&](const Task& task) {
    const std::size_t i = task.i;
    return decode_one(params, parts, frames[i], frame_bytes[i], raw[i], raw_bytes[i], task);
  });
}

}  // extern "C"
