#include "contacts.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace headrace::lanes {
namespace {

constexpr int kMostDim = 6;

template <std::size_t N>
void copy(double (&to)[N], const mjtNum* from) {
  std::copy_n(from, N, to);
}

// Returns K and B of solref, in both of its formats (mj_makeImpedance).
std::pair<double, double> stiffness_and_damping(const mjModel& m, const mjtNum* solref, double dmax) {
  double ref[2] = {solref[0], solref[1]};
  if ((ref[0] > 0) != (ref[1] > 0)) ref[0] = 0.02, ref[1] = 1;  // MuJoCo's default in place of a mixture
  if (ref[0] > 0 && !(m.opt.disableflags & mjDSBL_REFSAFE)) ref[0] = std::max(ref[0], 2 * m.opt.timestep);
  if (ref[0] <= 0) return {-ref[0] / std::max(mjMINVAL, dmax * dmax), -ref[1] / std::max(mjMINVAL, dmax)};
  return {1 / std::max(mjMINVAL, dmax * dmax * ref[0] * ref[0] * ref[1] * ref[1]),
          2 / std::max(mjMINVAL, dmax * ref[0])};
}

Impedance impedance_of(const mjModel& m, const mjtNum* solref, const mjtNum* solimp,
                       const mjtNum* solreffriction = nullptr) {
  const auto clipped = [](double x) { return std::min(mjMAXIMP, std::max(mjMINIMP, x)); };
  Impedance imp{};
  imp.dmin = clipped(solimp[0]), imp.dmax = clipped(solimp[1]), imp.width = std::max(0.0, solimp[2]);
  imp.midpoint = clipped(solimp[3]);
  imp.power = std::max(1.0, solimp[4]);
  imp.flat = imp.dmin == imp.dmax || imp.width <= mjMINVAL;
  imp.low = 1 / std::pow(imp.midpoint, imp.power - 1), imp.high = 1 / std::pow(1 - imp.midpoint, imp.power - 1);
  std::tie(imp.stiffness, imp.damping) = stiffness_and_damping(m, solref, imp.dmax);
  imp.friction_damping = imp.damping;
  if (solreffriction && (solreffriction[0] != 0 || solreffriction[1] != 0) &&
      (solreffriction[0] > 0) == (solreffriction[1] > 0))
    imp.friction_damping = stiffness_and_damping(m, solreffriction, imp.dmax).second;
  return imp;
}

class Reader {
 public:
  Reader(Plan& plan, const mjModel& m) : plan_(plan), m_(m) {}

  void read() {
    const int off = m_.opt.disableflags;
    if (off & mjDSBL_CONSTRAINT) return;
    if (!(off & mjDSBL_EQUALITY)) read_equalities();
    if (!(off & mjDSBL_FRICTIONLOSS)) read_friction();
    if (!(off & mjDSBL_LIMIT)) read_limits();
    if (!(off & mjDSBL_CONTACT)) read_pairs();
  }

 private:
  // Adds a constraint over these degrees of freedom.
  Block& add(Block::Kind kind, int dim, const std::vector<Column>& columns) {
    Block block{};
    block.kind = kind, block.dim = dim, block.n = static_cast<int>(columns.size());
    block.dofs = static_cast<int>(plan_.columns.size());
    block.jac = plan_.jacobian, block.row = plan_.rows;
    plan_.jacobian += dim * block.n, plan_.rows += dim;
    for (std::size_t i = 0; i < columns.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) block.couples |= !(plan_.mass.columns[columns[i].dof] >> columns[j].dof & 1);
    for (const Column& column : columns) block.moves |= column.arm >= 0 || column.second_arm >= 0;
    plan_.columns.insert(plan_.columns.end(), columns.begin(), columns.end());
    return plan_.blocks.emplace_back(block);
  }

  std::vector<Column> tendon_columns(int t) const {
    std::vector<Column> columns;
    for (const auto& term : plan_.tendons[static_cast<std::size_t>(t)].terms)
      columns.push_back({term.dof, term.coefficient, 0, term.arm});
    std::ranges::sort(columns, {}, &Column::dof);
    return columns;
  }

