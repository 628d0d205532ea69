// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writing: an item is an archive, so a data file is literal, data, literal, data, …, where one literal is the end of an
// archive and the beginning of the next:
//
//   __0_0.distcp   │ object │ object │ zip head │ data │ zip tail, zip head │ data │ zip tail │
//   segments         literal ───────────────────  piece  literal ────────────  piece  literal
//
// Per chunk only its place is kept; literals are made when they are asked for.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "tenplex/formats/dcp/dcp_format.h"
#include "tenplex/formats/dcp/folder.h"
#include "tenplex/formats/dcp/item_layout.h"
#include "tenplex/formats/dcp/metadata_writer.h"
#include "tenplex/formats/dcp/output_builder.h"
#include "tenplex/formats/dcp/shared_nodes.h"
#include "tenplex/formats/dcp/side_file.h"
#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/torch/torch_item.h"

namespace tenplex {
namespace dcp {
namespace {

constexpr std::size_t kMaxKinds = 1024;
constexpr std::uint32_t kNoKind = UINT32_MAX;
constexpr std::string_view kDcpKeys = "DCP_";      // metadata that describes how the source was cut
constexpr std::int64_t kLiteralBytes = 256 << 10;  // a literal ends after the first archive part that reaches this

class DcpWriter final : public CheckpointWriter {
 public:
  explicit DcpWriter(FolderContents contents) : contents_(std::move(contents)) {}
  Result<OutputPlan> prepare(const WriteRequest& request) override;
  Result<std::string> literal(std::int32_t file, std::size_t segment,
                              std::span<const std::uint32_t> crcs) const override;
  bool needs_crcs() const override { return true; }
  // Those of the archive's data in front of its part that the literal starts with.
  std::size_t crcs_needed(std::int32_t file, std::size_t segment) const override {
    const auto index = static_cast<std::size_t>(file);
    return index < starts_.size() ? starts_[index][segment].part / 2 : 0;
  }
  std::vector<StorageView> storage_views(std::int64_t index) const override {
    return storages_[static_cast<std::size_t>(index)];
  }

 private:
  // Where a segment starts: part of the archive of the file's item number `item`.
  struct Start {
    std::uint32_t item = 0;
    std::uint32_t part = 0;
  };

  const OutputLeaf& leaf_of(std::uint32_t item) const { return output_.items.leaves[output_.leaf_of_item[item]]; }
  // The archives of tensors of one dtype and shape.
  struct Kind {
    ZipLayout zip;
    std::string head;  // its first part; of tensors only
  };
  using SharedKind = std::shared_ptr<const Kind>;  // by the list of kinds and calls in progress
  static SharedKind make_kind(ZipLayout zip);
  Result<SharedKind> kind_of(std::uint32_t item) const;
  Result<SharedKind> add_kind(std::uint32_t item);
  Result<OutputFile> lay_out_file(std::size_t file);
  Result<Segment> data_segment(std::uint32_t item, std::size_t number);
  Result<TorchObject> object_of(std::uint32_t item) const;
  struct ArchivePart {
    std::string bytes;
    bool is_last = false;
  };
  Result<ArchivePart> make_part(std::uint32_t item, std::uint32_t part, std::span<const std::uint32_t> data_crcs) const;
  Result<std::string> make_literal(std::size_t file, std::size_t segment, std::span<const std::uint32_t> crcs) const;
  Result<void> describe_tree(const CheckpointInfo& source, SideFile* side) const;
  void describe_contents(SideFile* side);
  Result<void> add_side_files(const WriteRequest& request, OutputPlan* plan);
  OutputFile manifest() const;

