// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: A GPU takes the numbers of a step, not the whole update. Trainer asks as this source does, which needs no nvcc.
// expect: error: .*simplx: on a GPU an optimiser also needs at<S>\(step\), which gives the numbers of a step
#include <simplx/train/sgd.hpp>

using namespace simplx;

struct Mine {
  static constexpr const char* name = "mine";
  Mine with(const ParameterSettings&) const { return *this; }
  template <class S>
  void update(long, double, const UpdateBuffers<S>&, Index, Index) const {}
#ifdef FIXED
  template <class S>
  SgdStep<S> at(long step) const {
    return Sgd{}.at<S>(step);
  }
#endif
};
void check() { detail::check_optimiser_on_device<float, Mine>(); }
