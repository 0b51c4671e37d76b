// SPDX-License-Identifier: MIT
#include <simplx/report/diagram.hpp>

#include "report/drawings.hpp"

using namespace test;

TEST_SUITE_BEGIN("report/diagram");

namespace {
std::string scopes_of(const Diagram& diagram) {
  std::string text;
  for (const drawing::Frame& frame : diagram.frames) {
    text += frame.scope + (frame.parent < 0 ? "" : " in " + diagram.frames[frame.parent].scope) + "; ";
  }
  return text;
}
}  // namespace

TEST_CASE("no op is lost when sums are joined and frames are drawn") {
  each_table([](const std::string& name, const OpTable& table) {
    CAPTURE(name);
    std::vector<int> uses(table.size());
    for (const Item& item : diagram_of(table).items) {
      for (const int op : item.ops) ++uses[op];
    }
    for (std::size_t i = 0; i < table.size(); ++i) CHECK(uses[i] == (table[i].kind != Kind::outputs));
  });
}

TEST_CASE("scopes become frames, one within the other") {
  CHECK(scopes_of(diagram_of(ops_of_layer(mine, 1))) == "attention; mlp; ");
  CHECK(scopes_of(diagram_of(ops_of_layer(mine, 0))) == "attention; attention.value in attention; mlp; ");
  CHECK(scopes_of(diagram_of(ops_of(one_op))).empty());
  const Diagram diagram = diagram_of(ops_of_layer(Decoder{.block = sas_p}, 1));
  for (const Item& item : diagram.items) {
    if (item.role == Role::attention) CHECK(diagram.frames[item.frame].scope == "attention");
    if (plain_text(item.title) == "ReLU") CHECK(diagram.frames[item.frame].scope == "mlp");
    if (item.form == Item::Form::end) CHECK(item.frame == -1);
  }
}

TEST_CASE("what reads one result twice is none of its scope: a gate is the MLP's, not its first product's") {
  const auto own = [](const OpTable& table) { return scopes_of(diagram_of(table)); };
  const auto x = [] { return variable("x", rows_of(Axis::batch, 8)); };
  const auto normed = [&] {  // of what leaves the scope
    Expr y = named("mlp", Mlp{8})(x());
    return multiply(y, rsqrt(sum(square(y), Over::columns)));
  };
  CHECK(own(ops_of(normed)) == "mlp; ");
  CHECK(diagram_of(ops_of(normed)).items.back().frame == -1);
  for (const Item& item : diagram_of(ops_of(normed)).items) {
    if (plain_text(item.title) == "RSQRT") CHECK(item.frame == -1);
  }
  CHECK(own(ops_of([&] { return named("mlp", MlpOf<Gated<Silu>>{8})(x()); })) == "mlp; ");
  CHECK(own(ops_of([&] { return swiglu(named("mlp", Linear{8})(x())); })).empty());
}

TEST_CASE("a + b + c is one circle of three lines; a sum that is read twice stays") {
  const auto circles = [](auto model) {
    std::vector<std::size_t> inputs;
    for (const Item& item : diagram_of(ops_of(model)).items) {
      if (item.form == Item::Form::circle) inputs.push_back(item.inputs.size());
    }
    return inputs;
  };
  static constexpr auto x = [] { return variable("x", rows_of(Axis::tokens, 8)); };
  using Counts = std::vector<std::size_t>;
  CHECK(circles([] { Expr a = x(); return a + sin(a) + cos(a); }) == Counts{3});
  CHECK(circles([] { Expr a = x(); return a + sin(a) + cos(a) + tanh(a); }) == Counts{3, 2});
  CHECK(circles([] { Expr a = x(), b = a + sin(a); return b + cos(b); }) == Counts{2, 2});
  CHECK(circles([] { Expr a = x(); return (a - sin(a)) + cos(a); }) == Counts{2, 2});
}

TEST_CASE("a scope that a path leaves and enters again has no frame; of two that read each other one has") {
  static constexpr auto linear = [](const char* scope, const char* name, Expr x) {
    return named(scope, [name](Expr y) { return named(name, Linear{})(y); })(x);
  };
  const auto left = [] {
    Expr x = variable("x", rows_of(Axis::tokens, 8));
    return linear("a", "two", sin(linear("b", "one", linear("a", "one", x))));
  };
  CHECK(scopes_of(diagram_of(ops_of(left))).empty());
  const auto each_other = [] {
    Expr x = variable("x", rows_of(Axis::tokens, 8));
    return linear("b", "two", linear("a", "one", x)) + linear("a", "two", linear("b", "one", x));
  };
  CHECK(scopes_of(diagram_of(ops_of(each_other))) == "a; ");
}

TEST_SUITE_END();
