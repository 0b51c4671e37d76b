// SPDX-License-Identifier: MIT
#include <simplx/cpu/matrix_vector.hpp>

#include <Eigen/Core>
#include <doctest/doctest.h>

#include <vector>

using namespace simplx;
using namespace simplx::cpu;

namespace {

template <Index K, class S>
double worst_error(Index rows) {
  using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;
  const Matrix A = Matrix::Random(rows, K);
  const Vector w = Vector::Random(K), g = Vector::Random(rows), before = Vector::Random(K);
  Vector y = Vector::Constant(rows + 1, 7), dw = Vector::Constant(K + 1, 7);
  dw.head(K) = before;
  matrix_vector<K>(rows, A.data(), w.data(), y.data());
  add_transposed_matrix_vector<K>(rows, A.data(), g.data(), dw.data());
  const Vector product = A * w, pulled = before + A.transpose() * g;
  const bool kept = y(rows) == 7 && dw(K) == 7;
  double worst = kept ? 0 : 1;
  for (Index i = 0; i < rows; ++i) worst = std::max(worst, double(std::abs(y(i) - product(i))));
  for (Index k = 0; k < K; ++k) worst = std::max(worst, double(std::abs(dw(k) - pulled(k))));
  return worst;
}

}  // namespace

TEST_CASE_TEMPLATE("cpu/matrix_vector: both products, of any width and any number of rows", S, float, double) {
  const double bound = sizeof(S) == 4 ? 3e-5 : 1e-13;
  for (const Index rows : {0, 1, 3, 8, 16, 21, 100}) {
    CHECK(worst_error<1, S>(rows) < bound);
    CHECK(worst_error<3, S>(rows) < bound);
    CHECK(worst_error<16, S>(rows) < bound);
    CHECK(worst_error<32, S>(rows) < bound);
    CHECK(worst_error<83, S>(rows) < bound);
    CHECK(worst_error<128, S>(rows) < bound);
  }
}

TEST_CASE("cpu/matrix_vector: rows may be columns of a wider matrix") {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix A = Matrix::Random(21, 13);
  const Eigen::VectorXd w = Eigen::VectorXd::Random(5);
  Eigen::VectorXd y(21);
  matrix_vector<5, 13>(21, A.data() + 6, w.data(), y.data());
  CHECK((y - A.middleCols(6, 5) * w).cwiseAbs().maxCoeff() < 1e-14);
}

TEST_CASE("cpu/matrix_vector: a million rows are added up as accurately as a thousand") {
  constexpr Index K = 19, rows = 1 << 20;
  const std::vector<float> a(K * rows, 0.1f), g(rows, 1.0f);
  float w[K]{};
  add_transposed_matrix_vector<K>(rows, a.data(), g.data(), w);
  for (const float sum : w) CHECK(sum == doctest::Approx(0.1 * rows).epsilon(1e-4));
}
