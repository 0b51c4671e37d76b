// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/hyper.hpp
/// Numbers that are not trained, set by name at run time: rates of dropout, epsilons, every hyper(...) of a model.

#include <simplx/core/error.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/train/glob.hpp>

#include <cmath>

namespace simplx::inline SIMPLX_TARGET {

/// Sets each number among the constants whose name matches the pattern (glob.hpp), as from the next evaluation on:
///
///     set_hyper(trainer, "*dropout.rate", 0);  // also mlp_dropout.rate
///
/// net     whatever has tensors() and constants(): a Trainer, Learner, Function, Inference or Evaluation, on the CPU or
///         a GPU. Checkpoints of training hold what was set
/// Errors  throws Error for a pattern that matches no number, with the nearest names, and for a value that is not
///         finite in the net's numbers; nothing is set then. A rate of dropout below 0 counts as 0, above 1 as 1
template <class Net>
void set_hyper(Net& net, std::string_view pattern, double value) {
  using S = typename decltype(net.constants())::value_type;
  if (!std::isfinite(static_cast<S>(value))) {
    throw Error("'" + std::string(pattern) + "' was to be set to " + shortest(value),
                "give a number that is finite in the model's precision");
  }
  const auto constants = net.constants();
  std::vector<std::string> numbers;
  bool found = false;
  for (const TensorInfo& tensor : net.tensors().constants) {
    if (tensor.rank != 0) continue;  // slopes, positions, bases
    numbers.push_back(tensor.name);
    if (!matches_glob(pattern, tensor.name)) continue;
    constants[static_cast<std::size_t>(tensor.offset)] = static_cast<S>(value);
    found = true;
  }
  if (found) return;
  throw Error("no number of the model matches '" + std::string(pattern) + "'",
              numbers.empty() ? "it has none" : "the nearest names are " + nearest_names(pattern, numbers, 3));
}

}  // namespace simplx
