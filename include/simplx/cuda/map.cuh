// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/cuda/map.cuh
/// A fused group of elementwise ops as one kernel forward and one backward, made from the expression itself.
///
/// What is evaluated at an element says MapPlaces; here is who evaluates which. Sums over rows, columns or all elements
/// (a reduction forward, the gradient of a gain or a bias backward) are taken by each block for its rows, and the
/// blocks' parts are added up by a second kernel, in one order.

#include <simplx/cuda/map_places.cuh>
#include <simplx/cuda/reduce.cuh>

namespace simplx::inline SIMPLX_TARGET::gpu {
SIMPLX_HD_BEGIN

/// The threads of a block stand along such parts of a row, and a thread has every so many parts of it.
template <Index cols>
struct RowBlock {
  static constexpr int parts = static_cast<int>(cols) / map_together<cols>;
  static constexpr int threads = parts > 256 ? 256 : 32 * ((parts + 31) / 32);
  static constexpr int each = (parts + threads - 1) / threads;
  /// Enough blocks to fill a GPU, few enough to add up their sums.
  static constexpr unsigned blocks(Index rows) { return static_cast<unsigned>(rows < 1024 ? rows : 1024); }
  /// One at least, which scales the sum of no rows: the mean of no elements is no number.
  static constexpr unsigned blocks_of_sum(Index rows) { return rows > 0 ? blocks(rows) : 1; }
};

inline constexpr int map_threads = 256;
/// Parts of a row that a thread has one after the other, so that four numbers at least are under way.
template <Index cols>
inline constexpr int map_each = 4 / map_together<cols>;
template <Index cols>
unsigned map_blocks(Index rows) {
  return blocks_for(rows * cols, map_threads * map_each<cols> * map_together<cols>);
}

/// Which leaves of a group have gradients that are sums, and where their parts lie.
template <class G, int root>
struct MapSums {
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  static constexpr Index cols = Grp::shape.cols;
  SIMPLX_HD static constexpr bool sums(int l, Spread spread) { return Grp::writes(l) && Grp::spread(l) == spread; }
  SIMPLX_HD static constexpr int count(Spread spread, int leaves = Grp::leaves) {
    int total = 0;
    for (int l = 0; l < leaves; ++l) total += sums(l, spread);
    return total;
  }
  static constexpr int rows = count(Spread::row), columns = count(Spread::column), ones = count(Spread::one);
  static constexpr bool any = rows + columns + ones > 0;
  /// Elements of a block's sums: those of rows first, then single numbers.
  static constexpr Index width = rows * cols + ones;
  /// Where the sum of a leaf begins.
  SIMPLX_HD static constexpr Index place(int l) {
    if (Grp::spread(l) == Spread::row) return count(Spread::row, l) * cols;
    return rows * cols + count(Spread::one, l);
  }
};

/// Calls f(row, col) where the parts of a thread begin.
template <Index cols, class F>
__device__ __forceinline__ void each_part(Index rows, const F& f) {
  constexpr int each = map_each<cols>, together = map_together<cols>;
  constexpr Index parts = cols / together;
  const Index first = static_cast<Index>(blockIdx.x) * (map_threads * each) + threadIdx.x;
  for (int k = 0; k < each; ++k) {
    const Index i = first + k * map_threads;
    if (i < rows * parts) f(i / parts, i % parts * together);
  }
}

template <class G, int root, class S, bool rounds>
__global__ void __launch_bounds__(map_threads) map_kernel(MapPlaces<G, root, S, rounds> at) {
  constexpr Index cols = detail::Group<G, root>::shape.cols;
  each_part<cols>(at.rows, [&](Index row, Index col) {
    at.template store<at.rounds_value(root)>(at.value, row * cols + col, at.evaluate(row, col));
  });
}

/// Backward where every gradient is as large as the group.
template <class G, int root, class S, bool rounds>
__global__ void __launch_bounds__(map_threads) map_backward_kernel(MapPlaces<G, root, S, rounds> at) {
  each_part<detail::Group<G, root>::shape.cols>(at.rows, [&](Index row, Index col) {
    at.sweep(row, col, [&]<int l>(std::integral_constant<int, l>, const auto& adjoints) {
      at.template write_full<l>(row, col, adjoints);
    });
  });
}

/// The same with sums: a block has every so many rows. Sums along a row are complete after it; of the others each
/// block leaves its part.
template <class G, int root, class S, bool rounds>
__global__ void __launch_bounds__(RowBlock<detail::Group<G, root>::shape.cols>::threads)
    map_backward_sums_kernel(MapPlaces<G, root, S, rounds> at) {
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  using Sums = MapSums<G, root>;
  constexpr Index cols = Grp::shape.cols;
  constexpr int together = map_together<cols>;
  using Block = RowBlock<cols>;
  Numbers<S, together> down[Sums::rows + 1][Block::each];
  S along[Sums::columns + 1] = {}, all[Sums::ones + 1] = {};
  for (Index row = blockIdx.x; row < at.rows; row += gridDim.x) {
    SIMPLX_UNROLL
    for (int k = 0; k < Block::each; ++k) {
      const Index col = (static_cast<Index>(threadIdx.x) + k * Block::threads) * together;
      if (col >= cols) break;
      at.sweep(row, col, [&]<int l>(std::integral_constant<int, l>, const auto& adjoints) {
        constexpr Spread spread = Grp::spread(l);
        constexpr int number = Sums::count(spread, l);
        if constexpr (spread == Spread::row) {
          down[number][k] += adjoints;
        } else if constexpr (spread == Spread::column) {
          along[number] += adjoints.sum();
        } else if constexpr (spread == Spread::one) {
          all[number] += adjoints.sum();
        } else {
          at.template write_full<l>(row, col, adjoints);
        }
      });
    }
    if constexpr (Sums::columns > 0) {
      block_sum<Block::threads>(along);
      detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
        constexpr bool mine = Sums::sums(l, Spread::column);
        if constexpr (mine) {
          constexpr int number = Sums::count(Spread::column, l);
          constexpr Write mode = G::plan.leaf_write[Grp::slot(l)];
          if (threadIdx.x == 0) {
            S& place = at.gradient[l][row];
            place = mode == Write::accumulate ? place + along[number] : along[number];
          }
        }
      });
      for (S& sum : along) sum = 0;
    }
  }
  S* mine = at.parts + static_cast<Index>(blockIdx.x) * Sums::width;
  if constexpr (Sums::rows > 0) {
    for (int number = 0; number < Sums::rows; ++number) {
      SIMPLX_UNROLL
      for (int k = 0; k < Block::each; ++k) {
        const Index col = (static_cast<Index>(threadIdx.x) + k * Block::threads) * together;
        if (col >= cols) break;
        SIMPLX_UNROLL
        for (int i = 0; i < together; ++i) mine[number * cols + col + i] = down[number][k].of[i].value;
      }
    }
  }
  if constexpr (Sums::ones > 0) {
    block_sum<Block::threads>(all);
    if (threadIdx.x == 0) {
      for (int number = 0; number < Sums::ones; ++number) mine[Sums::rows * cols + number] = all[number];
    }
  }
}

