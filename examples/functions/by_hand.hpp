// SPDX-License-Identifier: MIT
#pragma once

/// The functions of this folder as a careful user of Eigen writes them: array expressions, gradients by pencil, each
/// exponential once, temporaries that keep their memory. Tests compare with them, bench/gradient.cpp races them.

#include <Eigen/Core>

#include <cmath>
#include <numbers>

namespace by_hand {

using Index = Eigen::Index;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;
using Array = Eigen::ArrayXd;

struct LeastSquares {
  Vector dw;

  double operator()(const Matrix& A, const Vector& y, const Vector& w) {
    residual.noalias() = A * w;
    residual -= y;
    dw.noalias() = 2 * (A.transpose() * residual);
    return residual.squaredNorm();
  }

 private:
  Vector residual;
};

struct LogisticRegression {
  Vector dw;
  double db;

  double operator()(const Matrix& X, const Vector& y, const Vector& w, double b) {
    z.noalias() = X * w;
    z.array() += b;
    t = (-z.array().abs()).exp();
    const double value = (z.array().max(0.0) + (1 + t).log() - y.array() * z.array()).sum();
    z = (z.array() < 0).select(t, 1.0) / (1 + t) - y.array();  // sigmoid(z) - y
    dw.noalias() = X.transpose() * z;
    db = z.sum();
    return value;
  }

 private:
  Vector z;
  Array t;
};

struct LogSumExp {
  Vector dx;

  double operator()(const Vector& x) {
    const double highest = x.maxCoeff();
    dx = (x.array() - highest).exp();
    const double total = dx.sum();
    dx *= 1 / total;
    return highest + std::log(total);
  }
};

struct GaussianMixture {
  Vector dweights, dmeans, ddeviations;

  double operator()(const Vector& x, const Vector& weights, const Vector& means, const Vector& deviations) {
    const Index n = x.size(), K = weights.size();
    z.resize(n, K), p.resize(n, K);
    for (Index k = 0; k < K; ++k) {  // one component after the other, along the samples
      z.col(k) = (x.array() - means(k)) * (1 / deviations(k));
      const double log_scale = std::log(weights(k) / (deviations(k) * std::sqrt(2 * std::numbers::pi)));
      p.col(k) = log_scale - 0.5 * z.col(k).square();
    }
    highest = p.col(0);
    for (Index k = 1; k < K; ++k) highest = highest.max(p.col(k));
    total.setZero(n);
    for (Index k = 0; k < K; ++k) {
      p.col(k) = (p.col(k) - highest).exp();
      total += p.col(k);
    }
    const double value = (highest + total.log()).sum();
    total = total.inverse();
    dweights.resize(K), dmeans.resize(K), ddeviations.resize(K);
    for (Index k = 0; k < K; ++k) {
      p.col(k) *= total;
      const double share = p.col(k).sum();
      dweights(k) = share / weights(k);
      p.col(k) *= z.col(k);
      dmeans(k) = p.col(k).sum() / deviations(k);
      ddeviations(k) = ((p.col(k) * z.col(k)).sum() - share) / deviations(k);
    }
    return value;
  }

 private:
  Eigen::ArrayXXd z, p;
  Array highest, total;
};

/// With gradients of ones for both results.
struct LstmCell {
  Matrix hidden, cell, dx, dh, dc, dW, dU;
  Eigen::RowVectorXd db;

  void operator()(const Matrix& x, const Matrix& h, const Matrix& c, const Matrix& W, const Matrix& U,
                  const Vector& b) {
    const Index n = h.cols();
    gates.noalias() = x * W;
    gates.noalias() += h * U;
    gates.rowwise() += b.transpose();
    const auto gate = [&](Index k) { return gates.middleCols(k * n, n).array(); };
    gate(0) = gate(0).logistic();
    gate(1) = gate(1).logistic();
    gate(2) = 2 * (2 * gate(2)).logistic() - 1;  // tanh of doubles is not vectorised in Eigen
    gate(3) = gate(3).logistic();
    const auto i = gate(0), f = gate(1), g = gate(2), o = gate(3);
    cell = f * c.array() + i * g;
    squashed = 2 * (2 * cell.array()).logistic() - 1;
    hidden = o * squashed.array();
    dcell = 1 + o * (1 - squashed.array().square());
    dc = dcell.array() * f;
    dgates.resize(x.rows(), 4 * n);
    dgates.middleCols(0, n) = dcell.array() * g * i * (1 - i);
    dgates.middleCols(n, n) = dcell.array() * c.array() * f * (1 - f);
    dgates.middleCols(2 * n, n) = dcell.array() * i * (1 - g.square());
    dgates.middleCols(3 * n, n) = squashed.array() * o * (1 - o);
    db = dgates.colwise().sum();
    dW.noalias() = x.transpose() * dgates;
    dU.noalias() = h.transpose() * dgates;
    dx.noalias() = dgates * W.transpose();
    dh.noalias() = dgates * U.transpose();
  }

 private:
  Matrix gates, dgates, squashed, dcell;
};

struct Perceptron {
  Matrix dW, dV;
  Eigen::RowVectorXd db, dc;

  double operator()(const Matrix& x, const Matrix& y, const Matrix& W, const Vector& b, const Matrix& V,
                    const Vector& c) {
    hidden.noalias() = x * W;
    hidden.rowwise() += b.transpose();
    hidden = 2 * (2 * hidden.array()).logistic() - 1;  // tanh of doubles is not vectorised in Eigen
    error.noalias() = hidden * V;
    error.rowwise() += c.transpose();
    error -= y;
    const double scale = 1 / static_cast<double>(error.size()), value = scale * error.squaredNorm();
    error *= 2 * scale;
    dV.noalias() = hidden.transpose() * error;
    dc = error.colwise().sum();
    dhidden.noalias() = error * V.transpose();
    dhidden.array() *= 1 - hidden.array().square();
    dW.noalias() = x.transpose() * dhidden;
    db = dhidden.colwise().sum();
    return value;
  }

 private:
  Matrix hidden, error, dhidden;
};

struct StochasticVolatility {
  Vector dh;
  double dmu, dphi, dsigma;

  double operator()(const Vector& y, const Vector& h, double mu, double phi, double sigma) {
    const Index n = h.size(), m = n - 1;
    const double precision = 1 / (sigma * sigma), first = h(0) - mu, rest = 1 - phi * phi;
    noise.resize(n);
    noise(0) = 0;
    noise.tail(m) = (h.tail(m).array() - mu) - phi * (h.head(m).array() - mu);
    seen = y.array().square() * (-h.array()).exp();
    const double noise_sum = noise.square().sum(), squares = noise_sum + rest * first * first;
    const double value = -0.5 * (h.sum() + seen.sum()) - static_cast<double>(n) * std::log(sigma) +
                         0.5 * std::log(rest) - 0.5 * precision * squares - std::log1p(mu * mu / 100) -
                         std::log1p(sigma * sigma / 25);
    dh = 0.5 * seen - 0.5 - precision * noise;
    dh.head(m).array() += phi * precision * noise.tail(m);
    dh(0) -= precision * rest * first;
    dmu = precision * ((1 - phi) * noise.sum() + rest * first) - 2 * mu / (100 + mu * mu);
    dphi = precision * ((noise.tail(m) * (h.head(m).array() - mu)).sum() + phi * first * first) - phi / rest;
    dsigma = -static_cast<double>(n) / sigma + precision / sigma * squares - 2 * sigma / (25 + sigma * sigma);
    return value;
  }

 private:
  Array noise, seen;
};

}  // namespace by_hand
