#include "config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <expected>
#include <set>

#include "base/env.h"
#include "base/units.h"

namespace ondol::app {
namespace {

constexpr uint64_t kLargest = 1 << 20;  ///< bytes of a file

/// The flags that a file may set.
std::vector<CLI::Option*> settable(CLI::App& command) {
  std::vector<CLI::Option*> options;
  for (CLI::Option* option : command.get_options(std::function<bool(CLI::Option*)>())) {
    const std::string name = option->get_single_name();
    if (name == "help" || name == "config" || name == "print-config") continue;
    options.push_back(option);
  }
  return options;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Reads values from the front of a line.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : rest_(trimmed(text)) {}

  /// One value, or a list of them; an error in words where it is none.
  std::expected<std::vector<std::string>, std::string> read() {
    std::vector<std::string> values;
    if (!rest_.starts_with('[')) {
      auto value = single();
      if (!value) return std::unexpected(value.error());
      values.push_back(*value);
    } else {
      skip(1);
      while (!rest_.starts_with(']')) {
        auto value = single();
        if (!value) return std::unexpected(value.error());
        values.push_back(*value);
        if (rest_.starts_with(',')) {
          skip(1);
        } else if (!rest_.starts_with(']')) {
          return std::unexpected("a list looks like [\"a\", \"b\"], in one line");
        }
      }
      skip(1);
    }
    if (!rest_.empty() && !rest_.starts_with('#'))
      return std::unexpected(fmt::format("'{}' stands behind the value", rest_));
    return values;
  }

 private:
  void skip(size_t n) { rest_ = trimmed(rest_.substr(n)); }

  std::expected<std::string, std::string> single() {
    if (rest_.starts_with('"')) return quoted();
    if (rest_.starts_with('\'')) {
      const size_t end = rest_.find('\'', 1);
      if (end == std::string_view::npos) return std::unexpected("a quote is missing at the end");
      std::string value(rest_.substr(1, end - 1));
      skip(end + 1);
      return value;
    }
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t,]#"));
    double number = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool is_number = code == std::errc() && end == word.data() + word.size();
    if (!is_number && word != "true" && word != "false") {
      if (word.empty()) return std::unexpected("the value is missing");
      return std::unexpected(fmt::format("a text stands in quotes: \"{}\"", word));
    }
    std::string value(word);
    skip(word.size());
    return value;
  }

  std::expected<std::string, std::string> quoted() {
    std::string value;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        skip(i + 1);
        return value;
      }
      if (rest_[i] == '\\' && ++i < rest_.size()) {
        const size_t which = std::string_view("\"\\nt").find(rest_[i]);
        if (which == std::string_view::npos)
          return std::unexpected("behind a \\ comes \", \\, n or t (or use 'single quotes')");
        value += "\"\\\n\t"[which];
      } else if (i < rest_.size()) {
        value += rest_[i];
      }
    }
    return std::unexpected("a quote is missing at the end");
  }

  std::string_view rest_;
};

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0; }
bool is_list(const CLI::Option& option) { return option.get_expected_max() > 1; }
bool is_number(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
}

/// The option's value as it stands behind the equals sign; empty where it has none.
std::string value_text(const CLI::Option& option) {
  std::vector<std::string> values =
      option.count() > 0 ? option.reduced_results() : std::vector<std::string>();
  if (is_flag(option)) return values.empty() || values.back() == "false" ? "false" : "true";
  if (values.empty() && !option.get_default_str().empty()) values = {option.get_default_str()};
  if (values.empty()) return {};
  for (auto& value : values) {
    if (!is_number(option)) value = in_quotes(value);
  }
  return is_list(option) ? fmt::format("[{}]", fmt::join(values, ", ")) : values.back();
}

/// Sets one flag; an error in words.
std::expected<void, std::string> set(CLI::Option& option, std::vector<std::string> values) {
  if (!is_list(option) && values.size() != 1) return std::unexpected("takes one value");
  if (option.count() > 0) return {};  // the command line is nearer
  try {
    for (const auto& value : values) {
      const bool known = value == "true" || value == "false";
      if (is_flag(option) && !known) return std::unexpected("is true or false");
      if (!is_flag(option) || value == "true") option.add_result(value);
    }
    if (option.count() > 0) option.run_callback();
  } catch (const CLI::ParseError& error) {
    option.clear();
    return std::unexpected(error.what());
  }
  return {};
}

/// One line; whether the key was there already is `seen`'s.
std::expected<void, std::string> take_line(std::string_view line, CLI::App& command,
                                           std::set<std::string>& seen) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return std::unexpected("this is no `name = value`");
  const std::string name(trimmed(line.substr(0, equals)));
  const auto options = settable(command);
  const auto found = std::ranges::find_if(
      options, [&](const CLI::Option* option) { return option->get_single_name() == name; });
  if (found == options.end()) {
    std::vector<std::string> known;
    for (const CLI::Option* option : options) known.push_back(option->get_single_name());
    const std::vector<std::string_view> names(known.begin(), known.end());
    const std::string_view near = nearest_name(name, names);
    return std::unexpected(fmt::format(
        "unknown name '{}'{}", name, near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  if (!seen.insert(name).second) return std::unexpected(fmt::format("{} stands there twice", name));
  auto values = ValueReader(line.substr(equals + 1)).read();
  if (!values) return std::unexpected(fmt::format("{}: {}", name, values.error()));
  const auto done = set(**found, std::move(*values));
  if (!done) return std::unexpected(fmt::format("{}: {}", name, done.error()));
  return {};
}

}  // namespace

void ConfigFlags::add_to(CLI::App& command) {
  command.add_option("--config", file,
                     "File with `name = value` lines, as --print-config writes them; flags of the "
                     "command line win");
  command.add_flag("--print-config", print, "Write the settings as such a file and end");
}

Result<void> read_config(CLI::App& command, const std::string& path) {
  const auto text = Env::real().read_text(path, kLargest);
  if (!text) return usage_error(text.error().message);
  std::set<std::string> seen;
  std::string_view rest = *text;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    if (const auto taken = take_line(line, command, seen); !taken)
      return usage_error(fmt::format("{} line {}: {}", path, number, taken.error()));
  }
  return {};
}

std::string config_text(CLI::App& command) {
  std::string out = fmt::format("# ondol {} --config FILE\n", command.get_name());
  for (const CLI::Option* option : settable(command)) {
    const std::string value = value_text(*option);
    out += fmt::format("\n# {}\n{}{} = {}\n", option->get_description(), value.empty() ? "# " : "",
                       option->get_single_name(), value);
  }
  return out;
}

}  // namespace ondol::app
