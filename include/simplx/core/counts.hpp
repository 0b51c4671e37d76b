// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/core/counts.hpp
/// What a model costs, before it exists: parameters, FLOPs, bytes; all are constants or functions of row counts.
///
///     static_assert(parameters<tiny> == 1'033'174);
///     static_assert(arena_bytes<tiny>(tokens{128}) < 6'000'000);

#include <simplx/core/execute.hpp>

namespace simplx::inline SIMPLX_TARGET {

template <class S, Path path>
struct Cpu;

namespace detail {

template <class G>
constexpr double graph_flops(const Rows& rows, bool causal) {
  double total = 0;
  unroll<0, G::count>([&]<int i>(std::integral_constant<int, i>) {
    constexpr Kind kind = G::table.info[i].kind;
    if constexpr (kind == Kind::product || kind == Kind::kernel) {
      total += op_of<G, i>::template flops<Frame<G, i, float>>(rows, causal);
    }
  });
  return total;
}

template <class G, class Backend>
constexpr Index graph_scratch(const Rows& rows) {
  Index most = 0;
  unroll<0, G::has_kernels() ? G::count : 0>([&]<int i>(std::integral_constant<int, i>) {
    constexpr Kind kind = G::table.info[i].kind;
    if constexpr (kind == Kind::product || kind == Kind::kernel) {
      using Scalar = typename Backend::Scalar;
      most = std::max(most, kernels_of<Backend, G, i>::template scratch<Backend, Frame<G, i, Scalar>>(rows));
    }
  });
  if constexpr (requires { Backend::template map_scratch<G>(rows); }) {
    most = std::max(most, Backend::template map_scratch<G>(rows));
  }
  return round_up(most, alignment);
}

}  // namespace detail

/// The number of trained parameters.
template <auto const& model>
inline constexpr Index parameters = GraphOf<model>::layout.trained;

/// FLOPs of the matrix products of one forward pass over these rows; a multiply-add counts 2, scores are dense.
/// Backward takes twice as many, but of attention, whose scores it computes again, 2.5 times, and of losses in tiles,
/// whose logits it computes again, three times.
template <auto const& model>
constexpr double flops(const Rows& rows) {
  return detail::graph_flops<GraphOf<model>>(rows, false);
}

/// The same without the products that the causal mask leaves out.
template <auto const& model>
constexpr double causal_flops(const Rows& rows) {
  return detail::graph_flops<GraphOf<model>>(rows, true);
}

/// Bytes that forward keeps for backward of these rows, at `bytes_per_number` each: of `arena_bytes` the part that
/// grows with depth.
template <auto const& model>
constexpr Index kept_bytes(const Rows& rows, Index bytes_per_number = 4) {
  return elements(GraphOf<model>::layout.kept, rows) * bytes_per_number;
}

/// Bytes that one evaluation (forward and backward) of these rows takes beside parameters, their packed copies
/// and their gradients.
template <auto const& model, class Backend>
constexpr Index arena_bytes_on(const Rows& rows) {
  using G = GraphOf<model>;
  return (elements(G::layout.kept, rows) + elements(G::layout.temporary, rows) +
          detail::graph_scratch<G, Backend>(rows)) *
         static_cast<Index>(sizeof(typename Backend::Scalar));
}
/// In float, by vectors, whether or not there is a matrix unit, whose operands in pieces take 1.2 MB more at the most
/// (arena_bytes_on<model, Cpu<float>>). Scratch of kernels differs a little with the width of vectors.
template <auto const& model>
constexpr Index arena_bytes(const Rows& rows) {
  return arena_bytes_on<model, Cpu<float, Path::vectors>>(rows);
}

/// Whether two models are the same graph but for initial values and source lines.
template <auto const& a, auto const& b>
constexpr bool same_graph() {
  static_assert(detail::Gate<Root<a>>::sound && detail::Gate<Root<b>>::sound);
  const detail::Evaluated x = detail::evaluate(a), y = detail::evaluate(b);
  return detail::same_graph(x.root, y.root);
}

}  // namespace simplx
