// SPDX-License-Identifier: MIT
#include <simplx/report/items.hpp>

#include "report/drawings.hpp"

using namespace test;

TEST_SUITE_BEGIN("report/items");

TEST_CASE("every op and every leaf is represented by one item, and items read what is before them") {
  each_table([](const std::string& name, const OpTable& table) {
    CAPTURE(name);
    std::vector<int> uses(table.size());
    const std::vector<Item> items = items_of(table);
    for (int i = 0; i < static_cast<int>(items.size()); ++i) {
      for (const int op : items[i].ops) ++uses[op];
      for (const int input : items[i].inputs) CHECK((input >= 0 && input < i));
      CHECK(!plain_text(items[i].title).empty());
      CHECK(!items[i].tip.empty());
    }
    for (std::size_t i = 0; i < table.size(); ++i) CHECK(uses[i] == (table[i].kind != Kind::outputs));
  });
}

TEST_CASE("a product with its bias is one box, a factor is a gain with its value, a difference knows what it takes") {
  const std::vector<Item> items = items_of(ops_of([] {
    Expr x = variable("x", rows_of(Axis::tokens, 8));
    return named("query", Linear{4, true})(x) -
           scalar("mlp_gain", constant(0.1)) * named("norm", Linear{4})(x);
  }));
  REQUIRE(items.size() == 6);
  const Item *query = nullptr, *gain = nullptr, *minus = nullptr;
  for (const Item& item : items) {
    if (plain_text(item.title) == "Query") query = &item;
    if (item.form == Item::Form::gain) gain = &item;
    if (item.form == Item::Form::circle) minus = &item;
  }
  REQUIRE((query && gain && minus));
  CHECK(plain_text(query->details[0]) == "8 → 4 + b");
  CHECK(query->scope == "query");
  CHECK(plain_text(gain->title) == "β_FF = 0.1");
  CHECK(gain->tip.find("starts at 0.1") != std::string::npos);
  REQUIRE(minus->minus == 1);
  CHECK(&items[minus->inputs[0]] == query);
  CHECK(&items[minus->inputs[1]] == gain);
}

TEST_CASE("attention has the letters of its operands, its heads and its matrix") {
  const std::vector<Item> items = items_of(ops_of_layer(Decoder{.block = sas_p_alibi, .attention_dropout = 0.1}, 1));
  const auto found = std::ranges::find(items, Role::attention, &Item::role);
  REQUIRE(found != items.end());
  CHECK(plain_text(found->title) == "Shaped attention");
  CHECK(found->ports == std::vector<std::string>{"Q", "K", "V"});
  std::string details;
  for (const auto& line : found->details) details += plain_text(line) + "|";
  CHECK(details == "(α I + β A − γ C) V|4 heads, causal|ALiBi|dropout 0.1|");
}

TEST_CASE("attention to a window says how wide it is") {
  const std::vector<Item> items = items_of(ops_of_layer(Decoder{.block = pre_ln, .window = 64}, 1));
  const auto found = std::ranges::find(items, Role::attention, &Item::role);
  REQUIRE(found != items.end());
  CHECK(std::ranges::any_of(found->details, [](const auto& line) { return plain_text(line) == "window 64"; }));
}

TEST_CASE("a number of each head is a gain, however it reaches the head's columns") {
  const std::vector<Item> items = items_of(ops_of_layer(Decoder{.block = norm_former_resscale}, 1));
  std::string gains, boxes;
  for (const Item& item : items) {
    if (item.form == Item::Form::gain) gains += plain_text(item.title) + "|";
    if (item.form == Item::Form::box) boxes += plain_text(item.title) + "|";
  }
  CHECK(gains == "η_A|λ_FF|");
  CHECK(boxes.find("GELU") != std::string::npos);
  CHECK(boxes.find("Repeat") == std::string::npos);
}

TEST_CASE("a stack has its number of layers, and says where they share their parameters") {
  const auto details_of = [](const auto& block) {
    const std::vector<Item> items = items_of(ops_of([&] {
      return stack("blocks", 12, block, variable("x", rows_of(Axis::tokens, 8)));
    }));
    const auto found = std::ranges::find(items, Item::Form::box, &Item::form);
    return found == items.end() ? std::string() : plain_text(found->title) + ": " + plain_text(found->details.at(0));
  };
  CHECK(details_of(Linear{}) == "Stack blocks: 12 layers");
  CHECK(details_of(Shared{Linear{}}) == "Stack blocks: 12 layers, shared");
}

TEST_CASE("what two scopes have in common") {
  CHECK(common("mlp.up", "mlp.down") == "mlp");
  CHECK(common("mlp", "mlp.down") == "mlp");
  CHECK(common("mlp", "mlp2") == "");
  CHECK(within("a.b", "a"));
  CHECK(!within("ab", "a"));
  CHECK(within("a", ""));
}

TEST_SUITE_END();
