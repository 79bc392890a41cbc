// OpenGL without windows or displays, for a CPU or a GPU: EGL or OSMesa.
//
// Both are looked for when the first picture is drawn, not when the package is built or loaded: a machine without them
// loses only pictures.
#pragma once

#include <memory>
#include <stdexcept>

namespace headrace::mujoco {

// There is no OpenGL to draw with; the message says what to do about it.
struct NoPictures : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class GlContext {
 public:
  // The calling thread's context before this one.
  struct Before {
    void *display = nullptr, *draw = nullptr, *read = nullptr, *context = nullptr;
  };

  virtual ~GlContext() = default;

  // Makes the context the calling thread's; returns false if that is impossible, for example after the display's end.
  virtual bool enter(Before& before) = 0;
  virtual void leave(const Before& before) = 0;
};

// Returns a new context of the kind that MUJOCO_GL names, else EGL's, else OSMesa's; the kind stays the same for the
// whole process. Throws NoPictures.
std::unique_ptr<GlContext> make_context();

// A context is the calling thread's while this lives.
class Current {
 public:
  explicit Current(GlContext& context) : context_(context), entered_(context.enter(before_)) {}
  ~Current() {
    if (entered_) context_.leave(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  explicit operator bool() const { return entered_; }

 private:
  GlContext& context_;
  GlContext::Before before_;
  bool entered_;
};

}  // namespace headrace::mujoco
