// The cores that this process may use, grouped by NUMA node.
#pragma once

#include <vector>

namespace headrace {

struct Topology {
  std::vector<std::vector<int>> nodes;  // cores of each node, at least one node with one core

  static Topology of_this_machine();
};

// Pins the calling thread to these cores. It ignores failure, as pinning is only a hint.
void pin_this_thread(const std::vector<int>& cores);

}  // namespace headrace
