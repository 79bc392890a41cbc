// The places where the emulator keeps a picture chip's state, and its controllers.
#include <algorithm>
#include <cstring>

#include "ale/emucore/Console.hxx"
#include "ale/emucore/Control.hxx"
#include "ale/emucore/TIA.hxx"
#include "chip.hpp"

namespace ale::stella {

// The emulator lets its debugger into the chip. This build has no debugger; this class comes in its place.
class TIADebug {
 public:
  using Chip = headrace::atari::Chip;
  using Shown = Chip::Shown;

  static void take(Chip& chip, const TIA& tia);
  static void give(Chip& chip, TIA& tia);

 private:
  template <class Table>
  static long offset(const Table& table, const std::uint8_t* mask) {
    return mask - reinterpret_cast<const std::uint8_t*>(&table);
  }

  static Shown player(const std::uint8_t* mask);
  static Shown missile(const std::uint8_t* mask);
  static Shown ball(const std::uint8_t* mask);
};

namespace {

// The emulator's masks have two lines of 160 pixels each, by the lower two bits of a position; a mask in use begins at
// the pixel by which the object lies at its place.
constexpr int kRow = 2 * headrace::atari::kPixels;

std::int16_t at_of(int align, int column) {
  return static_cast<std::int16_t>((headrace::atari::kPixels - column) | align);
}
int column_of(int at) { return headrace::atari::kPixels - (at & 0xfc); }

}  // namespace

TIADebug::Shown TIADebug::player(const std::uint8_t* mask) {
  const auto i = static_cast<int>(offset(TIA::ourPlayerMaskTable, mask));
  const int row = i / kRow;
  return {at_of(row / 16, i % kRow), static_cast<std::uint8_t>(row % 8), 0, row / 8 % 2 != 0, false};
}

TIADebug::Shown TIADebug::missile(const std::uint8_t* mask) {
  if (mask == TIA::ourDisabledMaskTable) return {0, 0, 0, false, true};
  const auto i = static_cast<int>(offset(TIA::ourMissleMaskTable, mask));
  const int row = i / kRow;
  return {at_of(row / 32, i % kRow), static_cast<std::uint8_t>(row / 4 % 8), static_cast<std::uint8_t>(row % 4), false,
          false};
}

TIADebug::Shown TIADebug::ball(const std::uint8_t* mask) {
  const auto i = static_cast<int>(offset(TIA::ourBallMaskTable, mask));
  const int row = i / kRow;
  return {at_of(row / 4, i % kRow), 0, static_cast<std::uint8_t>(row % 4), false, false};
}

void TIADebug::take(Chip& c, const TIA& t) {
  using namespace headrace::atari;
  c.console_ = &t.myConsole;
  c.stale_ = ~0u;
  c.finished_ = false;
  c.frame_begin_ = t.myClockWhenFrameStarted;
  c.display_begin_ = t.myClockStartDisplay;
  c.display_end_ = t.myClockStopDisplay;
  c.last_clock_ = c.frame_begin_ + Chip::kClocks * (t.myMaximumNumberOfScanlines + 1);
  c.sync_end_ = t.myVSYNCFinishClock;
  c.drawn_ = c.due_ = c.quiet_ = t.myClockAtLastUpdate;
  c.left_ = t.myClocksToEndOfScanLine;
  c.phase_ = static_cast<std::uint32_t>(-(c.frame_begin_ / 3));
  const int column = std::max(0, Chip::kClocks - c.left_ - Chip::kBlank);
  c.row_ = t.myFramePointer - column;
  std::memcpy(c.line_.data(), c.row_, static_cast<std::size_t>(column));
  c.ahead_ = 0;

  c.enabled_ = t.myEnabledObjects;
  c.sync_ = t.myVSYNC;
  c.blank_ = t.myVBLANK;
  c.control_ = t.myCTRLPF;
  c.loss_ = t.myColorLossEnabled && (t.myScanlineCountForLastFrame & 1);
  for (int i = 0; i < 4; ++i) c.objects_.colours[i] = static_cast<std::uint8_t>(t.myColor[i]);
  c.copies_ = {t.myNUSIZ0, t.myNUSIZ1};
  c.graphics_ = {t.myGRP0, t.myGRP1};
  c.delayed_ = {t.myDGRP0, t.myDGRP1};
  c.shown_graphics_ = {t.myCurrentGRP0, t.myCurrentGRP1};
  c.reflected_ = {t.myREFP0, t.myREFP1};
  c.delay_ = {t.myVDELP0, t.myVDELP1};
  c.missile_ = {t.myENAM0, t.myENAM1};
  c.locked_ = {t.myRESMP0, t.myRESMP1};
  c.playfield_ = t.myPF;
  c.ball_ = t.myENABL;
  c.delayed_ball_ = t.myDENABL;
  c.delay_ball_ = t.myVDELBL;
  c.motion_ = {t.myHMP0, t.myHMP1, t.myHMM0, t.myHMM1, t.myHMBL};
  c.at_ = {t.myPOSP0, t.myPOSP1, t.myPOSM0, t.myPOSM1, t.myPOSBL};
  c.shown_[kPlayer0] = player(t.myCurrentP0Mask);
  c.shown_[kPlayer1] = player(t.myCurrentP1Mask);
  c.shown_[kMissile0] = missile(t.myCurrentM0Mask);
  c.shown_[kMissile1] = missile(t.myCurrentM1Mask);
  c.shown_[kBall] = ball(t.myCurrentBLMask);
  c.playfield_reflected_ = t.myCurrentPFMask == TIA::ourPlayfieldTable[1];
  c.collisions_ = t.myCollision;
  c.moved_ = t.myLastHMOVEClock;
  c.comb_ = c.comb_unseen_ = t.myHMOVEBlankEnabled;
  c.combs_ = t.myAllowHMOVEBlanks;
  c.stars_ = t.myM0CosmicArkMotionEnabled;
  c.star_ = t.myM0CosmicArkCounter;
  c.dump_ = t.myDumpEnabled;
  c.dump_end_ = t.myDumpDisabledCycle;
  c.charging_.fill(Chip::kUnknown);
}

void TIADebug::give(Chip& c, TIA& t) {
  using namespace headrace::atari;
  c.draw_to(c.due_);
  if (c.finished_) t.myPartialFrameFlag = false;
  t.myVSYNCFinishClock = c.sync_end_;
  t.myClockAtLastUpdate = c.drawn_;
  t.myClocksToEndOfScanLine = c.left_;
  const int column = std::max(0, Chip::kClocks - c.left_ - Chip::kBlank);
  std::memcpy(c.row_, c.line_.data(), static_cast<std::size_t>(column));
  if (c.ahead_ > column) std::memset(c.row_ + column, 0, static_cast<std::size_t>(c.ahead_ - column));
  t.myFramePointer = c.row_ + column;

  t.myEnabledObjects = static_cast<std::uint8_t>(c.enabled_);
  t.myVSYNC = c.sync_;
  t.myVBLANK = c.blank_;
  t.myCTRLPF = c.control_;
  t.myPlayfieldPriorityAndScore = static_cast<std::uint8_t>((c.control_ & 0x06) << 5);
  for (int i = 0; i < 4; ++i) t.myColor[i] = c.objects_.colours[i] * 0x01010101u;
  t.myNUSIZ0 = c.copies_[0], t.myNUSIZ1 = c.copies_[1];
  t.myGRP0 = c.graphics_[0], t.myGRP1 = c.graphics_[1];
  t.myDGRP0 = c.delayed_[0], t.myDGRP1 = c.delayed_[1];
  t.myCurrentGRP0 = c.shown_graphics_[0], t.myCurrentGRP1 = c.shown_graphics_[1];
  t.myREFP0 = c.reflected_[0], t.myREFP1 = c.reflected_[1];
  t.myVDELP0 = c.delay_[0], t.myVDELP1 = c.delay_[1];
  t.myENAM0 = c.missile_[0], t.myENAM1 = c.missile_[1];
  t.myRESMP0 = c.locked_[0], t.myRESMP1 = c.locked_[1];
  t.myPF = c.playfield_;
  t.myENABL = c.ball_, t.myDENABL = c.delayed_ball_, t.myVDELBL = c.delay_ball_;
  t.myHMP0 = c.motion_[0], t.myHMP1 = c.motion_[1], t.myHMM0 = c.motion_[2], t.myHMM1 = c.motion_[3];
  t.myHMBL = c.motion_[4];
  t.myPOSP0 = c.at_[0], t.myPOSP1 = c.at_[1], t.myPOSM0 = c.at_[2], t.myPOSM1 = c.at_[3], t.myPOSBL = c.at_[4];
  auto player = [](const Shown& s) {
    return &TIA::ourPlayerMaskTable[s.at & 3][s.skip_first][s.copies][column_of(s.at)];
  };
  auto missile = [](const Shown& s) {
    return s.off ? &TIA::ourDisabledMaskTable[0]
                 : &TIA::ourMissleMaskTable[s.at & 3][s.copies][s.size][column_of(s.at)];
  };
  t.myCurrentP0Mask = player(c.shown_[kPlayer0]);
  t.myCurrentP1Mask = player(c.shown_[kPlayer1]);
  t.myCurrentM0Mask = missile(c.shown_[kMissile0]);
  t.myCurrentM1Mask = missile(c.shown_[kMissile1]);
  const Shown& ball = c.shown_[kBall];
  t.myCurrentBLMask = &TIA::ourBallMaskTable[ball.at & 3][ball.size][column_of(ball.at)];
  t.myCurrentPFMask = TIA::ourPlayfieldTable[c.playfield_reflected_];
  t.myCollision = c.collisions_;
  t.myLastHMOVEClock = c.moved_;
  t.myHMOVEBlankEnabled = c.comb_;
  t.myM0CosmicArkMotionEnabled = c.stars_;
  t.myM0CosmicArkCounter = c.star_;
  t.myDumpEnabled = c.dump_;
  t.myDumpDisabledCycle = c.dump_end_;
}

}  // namespace ale::stella

