// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/frame.hpp
/// Frame: what an op's author sees of the node whose kernel it is. Shapes and numbers are constants.

#include <simplx/core/context.hpp>
#include <simplx/core/graph.hpp>
#include <simplx/core/stores.hpp>
#include <simplx/core/turn.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// A literal of the model's code, where a kernel can read it.
template <class G, int i, class S>
inline constexpr S literal_in_memory = static_cast<S>(G::flat.label[i].attributes.reals[0]);

/// Addresses of values and gradients; every offset is a constant of the graph.
template <class G>
struct Address {
  template <int i, class S>
  static const S* value(const Context<S>& context) {
    constexpr Info info = G::table.info[i];
    constexpr int axis = static_cast<int>(info.shape.axis);
    if constexpr (info.kind == Kind::number) {
      return &literal_in_memory<G, i, S>;
    } else if constexpr (info.kind == Kind::parameter) {
      return context.parameters + G::layout.parameter[i];
    } else if constexpr (info.kind == Kind::constant) {
      return context.constants + G::layout.constant[i];
    } else if constexpr (info.kind == Kind::input) {
      return static_cast<const S*>(context.inputs[G::layout.input[i]]);
    } else if constexpr (info.result) {
      return context.outputs[G::layout.output[i]];
    } else if constexpr (G::plan.kept[i]) {
      return context.kept[axis] + G::layout.value[i] * context.stride[axis];
    } else {
      return context.temporary[axis] + G::layout.value[i] * context.stride[axis];
    }
  }

  /// Of a parameter, the sum of its use number `use`: each step that adds to a parameter has a sum of its own
  /// (core/plan.hpp).
  template <int i, int use = 0, class S>
  static S* gradient(const Context<S>& context) {
    constexpr int home = G::plan.shares[i];
    constexpr Info info = G::table.info[home];
    constexpr int axis = static_cast<int>(info.shape.axis);
    if constexpr (info.kind == Kind::parameter) {
      if constexpr (use > 0) {
        S* const further = context.further_gradients;
        if (further) return further + G::layout.further[home] + (use - 1) * info.parameters;
      }
      return context.gradients + G::layout.parameter[home];
    } else if constexpr (info.kind == Kind::input) {
      return context.input_gradients[G::layout.input[home]];
    } else if constexpr (info.result) {
      return context.output_gradients[G::layout.output[home]];
    } else if constexpr (keeps_gradient(G::table.info, G::plan, home)) {
      return context.kept[axis] + G::layout.gradient[home] * context.stride[axis];
    } else {
      return context.temporary[axis] + G::layout.gradient[home] * context.stride[axis];
    }
  }
};

/// The view of one node.
template <class G, int node, class S>
struct Frame {
  using Graph = G;
  using Scalar = S;
  static constexpr int index = node;
  static constexpr Info info = G::table.info[node];
  static constexpr Attributes attributes = G::flat.label[node].attributes;
  static constexpr Name name = G::flat.label[node].name;
  static constexpr Shape out_shape = info.shape;
  template <int k>
  static constexpr int argument = info.arguments[k];
  template <int k>
  static constexpr Shape shape = G::table.info[argument<k>].shape;
  /// What backward does with the gradient of argument k.
  template <int k>
  static constexpr Write write = G::fusion.wanted[argument<k>] ? G::plan.argument_write[node][k] : Write::skip;

  const Context<S>& context;

  /// Rows of the result, and of argument k.
  Index rows() const { return context.rows_of(out_shape); }
  template <int k>
  Index rows_in() const {
    return context.rows_of(shape<k>);
  }
  template <int k>
  const S* in() const {
    return Address<G>::template value<argument<k>>(context);
  }
  /// Argument k as whole numbers: tokens, labels.
  template <int k>
  const std::int32_t* indices() const {
    return static_cast<const std::int32_t*>(context.inputs[G::layout.input[argument<k>]]);
  }
  S* out() const {
    detail::stores();
    return const_cast<S*>(Address<G>::template value<node>(context));
  }
  const S* out_grad() const { return Address<G>::template gradient<node>(context); }
  template <int k>
  S* grad() const {
    if constexpr (write<k> == Write::skip) {
      return nullptr;
    } else {
      detail::stores();
      return Address<G>::template gradient<argument<k>, G::plan.argument_use[node][k]>(context);
    }
  }
  /// The turn in which backward adds to the gradient of argument k; none unless that is a parameter (core/turn.hpp).
  template <int k>
  detail::Turn* turn() const {
    return G::table.info[argument<k>].kind == Kind::parameter ? context.turn : nullptr;
  }
  /// The threads that may share this step; nullptr_t in a graph with a backward, whose sequences threads share instead.
  auto team() const {
    if constexpr (G::fusion.has_backward) {
      return nullptr;
    } else {
      return context.team;
    }
  }
  /// The columns that forward saved for backward.
  S* saved() const {
    constexpr int axis = static_cast<int>(out_shape.axis);
    return context.kept[axis] + G::layout.saved[node].on[axis] * context.stride[axis];
  }
  const S* packed() const { return context.packed + G::layout.packed[node]; }
  const S* turned() const { return context.turned + G::layout.packed[node]; }
  S* scratch() const { return context.scratch; }
};

}  // namespace simplx
