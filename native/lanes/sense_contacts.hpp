// What sensors of contacts show (mjSENS_CONTACT).
#pragma once

#include <algorithm>

#include "solver.hpp"

namespace headrace::lanes {
namespace {

// One lane's contacts, as a sensor shows them.
template <class V>
class ContactSense {
 public:
  ContactSense(const Plan& plan, Work<V>& w, const ContactSensor& s) : plan_(plan), w_(w), s_(s) {}

  // Shows the first `matches` of `w.matched` that a lane has.
  void run(int matches, int l) {
    int found = 0, shown = 0;
    for (int k = 0; k < matches; ++k) {
      const int block = w_.matched[k];
      if (!(lane(w_.dist[block], l) < static_cast<typename V::Number>(plan_.blocks[block].margin))) continue;
      ++found;
      if (s_.choice == ContactSensor::kSum) w_.chosen[shown++] = block;
      else choose(block, l, &shown);
    }
    if (s_.choice == ContactSensor::kSum && found > 0) return sum(shown, l);
    for (int k = 0; k < shown; ++k) show(k, w_.chosen[k], l);
  }

 private:
  // Puts a contact among those that are shown, if it comes before one of them.
  void choose(int block, int l, int* shown) {
    const double own = rank(block, l);
    int at = *shown;
    for (; at > 0 && own < rank(w_.chosen[at - 1], l); --at) {
    }
    for (int k = 0; k < *shown; ++k) check_tie(own, rank(w_.chosen[k], l), l);
    if (at == s_.slots) return;
    *shown = std::min(*shown + 1, s_.slots);
    std::copy_backward(w_.chosen + at, w_.chosen + *shown - 1, w_.chosen + *shown);
    w_.chosen[at] = block;
  }

  double rank(int block, int l) const {
    mjtNum force[6];
    if (s_.choice == ContactSensor::kNearest) return lane(w_.dist[block], l);
    if (s_.choice == ContactSensor::kFirst) return 0;
    wrench(block, l, force);
    return -mju_dot3(force, force);
  }

  // Which of two contacts as near MuJoCo shows is rounding. Of a new state libmujoco can decide.
  void check_tie(double one, double other, int l) {
    if (is_single<V> || !s_.is_new || s_.choice != ContactSensor::kNearest) return;
    if (std::abs(one - other) <= kTie) w_.bad = w_.bad | mask_of(std::uint32_t{1} << l, typename V::M());
  }

  // The force and torque in the contact's frame (mj_contactForce).
  void wrench(int block, int l, mjtNum* out) const {
    const Block& b = plan_.blocks[block];
    mju_zero(out, 6);
    take(w_.force + b.row, b.dim, l, out);
  }

  void put(int record, mjtConDataField kind, const mjtNum* values, int n) {
    if (s_.place[kind] < 0) return;
    for (int i = 0; i < n; ++i) lane(w_.sensordata[s_.adr + record * s_.size + s_.place[kind] + i], l_) = values[i];
  }

  void show(int record, int block, int l) {
    mjtNum force[6], pos[3], frame[9];
    const mjtNum dist = lane(w_.dist[block], l);
    wrench(block, l, force);
    take(w_.contact_pos + 3 * block, 3, l, pos), take(w_.contact_frame + 9 * block, 9, l, frame);
    if (s_.sign[block] < 0) {
      force[2] *= -1, force[5] *= -1;
      mju_scl(frame, frame, -1, 6);
    }
    l_ = l;
    put(record, mjCONDATA_FORCE, force, 3), put(record, mjCONDATA_TORQUE, force + 3, 3);
    put(record, mjCONDATA_DIST, &dist, 1), put(record, mjCONDATA_POS, pos, 3);
    put(record, mjCONDATA_NORMAL, frame, 3), put(record, mjCONDATA_TANGENT, frame + 3, 3);
  }

  // Shows the sum of all forces, about the middle of their places.
  void sum(int n, int l) {
    mjtNum middle[3] = {0, 0, 0}, force[3] = {0, 0, 0}, torque[3] = {0, 0, 0}, total = 0;
    mjtNum local[6], pos[3], frame[9];
    const auto each = [&](auto visit) {
      for (int k = 0; k < n; ++k) {
        const int block = w_.chosen[k];
        wrench(block, l, local), mju_scl(local, local, s_.sign[block], 6);
        take(w_.contact_pos + 3 * block, 3, l, pos), take(w_.contact_frame + 9 * block, 9, l, frame);
        visit();
      }
    };
    each([&] {
      const mjtNum weight = mju_norm3(local);
      mju_addToScl3(middle, pos, weight), total += weight;
    });
    mju_scl3(middle, middle, 1 / std::max(total, kMinValue));
    each([&] {
      mjtNum pushed[3], turned[3], arm[3], moment[3];
      mju_mulMatTVec3(pushed, frame, local), mju_mulMatTVec3(turned, frame, local + 3);
      mju_sub3(arm, pos, middle), mju_cross(moment, arm, pushed);
      mju_addTo3(force, pushed), mju_addTo3(torque, turned), mju_addTo3(torque, moment);
    });
    const mjtNum axes[6] = {1, 0, 0, 0, 1, 0}, none = 0;
    l_ = l;
    put(0, mjCONDATA_FORCE, force, 3), put(0, mjCONDATA_TORQUE, torque, 3), put(0, mjCONDATA_DIST, &none, 1);
    put(0, mjCONDATA_POS, middle, 3), put(0, mjCONDATA_NORMAL, axes, 3), put(0, mjCONDATA_TANGENT, axes + 3, 3);
  }

  const Plan& plan_;
  Work<V>& w_;
  const ContactSensor& s_;
  int l_ = 0;  // the lane that is written
};

template <class V>
void sense_contacts(const Plan& plan, Work<V>& w, const ContactSensor& s) {
  V* out = w.sensordata + s.adr;
  std::fill_n(out, s.slots * s.size, V(0));
  V found(0);
  int matches = 0;
  for (int a = 0; a < w.actives; ++a) {
    const int block = w.active[a];
    if (s.sign[block] == 0) continue;
    w.matched[matches++] = block;
    found = found + select(holds(plan.blocks[block], w.dist[block]), V(1), V(0));
  }
  const int counted = s.place[mjCONDATA_FOUND], records = s.choice == ContactSensor::kSum ? 1 : s.slots;
  for (int k = 0; k < records && counted >= 0; ++k) out[k * s.size + counted] = select(V(k) < found, found, V(0));
  if (s.size == 1 && counted == 0) return;
  std::sort(w.matched, w.matched + matches,
            [&](int one, int other) { return plan.contact_order[one] < plan.contact_order[other]; });
  ContactSense<V> lanes(plan, w, s);
  for (int l = 0; l < V::width; ++l) lanes.run(matches, l);
}

}  // namespace
}  // namespace headrace::lanes
