// SPDX-License-Identifier: MIT
#include "training.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <simplx/train/batches.hpp>
#include <simplx/train/fairseq.hpp>
#include <simplx/train/masking.hpp>
#include <simplx/train/schedule.hpp>
#include <simplx/train/ties.hpp>

namespace paper {

using namespace simplx;

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr int validations = 20;     // in a run
constexpr int steps_of_a_turn = 4;  // the first of which warms the caches
constexpr int looks = 10;           // at the layers
/// Held-out tokens of a validation and of the last one; a short run looks at fewer.
struct HeldOut {
  Index each, last;
};
HeldOut held_out_tokens(const Model& model, const Settings& settings) {
  const Index read = settings.steps * settings.batch * model.facts.context;
  return {std::min<Index>(read / 32, 16384), std::min<Index>(read / 4, 131072)};
}
constexpr double explosion = 1;        // nats above the best: the loss of a ramp has exploded
constexpr long explosion_window = 10;  // steps, over which the loss is averaged for that

/// So many digits as a figure needs.
double rounded(double value, int digits = 4) {
  return std::isfinite(value) ? std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr) : value;
}

/// Of the times of steps: what else the machine did for a while does not count.
double median(std::vector<double>& times) {
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, middle);
  return *middle;
}

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

// ------------------------------------------------------------------------------------------- a model as it begins

std::vector<ParameterGroup> groups_of(const Settings& settings) {
  std::vector<ParameterGroup> groups;
  if (settings.all_decay) groups.push_back({.name = "*", .decays = true});
  for (const auto& [name, factor] : settings.factors) groups.push_back({.name = name, .learning_rate_factor = factor});
  return groups;
}

/// Calls f(tensor, values) for all tensors whose names match; whether there were any.
bool each_match(const std::vector<TensorInfo>& tensors, std::span<float> buffer, const std::string& pattern, auto f) {
  bool found = false;
  for (const TensorInfo& tensor : tensors) {
    if (!matches_glob(pattern, tensor.name)) continue;
    found = true;
    f(tensor, buffer.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size())));
  }
  return found;
}

void begin_as(const Settings& settings, std::uint64_t seed, AnyTrainer& trainer) {
  const TensorList& tensors = trainer.tensors();
  if (settings.fairseq_init) initialise(as_in_fairseq(tensors.parameters), seed, trainer.parameters().data());
  if (settings.base == Base::identity) {
    each_match(tensors.constants, trainer.constants(), "*.base", [&](TensorInfo tensor, std::span<float> values) {
      tensor.init = identity;
      initialise(tensor, seed, values.data());
    });
  } else if (settings.base != Base::own) {
    tie_projections(tensors.constants, settings.base == Base::last_layer_tied ? Ties::last_layer : Ties::all_layers,
                    trainer.constants().data());
  }
  for (const auto& [pattern, number] : settings.initial) {
    const auto fill = [value = static_cast<float>(number)](const TensorInfo&, std::span<float> values) {
      std::ranges::fill(values, value);
    };
    const bool parameter = each_match(tensors.parameters, trainer.parameters(), pattern, fill);
    const bool constant = each_match(tensors.constants, trainer.constants(), pattern, fill);
    if (parameter || constant) continue;
    std::vector<std::string> names;
    for (const auto* list : {&tensors.parameters, &tensors.constants}) {
      for (const TensorInfo& tensor : *list) names.push_back(tensor.name);
    }
    throw Error("nothing in the model is named '" + pattern + "'",
                "the nearest names are " + nearest_names(pattern, names, 3));
  }
}

Index trained_parameters(const AnyTrainer& trainer, const Settings& settings) {
  Index total = 0;
  for (const TensorInfo& tensor : trainer.tensors().parameters) {
    double factor = 1;
    for (const auto& [pattern, number] : settings.factors) {
      if (matches_glob(pattern, tensor.name)) factor = number;
    }
    if (factor != 0) total += tensor.size();
  }
  return total;
}

// -------------------------------------------------------------------------------------------------- what it reads

