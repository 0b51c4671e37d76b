// SPDX-License-Identifier: MIT
#include <simplx/io/training.hpp>

#include <simplx/train/hyper.hpp>
#include <simplx/train/trainer.hpp>

#include "support.hpp"

using namespace simplx;

namespace {

inline constexpr Decoder model{.block = sas_p, .vocab = 8, .width = 8, .heads = 2, .layers = 2, .context = 4};
inline constexpr Decoder with_bases{.block = shaped_reparam, .vocab = 8, .width = 8, .heads = 2, .layers = 2,
                                    .context = 4, .dropout = 0.1};

TokenBatch some_batch(int number) {
  TokenBatch batch;
  batch.offsets = {0, 4, 8};
  for (int i = 0; i < 8; ++i) {
    batch.tokens.push_back((3 * i + number) % 8);
    batch.labels.push_back((batch.tokens.back() * 5 + 3) % 8);
  }
  return batch;
}
template <class Trainer>
void steps(Trainer& trainer, int begin, int end) {
  for (int i = begin; i < end; ++i) trainer.step(some_batch(i), AdamW{.learning_rate = 1e-2});
}

template <class Net>
std::span<float> constant(Net& net, std::string_view name) {
  for (const TensorInfo& tensor : net.tensors().constants) {
    if (tensor.name == name) return net.constants().subspan(tensor.offset, tensor.size());
  }
  FAIL("no constant " << name);
  return {};
}

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "simplx_training_test";
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_SUITE_BEGIN("io/training");

TEST_CASE("a training that is written down goes on bit for bit; its weights can be read alone") {
  const Folder folder;
  Trainer<model> whole({.batch = 2, .seed = 3}), first({.batch = 2, .seed = 3}),
      second({.batch = 2, .seed = 3, .threads = 2});
  steps(whole, 0, 9);
  steps(first, 0, 4);
  save_training(folder.path, first, {{"block", "sas_p"}}, {{"position", "8"}});
  const Metadata saved = load_training(folder.path, second);
  CHECK(saved.at("position") == "8");
  CHECK(second.steps() == 4);
  CHECK(second.state().count.optimiser == "adamw");
  steps(second, 4, 9);
  CHECK(std::ranges::equal(whole.parameters(), second.parameters()));

  Evaluation<model> reader(tokens{4});
  CHECK(load_checkpoint(folder.path / "model.safetensors", reader).at("block") == "sas_p");
  CHECK(std::ranges::equal(first.parameters(), reader.parameters(),
                           [](float a, double b) { return static_cast<double>(a) == b; }));
  CHECK_THROWS_WITH_AS(load_checkpoint(folder.path / "state.safetensors", reader),
                       doctest::Contains("state.safetensors holds the moments of a training"), Error);
}

TEST_CASE("a training of another seed, another model's, and damaged files are refused before anything has changed") {
  const Folder folder;
  Trainer<model> from({.batch = 2, .seed = 3}), to({.batch = 2, .seed = 4});
  steps(from, 0, 2);
  const std::vector<float> before(to.parameters().begin(), to.parameters().end());
  const auto refused = [&](const char* reason) {
    CHECK_THROWS_WITH_AS(load_training(folder.path, to), doctest::Contains(reason), Error);
    CHECK(std::ranges::equal(before, to.parameters()));
    CHECK(to.steps() == 0);
  };
  refused("cannot read");
  save_training(folder.path, from);
  refused("seed: 3 there, 4 here");

  auto state = from.state();
  state.seed = 4;
  const std::filesystem::path file = folder.path / "state.safetensors";
  const std::vector<float> zeros(2 * state.parameters.size());
  const auto rewrite = [&](const std::vector<TensorInfo>& tensors, const Metadata& metadata) {
    save_checkpoint<float>(file, detail::moments_of(tensors, state.parameters.size()), zeros, metadata);
  };
  const auto& tensors = from.tensors().parameters;
  rewrite(tensors, {});
  refused("name no optimiser");
  rewrite(tensors, {{"optimiser", "adamw"}, {"steps", "2"}, {"moment_steps", "two"}});
  refused("no number 'moment_steps'");
  rewrite({tensors.begin(), tensors.end() - 1}, {});
  refused("second_moment.final_norm.gain");
  save_training(folder.path, from.tensors(), state);
  CHECK(load_training(folder.path, to).empty());
  CHECK(to.steps() == 2);
}

TEST_CASE("what save_training writes itself is no name for others, and its files belong together") {
  const Folder folder;
  Trainer<model> from({.batch = 2, .seed = 5}), other({.batch = 2, .seed = 5}), to({.batch = 2, .seed = 5});
  steps(from, 0, 2), steps(other, 1, 3);
  for (const char* name : {"steps", "save", "seed", "rules", "optimiser", "moment_steps"}) {
    CHECK_THROWS_WITH_AS(save_training(folder.path, from, {}, {{name, "42"}}),
                         doctest::Contains(("writes the metadata '" + std::string(name) + "' itself").c_str()), Error);
  }
  CHECK_THROWS_AS(save_training(folder.path, from, {{"save", "1"}}), Error);
  save_training(folder.path / "a", from), save_training(folder.path / "b", other);
  std::filesystem::copy_file(folder.path / "a/model.safetensors", folder.path / "b/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(load_training(folder.path / "b", to), doctest::Contains("are of two saves"), Error);
  save_training(folder.path / "a", from, {}, load_training(folder.path / "a", to));  // what came back may go again
  Trainer<model, Cpu<double>> twice({.batch = 2, .seed = 5});
  CHECK_THROWS_WITH_AS(load_training(folder.path / "a", twice),
                       doctest::Contains("holds numbers of F32, the trainer of F64"), Error);
}

TEST_CASE("what is not trained is saved, too: what the seed drew with the weights, what was set with the moments") {
  const Folder folder;
  Trainer<with_bases> whole({.batch = 2, .seed = 3}), to({.batch = 2, .seed = 3}), other({.batch = 2, .seed = 4});
  const char *rate = "blocks.1.mlp_dropout.rate", *base = "blocks.1.attention.value.base";
  set_hyper(whole, rate, 0.4);
  constant(whole, base)[5] += 1;  // drawn by another seed, say
  steps(whole, 0, 4);
  save_training(folder.path / "new", whole);
  load_training(folder.path / "new", to);
  CHECK(std::ranges::equal(to.constants(), whole.constants()));
  steps(whole, 4, 8), steps(to, 4, 8);
  CHECK(std::ranges::equal(to.parameters(), whole.parameters()));

  save_checkpoint(folder.path / "weights", whole);
  load_checkpoint(folder.path / "weights", other);  // of another seed
  CHECK(std::ranges::equal(constant(other, base), constant(whole, base)));
  CHECK(constant(other, rate)[0] == 0.1f);  // the model's own
  CHECK(other.loss(some_batch(1)) == whole.loss(some_batch(1)));

  save_checkpoint<float>(folder.path / "early", whole.tensors().parameters, whole.parameters());
  CHECK_THROWS_WITH_AS(load_checkpoint(folder.path / "early", other), doctest::Contains(base), Error);
}

TEST_CASE("files of earlier versions have no constants, which are then the trainer's own") {
  const Folder folder;
  Trainer<with_bases> from({.batch = 2, .seed = 3}), to({.batch = 2, .seed = 3});
  steps(from, 0, 2);
  auto state = from.state();
  state.constants = {};
  save_training(folder.path, from.tensors(), state);
  load_training(folder.path, to);
  steps(from, 2, 4), steps(to, 2, 4);
  CHECK(std::ranges::equal(to.parameters(), from.parameters()));
}

TEST_CASE("a save that was stopped between its two files is noticed") {
  const Folder folder;
  Trainer<model> from({.batch = 2, .seed = 3}), to({.batch = 2, .seed = 3});
  steps(from, 0, 2);
  save_training(folder.path, from);
  std::filesystem::copy_file(folder.path / "state.safetensors", folder.path / "old");
  steps(from, 2, 5);
  save_training(folder.path, from);
  std::filesystem::rename(folder.path / "old", folder.path / "state.safetensors");
  CHECK_THROWS_WITH_AS(load_training(folder.path, to), doctest::Contains("is of step 5, but "), Error);
  CHECK(to.steps() == 0);
}

TEST_CASE("the clip and the groups are saved and compared; a file that does not tell them is taken") {
  const Folder folder;
  const auto options = [](double clip) {
    return TrainerOptions{.batch = 2, .clip = clip, .groups = {{.name = "embedding.*", .learning_rate_factor = 0}}};
  };
  Trainer<model> from(options(1)), same(options(1)), to(options(0.5));
  steps(from, 0, 2);
  const auto& tensors = from.tensors().parameters;
  save_training(folder.path, from);
  CHECK_THROWS_WITH_AS(load_training(folder.path, to),
                       doctest::Contains("rules: clip 1, embedding.* learning_rate_factor 0 there, clip 0.5, "), Error);
  load_training(folder.path, same);
  const std::filesystem::path file = folder.path / "state.safetensors";
  CHECK(SafetensorsFile::read(file).metadata().at("rules") == "clip 1, embedding.* learning_rate_factor 0");
  const auto moments = detail::moments_of(tensors, from.parameters().size());
  std::vector<float> values(2 * from.parameters().size());
  load_body(file, moments, std::span(values), {.unexpected = {"constant.*"}});
  Metadata early = SafetensorsFile::read(file).metadata();
  early.erase("rules");
  save_checkpoint<float>(file, moments, values, early);
  load_training(folder.path, to);
  CHECK(to.steps() == 2);
}

TEST_SUITE_END();
