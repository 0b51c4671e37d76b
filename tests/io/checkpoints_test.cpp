// SPDX-License-Identifier: MIT
#include <simplx/io/checkpoints.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <stdexcept>

using namespace simplx;
namespace fs = std::filesystem;

namespace {

/// A directory that is empty at first and gone at last.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("simplx_checkpoints_test_" + std::to_string(getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
};

void fill(const fs::path& directory) { write_file(directory / "model", "weights"); }

nlohmann::json index_of(const fs::path& directory) {
  return nlohmann::json::parse(std::ifstream(directory / "index.json"));
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

using Steps = std::vector<long>;
using Names = std::vector<std::string>;

}  // namespace

TEST_SUITE_BEGIN("io/checkpoints");

TEST_CASE("the last few stay, and the best, which the index names") {
  const Folder folder;
  Checkpoints checkpoints(folder.path, 2);
  CHECK(!checkpoints.latest());
  for (const long step : {5, 10, 20, 100, 123456789}) {
    if (step == 10) checkpoints.set_best(Checkpoints::Best{10, 1.5});
    checkpoints.write(step, fill);
    CHECK(checkpoints.latest() == step);
  }
  CHECK(checkpoints.steps() == Steps{10, 100, 123456789});
  CHECK(names_in(folder.path) == Names{"index.json", "step-00000010", "step-00000100", "step-123456789"});
  CHECK(fs::exists(checkpoints.path(100) / "model"));
  CHECK(index_of(folder.path) ==
        nlohmann::json{{"latest", "step-123456789"}, {"best", "step-00000010"}, {"best_val_loss", 1.5}});
}

TEST_CASE("a checkpoint whose writing fails leaves no trace, and the others as they were") {
  const Folder folder;
  Checkpoints checkpoints(folder.path, 1);
  checkpoints.write(5, fill);
  CHECK_THROWS_WITH(checkpoints.write(6, [](const fs::path& directory) {
    fill(directory);
    CHECK(fs::exists(directory));
    throw std::runtime_error("the disk is full");
  }), "the disk is full");
  CHECK_THROWS_WITH_AS(checkpoints.write(-5, fill), doctest::Contains("step -5"), Error);
  CHECK(names_in(folder.path) == Names{"index.json", "step-00000005"});
  CHECK(index_of(folder.path)["latest"] == "step-00000005");
  CHECK(index_of(folder.path)["best"].is_null());
}

TEST_CASE("a directory that cannot be made is named") {
  Checkpoints checkpoints("/proc/nowhere");
  CHECK_THROWS_WITH_AS(checkpoints.write(1, fill), doctest::Contains("/proc/nowhere"), Error);
  CHECK_THROWS_WITH_AS(Checkpoints("x", 0), doctest::Contains("keep is 0"), Error);
}

TEST_CASE("what a killed run left is no checkpoint and is cleaned up; a whole one counts before the index knows it") {
  const Folder folder;
  {
    Checkpoints checkpoints(folder.path);
    checkpoints.write(5, fill);
  }
  fs::create_directories(folder.path / ".partial-step-00000009");
  fs::create_directories(folder.path / ".partial-step-00000003-old");
  fs::create_directories(folder.path / ".replaced-step-00000005");
  fs::create_directories(folder.path / ".replaced-step-00000006");
  fs::create_directories(folder.path / "step-00000007");
  for (const char* foreign : {"step-7", "step-00000008.old", "notes"}) fs::create_directories(folder.path / foreign);
  Checkpoints checkpoints(folder.path, 9);
  CHECK(checkpoints.steps() == Steps{5, 6, 7});
  checkpoints.write_index();
  CHECK(index_of(folder.path)["latest"] == "step-00000007");
  checkpoints.write(8, fill);
  CHECK(names_in(folder.path) == Names{"index.json", "notes", "step-00000005", "step-00000006", "step-00000007",
                                       "step-00000008", "step-00000008.old", "step-7"});
}

TEST_CASE("who only looks leaves alone what another one is writing") {
  const Folder folder;
  Checkpoints writer(folder.path);
  writer.write(1, [&](const fs::path& path) {
    fill(path);
    CHECK(!Checkpoints(folder.path).latest());
    write_file(path / "more", "of it");
  });
  CHECK(fs::exists(writer.path(1) / "more"));
}

TEST_CASE("a directory that is none, or may not be read, is not taken for an empty one") {
  const Folder folder;
  CHECK(Checkpoints(folder.path / "none").steps().empty());
  fs::create_directories(folder.path);
  write_file(folder.path / "file", "");
  CHECK(Checkpoints(folder.path / "file").steps().empty());
  const fs::path unreadable = folder.path / std::string(5000, 'x');  // to root, too
  CHECK_THROWS_WITH_AS(Checkpoints(unreadable).steps(), doctest::Contains("cannot read the directory"), Error);
}

TEST_CASE("a checkpoint whose successor was not finished is found under its other name, and looking moves nothing") {
  const Folder folder;
  {
    Checkpoints checkpoints(folder.path);
    checkpoints.write(5, fill);
  }
  fs::rename(folder.path / "step-00000005", folder.path / ".replaced-step-00000005");  // killed there
  Checkpoints reader(folder.path);
  CHECK(reader.steps() == Steps{5});
  CHECK(reader.path(5) == folder.path / ".replaced-step-00000005");
  CHECK(names_in(reader.path(5)) == names_in(folder.path / ".replaced-step-00000005"));
  CHECK(!fs::exists(folder.path / "step-00000005"));
  Checkpoints(folder.path).write(6, fill);
  CHECK(reader.steps() == Steps{5, 6});
  CHECK(reader.path(5) == folder.path / "step-00000005");
}

TEST_CASE("no step follows a later one") {
  const Folder folder;
  Checkpoints checkpoints(folder.path, 1);
  checkpoints.write(10, fill);
  CHECK_THROWS_WITH_AS(checkpoints.write(9, fill), doctest::Contains("a checkpoint of step 9 after one of step 10 in"),
                       Error);
  CHECK(checkpoints.steps() == Steps{10});
  CHECK_THROWS_AS(checkpoints.write(11, [](const fs::path&) { throw fs::filesystem_error("mine", {}); }),
                  fs::filesystem_error);
  CHECK(names_in(folder.path) == Names{"index.json", "step-00000010"});
}

TEST_CASE("a step that is written again is replaced") {
  const Folder folder;
  Checkpoints checkpoints(folder.path);
  checkpoints.write(5, fill);
  checkpoints.write(5, [](const fs::path& directory) { write_file(directory / "other", ""); });
  CHECK(names_in(checkpoints.path(5)) == Names{"other"});
  CHECK(names_in(folder.path) == Names{"index.json", "step-00000005"});
}

TEST_SUITE_END();
