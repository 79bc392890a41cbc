#include "engine.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace headrace {
namespace {

// The arrays of a slot that the engine itself writes; they follow the observations.
enum Own : std::size_t { kReward, kTerminated, kTruncated, kEnvId, kElapsed, kOwn };

constexpr std::array<std::pair<const char*, std::size_t>, kOwn> kOwnArrays = {
    {{"reward", 4}, {"terminated", 1}, {"truncated", 1}, {"env_id", 4}, {"elapsed_step", 4}}};

bool is_observation(const Declared& field) { return field.name == "obs" || field.name.starts_with("obs:"); }

// In a loop the calling thread is one of the threads; on a queue it only waits.
int helpers(const Settings& s) { return s.batch_size < s.num_envs ? s.num_threads : s.num_threads - 1; }

int group_of(const Simulator& s) { return s.step_together ? std::clamp(s.group, 1, kMostGroup) : 1; }

template <class T>
void put(std::byte* array, int row, T value) {
  std::memcpy(array + static_cast<std::size_t>(row) * sizeof(T), &value, sizeof(T));
}

}  // namespace

Engine::Engine(Simulator simulator, Settings settings)
    : simulator_(std::move(simulator)),
      settings_(std::move(settings)),
      action_bytes_(simulator_.spec.action_bytes()),
      members_(static_cast<std::size_t>(settings_.num_envs)),
      queued_actions_(static_cast<std::size_t>(settings_.num_envs) * action_bytes_),
      workers_(helpers(settings_), settings_.num_envs, settings_.topology, settings_.pin_from, group_of(simulator_)) {
  const auto& fields = simulator_.spec.fields();
  observations_ = static_cast<std::size_t>(std::ranges::count_if(fields, is_observation));
  auto add = [&](const std::string& name, std::size_t bytes) { names_.push_back(name), strides_.push_back(bytes); };
  auto add_fields = [&](std::size_t first, std::size_t last, const std::string& prefix) {
    for (std::size_t i = first; i < last; ++i) add(prefix + fields[i].name, fields[i].bytes());
  };
  add_fields(0, observations_, "");
  for (const auto& [name, bytes] : kOwnArrays) add(name, bytes);
  infos_ = strides_.size();
  add_fields(observations_, fields.size(), "");
  finals_ = strides_.size();
  if (settings_.autoreset == Autoreset::same_step) {
    add_fields(0, observations_, "final:");
    add("final:elapsed_step", kOwnArrays[kElapsed].second);
    add_fields(observations_, fields.size(), "final:");
  }

  auto serve = [](void* self, const int* env_ids, int count) {
    static_cast<Engine*>(self)->run_queued({env_ids, static_cast<std::size_t>(count)});
  };
  workers_.serve_queue(serve, this);

  // memory that an environment allocates belongs to the node of the thread that makes it
  bool at_home = workers_.nodes() > 1;
  auto make_all = [](void* self, int first, int last) {
    for (int i = first; i < last; ++i) static_cast<Engine*>(self)->make(i);
  };
  workers_.start(settings_.num_envs, make_all, this, at_home ? Who::helpers_at_home : Who::caller_too);
  if (!at_home) workers_.take_part();
  while (!workers_.wait_done(Milliseconds(1000))) {
  }
  check();
}

void Engine::make(int env_id) {
  auto& member = members_[static_cast<std::size_t>(env_id)];
  try {
    member.env = simulator_.make(env_id);
    member.env->seed(settings_.seeds[static_cast<std::size_t>(env_id)]);
  } catch (...) {
    std::lock_guard lock(failures_mutex_);
    failures_.emplace_back(env_id, reason());
  }
}

// ---- loops ------------------------------------------------------------------------------------

void Engine::start_step(const std::byte* actions, const int* env_ids, const Slot& slot, Who who) {
  if (workers_.busy()) throw Busy();  // threads still read what would be overwritten
  actions_ = actions, env_ids_ = env_ids, resetting_ = false;
  start_loop(slot, who);
}

void Engine::start_reset(const int* env_ids, const std::uint64_t* seeds, const Slot& slot, Who who) {
  if (workers_.busy()) throw Busy();
  env_ids_ = env_ids, seeds_ = seeds, resetting_ = true;
  start_loop(slot, who);
}

void Engine::start_loop(const Slot& slot, Who who) {
  slot_ = &slot;
  auto run = [](void* self, int first, int last) { static_cast<Engine*>(self)->run_rows(first, last); };
  workers_.start(slot.rows, run, this, who);
}

void Engine::run_rows(int first, int last) {
  std::array<Request, kMostGroup> requests;
  std::size_t n = 0;
  for (int row = first; row < last; ++row) {
    const int env_id = env_ids_ ? env_ids_[row] : row;
    if (resetting_) requests[n++] = {env_id, nullptr, seeds_ ? &seeds_[row] : nullptr, row, false};
    else requests[n++] = {env_id, actions_ + static_cast<std::size_t>(row) * action_bytes_, nullptr, row, false};
  }
  run({requests.data(), n}, [this](const Request& request) { finish(request, {*slot_, request.row, failures_}); });
}

