// Random models, by which physics is compared with MuJoCo's: trees of bodies with all kinds of joints, geoms,
// actuators, tendons and options that lanes step.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

using Model = std::shared_ptr<const mjModel>;
using Data = std::unique_ptr<mjData, decltype(&mj_deleteData)>;

inline Data data_of(const Model& m) { return Data(mj_makeData(m.get()), &mj_deleteData); }

// Returns null, and a word of the reason, if MuJoCo's compiler refuses the model.
inline Model compiled(const std::string& xml) {
  char error[1000] = "";
  mjSpec* spec = mj_parseXMLString(xml.c_str(), nullptr, error, sizeof error);
  mjModel* model = spec ? mj_compile(spec, nullptr) : nullptr;
  if (!model) std::fprintf(stderr, "not compiled: %s\n", spec ? mjs_getError(spec) : error);
  if (spec) mj_deleteSpec(spec);
  return Model(model, [](const mjModel* m) { mj_deleteModel(const_cast<mjModel*>(m)); });
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::string model() {
    bodies_ = joints_ = 0;
    scalars_.clear(), limited_.clear(), round_.clear();
    const std::string given = options();
    std::string world = "<site name='s0' pos='0 0 1'/><geom type='plane' size='5 5 1' contype='3' " + surface() + "/>";
    if (!stages_ && chance(0.2)) world += "<geom type='hfield' hfield='ground' " + surface() + "/>";
    const int trees = integer(1, 2);
    for (int i = 0; i < trees; ++i) world += body(0, i);
    const std::string parts = coupled(), seen = sensors();
    return "<mujoco>" + given + assets() + "<worldbody>" + world + "</worldbody>" + parts + "<sensor>" + seen +
           "</sensor></mujoco>";
  }

  // A mesh and a height field.
  std::string assets() {
    return "<asset><mesh name='stone' vertex='" + reals(3 * integer(6, 20), -0.1, 0.1) +
           "'/><hfield name='ground' nrow='9' ncol='9' " + "size='2 2 0.3 0.1' elevation='" + reals(81, 0, 1) +
           "'/></asset>";
  }

  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(double p) { return real(0, 1) < p; }

 private:
  static std::string text(double x) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.6g", x);
    return buffer;
  }
  std::string reals(int n, double low, double high) {
    std::string all;
    for (int i = 0; i < n; ++i) all += text(real(low, high)) + " ";
    return all;
  }
  std::string attribute(const char* name, const std::string& value) { return std::string(name) + "='" + value + "' "; }

  std::string options() {
    std::string o = attribute("timestep", text(real(0.001, 0.005)));
    stages_ = chance(0.5), fast_ = !stages_ && chance(0.4);
    o += attribute("integrator", stages_ ? "RK4"
                                 : fast_ ? "implicitfast"
                                         : "Euler") +
         attribute("cone", chance(0.5) ? "elliptic" : "pyramidal");
    // MuJoCo's solver goes on until it has the optimum, too.
    o += attribute("iterations", "100") + attribute("tolerance", "1e-15") + attribute("ls_tolerance", "1e-6");
    if (chance(0.3)) o += attribute("impratio", text(real(0.5, 5)));
    if (!fast_ && chance(0.3))
      o += attribute("density", text(real(0, 1000))) + attribute("viscosity", text(real(0, 0.1))) +
           attribute("wind", reals(3, -1, 1));
    return "<compiler angle='radian'/><option " + o + "/>";
  }

  std::string stiffness(const char* ref, const char* imp) {
    std::string s;
    if (chance(0.3))
      s += attribute(ref, chance(0.7) ? text(real(0.01, 0.05)) + " " + text(real(0.5, 1.5))
                                      : text(real(-2000, -200)) + " " + text(real(-50, -5)));
    if (chance(0.3))
      s += attribute(imp, text(real(0.5, 0.9)) + " " + text(real(0.9, 0.99)) + " " + text(real(0.001, 0.05)) + " " +
                              text(real(0.2, 0.8)) + " " + text(integer(2, 6) * 0.5));
    return s;
  }

  std::string surface() {
    const int dims[] = {1, 3, 3, 4, 6};
    std::string s = attribute("condim", std::to_string(dims[integer(0, 4)]));
    s += attribute("friction", text(real(0.2, 1.5)) + " " + text(real(0.001, 0.1)) + " " + text(real(0.001, 0.1)));
    if (chance(0.3)) s += attribute("margin", text(real(0, 0.02)));
    if (chance(0.2)) s += attribute("priority", std::to_string(integer(0, 1)));
    if (chance(0.2)) s += attribute("solmix", text(real(0, 2)));
    return s + stiffness("solref", "solimp");
  }

  std::string geom(bool centred = false) {
    const char* kinds[] = {"sphere", "capsule", "capsule", "box", "box", "cylinder", "ellipsoid", "mesh"};
    const int kind = integer(0, stages_ ? 6 : 7);
    const std::string sizes = kind == 0                             ? text(real(0.04, 0.12))
                              : kind == 3 || kind == 4 || kind == 6 ? reals(3, 0.04, 0.12)
                                                                    : reals(2, 0.04, 0.12);
    std::string g = attribute("type", kinds[kind]) +
                    (kind == 7 ? attribute("mesh", "stone") : attribute("size", sizes)) +
                    (centred ? "" : attribute("pos", reals(3, -0.1, 0.1)));
    // If curved shapes touch, MuJoCo finds their contacts by iterations whose number depends on the last bits of their
    // places, which Runge-Kutta's stages do not share: under it they touch the floor alone.
    if (stages_ && kind > 4) g += "contype='0' conaffinity='2' ";
    if (kind == 0 || kind == 5) {
      round_.push_back("g" + std::to_string(round_.size()));
      g += attribute("name", round_.back());
    }
    return "<geom " + g + (centred ? "" : attribute("euler", reals(3, -3, 3))) + surface() + "/>";
  }

  std::string joint(bool ball, bool turns = false) {
    const int kind = ball ? 0 : integer(turns ? 3 : 1, 9);
    std::string j = attribute("name", "j" + std::to_string(joints_));
    if (kind == 0) {
      j += attribute("type", "ball");
      if (chance(0.3)) j += attribute("range", "0 " + text(real(0.3, 2))) + attribute("limited", "true");
    } else {
      j += attribute("type", kind < 3 ? "slide" : "hinge") + attribute("axis", reals(3, -1, 1));
      if (chance(0.5)) {
        j += attribute("range", text(real(-1, -0.1)) + " " + text(real(0.1, 1))) + attribute("limited", "true");
        limited_.push_back("j" + std::to_string(joints_));
      }
      if (chance(0.3)) j += attribute("stiffness", text(real(0, 20))) + attribute("springref", text(real(-0.5, 0.5)));
      if (chance(0.3)) j += attribute("ref", text(real(-0.5, 0.5)));
      if (chance(0.3))
        j += attribute("actuatorfrcrange", text(real(-3, 0)) + " " + text(real(0, 3))) +
             attribute("actuatorfrclimited", "true");
      scalars_.push_back("j" + std::to_string(joints_));
    }
    ++joints_;
    if (chance(0.3)) j += attribute("frictionloss", text(real(0.01, 1)));
    if (chance(0.5)) j += attribute("damping", text(real(0, 1)));
    if (chance(0.3)) j += attribute("margin", text(real(0, 0.05)));
    return "<joint " + j + attribute("armature", text(real(0.001, 0.1))) + attribute("pos", reals(3, -0.1, 0.1)) +
           stiffness("solreflimit", "solimplimit") + "/>";
  }

  std::string body(int depth, int tree) {
    ++bodies_;
    const std::string place = depth == 0 ? text(tree * 0.4) + " 0 " + text(real(0.05, 0.5)) : reals(3, -0.2, 0.2);
    std::string b = "<body " + attribute("name", "b" + std::to_string(bodies_)) + attribute("pos", place) +
                    (chance(0.5) ? attribute("euler", reals(3, -1, 1)) : "") + ">";
    const bool free = depth == 0 && chance(0.6);
    if (free) b += "<freejoint/>";
    else if (chance(0.15)) b += joint(true);
    else
      for (int i = integer(depth == 0 ? 1 : 0, 2); i > 0; --i) b += joint(false, depth == 0);
    if (free && chance(0.3)) b += geom(true);  // its inertia is diagonal if it carries none
    else
      for (int i = integer(1, 2); i > 0; --i) b += geom();
    b += "<site " + attribute("name", "s" + std::to_string(bodies_)) + attribute("pos", reals(3, -0.1, 0.1)) +
         attribute("euler", reals(3, -3, 3)) + "size='0.15'/>";
    for (int i = integer(0, 2); i > 0 && depth < 3 && bodies_ < 8; --i) b += body(depth + 1, tree);
    return b + "</body>";
  }

  std::string sensors() {
    std::string all;
    for (int i = 1; i <= bodies_; ++i)
      for (const char* kind : {"touch", "accelerometer", "force", "torque", "gyro", "velocimeter"})
        if (chance(0.4)) all += std::string("<") + kind + " site='s" + std::to_string(i) + "'/>";
    for (int i = 1; i <= bodies_; ++i)
      for (const char* kind : {"framepos", "framequat", "framexaxis", "framezaxis", "framelinvel", "frameangvel"})
        if (chance(0.4)) all += frame(kind);
    for (const char* kind : {"framelinacc", "frameangacc"}) all += std::string("<") + kind + " " + object("obj") + "/>";
    for (const auto& joint : scalars_)
      for (const char* kind : {"jointpos", "jointvel", "jointactuatorfrc"})
        if (chance(0.4)) all += std::string("<") + kind + " joint='" + joint + "'/>";
    for (const auto& joint : limited_)
      for (const char* kind : {"jointlimitpos", "jointlimitvel", "jointlimitfrc"})
        if (chance(0.4)) all += std::string("<") + kind + " joint='" + joint + "'/>";
    for (int i = integer(0, 3); i > 0; --i) all += contact();
    return all + "<subtreelinvel body='b1'/><subtreecom body='b" + std::to_string(bodies_) + "'/>";
  }

  // A body, its inertia or a site, as an attribute that begins so.
  std::string object(const std::string& as) {
    const char* kinds[] = {"body", "xbody", "site"};
    const int kind = integer(0, 2);
    return as + "type='" + kinds[kind] + "' " + as + "name='" + (kind == 2 ? "s" : "b") +
           std::to_string(integer(1, bodies_)) + "'";
  }

  std::string frame(const std::string& kind) {
    const std::string seen = object("obj");
    return "<" + kind + " " + seen + (chance(0.5) ? " " + object("ref") : "") + "/>";
  }

  std::string contact() {
    const char *data[] = {"found", "force", "found dist pos normal", "found force torque tangent"},
               *choices[] = {"none", "mindist", "maxforce", "netforce"};
    std::string c = chance(0.8) ? "subtree1='b" + std::to_string(integer(1, bodies_)) + "' " : "";
    c += attribute("data", data[integer(0, 3)]) + attribute("reduce", choices[integer(0, 3)]);
    return "<contact " + c + attribute("num", std::to_string(integer(1, 4))) + "/>";
  }

  std::string some_joint() {
    return scalars_[static_cast<std::size_t>(integer(0, static_cast<int>(scalars_.size()) - 1))];
  }

  std::string actuator() {
    const int kind = integer(0, 4);
    std::string a = attribute("joint", some_joint()) + attribute("gear", text(real(-5, 5)));
    if (chance(0.5)) a += attribute("ctrlrange", "-0.7 0.7") + attribute("ctrllimited", "true");
    if (chance(0.3)) a += attribute("forcerange", "-3 3") + attribute("forcelimited", "true");
    if (kind == 0) return "<motor " + a + "/>";
    if (kind == 1)
      return "<position " + a + attribute("kp", text(real(1, 20))) + attribute("kv", text(real(0, 2))) + "/>";
    if (kind == 2) return "<velocity " + a + attribute("kv", text(real(0.1, 2))) + "/>";
    if (kind == 4)
      return "<general " + a + "gaintype='affine' biastype='affine' gainprm='" + reals(3, -1, 1) + "' biasprm='" +
             reals(2, -1, 1) + text(real(-2, 0)) + "'/>";
    const char* kinds[] = {"integrator", "filter", "filterexact"};
    a += attribute("dyntype", kinds[integer(0, 2)]) + attribute("dynprm", text(real(0.01, 0.2))) +
         attribute("gainprm", text(real(0.5, 3)));
    if (chance(0.5)) a += attribute("actrange", "-0.5 0.5") + attribute("actlimited", "true");
    return "<general " + a + (chance(0.3) ? attribute("actearly", "true") : "") + "/>";
  }

  // Bodies and sites that are held together.
  std::string joined() {
    std::string all;
    const auto some = [&](const char* kind) { return std::string(kind) + std::to_string(integer(1, bodies_)); };
    if (bodies_ > 1 && chance(0.2))
      all += "<connect body1='b1' body2='b" + std::to_string(bodies_) + "' anchor='" + reals(3, -0.1, 0.1) + "' " +
             stiffness("solref", "solimp") + "/>";
    if (bodies_ > 1 && chance(0.1))
      all += "<weld body1='b" + std::to_string(bodies_) + "' body2='b1' torquescale='" + text(real(0.5, 2)) + "' " +
             stiffness("solref", "solimp") + "/>";
    if (chance(0.1)) all += "<weld body1='" + some("b") + "' relpose='" + reals(3, -0.1, 0.1) + "1 0.1 0.2 0'/>";
    if (bodies_ > 1 && chance(0.1)) all += "<connect site1='s1' site2='s" + std::to_string(bodies_) + "'/>";
    if (bodies_ > 1 && chance(0.1)) all += "<weld site1='s" + std::to_string(bodies_) + "' site2='s1'/>";
    return all;
  }

  // A body other than the last.
  std::string site() {
    last_ = (last_ + integer(1, bodies_ - 1)) % bodies_;
    return "<site site='s" + std::to_string(last_ + 1) + "'/>";
  }

  // A spatial tendon from the world, over a pulley or around a geom. If nothing changed the length of a limited one,
  // its Jacobian would consist of rounding errors, times MuJoCo's largest stiffness.
  std::string string() {
    std::string t = attribute("stiffness", text(real(0, 50))) + attribute("damping", text(real(0, 1)));
    if (chance(0.5)) t += attribute("springlength", "0 " + text(real(0.3, 0.9)));
    if (chance(0.5))
      t += attribute("range", text(real(0.4, 0.8)) + " " + text(real(0.9, 1.2))) + attribute("limited", "true");
    if (chance(0.3)) t += attribute("frictionloss", text(real(0.01, 0.5)));
    std::string path = "<site site='s0'/>";
    if (!round_.empty() && chance(0.4))
      path += "<geom geom='" + round_.back() + "' " + (chance(0.5) ? "sidesite='s1'" : "") + "/>";
    path += site();
    if (chance(0.3)) {
      path += "<pulley divisor='2'/>" + site();
      path += site();
    }
    return "<spatial name='u' " + t + ">" + path + "</spatial>";
  }

  // Parts that join joints: actuators, tendons, equalities.
  std::string coupled() {
    std::string actuators, tendons, equalities = joined();
    if (scalars_.size() < 2) return "<equality>" + equalities + "</equality>";
    for (int i = integer(1, 4); i > 0; --i) actuators += actuator();
    if (chance(0.4)) {
      std::string t = attribute("stiffness", text(real(0, 10))) + attribute("damping", text(real(0, 1)));
      if (chance(0.5)) t += attribute("range", "-0.3 0.3") + attribute("limited", "true");
      if (chance(0.3)) t += attribute("frictionloss", text(real(0.01, 0.5)));
      tendons = "<fixed name='t' " + t + "><joint joint='" + scalars_[0] + "' coef='" + text(real(-2, 2)) +
                "'/><joint joint='" + scalars_[1] + "' coef='" + text(real(-2, 2)) + "'/></fixed>";
      actuators += "<motor tendon='t' gear='2'/>";
    }
    if (bodies_ > 1 && chance(0.4)) {
      tendons += string(), actuators += "<position tendon='u' kp='3'/>";
      if (chance(0.3)) equalities += "<tendon tendon1='u' polycoef='" + reals(5, -0.1, 0.1) + "'/>";
    }
    if (chance(0.3))
      equalities += "<joint joint1='" + scalars_[0] + "' joint2='" + scalars_.back() + "' polycoef='" +
                    reals(5, -0.5, 0.5) + "'/>";
    return "<actuator>" + actuators + "</actuator><tendon>" + tendons + "</tendon><equality>" + equalities +
           "</equality>";
  }

  std::mt19937_64 random_;
  bool stages_ = false, fast_ = false;  // the integrator is Runge-Kutta's, or implicitfast
  int bodies_ = 0, joints_ = 0, last_ = 0;
  std::vector<std::string> scalars_;  // names of hinges and slides
  std::vector<std::string> limited_;  // of those of them that have limits
  std::vector<std::string> round_;    // names of spheres and cylinders
};