/// Windows of the text, masked for an encoder.
class Reader {
 public:
  Reader(const TokenDocuments& part, const ModelFacts& facts, Index sequences, std::uint64_t seed)
      : batches_(part.tokens, part.documents, {.context = facts.context, .sequences = sequences, .seed = seed}),
        batch_(make_batch(sequences, facts.context)),
        masking_{.seed = seed},
        masked_(facts.masked) {}

  const TokenBatch& next() {
    const Index first = batches_.position();
    batches_.next(batch_);
    return masked(first);
  }
  /// Batch number i of `count` that are spread evenly over the text.
  const TokenBatch& spread(Index i, Index count) {
    const Index first = i * batches_.windows() / count;
    batches_.at(first, batch_);
    return masked(first);
  }

 private:
  const TokenBatch& masked(Index first) {
    if (masked_) mask_tokens(batch_, masking_, first);
    return batch_;
  }

  Batches batches_;
  TokenBatch batch_;
  Masking masking_;
  bool masked_;
};

double mean_loss(AnyTrainer& trainer, Reader& reader, const ModelFacts& facts, Index batch, Index tokens) {
  const Index count = std::max<Index>(1, tokens / (batch * facts.context));
  double total = 0;
  Index labelled = 0;
  for (Index i = 0; i < count; ++i) {
    const TokenBatch& text = reader.spread(i, count);
    const Index labels = labelled_tokens(text);
    total += trainer.loss(text) * static_cast<double>(labels);
    labelled += labels;
  }
  return total / static_cast<double>(labelled);
}

// ---------------------------------------------------------------------------------------------- a look at its layers

/// Trajectories of one number for each layer: gains (the mean over heads or columns, of heads the deviation too), norms
/// of D in Eq. (6), and of NormFormer's models the mean absolute gradient of every matrix.
class Layers {
 public:
  Layers(AnyTrainer& trainer, int layers) : trainer_(trainer), layers_(static_cast<std::size_t>(layers)) {
    for (const TensorInfo& tensor : trainer.tensors().parameters) {
      const std::string_view name = tensor.name;
      with_gradients_ |= name.ends_with("mlp.up.bias");
    }
  }

  void look(long step, const TokenBatch& batch) {
    steps_.push_back(step);
    const std::span<const float> parameters = trainer_.parameters();
    std::vector<float> gradient(with_gradients_ ? parameters.size() : 0);
    if (with_gradients_) trainer_.gradient(batch, gradient);
    for (const TensorInfo& tensor : trainer_.tensors().parameters) {
      const std::string_view scope = "blocks.";
      if (!tensor.name.starts_with(scope)) continue;
      std::size_t digits = 0;
      const std::size_t layer = std::stoul(tensor.name.substr(scope.size()), &digits);
      const std::string name = tensor.name.substr(scope.size() + digits + 1);
      const auto values =
          parameters.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size()));
      if (name.ends_with(".delta")) {
        double squares = 0;
        for (const float v : values) squares += static_cast<double>(v) * static_cast<double>(v);
        note(name + ".norm", layer, std::sqrt(squares));
      } else if (tensor.rank < 2 && !name.ends_with(".bias") && !name.starts_with("norm")) {
        double sum = 0, squares = 0;
        for (const float v : values) sum += static_cast<double>(v);
        const double mean = sum / static_cast<double>(values.size());
        for (const float v : values) squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
        note(name, layer, mean);
        if (tensor.rank == 1) note(name + ".deviation", layer, std::sqrt(squares / static_cast<double>(values.size())));
      }
      if (with_gradients_ && tensor.rank == 2) {
        double sum = 0;
        for (const float g : std::span(gradient).subspan(static_cast<std::size_t>(tensor.offset), values.size())) {
          sum += static_cast<double>(std::abs(g));
        }
        note("gradient." + name, layer, sum / static_cast<double>(values.size()));
      }
    }
  }

  Json json() const { return {{"steps", steps_}, {"values", values_}}; }

 private:
  void note(const std::string& name, std::size_t layer, double value) {
    auto& times = values_[name];
    times.resize(steps_.size(), Json(std::vector<Json>(layers_)));
    times.back()[layer] = rounded(value, 3);
  }

  AnyTrainer& trainer_;
  std::size_t layers_;
  bool with_gradients_ = false;
  std::vector<long> steps_;
  std::map<std::string, std::vector<Json>> values_;
};

