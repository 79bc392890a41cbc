// The tasks on Box2D, for the sanitizers: saved states, and worlds on several threads. tests/envs/box2d compares their
// results with Gymnasium.
#include "../box2d/bipedal_walker.hpp"
#include "../box2d/car_racing.hpp"
#include "../box2d/episode.hpp"
#include "../box2d/lunar_lander.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "check.hpp"

using namespace headrace;
using namespace headrace::box2d;

namespace {

// One environment's arrays.
template <class Game>
struct Rows {
  std::array<typename Game::Number, Game::kObserved> obs{};

  Row row() {
    fields = {reinterpret_cast<std::byte*>(obs.data())};
    return Row(fields);
  }

  std::array<std::byte*, 1> fields{};
};

template <class Game>
using Numbers = std::array<float, Game::kActions>;

template <class Game>
Numbers<Game> some_move(std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1.5f, 1.5f);
  Numbers<Game> move;
  for (auto& number : move) number = uniform(random);
  return move;
}

// The observations and rewards of an environment in so many steps, with resets.
template <class Game>
std::vector<float> played(Environment& env, int steps, std::mt19937 random) {
  std::vector<float> shown;
  Rows<Game> rows;
  for (int i = 0; i < steps; ++i) {
    const auto move = some_move<Game>(random);
    const auto result = env.step(Action(reinterpret_cast<const std::byte*>(move.data())));
    env.observe(rows.row());
    shown.insert(shown.end(), rows.obs.begin(), rows.obs.end());
    shown.push_back(result.reward);
    if (result.terminated) env.reset();
  }
  return shown;
}

template <class Game>
void saved_states_continue(const typename Game::Options& options, int steps) {
  const auto simulator = headrace::box2d::simulator<Game>(options);
  auto env = simulator.make(0), other = simulator.make(1);
  env->seed(1), env->reset();
  other->seed(2), other->reset();
  played<Game>(*env, steps, std::mt19937(1));
  std::vector<std::byte> state;
  Writer out(state);
  env->save(out);
  Reader in(state);
  other->load(in);
  CHECK(in.left() == 0);
  CHECK(played<Game>(*env, steps, std::mt19937(2)) == played<Game>(*other, steps, std::mt19937(2)));

  std::mt19937 random(3);   // no loaded state breaks anything
  for (int i = 0; i < 60; ++i) {
    auto wrong = state;
    wrong[random() % wrong.size()] ^= static_cast<std::byte>(1 << random() % 8);
    if (i % 4 == 0) wrong.resize(random() % wrong.size());
    try {
      Reader bad(wrong);
      other->load(bad);
    } catch (const std::runtime_error&) {
    }
    other->seed(4), other->reset();
  }
  std::vector<std::uint8_t> rgb(3 * Game::kWidth * Game::kHeight);
  env->render(rgb.data());
  CHECK(std::ranges::any_of(rgb, [&](auto value) { return value != rgb[0]; }));
}

// Worlds that step together do what each does alone.
template <class Game>
void groups_change_nothing(const typename Game::Options& options, int steps) {
  const auto simulator = headrace::box2d::simulator<Game>(options);
  if (!simulator.step_together) return;
  std::vector<std::unique_ptr<Environment>> envs;
  std::vector<std::mt19937> randoms;
  std::vector<std::vector<float>> seen(kLanes);
  for (int i = 0; i < kLanes; ++i) {
    envs.push_back(simulator.make(i)), envs[i]->seed(i), envs[i]->reset();
    randoms.emplace_back(i);
  }
  for (int t = 0; t < steps; ++t) {
    const int count = 1 + t % kLanes;  // some of them, never in the same company
    std::vector<Numbers<Game>> moves(count);
    std::vector<Turn> turns(count);
    std::vector<Turn*> group;
    for (int i = 0; i < count; ++i) {
      const int env = (t + i) % kLanes;
      moves[i] = some_move<Game>(randoms[env]);
      turns[i].env = envs[env].get(), turns[i].action = Action(reinterpret_cast<const std::byte*>(moves[i].data()));
      group.push_back(&turns[i]);
    }
    simulator.step_together(group);
    for (int i = 0; i < count; ++i) {
      CHECK(!turns[i].error);
      Rows<Game> rows;
      envs[(t + i) % kLanes]->observe(rows.row());
      auto& shown = seen[(t + i) % kLanes];
      shown.insert(shown.end(), rows.obs.begin(), rows.obs.end());
      shown.push_back(turns[i].result.reward);
      if (turns[i].result.terminated) turns[i].env->reset();
    }
  }
  for (int i = 0; i < kLanes; ++i) {
    auto alone = simulator.make(i);
    alone->seed(i), alone->reset();
    const auto shown = played<Game>(*alone, static_cast<int>(seen[i].size()) / (Game::kObserved + 1), std::mt19937(i));
    CHECK(shown == seen[i]);
  }
}

// Worlds on several threads share nothing that one of them changes.
template <class Game>
void threads_share_nothing(const typename Game::Options& options, int steps) {
  const auto simulator = headrace::box2d::simulator<Game>(options);
  const auto play = [&](int i) {
    auto env = simulator.make(i);
    env->seed(i), env->reset();
    return played<Game>(*env, steps, std::mt19937(i));
  };
  std::array<std::vector<float>, 3> seen;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&, i] { seen[i] = play(i); });
  threads.clear();
  for (int i = 0; i < 3; ++i) CHECK(seen[i] == play(i));
}

}  // namespace

int main() {
  saved_states_continue<LunarLander>({.continuous = true}, 150);
  saved_states_continue<LunarLander>({.continuous = true, .enable_wind = true}, 80);
  saved_states_continue<BipedalWalker>({}, 60);
  saved_states_continue<BipedalWalker>({.hardcore = true}, 60);
  saved_states_continue<CarRacing>({}, 60);
  saved_states_continue<CarRacing>({.domain_randomize = true}, 5);
  groups_change_nothing<LunarLander>({.continuous = true}, 400);
  groups_change_nothing<BipedalWalker>({}, 150);
  groups_change_nothing<BipedalWalker>({.hardcore = true}, 150);
  groups_change_nothing<CarRacing>({}, 60);
  threads_share_nothing<CarRacing>({}, 20);
  threads_share_nothing<LunarLander>({.continuous = true}, 100);
  threads_share_nothing<BipedalWalker>({.hardcore = true}, 50);
}
