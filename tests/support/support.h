// Thread rule: test code, one thread.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ondol::test {

/// The absolute path of `tests/data/NAME`: small models, ids and logits of our own.
std::string data_path(std::string_view name);

/// The absolute path of NAME in the reference collection beside the checkout (`../shared`, or
/// `ONDOL_SHARED`), or "" where it is not there. Tests over it skip then: `if (path.empty())
/// GTEST_SKIP() << kNoShared;`
std::string shared_path(std::string_view name);
inline constexpr const char* kNoShared = "the reference collection is not beside this checkout";

/// The lines of a JSON Lines file; aborts the test program if one does not parse.
std::vector<boost::json::object> read_json_lines(const std::string& path);

/// A whole small file.
std::string read_file(const std::string& path);

/// "48656c" -> "Hel".
std::string from_hex(std::string_view hex);

}  // namespace ondol::test
