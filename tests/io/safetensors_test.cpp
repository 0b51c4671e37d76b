// SPDX-License-Identifier: MIT
#include <simplx/io/safetensors.hpp>

#include <doctest/doctest.h>

#include <fstream>

using namespace simplx;
namespace fs = std::filesystem;

namespace {

const fs::path path = fs::temp_directory_path() / "simplx_safetensors_test.safetensors";

/// A file with that header and that many bytes of data.
void write_raw(const std::string& header, std::size_t data, std::uint64_t length) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  file.write(std::string(data, 'd'));
  file.commit();
}
void write_raw(const std::string& header, std::size_t data) { write_raw(header, data, header.size()); }

std::string message() {
  try {
    SafetensorsFile::read(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_SUITE_BEGIN("io/safetensors");

TEST_CASE("the bytes of a file are those of the format") {
  const float values[2] = {1.0f, -2.0f};
  const std::int32_t number = 7;
  const Tensor tensors[] = {{"b", Dtype::f32, {2, 1}, std::as_bytes(std::span(values))},
                            {"a", Dtype::i32, {}, std::as_bytes(std::span(&number, 1))}};
  write_safetensors(path, tensors, {{"made_by", "test"}});
  const std::string header =
      R"({"__metadata__":{"made_by":"test"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"I32","shape":[],"data_offsets":[8,12]}})";
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), 8);
  CHECK(length % 8 == 0);
  std::string text(length, 0);
  file.read(text.data(), static_cast<std::streamsize>(length));
  CHECK(text.substr(0, header.size()) == header);
  CHECK(text.find_first_not_of(' ', header.size()) == std::string::npos);
  float read[2];
  file.read(reinterpret_cast<char*>(read), 8);
  CHECK(read[1] == -2.0f);

  const SafetensorsFile back = SafetensorsFile::read(path);
  REQUIRE(back.find("a"));
  CHECK(back.find("a")->shape.empty());
  CHECK(back.find("b")->shape == std::vector<Index>{2, 1});
  CHECK(std::memcmp(back.find("b")->bytes.data(), values, 8) == 0);
  CHECK(back.metadata().at("made_by") == "test");
  CHECK(back.find("c") == nullptr);
}

TEST_CASE("a file of the reference implementation has its values, and is written again to the byte") {
  const fs::path golden = fs::path(SIMPLX_GOLDEN_DIR) / "interop.safetensors";  // by make_interop.py
  const SafetensorsFile file = SafetensorsFile::read(golden);
  const auto numbers = [&](const std::string& name, auto number) {
    const Tensor& tensor = *file.find(name);
    std::vector<decltype(number)> values(static_cast<std::size_t>(tensor.elements()));
    read_values(tensor.dtype, tensor.bytes, std::span(values));
    return values;
  };
  for (const std::string name : {"f16", "bf16"}) {
    CAPTURE(name);
    const auto values = numbers(name, 0.0), expected = numbers(name + ".values", 0.0);
    const bool same =
        std::ranges::equal(values, expected, [](double a, double b) { return a == b || (a != a && b != b); });
    CHECK(same);
    CHECK(values.size() == 129);
    const auto rounded = bytes_as(file.find(name)->dtype, std::span<const double>(numbers(name + ".wide", 0.0)));
    CHECK(std::ranges::equal(rounded, file.find(name + ".rounded")->bytes));
  }
  CHECK(numbers("i8", 0) == std::vector{-128, 0, 1, 127});
  CHECK(numbers("i64", std::int64_t{})[0] == std::numeric_limits<std::int64_t>::min());
  CHECK(numbers("u64", std::uint64_t{})[3] == std::numeric_limits<std::uint64_t>::max());
  CHECK(numbers("u16", 0)[3] == 65535);
  CHECK(numbers("bool", 0) == std::vector{1, 0, 1});
  CHECK(numbers("scalar", 0) == std::vector{7});
  CHECK(file.find("empty")->shape == std::vector<Index>{0, 3});
  CHECK(file.metadata().at("made_by") == "safetensors");

  write_safetensors(path, file.tensors(), file.metadata());
  const MappedFile ours(path), theirs(golden);
  CHECK(std::ranges::equal(ours.bytes(), theirs.bytes()));
  fs::remove(path);
}

TEST_CASE("tensors of wider numbers come first, so that all are aligned") {
  const std::uint8_t byte = 1;
  const double number = 2;
  const Tensor tensors[] = {{"byte", Dtype::u8, {}, std::as_bytes(std::span(&byte, 1))},
                            {"number", Dtype::f64, {}, std::as_bytes(std::span(&number, 1))}};
  write_safetensors(path, tensors);
  const SafetensorsFile file = SafetensorsFile::read(path);
  CHECK(file.tensors()[0].name == "number");
  CHECK(reinterpret_cast<std::uintptr_t>(file.find("number")->bytes.data()) % 8 == 0);
  CHECK(std::memcmp(file.find("number")->bytes.data(), &number, 8) == 0);
}

TEST_CASE("a file may lie in memory, and may be moved") {
  const std::string text = R"({"x":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(text.size());
  bytes += text + "ab";
  SafetensorsFile file = SafetensorsFile::view(std::as_bytes(std::span(bytes)), "memory");
  CHECK(file.find("x")->bytes[1] == std::byte{'b'});
  CHECK(static_cast<const void*>(file.find("x")->bytes.data()) == bytes.data() + bytes.size() - 2);  // no copy
  const float number = 1;
  const Tensor tensors[] = {{"y", Dtype::f32, {}, std::as_bytes(std::span(&number, 1))}};
  write_safetensors(path, tensors);
  file = SafetensorsFile::read(path);
  const SafetensorsFile moved = std::move(file);
  CHECK(std::memcmp(moved.find("y")->bytes.data(), &number, 4) == 0);
}

TEST_CASE("empty tensors come back, wherever their names sort") {
  const float values[2] = {1, 2};
  const Tensor tensors[] = {{"z", Dtype::f32, {5, 0}, {}},
                            {"m", Dtype::f32, {2}, std::as_bytes(std::span(values))},
                            {"a", Dtype::f64, {0}, {}}};
  write_safetensors(path, tensors);
  const SafetensorsFile back = SafetensorsFile::read(path);
  REQUIRE(back.tensors().size() == 3);
  CHECK(back.find("z")->shape == std::vector<Index>{5, 0});
  CHECK(back.find("z")->bytes.empty());
  CHECK(std::memcmp(back.find("m")->bytes.data(), values, 8) == 0);
  write_safetensors(path, std::span(tensors, 1));
  CHECK(SafetensorsFile::read(path).find("z")->elements() == 0);
  write_raw(
      R"({"m":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
      4);
  const SafetensorsFile file = SafetensorsFile::read(path);
  CHECK(file.tensors().at(0).name == "a");  // it stands before what begins where it ends
}

TEST_CASE("what no reader would take is not written") {
  const double values[2] = {};
  const auto bytes = std::as_bytes(std::span(values));
  fs::remove(path);
  const auto refused = [](std::vector<Tensor> tensors) {
    CHECK_THROWS_AS(write_safetensors(path, tensors), Error);
    CHECK(!fs::exists(path));
  };
  refused({{"t", Dtype::f64, {3}, bytes}});
  refused({{"t", Dtype::f64, {-1, -2}, bytes}});
  refused({{"t", Dtype::f64, {Index(1) << 61, 8}, {}}});
  refused({{"t", Dtype::f64, {2}, bytes}, {"t", Dtype::f64, {2}, bytes}});
  refused({{"__metadata__", Dtype::f64, {2}, bytes}});
  refused({{"t\xff", Dtype::f64, {2}, bytes}});
}

TEST_CASE("a header that no reader would take is refused before anything is written") {
  CHECK_NOTHROW(detail::check_header_length(100'000'000, path));
  CHECK_THROWS_WITH_AS(detail::check_header_length(100'000'008, path), doctest::Contains(path.c_str()), Error);
  write_file(path, "as it was");
  const Metadata metadata{{"text", std::string(17'000'000, '\1')}};  // six bytes each
  CHECK_THROWS_WITH_AS(write_safetensors(path, {}, metadata),
                       doctest::Contains("its header would have 102000032 bytes, and readers take at most 100000000"),
                       Error);
  CHECK(fs::file_size(path) == 9);
  fs::remove(path);
}

TEST_CASE("of very many types that cannot be read some are told, and the others counted") {
  std::string header = "{";
  for (int i = 0; i < 30; ++i) {
    header += (i ? ",\"t" : "\"t") + std::to_string(i) + R"(":{"dtype":"F8","shape":[0],"data_offsets":[0,0]})";
  }
  write_raw(header + "}", 0);
  CHECK(message().find("; tensor 't19': its dtype is 'F8'; and 10 more; what can be read is") != std::string::npos);
  CHECK(message().find("'t20'") == std::string::npos);
  fs::remove(path);
}

