// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "tenplex/cli/common_options.h"
#include "tenplex/cli/parameter_order.h"
#include "tenplex/formats/clipped_reader.h"
#include "tenplex/formats/safetensors/rank_folder.h"
#include "tenplex/formats/selected_reader.h"
#include "tenplex/formats/watched_reader.h"
#include "tenplex/ptc/local_shapes.h"
#include "tenplex/ptc/stored_padding.h"

namespace tenplex::cli {
namespace {

std::vector<std::vector<LocalTensor>> local_tensors(std::vector<safetensors::RankFile> ranks) {
  std::vector<std::vector<LocalTensor>> devices;
  for (safetensors::RankFile& rank : ranks) {
    std::vector<LocalTensor>& device = devices.emplace_back();
    for (TensorInfo& tensor : rank.tensors)
      device.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape)});
  }
  return devices;
}

/// Per-rank files with the shapes and boxes that the layout gives them.
Result<std::unique_ptr<CheckpointReader>> open_ranks(FileSystem& files, const SourceOptions& options,
                                                     const LayoutChoice& from, const Layout& layout) {
  TENPLEX_ASSIGN_OR_RETURN(const MeshSizes sizes, parse_mesh_sizes(from.sizes));
  TENPLEX_ASSIGN_OR_RETURN(auto ranks, safetensors::list_rank_folder(files, options.path, options.reading()));
  auto shapes = global_shapes_from_locals(layout, sizes, local_tensors(std::move(ranks)))
                    .with_context(fmt::format("'{}' with --from {}", options.path, from.sizes));
  if (!shapes) return std::move(shapes).error();
  TENPLEX_ASSIGN_OR_RETURN(const auto collection, RuleCollection::make(layout, sizes, std::move(*shapes)));
  return safetensors::open_rank_folder(files, options.path, *collection,
                                       LayoutNote{layout.name(), layout.text(), sizes}, options.reading());
}

/// The checkpoint without the rows that the layout calls padding; `sizes` are --from.
Result<std::unique_ptr<CheckpointReader>> leave_padding_out(FileSystem& files, const SourceOptions& options,
                                                            std::unique_ptr<CheckpointReader> reader,
                                                            const Layout& unsized_layout, const std::string& sizes) {
  TENPLEX_ASSIGN_OR_RETURN(const SizeSource numbers,
                           checkpoint_sizes(files, options.path, reader.get(), options.map.sizes));
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, sized(unsized_layout, numbers));
  std::optional<MeshSizes> mesh;
  if (!sizes.empty()) {
    TENPLEX_ASSIGN_OR_RETURN(mesh, parse_mesh_sizes(sizes));
  }
  auto tensors = without_padding(layout, mesh, reader->info().tensors);
  if (!tensors && options.from.layout.empty())  // it is the layout of the target
    return std::move(tensors).with_context(recut_text(reader->info(), options.from, {layout.name(), {}, {}})).error();
  if (!tensors) return std::move(tensors).error();
  return clip(std::move(reader), *std::move(tensors));
}

}  // namespace

ReadOptions SourceOptions::reading() const {
  ReadOptions reading;
  reading.objects_folder = objects_folder;
  reading.follow_links = follow_links;
  const auto selection = parse_selection(only);
  reading.model_only = selection && selection->part == Selection::Part::kModel;
  return reading;
}

void add_reading_options(CLI::App& command, SourceOptions& options) {
  add_mesh_option(command, "--from", options.from.sizes,
                  "Sizes of the source's mesh axes, where it does not say how it is cut");
  add_layout_option(command, "--from-layout", options.from.layout,
                    "Layout of the source, where it does not say how it is cut, or holds padding");
  command
      .add_option("--only", options.only,
                  "Leave out what is not named: model (all but optimizer.…) or optimizer, and tensors (no objects)")
      ->type_name("PART,…")
      ->check(CLI::Validator(
          [](std::string& text) {
            const auto selection = parse_selection(text.empty() ? "," : text);
            return selection ? std::string() : selection.error().to_string();
          },
          ""));
  add_map_options(command, options.map);
  command
      .add_option("--param-order", options.parameter_order,
                  "Names of the optimizer's parameters in the order of the model, one per line, where its state is in "
                  "flat buffers (Megatron)")
      ->type_name("FILE");
  add_objects_option(command, options.objects_folder);
  add_follow_links_option(command, options.follow_links);
}

CLI::Option* add_source_options(CLI::App& command, SourceOptions& options, const std::string& name,
                                const std::string& type_name) {
  CLI::Option* source = command.add_option(name, options.path, "Checkpoint: a file or a folder");
  source->required()->type_name(type_name);
  add_reading_options(command, options);
  return source;
}

Result<LayoutChoice> with_numbers(const Context& context, const SourceOptions& options, const CheckpointReader& reader,
                                  LayoutChoice choice) {
  TENPLEX_ASSIGN_OR_RETURN(choice.numbers, checkpoint_sizes(context.files, options.path, &reader, options.map.sizes));
  return choice;
}

