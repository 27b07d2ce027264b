// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ondol::store {

/// One file that a repository of a Hugging Face style hub offers.
struct HubFile {
  std::string path;    ///< inside the repository
  uint64_t size = 0;   ///< bytes
  std::string sha256;  ///< 64 lower-case hex digits; empty if the hub states none
};

/// Reads the answer of `/api/models/{repo}/tree/main`: a JSON array of entries with `type`, `path`,
/// `size` and `lfs.oid`. Returns the `.gguf` files. Error if it is not of that form, or names a
/// path outside the repository.
Result<std::vector<HubFile>> parse_listing(std::string_view json);

/// The files of one model: that which `selector` names (a path, a file name, or a quantisation,
/// whatever the case of its letters), or without one the only model there is; all parts, in order,
/// if it is split. Projectors and importance matrices are found by file name only. Usage error that
/// lists what there is, if nothing or more than one thing fits.
Result<std::vector<HubFile>> select_model(const std::vector<HubFile>& files,
                                          const std::string& repo, std::string_view selector);

/// The address in a Link header with rel="next" (RFC 8288), or "".
std::string next_page(std::string_view link_header);

}  // namespace ondol::store
