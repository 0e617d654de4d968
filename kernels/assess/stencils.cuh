// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Gradient and Laplacian (pattern II). A warp takes a cell, lane i its columns i, i + 32, ... in order, so that all
// sums are those of native/assess.
#pragma once

#include "kernels/assess/fields.cuh"

#include "assess/slopes.h"  // after the headers that it needs

namespace h5lossy::H5L_TARGET {

// Extrema of a warp in shared memory, encoded so that the largest number wins: bits of magnitudes, and the complement
// of the bits for the smallest gradient. In the order of StencilExtrema's members.
inline constexpr u32 kExtrema = sizeof(assess::StencilExtrema) / 8;
enum Extremum : u32 {
  kSlope = word_of(&assess::StencilExtrema::slope),
  kSlopeError = word_of(&assess::StencilExtrema::slope_error),
  kCurvature = word_of(&assess::StencilExtrema::curvature),
  kCurvatureError = word_of(&assess::StencilExtrema::curvature_error),
  kLaplacianError = word_of(&assess::StencilExtrema::laplacian_error),
  kGradientMin = word_of(&assess::StencilExtrema::gradient_min),
  kGradientMax = word_of(&assess::StencilExtrema::gradient_max),
  kGradientError = word_of(&assess::StencilExtrema::gradient_error),
};
struct WarpExtrema {
  u64 found[kExtrema];
};

// Updates a warp's extrema with a point's numbers.
class ExtremaFinder {
 public:
  H5L_DEVICE explicit ExtremaFinder(WarpExtrema& extrema) : found_(extrema.found) {}

  H5L_DEVICE void add_axis(u32 axis, const Slopes<double>& slopes) {
    add(kSlope + axis, slopes.slope);
    add(kSlopeError + axis, slopes.slope_error);
    add(kCurvature + axis, slopes.curvature);
    add(kCurvatureError + axis, slopes.curvature_error);
  }
  H5L_DEVICE void add_point(const Slopes<double>& slopes, const Change<double>& change, double, bool counts) {
    add(kLaplacianError, slopes.laplacian_error);
    add(kGradientMax, slopes.length);
    add(kGradientError, change.size);
    if (counts && slopes.length == slopes.length) raise(kGradientMin, ~bit_cast<u64>(slopes.length));
  }

 private:
  H5L_DEVICE void add(u32 i, double number) {
    if (number == number) raise(i, bit_cast<u64>(without_sign(number)));
  }
  H5L_DEVICE void raise(u32 i, u64 bits) {
    if (bits > load_relaxed(found_ + i)) atomic_max(found_ + i, bits);
  }

  u64* const found_;
};

// A lane's sums over the stencils of a cell, and a flag for possible new extrema. The flag compares high words as
// floats, one instruction per number.
template <class T, u32 kFirst>
class LaneStencils {
 public:
  // Called by all lanes of the warp, as are exchange() and store().
  H5L_DEVICE LaneStencils(const CellsPlan& plan, WarpExtrema& extrema) : plan_(plan), extrema_(extrema) {
    if (lane() < kExtrema) extrema.found[lane()] = lane() == kGradientMin ? ~kExponent<double> : 0;
  }

  H5L_DEVICE void clear() { sums_ = {}; }

  // Exchanges extrema with the other warps through device memory.
  H5L_DEVICE void exchange() {
    sync_warp();
    if (lane() < kExtrema) {
      u64& own = extrema_.found[lane()];
      const u64 known = load_relaxed(plan_.extrema + lane());
      if (own > known) atomic_max(plan_.extrema + lane(), own);
      own = own > known ? own : known;
    }
    sync_warp();
    set_limits();
    sync_warp();
  }

