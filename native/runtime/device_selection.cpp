// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "runtime/device_selection.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "codecs/codec.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kVariable[] = "H5LOSSY_DEVICE";
constexpr char kCountsVariable[] = "H5LOSSY_COUNTS";

// Opening a GPU takes some tenths of a second: as long as a CPU needs for about so many bytes.
constexpr std::uint64_t kBytesBeforeGpu = std::uint64_t{256} << 20;

// Below this, a copy there and back takes longer than the work.
constexpr std::size_t kLeastChunk = std::size_t{128} << 10;

// How often each one is tried. The GPU's first turn does not count: it opens the device.
constexpr std::uint32_t kTrials = 4;

enum class Wish { automatic, cpu, gpu };

struct Setting {
  Wish wish = Wish::automatic;
  int ordinal = 0;
  std::string complaint;  // about the variable's value
  Setting() {
    const char* const value = std::getenv(kVariable);
    if (value == nullptr || *value == '\0' || std::strcmp(value, "auto") == 0) return;
    if (std::strcmp(value, "cpu") == 0) {
      wish = Wish::cpu;
    } else if (std::strcmp(value, "gpu") == 0) {
      wish = Wish::gpu;
    } else {
      char behind = 0;
      if (std::sscanf(value, "gpu:%d%c", &ordinal, &behind) == 1 && ordinal >= 0) {
        wish = Wish::gpu;
      } else {
        ordinal = 0;
        complaint = std::string(kVariable) + " is \"" + std::string(value).substr(0, 40) +
                    "\"; it may be auto, cpu, gpu or gpu:N, and is taken for auto";
      }
    }
  }
};

const Setting& setting() {
  static const Setting all;
  return all;
}

// How fast the two are at chunks of one kind.
struct Slot {
  std::uint32_t trials[2] = {};             // CPU, GPU
  std::uint64_t least[2] = {~0ull, ~0ull};  // nanoseconds for a MiB
};

constexpr std::size_t kSizes = 33, kCodecs = 8;
std::size_t slot_of(Direction direction, std::uint32_t codec, std::uint32_t value_bytes, std::size_t raw_bytes) {
  const auto size = static_cast<std::size_t>(std::bit_width(raw_bytes));
  return ((codec % kCodecs * 2 + (value_bytes == 8 ? 1 : 0)) * 2 + static_cast<std::size_t>(direction)) * kSizes +
         (size < kSizes ? size : kSizes - 1);
}

struct Shared {
  std::atomic<std::uint64_t> counts[2][2] = {};  // CPU and GPU, by Direction
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<bool> has_warned{false};
  std::mutex mutex;  // of the slots
  Slot slots[kCodecs * 4 * kSizes];
};

// Never destroyed: filters are called as late as at exit.
union Undying {
  Shared all = {};
  ~Undying() {}
};
constinit Undying undying;
Shared& shared() { return undying.all; }

// A fork of a process that was here has no GPU, and must not wait for a mutex that a thread held which it does not have.
bool is_fork() {
  static const pid_t process = getpid();
  return getpid() != process;
}

// With H5LOSSY_COUNTS=1, one line on standard error says at the end who did the work: h5repack and its like have no other
// way to tell. The end is that of the process, or that of the library, if HDF5 unloads its plugins before.
class LastWord {
 public:
  LastWord() {
    const char* const value = std::getenv(kCountsVariable);
    is_wanted_ = value != nullptr && std::strcmp(value, "1") == 0;
  }
  ~LastWord() {
    if (!is_wanted_) return;
    const Counts all = counts();
    std::fprintf(stderr, "h5lossy: chunks encoded: GPU %llu, CPU %llu; decoded: GPU %llu, CPU %llu\n",
                 static_cast<unsigned long long>(all.gpu[0]), static_cast<unsigned long long>(all.cpu[0]),
                 static_cast<unsigned long long>(all.gpu[1]), static_cast<unsigned long long>(all.cpu[1]));
  }
  LastWord(const LastWord&) = delete;
  LastWord& operator=(const LastWord&) = delete;

 private:
  bool is_wanted_ = false;
};

// One warning in a process. A plugin has no other way to be heard.
void warn(const std::string& what) {
  if (shared().has_warned.exchange(true)) return;
  std::fprintf(stderr, "h5lossy: %s\n", what.c_str());
}

constexpr char kInstead[] = "; the CPU does the work, with the same bytes";

