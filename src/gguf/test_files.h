// Thread rule: test code, one thread.
//
// Files for the tests of this room: from the field lists of case files, and one small valid file
// with everything in it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "support/support.h"

namespace ondol::gguf::test {

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// "t", 12, ".x" -> "t12.x"
inline std::string numbered(std::string_view before, size_t number, std::string_view after = "") {
  return std::string(before).append(std::to_string(number)).append(after);
}

/// A number in `size` bytes, in the byte order asked for.
inline std::string encode_number(uint64_t bits, size_t size, bool big_endian) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>(bits >> (8 * i));
  if (big_endian) std::ranges::reverse(out);
  return out;
}

/// Appends the bytes of a field list, as the README of the case files defines it.
inline void append_fields(const boost::json::array& fields, bool big_endian, std::string& out) {
  for (const auto& field : fields) {
    const auto& parts = field.as_array();
    const std::string_view kind = parts[0].as_string();
    const auto integer = [&](size_t i) {
      return parts[i].is_uint64() ? parts[i].as_uint64()
                                  : static_cast<uint64_t>(parts[i].as_int64());
    };
    if (kind == "ascii") {
      out += std::string_view(parts[1].as_string());
    } else if (kind == "bytes") {
      out += ondol::test::from_hex(parts[1].as_string());
    } else if (kind == "str") {
      const std::string_view text = parts[1].as_string();
      out += encode_number(text.size(), 8, big_endian);
      out += text;
    } else if (kind == "pad_to") {
      while (out.size() % integer(1) != 0) out.push_back('\0');
    } else if (kind == "zeros") {
      out.append(integer(1), '\0');
    } else if (kind == "repeat") {
      for (uint64_t i = 0; i < integer(1); ++i) append_fields(parts[2].as_array(), big_endian, out);
    } else if (kind == "f32") {
      const auto number = static_cast<float>(parts[1].to_number<double>());
      uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      out += encode_number(bits, 4, big_endian);
    } else if (kind[0] == 'u' || kind[0] == 'i') {
      out += encode_number(integer(1), std::stoul(std::string(kind.substr(1))) / 8, big_endian);
    } else {
      throw std::runtime_error("unknown field " + std::string(kind));
    }
  }
}

inline std::string build(const boost::json::object& input) {
  std::string out;
  append_fields(input.at("fields").as_array(), input.at("byte_order").as_string() == "big", out);
  return out;
}

inline constexpr quant::Type kF32{0};
inline constexpr quant::Type kQ4_0{2};
inline constexpr quant::Type kQ8_0{8};

/// A file of a few hundred bytes with a key of every type and three tensors.
inline Writer small_writer() {
  static const std::string data(256, '\x11');
  Writer w;
  w.set("general.architecture", "toy").set("general.name", "Small \xEC\x9D\x98 model");
  w.set("v.u8", uint8_t{200})
      .set("v.i8", int8_t{-100})
      .set("v.u16", uint16_t{60000})
      .set("v.i16", int16_t{-30000});
  w.set("v.u32", uint32_t{4000000000})
      .set("v.i32", int32_t{-2000000000})
      .set("v.u64", ~uint64_t{0});
  w.set("v.i64", INT64_MIN)
      .set("v.f32", 0.1f)
      .set("v.f64", 0.1)
      .set("v.yes", true)
      .set("v.no", false);
  w.set("v.text", std::string_view("a\0b\xFF", 4)).set("v.empty", "");
  w.set_array("a.i32", std::vector<int32_t>{-1, 0, 7})
      .set_array("a.f32", std::vector<float>{0.5f, -2.0f});
  w.set_array("a.u8", std::vector<uint8_t>{1, 255})
      .set_array("a.i64", std::vector<int64_t>{INT64_MIN, INT64_MAX});
  w.set_array("a.f64", std::vector<double>{1e300}).set_array("a.none", std::vector<uint16_t>{});
  w.set_bools("a.bool", std::array<uint8_t, 3>{1, 0, 1});
  w.set_strings("a.str", std::array<std::string_view, 4>{"x", "", "\xED\x95\x9C",
                                                         std::string_view("\0\xFE", 2)});
  w.set_arrays("a.rows", std::vector<std::vector<uint32_t>>{{1, 2, 3}, {}, {4}});
  const auto bytes = as_bytes(data);
  w.add_tensor("a", kF32, {4, 2}, bytes.first(32))
      .add_tensor("b", kQ4_0, {32, 1, 2}, bytes.first(36));
  w.add_tensor("c.weight", kQ8_0, {32}, bytes.first(34));
  return w;
}

/// A folder of its own for each test, removed afterwards.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "gguf_" + info->test_suite_name() + "_" + info->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string in_folder(std::string_view name) const { return folder_ + "/" + std::string(name); }
  void write(std::string_view name, const std::string& bytes) {
    auto file = env_.open_writable(in_folder(name), WriteMode::kTruncate);
    ASSERT_TRUE(file && (*file)->append(as_bytes(bytes)) && (*file)->close());
  }

  Env& env_ = Env::real();
  std::string folder_;
};

}  // namespace ondol::gguf::test
