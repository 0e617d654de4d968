// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity (SSIM) in windows of seven points along each of two or three axes, for fields in which every
// point is valid. A thread block sweeps along z (with two axes: along rows of cells), with one cell of each plane.
// Producer warps load values and sum seven rows for every column that the cell's windows reach. Consumer warps sum
// columns and planes and compute SSIM: a warp has one row of the cell, a lane two adjacent windows, the first at an
// even column, which share most columns. A ring of planes in shared memory, guarded by mbarriers, connects them. All
// sums are those of native/assess/cpu/windows.cpp, addition for addition.
#pragma once

#include "kernels/assess/windows.cuh"

namespace h5lossy::H5L_TARGET {

inline constexpr u32 kSlidingSide = 7;
inline constexpr u32 kSlidingHalo = kSlidingSide - 1;
inline constexpr u32 kSlidingSums = kQuantities - 1;
inline constexpr u32 kPair = 2;  // windows per lane

struct Sliding {
  static constexpr u32 kReadRows = kSlidingSide + kSlidingHalo;
  static constexpr u32 kReadColumns = assess::kWindowColumns + kSlidingHalo;
  // Producers take two planes at once, a lane for each column.
  static constexpr u32 kProducers = 5;
  static constexpr u32 kProducerLanes = 2 * kReadColumns / kProducers;
  static_assert(kProducers * kProducerLanes == 2 * kReadColumns && kProducerLanes <= kWarpThreads);
  static constexpr u32 kConsumers = assess::kWindowRows;
  static_assert(kConsumers == kSlidingSide && kPair * kWarpThreads == assess::kWindowColumns);
  static constexpr u32 kBlockWarps = kProducers + kConsumers;
  static constexpr u32 kRing = kSlidingSide;  // planes in the ring; each plane of a block has its own slot
  static constexpr u32 kPitch = (kReadColumns + 3) / 4 * 4;
  static constexpr u32 kLossBlocks = 3;  // blocks of planes: being computed, being added up, and one between
};

struct SlidingShared {
  alignas(16) double columns[Sliding::kRing][kSlidingSums][kSlidingSide][Sliding::kPitch];
  double lost[Sliding::kLossBlocks][kSlidingSide][Sliding::kConsumers][kWarpThreads];
  WorstOfWarp worst[Sliding::kBlockWarps];
  u64 full[Sliding::kRing], empty[Sliding::kRing];  // barriers of each slot of the ring
  u64 blocks_done;                                  // barrier of the last block of planes
};

template <>
inline constexpr u32 kThreadsWith<SlidingShared> = Sliding::kBlockWarps * kWarpThreads;

struct alignas(16) PairOfDoubles {
  double first, second;
};

// A sweep: its planes, and the cell in each.
struct Sweep {
  u64 from, to;
  u64 cell;  // the first plane's number
  u64 y, x;  // corner
};

// Planes are read in whole blocks of seven, so that windows can reuse the sums over the last planes of a block.
template <bool kDeep>
struct Planes {
  static constexpr u32 kPhases = kDeep ? kSlidingSide : 1;  // planes in a block
  static constexpr u32 kAhead = kPhases - 1;                // the windows' halo along z

  static H5L_DEVICE u64 first(const Sweep& sweep) { return sweep.from / kPhases * kPhases; }
  static H5L_DEVICE u64 end(const Sweep& sweep) { return ((sweep.to + kAhead - 1) / kPhases + 1) * kPhases; }
};

// Producer: sums seven rows at its column for every other plane, while the values of its next plane are loaded.
template <class T, bool kDeep>
class RowSumProducer {
 public:
  H5L_DEVICE RowSumProducer(const CellsPlan& plan, const Sweep& sweep, SlidingShared& shared)
      : plan_(plan), sweep_(sweep), shared_(shared) {
    const u32 number = warp() * Sliding::kProducerLanes + lane();
    has_column_ = lane() < Sliding::kProducerLanes;
    turn_ = has_column_ && number >= Sliding::kReadColumns ? 1 : 0;
    column_ = has_column_ ? number - turn_ * Sliding::kReadColumns : 0;
    const u64 corner[4] = {plan.first[kW], plan.first[kZ], plan.first[kY], inside(sweep.x + column_, kX)};
    original_ = address(plan.view.original, plan.view.original_strides, plan.view.origin, corner);
    decoded_ = address(plan.view.decoded, plan.view.decoded_strides, plan.view.origin, corner);
  }

