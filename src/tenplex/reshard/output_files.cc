// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/output_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "tenplex/base/crc32.h"

namespace tenplex {
namespace {

constexpr std::size_t kZeroBytes = 64 << 10;

// Small literals that follow each other are written together up to this size.
constexpr std::size_t kLiteralBlockBytes = 256 << 10;

std::int64_t size_bytes(const OutputFile& file) {
  std::int64_t bytes = 0;
  for (const Segment& segment : file.segments) bytes += segment.size_bytes;
  return bytes;
}

}  // namespace

Result<std::unique_ptr<OutputFiles>> OutputFiles::create(AtomicTarget& target, AddedFiles& objects,
                                                         const OutputPlan& plan, const OutputLayout& layout,
                                                         const CheckpointWriter& writer,
                                                         const CheckpointReader& source) {
  std::unique_ptr<OutputFiles> files(new OutputFiles(target, objects, plan, layout, writer));
  for (const OutputFile& file : plan.files) {
    auto sink =
        file.in_objects_folder ? objects.create_file(file.path, size_bytes(file)) : target.create_file(file.path);
    if (!sink) {
      if (sink.error().code() != ErrorCode::kResourceExhausted) return std::move(sink).error();
      return std::move(sink).error().with_context(
          fmt::format("file {} of {}, which are all open at once", files->files_.size() + 1, plan.files.size()));
    }
    File& out = files->files_.emplace_back();
    out.sink = std::move(*sink);
    out.crcs.resize(files->needs_crcs_ ? file.segments.size() : 0);
    out.done.resize(file.segments.size());
    if (!file.in_objects_folder) continue;
    const auto index = static_cast<std::int32_t>(files->files_.size() - 1);
    TENPLEX_TRY(files->write_segments(file, index, *out.sink, source));
  }
  return files;
}

Result<void> OutputFiles::write_at(std::size_t file, std::int64_t offset, ByteSpan bytes) {
  bytes_written_ += static_cast<std::int64_t>(bytes.size());
  return files_[file].sink->write_at(offset, bytes);
}

void OutputFiles::note(const OutputArray& array, std::int64_t begin, std::int64_t end, std::uint32_t crc) {
  const bool whole = begin == 0 && end == array.size_bytes;
  for (const Destination& place : layout_.destinations(array)) {
    File& file = files_[static_cast<std::size_t>(place.file)];
    std::uint32_t sum = crc;
    if (!whole) {
      Stripe& stripe = stripe_of(place);
      const std::lock_guard lock(stripe.mutex);
      const auto entry = stripe.parts.try_emplace({place.file, place.segment}).first;
      entry->second.add(begin, end, crc);
      if (!entry->second.covers(array.size_bytes)) continue;
      sum = entry->second.crc();
      stripe.parts.erase(entry);
    }
    if (needs_crcs_) file.crcs[place.segment] = sum;
    file.done[place.segment] = 1;
  }
}

Result<std::string> OutputFiles::literal(std::int32_t file, std::size_t segment,
                                         std::span<const std::uint32_t> crcs) const {
  TENPLEX_ASSIGN_OR_RETURN(std::string bytes, writer_.literal(file, segment, crcs));
  const OutputFile& out = file < 0 ? *plan_.manifest : plan_.files[static_cast<std::size_t>(file)];
  if (static_cast<std::int64_t>(bytes.size()) == out.segments[segment].size_bytes) return bytes;
  return internal_error(fmt::format("segment {} of '{}': expected {} bytes, found {}", segment, out.path,
                                    out.segments[segment].size_bytes, bytes.size()));
}

// One open run of bytes of a file, in parts that lie anywhere in memory.
class OutputFiles::Run {
 public:
  explicit Run(OutputFiles& files) : files_(files) {}

  Result<void> add(const Destination& place, const ReadyBytes& range) {
    const std::int64_t offset = place.offset + range.begin;
    bool joined = place.file == file_ && offset == end_ && parts_.size() < kMaxParts;
    if (!joined && range.begin == 0) {
      TENPLEX_ASSIGN_OR_RETURN(joined, add_literal_before(place));
    }
    if (!joined) {
      TENPLEX_TRY(flush());
      file_ = place.file;
      begin_ = end_ = offset;
      first_whole_ = range.begin == 0 ? place.segment : place.segment + 1;
    }
    append({range.memory, static_cast<std::size_t>(range.size)});
    segment_ = place.segment;
    is_complete_ = range.begin + range.size == range.array->size_bytes;
    return {};
  }

