// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: Indices are given as floating-point numbers.
// expect: error: .*simplx: indices are whole numbers: give them as integers
#include <simplx/differentiate/function.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/reduce.hpp>

#include <vector>

using namespace simplx;

inline constexpr auto model = [] { return sum(embedding(weight("table", 8, 2), indices("i", Axis::tokens))); };
void run(Function<model>& f) {
#ifdef FIXED
  f.set<"i">(std::vector<long>{1, 2});
#else
  f.set<"i">(std::vector<double>{1, 2.9});
#endif
}
