// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/nn/linear.hpp
/// Linear: y = x W (+ b), and the reparameterised form of Eq. (6): y = alpha x W0 + beta x D.

#include <simplx/nn/gain.hpp>

namespace simplx::inline SIMPLX_TARGET {

/// y = x: what stands where a matrix, an activation or a norm is left out.
struct Identity {
  constexpr Expr operator()(Expr x) const { return x; }
};

/// y = x W, W (width(x), out); with a bias b (1, out) if asked for.
struct Linear {
  Index out = 0;  ///< as wide as x by default
  bool bias = false;
  Init init = normal(0.02);

  constexpr Expr operator()(Expr x) const {
    const Index columns = out ? out : width(x);
    Expr y = x * weight("weight", width(x), columns, init);
    return bias ? y + vector("bias", columns, zeros) : y;
  }
};

/// y = x (alpha W0 + beta D): W0 stays as it is drawn, D = 0 at first is trained.
///
/// Without a beta there is no D: with alpha one and the identity as W0, y is x itself.
///
/// Shapes  x (rows, d); W0 is `base` (d, d), D is `delta` (d, d) -> (rows, d)
/// Errors  does not compile where nothing but zeros could come out, at first or for ever, or for another law of W0
/// Source  He & Hofmann 2024, Eq. (6); alpha = beta = 1 are those of the first value matrix (App. D.1)
struct Reparameterised {
  Init base = identity;  ///< of W0: the identity (never stored), orthogonal, or normal
  Gain alpha = trainable(1), beta = trainable(1);
  constexpr bool operator==(const Reparameterised&) const = default;

  /// The first rule that this breaks; an empty name if there is none.
  constexpr Tag broken_rule() const {
    if (alpha.is_zero()) return "base removed";
    if (beta == trainable(0)) return "dead delta";
    using enum Init::Law;
    const bool is_matrix = base.law == identity || base.law == orthogonal || base.law == normal ||
                           base.law == normal_by_rows;
    if (!is_matrix) return "law of the base";
    return {};
  }

  constexpr Expr operator()(Expr x) const {
    if (const Tag rule = broken_rule(); !rule.empty()) return refuse(rule, x);
    const Index d = width(x);
    auto y = scaled(alpha, "alpha", base == identity ? x : x * fixed("base", d, d, base));
    return beta.is_zero() ? y : y + scaled(beta, "beta", x * weight("delta", d, d, zeros));
  }
};

SIMPLX_RULE("base removed", (possible<left, right>),
            "alpha W0 + beta D without alpha W0 is zero at first: use Linear (Projection::dense) instead")
SIMPLX_RULE("dead delta", (possible<left, right>),
            "alpha W0 + beta D with a trained beta of 0 never learns, since D is 0 at first too: give beta another "
            "initial value, or remove the term with fixed_at(0)")
SIMPLX_RULE("law of the base", (possible<left, right>),
            "W0 of alpha W0 + beta D is the identity, orthogonal, or normal (normal_by_rows: N(0, 1/d))")

}  // namespace simplx
