// Lines of random objects, composed by each kind of vectors that this processor has, beside a rule that reads one pixel
// after the other. The test needs no cartridge and no emulator.
#include <cstdio>
#include <random>

#include "../atari/machine/compose.hpp"
#include "check.hpp"

using namespace headrace::atari;

namespace {

std::mt19937 generator(1);

unsigned below(unsigned n) { return generator() % n; }

Lines random_lines() {
  Lines lines;
  auto at = [] { return static_cast<int>(below(kPixels)); };
  auto graphics = [] { return static_cast<std::uint8_t>(below(3) ? generator() : 0); };
  lines[kPlayer0] = player_line(graphics(), static_cast<int>(below(8)), below(2), at());
  lines[kPlayer1] = player_line(graphics(), static_cast<int>(below(8)), below(2), at());
  if (below(2)) lines[kMissile0] = missile_line(static_cast<int>(below(8)), static_cast<int>(below(4)), at());
  if (below(2)) lines[kMissile1] = missile_line(static_cast<int>(below(8)), static_cast<int>(below(4)), at());
  if (below(2)) lines[kBall] = ball_line(static_cast<int>(below(4)), at());
  if (below(2)) lines[kPlayfield] = playfield_line(generator() & 0xfffff, below(2));
  return lines;
}

Colour colour_of(const Lines& lines, Priority priority, int x) {
  auto on = [&](Object object) { return (lines[object].from(x) & 1) != 0; };
  const bool back = on(kPlayfield) || on(kBall);
  bool front0 = on(kPlayer0) || on(kMissile0), front1 = on(kPlayer1) || on(kMissile1);
  if (priority == Priority::playfield && back) return kPlayfieldColour;
  if (priority == Priority::score && on(kPlayfield)) (x < kPixels / 2 ? front0 : front1) = true;
  return front0 ? kPlayer0Colour : front1 ? kPlayer1Colour : back ? kPlayfieldColour : kBackground;
}

std::uint16_t met_at(const Lines& lines, int x) {
  static constexpr Object pairs[15][2] = {{kMissile0, kPlayer1},  {kMissile0, kPlayer0},   {kMissile1, kPlayer0},
                                          {kMissile1, kPlayer1},  {kPlayer0, kPlayfield},  {kPlayer0, kBall},
                                          {kPlayer1, kPlayfield}, {kPlayer1, kBall},       {kMissile0, kPlayfield},
                                          {kMissile0, kBall},     {kMissile1, kPlayfield}, {kMissile1, kBall},
                                          {kBall, kPlayfield},    {kPlayer0, kPlayer1},    {kMissile0, kMissile1}};
  unsigned latches = 0;
  for (int i = 0; i < 15; ++i)
    latches |= static_cast<unsigned>(lines[pairs[i][0]].from(x) & lines[pairs[i][1]].from(x) & 1) << i;
  return static_cast<std::uint16_t>(latches);
}

}  // namespace

int main() {
  for (int trial = 0; trial < 20000; ++trial) {
    Objects objects{random_lines(), {2, 4, 6, 8}, {}};
    const auto priority = static_cast<Priority>(below(3));
    objects.layers.follow(objects.lines, priority);
    const int first = static_cast<int>(below(kPixels)),
              n = 1 + static_cast<int>(below(kPixels - static_cast<unsigned>(first)));
    std::uint16_t met = 0;
    for (int x = first; x < first + n; ++x) met |= met_at(objects.lines, x);
    CHECK((objects.layers.meeting ? meetings(objects, first, n) : 0) == met);
    for (const Vectors vectors : {Vectors::plain, best_vectors()}) {
      std::array<std::uint8_t, kPixels + kSlack> line{};
      composer(vectors)(objects, first, n, line.data());
      for (int x = first; x < first + n; ++x) CHECK(line[x] == objects.colours[colour_of(objects.lines, priority, x)]);
      for (int x = 0; x < first; ++x) CHECK(line[x] == 0);
    }
  }
  std::printf("lines are composed alike by plain code and by %s\n", best_vectors() == Vectors::avx2   ? "AVX2"
                                                                    : best_vectors() == Vectors::neon ? "NEON"
                                                                                                      : "plain code");
}
