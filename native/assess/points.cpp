// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "assess/points.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "frame/swap.h"
#include "runtime/pool.h"

namespace h5lossy::assess {
namespace {

// The most values that are copied from a GPU to the host at a time.
constexpr std::uint64_t kMostCopied = std::uint64_t{1} << 22;

std::unique_ptr<PointsPart> new_part() {
  auto part = std::make_unique<PointsPart>();  // all zeros
  part->grid_exponent = kNoGrid;
  part->pointwise_min = HUGE_VAL;
  return part;
}

// Copies values to native byte order.
void copy_native(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes, std::uint32_t value_bytes,
                 bool big_endian) {
  if (big_endian) {
    copy_swapped(from, to, bytes, value_bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

// Returns values in native byte order and aligned: where they are, or else a copy.
const void* native_values(const void* values, std::size_t at, std::size_t bytes, std::uint32_t value_bytes,
                          bool big_endian, std::vector<double>& copy) {
  const auto* const from = static_cast<const std::uint8_t*>(values) + at;
  if (!big_endian && reinterpret_cast<std::uintptr_t>(from) % value_bytes == 0) return from;
  copy.resize(bytes / sizeof(double) + 1);
  copy_native(from, reinterpret_cast<std::uint8_t*>(copy.data()), bytes, value_bytes, big_endian);
  return copy.data();
}

}  // namespace

void flush_pending(const h5l_assess_params& params, const Kernels& kernels, Counters& counters, State& state) {
  Pending& pending = state.pending;
  if (pending.count == 0) return;
  const auto part = new_part();
  kernels.points(params, pending.first, pending.x, pending.y, pending.has_mask != 0 ? pending.mask : nullptr,
                 pending.count, counters, *part);
  add_part(state, *part);
  pending.count = 0;
  pending.has_mask = 0;
}

namespace {

// Some of the values, in host memory.
class HostCopy {
 public:
  HostCopy(const PointsCall& call, std::uint64_t start, std::uint64_t count) {
    const std::uint64_t bytes = count * call.params.value_bytes;
    const std::uint64_t offset = start * call.params.value_bytes;
    x = static_cast<const std::uint8_t*>(call.x) + offset;
    y = static_cast<const std::uint8_t*>(call.y) + offset;
    mask = call.mask == nullptr ? nullptr : call.mask + start;
    if (call.device == nullptr) return;
    memory_.resize((2 * bytes + count) / sizeof(double) + 1);
    auto* const to = reinterpret_cast<std::uint8_t*>(memory_.data());
    const bool is_done = call.device->download(to, x, bytes) && call.device->download(to + bytes, y, bytes) &&
                         (mask == nullptr || call.device->download(to + 2 * bytes, mask, count)) && call.device->wait();
    if (!is_done) throw DeviceFailure{call.device->error()};
    x = to;
    y = to + bytes;
    if (mask != nullptr) mask = to + 2 * bytes;
  }

  const std::uint8_t* x;
  const std::uint8_t* y;
  const std::uint8_t* mask;

 private:
  std::vector<double> memory_;
};

// Adds `count` values to the incomplete leaf.
void add_pending(const PointsCall& call, std::uint64_t start, std::uint64_t first, std::uint32_t count, State& state) {
  Pending& pending = state.pending;
  const std::uint32_t bytes = call.params.value_bytes;
  if (pending.count == 0) pending.first = first;
  const HostCopy copy(call, start, count);
  const std::size_t size = std::size_t{count} * bytes;
  const std::size_t end = std::size_t{pending.count} * bytes;
  copy_native(copy.x, pending.x + end, size, bytes, call.params.original_big_endian != 0);
  copy_native(copy.y, pending.y + end, size, bytes, call.params.decoded_big_endian != 0);
  if (copy.mask != nullptr) {
    if (pending.has_mask == 0) std::memset(pending.mask, 0, pending.count);
    pending.has_mask = 1;
    std::memcpy(pending.mask + pending.count, copy.mask, count);
  } else if (pending.has_mask != 0) {
    std::memset(pending.mask + pending.count, 0, count);
  }
  pending.count += count;
}

// Adds whole leaves, in parts that threads process one at a time.
void add_parts(const PointsCall& call, std::uint64_t start, std::uint64_t first, std::uint64_t count, State& state) {
  constexpr std::uint64_t kPart = std::uint64_t{kPartLeaves} * kLeafValues;
  const std::uint32_t value_bytes = call.params.value_bytes;
  const std::uint64_t parts = (count + kPart - 1) / kPart;
  const std::uint64_t at_once = std::min<std::uint64_t>(parts, std::uint64_t{call.threads} * 4);
  std::vector<std::unique_ptr<PointsPart>> results(at_once);
  for (std::uint64_t done = 0; done < parts; done += at_once) {
    const std::uint64_t now = std::min(at_once, parts - done);
    std::atomic<bool> failed = false;
    run_batch(now, call.threads, [&](std::size_t i, std::uint32_t worker) {
      const std::uint64_t offset = (done + i) * kPart;
      const auto size = static_cast<std::uint32_t>(std::min(kPart, count - offset));
      try {
        results[i] = new_part();
        std::vector<double> copies[2];
        const std::size_t at = (start + offset) * value_bytes;
        const std::size_t bytes = std::size_t{size} * value_bytes;
        call.kernels.points(
            call.params, first + offset,
            native_values(call.x, at, bytes, value_bytes, call.params.original_big_endian != 0, copies[0]),
            native_values(call.y, at, bytes, value_bytes, call.params.decoded_big_endian != 0, copies[1]),
            call.mask == nullptr ? nullptr : call.mask + start + offset, size, call.counters.of(worker), *results[i]);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    });
    if (failed) throw std::bad_alloc();
    for (std::uint64_t i = 0; i < now; ++i) add_part(state, *results[i]);
  }
}

// Reads point i of two arrays. False if it is not valid.
template <class T, class Word>
bool read_valid(const h5l_assess_params& params, const void* original, bool original_big_endian, const void* decoded,
                bool decoded_big_endian, const std::uint8_t* mask, std::uint64_t i, T& x, T& y) {
  if (mask != nullptr && mask[i] != 0) return false;
  const auto word = [i](const void* values, bool big_endian) {
    Word bits;
    std::memcpy(&bits, static_cast<const std::uint8_t*>(values) + i * sizeof bits, sizeof bits);
    return big_endian ? static_cast<Word>(swap_bytes(bits)) : bits;
  };
  const Word of_x = word(original, original_big_endian);
  const Word of_y = word(decoded, decoded_big_endian);
  if (params.has_fill != 0 && of_x == params.fill_bits) return false;
  std::memcpy(&x, &of_x, sizeof x);
  std::memcpy(&y, &of_y, sizeof y);
  return std::isfinite(x) && std::isfinite(y);
}

template <class T, class Word>
void find_pivot(const PointsCall& call, std::uint64_t first, std::uint64_t end, State& state) {
  T x = 0;
  T y = 0;
  // Usually one of the first points is valid, so the first copy is small.
  std::uint64_t at_once = kLeafValues;
  for (std::uint64_t start = first; start < end && state.has_pivot == 0; start += at_once) {
    if (start != first) at_once = std::min<std::uint64_t>(2 * at_once, kMostCopied);
    const std::uint64_t now = std::min(at_once, end - start);
    const HostCopy copy(call, start, now);
    for (std::uint64_t i = 0; i < now && state.has_pivot == 0; ++i) {
      if (!read_valid<T, Word>(call.params, copy.x, call.params.original_big_endian != 0, copy.y,
                               call.params.decoded_big_endian != 0, copy.mask, i, x, y)) {
        continue;
      }
      take_pivot(state, static_cast<double>(x), static_cast<double>(y));
    }
  }
}

void find_pivot(const PointsCall& call, std::uint64_t first, std::uint64_t end, State& state) {
  call.params.value_bytes == 4 ? find_pivot<float, unsigned>(call, first, end, state)
                               : find_pivot<double, unsigned long long>(call, first, end, state);
}

template <class T, class Word>
bool are_valid(const h5l_assess_params& params, const State& state) {
  const Pending& pending = state.pending;
  if (state.points.valid + pending.count != state.points.count) return false;
  const std::uint8_t* const mask = pending.has_mask != 0 ? pending.mask : nullptr;
  T x = 0;
  T y = 0;
  for (std::uint64_t i = 0; i < pending.count; ++i) {
    if (!read_valid<T, Word>(params, pending.x, false, pending.y, false, mask, i, x, y)) return false;
  }
  return true;
}

}  // namespace

bool all_valid(const h5l_assess_params& params, const State& state) {
  return params.value_bytes == 4 ? are_valid<float, unsigned>(params, state)
                                 : are_valid<double, unsigned long long>(params, state);
}

void add_points(const PointsCall& call, std::uint64_t first, std::uint64_t count, State& state) {
  if (count == 0) return;
  if (first != state.next) flush_pending(call.params, call.kernels, call.counters.of(0), state);
  std::uint64_t start = 0;
  const std::uint64_t to_border = (kLeafValues - first % kLeafValues) % kLeafValues;
  if (to_border != 0) {
    const auto taken = static_cast<std::uint32_t>(std::min(count, to_border));
    find_pivot(call, 0, taken, state);
    add_pending(call, 0, first, taken, state);
    if (taken == to_border) flush_pending(call.params, call.kernels, call.counters.of(0), state);
    start = taken;
  }
  const std::uint64_t whole = (count - start) / kLeafValues * kLeafValues;
  if (whole != 0 && call.device == nullptr) {
    find_pivot(call, start, start + whole, state);
    add_parts(call, start, first + start, whole, state);
  }
  if (whole != 0 && call.device != nullptr) {
    const std::uint64_t offset = start * call.params.value_bytes;
    const gpu::PointsInput input = {static_cast<const std::uint8_t*>(call.x) + offset,
                                    static_cast<const std::uint8_t*>(call.y) + offset,
                                    call.mask == nullptr ? nullptr : call.mask + start};
    if (!gpu::add_leaves(*call.device, call.params, input, first + start, whole / kLeafValues, state)) {
      throw DeviceFailure{call.device->error()};
    }
  }
  start += whole;
  if (start != count) {
    find_pivot(call, start, count, state);
    add_pending(call, start, first + start, static_cast<std::uint32_t>(count - start), state);
  }
  state.next = first + count;
  state.points.count += count;
}

void finalize_points(const State& state, h5l_assess_points_result& result) {
  result = state.points;
  const Moments moments = state.moments.total();
  result.mean_original = moments.mean_x;
  result.mean_error = moments.mean_e;
  result.squares_original = moments.squares_x;
  result.squares_error = moments.squares_e;
  result.products = moments.products;
  result.sum_abs_error = moments.sum_abs_error;
  result.sum_pointwise = moments.sum_pointwise;
  // Make zeros positive: their sign would depend on the order of the points.
  for (double* const end : {&result.original_min, &result.original_max, &result.decoded_min, &result.decoded_max,
                            &result.error_min, &result.error_max}) {
    *end += 0.0;
  }
  if (result.pointwise_min == HUGE_VAL && result.zeros == result.valid) result.pointwise_min = 0;
}

}  // namespace h5lossy::assess
