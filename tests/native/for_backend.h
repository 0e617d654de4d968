// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// For tests that are compiled once for each backend. Their main program is for_backend.cpp.
#pragma once

namespace h5lossy::test {

// What the test checks. Only called where the backend runs.
void check_backend();

}  // namespace h5lossy::test
