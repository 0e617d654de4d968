// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "assess/gpu/sequences.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "assess/gpu/plans.h"
#include "gpu/arena.h"

namespace h5lossy::gpu {
namespace {

using namespace assess;

constexpr std::size_t kAlignment = 256;

// The most leaves of one launch, so that 32-bit counters cannot overflow.
constexpr std::uint64_t kMostLeaves = std::uint64_t{1} << 19;

// The number of leaves sampled to place the fine bins.
constexpr std::uint64_t kSampledLeaves = 128;

// The most memory for the cells of one launch and the errors for their lags, and for the results between window
// kernels.
constexpr std::uint64_t kMostCellBytes = std::uint64_t{5} << 28;
constexpr std::uint64_t kMostWindowBytes = std::uint64_t{1} << 30;

std::uint32_t grid_for(Launcher& launcher, const char* kernel, std::uint64_t blocks) {
  const std::uint64_t most = std::uint64_t{8} * launcher.resident_blocks(kernel);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, std::max<std::uint64_t>(1, most)));
}

template <class Plan>
bool launch(Launcher& launcher, const char* kernel, std::uint64_t blocks, const Plan& plan) {
  return launcher.resident_blocks(kernel) != 0 &&
         launcher.launch(kernel, grid_for(launcher, kernel, blocks), 1, &plan, sizeof plan, false);
}

const char* typed(std::uint32_t value_bytes, const char* f32, const char* f64) { return value_bytes == 4 ? f32 : f64; }

// Divides the parts pushed into a tree: those before the first whole group, whole groups, and the rest.
struct Groups {
  std::uint64_t head, groups, tail;
  Groups(std::uint64_t pushed, std::uint64_t count, std::uint32_t group)
      : head(std::min<std::uint64_t>(count, (group - pushed % group) % group)),
        groups((count - head) / group),
        tail(count - head - groups * group) {}
};

// Consecutive parts on the device. The device adds them up to sums of groups, these to sums of larger groups, and so
// on, while there are whole groups. The host receives the remainder of each level.
template <class Part>
class Grouped {
 public:
  // `pushed` parts are already in the tree.
  Grouped(std::uint64_t pushed, std::uint64_t count) {
    for (bool is_last = false; !is_last;) {
      const Groups split(pushed, count, kGroup);
      levels_.push_back({split, std::vector<Part>(split.head + split.tail)});
      is_last = split.groups == 0;
      pushed = (pushed + split.head) / kGroup;
      count = split.groups;
    }
  }

  // The number of sums on all levels.
  [[nodiscard]] std::uint64_t sums() const {
    std::uint64_t count = 0;
    for (const Level& level : levels_) count += level.split.groups;
    return count;
  }

  bool fetch(AssessDevice& device, const char* kernel, std::uint64_t groups_per_block, const Part* from, Part* sums) {
    for (Level& level : levels_) {
      const auto [head, groups, tail] = level.split;
      const GroupPlan plan = {reinterpret_cast<const u8*>(from + head), reinterpret_cast<u8*>(sums), groups};
      const bool is_started =
          (groups == 0 ||
           launch(device.launcher(), kernel, (groups + groups_per_block - 1) / groups_per_block, plan)) &&
          device.download(level.rest.data(), from, head * sizeof(Part)) &&
          device.download(level.rest.data() + head, from + head + groups * kGroup, tail * sizeof(Part));
      if (!is_started) return false;
      from = sums;
      sums += groups;
    }
    return true;
  }

  // Calls add(part, level in the tree) in the order of the parts.
  template <class Add>
  void for_each(Add add) const {
    u32 own = 0;
    for (const Level& level : levels_) {
      for (std::uint64_t i = 0; i < level.split.head; ++i) add(level.rest[i], own * kGroupLevel);
      ++own;
    }
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
      --own;
      for (std::uint64_t i = level->split.head; i < level->rest.size(); ++i) add(level->rest[i], own * kGroupLevel);
    }
  }

 private:
  struct Level {
    Groups split;
    std::vector<Part> rest;
  };
  std::vector<Level> levels_;
};

