// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// h5l_assess_points and h5l_assess_field for a given device.
#pragma once

#include "assess/gpu/sequences.h"
#include "frame/message.h"
#include "h5lossy_assess.h"

namespace h5lossy::assess {

// `device` holds the values; null if they are in host memory.
h5l_status take_points(const h5l_assess_params* params, void* state, std::uint64_t first, std::uint64_t count,
                       const void* original, const void* decoded, const std::uint8_t* mask, gpu::AssessDevice* device,
                       const Message& why);
h5l_status take_field(const h5l_assess_params* params, void* state, const h5l_assess_piece* piece,
                      gpu::AssessDevice* device, const Message& why);

}  // namespace h5lossy::assess
