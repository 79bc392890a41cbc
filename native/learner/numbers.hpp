// Numbers of products as they lie in memory, next to each other: floats here, and bfloat16 in `words.hpp`.
#pragma once

#include "product.hpp"

namespace headrace::learner {
namespace {

// floats: a product's sum gets one number in each step
template <class V>
struct Singles {
  using Sum = V;
  using Factor = V;
  using Word = float;
  static constexpr int kInWord = 1;  // numbers that one step of a product sums
  static constexpr int kSamples = 1;  // as many samples are one operand of gradients of weights
  static constexpr int kGroup = 8;  // samples that go through all convolutions together, while they are in the cache
  static constexpr bool kInTiles = false;  // whether matrix units make the products
  struct Shape {  // of matrix units, for rows of so many words
    Shape(int, int) {}
  };

  static void put(Word* words, std::ptrdiff_t n, V numbers) { store(words + n, numbers); }
  static V get(const Word* words, std::ptrdiff_t n) { return load<V>(words + n); }
  static void set(Word* words, std::ptrdiff_t n, float number) { words[n] = number; }
  static Word ones() { return 1.0f; }

  // the operand of samples of which each has so many words
  static const Word* zip(const Word* words, const Word*, std::ptrdiff_t, Word*) { return words; }
};

}  // namespace
}  // namespace headrace::learner
