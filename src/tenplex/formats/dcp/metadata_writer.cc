// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Source: what pickle.dump(Metadata(...), protocol 4) writes; docs/formats/dcp.md, "The pickle".
#include "tenplex/formats/dcp/metadata_writer.h"

#include <algorithm>
#include <string_view>

namespace tenplex::dcp {
namespace {

constexpr int kProtocol = 4;
constexpr std::size_t kPartBytes = 256 << 10;
constexpr std::int64_t kKeptBytes = 4 << 20;  // of text that is not made twice
constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kFilesystem = "torch.distributed.checkpoint.filesystem";

// Remembers the value on top of the stack and takes it off.
std::uint32_t keep(PickleWriter& out) {
  const std::uint32_t index = out.put();
  out.pop();
  return index;
}

std::uint32_t keep_global(PickleWriter& out, std::string_view module, std::string_view name) {
  out.global(module, name);
  return keep(out);
}

std::uint32_t keep_text(PickleWriter& out, std::string_view text) {
  out.text_once(text);
  return keep(out);
}

// An empty instance of the class at `index`, then its state, up to the values.
void begin_object(PickleWriter& out, std::uint32_t index) {
  out.get(index);
  out.empty_tuple();
  out.new_object();
  out.empty_dict();
  out.mark();
}

void end_object(PickleWriter& out) {
  out.set_items();
  out.build();
}

// Who wrote the folder and where is nobody's business: all fields as a fresh StorageMeta() has them.
void write_storage_meta(PickleWriter& out) {
  out.global(kMetadata, "StorageMeta");
  out.empty_tuple();
  out.new_object();
  out.empty_dict();
  for (const char* name : {"checkpoint_id", "save_id", "load_id"}) {
    out.text_once(name);
    out.none();
    out.set_item();
  }
  out.text_once("modules");
  out.empty_list();
  out.set_item();
  out.build();
}

}  // namespace

MetadataWriter::MetadataWriter(const OutputItems& items) : items_(items) {
  first_unit_.push_back(0);
  for (std::size_t leaf = 0; leaf < items.listed; ++leaf)
    first_unit_.push_back(first_unit_.back() + items.leaves[leaf].item_count);
  opening_ = make_opening();
  parts_.push_back({Section::kOpening, 0, 0, static_cast<std::int64_t>(opening_.size()), {}});
  hasher_.add_raw(as_bytes(opening_));
  lay_out(Section::kTensors, first_unit_.back());
  lay_out(Section::kPaths, items.has_paths ? static_cast<std::int64_t>(items.listed) : 0);
  lay_out(Section::kStorage, first_unit_.back());
  lay_out(Section::kClosing, 1);
}

std::string MetadataWriter::make_opening() {
  PickleWriter out(kProtocol);
  memo_.size = keep_global(out, "torch", "Size");
  memo_.chunk = keep_global(out, kMetadata, "ChunkStorageMetadata");
  memo_.tensor = keep_global(out, kMetadata, "TensorStorageMetadata");
  memo_.properties = keep_global(out, kMetadata, "TensorProperties");
  memo_.bytes = keep_global(out, kMetadata, "BytesStorageMetadata");
  memo_.index = keep_global(out, kMetadata, "MetadataIndex");
  memo_.storage = keep_global(out, kFilesystem, "_StorageInfo");
  out.global("torch.serialization", "_get_layout");
  out.text_once("torch.strided");
  out.tuple(1);
  out.reduce();
  memo_.layout = keep(out);
  out.global(kMetadata, "_MEM_FORMAT_ENCODING");
  out.integer(0);  // TORCH_CONTIGUOUS_FORMAT
  out.tuple(1);
  out.reduce();
  memo_.memory_format = keep(out);
  memo_.key_properties = keep_text(out, "properties");
  memo_.key_size = keep_text(out, "size");
  memo_.key_chunks = keep_text(out, "chunks");
  memo_.key_offsets = keep_text(out, "offsets");
  memo_.key_sizes = keep_text(out, "sizes");
  memo_.key_fqn = keep_text(out, "fqn");
  memo_.key_index = keep_text(out, "index");
  memo_.key_offset = keep_text(out, "offset");
  memo_.key_path = keep_text(out, "relative_path");
  memo_.key_length = keep_text(out, "length");
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) memo_.dtypes.push_back(0);
  std::vector<bool> used(kDTypeCount, false);
  for (const OutputLeaf& leaf : items_.leaves) {
    if (!leaf.is_tensor) continue;
    const DType dtype = items_.target->tensors()[leaf.tensor.index()].dtype;
    const auto number = static_cast<std::size_t>(dtype);
    if (!used[number]) memo_.dtypes[number] = keep_global(out, "torch", to_string(dtype));
    used[number] = true;
  }
  for (const std::string& file : items_.files) memo_.files.push_back(keep_text(out, file));
  out.global(kMetadata, "Metadata");
  out.empty_tuple();
  out.new_object();
  out.empty_dict();
  out.text_once("state_dict_metadata");
  out.empty_dict();
  return out.take();
}

