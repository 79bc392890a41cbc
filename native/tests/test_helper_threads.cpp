// Each part of a launch is run once, by a helper or by the caller, and its writes are seen when the launch returns; run
// this under the thread sanitizer.
#include "headrace/pool/executors/kernels/helper_threads.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "check.hpp"

using headrace::kernels::Mailbox;
using headrace::kernels::Part;

namespace {

using Word = unsigned long long;

Word address(const void* of) { return reinterpret_cast<std::uintptr_t>(of); }
const Word kYield = reinterpret_cast<std::uintptr_t>(&sched_yield);

struct Job {
  int runs = 0;  // no atomic: the handover alone keeps threads apart
  Word argument = 0;
  static void run(Word self, Word argument) {
    auto& job = *reinterpret_cast<Job*>(self);
    ++job.runs;
    job.argument = argument;
  }
};

class Helpers {
 public:
  explicit Helpers(int count, int looks) : boxes_(std::make_unique<Mailbox[]>(static_cast<std::size_t>(count))) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this, i, looks] {
        while (!ending_) headrace::kernels::serve(address(&boxes_[static_cast<std::size_t>(i)]), looks, kYield);
      });
  }
  ~Helpers() {
    ending_ = true;
    for (auto& thread : threads_) thread.join();
  }
  // returns how many helpers were asleep
  int lead(const std::vector<Part>& parts) {
    Word sleepers = 99;
    headrace::kernels::lead(address(boxes_.get()), address(&sleepers), address(parts.data()),
                            static_cast<int>(parts.size()), kYield);
    return static_cast<int>(sleepers);
  }

 private:
  std::unique_ptr<Mailbox[]> boxes_;
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

std::vector<Part> parts_of(std::vector<Job>& jobs, Word argument) {
  std::vector<Part> parts;
  for (auto& job : jobs) parts.push_back({Job::run, {address(&job), argument++}});
  return parts;
}

void every_part_runs_once(int helpers, int looks) {
  Helpers threads(helpers, looks);
  std::vector<Job> jobs(static_cast<std::size_t>(helpers) + 1);
  for (int round = 1; round <= 2000; ++round) {
    // fewer parts than helpers in every other launch
    const int count = round % 2 ? helpers + 1 : 1 + round / 2 % helpers;
    auto parts = parts_of(jobs, static_cast<Word>(10 * round));
    parts.resize(static_cast<std::size_t>(count));
    std::vector<int> before;
    for (auto& job : jobs) before.push_back(job.runs);
    const int asleep = threads.lead(parts);
    CHECK(asleep >= 0 && asleep < count);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const bool run = i < parts.size();
      CHECK(jobs[i].runs == before[i] + run);
      if (run) CHECK(jobs[i].argument == 10 * static_cast<Word>(round) + i);
    }
  }
}

void the_caller_runs_what_no_helper_takes() {
  std::array<Mailbox, 3> boxes{};  // nobody looks at them
  std::vector<Job> jobs(4);
  const auto parts = parts_of(jobs, 7);
  Word sleepers = 0;
  headrace::kernels::lead(address(boxes.data()), address(&sleepers), address(parts.data()), 4, kYield);
  CHECK(sleepers == 3);
  for (auto& job : jobs) CHECK(job.runs == 1);
  for (auto& box : boxes) CHECK(box.state == headrace::kernels::EMPTY);
}

void a_helper_says_that_it_sleeps_after_its_looks() {
  Mailbox box{};
  headrace::kernels::serve(address(&box), 10, kYield);
  CHECK(box.awake == 0 && box.state == headrace::kernels::EMPTY);
  Job job;
  box.part = {Job::run, {address(&job), 1}};
  box.state = headrace::kernels::POSTED;
  headrace::kernels::serve(address(&box), 10, kYield);
  CHECK(job.runs == 1 && box.state == headrace::kernels::DONE);
}

}  // namespace

int main() {
  for (int helpers : {1, 2, 3})
    for (int looks : {1, 50}) every_part_runs_once(helpers, looks);
  the_caller_runs_what_no_helper_takes();
  a_helper_says_that_it_sleeps_after_its_looks();
}
