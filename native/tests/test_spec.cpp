// Environments write and read the arrays that their simulator declares: the arrays have exactly the declared size, so
// that the address sanitizer sees one byte more.
#include "../engine/spec.hpp"

#include <array>
#include <string_view>

#include "../engine/engine.hpp"
#include "check.hpp"

using namespace headrace;

namespace {

struct Everything : Spec {
  explicit Everything(int extent, bool more) : wide(this, "obs:wide", {extent, 2}) {
    if (more) flag.emplace(this, "info:flag");
  }

  Field<std::uint8_t> wide;
  Field<std::int8_t> i8{this, "info:i8"};
  Field<std::int16_t> i16{this, "info:i16", {3}};
  Field<std::uint16_t> u16{this, "info:u16"};
  Field<std::int32_t> i32{this, "info:i32"};
  Field<std::uint32_t> u32{this, "info:u32"};
  Field<std::int64_t> i64{this, "info:i64"};
  Field<std::uint64_t> u64{this, "info:u64"};
  Field<float> f32{this, "info:f32", {2, 2}};
  Field<double> f64{this, "info:f64"};
  AnyField untyped{this, "info:untyped", "float64", {2}};
  Field<double> nothing{this, "info:nothing", {0}};
  std::optional<Field<bool>> flag;
  ActionField<float> action{this, {3}};
};

// Memory that holds so many rows of each field, and not a byte more.
struct Memory {
  Memory(const Spec& spec, std::size_t rows) {
    for (const auto& field : spec.fields()) arrays.push_back(std::make_unique<std::byte[]>(field.bytes() * rows));
  }

  // The places of one row's fields.
  std::vector<std::byte*> row(const Spec& spec, std::size_t i) const {
    std::vector<std::byte*> at;
    for (std::size_t k = 0; k < arrays.size(); ++k) at.push_back(arrays[k].get() + i * spec.fields()[k].bytes());
    return at;
  }

  std::vector<std::unique_ptr<std::byte[]>> arrays;
};

template <class Error, class Do>
void refuses(Do action, std::string_view message) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.what() == message);
    return;
  }
  CHECK(false);
}

void fields_tell_their_declarations() {
  const Everything spec(5, true);
  const std::vector<std::pair<std::string, std::size_t>> told = {
      {"uint8", 10}, {"int8", 1},     {"int16", 6},   {"uint16", 2},   {"int32", 4},   {"uint32", 4}, {"int64", 8},
      {"uint64", 8}, {"float32", 16}, {"float64", 8}, {"float64", 16}, {"float64", 0}, {"bool", 1}};
  CHECK(spec.fields().size() == told.size());
  for (std::size_t i = 0; i < told.size(); ++i)
    CHECK(spec.fields()[i].dtype == told[i].first && spec.fields()[i].bytes() == told[i].second);
  CHECK(spec.fields()[0].name == "obs:wide" && spec.fields()[0].shape == std::vector<int>({5, 2}));
  CHECK(spec.actions() && spec.actions()->dtype == "float32" && spec.action_bytes() == 12);
  CHECK(Everything(5, false).fields().size() == told.size() - 1);
  CHECK(Spec().action_bytes() == 0);
}

// A copy of the declarations serves as well: environments have copies.
void rows_are_written_at_their_places() {
  const Everything declared(5, true);
  const Everything spec = declared;
  const Memory memory(declared, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto at = memory.row(declared, i);
    const Row row(at);
    const auto k = static_cast<int>(i);
    for (auto& value : row[spec.wide]) value = static_cast<std::uint8_t>(k);
    row.set(spec.i8, -k), row.set(spec.u16, k), row.set(spec.i32, k), row.set(spec.u32, k);
    row.set(spec.i64, k), row.set(spec.u64, k), row.set(spec.f64, k), row.set(*spec.flag, k > 0);
    row.set(spec.i16, std::array<std::int16_t, 3>{1, 2, 3});
    row.set(spec.f32, std::vector<float>{1, 2, 3, 4});
    row.set(spec.nothing, std::span<const double>());
    const double untyped[] = {1, 2};
    row.set_bytes(spec.untyped, std::as_bytes(std::span(untyped)));
  }
  const auto at = memory.row(declared, 2);
  const Row last(at);
  CHECK(last[spec.wide].size() == 10 && last[spec.wide].back() == 2 && last[spec.i8][0] == -2);
  CHECK(last[spec.i16][2] == 3 && last[spec.f32][3] == 4 && last[*spec.flag][0]);
}

void another_number_of_numbers_writes_nothing() {
  const Everything spec(5, false);
  const Memory memory(spec, 1);
  const auto at = memory.row(spec, 0);
  const Row row(at);
  const std::vector<float> few(3, 7), many(5, 7);
  refuses<std::length_error>([&] { row.set(spec.f32, few); }, "info:f32 has 16 bytes, and 12 were written");
  refuses<std::length_error>([&] { row.set(spec.f32, many); }, "info:f32 has 16 bytes, and 20 were written");
  refuses<std::length_error>([&] { row.set(spec.f32, 7); }, "info:f32 has 16 bytes, and 4 were written");
  refuses<std::length_error>([&] { row.set(spec.nothing, 7); }, "info:nothing has 0 bytes, and 8 were written");
  for (float value : row[spec.f32]) CHECK(value == 0);
}