  // `number` counts the planes produced before.
  H5L_DEVICE void run(u32 number) {
    const u64 first = Planes<kDeep>::first(sweep_);
    const u32 planes = static_cast<u32>(Planes<kDeep>::end(sweep_) - first);
    Values some, others;
    load(first + turn_, some);
    H5L_NO_UNROLL for (u32 i = turn_; i < planes + turn_; i += 4) {
      load(first + i + 2, others);
      produce(number, i, planes, some);
      load(first + i + 4, some);
      produce(number, i + 2, planes, others);
    }
  }

 private:
  // Clamps to the last point that a window reaches: values beyond are not used.
  H5L_DEVICE u64 inside(u64 at, u32 axis) const {
    const u64 last = plan_.end[axis] + kSlidingHalo - 1;
    return at < plan_.first[axis] ? plan_.first[axis] : at < last ? at : last;
  }

  using Values = T[Sliding::kReadRows][2];  // x and y

  // Loads a plane's rows. Lanes that waited for different planes reconverge first.
  H5L_DEVICE void load(u64 plane, Values& values) const {
    sync_warp();
    const u64 corner = kDeep ? sweep_.y : plane * kSlidingSide, first = inside(corner, kY);
    const u64 z = kDeep ? inside(plane, kZ) - plan_.first[kZ] : 0, y = first - plan_.first[kY];
    const auto place = [z, y](const u8* base, const i64(&strides)[4]) {
      return opaque(base + static_cast<i64>(z) * strides[kZ] + static_cast<i64>(y) * strides[kY]);
    };
    const u8* const original = place(original_, plan_.view.original_strides);
    const u8* const decoded = place(decoded_, plan_.view.decoded_strides);
    // Row offsets are recomputed for each plane, since keeping them would spill.
    const i32 skipped = opaque(static_cast<i32>(first - corner));
    const i32 last = opaque(static_cast<i32>(inside(first + Sliding::kReadRows, kY) - first));
    H5L_UNROLL for (u32 row = 0; row < Sliding::kReadRows; ++row) {
      i32 at = static_cast<i32>(row) - skipped;
      at = at < 0 ? 0 : at;
      at = at < last ? at : last;
      const u64 from = static_cast<u32>(at);
      values[row][0] =
          load_once(reinterpret_cast<const T*>(original + from * static_cast<u32>(plan_.view.original_strides[kY])));
      values[row][1] =
          load_once(reinterpret_cast<const T*>(decoded + from * static_cast<u32>(plan_.view.decoded_strides[kY])));
    }
  }

  // Produces plane i of the sweep, if there is one.
  H5L_DEVICE void produce(u32 number, u32 i, u32 planes, const Values& values) {
    const bool is_there = has_column_ && i < planes;
    const u32 place = (number + i) % Sliding::kRing, round = (number + i) / Sliding::kRing;
    add_lower_rows(values);
    if (is_there && round != 0) wait_barrier(shared_.empty + place, round - 1);
    add_upper_rows(values, shared_.columns[place], is_there);
    if (is_there) arrive(shared_.full + place);
  }

  // Adds the values of a row.
  H5L_DEVICE void take(const T (&row)[2], double (&sums)[kSlidingSums]) const {
    const double x = static_cast<double>(row[0]);
    add_quantities<T>(plan_, x, static_cast<double>(row[1]) - x, sums);
  }

  H5L_DEVICE void add_lower_rows(const Values& values) {
    H5L_UNROLL for (u32 row = kSlidingSide; row-- != 0;) {
      H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) {
        lower_[row][q] = row == kSlidingHalo ? -0.0 : lower_[row + 1][q];
      }
      take(values[row], lower_[row]);
    }
  }