  void read_equalities() {
    for (int e = 0; e < m_.neq; ++e) {
      if (!m_.eq_active0[e]) continue;
      if (m_.eq_type[e] == mjEQ_CONNECT || m_.eq_type[e] == mjEQ_WELD) {
        join_bodies(e);
        continue;
      }
      const bool joints = m_.eq_type[e] == mjEQ_JOINT;
      std::vector<Column> columns;
      double diagonal = 0;
      for (const int object : {m_.eq_obj1id[e], m_.eq_obj2id[e]}) {
        if (object < 0) continue;
        diagonal += joints ? m_.dof_invweight0[m_.jnt_dofadr[object]] : m_.tendon_invweight0[object];
        const bool second = object == m_.eq_obj2id[e];
        for (const auto& column : joints ? std::vector<Column>{{m_.jnt_dofadr[object], 1}} : tendon_columns(object)) {
          auto found = std::ranges::find(columns, column.dof, &Column::dof);
          if (found == columns.end()) found = columns.insert(found, {column.dof, 0});
          (second ? found->second : found->sign) += column.sign;
          (second ? found->second_arm : found->arm) = column.arm;
        }
      }
      std::ranges::sort(columns, {}, &Column::dof);
      auto& block = add(joints ? Block::kJointEquality : Block::kTendonEquality, 1, columns);
      block.impedance = impedance_of(m_, m_.eq_solref + mjNREF * e, m_.eq_solimp + mjNIMP * e);
      block.diagonal = diagonal, block.source = e;
    }
  }

  // Adds a constraint of bodies at a point, or as a whole.
  void join_bodies(int e) {
    const bool weld = m_.eq_type[e] == mjEQ_WELD, sites = m_.eq_objtype[e] == mjOBJ_SITE;
    const mjtNum* data = m_.eq_data + mjNEQDATA * e;
    const int objects[2] = {m_.eq_obj1id[e], m_.eq_obj2id[e]};
    std::vector<int> dofs[2];
    for (int i = 0; i < 2; ++i) dofs[i] = dofs_above(m_, sites ? m_.site_bodyid[objects[i]] : objects[i]);
    std::vector<Column> columns;
    for (int i = 0; i < m_.nv; ++i) {
      const bool first = std::ranges::binary_search(dofs[0], i), second = std::ranges::binary_search(dofs[1], i);
      if (first || second) columns.push_back({i, first ? 1.0 : 0.0, second ? 1.0 : 0.0});
    }
    if (columns.empty()) return;
    auto& block = add(weld ? Block::kWeld : Block::kConnect, weld ? 6 : 3, columns);
    double turned = 0;
    for (int i = 0; i < 2; ++i) {
      const int body = sites ? m_.site_bodyid[objects[i]] : objects[i];
      block.body[i] = body, block.root[i] = m_.body_rootid[body];
      copy(block.anchor[i], sites ? m_.site_pos + 3 * objects[i] : data + 3 * (weld ? 1 - i : i));
      const mjtNum same[4] = {1, 0, 0, 0};
      copy(block.turn[i], sites ? m_.site_quat + 4 * objects[i] : weld && i == 0 ? data + 6 : same);
      block.diagonal += m_.body_invweight0[2 * body], turned += m_.body_invweight0[2 * body + 1];
    }
    const double ratio = turned < mjMINVAL ? 0 : block.diagonal / turned;  // 0 if neither body can turn
    for (int r = 0; r < block.dim; ++r) block.grip.ratio[r] = r < 3 ? 1 : ratio;
    block.impedance = impedance_of(m_, m_.eq_solref + mjNREF * e, m_.eq_solimp + mjNIMP * e);
    block.source = e;
  }

  void read_friction() {
    for (int i = 0; i < m_.nv; ++i) {
      if (m_.dof_frictionloss[i] == 0 && !plan_.own[kDofFrictionloss]) continue;
      auto& block = add(Block::kFrictionLoss, 1, {{i, 1}});
      block.impedance = impedance_of(m_, m_.dof_solref + mjNREF * i, m_.dof_solimp + mjNIMP * i);
      block.diagonal = m_.dof_invweight0[i], block.grip.loss = m_.dof_frictionloss[i], block.margin = 1;
      block.source = i;
    }
    for (int t = 0; t < m_.ntendon; ++t) {
      if (m_.tendon_frictionloss[t] <= 0) continue;
      auto& block = add(Block::kTendonFriction, 1, tendon_columns(t));
      block.impedance = impedance_of(m_, m_.tendon_solref_fri + mjNREF * t, m_.tendon_solimp_fri + mjNIMP * t);
      block.diagonal = m_.tendon_invweight0[t], block.grip.loss = m_.tendon_frictionloss[t], block.margin = 1;
      block.source = t;
    }
  }