void MetadataWriter::lay_out(Section section, std::int64_t units) {
  PickleWriter out(kProtocol);
  SubTensor scratch;
  out.take();
  Part part{section, 0, 0, 0, {}};
  for (std::int64_t unit = 0; unit < units; ++unit) {
    write_unit(out, section, unit, &scratch);
    if (unit + 1 != units && out.bytes().size() < kPartBytes) continue;
    part.last = unit + 1;
    add_part(part, out.take());
    part.first = part.last;
  }
  // An empty section still closes the one before it.
  if (units == 0) {
    write_unit(out, section, 0, &scratch);
    add_part(part, out.take());
  }
}

void MetadataWriter::add_part(const Part& part, std::string text) {
  Part& added = parts_.emplace_back(part);
  added.size_bytes = static_cast<std::int64_t>(text.size());
  hasher_.add_raw(as_bytes(text));
  if (kept_bytes_ + added.size_bytes > kKeptBytes) return;
  kept_bytes_ += added.size_bytes;
  text.shrink_to_fit();
  added.text = std::move(text);
}

std::string MetadataWriter::part(std::size_t part) const {
  const Part& wanted = parts_[part];
  if (wanted.section == Section::kOpening) return opening_;
  if (!wanted.text.empty()) return wanted.text;
  PickleWriter out(kProtocol);
  SubTensor scratch;
  out.take();
  if (wanted.first == wanted.last) write_unit(out, wanted.section, wanted.first, &scratch);
  for (std::int64_t unit = wanted.first; unit < wanted.last; ++unit) write_unit(out, wanted.section, unit, &scratch);
  return out.take();
}

MetadataWriter::Position MetadataWriter::position(std::int64_t unit) const {
  const auto after = std::upper_bound(first_unit_.begin(), first_unit_.end(), unit);
  const auto leaf = static_cast<std::size_t>(after - first_unit_.begin()) - 1;
  return {leaf, unit - first_unit_[leaf]};
}

void MetadataWriter::write_unit(PickleWriter& out, Section section, std::int64_t unit, SubTensor* scratch) const {
  const bool any = items_.listed > 0;
  switch (section) {
    case Section::kOpening:
      break;
    case Section::kTensors:
      if (any) write_tensor_unit(out, position(unit), scratch);
      break;
    case Section::kPaths:
      if (unit == 0) {
        out.set_item();  // state_dict_metadata into the fields
        out.text_once("planner_data");
        if (!items_.has_paths) out.none();
        if (items_.has_paths) out.empty_dict();
      }
      if (any && items_.has_paths) write_path_unit(out, static_cast<std::size_t>(unit));
      break;
    case Section::kStorage:
      if (unit == 0) {
        out.set_item();
        out.text_once("storage_data");
        out.empty_dict();
      }
      if (any) write_storage_unit(out, position(unit), scratch);
      break;
    case Section::kClosing:
      out.set_item();
      out.text_once("storage_meta");
      write_storage_meta(out);
      out.set_item();
      out.text_once("version");
      out.text_once("1.0.0");
      out.set_item();
      out.build();
      out.stop();
      break;
  }
}

