// SPDX-License-Identifier: MIT
#include <simplx/report/op_table.hpp>

#include "report/drawings.hpp"

using namespace test;

TEST_SUITE_BEGIN("report/op_table");

TEST_CASE("arguments are rows above, one row is the result, and every parameter of the layer is there once") {
  each_table([](const std::string& name, const OpTable& table) {
    CAPTURE(name);
    for (int i = 0; i < static_cast<int>(table.size()); ++i) {
      for (const int a : table[i].arguments) CHECK((a >= 0 && a < i));
    }
    CHECK(std::ranges::count(table, Kind::outputs, &OpRow::kind) == 1);
    CHECK(table.back().kind == Kind::outputs);
  });
  std::vector<std::string> names;
  for (const OpRow& row : ops_of_layer(Decoder{.block = sas_p}, 1)) {
    if (row.kind == Kind::parameter) names.push_back(row.name);
  }
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
  for (const char* name : {"attention_gain", "mlp_gain", "mlp.up.weight", "attention.query.weight", "norm1.gain"}) {
    CAPTURE(name);
    CHECK(std::ranges::count(names, name) == 1);
  }
}

TEST_CASE("a module that is evaluated again in backward is written out in place, under its name") {
  const OpTable table = ops_of([] {
    const auto module = [](Expr x) { return tanh(named("linear", Linear{})(x)); };
    return sin(named("again", recompute(module))(variable("x", rows_of(Axis::tokens, 8))));
  });
  std::vector<std::string> ops;
  for (const OpRow& row : table) ops.push_back(row.op.empty() ? row.name : row.op);
  CHECK(std::ranges::count(ops, "tanh") == 1);
  CHECK(std::ranges::count(ops, "stack") == 0);
  CHECK(std::ranges::count(ops, "again.linear.weight") == 1);
}

TEST_CASE("layers are told apart by their graphs; -1 is the last") {
  CHECK(equal_layers(Decoder{.block = sas, .layers = 4}) == std::vector<std::vector<int>>{{0}, {1, 2, 3}});
  CHECK(equal_layers(Decoder{.block = pre_ln, .layers = 2}) == std::vector<std::vector<int>>{{0, 1}});
  CHECK(equal_layers(one_op).empty());
  const DecoderOf<Shared<ConfiguredBlock>> shared{.block = {{.config = sas, .heads = 4}}, .layers = 4};
  CHECK(equal_layers(shared) == std::vector<std::vector<int>>{{0, 1, 2, 3}});  // each is told that it is the first
  const Decoder model{.block = sas, .layers = 3};
  CHECK(ops_of_layer(model).size() == ops_of_layer(model, 2).size());
  CHECK(ops_of_layer(model, 0).size() > ops_of_layer(model, 1).size());
}

TEST_CASE("a broken rule, a layer that is not there, and a model without layers are errors that say so") {
  const auto broken = [] { return variable("x", rows_of(Axis::tokens, 8)) * weight("w", 9, 8); };
  const auto broken_layer = [] {
    return stack("blocks", 2, Linear{9}, variable("x", rows_of(Axis::tokens, 8)));
  };
  const auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto says = [&](auto call, const char* what) { return message(call).find(what) != std::string::npos; };
  CHECK(says([&] { ops_of(broken); }, "op_table_test.cpp:"));
  CHECK(says([&] { ops_of_layer(broken); }, "breaks the rule"));
  CHECK(says([&] { ops_of_layer(broken_layer, 0); }, "breaks the rule"));
  CHECK(says([&] { ops_of_layer(one_op); }, "no stack"));
  CHECK(says([&] { ops_of_layer(mine, 6); }, "no layer 6 in a stack of 6"));
  CHECK(says([&] { ops_of_layer(mine, -2); }, "no layer -2"));
  const std::string longest(95, 'a'), longer(96, 'a');
  const auto x = [] { return variable("x", rows_of(Axis::tokens, 8)); };
  CHECK(ops_of([&] { return x() * weight(longest.c_str(), 8, 8); }).size() > 2);
  CHECK(says([&] { ops_of([&] { return x() * weight(longer.c_str(), 8, 8); }); }, "~' is too long, by itself or"));
  const auto scoped = [&] { return named(longest.c_str(), Linear{8})(x()); };
  CHECK(says([&] { ops_of(scoped); }, "the name that begins with 'weight"));
  const auto layers = [&] { return stack("blocks", 2, [&](Expr y) { return y * vector(longer.c_str(), 8); }, x()); };
  CHECK(says([&] { ops_of_layer(layers); }, "is too long"));
}

TEST_SUITE_END();
