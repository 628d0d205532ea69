// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/map_choice.h"

#include <fmt/format.h>

#include <utility>

#include "tenplex/cli/common_options.h"
#include "tenplex/cli/text_file.h"
#include "tenplex/formats/mapped_reader.h"
#include "tenplex/formats/mapped_state.h"
#include "tenplex/ptc/builtin_maps.h"
#include "tenplex/ptc/map_tensors.h"
#include "tenplex/ptc/mesh.h"

namespace tenplex::cli {
void add_map_options(CLI::App& command, MapChoice& choice) {
  CLI::Option* map =
      command.add_option("--map", choice.map, "Read the source under other names: a built-in map or a YAML file");
  map->type_name("NAME|FILE");
  command.add_option("--sizes", choice.sizes, "Numbers for maps and layouts, where the checkpoint does not have them")
      ->type_name("NAME=N,…")
      ->check(CLI::Validator(
          [](std::string& text) {
            const auto sizes = parse_named_numbers(text, "sizes", "NAME=NUMBER");
            return sizes ? std::string() : sizes.error().to_string();
          },
          ""));
}

Result<NamingMap> load_map(FileSystem& files, const std::string& name_or_path) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string text,
                           builtin_or_file(files, "map", builtin_maps(), name_or_path, std::int64_t{kMaxMapBytes}));
  return parse_naming_map(text, name_or_path);
}

Result<std::unique_ptr<CheckpointReader>> under_other_names(const std::string& path,
                                                            std::unique_ptr<CheckpointReader> reader,
                                                            const NamingMap& map, const NamedSizes& given,
                                                            const SizeSource& numbers) {
  TENPLEX_TRY(numbers.check(map.rules().sizes));
  TENPLEX_ASSIGN_OR_RETURN(const NamedSizes sizes, map_sizes(map, given, numbers.numbers()));
  auto mapped = map_tensors(map, reader->info().tensors, sizes, tensors_in_objects(reader->info()))
                    .with_context(fmt::format("'{}'", path));
  if (!mapped) return std::move(mapped).error();
  if (mapped->map.targets.empty() && !reader->info().tensors.empty())
    return invalid_argument(fmt::format("map '{}' leaves every tensor of '{}' out", map.name(), path));
  return map_checkpoint(std::move(reader), std::move(mapped->map));
}

}  // namespace tenplex::cli
