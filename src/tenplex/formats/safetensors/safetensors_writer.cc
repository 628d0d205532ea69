// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/manifest/side_data.h"
#include "tenplex/formats/safetensors/side_metadata.h"
#include "tenplex/formats/safetensors/whole_tensors.h"
#include "tenplex/formats/whole_tensor.h"
#include "tenplex/io/open_file_limit.h"

namespace tenplex::safetensors {
namespace {

constexpr std::string_view kHint = "; --objects DIR keeps such things in files of their own";
constexpr std::string_view kDropHint = ", --drop-extra-files leaves them out";

}  // namespace

Result<OutputPlan> SafetensorsWriter::prepare(const WriteRequest& request) {
  request_ = request;
  aliases_ = find_aliases(*request.source, *request.target);
  metadata_ = outgoing_metadata(*request.source);
  const bool whole = request.target->device_count() == 1 && all_whole(*request.target);
  TENPLEX_ASSIGN_OR_RETURN(OutputPlan plan, whole ? prepare_file() : prepare_folder());
  plan.stored_as = aliases_;
  return plan;
}

Result<EncodedState> SafetensorsWriter::encode_tree(bool single_file) const {
  if (request_.source->state.root == kNoNode) return EncodedState{};
  StateJsonOptions options;
  options.allow_objects = !single_file || !request_.objects_folder.empty();
  options.object_prefix = single_file ? "" : "objects/";
  options.refusal_hint = " in a safetensors file" + std::string(kHint);
  return encode_state(request_.source->state, request_.source->tensors, options);
}

// ── One file ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<OutputPlan> SafetensorsWriter::prepare_file() {
  const CheckpointInfo& source = *request_.source;
  const bool has_folder = !request_.objects_folder.empty();
  if (!source.extra_files.empty() && !has_folder && request_.keep_all_files)
    return unsupported(fmt::format("a safetensors file has no place for '{}' and {} files in all{}{}",
                                   source.extra_files[0].path, source.extra_files.size(), kHint, kDropHint));
  TENPLEX_ASSIGN_OR_RETURN(EncodedState state, encode_tree(true));
  SideData side;
  side.state_json = std::move(state.json);
  side.aliases = alias_names(*request_.target, aliases_);
  if (has_folder) side.extra_files = source.extra_files;
  if (!side.empty()) metadata_.emplace_back(kSideKey, encode_side_metadata(side));

  OutputPlan plan;
  plan.single_file = true;
  OutputFile& file = plan.files.emplace_back();
  file.segments.emplace_back();
  std::vector<TensorInfo> tensors;
  for (const TensorId tensor : stored_order(*request_.target, aliases_)) {
    tensors.push_back(request_.target->tensors()[tensor.index()]);
    if (size_bytes(tensors.back()) > 0) file.segments.push_back(whole_segment(*request_.target, tensor));
  }
  TENPLEX_ASSIGN_OR_RETURN(single_header_, build_header(tensors, metadata_));
  file.segments[0].size_bytes = std::int64_t(single_header_.size());
  add_objects(std::move(state), true, &plan);
  if (has_folder) TENPLEX_TRY(add_extra_files(true, &plan));
  return plan;
}

// ── A folder ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<OutputPlan> SafetensorsWriter::prepare_folder() {
  // Before millions of headers are made that nobody can write.
  TENPLEX_TRY(check_open_files(request_.target->device_count()));
  find_entries();
  OutputPlan plan;
  std::vector<std::int64_t> sizes;
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t size, add_device_file(device, &plan));
    sizes.push_back(size);
  }
  TENPLEX_TRY(add_manifest(std::move(sizes), &plan));
  TENPLEX_TRY(add_extra_files(false, &plan));
  return plan;
}

void SafetensorsWriter::find_entries() {
  const Collection& target = *request_.target;
  const auto device_count = static_cast<std::size_t>(target.device_count());
  devices_.assign(device_count, {});
  std::vector<std::int32_t> last_tensor(device_count, -1);
  std::vector<DeviceId> holders;
  for (std::size_t index = 0; index < target.tensors().size(); ++index) {
    const TensorId tensor(index);
    if (aliases_[index] != tensor) continue;
    bool numbered = false;
    for (std::int64_t shard = 0; shard < target.shard_count(tensor); ++shard) {
      target.holders(tensor, shard, &holders);
      for (const DeviceId device : holders) {
        numbered = numbered || last_tensor[device.index()] == tensor.value();
        last_tensor[device.index()] = tensor.value();
        devices_[device.index()].push_back({tensor, false, shard});
      }
    }
    if (!numbered) continue;
    for (std::vector<Entry>& entries : devices_)
      for (auto entry = entries.rbegin(); entry != entries.rend() && entry->tensor == tensor; ++entry)
        entry->numbered = true;
  }
  const auto wider = [&](const Entry& a, const Entry& b) {
    const int bits_a = bit_width(target.tensors()[a.tensor.index()].dtype);
    const int bits_b = bit_width(target.tensors()[b.tensor.index()].dtype);
    return bits_a != bits_b ? bits_a > bits_b : std::pair(a.tensor, a.shard) < std::pair(b.tensor, b.shard);
  };
  for (std::vector<Entry>& entries : devices_) std::sort(entries.begin(), entries.end(), wider);
}

std::string SafetensorsWriter::key_of(const Entry& entry) const {
  const std::string& name = request_.target->tensors()[entry.tensor.index()].name;
  if (!entry.numbered) return name;
  std::string key = fmt::format("{}#{}", name, entry.shard);
  while (request_.target->find(key)) key += '#';
  return key;
}

