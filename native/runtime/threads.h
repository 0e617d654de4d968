// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// How many threads this process may use.
#pragma once

#include <cstdint>

#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// More do not help anybody; what asks for more gets these.
inline constexpr std::uint32_t kMaxThreads = 1024;

// `asked`, where it is not 0; else H5LOSSY_NUM_THREADS; else a thread for each CPU that the affinity mask and the
// cgroup's quota leave to the process. The environment is read anew each time.
[[nodiscard]] h5l_status choose_threads(std::uint32_t asked, std::uint32_t& threads, const Message& why);

// How many threads a filter call gets for the tiles of its chunk: H5LOSSY_NUM_THREADS; 1 where that is not set (a process
// that has not asked for threads may be one of many on the machine, as under MPI), or not a number from 1 up (HDF5 would
// lose the chunk). Read once: programs may change their environment while HDF5 works.
std::uint32_t filter_threads() noexcept;

// How many CPUs' worth of time the cgroups of a process grant, rounded up; 0 where they set no limit. `membership` is
// the file /proc/self/cgroup, `mount` the folder /sys/fs/cgroup.
std::uint32_t cgroup_cpus(const char* membership, const char* mount);

}  // namespace h5lossy