i32 grid_of(double limit) {
  int exponent = 0;
  static_cast<void>(std::frexp(limit, &exponent));
  return std::clamp(exponent - 7, kFinestGrid, kWidestGrid);
}

// Device memory. The part that is cleared before each pass and the part that is copied back are adjacent.
struct PointsMemory {
  std::uint8_t *turn, *outcome;
  std::size_t turn_bytes, outcome_bytes;
};

PointsMemory take_memory(Arena& arena, const Groups& split, PointsPlan& plan) {
  PointsMemory memory = {};
  plan.largest = arena.take<u64>(1);
  const std::size_t before_turn = arena.bytes();
  plan.totals = arena.take<PointsTotals>(1);
  plan.table = arena.take<u32>(kBlockBins);
  memory.turn = reinterpret_cast<std::uint8_t*>(plan.totals);
  const std::size_t before_outcome = arena.bytes();
  plan.outcome = arena.take<PointsOutcome>(1);
  memory.outcome = reinterpret_cast<std::uint8_t*>(plan.outcome);
  memory.turn_bytes = arena.bytes() - before_turn;
  plan.cleared = arena.bytes() / sizeof(u64) - 1;
  // One piece for both, copied to the host without the padding after it, which is never written.
  const std::uint64_t single = split.head + split.tail;
  const std::size_t before_moments = arena.bytes();
  plan.rest = arena.take<Moments>(single + split.groups);
  if (plan.rest != nullptr) plan.sums = plan.rest + single;
  memory.outcome_bytes = before_moments - before_outcome + (single + split.groups) * sizeof(Moments);
  plan.moments = arena.take<Moments>(split.groups * kLeafGroup);
  plan.worst = arena.take<BlockWorst>(plan.blocks);
  plan.lists = arena.take<WarpList>(std::uint64_t{plan.blocks} * (kThreads / 32));
  plan.seeds = arena.take<Seeds>(plan.samples);
  return memory;
}

bool add_some_leaves(AssessDevice& device, const h5l_assess_params& params, const PointsInput& input,
                     std::uint64_t first, std::uint64_t leaves, State& state) {
  Launcher& launcher = device.launcher();
  const char* const kernel = typed(params.value_bytes, "assess_points_f32", "assess_points_f64");
  const std::uint64_t resident = launcher.resident_blocks(kernel);
  if (resident == 0) return false;
  const Groups split(state.moments.pushed(), leaves, kLeafGroup);
  PointsPlan plan = {};
  plan.params = params;
  plan.x = input.x;
  plan.y = input.y;
  plan.mask = input.mask;
  plan.first = first;
  plan.leaves = leaves;
  plan.blocks = static_cast<u32>(std::min<std::uint64_t>(resident, (leaves + kThreads / 32 - 1) / (kThreads / 32)));
  plan.is_limited = params.histogram_limit > 0 ? 1 : 0;
  if (plan.is_limited != 0) plan.grid_exponent = grid_of(params.histogram_limit);
  const bool is_aligned =
      ((reinterpret_cast<std::uintptr_t>(input.x) | reinterpret_cast<std::uintptr_t>(input.y)) & 15) == 0;
  const bool is_plain = params.original_big_endian == 0 && params.decoded_big_endian == 0 && input.mask == nullptr &&
                        params.has_fill == 0 && params.threshold_count == 0;
  plan.is_simple = is_aligned && is_plain ? 1 : 0;
  plan.samples = static_cast<u32>(std::min(leaves, kSampledLeaves));
  plan.head = split.head;
  plan.groups = split.groups;
  Arena counted(nullptr, kAlignment);
  take_memory(counted, split, plan);
  std::uint8_t* const workspace = device.reserve(counted.bytes());
  if (workspace == nullptr) return false;
  Arena arena(workspace, kAlignment);
  const PointsMemory memory = take_memory(arena, split, plan);
  const char* const sample = typed(params.value_bytes, "assess_sample_f32", "assess_sample_f64");
  const char* const finalize = typed(params.value_bytes, "assess_finalize_points_f32", "assess_finalize_points_f64");
  const auto finalizers = static_cast<std::uint32_t>(2 + kBinBlocks + split.groups);
  std::vector<u64> outcome_words(memory.outcome_bytes / sizeof(u64));
  const auto* const outcome = reinterpret_cast<const PointsOutcome*>(outcome_words.data());
  // A second pass if errors are much larger than in the sampled leaves.
  for (int turn = 0; turn < 2; ++turn) {
    const bool is_started = (turn == 0 ? launcher.launch(sample, plan.samples, 1, &plan, sizeof plan, false)
                                       : launcher.clear(memory.turn, memory.turn_bytes)) &&
                            launcher.launch(kernel, plan.blocks, 1, &plan, sizeof plan, false) &&
                            launcher.launch(finalize, finalizers, 1, &plan, sizeof plan, false) &&
                            device.download(outcome_words.data(), memory.outcome, memory.outcome_bytes) &&
                            device.wait();
    if (!is_started) return false;
    if (outcome->too_narrow != 0) continue;
    if (outcome->part.valid != 0) take_pivot(state, outcome->first.original, outcome->first.decoded);
    add_part(state, outcome->part);  // has no leaves
    const auto result_at = [&](const Moments* piece) {
      return reinterpret_cast<const Moments*>(reinterpret_cast<const std::uint8_t*>(outcome_words.data()) +
                                              (reinterpret_cast<const std::uint8_t*>(piece) - memory.outcome));
    };
    const Moments* const rest = result_at(plan.rest);
    const Moments* const sums = result_at(plan.sums);
    for (std::uint64_t i = 0; i < split.head; ++i) state.moments.push(rest[i]);
    for (std::uint64_t i = 0; i < split.groups; ++i) state.moments.push(sums[i], kLeafGroupLevel);
    for (std::uint64_t i = split.head; i < split.head + split.tail; ++i) state.moments.push(rest[i]);
    return true;
  }
  return false;
}

