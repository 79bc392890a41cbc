// A trunk's convolutions over a block of samples: groups of a few go through all layers, and back, while they are in
// the cache. What comes out are features of the layers behind it, in the order of torch's: channels of all places.
#pragma once

#include <optional>

#include "convolution.hpp"
#include "normaliser.hpp"
#include "pictures.hpp"

namespace headrace::learner {
namespace {

template <class N>
class Convolutions {
  using V = typename N::Sum;
  using Word = typename N::Word;
  using Words = AlignedBuffer<Word>;
  static constexpr int kGroup = N::kGroup;

 public:
  Convolutions(const Trunk& trunk, int rows) : pictures_(trunk), groups_((rows + kGroup - 1) / kGroup) {
    int depth = Pictures<N>::depth_of(trunk.convolutions.front().channels);
    std::ptrdiff_t zipped_inputs = 0, zipped_outputs = 0;
    int widest = 0;  // numbers that one sample has at once
    for (const Filters& filters : trunk.convolutions) {
      layers_.emplace_back(filters, depth);
      depth = layers_.back().outputs;
    }
    for (const auto& layer : layers_) {
      const bool first = &layer == &layers_.front();
      inputs_.push_back(words(layer.input_size * kGroup * (first ? 1 : groups_)));
      gradients_.push_back(words(layer.output_size * kGroup));
      norms_.emplace_back();
      if (const Norm& norm = layer.filters.norm; norm.gain != nullptr) {
        norms_.back().emplace(norm, layer.filters.outputs);
        widest = std::max(widest, places_of(layer) * layer.outputs);
      }
      normalised_.push_back(words(norms_.back() ? layer.output_size * kGroup * groups_ : 0));
      scales_.emplace_back(static_cast<std::size_t>(norms_.back() ? kGroup * groups_ : 0));
      zipped_inputs = std::max(zipped_inputs, layer.zipped_inputs);
      zipped_outputs = std::max(zipped_outputs, layer.zipped_outputs);
    }
    zipped_inputs_ = words(zipped_inputs), zipped_gradients_ = words(zipped_outputs);
    const auto& last = layers_.back();
    places_ = places_of(last);
    results_ = floats(kGroup, std::max(widest, places_ * last.outputs));
    turned_ = floats(places_, last.outputs);
  }

  int features() const { return layers_.back().filters.outputs * places_; }

  // Takes the weights as they are now; for the way back only if it is asked for.
  void pack(bool back) {
    for (std::size_t l = 0; l < layers_.size(); ++l) layers_[l].pack(back && l > 0);
    for (auto& norm : norms_)
      if (norm) norm->pack();
  }

  void begin_gradients() {
    for (auto& layer : layers_) layer.begin_gradients();
    for (auto& norm : norms_)
      if (norm) norm->begin_gradients();
  }
  void write_gradients() const {
    for (const auto& layer : layers_) layer.write_gradients();
    for (const auto& norm : norms_)
      if (norm) norm->write_gradients();
  }

  // features [rows, ld] of pictures, of which picture(r) is the r-th; comes_back: whether `backward` follows
  template <class Picture>
  void forward(Picture picture, int rows, bool comes_back, float* features, std::ptrdiff_t ld) {
    for (int first = 0; first < rows; first += kGroup) {
      const int n = std::min(kGroup, rows - first);
      for (int s = 0; s < n; ++s) pictures_.read(picture(first + s), inputs_[0].get() + s * layers_[0].input_size);
      const int place = comes_back ? first : 0;
      for (std::size_t l = 0; l + 1 < layers_.size(); ++l) {
        Word* to = inputs_of(l + 1, place);
        pass(l, place, n, [&](std::ptrdiff_t number, V sum) { N::put(to, number, max(sum, V(0))); });
      }
      pass(layers_.size() - 1, place, n,
           [&](std::ptrdiff_t number, V sum) { store(results_.get() + number, max(sum, V(0))); });
      write_features(n, features + first * ld, ld);
    }
  }

  // Adds to the gradients of parameters what comes from those of features, [rows, ld], of the pictures of `forward`.
  template <class Picture>
  void backward(Picture picture, int rows, const float* d, std::ptrdiff_t ld) {
    for (int first = 0; first < rows; first += kGroup) {
      const int n = std::min(kGroup, rows - first);
      take_gradients(first, n, d + first * ld, ld);
      for (std::size_t l = layers_.size(); l-- > 0;) {
        if (l == 0)
          for (int s = 0; s < n; ++s) pictures_.read(picture(first + s), inputs_[0].get() + s * layers_[0].input_size);
        layers_[l].add_gradients(inputs_of(l, first), gradients_[l].get(), n, zipped_inputs_.get(),
                                 zipped_gradients_.get());
        if (l > 0) through(l, first, n);
      }
    }
  }

