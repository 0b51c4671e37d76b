// SPDX-License-Identifier: MIT
#include <simplx/core/layout.hpp>

#include "support.hpp"

#include <simplx/blocks/pre_ln.hpp>
#include <simplx/blocks/sas_p.hpp>

using namespace simplx;

namespace {

template <class B>
struct Stacked {
  B block;
  constexpr Expr operator()() const { return stack("s", 2, block, variable("x", rows_of(Axis::tokens, 128))); }
};
inline constexpr Stacked<PreLn> pre_ln_stack{{{4}, {512}}};
inline constexpr Stacked<SasP> sas_p_stack{{{4}, {512}}};
template <auto const& model, int k>
using LayerGraph = typename GraphOf<model>::template layers_of<1>::template child<k>;

}  // namespace

TEST_SUITE_BEGIN("core/layout");

TEST_CASE("a Pre-LN layer of width 128 keeps 1414 columns, a SAS-P layer two products less") {
  // norm1, q, k, v, attention, h, norm2: 7 x 128; relu 512; one number per norm; one per head.
  static_assert(LayerGraph<pre_ln_stack, 0>::layout.kept[Axis::tokens] == 7 * 128 + 512 + 2 + 4);
  // norm1, q, k, attention, product of the MLP: 5 x 128; relu 512; 1 + 4.
  static_assert(LayerGraph<sas_p_stack, 1>::layout.kept[Axis::tokens] == 5 * 128 + 512 + 1 + 4);
}

TEST_CASE("temporaries use memory again") {
  static_assert(LayerGraph<pre_ln_stack, 0>::layout.temporary[Axis::tokens] <= 1024);
  static_assert(LayerGraph<sas_p_stack, 1>::layout.temporary[Axis::tokens] <= 1024);
}

TEST_CASE("holes are filled first-fit, and join their neighbours") {
  detail::Holes<8> holes;
  CHECK(holes.take(10) == 0);
  CHECK(holes.take(5) == 10);
  CHECK(holes.take(7) == 15);
  holes.give_back(0, 10);
  holes.give_back(15, 7);
  CHECK(holes.count == 2);
  holes.give_back(10, 5);  // joins both sides
  CHECK(holes.count == 1);
  CHECK(holes.take(22) == 0);
  CHECK(holes.count == 0);
  CHECK(holes.top == 22);
  holes.give_back(20, 2);
  CHECK(holes.take(6) == 20);  // the last hole grows at the top
  CHECK(holes.top == 26);
}

TEST_SUITE_END();
