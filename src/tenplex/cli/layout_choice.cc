// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/layout_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "tenplex/cli/text_file.h"
#include "tenplex/formats/state/flatten.h"
#include "tenplex/ptc/builtin_layouts.h"
#include "tenplex/ptc/explicit_collection.h"

namespace tenplex::cli {
namespace {

bool names_only_axis(const MeshSizes& sizes, std::string_view axis) {
  return !sizes.empty() &&
         std::all_of(sizes.begin(), sizes.end(), [axis](const auto& size) { return size.first == axis; });
}

bool is_one_device(const MeshSizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const auto& size) { return size.second == 1; });
}

/// Built-in layouts are known by their name, files by their family.
LayoutNote note_of(const Layout& layout, const MeshSizes& sizes) {
  std::string family = layout.rules().family;
  if (!family.empty() && layout.rules().zero > 0) family += fmt::format("+zero{}", layout.rules().zero);
  return {family.empty() ? layout.name() : family, layout.text(), sizes};
}

/// Takes "+zeroN" off the end of a layout's name: N, or 0 where there is none.
int take_zero(std::string* name) {
  for (int zero = 1; zero <= 3; ++zero) {
    const std::string suffix = fmt::format("+zero{}", zero);
    if (name->size() <= suffix.size() || !name->ends_with(suffix)) continue;
    name->resize(name->size() - suffix.size());
    return zero;
  }
  return 0;
}

/// Errors: unsupported for a tensor that the source's layout gives rows that this one calls padding.
Result<void> check_no_stored_padding(std::span<const TensorInfo> stored, const RuleCollection& collection) {
  for (std::size_t index = 0; index < stored.size(); ++index) {
    const TensorInfo& real = collection.tensors()[index];
    if (stored[index].shape == real.shape) continue;
    return unsupported(fmt::format(
        "tensor '{}' has shape {} in the checkpoint and {} without what {} calls padding: give that layout as "
        "--from-layout, or leave 'data' out of the rule",
        real.name, to_string(stored[index].shape), to_string(real.shape),
        collection.layout().where(collection.rule_line(TensorId(index)))));
  }
  return {};
}

}  // namespace

Result<Layout> load_layout(FileSystem& files, const std::string& name_or_path) {
  std::string name = name_or_path;
  const int zero = take_zero(&name);
  if (const std::size_t plus = name.rfind("+zero"); zero == 0 && plus != std::string::npos && !files.status(name))
    return invalid_argument(
        fmt::format("layout '{}': '{}' is not known: expected +zero1, +zero2 or +zero3", name, name.substr(plus)));
  TENPLEX_ASSIGN_OR_RETURN(const std::string text,
                           builtin_or_file(files, "layout", builtin_layouts(), name, std::int64_t{kMaxLayoutBytes}));
  TENPLEX_ASSIGN_OR_RETURN(Layout layout, parse_layout(text, name));
  return zero == 0 ? std::move(layout) : layout.with_zero(zero);
}

Result<Layout> sized(const Layout& layout, const SizeSource& numbers) {
  TENPLEX_TRY(numbers.check(layout.rules().size_rules));
  return layout.with_sizes(numbers.given, numbers.numbers());
}

Result<Layout> choose_layout(FileSystem& files, const CheckpointInfo& info, const LayoutChoice& choice,
                             std::string_view option) {
  TENPLEX_ASSIGN_OR_RETURN(const MeshSizes sizes, parse_mesh_sizes(choice.sizes));
  if (!choice.layout.empty()) return load_layout(files, choice.layout);
  if (names_only_axis(sizes, "fsdp")) return builtin_layout("fsdp");
  if (info.layout && !sizes.empty()) return parse_layout(info.layout->text, info.layout->name);
  if (sizes.empty() || (is_one_device(sizes) && names_only_axis(sizes, "dp"))) return builtin_layout("replicated");
  return invalid_argument(fmt::format("sizes '{}' need a layout: give {} with a file or one of {}", choice.sizes,
                                      option, list_names(builtin_layouts())));
}

Result<std::vector<std::string>> object_names(const CheckpointInfo& info) {
  std::vector<std::string> names;
  TENPLEX_ASSIGN_OR_RETURN(const LeafList leaves, flatten(info.state));
  const LeafList objects = leaves.objects();
  names.reserve(objects.size());
  for (std::size_t i = 0; i < objects.size(); ++i) names.push_back(objects.name(i));
  return names;
}

std::string recut_text(const CheckpointInfo& info, const LayoutChoice& from, const LayoutChoice& to) {
  const auto with_sizes = [](const std::string& layout, const std::string& sizes) {
    return fmt::format("layout '{}'{}", layout, sizes.empty() ? "" : fmt::format(" ({})", sizes));
  };
  std::string text = fmt::format("from '{}' without a layout", info.format);
  if (info.layout) text = "from " + with_sizes(info.layout->name, to_string(info.layout->mesh));
  if (!from.layout.empty()) text = "from " + with_sizes(from.layout, from.sizes);
  const std::string target = to.layout.empty() && info.layout ? info.layout->name : to.layout;
  return text + " to " + (target.empty() ? fmt::format("({})", to.sizes) : with_sizes(target, to.sizes));
}

TensorList tensors_of(const std::shared_ptr<const CheckpointReader>& reader) {
  return TensorList(reader, &reader->info().tensors);
}

Result<CutCollection> cut(FileSystem& files, const CheckpointInfo& info, TensorList tensors,
                          const LayoutChoice& choice) {
  TENPLEX_ASSIGN_OR_RETURN(const MeshSizes sizes, parse_mesh_sizes(choice.sizes));
  TENPLEX_ASSIGN_OR_RETURN(const Layout unsized_layout, choose_layout(files, info, choice, "--layout"));
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, sized(unsized_layout, choice.numbers));
  TENPLEX_ASSIGN_OR_RETURN(auto objects, object_names(info));
  TENPLEX_ASSIGN_OR_RETURN(auto collection,
                           RuleCollection::make(layout, sizes, std::move(tensors), std::move(objects)));
  TENPLEX_TRY(check_no_stored_padding(info.tensors, *collection));
  Mesh mesh = collection->meshes().front();
  return CutCollection{std::move(collection), note_of(layout, sizes), std::move(mesh)};
}

Result<std::unique_ptr<Collection>> collection_of_checkpoint(const CheckpointInfo& info) {
  std::vector<ObjectInfo> objects;
  TENPLEX_ASSIGN_OR_RETURN(auto names, object_names(info));
  objects.reserve(names.size());
  for (std::string& name : names) objects.push_back({std::move(name), DeviceId(0)});
  ExplicitCollectionBuilder builder(info.tensors, info.device_count, std::move(objects));
  for (std::size_t chunk = 0; chunk < info.chunks.size(); ++chunk) {
    const Chunk stored = info.chunks[chunk];
    TENPLEX_TRY(builder.add_box(stored.device, stored.tensor, stored.box));
  }
  TENPLEX_ASSIGN_OR_RETURN(auto collection, std::move(builder).finish());
  return std::unique_ptr<Collection>(std::move(collection));
}

}  // namespace tenplex::cli