 private:
  static Words words(std::ptrdiff_t n) { return Words(static_cast<std::size_t>(n) + kSlack); }
  static constexpr int kSlack = 64;  // registers may read and write beyond the last number

  // what a layer gets of the samples from the first on; the first layer has those of one group
  Word* inputs_of(std::size_t l, int first) { return inputs_[l].get() + (l == 0 ? 0 : first * layers_[l].input_size); }

  void write_features(int samples, float* features, std::ptrdiff_t ld) {
    const auto& last = layers_.back();
    for (int s = 0; s < samples; ++s)
      transpose<V>(results_.get() + static_cast<std::ptrdiff_t>(s) * places_ * last.outputs, last.outputs, places_,
                   last.filters.outputs, features + s * ld, places_);
  }

  static int places_of(const Convolution<N>& layer) { return layer.high * layer.wide; }

  // finish(number, sum) of the samples from the first on: of a layer's sums, normalised if it has a norm
  template <class Finish>
  void pass(std::size_t l, int first, int samples, Finish finish) {
    const auto& layer = layers_[l];
    if (!norms_[l]) return layer.forward(inputs_of(l, first), samples, finish);
    layer.forward(inputs_of(l, first), samples,
                  [&](std::ptrdiff_t number, V sum) { store(results_.get() + number, sum); });
    const int size = places_of(layer) * layer.outputs;
    for (int s = 0; s < samples; ++s) {
      Word* normalised = normalised_of(l, first + s);
      const std::ptrdiff_t begin = static_cast<std::ptrdiff_t>(s) * size;
      scale_of(l, first + s) = norms_[l]->forward(results_.get() + begin, places_of(layer), [&](int i, V n, V made) {
        N::put(normalised, i, n), finish(begin + i, made);
      });
    }
  }

  Word* normalised_of(std::size_t l, int sample) { return normalised_[l].get() + sample * layers_[l].output_size; }
  float& scale_of(std::size_t l, int sample) { return scales_[l][static_cast<std::size_t>(sample)]; }

  // the gradients of a layer's sums for one sample, given those of what comes before its ReLU
  void put_gradients(std::size_t l, int first, int s, const float* d) {
    const auto& layer = layers_[l];
    Word* to = gradients_[l].get() + s * layer.output_size;
    if (!norms_[l]) {
      for (int n = 0; n < places_of(layer) * layer.outputs; n += V::width) N::put(to, n, load<V>(d + n));
      return;
    }
    const Word* normalised = normalised_of(l, first + s);
    norms_[l]->backward(
        d, places_of(layer), scale_of(l, first + s), [&](int i) { return N::get(normalised, i); },
        [&](int i, V slope) { N::put(to, i, slope); });
  }

  void take_gradients(int first, int samples, const float* d, std::ptrdiff_t ld) {
    const auto& last = layers_.back();
    for (int s = 0; s < samples; ++s) {
      transpose<V>(d + s * ld, places_, last.filters.outputs, places_, turned_.get(), last.outputs);
      put_gradients(layers_.size() - 1, first, s, turned_.get());
    }
  }

  // the gradients of a layer's inputs, through their ReLU, as those of the sums of the layer below
  void through(std::size_t l, int first, int samples) {
    const Word* x = inputs_of(l, first);
    const auto kept = [&](std::ptrdiff_t number, V sum) { return select(N::get(x, number) > V(0), sum, V(0)); };
    if (!norms_[l - 1]) {
      Word* to = gradients_[l - 1].get();
      return layers_[l].input_gradients(gradients_[l].get(), samples,
                                        [&](std::ptrdiff_t number, V sum) { N::put(to, number, kept(number, sum)); });
    }
    layers_[l].input_gradients(gradients_[l].get(), samples, [&](std::ptrdiff_t number, V sum) {
      store(results_.get() + number, kept(number, sum));
    });
    for (int s = 0; s < samples; ++s)
      put_gradients(
          l - 1, first, s,
          results_.get() + static_cast<std::ptrdiff_t>(s) * places_of(layers_[l - 1]) * layers_[l - 1].outputs);
  }

  Pictures<N> pictures_;
  int groups_, places_ = 0;
  std::vector<Convolution<N>> layers_;
  std::vector<Words> inputs_, gradients_;  // of each layer: what it gets; and of what it makes
  Words zipped_inputs_, zipped_gradients_;
  Floats results_,
      turned_;  // [samples of a group, places, outputs] of a layer, such as the last one; its of one sample
  std::vector<std::optional<Normaliser<V>>> norms_;  // for each layer,
  std::vector<Words> normalised_;                    // with what it has normalised,
  std::vector<std::vector<float>> scales_;           // and by which factor: of all samples
};

}  // namespace
}  // namespace headrace::learner
