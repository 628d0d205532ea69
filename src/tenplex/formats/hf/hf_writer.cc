// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/hf/hf_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/counted.h"
#include "tenplex/formats/hf/hf_index.h"
#include "tenplex/formats/manifest/side_data.h"
#include "tenplex/formats/safetensors/side_metadata.h"
#include "tenplex/formats/safetensors/whole_tensors.h"
#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/whole_tensor.h"

namespace tenplex::hf {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kFileName = "model.safetensors";

std::string_view kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::kNone:
      return "None";
    case NodeKind::kBool:
      return "a bool";
    case NodeKind::kInt:
    case NodeKind::kBigInt:
      return "an integer";
    case NodeKind::kFloat:
      return "a float";
    case NodeKind::kString:
      return "text";
    case NodeKind::kBytes:
    case NodeKind::kByteArray:
      return "bytes";
    case NodeKind::kList:
      return "a list";
    case NodeKind::kTuple:
      return "a tuple";
    case NodeKind::kStorage:
      return "a bare storage";
    default:
      return "an object";
  }
}

/// Errors: unsupported for the first leaf that is no tensor.
Result<void> check_only_tensors(const StateGraph& graph) {
  if (graph.root == kNoNode) return {};
  TENPLEX_ASSIGN_OR_RETURN(const LeafList leaves, flatten(graph));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const NodeKind kind = graph[leaves.node(i)].kind;
    if (kind == NodeKind::kTensor) continue;
    return unsupported(
        fmt::format("hf holds named tensors and nothing else: '{}' is {}", leaves.name(i), kind_name(kind)));
  }
  return {};
}

Result<void> check_whole(const Collection& target) {
  if (target.device_count() == 1 && safetensors::all_whole(target)) return {};
  return unsupported(fmt::format("hf holds whole tensors only, and the target is cut over {}",
                                 counted(target.device_count(), "device")));
}

}  // namespace

Result<OutputPlan> HfWriter::prepare(const WriteRequest& request) {
  request_ = request;
  TENPLEX_TRY(check_whole(*request.target));
  TENPLEX_TRY(check_only_tensors(request.source->state));
  const std::vector<TensorId> aliases = find_aliases(*request.source, *request.target);
  metadata_ = safetensors::outgoing_metadata(*request.source);
  SideData side;
  side.aliases = alias_names(*request.target, aliases);
  const std::vector<std::vector<TensorId>> split_tensors = split(aliases);
  const auto count = static_cast<std::int64_t>(split_tensors.size());
  OutputPlan plan;
  plan.stored_as = aliases;
  if (!side.empty()) metadata_.emplace_back(safetensors::kSideKey, safetensors::encode_side_metadata(side));
  for (std::int64_t k = 0; k < count; ++k) {
    TENPLEX_TRY(add_file(split_tensors[static_cast<std::size_t>(k)],
                         count == 1 ? std::string(kFileName) : shard_name(k + 1, count), &plan));
    if (k == 0 && !side.empty()) metadata_.pop_back();  // said once, in the first file
  }
  if (count > 1) add_index(&plan);
  TENPLEX_TRY(add_extra_files(&plan));
  return plan;
}

std::vector<std::vector<TensorId>> HfWriter::split(const std::vector<TensorId>& aliases) const {
  const std::int64_t limit = request_.max_file_bytes > 0 ? request_.max_file_bytes : kDefaultFileBytes;
  std::vector<std::vector<TensorId>> files(1);
  std::int64_t room = limit;
  for (std::size_t index = 0; index < aliases.size(); ++index) {
    if (aliases[index] != TensorId(index)) continue;
    const std::int64_t bytes = size_bytes(request_.target->tensors()[index]);
    if (bytes > room && !files.back().empty()) {
      files.emplace_back();
      room = limit;
    }
    files.back().push_back(TensorId(index));
    room = std::max<std::int64_t>(room - bytes, 0);
  }
  return files;
}

Result<void> HfWriter::add_file(const std::vector<TensorId>& tensors, std::string path, OutputPlan* plan) {
  std::vector<TensorId> order = tensors;
  const std::span<const TensorInfo> all = request_.target->tensors();
  std::sort(order.begin(), order.end(), [&](TensorId a, TensorId b) {
    const int bits_a = bit_width(all[a.index()].dtype);
    const int bits_b = bit_width(all[b.index()].dtype);
    return bits_a != bits_b ? bits_a > bits_b : a < b;
  });
  OutputFile& file = plan->files.emplace_back();
  file.segments.emplace_back();
  std::vector<TensorInfo> infos;
  for (const TensorId tensor : order) {
    infos.push_back(all[tensor.index()]);
    weight_map_.emplace_back(infos.back().name, path);
    total_parameters_ += volume(infos.back().shape);
    if (size_bytes(infos.back()) == 0) continue;
    file.segments.push_back(whole_segment(*request_.target, tensor));
    total_bytes_ += file.segments.back().size_bytes;
  }
  TENPLEX_ASSIGN_OR_RETURN(std::string header, safetensors::build_header(infos, metadata_));
  file.segments[0].size_bytes = std::int64_t(header.size());
  file.path = std::move(path);
  headers_.push_back(std::move(header));
  return {};
}

void HfWriter::add_index(OutputPlan* plan) {
  index_ = write_index(total_bytes_, total_parameters_, std::move(weight_map_));
  plan->manifest = OutputFile{std::string(kIndexName), {Segment{}}};
  plan->manifest->segments[0].size_bytes = std::int64_t(index_.size());
}

Result<void> HfWriter::add_extra_files(OutputPlan* plan) const {
  const std::vector<ExtraFile>& extra = request_.source->extra_files;
  const std::size_t data_files = plan->files.size();
  for (std::size_t k = 0; k < extra.size(); ++k) {
    const auto same = [&](const OutputFile& file) { return file.path == extra[k].path; };
    const auto data_end = plan->files.begin() + static_cast<std::ptrdiff_t>(data_files);
    if (extra[k].path == kIndexName || std::any_of(plan->files.begin(), data_end, same))
      return unsupported(
          fmt::format("the source has a file '{}' of its own, which hf needs for the tensors", extra[k].path));
    OutputFile& file = plan->files.emplace_back();
    file.path = extra[k].path;
    if (extra[k].size_bytes > 0)
      file.segments.push_back({Segment::Kind::kExtra, TensorId(), 0, std::int64_t(k), extra[k].size_bytes});
  }
  return {};
}

Result<std::string> HfWriter::literal(std::int32_t file, std::size_t segment,
                                      std::span<const std::uint32_t> crcs) const {
  (void)segment;
  (void)crcs;
  return file < 0 ? index_ : headers_[static_cast<std::size_t>(file)];
}

}  // namespace tenplex::hf