TEST_CASE("hostile files are refused with the reason") {
  const auto entry = [](const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  struct Case {
    std::string header;
    std::size_t data;
    const char* expected;
  };
  const Case cases[] = {
      {"{", 0, "at byte 9: the header is not JSON"},
      {"[1]", 0, "at byte 8: the header is no JSON object"},
      {"{\"x\":3}", 0, "at byte 15: the entry of 'x' is no object, but 3"},
      {"{" + entry("x", "F8_E4M3", "[1]", "[0,1]") + "}", 1, "its dtype is 'F8_E4M3'"},
      {"{" + entry("x", "F32", "[-1]", "[0,4]") + "}", 4, "its shape holds '-1'"},
      {"{" + entry("x", "F32", "[1.5]", "[0,4]") + "}", 4, "its shape holds '1.5'"},
      {"{" + entry("x", "F32", "[4611686018427387904,4]", "[0,4]") + "}", 4, "more bytes than can be counted"},
      {"{" + entry("x", "F32", "[0,4611686018427387904]", "[0,0]") + "}", 0, "more bytes than can be counted"},
      {"{" + entry("x", "F32", "[0]", "[0,4]") + "}", 4, "its shape needs 0"},
      {"{" + entry("x", "F32", "[1]", "[0,8]") + "}", 4, "outside of the data"},
      {"{" + entry("x", "F32", "[1]", "[4,0]") + "}", 4, "outside of the data"},
      {"{" + entry("x", "F32", "[2]", "[0,4]") + "}", 8, "its shape needs 8"},
      {"{" + entry("x", "F32", "[1]", "[0,4]") + "}", 8, "the last 4 bytes belong to no tensor"},
      {"{" + entry("x", "F32", "[1]", "[4,8]") + "}", 8,
       "begins at byte 4 of the data, but the tensors before it end at byte 0"},
      {"{" + entry("x", "F32", "[1]", "[0,4]") + "," + entry("y", "F32", "[1]", "[0,4]") + "}", 8,
       "begins at byte 0 of the data, but the tensors before it reach to byte 4"},
      {"{" + entry("x", "F32", "[1]", "[0,4]") + "," + entry("x", "F32", "[1]", "[4,8]") + "}", 8,
       "the name 'x' stands twice"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ entry 'a' is no text, but 1"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.header);
    write_raw(c.header, c.data);
    CHECK(message().find(c.expected) != std::string::npos);
    CHECK(message().find(path.string()) != std::string::npos);
  }
  const std::uint64_t long_header = 100'000'001;  // after it nothing is looked at
  const std::span claimed(reinterpret_cast<const std::byte*>(&long_header), std::size_t{1} << 28);
  CHECK_THROWS_WITH_AS(SafetensorsFile::view(claimed, "long"),
                       doctest::Contains("long: at byte 0: the header's length is 100000001"), Error);
  write_raw("{}", 0, 1ull << 60);
  CHECK(message().find("the header's length is 1152921504606846976") != std::string::npos);
  { AtomicFile file(path); file.write("abc"); file.commit(); }
  CHECK(message().find("at byte 3: the file ends") != std::string::npos);
  fs::remove(path);
  CHECK(message().find("cannot read") == 0);
  fs::create_directory(path);
  CHECK(message() ==
        "cannot read " + path.string() + ": Is a directory\n  hint: check that it is a file and may be read");
  fs::remove(path);
}

TEST_SUITE_END();
