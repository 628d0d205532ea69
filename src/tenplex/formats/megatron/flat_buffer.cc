// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/flat_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "tenplex/base/checked.h"
#include "tenplex/base/counted.h"

namespace tenplex::megatron {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::size_t kMaxBucketSizes = 4096;  // that are tried

std::int64_t aligned(std::int64_t elements) { return ceil_div(elements, kAlignment) * kAlignment; }

/// Places in all buckets, one after the other, and the elements of all.
struct LaidOut {
  std::vector<std::int64_t> places;  // in the order of the model
  std::int64_t total = 0;
};

LaidOut lay_out(std::span<const std::int64_t> elements, const BucketRule& rule) {
  LaidOut layout;
  layout.places.resize(elements.size());
  std::int64_t base = 0;  // of the bucket
  std::int64_t end = 0;   // in it
  for (std::size_t index = elements.size(); index-- > 0;) {
    const bool apart = rule.shared == index;
    end = aligned(end);
    if (apart) base += std::exchange(end, 0);
    layout.places[index] = base + end;
    end += elements[index];
    if (apart || (rule.bucket_size && end >= *rule.bucket_size)) base += std::exchange(end, 0);
  }
  layout.total = base + end;
  return layout;
}

/// Sizes at which a bucket may end.
std::set<std::int64_t> bucket_sizes(std::span<const std::int64_t> elements) {
  std::set<std::int64_t> sizes;
  std::int64_t end = 0;
  for (std::size_t index = elements.size(); index-- > 0 && sizes.size() < kMaxBucketSizes;) {
    end = aligned(end) + elements[index];
    sizes.insert(end);
  }
  return sizes;
}

bool are_too_many(std::span<const std::int64_t> elements) {
  std::int64_t sum = 0;
  for (const std::int64_t count : elements)
    if (count < 0 || __builtin_add_overflow(sum, count, &sum) || sum > kMaxElements) return true;
  return static_cast<std::int64_t>(elements.size()) > kMaxElements / kAlignment;
}

}  // namespace

std::vector<std::vector<std::size_t>> split_into_buffers(std::span<const BufferKind> kinds) {
  std::vector<std::vector<std::size_t>> buffers;
  for (std::size_t index = 0; index < kinds.size(); ++index) {
    auto found = std::find_if(buffers.begin(), buffers.end(), [&](const std::vector<std::size_t>& buffer) {
      return kinds[buffer.front()] == kinds[index];
    });
    if (found == buffers.end()) found = buffers.insert(buffers.end(), std::vector<std::size_t>());
    found->push_back(index);
  }
  return buffers;
}

Result<std::vector<BufferPlace>> places_in_buckets(std::span<const std::int64_t> elements,
                                                   std::span<const std::int64_t> buckets) {
  if (are_too_many(elements)) return unsupported("the parameters are too large");
  std::vector<BufferPlace> places(elements.size());
  std::size_t bucket = 0;
  std::int64_t end = 0;
  for (std::size_t index = elements.size(); index-- > 0;) {
    if (bucket == buckets.size())
      return unsupported(
          fmt::format("bucket {}: it is full, and the rank has {} more", bucket - 1, counted(index + 1, "parameter")));
    const std::int64_t begin = aligned(end);
    end = begin + elements[index];
    if (end > buckets[bucket])
      return unsupported(fmt::format("bucket {}: a parameter of {} begins at {} of its {}", bucket,
                                     counted(elements[index], "element"), begin, counted(buckets[bucket], "element")));
    places[index] = {bucket, begin};
    // Before a parameter that has a bucket of its own, a bucket ends at the next multiple.
    if (end != buckets[bucket] && aligned(end) != buckets[bucket]) continue;
    end = 0;
    ++bucket;
  }
  if (bucket == buckets.size()) return places;
  return unsupported(fmt::format("bucket {}: it has {}, and the rank's parameters end at {}", bucket,
                                 counted(buckets[bucket], "element"), end));
}

Result<std::vector<std::int64_t>> places_in_total(std::span<const std::int64_t> elements, std::int64_t total,
                                                  const BucketRule& rule) {
  if (are_too_many(elements)) return unsupported("the parameters are too large");
  LaidOut layout = lay_out(elements, rule);
  if (layout.total == total) return std::move(layout.places);
  std::optional<std::vector<std::int64_t>> found;
  const std::int64_t at_first = layout.total;
  for (const std::int64_t size : bucket_sizes(elements)) {
    layout = lay_out(elements, {rule.shared, size});
    if (layout.total != total || layout.places == found) continue;
    if (found)
      return unsupported(
          fmt::format("buckets of more than one size have {} elements in all, and 'ddp_bucket_size' in args "
                      "is not one of them",
                      total));
    found = std::move(layout.places);
  }
  if (found) return *std::move(found);
  return unsupported(fmt::format("it has {}, and the rank's parameters take {}", counted(total, "element"), at_first));
}

}  // namespace tenplex::megatron
