// The engine: runs a pool of environments on threads and writes their results in place.
//
// It owns what every simulator would otherwise repeat: episodes (autoreset, truncation, step
// counts), rows of batches, failures, saved states. Its caller, `Pool` in Python, has checked
// all arguments; the engine checks nothing twice.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "environment.hpp"
#include "topology.hpp"
#include "workers.hpp"

namespace headrace {

enum class Autoreset { next_step, same_step, disabled };

struct Settings {
  int num_envs = 1;
  int batch_size = 1;
  int num_threads = 1;
  std::vector<std::uint64_t> seeds;
  Autoreset autoreset = Autoreset::next_step;
  int max_episode_steps = 0;  // 0: never truncate
  int pin_from = -1;          // see Workers
  Topology topology = Topology::of_this_machine();
};

// The arrays of one batch are bound once; they must outlive this slot.
struct Slot {
  int rows = 0;
  std::vector<std::byte*> arrays;  // in the order of batch_fields in pool/batch.py

  // The same fields over the arrays of another batch; throws BadBatch if their number is another.
  Slot over(std::span<const std::uintptr_t> addresses) const;
};

// An environment threw: its id, and the words of the exception.
struct Failure : std::runtime_error {
  Failure(int env_id, const std::string& what) : std::runtime_error(what), env_id(env_id) {}
  int env_id;
};

// A loop was started before the last one was done.
struct Busy : std::runtime_error {
  Busy() : std::runtime_error("steps or resets that were begun before are still running") {}
};

// A saved state does not fit.
struct BadState : std::runtime_error {
  BadState(int env_id, const std::string& what) : std::runtime_error(what), env_id(env_id) {}
  int env_id;
};

// The arrays of a batch are not those that the simulator and the engine write.
struct BadBatch : std::runtime_error {
  explicit BadBatch(const std::string& what) : std::runtime_error("a batch does not fit the simulator: " + what) {}
};

// The words of the exception that is being handled; libraries throw all kinds of things.
std::string reason();

// The checksum with which a saved state ends, over all bytes before it.
std::uint64_t checksum(std::span<const std::byte> bytes);

class Engine {
 public:
  using Milliseconds = Workers::Milliseconds;

  // Makes all environments, in parallel; throws Failure if one cannot be made.
  Engine(Simulator simulator, Settings settings);

  // Returns the arrays of a batch of `rows` rows, in the order of batch_fields in pool/batch.py; throws BadBatch if
  // their number or a size is wrong.
  Slot bind(std::span<const std::span<std::byte>> arrays, std::size_t rows) const;

  // Synchronous loops over rows: start, take part, wait; `check` throws Failure if a row failed. Only one loop runs at
  // a time: another start throws Busy. If `env_ids` is null, row i is environment i. The arguments stay alive until the
  // loop is done. Unless the caller takes part at once, only helpers work on the loop; if `has_helpers` is false,
  // nobody does.
  using Who = Workers::Who;
  void start_step(const std::byte* actions, const int* env_ids, const Slot& slot, Who who = Who::caller_too);
  void start_reset(const int* env_ids, const std::uint64_t* seeds, const Slot& slot, Who who = Who::caller_too);
  void take_part() { workers_.take_part(); }
  bool has_helpers() const { return workers_.threads() > 0; }
  bool wait_done(Milliseconds patience) { return workers_.wait_done(patience); }
  void check();

  // The asynchronous queue: results go to the rows of the slots in flight, in the order of completion.
  void set_slots(std::vector<Slot> slots);
  void send_step(const std::byte* actions, const int* env_ids, int count);
  void send_reset(const int* env_ids, const std::uint64_t* seeds, int count);
  bool wait_ready(Milliseconds patience);    // returns whether the oldest slot is full
  void check_ready();                        // throws Failure, once for each failed row of it
  int replace_ready(Slot fresh);             // gives the oldest slot to the caller; returns its position
  bool wait_idle(Milliseconds patience);     // returns whether everything that was sent is finished
  void forget();                             // drops all full rows; call it only when idle

  // Call these only while the environments concerned are idle. `load` takes over all states or, if it throws BadState,
  // none.
  using Bytes = std::span<const std::byte>;
  void save(int env_id, std::vector<std::byte>& out) const;
  void load(std::span<const int> env_ids, std::span<const Bytes> states);
  void render(int env_id, std::uint8_t* rgb) const;

  const Simulator& simulator() const { return simulator_; }
  const Settings& settings() const { return settings_; }
  int num_slots() const;

 private:
  // an environment and its episode
  struct Member {
    std::unique_ptr<Environment> env;
    Turn turn;  // the present one
    std::int32_t elapsed = 0;
    bool over = true;  // the episode has ended and no other has begun
    bool failed = false;  // it threw, and has not been reset since
    std::optional<std::uint64_t> seed;  // queued with a reset
    bool reset_queued = false;
  };

  // A batch that the queue fills.
  struct Output {
    Slot slot;
    std::atomic<int> filled{0};
    std::deque<Failure> failures;
  };

  // A request to an environment: a step or, without an action, a reset.
  struct Request {
    int env_id;
    const std::byte* action;
    const std::uint64_t* seed;  // a reset's seed; null: the random streams go on
    int row;  // in the loop's batch
    bool steps;  // it steps; else an episode begins, or the environment failed before
  };

  // One row of a batch, and the list to which its failure is added.
  struct Place {
    const Slot& slot;
    int row;
    std::deque<Failure>& failures;
  };

  void make(int env_id);
  void start_loop(const Slot& slot, Who who);
  void run_rows(int first, int last);
  void run_queued(std::span<const int> env_ids);

  // Serves at most a group of requests. It steps those environments together that step, and begins the other episodes
  // one by one; done(request) takes the results of each as soon as it can.
  template <class Done>
  void run(std::span<Request> requests, Done done);
  bool steps(const Request& request) const;
  void begin(const Request& request);
  void step(std::span<Turn* const> turns);
  void finish(const Request& request, const Place& place);
  void finish_queued(const Request& request);
  void end_step(Member& member, const Place& place);
  void begin(Member& member);
  void begin_next(Member& member);
  bool at_limit(const Member& member) const;
  void write(int env_id, const StepResult& result, const Place& place);
  void write_final(const Member& member, const Place& place);
  void write_described(const Member& member, const Place& place, std::size_t observations, std::size_t infos) const;
  void write_failure(int env_id, const Place& place, const std::string& what);
  void load_one(int env_id, Bytes state);

  Simulator simulator_;
  Settings settings_;
  std::size_t action_bytes_;  // the bytes of one row
  std::vector<std::size_t> strides_;  // bytes of one row of each array of a slot
  std::vector<std::string> names_;  // the names of these arrays
  std::size_t observations_ = 0;  // the number of declared fields that are observations
  std::size_t infos_ = 0;  // index of the first info: array
  std::size_t finals_ = 0;  // index of the first final: array
  std::vector<Member> members_;

  // The loop.
  const std::byte* actions_ = nullptr;
  const int* env_ids_ = nullptr;
  const std::uint64_t* seeds_ = nullptr;
  const Slot* slot_ = nullptr;
  bool resetting_ = false;

  // The queue.
  std::vector<std::byte> queued_actions_;  // one row for each environment
  std::vector<std::unique_ptr<Output>> outputs_;
  std::atomic<std::uint64_t> claimed_{0};  // rows handed out so far
  std::uint64_t received_ = 0;  // batches
  std::atomic<int> unfinished_{0};

  std::mutex failures_mutex_;
  std::deque<Failure> failures_;

  Workers workers_;  // last, as its threads use all of the above: they end before it does
};

}  // namespace headrace