void actions_are_read_at_their_places() {
  const Everything spec(5, false);
  const std::array<float, 3> numbers = {1, 2, 3};
  const auto unaligned = std::make_unique<std::byte[]>(13);
  std::memcpy(unaligned.get() + 1, numbers.data(), 12);
  const Action action(unaligned.get() + 1);
  CHECK(action.get(spec.action) == 1 && action.get(spec.action, 2) == 3);
  std::array<float, 3> out{};
  action.copy(spec.action, out);
  CHECK(out == numbers);
  std::vector<float> more(4);
  refuses<std::length_error>([&] { action.copy(spec.action, more); }, "an action has 3 numbers, not 4");
  refuses<std::out_of_range>([&] { action.get(spec.action, 3); }, "an action has 3 numbers, and none at 3");
}

void impossible_declarations_are_refused() {
  refuses<BadSpec>(
      [] {
        Everything spec(5, false);
        ActionField<bool> another(&spec);
      },
      "a simulator takes one array of actions; this one declares two");
  refuses<BadSpec>(
      [] {
        Spec spec;
        AnyField field(&spec, "obs", "complex64", {});
      },
      "a simulator's arrays cannot hold complex64");
  refuses<BadSpec>([] { Everything spec(-5, false); }, "obs:wide has a negative extent: -5");
  Spec spec;
  for (std::size_t i = 0; i < Spec::kMostFields; ++i) Field<float>(&spec, "info:" + std::to_string(i));
  refuses<BadSpec>([&] { Field<float>(&spec, "info:last"); },
                   "a simulator declares at most 64 fields; info:last is one more");
}

struct Pair : Spec {
  Field<double> obs{this, "obs", {2}};
  Field<std::int32_t> count{this, "info:count"};
  ActionField<std::int64_t> action{this};
};

// An environment that writes as many numbers as its last action says.
class Careless : public Environment {
 public:
  void seed(std::uint64_t) override {}
  void reset() override { numbers_.assign(2, 1); }
  StepResult step(const Action& action) override {
    numbers_.assign(static_cast<std::size_t>(action.get(shown_.action)), 1);
    return {};
  }
  void observe(const Row& row) const override { row.set(shown_.obs, numbers_), row.set(shown_.count, numbers_.size()); }
  void save(Writer&) const override {}
  void load(Reader&) override {}
  void render(std::uint8_t*) const override {}

 private:
  Pair shown_;
  std::vector<double> numbers_;
};

// The arrays of a batch of a Pair.
struct Arrays {
  explicit Arrays(std::size_t rows) {
    for (std::size_t bytes : {16, 4, 1, 1, 4, 4, 4}) memory.emplace_back(rows * bytes);
    for (auto& array : memory) views.emplace_back(array);
  }
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> views;
};

Engine careless_engine() {
  Settings settings;
  settings.num_envs = settings.batch_size = 3;
  settings.seeds = {1, 2, 3};
  return Engine({Pair(), 0, 0, [](int) { return std::make_unique<Careless>(); }}, settings);
}

void a_batch_of_other_arrays_is_refused() {
  const Engine engine = careless_engine();
  Arrays right(3);
  CHECK(engine.bind(right.views, 3).rows == 3);
  const std::string unfit = "a batch does not fit the simulator: ";
  refuses<BadBatch>([&] { engine.bind(std::span(right.views).first(6), 3); }, unfit + "it has 6 arrays, not 7");
  refuses<BadBatch>([&] { engine.bind({}, 0); }, unfit + "it has 0 arrays, not 7");
  refuses<BadBatch>([&] { engine.bind(right.views, 4); }, unfit + "obs has 48 bytes, not 4 rows of 16");
  std::swap(right.views[5], right.views[3]);
  refuses<BadBatch>([&] { engine.bind(right.views, 3); }, unfit + "truncated has 12 bytes, not 3 rows of 1");
}

// An environment that writes more than it declared fails, and no other row is touched.
void a_careless_environment_fails_alone() {
  Engine engine = careless_engine();
  Arrays arrays(3);
  const Slot slot = engine.bind(arrays.views, 3);
  const auto finish = [&] {
    engine.take_part();
    CHECK(engine.wait_done(std::chrono::seconds(10)));
    engine.check();
  };
  engine.start_reset(nullptr, nullptr, slot);
  finish();
  const std::array<std::int64_t, 3> actions = {2, 1000, 2};
  engine.start_step(reinterpret_cast<const std::byte*>(actions.data()), nullptr, slot);
  refuses<Failure>(finish, "obs has 16 bytes, and 8000 were written");
  const std::vector<double> expected = {1, 1, 0, 0, 1, 1};
  CHECK(std::memcmp(arrays.memory[0].data(), expected.data(), 48) == 0);
}

}  // namespace

int main() {
  fields_tell_their_declarations();
  rows_are_written_at_their_places();
  another_number_of_numbers_writes_nothing();
  actions_are_read_at_their_places();
  impossible_declarations_are_refused();
  a_batch_of_other_arrays_is_refused();
  a_careless_environment_fails_alone();
  std::puts("test_spec: 7 passed, 0 failed");
}
