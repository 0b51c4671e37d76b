// SPDX-License-Identifier: MIT
#include "judge.hpp"

#include <fmt/format.h>

#include <numeric>
#include <set>
#include <simplx/core/error.hpp>
#include <simplx/report/progress.hpp>

#include "any_trainer.hpp"
#include "quantities.hpp"

namespace paper {

namespace {

constexpr std::uint64_t most_seeds = 1000;

/// The quantities that an experiment speaks of: what it measures, then those of its expectations.
std::vector<const Quantity*> quantities_of(const Experiment& experiment) {
  std::vector<const Quantity*> quantities{experiment.measured};
  for (const Ordering& ordering : experiment.expected) {
    const Quantity* quantity = ordering.quantity ? ordering.quantity : experiment.measured;
    const auto same = [&](const Quantity* other) { return std::string_view(other->name) == quantity->name; };
    if (std::ranges::none_of(quantities, same)) quantities.push_back(quantity);
  }
  return quantities;
}

std::string heading(const Quantity& quantity) {
  return *quantity.unit ? fmt::format("{}, {}", quantity.name, quantity.unit) : std::string(quantity.name);
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// What a quantity is over the seeds: the mean, of a time the least, to which noise has added least.
double over_seeds(const Quantity& quantity, const std::vector<double>& values) {
  return quantity.is_time ? std::ranges::min(values) : mean(values);
}

std::string sentence_of(const Ordering& o, const Quantity& quantity) {
  switch (o.relation) {
    case Ordering::Relation::below:
      return fmt::format("{}: {} below {}", quantity.name, o.left, o.right);
    case Ordering::Relation::about:
      return fmt::format("{}: {} at most {:.3g} % above {}", quantity.name, o.left, 100 * o.number, o.right);
    case Ordering::Relation::below_number:
      return fmt::format("{} of {} below {:g}", quantity.name, o.left, o.number);
    default:
      return fmt::format("{} of {} above {:g}", quantity.name, o.left, o.number);
  }
}

bool holds(const Ordering& o, double left, double right) {
  switch (o.relation) {
    case Ordering::Relation::below:
      return left < right;
    case Ordering::Relation::about:
      return left <= right * (1 + o.number);
    case Ordering::Relation::below_number:
      return left < o.number;
    default:
      return left > o.number;
  }
}

}  // namespace

std::vector<double> ArmSeen::values(const Quantity& quantity) const {
  std::vector<double> values;
  for (const Seen& seen : seeds) values.push_back(quantity.of(*seen.run));
  return values;
}

std::vector<ArmSeen> look(const Experiment& experiment, const Results& results, long steps) {
  std::vector<ArmSeen> arms;
  for (const Arm& arm : experiment.arms) arms.push_back({&arm, {}});
  bool found = true;
  for (std::uint64_t seed = 1; found && seed < most_seeds; ++seed) {
    found = false;
    for (ArmSeen& seen : arms) {
      Seen best{seed, 0, nullptr};
      bool all = true;
      for (const Task& task : tasks_of(*seen.arm, seed, steps)) {
        const Json* run = results.find(task);
        all = all && run;
        if (run && (!best.run || number_of(*run, "loss") < number_of(*best.run, "loss"))) {
          best.run = run, best.rate = task.settings.rate;
        }
      }
      if (!all) continue;
      seen.seeds.push_back(best);
      found = true;
    }
  }
  return arms;
}

std::vector<Verdict> judge(const Experiment& experiment, const std::vector<ArmSeen>& arms) {
  const auto arm_named = [&](const std::string& name) -> const ArmSeen& {
    const auto found = std::ranges::find_if(arms, [&](const ArmSeen& seen) { return seen.arm->name == name; });
    if (found != arms.end()) return *found;
    throw simplx::Error("the experiment " + experiment.name + " expects something of '" + name + "'",
                        "it has no arm of that name");
  };
  std::vector<Verdict> verdicts;
  for (const Ordering& ordering : experiment.expected) {
    const Quantity& quantity = ordering.quantity ? *ordering.quantity : *experiment.measured;
    Verdict verdict{.sentence = sentence_of(ordering, quantity), .seen = {}};
    const ArmSeen& left = arm_named(ordering.left);
    const ArmSeen& right = ordering.right.empty() ? left : arm_named(ordering.right);
    std::vector<double> lefts, rights;
    int agree = 0;
    for (const Seen& a : left.seeds) {
      for (const Seen& b : right.seeds) {
        if (a.seed != b.seed) continue;
        const double x = quantity.of(*a.run), y = quantity.of(*b.run);
        if (std::isnan(x) || std::isnan(y)) continue;
        lefts.push_back(x), rights.push_back(y);
        agree += holds(ordering, x, y);
      }
    }
    if (lefts.empty()) {
      verdict.seen = left.seeds.empty() || right.seeds.empty() ? "not run yet" : "nothing to read off";
    } else {
      const double x = over_seeds(quantity, lefts), y = over_seeds(quantity, rights);
      verdict.is = holds(ordering, x, y) ? Verdict::Is::holds : Verdict::Is::fails;
      verdict.seen = shown(x, quantity.digits);
      if (!ordering.right.empty()) verdict.seen += fmt::format(" and {}", shown(y, quantity.digits));
      verdict.seen += lefts.size() == 1 ? ", one seed" : fmt::format(", in {} of {} seeds", agree, lefts.size());
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::string summary_of(const std::vector<Verdict>& verdicts) {
  const auto count = [&](Verdict::Is is) { return std::ranges::count(verdicts, is, &Verdict::is); };
  const auto open = count(Verdict::Is::open);
  if (open == std::ssize(verdicts)) return "not run yet";
  std::string text = fmt::format("{} of {} hold", count(Verdict::Is::holds), std::ssize(verdicts) - open);
  if (open) text += fmt::format(", {} open", open);
  return text;
}

std::string shown(double value, int digits) {
  if (std::isnan(value)) return "–";
  return std::isinf(value) ? "diverged" : fmt::format("{:.{}f}", value, digits);
}

std::string shown(const std::vector<double>& values, int digits) {
  if (values.empty()) return "–";
  if (values.size() == 1) return shown(values[0], digits);
  const auto [low, high] = std::ranges::minmax(values);
  return fmt::format("{} ({} to {})", shown(mean(values), digits), shown(low, digits), shown(high, digits));
}

std::vector<std::vector<std::string>> table_of(const Experiment& experiment, const std::vector<ArmSeen>& arms) {
  const std::vector<const Quantity*> quantities = quantities_of(experiment);
  const bool published = *experiment.published_in;
  const bool tried = std::ranges::any_of(experiment.arms, [](const Arm& arm) { return !arm.rates.empty(); });
  std::vector<std::vector<std::string>> rows{{"", "seeds", "parameters"}};
  if (tried) rows[0].push_back("rate");
  for (const Quantity* quantity : quantities) {
    rows[0].push_back(heading(*quantity));
    if (quantity->is_time) rows[0].push_back("speed");
  }
  if (published) rows[0].push_back(fmt::format("the paper, {}", experiment.published_in));
  for (const ArmSeen& seen : arms) {
    auto& row = rows.emplace_back();
    row = {seen.arm->name, fmt::format("{}", seen.seeds.size()), "–"};
    if (!seen.seeds.empty()) row[2] = simplx::grouped((*seen.seeds[0].run)["parameters"].get<long>());
    if (tried) row.push_back(seen.seeds.empty() ? "–" : fmt::format("{:g}", seen.seeds[0].rate));
    for (const Quantity* quantity : quantities) {
      const std::vector<double> values = seen.values(*quantity), first = arms[0].values(*quantity);
      if (!quantity->is_time) {
        row.push_back(shown(values, quantity->digits));
        continue;
      }
      const double time = values.empty() ? missing : over_seeds(*quantity, values);
      row.push_back(shown(time, quantity->digits));
      const bool told = !values.empty() && !first.empty();
      row.push_back(told ? fmt::format("{:.2f}", over_seeds(*quantity, first) / time) : "–");
    }
    if (published) row.push_back(seen.arm->published);
  }
  return rows;
}

std::string setting_of(const Experiment& experiment, long steps) {
  std::set<std::string> depths, contexts, lengths, rates;
  for (const Arm& arm : experiment.arms) {
    if (const Model* model = find_model(arm.model)) {
      depths.insert(fmt::format("{} layers of width {}", model->facts.layers, model->facts.width));
      contexts.insert(fmt::format("{}", model->facts.context));
    }
    for (const Task& task : tasks_of(arm, 1, steps)) {
      lengths.insert(task.settings.turns
                         ? fmt::format("{} turns of 3 steps of {} sequences", task.settings.turns, task.settings.batch)
                         : fmt::format("{} steps of {} sequences", task.settings.steps, task.settings.batch));
      rates.insert(fmt::format("{:g}", task.settings.rate));
    }
  }
  const auto all = [](const std::set<std::string>& words) { return fmt::format("{}", fmt::join(words, " or ")); };
  std::string text;
  if (!depths.empty()) text = fmt::format("{}, {} bytes of context, ", all(depths), all(contexts));
  return fmt::format("{}{}, learning rate {}.", text, all(lengths), all(rates));
}

}  // namespace paper
