// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The number of threads of a batch: the caller's, or H5LOSSY_NUM_THREADS, or the CPUs that affinity mask and cgroup allow.

#include <sched.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "check.h"
#include "runtime/threads.h"

namespace h5lossy::test {
namespace {

constexpr char kVariable[] = "H5LOSSY_NUM_THREADS";

std::uint32_t chosen(std::uint32_t requested) {
  std::uint32_t threads = 0;
  h5l_message message;
  const h5l_status status = choose_threads(requested, threads, Message(&message));
  CHECK(status == H5L_OK, "%s", message.text);
  return threads;
}

void the_variable_counts_unless_the_caller_says_more() {
  setenv(kVariable, "3", 1);
  CHECK(chosen(0) == 3, "%u", chosen(0));
  CHECK(chosen(5) == 5, "%u", chosen(5));
  setenv(kVariable, "99999999999999999999", 1);
  CHECK(chosen(0) == kMaxThreads, "%u", chosen(0));
  setenv(kVariable, "", 1);
  CHECK(chosen(0) >= 1, "%u", chosen(0));
}

void another_word_is_an_error() {
  for (const char* const text : {"0", "-1", "two", "2x", " 2", "1.5", "+2"}) {
    setenv(kVariable, text, 1);
    std::uint32_t threads = 7;
    h5l_message message;
    CHECK(h5l_default_threads(&threads, &message) == H5L_INVALID_ARGUMENT, "%s", text);
    CHECK(threads == 0 && std::strstr(message.text, kVariable) && std::strstr(message.text, text), "%s", message.text);
    CHECK(chosen(2) == 2, "%s", text);
  }
  unsetenv(kVariable);
  CHECK(h5l_default_threads(nullptr, nullptr) == H5L_INVALID_ARGUMENT, "%s", "null");
}

void the_affinity_mask_counts() {
  cpu_set_t before, one;
  CHECK(sched_getaffinity(0, sizeof before, &before) == 0, "%s", "no mask");
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "%s", "no way to set the mask");
  CHECK(chosen(0) == 1, "%u", chosen(0));
  sched_setaffinity(0, sizeof before, &before);
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// The CPUs found for a file of memberships, and files below a mount.
struct Tree {
  std::filesystem::path root;

  Tree() {
    std::string name = (std::filesystem::temp_directory_path() / "h5lossy-XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr, "%s", name.c_str());
    root = name;
  }
  ~Tree() { std::filesystem::remove_all(root); }
  std::uint32_t cpus(const std::string& membership) const {
    write(root / "membership", membership);
    return cgroup_cpus((root / "membership").c_str(), (root / "mount").c_str());
  }
};

void quotas_of_version_2_count() {
  const Tree tree;
  CHECK(tree.cpus("0::/a/b\n") == 0, "%s", "no files");
  write(tree.root / "mount/a/b/cpu.max", "max 100000\n");
  CHECK(tree.cpus("0::/a/b\n") == 0, "%s", "no limit");
  write(tree.root / "mount/a/b/cpu.max", "250000 100000\n");
  CHECK(tree.cpus("0::/a/b\n") == 3, "%s", "two and a half");
  write(tree.root / "mount/a/cpu.max", "150000 100000\n");
  CHECK(tree.cpus("0::/a/b\n") == 2, "%s", "the parent's is tighter");
  write(tree.root / "mount/cpu.max", "1000 100000\n");
  CHECK(tree.cpus("0::/elsewhere\n") == 1, "%s", "a container's root");
}

void quotas_of_version_1_count() {
  const Tree tree;
  write(tree.root / "mount/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  write(tree.root / "mount/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  CHECK(tree.cpus("4:memory:/job\n3:cpu,cpuacct:/job\n") == 0, "%s", "no limit");
  write(tree.root / "mount/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
  CHECK(tree.cpus("4:memory:/job\n3:cpu,cpuacct:/job\n") == 4, "%s", "four");
  CHECK(tree.cpus("4:memory:/job\n3:cpuset:/job\n") == 0, "%s", "not the cpu controller");
  write(tree.root / "mount/cpu/job/cpu.cfs_quota_us", "200000\n");
  write(tree.root / "mount/cpu/job/cpu.cfs_period_us", "100000\n");
  CHECK(tree.cpus("3:cpu,cpuacct:/job\n0::/\n") == 2, "%s", "by the controller's own name");
}

void broken_files_limit_nothing() {
  const Tree tree;
  for (const char* const text : {"", "\n", ":", "::", "0::", "cpu", "1:cpu", "1:,:", "1:cpu:"}) {
    CHECK(tree.cpus(text) == 0, "%s", text);
  }
  write(tree.root / "mount/cpu.max", "100000 0\n");
  CHECK(tree.cpus("0::/") == 0, "%s", "a period of 0");
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  the_variable_counts_unless_the_caller_says_more();
  another_word_is_an_error();
  the_affinity_mask_counts();
  quotas_of_version_2_count();
  quotas_of_version_1_count();
  broken_files_limit_nothing();
}
