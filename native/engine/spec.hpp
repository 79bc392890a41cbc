// A simulator declares the fields of its rows once: an environment writes and reads through the declarations that the
// pool compares with its task, so the two cannot drift apart.
//
//   struct Shown : headrace::Spec {
//     headrace::Field<double> obs{this, "obs", {4}};
//     headrace::Field<std::int32_t> lives{this, "info:lives"};
//     headrace::ActionField<std::int64_t> action{this};
//   };
//
// Observations come first, in the order of the task's space, then infos, in the order of the task's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace headrace {

// A simulator declared its fields wrongly.
struct BadSpec : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// One row of a named array, as NumPy would describe it.
struct Declared {
  std::string name;          // "obs", "obs:key", "info:key" or "action"
  std::string dtype;         // numpy's name
  std::vector<int> shape;

  std::size_t size() const;  // elements
  std::size_t bytes() const;
};

template <class T>
constexpr const char* dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_same_v<T, float>) return "float32";
  else if constexpr (std::is_same_v<T, double>) return "float64";
  else {
    static_assert(std::is_integral_v<T>, "an array holds bools, integers, floats or doubles");
    constexpr const char* names[][2] = {
        {"uint8", "int8"}, {"uint16", "int16"}, {"uint32", "int32"}, {"uint64", "int64"}};
    return names[sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3][std::is_signed_v<T>];
  }
}

// The arrays of a simulator: derive from it, and let members declare them.
class Spec {
 public:
  static constexpr std::size_t kMostFields = 64;

  const std::vector<Declared>& fields() const { return fields_; }
  const std::optional<Declared>& actions() const { return action_; }
  std::size_t action_bytes() const { return action_ ? action_->bytes() : 0; }

 private:
  friend class AnyField;
  template <class T>
  friend class ActionField;

  std::size_t declare(Declared array);    // returns the position among the fields
  void declare_action(Declared array);

  std::vector<Declared> fields_;
  std::optional<Declared> action_;
};

// An array that an environment writes; its type is known only at run time.
class AnyField {
 public:
  AnyField(Spec* spec, std::string name, std::string dtype, std::vector<int> shape);

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return bytes_; }

 private:
  friend class Row;

  [[noreturn]] void refuse(std::size_t size) const;

  std::string name_;
  std::size_t index_, size_, bytes_;
};

// An array that an environment writes.
template <class T>
class Field : public AnyField {
 public:
  Field(Spec* spec, std::string name, std::vector<int> shape = {})
      : AnyField(spec, std::move(name), dtype_of<T>(), std::move(shape)) {}
};

// One row of a batch, where one environment writes its fields.
class Row {
 public:
  explicit Row(std::span<std::byte* const> fields) : fields_(fields) {}

  template <class T>
  std::span<T> operator[](const Field<T>& field) const {
    return {reinterpret_cast<T*>(fields_[field.index_]), field.size_};
  }

  // Writes all of a field: as many numbers as it has, or std::length_error.
  template <class T>
  void set(const Field<T>& field, std::span<const std::type_identity_t<T>> values) const {
    set_bytes(field, std::as_bytes(values));
  }

  template <class T, class Number>
    requires std::is_arithmetic_v<Number>
  void set(const Field<T>& field, Number number) const {
    const T value = static_cast<T>(number);
    set_bytes(field, std::as_bytes(std::span(&value, 1)));
  }

  void set_bytes(const AnyField& field, std::span<const std::byte> values) const {
    if (values.size() != field.bytes_) field.refuse(values.size());
    if (!values.empty()) std::memcpy(fields_[field.index_], values.data(), values.size());
  }

 private:
  std::span<std::byte* const> fields_;
};

// The array of actions; a simulator has one.
template <class T>
class ActionField {
 public:
  explicit ActionField(Spec* spec, std::vector<int> shape = {}) {
    Declared array{"action", dtype_of<T>(), std::move(shape)};
    size_ = array.size();
    spec->declare_action(std::move(array));
  }

  std::size_t size() const { return size_; }

 private:
  friend class Action;

  std::size_t size_;
};

// One row of actions, which need not be aligned.
class Action {
 public:
  explicit Action(const std::byte* data) : data_(data) {}

  // Returns number i; throws std::out_of_range if there is none.
  template <class T>
  T get(const ActionField<T>& field, std::size_t i = 0) const {
    if (i >= field.size_) refuse_number(field.size_, i);
    T value;
    std::memcpy(&value, data_ + i * sizeof(T), sizeof(T));
    return value;
  }

  // Copies all numbers: as many as the action has, or std::length_error.
  template <class T>
  void copy(const ActionField<T>& field, std::span<std::type_identity_t<T>> out) const {
    if (out.size() != field.size_) refuse_size(field.size_, out.size());
    if (!out.empty()) std::memcpy(out.data(), data_, out.size_bytes());
  }

 private:
  [[noreturn]] static void refuse_number(std::size_t size, std::size_t i);
  [[noreturn]] static void refuse_size(std::size_t size, std::size_t asked);

  const std::byte* data_;
};

}  // namespace headrace
