// logits: the model's output after each token, as a NumPy file.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "common.h"

namespace ondol::app {
namespace {

/// The header of a NumPy file, version 1.0: magic, version, length, a Python literal padded to 64
/// bytes.
std::string npy_header(size_t rows, size_t columns) {
  std::string text =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  constexpr size_t kPrefix = 10;
  text.append((64 - (kPrefix + text.size() + 1) % 64) % 64, ' ');
  text.push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(text.size() & 0xff));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

/// Said before the model is opened, and of the name that the user gave.
Result<void> check_folder(const std::string& output) {
  if (output.empty()) return usage_error("the output has no name; give a file with -o");
  std::error_code code;
  std::filesystem::path folder = std::filesystem::path(output).parent_path();
  if (folder.empty()) folder = ".";
  if (std::filesystem::is_directory(output, code))
    return failed(fmt::format("cannot write '{}': it is a folder; name a file in it", output));
  if (!std::filesystem::is_directory(folder, code)) {
    return failed(fmt::format("cannot write '{}': the folder '{}' does not exist; create it first",
                              output, folder.string()));
  }
  return {};
}

Result<void> write_logits(engine::Engine& engine, std::span<const int32_t> tokens,
                          const std::string& path) {
  Env& env = Env::real();
  // A pipe or a device is written as it is; a file appears under its name only when it is whole.
  std::error_code code;
  const auto kind = std::filesystem::status(path, code).type();
  const bool special =
      kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular;
  const std::string partial = special ? path : path + ".part";
  auto file = env.open_writable(partial, WriteMode::kTruncate);
  if (!file) return propagate(file);
  const auto columns = static_cast<size_t>(engine.model().config().n_vocab);
  const std::string header = npy_header(tokens.size(), columns);
  auto done = (*file)->append(std::as_bytes(std::span(header.data(), header.size())));
  if (done) {
    done = engine.evaluate(tokens, [&](int, kernels::Rows logits) -> Result<void> {
      if (interrupted()) return std::unexpected(interruption());
      for (int i = 0; i < logits.n; ++i) {
        if (auto wrote = (*file)->append(std::as_bytes(std::span(logits.row(i), columns))); !wrote)
          return wrote;
      }
      return {};
    });
  }
  if (done) done = (*file)->close();
  if (done && !special) done = env.rename(partial, path);
  if (!done && !special)
    static_cast<void>(
        env.remove(partial));  // nothing half-written stays; the first error is the one told
  return done;
}

}  // namespace

void add_logits(CLI::App& app, int& exit_code) {
  struct Flags {
    ModelFlags model;
    std::string tokens;
    std::string output;
  };
  auto& sub =
      command(app, "logits",
              "Writes the logits after each token as a float32 NumPy file [n_tokens, n_vocab]",
              "ondol logits smollm2 --tokens 1,2,3 -o logits.npy");
  auto flags = std::make_shared<Flags>();
  flags->model.add_to(sub);
  sub.add_option("--tokens", flags->tokens, "The token ids, like 1,2,3")->required();
  sub.add_option("-o,--output", flags->output, "The file to write")->required();
  on_chosen(sub, exit_code, [flags]() -> Result<void> {
    const auto tokens = parse_ids(flags->tokens);
    if (!tokens) return propagate(tokens);
    if (const auto writable = check_folder(flags->output); !writable) return writable;
    ModelFlags model = flags->model;
    if (model.ctx == 0) model.ctx = static_cast<int>(tokens->size());
    const auto engine = model.open();
    if (!engine) return propagate(engine);
    std::error_code code;
    for (const std::string& part : (*engine)->file().part_paths()) {
      if (std::filesystem::equivalent(part, flags->output, code)) {
        return usage_error("the output would replace the model file; choose another name");
      }
    }
    return write_logits(**engine, *tokens, flags->output);
  });
}

}  // namespace ondol::app