namespace {

/// The checkpoint under its own names. `layout` is the source's; "" = none.
Result<std::unique_ptr<CheckpointReader>> open_stored(const Context& context, const SourceOptions& options,
                                                      FromMeans from_means, const std::string& layout_name) {
  const LayoutChoice from{layout_name, options.from.sizes, {}};
  if (options.has_from()) {
    TENPLEX_ASSIGN_OR_RETURN(const bool ranks,
                             safetensors::is_rank_folder(context.files, options.path, options.reading()));
    if (ranks) {
      TENPLEX_ASSIGN_OR_RETURN(const Layout plain, choose_layout(context.files, {}, from, "--from-layout"));
      TENPLEX_ASSIGN_OR_RETURN(const SizeSource numbers,
                               checkpoint_sizes(context.files, options.path, nullptr, options.map.sizes));
      TENPLEX_ASSIGN_OR_RETURN(const Layout layout, sized(plain, numbers));
      return open_watched(context.files, [&](FileSystem& files) { return open_ranks(files, options, from, layout); });
    }
  }
  ReadOptions reading = options.reading();
  if (!options.parameter_order.empty()) {
    TENPLEX_ASSIGN_OR_RETURN(reading.parameter_order, read_parameter_order(context.files, options.parameter_order));
  }
  TENPLEX_ASSIGN_OR_RETURN(auto reader, open_checkpoint(context.files, options.path, reading));
  TENPLEX_ASSIGN_OR_RETURN(const Selection selection, parse_selection(options.only));
  auto selected = select(std::move(reader), selection).with_context(fmt::format("'{}'", options.path));
  if (!selected) return std::move(selected).error();
  reader = std::move(*selected);
  if (!from.layout.empty()) {
    TENPLEX_ASSIGN_OR_RETURN(const Layout layout, load_layout(context.files, from.layout));
    if (tells_padding(layout)) return leave_padding_out(context.files, options, std::move(reader), layout, from.sizes);
  }
  if (options.has_from() && from_means == FromMeans::kError)
    return invalid_argument(
        fmt::format("'{}' ({}) says itself how it is cut: leave --from and --from-layout out; they are for folders of "
                    "per-rank .safetensors files, and for layouts that say how many rows are padding",
                    options.path, reader->info().format));
  return reader;
}

/// Those layouts that are named.
Result<std::vector<Layout>> layouts_of(FileSystem& files, const std::vector<std::string>& names) {
  std::vector<Layout> layouts;
  layouts.reserve(names.size());
  for (const std::string& name : names) {
    if (name.empty()) continue;
    TENPLEX_ASSIGN_OR_RETURN(Layout layout, load_layout(files, name));
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

bool has_size(std::span<const SizeRule> rules, std::string_view name) {
  return std::any_of(rules.begin(), rules.end(), [name](const SizeRule& rule) { return rule.name == name; });
}

bool has_size(std::span<const Layout> layouts, std::string_view name) {
  return std::any_of(layouts.begin(), layouts.end(),
                     [name](const Layout& layout) { return has_size(layout.rules().size_rules, name); });
}

/// What --sizes gives for the map: all but the sizes that only layouts have.
Result<NamedSizes> sizes_of_map(const NamingMap& map, std::span<const Layout> layouts, NamedSizes given) {
  std::erase_if(given, [&](const auto& size) {
    return !has_size(map.rules().sizes, size.first) && has_size(layouts, size.first);
  });
  return given;
}

/// Errors: invalid_argument for a name in --sizes that no layout has.
Result<void> check_known_sizes(std::span<const Layout> layouts, const std::string& text) {
  TENPLEX_ASSIGN_OR_RETURN(const NamedSizes given, parse_named_numbers(text, "sizes", "NAME=NUMBER"));
  if (!given.empty() && layouts.empty())
    return invalid_argument(
        fmt::format("--sizes {} is for a map or a layout: give --map, --layout or --from-layout", text));
  for (const auto& [name, value] : given) {
    if (has_size(layouts, name)) continue;
    std::vector<std::string_view> known;
    for (const SizeRule& rule : layouts.back().rules().size_rules) known.push_back(rule.name);
    return invalid_argument(known.empty()
                                ? fmt::format("layout '{}' has no sizes, found '{}'", layouts.back().name(), name)
                                : fmt::format("layout '{}' has no size '{}'; its sizes are: {}", layouts.back().name(),
                                              name, fmt::join(known, ", ")));
  }
  return {};
}

}  // namespace

Result<void> check_size_names(FileSystem& files, const std::vector<std::string>& layouts, const std::string& text) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<Layout> loaded, layouts_of(files, layouts));
  return check_known_sizes(loaded, text);
}

Result<std::unique_ptr<CheckpointReader>> open_source(const Context& context, const SourceOptions& options,
                                                      FromMeans from_means, const std::string& layout_if_none) {
  const bool mapped = !options.map.map.empty();
  const bool none = options.from.layout.empty();
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<Layout> layouts,
                           layouts_of(context.files, {options.from.layout, layout_if_none}));
  if (!mapped) TENPLEX_TRY(check_known_sizes(layouts, options.map.sizes));
  TENPLEX_ASSIGN_OR_RETURN(
      auto reader, open_stored(context, options, from_means, none && !mapped ? layout_if_none : options.from.layout));
  if (!mapped) return reader;
  TENPLEX_ASSIGN_OR_RETURN(const NamingMap map, load_map(context.files, options.map.map));
  TENPLEX_ASSIGN_OR_RETURN(const SizeSource numbers,
                           checkpoint_sizes(context.files, options.path, reader.get(), options.map.sizes));
  TENPLEX_ASSIGN_OR_RETURN(const NamedSizes given, sizes_of_map(map, layouts, numbers.given));
  TENPLEX_ASSIGN_OR_RETURN(reader, under_other_names(options.path, std::move(reader), map, given, numbers));
  if (!none || layout_if_none.empty()) return reader;
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, load_layout(context.files, layout_if_none));
  return tells_padding(layout) ? leave_padding_out(context.files, options, std::move(reader), layout, {})
                               : std::move(reader);
}

}  // namespace tenplex::cli
