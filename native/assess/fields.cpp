// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "assess/fields.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "assess/points.h"
#include "runtime/pool.h"

namespace h5lossy::assess {
namespace {

// The most memory for the results of cells that are kept at a time, unless a plane of the field needs more.
constexpr std::uint64_t kCellBytesAtOnce = std::uint64_t{16} << 20;

// Threads add up groups of 2^kAddedLevel cells before these are added to the state.
constexpr std::uint32_t kAddedLevel = 6;

constexpr std::align_val_t kCacheLine{64};

FieldPlan make_plan(const h5l_assess_params& params) {
  FieldPlan plan = {};
  const std::uint32_t lead = 4 - params.rank;
  for (std::uint32_t axis = 0; axis < 4; ++axis) {
    plan.present[axis] = axis >= lead;
    plan.shape[axis] = axis < lead ? 1 : params.shape[axis - lead];
    plan.finer[axis] = axis < lead ? 1 : params.spacing[params.rank - 1] / params.spacing[axis - lead];
    plan.window[axis] = axis < lead || params.window[0] == 0 ? 1 : params.window[axis - lead];
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

}  // namespace

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

namespace {

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

// The memory of each worker of a batch.
class Scratches {
 public:
  explicit Scratches(std::uint32_t workers) : each_(workers) {}
  Scratches(const Scratches&) = delete;
  Scratches& operator=(const Scratches&) = delete;
  ~Scratches() {
    for (const Scratch& one : each_) ::operator delete(one.values, kCacheLine);
  }

  Scratch& of(std::uint32_t worker) { return each_[worker]; }

 private:
  std::vector<Scratch> each_;
};

// The extents of cells along y and x, and the number of cells of a column in a plane along each.
struct CellLayout {
  std::uint64_t rows, columns, down, across;
};

// Calls add(result, level) for consecutive cells in their order, or for sums of groups of 2^level cells, such that a
// tree to which `pushed` cells were added has the same sum.
template <class Cell, class At, class Add>
void add_cells(std::uint64_t pushed, std::uint64_t count, std::uint32_t threads, At cell, Add add) {
  constexpr std::uint64_t kGroup = std::uint64_t{1} << kAddedLevel;
  const std::uint64_t head = std::min(count, (kGroup - pushed % kGroup) % kGroup);
  std::vector<Cell> sums((count - head) / kGroup);
  run_batch(sums.size(), threads, [&](std::size_t i) {
    Tree<Cell, kAddedLevel + 1> group;
    group.depth = 0;
    for (std::uint64_t k = 0; k < kGroup; ++k) group.push(cell(head + i * kGroup + k));
    sums[i] = group.node[0];
  });
  for (std::uint64_t i = 0; i < head; ++i) add(cell(i), 0);
  for (const Cell& sum : sums) add(sum, kAddedLevel);
  for (std::uint64_t i = head + sums.size() * kGroup; i < count; ++i) add(cell(i), 0);
}

// Runs a kernel over the cells of [first, end), and calls add(result, level), as add_cells() does.
template <class Cell, class Kernel, class Add>
void for_each_cell(const std::uint64_t (&first)[4], const std::uint64_t (&end)[4], const CellLayout& layout,
                   std::uint64_t most_planes, std::uint32_t threads, std::uint64_t pushed, Kernel kernel, Add add) {
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
  const std::uint64_t deep = std::clamp<std::uint64_t>(kCellBytesAtOnce / (across * most_cells * sizeof(Cell)), 1,
                                                       std::min(planes, most_planes));
  // If there are fewer columns than threads, columns are divided along z. Each part reads a halo of planes again, so
  // parts must not be too short.
  const std::uint64_t wanted = across >= 2 * threads || threads == 1 ? 1 : (2 * threads + across - 1) / across;
  const std::uint64_t step = std::max<std::uint64_t>((deep + wanted - 1) / wanted, std::min<std::uint64_t>(deep, 16));
  const std::uint64_t stride = deep * most_cells;
  const auto cells = std::make_unique_for_overwrite<Cell[]>(across * stride);
  // Where the cells of the first plane are, in their order, and how far from them those of the next plane.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  places.reserve(across * most_cells);
  for (std::uint64_t y = 0; y < cells_down.size(); ++y) {
    for (std::uint64_t row = 0; row < cells_down[y]; ++row) {
      for (std::uint64_t x = 0; x < wide; ++x) {
        const std::uint64_t plane = cells_down[y] * cells_across[x];
        const std::uint64_t at = (y * wide + x) * stride + row * cells_across[x];
        for (std::uint64_t i = 0; i < cells_across[x]; ++i) places.emplace_back(at + i, plane);
      }
    }
  }
  const auto cell = [&](std::uint64_t i) -> const Cell& {
    const auto& [at, plane] = places[i % places.size()];
    return cells[at + i / places.size() * plane];
  };
  Scratches scratches(threads);
  for (std::uint64_t w = first[kW]; w < end[kW]; ++w) {
    for (std::uint64_t z = first[kZ]; z < end[kZ]; z += deep) {
      const std::uint64_t now = std::min(deep, end[kZ] - z);
      const std::uint64_t segments = (now + step - 1) / step;
      std::atomic<bool> failed = false;
      run_batch(across * segments, threads, [&](std::size_t i, std::uint32_t worker) {
        const std::uint64_t segment = i % segments;
        const std::uint64_t which = i / segments;
        const std::uint64_t y = which / wide;
        const std::uint64_t x = which % wide;
        const std::uint64_t from = segment * step;
        const std::uint64_t to = std::min(now, from + step);
        const Column column{{w, z + from, rows[y], columns[x]}, {w + 1, z + to, rows[y + 1], columns[x + 1]}};
        Cell* const own = cells.get() + which * stride + from * cells_down[y] * cells_across[x];
        if (!kernel(column, scratches.of(worker), own)) failed = true;
      });
      if (failed) throw std::bad_alloc();
      add_cells<Cell>(pushed, now * places.size(), threads, cell, add);
      pushed += now * places.size();
    }
  }
}

}  // namespace

double* reserve(Scratch& scratch, u64 count) {
  if (count > scratch.count) {
    ::operator delete(scratch.values, kCacheLine);
    scratch.values = static_cast<double*>(::operator new(count * sizeof(double), kCacheLine, std::nothrow));
    scratch.count = scratch.values == nullptr ? 0 : count;
    std::fill_n(scratch.values, scratch.count, 0.0);  // vectors are read beyond the end of rows
  }
  return scratch.values;
}

Rules make_rules(const h5l_assess_params& params, const State* state) {
  Rules rules = {};
  rules.original_big_endian = params.original_big_endian != 0;
  rules.decoded_big_endian = params.decoded_big_endian != 0;
  rules.has_fill = params.has_fill != 0;
  rules.fill_bits = params.fill_bits;
  if (state == nullptr) return rules;
  rules.pivot_x = state->pivot_x;
  rules.pivot_e = state->pivot_e;
  rules.all_valid = all_valid(params, *state);
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
        threads, state.stencils.pushed(),
        [&](const Column& column, Scratch& scratch, StencilCell* cells) {
          return kernels.stencils(params.value_bytes, placed.view, rules, plan, column, scratch, cells);
        },
        [&](const StencilCell& cell, std::uint32_t level) {
          state.stencils.push(cell.sums, level);
          add_extrema(state.extrema, cell.extrema);
        });
  }
  if (params.window[0] == 0 || !(params.value_range > 0) || !std::isfinite(params.value_range)) return;
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
      most_planes, threads, state.windows.pushed(),
      [&](const Column& column, Scratch& scratch, WindowCell* cells) {
        return kernels.windows(params.value_bytes, placed.view, rules, plan, column, scratch, cells);
      },
      [&](const WindowCell& cell, std::uint32_t level) {
        state.windows.push(cell.sums, level);
        add_worst_window(state, cell.worst, cell.at);
      });
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
    const double step = params.rank == 0 ? 1 : params.spacing[axis - lead];
    const double per_own_square = 1.0 / (step * step);
    result.curvature_max[axis - lead] = extrema.curvature[axis] * per_own_square;
    result.curvature_error_max[axis - lead] = extrema.curvature_error[axis] * per_own_square;
    result.curvature_error_squares[axis - lead] = sums.curvature_error[axis] * per_own_square * per_own_square;
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

}  // namespace h5lossy::assess
