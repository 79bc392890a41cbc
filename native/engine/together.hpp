// Threads for a measurement: they begin at one moment.
#pragma once

#include <functional>
#include <stdexcept>

namespace headrace {

// A number of threads that no pool takes either; see MOST_THREADS in pool/spec.py.
struct BadThreads : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Throws BadThreads; call it before memory is taken for each thread.
void check_together(int threads);

// Runs run(0), run(1), … on a thread each, and returns the seconds from their common beginning to the end of the last.
// Throws BadThreads; or TooFewThreads, with nothing run, if the system starts fewer. `run` must not throw.
double run_together(int threads, const std::function<void(int)>& run);

}  // namespace headrace
