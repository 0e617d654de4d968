// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API's batches: one call per chunk, on many threads. The calls for one chunk (guards.h) set the floating-point
// environment and catch exceptions; this file checks the batch's arguments and handles the chunks' memory layout.

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <vector>

#include "api/guards.h"
#include "chunk/strided_chunks.h"
#include "chunk/workspace.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "offload/chunks.h"
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
      part.gather(static_cast<const std::uint8_t*>(raw), parts->padding_bits, chunk);
      raw = chunk;
    }
  }
  return encode_checked(params, raw, raw_bytes, frame, capacity, frame_bytes, task.threads, task.message);
}

// Checks that a frame has the chunks' type and byte order.
h5l_status check_type(const h5l_params* expected, const FrameHeader& header, const Message& why) {
  if (expected == nullptr || expected->value_bytes == 0 || !header.is_typed()) return H5L_OK;
  if (header.value_bytes == expected->value_bytes && header.value_class == expected->value_class &&
      header.big_endian == (expected->big_endian != 0)) {
    return H5L_OK;
  }
  const auto name = [](std::uint32_t value_class) {
    constexpr const char* names[] = {"floats", "unsigned", "signed", "float16", "bfloat16", "complex"};
    return value_class < std::size(names) ? names[value_class] : "unknown";
  };
  return why.fail(H5L_CORRUPT,
                  "the frame holds %s-endian values of %u bytes (%s), expected %s-endian values of %u (%s)",
                  header.big_endian ? "big" : "little", header.value_bytes, name(header.value_class),
                  expected->big_endian != 0 ? "big" : "little", expected->value_bytes, name(expected->value_class));
}

h5l_status decode_one(const h5l_params* params, const h5l_parts* parts, const void* frame, std::size_t frame_bytes,
                      void* raw, std::size_t raw_bytes, const Task& task) {
  return guarded(task.message, [&](const Message& why) {
    if (const h5l_status status = check_pointer(raw, raw_bytes, "raw", why); status != H5L_OK) return status;
    Frame opened;
    if (const h5l_status status = open_checked(frame, frame_bytes, opened, why); status != H5L_OK) return status;
    if (const h5l_status status = check_type(params, opened.header, why); status != H5L_OK) return status;
    if (parts == nullptr) return decode_opened(opened, bytes_of(raw, raw_bytes), why, task.threads);
    if (opened.header.raw_bytes != raw_bytes) {
      return why.fail(H5L_CORRUPT, "the frame holds %u bytes, but a chunk has %zu", opened.header.raw_bytes, raw_bytes);
    }
    const Part part(*parts, task.i, params->value_bytes);
    if (part.is_chunk()) return offload::decode_chunk(opened, bytes_of(raw, raw_bytes), why, task.threads);
    return offload::decode_part(opened, part, static_cast<std::uint8_t*>(raw), task.scratch, why, task.threads);
  });
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
