// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "tenplex/base/counted.h"
#include "tenplex/base/printable.h"
#include "tenplex/cli/common_options.h"
#include "tenplex/cli/dtype_policy.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/cli/layout_choice.h"
#include "tenplex/cli/mesh_text.h"
#include "tenplex/cli/progress_line.h"
#include "tenplex/cli/source.h"
#include "tenplex/cli/target_check.h"
#include "tenplex/cli/tie_check.h"
#include "tenplex/formats/hf/config_dtype.h"
#include "tenplex/formats/master_slot.h"
#include "tenplex/formats/watched_reader.h"
#include "tenplex/io/path.h"
#include "tenplex/reshard/reshard.h"

namespace tenplex::cli {
namespace {

constexpr std::string_view kNoMaxFile = "0";

struct ReshardCommandOptions {
  SourceOptions source;
  std::string target;
  LayoutChoice to;
  std::string format;
  std::string dtype_policy = "error";
  std::string max_file = std::string(kNoMaxFile);
  std::optional<std::int64_t> optimizer_steps;
  WorkOptions work;
  bool overwrite = false;
  bool verify = false;
  bool no_sync = false;
  bool drop_extra_files = false;
  bool json = false;
};

/// What a finished run shows.
struct Outcome {
  std::string source_format;
  int source_devices = 1;
  std::string target_format;
  LayoutNote layout;
  int target_devices = 1;
  std::int64_t clipped_tensors = 0;  ///< whose padding in the source was left out
  DTypeCounts not_cast;              ///< floating-point and complex tensors that --dtype-policy leaves as they are
  double open_seconds = 0;           ///< looking at the target, opening the source, taking the layout
  ReshardReport report;
};

bool ends_with_any(const std::string& text, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&text](auto ending) { return std::string_view(text).ends_with(ending); });
}

/// --format, or what the target's name says, or the source's format.
std::string format_of_target(const ReshardCommandOptions& options, const std::string& source_format) {
  if (!options.format.empty()) return options.format;
  const std::string name = last_component(options.target);
  if (ends_with_any(name, {".safetensors"})) return "safetensors";
  if (ends_with_any(name, {".pt", ".pth", ".ckpt", ".bin"})) return "torch";
  return source_format;
}

Result<ReshardReport> move(const Context& context, const ReshardCommandOptions& options, const CheckpointReader& source,
                           const Format& format, const CutCollection& target, TreeStamp replaced) {
  WriteRequest request;
  request.source = &source.info();
  request.target = target.collection.get();
  request.layout = target.note;
  request.target_name = last_component(options.target);
  request.objects_folder = options.source.objects_folder;
  request.keep_all_files = !options.drop_extra_files;
  request.optimizer_steps = options.optimizer_steps;
  TENPLEX_ASSIGN_OR_RETURN(request.max_file_bytes, parse_bytes(options.max_file).with_context("--max-file"));

  ReshardOptions engine;
  TENPLEX_ASSIGN_OR_RETURN(engine.max_memory_bytes, options.work.max_memory_bytes());
  engine.overwrite = options.overwrite;
  engine.replaced = std::move(replaced);
  engine.sync = !options.no_sync;
  engine.verify = options.verify;
  engine.cast = options.dtype_policy != "error";
  engine.reopen = [&](const std::string& path) {
    ReadOptions reading;
    reading.objects_folder = options.source.objects_folder;
    return open_checkpoint(context.files, path, reading);
  };
  const auto writer = format.make_writer();
  Executor executor(options.work.threads);
  Progress progress(context.signals.watch());
  const ProgressLine line(progress);
  return reshard(source, *target.collection, *writer, request, context.files, options.target, engine, executor,
                 progress);
}

/// The source as a target of format `hf` needs it: with the new element type in config.json too.
Result<std::shared_ptr<const CheckpointReader>> with_cast_config(std::shared_ptr<const CheckpointReader> source,
                                                                 const ReshardCommandOptions& options,
                                                                 const DTypeCounts& not_cast) {
  TENPLEX_ASSIGN_OR_RETURN(const auto dtype, parse_dtype_policy(options.dtype_policy));
  if (!dtype) return source;
  const std::vector<ExtraFile>& extra = source->info().extra_files;
  if (std::none_of(extra.begin(), extra.end(), [](const auto& file) { return file.path == "config.json"; }))
    return source;
  if (not_cast.empty()) {
    auto changed = hf::with_config_dtype(source, *dtype);
    if (changed || changed.error().code() != ErrorCode::kCorrupt) return changed;
    warn(fmt::format("{}: {}", options.source.path, changed.error().to_string()));
  }
  warn(
      fmt::format("{}: 'config.json' goes on naming the element type that it names now; set it to what the model is to "
                  "be loaded as",
                  options.source.path));
  return source;
}

