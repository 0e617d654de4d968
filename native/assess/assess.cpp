// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The assessment's entry points. They divide points into leaves and fields into cells, compute these with a backend's
// kernels on several threads, and add the results to the state in a fixed order.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "assess/backends.h"
#include "assess/fields.h"
#include "assess/gpu/stream.h"
#include "assess/kernels.h"
#include "assess/points.h"
#include "assess/slices.h"
#include "assess/state.h"
#include "assess/take.h"
#include "frame/message.h"
#include "h5lossy_assess.h"
#include "runtime/entry.h"
#include "runtime/threads.h"

namespace h5lossy {

namespace assess {
namespace {

constexpr std::uint64_t kMagic = 0x3161737365736168u;  // also detects another byte order

h5l_status check(const h5l_assess_params* params, const Message& why) {
  if (params == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "params must not be null");
  if (params->value_bytes != 4 && params->value_bytes != 8) {
    return why.fail(H5L_INVALID_ARGUMENT, "value_bytes must be 4 or 8, got %u", params->value_bytes);
  }
  if (params->bound_kind > H5L_BOUND_NONE || params->bound_kind == H5L_BOUND_RANGE_RELATIVE) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "bound_kind must be absolute (0), pointwise-relative (1), lossless (3) or none (4), got %u; "
                    "multiply a range-relative bound by the range",
                    params->bound_kind);
  }
  if (params->bound_kind <= H5L_BOUND_POINTWISE_RELATIVE && !(params->limit[0] >= 0)) {
    return why.fail(H5L_INVALID_ARGUMENT, "limit must be 0 or above, got %g", params->limit[0]);
  }
  if (!(params->histogram_limit == 0 ||
        (params->histogram_limit >= 1e-300 && std::isfinite(params->histogram_limit)))) {
    return why.fail(H5L_INVALID_ARGUMENT, "histogram_limit must be 0 or from 1e-300 up, got %g",
                    params->histogram_limit);
  }
  if (params->threshold_count > H5L_ASSESS_MAX_THRESHOLDS) {
    return why.fail(H5L_INVALID_ARGUMENT, "at most %d thresholds, got %u", H5L_ASSESS_MAX_THRESHOLDS,
                    params->threshold_count);
  }
  return H5L_OK;
}

h5l_status check_field(const h5l_assess_params& params, const Message& why) {
  if (params.rank < 1 || params.rank > H5L_ASSESS_MAX_RANK) {
    return why.fail(H5L_INVALID_ARGUMENT, "rank must be 1 to %d, got %u", H5L_ASSESS_MAX_RANK, params.rank);
  }
  constexpr std::uint64_t most_points = std::uint64_t{1} << 60;
  std::uint64_t points = 1;
  for (std::uint32_t axis = 0; axis < params.rank; ++axis) {
    if (params.shape[axis] == 0 || params.shape[axis] > most_points / points) {
      return why.fail(H5L_INVALID_ARGUMENT, "shape must be positive along every axis, and of at most 2^60 points");
    }
    points *= params.shape[axis];
    if (!(params.spacing[axis] > 0) || !std::isfinite(params.spacing[axis])) {
      return why.fail(H5L_INVALID_ARGUMENT, "spacing must be above 0 and finite, got %g", params.spacing[axis]);
    }
  }
  if (params.lags > H5L_ASSESS_MAX_LAGS) {
    return why.fail(H5L_INVALID_ARGUMENT, "lags must be at most %d, got %u", H5L_ASSESS_MAX_LAGS, params.lags);
  }
  for (std::uint32_t axis = 0; axis < params.rank && params.window[0] != 0; ++axis) {
    const std::uint32_t side = params.window[axis];
    if (side < 2 || side > H5L_ASSESS_MAX_WINDOW || params.step == 0) {
      return why.fail(H5L_INVALID_ARGUMENT, "window must be 2 to %d and step 1 or more, got %u and %u",
                      H5L_ASSESS_MAX_WINDOW, side, params.step);
    }
  }
  return H5L_OK;
}

bool is_aligned(const void* pointer, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

h5l_status check_state(const void* state, const Message& why) {
  if (state == nullptr || reinterpret_cast<std::uintptr_t>(state) % 8 != 0 ||
      static_cast<const State*>(state)->magic != kMagic) {
    return why.fail(H5L_INVALID_ARGUMENT, "state was not created by h5l_assess_begin");
  }
  return H5L_OK;
}

}  // namespace

h5l_status take_points(const h5l_assess_params* params, void* state, std::uint64_t first, std::uint64_t count,
                       const void* original, const void* decoded, const std::uint8_t* mask, gpu::AssessDevice* device,
                       const Message& why) {
  if (const h5l_status status = check(params, why); status != H5L_OK) return status;
  if (const h5l_status status = check_state(state, why); status != H5L_OK) return status;
  if (count != 0 && (original == nullptr || decoded == nullptr)) {
    return why.fail(H5L_INVALID_ARGUMENT, "original and decoded must not be null");
  }
  if (device != nullptr && !(is_aligned(original, params->value_bytes) && is_aligned(decoded, params->value_bytes))) {
    return why.fail(H5L_INVALID_ARGUMENT, "values on a GPU must be aligned to their size, %u bytes",
                    params->value_bytes);
  }
  const Kernels* kernels = nullptr;
  std::uint32_t threads = 1;
  if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
  if (device == nullptr) {
    if (const h5l_status status = choose_threads(params->threads, threads, why); status != H5L_OK) return status;
  }
  ThreadCounters counters(threads);
  try {
    add_points({*params, *kernels, original, decoded, mask, threads, device, counters}, first, count,
               *static_cast<State*>(state));
  } catch (const DeviceFailure& failure) {
    return why.fail(H5L_DEVICE_ERROR, "%s", failure.what.c_str());
  }
  return H5L_OK;
}

h5l_status take_field(const h5l_assess_params* params, void* state, const h5l_assess_piece* piece,
                      gpu::AssessDevice* device, const Message& why) {
  if (const h5l_status status = check(params, why); status != H5L_OK) return status;
  if (const h5l_status status = check_field(*params, why); status != H5L_OK) return status;
  if (const h5l_status status = check_state(state, why); status != H5L_OK) return status;
  if (piece == nullptr || piece->original == nullptr || piece->decoded == nullptr) {
    return why.fail(H5L_INVALID_ARGUMENT, "piece, original and decoded must not be null");
  }
  std::uint32_t side = 1;
  for (std::uint32_t axis = 0; axis < params->rank; ++axis) side = std::max(side, params->window[axis]);
  const std::uint32_t halo = std::max({params->lags, side - 1, params->stencils != 0 ? 2u : 0u});
  Placed placed;
  if (const h5l_status status = place(*params, *piece, halo, placed, why); status != H5L_OK) return status;
  for (std::uint32_t axis = 0; axis < 4 && device != nullptr; ++axis) {
    const bool fits = is_aligned(piece->original, params->value_bytes) &&
                      is_aligned(piece->decoded, params->value_bytes) &&
                      placed.view.original_strides[axis] % params->value_bytes == 0 &&
                      placed.view.decoded_strides[axis] % params->value_bytes == 0;
    if (fits) continue;
    return why.fail(H5L_INVALID_ARGUMENT, "values on a GPU must be aligned to their size, %u bytes",
                    params->value_bytes);
  }
  const Kernels* kernels = nullptr;
  std::uint32_t threads = 1;
  if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
  if (device == nullptr) {
    if (const h5l_status status = choose_threads(params->threads, threads, why); status != H5L_OK) return status;
  }
  State& known = *static_cast<State*>(state);
  const Rules rules = make_rules(*params, &known);
  try {
    add_field(*params, *kernels, threads, placed, rules, device, known);
    if (device != nullptr && !device->wait()) throw DeviceFailure{device->error()};
  } catch (const DeviceFailure& failure) {
    return why.fail(H5L_DEVICE_ERROR, "%s", failure.what.c_str());
  }
  return H5L_OK;
}

namespace {

// Checks the arguments of the data SSIM, and calls add().
h5l_status take_slices(const h5l_assess_params* params, const h5l_assess_piece* piece, std::uint32_t halo,
                       decltype(add_ranges) add, h5l_assess_slice* slices, std::size_t count, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check(params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_field(*params, why); status != H5L_OK) return status;
    if (piece == nullptr || piece->original == nullptr || piece->decoded == nullptr || slices == nullptr) {
      return why.fail(H5L_INVALID_ARGUMENT, "piece, original, decoded and slices must not be null");
    }
    if (params->on_device != 0) return why.fail(H5L_UNSUPPORTED, "the data SSIM needs values in host memory");
    Placed placed;
    if (const h5l_status status = place(*params, *piece, halo, placed, why); status != H5L_OK) return status;
    const std::uint64_t owned = (placed.end[kW] - placed.first[kW]) * (placed.end[kZ] - placed.first[kZ]);
    const bool is_whole = placed.first[kX] == 0 && placed.end[kX] == params->shape[params->rank - 1];
    if (count != owned || !is_whole || placed.first[kY] % kDssimRows != 0) {
      return why.fail(H5L_INVALID_ARGUMENT,
                      "the piece must hold %zu slices, whole rows of them from a multiple of %u on", count, kDssimRows);
    }
    const Kernels* kernels = nullptr;
    std::uint32_t threads = 1;
    if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
    if (const h5l_status status = choose_threads(params->threads, threads, why); status != H5L_OK) return status;
    add(*params, *kernels, threads, placed, make_rules(*params, nullptr), slices);
    return H5L_OK;
  });
}

