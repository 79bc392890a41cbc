// The engine's states and pictures of single environments.
#include <algorithm>

#include "engine.hpp"

namespace headrace {

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

// Saved states are checked by it, so that simulators need only refuse states that could do harm. Each round is
// one-to-one, so it notices every change of one word.
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
      if (before[i].state.empty()) continue;  // the save had failed, not the load
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
