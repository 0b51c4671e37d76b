// SPDX-License-Identifier: MIT
#include <simplx/io/checkpoint.hpp>

#include <simplx/models/classifier.hpp>

#include "scratch.hpp"
#include "support.hpp"

#include <sstream>

using namespace simplx;

namespace {
inline constexpr Decoder model{.block = sas_p, .vocab = 8, .width = 8, .heads = 2, .layers = 2, .context = 4};
inline constexpr Decoder other{.block = pre_ln, .vocab = 9, .width = 8, .heads = 2, .layers = 2, .context = 4};
const std::filesystem::path path = std::filesystem::temp_directory_path() / "simplx_checkpoint_test.safetensors";
}  // namespace

TEST_SUITE_BEGIN("io/checkpoint");

TEST_CASE("what is saved in float or double comes back, under the names and shapes of checkpoints") {
  Evaluation<model, Cpu<float>> from(tokens{4}, 1);
  Evaluation<model, Cpu<double>> to(tokens{4}, 2);
  save_checkpoint(path, from.tensors().parameters, std::span<const float>(from.parameters()), {{"block", "sas_p"}});
  CHECK(load_checkpoint(path, to.tensors().parameters, to.parameters()).at("block") == "sas_p");
  CHECK(std::ranges::equal(from.parameters(), to.parameters(),
                           [](float a, double b) { return static_cast<double>(a) == b; }));
  save_checkpoint(path, to.tensors().parameters, std::span<const double>(to.parameters()));
  const SafetensorsFile file = SafetensorsFile::read(path);
  CHECK(file.find("blocks.1.mlp_gain")->shape.empty());
  CHECK(file.find("final_norm.gain")->shape == std::vector<Index>{8});
  CHECK(file.find("blocks.0.mlp.down.weight")->shape == std::vector<Index>{32, 8});
  CHECK(file.find("blocks.0.mlp.down.weight")->dtype == Dtype::f64);
}

TEST_CASE("a network is saved and loaded as its tensors and parameters are") {
  Evaluation<model, Cpu<float>> from(tokens{4}, 1), to(tokens{4}, 2);
  const auto of_buffers = [&](Dtype type) {
    save_checkpoint(path, from.tensors().parameters, std::span<const float>(from.parameters()), {{"a", "b"}}, type);
    return test::Scratch::read(path);
  };
  const std::string whole = of_buffers(Dtype::f32), rounded = of_buffers(Dtype::bf16);
  save_checkpoint(path, from, {{"a", "b"}}, Dtype::bf16);
  CHECK(test::Scratch::read(path) == rounded);
  save_checkpoint(path, from, {{"a", "b"}});
  CHECK(test::Scratch::read(path) == whole);
  CHECK(load_checkpoint(path, to).at("a") == "b");
  CHECK(std::ranges::equal(from.parameters(), to.parameters()));
  Evaluation<other> another(tokens{4}, 2);  // in double
  CHECK_THROWS_WITH_AS(load_checkpoint(path, another), doctest::Contains("is not of this model"), Error);
  CHECK_THROWS_WITH_AS(load_body(path, another, {.missing = {"*"}}), doctest::Contains("other shape"), Error);
  CHECK(load_body(path, to, {}).missing.empty());
  std::filesystem::remove(path);
}

