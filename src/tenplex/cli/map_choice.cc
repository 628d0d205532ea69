// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/map_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tenplex/base/bytes.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/cli/text_file.h"
#include "tenplex/formats/mapped_reader.h"
#include "tenplex/io/path.h"
#include "tenplex/ptc/builtin_maps.h"
#include "tenplex/ptc/map_tensors.h"
#include "tenplex/ptc/mesh.h"

namespace tenplex::cli {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::int64_t kMaxConfigBytes = std::int64_t{16} << 20;

Result<NamedSizes> parse_sizes(std::string_view text) { return parse_named_numbers(text, "sizes", "NAME=NUMBER"); }

Result<void> check_config_size(std::int64_t bytes) {
  if (bytes <= kMaxConfigBytes) return {};
  return out_of_range(
      fmt::format("'{}' has {}: expected at most {}", kConfig, format_bytes(bytes), format_bytes(kMaxConfigBytes)));
}

/// The text of the checkpoint's config.json, or of the one beside it; nothing where there is none.
Result<std::optional<std::string>> config_text(FileSystem& files, const std::string& path,
                                               const CheckpointReader& reader) {
  for (const ExtraFile& extra : reader.info().extra_files)
    if (extra.path == kConfig) {
      TENPLEX_TRY(check_config_size(extra.size_bytes));
      TENPLEX_ASSIGN_OR_RETURN(std::string text, reader.read_extra_file(extra));
      return std::optional(std::move(text));
    }
  const auto status = files.status(path);
  const bool folder = status && status->kind == FileKind::kFolder;
  const auto source = files.open(fmt::format("{}/{}", folder ? path : parent_path(path), kConfig));
  if (!source) return std::optional<std::string>();
  TENPLEX_TRY(check_config_size((*source)->size()));
  TENPLEX_ASSIGN_OR_RETURN(std::string text, read_string(**source, 0, (*source)->size()));
  return std::optional(std::move(text));
}

}  // namespace

void add_map_options(CLI::App& command, MapChoice& choice) {
  CLI::Option* map =
      command.add_option("--map", choice.map, "Read the source under other names: a built-in map or a YAML file");
  map->type_name("NAME|FILE");
  command.add_option("--sizes", choice.sizes, "Numbers for the map, where config.json does not have them")
      ->type_name("NAME=N,…")
      ->needs(map);
}

Result<NamingMap> load_map(FileSystem& files, const std::string& name_or_path) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string text,
                           builtin_or_file(files, "map", builtin_maps(), name_or_path, std::int64_t{kMaxMapBytes}));
  return parse_naming_map(text, name_or_path);
}

Result<std::unique_ptr<CheckpointReader>> under_other_names(FileSystem& files, const std::string& path,
                                                            std::unique_ptr<CheckpointReader> reader,
                                                            const MapChoice& choice) {
  TENPLEX_ASSIGN_OR_RETURN(const NamingMap map, load_map(files, choice.map));
  TENPLEX_ASSIGN_OR_RETURN(const NamedSizes given, parse_sizes(choice.sizes));
  TENPLEX_ASSIGN_OR_RETURN(const std::optional<std::string> text, config_text(files, path, *reader));
  const Json config = text ? Json::parse(*text, nullptr, false) : Json::object();
  if (!config.is_object()) return corrupt(fmt::format("the '{}' of '{}' is no JSON object", kConfig, path));
  TENPLEX_ASSIGN_OR_RETURN(const NamedSizes sizes,
                           map_sizes(map, given, [&](std::string_view key) -> std::optional<std::int64_t> {
                             const auto found = config.find(key);
                             if (found == config.end() || !found->is_number_integer()) return std::nullopt;
                             return found->get<std::int64_t>();
                           }));
  auto mapped = map_tensors(map, reader->info().tensors, sizes).with_context(fmt::format("'{}'", path));
  if (!mapped) return std::move(mapped).error();
  return map_checkpoint(std::move(reader), std::move(mapped->map));
}

}  // namespace tenplex::cli
