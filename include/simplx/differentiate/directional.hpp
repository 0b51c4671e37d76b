// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/differentiate/directional.hpp
/// Derivatives along a direction: the same forward and reverse sweeps, run over dual numbers.
///
///     Directional<f> d;
///     d.set<"x">(x, v);              // a point and a direction
///     d.jvp();                       // d.tangent<0>()    J v, without a reverse sweep
///     d.hvp();                       // d.gradient<"x">() and d.hessian_product<"x">()    H v, without H
///
/// A direction passes through the function itself: of with_pull_back it sees f, and the pull-back in gradients alone.
///
/// Cost    two to three products for each of f, respectively of its gradient, and all else in numbers one by one: jvp
///         takes four to six times f, hvp five to seven times its gradient; both allocate. A difference of two
///         gradients is cheaper, and as exact as its step allows

#include <simplx/cpu/dual.hpp>
#include <simplx/differentiate/function.hpp>

#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// Jacobian- and Hessian-vector products of a function along the directions that are set with its inputs.
template <auto const& f, class T = double>
class Directional {
 public:
  using Number = Dual<T>;
  using Dense = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  explicit Directional(std::uint64_t seed = 0) : function_(seed) {}

  /// A point; the function does not move along it.
  template <Name name, class Object>
  Directional& set(const Object& point) {
    function_.template set<name>(point);
    return *this;
  }
  /// A point and the direction in which it moves, of equal size.
  template <Name name>
  Directional& set(const Eigen::Ref<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>& point,
                   const Eigen::Ref<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>& direction) {
    if (point.rows() != direction.rows() || point.cols() != direction.cols()) {
      throw Error("the direction of " + std::string(Name(name).view()) + " has another size than the point");
    }
    using Duals = Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic>;
    const Duals moving = point.binaryExpr(direction, [](const T& x, const T& v) { return Number(x, v); });
    function_.template set<name>(moving);
    return *this;
  }
  /// The same of containers.
  template <Name name, detail::Container Point, detail::Container Direction>
    requires(!detail::EigenObject<Point>)
  Directional& set(const Point& point, const Direction& direction) {
    if (point.size() != direction.size()) {
      throw Error("the direction of " + std::string(Name(name).view()) + " has another size than the point");
    }
    std::vector<Number> moving;
    for (std::size_t i = 0; i < point.size(); ++i) {
      moving.emplace_back(static_cast<T>(point.data()[i]), static_cast<T>(direction.data()[i]));
    }
    function_.template set<name>(moving);
    return *this;
  }
  /// A number and the speed at which it moves.
  template <Name name>
  Directional& set(T point, T direction) {
    function_.template set<name>(Eigen::Matrix<Number, 1, 1>(Number(point, direction)));
    return *this;
  }

  /// Evaluates the results and their derivatives along the direction.
  void jvp() { function_.forward(); }
  /// The same for the gradient of the first result, a number.
  void hvp() { function_.value_and_grad(); }

  /// Errors  throws, as `tangent` does, without a jvp() or hvp(); those of gradients without an hvp()
  template <int k = 0>
  Dense output() const {
    return read_after("output", "jvp() or hvp()", [&] { return values(function_.template output<k>()); });
  }
  template <int k = 0>
  Dense tangent() const {
    return read_after("tangent", "jvp() or hvp()", [&] { return tangents(function_.template output<k>()); });
  }
  template <Name name>
  Dense gradient() {
    return read_after("gradient", "hvp()", [&] { return values(function_.template gradient<name>()); });
  }
  template <Name name>
  Dense hessian_product() {
    return read_after("hessian_product", "hvp()", [&] { return tangents(function_.template gradient<name>()); });
  }

 private:
  /// What is read too early is told in the names of this class, not in those of Function.
  template <class Read>
  Dense read_after(const std::string& asked, const std::string& first, Read read) const {
    try {
      return read();
    } catch (const Error&) {
      function_.check_present();
      throw Error(asked + "() without " + (first == "hvp()" ? "an " : "a ") + first, "call " + first + " before");
    }
  }
  template <class Map>
  static Dense values(const Map& map) {
    return map.unaryExpr([](const Number& x) { return x.value; });
  }
  template <class Map>
  static Dense tangents(const Map& map) {
    return map.unaryExpr([](const Number& x) { return x.tangent; });
  }

  Function<f, Cpu<Number>> function_;
};

}  // namespace simplx
