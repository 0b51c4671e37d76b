// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/train/average.hpp
/// The average of the weights over a run, which is often the better model:
///
///     a <- a + w_t (p - a),   w_1 = 1,   then w_t = 1 - decay (exponential) or w_t = 1 / t (the plain mean)
///
///     WeightAverage<float> average(trainer.parameters().size(), 0.999);
///     trainer.step(batch, optimiser);
///     average.update(trainer.parameters());
///     {
///       const auto in_place = average.swap_into(trainer);
///       trainer.loss(held_out);  // of the average
///     }                          // the weights in training are back
///
/// Swapping needs no third copy: while the average is in place, its buffer holds the weights in training.

#include <simplx/core/error.hpp>
#include <simplx/cpu/memory.hpp>
#include <simplx/train/optimiser.hpp>

#include <algorithm>

namespace simplx::inline SIMPLX_TARGET {

/// A running average of weights, exponential or plain, that can be swapped with those in training.
template <class S>
class WeightAverage {
 public:
  /// Exchanges the average and the parameters of a network as long as it lives; both must outlive it.
  template <class Net>
  class [[nodiscard]] InPlace {
   public:
    InPlace(const InPlace&) = delete;
    InPlace& operator=(const InPlace&) = delete;
    ~InPlace() { exchange(false); }

   private:
    friend WeightAverage;
    InPlace(WeightAverage& average, Net& net) : average_(average), net_(net) { exchange(true); }
    void exchange(bool in_place) {
      const std::span<S> parameters = net_.parameters();  // asked anew: of a GPU these are copies
      std::swap_ranges(parameters.begin(), parameters.end(), average_.values_.begin());
      average_.in_place_ = in_place;
    }

    WeightAverage& average_;
    Net& net_;
  };

  /// For so many parameters: exponential with a decay in [0, 1), the plain mean without.
  ///
  /// Errors  throws Error for another decay
  explicit WeightAverage(std::size_t size, std::optional<double> decay = {})
      : values_(static_cast<Index>(size)), decay_(decay) {
    if (decay && !(*decay >= 0 && *decay < 1)) {
      throw Error("the decay of an average is " + shortest(*decay), "it is in [0, 1), such as 0.999");
    }
  }

  /// Takes the parameters after a step into the average.
  ///
  /// Errors  throws Error if their number differs, or the average is in place
  /// Cost    12 bytes of memory traffic for each float parameter; no allocation
  void update(std::span<const S> parameters) {
    check(parameters.size());
    ++updates_;
    const S weight = static_cast<S>(updates_ == 1 ? 1 : decay_ ? 1 - *decay_ : 1 / static_cast<double>(updates_));
    S* __restrict values = values_.data();
    const S* __restrict taken = parameters.data();
    each_vector<S>(0, values_.size(), [&](Index i, auto count) __attribute__((always_inline)) {
      const Vec<S> a = load_lanes(values + i, count);
      store_lanes(values + i, a + weight * (load_lanes(taken + i, count) - a), count);
    });
  }

  /// Puts the average in the place of the parameters of a Trainer, or of whatever has parameters(), until the result
  /// goes out of scope.
  ///
  /// Errors  throws Error before the first update, if their number differs, or if it is in place already
  template <class Net>
  InPlace<Net> swap_into(Net& net) {
    check(net.parameters().size());
    if (!updates_) throw Error("an average of no weights cannot be used", "call update after a step first");
    return InPlace<Net>(*this, net);
  }

  std::span<const S> values() const { return values_.span(); }
  long updates() const { return updates_; }

  /// Goes on from values() and updates() of an average that was written down.
  ///
  /// Errors  throws Error if the number of values differs, that of updates is negative, or the average is in place
  void restore(std::span<const S> values, long updates) {
    check(values.size());
    if (updates < 0) throw Error("an average of " + std::to_string(updates) + " updates", "they count from 0");
    std::ranges::copy(values, values_.begin());
    updates_ = updates;
  }

 private:
  void check(std::size_t size) const {
    if (size != static_cast<std::size_t>(values_.size())) {
      throw Error("an average of " + std::to_string(values_.size()) + " parameters was given " + std::to_string(size),
                  "make it for the size of parameters()");
    }
    if (in_place_) throw Error("the average is in the place of the weights", "let the guard of swap_into end first");
  }

  cpu::Buffer<S> values_;
  std::optional<double> decay_;
  long updates_ = 0;
  bool in_place_ = false;
};

}  // namespace simplx
