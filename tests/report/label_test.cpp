// SPDX-License-Identifier: MIT
#include <simplx/report/label.hpp>

#include <doctest/doctest.h>

using namespace simplx::drawing;

TEST_SUITE_BEGIN("report/label");

TEST_CASE("a character of several bytes is one, and an index is narrower than what it stands at") {
  CHECK(text_width("a") > 0);
  CHECK(text_width("αβ") == doctest::Approx(2 * text_width("α")));
  CHECK(text_width("α") < 1);
  CHECK(text_width("i") < text_width("n"));
  CHECK(text_width("n") < text_width("W"));
  const Label label{{"X", Run::Style::symbol}, {"in", Run::Style::index}};
  CHECK(text_width(label) == doctest::Approx(text_width("X") + index_size * text_width("in")));
  CHECK(plain_text(label) == "X_in");
}

TEST_CASE("names as titles, names and scopes") {
  CHECK(title_case("rms_norm") == "Rms norm");
  CHECK(title_case("mlp") == "MLP");
  CHECK(title_case("") == "");
  CHECK(last_name("attention.query.weight") == "weight");
  CHECK(scope_of("attention.query.weight") == "attention.query");
  CHECK(last_name("alpha") == "alpha");
  CHECK(scope_of("alpha") == "");
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(1e-8) == "1e-08");
}

TEST_CASE("gains bear the letters of the paper") {
  CHECK(plain_text(symbol_of("attention_skip")) == "α_SA");
  CHECK(plain_text(symbol_of("attention_gain")) == "β_SA");
  CHECK(plain_text(symbol_of("mlp_skip")) == "α_FF");
  CHECK(plain_text(symbol_of("mlp_gain")) == "β_FF");
  CHECK(plain_text(symbol_of("mlp_residual_scale")) == "λ_FF");
  CHECK(plain_text(symbol_of("attention.head_scale")) == "η_A");
  CHECK(plain_text(symbol_of("attention.value.beta")) == "β_V");
  CHECK(plain_text(symbol_of("gamma")) == "γ");
  CHECK(plain_text(symbol_of("my.own")) == "own");
}

TEST_SUITE_END();