// Calls take(device) with the GPU that holds the values, or null.
template <class Take>
h5l_status with_device(const h5l_assess_params* params, const void* values, h5l_message* message, Take take) {
  return guarded(message, [&](const Message& why) {
    if (params == nullptr || params->on_device == 0) return take(nullptr, why);
    std::string reason;
    const auto stream = gpu::AssessStream::open(values, reason);
    return stream != nullptr ? take(stream.get(), why) : why.fail(H5L_DEVICE_ERROR, "%s", reason.c_str());
  });
}

}  // namespace
}  // namespace assess
}  // namespace h5lossy

using namespace h5lossy;
using namespace h5lossy::assess;

extern "C" {

size_t h5l_assess_state_bytes(void) { return sizeof(State); }

h5l_status h5l_assess_begin(void* state, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (state == nullptr || reinterpret_cast<std::uintptr_t>(state) % 8 != 0) {
      return why.fail(H5L_INVALID_ARGUMENT, "the address of state must be a multiple of 8");
    }
    clear(*static_cast<State*>(state));
    static_cast<State*>(state)->magic = kMagic;
    return H5L_OK;
  });
}

h5l_status h5l_assess_points(const h5l_assess_params* params, void* state, uint64_t first, uint64_t count,
                             const void* original, const void* decoded, const uint8_t* mask, h5l_message* message) {
  return with_device(params, original, message, [&](gpu::AssessDevice* device, const Message& why) {
    return take_points(params, state, first, count, original, decoded, mask, device, why);
  });
}

