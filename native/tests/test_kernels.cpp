// The C++ functions of kernels, which stand beside their Python modules, stay within their arrays; run this under the
// address sanitizer. tests/pool/test_kernels_cpp.py compares their results with those of their Python bodies.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.hpp"
#include "headrace/envs/boards/chess.h"
#include "headrace/envs/craftax/classic.h"
#include "headrace/envs/craftax/mobs.h"
#include "headrace/envs/craftax/world.h"
#include "headrace/envs/minatar/common.h"
#include "headrace/envs/minigrid/pixels.h"
#include "headrace/envs/minigrid/sight.h"
#include "headrace/pool/executors/kernels/agents.h"
#include "headrace/pool/executors/kernels/warps.h"

namespace {

using Bytes = std::vector<unsigned char>;
using Place = wp::vec_t<2, int>;

std::mt19937_64 random_numbers(1);

int below(int n) { return static_cast<int>(random_numbers() % static_cast<unsigned>(n)); }

template <class T, class... Shape>
wp::array_t<T> array(std::vector<T>& numbers, Shape... shape) {
  CHECK(numbers.size() == static_cast<std::size_t>((1 * ... * shape)));
  return wp::array_t<T>(numbers.data(), shape...);
}

void rows_of_bits_become_cells() {
  Bytes screen(2 * 10 * 10, 9);
  for (int bits = 0; bits < 1024; ++bits) {
    headrace::minatar::show_row(array(screen, 2, 10, 10), 1, 9, bits);
    for (int x = 0; x < 10; ++x) CHECK(screen[static_cast<std::size_t>(190 + x)] == (bits >> x & 1));
  }
  CHECK(std::count(screen.begin(), screen.end(), 9) == 190);
}

void planes_are_filled_from_the_top() {
  Bytes cells(64, 9);
  const std::uint64_t bits = random_numbers();
  headrace::chess::fill(array(cells, 1, 1, 1, 64), 0, 0, 0, bits);
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) CHECK(cells[static_cast<std::size_t>(8 * (7 - y) + x)] == (bits >> (8 * y + x) & 1));
  bool mask[3][5] = {{true, true, true, true, true}, {true, true, true, true, true}, {true, true, true, true, true}};
  headrace::chess::clear(wp::array_t<bool>(&mask[0][0], 1, 3, 5), 0, 1);
  for (int i = 0; i < 5; ++i) CHECK(mask[0][i] && !mask[1][i] && mask[2][i]);
}

void worlds_have_blocks_only() {
  std::vector<wp::vec_t<2, float>> gradients(9 * 33, wp::vec_t<2, float>(0.6f, 0.8f));
  for (auto& gradient : gradients)
    gradient = {static_cast<float>(below(100)) / 100, static_cast<float>(below(100)) / 100};
  Bytes cells(64 * 64, 255);
  const auto noise = array(gradients, 1, 9 * 33);
  const auto map = array(cells, 1, 64, 64);
  const wp::vec_t<3, float> levels(0.4f, 0.6f, 0.7f);
  headrace::craftax::stamp(noise, map, 0, 16, 16, 0.0f, true, levels, 0);
  headrace::craftax::stamp(noise, map, 0, 8, 2, 0.0f, false, levels, 4);
  headrace::craftax::stamp(noise, map, 0, 4, 4, 0.0f, false, levels, 5);
  headrace::craftax::lay_blocks(map, 0, 1234, 636);
  for (auto cell : cells) CHECK(cell >= headrace::craftax::GRASS && cell <= headrace::craftax::LAVA);
}

void mobs_come_on_their_blocks() {
  Bytes cells(64 * 64);
  for (auto& cell : cells) cell = static_cast<unsigned char>(below(40) ? 3 : 2);
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column < 64; ++column) {
      const int at = headrace::craftax::find_place(array(cells, 1, 64, 64), 0, row, column, 2, 2, 3, random_numbers());
      if (at < 0) continue;
      const int steps = std::abs(at / 64 - row) + std::abs(at % 64 - column);
      CHECK(cells[static_cast<std::size_t>(at)] == 2 && steps > 3 && steps < 14);
    }
}

void views_show_one_block_in_each_place() {
  Bytes cells(64 * 64);
  for (auto& cell : cells) cell = static_cast<unsigned char>(2 + below(14));
  std::vector<float> obs(1345, 5.0f);
  for (int top : {-3, 0, 30, 60})
    for (int left : {-4, 0, 30, 59}) {
      headrace::craftax::show_blocks(array(obs, 1, 1345), 0, array(cells, 1, 64, 64), 0, top, left);
      for (std::size_t place = 0; place < 63; ++place) {
        const float* first = obs.data() + 21 * place;
        CHECK(std::count(first, first + 21, 1.0f) == 1 && std::count(first, first + 21, 0.0f) == 20);
      }
      CHECK(std::count(obs.begin() + 63 * 21, obs.end(), 0.0f) == 22);
    }
}

