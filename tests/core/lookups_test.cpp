// SPDX-License-Identifier: MIT
#include <simplx/core/lookups.hpp>

#include <simplx/core/view.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/ops/reduce.hpp>

#include <doctest/doctest.h>

using namespace simplx;

namespace {
struct Placed {  // layers with positions of their own, the second with fewer
  constexpr Expr operator()(int layer, Expr x) const { return x + positions(weight("places", 20 - 3 * layer, 4)); }
};
inline constexpr auto two_tables = [] {
  auto i = indices("i", Axis::tokens);
  auto x = embedding(weight("large", 100, 4), i) + embedding(weight("small", 10, 4), i);
  return cross_entropy(stack("blocks", 3, Placed{}, x), indices("labels", Axis::tokens));
};
inline constexpr auto of_rows = [] {  // looks up rows that come at run time
  return sum(embedding(input("x", rows_of(Axis::batch, 4)), indices("i", Axis::tokens)));
};
inline constexpr auto none = [] { return sum(input("x", rows_of(Axis::batch, 4))); };
inline constexpr Decoder decoder{.block = sas_p, .vocab = 31, .width = 16, .heads = 2, .layers = 1, .context = 12};

template <auto const& model>
constexpr GraphView view = view_of<GraphOf<model>>;
template <auto const& model>
constexpr Index bound(const char* input, const Rows& rows = {}) {
  return view<model>.index_bound(view<model>.input_node(input), rows);
}
}  // namespace

static_assert(view<two_tables>.lookups.size() == 3 && view<none>.lookups.empty());
static_assert(bound<two_tables>("i") == 10 && bound<two_tables>("labels") == 4);
static_assert(bound<of_rows>("i") == 0 && bound<of_rows>("i", {.batch = 7}) == 7);
static_assert(bound<decoder>("tokens") == 31 && bound<decoder>("labels") == 31);
static_assert(view<two_tables>.longest == 14 && view<decoder>.longest == 12 && view<none>.longest == no_limit);

static_assert(usual_context<decoder>(30) == 12 && usual_context<decoder>(7) == 7);
static_assert(usual_context<decoder>(12) == 12 && usual_context<none>(12) == 12);
static_assert(usual_context<decoder>(no_limit) == 12 && usual_context<none>(no_limit) == 0);
static_assert(usual_context<logits_of<decoder>>(no_limit) == 12);

TEST_CASE("core/lookups: labels may be -100, what is embedded may not") {
  int labels = 0;
  for (const Lookup& lookup : view<two_tables>.lookups) labels += lookup.ignores;
  CHECK(labels == 1);
}