// The GPU, if it is its turn. In a process that it has never been opened in, `auto` does not open it for little.
gpu::Device* pick(std::size_t slot, std::size_t raw_bytes) {
  const Setting& set = setting();
  if (set.wish == Wish::cpu) return nullptr;
  Shared& all = shared();
  if (set.wish == Wish::automatic) {
    if (!set.complaint.empty()) warn(set.complaint);
    const std::uint64_t before = all.bytes.fetch_add(raw_bytes, std::memory_order_relaxed);
    if (raw_bytes < kLeastChunk || before < kBytesBeforeGpu || is_fork()) return nullptr;
    const std::lock_guard<std::mutex> lock(all.mutex);
    const Slot& times = all.slots[slot];
    const bool is_tried = times.trials[0] >= kTrials && times.trials[1] >= kTrials;
    if (is_tried ? times.least[0] < times.least[1] : times.trials[1] >= kTrials) return nullptr;
  }
  std::string why;
  gpu::Device* const device = gpu::Device::open(set.ordinal, why);
  if (device == nullptr && set.wish == Wish::gpu) {
    warn(std::string(kVariable) + " asks for the GPU, but " + why + kInstead);
  }
  return device;
}

}  // namespace

Turn::Turn(Direction direction, std::uint32_t codec, std::uint32_t value_bytes, std::size_t raw_bytes)
    : direction_(direction), raw_bytes_(raw_bytes), slot_(slot_of(direction, codec, value_bytes, raw_bytes)) {
  static const LastWord last_word;
  device_ = pick(slot_, raw_bytes);
  is_timed_ = setting().wish == Wish::automatic && raw_bytes >= kLeastChunk && !is_fork();
  if (is_timed_) begin_ = Clock::now();
}

void Turn::give_up() {
  // Without an error it was the frame, which the CPU has to look at.
  if (const std::string error = device_->take_error(); !error.empty()) {
    warn("the GPU failed (" + error + ")" + kInstead);
  }
  device_ = nullptr;
  if (!is_timed_) return;
  {
    Shared& all = shared();
    const std::lock_guard<std::mutex> lock(all.mutex);
    ++all.slots[slot_].trials[1];  // one that never works is not tried for ever
  }
  begin_ = Clock::now();
}

void Turn::finish() {
  Shared& all = shared();
  const std::size_t who = device_ == nullptr ? 0 : 1;
  all.counts[who][static_cast<std::size_t>(direction_)].fetch_add(1, std::memory_order_relaxed);
  if (!is_timed_) return;
  const auto taken = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
  const std::uint64_t time = (static_cast<std::uint64_t>(taken) << 20) / raw_bytes_;
  const std::lock_guard<std::mutex> lock(all.mutex);
  Slot& times = all.slots[slot_];
  if (++times.trials[who] > 1 && time < times.least[who]) times.least[who] = time;
}

Counts counts() {
  Shared& all = shared();
  Counts found = {};
  for (std::size_t i = 0; i < 2; ++i) {
    found.cpu[i] = all.counts[0][i].load(std::memory_order_relaxed);
    found.gpu[i] = all.counts[1][i].load(std::memory_order_relaxed);
  }
  return found;
}

std::string describe_device_selection() {
  const Setting& set = setting();
  std::string text;
  if (!set.complaint.empty()) text += set.complaint + "\n";
  std::string why;
  const auto is_usable = [&] { return gpu::Device::open(set.ordinal, why) != nullptr; };
  if (set.wish == Wish::cpu) {
    text += "chunks go to the CPU (H5LOSSY_DEVICE)\n";
  } else if (!is_usable()) {
    text += "chunks go to the CPU: " + why + "\n";
  } else if (set.wish == Wish::gpu) {
    text += "chunks go to GPU " + std::to_string(set.ordinal) + " (H5LOSSY_DEVICE)\n";
  } else {
    text += "chunks of 128 KiB and more go to the faster one, once a process has had 256 MiB of them\n";
  }
  if (is_fork()) return text;
  Shared& all = shared();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (std::uint32_t codec = 0; codec < kCodecs; ++codec) {
    for (std::uint32_t rest = 0; rest < 4 * kSizes; ++rest) {
      const Slot& times = all.slots[codec * 4 * kSizes + rest];
      if (times.trials[0] < kTrials || times.trials[1] < kTrials) continue;
      char on_gpu[32] = "failed", line[160];
      if (times.least[1] != ~0ull) {
        std::snprintf(on_gpu, sizeof on_gpu, "%.3f", static_cast<double>(times.least[1]) / 1e6);
      }
      std::snprintf(line, sizeof line,
                    "%s %s, float%d, chunks below 2^%u bytes: CPU %.3f ms a MiB, GPU %s, so the %s\n",
                    codec == 0 ? "auto" : codec_name(codec), rest / kSizes % 2 == 0 ? "encode" : "decode",
                    rest / (2 * kSizes) == 0 ? 32 : 64, static_cast<unsigned>(rest % kSizes),
                    static_cast<double>(times.least[0]) / 1e6, on_gpu, times.least[0] < times.least[1] ? "CPU" : "GPU");
      text += line;
    }
  }
  return text;
}

}  // namespace h5lossy
