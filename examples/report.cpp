// SPDX-License-Identifier: MIT
//
// Writes the page of a run, or lays several runs side by side.
//
//     report runs/first                                    rewrites runs/first/report.html
//     report runs/first runs/second --out compare.html     both on one page

#include "flags.hpp"

#include <simplx/report/page.hpp>

#include <CLI/CLI.hpp>

using namespace simplx;
namespace fs = std::filesystem;

namespace {

/// Errors  throws Error if a file is there that is no page: its content would be lost
void check_is_page(const fs::path& path) {
  if (!fs::is_regular_file(path)) return;  // writing tells what is wrong
  constexpr std::string_view begins = "<!DOCTYPE html>";
  std::string start(begins.size(), ' ');
  std::ifstream(path, std::ios::binary).read(start.data(), std::ssize(start));
  if (start == begins) return;
  throw Error("cannot write " + path.string() + ": a file is there that is no page", "give another file with --out");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> directories;
  fs::path out;
  CLI::App app{"Shows what runs did: one page that needs nothing else, for one run or several side by side."};
  app.add_option("RUN", directories, "Directories of runs")->required()->type_name("DIR");
  app.add_option("--out", out, "The page [RUN/report.html of one run, compare.html of several]")->type_name("FILE");
  return flags::run(app, argc, argv, [&] {
    const std::vector<Run> runs = read_runs(directories);
    for (const char* name : {"run.json", "log.jsonl", "model.safetensors", "sample.txt", "block.svg"}) {
      if (out.filename() != name || !fs::exists(out.parent_path() / "run.json")) continue;
      throw Error(out.string() + " is a file that a run wrote, not its page", "give another file with --out");
    }
    if (out.empty()) out = runs.size() == 1 ? directories[0] / "report.html" : fs::path("compare.html");
    check_is_page(out);
    write_report(out, runs);
    fmt::print("{}\n", out.string());
    return 0;
  });
}
