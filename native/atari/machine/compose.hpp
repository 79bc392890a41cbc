// From the objects' masks on a line to its colours, and to which objects met there.
#pragma once

#include <array>
#include <cstdint>

#include "line.hpp"

namespace headrace::atari {

enum Object : std::uint8_t { kPlayer0, kMissile0, kPlayer1, kMissile1, kBall, kPlayfield, kObjects };
enum Colour : std::uint8_t { kBackground, kPlayfieldColour, kPlayer0Colour, kPlayer1Colour };

enum class Priority {
  players,     // player and missile 0, player and missile 1, playfield and ball
  score,       // the same, but the playfield has and is with player 0 on the left half, player 1 on the right
  playfield,   // playfield and ball before both
};

struct Objects {
  std::array<Line, kObjects> lines;
  std::array<std::uint8_t, 4> colours;   // by Colour
  Priority priority;
};

// Colours pixels first to first + n of a line; up to 31 further bytes of `line` may be written. Answers the
// pairs of objects that share a pixel, as the chip's latches keep them.
using Compose = std::uint16_t (*)(const Objects& objects, int first, int n, std::uint8_t* line);

// the fastest that this processor has
Compose best_compose();

Compose plain_compose();   // the one for any processor

constexpr int kSlack = 32;

}  // namespace headrace::atari