TrainerOptions options_of(const Model& model, const Task& task, int threads) {
  return {.batch = task.settings.batch,
          .context = model.facts.context,  // with ALiBi a model itself knows no limit
          .seed = task.seed,
          .threads = threads,
          .clip = task.settings.clip,
          .groups = groups_of(task.settings)};
}

AdamW optimiser_of(const Settings& settings, double rate) {
  return {.learning_rate = rate,
          .beta2 = settings.beta2,
          .epsilon = settings.epsilon,
          .weight_decay = settings.weight_decay};
}

double rate_at(const Settings& settings, long step) {
  const long warmup = static_cast<long>(std::ceil(settings.warmup * static_cast<double>(settings.steps)));
  const double start = settings.warmup_start * settings.rate;
  switch (settings.schedule) {
    case Schedule::ramp:
      return settings.rate * static_cast<double>(step + 1);
    case Schedule::cosine:
      return CosineSchedule{.peak = settings.rate, .warmup = warmup, .total = settings.steps, .start = start}.at(step);
    default:
      return LinearSchedule{.peak = settings.rate, .warmup = warmup, .total = settings.steps, .start = start}.at(step);
  }
}

/// Whether the loss of the last steps has left the lowest that it had far below.
class Explosion {
 public:
  bool after(double loss) {
    if (!std::isfinite(loss)) return true;
    losses_.push_back(loss);
    if (std::ssize(losses_) < explosion_window) return false;
    double mean = 0;
    for (auto l = losses_.end() - explosion_window; l != losses_.end(); ++l) mean += *l / explosion_window;
    lowest_ = std::min(lowest_, mean);
    return mean > lowest_ + explosion;
  }

 private:
  std::vector<double> losses_;
  double lowest_ = HUGE_VAL;
};

Json begun_record(const Model& model, const Task& task, const AnyTrainer& trainer, const Setup& setup) {
  return {{"task", json_of(task)},
          {"text", setup.text},
          {"parameters", trained_parameters(trainer, task.settings)},
          {"width", model.facts.width},
          {"layers_count", model.facts.layers},
          {"context", model.facts.context},
          {"flops_per_token", std::round(model.facts.flops_per_token)},
          {"threads", setup.threads},
          {"machine", machine()},
          {"date", today()}};
}

}  // namespace

double flops_of(const Model& model, const Settings& settings) {
  if (settings.turns) {
    const Index sequences = settings.turns * steps_of_a_turn * settings.batch;
    return model.facts.flops_per_token * static_cast<double>(sequences * model.facts.context);
  }
  const double forward = model.facts.flops_per_token / 3;
  const bool ramp = settings.schedule == Schedule::ramp;
  const auto [each, last] = held_out_tokens(model, settings);
  const double held_out = ramp ? 0 : static_cast<double>(validations * each + last);
  return forward * (3 * static_cast<double>(settings.steps * settings.batch * model.facts.context) + held_out);
}

