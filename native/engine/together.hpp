// Threads for a measurement: as many as asked for, which begin at one moment.
#pragma once

#include <functional>
#include <stdexcept>

namespace headrace {

// a number of threads that no pool takes either; see MOST_THREADS in pool/spec.py
struct BadThreads : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// throws BadThreads; to be asked before memory is taken for each
void check_together(int threads);

// Runs run(0), run(1), … on a thread each; the seconds from their common beginning to the last one's end. Throws
// BadThreads, or TooFewThreads, with nothing run, where the system starts fewer. run must not throw.
double run_together(int threads, const std::function<void(int)>& run);

}  // namespace headrace
