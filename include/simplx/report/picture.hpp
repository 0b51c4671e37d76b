// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/picture.hpp
/// The picture of a block or of any function, drawn from its expression in the manner of Figures 1, 10 and 11 of
/// "Simplifying Transformer Blocks" (He & Hofmann 2024), as an SVG.
///
///     write_file("block.svg", picture_of_layer(decoder, 1));      one layer of a model's stack
///     write_file("loss.svg", picture(loss));                      all of a function
///
/// X_in is at the bottom and X_out at the top, sums are circles, gains stand on their lines with the value they
/// start at, and what a module made by `named` contains is drawn inside a frame. Nothing is known of tokens or
/// configurations: whatever graph the model gives is drawn.
///
/// Cost  a model is evaluated when the program runs; no plan and no kernel is instantiated
/// Source  colours and widths are CSS properties of .simplx-picture, for light and for dark pages

#include <simplx/report/picture_svg.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// The picture of ops that were listed before, so that what lists them need not draw.
inline std::string picture_of_ops(const OpTable& ops, const std::string& title) {
  return drawing::svg(drawing::sketch_of(drawing::diagram_of(ops)), title);
}

/// The picture of a model: a function of no arguments that returns an Expr, or an aggregate of them.
///
/// Errors  throws Error if the model breaks a rule, or has a name that is too long
template <class Model>
std::string picture(const Model& model, const std::string& title = "A function") {
  return picture_of_ops(ops_of(model), title);
}

/// The picture of one layer of a model's first stack; -1 is the last layer.
///
/// Errors  throws Error if the model has no stack or no such layer, breaks a rule, or has a name that is too long
template <class Model>
std::string picture_of_layer(const Model& model, int layer = -1, const std::string& title = "A block") {
  return picture_of_ops(ops_of_layer(model, layer), title);
}

}  // namespace simplx
