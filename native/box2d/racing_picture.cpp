// The picture of CarRacing: the field, the road and the car as seen by a camera that turns with the car, and a panel.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <string_view>

#include "car_racing.hpp"

namespace headrace::box2d {
namespace {

constexpr double kWindowWidth = Raster::kWidth, kWindowHeight = Raster::kHeight;
constexpr double kZoom = 2.7, kGrass = kPlayfield / 20;
constexpr Colour kHullColour{204, 0, 0}, kTyre{0, 0, 0}, kRim{77, 77, 77};
constexpr Colour kWhite{255, 255, 255}, kBlue{0, 0, 255}, kViolet{51, 0, 255}, kGreen{0, 255, 0}, kRed{255, 0, 0};

// Digits 0 to 9 side by side, in cells of 3 x 3 pixels: our own shapes, which look like those of pygame's font when
// they are scaled down.
constexpr int kCell = 3, kColumns = 7, kAdvance = 23;
constexpr std::array<std::string_view, 10> kDigits{
    " #####     ##    #####   #####      ##   ######  #####  #######  #####   ##### ",
    "##   ##  ####   ##   ## ##   ##    ###   ##     ##   ## ####### ##   ## ##   ##",
    "##   ##    ##        ##      ##   ####  ##      ##           ## ##   ## ##   ##",
    "##   ##    ##        ##      ##  ## ##  ######  ## ###      ##  ##   ## ##   ##",
    "##   ##    ##       ##    ####   ## ##  ##   ## ###  ##     ##   #####  ##   ##",
    "##   ##    ##      ##     ####  ##  ##       ## ##   ##    ##    #####  ##  ###",
    "##   ##    ##     ##         ## #######      ## ##   ##    ##   ##   ##  ### ##",
    "##   ##    ##    ##          ## ####### ##   ## ##   ##   ##    ##   ##      ##",
    "##   ##    ##   ##      ##   ##     ##  ##   ## ##   ##   ##    ##   ## ##   ##",
    " #####     ##   #######  #####      ##   #####   #####    ##     #####   ##### ",
};
// The pixels by which the font puts one digit farther after another than other digits, and 4 more.
constexpr std::array<std::string_view, 10> kApart{"6477474467", "4044444144", "7446447467", "6467476477", "7467477487",
                                                  "4447474467", "6447476477", "4444144444", "6467476467", "4466464446"};

void draw_score(Raster& raster, double score) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%04.0f", score);
  const std::string_view shown(text.data());
  const auto step = [&](std::size_t i) {           // from a character to the next
    if (shown[i] == '-') return 13;
    return i + 1 < shown.size() ? kAdvance + kApart[shown[i] - '0'][shown[i + 1] - '0'] - '4' : kAdvance;
  };
  int width = 0;
  for (std::size_t i = 0; i < shown.size(); ++i) width += step(i);
  int left = 60 - width / 2;
  constexpr int kTop = 730, kMinus = 746;
  for (std::size_t i = 0; i < shown.size(); left += step(i), ++i) {
    if (shown[i] == '-') raster.rectangle({left + 1, kMinus}, {left + 11, kMinus + 5}, kWhite);
    for (int cell = 0; shown[i] != '-' && cell < kColumns * static_cast<int>(kDigits.size()); ++cell) {
      const int column = cell % kColumns, row = cell / kColumns, x = left + 1 + kCell * column, y = kTop + kCell * row;
      if (kDigits[row][(kColumns + 1) * (shown[i] - '0') + column] == '#')
        raster.rectangle({x, y}, {x + kCell - 1, y + kCell - 1}, kWhite);
    }
  }
}

}  // namespace

// The pixels of the scene for places on the field.
class Camera {
 public:
  Camera(const b2Body& hull, double time) {
    turn(-static_cast<double>(hull.GetAngle()));
    zoom_ = 0.1 * kTrackScale * std::max(1 - time, 0.0) + kZoom * kTrackScale * std::min(time, 1.0);
    place_ = {hull.GetPosition().x, hull.GetPosition().y};
    const Point scroll = turned({-place_.x * zoom_, -place_.y * zoom_});
    moved_ = {kWindowWidth / 2 + scroll.x, kWindowHeight / 4 + scroll.y};
  }