void Engine::check() {
  std::lock_guard lock(failures_mutex_);
  if (failures_.empty()) return;
  // Of several failures, this is the same one whatever the order of threads.
  auto first = *std::ranges::min_element(failures_, {}, &Failure::env_id);
  failures_.clear();
  throw first;
}

// ---- queue ------------------------------------------------------------------------------------

int Engine::num_slots() const {
  // The rows in flight span at most this many batches, beside the one that is being received.
  return (settings_.num_envs + settings_.batch_size - 1) / settings_.batch_size + 1;
}

void Engine::set_slots(std::vector<Slot> slots) {
  outputs_.clear();
  for (auto& slot : slots) {
    outputs_.push_back(std::make_unique<Output>());
    outputs_.back()->slot = std::move(slot);
  }
}

void Engine::send_step(const std::byte* actions, const int* env_ids, int count) {
  std::size_t n = action_bytes_;
  for (int i = 0; i < count; ++i)
    std::memcpy(&queued_actions_[static_cast<std::size_t>(env_ids[i]) * n], actions + static_cast<std::size_t>(i) * n,
                n);
  unfinished_.fetch_add(count, std::memory_order_relaxed);
  workers_.push(env_ids, count);
}

void Engine::send_reset(const int* env_ids, const std::uint64_t* seeds, int count) {
  for (int i = 0; i < count; ++i) {
    auto& member = members_[static_cast<std::size_t>(env_ids[i])];
    member.reset_queued = true;
    member.seed = seeds ? std::optional(seeds[i]) : std::nullopt;
  }
  unfinished_.fetch_add(count, std::memory_order_relaxed);
  workers_.push(env_ids, count);
}

void Engine::run_queued(std::span<const int> env_ids) {
  std::array<Request, kMostGroup> requests;
  std::size_t n = 0;
  for (const int env_id : env_ids) {
    auto& member = members_[static_cast<std::size_t>(env_id)];
    if (std::exchange(member.reset_queued, false))
      requests[n++] = {env_id, nullptr, member.seed ? &*member.seed : nullptr, 0, false};
    else
      requests[n++] = {env_id, &queued_actions_[static_cast<std::size_t>(env_id) * action_bytes_], nullptr, 0, false};
  }
  run({requests.data(), n}, [this](const Request& request) { finish_queued(request); });
}

// The request gets the next row only now, when its results exist.
void Engine::finish_queued(const Request& request) {
  const auto size = static_cast<std::uint64_t>(settings_.batch_size);
  const auto row = claimed_.fetch_add(1, std::memory_order_acq_rel);
  Output& output = *outputs_[(row / size) % outputs_.size()];
  finish(request, {output.slot, static_cast<int>(row % size), output.failures});
  const bool full = output.filled.fetch_add(1, std::memory_order_acq_rel) + 1 == settings_.batch_size;
  const bool idle = unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (full || idle) workers_.announce();
}

bool Engine::wait_ready(Milliseconds patience) {
  const Output& oldest = *outputs_[received_ % outputs_.size()];
  return workers_.wait_until([&] { return oldest.filled.load(std::memory_order_acquire) == settings_.batch_size; },
                             patience);
}

void Engine::check_ready() {
  auto& failures = outputs_[received_ % outputs_.size()]->failures;
  std::lock_guard lock(failures_mutex_);
  if (failures.empty()) return;
  auto first = failures.front();
  failures.pop_front();
  throw first;
}

int Engine::replace_ready(Slot fresh) {
  auto position = received_ % outputs_.size();
  Output& oldest = *outputs_[position];
  oldest.slot = std::move(fresh);
  oldest.filled.store(0, std::memory_order_release);
  ++received_;
  return static_cast<int>(position);
}

bool Engine::wait_idle(Milliseconds patience) {
  return workers_.wait_until([this] { return unfinished_.load(std::memory_order_acquire) == 0; }, patience);
}

void Engine::forget() {
  for (auto& output : outputs_) {
    output->filled.store(0, std::memory_order_relaxed);
    output->failures.clear();
  }
  claimed_.store(received_ * static_cast<std::uint64_t>(settings_.batch_size), std::memory_order_release);
}

// ---- environments -----------------------------------------------------------------------------

template <class Done>
void Engine::run(std::span<Request> requests, Done done) {
  std::array<Turn*, kMostGroup> turns;
  std::size_t n = 0;
  for (auto& request : requests) {
    auto& member = members_[static_cast<std::size_t>(request.env_id)];
    member.turn = {member.env.get(), Action(request.action)};
    request.steps = steps(request);
    if (request.steps) {
      turns[n++] = &member.turn;
    } else {
      member.turn.attempt([&] { begin(request); });
      done(request);
    }
  }
  if (n > 0) step({turns.data(), n});
  for (const auto& request : requests)
    if (request.steps) done(request);
}

