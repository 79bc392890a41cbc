#include "raster.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "wide.hpp"

namespace headrace::box2d {
namespace {

constexpr int kRight = Raster::kWidth - 1, kTop = Raster::kHeight - 1;   // the last pixels
constexpr int kLow = Raster::kHeight - Raster::kScene;                   // the lowest row of the scene
constexpr int kOne = 0x4000;                                             // a whole pixel's share
constexpr int kBand = 10;                                                // rows

using Bytes = std::uint8_t __attribute__((vector_size(8)));
using Words = std::uint16_t __attribute__((vector_size(16)));

std::uint32_t packed(const Colour& colour) { return colour[0] | colour[1] << 8 | colour[2] << 16; }

// two pixels' channels
inline Words channels(const std::uint32_t* pixels) {
  Bytes bytes;
  std::memcpy(&bytes, pixels, sizeof bytes);
  return __builtin_convertvector(bytes, Words);
}

inline std::uint16_t part(std::uint16_t channel, std::uint16_t share) {
  return static_cast<std::uint16_t>(static_cast<std::uint32_t>(4 * channel) * share >> 16);
}

int reciprocal(int from, int to) { return 0x40000000 / (kOne * from / to); }

}  // namespace

void Raster::clear() { polygons_.clear(), rectangles_.clear(); }

Raster::Polygon* Raster::add(std::span<const Pixel> corners, const Colour& colour) {
  const auto [left, right] = std::ranges::minmax(corners, {}, &Pixel::x);
  const auto [low, high] = std::ranges::minmax(corners, {}, &Pixel::y);
  if (right.x < 0 || left.x > kRight || high.y < kLow || low.y > kTop) return nullptr;
  Polygon& polygon = polygons_.emplace_back();
  std::ranges::copy(corners, polygon.corners.begin());
  polygon.count = static_cast<int>(corners.size());
  polygon.low = low.y, polygon.high = high.y;
  polygon.colour = packed(colour);
  return &polygon;
}

void Raster::smooth_polygon(std::span<const Pixel> corners, const Colour& colour) {
  Polygon* polygon = add(corners, colour);
  if (!polygon) return;
  polygon->smooth = true;
  for (std::size_t i = 0; i < corners.size(); ++i)
    polygon->lines[i] = line(corners[i], corners[(i + 1) % corners.size()]);
}

void Raster::polygon(std::span<const Pixel> corners, const Colour& colour) { add(corners, colour); }

void Raster::rectangle(const Pixel& a, const Pixel& b, const Colour& colour) {
  rectangles_.push_back({{std::min(a.x, b.x), std::min(a.y, b.y)}, {std::max(a.x, b.x), std::max(a.y, b.y)},
                         packed(colour)});
}

// Cohen and Sutherland's, which leaves the point that lies outside first; false where nothing is inside
bool Raster::clip(Pixel& a, Pixel& b) {
  enum { kLeft = 1, kToRight = 2, kBelow = 4, kAbove = 8 };
  const auto outside = [](const Pixel& p) {
    return (p.x < 0 ? kLeft : p.x > kRight ? kToRight : 0) | (p.y < 0 ? kBelow : p.y > kTop ? kAbove : 0);
  };
  while (const int either = outside(a) | outside(b)) {
    (void)either;
    if (outside(a) & outside(b)) return false;
    if (!outside(a)) std::swap(a, b);
    const bool upright = a.x == b.x;
    const float slope = upright ? 1.0f : static_cast<float>(b.y - a.y) / static_cast<float>(b.x - a.x);
    const int where = outside(a);
    if (where & (kLeft | kToRight)) {
      const int x = where & kLeft ? 0 : kRight;
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

Raster::Line Raster::line(Pixel a, Pixel b) {
  Line line;
  if (!clip(a, b)) return line;
  line.first = a;
  line.top = a.y > b.y ? b : a, line.bottom = a.y > b.y ? a : b;
  const int across = std::abs(b.x - a.x), along = line.bottom.y - line.top.y;
  line.direction = line.bottom.x < line.top.x ? -1 : 1;
  line.length = std::max(across, along);
  if (across == 0 || along == 0) {
    line.kind = Line::kStraight;
  } else {
    line.kind = along > across ? Line::kSteep : Line::kFlat;
    line.slope = (std::min(across, along) << 16) / line.length;
  }
  return line;
}

inline void Raster::span(int from, int to, Rgbx colour) {
  if (from > to) std::swap(from, to);
  from = std::max(from, 0), to = std::min(to, kRight);
  if (from <= to) std::fill(row_.begin() + 1 + from, row_.begin() + 2 + to, colour);
}

inline void Raster::blend(int x, int weight, Rgbx colour) {
  constexpr Rgbx kRedBlue = 0xff00ff, kGreen = 0xff00;
  const Rgbx alpha = 255 * weight >> 8, rest = 256 - alpha;
  Rgbx& pixel = row_[x + 1];
  pixel = (((pixel & kRedBlue) * rest + (colour & kRedBlue) * alpha) >> 8 & kRedBlue) |
          (((pixel & kGreen) * rest + (colour & kGreen) * alpha) >> 8 & kGreen);
}

inline void Raster::paint(const Line& line, int y, Rgbx colour) {
  if (line.kind == Line::kNone || y < line.top.y || y > line.bottom.y) return;
  if (line.kind == Line::kStraight) return span(line.top.x, line.bottom.x, colour);
  if (y == line.first.y) row_[line.first.x + 1] = colour;
  const int down = y - line.top.y;
  if (line.kind == Line::kSteep) {
    if (down == 0 || down == line.length) return;
    const int moved = down * line.slope, x = line.top.x + line.direction * (moved >> 16), weight = moved >> 8 & 255;
    blend(x, 255 - weight, colour);
    blend(x + line.direction, weight, colour);
    return;
  }
  // pixels whose middle lies in this row, and those for which it lies in the row above
  const auto reached = [&](int rows) { return rows <= 0 ? 0 : ((rows << 16) + line.slope - 1) / line.slope; };
  const int from = std::max(1, reached(down - 1)), middle = std::max(1, reached(down));
  const int end = std::min(line.length, reached(down + 1));
  for (int k = from; k < end; ++k) {
    const int weight = k * line.slope >> 8 & 255;
    blend(line.top.x + line.direction * k, k < middle ? weight : 255 - weight, colour);
  }
}

void Raster::fill_smooth(const Polygon& polygon, int y) {
  std::array<int, kMostCorners> crossings;
  int count = 0;
  for (int i = 0; i < polygon.count; ++i) {
    const Pixel *a = &polygon.corners[i > 0 ? i - 1 : polygon.count - 1], *b = &polygon.corners[i];
    if (a->y == b->y) continue;
    if (a->y > b->y) std::swap(a, b);
    if ((y >= a->y && y < b->y) || (y == polygon.high && y > a->y && y <= b->y))
      crossings[count++] = 65536 * (y - a->y) / (b->y - a->y) * (b->x - a->x) + 65536 * a->x;
  }
  std::sort(crossings.begin(), crossings.begin() + count);
  for (int i = 0; i + 1 < count; i += 2) {
    const int from = crossings[i] + 1, to = crossings[i + 1] - 1;
    span((from >> 16) + (from >> 15 & 1), (to >> 16) + (to >> 15 & 1), polygon.colour);
  }
}

void Raster::fill(const Polygon& polygon, int y) {
  if (polygon.low == polygon.high) {
    const auto [left, right] = std::ranges::minmax(std::span(polygon.corners).first(polygon.count), {}, &Pixel::x);
    return span(left.x, right.x, polygon.colour);
  }
  std::array<int, kMostCorners> crossings;
  int count = 0;
  for (int i = 0; i < polygon.count; ++i) {
    const Pixel *a = &polygon.corners[i > 0 ? i - 1 : polygon.count - 1], *b = &polygon.corners[i];
    if (a->y == b->y) {
      if (y == a->y && y > polygon.low && y < polygon.high) span(a->x, b->x, polygon.colour);
      continue;
    }
    if (a->y > b->y) std::swap(a, b);
    if (!((y >= a->y && y < b->y) || (y == polygon.high && b->y == y))) continue;
    const float x = static_cast<float>((y - a->y) * (b->x - a->x)) / static_cast<float>(b->y - a->y);
    crossings[count] = static_cast<int>(count % 2 == 0 ? std::floor(x) : std::ceil(x)) + a->x;
    ++count;
  }
  std::sort(crossings.begin(), crossings.begin() + count);
  for (int i = 0; i + 1 < count; i += 2) span(crossings[i], crossings[i + 1], polygon.colour);
}

void Raster::paint_scene(int y) {
  row_.fill(0);
  for (const Polygon* polygon : near_) {
    if (y < polygon->low || y > polygon->high) continue;
    if (!polygon->smooth) {
      fill(*polygon, y);
      continue;
    }
    for (const Line& line : polygon->lines) paint(line, y, polygon->colour);
    fill_smooth(*polygon, y);
  }
}

void Raster::paint_panel(int y) {
  row_.fill(0);
  for (const auto& rectangle : rectangles_)
    if (y >= rectangle.from.y && y <= rectangle.to.y) span(rectangle.from.x, rectangle.to.x, rectangle.colour);
}

std::vector<Raster::Share> Raster::shares(int from, int to) {
  const int space = kOne * from / to;
  std::vector<Share> shares;
  Share share;
  for (int i = 0, left = space; i < from; ++i) {
    if (left > kOne) {
      ++share.count, left -= kOne;
      continue;
    }
    share.after = static_cast<std::uint16_t>(left);
    shares.push_back(share);
    share = {i + 1, 0, static_cast<std::uint16_t>(kOne - left), 0};
    left = space - share.before;
  }
  return shares;
}

void Raster::scale_row() {
  const Rgbx* row = row_.data() + 1;
  for (std::size_t i = 0; i < across_.size(); ++i) {
    const Share& share = across_[i];
    Words sum{};
    for (int j = 0; j < share.count / 2; ++j) sum += channels(row + share.first + 2 * j);
    const Rgbx last[2] = {share.count % 2 ? row[share.first + share.count - 1] : 0, 0};
    sum += channels(last);
    const Words end = channels(row + share.first + share.count);
    for (int c = 0; c < 4; ++c) whole_[4 * i + c] = sum[c] + sum[c + 4], shared_[4 * i + 4 + c] = end[c];
  }
  const std::uint32_t factor = reciprocal(kWidth, static_cast<int>(across_.size()));
  for (std::size_t i = 0; i < scaled_.size(); ++i) {
    const std::uint16_t sum = whole_[i] + part(shared_[i], before_[i]) + part(shared_[i + 4], after_[i]);
    scaled_[i] = static_cast<std::uint16_t>(sum * factor >> 16);
  }
}

void Raster::scale(std::uint8_t* rgb, int width, int height) {
  across_ = shares(kWidth, width);
  const auto down = shares(kHeight, height);
  const std::size_t size = 4 * width;
  for (auto* numbers : {&whole_, &before_, &after_, &scaled_, &sum_}) numbers->assign(size, 0);
  shared_.assign(size + 4, 0);
  for (std::size_t i = 0; i < size; ++i) before_[i] = across_[i / 4].before, after_[i] = across_[i / 4].after;
  const std::uint32_t factor = reciprocal(kHeight, height);
  int band = -1;
  for (int row = 0, to = 0; to < height; ++row) {
    if (row < kScene) {
      const int y = kTop - row;
      if (row / kBand != band) {
        band = row / kBand;
        near_.clear();
        for (const auto& polygon : polygons_)
          if (polygon.low <= y && polygon.high > y - kBand) near_.push_back(&polygon);
      }
      paint_scene(y);
    } else {
      paint_panel(row);
    }
    scale_row();
    const Share& share = down[to];
    if (row < share.first + share.count) {
      for (std::size_t i = 0; i < size; ++i) sum_[i] += scaled_[i];
      continue;
    }
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint16_t sum = sum_[i] + part(scaled_[i], share.after);
      if (i % 4 < 3) rgb[3 * (to * width + i / 4) + i % 4] = static_cast<std::uint8_t>(sum * factor >> 16);
      sum_[i] = part(scaled_[i], kOne - share.after);
    }
    ++to;
  }
}

}  // namespace headrace::box2d