void mobs_of_the_next_environment_are_fetched() {
  Bytes cells(2 * 64 * 64);
  std::vector<Place> places(2 * 11, Place(70, -1)), players(2, Place(-1, 63));
  struct {
    wp::array_t<unsigned char> cells;
    wp::array_t<Place> places, player;
  } state{array(cells, 2, 64, 64), array(places, 2, 11), array(players, 2)};
  for (int env : {0, 1}) headrace::craftax::fetch_next(state, env);
}

void walls_hide_what_is_behind_them() {
  const int width = 5, height = 4;
  Bytes cells(width * height, 1), spread(128 * 128), image(7 * 7 * 3, 9);
  for (int clear = 0; clear < 128; ++clear)
    for (int lit = 0; lit < 128; ++lit) {
      int through = lit & clear;
      for (int i = 0; i < 6; ++i) through |= (through << 1 | through >> 1) & clear;
      spread[static_cast<std::size_t>(clear << 7 | lit)] =
          static_cast<unsigned char>((through | through << 1 | through >> 1) & 127);
    }
  std::vector<int> x(1), y(1), direction(1), carrying(1, 1);
  struct {
    wp::array_t<unsigned char> cells, spread;
    wp::array_t<int> x, y, direction, carrying;
    int width, height;
    bool see_through;
  } state{array(cells, 1, width * height),
          array(spread, 128 * 128),
          array(x, 1),
          array(y, 1),
          array(direction, 1),
          array(carrying, 1),
          width,
          height,
          false};
  for (x[0] = 0; x[0] < width; ++x[0])
    for (y[0] = 0; y[0] < height; ++y[0])
      for (direction[0] = 0; direction[0] < 4; ++direction[0]) {
        headrace::minigrid::show_view(state, 0, array(image, 7, 7, 3));
        const int room[] = {width - 1 - x[0], height - 1 - y[0], x[0], y[0]};
        const int ahead = room[direction[0]], right = room[(direction[0] + 1) % 4], left = room[(direction[0] + 3) % 4];
        for (int column = 0; column < 7; ++column)
          for (int row = 0; row < 7; ++row) {
            const int far = 6 - row, aside = column - 3;
            const bool inside = far <= ahead && aside <= right && -aside <= left;
            const int kind = image[static_cast<std::size_t>(21 * column + 3 * row)];
            CHECK(inside ? kind == 1 : kind == 2 || kind == 0);
            if (far > ahead + 1) CHECK(kind == 0);
          }
      }
  CHECK(headrace::minigrid::on_cpu());
}

void tiles_fill_a_picture() {
  for (int side : {8, 5}) {
    Bytes picture(static_cast<std::size_t>(4 + 3 * 6 * side * 5 * side), 9);
    Bytes tiles(static_cast<std::size_t>(30 * 3 * side * side));
    for (std::size_t i = 0; i < tiles.size(); ++i)
      tiles[i] = static_cast<unsigned char>(i / static_cast<std::size_t>(3 * side * side));
    for (int cell = 0; cell < 30; ++cell)
      headrace::minigrid::put_tile(array(picture, static_cast<int>(picture.size())), 4, cell % 5, cell / 5, 5, 6,
                                   array(tiles, 30, 3, side, side), cell);
    for (int i = 0; i < 4; ++i) CHECK(picture[static_cast<std::size_t>(i)] == 9);
    for (int i = 0; i < 3 * 30 * side * side; ++i) {
      const int column = i % (5 * side) / side, row = i / (5 * side) % (6 * side) / side;
      CHECK(picture[static_cast<std::size_t>(4 + i)] == 5 * row + column);
    }
  }
}

void threads_of_a_cpu_write_for_themselves() {
  std::vector<float> numbers(2 * 3 * 8);
  headrace::kernels::coalesced_store(array(numbers, 2, 3, 8), 1, 2, 1, wp::vec_t<7, float>(3.0f));
  CHECK(std::count(numbers.begin(), numbers.end() - 7, 0.0f) == 41 &&
        std::count(numbers.end() - 7, numbers.end(), 3.0f) == 7);
  std::vector<int> lowest(2, 5);
  headrace::kernels::warp_atomic_min(array(lowest, 2), 1, 3);
  headrace::kernels::warp_atomic_min(array(lowest, 2), 1, 4);
  CHECK(lowest[0] == 5 && lowest[1] == 3);
  headrace::kernels::barrier(1);
}

}  // namespace

int main() {
  rows_of_bits_become_cells();
  planes_are_filled_from_the_top();
  worlds_have_blocks_only();
  mobs_come_on_their_blocks();
  views_show_one_block_in_each_place();
  mobs_of_the_next_environment_are_fetched();
  walls_hide_what_is_behind_them();
  tiles_fill_a_picture();
  threads_of_a_cpu_write_for_themselves();
}