h5l_status h5l_assess_field(const h5l_assess_params* params, void* state, const h5l_assess_piece* piece,
                            h5l_message* message) {
  const void* const values = piece == nullptr ? nullptr : piece->original;
  return with_device(params, values, message, [&](gpu::AssessDevice* device, const Message& why) {
    return take_field(params, state, piece, device, why);
  });
}

h5l_status h5l_assess_ranges(const h5l_assess_params* params, const h5l_assess_piece* piece, h5l_assess_slice* slices,
                             size_t slice_count, h5l_message* message) {
  return take_slices(params, piece, 0, add_ranges, slices, slice_count, message);
}

h5l_status h5l_assess_dssim(const h5l_assess_params* params, const h5l_assess_piece* piece, h5l_assess_slice* slices,
                            size_t slice_count, h5l_message* message) {
  return take_slices(params, piece, kDssimTaps - 1, add_dssim, slices, slice_count, message);
}

h5l_status h5l_assess_boxes(const h5l_assess_params* params, const h5l_assess_piece* piece,
                            const uint64_t box_extent[4], h5l_assess_box* boxes, size_t box_count,
                            h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check(params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_field(*params, why); status != H5L_OK) return status;
    if (piece == nullptr || piece->original == nullptr || piece->decoded == nullptr || box_extent == nullptr ||
        boxes == nullptr) {
      return why.fail(H5L_INVALID_ARGUMENT, "piece, original, decoded, box_extent and boxes must not be null");
    }
    if (params->on_device != 0) return why.fail(H5L_UNSUPPORTED, "boxes need values in host memory");
    Placed placed;
    if (const h5l_status status = place(*params, *piece, 0, placed, why); status != H5L_OK) return status;
    const Kernels* kernels = nullptr;
    if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
    const std::uint32_t lead = 4 - params->rank;
    std::uint64_t extent[4] = {1, 1, 1, 1};
    std::uint64_t grid[4] = {1, 1, 1, 1};
    std::uint64_t total = 1;
    for (std::uint32_t axis = lead; axis < 4; ++axis) {
      extent[axis] = box_extent[axis - lead];
      if (extent[axis] == 0) return why.fail(H5L_INVALID_ARGUMENT, "box_extent must be 1 or more along every axis");
      grid[axis] = (params->shape[axis - lead] - 1) / extent[axis] + 1;
      total *= grid[axis];
    }
    if (box_count != total) {
      return why.fail(H5L_INVALID_ARGUMENT, "the grid has %llu boxes, got %zu", static_cast<unsigned long long>(total),
                      box_count);
    }
    const Rules rules = make_rules(*params, nullptr);
    u64 at[4] = {};
    at[kX] = placed.first[kX];
    for (at[kW] = placed.first[kW]; at[kW] < placed.end[kW]; ++at[kW]) {
      for (at[kZ] = placed.first[kZ]; at[kZ] < placed.end[kZ]; ++at[kZ]) {
        for (at[kY] = placed.first[kY]; at[kY] < placed.end[kY]; ++at[kY]) {
          const std::uint64_t row =
              ((at[kW] / extent[kW] * grid[kZ] + at[kZ] / extent[kZ]) * grid[kY] + at[kY] / extent[kY]) * grid[kX];
          kernels->boxes(params->value_bytes, placed.view, rules, at, placed.end[kX] - placed.first[kX], extent[kX],
                         boxes + row);
        }
      }
    }
    return H5L_OK;
  });
}

