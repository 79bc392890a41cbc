// OpenGL without windows or displays, for a CPU or a GPU: EGL or OSMesa.
//
// Both are looked for when the first picture is drawn, not when the package is built or loaded, so
// that machines without them lose nothing but pictures.
#pragma once

#include <memory>
#include <stdexcept>

namespace headrace::mujoco {

// there is no OpenGL to draw with; what to do about it
struct NoPictures : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class GlContext {
 public:
  // what the calling thread had before
  struct Before {
    void *display = nullptr, *draw = nullptr, *read = nullptr, *context = nullptr;
  };

  virtual ~GlContext() = default;

  // make it the calling thread's; false where that is impossible, such as after the display's end
  virtual bool enter(Before& before) = 0;
  virtual void leave(const Before& before) = 0;
};

// A new context of the kind that MUJOCO_GL names, else EGL's, else OSMesa's; the kind stays the same
// for the whole process. Throws NoPictures.
std::unique_ptr<GlContext> make_context();

// a context is the calling thread's for as long as this lives
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
