// The record of how an output was made: OUT.wconv.json beside a file, wconv.json inside a folder.
//
// It holds no clock time, host or absolute path, so the same work gives the same bytes. Per-tensor digests are SHA-256
// of the stored little-endian, row-major bytes; with dtype and shape they identify a tensor in any format.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wconv/engine.h"
#include "wconv/model.h"

namespace wconv {

struct ManifestInfo {
  std::string version;                                       // of wconv
  std::string verb;                                          // "convert"
  std::vector<std::pair<std::string, std::string>> options;  // resolved: name, JSON text of the value
  std::string format;                                        // of the output
};

std::string manifest_name(std::string_view output_name, bool folder);

// `model` is what was written; its metadata and side files say licence and base model.
std::string manifest_text(const ManifestInfo& info, const Model& model, const EngineResult& result);

struct ManifestProblem {
  std::string file;    // or
  std::string tensor;  // what it is about
  std::string message;
};
// `output_path`: the output's file, folder or index of shards.
bool has_manifest(const std::string& output_path);
// Checks every output named by the manifest beside (or in) `output_path`: size and SHA-256. Empty: all as recorded.
// Throws Error(kMissing) without a manifest, Error(kCorrupt) when it is damaged.
std::vector<ManifestProblem> check_manifest(const std::string& output_path, unsigned threads);

}  // namespace wconv