TEST_CASE("another model's checkpoint is refused with all that is wrong, and changes nothing") {
  Evaluation<model> from(tokens{4}, 1);
  Evaluation<other> to(tokens{4}, 2);
  save_checkpoint(path, from.tensors().parameters, std::span<const double>(from.parameters()));
  const std::vector<double> before(to.parameters().begin(), to.parameters().end());
  try {
    load_checkpoint(path, to.tensors().parameters, to.parameters());
    FAIL("it was accepted");
  } catch (const Error& error) {
    const std::string text = error.what();
    std::istringstream lines(text);
    std::map<std::string, std::string> found;  // of a tensor
    std::size_t places[3] = {};
    for (std::string line; std::getline(lines, line);) {
      if (line.find("  hint: ") == 0 || line.find("the checkpoint ") == 0) continue;
      if (line.find("tensor") != line.npos && found.empty() && !places[0]) {
        places[0] = line.find("tensor"), places[1] = line.find("the file"), places[2] = line.find("the model");
        continue;
      }
      REQUIRE(places[2] > places[1]);  // columns stand below their titles
      for (const std::size_t place : places) CHECK(line.substr(place - 2, 2) == "  ");
      const std::string name = line.substr(places[0], line.find(' ', places[0]) - places[0]);
      found[name] = line;
    }
    const auto holds = [&](const std::string& name, const std::vector<std::string>& words) {
      CAPTURE(name);
      for (const std::string& word : words) CHECK(found[name].find(word) != std::string::npos);
    };
    holds("blocks.1.attention.projection.weight", {"missing", "float [8, 8]"});
    holds("'blocks.0.attention.gamma'", {"unexpected", "F64 [2]"});
    holds("embedding.weight", {"other shape", "F64 [8, 8]", "float [9, 8]"});
    std::set<std::string> ours, theirs;
    for (const TensorInfo& tensor : from.tensors().parameters) ours.insert(tensor.name);
    for (const TensorInfo& tensor : to.tensors().parameters) theirs.insert(tensor.name);
    for (const std::string& name : ours) CHECK((theirs.count(name) || found.count("'" + name + "'")));
    for (const std::string& name : theirs) CHECK((ours.count(name) || found.count(name)));
  }
  CHECK(std::ranges::equal(before, to.parameters()));
  std::filesystem::remove(path);
}