/// Forward of a reduction: a block has every so many rows; sums along a row are complete, of the others it leaves its
/// part.
template <class G, int root, class S, bool rounds>
__global__ void __launch_bounds__(RowBlock<detail::Group<G, root>::shape.cols>::threads)
    map_reduce_kernel(MapPlaces<G, root, S, rounds> at) {
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  constexpr Index cols = Grp::shape.cols;
  constexpr Spread target = Grp::target();
  constexpr int together = map_together<cols>;
  using Block = RowBlock<cols>;
  Numbers<S, together> down[Block::each];
  S sum = 0;
  for (Index row = blockIdx.x; row < at.rows; row += gridDim.x) {
    SIMPLX_UNROLL
    for (int k = 0; k < Block::each; ++k) {
      const Index col = (static_cast<Index>(threadIdx.x) + k * Block::threads) * together;
      if (col >= cols) break;
      if constexpr (target == Spread::row) {
        down[k] += at.evaluate(row, col);
      } else {
        sum += at.evaluate(row, col).sum();
      }
    }
    if constexpr (target == Spread::column) {
      sum = block_sum<Block::threads>(sum);
      if (threadIdx.x == 0) at.value[row] = at.scale * sum;
      sum = 0;
    }
  }
  if constexpr (target == Spread::row) {
    const S scale = at.rows > 0 ? at.scale : S(0);  // the mean over no rows is 0
    SIMPLX_UNROLL
    for (int k = 0; k < Block::each; ++k) {
      const Index col = (static_cast<Index>(threadIdx.x) + k * Block::threads) * together;
      if (col < cols) at.template store<false>(at.parts, blockIdx.x * cols + col, down[k] * scale);
    }
  } else if constexpr (target == Spread::one) {
    sum = block_sum<Block::threads>(sum);
    if (threadIdx.x == 0) at.parts[blockIdx.x] = at.scale * sum;
  }
}

