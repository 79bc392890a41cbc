// Environments that a simulator steps together do what each does alone.
#include "ladders.hpp"

namespace {

// Everything that a pool ever shows, over episodes of all lengths and failures that resets clear.
std::vector<std::int64_t> history(Simulator simulator, Autoreset autoreset, int threads) {
  constexpr int n = 37;
  auto settings = settings_of(n, n, threads, autoreset);
  settings.max_episode_steps = 5;
  Engine engine(std::move(simulator), settings);
  Arrays out(n), few(5);
  reset(engine, out);
  std::vector<std::int64_t> actions(n), seen;
  std::uint32_t chance = 1;
  auto next = [&] { return chance = chance * 1664525 + 1013904223; };
  auto note = [&](const Arrays& arrays) {
    for (std::size_t i = 0; i < arrays.reward.size(); ++i)
      seen.insert(seen.end(), {static_cast<std::int64_t>(arrays.reward[i]), arrays.terminated[i], arrays.truncated[i],
                               arrays.env_id[i], arrays.elapsed[i], arrays.steps[i], arrays.final_elapsed[i]});
    seen.insert(seen.end(), arrays.obs.begin(), arrays.obs.end());
    seen.insert(seen.end(), arrays.final_obs.begin(), arrays.final_obs.end());
  };
  auto noted = [&](auto call, const Arrays& arrays) {
    try {
      call();
    } catch (const Failure& failure) {
      seen.push_back(failure.env_id);
    }
    note(arrays);
  };
  for (int t = 0; t < 60; ++t) {
    for (auto& a : actions) a = (next() >> 8) % 100;  // a few are 97 to 99
    noted([&] { step(engine, actions, out); }, out);
    const int first = static_cast<int>((next() >> 8) % (n - 5));
    const std::vector<int> ids = {first + 4, first, first + 2, first + 1, first + 3};
    if (t % 3 == 0) noted([&] { reset(engine, few, ids.data()); }, few);
    else noted([&] { step(engine, {1, 2, 3, 4, 5}, few, ids.data()); }, few);
  }
  return seen;
}

// Each environment has the same results in any group as alone.
void groups_change_nothing() {
  for (auto autoreset : {Autoreset::next_step, Autoreset::same_step, Autoreset::disabled}) {
    const auto alone = history(ladders(), autoreset, 1);
    for (int group : {1, 3, 8, kMostGroup})
      for (int threads : {1, 3}) {
        Groups groups;
        CHECK(history(grouped_ladders(group, groups), autoreset, threads) == alone);
        CHECK(groups.calls > 0 && (group == 1 || groups.largest > 1));
      }
  }
}

void episodes_begin_outside_groups() {
  Groups groups;
  Engine engine(grouped_ladders(8, groups), settings_of(8, 8, 1, Autoreset::next_step));
  Arrays out(8);
  reset(engine, out);
  CHECK(groups.calls == 0);
  const std::vector<std::int64_t> actions(8, 1);
  for (int i = 1; i <= 4; ++i) step(engine, actions, out);
  CHECK(groups.calls == 4 && groups.largest == 8);
  groups.largest = 0;
  step(engine, actions, out);  // environments whose episode lasted three steps begin their next one
  CHECK(groups.calls == 5 && groups.largest == 6);
}

void failures_in_groups_are_reported_and_reset_away() {
  Groups groups;
  Engine engine(grouped_ladders(4, groups), settings_of(8, 8, 1, Autoreset::next_step));
  Arrays out(8);
  reset(engine, out);
  auto failed = [&](const std::vector<std::int64_t>& actions) {
    try {
      step(engine, actions, out);
    } catch (const Failure& failure) {
      return std::pair(failure.env_id, std::string(failure.what()));
    }
    return std::pair(-1, std::string());
  };
  CHECK(failed({1, 1, 99, 1, 1, 1, 1, 1}) == std::pair(2, std::string("99 is not my number")));
  for (std::size_t i = 0; i < 8; ++i) CHECK(out.elapsed[i] == (i != 2) && out.reward[i] == (i != 2));
  groups.breaks = true;
  const std::vector<std::int64_t> ones(8, 1);
  CHECK(failed(ones).first == 0);
  CHECK(failed(ones) == std::pair(0, std::string("it failed before and was not reset since")));
  for (std::size_t i = 0; i < 8; ++i) CHECK(out.elapsed[i] == (i < 4 ? 0 : 3));
  reset(engine, out);
  CHECK(failed(ones).first == -1);
}

}  // namespace

int main() {
  groups_change_nothing();
  episodes_begin_outside_groups();
  failures_in_groups_are_reported_and_reset_away();
  std::puts("test_engine_groups: 3 passed, 0 failed");
}
