// The weights of several networks, which threads share: packed, and their gradients found, range by range.
#pragma once

#include <vector>

#include "encoder.hpp"

namespace headrace::learner {
namespace {

template <class V, class D>
class Networks {
 public:
  // layers over what an encoder makes; or over a block's inputs
  void add(Layers<V, D>& layers, Encoder<V, D>& encoder) { members_.push_back({&layers, &encoder, nullptr}); }
  void add(Layers<V, D>& layers, const Floats& inputs) { members_.push_back({&layers, nullptr, &inputs}); }
  // an encoder's trunk, if it has one
  void add(Encoder<V, D>& encoder) { members_.push_back({nullptr, &encoder, nullptr}); }

  double products() const {  // of a row, forward
    double sum = 0;
    for (const Member& each : members_)
      sum += each.layers != nullptr ? each.layers->products() : each.encoder->products();
    return sum;
  }

  // Takes the weights as they are now; for the way back only if it is asked for.
  void pack(bool back, int threads) {
    constexpr double kPacking = 8;  // products in the time that one weight takes
    each_cut(kPacking, threads, [&](const Cut& cut) {
      if (cut.of->layers != nullptr) cut.of->layers->pack(cut.layer, cut.range, back);
      else cut.of->encoder->trunk().pack(cut.layer, back);
    });
  }

  // The gradients are what the first rows of a block contribute, which came back; further ones add to them, and the last
  // are written where they belong.
  void add_gradients(int rows, bool first, bool last, int threads) {
    each_cut(rows, threads, [&](const Cut& cut) {
      const auto& [layers, encoder, inputs] = *cut.of;
      if (layers == nullptr) {
        encoder->trunk().add_gradients(cut.layer, rows, first);
        if (last) encoder->trunk().write_gradients(cut.layer);
        return;
      }
      if (encoder != nullptr) encoder->add_gradients(*layers, cut.layer, cut.range, rows, first);
      else layers->add_gradients(cut.layer, cut.range, inputs->get(), rows, first);
      if (last) layers->write_gradients(cut.layer, cut.range);
    });
  }

 private:
  struct Member {
    Layers<V, D>* layers;
    Encoder<V, D>* encoder;
    const Floats* inputs;
  };
  struct Cut {
    const Member* of;
    std::size_t layer;
    Range range;
  };

  // work(cut), where each weight takes so many products
  template <class Work>
  void each_cut(double products, int threads, const Work& work) {
    cuts_.clear();
    double all = 0;
    for (const Member& each : members_) {
      if (each.layers == nullptr) {
        for (std::size_t l = 0; l < each.encoder->convolutions(); ++l) cuts_.push_back({&each, l, 0});
      } else {
        all += products * each.layers->products();
        each.layers->each_cut(products, threads, [&](std::size_t l, Range some) { cuts_.push_back({&each, l, some}); });
      }
    }
    in_parts(threads_for(all, threads), static_cast<int>(cuts_.size()),
             [&](int i, int) { work(cuts_[static_cast<std::size_t>(i)]); });
  }

  std::vector<Member> members_;
  std::vector<Cut> cuts_;
};

// samples of a block, of so many: those of a thread are as many as its cache has
template <class D>
inline int rows_of_block(int rows, int threads, bool pictures) {
  constexpr int kOfEach = 128, kFewest = 256, kMostPictures = 256;
  const int most =
      threads == 1 ? D::kRows
                   : std::clamp(kOfEach * threads, kFewest, pictures ? std::min(kMostPictures, D::kMost) : D::kMost);
  return std::min(most, (rows + D::kRows - 1) / D::kRows * D::kRows);
}

}  // namespace
}  // namespace headrace::learner
