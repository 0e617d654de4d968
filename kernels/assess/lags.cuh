// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Autocorrelation (pattern II); all sums are those of native/assess. A pair at lag k is a head and the tail k further
// along an axis. Fields with two or three axes in which all points are valid take two kernels. The one for lags in
// planes has a cell's errors in shared memory: two warps compute the lags along rows, half of them each, and two those
// along columns. The one for lags along z gives a warp the same cell of several planes. Where rows lack tails, a third
// kernel computes the mean of all axes. For other fields, errors are first written to device memory, once for all lags
// and axes, and a warp computes a lag of a cell.
#pragma once

#include "kernels/assess/fields.cuh"

namespace h5lossy::H5L_TARGET {

using assess::kCellColumns;
using assess::kCellRows;
using gpu::kMostPlainLags;
using gpu::LagNotes;

inline constexpr u32 kMeanRow = assess::kLagAxes - 1;

// The error of an invalid point: a NaN that no arithmetic produces; valid points have no NaN.
inline constexpr u32 kNoErrorHigh = 0x7FF5E440u;
H5L_DEVICE double no_error() { return bit_cast<double>(u64{kNoErrorHigh} << 32); }
H5L_DEVICE bool counts(double error) { return static_cast<u32>(bit_cast<u64>(error) >> 32) != kNoErrorHigh; }

H5L_DEVICE u64 error_index(const CellsPlan& plan, u64 w, u64 z, u64 y, u64 x) {
  const u64 deep = plan.reach_end[kZ] - plan.first[kZ], high = plan.reach_end[kY] - plan.first[kY];
  const u64 wide = plan.reach_end[kX] - plan.first[kX];
  return (((w - plan.first[kW]) * deep + (z - plan.first[kZ])) * high + (y - plan.first[kY])) * wide +
         (x - plan.first[kX]);
}

// A place in rows of both arrays. The values of a row are contiguous.
template <class T>
struct PlainRows {
  const u8 *original, *decoded;

  H5L_DEVICE PlainRows next(const assess::View& view, u32 axis, i64 by) const {
    return {original + by * view.original_strides[axis], decoded + by * view.decoded_strides[axis]};
  }
  H5L_DEVICE FieldPoint at(const CellsPlan& plan, i32 columns) const {
    const double x = static_cast<double>(reinterpret_cast<const T*>(original)[columns]);
    return {x, static_cast<double>(reinterpret_cast<const T*>(decoded)[columns]) - x - plan.rules.pivot_e, 1.0};
  }
};

// The errors, less their pivot, of the plan's cells and the lags' halo; a warp per row.
template <class T>
H5L_DEVICE void prepare_errors(const CellsPlan& plan) {
  const u64 high = plan.reach_end[kY] - plan.first[kY], deep = plan.reach_end[kZ] - plan.first[kZ];
  const u64 rows = (plan.reach_end[kW] - plan.first[kW]) * deep * high;
  for (u64 row = u64{block_number()} * kWarps + warp(); row < rows; row += u64{grid_blocks()} * kWarps) {
    u64 at[4] = {plan.first[kW] + row / high / deep, plan.first[kZ] + row / high % deep, plan.first[kY] + row % high,
                 plan.first[kX]};
    double* const to = plan.errors + error_index(plan, at[kW], at[kZ], at[kY], at[kX]);
    const u64 wide = plan.reach_end[kX] - plan.first[kX];
    for (u64 x = lane(); x < wide; x += kWarpThreads) {
      at[kX] = plan.first[kX] + x;
      const FieldPoint point = pivoted_at<T>(plan, at);
      to[x] = point.valid != 0 ? point.e : no_error();
    }
  }
}

H5L_DEVICE u32 rows_of(const CellPlace& place) { return static_cast<u32>(place.end_row - place.first_row); }
H5L_DEVICE u32 columns_of(const CellPlace& place) { return static_cast<u32>(place.end_column - place.first_column); }

// Columns of a cell that have a tail at `lag`.
H5L_DEVICE u32 columns_with(const CellsPlan& plan, const CellPlace& place, u32 lag) {
  const u64 left = plan.field.shape[kX] - place.first_column, there = left > lag ? left - lag : 0;
  return there < columns_of(place) ? static_cast<u32>(there) : columns_of(place);
}

// Rows of a cell that have a tail at `lag` along an axis other than the last.
H5L_DEVICE u32 rows_with(const CellsPlan& plan, const CellPlace& place, u32 axis, u32 lag) {
  if (axis == kW && place.w + lag >= plan.field.shape[kW]) return 0;
  if (axis == kZ && place.z + lag >= plan.field.shape[kZ]) return 0;
  if (axis != kY) return rows_of(place);
  const u64 left = plan.field.shape[kY] - place.first_row, there = left > lag ? left - lag : 0;
  return there < rows_of(place) ? static_cast<u32>(there) : rows_of(place);
}

// ---------------------------------------------------------------------------------------------------------------------
// Any cell

// Sums of heads and of their tails along one axis; `some` are those in the first columns.
struct PairSums {
  double products = 0, heads = 0, tails = 0;
  u32 pairs = 0;

  H5L_DEVICE void add(const PairSums& other) {
    products += other.products;
    heads += other.heads;
    tails += other.tails;
    pairs += other.pairs;
  }
  H5L_DEVICE PairSums total() const {
    return {sum_of_warp(products), sum_of_warp(heads), sum_of_warp(tails), sum_of_warp(pairs)};
  }
};
struct PairTotals {
  PairSums all, some;