  Pixel operator()(const Point& p) const {
    const Point q = turned(p);
    return {static_cast<int>(q.x * zoom_ + moved_.x), static_cast<int>(q.y * zoom_ + moved_.y)};
  }

  template <std::size_t n>
  std::array<Pixel, n> operator()(const std::array<Point, n>& points) const {
    std::array<Pixel, n> pixels;
    std::ranges::transform(points, pixels.begin(), std::ref(*this));
    return pixels;
  }

  // Returns whether a thing of this size may be seen there.
  bool sees(const Point& p, double size) const {
    constexpr double kFar = 800;                   // from the car to a corner of the window, in pixels
    const double x = p.x - place_.x, y = p.y - place_.y, far = kFar / zoom_ + size;
    return x * x + y * y < far * far;
  }

 private:
  // Turns a vector as pygame's Vector2.rotate_rad does: exactly for multiples of a right angle.
  void turn(double angle) {
    constexpr double kTurn = 2 * std::numbers::pi, kQuarter = std::numbers::pi / 2, kNear = 1e-6;
    angle = std::fmod(angle, kTurn);
    if (angle < 0) angle += kTurn;
    cos_ = std::cos(angle), sin_ = std::sin(angle);
    if (std::fmod(angle + kNear, kQuarter) < 2 * kNear) cos_ = std::round(cos_), sin_ = std::round(sin_);
  }

  Point turned(const Point& p) const { return {cos_ * p.x - sin_ * p.y, sin_ * p.x + cos_ * p.y}; }

  double cos_ = 1, sin_ = 0, zoom_ = 1;
  Point place_, moved_;
};

namespace {

Colour shade(const std::array<double, 3>& colour, double lighter) {
  Colour rounded;
  std::ranges::transform(colour, rounded.begin(), [&](double c) { return static_cast<std::uint8_t>(c + lighter); });
  return rounded;
}

Point in_world(const b2Body& body, const b2Vec2& p) {
  const b2Vec2 q = b2Mul(body.GetTransform(), p);
  return {q.x, q.y};
}

void draw_body(Raster& raster, const Camera& camera, const b2Body& body, const Colour& colour) {
  for (const b2Fixture* fixture = body.GetFixtureList(); fixture; fixture = fixture->GetNext()) {
    const auto& shape = static_cast<const b2PolygonShape&>(*fixture->GetShape());
    std::array<Pixel, b2_maxPolygonVertices> corners;
    for (int i = 0; i < shape.m_count; ++i) corners[i] = camera(in_world(body, shape.m_vertices[i]));
    raster.polygon(std::span(corners).first(shape.m_count), colour);
  }
}

// A mark on the tyre, drawn while it is on the upper side.
void draw_rim(Raster& raster, const Camera& camera, const Wheel& wheel) {
  const double begin = wheel.phase, end = wheel.phase + 1.2;
  double from = std::cos(begin), to = std::cos(end);
  if (std::sin(begin) > 0 && std::sin(end) > 0) return;
  if (std::sin(begin) > 0) from = from > 0 ? 1 : from < 0 ? -1 : 0;
  if (std::sin(end) > 0) to = to > 0 ? 1 : to < 0 ? -1 : 0;
  constexpr double kWidth = Car::kWheelWidth, kRadius = Car::kWheelRadius, kSize = Car::kSize;
  const Quad rim{{{-kWidth * kSize, kRadius * from * kSize},
                  {kWidth * kSize, kRadius * from * kSize},
                  {kWidth * kSize, kRadius * to * kSize},
                  {-kWidth * kSize, kRadius * to * kSize}}};
  std::array<Pixel, 4> corners;
  std::ranges::transform(rim, corners.begin(), [&](const Point& p) { return camera(in_world(*wheel.body, p)); });
  raster.polygon(corners, kRim);
}

}  // namespace

