// Which geoms touch, where and how deep: the primitive pairs of mj_collision.
//
// MuJoCo's own functions compute pairs of other kinds, for each lane in which they are near; and spheres whose centres
// are in a height field. If two capsules lie parallel, libmujoco makes the step.
#pragma once

#include <algorithm>

#include "field.hpp"
#include "kinematics.hpp"

namespace headrace::lanes {
namespace {

// A contact's geometry: the normal from geom 1 to geom 2, and a direction to which the first tangent shall be near.
template <class V>
struct Touch {
  V dist;
  V3<V> pos, normal, tangent;
};

// Returns the normal and two tangents (mju_makeFrame). If no tangent is asked for, the first lies along y, or along z
// if the normal is near y.
template <class V>
Mat3<V> frame_of(const Touch<V>& t) {
  const V3<V> y{V(0), V(1), V(0)}, z{V(0), V(0), V(1)};
  const auto no_wish = dot(t.tangent, t.tangent) < V(0.25);
  const auto wish = select(no_wish, select(abs(t.normal.y) < V(0.5), y, z), t.tangent);
  const auto first = normalized(wish - dot(t.normal, wish) * t.normal);
  return {t.normal, first, cross(t.normal, first)};
}

// Rounding may move a distance by so much, in metres. Only MuJoCo's own rounding can tell whether a constraint holds
// that is no farther from its margin, so libmujoco makes that step.
constexpr double kTie = 1e-13;

template <class V>
typename V::M ties(V dist, double margin) {
  return is_single<V> ? V(0) < V(0) : abs(dist - V(margin)) <= V(kTie);
}

template <class V>
class Collider {
 public:
  using M = typename V::M;

  Collider(const Plan& plan, Work<V>& w) : plan_(plan), w_(w) {}

  void run() {
    for (const Pair& pair : plan_.pairs) {
      const M close = near(pair);
      if (!any(close)) continue;
      switch (pair.kind) {
        case Pair::kPlaneSphere: plane_sphere(pair); break;
        case Pair::kPlaneCapsule: plane_capsule(pair); break;
        case Pair::kPlaneBox: plane_box(pair); break;
        case Pair::kPlaneCylinder: plane_cylinder(pair); break;
        case Pair::kPlaneEllipsoid: plane_ellipsoid(pair); break;
        case Pair::kSphereSphere: spheres(pair, pos(pair, 0), pos(pair, 1), close); break;
        case Pair::kSphereCapsule: sphere_capsule(pair, close); break;
        case Pair::kCapsuleCapsule: capsules(pair, close); break;
        case Pair::kFieldSphere: field_sphere(pair, close); break;
        case Pair::kByMujoco: by_mujoco(pair, close & surroundings_meet(pair)); break;
      }
    }
  }

 private:
  V3<V> pos(const Pair& p, int i) const { return load3(w_.geom_xpos + 3 * p.geom[i]); }
  V3<V> axis(const Pair& p, int i) const { return load3(w_.geom_xmat + 9 * p.geom[i]); }  // see place_geom
  V size(const Pair& p, int i, int k) const { return V(plan_.geoms[p.geom[i]].size[k]); }

  // Returns the lanes in which bounding spheres overlap.
  M near(const Pair& p) const {
    const auto between = pos(p, 1) - pos(p, 0);
    const V bound(p.bound);
    return p.plane ? dot(axis(p, 0), between) < bound : dot(between, between) < bound * bound;
  }

  // Adds a contact of a pair, in the lanes that have it.
  void touch(const Pair& p, int slot, const Touch<V>& t, M where) {
    const int block = p.first_block + slot;
    w_.bad = w_.bad | (where & ties(t.dist, p.margin));
    where = where & (t.dist < V(p.margin));
    if (!any(where)) return;
    w_.dist[block] = select(where, t.dist, V(p.margin));
    store3(w_.contact_pos + 3 * block, t.pos), store9(w_.contact_frame + 9 * block, frame_of(t));
    w_.active[w_.actives++] = block;
  }

  Touch<V> plane_point(const Pair& p, const V3<V>& centre, V radius, const V3<V>& tangent) const {
    const auto normal = axis(p, 0);
    const V dist = dot(centre - pos(p, 0), normal) - radius;
    return {dist, fma(-fma(V(0.5), dist, radius), normal, centre), normal, tangent};
  }

  void plane_sphere(const Pair& p) {
    touch(p, 0, plane_point(p, pos(p, 1), size(p, 1, 0), {V(0), V(0), V(0)}), V(0) == V(0));
  }

