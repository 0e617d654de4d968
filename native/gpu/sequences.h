// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Which kernels a batch of chunks takes, in which order, with what memory. Knows no CUDA: a Launcher starts them. All
// pointers are the device's; nothing is allocated and nobody waits, so a sequence can be captured into a CUDA graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/plans.h"

namespace h5lossy::gpu {

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Starts a kernel of kernels.def with its plan. With `together`, all thread blocks must run at the same time.
  virtual bool launch(const char* kernel, std::uint32_t blocks, std::uint32_t rows, const void* plan,
                      std::size_t plan_bytes, bool together) = 0;
  virtual bool clear(void* memory, std::size_t bytes) = 0;
  // How many thread blocks of a kernel run at the same time; 0 where there is no such kernel.
  virtual std::uint32_t resident_blocks(const char* kernel) = 0;
};

// A codec in one of its modes, for chunks of one shape.
struct Method {
  const char* codec = "";
  std::uint32_t number = 0;
  std::uint32_t mode = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t tile_values = 0;
  TileLayout layout = {};
  Shape shape = {};
};

// One codec that auto may pick: its methods for the chunks, and for the pieces of each part of the sample.
struct Candidate {
  Method of_chunk;
  Method of_parts[kSampleParts];
};

struct EncodeCall {
  FinishPlan plan = {};                  // without what follows from the method and the workspace
  Method method;                         // for chunks that have bins
  std::vector<Candidate> candidates;     // codec auto picks one in place of `method`; else there are none
  SamplePart sample[kSampleParts] = {};  // what it tries them on; without addresses
  std::uint32_t sample_parts = 0;
  Method lossless;          // for those that have none
  bool from_range = false;  // the quantizers come from the chunks' own ranges
  bool skip_zeros = false;
  bool range_has_fill = false;
  std::uint64_t range_fill_bits = 0;
};

// Bytes of memory that a call needs, aligned to 16 bytes.
std::size_t encode_workspace_bytes(const EncodeCall& call);
[[nodiscard]] bool encode(Launcher& launcher, const EncodeCall& call, std::uint8_t* workspace);

struct DecodeCall {
  Method method;    // of the frames
  Method lossless;  // of those that are lossless; others are for the host
  std::uint32_t kind = 0;
  std::uint32_t value_bytes = 4;
  bool big_endian = false;
  std::uint64_t first = 0, wanted = 0;      // values of each frame
  std::uint32_t first_tile = 0, tiles = 0;  // that hold them
  std::uint32_t frames = 0;
  const std::uint8_t* frame = nullptr;
  std::uint64_t frame_stride = 0;
  const u64* frame_bytes = nullptr;
  std::uint8_t* raw = nullptr;
  std::uint64_t raw_stride = 0;
  std::uint32_t* statuses = nullptr;  // of each frame: DecodeStatus
};

std::size_t decode_workspace_bytes(const DecodeCall& call);
// Without values, too: then the frames are only opened, which sets their statuses.
[[nodiscard]] bool decode(Launcher& launcher, const DecodeCall& call, std::uint8_t* workspace);

// Turns values of the other byte order, in their place.
[[nodiscard]] bool swap(Launcher& launcher, std::uint8_t* values, std::uint64_t count, std::uint32_t value_bytes);

[[nodiscard]] bool pack(Launcher& launcher, const PackPlan& plan, std::uint32_t frames, std::uint64_t raw_bytes);

[[nodiscard]] bool gather(Launcher& launcher, const ChunkPlan& plan);
[[nodiscard]] bool scatter(Launcher& launcher, const ChunkPlan& plan);

}  // namespace h5lossy::gpu