void CarRacing::draw_field(Raster& raster, const Camera& camera) const {
  raster.smooth_polygon(camera(Quad{{{kPlayfield, kPlayfield},
                                     {kPlayfield, -kPlayfield},
                                     {-kPlayfield, -kPlayfield},
                                     {-kPlayfield, kPlayfield}}}),
                        shade(field_colour_, 0));
  const Colour grass = shade(grass_colour_, 0);
  for (int x = -20; x < 20; x += 2)
    for (int y = -20; y < 20; y += 2) {
      if (!camera.sees({kGrass * x, kGrass * y}, 2 * kGrass)) continue;
      raster.smooth_polygon(camera(Quad{{{kGrass * x + kGrass, kGrass * y + 0},
                                         {kGrass * x + 0, kGrass * y + 0},
                                         {kGrass * x + 0, kGrass * y + kGrass},
                                         {kGrass * x + kGrass, kGrass * y + kGrass}}}),
                            grass);
    }
  for (std::size_t i = 0; i < road_.size(); ++i) {
    if (!camera.sees(road_[i].road[0], 3 * kGrass)) continue;
    const double lighter = tiles_[i].touched ? 0 : 0.01 * static_cast<double>(i % 3) * 255;
    raster.smooth_polygon(camera(road_[i].road), shade(road_colour_, lighter));
    if (road_[i].kerb) raster.smooth_polygon(camera(*road_[i].kerb), i % 2 == 0 ? kWhite : kRed);
  }
}

void CarRacing::draw_car(Raster& raster, const Camera& camera) const {
  for (const auto& wheel : car_.wheels()) {
    draw_body(raster, camera, *wheel.body, kTyre);
    draw_rim(raster, camera, wheel);
  }
  draw_body(raster, camera, *car_.hull(), kHullColour);
}

void CarRacing::draw_panel(Raster& raster) const {
  constexpr double kAcross = kWindowWidth / 40, kDown = kWindowHeight / 40;
  const auto bar = [&](double value, double left, double top, double right, double bottom, const Colour& colour) {
    if (std::abs(value) <= 1e-4) return;
    const Pixel from{static_cast<int>(left), static_cast<int>(top)};
    raster.rectangle(from, {static_cast<int>(right), static_cast<int>(bottom)}, colour);
  };
  const auto upright = [&](int place, double value, double height, const Colour& colour) {
    bar(value, place * kAcross, kWindowHeight - (kDown + kDown * height), (place + 1) * kAcross, kWindowHeight - kDown,
        colour);
  };
  const auto flat = [&](int place, double value, double length, const Colour& colour) {
    bar(value, place * kAcross, kWindowHeight - 4 * kDown, (place + length) * kAcross, kWindowHeight - 2 * kDown,
        colour);
  };
  const b2Body& hull = *car_.hull();
  const double x = hull.GetLinearVelocity().x, y = hull.GetLinearVelocity().y, speed = std::sqrt(x * x + y * y);
  upright(5, speed, 0.02 * speed, kWhite);
  const auto& wheels = car_.wheels();
  for (int i = 0; i < 4; ++i) upright(7 + i, wheels[i].omega, 0.01 * wheels[i].omega, i < 2 ? kBlue : kViolet);
  const double steered = wheels[0].joint->GetJointAngle(), turns = hull.GetAngularVelocity();
  flat(20, steered, -10.0 * steered, kGreen);
  flat(30, turns, -0.8 * turns, kRed);
  draw_score(raster, shown_);
}

void CarRacing::observe(std::span<std::uint8_t> out) const {
  if (!options_.channels_first) return draw(out.data(), kSide, kSide);
  constexpr int kPixels = kSide * kSide;
  std::array<std::uint8_t, kObserved> rgb{};
  draw(rgb.data(), kSide, kSide);
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < kPixels; ++i)
      out[static_cast<std::size_t>(c * kPixels + i)] = rgb[static_cast<std::size_t>(3 * i + c)];
}

void CarRacing::draw(std::uint8_t* rgb, int width, int height) const {
  if (!car_.hull()) return;
  thread_local Raster raster;
  raster.clear(width, height);
  const Camera camera(*car_.hull(), time_);
  draw_field(raster, camera);
  draw_car(raster, camera);
  draw_panel(raster);
  raster.scale(rgb);
}

}  // namespace headrace::box2d
