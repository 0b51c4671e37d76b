// SPDX-License-Identifier: MIT
#include <simplx/differentiate/object.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(detail::contiguous<RowMajor, double> && detail::contiguous<Eigen::VectorXd, double>);
static_assert(detail::contiguous<std::vector<double>, double>);
static_assert(!detail::contiguous<Eigen::MatrixXd, double> && !detail::contiguous<Eigen::VectorXf, double>);

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

TEST_CASE("differentiate/object: blocks have gaps") {
  const RowMajor m = RowMajor::Zero(4, 5);
  CHECK(detail::dense(m));
  CHECK(detail::dense(m.topRows(2)));
  CHECK(!detail::dense(m.leftCols(2)));
  CHECK(!detail::dense(m.col(1)));
  CHECK(detail::dense(m.row(1)));
}
