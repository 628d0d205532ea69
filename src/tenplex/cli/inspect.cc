// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "tenplex/base/printable.h"
#include "tenplex/cli/common_options.h"
#include "tenplex/cli/describe_cut.h"
#include "tenplex/cli/describe_object.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/cli/mesh_text.h"
#include "tenplex/cli/source.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/state/flatten.h"

namespace tenplex::cli {
namespace {

struct InspectOptions {
  SourceOptions source;
  bool tensors = false;
  bool json = false;
};

/// Chunk numbers ordered by tensor; chunks of tensor t are [first[t], first[t + 1]).
struct ChunksByTensor {
  std::vector<std::size_t> first;
  std::vector<std::uint32_t> chunks;
};

ChunksByTensor chunks_by_tensor(const CheckpointInfo& info) {
  ChunksByTensor sorted;
  sorted.first.assign(info.tensors.size() + 1, 0);
  for (std::size_t chunk = 0; chunk < info.chunks.size(); ++chunk)
    ++sorted.first[info.chunks[chunk].tensor.index() + 1];
  std::partial_sum(sorted.first.begin(), sorted.first.end(), sorted.first.begin());
  sorted.chunks.resize(info.chunks.size());
  auto next = sorted.first;
  for (std::size_t chunk = 0; chunk < info.chunks.size(); ++chunk)
    sorted.chunks[next[info.chunks[chunk].tensor.index()]++] = static_cast<std::uint32_t>(chunk);
  return sorted;
}

std::vector<Cut> cuts_of(const CheckpointInfo& info) {
  const ChunksByTensor sorted = chunks_by_tensor(info);
  std::vector<Cut> cuts;
  cuts.reserve(info.tensors.size());
  std::vector<Box> boxes;
  for (std::size_t tensor = 0; tensor < info.tensors.size(); ++tensor) {
    boxes.clear();
    for (std::size_t i = sorted.first[tensor]; i < sorted.first[tensor + 1]; ++i)
      boxes.push_back(info.chunks[sorted.chunks[i]].box);
    cuts.push_back(cut_of(boxes));
  }
  return cuts;
}

/// What both outputs show, computed once.
struct Summary {
  std::int64_t bytes = 0;
  std::map<std::string, std::int64_t> tensors_by_dtype;
  LeafList objects;       ///< leaves of the state tree that are not tensors
  std::vector<Cut> cuts;  ///< one per tensor, if they are listed
};

Result<Summary> summarise(const CheckpointInfo& info, bool list_tensors) {
  Summary summary;
  for (const TensorInfo& tensor : info.tensors) {
    summary.bytes += size_bytes(tensor);
    ++summary.tensors_by_dtype[std::string(to_string(tensor.dtype))];
  }
  TENPLEX_ASSIGN_OR_RETURN(const LeafList leaves, flatten(info.state));
  summary.objects = leaves.objects();
  if (list_tensors) summary.cuts = cuts_of(info);
  return summary;
}

std::string text_of(const CheckpointInfo& info, const Summary& summary, const InspectOptions& options) {
  std::string dtypes;
  for (const auto& [dtype, count] : summary.tensors_by_dtype)
    dtypes += fmt::format("{}{} × {}", dtypes.empty() ? "   " : ", ", count, dtype);
  std::string text = fmt::format("checkpoint   {}\nformat       {}{}\n", printable_name(options.source.path),
                                 info.format, info.detail.empty() ? "" : fmt::format(" ({})", printable(info.detail)));
  text += info.layout
              ? fmt::format("layout       {}   {}\n", printable_name(info.layout->name), mesh_text(info.layout->mesh))
              : "layout       no name of one is stored; which part of each tensor lies where is known\n";
  text += fmt::format("devices      {}\nfiles        {}\ntensors      {}   {}{}\nchunks       {}\nobjects      {}\n",
                      info.device_count, info.files.size(), info.tensors.size(), format_bytes(summary.bytes), dtypes,
                      info.chunks.size(), summary.objects.size());
  if (info.clipped_tensors > 0)
    text += fmt::format("padding      left out of {} tensor{}\n", info.clipped_tensors,
                        info.clipped_tensors == 1 ? "" : "s");
  for (const ExtraFile& file : info.extra_files)
    text += fmt::format("extra file   {}   {}\n", printable_name(file.path), format_bytes(file.size_bytes));
  for (const std::string& problem : info.problems) text += fmt::format("problem      {}\n", printable(problem));
  if (!options.tensors) return text;
  std::size_t width = 4;
  for (const TensorInfo& tensor : info.tensors)
    width = std::max(width, std::min<std::size_t>(printable_name(tensor.name).size(), 72));
  text += fmt::format("\n{:<{}}  {:<14} {:<22} {:>10}  cut\n", "name", width, "dtype", "shape", "bytes");
  for (std::size_t i = 0; i < info.tensors.size(); ++i) {
    const TensorInfo& tensor = info.tensors[i];
    text +=
        fmt::format("{:<{}}  {:<14} {:<22} {:>10}  {}\n", printable_name(tensor.name), width, to_string(tensor.dtype),
                    to_string(tensor.shape), format_bytes(size_bytes(tensor)), cut_text(summary.cuts[i]));
  }
  for (std::size_t i = 0; i < summary.objects.size(); ++i)
    text += fmt::format("{:<{}}  {}\n", printable_name(summary.objects.name(i)), width,
                        describe_object(info.state, summary.objects.node(i)));
  return text;
}

Json cut_json(const Cut& cut) {
  Json json = {{"boxes", cut.boxes}, {"copies", cut.copies}};
  if (cut.grid) json["parts"] = cut.parts;
  return json;
}

Json json_of(const CheckpointInfo& info, const Summary& summary, const InspectOptions& options) {
  Json json = {{"path", options.source.path},
               {"format", info.format},
               {"detail", info.detail},
               {"layout", nullptr},
               {"devices", info.device_count},
               {"files", info.files},
               {"tensor_count", info.tensors.size()},
               {"tensor_bytes", summary.bytes},
               {"tensors_by_dtype", summary.tensors_by_dtype},
               {"chunk_count", info.chunks.size()},
               {"object_count", summary.objects.size()},
               {"clipped_tensor_count", info.clipped_tensors},
               {"extra_files", Json::array()},
               {"problems", info.problems}};
  if (info.layout) {
    json["layout"] = {{"name", info.layout->name}, {"mesh", Json::object()}};
    for (const auto& [axis, size] : info.layout->mesh) json["layout"]["mesh"][axis] = size;
  }
  for (const ExtraFile& file : info.extra_files)
    json["extra_files"].push_back({{"path", file.path}, {"bytes", file.size_bytes}});
  if (!options.tensors) return json;
  json["tensors"] = Json::array();
  for (std::size_t i = 0; i < info.tensors.size(); ++i) {
    const TensorInfo& tensor = info.tensors[i];
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", to_string(tensor.dtype)},
                               {"shape", std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())},
                               {"bytes", size_bytes(tensor)},
                               {"cut", cut_json(summary.cuts[i])}});
  }
  json["objects"] = Json::array();
  for (std::size_t i = 0; i < summary.objects.size(); ++i)
    json["objects"].push_back(
        {{"name", summary.objects.name(i)}, {"value", describe_object(info.state, summary.objects.node(i))}});
  return json;
}

Result<int> inspect(const Context& context, const InspectOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(auto reader, open_source(context, options.source, FromMeans::kError));
  TENPLEX_ASSIGN_OR_RETURN(const Summary summary, summarise(reader->info(), options.tensors));
  print(options.json ? dump(json_of(reader->info(), summary, options)) : text_of(reader->info(), summary, options));
  return kExitOk;
}

}  // namespace

Command inspect_command(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a checkpoint holds and how it is cut");
  add_source_options(*command, options->source, "path", "PATH");
  command->add_flag("--tensors", options->tensors, "List every tensor and object");
  add_json_option(*command, options->json);
  return {command, &options->json, [options](const Context& context) { return inspect(context, *options); }};
}

}  // namespace tenplex::cli