  // Adds a point's numbers along one axis; add_point adds those of all axes.
  H5L_DEVICE void add_axis(u32 axis, const Slopes<double>& slopes) {
    sums_.slope_error[axis] = fused_multiply_add(slopes.slope_error, slopes.slope_error, sums_.slope_error[axis]);
    sums_.curvature_error[axis] =
        fused_multiply_add(slopes.curvature_error, slopes.curvature_error, sums_.curvature_error[axis]);
    compare(kSlope + axis, slopes.slope);
    compare(kSlopeError + axis, slopes.slope_error);
    compare(kCurvature + axis, slopes.curvature);
    compare(kCurvatureError + axis, slopes.curvature_error);
  }
  H5L_DEVICE void add_point(const Slopes<double>& slopes, const Change<double>& change, double error, bool counts) {
    sums_.gradient_error += change.square;
    sums_.laplacian = fused_multiply_add(slopes.laplacian, slopes.laplacian, sums_.laplacian);
    sums_.laplacian_error = fused_multiply_add(slopes.laplacian_error, slopes.laplacian_error, sums_.laplacian_error);
    sums_.error = fused_multiply_add(error, error, sums_.error);
    sums_.interior += counts ? 1 : 0;
    compare(kLaplacianError, slopes.laplacian_error);
    compare(kGradientMax, slopes.length);
    compare(kGradientError, change.size);
    is_beyond_ = is_beyond_ | (counts & !(high_as_float(slopes.length) > limits_[kGradientMin]));
  }

  // Calls find(finder) if points since the last call may have new extrema.
  template <class Find>
  H5L_DEVICE void update_extrema(Find find) {
    if (is_beyond_) {
      ExtremaFinder finder(extrema_);
      find(finder);
      set_limits();
    }
    is_beyond_ = false;
  }

  // Stores the sums of this cell, and the extrema of all cells so far.
  H5L_DEVICE void store(StencilCell& cell) const {
    const auto sum = [](double& to, auto own) {
      own = sum_of_warp(own);
      if (lane() == 0) to = own;
    };
    sum(cell.sums.interior, sums_.interior);
    sum(cell.sums.gradient_error, sums_.gradient_error);
    sum(cell.sums.laplacian, sums_.laplacian);
    sum(cell.sums.laplacian_error, sums_.laplacian_error);
    sum(cell.sums.error, sums_.error);
    H5L_UNROLL for (u32 axis = kFirst; axis <= kX; ++axis) {
      sum(cell.sums.slope_error[axis], sums_.slope_error[axis]);
      sum(cell.sums.curvature_error[axis], sums_.curvature_error[axis]);
    }
    sync_warp();
    if (lane() < kExtrema) {
      const u64 bits = extrema_.found[lane()];
      reinterpret_cast<u64*>(&cell.extrema)[lane()] = lane() == kGradientMin ? ~bits : bits;
    }
    sync_warp();
  }

 private:
  struct Sums {
    double slope_error[4] = {}, curvature_error[4] = {}, gradient_error = 0, laplacian = 0, laplacian_error = 0,
           error = 0;
    u32 interior = 0;
  };

  static H5L_DEVICE float high_as_float(double number) {
    return bit_cast<float>(static_cast<u32>(bit_cast<u64>(number) >> 32));
  }
  H5L_DEVICE void compare(u32 i, double number) {
    is_beyond_ = is_beyond_ | !(without_sign(high_as_float(number)) < limits_[i]);
  }

  // Limits may be outdated, which only costs an unnecessary find().
  H5L_DEVICE void set_limits() {
    // Nonzero numbers computed from float32 have a nonzero high word.
    constexpr u32 kLeast = sizeof(T) == sizeof(float) ? 1 : 0;
    H5L_UNROLL for (u32 i = 0; i < kExtrema; ++i) {
      if (i < kLaplacianError && i % 4 + 1 <= kFirst) continue;
      const u32 high = static_cast<u32>(load_relaxed(extrema_.found + i) >> 32);
      limits_[i] = bit_cast<float>(high > kLeast ? high : kLeast);
    }
    const u64 least = ~load_relaxed(extrema_.found + kGradientMin);
    limits_[kGradientMin] = least == 0 ? -1.0f : bit_cast<float>(static_cast<u32>(least >> 32));  // nothing is below 0
  }