// The number of cells of this length in [first, end).
std::uint64_t cells_along(std::uint64_t first, std::uint64_t end, std::uint64_t length) {
  return (end - 1) / length - first / length + 1;
}

CellsPlan plan_for(const FieldInput& input) {
  CellsPlan plan = {};
  plan.view = input.view;
  plan.rules = input.rules;
  plan.field = input.field;
  plan.cell_rows = static_cast<u32>(input.cell_rows);
  plan.cell_columns = static_cast<u32>(input.cell_columns);
  for (int axis = 0; axis < 4; ++axis) {
    plan.first[axis] = input.first[axis];
    plan.end[axis] = input.end[axis];
  }
  plan.rows_of_cells = static_cast<u32>(cells_along(plan.first[2], plan.end[2], input.cell_rows));
  plan.columns_of_cells = static_cast<u32>(cells_along(plan.first[3], plan.end[3], input.cell_columns));
  plan.cells =
      (plan.end[0] - plan.first[0]) * (plan.end[1] - plan.first[1]) * plan.rows_of_cells * plan.columns_of_cells;
  return plan;
}

// Calls run(plan) for parts of the input that need at most `most` bytes, in the order of their cells.
template <class Bytes, class Run>
bool for_each_part(const FieldInput& input, std::uint64_t most, Bytes bytes, Run run) {
  const CellsPlan plan = plan_for(input);
  if (bytes(plan) <= most) return run(plan);
  const std::uint64_t units[4] = {1, 1, input.cell_rows, input.cell_columns};
  for (int axis = 0; axis < 4; ++axis) {
    const std::uint64_t cells = cells_along(input.first[axis], input.end[axis], units[axis]);
    if (cells == 1) continue;
    FieldInput lower = input;
    FieldInput upper = input;
    lower.end[axis] = upper.first[axis] = (input.first[axis] / units[axis] + cells / 2) * units[axis];
    return for_each_part(lower, most, bytes, run) && for_each_part(upper, most, bytes, run);
  }
  return run(plan);  // a single cell
}

// Whether the field has two or three axes, native byte order, and only valid points.
bool is_plain(const FieldInput& input) {
  const Rules& rules = input.rules;
  const bool swaps = rules.original_big_endian || rules.decoded_big_endian;
  return rules.all_valid && !swaps && (input.field.rank == 2 || input.field.rank == 3);
}