  template <class Columns>
  H5L_DEVICE void add_upper_rows(const Values& values, Columns& to, bool is_there) {
    double sums[kSlidingSums] = {-0.0, -0.0, -0.0, -0.0};
    H5L_UNROLL for (u32 row = 0; row < kSlidingSide; ++row) {
      if (row != 0) take(values[row + kSlidingHalo], sums);
      H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) {
        const double sum = row == 0 ? lower_[0][q] : lower_[row][q] + sums[q];
        if (is_there) to[q][row][column_] = sum;
      }
    }
  }

  const CellsPlan& plan_;
  const Sweep& sweep_;
  SlidingShared& shared_;
  bool has_column_;
  u32 turn_, column_;
  const u8 *original_, *decoded_;  // at the thread's column, in the plan's first row
  double lower_[kSlidingSide][kSlidingSums];
};

// Consumer: sums columns and planes, and computes SSIM of two windows.
template <class T, bool kDeep>
class SsimConsumer {
 public:
  H5L_DEVICE SsimConsumer(const CellsPlan& plan, const Sweep& sweep, SlidingShared& shared)
      : plan_(plan),
        sweep_(sweep),
        shared_(shared),
        row_(warp() - Sliding::kProducers),
        step_(plan.field.step),
        planes_(static_cast<u32>(sweep.to - sweep.from)),
        ahead_(static_cast<u32>(sweep.from - Planes<kDeep>::first(sweep)) + kAhead),
        planes_left_(kDeep && step_ != 1 ? (step_ - static_cast<u32>(sweep.from % step_)) % step_ : 0) {
    H5L_UNROLL for (u32 k = 0; k < kPair; ++k) has_column_[k] = has_place(sweep.x + kPair * lane() + k, kX);
    if (kDeep) set_row(sweep.y);
  }

  // `number` and `turn` count earlier planes and blocks of planes. The next plane's barrier is polled before this plane
  // is computed, to hide its latency.
  H5L_DEVICE void run(u32 number, u32 turn) {
    const u32 read = static_cast<u32>(Planes<kDeep>::end(sweep_) - Planes<kDeep>::first(sweep_));
    bool is_full = false;
    H5L_NO_UNROLL for (u32 block = 0; block < read; block += kPhases) {
      auto& lost = shared_.lost[turn % Sliding::kLossBlocks];
      H5L_UNROLL for (u32 phase = 0; phase < kPhases; ++phase) {
        const u32 place = kDeep ? phase : number % Sliding::kRing;
        double windows[kSlidingSums][kPair];
        if (!is_full) wait_barrier(shared_.full + place, number / Sliding::kRing);
        add_columns(shared_.columns[place], phase, windows);
        arrive(shared_.empty + place);
        ++number;
        const u32 next = kDeep ? (phase + 1) % kPhases : number % Sliding::kRing;
        is_full = is_phase_complete(shared_.full + next, number / Sliding::kRing);
        const u32 plane = block + phase - ahead_;
        if (plane < planes_) compute_ssim(plane, windows, lost[phase]);
      }
      if (block != 0) add_losses(block - kPhases, turn - 1);
      arrive(&shared_.blocks_done);
      ++turn;
    }
    add_losses(read - kPhases, turn - 1);
  }

  // The thread's worst window (below 0: none), and its number in C order.
  double worst = -1;
  H5L_DEVICE u64 place_of_worst(const Extents& own) const {
    const u64 plane = sweep_.from + worst_at_ / kPair, z = kDeep ? plane - plan_.first[kZ] : 0;
    const u64 y = (kDeep ? sweep_.y : plane * kSlidingSide) + row_ - plan_.first[kY];
    return own.join(0, z, y, sweep_.x + kPair * lane() + worst_at_ % kPair - plan_.first[kX]);
  }

 private:
  static constexpr u32 kPhases = Planes<kDeep>::kPhases, kAhead = Planes<kDeep>::kAhead;

