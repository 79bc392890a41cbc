// Composes a line's colours from the objects' masks, and finds the objects that met there.
#pragma once

#include <array>
#include <cstdint>

#include "line.hpp"

namespace headrace::atari {

enum Object : std::uint8_t { kPlayer0, kMissile0, kPlayer1, kMissile1, kBall, kPlayfield, kObjects };
enum Colour : std::uint8_t { kBackground, kPlayfieldColour, kPlayer0Colour, kPlayer1Colour };

enum class Priority {
  players,     // player and missile 0, player and missile 1, playfield and ball
  score,       // the same, but the playfield belongs to player 0 on the left half, to player 1 on the right
  playfield,   // playfield and ball come before both
};

using Lines = std::array<Line, kObjects>;

// A whole line, by colour: the pixels of each colour but the background's, no pixel in two of them. They follow from
// the objects' masks and change with these, not with each few pixels that are drawn.
struct Layers {
  Line playfield, player0, player1;
  Line shared;                 // pixels of two objects or more
  bool players = false;        // some pixels have a player's colour
  bool meeting = false;        // some pixels are shared

  void follow(const Lines& lines, Priority priority);
};

struct Objects {
  Lines lines;
  std::array<std::uint8_t, 4> colours;   // by Colour
  Layers layers;
};

// Colours pixels first to first + n of a line; up to 31 further bytes of `line` may be written.
using Compose = void (*)(const Objects& objects, int first, int n, std::uint8_t* line);

enum class Vectors { plain, avx2, neon };

Vectors best_vectors();   // returns the best that this processor has
Compose composer(Vectors vectors);

// Returns the pairs of objects that share one of these pixels, as the chip's latches keep them.
std::uint16_t meetings(const Objects& objects, int first, int n);

constexpr int kSlack = 32;

}  // namespace headrace::atari