bool has_plain_lags(const FieldInput& input) {
  if (input.field.lags == 0 || input.field.lags > kMostPlainLags || !is_plain(input)) return false;
  // Kernels use 32-bit offsets for the rows of a cell, and for the planes that a warp reads.
  const auto is_near = [](std::int64_t stride) { return stride >= 0 && stride < (std::int64_t{1} << 27); };
  const View& view = input.view;
  return is_near(view.original_strides[1]) && is_near(view.original_strides[2]) && is_near(view.decoded_strides[1]) &&
         is_near(view.decoded_strides[2]);
}

const char* stencils_kernel(const FieldInput& input) {
  const FieldPlan& field = input.field;
  if (!field.stencils || !is_plain(input) || (input.value_bytes == 4 && !field.squares_fit)) {
    return typed(input.value_bytes, "assess_stencils_f32", "assess_stencils_f64");
  }
  return field.rank == 2 ? typed(input.value_bytes, "assess_plane_stencils_f32", "assess_plane_stencils_f64")
                         : typed(input.value_bytes, "assess_volume_stencils_f32", "assess_volume_stencils_f64");
}

// Sets reach_end, and returns the number of errors up to there.
std::uint64_t set_reach(CellsPlan& plan) {
  std::uint64_t count = 1;
  for (int axis = 0; axis < 4; ++axis) {
    const std::uint64_t reach = plan.field.present[axis] ? plan.field.lags : 0;
    plan.reach_end[axis] = std::min(plan.end[axis] + reach, plan.field.shape[axis]);
    count *= plan.reach_end[axis] - plan.first[axis];
  }
  return count;
}

bool is_empty(const FieldInput& input) {
  for (int axis = 0; axis < 4; ++axis) {
    if (input.first[axis] >= input.end[axis]) return true;
  }
  return false;
}

// Sizes of the arrays between the window kernels, in values: sums of columns, sums of planes, and results.
struct WindowSizes {
  std::uint64_t columns, planes, corners;
};

// The kernel that computes these windows in one sweep; null if there is none.
const char* sliding_kernel(const FieldInput& input) {
  constexpr std::uint32_t kSide = 7;
  const FieldPlan& field = input.field;
  if (!is_plain(input)) return nullptr;
  for (std::uint32_t axis = 4 - field.rank; axis < 4; ++axis) {
    if (field.window[axis] != kSide) return nullptr;
  }
  for (const std::int64_t stride : {input.view.original_strides[2], input.view.decoded_strides[2]}) {
    if (stride < 0 || stride >= std::int64_t{1} << 32) return nullptr;
  }
  return field.rank == 2 ? typed(input.value_bytes, "assess_ssim_7_planes_f32", "assess_ssim_7_planes_f64")
                         : typed(input.value_bytes, "assess_ssim_7_volumes_f32", "assess_ssim_7_volumes_f64");
}

// The planes, or rows of cells, in one sweep of a thread block, chosen for the least total time: along z, windows form
// blocks of planes, and each sweep reads one block more than it computes.
std::uint64_t sweep_length(const CellsPlan& plan, std::uint32_t thread_blocks) {
  const bool is_deep = plan.field.rank == 3;
  const std::uint64_t unit = is_deep ? plan.field.window[1] : plan.cell_rows;
  const int axis = is_deep ? 1 : 2;
  const std::uint64_t all = cells_along(plan.first[axis], plan.end[axis], unit);
  const std::uint64_t columns = plan.columns_of_cells * (is_deep ? plan.rows_of_cells : 1);
  std::uint64_t best = 0;
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint64_t sweeps = 1; sweeps <= std::min<std::uint64_t>(all, 64); ++sweeps) {
    const std::uint64_t length = (all - 1) / sweeps + 1;
    const std::uint64_t rounds = (columns * ((all - 1) / length + 1) - 1) / thread_blocks + 1;
    if (rounds * (length + 1) >= least) continue;
    least = rounds * (length + 1);
    best = length;
  }
  return is_deep ? best * unit : best;
}