  // Both windows of each quantity: three shared pairs of columns, plus the column before or after.
  template <class Columns>
  H5L_DEVICE void add_columns(const Columns& columns, u32 phase, double (&windows)[kSlidingSums][kPair]) {
    H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) {
      const auto* const from = reinterpret_cast<const PairOfDoubles*>(columns[q][row_] + kPair * lane());
      const PairOfDoubles a = from[0], b = from[1], c = from[2], d = from[3];
      const double middle = ((a.second + b.first) + (b.second + c.first)) + (c.second + d.first);
      const double sums[kPair] = {a.first + middle, middle + d.second};
      H5L_UNROLL for (u32 k = 0; k < kPair; ++k) windows[q][k] = add_plane(phase, sums[k], lower_[q][k], upper_[q][k]);
    }
  }

  // Returns the window that ends at this plane: the part in the previous block plus the part in this one. Each partial
  // sum that is no longer needed is replaced by the plane itself; the last plane of the block turns these into sums.
  static H5L_DEVICE double add_plane(u32 phase, double plane, double (&lower)[kSlidingHalo], double& upper) {
    if (!kDeep) return plane;
    double window = plane;
    if (phase != kSlidingHalo) {
      upper = phase == 0 ? plane : upper + plane;
      window = lower[phase] + upper;
      lower[phase] = plane;
    } else {
      H5L_UNROLL for (u32 i = kSlidingHalo; i-- != 0;) {
        const double next = lower[i] + window;
        lower[i] = window;
        window = next;
      }
    }
    return window;
  }

  template <class Losses>
  H5L_DEVICE void compute_ssim(u32 plane, const double (&windows)[kSlidingSums][kPair], Losses& to) {
    if (!kDeep) set_row((sweep_.from + plane) * kSlidingSide);
    const bool counts = planes_left_ == 0;
    double found[kPair];
    H5L_UNROLL for (u32 k = 0; k < kPair; ++k) {
      const double sums[kSlidingSums] = {windows[0][k], windows[1][k], windows[2][k], windows[3][k]};
      found[k] = half_loss<T>(plan_, sums);
      if (counts && has_window_[k] && found[k] > worst) {
        worst = found[k];
        worst_at_ = plane * kPair + k;
      }
      found[k] = has_window_[k] ? found[k] : 0.0;
    }
    if (kDeep) planes_left_ = counts ? step_ - 1 : planes_left_ - 1;
    to[row_][lane()] = counts ? found[0] + found[1] : -1.0;  // a sum below 0 marks a plane without windows
  }

  H5L_DEVICE bool has_place(u64 at, u32 axis) const {
    return at >= plan_.first[axis] && at < plan_.end[axis] && (step_ == 1 || at % step_ == 0);
  }

  // Determines which of the thread's windows exist at row `y`, and how many the cell has.
  H5L_DEVICE void set_row(u64 y) {
    const bool has_row = has_place(y + row_, kY);
    u32 rows = 0, columns = 0;
    H5L_UNROLL for (u32 k = 0; k < kPair; ++k) {
      has_window_[k] = has_row && has_column_[k];
      columns += ones(ballot(has_column_[k]));
    }
    H5L_NO_UNROLL for (u32 row = 0; row < assess::kWindowRows; ++row) rows += has_place(y + row, kY) ? 1 : 0;
    windows_ = rows * columns;
  }

  // Stores the sums of the cells whose windows ended in a block of planes, one warp per cell.
  H5L_DEVICE void add_losses(u32 block, u32 turn) {
    wait_barrier(&shared_.blocks_done, turn);
    const u32 plane = block + row_ - ahead_;
    if (row_ >= kPhases || plane >= planes_) return;
    double sum = 0;
    H5L_UNROLL for (u32 row = 0; row < Sliding::kConsumers; ++row) {
      sum += shared_.lost[turn % Sliding::kLossBlocks][row_][row][lane()];
    }
    sum = sum_of_warp(sum);
    if (!kDeep) set_row((sweep_.from + plane) * kSlidingSide);
    const u64 cell = sweep_.cell + plane * u64{kDeep ? plan_.rows_of_cells : 1} * plan_.columns_of_cells;
    if (lane() == 0) {
      reinterpret_cast<WindowSums*>(plan_.results)[cell] = {sum < 0 ? 0.0 : static_cast<double>(windows_),
                                                            sum < 0 ? 0.0 : 2 * sum};
    }
  }

  const CellsPlan& plan_;
  const Sweep& sweep_;
  SlidingShared& shared_;
  const u32 row_, step_;
  const u32 planes_, ahead_;  // planes with windows, and halo planes before the first of them
  u32 planes_left_;           // until the first plane with windows
  u32 windows_;               // per cell
  bool has_column_[kPair], has_window_[kPair];
  u32 worst_at_ = 0;
  // Sums over the last one to six planes of a block, or those planes; and sums over the first planes of the next block.
  double lower_[kSlidingSums][kPair][kSlidingHalo] = {}, upper_[kSlidingSums][kPair] = {};
};

