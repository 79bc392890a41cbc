// Names for private members of the emulator's classes.
//
// An explicit instantiation may name private members, and a friend defined in it hands them out:
//
//   HEADRACE_EXPOSE(Ram, M6532::myRAM);   then   chip.*member(Ram{})
#pragma once

namespace headrace::atari {
namespace {   // an instantiation must lie in the namespace of the template

template <auto Member, class Key>
struct Expose {
  friend constexpr auto member(Key) { return Member; }
};

}  // namespace
}  // namespace headrace::atari

#define HEADRACE_EXPOSE(Key, Member)   \
  struct Key {                         \
    friend constexpr auto member(Key); \
  };                                   \
  template struct Expose<&Member, Key>