WindowSizes sizes_of(const CellsPlan& plan, bool slides) {
  if (slides) return {};
  std::uint64_t own[4];
  std::uint64_t read[4];
  for (int axis = 0; axis < 4; ++axis) {
    own[axis] = plan.end[axis] - plan.first[axis];
    read[axis] = own[axis] + plan.field.window[axis] - 1;
  }
  constexpr std::uint64_t kQuantities = 5;
  return {kQuantities * read[0] * read[1] * own[2] * read[3], kQuantities * read[0] * read[1] * own[2] * own[3],
          own[0] * own[1] * own[2] * own[3]};
}

}  // namespace

bool add_leaves(AssessDevice& device, const h5l_assess_params& params, const PointsInput& input, std::uint64_t first,
                std::uint64_t leaves, State& state) {
  for (std::uint64_t done = 0; done < leaves; done += kMostLeaves) {
    const std::uint64_t offset = done * kLeafValues;
    const PointsInput part = {input.x + offset * params.value_bytes, input.y + offset * params.value_bytes,
                              input.mask == nullptr ? nullptr : input.mask + offset};
    if (!add_some_leaves(device, params, part, first + offset, std::min(kMostLeaves, leaves - done), state)) {
      return false;
    }
  }
  return true;
}

bool add_stencils(AssessDevice& device, const FieldInput& input, State& state) {
  if (is_empty(input)) return true;
  const bool has_plain = has_plain_lags(input);
  const bool has_others = input.field.lags != 0 && !has_plain;
  // The cells, including those in the halo's planes.
  const auto with_tails = [](CellsPlan plan) {
    const std::uint64_t planes = plan.end[1] - plan.first[1];
    plan.own_cells = plan.cells;
    plan.end[1] = plan.reach_end[1];
    plan.cells = plan.cells / planes * (plan.end[1] - plan.first[1]);
    return plan;
  };
  const auto take = [&](Arena& arena, CellsPlan& plan, StencilCell*& sums) {
    const std::uint64_t errors = set_reach(plan);
    if (has_others) plan.errors = arena.take<double>(errors);
    if (has_plain) plan.notes = arena.take<LagNotes>(with_tails(plan).cells);
    plan.results = reinterpret_cast<u8*>(arena.take<StencilCell>(plan.cells));
    plan.extrema = reinterpret_cast<u64*>(arena.take<StencilExtrema>(1));
    sums = arena.take<StencilCell>(plan.cells / (kGroup - 1));  // of groups, of groups of these, and so on
    return errors;
  };
  const auto bytes = [&](CellsPlan plan) {
    StencilCell* sums = nullptr;
    Arena counted(nullptr, kAlignment);
    take(counted, plan, sums);
    return counted.bytes();
  };
  std::uint64_t before = state.stencils.pushed();
  return for_each_part(input, kMostCellBytes, bytes, [&](CellsPlan plan) {
    std::uint8_t* const workspace = device.reserve(bytes(plan));
    if (workspace == nullptr) return false;
    StencilCell* sums = nullptr;
    Arena arena(workspace, kAlignment);
    const auto grouped = std::make_shared<Grouped<StencilCell>>(before, plan.cells);
    before += plan.cells;
    const std::uint64_t errors = take(arena, plan, sums);
    Launcher& launcher = device.launcher();
    const CellsPlan tails = with_tails(plan);
    const auto run = [&](const char* f32, const char* f64, std::uint64_t blocks, const CellsPlan& cells) {
      return launch(launcher, typed(input.value_bytes, f32, f64), blocks, cells);
    };
    const bool is_started =
        launcher.clear(plan.extrema, sizeof(StencilExtrema)) &&
        launch(launcher, stencils_kernel(input), (plan.cells + 3) / 4, plan) &&
        (!has_plain ||
         (run("assess_plane_lags_f32", "assess_plane_lags_f64", tails.cells, tails) &&
          (input.field.rank == 2 || run("assess_deep_lags_f32", "assess_deep_lags_f64", plan.cells, plan)) &&
          (plan.reach_end[2] < plan.field.shape[2] || run("assess_mean_lags_f32", "assess_mean_lags_f64",
                                                          plan.cells / plan.rows_of_cells * plan.field.lags, plan)))) &&
        (!has_others ||
         (run("assess_prepare_errors_f32", "assess_prepare_errors_f64", (errors + kThreads - 1) / kThreads, plan) &&
          launch(launcher, "assess_lags", plan.cells * input.field.lags / (kThreads / 32) + 1, plan))) &&
        grouped->fetch(device, "assess_group_stencils", 1, reinterpret_cast<StencilCell*>(plan.results), sums);
    if (!is_started) return false;
    device.then([grouped, &state] {
      grouped->for_each([&](const StencilCell& cell, u32 level) {
        state.stencils.push(cell.sums, level);
        add_extrema(state.extrema, cell.extrema);
      });
    });
    return true;
  });
}

