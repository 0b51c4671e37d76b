// SPDX-License-Identifier: MIT
#include <simplx/report/progress.hpp>

#include <doctest/doctest.h>

using namespace simplx;

TEST_SUITE_BEGIN("report/progress");

TEST_CASE("numbers as people read them") {
  CHECK(grouped(7) == "7");
  CHECK(grouped(1033174) == "1 033 174");
  CHECK(grouped(-12345) == "-12 345");
  CHECK(readable_bytes(12) == "12 B");
  CHECK(readable_bytes(4980736) == "4.98 MB");
  CHECK(readable_bytes(0) == "0 B");
  CHECK(readable_bytes(999) == "999 B");
  CHECK(readable_bytes(1000) == "1.00 kB");
  CHECK(readable_bytes(999'990) == "999.99 kB");
  CHECK(readable_bytes(999'994) == "999.99 kB");
  CHECK(readable_bytes(999'999) == "1.00 MB");  // rounded before the unit is chosen
  CHECK(readable_bytes(2e15) == "2.00 PB");
  CHECK(readable_bytes(1e18) == "1.00 EB");
  CHECK(readable_bytes(1e22) == "10000.00 EB");
  CHECK(readable_seconds(125) == "2:05");
  CHECK(readable_seconds(3725) == "1:02:05");
}

TEST_CASE("a table aligns its values") {
  CHECK(table({{"a", "1"}, {"long", "2"}}) == "  a     1\n  long  2\n");
}

TEST_CASE("where output is piped, only lines worth it are printed, and nothing is rewritten") {
  std::FILE* stream = std::tmpfile();
  REQUIRE(stream);
  ProgressLine progress(stream);
  progress.update("not this", false);
  progress.update("this", true);
  progress.say("and that");
  std::rewind(stream);
  char buffer[100] = {};
  const std::size_t size = std::fread(buffer, 1, sizeof buffer - 1, stream);
  CHECK(std::string(buffer, size) == "this\nand that\n");
  std::fclose(stream);
}

TEST_SUITE_END();
