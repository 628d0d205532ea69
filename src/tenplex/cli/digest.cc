// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "tenplex/base/printable.h"
#include "tenplex/cli/common_options.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/cli/progress_line.h"
#include "tenplex/cli/source.h"
#include "tenplex/formats/watched_reader.h"
#include "tenplex/reshard/digest.h"

namespace tenplex::cli {
namespace {

struct DigestCommandOptions {
  SourceOptions source;
  WorkOptions work;
  bool json = false;
};

Result<int> run_digest(const Context& context, const DigestCommandOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t memory, options.work.max_memory_bytes());
  TENPLEX_ASSIGN_OR_RETURN(auto reader, open_source(context, options.source, FromMeans::kError));
  std::vector<Digest> digests;
  {
    Executor executor(options.work.threads);
    Progress progress(context.signals.watch());
    const ProgressLine line(progress);
    TENPLEX_ASSIGN_OR_RETURN(digests,
                             or_change_of(*reader, digest_tensors(*reader, DigestOptions{memory}, executor, progress)));
  }
  const auto& tensors = reader->info().tensors;
  std::vector<std::size_t> by_name(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0);
  std::sort(by_name.begin(), by_name.end(), [&](auto a, auto b) { return tensors[a].name < tensors[b].name; });
  if (!options.json) {
    std::string text;
    for (const std::size_t i : by_name)
      text += fmt::format("{}  {}\n", to_string(digests[i]), printable_name(tensors[i].name));
    print(text);
    return kExitOk;
  }
  Json json = {{"path", options.source.path}, {"tensors", Json::object()}};
  for (const std::size_t i : by_name) json["tensors"][tensors[i].name] = to_string(digests[i]);
  print(dump(json));
  return kExitOk;
}

}  // namespace

Command digest_command(CLI::App& app) {
  auto options = std::make_shared<DigestCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "digest", "Print a 128-bit digest of every tensor, sorted by name; it does not depend on how the tensor is cut");
  add_source_options(*command, options->source, "path", "PATH");
  add_work_options(*command, options->work);
  add_json_option(*command, options->json);
  return {command, &options->json, [options](const Context& context) { return run_digest(context, *options); }};
}

}  // namespace tenplex::cli