namespace headrace::atari {

void Chip::take(const ale::stella::TIA& tia) { ale::stella::TIADebug::take(*this, tia); }
void Chip::give(ale::stella::TIA& tia) { ale::stella::TIADebug::give(*this, tia); }

// Four paddles, whose capacitors charge the faster the less they resist, and two triggers.
std::uint8_t Chip::input(std::uint32_t which, std::uint32_t cycles) {
  using ale::stella::Controller;
  if (which >= 4) return controller(which).read(Controller::Six) ? 0x80 : 0;
  if (charging_[which] == kUnknown) charging_[which] = charging(which);
  const std::uint32_t needed = charging_[which];
  if (needed == kCharged) return 0x80;
  if (needed == kOpen || dump_) return 0;
  return cycles > static_cast<std::uint32_t>(dump_end_) + needed ? 0x80 : 0;
}

// Returns the number of cycles that this takes; players turn paddles between frames.
std::uint32_t Chip::charging(std::uint32_t which) const {
  using ale::stella::Controller;
  const int resistance = controller(which).read(which % 2 == 0 ? Controller::Nine : Controller::Five);
  if (resistance == Controller::minimumResistance) return kCharged;
  if (resistance == Controller::maximumResistance) return kOpen;
  const double seconds = 1.6 * resistance * 0.01e-6;   // ohms times farads
  return static_cast<std::uint32_t>(seconds * 1.19e6);
}

ale::stella::Controller& Chip::controller(std::uint32_t which) const {
  using ale::stella::Controller;
  return console_->controller(which == 2 || which == 3 || which == 5 ? Controller::Right : Controller::Left);
}

}  // namespace headrace::atari
