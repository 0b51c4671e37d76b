// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/bfloat16_values.cuh
/// Which values and gradients Cuda<Precision::bfloat16> stores as bfloat16. It is known at compile time, and halves
/// their traffic and their room (graph_on.cuh).
///
/// Values that nobody reads but products with weights, a tiled loss among them, and attention, most of which would
/// round them anyway. Products and attention without gains also where elementwise ops read them, and the logits of a
/// cross-entropy, of which a step of GPT-2 moves most: as floats they would be 101 KB more a token, each time they are
/// read or written. What else elementwise ops and their pull-backs read, and a residual stream, are float. Blocks
/// without one (SAS-P) pass the signal itself through these values.
///
/// Gradients that go from one product, attention or loss to another product, through elementwise ops or not, such as
/// those of the hidden units of an MLP, of queries and keys, of logits: the product would round them anyway. Sums of
/// gradients are float.

#include <simplx/core/graph.hpp>
#include <simplx/cuda/port.cuh>

#include <array>
#include <type_traits>

namespace simplx::inline SIMPLX_TARGET::gpu {

constexpr bool is_attention(Tag op) {
  return op == Tag("softmax_attention") || op == Tag("skip_init_attention") || op == Tag("shaped_attention");
}

/// Whether the kernels of a node can store its value so. Of its own value a pull-back may compute a small difference,
/// as 1 - y^2, or O - alpha V of attention with gains; that of ReLU asks for the sign alone.
template <class G>
constexpr bool can_store_bfloat16(int node) {
  const Info& info = G::table.info[node];
  const Tag op = G::flat.label[node].op;
  if (info.shape.is_fixed() || info.shape.cols % 8 != 0) return false;  // rows on 16 bytes
  if (info.observed || !stores_value(G::table.info, G::fusion, G::plan, node)) return false;
  if (info.kind == Kind::map) return G::fusion.group[node] == node && (!info.reads_output || op == Tag("relu"));
  return op == Tag("matmul") || op == Tag("rms_norm") || op == Tag("layer_norm") || op == Tag("softmax_attention");
}

/// For each node of a plan whether its gradient can be stored as bfloat16: it is stored once, by a product, attention,
/// a group or a cross-entropy, and read by a product, attention or a group.
template <class G>
constexpr auto can_store_bfloat16_gradients() {
  std::array<bool, G::count> stored{};
  const auto number = [](int node) { return static_cast<std::size_t>(node); };
  const auto is_product = [](int node) { return G::flat.label[node].op == Tag("matmul"); };
  for (int i = 0; i < G::count; ++i) {
    const Info& info = G::table.info[i];
    const bool passes_on = is_product(i) || is_attention(G::flat.label[i].op) ||
                           (info.kind == Kind::map && G::fusion.group[i] == i);
    stored[number(i)] = passes_on && G::fusion.wanted[i] && !info.shape.is_fixed() && info.shape.cols % 8 == 0 &&
                        !info.result && !info.observed;
  }
  for (int reader = 0; reader < G::count; ++reader) {
    const Info& info = G::table.info[reader];
    if (info.looped() && G::fusion.group[reader] == reader) {
      const Shape shape = loop_shape(G::table.info, reader);
      for (int l = G::fusion.leaf_begin[reader]; l < G::fusion.leaf_end[reader]; ++l) {
        const int node = G::fusion.leaves[l];
        const bool once = G::plan.leaf_write[l] != Write::accumulate && G::table.info[node].shape == shape;
        stored[number(node)] = stored[number(node)] && once;
      }
    }
    for (int a = 0; a < info.argument_count && !info.looped(); ++a) {
      const Tag op = G::flat.label[reader].op;
      const bool writes_it = is_product(reader) || op == Tag("cross_entropy") ? a == 0 : is_attention(op) && a < 3;
      const bool once = writes_it && G::plan.argument_write[reader][a] == Write::store;
      stored[number(info.arguments[a])] = stored[number(info.arguments[a])] && once;
    }
  }
  for (int i = 0; i < G::count; ++i) {  // what shares a buffer shares its type
    if (stored[number(i)] || !G::fusion.wanted[i]) continue;
    for (int other = 0; other < G::count; ++other) {
      if (G::plan.shares[other] == G::plan.shares[i]) stored[number(other)] = false;
    }
  }
  return stored;
}

/// For each node of a plan whether its value is stored as bfloat16. Where a gradient takes its place, that is no wider.
template <class G>
constexpr auto bfloat16_values_of() {
  const std::array<bool, G::count> narrow_gradient = can_store_bfloat16_gradients<G>();
  std::array<bool, G::count> stored{}, read{};
  for (int i = 0; i < G::count; ++i) {
    const auto node = static_cast<std::size_t>(i);
    stored[node] = can_store_bfloat16<G>(i) && (!G::plan.over_value[i] || narrow_gradient[node]);
  }
  for (int reader = 0; reader < G::count; ++reader) {
    const Info& info = G::table.info[reader];
    const Tag op = G::flat.label[reader].op;
    for (int a = 0; a < info.argument_count; ++a) {
      const auto node = static_cast<std::size_t>(info.arguments[a]);
      const bool is_sum = G::flat.label[info.arguments[a]].op == Tag("matmul") ||
                          is_attention(G::flat.label[info.arguments[a]].op);
      const bool takes_it = info.looped()                                       ? is_sum
                            : op == Tag("matmul") || op == Tag("cross_entropy") ? a == 0
                            : op == Tag("linear_cross_entropy")                 ? a == 2
                                                                                : is_attention(op) && a < 3;
      stored[node] = stored[node] && takes_it;
      read[node] = true;
    }
  }
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = stored[i] && read[i];
  return stored;
}
template <class Planned>
inline constexpr auto planned_bfloat16_values = bfloat16_values_of<Planned>();
template <class G>
inline constexpr auto bfloat16_values = planned_bfloat16_values<typename G::Planned>;

/// For each node of a plan whether its gradient is stored as bfloat16: not over floats, whose rows are longer.
template <class G>
constexpr auto bfloat16_gradients_of() {
  std::array<bool, G::count> stored = can_store_bfloat16_gradients<G>();
  for (int i = 0; i < G::count; ++i) {
    const int home = G::plan.shares[i];
    if (G::plan.over_value[home] && !bfloat16_values<G>[static_cast<std::size_t>(home)]) {
      stored[static_cast<std::size_t>(i)] = false;
    }
  }
  return stored;
}
template <class Planned>
inline constexpr auto planned_bfloat16_gradients = bfloat16_gradients_of<Planned>();
template <class G>
inline constexpr auto bfloat16_gradients = planned_bfloat16_gradients<typename G::Planned>;

/// Whether a backend stores the value of a node as bfloat16.
template <class Backend, class G, int node>
inline constexpr bool stores_bfloat16 =
    Backend::rounds_values && bfloat16_values<G>[static_cast<std::size_t>(node)];
/// And its gradient.
template <class Backend, class G, int node>
inline constexpr bool stores_bfloat16_gradient =
    Backend::rounds_values && bfloat16_gradients<G>[static_cast<std::size_t>(node)];

/// What a value of S lies in memory as.
template <bool rounded, class S>
using Stored = std::conditional_t<rounded, __nv_bfloat16, S>;

/// A place whose numbers are stored so.
template <bool rounded, class S>
SIMPLX_HD auto* stored(S* place) {
  using To = std::conditional_t<std::is_const_v<S>, const Stored<rounded, std::remove_const_t<S>>, Stored<rounded, S>>;
  return reinterpret_cast<To*>(place);
}

}  // namespace simplx::gpu