  Result<void> flush() {
    if (parts_.empty()) return {};
    files_.bytes_written_ += end_ - begin_;
    TENPLEX_TRY(files_.files_[static_cast<std::size_t>(file_)].sink->write_parts_at(begin_, parts_));
    parts_.clear();
    literals_.clear();
    file_ = -1;
    return {};
  }

 private:
  static constexpr std::size_t kMaxParts = 1000;
  static constexpr std::int64_t kMaxLiteralBytes = 64 << 10;

  void append(ByteSpan bytes) {
    end_ += static_cast<std::int64_t>(bytes.size());
    if (!parts_.empty() && parts_.back().data() + parts_.back().size() == bytes.data()) {
      parts_.back() = {parts_.back().data(), parts_.back().size() + bytes.size()};
    } else {
      parts_.push_back(bytes);
    }
  }

  // If only a literal lies between the run and `place`, and what it needs is known: adds it and returns true.
  Result<bool> add_literal_before(const Destination& place) {
    if (place.file != file_ || !is_complete_ || place.segment != segment_ + 2 || parts_.size() >= kMaxParts)
      return false;
    const std::uint32_t number = segment_ + 1;
    const auto& segments = files_.plan_.files[static_cast<std::size_t>(file_)].segments;
    const Segment& segment = segments[number];
    if (segment.kind != Segment::Kind::kLiteral || segment.size_bytes > kMaxLiteralBytes) return false;
    std::span<const std::uint32_t> crcs;
    if (files_.needs_crcs_) {
      std::size_t missing = files_.writer_.crcs_needed(file_, number);
      for (std::uint32_t i = number; missing > 0 && i > first_whole_; --i)
        if (segments[i - 1].kind != Segment::Kind::kLiteral) --missing;
      if (missing > 0) return false;
      crcs = std::span(files_.files_[static_cast<std::size_t>(file_)].crcs).first(number);
    }
    TENPLEX_ASSIGN_OR_RETURN(std::string bytes, files_.literal(file_, number, crcs));
    append(as_bytes(literals_.emplace_back(std::move(bytes))));
    files_.files_[static_cast<std::size_t>(file_)].done[number] = 1;
    return true;
  }

  OutputFiles& files_;
  std::int32_t file_ = -1;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::uint32_t first_whole_ = 0;  // from this segment on all data of the file up to end_ are in the run
  std::uint32_t segment_ = 0;      // the last one added
  bool is_complete_ = false;       // up to its end
  std::vector<ByteSpan> parts_;
  std::deque<std::string> literals_;
};

Result<void> OutputFiles::write(std::span<const ReadyBytes> ranges) {
  // Arrays with several destinations write the others on their own.
  Run run(*this);
  for (const ReadyBytes& range : ranges) {
    const ByteSpan bytes(range.memory, static_cast<std::size_t>(range.size));
    const auto places = layout_.destinations(*range.array);
    if (needs_crcs_ || range.track) {
      note(*range.array, range.begin, range.begin + range.size, needs_crcs_ ? crc32(0, bytes) : 0);
    }
    TENPLEX_TRY(run.add(places.front(), range));
    for (const Destination& place : places.subspan(1)) {
      TENPLEX_TRY(write_at(static_cast<std::size_t>(place.file), place.offset + range.begin, bytes));
    }
  }
  return run.flush();
}

Result<void> OutputFiles::write_padding(const OutputArray& array) {
  static constexpr std::array<std::byte, kZeroBytes> kZeros{};
  const Destination& first = layout_.destinations(array).front();
  if (files_[static_cast<std::size_t>(first.file)].done[first.segment] != 0) return {};
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps;
  {
    Stripe& stripe = stripe_of(first);
    const std::lock_guard lock(stripe.mutex);
    gaps = stripe.parts[{first.file, first.segment}].gaps(0, array.size_bytes);
  }
  for (const auto& [begin, end] : gaps) {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t size = std::min<std::int64_t>(kZeroBytes, end - at);
      const ReadyBytes zeros{&array, at, kZeros.data(), size, true};
      TENPLEX_TRY(write({&zeros, 1}));
      at += size;
    }
  }
  return {};
}

Result<void> OutputFiles::check_data_segments(std::size_t file) const {
  const auto& segments = plan_.files[file].segments;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].kind == Segment::Kind::kLiteral || segments[i].kind == Segment::Kind::kExtra) continue;
    if (files_[file].done[i] == 0 && segments[i].size_bytes > 0) {
      return internal_error(fmt::format("segment {} of '{}' was not written in full", i, plan_.files[file].path));
    }
  }
  return {};
}