void MetadataWriter::write_size(PickleWriter& out, const Dims& dims) const {
  out.get(memo_.size);
  if (dims.rank() == 0) {
    out.empty_tuple();
  } else if (dims.rank() <= 3) {
    for (const std::int64_t value : dims) out.integer(value);
    out.tuple(dims.rank());
  } else {
    out.mark();
    for (const std::int64_t value : dims) out.integer(value);
    out.tuple();
  }
  out.tuple(1);
  out.reduce();
}

// One chunk with, before the first one, the head of its tensor and, after the last one, its end.
void MetadataWriter::write_tensor_unit(PickleWriter& out, const Position& at, SubTensor* scratch) const {
  const OutputLeaf& leaf = items_.leaves[at.leaf];
  if (!leaf.is_tensor) {
    out.text_once(items_.name(at.leaf));
    out.get(memo_.bytes);
    out.empty_tuple();
    out.new_object();
    out.set_item();
    return;
  }
  const TensorInfo& tensor = items_.target->tensors()[leaf.tensor.index()];
  if (at.item == 0) {
    out.text_once(items_.name(at.leaf));
    begin_object(out, memo_.tensor);
    out.get(memo_.key_properties);
    out.get(memo_.properties);
    out.empty_tuple();
    out.new_object();
    out.mark();
    out.get(memo_.dtypes[static_cast<std::size_t>(tensor.dtype)]);
    out.get(memo_.layout);
    out.boolean(leaf.requires_grad);
    out.get(memo_.memory_format);
    out.boolean(false);  // pin_memory
    out.tuple();
    out.build();
    out.get(memo_.key_size);
    write_size(out, tensor.shape);
    out.get(memo_.key_chunks);
    out.empty_list();
  }
  const OutputItem& item = items_.items[leaf.first_item + static_cast<std::size_t>(at.item)];
  const Box box = items_.box_of(leaf, item, scratch);
  begin_object(out, memo_.chunk);
  out.get(memo_.key_offsets);
  write_size(out, box.offset);
  out.get(memo_.key_sizes);
  write_size(out, box.extent);
  end_object(out);
  out.append();
  if (at.item + 1 < leaf.item_count) return;
  end_object(out);
  out.set_item();
}

void MetadataWriter::write_path_unit(PickleWriter& out, std::size_t leaf) const {
  const std::string name = items_.name(leaf);
  const std::vector<PathStep> path = items_.path(leaf);
  out.text_once(name);
  out.mark();
  if (path.empty()) out.text_once(name);
  for (const PathStep& step : path) {
    if (step.is_index) {
      out.integer(step.index);
    } else {
      out.text_once(step.key);
    }
  }
  out.tuple();
  out.set_item();
}

void MetadataWriter::write_storage_unit(PickleWriter& out, const Position& at, SubTensor* scratch) const {
  const OutputLeaf& leaf = items_.leaves[at.leaf];
  const OutputItem& item = items_.items[leaf.first_item + static_cast<std::size_t>(at.item)];
  begin_object(out, memo_.index);
  out.get(memo_.key_fqn);
  out.text_once(items_.name(at.leaf));
  // torch leaves the index of a byte item None.
  out.get(memo_.key_index);
  if (leaf.is_tensor) {
    out.integer(at.item);
    out.get(memo_.key_offset);
    write_size(out, items_.box_of(leaf, item, scratch).offset);
  } else {
    out.none();
  }
  end_object(out);
  begin_object(out, memo_.storage);
  out.get(memo_.key_path);
  out.get(memo_.files[static_cast<std::size_t>(item.file)]);
  out.get(memo_.key_offset);
  out.integer(item.offset);
  out.get(memo_.key_length);
  out.integer(item.length);
  end_object(out);
  out.set_item();
}

}  // namespace tenplex::dcp