  const CellsPlan& plan_;
  WarpExtrema& extrema_;
  Sums sums_;
  float limits_[kExtrema];
  bool is_beyond_ = false;
};

// Rows and columns of stencils whose lowest corner is in the cell; the centre is one further along each axis.
struct StencilExtent {
  u32 rows, columns;
};
H5L_DEVICE StencilExtent extent_of(const CellsPlan& plan, const CellPlace& place) {
  const assess::FieldPlan& field = plan.field;
  const auto fits = [&](u32 axis, u64 at) { return !field.present[axis] || at + 2 < field.shape[axis]; };
  const auto count = [&](u32 axis, u64 first, u64 end) {
    const u64 last = field.present[axis] && end + 2 > field.shape[axis] ? field.shape[axis] - 2 : end;
    return static_cast<u32>(last - first);
  };
  if (!(fits(kW, place.w) && fits(kZ, place.z) && fits(kY, place.first_row) && fits(kX, place.first_column))) return {};
  return {count(kY, place.first_row, place.end_row), count(kX, place.first_column, place.end_column)};
}

H5L_DEVICE void clear(StencilCell& cell) {
  auto* const words = reinterpret_cast<u64*>(&cell);
  for (u32 k = lane(); k < sizeof(StencilCell) / 8; k += kWarpThreads) words[k] = 0;
  sync_warp();
}

struct AnyStencilsShared {
  WarpExtrema extrema[kWarps];
};

// A warp per cell, for any field.
template <class T>
H5L_DEVICE void add_stencil_cells(const CellsPlan& plan) {
  const assess::FieldPlan& field = plan.field;
  const bool fits = sizeof(T) == sizeof(float) && field.squares_fit;
  LaneStencils<double, kW> stencils(plan, reinterpret_cast<AnyStencilsShared*>(shared_memory())->extrema[warp()]);
  for (u64 i = u64{block_number()} * kWarps + warp(); i < plan.cells; i += u64{grid_blocks()} * kWarps) {
    StencilCell& cell = reinterpret_cast<StencilCell*>(plan.results)[i];
    clear(cell);
    const CellPlace place = place_of(plan, i);
    const StencilExtent extent = field.stencils ? extent_of(plan, place) : StencilExtent{};
    stencils.clear();
    stencils.exchange();
    for (u32 column = lane(); column < extent.columns; column += kWarpThreads) {
      for (u32 row = 0; row < extent.rows; ++row) {
        u64 middle[4] = {place.w, place.z, place.first_row + row, place.first_column + column};
        H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) middle[axis] += field.present[axis] ? 1 : 0;
        const FieldPoint centre = point_at<T>(plan, middle);
        FieldPoint before[4], after[4];
        bool counts = centre.valid != 0;
        H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) {
          if (!field.present[axis]) continue;
          u64 there[4] = {middle[0], middle[1], middle[2], middle[3]};
          there[axis] -= 1;
          before[axis] = point_at<T>(plan, there);
          there[axis] += 2;
          after[axis] = point_at<T>(plan, there);
          counts = counts && before[axis].valid != 0 && after[axis].valid != 0;
        }
        const auto keep = [counts](double value) { return counts ? value : 0.0; };
        const auto values = [](const FieldPoint& point) { return Values<double>{point.x, point.e}; };
        const auto add = [&](auto& to) {
          Slopes<double> slopes;
          slopes.template add<true>(values(centre), values(before[kX]), values(after[kX]), 1.0, keep);
          to.add_axis(kX, slopes);
          H5L_UNROLL for (u32 axis = kY; axis != ~0u; --axis) {
            if (!field.present[axis]) continue;
            slopes.template add<false>(values(centre), values(before[axis]), values(after[axis]), field.finer[axis],
                                       keep);
            to.add_axis(axis, slopes);
          }
          const Change<double> change = fits ? slopes.template change<true>() : slopes.template change<false>();
          to.add_point(slopes, change, keep(centre.e), counts);
        };
        add(stencils);
        stencils.update_extrema(add);
      }
    }
    stencils.store(cell);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Fields with two or three axes in which all points are valid and contiguous. The warps of a thread block have
// neighbouring cells along the first axis, which share most of the planes they read. Strips of 32 columns are staged in
// shared memory, a few rows at a time; the next stage is loaded while one is computed.

inline constexpr u32 kStageRows = 6;
inline constexpr u32 kStripRows = assess::kCellRows + 2;
static_assert(kStripRows % kStageRows == 0 && kStripRows / kStageRows >= 3);

template <u32 kFirst>
inline constexpr u32 kStripPlanes = kFirst == kZ ? kWarps + 2 : kWarps;

// A row of values, and the rows below it.
struct Line {
  const u8* from;
  i64 stride;
  u32 rows, columns;  // to load
};

template <class T, u32 kFirst>
struct StencilsShared {
  static constexpr u32 kColumns = ((kWarpThreads + 2) * sizeof(T) + 15) / 16 * 16 / sizeof(T);
  alignas(16) T strip[kStripRows][kStripPlanes<kFirst>][2][kColumns];  // of original and decoded
  Line lines[2 * kStripPlanes<kFirst>];                                // the first row of each plane
  WarpExtrema extrema[kWarps];
};
template <class T>
using PlaneStencilsShared = StencilsShared<T, kY>;
template <class T>
using VolumeStencilsShared = StencilsShared<T, kZ>;

template <class T, u32 kFirst>
class PlainStencils {
 public:
  H5L_DEVICE explicit PlainStencils(const CellsPlan& plan)
      : plan_(plan),
        shared_(*reinterpret_cast<Shared*>(shared_memory())),
        has_quads_(is_aligned(plan.view.original, plan.view.original_strides) &&
                   is_aligned(plan.view.decoded, plan.view.decoded_strides)),
        stencils_(plan, shared_.extrema[warp()]) {}

