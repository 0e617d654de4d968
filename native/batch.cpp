// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API's batches: its calls for one chunk, on many threads. Each of those keeps the floating-point settings and
// catches what is thrown, so here only the arguments are left to look at.

#include <algorithm>
#include <cstdint>
#include <exception>

#include "dispatch/pool.h"
#include "dispatch/threads.h"
#include "format/message.h"
#include "h5lossy.h"

namespace h5lossy {
namespace {

// Where the chunks of a batch report, and how many threads it has.
struct Report {
  std::size_t count;
  h5l_status* statuses;
  h5l_message* messages;
  Message why;

  [[nodiscard]] h5l_message* message_of(std::size_t i) const { return messages == nullptr ? nullptr : messages + i; }

  // Nothing is tried.
  [[nodiscard]] h5l_status refuse(h5l_status status) const {
    for (std::size_t i = 0; statuses != nullptr && i < count; ++i) {
      statuses[i] = status;
      static_cast<void>(Message(message_of(i)));
    }
    return status;
  }
};

// Gives each chunk to `call`, which has its number and its message.
template <class Call>
h5l_status run(const Report& report, std::uint32_t asked, Call call) {
  std::uint32_t threads = 1;
  try {
    if (const h5l_status status = choose_threads(asked, threads, report.why); status != H5L_OK) {
      return report.refuse(status);
    }
  } catch (const std::exception&) {
    return report.refuse(report.why.fail(H5L_OUT_OF_MEMORY, "out of memory"));
  }
  run_batch(report.count, threads, [&](std::size_t i) { report.statuses[i] = call(i, report.message_of(i)); });
  for (std::size_t i = 0; i < report.count; ++i) {
    const h5l_status status = report.statuses[i];
    if (status == H5L_OK) continue;
    return report.why.fail(status, "%s",
                           report.messages == nullptr ? h5l_status_name(status) : report.messages[i].text);
  }
  return H5L_OK;
}

// Decodes one frame, or the values from `first` on if that is not null.
h5l_status decode_one(const h5l_params* expected, const void* frame, std::size_t frame_bytes,
                      const std::uint64_t* first, void* raw, std::size_t raw_bytes, h5l_message* message) {
  h5l_frame_info info;
  if (const h5l_status status = h5l_inspect(frame, frame_bytes, &info, message); status != H5L_OK) return status;
  const Message why(message);
  if (expected != nullptr && expected->value_bytes != 0 && info.value_bytes != 1 &&
      (info.value_bytes != expected->value_bytes || (info.big_endian != 0) != (expected->big_endian != 0))) {
    return why.fail(H5L_CORRUPT, "the frame holds %s-endian values of %u bytes, not %s-endian ones of %u",
                    info.big_endian != 0 ? "big" : "little", info.value_bytes,
                    expected->big_endian != 0 ? "big" : "little", expected->value_bytes);
  }
  if (first == nullptr || (*first == 0 && raw_bytes == info.raw_bytes)) {
    return h5l_decode(frame, frame_bytes, raw, raw_bytes, message);
  }
  // A frame of unknown type counts bytes.
  const bool scale = expected != nullptr && expected->value_bytes != 0 && info.value_bytes == 1;
  const std::uint64_t begin = std::min<std::uint64_t>(*first, UINT32_MAX) * (scale ? expected->value_bytes : 1);
  if (raw_bytes % info.value_bytes != 0) {
    return why.fail(H5L_INVALID_ARGUMENT, "raw has %zu bytes, no multiple of a value's %u", raw_bytes,
                    info.value_bytes);
  }
  return h5l_decode_range(frame, frame_bytes, begin, raw_bytes / info.value_bytes, raw, raw_bytes, message);
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

h5l_status h5l_encode_batch(const h5l_params* params, size_t count, const void* const* raw, const size_t* raw_bytes,
                            void* const* frames, const size_t* capacities, size_t* frame_bytes, h5l_status* statuses,
                            h5l_message* messages, uint32_t threads, h5l_message* message) {
  const Report report{count, statuses, messages, Message(message)};
  if (count == 0) return H5L_OK;
  if (any_null(params, raw, raw_bytes, frames, capacities, frame_bytes, statuses)) {
    return report.refuse(report.why.fail(H5L_INVALID_ARGUMENT, "only messages and message may be null"));
  }
  std::fill(frame_bytes, frame_bytes + count, std::size_t{0});
  return run(report, threads, [&](std::size_t i, h5l_message* why) {
    return h5l_encode(params, raw[i], raw_bytes[i], frames[i], capacities[i], &frame_bytes[i], why);
  });
}

h5l_status h5l_decode_batch(const h5l_params* params, size_t count, const void* const* frames,
                            const size_t* frame_bytes, const uint64_t* firsts, void* const* raw,
                            const size_t* raw_bytes, h5l_status* statuses, h5l_message* messages, uint32_t threads,
                            h5l_message* message) {
  const Report report{count, statuses, messages, Message(message)};
  if (count == 0) return H5L_OK;
  if (any_null(frames, frame_bytes, raw, raw_bytes, statuses)) {
    return report.refuse(
        report.why.fail(H5L_INVALID_ARGUMENT, "only params, firsts, messages and message may be null"));
  }
  return run(report, threads, [&](std::size_t i, h5l_message* why) {
    return decode_one(params, frames[i], frame_bytes[i], firsts == nullptr ? nullptr : firsts + i, raw[i], raw_bytes[i],
                      why);
  });
}

}  // extern "C"
