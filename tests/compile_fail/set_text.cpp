// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A text is given for numbers, of which its characters would be taken.
// expect: error: .*simplx: set copies an Eigen object, one number, or a container of numbers
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/reduce.hpp>

#include <string>

using namespace simplx;

inline constexpr auto model = [] { return sum(square(variable("x", rows_of(Axis::batch, 1)))); };
void run(Function<model>& f, const std::string& text) {
#ifdef FIXED
  f.set<"x">(std::stod(text));
#else
  f.set<"x">(text);
#endif
}
