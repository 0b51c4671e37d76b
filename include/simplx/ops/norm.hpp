// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/ops/norm.hpp
/// RMSNorm and LayerNorm over the columns of each row.
///
///     RMSNorm    y = gain * x / (r + epsilon),            r = sqrt(mean x^2)     [He & Hofmann's code]
///                y = gain * x / r,                        r = sqrt(mean x^2 + epsilon)         [LLaMA]
///     LayerNorm  y = gain * (x - mean) * s + bias,        s = 1 / sqrt(variance + epsilon), biased variance
///
/// Pull-backs; with epsilon inside the root q = 1 / r, and for a row of zeros RMSNorm's has no second term:
///
///     RMSNorm    dx = q u - x q^2 (sum u x) / (d r),      u = gain * dy, q = 1 / (r + epsilon)
///     LayerNorm  dx = s (u - mean u - xhat mean(u xhat)), u = gain * dy, xhat = (x - mean) s

#include <simplx/ops/reduce.hpp>

namespace simplx::inline SIMPLX_TARGET {

namespace detail {

constexpr Term term(const Node* node, int i) { return Term(Expr{node->arguments[i]}); }

constexpr Checked norm_shape(Shape x, Shape gain, Shape bias, Shape epsilon) {
  for (const Shape& row : {gain, bias}) {
    if (!(row == fixed_shape(1, x.cols))) return {"gain width", row.cols, x.cols};
  }
  if (!(epsilon == fixed_shape(1, 1))) return {"one number", epsilon.columns(), 1};
  return x;
}

}  // namespace detail

template <>
struct op<"rms_norm"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b100;
  static constexpr bool reads(int, int) { return true; }
  static constexpr Checked shape(const Attributes&, Shape x, Shape gain, Shape epsilon) {
    return detail::norm_shape(x, gain, gain, epsilon);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 1; }  // r
  static constexpr bool epsilon_inside(Attributes attributes) { return attributes.integers[0] != 0; }
  static std::string settings(const Attributes& attributes) {
    return epsilon_inside(attributes) ? "epsilon within the root" : "";
  }
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    const Term x = detail::term(node, 0), gain = detail::term(node, 1), epsilon = detail::term(node, 2);
    const bool inside = epsilon_inside(node->attributes);
    const Term mean_square(mean(At(square(detail::argument(node, 0))), Over::columns));
    const Term is_zero = select(mean_square > Term(0), Term(0), Term(1));  // a row whose root has no derivative
    const Term r = sqrt(mean_square + (inside ? epsilon : is_zero));
    const Term q = Term(1) / (inside ? r : r - is_zero + epsilon), u = gain * g;
    const Term slope = inside ? Term(0.5) * q : Term(1);
    if (argument == 2) return Term(sum(detail::whole(-(u * x * q * q) * slope, node)));
    if (argument == 1) return Term(sum(detail::whole(g * x * q, node), Over::rows));
    const Term along(mean(detail::whole(u * x, node), Over::columns));
    return q * u - x * q * q * along / r;  // of a row of zeros along is 0
  }
  /// With epsilon inside the root r stands for that root, and the pull-back is the one of epsilon = 0.
  template <class F>
  static constexpr bool inside = epsilon_inside(F::attributes);

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const S *x = frame.template in<0>(), *gain = frame.template in<1>();
    const S epsilon = *frame.template in<2>();
    S *y = frame.out(), *saved = frame.saved();
    const Index rows = frame.rows();
    if constexpr (path == Path::reference) {
      const cpu::ConstMatrixMap<S> xs(x, rows, d), g(gain, 1, d);
      cpu::MatrixMap<S> ys(y, rows, d), r(saved, rows, 1);
      r = (xs.rowwise().squaredNorm().array() / S(d) + (inside<F> ? epsilon : S(0))).sqrt().matrix();
      ys = ((r.array() + (inside<F> ? S(0) : epsilon)).inverse().matrix().asDiagonal() * xs).array().rowwise() *
           g.row(0).array();
    } else {
      for (Index row = 0; row < rows; ++row, x += d, y += d) {
        const S mean_square = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
          const cpu::Register<V> v = load<V>(x + c);
          return v * v;
        }) / S(d);
        const S r = inside<F> ? S(sqrt(S(mean_square + epsilon))) : S(sqrt(mean_square));
        const S q = S(1) / (inside<F> ? r : S(r + epsilon));
        saved[row] = r;
        cpu::each_column<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
          store<V>(y + c, load<V>(x + c) * splat<V>(q) * load<V>(gain + c));
        });
      }
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const S *x = frame.template in<0>(), *gain = frame.template in<1>(), *dy = frame.out_grad();
    const S* saved = frame.saved();
    const S epsilon = inside<F> ? S(0) : *frame.template in<2>();
    S *dx = frame.template grad<0>(), *dgain = frame.template grad<1>();
    const Index rows = frame.rows();
    for (Index row = 0; row < rows; ++row, x += d, dy += d) {
      const S r = saved[row], q = S(1) / (r + epsilon);
      const S ux = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        const cpu::Register<V> xg = load<V>(x + c) * load<V>(dy + c);
        if constexpr (F::template write<1> != Write::skip) {
          store<V>(dgain + c, load<V>(dgain + c) + xg * splat<V>(q));
        }
        return xg * load<V>(gain + c);
      });
      if constexpr (F::template write<0> != Write::skip) {
        const S along = r > 0 ? q * q * ux / (S(d) * r) : S(0);
        cpu::each_column<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
          const cpu::Register<V> u = load<V>(gain + c) * load<V>(dy + c);
          put<F::template write<0>, V>(dx + c, u * splat<V>(q) - load<V>(x + c) * splat<V>(along));
        });
        dx += d;
      }
    }
  }
};

