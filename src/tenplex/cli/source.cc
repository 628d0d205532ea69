// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/source.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "tenplex/cli/common_options.h"
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
Result<std::unique_ptr<CheckpointReader>> leave_padding_out(std::unique_ptr<CheckpointReader> reader,
                                                            const Layout& layout, const std::string& sizes) {
  std::optional<MeshSizes> mesh;
  if (!sizes.empty()) {
    TENPLEX_ASSIGN_OR_RETURN(mesh, parse_mesh_sizes(sizes));
  }
  TENPLEX_ASSIGN_OR_RETURN(auto tensors, without_padding(layout, mesh, reader->info().tensors));
  return clip(std::move(reader), std::move(tensors));
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
            const auto selection = parse_selection(text);
            return selection ? std::string() : selection.error().to_string();
          },
          ""));
  add_map_options(command, options.map);
  add_objects_option(command, options.objects_folder);
  add_follow_links_option(command, options.follow_links);
}

void add_source_options(CLI::App& command, SourceOptions& options, const std::string& name,
                        const std::string& type_name) {
  command.add_option(name, options.path, "Checkpoint: a file or a folder")->required()->type_name(type_name);
  add_reading_options(command, options);
}

namespace {

/// The checkpoint under its own names. `layout` is the source's; "" = none.
Result<std::unique_ptr<CheckpointReader>> open_stored(const Context& context, const SourceOptions& options,
                                                      FromMeans from_means, const std::string& layout_name) {
  const LayoutChoice from{layout_name, options.from.sizes};
  if (options.has_from()) {
    TENPLEX_ASSIGN_OR_RETURN(const bool ranks,
                             safetensors::is_rank_folder(context.files, options.path, options.reading()));
    if (ranks) {
      TENPLEX_ASSIGN_OR_RETURN(const Layout layout, choose_layout(context.files, {}, from, "--from-layout"));
      return open_watched(context.files, [&](FileSystem& files) { return open_ranks(files, options, from, layout); });
    }
  }
  TENPLEX_ASSIGN_OR_RETURN(auto reader, open_checkpoint(context.files, options.path, options.reading()));
  TENPLEX_ASSIGN_OR_RETURN(const Selection selection, parse_selection(options.only));
  auto selected = select(std::move(reader), selection).with_context(fmt::format("'{}'", options.path));
  if (!selected) return std::move(selected).error();
  reader = std::move(*selected);
  if (!from.layout.empty()) {
    TENPLEX_ASSIGN_OR_RETURN(const Layout layout, load_layout(context.files, from.layout));
    if (tells_padding(layout)) return leave_padding_out(std::move(reader), layout, from.sizes);
  }
  if (options.has_from() && from_means == FromMeans::kError)
    return invalid_argument(
        fmt::format("'{}' ({}) says itself how it is cut: leave --from and --from-layout out; they are for folders of "
                    "per-rank .safetensors files, and for layouts that say how many rows are padding",
                    options.path, reader->info().format));
  return reader;
}

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_source(const Context& context, const SourceOptions& options,
                                                      FromMeans from_means, const std::string& layout_if_none) {
  const bool mapped = !options.map.map.empty();
  const bool none = options.from.layout.empty();
  TENPLEX_ASSIGN_OR_RETURN(
      auto reader, open_stored(context, options, from_means, none && !mapped ? layout_if_none : options.from.layout));
  if (!mapped) return reader;
  TENPLEX_ASSIGN_OR_RETURN(reader, under_other_names(context.files, options.path, std::move(reader), options.map));
  if (!none || layout_if_none.empty()) return reader;
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, load_layout(context.files, layout_if_none));
  return tells_padding(layout) ? leave_padding_out(std::move(reader), layout, {}) : std::move(reader);
}

}  // namespace tenplex::cli
