#include "engine.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace headrace {
namespace {

// arrays of a slot that the engine itself writes, after the observations
enum Own : std::size_t { kReward, kTerminated, kTruncated, kEnvId, kElapsed, kOwn };

constexpr std::array<std::size_t, kOwn> kOwnBytes = {4, 1, 1, 4, 4};

bool is_observation(const Declared& field) { return field.name == "obs" || field.name.starts_with("obs:"); }

// in a loop the calling thread is one of the threads; while it waits on a queue it is not
int helpers(const Settings& s) { return s.batch_size < s.num_envs ? s.num_threads : s.num_threads - 1; }

template <class T>
void put(std::byte* array, int row, T value) {
  std::memcpy(array + static_cast<std::size_t>(row) * sizeof(T), &value, sizeof(T));
}

// what the exception says that is being handled; libraries throw all kinds of things
std::string reason() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (const char* text) {
    return text;
  } catch (...) {
    return "it threw something that is no std::exception";
  }
}

}  // namespace

// simulators need only look at what could do harm, as what they read back is what was written; each
// round is one-to-one, hence a change of one word is always seen
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = bytes.size();
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const auto n = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), n);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
    bytes = bytes.subspan(n);
  }
  return sum;
}

Engine::Engine(Simulator simulator, Settings settings)
    : simulator_(std::move(simulator)),
      settings_(std::move(settings)),
      action_bytes_(simulator_.spec.action_bytes()),
      members_(static_cast<std::size_t>(settings_.num_envs)),
      queued_actions_(static_cast<std::size_t>(settings_.num_envs) * action_bytes_),
      workers_(helpers(settings_), settings_.num_envs, settings_.topology, settings_.pin_from) {
  const auto& fields = simulator_.spec.fields();
  observations_ = static_cast<std::size_t>(std::ranges::count_if(fields, is_observation));
  for (std::size_t i = 0; i < observations_; ++i) strides_.push_back(fields[i].bytes());
  strides_.insert(strides_.end(), kOwnBytes.begin(), kOwnBytes.end());
  infos_ = strides_.size();
  for (std::size_t i = observations_; i < fields.size(); ++i) strides_.push_back(fields[i].bytes());
  finals_ = strides_.size();
  if (settings_.autoreset == Autoreset::same_step) {
    for (std::size_t i = 0; i < observations_; ++i) strides_.push_back(fields[i].bytes());
    strides_.push_back(kOwnBytes[kElapsed]);
    for (std::size_t i = observations_; i < fields.size(); ++i) strides_.push_back(fields[i].bytes());
  }

  workers_.serve_queue([](void* self, int env_id) { static_cast<Engine*>(self)->run_queued(env_id); }, this);

  // memory that an environment allocates belongs to the node of the thread that makes it
  bool at_home = workers_.nodes() > 1;
  workers_.start(settings_.num_envs, [](void* self, int i) { static_cast<Engine*>(self)->make(i); }, this,
                 at_home ? Who::helpers_at_home : Who::caller_too);
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
  workers_.start(slot.rows, [](void* self, int row) { static_cast<Engine*>(self)->run_row(row); }, this, who);
}

void Engine::run_row(int row) {
  int env_id = env_ids_ ? env_ids_[row] : row;
  auto claim = [&] { return Place{*slot_, row, failures_}; };
  if (resetting_)
    run(env_id, nullptr, seeds_ ? std::optional(seeds_[row]) : std::nullopt, claim);
  else
    run(env_id, actions_ + static_cast<std::size_t>(row) * action_bytes_, std::nullopt, claim);
}

void Engine::check() {
  std::lock_guard lock(failures_mutex_);
  if (failures_.empty()) return;
  // of several, the same one whatever the order of threads
  auto first = *std::ranges::min_element(failures_, {}, &Failure::env_id);
  failures_.clear();
  throw first;
}

// ---- queue ------------------------------------------------------------------------------------

