// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The assessment's entry points. They divide points into leaves and fields into cells, compute these with a backend's
// kernels on several threads, and add the results to the state in a fixed order.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "assess/gpu/stream.h"
#include "assess/kernels.h"
#include "assess/state.h"
#include "assess/take.h"
#include "chunk/api_guards.h"
#include "chunk/swap.h"
#include "frame/message.h"
#include "h5lossy_assess.h"
#include "runtime/pool.h"
#include "runtime/registry.h"
#include "runtime/threads.h"

namespace h5lossy {

namespace assess {
namespace {

constexpr std::uint64_t kMagic = 0x3161737365736168u;  // also detects another byte order

// The most cells whose results are kept at a time, unless a plane of the field has more.
constexpr std::uint64_t kCellsAtOnce = 8192;

// The most values that are copied from a GPU to the host at a time.
constexpr std::uint64_t kMostCopied = std::uint64_t{1} << 22;

// Thrown if the GPU fails.
struct DeviceFailure {
  std::string what;
};

h5l_status choose_kernels(const Kernels*& kernels, const Message& why) {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  kernels = &backend->assess;
  return H5L_OK;
}

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
  for (std::uint32_t axis = 0; axis < params.rank; ++axis) {
    if (params.shape[axis] == 0 || params.shape[axis] > (std::uint64_t{1} << 60)) {
      return why.fail(H5L_INVALID_ARGUMENT, "shape must be positive along every axis");
    }
    if (!(params.spacing[axis] > 0) || !std::isfinite(params.spacing[axis])) {
      return why.fail(H5L_INVALID_ARGUMENT, "spacing must be above 0 and finite, got %g", params.spacing[axis]);
    }
  }
  if (params.lags > H5L_ASSESS_MAX_LAGS) {
    return why.fail(H5L_INVALID_ARGUMENT, "lags must be at most %d, got %u", H5L_ASSESS_MAX_LAGS, params.lags);
  }
  if (params.window != 0 && (params.window < 2 || params.window > H5L_ASSESS_MAX_WINDOW || params.step == 0)) {
    return why.fail(H5L_INVALID_ARGUMENT, "window must be 2 to %d and step 1 or more, got %u and %u",
                    H5L_ASSESS_MAX_WINDOW, params.window, params.step);
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

std::unique_ptr<PointsPart> new_part() {
  auto part = std::make_unique<PointsPart>();  // all zeros
  part->grid_exponent = kNoGrid;
  part->pointwise_min = HUGE_VAL;
  return part;
}

// Values in native byte order and aligned, copied if necessary.
class NativeValues {
 public:
  NativeValues(const void* values, std::uint64_t count, std::uint32_t value_bytes, bool big_endian)
      : values_(values), value_bytes_(value_bytes), big_endian_(big_endian) {
    if (big_endian || reinterpret_cast<std::uintptr_t>(values) % value_bytes != 0) {
      copy_.resize(std::min<std::uint64_t>(count, kPartLeaves * kLeafValues));
    }
  }

  const void* part(std::uint64_t start, std::uint32_t count) {
    const auto* const from = static_cast<const std::uint8_t*>(values_) + start * value_bytes_;
    if (copy_.empty()) return from;
    auto* const to = reinterpret_cast<std::uint8_t*>(copy_.data());
    const std::size_t bytes = std::size_t{count} * value_bytes_;
    if (big_endian_) {
      copy_swapped(from, to, bytes, value_bytes_);
    } else {
      std::memcpy(to, from, bytes);
    }
    return to;
  }

 private:
  const void* values_;
  std::uint32_t value_bytes_;
  bool big_endian_;
  std::vector<double> copy_;
};

struct PointsCall {
  const h5l_assess_params& params;
  const Kernels& kernels;
  const void* x;
  const void* y;
  const std::uint8_t* mask;
  std::uint32_t threads;
  gpu::AssessDevice* device;  // holds the values; null if they are in host memory
};

void flush_pending(const h5l_assess_params& params, const Kernels& kernels, State& state) {
  Pending& pending = state.pending;
  if (pending.count == 0) return;
  const auto part = new_part();
  kernels.points(params, pending.first, pending.x, pending.y, pending.has_mask != 0 ? pending.mask : nullptr,
                 pending.count, *part);
  add_part(state, *part);
  pending.count = 0;
  pending.has_mask = 0;
}

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
  const auto take = [&](const std::uint8_t* values, bool big_endian, std::uint8_t* to) {
    to += std::size_t{pending.count} * bytes;
    if (big_endian) {
      copy_swapped(values, to, std::size_t{count} * bytes, bytes);
    } else {
      std::memcpy(to, values, std::size_t{count} * bytes);
    }
  };
  take(copy.x, call.params.original_big_endian != 0, pending.x);
  take(copy.y, call.params.decoded_big_endian != 0, pending.y);
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
  const std::uint64_t parts = (count + kPart - 1) / kPart;
  const std::uint64_t at_once = std::min<std::uint64_t>(parts, std::uint64_t{call.threads} * 4);
  std::vector<std::unique_ptr<PointsPart>> results(at_once);
  for (std::uint64_t done = 0; done < parts; done += at_once) {
    const std::uint64_t now = std::min(at_once, parts - done);
    for (std::uint64_t i = 0; i < now; ++i) results[i] = new_part();
    std::atomic<bool> failed = false;
    run_batch(now, call.threads, [&](std::size_t i) {
      const std::uint64_t offset = (done + i) * kPart;
      const auto size = static_cast<std::uint32_t>(std::min(kPart, count - offset));
      try {
        NativeValues x(call.x, size, call.params.value_bytes, call.params.original_big_endian != 0);
        NativeValues y(call.y, size, call.params.value_bytes, call.params.decoded_big_endian != 0);
        call.kernels.points(call.params, first + offset, x.part(start + offset, size), y.part(start + offset, size),
                            call.mask == nullptr ? nullptr : call.mask + start + offset, size, *results[i]);
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

// Whether all points so far are valid, including those of the incomplete leaf.
template <class T, class Word>
bool all_valid(const h5l_assess_params& params, const State& state) {
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

void add_points(const PointsCall& call, std::uint64_t first, std::uint64_t count, State& state) {
  if (first != state.next) flush_pending(call.params, call.kernels, state);
  std::uint64_t start = 0;
  const std::uint64_t to_border = (kLeafValues - first % kLeafValues) % kLeafValues;
  if (to_border != 0) {
    const auto taken = static_cast<std::uint32_t>(std::min(count, to_border));
    find_pivot(call, 0, taken, state);
    add_pending(call, 0, first, taken, state);
    if (taken == to_border) flush_pending(call.params, call.kernels, state);
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

// ---------------------------------------------------------------------------------------------------------------------
// Fields
// ---------------------------------------------------------------------------------------------------------------------

enum Axis : std::uint32_t { kW, kZ, kY, kX };

FieldPlan make_plan(const h5l_assess_params& params) {
  FieldPlan plan = {};
  const std::uint32_t lead = 4 - params.rank;
  for (std::uint32_t axis = 0; axis < 4; ++axis) {
    plan.present[axis] = axis >= lead;
    plan.shape[axis] = axis < lead ? 1 : params.shape[axis - lead];
    plan.finer[axis] = axis < lead ? 1 : params.spacing[params.rank - 1] / params.spacing[axis - lead];
    plan.window[axis] = axis < lead || params.window == 0 ? 1 : params.window;
  }
  plan.rank = params.rank;
  plan.lags = params.lags;
  plan.stencils = params.stencils != 0;
  plan.squares_fit = params.value_bytes == 4;
  for (const double finer : plan.finer) plan.squares_fit = plan.squares_fit && finer >= 0x1p-40 && finer <= 0x1p40;
  plan.step = params.step;
  plan.points = 1;
  for (const std::uint32_t side : plan.window) plan.points *= side;
  // Products of four sums cannot overflow for float32, nor for float64 unless the range is very large or small.
  int exponent = 0;
  if (params.value_bytes == 8) static_cast<void>(std::frexp(params.value_range, &exponent));
  plan.unit = std::abs(exponent) <= 100 ? 1.0 : std::ldexp(1.0, -std::clamp(exponent, -1000, 1000));
  // Limited to the differences that float32 values can have, so that kernels need not handle others.
  const double value_range =
      params.value_bytes == 8 ? params.value_range : std::clamp(params.value_range, 0x1p-149, 0x1p129);
  const double range = value_range * plan.unit * plan.points;
  plan.c1 = 2 * (0.01 * range) * (0.01 * range);
  plan.c2 = 2 * (0.03 * range) * (0.03 * range);
  return plan;
}

struct Placed {
  View view;
  std::uint64_t first[4], end[4];  // owned
};

h5l_status place(const h5l_assess_params& params, const h5l_assess_piece& piece, std::uint32_t halo, Placed& placed,
                 const Message& why) {
  const std::uint32_t lead = 4 - params.rank;
  View& view = placed.view;
  view = {};
  view.original = static_cast<const u8*>(piece.original);
  view.decoded = static_cast<const u8*>(piece.decoded);
  view.mask = piece.mask;
  for (std::uint32_t axis = 0; axis < 4; ++axis) {
    placed.first[axis] = 0;
    placed.end[axis] = 1;
    if (axis < lead) continue;
    const std::uint32_t a = axis - lead;
    const std::uint64_t shape = params.shape[a];
    const std::uint64_t first = piece.own_origin[a];
    const bool inside = piece.origin[a] <= shape && piece.extent[a] <= shape - piece.origin[a] &&
                        first >= piece.origin[a] && piece.own_extent[a] <= piece.extent[a] &&
                        first - piece.origin[a] <= piece.extent[a] - piece.own_extent[a];
    if (!inside)
      return why.fail(H5L_INVALID_ARGUMENT,
                      "axis %u: a piece must lie in its field and contain the points that it owns", a);
    const std::uint64_t end = first + piece.own_extent[a];
    const std::uint64_t needed = std::min<std::uint64_t>(end + halo, shape);
    if (piece.own_extent[a] != 0 && needed > piece.origin[a] + piece.extent[a]) {
      return why.fail(H5L_INVALID_ARGUMENT,
                      "axis %u: a piece must extend %u points beyond those that it owns, or to the end of its field", a,
                      halo);
    }
    placed.first[axis] = first;
    placed.end[axis] = end;
    view.origin[axis] = piece.origin[a];
    view.original_strides[axis] = piece.original_strides[a];
    view.decoded_strides[axis] = piece.decoded_strides[a];
    view.mask_strides[axis] = piece.mask_strides[a];
  }
  const std::int64_t size = params.value_bytes;
  if (view.original_strides[kX] != size || view.decoded_strides[kX] != size ||
      (view.mask != nullptr && view.mask_strides[kX] != 1)) {
    return why.fail(H5L_INVALID_ARGUMENT, "values along the last axis must be adjacent");
  }
  return H5L_OK;
}

// Divides [first, end) at multiples of `length`.
std::vector<std::uint64_t> cuts(std::uint64_t first, std::uint64_t end, std::uint64_t length) {
  std::vector<std::uint64_t> places{first};
  for (std::uint64_t at = (first / length + 1) * length; at < end; at += length) places.push_back(at);
  places.push_back(end);
  return places;
}

// The number of cells of this length between each two cuts.
std::vector<std::uint64_t> cells_between(const std::vector<std::uint64_t>& places, std::uint64_t length) {
  std::vector<std::uint64_t> cells;
  for (std::size_t i = 0; i + 1 < places.size(); ++i) {
    cells.push_back((places[i + 1] - 1) / length - places[i] / length + 1);
  }
  return cells;
}

// The extents of cells along y and x, and the number of cells of a column in a plane along each.
struct CellLayout {
  std::uint64_t rows, columns, down, across;
};

// Runs a kernel over the cells of [first, end), and calls add(result) for each in the order of the cells.
template <class Cell, class Kernel, class Add>
void for_each_cell(const std::uint64_t (&first)[4], const std::uint64_t (&end)[4], const CellLayout& layout,
                   std::uint64_t most_planes, std::uint32_t threads, Kernel kernel, Add add) {
  for (int axis = 0; axis < 4; ++axis) {
    if (first[axis] >= end[axis]) return;
  }
  const auto rows = cuts(first[kY], end[kY], layout.rows * layout.down);
  const auto cells_down = cells_between(rows, layout.rows);
  const auto columns = cuts(first[kX], end[kX], layout.columns * layout.across);
  const auto cells_across = cells_between(columns, layout.columns);
  const std::uint64_t wide = columns.size() - 1;
  const std::uint64_t across = (rows.size() - 1) * wide;
  const std::uint64_t planes = end[kZ] - first[kZ];
  const std::uint64_t most_cells = layout.down * layout.across;  // of a column in a plane
  const std::uint64_t deep =
      std::clamp<std::uint64_t>(kCellsAtOnce / (across * most_cells), 1, std::min(planes, most_planes));
  // If there are fewer columns than threads, columns are divided along z. Each part reads a halo of planes again, so parts
  // must not be too short.
  const std::uint64_t wanted = across >= 2 * threads || threads == 1 ? 1 : (2 * threads + across - 1) / across;
  const std::uint64_t step = std::max<std::uint64_t>((deep + wanted - 1) / wanted, std::min<std::uint64_t>(deep, 16));
  const std::uint64_t stride = deep * most_cells;
  std::vector<Cell> cells(across * stride);
  for (std::uint64_t w = first[kW]; w < end[kW]; ++w) {
    for (std::uint64_t z = first[kZ]; z < end[kZ]; z += deep) {
      const std::uint64_t now = std::min(deep, end[kZ] - z);
      const std::uint64_t segments = (now + step - 1) / step;
      std::atomic<bool> failed = false;
      run_batch(across * segments, threads, [&](std::size_t i) {
        const std::uint64_t segment = i % segments;
        const std::uint64_t which = i / segments;
        const std::uint64_t y = which / wide;
        const std::uint64_t x = which % wide;
        const std::uint64_t from = segment * step;
        const std::uint64_t to = std::min(now, from + step);
        const Column column{{w, z + from, rows[y], columns[x]}, {w + 1, z + to, rows[y + 1], columns[x + 1]}};
        if (!kernel(column, cells.data() + which * stride + from * cells_down[y] * cells_across[x])) failed = true;
      });
      if (failed) throw std::bad_alloc();
      for (std::uint64_t plane = 0; plane < now; ++plane) {
        for (std::uint64_t y = 0; y < cells_down.size(); ++y) {
          for (std::uint64_t row = 0; row < cells_down[y]; ++row) {
            for (std::uint64_t x = 0; x < wide; ++x) {
              const Cell* const own = cells.data() + (y * wide + x) * stride;
              for (std::uint64_t i = 0; i < cells_across[x]; ++i) {
                add(own[(plane * cells_down[y] + row) * cells_across[x] + i]);
              }
            }
          }
        }
      }
    }
  }
}

Rules make_rules(const h5l_assess_params& params, const State& state) {
  Rules rules = {};
  rules.original_big_endian = params.original_big_endian != 0;
  rules.decoded_big_endian = params.decoded_big_endian != 0;
  rules.has_fill = params.has_fill != 0;
  rules.fill_bits = params.fill_bits;
  rules.pivot_x = state.pivot_x;
  rules.pivot_e = state.pivot_e;
  rules.all_valid = params.value_bytes == 4 ? all_valid<float, unsigned>(params, state)
                                            : all_valid<double, unsigned long long>(params, state);
  return rules;
}

void add_field(const h5l_assess_params& params, const Kernels& kernels, std::uint32_t threads, const Placed& placed,
               const Rules& rules, gpu::AssessDevice* device, State& state) {
  const FieldPlan plan = make_plan(params);
  const std::uint64_t line = params.rank == 1 ? kLineColumns : 0;
  const auto input = [&](const std::uint64_t (&end)[4], std::uint64_t rows, std::uint64_t columns) {
    gpu::FieldInput made = {params.value_bytes, placed.view, rules, plan, {}, {}, rows, std::max(line, columns)};
    std::copy(placed.first, placed.first + 4, made.first);
    std::copy(end, end + 4, made.end);
    return made;
  };
  if ((plan.stencils || plan.lags != 0) && device != nullptr) {
    if (!gpu::add_stencils(*device, input(placed.end, kCellRows, kCellColumns), state)) {
      throw DeviceFailure{device->error()};
    }
  } else if (plan.stencils || plan.lags != 0) {
    for_each_cell<StencilCell>(
        placed.first, placed.end, {kCellRows, std::max<std::uint64_t>(line, kCellColumns), 1, 1}, ~std::uint64_t{0},
        threads,
        [&](const Column& column, StencilCell* cells) {
          return kernels.stencils(params.value_bytes, placed.view, rules, plan, column, cells);
        },
        [&](const StencilCell& cell) {
          state.stencils.push(cell.sums);
          add_extrema(state.extrema, cell.extrema);
        });
  }
  if (params.window == 0 || !(params.value_range > 0) || !std::isfinite(params.value_range)) return;
  std::uint64_t end[4];
  for (std::uint32_t axis = 0; axis < 4; ++axis) {
    if (plan.shape[axis] < plan.window[axis]) return;
    end[axis] = std::min<std::uint64_t>(placed.end[axis], plan.shape[axis] - plan.window[axis] + 1);
  }
  if (device != nullptr) {
    if (!gpu::add_windows(*device, input(end, kWindowRows, kWindowColumns), state)) {
      throw DeviceFailure{device->error()};
    }
    return;
  }
  const std::uint64_t most_planes = params.rank == 4 ? 8 : ~std::uint64_t{0};  // in 4D, each plane needs its own ring
  for_each_cell<WindowCell>(
      placed.first, end,
      {kWindowRows, std::max<std::uint64_t>(line, kWindowColumns), kWindowCellsDown,
       line == 0 ? kWindowCellsAcross : 1},
      most_planes, threads,
      [&](const Column& column, WindowCell* cells) {
        return kernels.windows(params.value_bytes, placed.view, rules, plan, column, cells);
      },
      [&](const WindowCell& cell) {
        state.windows.push(cell.sums);
        add_worst_window(state, cell.worst, cell.at);
      });
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

void finalize_field(const h5l_assess_params& params, const State& state, h5l_assess_field_result& result) {
  const StencilSums sums = state.stencils.total();
  const StencilExtrema& extrema = state.extrema;
  const std::uint32_t lead = 4 - std::clamp<std::uint32_t>(params.rank, 1, 4);
  result = {};
  result.interior = static_cast<std::uint64_t>(sums.interior);
  const double last_step = params.rank == 0 ? 1 : params.spacing[params.rank - 1];
  const double per_step = 1.0 / (2 * last_step);
  const double per_square = 1.0 / (last_step * last_step);
  for (std::uint32_t axis = lead; axis < 4; ++axis) {
    result.slope_max[axis - lead] = extrema.slope[axis] * per_step;
    result.slope_error_max[axis - lead] = extrema.slope_error[axis] * per_step;
    result.slope_error_squares[axis - lead] = sums.slope_error[axis] * per_step * per_step;
  }
  const bool is_square = make_plan(params).squares_fit;
  result.gradient_min = result.interior == 0 ? 0 : std::sqrt(extrema.gradient_min) * per_step;
  result.gradient_max = std::sqrt(extrema.gradient_max) * per_step;
  result.gradient_error_max = (is_square ? std::sqrt(extrema.gradient_error) : extrema.gradient_error) * per_step;
  result.gradient_error_squares = sums.gradient_error * per_step * per_step;
  result.laplacian_squares = sums.laplacian * per_square * per_square;
  result.laplacian_error_max = extrema.laplacian_error * per_square;
  result.laplacian_error_squares = sums.laplacian_error * per_square * per_square;
  result.error_squares = sums.error;
  result.pivot_error = state.pivot_e;
  for (std::uint32_t axis = 0; axis < kLagAxes; ++axis) {
    const std::uint32_t from = axis == kLagAxes - 1 ? axis : axis + lead;
    if (from > kLagAxes - 2 && axis != kLagAxes - 1) continue;
    for (int lag = 0; lag < H5L_ASSESS_MAX_LAGS; ++lag) {
      result.lag_pairs[axis][lag] = sums.lag_pairs[from][lag];
      result.lag_products[axis][lag] = sums.lag_products[from][lag];
      result.lag_sums[axis][lag] = sums.lag_sums[from][lag];
    }
  }
  const WindowSums windows = state.windows.total();
  result.windows = static_cast<std::uint64_t>(windows.windows);
  result.window_sum = windows.sum;
  result.window_worst = state.window_worst;
  for (std::uint32_t axis = lead; axis < 4; ++axis) result.window_at[axis - lead] = state.window_at[axis];
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
  try {
    add_points({*params, *kernels, original, decoded, mask, threads, device}, first, count,
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
  const std::uint32_t halo =
      std::max({params->lags, params->window == 0 ? 0u : params->window - 1, params->stencils != 0 ? 2u : 0u});
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
  const Rules rules = make_rules(*params, known);
  try {
    add_field(*params, *kernels, threads, placed, rules, device, known);
    if (device != nullptr && !device->wait()) throw DeviceFailure{device->error()};
  } catch (const DeviceFailure& failure) {
    return why.fail(H5L_DEVICE_ERROR, "%s", failure.what.c_str());
  }
  return H5L_OK;
}

namespace {

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
      grid[axis] = (params->shape[axis - lead] + extent[axis] - 1) / extent[axis];
      total *= grid[axis];
    }
    if (box_count != total) {
      return why.fail(H5L_INVALID_ARGUMENT, "the grid has %llu boxes, got %zu", static_cast<unsigned long long>(total),
                      box_count);
    }
    Rules rules = {};
    rules.original_big_endian = params->original_big_endian != 0;
    rules.decoded_big_endian = params->decoded_big_endian != 0;
    rules.has_fill = params->has_fill != 0;
    rules.fill_bits = params->fill_bits;
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

h5l_status h5l_assess_merge(const h5l_assess_params* params, void* state, const void* other, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check(params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_state(state, why); status != H5L_OK) return status;
    if (const h5l_status status = check_state(other, why); status != H5L_OK) return status;
    const Kernels* kernels = nullptr;
    if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
    const auto copy = std::make_unique<State>(*static_cast<const State*>(other));
    flush_pending(*params, *kernels, *copy);
    add_state(*static_cast<State*>(state), *copy);
    return H5L_OK;
  });
}

h5l_status h5l_assess_result(const h5l_assess_params* params, const void* state, h5l_assess_points_result* points,
                             h5l_assess_field_result* field, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check(params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_state(state, why); status != H5L_OK) return status;
    const Kernels* kernels = nullptr;
    if (const h5l_status status = choose_kernels(kernels, why); status != H5L_OK) return status;
    const State* known = static_cast<const State*>(state);
    std::unique_ptr<State> copy;  // with the points of the incomplete leaf
    if (known->pending.count != 0) {
      copy = std::make_unique<State>(*known);
      flush_pending(*params, *kernels, *copy);
      known = copy.get();
    }
    if (points != nullptr) finalize_points(*known, *points);
    if (field != nullptr) finalize_field(*params, *known, *field);
    return H5L_OK;
  });
}

}  // extern "C"