template <>
struct op<"layer_norm"> : kernel_op {
  static constexpr bool rows_apart(Axis) { return true; }
  static constexpr unsigned char constant_operands = 0b1000;
  static constexpr bool reads(int, int operand) { return operand != 2; }
  static constexpr Checked shape(const Attributes&, Shape x, Shape gain, Shape bias, Shape epsilon) {
    return detail::norm_shape(x, gain, bias, epsilon);
  }
  static constexpr Index saved(const Attributes&, auto...) { return 2; }  // mean and s of each row
  static constexpr Term derive(const Node* node, int argument, const Term& g) {
    const Term x = detail::term(node, 0), gain = detail::term(node, 1), epsilon = detail::term(node, 3);
    const auto mean_of = [&](const Term& t) { return Term(mean(detail::whole(t, node), Over::columns)); };
    const Term centred = x - mean_of(x);
    const Term s = Term(1) / sqrt(mean_of(centred * centred) + epsilon), xhat = centred * s, u = gain * g;
    if (argument == 3) return Term(sum(detail::whole(Term(-0.5) * u * xhat * s * s, node)));
    if (argument == 2) return Term(sum(detail::whole(g, node), Over::rows));
    if (argument == 1) return Term(sum(detail::whole(g * xhat, node), Over::rows));
    return s * (u - mean_of(u) - xhat * mean_of(u * xhat));
  }

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const S *x = frame.template in<0>(), *gain = frame.template in<1>(), *bias = frame.template in<2>();
    const S epsilon = *frame.template in<3>();
    S *y = frame.out(), *saved = frame.saved();
    const Index rows = frame.rows();
    if constexpr (path == Path::reference) {
      const cpu::ConstMatrixMap<S> xs(x, rows, d), g(gain, 1, d), b(bias, 1, d);
      cpu::MatrixMap<S> ys(y, rows, d), kept(saved, rows, 2);
      kept.col(0) = xs.rowwise().mean();
      ys = xs.colwise() - kept.col(0);
      kept.col(1) = (ys.rowwise().squaredNorm().array() / S(d) + epsilon).sqrt().inverse().matrix();
      ys = ((kept.col(1).asDiagonal() * ys).array().rowwise() * g.row(0).array()).rowwise() + b.row(0).array();
      return;
    }
    for (Index row = 0; row < rows; ++row, x += d, y += d) {
      const S mean = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(x + c);
      }) / S(d);
      const S variance = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        const cpu::Register<V> v = load<V>(x + c) - splat<V>(mean);
        return v * v;
      }) / S(d);
      const S s = S(1) / sqrt(S(variance + epsilon));
      saved[2 * row] = mean;
      saved[2 * row + 1] = s;
      cpu::each_column<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        store<V>(y + c, (load<V>(x + c) - splat<V>(mean)) * splat<V>(s) * load<V>(gain + c) + load<V>(bias + c));
      });
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index d = F::out_shape.cols;
    const S *x = frame.template in<0>(), *gain = frame.template in<1>(), *dy = frame.out_grad();
    const S* saved = frame.saved();
    S *dx = frame.template grad<0>(), *dgain = frame.template grad<1>(), *dbias = frame.template grad<2>();
    const Index rows = frame.rows();
    for (Index row = 0; row < rows; ++row, x += d, dy += d) {
      const S mean = saved[2 * row], s = saved[2 * row + 1];
      const auto normalised = [&]<class V>(Index c) __attribute__((always_inline)) {
        return (load<V>(x + c) - splat<V>(mean)) * splat<V>(s);
      };
      const S u_along = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        const cpu::Register<V> g = load<V>(dy + c), xhat = normalised.template operator()<V>(c);
        if constexpr (F::template write<1> != Write::skip) store<V>(dgain + c, load<V>(dgain + c) + g * xhat);
        if constexpr (F::template write<2> != Write::skip) store<V>(dbias + c, load<V>(dbias + c) + g);
        return g * load<V>(gain + c) * xhat;
      }) / S(d);
      const S u_mean = cpu::sum_columns<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
        return load<V>(dy + c) * load<V>(gain + c);
      }) / S(d);
      if constexpr (F::template write<0> != Write::skip) {
        cpu::each_column<S, d>([&]<class V>(Index c) __attribute__((always_inline)) {
          const cpu::Register<V> u = load<V>(dy + c) * load<V>(gain + c);
          put<F::template write<0>, V>(
              dx + c, splat<V>(s) * (u - splat<V>(u_mean) - normalised.template operator()<V>(c) * splat<V>(u_along)));
        });
        dx += d;
      }
    }
  }
};