Result<Outcome> perform(const Context& context, const ReshardCommandOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string target_path = without_trailing_slashes(options.target);
  TENPLEX_TRY(check_target(context.files, options.source.path, target_path, options.overwrite));
  // Before anything that is in it is read: what was not seen here is not replaced.
  TreeStamp replaced;
  if (options.overwrite) {
    TENPLEX_ASSIGN_OR_RETURN(replaced, look_at(context.files, target_path));
  }
  TENPLEX_ASSIGN_OR_RETURN(auto reader, open_source(context, options.source, FromMeans::kError, options.to.layout));
  TENPLEX_ASSIGN_OR_RETURN(const Format* format, find_format(format_of_target(options, reader->info().format)));
  if (format->one_master_name) reader = with_one_master_name(std::move(reader));
  std::shared_ptr<const CheckpointReader> source = std::move(reader);
  const std::shared_ptr<const CheckpointReader> opened = source;
  const CheckpointInfo& info = opened->info();
  if (options.overwrite) {
    TENPLEX_TRY(check_source_stays(*opened, options.source.path, target_path));
    TENPLEX_TRY(check_replaced(context.files, target_path,
                               options.drop_extra_files ? std::vector<ExtraFile>() : info.extra_files,
                               options.source.reading()));
  }
  for (const std::string& problem : info.problems) warn(options.source.path + ": " + problem);
  if (options.max_file != kNoMaxFile && format->name != "hf")
    return invalid_argument(
        fmt::format("--max-file is for format 'hf', and the target is of format '{}': leave it out", format->name));
  if (options.optimizer_steps && format->name != "deepspeed")
    return invalid_argument(fmt::format(
        "--optimizer-steps is for format 'deepspeed', and the target is of format '{}': leave it out", format->name));
  TENPLEX_ASSIGN_OR_RETURN(const LayoutChoice to, with_numbers(context, options.source, *source, options.to));
  TENPLEX_ASSIGN_OR_RETURN(const auto untied, tie_problem(*source, to.numbers.numbers()));
  if (untied) warn(options.source.path + ": " + *untied);
  TensorList tensors = tensors_of(source);
  TENPLEX_ASSIGN_OR_RETURN(DTypeCounts not_cast, apply_dtype_policy(options.dtype_policy, &tensors));
  if (format->name == "hf") {
    TENPLEX_ASSIGN_OR_RETURN(source, with_cast_config(std::move(source), options, not_cast));
  }
  auto made = cut(context.files, info, std::move(tensors), to);
  if (!made) return std::move(made).with_context(recut_text(info, options.source.from, to)).error();
  CutCollection target = *std::move(made);
  if (format->as_stored != nullptr) target.collection = format->as_stored(std::move(target.collection));
  if (format->name == "hf" && target.collection->device_count() > 1)
    return invalid_argument(fmt::format("format 'hf' always holds whole tensors: leave --to {} out", options.to.sizes));
  TENPLEX_TRY(check_target_name(options.target, *format, *target.collection));
  TENPLEX_TRY(check_objects_folder(context.files, options.source.objects_folder, options.source.path, info.format,
                                   *format, *target.collection));
  Outcome outcome{info.format,
                  info.device_count,
                  std::string(format->name),
                  target.note,
                  target.collection->device_count(),
                  info.clipped_tensors,
                  std::move(not_cast),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                  {}};
  TENPLEX_ASSIGN_OR_RETURN(
      outcome.report, or_change_of(*source, move(context, options, *source, *format, target, std::move(replaced))));
  return outcome;
}

double seconds_of(const Outcome& outcome) {
  const ReshardReport& report = outcome.report;
  return outcome.open_seconds + report.plan_seconds + report.move_seconds + report.finish_seconds +
         report.verify_seconds;
}

std::string text_of(const Outcome& outcome, const ReshardCommandOptions& options) {
  const ReshardReport& report = outcome.report;
  const double writing = report.move_seconds + report.finish_seconds;
  std::string text = fmt::format(
      "source    {}   {}, {}\n"
      "target    {}   {}, {}, {}\n"
      "tensors   {}   {}\n"
      "read      {}\n"
      "written   {} in {}\n"
      "time      {:.2f} s: open {:.2f}, plan {:.2f}, copy {:.2f}, finish {:.2f}{}",
      printable_name(options.source.path), outcome.source_format, counted(outcome.source_devices, "device"),
      printable_name(options.target), outcome.target_format, printable_name(outcome.layout.name),
      mesh_text(outcome.layout.mesh), report.tensors, format_bytes(report.bytes_needed),
      format_bytes(report.bytes_read), format_bytes(report.bytes_written), counted(report.files_written, "file"),
      seconds_of(outcome), outcome.open_seconds, report.plan_seconds, report.move_seconds, report.finish_seconds,
      report.verified ? fmt::format(", verify {:.2f}", report.verify_seconds) : "");
  text += fmt::format(
      "\nrate      {}/s\n",
      format_bytes(static_cast<std::int64_t>(static_cast<double>(report.bytes_written) / std::max(writing, 1e-6))));
  if (outcome.clipped_tensors > 0)
    text += fmt::format("padding   of the source left out of {} tensor{}\n", outcome.clipped_tensors,
                        outcome.clipped_tensors == 1 ? "" : "s");
  for (const auto& [dtype, count] : outcome.not_cast)
    text += fmt::format("not cast  {} × {}\n", count, to_string(dtype));
  if (report.items_checked + report.items_unchecked > 0)
    text += fmt::format("checksums {} of the source right, {} not read in full\n", report.items_checked,
                        report.items_unchecked);
  if (report.verified) text += "verified  every tensor of the target equals the source\n";
  return text;
}

