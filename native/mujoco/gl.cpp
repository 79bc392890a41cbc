#include "gl.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

namespace headrace::mujoco {
namespace {

// The library is loaded globally, as MuJoCo looks up OpenGL's functions among the libraries of the process.
void* open_library(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
  throw NoPictures(std::string("there is no ") + *names.begin());
}

template <class Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (!function) throw NoPictures(std::string("it lacks ") + name);
}

class Kind {
 public:
  virtual ~Kind() = default;
  virtual std::unique_ptr<GlContext> make() const = 0;
};

// ---- EGL: a GPU's driver, or Mesa on the CPU -----------------------------------------------------

// The part of Khronos' EGL 1.5 and of EXT_platform_device that is used here.
using EglInt = std::int32_t;
constexpr EglInt kEglTrue = 1, kEglNone = 0x3038, kEglOpenGlApi = 0x30A2, kEglDraw = 0x3059, kEglRead = 0x305A,
                 kEglPlatformDevice = 0x313F;
constexpr EglInt kEglConfig[] = {0x3024,  8,      0x3023, 8, 0x3022, 8, 0x3021, 8,  // red, green, blue, alpha
                                 0x3025,  24,     0x3026, 8,                       // depth, stencil
                                 0x303F,  0x308E,                              // colours are RGB
                                 0x3033,  0x0001,                              // surfaces: pixel buffers
                                 0x3040,  0x0008,                              // draws OpenGL
                                 kEglNone};

class Egl final : public Kind {
 public:
  Egl() {
    dlopen("libOpenGL.so.0", RTLD_NOW | RTLD_GLOBAL);  // finds OpenGL on a machine without X
    void* library = open_library({"libEGL.so.1", "libEGL.so"});
    look_up(library, "eglGetProcAddress", get_address);
    look_up(library, "eglInitialize", initialize);
    look_up(library, "eglChooseConfig", choose_config);
    look_up(library, "eglBindAPI", bind_api);
    look_up(library, "eglCreateContext", create_context);
    look_up(library, "eglDestroyContext", destroy_context);
    look_up(library, "eglMakeCurrent", make_current);
    look_up(library, "eglGetCurrentContext", current_context);
    look_up(library, "eglGetCurrentDisplay", current_display);
    look_up(library, "eglGetCurrentSurface", current_surface);
    display_ = first_display();
    EglInt found = 0;
    if (!choose_config(display_, kEglConfig, &config_, 1, &found) || found < 1)
      throw NoPictures("it has no fitting kind of frame");
    bind_api(kEglOpenGlApi);
    if (!make_probe()) throw NoPictures("it cannot make an OpenGL context");
  }

  std::unique_ptr<GlContext> make() const override;

  void* display() const { return display_; }

  void* new_context() const {
    bind_api(kEglOpenGlApi);  // it holds for the calling thread
    return create_context(display_, config_, nullptr, nullptr);
  }

  void* (*get_address)(const char*);
  unsigned (*initialize)(void*, EglInt*, EglInt*);
  unsigned (*choose_config)(void*, const EglInt*, void**, EglInt, EglInt*);
  unsigned (*bind_api)(unsigned);
  void* (*create_context)(void*, void*, void*, const EglInt*);
  unsigned (*destroy_context)(void*, void*);
  unsigned (*make_current)(void*, void*, void*, void*);
  void* (*current_context)();
  void* (*current_display)();
  void* (*current_surface)(EglInt);

 private:
  bool make_probe() const {
    void* probe = new_context();
    return probe && destroy_context(display_, probe) == kEglTrue;
  }

  // The device that MUJOCO_EGL_DEVICE_ID counts, or the first that works.
  void* first_display() const {
    auto query_devices = reinterpret_cast<unsigned (*)(EglInt, void**, EglInt*)>(get_address("eglQueryDevicesEXT"));
    auto display_of =
        reinterpret_cast<void* (*)(unsigned, void*, const EglInt*)>(get_address("eglGetPlatformDisplayEXT"));
    if (!query_devices || !display_of) throw NoPictures("it cannot draw without a display");
    std::array<void*, 32> devices{};
    EglInt count = 0;
    query_devices(static_cast<EglInt>(devices.size()), devices.data(), &count);
    std::size_t first = 0, last = static_cast<std::size_t>(std::max(count, 0));
    if (const char* chosen = std::getenv("MUJOCO_EGL_DEVICE_ID"); chosen && *chosen) {
      char* end = nullptr;
      const long id = std::strtol(chosen, &end, 10);
      if (*end || id < 0 || id >= count)
        throw NoPictures("MUJOCO_EGL_DEVICE_ID=" + std::string(chosen) + " is none of its " + std::to_string(count) +
                         " devices");
      first = static_cast<std::size_t>(id), last = first + 1;
    }
    for (std::size_t i = first; i < last; ++i) {
      void* display = display_of(kEglPlatformDevice, devices[i], nullptr);
      if (display && initialize(display, nullptr, nullptr) == kEglTrue) return display;
    }
    throw NoPictures("it has no device that works");
  }

