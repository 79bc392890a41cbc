#include "spec.hpp"

namespace headrace {
namespace {

std::size_t item_bytes(const std::string& dtype) {
  if (dtype == "bool" || dtype == "uint8" || dtype == "int8") return 1;
  if (dtype == "int16" || dtype == "uint16") return 2;
  if (dtype == "int32" || dtype == "uint32" || dtype == "float32") return 4;
  if (dtype == "int64" || dtype == "uint64" || dtype == "float64") return 8;
  throw BadSpec("a simulator's arrays cannot hold " + dtype);
}

}  // namespace

std::size_t Declared::size() const {
  std::size_t n = 1;
  for (int extent : shape) {
    if (extent < 0) throw BadSpec(name + " has a negative extent: " + std::to_string(extent));
    n *= static_cast<std::size_t>(extent);
  }
  return n;
}

std::size_t Declared::bytes() const { return item_bytes(dtype) * size(); }

std::size_t Spec::declare(Declared array) {
  if (fields_.size() == kMostFields)
    throw BadSpec("a simulator declares at most " + std::to_string(kMostFields) + " fields; " + array.name +
                  " is one more");
  fields_.push_back(std::move(array));
  return fields_.size() - 1;
}

void Spec::declare_action(Declared array) {
  if (action_) throw BadSpec("a simulator takes one array of actions; this one declares two");
  action_ = std::move(array);
}

AnyField::AnyField(Spec* spec, std::string name, std::string dtype, std::vector<int> shape) : name_(std::move(name)) {
  Declared array{name_, std::move(dtype), std::move(shape)};
  size_ = array.size(), bytes_ = array.bytes();
  index_ = spec->declare(std::move(array));
}

void AnyField::refuse(std::size_t size) const {
  throw std::length_error(name_ + " has " + std::to_string(bytes_) + " bytes, and " + std::to_string(size) +
                          " were written");
}

void Action::refuse_number(std::size_t size, std::size_t i) {
  throw std::out_of_range("an action has " + std::to_string(size) + " numbers, and none at " + std::to_string(i));
}

void Action::refuse_size(std::size_t size, std::size_t asked) {
  throw std::length_error("an action has " + std::to_string(size) + " numbers, not " + std::to_string(asked));
}

}  // namespace headrace
