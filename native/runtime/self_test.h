// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Checks that a backend, as compiled, gives the format's exact bits on this machine.
#pragma once

#include "frame/message.h"
#include "runtime/registry.h"

namespace h5lossy {

// Encodes and decodes values whose results a fused multiply-add, flushed subnormals or another rounding mode would
// change. Takes tens of microseconds.
[[nodiscard]] h5l_status self_test(const Backend& backend, const Message& why);

}  // namespace h5lossy