  void* display_ = nullptr;
  void* config_ = nullptr;
};

class EglContext final : public GlContext {
 public:
  explicit EglContext(const Egl& egl) : egl_(egl), context_(egl.new_context()) {
    if (!context_) throw NoPictures("EGL cannot make another context");
  }

  ~EglContext() override { egl_.destroy_context(egl_.display(), context_); }

  bool enter(Before& before) override {
    before = {egl_.current_display(), egl_.current_surface(kEglDraw), egl_.current_surface(kEglRead),
              egl_.current_context()};
    return egl_.make_current(egl_.display(), nullptr, nullptr, context_) == kEglTrue;
  }

  void leave(const Before& before) override {
    if (before.context) egl_.make_current(before.display, before.draw, before.read, before.context);
    else egl_.make_current(egl_.display(), nullptr, nullptr, nullptr);
  }

 private:
  const Egl& egl_;
  void* context_;
};

std::unique_ptr<GlContext> Egl::make() const { return std::make_unique<EglContext>(*this); }

// ---- OSMesa: Mesa on the CPU, without EGL --------------------------------------------------------

class OsMesa final : public Kind {
 public:
  OsMesa() {
    void* library = open_library({"libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"});
    look_up(library, "OSMesaCreateContextExt", create_context);
    look_up(library, "OSMesaDestroyContext", destroy_context);
    look_up(library, "OSMesaMakeCurrent", make_current);
  }

  std::unique_ptr<GlContext> make() const override;

  void* (*create_context)(unsigned, EglInt, EglInt, EglInt, void*);
  void (*destroy_context)(void*);
  unsigned char (*make_current)(void*, void*, unsigned, EglInt, EglInt);
};

class OsMesaContext final : public GlContext {
 public:
  explicit OsMesaContext(const OsMesa& mesa) : mesa_(mesa), context_(mesa.create_context(kRgba, 24, 8, 0, nullptr)) {
    if (!context_) throw NoPictures("OSMesa cannot make a context");
  }

  ~OsMesaContext() override { mesa_.destroy_context(context_); }

  bool enter(Before&) override { return mesa_.make_current(context_, window_.data(), kBytes, kSide, kSide) != 0; }
  void leave(const Before&) override { mesa_.make_current(nullptr, nullptr, kBytes, 0, 0); }

 private:
  static constexpr unsigned kRgba = 0x1908, kBytes = 0x1401;
  static constexpr EglInt kSide = 16;  // the side of a "window" to which nobody draws: MuJoCo has its own buffer

  const OsMesa& mesa_;
  void* context_;
  std::array<unsigned char, 4 * kSide * kSide> window_{};
};

std::unique_ptr<GlContext> OsMesa::make() const { return std::make_unique<OsMesaContext>(*this); }

// ---- which ---------------------------------------------------------------------------------------

std::string wanted() {
  const char* set = std::getenv("MUJOCO_GL");
  std::string name = set ? set : "";
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

template <class T>
std::unique_ptr<Kind> attempt(const char* name, std::string& faults) {
  try {
    return std::make_unique<T>();
  } catch (const NoPictures& fault) {
    faults += std::string(faults.empty() ? "" : "; ") + name + ": " + fault.what();
    return nullptr;
  }
}

std::unique_ptr<Kind> find_kind() {
  const std::string name = wanted();
  for (const char* off : {"disable", "disabled", "off", "false", "0"})
    if (name == off) throw NoPictures("pictures are switched off: MUJOCO_GL=" + name);
  std::string faults;
  std::unique_ptr<Kind> kind;
  if (name != "osmesa") kind = attempt<Egl>("EGL", faults);
  if (!kind && name != "egl") kind = attempt<OsMesa>("OSMesa", faults);
  if (kind) return kind;
  throw NoPictures("pictures of MuJoCo tasks need OpenGL, and there is none (" + faults +
                   "). Install EGL (Debian, Ubuntu: apt install libegl1 libgl1) or OSMesa (libosmesa6)" +
                   (name == "egl" || name == "osmesa" ? ", or unset MUJOCO_GL, which is " + name : ""));
}

}  // namespace

std::unique_ptr<GlContext> make_context() {
  static std::mutex mutex;
  static const Kind* kind = nullptr;  // never deleted: contexts may outlive static objects
  static pid_t owner = 0;
  std::lock_guard lock(mutex);
  if (kind && owner != getpid())
    throw NoPictures(
        "this process was forked from one that had drawn pictures, and OpenGL does not survive that: "
        "start processes with the method \"spawn\"");
  if (!kind) kind = find_kind().release(), owner = getpid();
  return kind->make();
}

}  // namespace headrace::mujoco