  void read_limits() {
    for (int j = 0; j < m_.njnt; ++j) {
      if (!m_.jnt_limited[j]) continue;
      const int dof = m_.jnt_dofadr[j];
      const bool ball = m_.jnt_type[j] == mjJNT_BALL;
      for (int side = -1; side <= 1; side += 2) {
        auto& block = ball ? add(Block::kBallLimit, 1, {{dof, 1}, {dof + 1, 1}, {dof + 2, 1}})
                           : add(Block::kLimit, 1, {{dof, static_cast<double>(-side)}});
        block.impedance = impedance_of(m_, m_.jnt_solref + mjNREF * j, m_.jnt_solimp + mjNIMP * j);
        block.diagonal = m_.dof_invweight0[dof], block.margin = m_.jnt_margin[j];
        block.source = j, block.side = side;
        if (ball) break;
      }
    }
    for (int t = 0; t < m_.ntendon; ++t)
      for (int side = -1; m_.tendon_limited[t] && side <= 1; side += 2) {
        auto columns = tendon_columns(t);
        for (auto& column : columns) column.sign *= -side;
        auto& block = add(Block::kTendonLimit, 1, columns);
        block.impedance = impedance_of(m_, m_.tendon_solref_lim + mjNREF * t, m_.tendon_solimp_lim + mjNIMP * t);
        block.diagonal = m_.tendon_invweight0[t], block.margin = m_.tendon_margin[t];
        block.source = t, block.side = side;
      }
  }

  // The parameters that mj_contactParam mixes from two geoms, or takes from a <pair>.
  struct Surface {
    int dim;
    double solref[mjNREF], solreffriction[mjNREF], solimp[mjNIMP], friction[5], margin, gap;
    int geoms[2], pair;  // whose friction it is, if it belongs to no <pair> (-1)
  };

  Surface mixed(int g1, int g2) const {
    Surface s{};
    const int higher = m_.geom_priority[g1] > m_.geom_priority[g2]   ? g1
                       : m_.geom_priority[g2] > m_.geom_priority[g1] ? g2
                                                                     : -1;
    s.geoms[0] = higher >= 0 ? higher : g1, s.geoms[1] = higher >= 0 ? higher : g2, s.pair = -1;
    double slide[3];
    if (higher >= 0) {
      s.dim = m_.geom_condim[higher];
      copy(s.solref, m_.geom_solref + mjNREF * higher), copy(s.solimp, m_.geom_solimp + mjNIMP * higher);
      copy(slide, m_.geom_friction + 3 * higher);
    } else {
      s.dim = std::max(m_.geom_condim[g1], m_.geom_condim[g2]);
      const double mix1 = m_.geom_solmix[g1], mix2 = m_.geom_solmix[g2];
      const double mix = mix1 >= mjMINVAL && mix2 >= mjMINVAL ? mix1 / (mix1 + mix2)
                         : mix1 < mjMINVAL && mix2 < mjMINVAL ? 0.5
                                                              : (mix1 < mjMINVAL ? 0.0 : 1.0);
      const mjtNum *ref1 = m_.geom_solref + mjNREF * g1, *ref2 = m_.geom_solref + mjNREF * g2;
      for (int i = 0; i < mjNREF; ++i)
        s.solref[i] = ref1[0] > 0 && ref2[0] > 0 ? mix * ref1[i] + (1 - mix) * ref2[i] : std::min(ref1[i], ref2[i]);
      for (int i = 0; i < mjNIMP; ++i)
        s.solimp[i] = mix * m_.geom_solimp[mjNIMP * g1 + i] + (1 - mix) * m_.geom_solimp[mjNIMP * g2 + i];
      for (int i = 0; i < 3; ++i) slide[i] = std::max(m_.geom_friction[3 * g1 + i], m_.geom_friction[3 * g2 + i]);
    }
    const int from[5] = {0, 0, 1, 2, 2};
    for (int i = 0; i < 5; ++i) s.friction[i] = slide[from[i]];
    s.margin = m_.geom_margin[g1] + m_.geom_margin[g2], s.gap = m_.geom_gap[g1] + m_.geom_gap[g2];
    return s;
  }

  Surface explicit_pair(int p) const {
    Surface s{};
    s.pair = p;
    s.dim = m_.pair_dim[p], s.margin = m_.pair_margin[p], s.gap = m_.pair_gap[p];
    copy(s.solref, m_.pair_solref + mjNREF * p), copy(s.solreffriction, m_.pair_solreffriction + mjNREF * p);
    copy(s.solimp, m_.pair_solimp + mjNIMP * p), copy(s.friction, m_.pair_friction + 5 * p);
    return s;
  }