  H5L_DEVICE void run() {
    const u64 of_plane = u64{plan_.rows_of_cells} * plan_.columns_of_cells;
    const u64 planes = plan_.cells / of_plane;
    // Stacks of kWarps cells: neighbours along z, or consecutive ones.
    const u64 stacks = kFirst == kZ ? (planes + kWarps - 1) / kWarps * of_plane : (plan_.cells + kWarps - 1) / kWarps;
    for (u64 i = block_number(); i < stacks; i += grid_blocks()) {
      const u64 first = kFirst == kZ ? i / of_plane * kWarps * of_plane + i % of_plane : i * kWarps;
      add_stack(first, kFirst == kZ ? of_plane : 1);
    }
  }

 private:
  using Shared = StencilsShared<T, kFirst>;
  static constexpr u32 kStages = kStripRows / kStageRows;
  static constexpr u32 kChunks = assess::kCellColumns / kWarpThreads;
  static constexpr u32 kLines = 2 * kStripPlanes<kFirst>;

  // One past the last column that is read.
  H5L_DEVICE u64 end_column() const {
    const u64 end = plan_.end[kX] + 2;
    return end < plan_.field.shape[kX] ? end : plan_.field.shape[kX];
  }

  // Whether the rows of cells begin, and those of the field end, at multiples of 16 bytes.
  H5L_DEVICE bool is_aligned(const u8* values, const i64 (&strides)[4]) const {
    const u64 origin = plan_.view.origin[kX];
    const u64 columns = origin | (plan_.first[kX] - origin) | (end_column() - origin);
    const i64 steps = strides[kY] | (kFirst == kZ ? strides[kZ] : 0);
    return ((reinterpret_cast<u64>(values) | static_cast<u64>(steps) | columns * sizeof(T)) & 15) == 0;
  }

