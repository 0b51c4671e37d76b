// SPDX-License-Identifier: MIT
#include <simplx/differentiate/checked_loss.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

/// Two results of a trained weight, a frozen one, a variable and an input.
struct Both {
  Expr left, right;
};
inline constexpr auto model = [] {
  auto x = variable("x", rows_of(Axis::tokens, 3)) * weight("w", 3, 2);
  return Both{x * frozen(weight("fixed", 2, 2)), x + input("y", rows_of(Axis::tokens, 2))};
};

}  // namespace

TEST_CASE("differentiate/checked_loss: trained parameters and variables move, and the loss with them") {
  Evaluation<model> run(Rows{.tokens = 2});
  test::fill_inputs(run);
  const auto subject = detail::subject_of(run);
  REQUIRE(subject.tensors.size() == 2);
  CHECK(subject.tensors[0].name == "w");
  CHECK(subject.tensors[1].name == "x");
  CHECK(subject.outputs.size() == 2);

  const detail::CheckNumbers random{3};
  const detail::CheckedLoss<double> loss(subject, random);
  const detail::Entries origin = detail::values_of(subject), direction = detail::direction_of(subject, random);
  loss.gradient();
  double slope = 0;
  for (std::size_t b = 0; b < direction.size(); ++b) {
    for (std::size_t i = 0; i < direction[b].size(); ++i) slope += direction[b][i] * subject.tensors[b].gradient[i];
  }
  const auto along = [&](double h) {
    detail::move_to(subject, origin, direction, h);
    return loss();
  };
  // A polynomial of degree 2 in h, of which central differences are exact.
  CHECK((along(0.5) - along(-0.5)) == doctest::Approx(slope).epsilon(1e-12));
  along(0);
  CHECK(detail::values_of(subject) == origin);
}
