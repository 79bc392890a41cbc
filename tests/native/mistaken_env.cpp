// Simulators for the task of counter_env.cpp that declare something else, one for each kind of mistake: were they
// run, they would write what they declare all the same.
#include <headrace/engine/module.hpp>

#include <algorithm>

namespace {

using headrace::ActionField;
using headrace::Field;
using headrace::Spec;

struct Right : Spec {
  Field<double> obs{this, "obs", {4}};
  Field<std::int32_t> episode{this, "info:episode"};
  ActionField<std::int64_t> action{this};
};

struct MissingField : Spec {
  Field<double> obs{this, "obs", {4}};
  ActionField<std::int64_t> action{this};
};

struct ExtraField : Right {
  Field<double> more{this, "info:more", {1000}};
};

struct MisspeltField : Spec {
  Field<double> obs{this, "obs", {4}};
  Field<std::int32_t> episode{this, "info:epsiode"};
  ActionField<std::int64_t> action{this};
};

struct RepeatedField : Right {
  Field<std::int32_t> again{this, "info:episode"};
};

struct WrongDtype : Spec {
  Field<float> obs{this, "obs", {4}};
  Field<std::int32_t> episode{this, "info:episode"};
  ActionField<std::int64_t> action{this};
};

struct WrongDtypeOfOneSize : Spec {
  Field<double> obs{this, "obs", {4}};
  Field<float> episode{this, "info:episode"};
  ActionField<std::int64_t> action{this};
};

struct WrongSize : Spec {
  Field<double> obs{this, "obs", {4000}};
  Field<std::int32_t> episode{this, "info:episode"};
  ActionField<std::int64_t> action{this};
};

struct WrongShape : Spec {
  Field<double> obs{this, "obs", {2, 2}};
  Field<std::int32_t> episode{this, "info:episode"};
  ActionField<std::int64_t> action{this};
};

struct WrongOrder : Spec {
  Field<std::int32_t> episode{this, "info:episode"};
  Field<double> obs{this, "obs", {4}};
  ActionField<std::int64_t> action{this};
};

struct WrongActionSize : Spec {
  Field<double> obs{this, "obs", {4}};
  Field<std::int32_t> episode{this, "info:episode"};
  ActionField<std::int64_t> action{this, {3}};
};

struct WrongActionDtype : Spec {
  Field<double> obs{this, "obs", {4}};
  Field<std::int32_t> episode{this, "info:episode"};
  ActionField<double> action{this};
};

struct NoAction : Spec {
  Field<double> obs{this, "obs", {4}};
  Field<std::int32_t> episode{this, "info:episode"};
};

struct TwoActions : Right {
  ActionField<std::int64_t> another{this};
};

struct TooManyFields : Right {
  TooManyFields() {
    for (int i = 0; i < 64; ++i) more.emplace_back(this, "info:" + std::to_string(i));
  }
  std::vector<Field<bool>> more;
};

struct NegativeShape : Right {
  Field<double> more{this, "info:more", {-1}};
};

// declares what it should, and writes one number too many or too few
template <int numbers>
struct Writes : Right {};

template <class Shown>
class Mistaken : public headrace::Environment {
 public:
  void seed(std::uint64_t) override {}
  void reset() override {}
  headrace::StepResult step(const headrace::Action&) override { return {}; }
  void observe(const headrace::Row& row) const override { write(row, shown_); }
  void save(headrace::Writer&) const override {}
  void load(headrace::Reader&) override {}
  void render(std::uint8_t*) const override {}

 private:
  template <class T>
  static void write(const headrace::Row& row, const T& shown) {
    std::ranges::fill(row[shown.obs], 1);
  }

  template <int numbers>
  static void write(const headrace::Row& row, const Writes<numbers>& shown) {
    row.set(shown.obs, std::vector<double>(numbers));
  }

  Shown shown_;
};

template <class Shown>
void add(nanobind::module_& m, const char* name) {
  m.def(name, [] {
    return headrace::Simulator{.spec = Shown(), .make = [](int) { return std::make_unique<Mistaken<Shown>>(); }};
  });
}

}  // namespace

NB_MODULE(_mistaken, m) {
  headrace::bind_engine(m);
  add<Right>(m, "right");
  add<MissingField>(m, "missing_field");
  add<ExtraField>(m, "extra_field");
  add<MisspeltField>(m, "misspelt_field");
  add<RepeatedField>(m, "repeated_field");
  add<WrongDtype>(m, "wrong_dtype");
  add<WrongDtypeOfOneSize>(m, "wrong_dtype_of_one_size");
  add<WrongSize>(m, "wrong_size");
  add<WrongShape>(m, "wrong_shape");
  add<WrongOrder>(m, "wrong_order");
  add<WrongActionSize>(m, "wrong_action_size");
  add<WrongActionDtype>(m, "wrong_action_dtype");
  add<NoAction>(m, "no_action");
  add<TwoActions>(m, "two_actions");
  add<TooManyFields>(m, "too_many_fields");
  add<NegativeShape>(m, "negative_shape");
  add<Writes<3>>(m, "writes_too_little");
  add<Writes<5>>(m, "writes_too_much");
}