int Engine::num_slots() const {
  // rows in flight span at most this many batches, beside the one being received
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
    std::memcpy(&queued_actions_[static_cast<std::size_t>(env_ids[i]) * n], actions + static_cast<std::size_t>(i) * n, n);
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

void Engine::run_queued(int env_id) {
  auto& member = members_[static_cast<std::size_t>(env_id)];
  Output* output = nullptr;
  auto claim = [&] {
    auto size = static_cast<std::uint64_t>(settings_.batch_size);
    auto row = claimed_.fetch_add(1, std::memory_order_acq_rel);
    output = outputs_[(row / size) % outputs_.size()].get();
    return Place{output->slot, static_cast<int>(row % size), output->failures};
  };
  if (std::exchange(member.reset_queued, false))
    run(env_id, nullptr, member.seed, claim);
  else
    run(env_id, &queued_actions_[static_cast<std::size_t>(env_id) * action_bytes_], std::nullopt, claim);

  bool full = output->filled.fetch_add(1, std::memory_order_acq_rel) + 1 == settings_.batch_size;
  bool idle = unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (full || idle) workers_.announce();
}

bool Engine::wait_ready(Milliseconds patience) {
  const Output& oldest = *outputs_[received_ % outputs_.size()];
  return workers_.wait_until(
      [&] { return oldest.filled.load(std::memory_order_acquire) == settings_.batch_size; }, patience);
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

// ---- one environment --------------------------------------------------------------------------

template <class Claim>
void Engine::run(int env_id, const std::byte* action, std::optional<std::uint64_t> seed, Claim claim) {
  auto& member = members_[static_cast<std::size_t>(env_id)];
  std::optional<Place> place;
  try {
    StepResult result;
    if (!action) {
      if (seed) member.env->seed(*seed);
      begin(member);
      member.failed = false;
    } else if (member.failed) {
      throw std::runtime_error("it failed before and was not reset since");
    } else if (member.over && settings_.autoreset == Autoreset::next_step) {
      begin_next(member);
    } else {
      result = member.env->step(Action(action));
      ++member.elapsed;
      result.truncated |= at_limit(member);
      member.over = result.terminated || result.truncated;
      if (member.over && settings_.autoreset == Autoreset::same_step) {
        place.emplace(claim());
        write_final(member, *place);
        begin_next(member);
      }
    }
    if (!place) place.emplace(claim());
    write(env_id, result, *place);
  } catch (...) {
    if (!place) place.emplace(claim());
    member.failed = true;
    write_failure(env_id, *place, reason());
  }
}

void Engine::begin(Member& member) {
  member.env->reset();
  member.elapsed = 0;
  member.over = false;
}

// where the simulator plays on, its steps count on too: the limit is on all of them
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

// ---- states and pictures ----------------------------------------------------------------------

void Engine::save(int env_id, std::vector<std::byte>& out) const {
  const auto& member = members_[static_cast<std::size_t>(env_id)];
  const auto begin = out.size();
  Writer writer(out);
  writer.value(member.elapsed);
  writer.value(member.over);
  member.env->save(writer);
  writer.value(checksum(std::span(out).subspan(begin)));
}

void Engine::load(std::span<const int> env_ids, std::span<const Bytes> states) {
  struct Before {
    bool failed;
    std::vector<std::byte> state;
  };
  std::vector<Before> before;
  try {
    for (std::size_t i = 0; i < env_ids.size(); ++i) {
      before.push_back({members_[static_cast<std::size_t>(env_ids[i])].failed, {}});
      save(env_ids[i], before.back().state);
      load_one(env_ids[i], states[i]);
    }
  } catch (...) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i].state.empty()) continue;  // it was saving that failed
      load_one(env_ids[i], before[i].state);
      members_[static_cast<std::size_t>(env_ids[i])].failed = before[i].failed;
    }
    throw;
  }
}

void Engine::load_one(int env_id, Bytes state) {
  auto& member = members_[static_cast<std::size_t>(env_id)];
  std::uint64_t sum = 0;
  if (state.size() < sizeof sum) throw BadState(env_id, "saved state is too short");
  const auto body = state.first(state.size() - sizeof sum);
  std::memcpy(&sum, state.data() + body.size(), sizeof sum);
  if (sum != checksum(body)) throw BadState(env_id, "saved state is corrupt");
  try {
    Reader reader(body);
    const auto elapsed = reader.value<std::int32_t>();
    const auto over = reader.value<bool>();
    if (elapsed < 0 || (settings_.max_episode_steps > 0 && elapsed > settings_.max_episode_steps))
      throw std::runtime_error("saved state is corrupt");
    member.env->load(reader);
    if (reader.left() != 0) throw std::runtime_error("saved state is too long");
    member.elapsed = elapsed;
    member.over = over;
  } catch (...) {
    throw BadState(env_id, reason());
  }
  member.failed = false;
}

void Engine::render(int env_id, std::uint8_t* rgb) const {
  members_[static_cast<std::size_t>(env_id)].env->render(rgb);
}

}  // namespace headrace
