// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/ties.hpp
/// Ties of the first matrices W0^V, W0^P of Eq. (6): initial values that depend on those of other tensors.
///
///     last layer   W0^P_L = ((prod_{l<L} W0^V_l W0^P_l) W0^V_L)^T     the product over all layers is the identity
///     all layers   W0^P_l = (W0^V_l)^T for every l                    the product in each layer is the identity
///
/// They start a model like one with the identity as W0, although each matrix is orthogonal. It is a procedure over
/// the model's tensors, applied once after `initialise`; what is trained afterwards is D, and nothing stays tied.
///
/// Source  He & Hofmann 2024, App. C, "Figure 3 with tied orthogonals" (Fig. 15)

#include <simplx/core/error.hpp>
#include <simplx/core/parameters.hpp>

#include <Eigen/Core>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET {

/// Which bases W0 depend on others at first: none, W0^P of the last layer, or W0^P of every layer.
enum class Ties : signed char { none, last_layer, all_layers };

/// Ties the bases "<stack>.<layer>.attention.value.base" and "...projection.base" of a buffer of constants.
///
/// Errors  throws Error if a layer lacks one of the two
/// Cost    last_layer: two products of d x d matrices for each layer
template <class S>
void tie_projections(const std::vector<TensorInfo>& constants, Ties ties, S* buffer,
                     const std::string& stack = "blocks") {
  if (ties == Ties::none) return;
  using Square = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto name_of = [&](int layer, const char* which) {
    return stack + "." + std::to_string(layer) + ".attention." + which + ".base";
  };
  const auto find = [&](int layer, const char* which) {
    return std::ranges::find(constants, name_of(layer, which), &TensorInfo::name);
  };
  const auto matrix = [&](int layer, const char* which) {
    const auto found = find(layer, which);
    if (found == constants.end()) {
      throw Error("the model has no " + name_of(layer, which) + " to tie",
                  "ties need V and P reparameterised with a base that is not the identity, as in shaped_reparam");
    }
    return Eigen::Map<Square>(buffer + found->offset, found->shape.rows, found->shape.cols);
  };
  int last = 0;  // a layer that has only one of the two is found and refused
  while (find(last + 1, "value") != constants.end() || find(last + 1, "projection") != constants.end()) ++last;
  if (ties == Ties::all_layers) {
    for (int layer = 0; layer <= last; ++layer) matrix(layer, "projection") = matrix(layer, "value").transpose();
    return;
  }
  Square product = Square::Identity(matrix(0, "value").rows(), matrix(0, "value").cols());
  for (int layer = 0; layer < last; ++layer) product *= matrix(layer, "value") * matrix(layer, "projection");
  matrix(last, "projection") = (product * matrix(last, "value")).transpose();
}

}  // namespace simplx
