// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Whether a backend gives the bits of the format on this machine, as it was compiled.
#pragma once

#include "frame/message.h"
#include "runtime/registry.h"

namespace h5lossy {

// Encodes and decodes values on which a fused multiply-add, flushed subnormals, or another rounding would change the
// result. Takes some tens of microseconds.
[[nodiscard]] h5l_status self_test(const Backend& backend, const Message& why);

}  // namespace h5lossy