  FolderContents contents_;
  std::span<const TensorInfo> tensors_;
  std::unique_ptr<ItemLayouts> layouts_;
  Output output_;
  std::unique_ptr<MetadataWriter> metadata_;
  std::vector<std::vector<Start>> starts_;  // per data file and segment
  std::vector<std::vector<StorageView>> storages_;
  std::string side_file_;
  // Most tensors are alike: an item has the number of its kind, or kNoKind where there are too many.
  std::map<std::pair<DType, Dims>, std::uint32_t> kind_numbers_;
  std::vector<SharedKind> kinds_;
  std::vector<std::uint32_t> kind_of_item_;
};

DcpWriter::SharedKind DcpWriter::make_kind(ZipLayout zip) {
  std::string head = zip.literal(0, {});
  return std::make_shared<const Kind>(Kind{std::move(zip), std::move(head)});
}

Result<TorchObject> DcpWriter::object_of(std::uint32_t item) const {
  const std::uint32_t leaf = output_.leaf_of_item[item];
  const bool listed = leaf < output_.items.listed;
  return layouts_->object(output_.nodes[leaf], listed ? kArchiveFolder : contents_.own_file->top_folder);
}

// The archive around an item's data.
Result<DcpWriter::SharedKind> DcpWriter::kind_of(std::uint32_t item) const {
  if (kind_of_item_[item] != kNoKind) return SharedKind(kinds_[kind_of_item_[item]]);
  const OutputLeaf& leaf = leaf_of(item);
  if (!leaf.is_tensor) {
    TENPLEX_ASSIGN_OR_RETURN(TorchObject object, object_of(item));
    return std::make_shared<const Kind>(Kind{std::move(object.zip), {}});
  }
  SubTensor scratch;
  const Box box = output_.items.box_of(leaf, output_.items.items[item], &scratch);
  return make_kind(tensor_item(tensors_[leaf.tensor.index()].dtype, box.extent));
}

// The same, while the items are laid out: keeps what it makes.
Result<DcpWriter::SharedKind> DcpWriter::add_kind(std::uint32_t item) {
  const OutputLeaf& leaf = leaf_of(item);
  if (!leaf.is_tensor) return kind_of(item);
  SubTensor scratch;
  const Box box = output_.items.box_of(leaf, output_.items.items[item], &scratch);
  const std::pair key(tensors_[leaf.tensor.index()].dtype, box.extent);
  if (const auto known = kind_numbers_.find(key); known != kind_numbers_.end()) {
    kind_of_item_[item] = known->second;
  } else if (kinds_.size() < kMaxKinds) {
    kind_of_item_[item] = static_cast<std::uint32_t>(kinds_.size());
    kind_numbers_.emplace(key, kind_of_item_[item]);
    kinds_.push_back(make_kind(tensor_item(key.first, key.second)));
  }
  return kind_of(item);
}

Result<Segment> DcpWriter::data_segment(std::uint32_t item, std::size_t number) {
  const OutputLeaf& leaf = leaf_of(item);
  Segment segment;
  if (leaf.is_tensor) {
    segment.kind = Segment::Kind::kPiece;
    segment.tensor = leaf.tensor;
    segment.shard = output_.items.items[item].shard;
    segment.piece = output_.items.items[item].piece;
    return segment;
  }
  TENPLEX_ASSIGN_OR_RETURN(TorchObject object, object_of(item));
  segment.kind = Segment::Kind::kStorage;
  segment.tensor = object.storages[number].front().tensor;
  segment.shard = static_cast<std::int64_t>(storages_.size());
  storages_.push_back(std::move(object.storages[number]));
  return segment;
}

Result<OutputFile> DcpWriter::lay_out_file(std::size_t file) {
  OutputFile out;
  out.path = output_.files[file].path;
  std::vector<Start>& starts = starts_[file];
  const std::vector<std::uint32_t>& items = output_.files[file].items;
  out.segments.reserve(2 * items.size() + 1);  // of a tensor: what leads up to its data, and that
  starts.reserve(out.segments.capacity());
  Segment literal;
  const auto end_literal = [&] {
    if (literal.size_bytes > 0) out.segments.push_back(literal);
    literal = Segment{};
  };
  for (std::uint32_t number = 0; number < items.size(); ++number) {
    TENPLEX_ASSIGN_OR_RETURN(const SharedKind kind, add_kind(items[number]));
    const ZipLayout& zip = kind->zip;
    for (std::uint32_t part = 0; part < zip.part_count(); ++part) {
      if (part % 2 == 1) {
        end_literal();
        TENPLEX_ASSIGN_OR_RETURN(Segment data, data_segment(items[number], zip.data_number(part)));
        data.size_bytes = zip.part_size(part);
        out.segments.push_back(data);
        starts.push_back({number, part});
        continue;
      }
      if (literal.size_bytes >= kLiteralBytes || zip.part_size(part) >= kLiteralBytes) end_literal();
      if (literal.size_bytes == 0) starts.push_back({number, part});
      literal.size_bytes += zip.part_size(part);
    }
  }
  end_literal();
  return out;
}

// Part `part` of an item's archive.
Result<DcpWriter::ArchivePart> DcpWriter::make_part(std::uint32_t item, std::uint32_t part,
                                                    std::span<const std::uint32_t> data_crcs) const {
  if (leaf_of(item).is_tensor) {
    TENPLEX_ASSIGN_OR_RETURN(const SharedKind kind, kind_of(item));
    return ArchivePart{part == 0 ? kind->head : kind->zip.literal(part, data_crcs), part + 1 == kind->zip.part_count()};
  }
  TENPLEX_ASSIGN_OR_RETURN(TorchObject object, object_of(item));
  ZipLayout& zip = object.zip;
  return ArchivePart{part == 0 ? zip.first_literal(zip.take_pickle()) : zip.literal(part, data_crcs),
                     part + 1 == zip.part_count()};
}

Result<std::string> DcpWriter::make_literal(std::size_t file, std::size_t segment,
                                            std::span<const std::uint32_t> crcs) const {
  const std::vector<std::uint32_t>& items = output_.files[file].items;
  const std::vector<Start>& starts = starts_[file];
  Start at = starts[segment];
  const Start end =
      segment + 1 < starts.size() ? starts[segment + 1] : Start{static_cast<std::uint32_t>(items.size()), 0};
  std::string out;
  while (at.item < end.item || (at.item == end.item && at.part < end.part)) {
    // Data parts of this archive that lie before: the last ones before this segment, every second one.
    const std::size_t before = at.part / 2;
    std::vector<std::uint32_t> data_crcs(before);
    for (std::size_t i = 0; i < before; ++i) data_crcs[i] = crcs[segment - 1 - 2 * (before - 1 - i)];
    TENPLEX_ASSIGN_OR_RETURN(ArchivePart part, make_part(items[at.item], at.part, data_crcs));
    if (out.empty()) {
      out = std::move(part.bytes);
    } else {
      out += part.bytes;
    }
    at = part.is_last ? Start{at.item + 1, 0} : Start{at.item, at.part + 1};
    if (at.part % 2 == 1) break;
  }
  return out;
}

OutputFile DcpWriter::manifest() const {
  OutputFile out;
  out.path = ".metadata";
  for (std::size_t part = 0; part < metadata_->part_count(); ++part) {
    Segment segment;
    segment.size_bytes = metadata_->part_size(part);
    out.segments.push_back(segment);
  }
  return out;
}

// What the names do not say of the tree.
Result<void> DcpWriter::describe_tree(const CheckpointInfo& source, SideFile* side_file) const {
  SideFile& side = *side_file;
  for (const auto& entry : source.metadata) {
    if (!entry.first.starts_with(kDcpKeys)) side.metadata.push_back(entry);
  }
  const LeafList& leaves = output_.items.tree;
  side.inner_views = shared_inner_views(source, leaves);
  side.shared_nodes = find_shared_nodes(source.state, leaves);
  const bool shares = !side.inner_views.empty() || !side.shared_nodes.empty();
  if (source.state.root != kNoNode && (shares || !is_plain_tree(source))) {
    TENPLEX_ASSIGN_OR_RETURN(EncodedState state, encode_skeleton(source, tensors_, leaves));
    side.repeated = repeated_names(leaves);
    side.side.state_json = std::move(state.json);
    for (std::size_t i = 0; i < state.objects.size(); ++i) {
      side.pickles.emplace_back(state.objects[i].path, std::move(state.pickles[i]));
    }
  }
  return {};
}

void DcpWriter::describe_contents(SideFile* side) {
  side->metadata = std::move(contents_.metadata);
  side->side.state_json = std::move(contents_.state_json);
  side->pickles = std::move(contents_.pickles);
}

// tenplex.json, where there is something to say, and the files that belong to the checkpoint.
Result<void> DcpWriter::add_side_files(const WriteRequest& request, OutputPlan* plan) {
  const CheckpointInfo& source = *request.source;
  SideFile side;
  side.of = metadata_->checksum();
  side.device_count = request.target->device_count();
  side.layout = request.layout;
  side.side.extra_files = source.extra_files;
  if (source.state.root == kNoNode) side.side.aliases = alias_names(*request.target, output_.stored_as);
  if (contents_.graph != nullptr) {
    describe_contents(&side);
  } else {
    TENPLEX_TRY(describe_tree(source, &side));
  }
  for (std::size_t i = 0; i < source.extra_files.size(); ++i) {
    OutputFile extra;
    extra.path = source.extra_files[i].path;
    Segment segment;
    segment.kind = Segment::Kind::kExtra;
    segment.shard = static_cast<std::int64_t>(i);
    segment.size_bytes = source.extra_files[i].size_bytes;
    extra.segments.push_back(segment);
    plan->files.push_back(std::move(extra));
  }
  TENPLEX_ASSIGN_OR_RETURN(side_file_, encode_side_file(side));
  OutputFile out;
  out.path = std::string(kManifestName);
  Segment segment;
  segment.size_bytes = static_cast<std::int64_t>(side_file_.size());
  out.segments.push_back(segment);
  plan->files.push_back(std::move(out));
  return {};
}

Result<OutputPlan> DcpWriter::prepare(const WriteRequest& request) {
  const StateGraph& graph = contents_.graph != nullptr ? *contents_.graph : request.source->state;
  tensors_ = request.target->tensors();
  layouts_ = std::make_unique<ItemLayouts>(graph, tensors_);
  TENPLEX_ASSIGN_OR_RETURN(output_, build_output(request, *layouts_, contents_));
  metadata_ = std::make_unique<MetadataWriter>(output_.items);
  starts_.resize(output_.files.size());
  kind_of_item_.assign(output_.items.items.size(), kNoKind);
  OutputPlan plan;
  plan.stored_as = output_.stored_as;
  for (std::size_t file = 0; file < output_.files.size(); ++file) {
    TENPLEX_ASSIGN_OR_RETURN(OutputFile out, lay_out_file(file));
    plan.files.push_back(std::move(out));
  }
  TENPLEX_TRY(add_side_files(request, &plan));
  plan.manifest = manifest();
  return plan;
}

Result<std::string> DcpWriter::literal(std::int32_t file, std::size_t segment,
                                       std::span<const std::uint32_t> crcs) const {
  if (file < 0) return metadata_->part(segment);
  if (static_cast<std::size_t>(file) >= output_.files.size()) return std::string(side_file_);
  return make_literal(static_cast<std::size_t>(file), segment, crcs);
}

}  // namespace

std::unique_ptr<CheckpointWriter> make_folder_writer(FolderContents contents) {
  return std::make_unique<DcpWriter>(std::move(contents));
}

}  // namespace dcp

std::unique_ptr<CheckpointWriter> make_dcp_writer() { return dcp::make_folder_writer({}); }

}  // namespace tenplex
