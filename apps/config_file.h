// Thread rule: the main thread.
//
// A command's flags from a file and back. The command's own table of flags (names, defaults, help)
// is the only list of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace ondol::app {

/// Adds --config FILE and --print-config to a command.
struct ConfigFlags {
  std::string file;
  bool print = false;
  void add_to(CLI::App& command);
};

/// Sets the flags that the file names and the command line did not give. The file is TOML: one
/// `name = value` a line, the names of the flags without their dashes; texts in quotes, numbers,
/// true and false, lists of texts in one line. Usage error that names the line for anything else,
/// with the nearest name for an unknown one.
Result<void> read_config(CLI::App& command, const std::string& path);

/// The flags as they are now, as such a file: each with its help; those that have no value as a
/// comment.
std::string config_text(CLI::App& command);

}  // namespace ondol::app
