// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/context.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tenplex/base/printable.h"

namespace tenplex::cli {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Result<void> finish_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return errno_error("cannot write to standard output", errno);
}

int report(const Error& error, bool json) {
  const std::string message = error.to_string();
  std::fputs(fmt::format("tenplex: error: {}\n", printable(message)).c_str(), stderr);
  if (json) {
    const nlohmann::ordered_json document = {
        {"error", {{"code", to_string(error.code())}, {"message", message}, {"retryable", error.retryable()}}}};
    print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  return error.code() == ErrorCode::kCancelled ? kExitInterrupted : kExitFailed;
}

void warn(const std::string& text) {
  std::fputs(fmt::format("tenplex: warning: {}\n", printable(text)).c_str(), stderr);
}

}  // namespace tenplex::cli
