// Normalisation of a sample's numbers before an activation: of a layer's outputs (Ba et al. 2016, arXiv:1607.06450), or of
// all channels at all places of a picture together (Wu & He 2018, arXiv:1803.08494, with one group). Of numbers z, with a
// gain γ and a shift β for each channel:
//   n = (z - E[z]) / √(Var[z] + ε),   y = γ n + β
// and back from gradients d of y:
//   dγ = Σ d n,   dβ = Σ d,   dz = (γ d - E[γ d] - n E[γ d n]) / √(Var[z] + ε)
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "learner.hpp"
#include "product.hpp"

namespace headrace::learner {
namespace {

// All numbers of a sample are [places, columns]: channels, and columns up to whole cache lines.
template <class V>
class Normaliser {
 public:
  Normaliser(const Norm& norm, int channels)
      : norm_(norm),
        channels_(channels),
        columns_(padded(channels)),
        gain_(static_cast<std::size_t>(columns_)),
        shift_(gain_),
        gradient_(2 * gain_.size()) {}

  // Takes gains and shifts as they are now.
  void pack() { std::copy_n(norm_.gain, channels_, gain_.data()), std::copy_n(norm_.shift, channels_, shift_.data()); }

  int gradient_size() const { return 2 * columns_; }  // numbers: of gains, and of shifts

  // The gradients are those of the first groups of samples, one after the other, to which further ones add.
  void add_gradients(const float* gradients, int groups, bool first) {
    if (first) std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    for (int g = 0; g < groups; ++g, gradients += gradient_size())
      for (int n = 0; n < gradient_size(); n += V::width) add(gradient_.data() + n, load<V>(gradients + n));
  }
  void write_gradients() const {
    std::copy_n(gradient_.data(), channels_, norm_.gain_gradient);
    std::copy_n(gradient_.data() + columns_, channels_, norm_.shift_gradient);
  }

  // put(number, n, y) of a sample's z, whose columns beyond the channels are overwritten; returns 1 / √(Var[z] + ε)
  template <class Put>
  float forward(float* z, int places, Put put) const {
    const int size = places * columns_;
    const float share = 1.0f / static_cast<float>(places * channels_);
    fill_rest(z, places, 0);
    const float mean = sum(size, [&](int i) { return load<V>(z + i); }) * share;
    fill_rest(z, places, mean);  // what is not apart from it
    const V centre(mean);
    const float variance = share * sum(size, [&](int i) {
                             const V apart = load<V>(z + i) - centre;
                             return apart * apart;
                           });
    const float scale = 1.0f / std::sqrt(variance + norm_.epsilon);
    const V factor(scale);
    for (int p = 0; p < places; ++p)
      for (int c = 0; c < columns_; c += V::width) {
        const int i = p * columns_ + c;
        const V n = (load<V>(z + i) - centre) * factor;
        put(i, n, fma(load<V>(gain_.data() + c), n, load<V>(shift_.data() + c)));
      }
    return scale;
  }

  // put(number, dz) of a sample with gradients d of y, given n(number) and what `forward` returned; adds to gradients of
  // gains and shifts
  template <class Normalised, class Put>
  void backward(const float* d, int places, float scale, Normalised n, Put put, float* gradient) const {
    float of_d[kPad] = {}, of_d_n[kPad] = {};  // of γ d and of γ d n, in every sixteenth channel
    for (int c = 0; c < columns_; c += V::width) {
      V gain_sum(0), shift_sum(0);
      for (int p = 0; p < places; ++p) {
        const V slope = load<V>(d + p * columns_ + c);
        gain_sum = fma(slope, n(p * columns_ + c), gain_sum), shift_sum = shift_sum + slope;
      }
      const V gain = load<V>(gain_.data() + c);
      add(of_d + c % kPad, gain * shift_sum), add(of_d_n + c % kPad, gain * gain_sum);
      add(gradient + c, gain_sum), add(gradient + columns_ + c, shift_sum);
    }
    const float share = scale / static_cast<float>(places * channels_);
    const V mean(halved(of_d, kPad) * share), mean_n(halved(of_d_n, kPad) * share), factor(scale);
    for (int p = 0; p < places; ++p)
      for (int c = 0; c < columns_; c += V::width) {
        const int i = p * columns_ + c;
        const V slope = load<V>(d + i) * load<V>(gain_.data() + c);
        put(i, fma(factor, slope, fnma(n(i), mean_n, V(0) - mean)));
      }
  }

 private:
  static constexpr int kSums = 4 * kPad;

  void fill_rest(float* z, int places, float with) const {
    for (int p = 0; channels_ < columns_ && p < places; ++p)
      std::fill_n(z + p * columns_ + channels_, columns_ - channels_, with);
  }

  static void add(float* to, V sum) { store(to, load<V>(to) + sum); }

  // the sum of numbers, halves of them first
  static float halved(float* x, int count) {
    for (int half = count / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) x[i] += x[i + half];
    return x[0];
  }

  // Σ each(number), of which every sixty-fourth are added up first
  template <class Each>
  static float sum(int size, Each each) {
    constexpr int kCount = kSums / V::width;
    V sums[kCount];
    for (V& one : sums) one = V(0);
    int i = 0;
    for (; i + kSums <= size; i += kSums)
      for (int k = 0; k < kCount; ++k) sums[k] = sums[k] + each(i + k * V::width);
    for (int k = 0; i < size; i += V::width, ++k) sums[k] = sums[k] + each(i);
    float all[kSums];
    std::memcpy(all, sums, sizeof all);
    return halved(all, kSums);
  }

  Norm norm_;
  int channels_, columns_;
  std::vector<float> gain_, shift_, gradient_;
};

}  // namespace
}  // namespace headrace::learner
