// Before torch 1.6: pickles of a magic number, the protocol, the system, the object and the storages' keys; then for
// each key an int64 count of elements and the elements, little-endian. Source: torch/serialization.py (_legacy_load).
#include <map>

#include "formats/pytorch/containers.h"
#include "formats/pytorch/tree.h"
#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

constexpr std::string_view kMagic = "119547037146038801333356";  // 0x1950a86a20f9469cfc6c
constexpr std::int64_t kProtocol = 1001;

bool is_magic(const Pickle& pickle) {
  return pickle.kind(pickle.root) == NodeKind::kLong && pickle.text(pickle.root) == kMagic;
}

// Bytes of one element of each storage that the pickle names, by key.
std::map<std::string, std::uint64_t> element_sizes(const Pickle& pickle) {
  std::map<std::string, std::uint64_t> sizes;
  for (const NodeId node : pickle.persistent) {
    const NodeId id = pickle.items(node)[0];
    if (pickle.kind(id) != NodeKind::kTuple || pickle.items(id).size() < 5) continue;
    const auto& parts = pickle.items(id);
    if (pickle.kind(parts[1]) != NodeKind::kGlobal || pickle.kind(parts[2]) != NodeKind::kText) continue;
    const GlobalInfo type = lookup_global(pickle.global_name(parts[1]));
    if (type.meaning != Meaning::kStorage && type.meaning != Meaning::kUntypedStorage) continue;
    if (type.meaning == Meaning::kStorage && !type.dtype) {
      fail(ErrorCode::kUnsupported, "the storage type {} is not supported", printable(pickle.global_name(parts[1])));
    }
    const std::uint64_t size = type.dtype ? info(*type.dtype).block_bytes : 1;
    const auto [entry, added] = sizes.emplace(pickle.text(parts[2]), size);
    if (!added && entry->second != size)
      fail(ErrorCode::kCorrupt, "storage '{}' is used with two element sizes", printable(entry->first));
  }
  return sizes;
}

std::vector<std::string> storage_keys(const Pickle& pickle) {
  if (pickle.kind(pickle.root) != NodeKind::kList) fail(ErrorCode::kCorrupt, "the list of storage keys is no list");
  std::vector<std::string> keys;
  for (const NodeId item : pickle.items(pickle.root)) {
    if (pickle.kind(item) != NodeKind::kText)
      fail(ErrorCode::kCorrupt, "the list of storage keys holds something that is no text");
    keys.push_back(pickle.text(item));
  }
  return keys;
}

// Returns where the last storage ends.
std::uint64_t read_storages(std::uint64_t begin, std::uint64_t end, const std::vector<std::string>& keys,
                            const std::map<std::string, std::uint64_t>& sizes, RangeStorages& storages) {
  std::uint64_t at = begin;
  for (const std::string& key : keys) {
    const auto size = sizes.find(key);
    if (size == sizes.end())
      fail_at(at, ErrorCode::kCorrupt, "storage '{}' is in the file, but the pickle doesn't use it", printable(key));
    if (end - at < 8)
      fail_at(at, ErrorCode::kCorrupt, "the file ends before storage '{}'; it was cut short", printable(key));
    ByteReader reader(storages.file(), at, at + 8);
    const std::int64_t count = reader.i64("storage length");
    at += 8;
    std::uint64_t bytes = 0;
    if (count < 0 || !checked_mul(static_cast<std::uint64_t>(count), size->second, bytes) || bytes > end - at) {
      fail_at(at - 8, ErrorCode::kCorrupt,
              "storage '{}' has {} elements of {} bytes, but {} bytes are left; the file was cut short", printable(key),
              count, size->second, end - at);
    }
    storages.add(key, at, bytes);
    at += bytes;
  }
  return at;
}

Stream read_after_magic(const std::shared_ptr<const File>& file, const Pickle& magic, std::uint64_t end) {
  const Pickle protocol = read_pickle(file, magic.end_offset, end);
  if (protocol.kind(protocol.root) != NodeKind::kInt || protocol.integer(protocol.root) != kProtocol) {
    fail_at(magic.end_offset, ErrorCode::kUnsupported, "the protocol of this torch file is not {}", kProtocol);
  }
  const Pickle system = read_pickle(file, protocol.end_offset, end);
  Stream stream{read_pickle(file, system.end_offset, end), RangeStorages(file)};
  const Pickle keys = read_pickle(file, stream.pickle.end_offset, end);
  stream.end = read_storages(keys.end_offset, end, storage_keys(keys), element_sizes(stream.pickle), stream.storages);
  return stream;
}

Model read_bare(const std::shared_ptr<const File>& file, const Pickle& pickle, const ReadOptions& options) {
  if (pickle.end_offset != file->size()) {
    fail_at(pickle.end_offset, ErrorCode::kCorrupt, "{} bytes follow the pickle's end; what they are is not clear",
            file->size() - pickle.end_offset);
  }
  RangeStorages none(file);
  Objects objects(pickle, none);
  Model model;
  read_tree(objects, options, model);
  return model;
}

}  // namespace

void RangeStorages::add(const std::string& key, std::uint64_t offset, std::uint64_t bytes) {
  if (!storages_.emplace(key, file_tensor(file_, offset, bytes)).second) {
    fail_at(offset, ErrorCode::kCorrupt, "two storages have the key '{}'", printable(key));
  }
}

std::shared_ptr<const TensorData> RangeStorages::storage(const StorageRequest& request) {
  const auto found = storages_.find(request.key);
  if (found == storages_.end())
    fail(ErrorCode::kCorrupt, "its storage '{}' is not in the file", printable(request.key));
  if (found->second->size_bytes() != request.bytes) {
    fail(ErrorCode::kCorrupt, "its storage '{}' has {} bytes, the pickle says {}", printable(request.key),
         found->second->size_bytes(), request.bytes);
  }
  return found->second;
}

Stream read_stream_range(const std::shared_ptr<const File>& file, std::uint64_t begin, std::uint64_t end) {
  const Pickle magic = read_pickle(file, begin, end);
  if (!is_magic(magic)) fail_at(begin, ErrorCode::kUnsupported, "holds bytes that are no torch file");
  return read_after_magic(file, magic, end);
}

Model read_stream(std::shared_ptr<const File> file, const ReadOptions& options) {
  const Pickle magic = read_pickle(file, 0, file->size());
  if (!is_magic(magic)) return read_bare(file, magic, options);
  Stream stream = read_after_magic(file, magic, file->size());
  Objects objects(stream.pickle, stream.storages);
  Model model;
  read_tree(objects, options, model);
  if (stream.end != file->size()) {
    model.findings.push_back(
        {Severity::kWarning, "trailing-bytes",
         fmt::format("{} bytes follow the last storage; they were not read", file->size() - stream.end)});
  }
  return model;
}

}  // namespace wconv::pytorch
