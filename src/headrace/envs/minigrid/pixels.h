// Copies a tile into a picture: the body of two functions in pixels.py, for CPUs and GPUs. Debug mode uses their Python
// bodies, which have the same results.
#pragma once

#include <warp/native/builtin.h>

namespace headrace::minigrid {

inline void put_tile(wp::array_t<unsigned char> picture, int first, int x, int y, int width, int height,
                     wp::array_t<unsigned char> tiles, int number) {
  const int size = tiles.shape[2], line = width * size;
  const unsigned char* from = &wp::index(tiles, number, 0, 0, 0);
  unsigned char* to = picture.data + first + y * size * line + x * size;
  for (int color = 0; color < 3; ++color, to += (height - 1) * size * line)
    for (int i = 0; i < size; ++i, to += line, from += size) {
      if (size == 8) memcpy(to, from, 8);
      else memcpy(to, from, size);
    }
}

}  // namespace headrace::minigrid
