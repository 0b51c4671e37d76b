// SPDX-License-Identifier: MIT
#include <simplx/differentiate/object.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

using namespace simplx;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(detail::contiguous<RowMajor, double> && detail::contiguous<Eigen::VectorXd, double>);
static_assert(detail::contiguous<std::vector<double>, double>);
static_assert(!detail::contiguous<Eigen::MatrixXd, double> && !detail::contiguous<Eigen::VectorXf, double>);

static_assert(detail::owning<RowMajor> && detail::owning<Eigen::ArrayXd> && detail::owning<std::vector<double>>);
static_assert(!detail::owning<std::span<const double>> && !detail::owning<Eigen::Map<const RowMajor>>);
static_assert(!detail::owning<std::remove_cvref_t<decltype(std::declval<const RowMajor&>().row(1))>>);

TEST_CASE("differentiate/object: vectors stand for rows and columns, containers for anything of their size") {
  constexpr Shape column = fixed_shape(3, 1), rows = rows_of(Axis::batch, 3);
  CHECK(detail::size_of<column>(Eigen::RowVector3d()).rows == 3);
  CHECK(detail::size_of<rows>(Eigen::MatrixXd(5, 3)).rows == 5);
  CHECK(detail::size_of<rows>(Eigen::MatrixXd(5, 4)).cols == 4);
  CHECK(detail::size_of<rows>(std::vector<double>(6)).rows == 2);
  CHECK(detail::size_of<fixed_shape(1, 1)>(2.0).cols == 1);
}

TEST_CASE("differentiate/object: copies are row-major, whatever the source") {
  const Eigen::Matrix<double, 2, 3> source = (Eigen::Matrix<double, 2, 3>() << 1, 2, 3, 4, 5, 6).finished();
  const std::vector<double> expected{1, 2, 3, 4, 5, 6};
  std::vector<double> to(6);
  detail::assign<rows_of(Axis::batch, 3)>(source, 2, to.data());
  CHECK(to == expected);
  detail::assign<rows_of(Axis::batch, 3)>((2 * source.array() - source.array()).eval(), 2, to.data());
  CHECK(to == expected);
  detail::assign<fixed_shape(6, 1)>(Eigen::Map<const Eigen::RowVectorXd>(expected.data(), 6), 6, to.data());
  CHECK(to == expected);
  CHECK(detail::object_map<rows_of(Axis::batch, 3)>(to.data(), 2)(1, 0) == 4);
}

TEST_CASE("differentiate/object: indices that 32 bits do not hold are refused, whatever they come in") {
  constexpr Shape indices = rows_of(Axis::tokens, 1);
  std::vector<std::int32_t> to(2);
  detail::assign<indices>(std::vector<long>{5, -100}, 2, to.data());
  CHECK(to == std::vector<std::int32_t>{5, -100});
  detail::assign<indices>(Eigen::Vector2<std::int64_t>(1, 2), 2, to.data());
  CHECK(to == std::vector<std::int32_t>{1, 2});
  const std::int64_t large = 4294967297;  // 1 in its lower 32 bits
  CHECK_THROWS_WITH_AS(detail::assign<indices>(std::vector{large}, 1, to.data()),
                       doctest::Contains("the index 4294967297 does not fit"), Error);
  CHECK_THROWS_AS(detail::assign<indices>(Eigen::Vector2<std::int64_t>(1, large), 2, to.data()), Error);
  CHECK_THROWS_AS(detail::assign<indices>(large, 1, to.data()), Error);
  CHECK_THROWS_AS(detail::assign<indices>(std::vector<std::uint32_t>{4294967295}, 1, to.data()), Error);
}

TEST_CASE("differentiate/object: blocks have gaps") {
  const RowMajor m = RowMajor::Zero(4, 5);
  CHECK(detail::dense(m));
  CHECK(detail::dense(m.topRows(2)));
  CHECK(!detail::dense(m.leftCols(2)));
  CHECK(!detail::dense(m.col(1)));
  CHECK(detail::dense(m.row(1)));
  CHECK(detail::dense(m.block(1, 2, 1, 3)));
  CHECK(!detail::dense(m.block(1, 2, 2, 3)));
  const Eigen::MatrixXd columns = m;
  CHECK(!detail::dense(columns.block(1, 2, 1, 3)));
}
