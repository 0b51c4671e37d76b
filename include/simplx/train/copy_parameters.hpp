// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/copy_parameters.hpp
/// What one network has learnt, in another: a copy that evaluates, a teacher or target, a network with another head.

#include <simplx/core/error.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/train/glob.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// How names that begin with `from` in the one network begin in the other: all have the same by default.
struct Renaming {
  std::string_view from = "", to = "";
};

namespace detail {

/// Elements of one buffer that go to another. (A template, as what follows: programs without it compile nothing of it.)
template <class Tensors>
struct CopiedTensor {
  Index from, to, size;
};
/// Of all targets, or of those that are drawn.
template <class Tensors>
[[gnu::cold]] auto copied_tensors(const Tensors& sources, const Tensors& targets, const Renaming& renaming, bool all) {
  const auto shape_of = [](const auto& shape) {
    return std::to_string(shape.rows) + " x " + std::to_string(shape.cols);
  };
  std::vector<CopiedTensor<Tensors>> copied;
  for (const auto& target : targets) {
    if (!target.name.starts_with(renaming.to) || !(all || target.init.is_drawn())) continue;
    const std::string name = std::string(renaming.from) + target.name.substr(renaming.to.size());
    const auto source = std::ranges::find(sources, name, &Tensors::value_type::name);
    if (source == sources.end()) {
      std::vector<std::string> names;
      for (const auto& tensor : sources) names.push_back(tensor.name);
      throw Error("'" + target.name + "' was to be copied from '" + name + "', which is not there",
                  names.empty() ? "there is nothing to copy from"
                                : "the nearest names are " + nearest_names(name, names, 3));
    }
    if (!(source->shape == target.shape)) {
      throw Error("'" + target.name + "' is " + shape_of(target.shape) + ", and '" + name +
                      "', which was to be copied to it, " + shape_of(source->shape),
                  "leave it out by a prefix of the others: {.from = \"blocks.\", .to = \"blocks.\"}");
    }
    copied.push_back({source->offset, target.offset, target.size()});
  }
  return copied;
}

}  // namespace detail

/// Copies to the parameters of `to`, and to its constants that were drawn, those of `from` that have their names:
///
///     copy_parameters(learner, classify);                                        // all that classify has
///     copy_parameters(online, target, {.from = "encoder.", .to = "momentum."});  // of momentum.w that of encoder.w
///     copy_parameters(pretrained, tuned, {.from = "blocks.", .to = "blocks."});  // neither embedding nor head
///
/// from, to  whatever has tensors(), parameters() and constants(): a Trainer, Learner, Function, Inference or
///           Evaluation, on the CPU or a GPU, in any precision. Moments of an optimiser stay what they are
/// Errors    throws Error if nothing of `to` has a name that begins with renaming.to, or if `from` lacks one of those
///           that do, or has it in another shape; nothing is copied then
/// Cost      a search by name for each tensor, and the copy
template <class From, class To>
void copy_parameters(From& from, To& to, const Renaming& renaming = {}) {
  using S = typename decltype(to.parameters())::value_type;
  const auto &sources = from.tensors(), &targets = to.tensors();
  const auto learnt = detail::copied_tensors(sources.parameters, targets.parameters, renaming, true);
  const auto drawn = detail::copied_tensors(sources.constants, targets.constants, renaming, false);
  if (learnt.empty() && drawn.empty()) {
    throw Error("no parameter begins with '" + std::string(renaming.to) + "'", "tensors() lists their names");
  }
  const auto copy = [](const auto& values, const auto& place, const auto& tensors) {
    for (const auto& [begin, target, size] : tensors) {
      std::transform(values.data() + begin, values.data() + begin + size, place.data() + target,
                     [](auto x) { return static_cast<S>(x); });
    }
  };
  copy(from.parameters(), to.parameters(), learnt);
  copy(from.constants(), to.constants(), drawn);
}

}  // namespace simplx