/// Elements of scratch for the sums of a group's blocks, forward and backward.
template <class G, int root>
constexpr Index map_scratch(const Rows& rows) {
  using Grp = detail::Group<G, root>;
  const Index count = Grp::shape.is_fixed() ? Grp::shape.rows : rows.count(Grp::shape.axis);
  const Index blocks = RowBlock<Grp::shape.cols>::blocks_of_sum(count);
  return blocks * std::max(MapSums<G, root>::width, Grp::reduces ? Grp::shape.cols : 0);
}

/// Evaluates a group; a product that it finishes lies in `product`.
template <class G, int root, bool rounds, class S>
void map_forward(cudaStream_t stream, const Context<S>& context, const S* product) {
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  constexpr Index cols = Grp::shape.cols;
  const MapPlaces<G, root, S, rounds> at(context, product);
  if constexpr (!Grp::reduces) {
    launch(stream, map_kernel<G, root, S, rounds>, map_blocks<cols>(at.rows), map_threads, at);
  } else {
    using Block = RowBlock<cols>;
    constexpr Spread target = Grp::target();
    const unsigned blocks = Block::blocks_of_sum(at.rows);
    launch(stream, map_reduce_kernel<G, root, S, rounds>, blocks, Block::threads, at);
    if constexpr (target != Spread::column) {
      constexpr Index sums = target == Spread::row ? cols : 1;
      column_sums<Write::store>(stream, at.parts, {.row = sums}, static_cast<int>(blocks), static_cast<int>(sums),
                                at.value);
    }
  }
}

/// The reverse sweep of a group; the gradient of a product that it finishes is one of its leaves'.
template <class G, int root, bool rounds, class S>
void map_backward(cudaStream_t stream, const Context<S>& context) {
  using Grp = detail::Group<G, root>;
  using Spread = typename Grp::Spread;
  using Sums = MapSums<G, root>;
  constexpr Index cols = Grp::shape.cols;
  const S* product = nullptr;
  if constexpr (Grp::product >= 0) {
    if constexpr (G::plan.kept[Grp::product]) product = Address<G>::template value<Grp::product>(context);
  }
  const MapPlaces<G, root, S, rounds> at(context, product);
  if constexpr (!Sums::any) {
    launch(stream, map_backward_kernel<G, root, S, rounds>, map_blocks<cols>(at.rows), map_threads, at);
  } else {
    using Block = RowBlock<cols>;
    const unsigned blocks = Block::blocks(at.rows);
    launch(stream, map_backward_sums_kernel<G, root, S, rounds>, blocks, Block::threads, at);
    detail::unroll<0, Grp::leaves>([&]<int l>(std::integral_constant<int, l>) {
      constexpr bool parts = Grp::writes(l) && (Grp::spread(l) == Spread::row || Grp::spread(l) == Spread::one);
      if constexpr (parts) {
        constexpr int width = Grp::spread(l) == Spread::row ? static_cast<int>(cols) : 1;
        add_column_sums(stream, at.parts + Sums::place(l), static_cast<int>(blocks), width, at.gradient[l],
                        static_cast<int>(Sums::width));
      }
    });
  }
}

SIMPLX_HD_END
}  // namespace simplx::gpu