  // The warp's cell is `step` cells after the previous warp's, if there is one.
  H5L_DEVICE void add_stack(u64 first, u64 step) {
    sync_block();  // the lines of the last stack are free again
    if (thread() < kLines) shared_.lines[thread()] = line_of(first, step, thread());
    sync_block();
    fetch(0, 0);
    const u64 number = first + warp() * step;
    const bool has_cell = number < plan_.cells;
    const StencilExtent extent = has_cell ? extent_of(plan_, place_of(plan_, number)) : StencilExtent{};
    const u32 rows = extent.columns != 0 ? extent.rows + 2 : 0;
    stencils_.clear();
    Values<double> before = {}, centre = {};
    H5L_NO_UNROLL for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      stencils_.exchange();
      H5L_NO_UNROLL for (u32 stage = 0; stage < kStages; ++stage) {
        wait_for_copies();
        sync_block();
        const bool is_last = stage + 1 == kStages;
        fetch(chunk + (is_last ? 1 : 0), is_last ? 0 : stage + 1);
        u32 row = stage * kStageRows;
        const u32 end = row + kStageRows < rows ? row + kStageRows : rows;
        if (chunk * kWarpThreads + lane() >= extent.columns || row >= end) continue;
        if (stage == 0) {
          before = own(0);
          centre = own(1);
          row = 2;
        }
        // Two rows at a time, for instruction-level parallelism.
        for (; row + 1 < end; row += 2) {
          const Values<double> after = own(row), last = own(row + 1);
          add(row - 1, before, centre, after, stencils_);
          add(row, centre, after, last, stencils_);
          update_extrema(row - 1, row + 1);
          before = after;
          centre = last;
        }
        if (row == end) continue;
        const Values<double> after = own(row);
        add(row - 1, before, centre, after, stencils_);
        update_extrema(row - 1, row);
        before = centre;
        centre = after;
      }
    }
    if (has_cell) {
      StencilCell& cell = reinterpret_cast<StencilCell*>(plan_.results)[number];
      clear(cell);
      stencils_.store(cell);
    }
  }

  // Lines of a stack: original and decoded values of each plane.
  H5L_DEVICE Line line_of(u64 first, u64 step, u32 line) const {
    const u32 plane = line / 2;
    const u64 number = kFirst == kZ ? first : first + plane * step;
    if (number >= plan_.cells) return {};
    const CellPlace place = place_of(plan_, number);
    const StencilExtent extent = extent_of(plan_, place);
    const u64 at[4] = {place.w, place.z + (kFirst == kZ ? plane : 0), place.first_row, place.first_column};
    if (extent.rows == 0 || at[kZ] >= plan_.field.shape[kZ] || at[kZ] >= plan_.end[kZ] + 2) return {};
    const assess::View& view = plan_.view;
    const u8* const values = line % 2 == 0 ? view.original : view.decoded;
    const auto& strides = line % 2 == 0 ? view.original_strides : view.decoded_strides;
    return {address(values, strides, view.origin, at), strides[kY], extent.rows + 2, extent.columns + 2};
  }

