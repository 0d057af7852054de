// <root>/data.pkl names storages by key; each lies in <root>/data/<key>. Source: torch/serialization.py (_save, _load).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/pytorch/containers.h"
#include "formats/pytorch/tree.h"
#include "formats/pytorch/zip_archive.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

constexpr std::size_t kMaxHidden = 20;  // findings of one kind

class ZipStorages final : public StorageSource {
 public:
  ZipStorages(const ZipArchive& archive, std::string root, bool big_endian)
      : archive_(archive), root_(std::move(root)), big_endian_(big_endian) {}

  std::shared_ptr<const TensorData> storage(const StorageRequest& request) override {
    const std::string name = root_ + "data/" + request.key;
    const ZipRecord* record = archive_.find(name);
    if (!record)
      fail(ErrorCode::kCorrupt, "its storage should be record '{}', which the archive doesn't have", printable(name));
    if (record->size != request.bytes) {
      fail_at(record->data_offset, ErrorCode::kCorrupt, "record '{}' has {} bytes, the pickle says {}", printable(name),
              record->size, request.bytes);
    }
    if (used_.insert(name).second && !record->deflated) checks.push_back(archive_.check(*record));
    return archive_.data(*record);
  }
  bool big_endian() const override { return big_endian_; }
  bool used(const std::string& name) const { return used_.contains(name); }

  std::vector<RecordCheck> checks;

 private:
  const ZipArchive& archive_;
  const std::string root_;
  const bool big_endian_;
  std::set<std::string> used_;
};

// "<root>/", or "" for an archive without a top folder.
std::string find_root(const ZipArchive& archive) {
  std::vector<std::string> roots;
  for (const ZipRecord& record : archive.records()) {
    const auto slash = record.name.find('/');
    if (record.name == "data.pkl") roots.insert(roots.begin(), "");
    if (slash != std::string::npos && record.name.substr(slash) == "/data.pkl")
      roots.push_back(record.name.substr(0, slash + 1));
  }
  if (roots.size() == 1) return roots[0];
  if (roots.size() > 1) {
    fail(ErrorCode::kCorrupt,
         "the archive has several data.pkl ('{}data.pkl', '{}data.pkl'); which one is the model is not clear",
         printable(roots[0]), printable(roots[1]));
  }
  const auto ends = [&](std::string_view suffix) {
    return std::any_of(archive.records().begin(), archive.records().end(),
                       [&](const auto& r) { return r.name.ends_with(suffix); });
  };
  const std::string_view what = ends(".npy")                 ? "a NumPy .npz archive"
                                : ends(".weights.h5")        ? "a Keras model"
                                : ends("Content_Types].xml") ? "an Office document"
                                : ends(".safetensors") || ends(".pth") || ends(".bin")
                                    ? "a zip of models; unpack it first"
                                    : "some other archive";
  fail(ErrorCode::kUnsupported, "a zip archive without data.pkl is no PyTorch checkpoint; it looks like {}", what);
}

std::string record_text(const ZipArchive& archive, std::string_view name, std::uint64_t max_bytes) {
  const ZipRecord* record = archive.find(name);
  if (!record) return "";
  if (record->size > max_bytes)
    fail_at(record->data_offset, ErrorCode::kCorrupt, "record '{}' has {} bytes; {} are allowed", printable(name),
            record->size, max_bytes);
  const ZipArchive::Content content = archive.content(*record);
  std::string text(content.end - content.begin, '\0');
  content.file->read(content.begin, std::as_writable_bytes(std::span(text)));
  return text;
}

bool is_big_endian(const ZipArchive& archive, const std::string& root) {
  std::string order = record_text(archive, root + "byteorder", 64);
  while (order.ends_with('\n')) order.pop_back();
  if (order.empty() || order == "little") return false;
  if (order == "big") return true;
  fail(ErrorCode::kCorrupt, "record '{}byteorder' says '{}'; 'little' and 'big' are known", printable(root),
       printable(order));
}

// What convert leaves in a .pth for the metadata that a state_dict has no place for.
void read_metadata(const ZipArchive& archive, const std::string& root, Model& model) {
  const std::string text = record_text(archive, root + "extra/wconv_metadata.json", kMaxMetadataBytes);
  if (text.empty()) return;
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);  // keeps the order of keys
  std::vector<std::pair<std::string, std::string>> entries;
  bool strings = json.is_object();
  for (const auto& [key, value] : json.items()) {
    strings = strings && value.is_string();
    if (strings) entries.emplace_back(key, value.get<std::string>());
  }
  if (!strings)
    fail(ErrorCode::kCorrupt, "record '{}extra/wconv_metadata.json' is no JSON object of strings", printable(root));
  model.metadata = metadata_from_text(entries);
}

// Pickles that no reader of the checkpoint would look at are a known way to hide code.
void report_hidden(const File& file, const ZipArchive& archive, const std::string& root, const ZipStorages& storages,
                   Model& model) {
  std::size_t hidden = 0;
  for (const ZipRecord& record : archive.records()) {
    const std::string inner = record.name.starts_with(root) ? record.name.substr(root.size()) : "";
    if (inner == "data.pkl" || storages.used(record.name) || record.size < 2) continue;
    if (inner == "constants.pkl" || inner.starts_with("code/") || inner == "attributes.pkl") continue;
    std::array<char, 2> head{};
    if (!record.deflated) file.read(record.data_offset, std::as_writable_bytes(std::span(head)));
    const bool pickle = record.name.ends_with(".pkl") || (head[0] == '\x80' && head[1] >= 0 && head[1] <= 5);
    if (!pickle || ++hidden > kMaxHidden) continue;
    model.findings.push_back(
        {Severity::kWarning, "hidden-pickle",
         fmt::format("record '{}' is a pickle that does not belong to the checkpoint; it was not read",
                     printable(record.name))});
  }
}

}  // namespace

Model read_zip(std::shared_ptr<const File> file, const ReadOptions& options) {
  const ZipArchive archive(file);
  const std::string root = find_root(archive);
  const ZipRecord& record = *archive.find(root + "data.pkl");
  const ZipArchive::Content content = archive.content(record);
  const Pickle pickle = read_pickle(content.file, content.begin, content.end, record.compressed_size);
  if (pickle.end_offset != content.end) {
    fail_at(pickle.end_offset, ErrorCode::kCorrupt, "record '{}data.pkl' goes on for {} bytes after the pickle's end",
            printable(root), content.end - pickle.end_offset);
  }
  ZipStorages storages(archive, root, is_big_endian(archive, root));
  Model model;
  read_metadata(archive, root, model);
  const bool script = archive.find(root + "constants.pkl") != nullptr;
  if (script) {
    model.findings.push_back(
        {Severity::kNote, "torchscript", "a TorchScript archive: its weights are read, its code is not"});
  }
  Objects objects(pickle, storages);
  read_tree(objects, options, model);
  model.checks = std::move(storages.checks);
  for (const ZipRecord& other : archive.records()) {
    if (!storages.used(other.name) && !other.deflated) model.idle_checks.push_back(archive.check(other));
  }
  report_hidden(*file, archive, root, storages, model);
  return model;
}

}  // namespace wconv::pytorch