template <class T, bool kDeep>
H5L_DEVICE void ssim_7(const CellsPlan& plan) {
  SlidingShared& shared = *reinterpret_cast<SlidingShared*>(shared_memory());
  constexpr u32 kAlong = kDeep ? kZ : kY, kUnit = kDeep ? 1 : kSlidingSide;
  const u64 first = plan.first[kAlong] / kUnit, end = (plan.end[kAlong] - 1) / kUnit + 1;
  // Blocks of planes stay whole. All sweeps but the last have equal length: otherwise an idle producer could not tell
  // which ring slots were released.
  constexpr u32 kPhases = Planes<kDeep>::kPhases;
  const u64 base = first / kPhases * kPhases, sweeps = (end - 1 - base) / plan.sweep_planes + 1;
  const u64 across = plan.columns_of_cells, down = kDeep ? plan.rows_of_cells : 1;
  const Extents own = extents_of(plan, 0);
  if (thread() < Sliding::kRing) {
    init_barrier(shared.full + thread(), Sliding::kReadColumns);
    init_barrier(shared.empty + thread(), Sliding::kConsumers * kWarpThreads);
  }
  if (thread() == Sliding::kRing) init_barrier(&shared.blocks_done, Sliding::kConsumers * kWarpThreads);
  sync_block();
  u32 planes = 0;
  double worst = -1;
  u64 worst_at = ~u64{0};
  for (u64 i = block_number(); i < across * down * sweeps; i += grid_blocks()) {
    const u64 from = base + i / across / down * plan.sweep_planes;
    Sweep sweep = {};
    sweep.from = from < first ? first : from;
    sweep.to = from + plan.sweep_planes < end ? from + plan.sweep_planes : end;
    sweep.cell = i % (across * down) + (sweep.from - first) * across * down;
    sweep.y = (plan.first[kY] / kSlidingSide + i / across % down) * kSlidingSide;
    sweep.x = (plan.first[kX] / assess::kWindowColumns + i % across) * assess::kWindowColumns;
    const u32 before = planes;
    planes += static_cast<u32>(Planes<kDeep>::end(sweep) - Planes<kDeep>::first(sweep));
    if (warp() < Sliding::kProducers) {
      RowSumProducer<T, kDeep>(plan, sweep, shared).run(before);
      continue;
    }
    SsimConsumer<T, kDeep> consumer(plan, sweep, shared);
    consumer.run(before, before / Planes<kDeep>::kPhases);
    if (consumer.worst < worst || consumer.worst < 0) continue;
    const u64 at = consumer.place_of_worst(own);
    if (consumer.worst == worst && worst_at < at) continue;
    worst = consumer.worst;
    worst_at = at;
  }
  publish_worst<Sliding::kBlockWarps>(plan, own, shared.worst, worst < 0 ? worst : 2 * worst, worst_at);
}

}  // namespace h5lossy::H5L_TARGET
