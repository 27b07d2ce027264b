// pull, list, rm: the model store.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdlib>

#include "base/units.h"
#include "common.h"
#include "store/pull.h"
#include "store/store.h"

namespace ondol::app {
namespace {

namespace json = boost::json;

const char* environment(const char* name) { return std::getenv(name); }

Result<store::Store> open_store() {
  auto root = store::Store::default_root(environment);
  if (!root) return propagate(std::move(root));
  return store::Store(Env::real(), *root);
}

json::object to_json(const store::Entry& entry) {
  return {{"name", entry.name},
          {"path", entry.path},
          {"bytes", entry.size},
          {"missing", entry.is_missing}};
}

Result<void> list(bool as_json) {
  const auto models = open_store();
  if (!models) return propagate(models);
  const auto entries = models->list();
  if (!entries) return propagate(entries);
  if (as_json) {
    json::array array;
    for (const auto& entry : *entries) array.push_back(to_json(entry));
    return print(json::serialize(json::object{{"models", array}}) + "\n");
  }
  if (entries->empty())
    return print("no models yet; `ondol pull hf:org/repo:Q4_K_M` fetches one\n");
  for (const auto& entry : *entries) {
    const auto size = entry.is_missing ? std::string("missing") : format_size(entry.size);
    if (const auto done = print(fmt::format("{:<40} {:>10}  {}\n", entry.name, size, entry.path));
        !done)
      return done;
  }
  return {};
}

Result<void> remove(const std::string& name, bool as_json) {
  auto models = open_store();
  if (!models) return propagate(models);
  const auto freed = models->remove(name);
  if (!freed) return propagate(freed);
  if (as_json)
    return print(json::serialize(json::object{{"name", name}, {"freed_bytes", *freed}}) + "\n");
  return print(fmt::format("removed {}, {} are free again\n", name, format_size(*freed)));
}

struct PullFlags {
  std::string model;
  std::string name;
  bool json = false;
};

Result<void> pull(const PullFlags& flags) {
  auto models = open_store();
  if (!models) return propagate(models);
  const auto spec = store::parse_hub_spec(flags.model);
  if (!spec) return propagate(spec);
  if (!flags.name.empty()) {
    if (auto valid = store::check_model_name(flags.name); !valid)
      return propagate(std::move(valid));
  }
  auto options = store::PullOptions::from_environment(environment);
  options.name = flags.name;
  options.on_progress = [](const store::Progress& progress) {
    if (on_terminal() && progress.total > 0) {
      say("\r{}: {} of {} ({} %)  ", progress.file, format_size(progress.done),
          format_size(progress.total), progress.done * 100 / progress.total);
    }
    return !interrupted();
  };
  const auto pulled = store::pull(*models, *spec, options);
  if (on_terminal()) say("\n");
  if (!pulled) return propagate(pulled);
  if (flags.json) {
    json::object report = to_json(pulled->entry);
    report["downloaded"] = pulled->downloaded;
    report["up_to_date"] = pulled->up_to_date;
    return print(json::serialize(report) + "\n");
  }
  return print(fmt::format("{} {} ({}); try: ondol run {} -p \"Hello\"\n", pulled->entry.name,
                           pulled->up_to_date ? "is up to date" : "is ready",
                           format_size(pulled->entry.size), pulled->entry.name));
}

}  // namespace

Result<std::string> model_path(const std::string& model) {
  const auto models = open_store();
  if (!models) return propagate(models);
  if (!model.empty()) return models->resolve(model);
  // Without a name: the default model, or the only one there is.
  const auto entries = models->list();
  if (!entries) return propagate(entries);
  for (const auto& entry : *entries) {
    if (entry.name == "smollm2" || entries->size() == 1) return entry.path;
  }
  return usage_error("name a model: a GGUF file or one of `ondol list`");
}

void add_list(CLI::App& app, int& exit_code) {
  auto& sub = command(app, "list", "The models of the store", "ondol list");
  auto as_json = std::make_shared<bool>(false);
  sub.add_flag("--json", *as_json, "One JSON object");
  on_chosen(sub, exit_code, [as_json] { return list(*as_json); });
}

void add_rm(CLI::App& app, int& exit_code) {
  auto& sub = command(app, "rm", "Removes a model from the store", "ondol rm smollm2");
  auto name = std::make_shared<std::string>();
  sub.add_option("model", *name, "A name of `ondol list`")->required();
  auto as_json = std::make_shared<bool>(false);
  sub.add_flag("--json", *as_json, "One JSON object");
  on_chosen(sub, exit_code, [name, as_json] { return remove(*name, *as_json); });
}

void add_pull(CLI::App& app, int& exit_code) {
  auto& sub = command(app, "pull",
                      "Fetches a model from a Hugging Face hub (HF_ENDPOINT, HF_TOKEN); a broken "
                      "transfer is resumed",
                      "ondol pull hf:bartowski/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M");
  auto flags = std::make_shared<PullFlags>();
  sub.add_option("model", flags->model, "hf:org/repo[:file or quantisation]")->required();
  sub.add_option("--name", flags->name, "The name to keep it under (default: the file's)");
  sub.add_flag("--json", flags->json, "One JSON object");
  on_chosen(sub, exit_code, [flags] { return pull(*flags); });
}

}  // namespace ondol::app
