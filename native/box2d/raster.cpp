#include "raster.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "wide.hpp"

namespace headrace::box2d {
namespace {

constexpr int kRight = Raster::kWidth - 1, kTop = Raster::kHeight - 1;   // the last pixels
constexpr int kWhole = 0x4000;                                           // a whole pixel's share

std::uint32_t packed(const Colour& colour) { return colour[0] | colour[1] << 8 | colour[2] << 16; }

template <class Numbers>
inline void sort(Numbers& numbers, int count) {
  if (count > 2) std::sort(numbers.begin(), numbers.begin() + count);
  else if (count == 2 && numbers[0] > numbers[1]) std::swap(numbers[0], numbers[1]);
}

inline std::uint32_t part(std::uint32_t channel, std::uint32_t share) { return 4 * channel * share >> 16; }

}  // namespace

// Sums of whole pixels, of red and blue in 16 bits each and of green, with parts of the pixels at both ends.
inline Raster::Rgbx Raster::Axis::mixed(const Share& share, Rgbx red_blue, Rgbx green, Rgbx before, Rgbx after) const {
  const auto channel = [&](std::uint32_t sum, int shift) {
    sum += part(before >> shift & 255, share.before) + part(after >> shift & 255, share.after);
    return (sum * factor >> 16) << shift;
  };
  return channel(red_blue & 0xffff, 0) | channel(green >> 8, 8) | channel(red_blue >> 16, 16);
}

Raster::Rgbx Raster::Axis::scaled(const Share& share, Rgbx colour) const {
  return mixed(share, share.count * (colour & kRedBlue), share.count * (colour & kGreen), colour, colour);
}

Raster::Axis::Axis(int from, int to) : factor(0x40000000 / (kWhole * from / to)) {
  const int space = kWhole * from / to;
  Share share;
  for (int i = 0, left = space; i < from; ++i) {
    if (left > kWhole) {
      ++share.count, left -= kWhole;
      continue;
    }
    share.after = left;
    shares.push_back(share);
    share = {i + 1, 0, kWhole - left, 0};
    left = space - share.before;
  }
}

void Raster::prepare(int width, int height) {
  across_ = Axis(kWidth, width), down_ = Axis(kHeight, height);
  cells_.assign(width + 1, 0), sums_.assign(4 * width, 0), line_.assign(4 * width, 0);
  cell_.fill(static_cast<std::int16_t>(width));
  for (int i = 0; i < width; ++i) {
    const Share& share = across_.shares[i];
    std::fill_n(cell_.begin() + share.first, share.count + 1, static_cast<std::int16_t>(i));
  }
  even_ = true;
  for (Rgbx c = 0; c < 256; ++c)
    for (const Share& share : across_.shares) even_ &= across_.scaled(share, c) == across_.scaled(across_.shares[0], c);
}

void Raster::clear(int width, int height) {
  if (std::ssize(across_.shares) != width || std::ssize(down_.shares) != height) prepare(width, height);
  for (auto& row : rows_) row.clear();
}

bool Raster::begin(std::span<const Pixel> corners, const Colour& colour) {
  const auto [left, right] = std::ranges::minmax(corners, {}, &Pixel::x);
  const auto [low, high] = std::ranges::minmax(corners, {}, &Pixel::y);
  if (right.x < 0 || left.x > kRight || high.y < kPanel || low.y > kTop) return false;
  low_ = low.y, high_ = high.y;
  ink_.colour = packed(colour);
  ink_.scaled = across_.scaled(across_.shares[0], ink_.colour);
  return true;
}

inline void Raster::push(int y, int from, int to) {
  if (from > to) std::swap(from, to);
  from = std::max(from, 0), to = std::min(to, kRight);
  if (from > to) return;
  rows_[kTop - y].push_back(
      {static_cast<std::int16_t>(from), static_cast<std::int16_t>(to), kOpaque, ink_.colour, ink_.scaled});
}

// Draws a part of a pixel, unless the polygon covers it.
inline void Raster::push_part(int y, int x, int weight) {
  const int alpha = 255 * weight >> 8;
  if (alpha == 0 || x < 0 || x > kRight || (x >= crossings_[y][0] && x <= crossings_[y][1] && count_[y] > 1)) return;
  const auto at = static_cast<std::int16_t>(x);
  rows_[kTop - y].push_back({at, at, alpha, ink_.colour, 0});
}

// Finds where edges cross each row; `crossing` gets the upper and lower end of an edge.
template <class Crossing>
inline void Raster::find_crossings(std::span<const Pixel> corners, Crossing crossing) {
  std::fill(count_.begin() + std::max(low_, kPanel), count_.begin() + std::min(high_, kTop) + 1, 0);
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Pixel *a = &corners[i > 0 ? i - 1 : corners.size() - 1], *b = &corners[i];
    if (a->y == b->y) continue;
    if (a->y > b->y) std::swap(a, b);
    const int end = std::min(b->y == high_ ? b->y + 1 : b->y, kTop + 1);  // the ends of edges belong to the last row
    crossing(*a, *b, std::max(a->y, kPanel), end);
  }
}

