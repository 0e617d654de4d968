// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Autocorrelation (pattern II). First all errors are made ready in memory, once for all lags and axes. Where all points count,
// whole cells of fields with two or three axes are taken in two kernels: one for what lies in their planes, where a thread
// block has a cell in shared memory and a warp a quarter of its columns, and one for what lies planes apart, where a warp has
// the same cell of several planes. Any other cell takes a warp for each lag. All sums are those of native/assess: columns, lanes
// of quarters, quarters, lanes.
#pragma once

#include "assess_fields.cuh"

namespace h5lossy::H5L_TARGET {

using assess::kCellColumns;
using assess::kCellRows;
using gpu::kLagPlanes;
using gpu::kMostTileLags;
using gpu::LagNotes;

inline constexpr u32 kMeanRow = assess::kLagAxes - 1;
inline constexpr u32 kQuarter = 2 * kWarpThreads;

// An error that does not count: a NaN that no arithmetic makes, and none of the points that count has a NaN.
inline constexpr u32 kNoErrorHigh = 0x7FF5E440u;
H5L_DEVICE double no_error() { return bit_cast<double>(u64{kNoErrorHigh} << 32); }
H5L_DEVICE bool counts(double error) { return static_cast<u32>(bit_cast<u64>(error) >> 32) != kNoErrorHigh; }

H5L_DEVICE u64 error_index(const CellsPlan& plan, u64 w, u64 z, u64 y, u64 x) {
  const u64 deep = plan.reach_end[kZ] - plan.first[kZ], high = plan.reach_end[kY] - plan.first[kY];
  const u64 wide = plan.reach_end[kX] - plan.first[kX];
  return (((w - plan.first[kW]) * deep + (z - plan.first[kZ])) * high + (y - plan.first[kY])) * wide +
         (x - plan.first[kX]);
}

// The errors less their pivot of all that cells of the plan and their lags reach; a warp for each row.
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

// How many columns of a cell have one that is `lag` further.
H5L_DEVICE u32 columns_with(const CellsPlan& plan, const CellPlace& place, u32 lag) {
  const u64 left = plan.field.shape[kX] - place.first_column, there = left > lag ? left - lag : 0;
  return there < columns_of(place) ? static_cast<u32>(there) : columns_of(place);
}

// And rows with a point `lag` further along an axis but the last.
H5L_DEVICE u32 rows_with(const CellsPlan& plan, const CellPlace& place, u32 axis, u32 lag) {
  if (axis == kW && place.w + lag >= plan.field.shape[kW]) return 0;
  if (axis == kZ && place.z + lag >= plan.field.shape[kZ]) return 0;
  if (axis != kY) return rows_of(place);
  const u64 left = plan.field.shape[kY] - place.first_row, there = left > lag ? left - lag : 0;
  return there < rows_of(place) ? static_cast<u32>(there) : rows_of(place);
}

// Cells that the kernels for whole ones take: with all rows and columns. They have all lags along all axes but the last, too.
H5L_DEVICE bool has_whole_rows(const CellsPlan& plan, const CellPlace& place) {
  const assess::FieldPlan& field = plan.field;
  return plan.rules.all_valid && (field.rank == 2 || field.rank == 3) && field.lags <= kMostTileLags &&
         rows_of(place) == kCellRows && columns_of(place) == kCellColumns;
}
H5L_DEVICE bool is_whole(const CellsPlan& plan, const CellPlace& place) {
  const assess::FieldPlan& field = plan.field;
  return has_whole_rows(plan, place) && rows_with(plan, place, kY, field.lags) == kCellRows &&
         (field.rank == 2 || rows_with(plan, place, kZ, field.lags) != 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Any cell.

// Points and those that are a lag further along one axis; `some` are those in the first columns.
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
};

// Adds up what pair(row, column, head, tail) gives, where it says that both count.
template <class Pair>
H5L_DEVICE PairTotals add_up(u32 rows, u32 columns, u32 some, Pair pair) {
  constexpr u32 kAtOnce = 8;  // rows that are on their way at the same time
  PairTotals lanes;
  for (u32 start = 0; start < columns; start += kQuarter) {
    PairSums quarter, quarter_some;
    for (u32 half = 0; half < 2; ++half) {
      const u32 column = start + half * kWarpThreads + lane();
      PairSums sums;
      for (u32 start_row = 0; start_row < rows && column < columns; start_row += kAtOnce) {
        double heads[kAtOnce], tails[kAtOnce];
        bool both[kAtOnce];
        H5L_UNROLL for (u32 i = 0; i < kAtOnce; ++i) {
          both[i] = start_row + i < rows && pair(start_row + i, column, heads[i], tails[i]);
        }
        H5L_UNROLL for (u32 i = 0; i < kAtOnce; ++i) {
          if (both[i]) sums.add({heads[i] * tails[i], heads[i], tails[i], 1});
        }
      }
      quarter.add(sums);
      if (column < some) quarter_some.add(sums);
    }
    lanes.all.add(quarter);
    lanes.some.add(quarter_some);
  }
  return {lanes.all.total(), lanes.some.total()};
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
    common_rows = rows < common_rows ? rows : common_rows;
    has_all = has_all && rows == rows_of(place);
    if (rows == 0) continue;
    tails[axis] = plan.errors + error_index(plan, place.w + (axis == kW ? lag : 0), place.z + (axis == kZ ? lag : 0),
                                            place.first_row + (axis == kY ? lag : 0),
                                            place.first_column + (axis == kX ? lag : 0));
    const PairTotals found = add_up(rows, columns, along_x, [&](u32 row, u32 column, double& head, double& tail) {
      head = heads[row * wide + column];
      tail = tails[axis][row * wide + column];
      return counts(head) && counts(tail);
    });
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
    mean = add_up(common_rows, along_x, along_x, mean_of).all;
  }
  if (lane() != 0) return;
  sums.lag_products[kMeanRow][lag - 1] = mean.products;
  sums.lag_sums[kMeanRow][lag - 1] = mean.heads + mean.tails;
  sums.lag_pairs[kMeanRow][lag - 1] = mean.pairs;
}

// A warp for each lag of each cell. Behind the kernel of stencils, which clears the cells.
H5L_DEVICE void add_lag_cells(const CellsPlan& plan) {
  const u32 lags = plan.field.lags;
  const u64 all = plan.cells * lags;
  for (u64 i = u64{block_number()} * kWarps + warp(); i < all; i += u64{grid_blocks()} * kWarps) {
    const CellPlace place = place_of(plan, i / lags);
    if (is_whole(plan, place)) continue;
    add_lag(plan, place, 1 + static_cast<u32>(i % lags), reinterpret_cast<StencilCell*>(plan.results)[i / lags].sums);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Whole cells: lags in their planes.

inline constexpr u32 kTileRows = kCellRows + kMostTileLags, kTileColumns = kCellColumns + kMostTileLags;

// What the warps of a cell tell each other, a number of each lane; of the last quarter, whose last columns have no tail along
// the last axis, twice: with them, and without. Behind these stand numbers that come from column sums.
inline constexpr u32 kProductsX = 0, kProductsY = kMostTileLags, kTailsY = 2 * kMostTileLags;
inline constexpr u32 kSomeProductsY = 3 * kMostTileLags, kSomeTailsY = 4 * kMostTileLags;
inline constexpr u32 kTailsX = 5 * kMostTileLags, kHeads = 6 * kMostTileLags, kLagValues = 7 * kMostTileLags + 1;
inline constexpr u32 kQuarterValues = kSomeProductsY;

struct PlaneLagsShared {
  double errors[kTileRows * kTileColumns];  // and then lanes
  double column_sums[kTileColumns];
  double values[kLagValues];
};
static_assert(((kWarps - 1) * kQuarterValues + kTailsX) * kWarpThreads <= kTileRows * kTileColumns);
static_assert(kWarps * kQuarter == kCellColumns);

class PlaneLags {
 public:
  H5L_DEVICE PlaneLags(const CellsPlan& plan, u64 cell)
      : plan_(plan),
        cell_(cell),
        place_(place_of(plan, cell)),
        left_(plan.field.shape[kX] - place_.first_column < kTileColumns
                  ? static_cast<u32>(plan.field.shape[kX] - place_.first_column)
                  : kTileColumns),
        shared_(*reinterpret_cast<PlaneLagsShared*>(shared_memory())) {}

  H5L_DEVICE void run(u64 own_cells) {
    if (!has_whole_rows(plan_, place_)) return;
    const bool has_lags = cell_ < own_cells && is_whole(plan_, place_);
    load(has_lags ? plan_.field.lags : 0);
    double products_x[kMostTileLags], products_y[kMostTileLags], tails_y[kMostTileLags];
    double last_products_y[kMostTileLags], last_tails_y[kMostTileLags];
    add_columns(products_x);
    if (has_lags) add_rows(products_y, tails_y, last_products_y, last_tails_y);
    sync_block();
    if (has_lags) {
      H5L_UNROLL for (u32 l = 0; l < kMostTileLags; ++l) {
        *lanes_of(warp(), kProductsX + l) = products_x[l];
        *lanes_of(warp(), kProductsY + l) = products_y[l];
        *lanes_of(warp(), kTailsY + l) = tails_y[l];
        if (warp() != kWarps - 1) continue;
        *lanes_of(warp(), kSomeProductsY + l) = last_products_y[l];
        *lanes_of(warp(), kSomeTailsY + l) = last_tails_y[l];
      }
      sync_block();
    }
    if (has_lags) add_up(0, kTailsX, [&](u32 value) { return of_lanes(value); });
    add_up(kTailsX, kLagValues, [&](u32 value) { return of_column_sums(value); });
    sync_block();
    if (thread() <= plan_.field.lags) tell(thread(), has_lags);
    sync_block();
  }

 private:
  // Totals of lanes, several at a time.
  template <class Of>
  H5L_DEVICE void add_up(u32 first, u32 end, Of of) {
    constexpr u32 kAtOnce = 6;
    for (u32 start = first + warp(); start < end; start += kAtOnce * kWarps) {
      double sums[kAtOnce];
      H5L_UNROLL for (u32 i = 0; i < kAtOnce; ++i) sums[i] = start + i * kWarps < end ? of(start + i * kWarps) : 0.0;
      H5L_UNROLL for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
        H5L_UNROLL for (u32 i = 0; i < kAtOnce; ++i) sums[i] += shuffle_xor(sums[i], by);
      }
      H5L_UNROLL for (u32 i = 0; i < kAtOnce; ++i) {
        if (lane() == 0 && start + i * kWarps < end) shared_.values[start + i * kWarps] = sums[i];
      }
    }
  }

  // How many columns have one that is `lag` further.
  H5L_DEVICE u32 columns_with(u32 lag) const { return left_ - lag < kCellColumns ? left_ - lag : kCellColumns; }

  // Errors of the cell and what its lags reach; what is not there is left as it is.
  H5L_DEVICE void load(u32 lags) {
    const double* const from =
        plan_.errors + error_index(plan_, place_.w, place_.z, place_.first_row, place_.first_column);
    const u64 wide = plan_.reach_end[kX] - plan_.first[kX], left = plan_.reach_end[kX] - place_.first_column;
    const u32 columns = left < kTileColumns ? static_cast<u32>(left) : kTileColumns;
    for (u32 row = warp(); row < kCellRows + lags; row += kWarps) {
      for (u32 column = lane(); column < columns; column += kWarpThreads) {
        copy_async<8>(reinterpret_cast<u8*>(shared_.errors + row * kTileColumns + column),
                      reinterpret_cast<const u8*>(from + row * wide + column));
      }
    }
    wait_for_copies();
    sync_block();
  }

  // Column sums, and products along rows.
  H5L_DEVICE void add_columns(double (&quarter)[kMostTileLags]) {
    H5L_UNROLL for (u32 l = 0; l < kMostTileLags; ++l) quarter[l] = 0;
    H5L_NO_UNROLL for (u32 half = 0; half < 2; ++half) {
      const u32 column = first_column() + half * kWarpThreads;
      double sum = 0, products[kMostTileLags] = {};
      H5L_NO_UNROLL for (u32 row = 0; row < kCellRows; row += 2) {
        H5L_UNROLL for (u32 i = 0; i < 2; ++i) {
          const double* const from = shared_.errors + (row + i) * kTileColumns + column;
          const double head = from[0];
          sum += head;
          H5L_UNROLL for (u32 l = 0; l < kMostTileLags; ++l) products[l] += head * from[l + 1];
        }
      }
      shared_.column_sums[column] = sum;
      H5L_UNROLL for (u32 l = 0; l < kMostTileLags; ++l) {
        quarter[l] += column < columns_with(l + 1) ? products[l] : 0.0;
      }
    }
    // Those that only tails come from.
    const u32 column = kCellColumns + thread();
    if (column >= kTileColumns) return;
    double sum = 0;
    for (u32 row = 0; row < kCellRows; ++row) sum += shared_.errors[row * kTileColumns + column];
    shared_.column_sums[column] = sum;
  }

  // Products along columns, and their tails: a value that has been loaded is the tail of those before it.
  H5L_DEVICE void add_rows(double (&products)[kMostTileLags], double (&tails)[kMostTileLags],
                           double (&some_products)[kMostTileLags], double (&some_tails)[kMostTileLags]) {
    H5L_UNROLL for (u32 l = 0; l < kMostTileLags; ++l) {
      products[l] = tails[l] = some_products[l] = some_tails[l] = 0;
    }
    H5L_NO_UNROLL for (u32 half = 0; half < 2; ++half) {
      const u32 column = first_column() + half * kWarpThreads;
      double before[kMostTileLags + 1], own_products[kMostTileLags] = {}, own_tails[kMostTileLags] = {};
      H5L_UNROLL for (u32 row = 0; row < kTileRows; ++row) {
        const double tail = shared_.errors[row * kTileColumns + column];
        H5L_UNROLL for (u32 lag = 1; lag <= kMostTileLags; ++lag) {
          if (row < lag || row - lag >= kCellRows) continue;
          own_products[lag - 1] += before[(row - lag) % (kMostTileLags + 1)] * tail;
          own_tails[lag - 1] += tail;
        }
        before[row % (kMostTileLags + 1)] = tail;
      }
      H5L_UNROLL for (u32 l = 0; l < kMostTileLags; ++l) {
        products[l] += own_products[l];
        tails[l] += own_tails[l];
        const bool is_some = column < columns_with(l + 1);
        some_products[l] += is_some ? own_products[l] : 0.0;
        some_tails[l] += is_some ? own_tails[l] : 0.0;
      }
    }
  }

  H5L_DEVICE u32 first_column() const { return warp() * kQuarter + lane(); }

  H5L_DEVICE double* lanes_of(u32 quarter, u32 value) const {
    return shared_.errors + (quarter * kQuarterValues + value) * kWarpThreads + lane();
  }
  H5L_DEVICE double of_lanes(u32 value) const {
    double sum = 0;
    H5L_UNROLL for (u32 q = 0; q < kWarps; ++q) {
      const bool is_last = q == kWarps - 1;
      sum += *lanes_of(q, is_last || value < kSomeProductsY ? value : value - kSomeProductsY + kProductsY);
    }
    return sum;
  }
  H5L_DEVICE double of_column_sums(u32 value) const {
    const bool is_tails = value < kHeads;
    const u32 lag = is_tails ? value - kTailsX + 1 : value - kHeads;
    const u32 count = columns_with(lag);
    const double* const from = shared_.column_sums + (is_tails ? lag : 0);
    double sum = 0;
    H5L_UNROLL for (u32 start = 0; start < kCellColumns; start += kQuarter) {
      const u32 column = start + lane(), other = column + kWarpThreads;
      sum += (column < count ? from[column] : 0.0) + (other < count ? from[other] : 0.0);
    }
    return sum;
  }

  // What one lag comes to; 0 stands for the cell itself.
  H5L_DEVICE void tell(u32 lag, bool has_lags) const {
    const double* const values = shared_.values;
    LagNotes& notes = plan_.notes[cell_];
    const double heads = values[kHeads + lag];
    notes.heads[lag] = heads;
    if (!has_lags || lag == 0) return;
    const u32 l = lag - 1, along_x = columns_with(lag);
    assess::StencilSums& sums = reinterpret_cast<StencilCell*>(plan_.results)[cell_].sums;
    sums.lag_products[kX][l] = values[kProductsX + l];
    sums.lag_sums[kX][l] = heads + values[kTailsX + l];
    sums.lag_pairs[kX][l] = kCellRows * along_x;
    sums.lag_products[kY][l] = values[kProductsY + l];
    sums.lag_sums[kY][l] = values[kHeads] + values[kTailsY + l];
    sums.lag_pairs[kY][l] = kCellRows * kCellColumns;
    if (plan_.field.rank == 3) {
      notes.products_x[l] = values[kProductsX + l];
      notes.tails_x[l] = values[kTailsX + l];
      notes.products_y[l] = values[kSomeProductsY + l];
      notes.tails_y[l] = values[kSomeTailsY + l];
      return;
    }
    const double inverse = 1.0 / 2;
    sums.lag_products[kMeanRow][l] = (values[kSomeProductsY + l] + values[kProductsX + l]) * inverse;
    sums.lag_sums[kMeanRow][l] = heads + (values[kSomeTailsY + l] + values[kTailsX + l]) * inverse;
    sums.lag_pairs[kMeanRow][l] = kCellRows * along_x;
  }

  const CellsPlan& plan_;
  const u64 cell_;
  const CellPlace place_;
  const u32 left_;  // columns from the cell's first one to the field's end, as far as lags reach
  PlaneLagsShared& shared_;
};

// The plan's cells, and those in planes that only lags reach, for the sums that are their tails'.
H5L_DEVICE void add_plane_lags(const CellsPlan& plan) {
  for (u64 cell = block_number(); cell < plan.cells; cell += grid_blocks()) PlaneLags(plan, cell).run(plan.own_cells);
}

// ---------------------------------------------------------------------------------------------------------------------
// Whole cells: lags from plane to plane. A warp takes a cell in kLagPlanes planes, so that a value that is loaded is a head
// or a tail several times.

struct DeepLagsShared {
  double lanes[kWarps][2][kLagPlanes * kMostTileLags][kWarpThreads];  // of all columns; of half a quarter
};

H5L_DEVICE void add_deep_lags_of(const CellsPlan& plan, u64 cell, CellPlace place, u32 planes) {
  constexpr u32 kLoaded = kLagPlanes + kMostTileLags, kProducts = kLagPlanes * kMostTileLags;
  DeepLagsShared& shared = *reinterpret_cast<DeepLagsShared*>(shared_memory());
  double (&lanes)[2][kProducts][kWarpThreads] = shared.lanes[warp()];
  // Errors of one launch are fewer than 2^32.
  const u32 wide = static_cast<u32>(plan.reach_end[kX] - plan.first[kX]);
  const u32 plane = static_cast<u32>(plan.reach_end[kY] - plan.first[kY]) * wide;
  const u64 left = plan.reach_end[kZ] - 1 - place.z;
  const u32 last = left < kLoaded ? static_cast<u32>(left) : kLoaded;
  const double* const from =
      plan.errors + error_index(plan, place.w, place.z, place.first_row, place.first_column) + lane();
  u32 offset[kLoaded];
  H5L_UNROLL for (u32 k = 0; k < kLoaded; ++k) offset[k] = (k < last ? k : last) * plane;
  const auto load = [&](double (&to)[kLoaded], u32 row, u32 column) {
    const double* const there = from + (row * wide + column);
    H5L_UNROLL for (u32 k = 0; k < kLoaded; ++k) to[k] = there[offset[k]];
  };
  double now[kLoaded], next[kLoaded];
  load(next, 0, 0);
  H5L_NO_UNROLL for (u32 start = 0; start < kCellColumns; start += kWarpThreads) {
    double products[kProducts] = {};
    H5L_NO_UNROLL for (u32 row = 0; row < kCellRows; ++row) {
      H5L_UNROLL for (u32 k = 0; k < kLoaded; ++k) now[k] = next[k];
      const bool is_last = row + 1 == kCellRows;
      if (!is_last || start + kWarpThreads < kCellColumns) {
        load(next, is_last ? 0 : row + 1, is_last ? start + kWarpThreads : start);
      }
      H5L_UNROLL for (u32 k = 0; k < kLagPlanes; ++k) {
        H5L_UNROLL for (u32 lag = 1; lag <= kMostTileLags; ++lag) {
          products[k * kMostTileLags + lag - 1] += now[k] * now[k + lag];
        }
      }
    }
    const bool is_half = start % kQuarter == 0, is_first = start < kQuarter,
               is_end = start + kWarpThreads == kCellColumns;
    H5L_UNROLL for (u32 p = 0; p < kProducts; ++p) {
      double& half = lanes[1][p][lane()];
      double& all = lanes[0][p][lane()];
      if (is_half) {
        half = products[p];
        continue;
      }
      const double before = is_first ? 0.0 : all;
      all = before + (half + products[p]);
      if (!is_end) continue;
      const bool is_some = start + lane() < columns_with(plan, place, p % kMostTileLags + 1);
      half = before + (half + (is_some ? products[p] : 0.0));  // now of the columns with a tail along the last axis
    }
  }
  // Totals, to the lanes of the first products.
  sync_warp();
  H5L_NO_UNROLL for (u32 p = 0; p < kProducts; ++p) {
    const double all = sum_of_warp(lanes[0][p][lane()]), some = sum_of_warp(lanes[1][p][lane()]);
    sync_warp();
    if (lane() == 0) {
      lanes[0][p][0] = all;
      lanes[1][p][0] = some;
    }
  }
  sync_warp();
  const u64 cells_of_plane = u64{plan.rows_of_cells} * plan.columns_of_cells;
  for (u32 p = lane(); p < kProducts; p += kWarpThreads) {
    const u32 k = p / kMostTileLags, l = p % kMostTileLags, lag = l + 1;
    CellPlace own = place;
    own.z += k;
    if (k >= planes || lag > plan.field.lags || !is_whole(plan, own)) continue;
    const LagNotes& notes = plan.notes[cell + k * cells_of_plane];
    const LagNotes& tails = plan.notes[cell + (k + lag) * cells_of_plane];
    assess::StencilSums& sums = reinterpret_cast<StencilCell*>(plan.results)[cell + k * cells_of_plane].sums;
    sums.lag_products[kZ][l] = lanes[0][p][0];
    sums.lag_sums[kZ][l] = notes.heads[0] + tails.heads[0];
    sums.lag_pairs[kZ][l] = kCellRows * kCellColumns;
    const double inverse = 1.0 / 3;
    sums.lag_products[kMeanRow][l] = ((lanes[1][p][0] + notes.products_y[l]) + notes.products_x[l]) * inverse;
    sums.lag_sums[kMeanRow][l] =
        notes.heads[lag] + ((tails.heads[lag] + notes.tails_y[l]) + notes.tails_x[l]) * inverse;
    sums.lag_pairs[kMeanRow][l] = kCellRows * columns_with(plan, own, lag);
  }
  sync_warp();
}

// Behind the kernel of lags in planes. A thread block takes a cell in as many planes as its warps do.
H5L_DEVICE void add_deep_lags(const CellsPlan& plan) {
  constexpr u32 kPlanes = kWarps * kLagPlanes;
  const u64 cells_of_plane = u64{plan.rows_of_cells} * plan.columns_of_cells, planes = plan.end[kZ] - plan.first[kZ];
  const u64 all = (planes + kPlanes - 1) / kPlanes * cells_of_plane;
  for (u64 i = block_number(); i < all; i += grid_blocks()) {
    const u64 first = i / cells_of_plane * kPlanes + warp() * kLagPlanes;
    if (first >= planes) continue;
    const u64 cell = first * cells_of_plane + i % cells_of_plane;
    const CellPlace place = place_of(plan, cell);
    if (!is_whole(plan, place)) continue;  // nor are those in later planes
    add_deep_lags_of(plan, cell, place, planes - first < kLagPlanes ? static_cast<u32>(planes - first) : kLagPlanes);
  }
}

}  // namespace h5lossy::H5L_TARGET
