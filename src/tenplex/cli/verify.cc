// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/verify.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "tenplex/base/counted.h"
#include "tenplex/base/printable.h"
#include "tenplex/cli/common_options.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/cli/progress_line.h"
#include "tenplex/cli/source.h"
#include "tenplex/formats/master_slot.h"
#include "tenplex/formats/safetensors/rank_folder.h"
#include "tenplex/formats/watched_reader.h"
#include "tenplex/reshard/verify.h"

namespace tenplex::cli {
namespace {

struct VerifyCommandOptions {
  SourceOptions first;  ///< the reading options but --map are for both
  std::string second;
  WorkOptions work;
  bool json = false;
};

std::string_view word_for(TensorDifference::Kind kind) {
  switch (kind) {
    case TensorDifference::Kind::kOnlyInFirst:
      return "only_in_first";
    case TensorDifference::Kind::kOnlyInSecond:
      return "only_in_second";
    case TensorDifference::Kind::kShape:
      return "shape";
    case TensorDifference::Kind::kDType:
      return "dtype";
    case TensorDifference::Kind::kValues:
      return "values";
  }
  return "values";
}

const TensorInfo& named(const TensorDifference& difference) {
  return difference.kind == TensorDifference::Kind::kOnlyInSecond ? difference.second : difference.first;
}

std::string describe(const TensorDifference& difference) {
  std::string name = fmt::format("tensor '{}': ", named(difference).name);
  switch (difference.kind) {
    case TensorDifference::Kind::kOnlyInFirst:
      return name + "only in the first";
    case TensorDifference::Kind::kOnlyInSecond:
      return name + "only in the second";
    case TensorDifference::Kind::kShape:
      return name + fmt::format("shape {} in the first, {} in the second", to_string(difference.first.shape),
                                to_string(difference.second.shape));
    case TensorDifference::Kind::kDType:
      return name + fmt::format("{} in the first, {} in the second", to_string(difference.first.dtype),
                                to_string(difference.second.dtype));
    case TensorDifference::Kind::kValues:
      return name + fmt::format("{} of {} elements differ; the first at {}: {} in the first, {} in the second",
                                difference.differing_elements, volume(difference.first.shape),
                                to_string(difference.index), difference.first_value, difference.second_value);
  }
  return name;
}

std::string text_of(const VerifyReport& report) {
  std::string text;
  for (const TensorDifference& difference : report.differences) text += printable(describe(difference)) + "\n";
  for (const std::string& line : report.object_differences) text += printable(line) + "\n";
  const std::string_view verdict = report.equal() ? "equal" : "different";
  return text + fmt::format("{}: {}, {} compared; objects {}\n", verdict, counted(report.tensors_compared, "tensor"),
                            counted(report.elements_compared, "element"),
                            report.objects_compared ? "compared"
                            : report.no_objects     ? "not compared, since there are none"
                                                    : "not compared: one side has none");
}

Json json_of(const VerifyReport& report) {
  Json json = {{"equal", report.equal()},
               {"tensors_compared", report.tensors_compared},
               {"elements_compared", report.elements_compared},
               {"bytes_read", report.bytes_read},
               {"objects_compared", report.objects_compared},
               {"differences", Json::array()},
               {"object_differences", report.object_differences}};
  for (const TensorDifference& difference : report.differences) {
    Json entry = {
        {"tensor", named(difference).name}, {"kind", word_for(difference.kind)}, {"text", describe(difference)}};
    if (difference.kind == TensorDifference::Kind::kValues) {
      entry["differing_elements"] = difference.differing_elements;
      entry["elements"] = volume(difference.first.shape);
      entry["index"] = std::vector<std::int64_t>(difference.index.begin(), difference.index.end());
      entry["first_value"] = difference.first_value;
      entry["second_value"] = difference.second_value;
    }
    json["differences"].push_back(std::move(entry));
  }
  return json;
}

using Readers = std::pair<std::unique_ptr<CheckpointReader>, std::unique_ptr<CheckpointReader>>;

/// --from is for each of the two that does not say itself how it is cut, and an error if both do. With --map the two
/// have different names, and a layout fits one of them: the second if it does not say how it is cut, else the first.
Result<Readers> open_both(const Context& context, const VerifyCommandOptions& options) {
  SourceOptions first = options.first;
  SourceOptions second = options.first;
  second.path = options.second;
  bool needed = false;
  if (second.has_from()) {
    TENPLEX_ASSIGN_OR_RETURN(needed, safetensors::is_rank_folder(context.files, second.path, second.reading()));
  }
  if (!first.map.map.empty()) {
    second.map = {};
    (needed ? first : second).from = {};
  }
  Readers readers;
  TENPLEX_ASSIGN_OR_RETURN(readers.first,
                           open_source(context, first, needed ? FromMeans::kAssumption : FromMeans::kError));
  TENPLEX_ASSIGN_OR_RETURN(readers.second, open_source(context, second, FromMeans::kAssumption));
  if (has_common_master_name(readers.second->info())) readers.first = with_one_master_name(std::move(readers.first));
  if (has_common_master_name(readers.first->info())) readers.second = with_one_master_name(std::move(readers.second));
  return readers;
}

Result<VerifyReport> compare(const Context& context, const VerifyCommandOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t memory, options.work.max_memory_bytes());
  TENPLEX_ASSIGN_OR_RETURN(const Readers readers, open_both(context, options));
  Executor executor(options.work.threads);
  Progress progress(context.signals.watch());
  const ProgressLine line(progress);
  VerifyOptions verify_options;
  verify_options.max_memory_bytes = memory;
  auto report = verify(*readers.first, *readers.second, verify_options, executor, progress);
  return or_change_of(*readers.second, or_change_of(*readers.first, std::move(report)));
}

Result<int> run_verify(const Context& context, const VerifyCommandOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const VerifyReport compared, compare(context, options));
  print(options.json ? dump(json_of(compared)) : text_of(compared));
  return compared.equal() ? kExitOk : kExitFailed;
}

}  // namespace

Command verify_command(CLI::App& app) {
  auto options = std::make_shared<VerifyCommandOptions>();
  CLI::App* command = app.add_subcommand("verify",
                                         "Compare two checkpoints bit by bit, whatever their formats and layouts.\n"
                                         "Exit status: 0 equal, 1 different, 3 could not compare");
  command->add_option("first", options->first.path, "A checkpoint")->required()->type_name("A");
  command->add_option("second", options->second, "Another checkpoint")->required()->type_name("B");
  add_reading_options(*command, options->first);
  add_work_options(*command, options->work);
  add_json_option(*command, options->json);
  return {command, &options->json, [options](const Context& context) { return run_verify(context, *options); },
          kExitCannotCompare};
}

}  // namespace tenplex::cli
