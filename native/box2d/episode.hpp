// The common part of all tasks on Box2D: an environment of the engine around a game, and its saved states.
//
// A world of Box2D has caches, trees and lists whose order decides how sums are rounded, so a saved state is not the
// world: it is the random stream at the start of the episode and the actions since then. Loading plays them again.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "engine/environment.hpp"
#include "engine/random.hpp"
#include "iterations.hpp"
#include "scene.hpp"
#include "together.hpp"

namespace headrace::box2d {

// Game: `Options`; `Move`, an array of the kActions numbers that move it; `begin(random)`; `advance(move, random)`,
// which returns a StepResult; `observe(span of kObserved Numbers)`, an array of shape(options); `render(rgb)`;
// `kHeight`, `kWidth`
template <class Game>
using Move = typename Game::Move;

template <class Game>
struct Shown : Spec {
  explicit Shown(const typename Game::Options& options) : obs{this, "obs", Game::shape(options)} {
    if (Game::is_discrete(options)) choice.emplace(this);
    else move.emplace(this, std::vector<int>{Game::kActions});
  }

  Field<typename Game::Number> obs;
  std::optional<ActionField<std::int64_t>> choice;
  std::optional<ActionField<float>> move;
};

template <class Game>
class Episode final : public Environment {
 public:
  Episode(const typename Game::Options& options, int frame_skip)
      : shown_(options), game_(options), frame_skip_(frame_skip) {}

  void seed(std::uint64_t seed) override { random_ = NumpyGenerator(seed), begun_ = false; }

  void reset() override {
    start_ = random_;
    moves_.clear();
    game_.begin(random_);
    begun_ = true;
  }

  StepResult step(const Action& action) override {
    const Move<Game> move = move_of(action);
    moves_.push_back(move);
    return advance(move);
  }

  void observe(const Row& row) const override { game_.observe(row[shown_.obs]); }

  void save(Writer& out) const override {
    out.value(begun_);
    (begun_ ? start_ : random_).save(out);
    out.value(static_cast<std::uint64_t>(moves_.size()));
    out.bytes(moves_.data(), moves_.size() * sizeof(Move<Game>));
  }

  void load(Reader& in) override {
    const bool begun = in.value<bool>();
    random_.load(in);
    const auto count = in.value<std::uint64_t>();
    if (count > in.left() / sizeof(Move<Game>) || (count > 0 && !begun))
      throw std::runtime_error("saved state is corrupt");
    std::vector<Move<Game>> moves(count);
    in.bytes(moves.data(), count * sizeof(Move<Game>));
    for (const auto& move : moves)
      for (const auto number : move)
        if (!std::isfinite(number)) throw std::runtime_error("saved state is corrupt");
    begun_ = false;
    if (!begun) return;
    reset();
    for (const auto& move : moves) advance(move);
    moves_ = std::move(moves);
  }

  void render(std::uint8_t* rgb) const override { game_.render(rgb); }

 private:
  Move<Game> move_of(const Action& action) const {
    if (shown_.choice) return Game::move_of(static_cast<int>(action.get(*shown_.choice)));
    std::array<float, Game::kActions> numbers;
    action.copy(*shown_.move, numbers);
    Move<Game> move;
    std::ranges::copy(numbers, move.begin());
    return move;
  }

  StepResult advance(const Move<Game>& move) {
    StepResult result = game_.advance(move, random_);
    for (int frame = 1; frame < frame_skip_ && !result.terminated; ++frame) {
      const float earned = result.reward;
      result = game_.advance(move, random_);
      result.reward += earned;
    }
    return result;
  }

  Shown<Game> shown_;
  Game game_;
  int frame_skip_;                        // frames in a step
  NumpyGenerator random_{0}, start_{0};   // the present stream, and the one at the start of the episode
  std::vector<Move<Game>> moves_;         // since then
  bool begun_ = false;
};

template <class Game>
Simulator simulator(const typename Game::Options& options, int frame_skip = 1) {
  prepare();
  Simulator simulator;
  simulator.spec = Shown<Game>(options);
  simulator.frame_height = Game::kHeight;
  simulator.frame_width = Game::kWidth;
#if !defined(__SANITIZE_THREAD__)  // the sanitizer takes one stack for one thread
  simulator.group = kLanes;
  simulator.step_together = [](std::span<Turn* const> turns) {
    together(static_cast<int>(turns.size()), [&](int i) {
      Turn& turn = *turns[i];
      turn.attempt([&] { turn.result = turn.env->step(turn.action); });
    });
  };
#endif
  simulator.make = [=](int) { return std::make_unique<Episode<Game>>(options, frame_skip); };
  return simulator;
}

}  // namespace headrace::box2d
