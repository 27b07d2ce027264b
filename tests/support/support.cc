#include "support/support.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace ondol::test {

std::string data_path(std::string_view name) {
  return std::string(ONDOL_SOURCE_DIR "/tests/data/").append(name);
}

std::string shared_path(std::string_view name) {
  const char* chosen = std::getenv("ONDOL_SHARED");
  const std::filesystem::path root = chosen != nullptr ? chosen : ONDOL_SOURCE_DIR "/../shared";
  const auto path = root / name;
  return std::filesystem::exists(path) ? path.string() : std::string();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<boost::json::object> read_json_lines(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<boost::json::object> lines;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (end > start)
      lines.push_back(
          boost::json::parse(std::string_view(text).substr(start, end - start)).as_object());
    start = end + 1;
  }
  return lines;
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

}  // namespace ondol::test