Json json_of(const Outcome& outcome, const ReshardCommandOptions& options) {
  const ReshardReport& report = outcome.report;
  Json mesh = Json::object();
  for (const auto& [axis, size] : outcome.layout.mesh) mesh[axis] = size;
  Json not_cast = Json::object();
  for (const auto& [dtype, count] : outcome.not_cast) not_cast[std::string(to_string(dtype))] = count;
  return {{"source",
           {{"path", options.source.path}, {"format", outcome.source_format}, {"devices", outcome.source_devices}}},
          {"target",
           {{"path", options.target},
            {"format", outcome.target_format},
            {"layout", outcome.layout.name},
            {"mesh", mesh},
            {"devices", outcome.target_devices}}},
          {"tensors", report.tensors},
          {"clipped_tensors", outcome.clipped_tensors},
          {"not_cast", not_cast},
          {"bytes_needed", report.bytes_needed},
          {"bytes_read", report.bytes_read},
          {"bytes_written", report.bytes_written},
          {"files_written", report.files_written},
          {"windows", report.windows},
          {"items_checked", report.items_checked},
          {"items_unchecked", report.items_unchecked},
          {"verified", report.verified},
          {"seconds",
           {{"open", outcome.open_seconds},
            {"plan", report.plan_seconds},
            {"move", report.move_seconds},
            {"finish", report.finish_seconds},
            {"verify", report.verify_seconds},
            {"total", seconds_of(outcome)}}}};
}

Result<int> run_reshard(const Context& context, const ReshardCommandOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const Outcome outcome, perform(context, options));
  for (const std::string& problem : outcome.report.problems) warn(options.target + ": " + problem);
  print(options.json ? dump(json_of(outcome, options)) : text_of(outcome, options));
  return kExitOk;
}

}  // namespace

Command reshard_command(CLI::App& app) {
  auto options = std::make_shared<ReshardCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "reshard",
      "Write a checkpoint again in another parallel layout or format; the target appears whole or not at all");
  add_source_options(*command, options->source);
  command->add_option("target", options->target, "File or folder to write")->required()->type_name("DST");
  add_mesh_option(*command, "--to", options->to.sizes, "Sizes of the target's mesh axes; left out means 1");
  add_layout_option(*command, "--layout", options->to.layout, "Layout of the target: a built-in one or a YAML file");
  command->add_option("--format", options->format, "Format of the target; default: by its name, else the source's")
      ->type_name("FORMAT")
      ->check(CLI::Validator(
          [](std::string& name) {
            const auto format = find_format(name);
            return format ? std::string() : format.error().to_string();
          },
          ""));
  command
      ->add_option(
          "--dtype-policy", options->dtype_policy,
          "error: keep every element type; cast:TYPE: convert the tensors of float16, bfloat16, float32 and float64 to "
          "TYPE (bf16, fp16, fp32, fp64)")
      ->type_name("POLICY")
      ->check(dtype_policy_validator())
      ->capture_default_str();
  add_work_options(*command, options->work);
  command->add_option("--max-file", options->max_file, "hf: largest size of one file, for example 2GB; 0 means 50GB")
      ->type_name("SIZE")
      ->check(size_validator())
      ->capture_default_str();
  command
      ->add_option("--optimizer-steps", options->optimizer_steps,
                   "deepspeed: how many steps the optimizer has made, where the source does not say it")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24));
  command->add_flag("--overwrite", options->overwrite, "Replace an existing target, in one step at the end");
  command->add_flag("--verify", options->verify,
                    "Read the target again and compare it with the source before it appears");
  command->add_flag("--no-sync", options->no_sync,
                    "Do not wait until the bytes are on disk (a power cut may lose the target)");
  command->add_flag(
      "--drop-extra-files", options->drop_extra_files,
      "Leave out files beside the tensors (config.json …) where the format has no place for them or --objects "
      "is not given");
  add_json_option(*command, options->json);
  return {command, &options->json, [options](const Context& context) { return run_reshard(context, *options); }};
}

}  // namespace tenplex::cli
