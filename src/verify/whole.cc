// Is one model whole: all of its bytes readable, and consistent with what lies beside them?
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "core/json_file.h"
#include "core/threads.h"
#include "engine/records.h"
#include "verify/compare.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/verify.h"

namespace wconv {
namespace {

constexpr std::uint64_t kSlice = 1024 * 1024;

// Findings of the readers that mean that the model does not fit its own index or config.
constexpr std::array<std::string_view, 4> kProblemCodes = {"wrong-shard", "not-in-index", "stale-index", "config"};

// Reads all files once; the CRC-32 of records are taken from the same bytes. Throws Error(kCorrupt) for a damaged one.
void read_every_byte(const Model& model, std::span<const RecordCheck> checks, verify_detail::Reading& reading) {
  struct Slice {
    std::size_t file = 0;
    std::uint64_t begin = 0, size = 0;
  };
  std::vector<Slice> slices;
  for (std::size_t f = 0; f < model.files.size(); ++f) {
    const std::uint64_t size = model.files[f].file->size();
    reading.plan(size);
    for (std::uint64_t begin = 0; begin < size; begin += kSlice)
      slices.push_back({f, begin, std::min(kSlice, size - begin)});
  }
  engine::RecordCrcs records(checks);
  parallel_for(slices.size(), reading.threads(), [&](std::size_t i) {
    const File& file = *model.files[slices[i].file].file;
    std::vector<std::byte> bytes(slices[i].size);
    file.read(slices[i].begin, bytes);
    records.feed(&file, slices[i].begin, bytes);
    reading.advance(bytes.size());
  });
  records.require_sound();
}

// Deflated records are checked as they are unpacked: at the first read of each.
void unpack_every_record(const Model& model) {
  std::set<const TensorData*> seen;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.data->file_range() || tensor.data->size_bytes() == 0 || !seen.insert(tensor.data.get()).second) continue;
    std::vector<std::byte> block(info(tensor.info.dtype).block_bytes);
    try {
      tensor.data->read(0, block);
    } catch (Error& error) {
      throw error.in_tensor(tensor.info.name);
    }
  }
}

const Tensor* find_by_ending(const Model& model, std::initializer_list<std::string_view> endings) {
  for (const Tensor& tensor : model.tensors) {
    for (const std::string_view ending : endings) {
      const std::string& name = tensor.info.name;
      if (name == ending || (name.ends_with(ending) && name[name.size() - ending.size() - 1] == '.')) return &tensor;
    }
  }
  return nullptr;
}

// Null where there is none, or none that is sound: opening the folder has warned of that.
nlohmann::json read_config(const Model& model) {
  for (const SideFile& side : model.side_files) {
    if (side.name != "config.json") continue;
    try {
      return json_in<nlohmann::json>(*side.file, {"architectures", "tie_word_embeddings"});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorrupt) throw;
      return nullptr;
    }
  }
  return nullptr;
}

bool is_language_model(const nlohmann::json& config) {
  const auto names = config.find("architectures");
  if (names == config.end() || !names->is_array() || names->empty() || !names->front().is_string()) return false;
  return names->front().get<std::string>().ends_with("ForCausalLM");
}

// config.json's tie_word_embeddings against the output layer that is there.
void check_ties(const Model& model, verify_detail::Reading& reading, std::vector<ManifestProblem>& problems) {
  const nlohmann::json config = read_config(model);
  if (!config.is_object()) return;
  const auto tie = config.find("tie_word_embeddings");
  if (tie == config.end() || !tie->is_boolean()) return;
  const Tensor* embedding = find_by_ending(model, {"embed_tokens.weight", "wte.weight", "word_embeddings.weight"});
  const Tensor* head = find_by_ending(model, {"lm_head.weight"});
  if (!embedding) return;
  if (!tie->get<bool>() && !head && is_language_model(config)) {
    problems.push_back(
        {"config.json", "lm_head.weight", "config.json says that it is not tied to the embedding, but it is missing"});
  }
  if (!tie->get<bool>() || !head) return;
  const verify_detail::Pair pair{embedding, head};
  if (!verify_detail::same_bytes({&pair, 1}, reading)[0]) {
    problems.push_back(
        {"config.json", head->info.name,
         fmt::format("config.json says that it is tied to '{}', but its values differ", embedding->info.name)});
  }
}

}  // namespace

WholeReport check_whole(const Model& model, const WholeOptions& options) {
  WholeReport report;
  verify_detail::Reading reading(options.threads, options.progress, options.interrupted);
  report.manifest = options.require_manifest || has_manifest(model.path);
  if (report.manifest) report.problems = check_manifest(model.path, options.threads);
  std::vector<RecordCheck> checks = model.checks;
  checks.insert(checks.end(), model.idle_checks.begin(), model.idle_checks.end());
  read_every_byte(model, checks, reading);
  unpack_every_record(model);
  report.records = checks.size();
  for (const SourceFile& file : model.files) report.bytes += file.file->size();
  for (const Finding& finding : model.findings) {
    if (std::find(kProblemCodes.begin(), kProblemCodes.end(), finding.code) == kProblemCodes.end()) continue;
    report.problems.push_back({model.path, "", finding.message});
  }
  check_ties(model, reading, report.problems);
  for (const SourceFile& file : model.files) file.file->check_unchanged();
  return report;
}

}  // namespace wconv
