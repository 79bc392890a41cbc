// A convolution as products of matrices whose left rows are windows of pictures where they lie: nothing is copied into
// columns. A picture is [height, width, depth] in memory, with channels up to a depth of whole words, or registers.
//
// - Forward, a row of a window is one run of numbers, of all its columns and channels.
// - Back to the inputs, pixels that the same taps of a filter see are the rows of one product, and each tap is a run
//   over the outputs.
// - Gradients of weights have one row for each number of a window, and one run for each row of places.
//
// In matrix units the rows are samples at the same place, which are equally far apart, and outputs in gradients of
// weights (`tiles.hpp`).
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "dense.hpp"
#include "numbers.hpp"

namespace headrace::learner {
namespace {

// Some of the numbers that a product sums: from `left` on in each row of the left matrix, and from `right` on in the right
struct Run {
  std::ptrdiff_t left, right;
  int length;
};

// a row of a left matrix, or in matrix units a tile: where it begins, and where its result belongs
struct Place {
  std::ptrdiff_t from, to;
};

// finish(place, n, start(place, n) + Σ A[place.from + left + i · step] B[right + i · ldb + n]), over runs and their i
template <class N, int rows, int columns, class Start, class Finish>
inline void tile_of_runs(const Place* places, int n, const typename N::Word* A, std::ptrdiff_t step,
                         const std::vector<Run>& runs, const typename N::Word* B, std::ptrdiff_t ldb,
                         const Start& start, const Finish& finish) {
  using V = typename N::Sum;
  using Factor = typename N::Factor;
  V sum[rows][columns];
  const typename N::Word* a[rows];
  for (int r = 0; r < rows; ++r) {
    a[r] = A + places[r].from;
    for (int c = 0; c < columns; ++c) sum[r][c] = start(places[r], n + c * V::width);
  }
  for (const Run& run : runs) {
    const typename N::Word* b = B + run.right + n;
    std::ptrdiff_t k = run.left;
    for (int i = 0; i < run.length; ++i, k += step, b += ldb) {
      Factor right[columns];
      for (int c = 0; c < columns; ++c) right[c] = load<Factor>(b + c * V::width);
      for (int r = 0; r < rows; ++r) {
        const Factor left(a[r][k]);
        for (int c = 0; c < columns; ++c) sum[r][c] = fma(left, right[c], sum[r][c]);
      }
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) finish(places[r], n + c * V::width, sum[r][c]);
}

// for the first places, up to whole tiles, and columns, a multiple of kPad
template <class N, class Start, class Finish>
inline void product_of_runs(const std::vector<Place>& places, std::size_t count, int columns, const typename N::Word* A,
                            std::ptrdiff_t step, const std::vector<Run>& runs, const typename N::Word* B,
                            std::ptrdiff_t ldb, const Start& start, const Finish& finish) {
  using V = typename N::Sum;
  constexpr int kRows = kTileRows<V>, kWide = kTileColumns * V::width;
  for (std::size_t m = 0; m < count; m += kRows) {
    int n = 0;
    for (; n + kWide <= columns; n += kWide)
      tile_of_runs<N, kRows, kTileColumns>(&places[m], n, A, step, runs, B, ldb, start, finish);
    for (; n < columns; n += V::width) tile_of_runs<N, kRows, 1>(&places[m], n, A, step, runs, B, ldb, start, finish);
  }
}

template <class N>
class Convolution {
  using V = typename N::Sum;
  using Word = typename N::Word;
  using Words = AlignedBuffer<Word>;
  static constexpr int kGroup = N::kGroup;
  static constexpr int kPairs = 24;  // of places, of which matrix units sum the gradients of weights together

 public:
  const Filters filters;
  const int depth;                // channels of a pixel of the inputs, with those that are 0
  const int high, wide;           // places
  const int outputs;              // channels of a place, with those that are 0
  const std::ptrdiff_t input_size, output_size;  // words of a sample
  std::ptrdiff_t zipped_inputs, zipped_outputs;  // words of operands of gradients of weights

  Convolution(const Filters& given, int channels)
      : filters(given),
        depth(channels),
        high((given.height - given.side) / given.stride + 1),
        wide((given.width - given.side) / given.stride + 1),
        outputs(padded(given.outputs)),
        input_size(words(static_cast<std::ptrdiff_t>(given.height) * given.width * depth)),
        output_size(words(static_cast<std::ptrdiff_t>(high) * wide * outputs)),
        zipped_inputs(input_size * N::kSamples),
        zipped_outputs(output_size * N::kSamples),
        weight_(static_cast<std::size_t>(given.side * given.side * words(depth) * outputs)),
        turned_(static_cast<std::size_t>(given.side * given.side * words(outputs) * padded(depth))),
        bias_(floats(1, outputs)),
        none_(floats(1, padded(depth))),
        gradient_(floats(1, gradient_size())) {
    find_runs();
    if constexpr (N::kInTiles) find_tiles();
  }

  // Takes the weights as they are now; for the way back to the inputs only if it is asked for.
  void pack(bool back) {
    const Filters& f = filters;
    const float* next = f.weight;
    for (int o = 0; o < f.outputs; ++o)
      for (int tap = 0; tap < f.side * f.side; ++tap)
        for (int c = 0; c < f.channels; ++c) {
          const float w = *next++ * f.factor;
          set(weight_.get() + tap * words(depth) * outputs, c, o, outputs, w);
          if (back) set(turned_.get() + tap * words(outputs) * padded(depth), o, c, padded(depth), w);
        }
    std::copy_n(f.bias, f.outputs, bias_.get());
  }

  // finish(output's number in [samples, places, outputs], sum) of samples; of the next ones as well, up to a whole tile
  template <class Finish>
  void forward(const Word* x, int samples, Finish finish) const {
    [[maybe_unused]] const typename N::Shape shape(samples, step_of(words(filters.side * depth)));
    product(windows_, samples, input_size, high * wide * outputs, outputs, x, forward_runs_, weight_.get(), bias_.get(),
            finish);
  }

  // of a sample, forward
  double products() const {
    return static_cast<double>(filters.side) * filters.side * filters.channels * filters.outputs * high * wide;
  }

  // numbers of a gradient: those of weights, and of biases
  int gradient_size() const { return (filters.side * row_of_window() + 1) * outputs; }

  // Writes to `gradient` what samples x of a group contribute, with gradients d of outputs, to which those of one more are
  // written. Operands of the products go to memory of `zipped_inputs` and `zipped_outputs` words, and some more.
  void find_gradients(const Word* x, Word* d, int samples, Word* zipped_x, Word* zipped_d, float* gradient) const {
    std::fill_n(gradient, gradient_size(), 0.0f);
    if constexpr (N::kInTiles) return add_in_tiles(x, d, samples, zipped_x, zipped_d, gradient);
    else
      for (int s = 0; s < samples; s += N::kSamples, x += N::kSamples * input_size, d += N::kSamples * output_size) {
        const bool pair = s + N::kSamples <= samples;  // a sample without another has one whose gradients are 0
        if (!pair) std::fill_n(d + output_size, output_size, Word(0));
        add_operand(N::zip(x, pair ? x + input_size : x, input_size, zipped_x),
                    N::zip(d, d + output_size, output_size, zipped_d), gradient);
      }
  }

  // The gradients are those of the first groups, one after the other, to which further ones add.
  void add_gradients(const float* gradients, int groups, bool first) {
    const int size = gradient_size();
    for (int n = 0; n < size; n += V::width) {
      V sum = first ? V(0) : load<V>(gradient_.get() + n);
      for (int g = 0; g < groups; ++g) sum = sum + load<V>(gradients + static_cast<std::ptrdiff_t>(g) * size + n);
      store(gradient_.get() + n, sum);
    }
  }

  // finish(input's number in [samples, pixels, depth], sum): their gradients, of samples with gradients d of outputs
  template <class Finish>
  void input_gradients(const Word* d, int samples, Finish finish) const {
    const int columns = padded(depth);
    [[maybe_unused]] const typename N::Shape shape(samples, step_of(words(outputs)));
    for (const Class& each : classes_)
      product(each.pixels, samples, output_size, filters.height * filters.width * depth, columns, d, each.taps,
              turned_.get(), none_.get(), finish);
  }

  void write_gradients() const {
    const Filters& f = filters;
    float* next = f.weight_gradient;
    for (int o = 0; o < f.outputs; ++o)
      for (int tap = 0; tap < f.side * f.side; ++tap)
        for (int c = 0; c < f.channels; ++c) *next++ = gradient_.get()[number_of(tap, c, o)] * f.factor;
    std::copy_n(gradient_.get() + bias_begin(), f.outputs, f.bias_gradient);
  }

 private:
  // the taps of a filter that see a pixel, along one side: from the first on, a stride apart; and the place of the first
  struct Seen {
    int first, count, place;
    auto kind() const { return std::pair(first, count); }
  };
  struct Class {
    std::vector<Place> pixels;  // of all samples of a group
    std::vector<Run> taps;
  };

  static constexpr std::ptrdiff_t words(std::ptrdiff_t n) { return n / N::kInWord; }
  std::ptrdiff_t pixel() const { return words(depth); }

  // numbers of a row of a window in gradients of weights: those are [numbers of a window, outputs], or in matrix units
  // [tiles, outputs, numbers of a tile]
  int bias_begin() const { return gradient_size() - outputs; }
  int row_of_window() const { return N::kInTiles ? padded(filters.side * depth) : filters.side * depth; }
  int number_of(int tap, int c, int o) const {
    const int k = tap / filters.side * row_of_window() + tap % filters.side * depth + c;
    return N::kInTiles ? (k / kPad * outputs + o) * kPad + k % kPad : k * outputs + o;
  }

  // finish(number of a result, start[n] + Σ ...) of the first samples at places, which are those of a group; from sample
  // to sample there are so many words, and results
  template <class Finish>
  static void product(const std::vector<Place>& places, int samples, std::ptrdiff_t from, std::ptrdiff_t to,
                      int columns, const Word* A, const std::vector<Run>& runs, const Word* B, const float* start,
                      Finish finish) {
    const std::size_t count = places.size() / kGroup;
    if constexpr (N::kInTiles) N::product(places.data(), count, samples, from, to, columns, A, runs, B, start, finish);
    else
      product_of_runs<N>(
          places, count * static_cast<std::size_t>(samples), columns, A, 1, runs, B, columns,
          [&](Place, int n) { return load<V>(start + n); },
          [&](Place place, int n, V sum) { finish(place.to + n, sum); });
  }

  // Adds what N::kSamples samples contribute, of which x and d are one operand.
  void add_operand(const Word* x, const Word* d, float* gradient) const {
    product_of_runs<N>(
        numbers_of_window_, numbers_of_window_.size(), outputs, x, filters.stride * pixel() * N::kInWord, places_runs_,
        d, outputs, [&](Place place, int n) { return load<V>(gradient + place.to + n); },
        [&](Place place, int n, V sum) { store(gradient + place.to + n, sum); });
    float* bias = gradient + bias_begin();
    const typename N::Factor one(N::ones());
    for (int n = 0; n < outputs; n += V::width) {
      V sums = load<V>(bias + n);
      for (const Run& run : places_runs_)
        for (int i = 0; i < run.length; ++i)
          sums = fma(one, load<typename N::Factor>(d + run.right + i * outputs + n), sums);
      store(bias + n, sums);
    }
  }

  // Adds what the samples of a group contribute: rows of places at a time, so that their operands stay in the cache.
  void add_in_tiles(const Word* x, const Word* d, int samples, Word* pictures, Word* turned, float* gradient) const {
    const Filters& f = filters;
    const std::ptrdiff_t row = f.width * pixel();
    for (int y = 0; y < high; y += rows_at_once_) {
      const int rows = std::min(rows_at_once_, high - y);
      const std::ptrdiff_t count = ((rows - 1) * f.stride + f.side) * row;
      const std::ptrdiff_t shift = std::min(f.stride * pixel(), count);  // to the next place
      for (int s = 0; s < samples; ++s) {
        const Word* from = x + s * input_size + y * f.stride * row;
        Word* to = pictures + s * picture_distance_;
        N::zip(from, from + shift, count - shift, to);
        N::zip(from + count - shift, from + count - shift, shift, to + 2 * (count - shift));  // of rows' last places
      }
      Word* to = turned;
      for (int place = y * wide; place < (y + rows) * wide; place += wide)
        for (int i = place; i < place + wide; i += 2)
          for (int o = 0; o < outputs; o += kPad, to += kPad * kPad) {
            const std::ptrdiff_t next = i + 1 < place + wide ? words(outputs) : 0;
            const V sum = N::turn(d + words(i * outputs + o), output_size, samples, next, to);
            float* bias = gradient + bias_begin() + o;
            store(bias, load<V>(bias) + sum);
          }
      N::add_products(numbers_of_window_, places_runs_.data(), rows * ((wide + 1) / 2), samples, outputs, turned,
                      pictures, picture_distance_, gradient);
    }
  }

  // B[k, n] of words of several k
  static void set(Word* B, int k, int n, std::ptrdiff_t ld, float number) {
    N::set(B + k / N::kInWord * ld + n, k % N::kInWord, number);
  }

  void find_runs() {
    const Filters& f = filters;
    const std::ptrdiff_t row = f.width * pixel();
    for (int s = 0; s < kGroup; ++s)
      for (int y = 0; y < high; ++y)
        for (int x = 0; x < wide; ++x)
          windows_.push_back({s * input_size + y * f.stride * row + x * f.stride * pixel(),
                              static_cast<std::ptrdiff_t>((s * high + y) * wide + x) * outputs});
    for (int y = 0; y < f.side; ++y)
      add_run(forward_runs_, {y * row, y * f.side * pixel() * outputs, static_cast<int>(f.side * pixel())}, outputs);
    // an operand of gradients has a word for each number: of one sample, or of two
    const std::ptrdiff_t numbers = N::kInWord;
    for (int y = 0; y < high; ++y)
      places_runs_.push_back({y * f.stride * row * numbers, static_cast<std::ptrdiff_t>(y) * wide * outputs, wide});
    for (int y = 0; y < f.side; ++y)
      for (int k = 0; k < f.side * depth; k += N::kInTiles ? kPad : 1)
        numbers_of_window_.push_back(
            {y * row * numbers + k, static_cast<std::ptrdiff_t>(y * row_of_window() + k) * outputs});
    while (!N::kInTiles && numbers_of_window_.size() % kTileRows<V> != 0)
      numbers_of_window_.push_back(numbers_of_window_.back());
    find_classes();
  }

  // what `add_in_tiles` needs instead of runs: a pair of places has all samples
  void find_tiles() {
    const Filters& f = filters;
    const std::ptrdiff_t row = f.width * pixel() * N::kInWord;
    const int pairs = (wide + 1) / 2;
    rows_at_once_ = std::min(high, (kPairs + pairs - 1) / pairs);
    places_runs_.clear();
    for (int y = 0; y < rows_at_once_; ++y)
      for (int i = 0; i < pairs; ++i)
        places_runs_.push_back({static_cast<std::ptrdiff_t>(y * pairs + i) * outputs * kPad,
                                y * f.stride * row + 2 * i * f.stride * depth, 1});
    const std::ptrdiff_t size = ((rows_at_once_ - 1) * f.stride + f.side) * row;
    picture_distance_ = ((size + kPad - 1) / kPad | 1) * kPad;  // an odd number of cache lines
    zipped_inputs = kGroup * picture_distance_;
    zipped_outputs = static_cast<std::ptrdiff_t>(rows_at_once_) * pairs * outputs * kPad;
  }

  // what a run of so many words is divided into: for matrix units steps, all of the same length
  static int step_of(std::ptrdiff_t length) {
    int step = static_cast<int>(length);
    if constexpr (N::kInTiles)
      for (step = std::min(step, kPad); length % step != 0;) --step;
    return step;
  }

  // a run over rows of a matrix
  static void add_run(std::vector<Run>& runs, Run run, std::ptrdiff_t ldb) {
    const int length = step_of(run.length);
    for (int i = 0; i < run.length; i += length) runs.push_back({run.left + i, run.right + i * ldb, length});
  }

  Seen seen(int pixel, int places) const {
    const Filters& f = filters;
    Seen found{0, 0, 0};
    for (int tap = pixel % f.stride; tap < f.side && tap <= pixel; tap += f.stride) {
      const int place = (pixel - tap) / f.stride;
      if (place >= places) continue;
      if (found.count++ == 0) found.first = tap, found.place = place;
    }
    return found;
  }

  void find_classes() {
    const Filters& f = filters;
    std::map<std::array<std::pair<int, int>, 2>, Class> found;
    for (int s = 0; s < kGroup; ++s)
      for (int y = 0; y < f.height; ++y)
        for (int x = 0; x < f.width; ++x) {
          const Seen down = seen(y, high), across = seen(x, wide);
          Class& mine = found[{down.kind(), across.kind()}];
          mine.pixels.push_back({words(((s * high + down.place) * wide + across.place) * outputs),
                                 (static_cast<std::ptrdiff_t>(s * f.height + y) * f.width + x) * depth});
          if (mine.pixels.size() > 1) continue;
          for (int i = 0; i < down.count; ++i)
            for (int j = 0; j < across.count; ++j)
              add_run(mine.taps,
                      {-words((i * wide + j) * outputs),
                       ((down.first + i * f.stride) * f.side + across.first + j * f.stride) * words(outputs) *
                           padded(depth),
                       static_cast<int>(words(outputs))},
                      padded(depth));
        }
    for (auto& [kind, each] : found) classes_.push_back(std::move(each));
  }

  Words weight_, turned_;  // [window, outputs] in words of inputs; [taps, outputs, depth] in words of outputs
  Floats bias_, none_, gradient_;
  int rows_at_once_ = 0;
  std::ptrdiff_t picture_distance_ = 0;
  std::vector<Place> windows_, numbers_of_window_;  // the former of all samples of a group
  std::vector<Run> forward_runs_, places_runs_;
  std::vector<Class> classes_;
};

}  // namespace
}  // namespace headrace::learner