TEST_CASE("of a file of very many tensors, or extents, some are shown and the others counted") {
  std::vector<Tensor> tensors(100);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = {"t" + std::to_string(i), Dtype::f32, {0}, {}};
  tensors[0].shape.assign(1000, 0);
  write_safetensors(path, tensors);
  Evaluation<model> to(tokens{4}, 1);
  const std::string message = test::message_of([&] { load_checkpoint(path, to); });
  CHECK(message.find("  F32 [0, 0, 0, 0, 0, 0, 0, 0, ... of 1000]  ") != std::string::npos);
  CHECK(message.find("  't49'  ") != std::string::npos);
  CHECK(message.find("'t50'") == std::string::npos);
  CHECK(message.find("\n  and 50 more that are unexpected\n  hint: ") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("a body is read from under another head: what differs is said, and nothing else may differ") {
  static constexpr Encoder masked{.block = bert_sas_p, .vocab = 9, .width = 8, .heads = 2, .hidden = 16, .layers = 1,
                                  .context = 4, .masked_head = true};
  static constexpr Classifier classifier{masked, {.classes = 3}};
  Evaluation<masked> from(tokens{4}, 1);
  Evaluation<classifier> to(tokens{4}, 2);
  save_checkpoint(path, from.tensors().parameters, std::span<const double>(from.parameters()));
  const std::vector<double> before(to.parameters().begin(), to.parameters().end());
  const auto load = [&](const CheckpointDifferences& expected) {
    return load_body(path, to.tensors().parameters, to.parameters(), expected);
  };
  CHECK_THROWS_WITH_AS(load({}), doctest::Contains("missing     pooler.weight"), Error);
  CHECK_THROWS_WITH_AS(load({.missing = head_parameters()}), doctest::Contains("unexpected  'head.dense.weight'"),
                       Error);
  CHECK_THROWS_WITH_AS(load({.unexpected = {"head.*"}}), doctest::Contains("missing  classifier.bias"), Error);
  CHECK_THROWS_WITH_AS(load({.missing = {"pooler.*"}, .unexpected = {"head.*"}}),
                       doctest::Contains("missing  classifier.bias"), Error);
  CHECK_THROWS_WITH_AS(load({.missing = head_parameters(), .unexpected = {"head.norm.*", "head.bias"}}),
                       doctest::Contains("unexpected  'head.dense.weight'"), Error);
  CHECK(std::ranges::equal(before, to.parameters()));

  const CheckpointDifferences found = load({.missing = head_parameters(), .unexpected = {"head.*", "no.such"}});
  CHECK(found.missing ==
        std::vector<std::string>{"pooler.weight", "pooler.bias", "classifier.weight", "classifier.bias"});
  CHECK(std::set(found.unexpected.begin(), found.unexpected.end()) ==
        std::set<std::string>{"head.dense.weight", "head.dense.bias", "head.norm.gain", "head.norm.bias", "head.bias"});
  for (const TensorInfo& tensor : to.tensors().parameters) {
    CAPTURE(tensor.name);
    const auto values = to.parameter(tensor.name);
    const bool is_new = std::ranges::count(found.missing, tensor.name);
    const auto old = std::span(before).subspan(static_cast<std::size_t>(tensor.offset), values.size());
    CHECK(std::ranges::equal(values, old) == (is_new || tensor.init.law == Init::Law::constant));
    if (!is_new) CHECK(std::ranges::equal(values, from.parameter(tensor.name)));
  }
  std::filesystem::remove(path);
}

TEST_CASE("names of a file may have a prefix that the model's do not have") {
  static constexpr auto inner = [] { return named("up", Linear{.out = 3})(input("x", rows_of(Axis::batch, 2))); };
  static constexpr auto outer = [] { return named("all", inner)() * weight("head", 3, 1); };
  Evaluation<outer> from(Rows{.batch = 1}, 1);
  Evaluation<inner> to(Rows{.batch = 1}, 2);
  save_checkpoint(path, from.tensors().parameters, std::span<const double>(from.parameters()));
  const auto load = [&](const CheckpointDifferences& expected) {
    return load_body(path, to.tensors().parameters, to.parameters(), expected);
  };
  CHECK_THROWS_WITH_AS(load({.unexpected = {"*"}}), doctest::Contains("missing  up.weight"), Error);
  CHECK_THROWS_WITH_AS(load({.unexpected = {"*"}, .prefix = "al."}), doctest::Contains("missing  al.up.weight"), Error);
  CHECK_THROWS_WITH_AS(load({.prefix = "all."}), doctest::Contains("unexpected  'head'"), Error);
  const CheckpointDifferences found = load({.unexpected = {"head"}, .prefix = "all."});
  CHECK(found.unexpected == std::vector<std::string>{"head"});
  CHECK(found.missing.empty());
  CHECK(found.prefix == "all.");
  CHECK(std::ranges::equal(to.parameter("up.weight"), from.parameter("all.up.weight")));
  CHECK(load({.missing = {"up.*"}, .unexpected = {"*"}, .prefix = "al."}).missing ==
        std::vector<std::string>{"up.weight"});
  from.parameter("all.up.weight")[0] = 1e300;
  save_checkpoint(path, from.tensors().parameters, std::span<const double>(from.parameters()));
  Evaluation<inner, Cpu<float>> narrow(Rows{.batch = 1});
  CHECK_THROWS_WITH_AS(load_body(path, narrow, {.unexpected = {"head"}, .prefix = "all."}),
                       doctest::Contains("'all.up.weight' in "), Error);
  std::filesystem::remove(path);
}

TEST_CASE("another width is never expected") {
  static constexpr Classifier narrow{{.block = bert_sas_p, .vocab = 9, .width = 8, .heads = 2, .layers = 1}, {}};
  static constexpr Classifier wide{{.block = bert_sas_p, .vocab = 9, .width = 8, .heads = 2, .layers = 1}, {5}};
  Evaluation<narrow> from(tokens{4}, 1);
  Evaluation<wide> to(tokens{4}, 2);
  save_checkpoint(path, from.tensors().parameters, std::span<const double>(from.parameters()));
  CHECK_THROWS_WITH_AS(load_body(path, to.tensors().parameters, to.parameters(), {.missing = head_parameters()}),
                       doctest::Contains("other shape  classifier.weight"), Error);
  std::filesystem::remove(path);
}

TEST_CASE("checkpoints can be rounded to two bytes, and come back as the nearest numbers") {
  Evaluation<model, Cpu<float>> from(tokens{4}, 1), to(tokens{4}, 2);
  for (const Dtype type : {Dtype::f16, Dtype::bf16}) {
    save_checkpoint(path, from.tensors().parameters, std::span<const float>(from.parameters()), {}, type);
    CHECK(SafetensorsFile::read(path).find("embedding.weight")->dtype == type);
    load_checkpoint(path, to.tensors().parameters, to.parameters());
    const bool equal = std::ranges::equal(from.parameters(), to.parameters(), [&](float a, float b) {
      return b ==
             (type == Dtype::f16 ? Float16(static_cast<double>(a)).value() : Bfloat16(static_cast<double>(a)).value());
    });
    CHECK(equal);
    CHECK(!std::ranges::equal(from.parameters(), to.parameters()));
  }
  CHECK_THROWS_AS(
      save_checkpoint(path, from.tensors().parameters, std::span<const float>(from.parameters()), {}, Dtype::i32),
      Error);
  std::filesystem::remove(path);
}

TEST_CASE("a buffer without the gaps between tensors is refused, and nothing is read, changed or written") {
  Evaluation<model, Cpu<float>> net(tokens{4}, 1);
  const auto& tensors = net.tensors().parameters;
  const auto end = static_cast<std::size_t>(tensors.back().offset + tensors.back().size());
  REQUIRE(parameters<model> < static_cast<Index>(end));
  const auto refused = [&](std::size_t size, auto&& use) {
    CHECK_THROWS_WITH_AS(use(), doctest::Contains(("a buffer of " + std::to_string(size) +
                                                   " elements for tensors that end at " + std::to_string(end)).c_str()),
                         Error);
  };
  const std::filesystem::path other = path.string() + ".short";
  save_checkpoint(path, tensors, std::span<const float>(net.parameters()));
  for (const std::size_t size : {std::size_t{0}, static_cast<std::size_t>(parameters<model>), end - 1}) {
    std::vector<float> values(size, 7.0f);
    const std::span<float> span(values);
    refused(size, [&] { load_checkpoint(path, tensors, span); });
    refused(size, [&] { load_body(path, tensors, span, {.missing = {"*"}}); });
    refused(size, [&] { save_checkpoint(other, tensors, std::span<const float>(span)); });
    CHECK(std::ranges::count(values, 7.0f) == std::ssize(values));
    CHECK(!std::filesystem::exists(other));
  }
  std::vector<float> values(end);  // what follows the last tensor need not be there
  load_checkpoint(path, tensors, std::span(values));
  CHECK(std::equal(values.begin(), values.end(), net.parameters().begin()));
  std::filesystem::remove(path);
}

TEST_CASE("whole numbers are no parameters") {
  const std::int32_t numbers[2] = {1, 2};
  const Tensor tensors[] = {{"x", Dtype::i32, {2}, std::as_bytes(std::span(numbers))}};
  write_safetensors(path, tensors);
  TensorInfo needed;
  needed.name = "x", needed.shape = fixed_shape(1, 2), needed.rank = 1;
  const std::string faults = detail::checkpoint_faults(SafetensorsFile::read(path), {needed});
  CHECK(faults == "\n              tensor  the file  the model\n  other type  x       I32 [2]   float [2]");
  std::filesystem::remove(path);
}

TEST_CASE("numbers that a model has no room for are refused by name, before any is read") {
  Evaluation<model, Cpu<double>> wide(tokens{4}, 1);
  wide.parameter("final_norm.gain")[2] = 1e300;  // the last of all
  save_checkpoint(path, wide);
  Evaluation<model, Cpu<float>> net(tokens{4}, 2);
  const std::vector<float> before(net.parameters().begin(), net.parameters().end());
  CHECK_THROWS_WITH_AS(load_checkpoint(path, net),
                       doctest::Contains(("'final_norm.gain' in " + path.string() + ": number 2 is 1e+300").c_str()),
                       Error);
  CHECK(std::ranges::equal(net.parameters(), before));
  CHECK_THROWS_AS(load_body(path, net, {}), Error);
  CHECK(std::ranges::equal(net.parameters(), before));
  std::filesystem::remove(path);
}

TEST_CASE("a type without room for a number is refused, and the file stays as it was") {
  Evaluation<model, Cpu<float>> net(tokens{4});
  net.parameter("embedding.weight")[3] = 70'000;
  const test::Scratch scratch;
  const std::filesystem::path file = scratch.write("file", "old");
  CHECK_THROWS_WITH_AS(save_checkpoint(file, net, {}, Dtype::f16),
                       doctest::Contains("'embedding.weight' has a number 70000, too large for F16"), Error);
  CHECK(test::Scratch::read(file) == "old");
  CHECK_NOTHROW(save_checkpoint(file, net, {}, Dtype::bf16));
}

TEST_SUITE_END();
