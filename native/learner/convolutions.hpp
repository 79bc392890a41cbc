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
  Convolutions(const Trunk& trunk, int rows) : pictures_(trunk) {
    int depth = Pictures<N>::depth_of(trunk.convolutions.front().channels);
    for (const Filters& filters : trunk.convolutions) {
      layers_.emplace_back(filters, depth);
      depth = layers_.back().outputs;
      norms_.emplace_back();
      if (filters.norm.gain != nullptr) norms_.back().emplace(filters.norm, filters.outputs);
    }
    places_ = places_of(layers_.back());
    reserve(rows, 1);
  }

  // Makes room for blocks of so many rows, and for so many threads.
  void reserve(int rows, int threads) {
    while (static_cast<int>(scratch_.size()) < threads) scratch_.emplace_back(layers_);
    const int groups = (rows + kGroup - 1) / kGroup;
    if (groups <= groups_) return;
    groups_ = groups;
    inputs_.clear(), found_.clear(), normalised_.clear(), scales_.clear(), found_of_norms_.clear();
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const auto& layer = layers_[l];
      inputs_.push_back(words(l == 0 ? 0 : layer.input_size * kGroup * groups_));
      found_.push_back(floats(groups_, layer.gradient_size()));
      normalised_.push_back(words(norms_[l] ? layer.output_size * kGroup * groups_ : 0));
      scales_.emplace_back(static_cast<std::size_t>(norms_[l] ? kGroup * groups_ : 0));
      found_of_norms_.push_back(floats(groups_, norms_[l] ? norms_[l]->gradient_size() : 0));
    }
  }

  double products() const {
    double sum = 0;
    for (const auto& layer : layers_) sum += layer.products();
    return sum;
  }

  int features() const { return layers_.back().filters.outputs * places_; }

  // Takes a layer's weights as they are now; for the way back only if it is asked for.
  void pack(std::size_t l, bool back) {
    layers_[l].pack(back && l > 0);
    if (norms_[l]) norms_[l]->pack();
  }

  std::size_t layers() const { return layers_.size(); }
  // The gradients of a layer are those that the first rows contribute, after `backward`; further ones add to them.
  void add_gradients(std::size_t l, int rows, bool first) {
    const int groups = (rows + kGroup - 1) / kGroup;
    layers_[l].add_gradients(found_[l].get(), groups, first);
    if (norms_[l]) norms_[l]->add_gradients(found_of_norms_[l].get(), groups, first);
  }
  void write_gradients(std::size_t l) const {
    layers_[l].write_gradients();
    if (norms_[l]) norms_[l]->write_gradients();
  }

  // features [rows, ld] of some pictures, of which picture(r) is the r-th; comes_back: whether `backward` follows
  template <class Picture>
  void forward(Picture picture, const Piece& piece, bool comes_back, float* features, std::ptrdiff_t ld) {
    Scratch& mine = scratch_[static_cast<std::size_t>(piece.thread)];
    for (int first = piece.rows.begin; first < piece.rows.end; first += kGroup) {
      const int n = std::min(kGroup, piece.rows.end - first);
      read(picture, first, n, mine);
      // inputs of layers that are not on the way back are of this group alone
      const Word* x = mine.inputs[0].get();
      for (std::size_t l = 0; l + 1 < layers_.size(); ++l) {
        Word* to = comes_back ? inputs_of(l + 1, first) : mine.inputs[l + 1].get();
        pass(mine, l, x, first, n, comes_back,
             [to](std::ptrdiff_t number, V sum) { N::put(to, number, max(sum, V(0))); });
        x = to;
      }
      pass(mine, layers_.size() - 1, x, first, n, comes_back,
           [to = mine.results.get()](std::ptrdiff_t number, V sum) { store(to + number, max(sum, V(0))); });
      write_features(mine, n, features + first * ld, ld);
    }
  }

  // Finds what groups contribute to the gradients of parameters, from those of features, [rows, ld], of the pictures of
  // `forward`.
  template <class Picture>
  void backward(Picture picture, const Piece& piece, const float* d, std::ptrdiff_t ld) {
    Scratch& mine = scratch_[static_cast<std::size_t>(piece.thread)];
    for (int first = piece.rows.begin; first < piece.rows.end; first += kGroup) {
      const int n = std::min(kGroup, piece.rows.end - first);
      for (std::size_t l = 0; l < layers_.size(); ++l)
        if (norms_[l]) std::fill_n(found_of_norm(l, first), norms_[l]->gradient_size(), 0.0f);
      take_gradients(mine, first, n, d + first * ld, ld);
      for (std::size_t l = layers_.size(); l-- > 0;) {
        if (l == 0) read(picture, first, n, mine);
        const Word* x = l == 0 ? mine.inputs[0].get() : inputs_of(l, first);
        float* found = found_[l].get() + static_cast<std::ptrdiff_t>(first / kGroup) * layers_[l].gradient_size();
        layers_[l].find_gradients(x, mine.gradients[l].get(), n, mine.zipped_inputs.get(), mine.zipped_gradients.get(),
                                  found);
        if (l > 0) through(mine, l, first, n);
      }
    }
  }

 private:
  static Words words(std::ptrdiff_t n) { return Words(static_cast<std::size_t>(n) + kSlack); }
  static constexpr int kSlack = 64;  // registers may read and write beyond the last number

  // what a thread makes of a group
  struct Scratch {
    std::vector<Words> inputs, gradients;  // of each layer: what it gets; and of what it makes
    Words zipped_inputs, zipped_gradients;
    Floats results, turned;  // [samples of a group, places, outputs] of a layer; of one sample of the last one

    explicit Scratch(const std::vector<Convolution<N>>& layers) {
      std::ptrdiff_t zipped[2] = {};
      for (const auto& layer : layers) {
        inputs.push_back(words(layer.input_size * kGroup));
        gradients.push_back(words(layer.output_size * kGroup));
        zipped[0] = std::max(zipped[0], layer.zipped_inputs), zipped[1] = std::max(zipped[1], layer.zipped_outputs);
      }
      zipped_inputs = words(zipped[0]), zipped_gradients = words(zipped[1]);
      int widest = 0;  // numbers of a sample
      for (const auto& layer : layers)
        if (layer.filters.norm.gain != nullptr || &layer == &layers.back())
          widest = std::max(widest, places_of(layer) * layer.outputs);
      results = floats(kGroup, widest), turned = floats(places_of(layers.back()), layers.back().outputs);
    }
  };

  // what a layer but the first gets of the samples from the first on
  Word* inputs_of(std::size_t l, int first) { return inputs_[l].get() + first * layers_[l].input_size; }

  template <class Picture>
  void read(Picture picture, int first, int samples, Scratch& mine) const {
    for (int s = 0; s < samples; ++s)
      pictures_.read(picture(first + s), mine.inputs[0].get() + s * layers_[0].input_size);
  }

  void write_features(const Scratch& mine, int samples, float* features, std::ptrdiff_t ld) const {
    const auto& last = layers_.back();
    for (int s = 0; s < samples; ++s)
      transpose<V>(mine.results.get() + static_cast<std::ptrdiff_t>(s) * places_ * last.outputs, last.outputs, places_,
                   last.filters.outputs, features + s * ld, places_);
  }

  static int places_of(const Convolution<N>& layer) { return layer.high * layer.wide; }

  // finish(number, sum) of the samples from the first on: of a layer's sums, normalised if it has a norm
  template <class Finish>
  void pass(const Scratch& mine, std::size_t l, const Word* x, int first, int samples, bool comes_back, Finish finish) {
    if (norms_[l]) normalise(mine, l, x, first, samples, comes_back, finish);
    else layers_[l].forward(x, samples, finish);
  }

  // apart, so that compilers keep the numbers of `forward` above in registers
  template <class Finish>
  [[gnu::noinline]] void normalise(const Scratch& mine, std::size_t l, const Word* x, int first, int samples,
                                   bool comes_back, Finish finish) {
    const auto& layer = layers_[l];
    layer.forward(x, samples, [&](std::ptrdiff_t number, V sum) { store(mine.results.get() + number, sum); });
    const int size = places_of(layer) * layer.outputs;
    for (int s = 0; s < samples; ++s) {
      Word* normalised = normalised_of(l, first + s);
      const std::ptrdiff_t begin = static_cast<std::ptrdiff_t>(s) * size;
      const float scale = norms_[l]->forward(mine.results.get() + begin, places_of(layer), [&](int i, V n, V made) {
        if (comes_back) N::put(normalised, i, n);
        finish(begin + i, made);
      });
      if (comes_back) scale_of(l, first + s) = scale;
    }
  }

  Word* normalised_of(std::size_t l, int sample) { return normalised_[l].get() + sample * layers_[l].output_size; }
  float& scale_of(std::size_t l, int sample) { return scales_[l][static_cast<std::size_t>(sample)]; }
  float* found_of_norm(std::size_t l, int first) {
    return found_of_norms_[l].get() + first / kGroup * norms_[l]->gradient_size();
  }

  // the gradients of a layer's sums for one sample, given those of what comes before its ReLU
  void put_gradients(const Scratch& mine, std::size_t l, int first, int s, const float* d) {
    const auto& layer = layers_[l];
    Word* to = mine.gradients[l].get() + s * layer.output_size;
    if (!norms_[l]) {
      for (int n = 0; n < places_of(layer) * layer.outputs; n += V::width) N::put(to, n, load<V>(d + n));
      return;
    }
    const Word* normalised = normalised_of(l, first + s);
    norms_[l]->backward(
        d, places_of(layer), scale_of(l, first + s), [&](int i) { return N::get(normalised, i); },
        [&](int i, V slope) { N::put(to, i, slope); }, found_of_norm(l, first));
  }

  void take_gradients(const Scratch& mine, int first, int samples, const float* d, std::ptrdiff_t ld) {
    const auto& last = layers_.back();
    for (int s = 0; s < samples; ++s) {
      transpose<V>(d + s * ld, places_, last.filters.outputs, places_, mine.turned.get(), last.outputs);
      put_gradients(mine, layers_.size() - 1, first, s, mine.turned.get());
    }
  }

  // the gradients of a layer's inputs, through their ReLU, as those of the sums of the layer below
  void through(const Scratch& mine, std::size_t l, int first, int samples) {
    const Word* x = inputs_of(l, first);
    const auto kept = [&](std::ptrdiff_t number, V sum) { return select(N::get(x, number) > V(0), sum, V(0)); };
    if (!norms_[l - 1]) {
      Word* to = mine.gradients[l - 1].get();
      return layers_[l].input_gradients(mine.gradients[l].get(), samples,
                                        [&](std::ptrdiff_t number, V sum) { N::put(to, number, kept(number, sum)); });
    }
    layers_[l].input_gradients(mine.gradients[l].get(), samples, [&](std::ptrdiff_t number, V sum) {
      store(mine.results.get() + number, kept(number, sum));
    });
    for (int s = 0; s < samples; ++s)
      put_gradients(
          mine, l - 1, first, s,
          mine.results.get() + static_cast<std::ptrdiff_t>(s) * places_of(layers_[l - 1]) * layers_[l - 1].outputs);
  }

  Pictures<N> pictures_;
  int groups_ = 0, places_ = 0;
  std::vector<Convolution<N>> layers_;
  std::vector<Words> inputs_;  // of a block, of each layer but the first
  std::vector<std::optional<Normaliser<V>>> norms_;  // for each layer
  std::vector<Words> normalised_;                    // of a block, of what they make without gains and shifts
  std::vector<std::vector<float>> scales_;           // [samples] of each
  std::vector<Floats> found_, found_of_norms_;       // of each layer the gradients of groups
  std::vector<Scratch> scratch_;  // of each thread
};

}  // namespace
}  // namespace headrace::learner
