// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Selects the GPU or the CPU for a chunk in host memory. H5LOSSY_DEVICE is "auto" (the default), "cpu", "gpu", or
// "gpu:N". "auto" starts on the CPU. Chunks of 128 KiB and more go to the GPU if the process already has a CUDA
// context, or, after 256 MiB of chunks, if the GPU is at least twice as fast by device_speeds.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/device.h"
#include "runtime/chunk_counts.h"

namespace h5lossy {

// Selects the GPU for a chunk of this size; null for the CPU. The mode is that of a request or a frame.
gpu::Device* select_device(Direction direction, std::uint32_t codec, std::uint32_t mode, std::uint32_t value_class,
                           std::uint32_t bound_kind, std::size_t raw_bytes);

// Prints the GPU's error to stderr.
void report_failure(gpu::Device& device);

// Describes the value of H5LOSSY_DEVICE and its effect on this machine, for `h5lossy doctor`. Opens the GPU.
std::string describe_device_selection();

}  // namespace h5lossy