void Raster::smooth_polygon(std::span<const Pixel> corners, const Colour& colour) {
  if (!begin(corners, colour)) return;
  find_crossings(corners, [this](const Pixel& a, const Pixel& b, int from, int end) {
    const int rows = b.y - a.y, step = 65536 / rows, step_rest = 65536 % rows;
    int share = 65536 * (from - a.y) / rows, rest = 65536 * (from - a.y) % rows;
    for (int y = from; y < end; ++y) {
      crossings_[y][count_[y]++] = share * (b.x - a.x) + 65536 * a.x;
      share += step, rest += step_rest;
      if (rest >= rows) rest -= rows, ++share;
    }
  });
  const int from = std::max(low_, kPanel), to = std::min(high_, kTop);
  for (int y = from; y <= to; ++y) {
    auto& crossings = crossings_[y];
    sort(crossings, count_[y]);
    for (int i = 0; i < count_[y]; ++i) {
      const int place = i % 2 == 0 ? crossings[i] + 1 : crossings[i] - 1;
      crossings[i] = (place >> 16) + (place >> 15 & 1);
    }
  }
  for (std::size_t i = 0; i < corners.size(); ++i) line(corners[i], corners[(i + 1) % corners.size()]);
  for (int y = from; y <= to; ++y)
    for (int i = 0; i + 1 < count_[y]; i += 2) push(y, crossings_[y][i], crossings_[y][i + 1]);
}

void Raster::polygon(std::span<const Pixel> corners, const Colour& colour) {
  if (!begin(corners, colour)) return;
  if (low_ == high_) {
    const auto [left, right] = std::ranges::minmax(corners, {}, &Pixel::x);
    return push(low_, left.x, right.x);
  }
  find_crossings(corners, [this](const Pixel& a, const Pixel& b, int from, int end) {
    for (int y = from; y < end; ++y) {
      const float x = static_cast<float>((y - a.y) * (b.x - a.x)) / static_cast<float>(b.y - a.y);
      int& count = count_[y];
      crossings_[y][count] = static_cast<int>(count % 2 == 0 ? std::floor(x) : std::ceil(x)) + a.x;
      ++count;
    }
  });
  for (int y = std::max(low_, kPanel); y <= std::min(high_, kTop); ++y) {
    auto& crossings = crossings_[y];
    sort(crossings, count_[y]);
    for (int i = 0; i + 1 < count_[y]; i += 2) push(y, crossings[i], crossings[i + 1]);
  }
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Pixel &a = corners[i], &b = corners[(i + 1) % corners.size()];
    if (a.y == b.y && a.y > low_ && a.y < high_ && a.y >= kPanel && a.y <= kTop) push(a.y, a.x, b.x);
  }
}

void Raster::rectangle(const Pixel& a, const Pixel& b, const Colour& colour) {
  ink_.colour = packed(colour);
  ink_.scaled = across_.scaled(across_.shares[0], ink_.colour);
  const auto [top, bottom] = std::minmax(a.y, b.y);
  for (int y = std::max(top, kHeight - kPanel); y <= std::min(bottom, kTop); ++y) push(kTop - y, a.x, b.x);
}

// The algorithm of Cohen and Sutherland. Swaps the points if only the second is outside; returns false if nothing is
// inside.
bool Raster::clip(Pixel& a, Pixel& b) {
  enum { kToLeft = 1, kToRight = 2, kBelow = 4, kAbove = 8 };
  const auto outside = [](const Pixel& p) {
    return (p.x < 0 ? kToLeft : p.x > kRight ? kToRight : 0) | (p.y < 0 ? kBelow : p.y > kTop ? kAbove : 0);
  };
  while (outside(a) | outside(b)) {
    if (outside(a) & outside(b)) return false;
    if (!outside(a)) std::swap(a, b);
    const bool upright = a.x == b.x;
    const float slope = upright ? 1.0f : static_cast<float>(b.y - a.y) / static_cast<float>(b.x - a.x);
    const int where = outside(a);
    if (where & (kToLeft | kToRight)) {
      const int x = where & kToLeft ? 0 : kRight;
      a.y += static_cast<int>(static_cast<float>(x - a.x) * slope);
      a.x = x;
    } else {
      const int y = where & kAbove ? kTop : 0;
      if (!upright) a.x += static_cast<int>(static_cast<float>(y - a.y) / slope);
      a.y = y;
    }
  }
  return true;
}

