// Which cores this process may use, grouped by NUMA node.
#pragma once

#include <vector>

namespace headrace {

struct Topology {
  std::vector<std::vector<int>> nodes;  // cores of each node, at least one node with one core

  static Topology of_this_machine();
};

// pin the calling thread to these cores; failure is ignored, pinning is only a hint
void pin_this_thread(const std::vector<int>& cores);

}  // namespace headrace