/// y = gain * x / (sqrt(mean x^2) + epsilon).
///
/// Shapes  x (rows, d); gain (1, d); epsilon (1, 1), not trained -> (rows, d)
/// Errors  does not compile for a gain or an epsilon of another shape, or an epsilon that is trained: rules "gain
///         width", "one number" and "constant operand"
/// Cost    keeps x and one number for each row
constexpr Expr rms_norm(At x, At gain, At epsilon) { return apply<"rms_norm">({}, x, gain, epsilon); }

/// The other flavour: y = gain * x / sqrt(mean x^2 + epsilon).
///
/// Shapes  as rms_norm
/// Errors  as rms_norm
/// Cost    as rms_norm
constexpr Expr rms_norm_inside(At x, At gain, At epsilon) {
  return apply<"rms_norm">({.integers = {1}}, x, gain, epsilon);
}

/// y = gain * (x - mean) / sqrt(variance + epsilon) + bias.
///
/// Shapes  x (rows, d); gain, bias (1, d); epsilon (1, 1), not trained -> (rows, d)
/// Errors  as rms_norm; the bias is held to "gain width", too
/// Cost    keeps x and two numbers for each row
constexpr Expr layer_norm(At x, At gain, At bias, At epsilon) {
  return apply<"layer_norm">({}, x, gain, bias, epsilon);
}

}  // namespace simplx