// Wu's line: in each step along its longer side two pixels share the colour.
void Raster::line(Pixel a, Pixel b) {
  if (!clip(a, b)) return;
  const Pixel first = a;
  if (a.y > b.y) std::swap(a, b);
  const int direction = b.x < a.x ? -1 : 1, across = std::abs(b.x - a.x), along = b.y - a.y;
  if (across == 0 || along == 0) {
    for (int y = std::max(a.y, kPanel); y <= b.y; ++y) push(y, a.x, b.x);
    return;
  }
  if (first.y >= kPanel) push(first.y, first.x, first.x);
  if (along > across) {
    const int slope = (across << 16) / along;
    for (int k = std::max(1, kPanel - a.y); k < along; ++k) {
      const int moved = k * slope, x = a.x + direction * (moved >> 16), weight = moved >> 8 & 255;
      push_part(a.y + k, x, 255 - weight);
      push_part(a.y + k, x + direction, weight);
    }
    return;
  }
  const int slope = (along << 16) / across;
  for (int k = 1; k < across; ++k) {
    const int moved = k * slope, y = a.y + (moved >> 16), weight = moved >> 8 & 255, x = a.x + direction * k;
    if (y >= kPanel) push_part(y, x, 255 - weight);
    if (y + 1 >= kPanel && y < kTop) push_part(y + 1, x, weight);
  }
}

// Notes that a pixel and the one before it may differ.
inline void Raster::mix(int x) {
  if (x > 0) mixed_[cell_[x] / 64] |= std::uint64_t{1} << cell_[x] % 64;
}

inline void Raster::paint(const Span& span) {
  mix(span.from), mix(span.to + 1);
  if (span.alpha < kOpaque) {
    const Rgbx alpha = span.alpha, rest = kOpaque - alpha;
    Rgbx& pixel = row_[span.from + 1];
    pixel = (((pixel & kRedBlue) * rest + (span.colour & kRedBlue) * alpha) >> 8 & kRedBlue) |
            (((pixel & kGreen) * rest + (span.colour & kGreen) * alpha) >> 8 & kGreen);
    return;
  }
  std::fill(row_.begin() + 1 + span.from, row_.begin() + 2 + span.to, span.colour);
  const int begin = span.from > 0 ? cell_[span.from] + 1 : 0, end = cell_[span.to + 1];
  if (begin >= end) return;
  std::fill(cells_.begin() + begin, cells_.begin() + end, span.scaled);
  for (int word = begin / 64; 64 * word < end; ++word) {
    const int first = std::max(begin - 64 * word, 0), last = std::min(end - 64 * word, 64);
    mixed_[word] &= ~(~std::uint64_t{0} >> (64 - (last - first)) << first);
  }
}

inline void Raster::scale_row() {
  const int width = static_cast<int>(across_.shares.size());
  for (int word = 0; 64 * word < width; ++word)
    for (std::uint64_t mixed = even_ ? mixed_[word] : ~std::uint64_t{0}; mixed; mixed &= mixed - 1) {
      const int i = 64 * word + std::countr_zero(mixed);
      if (i >= width) break;
      const Share& share = across_.shares[i];
      const Rgbx* pixels = row_.data() + 1 + share.first;
      Rgbx red_blue = 0, green = 0;
      for (int j = 0; j < share.count; ++j) red_blue += pixels[j] & kRedBlue, green += pixels[j] & kGreen;
      cells_[i] = across_.mixed(share, red_blue, green, pixels[-1], pixels[share.count]);
    }
}

HEADRACE_WIDE void Raster::scale(std::uint8_t* rgb) {
  const std::size_t size = sums_.size();
  std::uint16_t* __restrict sums = sums_.data();
  std::uint8_t* __restrict line = line_.data();
  const auto* channels = reinterpret_cast<const std::uint8_t*>(cells_.data());
  const std::uint32_t factor = down_.factor;
  std::fill_n(sums, size, 0);
  auto share = down_.shares.begin();
  for (int row = 0; share != down_.shares.end(); ++row) {
    const auto& spans = rows_[row];
    if (row == 0 || spans != rows_[row - 1]) {
      if (spans.empty() || spans[0].from > 0 || spans[0].to < kRight) paint({0, kRight, kOpaque, 0, 0});
      for (const Span& span : spans) paint(span);
      scale_row();
    }
    if (row < share->first + share->count) {
      for (std::size_t i = 0; i < size; ++i) sums[i] += channels[i];
      continue;
    }
    const std::uint32_t after = share->after, before = kWhole - after;
    for (std::size_t i = 0; i < size; ++i) {
      line[i] = static_cast<std::uint8_t>((sums[i] + part(channels[i], after)) * factor >> 16);
      sums[i] = static_cast<std::uint16_t>(part(channels[i], before));
    }
    for (std::size_t i = 0; i < size; i += 4, rgb += 3) rgb[0] = line[i], rgb[1] = line[i + 1], rgb[2] = line[i + 2];
    ++share;
  }
}

}  // namespace headrace::box2d