  // MuJoCo's filters of pairs of bodies (filterBodyPair).
  bool may_touch(int b1, int b2) const {
    const int w1 = m_.body_weldid[b1], w2 = m_.body_weldid[b2];
    if (w1 == w2 || (m_.body_dofnum[w1] == 0 && m_.body_dofnum[w2] == 0)) return false;
    const int p1 = m_.body_weldid[m_.body_parentid[w1]], p2 = m_.body_weldid[m_.body_parentid[w2]];
    if (!(m_.opt.disableflags & mjDSBL_FILTERPARENT) && w1 && w2 && (w1 == p2 || w2 == p1)) return false;
    for (int e = 0; e < m_.nexclude; ++e)
      if (m_.exclude_signature[e] == (b1 << 16) + b2) return false;
    return true;
  }

  void read_pairs() {
    std::set<std::pair<int, int>> given;
    for (int p = 0; p < m_.npair; ++p) {
      const int g1 = m_.pair_geom1[p], g2 = m_.pair_geom2[p];
      given.insert(std::minmax(g1, g2));
      add_pair(g1, g2, explicit_pair(p));
    }
    for (int g1 = 0; g1 < m_.ngeom; ++g1)
      for (int g2 = g1 + 1; g2 < m_.ngeom; ++g2) {
        const int b1 = m_.geom_bodyid[g1], b2 = m_.geom_bodyid[g2];
        const bool wanted =
            (m_.geom_contype[g1] & m_.geom_conaffinity[g2]) || (m_.geom_contype[g2] & m_.geom_conaffinity[g1]);
        if (wanted && !given.contains({g1, g2}) && may_touch(std::min(b1, b2), std::max(b1, b2)))
          add_pair(g1, g2, mixed(g1, g2));
      }
  }

  Pair::Kind kind_of(int type1, int type2, double reach, int* slots) const {
    *slots = 1;
    if (type1 == mjGEOM_PLANE && type2 == mjGEOM_SPHERE) return Pair::kPlaneSphere;
    if (type1 == mjGEOM_PLANE && type2 == mjGEOM_CAPSULE) return *slots = 2, Pair::kPlaneCapsule;
    if (type1 == mjGEOM_PLANE && type2 == mjGEOM_BOX) return *slots = 4, Pair::kPlaneBox;
    if (type1 == mjGEOM_PLANE && type2 == mjGEOM_CYLINDER) return *slots = 4, Pair::kPlaneCylinder;
    if (type1 == mjGEOM_PLANE && type2 == mjGEOM_ELLIPSOID) return Pair::kPlaneEllipsoid;
    if (type1 == mjGEOM_SPHERE && type2 == mjGEOM_SPHERE) return Pair::kSphereSphere;
    if (type1 == mjGEOM_SPHERE && type2 == mjGEOM_CAPSULE) return Pair::kSphereCapsule;
    if (type1 == mjGEOM_CAPSULE && type2 == mjGEOM_CAPSULE) return Pair::kCapsuleCapsule;
    if (type1 == mjGEOM_HFIELD && type2 == mjGEOM_SPHERE && reach == 0 && converges()) return Pair::kFieldSphere;
    return Pair::kByMujoco;
  }

  // Returns whether MuJoCo's search for the nearest point of a prism ends at that point.
  bool converges() const {
    return !(m_.opt.disableflags & mjDSBL_NATIVECCD) && m_.opt.ccd_tolerance <= 1e-6 && m_.opt.ccd_iterations >= 20;
  }

  void add_pair(int g1, int g2, const Surface& surface) {
    if (m_.geom_type[g1] > m_.geom_type[g2]) std::swap(g1, g2);
    if (!mjCOLLISIONFUNC[m_.geom_type[g1]][m_.geom_type[g2]]) return;
    Pair pair{};
    pair.names[0] = g1, pair.names[1] = g2;
    pair.kind = kind_of(m_.geom_type[g1], m_.geom_type[g2], surface.margin + surface.gap, &pair.slots);
    pair.plane = m_.geom_type[g1] == mjGEOM_PLANE;
    for (int i = 0; i < 2; ++i) {
      pair.geom[i] = geom(pair.names[i]);
      pair.body[i] = m_.geom_bodyid[pair.names[i]], pair.root[i] = m_.body_rootid[pair.body[i]];
    }
    pair.margin = surface.margin, pair.reach = surface.margin + surface.gap;
    pair.bound = m_.geom_rbound[g1] + m_.geom_rbound[g2] + surface.margin + Pair::kSlack;
    pair.first_block = static_cast<int>(plan_.blocks.size());
    const auto columns = contact_columns(pair.body[0], pair.body[1]);
    if (columns.empty()) return;
    if (pair.kind == Pair::kByMujoco || pair.kind == Pair::kFieldSphere)
      pair.slots = std::min(Pair::kMostSlots, mj_maxContact(&m_, g1, g2, pair.reach > 0));
    for (int i = 0; i < pair.slots; ++i) add_contact(pair, surface, columns);
    plan_.pairs.push_back(pair);
  }

