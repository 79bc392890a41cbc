#include "raster.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "wide.hpp"

namespace headrace::box2d {
namespace {

constexpr int kRight = Raster::kWidth - 1, kTop = Raster::kHeight - 1;   // the last pixels
constexpr int kWhole = 0x4000;                                           // a whole pixel's share

using Bytes = std::uint8_t __attribute__((vector_size(4)));
using Channels = std::uint32_t __attribute__((vector_size(16)));

std::uint32_t packed(const Colour& colour) { return colour[0] | colour[1] << 8 | colour[2] << 16; }

inline Channels channels(std::uint32_t pixel) {
  Bytes bytes;
  std::memcpy(&bytes, &pixel, sizeof bytes);
  return __builtin_convertvector(bytes, Channels);
}

inline std::uint32_t pixel_of(Channels channels) {
  const Bytes bytes = __builtin_convertvector(channels, Bytes);
  std::uint32_t pixel;
  std::memcpy(&pixel, &bytes, sizeof pixel);
  return pixel;
}

template <class Number>
inline Number part(Number channel, std::uint32_t share) { return 4 * channel * share >> 16; }

}  // namespace

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

Raster::Rgbx Raster::Axis::scaled(const Share& share, Rgbx colour) const {
  const Channels c = channels(colour);
  return pixel_of((share.count * c + part(c, share.before) + part(c, share.after)) * factor >> 16);
}

void Raster::prepare(int width, int height) {
  across_ = Axis(kWidth, width), down_ = Axis(kHeight, height);
  cells_.assign(width + 1, 0), sums_.assign(4 * width, 0);
  cell_.fill(static_cast<std::int16_t>(width));
  for (int i = 0; i < width; ++i) {
    const Share& share = across_.shares[i];
    std::fill_n(cell_.begin() + share.first, share.count + 1, static_cast<std::int16_t>(i));
  }
  even_ = true;
  for (Rgbx c = 0; c < 256; ++c)
    for (const Share& share : across_.shares)
      even_ &= across_.scaled(share, c) == across_.scaled(across_.shares[0], c);
}

void Raster::clear(int width, int height) {
  if (across_.shares.size() != static_cast<std::size_t>(width) || down_.shares.size() != static_cast<std::size_t>(height))
    prepare(width, height);
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
  rows_[kTop - y].push_back({static_cast<std::int16_t>(from), static_cast<std::int16_t>(to), 256, ink_.colour,
                             ink_.scaled});
}

inline void Raster::push_part(int y, int x, int weight) {
  const int alpha = 255 * weight >> 8;
  if (alpha == 0 || x < 0 || x > kRight) return;
  const auto at = static_cast<std::int16_t>(x);
  rows_[kTop - y].push_back({at, at, alpha, ink_.colour, 0});
}

// where edges cross each row, for which `crossing` gets an edge's upper and lower end
template <class Crossing>
inline void Raster::find_crossings(std::span<const Pixel> corners, Crossing crossing) {
  std::fill(count_.begin() + std::max(low_, kPanel), count_.begin() + std::min(high_, kTop) + 1, 0);
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Pixel *a = &corners[i > 0 ? i - 1 : corners.size() - 1], *b = &corners[i];
    if (a->y == b->y) continue;
    if (a->y > b->y) std::swap(a, b);
    const int end = std::min(b->y == high_ ? b->y + 1 : b->y, kTop + 1);   // the last row has edges' ends
    crossing(*a, *b, std::max(a->y, kPanel), end);
  }
}

void Raster::smooth_polygon(std::span<const Pixel> corners, const Colour& colour) {
  if (!begin(corners, colour)) return;
  for (std::size_t i = 0; i < corners.size(); ++i) line(corners[i], corners[(i + 1) % corners.size()]);
  find_crossings(corners, [this](const Pixel& a, const Pixel& b, int from, int end) {
    const int rows = b.y - a.y, step = 65536 / rows, step_rest = 65536 % rows;
    int share = 65536 * (from - a.y) / rows, rest = 65536 * (from - a.y) % rows;
    for (int y = from; y < end; ++y) {
      crossings_[y][count_[y]++] = share * (b.x - a.x) + 65536 * a.x;
      share += step, rest += step_rest;
      if (rest >= rows) rest -= rows, ++share;
    }
  });
  for (int y = std::max(low_, kPanel); y <= std::min(high_, kTop); ++y) {
    auto& crossings = crossings_[y];
    std::sort(crossings.begin(), crossings.begin() + count_[y]);
    for (int i = 0; i + 1 < count_[y]; i += 2) {
      const int from = crossings[i] + 1, to = crossings[i + 1] - 1;
      push(y, (from >> 16) + (from >> 15 & 1), (to >> 16) + (to >> 15 & 1));
    }
  }
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
    std::sort(crossings.begin(), crossings.begin() + count_[y]);
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

// Cohen's and Sutherland's way, which leaves the point first that was outside; false where nothing is inside
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

// Wu's line: in each step along its longer side two pixels share the colour
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

// a pixel and the one before it may differ
inline void Raster::mix(int x) {
  if (x > 0) mixed_[cell_[x] / 64] |= std::uint64_t{1} << cell_[x] % 64;
}

inline void Raster::paint(const Span& span) {
  mix(span.from), mix(span.to + 1);
  if (span.alpha < 256) {
    constexpr Rgbx kRedBlue = 0xff00ff, kGreen = 0xff00;
    const Rgbx alpha = span.alpha, rest = 256 - alpha;
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
      Channels sum = part(channels(pixels[-1]), share.before) + part(channels(pixels[share.count]), share.after);
      for (int j = 0; j < share.count; ++j) sum += channels(pixels[j]);
      cells_[i] = pixel_of(sum * across_.factor >> 16);
    }
}

HEADRACE_WIDE void Raster::scale(std::uint8_t* rgb) {
  std::ranges::fill(sums_, 0);
  auto share = down_.shares.begin();
  for (int row = 0; share != down_.shares.end(); ++row) {
    paint({0, kRight, 256, 0, 0});
    for (const Span& span : rows_[row]) paint(span);
    scale_row();
    std::uint8_t channels[4 * 1024];
    std::memcpy(channels, cells_.data(), sums_.size());
    if (row < share->first + share->count) {
      for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += channels[i];
      continue;
    }
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const std::uint32_t sum = sums_[i] + part<std::uint32_t>(channels[i], share->after);
      if (i % 4 < 3) *rgb++ = static_cast<std::uint8_t>(sum * down_.factor >> 16);
      sums_[i] = static_cast<std::uint16_t>(part<std::uint32_t>(channels[i], kWhole - share->after));
    }
    ++share;
  }
}

}  // namespace headrace::box2d