Slot Engine::bind(std::span<const std::span<std::byte>> arrays, std::size_t rows) const {
  if (arrays.size() != strides_.size())
    throw BadBatch("it has " + std::to_string(arrays.size()) + " arrays, not " + std::to_string(strides_.size()));
  Slot slot{static_cast<int>(rows), {}};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].size() != rows * strides_[i])
      throw BadBatch(names_[i] + " has " + std::to_string(arrays[i].size()) + " bytes, not " + std::to_string(rows) +
                     " rows of " + std::to_string(strides_[i]));
    slot.arrays.push_back(arrays[i].data());
  }
  return slot;
}

Slot Slot::over(std::span<const std::uintptr_t> addresses) const {
  if (addresses.size() != arrays.size())
    throw BadBatch("it has " + std::to_string(addresses.size()) + " arrays, not " + std::to_string(arrays.size()));
  Slot other{rows, {}};
  other.arrays.reserve(arrays.size());
  for (const auto address : addresses) other.arrays.push_back(reinterpret_cast<std::byte*>(address));
  return other;
}

bool Engine::steps(const Request& request) const {
  const auto& member = members_[static_cast<std::size_t>(request.env_id)];
  const bool begins = member.over && settings_.autoreset == Autoreset::next_step;
  return request.action && !member.failed && !begins;
}

void Engine::begin(const Request& request) {
  auto& member = members_[static_cast<std::size_t>(request.env_id)];
  if (!request.action) {
    if (request.seed) member.env->seed(*request.seed);
    begin(member);
    member.failed = false;
  } else if (member.failed) {
    throw std::runtime_error("it failed before and was not reset since");
  } else {
    begin_next(member);
  }
}

void Engine::step(std::span<Turn* const> turns) {
  if (!simulator_.step_together) {
    for (Turn* turn : turns) turn->attempt([&] { turn->result = turn->env->step(turn->action); });
    return;
  }
  try {
    simulator_.step_together(turns);
  } catch (...) {  // the error is that of every environment
    for (Turn* turn : turns) turn->error = std::current_exception();
  }
}

void Engine::finish(const Request& request, const Place& place) {
  auto& member = members_[static_cast<std::size_t>(request.env_id)];
  try {
    if (member.turn.error) std::rethrow_exception(member.turn.error);
    if (request.steps) end_step(member, place);
    write(request.env_id, member.turn.result, place);
  } catch (...) {
    member.failed = true;
    write_failure(request.env_id, place, reason());
  }
}

void Engine::end_step(Member& member, const Place& place) {
  auto& result = member.turn.result;
  ++member.elapsed;
  result.truncated |= at_limit(member);
  member.over = result.terminated || result.truncated;
  if (member.over && settings_.autoreset == Autoreset::same_step) {
    write_final(member, place);
    begin_next(member);
  }
}
void Engine::begin(Member& member) {
  member.env->reset();
  member.elapsed = 0;
  member.over = false;
}

// Where the simulator plays on, its steps count on as well: the limit holds for all lives together.
void Engine::begin_next(Member& member) {
  if (at_limit(member) || !member.env->play_on()) return begin(member);
  member.over = false;
}

bool Engine::at_limit(const Member& member) const {
  return settings_.max_episode_steps > 0 && member.elapsed >= settings_.max_episode_steps;
}

void Engine::write(int env_id, const StepResult& result, const Place& place) {
  const auto& member = members_[static_cast<std::size_t>(env_id)];
  auto own = &place.slot.arrays[observations_];
  put(own[kReward], place.row, result.reward);
  put(own[kTerminated], place.row, result.terminated);
  put(own[kTruncated], place.row, result.truncated);
  put(own[kEnvId], place.row, static_cast<std::int32_t>(env_id));
  put(own[kElapsed], place.row, member.elapsed);
  write_described(member, place, 0, infos_);
}

void Engine::write_final(const Member& member, const Place& place) {
  put(place.slot.arrays[finals_ + observations_], place.row, member.elapsed);
  write_described(member, place, finals_, finals_ + observations_ + 1);
}

void Engine::write_described(const Member& member, const Place& place, std::size_t observations,
                             std::size_t infos) const {
  std::array<std::byte*, Spec::kMostFields> row;
  std::size_t n = simulator_.spec.fields().size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t array = i < observations_ ? observations + i : infos + i - observations_;
    row[i] = place.slot.arrays[array] + static_cast<std::size_t>(place.row) * strides_[array];
  }
  member.env->observe(Row({row.data(), n}));
}

void Engine::write_failure(int env_id, const Place& place, const std::string& what) {
  for (std::size_t i = 0; i < strides_.size(); ++i)
    std::memset(place.slot.arrays[i] + static_cast<std::size_t>(place.row) * strides_[i], 0, strides_[i]);
  put(place.slot.arrays[observations_ + kEnvId], place.row, static_cast<std::int32_t>(env_id));
  std::lock_guard lock(failures_mutex_);
  place.failures.emplace_back(env_id, what);
}

}  // namespace headrace
