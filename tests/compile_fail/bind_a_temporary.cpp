// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: An object that ends with the statement is read in place.
// expect: error: .*simplx: bind reads memory that outlives the call, and this object ends with it
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/reduce.hpp>

#include <vector>

using namespace simplx;

inline constexpr auto model = [] { return sum(square(variable("x", rows_of(Axis::batch, 2)))); };
void run(Function<model>& f) {
#ifdef FIXED
  f.set<"x">(std::vector<double>{1, 2, 3, 4});
#else
  f.bind<"x">(std::vector<double>{1, 2, 3, 4});
#endif
}
