// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Whether the GPU or the CPU works on a chunk in the host's memory. H5LOSSY_DEVICE is "auto" (the default), "cpu", "gpu", or
// "gpu:N". With "auto" the CPU begins. The GPU takes chunks of 128 KiB and more where the process has a CUDA context anyway,
// and after 256 MiB of chunks where it is at least twice as fast by device_speeds.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/device.h"
#include "runtime/chunk_counts.h"

namespace h5lossy {

// The GPU that is to work on a chunk; null: the CPU is.
gpu::Device* select_device(Direction direction, std::uint32_t codec, std::size_t raw_bytes);

// Says on standard error why the GPU could not; without an error it was the frame, which the CPU has to look at.
void report_failure(gpu::Device& device);

// What H5LOSSY_DEVICE asks for, and what that comes to here: lines for people. Opens the GPU.
std::string describe_device_selection();

}  // namespace h5lossy