  std::vector<Column> contact_columns(int b1, int b2) const {
    const auto first = dofs_above(m_, b1), second = dofs_above(m_, b2);
    std::vector<Column> columns;
    for (int i = 0; i < m_.nv; ++i) {  // a degree of freedom that moves both moves neither against the other
      const bool in_first = std::ranges::binary_search(first, i), in_second = std::ranges::binary_search(second, i);
      if (in_first != in_second) columns.push_back({i, in_second ? 1.0 : -1.0});
    }
    return columns;
  }

  void add_contact(const Pair& pair, const Surface& s, const std::vector<Column>& columns) {
    const auto kind = s.dim == 1 ? Block::kPoint : m_.opt.cone == mjCONE_PYRAMIDAL ? Block::kPyramid : Block::kCone;
    auto& block = add(kind, s.dim, columns);
    block.margin = s.margin;
    std::ranges::copy(pair.body, block.body), std::ranges::copy(pair.root, block.root);
    block.impedance = impedance_of(m_, s.solref, s.solimp, s.solreffriction);
    for (int i = 0; i < 5; ++i) block.grip.friction[i] = std::max(mjMINMU, s.friction[i]);
    std::ranges::copy(s.geoms, block.surface), block.source = s.pair;
    const double moved = m_.body_invweight0[2 * pair.body[0]] + m_.body_invweight0[2 * pair.body[1]];
    block.diagonal = finish_grip(kind, plan_.impratio, moved, block.grip);
  }

  // The capsule around a geom, along its longest axis if it has one.
  static void surround(Geom& g) {
    const double* s = g.size;
    const bool long_box = g.type == mjGEOM_BOX || g.type == mjGEOM_ELLIPSOID;
    const int along = long_box ? static_cast<int>(std::max_element(s, s + 3) - s) : 2;
    const double b = s[(along + 1) % 3], c = s[(along + 2) % 3];
    for (int i = 0; i < 3; ++i) g.axis[i] = g.mat[3 * i + along];
    if (g.type != mjGEOM_PLANE && (g.type < mjGEOM_SPHERE || g.type > mjGEOM_BOX)) return;  // its bounding sphere
    g.radius = g.type == mjGEOM_BOX ? std::hypot(b, c) : g.type == mjGEOM_ELLIPSOID ? std::max(b, c) : s[0];
    g.half = g.type == mjGEOM_BOX         ? s[along]
             : g.type == mjGEOM_ELLIPSOID ? s[along] - g.radius
             : g.type == mjGEOM_SPHERE    ? 0
                                          : s[1];
  }

  // Returns the geom's place in the plan.
  int geom(int g) {
    for (std::size_t i = 0; i < plan_.geoms.size(); ++i)
      if (plan_.geoms[i].id == g) return static_cast<int>(i);
    Geom geom{};
    geom.id = g, geom.body = m_.geom_bodyid[g], geom.type = m_.geom_type[g];
    geom.is_static = m_.body_weldid[geom.body] == 0;
    copy(geom.size, m_.geom_size + 3 * g), copy(geom.pos, m_.geom_pos + 3 * g);
    mju_quat2Mat(geom.mat, m_.geom_quat + 4 * g);
    geom.radius = m_.geom_rbound[g];
    surround(geom);
    plan_.geoms.push_back(geom);
    return static_cast<int>(plan_.geoms.size()) - 1;
  }

  Plan& plan_;
  const mjModel& m_;
};

}  // namespace

std::vector<int> dofs_above(const mjModel& m, int body) {
  std::vector<int> dofs;
  for (; body; body = m.body_parentid[body])
    for (int i = m.body_dofadr[body] + m.body_dofnum[body] - 1; i >= m.body_dofadr[body] && i >= 0; --i)
      dofs.push_back(i);
  std::ranges::sort(dofs);
  return dofs;
}

void read_constraints(Plan& plan, const mjModel& model) { Reader(plan, model).read(); }

}  // namespace headrace::lanes
