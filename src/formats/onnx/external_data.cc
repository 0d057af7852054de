#include "formats/onnx/external_data.h"

#include <algorithm>
#include <charconv>

#include "core/model_path.h"
#include "core/not_a_model.h"
#include "formats/onnx/schema.h"
#include "wconv/error.h"

namespace wconv::onnx {
namespace {

constexpr std::string_view kField = "external_data location";
constexpr std::uint64_t kMaxEntry = 64 * 1024;
constexpr std::size_t kMaxUnknown = 16;

std::uint64_t decimal(std::uint64_t at, std::string_view key, std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail_at(at, ErrorCode::kCorrupt, "external_data: the {} '{}' is no number from 0 on", key, text);
  return number;
}

template <typename T>
void set_once(std::uint64_t at, std::string_view key, std::optional<T>& value, T found) {
  if (value) fail_at(at, ErrorCode::kCorrupt, "external_data: '{}' stands there twice", key);
  value = std::move(found);
}

}  // namespace

void ExternalFiles::add_entry(ByteReader& reader, const Field& entry, ExternalData& data) {
  if (!data.present) data.at = entry.at;
  data.present = true;
  if (entry.size() > kMaxEntry)
    fail_at(entry.at, ErrorCode::kCorrupt, "external_data: an entry of {} bytes; at most {}", entry.size(), kMaxEntry);
  std::string key, value;
  Cursor cursor(reader, entry, "external_data");
  while (cursor.next()) {
    if (cursor.field().number == entry_proto::kKey) key = cursor.text();
    if (cursor.field().number == entry_proto::kValue) value = cursor.text();
  }
  if (key == "location") {
    set_once(entry.at, key, data.location, std::move(value));
  } else if (key == "offset") {
    set_once(entry.at, key, data.offset, decimal(entry.at, key, value));
  } else if (key == "length") {
    set_once(entry.at, key, data.length, decimal(entry.at, key, value));
  } else if (key == "checksum") {
    set_once(entry.at, key, data.checksum, std::move(value));
    has_checksum_ = true;
  } else if (key != "basepath" && unknown_keys_.size() < kMaxUnknown) {
    unknown_keys_.insert(key);
  }
}

ExternalFiles::Place ExternalFiles::find(const ExternalData& data, std::uint64_t bytes) {
  if (!data.location) fail_at(data.at, ErrorCode::kCorrupt, "its data is external, but external_data has no location");
  auto& file = files_[*data.location];
  try {
    if (!file) file = open_referenced(*model_, *data.location, kField);
  } catch (Error& error) {
    files_.erase(*data.location);
    throw error.in_file(model_->path()).at(data.at);
  }
  const std::uint64_t offset = data.offset.value_or(0);
  if (data.length && *data.length != bytes)
    fail_at(data.at, ErrorCode::kCorrupt, "external_data has a length of {} bytes; dims and data_type need {}",
            *data.length, bytes);
  const bool whole_file = !data.offset && !data.length;
  if (whole_file ? bytes == file->size() : offset <= file->size() && bytes <= file->size() - offset)
    return {file, offset};
  std::vector<std::byte> head(std::min<std::uint64_t>(file->size(), 4096));
  file->read(0, head);
  refuse_known_impostors(*file, head, false);
  if (whole_file && bytes < file->size())
    fail_at(
        data.at, ErrorCode::kCorrupt,
        "external_data has no offset and no length, so that '{}' is the tensor: {} bytes; dims and data_type need {}",
        *data.location, file->size(), bytes);
  fail_at(data.at, ErrorCode::kCorrupt,
          "it lies in '{}' from byte {} on and has {} bytes, but that file has {}: truncated?", *data.location, offset,
          bytes, file->size());
}

std::vector<std::shared_ptr<const File>> ExternalFiles::files() const {
  std::vector<std::shared_ptr<const File>> files;
  for (const auto& [location, file] : files_) files.push_back(file);
  return files;
}

}  // namespace wconv::onnx