  H5L_DEVICE void add(const PairTotals& other) {
    all.add(other.all);
    some.add(other.some);
  }
};

// Processes a lane's columns from one on, `step` apart. pair(row, column, head, tail) says whether both points are
// valid; the tails of rows from `own` on are below the cell.
template <class Pair>
H5L_DEVICE PairTotals add_up_lane(u32 first, u32 step, u32 rows, u32 own, u32 columns, u32 some, Pair pair) {
  constexpr u32 kAtOnce = 8;  // rows whose loads overlap
  PairTotals lane;
  for (u32 column = first; column < columns; column += step) {
    PairSums& all = lane.all;
    double sum_of_heads = 0, sum_of_tails = 0, below = 0;
    for (u32 end = rows; end != 0; end = end < kAtOnce ? 0 : end - kAtOnce) {
      double heads[kAtOnce], tails[kAtOnce];
      bool both[kAtOnce];
      H5L_UNROLL for (u32 i = 0; i < kAtOnce; ++i) {
        both[i] = i < end && pair(end - 1 - i, column, heads[i], tails[i]);
      }
      H5L_UNROLL for (u32 i = 0; i < kAtOnce; ++i) {
        if (!both[i]) continue;
        all.products = fused_multiply_add(heads[i], tails[i], all.products);
        sum_of_heads += heads[i];
        if (end - 1 - i < own) sum_of_tails += tails[i];
        ++all.pairs;
      }
    }
    for (u32 row = own; row < rows; ++row) {
      double head, tail;
      if (pair(row, column, head, tail)) below += tail;
    }
    all.heads += sum_of_heads;
    all.tails += sum_of_tails + below;
    if (column < some) lane.some = all;
  }
  return lane;
}

// A lane of the warp adds up one lane of the sums, or four along the last axis. Not unrolled: registers suffice for
// one.
template <class Pair>
H5L_DEVICE PairTotals add_up(u32 own_lanes, u32 rows, u32 own, u32 columns, u32 some, Pair pair) {
  PairTotals even, odd;
  H5L_NO_UNROLL for (u32 i = 0; i < own_lanes; ++i) {
    const PairTotals found =
        add_up_lane(i * kWarpThreads + lane(), own_lanes * kWarpThreads, rows, own, columns, some, pair);
    if (i % 2 == 0) {
      even.add(found);
    } else {
      odd.add(found);
    }
  }
  even.add(odd);
  return {even.all.total(), even.some.total()};
}

H5L_DEVICE void add_lag(const CellsPlan& plan, const CellPlace& place, u32 lag, assess::StencilSums& sums) {
  const u64 wide = plan.reach_end[kX] - plan.first[kX];
  const double* const heads = plan.errors + error_index(plan, place.w, place.z, place.first_row, place.first_column);
  const u32 along_x = columns_with(plan, place, lag);
  const double* tails[4] = {};
  u32 common_rows = rows_of(place);
  bool has_all = true, is_first = true;
  PairSums mean;
  for (u32 axis = kW; axis <= kX; ++axis) {
    if (!plan.field.present[axis]) continue;
    const u32 rows = rows_with(plan, place, axis, lag), columns = axis == kX ? along_x : columns_of(place);
    const u32 own = axis != kY ? rows : rows_of(place) > lag ? rows_of(place) - lag : 0;
    common_rows = rows < common_rows ? rows : common_rows;
    has_all = has_all && rows == rows_of(place);
    if (rows == 0) continue;
    tails[axis] = plan.errors + error_index(plan, place.w + (axis == kW ? lag : 0), place.z + (axis == kZ ? lag : 0),
                                            place.first_row + (axis == kY ? lag : 0),
                                            place.first_column + (axis == kX ? lag : 0));
    const auto pair = [&](u32 row, u32 column, double& head, double& tail) {
      head = heads[row * wide + column];
      tail = tails[axis][row * wide + column];
      return counts(head) && counts(tail);
    };
    const PairTotals found = add_up(axis == kX ? 4 : 1, rows, own, columns, along_x, pair);
    if (lane() == 0) {
      sums.lag_products[axis][lag - 1] = found.all.products;
      sums.lag_sums[axis][lag - 1] = found.all.heads + found.all.tails;
      sums.lag_pairs[axis][lag - 1] = found.all.pairs;
    }
    has_all = has_all && found.all.pairs == rows * columns;
    mean.products = is_first ? found.some.products : mean.products + found.some.products;
    mean.tails = is_first ? found.some.tails : mean.tails + found.some.tails;
    mean.heads = found.some.heads;
    mean.pairs = found.some.pairs;
    is_first = false;
  }
  const double inverse = 1.0 / plan.field.rank;
  if (has_all) {
    mean.products *= inverse;
    mean.tails *= inverse;
  } else {
    // The points that have a tail along each axis.
    const auto mean_of = [&](u32 row, u32 column, double& head, double& tail) {
      head = heads[row * wide + column];
      bool all_count = counts(head);
      tail = no_error();
      for (u32 axis = kW; axis <= kX; ++axis) {
        if (!plan.field.present[axis]) continue;
        const double next = tails[axis][row * wide + column];
        all_count = all_count && counts(next);
        tail = counts(tail) ? tail + next : next;
      }
      tail *= inverse;
      return all_count;
    };
    mean = add_up(1, common_rows, common_rows, along_x, along_x, mean_of).all;
  }
  if (lane() != 0) return;
  sums.lag_products[kMeanRow][lag - 1] = mean.products;
  sums.lag_sums[kMeanRow][lag - 1] = mean.heads + mean.tails;
  sums.lag_pairs[kMeanRow][lag - 1] = mean.pairs;
}

// A warp per lag and cell. Runs after the stencil kernel, which clears the cells.
H5L_DEVICE void add_lag_cells(const CellsPlan& plan) {
  const u32 lags = plan.field.lags;
  const u64 all = plan.cells * lags;
  for (u64 i = u64{block_number()} * kWarps + warp(); i < all; i += u64{grid_blocks()} * kWarps) {
    add_lag(plan, place_of(plan, i / lags), 1 + static_cast<u32>(i % lags),
            reinterpret_cast<StencilCell*>(plan.results)[i / lags].sums);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Fields with two or three axes in which all points are valid

// place_of for the cells of a launch, with its divisions done once.
class Cells {
 public:
  H5L_DEVICE explicit Cells(const CellsPlan& plan)
      : plan_(plan),
        first_row_(plan.first[kY] / plan.cell_rows * plan.cell_rows),
        first_column_(plan.first[kX] / plan.cell_columns * plan.cell_columns) {}

  H5L_DEVICE CellPlace operator[](u32 cell) const {
    const u32 x = cell % plan_.columns_of_cells, rest = cell / plan_.columns_of_cells;
    const u32 y = rest % plan_.rows_of_cells, z = rest / plan_.rows_of_cells;
    const auto row = [&](u32 i) { return first_row_ + u64{i} * plan_.cell_rows; };
    const auto column = [&](u32 i) { return first_column_ + u64{i} * plan_.cell_columns; };
    return {plan_.first[kW],
            plan_.first[kZ] + z,
            y == 0 ? plan_.first[kY] : row(y),
            y + 1 == plan_.rows_of_cells ? plan_.end[kY] : row(y + 1),
            x == 0 ? plan_.first[kX] : column(x),
            x + 1 == plan_.columns_of_cells ? plan_.end[kX] : column(x + 1)};
  }

 private:
  const CellsPlan& plan_;
  const u64 first_row_, first_column_;  // where cells are cut
};

// Sums several numbers over a warp by halving: half of the lanes continue with one half of the numbers, the others with
// the other half, until each has at most one (two, of more than 32). A lane then has `count` totals from number `first`
// on.
struct OwnTotals {
  u32 first, count;
};
template <u32 kBy = kWarpThreads / 2, u32 kLeft = 0, u32 kCount>
H5L_DEVICE OwnTotals add_up_warp(double (&values)[kCount], OwnTotals own = {0, kCount}) {
  constexpr u32 kNow = kLeft == 0 ? kCount : kLeft, kHalf = (kNow + 1) / 2;
  if constexpr (kBy == 0) {
    return own;
  } else {
    const bool is_upper = (lane() & kBy) != 0;
    H5L_UNROLL for (u32 i = 0; i < kHalf; ++i) {
      const double lower = values[i], upper = kHalf + i < kNow ? values[kHalf + i] : 0.0;
      values[i] = (is_upper ? upper : lower) + shuffle_xor(is_upper ? lower : upper, kBy);
    }
    own.first += is_upper ? kHalf : 0;
    own.count = is_upper ? (own.count > kHalf ? own.count - kHalf : 0) : (own.count < kHalf ? own.count : kHalf);
    return add_up_warp<kBy / 2, kHalf>(values, own);
  }
}
template <u32 kCount>
H5L_DEVICE void store_totals(double (&values)[kCount], double* to) {
  const OwnTotals own = add_up_warp(values);
  H5L_UNROLL for (u32 i = 0; i < (kCount + kWarpThreads - 1) / kWarpThreads; ++i) {
    if (i < own.count) to[own.first + i] = values[i];
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Lags in planes

inline constexpr u32 kTileColumns = kCellColumns + kMostPlainLags;
inline constexpr u32 kWarpLags = kMostPlainLags / 2;  // lags of a warp, along one axis
inline constexpr u32 kSideBySide = 4;                 // columns of a thread for lags along the last axis
static_assert(kWarps == 4);

struct PlaneLagsShared {
  // Rows below the cell lack the columns beyond it, which no lag needs. Columns are swizzled, see place_of_column.
  double errors[kCellRows * kTileColumns + kMostPlainLags * kCellColumns];
  double column_sums[kTileColumns];
  double products_x[kMostPlainLags], heads_x[kMostPlainLags], tails_x[kMostPlainLags];
  // Along columns, for each half of the lags: products, tails, and heads of all lags.
  double all_y[2][2 * kWarpLags + 1];
  // The same for the columns with a tail along the last axis: products, tails, and heads of each lag. If some rows lack
  // tails at a lag, the products are replaced by its heads over all columns.
  double some_y[2][3 * kWarpLags];
};

// Avoids bank conflicts both between threads with one column each, and between threads with four adjacent columns, of
// which two are loaded at once.
H5L_DEVICE u32 place_of_column(u32 column) { return column ^ (column >> 3 & 2); }

struct alignas(16) TwoErrors {
  double first, second;
};

template <class T>
class PlaneLags {
 public:
  H5L_DEVICE PlaneLags(const CellsPlan& plan, u32 cell, const CellPlace& place)
      : plan_(plan),
        cell_(cell),
        place_(place),
        rows_(rows_of(place_)),
        columns_(columns_of(place_)),
        rows_there_(at_most(plan.field.shape[kY] - place_.first_row, rows_ + plan.field.lags)),
        columns_there_(at_most(plan.field.shape[kX] - place_.first_column, columns_ + plan.field.lags)),
        shared_(*reinterpret_cast<PlaneLagsShared*>(shared_memory())) {}

  // Cells in halo planes (has_lags is false) only serve as tails. `next` is the thread block's next cell, which is
  // prefetched.
  H5L_DEVICE void run(bool has_lags, const CellPlace& next) {
    load(has_lags ? rows_there_ : rows_);
    sync_block();
    prefetch_cell(next);
    if (!has_lags) {
      H5L_NO_UNROLL for (u32 column = thread(); column < columns_; column += kThreads) add_column(column);
    } else if (warp() == 0) {
      add_along_rows<1>();
    } else if (warp() == 1) {
      add_along_rows<1 + kWarpLags>();
    } else if (warp() == 2) {
      add_along_columns<1>();
    } else {
      add_along_columns<1 + kWarpLags>();
      const u32 column = columns_ + lane();
      if (column < columns_there_) add_column(column);
    }
    sync_block();
    if (!has_lags) {
      store_heads();
      return;
    }
    add_up_columns();
    sync_block();
    if (thread() <= plan_.field.lags) write_lag(thread());
  }

 private:
  static H5L_DEVICE u32 at_most(u64 a, u32 b) { return a < b ? static_cast<u32>(a) : b; }
  static H5L_DEVICE u32 place_of_row(u32 row) {
    return row < kCellRows ? row * kTileColumns : kCellRows * kTileColumns + (row - kCellRows) * kCellColumns;
  }
  H5L_DEVICE double* at(u32 row, u32 column) const {
    return shared_.errors + place_of_row(row) + place_of_column(column);
  }

  // Columns, and rows, that have a tail at `lag`.
  H5L_DEVICE u32 columns_with(u32 lag) const {
    return lag >= columns_there_ ? 0 : columns_there_ - lag < columns_ ? columns_there_ - lag : columns_;
  }
  H5L_DEVICE u32 rows_with(u32 lag) const {
    return lag >= rows_there_ ? 0 : rows_there_ - lag < rows_ ? rows_there_ - lag : rows_;
  }

  // Calls of(i) for each of the lane's columns lane() + i that exists in a row.
  template <class Of>
  H5L_DEVICE void for_columns(u32 row, Of of) const {
    const u32 columns = row < kCellRows ? columns_there_ : columns_;
    if (columns >= kCellColumns) {  // no condition per column
      H5L_UNROLL for (u32 i = 0; i < kCellColumns; i += kWarpThreads) of(i);
      if (kCellColumns + lane() < columns) of(kCellColumns);
    } else {
      H5L_NO_UNROLL for (u32 i = 0; i + lane() < columns; i += kWarpThreads) of(i);
    }
  }

  // Loads the errors of the cell and its halo, a warp per row; points that do not exist are left as they are. The two
  // 32-bit values are first copied to the place of their error.
  H5L_DEVICE void load(u32 rows) {
    const assess::View& view = plan_.view;
    const u64 first[4] = {place_.w, place_.z, place_.first_row + warp(), place_.first_column + lane()};
    const u8* x = address(view.original, view.original_strides, view.origin, first);
    const u8* y = address(view.decoded, view.decoded_strides, view.origin, first);
    H5L_NO_UNROLL for (u32 row = warp(); row < rows; row += kWarps) {
      double* const to = shared_.errors + place_of_row(row) + place_of_column(lane());
      const T* const from_x = reinterpret_cast<const T*>(x);
      const T* const from_y = reinterpret_cast<const T*>(y);
      for_columns(row, [&](u32 at) {
        if constexpr (sizeof(T) == 4) {
          copy_async<4>(reinterpret_cast<u8*>(to + at), reinterpret_cast<const u8*>(from_x + at));
          copy_async<4>(reinterpret_cast<u8*>(to + at) + 4, reinterpret_cast<const u8*>(from_y + at));
        } else {
          to[at] = from_y[at] - from_x[at] - plan_.rules.pivot_e;
        }
      });
      x += kWarps * view.original_strides[kY];
      y += kWarps * view.decoded_strides[kY];
    }
    if constexpr (sizeof(T) == 4) {
      wait_for_copies();
      const double pivot = plan_.rules.pivot_e;
      H5L_NO_UNROLL for (u32 row = warp(); row < rows; row += kWarps) {
        double* const to = shared_.errors + place_of_row(row) + place_of_column(lane());
        for_columns(row, [&](u32 at) {
          const u64 pair = bit_cast<u64>(to[at]);
          const double original = static_cast<double>(bit_cast<T>(static_cast<u32>(pair)));
          to[at] = static_cast<double>(bit_cast<T>(static_cast<u32>(pair >> 32))) - original - pivot;
        });
      }
    }
  }

  // Prefetches the values of a cell.
  H5L_DEVICE void prefetch_cell(const CellPlace& place) const {
    constexpr u32 kValues = kLineBytes / sizeof(T), kLines = kCellColumns / kValues;
    const assess::View& view = plan_.view;
    H5L_UNROLL for (u32 i = 0; i < kCellRows * kLines; i += kThreads) {
      const u32 line = i + thread(), row = line / kLines, column = line % kLines * kValues;
      if (row >= rows_of(place) || column >= columns_of(place)) continue;
      const u64 at[4] = {place.w, place.z, place.first_row + row, place.first_column + column};
      prefetch(address(view.original, view.original_strides, view.origin, at));
      prefetch(address(view.decoded, view.decoded_strides, view.origin, at));
    }
  }

  H5L_DEVICE void add_column(u32 column) {
    double sum = 0;
    H5L_NO_UNROLL for (u32 row = rows_; row-- != 0;) sum += *at(row, column);
    shared_.column_sums[column] = sum;
  }

  // Products along rows, for kWarpLags lags from kFirst on.
  template <u32 kFirst>
  H5L_DEVICE void add_along_rows() {
    // Heads that do not precede the tails in registers are loaded separately.
    constexpr u32 kStart = kFirst == 1 ? 0 : kFirst, kEnd = kFirst + kSideBySide + kWarpLags - 1;
    static_assert(kStart % 2 == 0);
    constexpr u32 kPieces = (kEnd - kStart + 1) / 2, kLoaded = 2 * kPieces, kHeads = kStart == 0 ? 0 : kSideBySide / 2;
    u32 places[kHeads + kPieces];
    H5L_UNROLL for (u32 i = 0; i < kHeads + kPieces; ++i) {
      places[i] = place_of_column(kSideBySide * lane() + 2 * i + (i + 1 > kHeads ? kStart - 2 * kHeads : 0));
    }
    double products[kWarpLags * kSideBySide] = {};
    H5L_NO_UNROLL for (u32 start = 0; start < columns_; start += kSideBySide * kWarpThreads) {
      const auto add = [&](double (&to)[kWarpLags* kSideBySide]) {
        const auto add_row = [&](const double* from) {
          double heads[kSideBySide], tails[kLoaded];
          H5L_UNROLL for (u32 i = 0; i < kPieces; ++i) {
            const TwoErrors two = *reinterpret_cast<const TwoErrors*>(from + places[kHeads + i]);
            tails[2 * i] = two.first;
            tails[2 * i + 1] = two.second;
          }
          H5L_UNROLL for (u32 i = 0; i < kSideBySide / 2; ++i) {
            const TwoErrors two = kHeads == 0 ? TwoErrors{tails[2 * i], tails[2 * i + 1]}
                                              : *reinterpret_cast<const TwoErrors*>(from + places[i]);
            heads[2 * i] = two.first;
            heads[2 * i + 1] = two.second;
          }
          H5L_UNROLL for (u32 l = 0; l < kWarpLags; ++l) {
            H5L_UNROLL for (u32 i = 0; i < kSideBySide; ++i) {
              double& product = to[i * kWarpLags + l];
              product = fused_multiply_add(heads[i], tails[kFirst - kStart + l + i], product);
            }
          }
        };
        u32 row = rows_;
        if (row % 2 != 0) add_row(shared_.errors + --row * kTileColumns + start);
        H5L_NO_UNROLL for (; row != 0; row -= 2) {
          const double* const from = shared_.errors + (row - 2) * kTileColumns + start;
          add_row(from + kTileColumns);
          add_row(from);
        }
      };
      if (start + kSideBySide * kWarpThreads <= columns_with(kFirst + kWarpLags - 1)) {
        add(products);
        continue;
      }
      double more[kWarpLags * kSideBySide];
      H5L_UNROLL for (u32 i = 0; i < kWarpLags * kSideBySide; ++i) more[i] = products[i];
      add(more);
      H5L_UNROLL for (u32 i = 0; i < kWarpLags * kSideBySide; ++i) {
        const u32 column = start + kSideBySide * lane() + i / kWarpLags;
        if (column < columns_with(kFirst + i % kWarpLags)) products[i] = more[i];
      }
    }
    // The totals of the four columns end up in different lanes: the first column's in lanes 0 to 7, and so on.
    const OwnTotals own = add_up_warp(products);
    double total = products[0];
    H5L_UNROLL for (u32 by = kWarpThreads / 2; by >= kWarpThreads / kSideBySide; by /= 2) total +=
        shuffle_xor(total, by);
    if (lane() < kWarpThreads / kSideBySide && own.count != 0) shared_.products_x[kFirst - 1 + own.first] = total;
  }

  // A lane's products, sums of tails, and sum of heads.
  struct ColumnSums {
    double products[kWarpLags] = {}, tails[kWarpLags] = {}, heads = 0;
  };

  // Sums of a column in a cell with all rows, which either have all tails or lack some. Returns the sum of the column.
  // If some rows lack tails, the heads of the others are summed separately.
  template <u32 kFirst, bool kHasAll>
  H5L_DEVICE double add_whole_column(const double* column, ColumnSums& sums, double (&short_heads)[kWarpLags]) const {
    constexpr u32 kLast = kFirst + kWarpLags - 1;
    const auto is_there = [&](u32 row) { return kHasAll || row < kCellRows || row < rows_there_; };
    double ring[kLast + 1], below[kWarpLags], sum = 0;
    H5L_UNROLL for (u32 lag = 1; lag <= kLast; ++lag) {
      const u32 row = kCellRows - 1 + lag;
      const double error = column[place_of_row(row)];
      ring[row % (kLast + 1)] = error;
      if (is_there(row)) sum += error;
      if (lag >= kFirst) below[lag - kFirst] = sum;
    }
    double heads[kWarpLags] = {};
    sum = 0;
    H5L_UNROLL for (u32 up = 0; up < kCellRows; ++up) {
      const u32 row = kCellRows - 1 - up;
      const double error = column[place_of_row(row)];
      H5L_UNROLL for (u32 l = 0; l < kWarpLags; ++l) {
        if (!is_there(row + kFirst + l)) continue;
        sums.products[l] = fused_multiply_add(error, ring[(row + kFirst + l) % (kLast + 1)], sums.products[l]);
        if (!kHasAll) heads[l] += error;
      }
      ring[row % (kLast + 1)] = error;
      sum += error;
      if (row >= kFirst && row <= kLast) sums.tails[row - kFirst] += sum + below[row - kFirst];
    }
    H5L_UNROLL for (u32 l = 0; l < kWarpLags; ++l) {
      if (!is_there(kCellRows - 1 + kFirst + l)) short_heads[l] += heads[l];
    }
    return sum;
  }

  // The same for any cell.
  template <u32 kFirst>
  H5L_DEVICE double add_short_column(const double* column, ColumnSums& sums, double (&short_heads)[kWarpLags]) const {
    const auto error = [&](u32 row) { return column[place_of_row(row)]; };
    double sum = 0;
    H5L_NO_UNROLL for (u32 row = rows_; row-- != 0;) sum += error(row);
    H5L_UNROLL for (u32 l = 0; l < kWarpLags; ++l) {
      const u32 lag = kFirst + l;
      double heads = 0, tails = 0, below = 0;
      H5L_NO_UNROLL for (u32 row = rows_with(lag); row-- != 0;) {
        sums.products[l] = fused_multiply_add(error(row), error(row + lag), sums.products[l]);
        heads += error(row);
      }
      H5L_NO_UNROLL for (u32 row = rows_; row-- > lag;) tails += error(row);
      const u32 end = rows_ + lag < rows_there_ ? rows_ + lag : rows_there_;
      H5L_NO_UNROLL for (u32 row = rows_ < lag ? lag : rows_; row < end; ++row) below += error(row);
      if (rows_with(lag) < rows_) short_heads[l] += heads;
      sums.tails[l] += tails + below;
    }
    return sum;
  }

  // Products and tails along columns, for kWarpLags lags from kFirst on, and sums of columns.
  template <u32 kFirst>
  H5L_DEVICE void add_along_columns() {
    constexpr u32 kHalf = kFirst == 1 ? 0 : 1;
    const bool has_rows = rows_ == kCellRows, has_all = has_rows && rows_there_ == kCellRows + plan_.field.lags;
    const u32 least = columns_with(plan_.field.lags);
    const double* const first = shared_.errors + place_of_column(lane());
    ColumnSums sums;
    double some_products[kWarpLags] = {}, some_tails[kWarpLags], some_heads[kWarpLags];
    const auto keep = [&](u32 l) {
      if (rows_with(kFirst + l) == rows_) some_products[l] = sums.products[l];
      some_tails[l] = sums.tails[l];
      some_heads[l] = sums.heads;
    };
    bool is_cut = false;
    H5L_NO_UNROLL for (u32 start = 0; start < columns_; start += kWarpThreads) {
      const u32 column = start + lane();
      if (!is_cut && start + kWarpThreads > least && least < columns_) {
        is_cut = true;
        H5L_UNROLL for (u32 l = 0; l < kWarpLags; ++l) keep(l);
      }
      if (column < columns_) {
        const double* const from = first + start;
        const double sum = has_all    ? add_whole_column<kFirst, true>(from, sums, some_products)
                           : has_rows ? add_whole_column<kFirst, false>(from, sums, some_products)
                                      : add_short_column<kFirst>(from, sums, some_products);
        sums.heads += sum;
        if (kHalf == 0) shared_.column_sums[column] = sum;
      }
      if (!is_cut) continue;
      H5L_UNROLL for (u32 l = 0; l < kWarpLags; ++l) {
        if (column < columns_with(kFirst + l)) keep(l);
      }
    }
    sync_warp();
    if (has_some()) {
      double totals[3 * kWarpLags];
      H5L_UNROLL for (u32 l = 0; l < kWarpLags; ++l) {
        if (!is_cut) keep(l);
        totals[l] = some_products[l];
        totals[kWarpLags + l] = some_tails[l];
        totals[2 * kWarpLags + l] = some_heads[l];
      }
      store_totals(totals, shared_.some_y[kHalf]);
    }
    double totals[2 * kWarpLags + 1];
    H5L_UNROLL for (u32 l = 0; l < kWarpLags; ++l) {
      totals[l] = sums.products[l];
      totals[kWarpLags + l] = sums.tails[l];
    }
    totals[2 * kWarpLags] = sums.heads;
    store_totals(totals, shared_.all_y[kHalf]);
  }

  // Whether some columns lack tails along the last axis, or some rows along the other.
  H5L_DEVICE bool has_some() const {
    return columns_with(plan_.field.lags) < columns_ || rows_with(plan_.field.lags) < rows_;
  }

  // Adds up the column sums for pairs along the last axis, in 128 lanes. A warp takes every fourth lag.
  H5L_DEVICE void add_up_columns() const {
    H5L_NO_UNROLL for (u32 lag = 1 + warp(); lag <= plan_.field.lags; lag += kWarps) {
      const u32 count = columns_with(lag);
      double heads = of_columns(shared_.column_sums, count), tails = of_columns(shared_.column_sums + lag, count);
      H5L_UNROLL for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
        heads += shuffle_xor(heads, by);
        tails += shuffle_xor(tails, by);
      }
      if (lane() != 0) continue;
      shared_.heads_x[lag - 1] = heads;
      shared_.tails_x[lag - 1] = tails;
    }
  }

  // Stores the sums of a halo plane's cell that the cells before it need.
  H5L_DEVICE void store_heads() const {
    H5L_NO_UNROLL for (u32 lag = warp(); lag <= plan_.field.lags; lag += kWarps) {
      double sum = 0;
      H5L_NO_UNROLL for (u32 column = lane(); column < columns_with(lag); column += kWarpThreads) {
        sum += shared_.column_sums[column];
      }
      sum = sum_of_warp(sum);
      if (lane() == 0) plan_.notes[cell_].heads[lag] = sum;
    }
  }

  // A lane's part of the sum of the first `count` columns.
  H5L_DEVICE double of_columns(const double* from, u32 count) const {
    double lanes[kSideBySide];
    H5L_UNROLL for (u32 i = 0; i < kSideBySide; ++i) {
      lanes[i] = 0;
      H5L_UNROLL for (u32 start = i * kWarpThreads; start < kCellColumns; start += kSideBySide * kWarpThreads) {
        if (start + lane() < count) lanes[i] += from[start + lane()];
      }
    }
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  }

  // Writes the sums of one lag; 0 is the cell itself.
  H5L_DEVICE void write_lag(u32 lag) const {
    LagNotes& notes = plan_.notes[cell_];
    const double heads = shared_.all_y[0][2 * kWarpLags];
    if (lag == 0) {
      notes.heads[0] = heads;
      return;
    }
    const u32 l = lag - 1, half = l / kWarpLags, i = l % kWarpLags, along_x = columns_with(lag),
              along_y = rows_with(lag);
    const double* const all = shared_.all_y[half];
    const double* const some = has_some() ? shared_.some_y[half] : all;
    const bool is_whole = along_y == rows_;
    const double products_x = shared_.products_x[l], heads_x = shared_.heads_x[l], tails_x = shared_.tails_x[l];
    const double products_y = some[i], tails_y = some[kWarpLags + i];
    notes.heads[lag] = some == all ? heads : some[2 * kWarpLags + i];
    notes.heads_x[l] = heads_x;
    notes.products_x[l] = products_x;
    notes.tails_x[l] = tails_x;
    notes.products_y[l] = products_y;
    notes.tails_y[l] = tails_y;
    assess::StencilSums& sums = reinterpret_cast<StencilCell*>(plan_.results)[cell_].sums;
    sums.lag_products[kX][l] = products_x;
    sums.lag_sums[kX][l] = heads_x + tails_x;
    sums.lag_pairs[kX][l] = rows_ * along_x;
    if (along_y != 0) {
      sums.lag_products[kY][l] = all[i];
      sums.lag_sums[kY][l] = (is_whole ? heads : products_y) + all[kWarpLags + i];
      sums.lag_pairs[kY][l] = along_y * columns_;
    }
    if (plan_.field.rank != 2 || !is_whole) return;
    const double inverse = 1.0 / 2;
    sums.lag_products[kMeanRow][l] = (products_y + products_x) * inverse;
    sums.lag_sums[kMeanRow][l] = heads_x + (tails_y + tails_x) * inverse;
    sums.lag_pairs[kMeanRow][l] = rows_ * along_x;
  }

  const CellsPlan& plan_;
  const u32 cell_;
  const CellPlace place_;
  const u32 rows_, columns_;
  const u32 rows_there_, columns_there_;  // in the field, including the halo
  PlaneLagsShared& shared_;
};

// The plan's cells, and the halo's, which provide the sums of tails.
template <class T>
H5L_DEVICE void add_plane_lags(const CellsPlan& plan) {
  const Cells cells(plan);
  const u32 all = static_cast<u32>(plan.cells);
  CellPlace place = cells[block_number()];
  for (u32 cell = block_number(); cell < all; cell += grid_blocks()) {
    const CellPlace next = cells[cell + grid_blocks() < all ? cell + grid_blocks() : cell];
    PlaneLags<T>(plan, cell, place).run(cell < plan.own_cells, next);
    place = next;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Lags along z. A warp takes a cell in several planes, so that a loaded value serves as head or tail several times.

template <class T>
inline constexpr u32 kLagPlanes = sizeof(T) == 4 ? 3 : 2;

template <class T>
struct DeepLagsShared {
  static constexpr u32 kProducts = kLagPlanes<T> * kMostPlainLags;
  double some[kWarps][kProducts][kWarpThreads];  // lanes of the first columns
  double totals[kWarps][2][kProducts];           // of all columns, and of the first ones
};

template <class T>
H5L_DEVICE void add_deep_lags_of(const CellsPlan& plan, u32 cell, const CellPlace& place, u32 planes) {
  constexpr u32 kPlanes = kLagPlanes<T>, kLoaded = kPlanes + kMostPlainLags, kProducts = kPlanes * kMostPlainLags;
  DeepLagsShared<T>& shared = *reinterpret_cast<DeepLagsShared<T>*>(shared_memory());
  const assess::View& view = plan.view;
  const u32 rows = rows_of(place), columns = columns_of(place), least = columns_with(plan, place, plan.field.lags);
  const double pivot = plan.rules.pivot_e;
  // The planes that a warp reads are less than 2^32 bytes apart (native/assess/gpu). Values past the last plane are
  // loaded but not used.
  const u64 left = plan.reach_end[kZ] - 1 - place.z;
  const u32 last = left < kLoaded ? static_cast<u32>(left) : kLoaded;
  u32 planes_x[kLoaded], planes_y[kLoaded];
  H5L_UNROLL for (u32 k = 0; k < kLoaded; ++k) {
    const u32 plane = k < last ? k : last;
    planes_x[k] = opaque(plane * static_cast<u32>(view.original_strides[kZ]));
    planes_y[k] = opaque(plane * static_cast<u32>(view.decoded_strides[kZ]));
  }
  const u64 first[4] = {place.w, place.z, place.first_row + (rows - 1), place.first_column + lane()};
  const u8* const original = address(view.original, view.original_strides, view.origin, first);
  const u8* const decoded = address(view.decoded, view.decoded_strides, view.origin, first);
  double products[kProducts] = {};
  T x[kLoaded], y[kLoaded];
  const auto load = [&](u32 up, u32 start) {
    const u8* const from_x = original + (start * sizeof(T) - up * view.original_strides[kY]);
    const u8* const from_y = decoded + (start * sizeof(T) - up * view.decoded_strides[kY]);
    H5L_UNROLL for (u32 k = 0; k < kLoaded; ++k) {
      x[k] = *reinterpret_cast<const T*>(from_x + planes_x[k]);
      y[k] = *reinterpret_cast<const T*>(from_y + planes_y[k]);
    }
  };
  const auto keep = [&](u32 l) {
    H5L_UNROLL for (u32 k = 0; k < kPlanes; ++k) {
      const u32 p = k * kMostPlainLags + l;
      shared.some[warp()][p][lane()] = products[p];
    }
  };
  bool is_cut = false;
  if (lane() < columns) load(0, 0);
  H5L_NO_UNROLL for (u32 start = 0; start < columns; start += kWarpThreads) {
    const u32 column = start + lane();
    if (!is_cut && start + kWarpThreads > least && least < columns) {
      is_cut = true;
      H5L_UNROLL for (u32 l = 0; l < kMostPlainLags; ++l) keep(l);
    }
    if (column >= columns) break;
    H5L_NO_UNROLL for (u32 up = 0; up < rows; ++up) {
      double now[kLoaded];
      H5L_UNROLL for (u32 k = 0; k < kLoaded; ++k) now[k] =
          static_cast<double>(y[k]) - static_cast<double>(x[k]) - pivot;
      const bool is_last = up + 1 == rows;
      if (!is_last || column + kWarpThreads < columns)
        load(is_last ? 0 : up + 1, is_last ? start + kWarpThreads : start);
      H5L_UNROLL for (u32 k = 0; k < kPlanes; ++k) {
        H5L_UNROLL for (u32 l = 0; l < kMostPlainLags; ++l) {
          double& product = products[k * kMostPlainLags + l];
          product = fused_multiply_add(now[k], now[k + 1 + l], product);
        }
      }
    }
    if (!is_cut) continue;
    H5L_UNROLL for (u32 l = 0; l < kMostPlainLags; ++l) {
      if (column < columns_with(plan, place, l + 1)) keep(l);
    }
  }
  sync_warp();
  store_totals(products, shared.totals[warp()][0]);
  is_cut = least < columns;
  if (is_cut) {
    H5L_UNROLL for (u32 p = 0; p < kProducts; ++p) products[p] = shared.some[warp()][p][lane()];
    store_totals(products, shared.totals[warp()][1]);
  }
  sync_warp();
  const u32 cells_of_plane = plan.rows_of_cells * plan.columns_of_cells;
  for (u32 p = lane(); p < kProducts; p += kWarpThreads) {
    const u32 k = p / kMostPlainLags, l = p % kMostPlainLags, lag = l + 1;
    CellPlace own = place;
    own.z += k;
    if (k >= planes || lag > plan.field.lags || rows_with(plan, own, kZ, lag) == 0) continue;
    const LagNotes& notes = plan.notes[cell + k * cells_of_plane];
    const LagNotes& tails = plan.notes[cell + (k + lag) * cells_of_plane];
    const double all = shared.totals[warp()][0][p], some = is_cut ? shared.totals[warp()][1][p] : all;
    assess::StencilSums& sums = reinterpret_cast<StencilCell*>(plan.results)[cell + k * cells_of_plane].sums;
    sums.lag_products[kZ][l] = all;
    sums.lag_sums[kZ][l] = notes.heads[0] + tails.heads[0];
    sums.lag_pairs[kZ][l] = rows * columns;
    if (rows_with(plan, own, kY, lag) != rows) continue;
    const double inverse = 1.0 / 3;
    sums.lag_products[kMeanRow][l] = ((some + notes.products_y[l]) + notes.products_x[l]) * inverse;
    sums.lag_sums[kMeanRow][l] =
        notes.heads_x[l] + ((tails.heads[lag] + notes.tails_y[l]) + notes.tails_x[l]) * inverse;
    sums.lag_pairs[kMeanRow][l] = rows * columns_with(plan, own, lag);
  }
  sync_warp();
}

// Runs after the kernel of lags in planes. A thread block takes a cell in as many planes as its warps do.
template <class T>
H5L_DEVICE void add_deep_lags(const CellsPlan& plan) {
  constexpr u32 kPlanes = kWarps * kLagPlanes<T>;
  const Cells cells(plan);
  const u32 cells_of_plane = plan.rows_of_cells * plan.columns_of_cells;
  const u32 planes = static_cast<u32>(plan.end[kZ] - plan.first[kZ]);
  const u32 all = (planes + kPlanes - 1) / kPlanes * cells_of_plane;
  for (u32 i = block_number(); i < all; i += grid_blocks()) {
    const u32 first = i / cells_of_plane * kPlanes + warp() * kLagPlanes<T>;
    if (first >= planes) continue;
    const u32 cell = first * cells_of_plane + i % cells_of_plane;
    add_deep_lags_of<T>(plan, cell, cells[cell], planes - first < kLagPlanes<T> ? planes - first : kLagPlanes<T>);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The mean of all axes in cells where some rows lack tails: over the points that have all of them.

template <class T>
H5L_DEVICE void add_mean_lag(const CellsPlan& plan, u64 cell, u32 lag) {
  const CellPlace place = place_of(plan, cell);
  const assess::View& view = plan.view;
  const u32 rows = rows_with(plan, place, kY, lag), columns = columns_with(plan, place, lag);
  const bool is_deep = plan.field.rank == 3;
  if (rows == rows_of(place) || rows == 0 || (is_deep && rows_with(plan, place, kZ, lag) == 0)) return;
  const u64 first[4] = {place.w, place.z, place.first_row, place.first_column};
  const PlainRows<T> here = {address(view.original, view.original_strides, view.origin, first),
                             address(view.decoded, view.decoded_strides, view.origin, first)};
  const PlainRows<T> above = here.next(view, kY, lag), behind = is_deep ? here.next(view, kZ, lag) : here;
  const double inverse = 1.0 / plan.field.rank;
  const auto mean_of = [&](u32 row, u32 column, double& head, double& tail) {
    const u32 x = row * static_cast<u32>(view.original_strides[kY]) + column * static_cast<u32>(sizeof(T));
    const u32 y = row * static_cast<u32>(view.decoded_strides[kY]) + column * static_cast<u32>(sizeof(T));
    const auto error = [&](const PlainRows<T>& from, u32 by) {
      return PlainRows<T>{from.original + x, from.decoded + y}.at(plan, static_cast<i32>(by)).e;
    };
    head = error(here, 0);
    tail = error(above, 0);
    if (is_deep) tail = error(behind, 0) + tail;
    tail = (tail + error(here, lag)) * inverse;
    return true;
  };
  const PairSums mean = add_up(1, rows, rows, columns, columns, mean_of).all;
  if (lane() != 0) return;
  assess::StencilSums& sums = reinterpret_cast<StencilCell*>(plan.results)[cell].sums;
  sums.lag_products[kMeanRow][lag - 1] = mean.products;
  sums.lag_sums[kMeanRow][lag - 1] = mean.heads + mean.tails;
  sums.lag_pairs[kMeanRow][lag - 1] = mean.pairs;
}

// A warp per lag and cell of the last rows of cells, the only ones that lack tails.
template <class T>
H5L_DEVICE void add_mean_lags(const CellsPlan& plan) {
  const u32 lags = plan.field.lags;
  const u64 row = plan.field.shape[kY] > lags ? plan.field.shape[kY] - lags : 0;  // the first row that lacks a tail
  const u64 whole = row > plan.first[kY] ? row / plan.cell_rows - plan.first[kY] / plan.cell_rows : 0;
  if (whole >= plan.rows_of_cells) return;
  const u64 wide = plan.columns_of_cells, of_plane = (plan.rows_of_cells - whole) * wide;
  const u64 all = plan.cells / plan.rows_of_cells / wide * of_plane * lags;
  for (u64 i = u64{block_number()} * kWarps + warp(); i < all; i += u64{grid_blocks()} * kWarps) {
    const u64 in_rows = i / lags, plane = in_rows / of_plane;
    add_mean_lag<T>(plan, plane * plan.rows_of_cells * wide + whole * wide + in_rows % of_plane,
                    1 + static_cast<u32>(i % lags));
  }
}

}  // namespace h5lossy::H5L_TARGET