  void plane_capsule(const Pair& p) {
    const auto along = axis(p, 1), centre = pos(p, 1);
    for (int slot = 0; slot < 2; ++slot) {
      const V half = slot == 0 ? size(p, 1, 1) : -size(p, 1, 1);
      touch(p, slot, plane_point(p, fma(half, along, centre), size(p, 1, 0), along), V(0) == V(0));
    }
  }

  // Adds the first four corners below the centre that are near enough.
  void plane_box(const Pair& p) {
    const auto mat = load9(w_.geom_xmat + 9 * p.geom[1]);
    const auto centre = pos(p, 1), normal = axis(p, 0);
    const V dist = dot(centre - pos(p, 0), normal);
    Touch<V> found[4];
    M has[4] = {V(0) < V(0), V(0) < V(0), V(0) < V(0), V(0) < V(0)};
    for (int i = 0; i < 8; ++i) {
      const V3<V> local{i & 1 ? size(p, 1, 0) : -size(p, 1, 0), i & 2 ? size(p, 1, 1) : -size(p, 1, 1),
                        i & 4 ? size(p, 1, 2) : -size(p, 1, 2)};
      const auto corner = mat * local;
      const V height = dot(normal, corner), depth = dist + height;
      M left = (height <= V(0)) & (depth <= V(p.margin + kTie));
      if (!any(left)) continue;
      const Touch<V> t{depth, fma(-(V(0.5) * depth), normal, corner + centre), normal, {V(0), V(0), V(0)}};
      for (int slot = 0; slot < 4; ++slot) {  // the first slot that is free in each lane
        const M here = left & ~has[slot];
        found[slot].dist = select(here, t.dist, found[slot].dist),
        found[slot].pos = select<V>(here, t.pos, found[slot].pos);
        has[slot] = has[slot] | here, left = left & ~here;
      }
    }
    for (int slot = 0; slot < 4; ++slot)
      if (any(has[slot])) {
        found[slot].normal = normal, found[slot].tangent = {V(0), V(0), V(0)};
        found[slot].dist = select(has[slot], found[slot].dist, V(p.margin));
        found[slot].pos = select<V>(has[slot], found[slot].pos, centre);
        touch(p, slot, found[slot], has[slot]);
      }
  }

  // Adds the lowest and the highest point of the lower disk's rim opposite, and two points beside it
  // (mjc_PlaneCylinder).
  void plane_cylinder(const Pair& p) {
    const auto mat = load9(w_.geom_xmat + 9 * p.geom[1]);
    const auto centre = pos(p, 1), normal = axis(p, 0);
    const V radius = size(p, 1, 0), half = size(p, 1, 1), dist = dot(centre - pos(p, 0), normal);
    auto along = column(mat, 2);
    const V up = dot(normal, along);
    along = select<V>(up > V(0), -along, along);
    const V down = -abs(up);
    auto rim = down * along - normal;
    const V square = dot(rim, rim);
    const M level = square < V(kMinValue * kMinValue);
    rim = select<V>(level, radius * column(mat, 0), (radius / sqrt(select(level, V(1), square))) * rim);
    const V rim_height = dot(rim, normal), end_height = down * half;
    const auto end = half * along;
    const M first = (dist + end_height) + rim_height <= V(p.margin + kTie);
    if (!is_single<V>)  // it stands, so rounding decides which point of its rim is lowest
      w_.bad = w_.bad | (first & (V(1e-31) < square) & (square < V(1e-12)));
    const auto at = [&](int slot, V depth, const V3<V>& point) {
      touch(p, slot, {depth, fma(-(V(0.5) * depth), normal, centre + point), normal, {V(0), V(0), V(0)}}, first);
    };
    at(0, (dist + end_height) + rim_height, rim + end);
    at(1, (dist - end_height) + rim_height, rim - end);
    const auto side = (radius * V(0.86602540378443864676)) * normalized(cross(rim, end));
    const V depth = fma(V(-0.5), rim_height, dist + end_height);
    at(2, depth, fma(V(-0.5), rim, side + end));
    at(3, depth, fma(V(-0.5), rim, end - side));
  }

  // Adds the point that is deepest along the normal.
  void plane_ellipsoid(const Pair& p) {
    const auto mat = load9(w_.geom_xmat + 9 * p.geom[1]);
    const auto centre = pos(p, 1), normal = axis(p, 0), local = transposed(mat, normal);
    const V3<V> scaled{size(p, 1, 0) * local.x, size(p, 1, 1) * local.y, size(p, 1, 2) * local.z};
    const V length = sqrt(dot(scaled, scaled));
    const V3<V> deepest{size(p, 1, 0) * scaled.x, size(p, 1, 1) * scaled.y, size(p, 1, 2) * scaled.z};
    const auto point = fma(V(-1) / length, mat * deepest, centre);
    const V dist = dot(point - pos(p, 0), normal);
    touch(p, 0, {dist, fma(-(V(0.5) * dist), normal, point), normal, {V(0), V(0), V(0)}}, V(0) == V(0));
  }