h5l_status h5l_assess_slices(const h5l_assess_params* params, void* state, const void* original, const void* decoded,
                             const uint8_t* mask, h5l_assess_slice_result* slices, size_t slice_count,
                             h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check(params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_field(*params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_state(state, why); status != H5L_OK) return status;
    if (slice_count != 0 && (original == nullptr || decoded == nullptr || slices == nullptr)) {
      return why.fail(H5L_INVALID_ARGUMENT, "original, decoded and slices must not be null");
    }
    if (params->on_device != 0) return why.fail(H5L_UNSUPPORTED, "slices need values in host memory");
    h5l_assess_piece piece = {};
    std::uint64_t points = 1;
    for (std::uint32_t axis = params->rank; axis-- != 0;) {
      const auto bytes = static_cast<std::int64_t>(points * params->value_bytes);
      piece.original_strides[axis] = piece.decoded_strides[axis] = bytes;
      piece.mask_strides[axis] = static_cast<std::int64_t>(points);
      piece.extent[axis] = piece.own_extent[axis] = params->shape[axis];
      points *= params->shape[axis];
    }
    Placed placed;
    if (const h5l_status status = place(*params, piece, 0, placed, why); status != H5L_OK) return status;
    const Kernels* kernels = nullptr;
    std::uint32_t threads = 1;
    if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
    if (const h5l_status status = choose_threads(params->threads, threads, why); status != H5L_OK) return status;
    ThreadCounters counters(threads);
    add_slices({*params, *kernels, original, decoded, mask, threads, nullptr, counters}, placed, points, slices,
               slice_count, *static_cast<State*>(state));
    return H5L_OK;
  });
}

h5l_status h5l_assess_merge(const h5l_assess_params* params, void* state, const void* other, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check(params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_state(state, why); status != H5L_OK) return status;
    if (const h5l_status status = check_state(other, why); status != H5L_OK) return status;
    const Kernels* kernels = nullptr;
    if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
    const auto copy = std::make_unique<State>(*static_cast<const State*>(other));
    flush_pending(*params, *kernels, ThreadCounters(1).of(0), *copy);
    add_state(*static_cast<State*>(state), *copy);
    return H5L_OK;
  });
}

h5l_status h5l_assess_result(const h5l_assess_params* params, const void* state, h5l_assess_points_result* points,
                             h5l_assess_field_result* field, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check(params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_state(state, why); status != H5L_OK) return status;
    if (field != nullptr && params->rank > H5L_ASSESS_MAX_RANK) {
      return why.fail(H5L_INVALID_ARGUMENT, "rank must be at most %d, got %u", H5L_ASSESS_MAX_RANK, params->rank);
    }
    const Kernels* kernels = nullptr;
    if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
    const State* known = static_cast<const State*>(state);
    std::unique_ptr<State> copy;  // with the points of the incomplete leaf
    if (known->pending.count != 0) {
      copy = std::make_unique<State>(*known);
      flush_pending(*params, *kernels, ThreadCounters(1).of(0), *copy);
      known = copy.get();
    }
    if (points != nullptr) finalize_points(*known, *points);
    if (field != nullptr) finalize_field(*params, *known, *field);
    return H5L_OK;
  });
}

}  // extern "C"