Result<std::vector<TensorInfo>> SafetensorsWriter::local_tensors(std::size_t device) const {
  std::vector<TensorInfo> tensors;
  SubTensor shard;
  for (const Entry& entry : devices_[device]) {
    request_.target->shard(entry.tensor, entry.shard, &shard);
    tensors.push_back(
        {key_of(entry), request_.target->tensors()[entry.tensor.index()].dtype, std::move(shard.local_shape)});
    if (auto checked = check_tensor(tensors.back()); !checked) return unsupported(checked.error().message());
    for (const Piece& piece : shard.pieces)
      if (!packed_bytes(tensors.back().dtype, piece.local_offset))
        return unsupported(fmt::format("tensor '{}': a piece does not start at a whole byte", tensors.back().name));
  }
  return tensors;
}

Metadata SafetensorsWriter::device_metadata(std::size_t device) const {
  Metadata metadata = metadata_;
  metadata.emplace_back(kSideKey, encode_device_metadata(DeviceId(device)));
  return metadata;
}

Result<std::int64_t> SafetensorsWriter::add_device_file(std::size_t device, OutputPlan* plan) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<TensorInfo> tensors, local_tensors(device));
  TENPLEX_ASSIGN_OR_RETURN(const std::string header, build_header(tensors, device_metadata(device)));
  OutputFile& file = plan->files.emplace_back();
  file.path = fmt::format("device-{:05}-of-{:05}.safetensors", device, devices_.size());
  file.segments.reserve(tensors.size() + 1);
  file.segments.emplace_back().size_bytes = std::int64_t(header.size());
  std::int64_t size = file.segments[0].size_bytes;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const Entry& entry = devices_[device][k];
    if (size_bytes(tensors[k]) == 0) continue;
    file.segments.push_back({Segment::Kind::kShard, entry.tensor, 0, entry.shard, size_bytes(tensors[k])});
    size += file.segments.back().size_bytes;
  }
  return size;
}

Result<void> SafetensorsWriter::add_manifest(std::vector<std::int64_t> file_sizes, OutputPlan* plan) {
  const Collection& target = *request_.target;
  TENPLEX_ASSIGN_OR_RETURN(EncodedState state, encode_tree(false));
  ManifestHead head;
  for (std::size_t device = 0; device < devices_.size(); ++device)
    head.files.push_back({plan->files[device].path, file_sizes[device]});
  head.layout = request_.layout;
  head.metadata = metadata_;
  head.side.state_json = std::move(state.json);
  head.side.aliases = alias_names(target, aliases_);
  head.side.extra_files = request_.source->extra_files;
  std::vector<bool> numbered(target.tensors().size());
  for (const std::vector<Entry>& entries : devices_)
    for (const Entry& entry : entries)
      if (entry.numbered) numbered[entry.tensor.index()] = true;
  ManifestWriter writer(head);
  SubTensor shard;
  std::vector<DeviceId> holders;
  for (std::size_t index = 0; index < target.tensors().size(); ++index) {
    const TensorId tensor(index);
    if (aliases_[index] != tensor) continue;
    writer.begin_tensor(target.tensors()[index]);
    for (std::int64_t number = 0; number < target.shard_count(tensor); ++number) {
      target.shard(tensor, number, &shard);
      target.holders(tensor, number, &holders);
      writer.add_shard(shard, holders, key_of({tensor, numbered[index], number}));
    }
    writer.end_tensor();
  }
  TENPLEX_ASSIGN_OR_RETURN(manifest_, std::move(writer).finish());
  plan->manifest = OutputFile{std::string(kManifestName), {Segment{}}};
  plan->manifest->segments[0].size_bytes = std::int64_t(manifest_.size());
  add_objects(std::move(state), false, plan);
  return {};
}

// ── Both ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

void SafetensorsWriter::add_objects(EncodedState state, bool in_objects_folder, OutputPlan* plan) {
  for (std::size_t k = 0; k < state.objects.size(); ++k) {
    pickles_.emplace(static_cast<std::int32_t>(plan->files.size()), std::move(state.pickles[k]));
    OutputFile& file = plan->files.emplace_back();
    file.path = state.objects[k].path;
    file.in_objects_folder = in_objects_folder;
    file.segments.emplace_back().size_bytes = state.objects[k].size_bytes;
  }
}

Result<void> SafetensorsWriter::add_extra_files(bool in_objects_folder, OutputPlan* plan) const {
  const std::vector<ExtraFile>& extra = request_.source->extra_files;
  std::set<std::string, std::less<>> taken = {std::string(kManifestName)};
  for (const OutputFile& file : plan->files) taken.insert(file.path);
  for (std::size_t k = 0; k < extra.size(); ++k) {
    if (!taken.insert(extra[k].path).second)
      return unsupported(fmt::format("the source has a file '{}' of its own, whose name is needed", extra[k].path));
    OutputFile& file = plan->files.emplace_back();
    file.path = extra[k].path;
    file.in_objects_folder = in_objects_folder;
    if (extra[k].size_bytes > 0)
      file.segments.push_back({Segment::Kind::kExtra, TensorId(), 0, std::int64_t(k), extra[k].size_bytes});
  }
  return {};
}

Result<std::string> SafetensorsWriter::literal(std::int32_t file, std::size_t segment,
                                               std::span<const std::uint32_t> crcs) const {
  (void)segment;
  (void)crcs;
  if (file < 0) return manifest_;
  if (const auto pickle = pickles_.find(file); pickle != pickles_.end()) return pickle->second;
  if (devices_.empty()) return single_header_;
  const auto device = static_cast<std::size_t>(file);
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<TensorInfo> tensors, local_tensors(device));
  return build_header(tensors, device_metadata(device));
}

}  // namespace tenplex::safetensors