  void spheres(const Pair& p, const V3<V>& centre1, const V3<V>& centre2, M close) {
    V distance;
    const V radius1 = size(p, 0, 0), radius2 = size(p, 1, 0);
    Touch<V> t;
    t.normal = normalized(centre2 - centre1, &distance);
    w_.bad = w_.bad |
             (close & (distance < V(by_kind<V>(kTie, 1e-6))));  // MuJoCo's choice or rounding then decides the normal
    t.dist = (distance - radius1) - radius2;
    t.pos = fma(fma(V(0.5), t.dist, radius1), t.normal, centre1);
    t.tangent = {V(0), V(0), V(0)};
    touch(p, 0, t, close);
  }

  void sphere_capsule(const Pair& p, M close) {
    spheres(p, pos(p, 0), nearest_to(pos(p, 0), pos(p, 1), arm(p, 1)), close);
  }

  // The half of a geom's capsule, or of the capsule around it, from its middle to an end.
  V3<V> arm(const Pair& p, int i) const {
    const Geom& g = plan_.geoms[p.geom[i]];
    const auto along = has_matrix(g) ? load9(w_.xmat + 9 * g.body) * constant3<V>(g.axis) : axis(p, i);
    return V(g.half) * along;
  }

  // The contacts of one pair, each lane's own one after the other: dist, pos, normal, tangent.
  struct Found {
    V contacts[Pair::kMostSlots][10];
    int count[V::width] = {};

    explicit Found(const Pair& p) {
      for (int i = 0; i < 10 * p.slots; ++i) contacts[i / 10][i % 10] = i % 10 == 0 ? V(p.margin + 1) : V(i % 10 == 4);
    }
    void add(const Pair& p, int l, const mjtNum* contact) {
      if (count[l]++ < p.slots) put(contact, 10, l, contacts[count[l] - 1]);
    }
    void forget(const Pair& p, int l) {
      for (int slot = 0; slot < p.slots; ++slot) lane(contacts[slot][0], l) = p.margin + 1;
      count[l] = 0;
    }
  };

  // Adds contacts; libmujoco makes the steps of lanes with too many.
  void touch(const Pair& p, const Found& found, M where) {
    const int most = *std::max_element(found.count, found.count + V::width);
    std::uint32_t too_many = 0;
    for (int l = 0; l < V::width; ++l) too_many |= static_cast<std::uint32_t>(found.count[l] > p.slots) << l;
    if (too_many) w_.bad = w_.bad | mask_of(too_many, M());
    for (int slot = 0; slot < std::min(most, p.slots); ++slot) {
      const V* c = found.contacts[slot];
      touch(p, slot, {c[0], load3(c + 1), load3(c + 4), load3(c + 7)}, where);
    }
  }

  void by_mujoco(const Pair& p, M close) {
    Found found(p);
    ask_mujoco(p, bits(close & ~w_.bad), found);
    touch(p, found, close);
  }

  // Calls MuJoCo's function for this kind of pair, in one lane after the other.
  void ask_mujoco(const Pair& p, std::uint32_t lanes, Found& found) {
    static_assert(sizeof(mjPreContact) == 10 * sizeof(mjtNum));  // dist, pos, normal, tangent
    const mjModel& m = *plan_.model;
    const auto collide = mjCOLLISIONFUNC[m.geom_type[p.names[0]]][m.geom_type[p.names[1]]];
    for (int l = 0; l < V::width; ++l) {
      if (!(lanes >> l & 1)) continue;
      place_by_mujoco(plan_, w_, l);  // some of these functions find another contact for another rounding
      mjPreContact contacts[mjMAXCONPAIR];
      const int n = collide(w_.models[l], w_.data[l], contacts, p.names[0], p.names[1], p.reach);
      for (int i = 0; i < n; ++i) found.add(p, l, &contacts[i].dist);
    }
  }

