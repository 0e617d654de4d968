// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The sequences of kernels that encode and decode a batch of chunks, and their memory. Independent of CUDA: a Launcher
// starts the kernels. All pointers are device pointers. Nothing is allocated and nothing waits, so a sequence can be
// captured into a CUDA graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/frame.h"
#include "gpu/plans.h"

namespace h5lossy::gpu {

using Names = std::vector<std::string>;  // of kernels

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Launches a kernel of kernels.def with its plan. With `together`, all thread blocks run at the same time (a
  // cooperative launch).
  virtual bool launch(const char* kernel, std::uint32_t blocks, std::uint32_t rows, const void* plan,
                      std::size_t plan_bytes, bool together) = 0;
  // `bytes` is a multiple of 4.
  virtual bool clear(void* memory, std::size_t bytes) = 0;
  // The number of thread blocks of a kernel that run at the same time; 0 if there is no such kernel.
  virtual std::uint32_t resident_blocks(const char* kernel) = 0;
};

// A codec in one of its modes, for chunks of one shape.
struct CodecVariant {
  const char* codec = "";
  std::uint32_t number = 0;
  std::uint32_t mode = 0;
  std::uint32_t header_bytes = 0, header_dims = 0;
  std::uint32_t tile_values = 0;
  TileLayout layout = {};
  Shape shape = {};
  std::uint32_t most_tiles = 0;  // for encoding: the most tiles of any mode that may be chosen on the GPU
};

// One codec that auto may pick: its variants for the chunks, and for the pieces of each part of the sample.
struct Candidate {
  CodecVariant of_chunk;
  CodecVariant of_parts[kSampleParts];
};

struct EncodeCall {
  FinishPlan plan = {};                  // without the fields that depend on the variant and the workspace
  CodecVariant variant;                  // for lossy chunks
  std::vector<Candidate> candidates;     // codec auto picks one of these instead of `variant`; empty for other codecs
  SamplePart sample[kSampleParts] = {};  // the sample for the candidates; without addresses
  std::uint32_t sample_parts = 0;
  CodecVariant lossless;    // for lossless chunks
  bool from_range = false;  // the quantizers are computed from the chunks' ranges
  bool has_integers = false;
  StepRule step_rule = {};
  bool skip_zeros = false;
  bool range_has_fill = false;
  std::uint64_t range_fill_bits = 0;
};

// The size of a call's workspace, which must be aligned to 16 bytes.
std::size_t encode_workspace_bytes(const EncodeCall& call);
// The kernels that a call may launch, each once.
Names kernels_of(const EncodeCall& call);
[[nodiscard]] bool encode(Launcher& launcher, const EncodeCall& call, std::uint8_t* workspace);

struct DecodeCall {
  CodecVariant variant;   // of lossy frames
  CodecVariant lossless;  // of lossless frames; other frames are left to the host
  std::uint32_t kind = 0;
  std::uint32_t value_class = 0;
  std::uint32_t value_bytes = 4;
  bool big_endian = false;
  std::uint64_t first = 0, wanted = 0;  // the values to decode, the same in each frame
  // For lossy frames by the layout bits of their modes, and for lossless frames.
  std::uint32_t other_bits = 0, layout_bits = 0;
  FrameTiles layouts[kMostLayouts] = {};
  FrameTiles lossless_tiles = {};
  std::uint32_t frames = 0;
  const std::uint8_t* frame = nullptr;
  std::uint64_t frame_stride = 0;
  const u64* frame_bytes = nullptr;
  std::uint8_t* raw = nullptr;
  std::uint64_t raw_stride = 0;
  std::uint32_t* statuses = nullptr;  // of each frame: DecodeStatus

  // Also true for halves, whose words are integers.
  [[nodiscard]] bool has_integers() const { return !has_floats(value_class); }
  // The tiles of a lossy frame that may hold wanted values, at most.
  [[nodiscard]] std::uint32_t most_tiles() const {
    std::uint32_t most = 0;
    for (const FrameTiles& tiles : layouts) most = std::max(most, tiles.wanted);
    return most;
  }
};

std::size_t decode_workspace_bytes(const DecodeCall& call);
Names kernels_of(DecodeCall call);
// If no values are wanted, the frames are only checked, which sets their statuses.
[[nodiscard]] bool decode(Launcher& launcher, const DecodeCall& call, std::uint8_t* workspace);

// Swaps the byte order of values in place.
[[nodiscard]] bool swap(Launcher& launcher, std::uint8_t* values, std::uint64_t count, std::uint32_t value_bytes);

[[nodiscard]] bool pack(Launcher& launcher, const PackPlan& plan, std::uint32_t frames, std::uint64_t raw_bytes);

[[nodiscard]] bool gather(Launcher& launcher, const ChunkPlan& plan);
[[nodiscard]] bool scatter(Launcher& launcher, const ChunkPlan& plan);

}  // namespace h5lossy::gpu
