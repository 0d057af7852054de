// Models that are more than one file: Hugging Face folders and sharded weights with an index.
#pragma once

#include <string>
#include <string_view>

#include "wconv/format.h"

namespace wconv {

// A folder with weights and, beside them, config.json, tokenizer files and so on (they become side files).
Model open_folder(const std::string& path, const ReadOptions& options);

// An index such as model.safetensors.index.json: {"metadata": {"total_size"}, "weight_map": {tensor: shard}}.
Model open_index(const std::string& path, const ReadOptions& options);

// By its name alone: model.safetensors.index.json, or that as zstd.
inline bool is_index_name(std::string_view name) {
  return name.ends_with(".index.json") || name.ends_with(".index.json.zst");
}

// By its name alone: weights, an index, or a text file that travels with them (config.json, tokenizer files, licences).
bool is_model_file(std::string_view name);

}  // namespace wconv
