// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/output_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tenplex/base/crc32.h"

namespace tenplex {
namespace {

constexpr std::size_t kZeroBytes = 64 << 10;

// Small literals that follow each other are written together up to this size.
constexpr std::size_t kLiteralBlockBytes = 256 << 10;

}  // namespace

Result<std::unique_ptr<OutputFiles>> OutputFiles::create(AtomicTarget& target, const OutputPlan& plan,
                                                         const OutputLayout& layout, const CheckpointWriter& writer) {
  std::unique_ptr<OutputFiles> files(new OutputFiles(target, plan, layout, writer));
  for (const OutputFile& file : plan.files) {
    TENPLEX_ASSIGN_OR_RETURN(auto sink, target.create_file(file.path));
    files->sinks_.push_back(std::move(sink));
    files->parts_.emplace_back(file.segments.size());
  }
  return files;
}

Result<void> OutputFiles::write_at(std::size_t file, std::int64_t offset, ByteSpan bytes) {
  bytes_written_ += static_cast<std::int64_t>(bytes.size());
  return sinks_[file]->write_at(offset, bytes);
}

void OutputFiles::note(const OutputArray& array, std::int64_t begin, std::int64_t end, std::uint32_t crc) {
  for (const Destination& place : layout_.destinations(array)) {
    const std::lock_guard lock(locks_[(place.segment + static_cast<std::size_t>(place.file) * 31) % locks_.size()]);
    parts_[static_cast<std::size_t>(place.file)][place.segment].add(begin, end, crc);
  }
}

Result<void> OutputFiles::write(std::span<const ReadyBytes> ranges) {
  // One open run at a time; arrays with several destinations write the others on their own.
  std::int32_t file = -1;
  std::int64_t offset = 0;
  ByteSpan run;
  const auto flush = [&]() -> Result<void> {
    return run.empty() ? Result<void>() : write_at(static_cast<std::size_t>(file), offset, run);
  };
  for (const ReadyBytes& range : ranges) {
    const ByteSpan bytes(range.memory, static_cast<std::size_t>(range.size));
    const auto places = layout_.destinations(*range.array);
    const Destination& first = places.front();
    if (first.file == file && first.offset + range.begin == offset + static_cast<std::int64_t>(run.size()) &&
        range.memory == run.data() + run.size()) {
      run = {run.data(), run.size() + bytes.size()};
    } else {
      TENPLEX_TRY(flush());
      file = first.file;
      offset = first.offset + range.begin;
      run = bytes;
    }
    for (const Destination& place : places.subspan(1)) {
      TENPLEX_TRY(write_at(static_cast<std::size_t>(place.file), place.offset + range.begin, bytes));
    }
    if (needs_crcs_ || range.track) {
      note(*range.array, range.begin, range.begin + range.size, needs_crcs_ ? crc32(0, bytes) : 0);
    }
  }
  return flush();
}

Result<void> OutputFiles::write_padding(const OutputArray& array) {
  static constexpr std::array<std::byte, kZeroBytes> kZeros{};
  const Destination& first = layout_.destinations(array).front();
  const auto gaps = parts_[static_cast<std::size_t>(first.file)][first.segment].gaps(0, array.size_bytes);
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

Result<std::vector<std::uint32_t>> OutputFiles::segment_crcs(std::size_t file) const {
  const auto& segments = plan_.files[file].segments;
  std::vector<std::uint32_t> crcs(segments.size(), 0);
  if (!needs_crcs_) return crcs;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].kind == Segment::Kind::kLiteral || segments[i].kind == Segment::Kind::kExtra) continue;
    if (!parts_[file][i].covers(segments[i].size_bytes)) {
      return internal_error(fmt::format("segment {} of '{}' was not written in full", i, sinks_[file]->name()));
    }
    crcs[i] = segments[i].size_bytes == 0 ? 0 : parts_[file][i].crc();
  }
  return crcs;
}

// Literal and extra segments; `index` is −1 for the manifest.
Result<void> OutputFiles::write_segments(const OutputFile& file, std::int32_t index, ByteSink& sink,
                                         const CheckpointReader& source) {
  std::vector<std::uint32_t> crcs;
  if (index >= 0) {
    TENPLEX_ASSIGN_OR_RETURN(crcs, segment_crcs(static_cast<std::size_t>(index)));
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
      TENPLEX_ASSIGN_OR_RETURN(bytes, writer_.literal(index, i, std::span(crcs).first(index < 0 ? 0 : i)));
    } else if (segment.kind == Segment::Kind::kExtra) {
      const ExtraFile& extra = source.info().extra_files[static_cast<std::size_t>(segment.shard)];
      TENPLEX_ASSIGN_OR_RETURN(bytes, source.read_extra_file(extra));
    } else {
      offset += segment.size_bytes;
      continue;
    }
    if (static_cast<std::int64_t>(bytes.size()) != segment.size_bytes) {
      return internal_error(fmt::format("segment {} of '{}': expected {} bytes, found {}", i, sink.name(),
                                        segment.size_bytes, bytes.size()));
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
      static_cast<std::int64_t>(sinks_.size()),
      [&](std::int64_t i) {
        const auto file = static_cast<std::size_t>(i);
        return write_segments(plan_.files[file], static_cast<std::int32_t>(i), *sinks_[file], source);
      },
      std::move(stop));
}

Result<void> OutputFiles::finish(const CheckpointReader& source, Executor& executor, std::stop_token stop) {
  TENPLEX_TRY(executor.for_each(
      static_cast<std::int64_t>(sinks_.size()),
      [&](std::int64_t i) { return target_.finish_file(*sinks_[static_cast<std::size_t>(i)]); }, std::move(stop)));
  if (!plan_.manifest) return target_.sync_names();
  TENPLEX_TRY(target_.sync_names());
  TENPLEX_TRY(write_manifest(source));
  return target_.sync_names();
}

Result<void> OutputFiles::write_manifest(const CheckpointReader& source) {
  TENPLEX_ASSIGN_OR_RETURN(const auto sink, target_.create_file(plan_.manifest->path));
  TENPLEX_TRY(write_segments(*plan_.manifest, -1, *sink, source));
  return target_.finish_file(*sink);
}

}  // namespace tenplex