bool add_windows(AssessDevice& device, const FieldInput& input, State& state) {
  if (is_empty(input)) return true;
  const char* sliding = sliding_kernel(input);
  if (sliding != nullptr && device.launcher().resident_blocks(sliding) == 0) sliding = nullptr;
  const auto bytes = [sliding](const CellsPlan& plan) {
    const WindowSizes sizes = sizes_of(plan, sliding != nullptr);
    return 8 * (sizes.columns + sizes.planes + sizes.corners) + sizeof(WindowSums) * plan.cells;
  };
  std::uint64_t before = state.windows.pushed();
  return for_each_part(input, kMostWindowBytes, bytes, [&](CellsPlan plan) {
    const auto grouped = std::make_shared<Grouped<WindowSums>>(before, plan.cells);
    before += plan.cells;
    const WindowSizes sizes = sizes_of(plan, sliding != nullptr);
    Launcher& launcher = device.launcher();
    const char* const last = sliding != nullptr ? sliding : "assess_sum_windows";
    // Thread blocks keep running until all sweeps are done, so sweeps are divided among the resident ones.
    const std::uint32_t blocks =
        sliding != nullptr ? launcher.resident_blocks(sliding) : grid_for(launcher, last, plan.cells);
    if (sliding != nullptr) plan.sweep_planes = sweep_length(plan, blocks);
    const auto take = [&](Arena& arena, WindowSums*& sums) {
      plan.column_sums = arena.take<double>(sizes.columns);
      plan.plane_sums = arena.take<double>(sizes.planes);
      plan.lost = arena.take<double>(sizes.corners);
      plan.results = reinterpret_cast<u8*>(arena.take<WindowSums>(plan.cells));
      plan.worst = arena.take<WorstWindow>(blocks);
      sums = arena.take<WindowSums>(grouped->sums());
    };
    WindowSums* sums = nullptr;
    Arena counted(nullptr, kAlignment);
    take(counted, sums);
    std::uint8_t* const workspace = device.reserve(counted.bytes());
    if (workspace == nullptr) return false;
    Arena arena(workspace, kAlignment);
    take(arena, sums);
    const auto blocks_for = [](std::uint64_t values) { return (values + kThreads - 1) / kThreads; };
    const auto worst = std::make_shared<std::vector<WorstWindow>>(blocks);
    const bool is_computed =
        sliding != nullptr ||
        (launch(launcher, typed(input.value_bytes, "assess_sum_columns_f32", "assess_sum_columns_f64"),
                blocks_for(sizes.columns / 5), plan) &&
         launch(launcher, "assess_sum_planes", blocks_for(sizes.planes / 5), plan) &&
         launch(launcher, typed(input.value_bytes, "assess_compute_ssim_f32", "assess_compute_ssim_f64"),
                blocks_for(sizes.corners), plan));
    const bool is_started = is_computed && launch(launcher, last, blocks, plan) &&
                            grouped->fetch(device, "assess_group_windows", kThreads / 2,
                                           reinterpret_cast<WindowSums*>(plan.results), sums) &&
                            device.download(worst->data(), plan.worst, blocks * sizeof(WorstWindow));
    if (!is_started) return false;
    device.then([grouped, worst, &state] {
      grouped->for_each([&](const WindowSums& cell, u32 level) { state.windows.push(cell, level); });
      for (const WorstWindow& of_block : *worst) add_worst_window(state, of_block.lost, of_block.at);
    });
    return true;
  });
}

}  // namespace h5lossy::gpu