// Literal and extra segments; `index` is −1 for the manifest.
Result<void> OutputFiles::write_segments(const OutputFile& file, std::int32_t index, ByteSink& sink,
                                         const CheckpointReader& source) {
  std::span<const std::uint32_t> crcs;
  if (index >= 0 && needs_crcs_) {
    TENPLEX_TRY(check_data_segments(static_cast<std::size_t>(index)));
    crcs = files_[static_cast<std::size_t>(index)].crcs;
  }
  std::string block;
  std::int64_t block_offset = 0;
  std::int64_t offset = 0;
  const auto flush = [&]() -> Result<void> {
    if (block.empty()) return {};
    bytes_written_ += static_cast<std::int64_t>(block.size());
    auto written = sink.write_at(block_offset, as_bytes(block));
    block.clear();
    return written;
  };
  for (std::size_t i = 0; i < file.segments.size(); ++i) {
    const Segment& segment = file.segments[i];
    std::string bytes;
    if (segment.kind == Segment::Kind::kLiteral) {
      if (index >= 0 && files_[static_cast<std::size_t>(index)].done[i] != 0) {
        offset += segment.size_bytes;
        continue;
      }
      TENPLEX_ASSIGN_OR_RETURN(bytes, literal(index, i, crcs.first(crcs.empty() ? 0 : i)));
    } else if (segment.kind == Segment::Kind::kExtra) {
      const ExtraFile& extra = source.info().extra_files[static_cast<std::size_t>(segment.shard)];
      TENPLEX_ASSIGN_OR_RETURN(bytes, source.read_extra_file(extra));
      if (static_cast<std::int64_t>(bytes.size()) != segment.size_bytes) {
        return corrupt(
            fmt::format("file '{}': expected {} bytes, found {}", extra.path, segment.size_bytes, bytes.size()));
      }
    } else {
      offset += segment.size_bytes;
      continue;
    }
    if (bytes.size() >= kLiteralBlockBytes) {  // on its own, without a copy
      TENPLEX_TRY(flush());
      bytes_written_ += segment.size_bytes;
      TENPLEX_TRY(sink.write_at(offset, as_bytes(bytes)));
      offset += segment.size_bytes;
      continue;
    }
    if (block_offset + static_cast<std::int64_t>(block.size()) != offset || block.size() > kLiteralBlockBytes) {
      TENPLEX_TRY(flush());
    }
    if (block.empty()) block_offset = offset;
    block += bytes;
    offset += segment.size_bytes;
  }
  return flush();
}

Result<void> OutputFiles::write_literals(const CheckpointReader& source, Executor& executor, std::stop_token stop) {
  return executor.for_each(
      static_cast<std::int64_t>(files_.size()),
      [&](std::int64_t i) {
        const auto file = static_cast<std::size_t>(i);
        if (plan_.files[file].in_objects_folder || plan_.files[file].after_others) return Result<void>();
        return write_segments(plan_.files[file], static_cast<std::int32_t>(i), *files_[file].sink, source);
      },
      std::move(stop));
}

Result<void> OutputFiles::write_last_files(const CheckpointReader& source) {
  for (std::size_t file = 0; file < files_.size(); ++file)
    if (plan_.files[file].after_others)
      TENPLEX_TRY(write_segments(plan_.files[file], static_cast<std::int32_t>(file), *files_[file].sink, source));
  return {};
}

Result<void> OutputFiles::finish(const CheckpointReader& source, Executor& executor, std::stop_token stop) {
  TENPLEX_TRY(executor.for_each(
      static_cast<std::int64_t>(files_.size()),
      [&](std::int64_t i) { return target_.finish_file(*files_[static_cast<std::size_t>(i)].sink); }, std::move(stop)));
  TENPLEX_TRY(sync_names());
  if (!plan_.manifest) return {};
  TENPLEX_TRY(write_manifest(source));
  return target_.sync_names();
}

Result<void> OutputFiles::sync_names() {
  TENPLEX_TRY(objects_.publish());
  if (target_.options().sync) TENPLEX_TRY(objects_.sync_names());
  return target_.sync_names();
}

Result<void> OutputFiles::write_manifest(const CheckpointReader& source) {
  TENPLEX_ASSIGN_OR_RETURN(const auto sink, target_.create_file(plan_.manifest->path));
  TENPLEX_TRY(write_segments(*plan_.manifest, -1, *sink, source));
  return target_.finish_file(*sink);
}

}  // namespace tenplex