std::optional<Json> train(const Model& model, const Task& task, Setup& setup) {
  const Settings& settings = task.settings;
  const std::unique_ptr<AnyTrainer> trainer = model.make(options_of(model, task, setup.threads));
  begin_as(settings, task.seed, *trainer);
  Reader training(setup.corpus.training, model.facts, settings.batch, task.seed);
  Reader held_out(setup.corpus.validation, model.facts, settings.batch, 0);
  Json record = begun_record(model, task, *trainer, setup);
  const bool ramp = settings.schedule == Schedule::ramp;
  Layers layers(*trainer, model.facts.layers);
  Explosion explosion;
  const HeldOut looked_at = held_out_tokens(model, settings);
  const auto begin = Clock::now();
  std::vector<double> times;  // of steps, in milliseconds, without validations
  double window_loss = 0;
  long window_steps = 0;
  record["log"] = Json::array();
  const auto due = [&](long step, int times) {
    return step * times / settings.steps != (step - 1) * times / settings.steps;
  };
  if (!ramp) layers.look(0, held_out.spread(0, 1));

  double loss = HUGE_VAL;
  for (long step = 1; step <= settings.steps; ++step) {
    if (setup.interrupt.poll()) return std::nullopt;
    const auto step_begin = Clock::now();
    const double rate = rate_at(settings, step - 1);
    const StepResult result = trainer->step(training.next(), optimiser_of(settings, rate));
    times.push_back(1e3 * since(step_begin));
    window_loss += result.loss, ++window_steps;
    if (ramp ? explosion.after(result.loss) || !result.finite : !result.finite) {
      record[ramp ? "explodes_at" : "diverged_at"] = ramp ? Json(rounded(rate, 6)) : Json(step);
      break;
    }
    setup.progress.update(fmt::format("  step {}/{}  loss {:.3f}", step, settings.steps, result.loss), false);
    if (!due(step, validations)) continue;
    const bool last = step == settings.steps;
    if (!ramp) {
      loss = mean_loss(*trainer, held_out, model.facts, settings.batch, last ? looked_at.last : looked_at.each);
    }
    record["log"].push_back({step, nullptr, rounded(window_loss / static_cast<double>(window_steps), 5),
                             ramp ? Json() : Json(rounded(loss, 5))});
    window_loss = 0, window_steps = 0;
    if (!ramp && due(step, looks)) layers.look(step, held_out.spread(0, 1));
  }
  if (ramp && !record.contains("explodes_at")) {
    record["explodes_at"] = rounded(rate_at(settings, settings.steps - 1), 6);
    record["survived"] = true;
  }
  if (!ramp) {
    const bool diverged = record.contains("diverged_at") || !std::isfinite(loss);
    record["loss"] = diverged ? Json() : Json(rounded(loss, 6));
    record["layers"] = layers.json();
  }
  const double milliseconds = median(times);
  for (Json& line : record["log"]) line[1] = rounded(1e-3 * milliseconds * line[0].get<double>());
  record["milliseconds"] = rounded(milliseconds);
  record["seconds"] = rounded(since(begin));
  return record;
}

std::optional<std::vector<Json>> take_turns(const std::vector<Task>& tasks, Setup& setup) {
  struct Runner {
    std::unique_ptr<AnyTrainer> trainer;
    Reader reader;
    std::vector<double> milliseconds = {};
  };
  std::vector<Runner> runners;
  const auto begin = Clock::now();
  for (const Task& task : tasks) {
    const Model& model = *find_model(task.model);
    runners.push_back({model.make(options_of(model, task, setup.threads)),
                       Reader(setup.corpus.training, model.facts, task.settings.batch, task.seed)});
    begin_as(task.settings, task.seed, *runners.back().trainer);
  }
  for (int turn = 0; turn < tasks[0].settings.turns; ++turn) {
    for (std::size_t i = 0; i < runners.size(); ++i) {
      if (setup.interrupt.poll()) return std::nullopt;
      for (int step = 0; step < steps_of_a_turn; ++step) {
        const TokenBatch& batch = runners[i].reader.next();
        const auto step_begin = Clock::now();
        runners[i].trainer->step(batch, optimiser_of(tasks[i].settings, tasks[i].settings.rate));
        if (step) runners[i].milliseconds.push_back(1e3 * since(step_begin));
      }
    }
    setup.progress.update(fmt::format("  turn {}/{}", turn + 1, tasks[0].settings.turns), false);
  }
  std::vector<Json> records;
  for (std::size_t i = 0; i < runners.size(); ++i) {
    Json record = begun_record(*find_model(tasks[i].model), tasks[i], *runners[i].trainer, setup);
    record["milliseconds"] = rounded(median(runners[i].milliseconds));
    record["seconds"] = rounded(since(begin) / static_cast<double>(tasks.size()));
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace paper