  // Starts to copy the rows of a stage.
  H5L_DEVICE void fetch(u32 chunk, u32 stage) { has_quads_ ? fetch<16>(chunk, stage) : fetch<sizeof(T)>(chunk, stage); }
  template <u32 kBytes>
  H5L_DEVICE void fetch(u32 chunk, u32 stage) {
    constexpr u32 kValues = kBytes / sizeof(T), kPieces = Shared::kColumns / kValues;
    constexpr u32 kAll = kLines * kPieces;
    H5L_UNROLL for (u32 start = 0; start < kAll; start += kThreads) {
      const u32 line = (start + thread()) / kPieces, column = (start + thread()) % kPieces * kValues;
      if (start + thread() >= kAll) continue;
      const Line rows = shared_.lines[line];
      if (chunk * kWarpThreads + column >= rows.columns || chunk == kChunks) continue;
      const u8* from = rows.from + (chunk * kWarpThreads + column) * sizeof(T) + stage * kStageRows * rows.stride;
      T* const to = &shared_.strip[stage * kStageRows][0][0][0] + line * Shared::kColumns + column;
      const auto copy = [&](u32 row) {
        copy_async<kBytes>(reinterpret_cast<u8*>(to + row * kLines * Shared::kColumns), from);
        from += rows.stride;
      };
      if (stage * kStageRows + kStageRows <= rows.rows) {
        H5L_UNROLL for (u32 row = 0; row < kStageRows; ++row) copy(row);
      } else {
        H5L_NO_UNROLL for (u32 row = 0; stage * kStageRows + row < rows.rows; ++row) copy(row);
      }
    }
  }

  // Values of a row, in plane `plane` of the warp's and `column` columns after the lane's.
  H5L_DEVICE Values<double> at(u32 row, u32 plane, u32 column) const {
    const auto& values = shared_.strip[row][warp() + plane];
    const double x = static_cast<double>(values[0][lane() + column]);
    return {x, static_cast<double>(values[1][lane() + column]) - x};
  }
  H5L_DEVICE Values<double> own(u32 row) const { return at(row, kFirst == kZ ? 1 : 0, 1); }

  // Adds the stencils of a row, from its values and those of its neighbours.
  template <class To>
  H5L_DEVICE void add(u32 row, const Values<double>& before, const Values<double>& centre, const Values<double>& after,
                      To& to) const {
    constexpr u32 kMiddle = kFirst == kZ ? 1 : 0;
    const auto keep = [](double value) { return value; };
    Slopes<double> slopes;
    slopes.template add<true>(centre, at(row, kMiddle, 0), at(row, kMiddle, 2), 1.0, keep);
    to.add_axis(kX, slopes);
    slopes.template add<false>(centre, before, after, plan_.field.finer[kY], keep);
    to.add_axis(kY, slopes);
    if constexpr (kFirst == kZ) {
      slopes.template add<false>(centre, at(row, 0, 1), at(row, 2, 1), plan_.field.finer[kZ], keep);
      to.add_axis(kZ, slopes);
    }
    to.add_point(slopes, slopes.template change<sizeof(T) == sizeof(float)>(), centre.e, true);
  }

  // Searches the last rows for extrema if the flag is set, which is rare.
  H5L_DEVICE void update_extrema(u32 first, u32 end) {
    stencils_.update_extrema([&](ExtremaFinder& finder) {
      H5L_NO_UNROLL for (u32 row = first; row < end; ++row) add(row, own(row - 1), own(row), own(row + 1), finder);
    });
  }

  const CellsPlan& plan_;
  Shared& shared_;
  bool has_quads_;
  LaneStencils<T, kFirst> stencils_;
};

template <class T, u32 kFirst>
H5L_DEVICE void add_plain_stencil_cells(const CellsPlan& plan) {
  PlainStencils<T, kFirst>(plan).run();
}

H5L_DEVICE void group_stencil_cells(const gpu::GroupPlan& plan) {
  constexpr u32 kSums = sizeof(assess::StencilSums) / 8;
  constexpr u32 kLowest = kSums + kGradientMin;
  group_cells<StencilCell, kSums>(plan, [](const double* from, u32 which) {
    constexpr u32 kStride = sizeof(StencilCell) / 8;
    double best = from[0];
    for (u32 cell = 1; cell < gpu::kGroup; ++cell) {
      const double other = from[cell * kStride];
      best = (which == kLowest ? other < best : other > best) ? other : best;
    }
    return best;
  });
}

}  // namespace h5lossy::H5L_TARGET
