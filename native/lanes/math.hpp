// Vectors, rotations, spatial vectors and inertias over lanes, in MuJoCo's conventions: quaternions (w, x, y, z);
// spatial vectors rotation before translation; inertias of a body about a point as ten numbers
// (xx, yy, zz, xy, xz, yz, m x, m y, m z, m).
#pragma once

#include "vec.hpp"

namespace headrace::lanes {
namespace {

constexpr double kMinValue = 1e-15;  // mjMINVAL

template <class V>
struct V3 {
  V x, y, z;
};

template <class V>
struct Quat {
  V w, x, y, z;
};

// Three rows.
template <class V>
struct Mat3 {
  V3<V> a, b, c;
};

// A rotation and a translation, or a torque and a force.
template <class V>
struct Spatial {
  V3<V> r, t;
};

template <class V>
inline V3<V> load3(const V* p) {
  return {p[0], p[1], p[2]};
}
template <class V>
inline void store3(V* p, const V3<V>& a) {
  p[0] = a.x, p[1] = a.y, p[2] = a.z;
}
template <class V>
inline V3<V> constant3(const double* p) {
  return {V(p[0]), V(p[1]), V(p[2])};
}
template <class V>
inline Mat3<V> load9(const V* p) {
  return {load3(p), load3(p + 3), load3(p + 6)};
}
template <class V>
inline void store9(V* p, const Mat3<V>& m) {
  store3(p, m.a), store3(p + 3, m.b), store3(p + 6, m.c);
}
template <class V>
inline Spatial<V> load6(const V* p) {
  return {load3(p), load3(p + 3)};
}
template <class V>
inline void store6(V* p, const Spatial<V>& s) {
  store3(p, s.r), store3(p + 3, s.t);
}
template <class V>
inline Quat<V> load4(const V* p) {
  return {p[0], p[1], p[2], p[3]};
}
template <class V>
inline void store4(V* p, const Quat<V>& q) {
  p[0] = q.w, p[1] = q.x, p[2] = q.y, p[3] = q.z;
}

template <class V>
inline V3<V> operator+(const V3<V>& a, const V3<V>& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class V>
inline V3<V> operator-(const V3<V>& a, const V3<V>& b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class V>
inline V3<V> operator-(const V3<V>& a) {
  return {-a.x, -a.y, -a.z};
}
template <class V>
inline V3<V> operator*(V s, const V3<V>& a) {
  return {s * a.x, s * a.y, s * a.z};
}
template <class V>
inline V3<V> fma(V s, const V3<V>& a, const V3<V>& b) {
  return {fma(s, a.x, b.x), fma(s, a.y, b.y), fma(s, a.z, b.z)};
}
template <class V>
inline V dot(const V3<V>& a, const V3<V>& b) {
  return fma(a.z, b.z, fma(a.y, b.y, a.x * b.x));
}
template <class V>
inline V3<V> cross(const V3<V>& a, const V3<V>& b) {
  return {fnma(a.z, b.y, a.y * b.z), fnma(a.x, b.z, a.z * b.x), fnma(a.y, b.x, a.x * b.y)};
}
template <class V>
inline V3<V> select(typename V::M m, const V3<V>& a, const V3<V>& b) {
  return {select(m, a.x, b.x), select(m, a.y, b.y), select(m, a.z, b.z)};
}
template <class V>
inline V3<V> operator*(const Mat3<V>& m, const V3<V>& a) {
  return {dot(m.a, a), dot(m.b, a), dot(m.c, a)};
}
template <class V>
inline V3<V> transposed(const Mat3<V>& m, const V3<V>& a) {
  return fma(a.z, m.c, fma(a.y, m.b, a.x * m.a));
}
template <class V>
inline Mat3<V> operator*(const Mat3<V>& m, const Mat3<V>& n) {
  return {transposed(n, m.a), transposed(n, m.b), transposed(n, m.c)};
}
template <class V>
inline Mat3<V> constant9(const double* p) {
  return {constant3<V>(p), constant3<V>(p + 3), constant3<V>(p + 6)};
}
template <class V>
inline V3<V> column(const Mat3<V>& m, int i) {
  return i == 0 ? V3<V>{m.a.x, m.b.x, m.c.x} : i == 1 ? V3<V>{m.a.y, m.b.y, m.c.y} : V3<V>{m.a.z, m.b.z, m.c.z};
}

// Returns a with length 1, or (1, 0, 0) if it has none; and writes its length.
template <class V>
inline V3<V> normalized(const V3<V>& a, V* length = nullptr) {
  const V norm = sqrt(dot(a, a));
  const auto none = norm < V(kMinValue);
  const V scale = V(1) / select(none, V(1), norm);
  if (length) *length = norm;
  return select(none, V3<V>{V(1), V(0), V(0)}, scale * a);
}

template <class V>
inline Quat<V> operator*(const Quat<V>& a, const Quat<V>& b) {
  return {fnma(a.z, b.z, fnma(a.y, b.y, fnma(a.x, b.x, a.w * b.w))),
          fnma(a.z, b.y, fma(a.y, b.z, fma(a.x, b.w, a.w * b.x))),
          fma(a.z, b.x, fma(a.y, b.w, fnma(a.x, b.z, a.w * b.y))),
          fma(a.z, b.w, fnma(a.y, b.x, fma(a.x, b.y, a.w * b.z)))};
}
template <class V>
inline Quat<V> conjugate(const Quat<V>& q) {
  return {q.w, -q.x, -q.y, -q.z};
}
template <class V>
inline Quat<V> constant4(const double* p) {
  return {V(p[0]), V(p[1]), V(p[2]), V(p[3])};
}

template <class V>
inline Quat<V> normalized(const Quat<V>& q) {
  const V norm = sqrt(fma(q.z, q.z, fma(q.y, q.y, fma(q.x, q.x, q.w * q.w))));
  const auto none = norm < V(kMinValue);
  const V scale = V(1) / select(none, V(1), norm);
  return {select(none, V(1), scale * q.w), select(none, V(0), scale * q.x), select(none, V(0), scale * q.y),
          select(none, V(0), scale * q.z)};
}

template <class V>
inline Mat3<V> matrix_of(const Quat<V>& q) {
  const V two(2), w = two * q.w, x = two * q.x, y = two * q.y, z = two * q.z;
  const V xx = x * q.x, yy = y * q.y, zz = z * q.z, xy = x * q.y, xz = x * q.z, yz = y * q.z;
  const V wx = w * q.x, wy = w * q.y, wz = w * q.z, one(1);
  return {
      {one - (yy + zz), xy - wz, xz + wy}, {xy + wz, one - (xx + zz), yz - wx}, {xz - wy, yz + wx, one - (xx + yy)}};
}

// Sine and cosine by Cody and Waite's reduction to [-π/4, π/4] and the polynomials of fdlibm (Sun Microsystems, 1993);
// within 1 unit in the last place for |x| < 1e8 (floats: 1e4).
template <class V>
inline void sincos(V x, V* sine, V* cosine) {
  const V k = round(x * V(0.63661977236758134308));
  V r = fnma(k, V(by_kind<V>(1.57079632679489655800, 1.57079637050628662109)), x);
  r = fnma(k, V(by_kind<V>(6.12323399573676603587e-17, -4.37113882867379289655e-8)), r);
  r = fnma(k, V(by_kind<V>(-1.49738490485916982971e-33, -1.71512489046478850e-15)), r);
  const V z = r * r;
  V s = fma(z, V(1.58969099521155010221e-10), V(-2.50507602534068634195e-08));
  s = fma(z, s, V(2.75573137070700676789e-06));
  s = fma(z, s, V(-1.98412698298579493134e-04));
  s = fma(z, s, V(8.33333333332248946124e-03));
  s = fma(z, s, V(-1.66666666666666324348e-01));
  s = fma(z * r, s, r);
  V c = fma(z, V(-1.13596475577881948265e-11), V(2.08757232129817482790e-09));
  c = fma(z, c, V(-2.75573143513906633035e-07));
  c = fma(z, c, V(2.48015872894767294178e-05));
  c = fma(z, c, V(-1.38888888888741095749e-03));
  c = fma(z, c, V(4.16666666666666019037e-02));
  c = fma(z * z, c, fnma(z, V(0.5), V(1)));
  const V quarter = k * V(0.25), turn = quarter - floor(quarter);  // 0, 1/4, 1/2 or 3/4
  const auto second = turn == V(0.25), third = turn == V(0.5), fourth = turn == V(0.75);
  const auto swapped = second | fourth;
  const V sine_part = select(swapped, c, s), cosine_part = select(swapped, s, c);
  *sine = select(third | fourth, -sine_part, sine_part);
  *cosine = select(second | third, -cosine_part, cosine_part);
}

// Returns the rotation by an angle about a unit axis.
template <class V>
inline Quat<V> rotation(const V3<V>& axis, V angle) {
  V s, c;
  sincos(angle * V(0.5), &s, &c);
  return {c, s * axis.x, s * axis.y, s * axis.z};
}

template <class V>
inline Spatial<V> operator+(const Spatial<V>& a, const Spatial<V>& b) {
  return {a.r + b.r, a.t + b.t};
}
template <class V>
inline Spatial<V> operator-(const Spatial<V>& a, const Spatial<V>& b) {
  return {a.r - b.r, a.t - b.t};
}
template <class V>
inline Spatial<V> fma(V s, const Spatial<V>& a, const Spatial<V>& b) {
  return {fma(s, a.r, b.r), fma(s, a.t, b.t)};
}
template <class V>
inline V dot(const Spatial<V>& a, const Spatial<V>& b) {
  return fma(a.t.z, b.t.z, fma(a.t.y, b.t.y, fma(a.t.x, b.t.x, dot(a.r, b.r))));
}

// velocity × motion
template <class V>
inline Spatial<V> cross_motion(const Spatial<V>& v, const Spatial<V>& m) {
  return {cross(v.r, m.r), cross(v.r, m.t) + cross(v.t, m.r)};
}

// velocity × force
template <class V>
inline Spatial<V> cross_force(const Spatial<V>& v, const Spatial<V>& f) {
  return {cross(v.r, f.r) + cross(v.t, f.t), cross(v.r, f.t)};
}

// inertia · motion
template <class V>
inline Spatial<V> inertia_times(const V* i, const Spatial<V>& m) {
  const V3<V> c = load3(i + 6);
  const V3<V> turn{fma(i[4], m.r.z, fma(i[3], m.r.y, i[0] * m.r.x)), fma(i[5], m.r.z, fma(i[1], m.r.y, i[3] * m.r.x)),
                   fma(i[2], m.r.z, fma(i[5], m.r.y, i[4] * m.r.x))};
  return {turn + cross(c, m.t), fma(i[9], m.t, cross(m.r, c))};
}

}  // namespace
}  // namespace headrace::lanes
