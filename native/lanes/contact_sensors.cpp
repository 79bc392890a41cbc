#include "contact_sensors.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>

namespace headrace::lanes {
namespace {

constexpr int kSizes[mjNCONDATA] = {1, 3, 3, 1, 3, 3, 3, 3, 3};  // of each kind of data

bool is_involved(const mjModel& m, int type, int id, int geom) {
  int body = m.geom_bodyid[geom];
  if (type == mjOBJ_GEOM) return id == geom;
  if (type == mjOBJ_BODY) return id == body;
  while (type == mjOBJ_XBODY && body > id) body = m.body_parentid[body];
  return type == mjOBJ_UNKNOWN || body == id;
}

// Returns whether a sensor counts contacts of two geoms: 1, or -1 if it turns their normals; else 0 (matchContact).
int match(const mjModel& m, int sensor, int geom1, int geom2) {
  const int type[2] = {m.sensor_objtype[sensor], m.sensor_reftype[sensor]};
  const int id[2] = {m.sensor_objid[sensor], m.sensor_refid[sensor]};
  const auto involved = [&](int object, int geom) { return is_involved(m, type[object], id[object], geom); };
  const bool regular = involved(0, geom1) && involved(1, geom2), reverse = involved(0, geom2) && involved(1, geom1);
  if (regular || reverse) return regular ? 1 : -1;
  return 0;
}

// Returns the explicit pair of two geoms, or -1.
int explicit_pair(const mjModel& m, int geom1, int geom2) {
  for (int p = 0; p < m.npair; ++p)
    if (std::minmax(m.pair_geom1[p], m.pair_geom2[p]) == std::minmax(geom1, geom2)) return p;
  return -1;
}

// Returns a key by which pairs are sorted as mj_collision does.
std::tuple<unsigned, int, int, int> order_of(const Plan& plan, const Pair& pair) {
  const mjModel& m = *plan.model;
  const int p = explicit_pair(m, pair.names[0], pair.names[1]);
  if (p >= 0) return {static_cast<unsigned>(m.pair_signature[p]), 0, p, 0};
  const bool swapped = pair.body[1] < pair.body[0];
  const int b1 = pair.body[swapped], b2 = pair.body[!swapped];
  // Contacts that a tree of volumes finds are sorted. There is none where frames of inertia differ (`own_copy`).
  const bool by_type = !(m.opt.disableflags & mjDSBL_MIDPHASE || plan.own[kBodyIpos] || plan.own[kBodyIquat]);
  const unsigned signature = (static_cast<unsigned>(b1) << 16) + static_cast<unsigned>(b2);
  return {signature, 1, pair.names[by_type ? 0 : swapped], pair.names[by_type ? 1 : !swapped]};
}

ContactSensor sensor_of(const Plan& plan, int sensor) {
  const mjModel& m = *plan.model;
  ContactSensor s{};
  const int data = m.sensor_intprm[mjNSENS * sensor];
  for (int k = 0; k < mjNCONDATA; ++k) {
    s.place[k] = data >> k & 1 ? s.size : -1;
    if (data >> k & 1) s.size += kSizes[k];
  }
  s.adr = m.sensor_adr[sensor], s.slots = m.sensor_dim[sensor] / s.size;
  s.choice = static_cast<ContactSensor::Choice>(m.sensor_intprm[mjNSENS * sensor + 1]);
  s.sign.resize(plan.blocks.size());
  for (const Pair& pair : plan.pairs)
    std::fill_n(s.sign.begin() + pair.first_block, pair.slots,
                static_cast<signed char>(match(m, sensor, pair.names[0], pair.names[1])));
  return s;
}

}  // namespace

bool are_one(const mjModel& m, int b1, int b2) {
  const int w1 = m.body_weldid[b1], w2 = m.body_weldid[b2];
  return w1 == w2 || (m.body_dofnum[w1] == 0 && m.body_dofnum[w2] == 0);
}

bool are_contacts_known(const mjModel& m, int sensor) {
  const int data = m.sensor_intprm[mjNSENS * sensor];
  if (m.sensor_objtype[sensor] == mjOBJ_SITE || data >> mjCONDATA_LINVEL & 1 || data >> mjCONDATA_ANGVEL & 1)
    return false;
  for (int p = 0; p < m.npair; ++p) {  // MuJoCo has contacts within a gap, and of bodies that do not move
    const int g1 = m.pair_geom1[p], g2 = m.pair_geom2[p];
    if (match(m, sensor, g1, g2) && (m.pair_gap[p] != 0 || are_one(m, m.geom_bodyid[g1], m.geom_bodyid[g2])))
      return false;
  }
  return std::all_of(m.geom_gap, m.geom_gap + m.ngeom, [](mjtNum gap) { return gap == 0; });
}

void read_contact_sensors(Plan& plan) {
  const mjModel& m = *plan.model;
  plan.contact_sensor.resize(static_cast<std::size_t>(m.nsensor));
  for (const auto* sensors : {&plan.sensors, &plan.new_sensors})
    for (const int i : *sensors) {
      if (m.sensor_type[i] != mjSENS_CONTACT) continue;
      plan.contact_sensor[i] = static_cast<int>(plan.contact_sensors.size());
      plan.contact_sensors.push_back(sensor_of(plan, i));
      plan.contact_sensors.back().is_new = sensors == &plan.new_sensors;
    }
  if (plan.contact_sensors.empty()) return;
  std::vector<Pair> pairs = plan.pairs;
  std::ranges::stable_sort(pairs, {}, [&](const Pair& pair) { return order_of(plan, pair); });
  plan.contact_order.resize(plan.blocks.size());
  int number = 0;
  for (const Pair& pair : pairs)
    for (int i = 0; i < pair.slots; ++i) plan.contact_order[pair.first_block + i] = number++;
}

}  // namespace headrace::lanes