  // Adds a contact with each prism below the surface in which the sphere is: at the prism's nearest point.
  void field_sphere(const Pair& p, M close) {
    const auto mat = load9(w_.geom_xmat + 9 * p.geom[0]);
    const auto centre = transposed(mat, pos(p, 1) - pos(p, 0));
    const int field = plan_.model->geom_dataid[p.names[0]];
    const V radius = size(p, 1, 0), base(-plan_.model->hfield_size[4 * field + 3]);
    const std::uint32_t all = bits(close & ~w_.bad);
    std::uint32_t deep = 0;
    Found found(p);
    Prisms prisms[V::width];
    for (int l = 0; l < V::width; ++l)
      if (all >> l & 1) {
        const mjtNum at[3] = {lane(centre.x, l), lane(centre.y, l), lane(centre.z, l)};
        prisms[l] = Prisms(*w_.models[l], field, at, plan_.geoms[p.geom[1]].size[0]);
      }
    for (std::uint32_t left = all; left;) {
      V3<V> top[3];
      for (auto& corner : top) corner = {V(0), V(0), V(0)};
      std::uint32_t low = 0;
      for (int l = 0; l < V::width; ++l)
        if (left >> l & 1) low |= static_cast<std::uint32_t>(prisms[l].next(l, top)) << l;
      left = low;
      if (!low) break;
      M inside;
      const auto point = nearest_of_prism(top, &inside);
      const V far = sqrt(dot(point, point)), dist = far - radius;
      const std::uint32_t hits = low & bits(dist <= V(kTie));
      deep |= low & bits(inside | (far < V(by_kind<V>(2e-6, 1e-5))) | (centre.z <= base));
      if (!hits) continue;
      const auto outward = (V(-1) / far) * point;
      V contact[10];
      contact[0] = dist, store3(contact + 1, pos(p, 0) + mat * (centre + fma(V(0.5) * dist, outward, point)));
      store3(contact + 4, mat * outward), store3(contact + 7, {V(0), V(0), V(0)});
      for (int l = 0; l < V::width; ++l) {
        mjtNum own[10];
        if (hits >> l & 1) take(contact, 10, l, own), found.add(p, l, own);
      }
    }
    for (int l = 0; l < V::width; ++l)
      if (deep >> l & 1) found.forget(p, l);
    if (deep) ask_mujoco(p, deep, found);
    touch(p, found, close);
  }

  // Returns the lanes in which the capsules around two geoms overlap.
  M surroundings_meet(const Pair& p) const {
    const Geom &one = plan_.geoms[p.geom[0]], &other = plan_.geoms[p.geom[1]];
    if (p.plane || (one.half == 0 && other.half == 0)) return V(0) == V(0);
    V3<V> point[2] = {pos(p, 0), pos(p, 1)};
    M parallel = V(0) < V(0);
    if (one.half == 0) point[1] = nearest_to(point[0], point[1], arm(p, 1));
    else if (other.half == 0) point[0] = nearest_to(point[1], point[0], arm(p, 0));
    else parallel = nearest(p, arm(p, 0), arm(p, 1), point);
    const auto between = point[1] - point[0];
    const V bound(one.radius + other.radius + p.margin + Pair::kSlack);
    return parallel | (dot(between, between) < bound * bound);
  }

  // Returns the point of a segment that is nearest to another.
  V3<V> nearest_to(const V3<V>& point, const V3<V>& middle, const V3<V>& arm) const {
    return fma(min(max(dot(arm, point - middle) / dot(arm, arm), V(-1)), V(1)), arm, middle);
  }

  void capsules(const Pair& p, M close) {
    V3<V> point[2];
    w_.bad = w_.bad | (close & nearest(p, arm(p, 0), arm(p, 1), point));
    spheres(p, point[0], point[1], close);
  }

  // Finds the nearest points of two segments (mjraw_CapsuleCapsule). Returns the lanes in which they lie parallel, so
  // that there is no such pair of points.
  M nearest(const Pair& p, const V3<V>& axis1, const V3<V>& axis2, V3<V>* points) const {
    const auto between = pos(p, 0) - pos(p, 1);
    const V one(1), a = dot(axis1, axis1), b = -dot(axis1, axis2), c = dot(axis2, axis2);
    const V u = -dot(axis1, between), v = dot(axis2, between), det = fnma(b, b, a * c);
    const M parallel = abs(det) < V(by_kind<V>(1.0001e-8, 1e-6)) * (a * c);  // MuJoCo calls them parallel below 1e-8
    const V safe = select(parallel, one, det);
    V x1 = fnma(b, v, c * u) / safe, x2 = fnma(b, u, a * v) / safe;
    const M over1 = x1 > one, under1 = x1 < -one;
    x2 = select(over1, (v - b) / c, select(under1, (v + b) / c, x2));
    x1 = min(max(x1, -one), one);
    const M over2 = x2 > one, under2 = x2 < -one;
    x1 = select(over2, min(max((u - b) / a, -one), one), select(under2, min(max((u + b) / a, -one), one), x1));
    x2 = min(max(x2, -one), one);
    points[0] = fma(x1, axis1, pos(p, 0)), points[1] = fma(x2, axis2, pos(p, 1));
    return parallel;
  }

  const Plan& plan_;
  Work<V>& w_;
};

}  // namespace
}  // namespace headrace::lanes
