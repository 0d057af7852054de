// Reading key-value pairs.
//
//   key: string | type: u32 | value            string: length, bytes
//   array value: element type: u32 | count | elements        lengths and counts: u64 (u32 in version 1)
#include <algorithm>
#include <numeric>
#include <string_view>

#include "formats/gguf/header.h"
#include "formats/gguf/layout.h"
#include "wconv/error.h"

namespace wconv::gguf {
namespace {

std::uint64_t min_bytes(MetaType type, std::uint64_t count_bytes) {
  switch (type) {
    case MetaType::kU8:
    case MetaType::kI8:
    case MetaType::kBool:
      return 1;
    case MetaType::kU16:
    case MetaType::kI16:
      return 2;
    case MetaType::kU32:
    case MetaType::kI32:
    case MetaType::kF32:
      return 4;
    case MetaType::kString:
      return count_bytes;
    case MetaType::kArray:
      return 4 + count_bytes;
    default:
      return 8;
  }
}

std::uint64_t held_bytes(MetaType element) {
  return element == MetaType::kString ? sizeof(std::string) : element == MetaType::kArray ? sizeof(MetaArray) : 8;
}

// Reads pairs, or with `keep` off only proves them: the same checks, and nothing is allocated.
class PairReader {
 public:
  PairReader(Cursor& cursor, bool keep) : cursor_(cursor), keep_(keep) {}

  Metadata::Entry read() {
    const std::uint64_t at = cursor_.bytes.offset();
    odd_bools_ = 0;
    Metadata::Entry pair;
    pair.first = cursor_.string("metadata key", kMaxKeyBytes);
    hold(sizeof(Metadata::Entry) + pair.first.size(), 1, at);
    try {
      pair.second = value();
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("metadata key '{}': {}", printable(pair.first), error.message()))
          .at(error.offset().value_or(at));
    }
    return pair;
  }

  // Of the last pair.
  std::uint64_t odd_bools() const { return odd_bools_; }

 private:
  void hold(std::uint64_t each, std::uint64_t n, std::uint64_t at) {
    if (n > (kMaxMetadataBytes - held_) / each)
      fail_at(at, ErrorCode::kUnsupported, "the metadata up to here would take more than {} MiB of memory",
              kMaxMetadataBytes >> 20);
    held_ += each * n;
  }

  MetaType type(std::string_view field) {
    const std::uint64_t at = cursor_.bytes.offset();
    const std::uint32_t id = cursor_.bytes.u32(field);
    if (id > static_cast<std::uint32_t>(MetaType::kF64))
      fail_at(at, ErrorCode::kCorrupt, "{} {}; GGUF has types 0 to 12", field, id);
    return static_cast<MetaType>(id);
  }

  MetaValue value() {
    MetaValue value;
    value.type = type("value type");
    switch (value.type) {
      case MetaType::kString:
        value.value = string();
        break;
      case MetaType::kArray:
        value.value = array(1);
        break;
      case MetaType::kF32:
      case MetaType::kF64:
        value.value = real(value.type);
        break;
      case MetaType::kI8:
      case MetaType::kI16:
      case MetaType::kI32:
      case MetaType::kI64:
        value.value = signed_integer(value.type);
        break;
      default:
        value.value = unsigned_integer(value.type);
        break;
    }
    return value;
  }

  std::string string() {
    const std::uint64_t at = cursor_.bytes.offset();
    const std::uint64_t size = cursor_.length("string", kMaxMetadataBytes);
    hold(1, size, at);
    if (keep_) return cursor_.text(size, "string");
    cursor_.bytes.skip(size, "string");
    return {};
  }

  std::uint64_t unsigned_integer(MetaType type) {
    switch (type) {
      case MetaType::kU8:
        return cursor_.bytes.u8("u8 value");
      case MetaType::kU16:
        return cursor_.bytes.u16("u16 value");
      case MetaType::kU32:
        return cursor_.bytes.u32("u32 value");
      case MetaType::kU64:
        return cursor_.bytes.u64("u64 value");
      default:
        break;
    }
    const std::uint8_t flag = cursor_.bytes.u8("bool value");
    odd_bools_ += flag > 1;
    return flag;
  }

  std::int64_t signed_integer(MetaType type) {
    switch (type) {
      case MetaType::kI8:
        return static_cast<std::int8_t>(cursor_.bytes.u8("i8 value"));
      case MetaType::kI16:
        return static_cast<std::int16_t>(cursor_.bytes.u16("i16 value"));
      case MetaType::kI32:
        return cursor_.bytes.i32("i32 value");
      default:
        return cursor_.bytes.i64("i64 value");
    }
  }

  double real(MetaType type) {
    return type == MetaType::kF32 ? double{cursor_.bytes.f32("f32 value")} : cursor_.bytes.f64("f64 value");
  }

  template <typename T, typename Next>
  std::vector<T> elements(std::uint64_t n, const Next& next) {
    std::vector<T> values;
    if (keep_) values.reserve(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      T value = next();
      if (keep_) values.push_back(std::move(value));
    }
    return values;
  }

  // The element type and the count, proved to fit the file and the memory.
  std::uint64_t array_head(MetaArray& array, int depth) {
    const std::uint64_t at = cursor_.bytes.offset();
    if (depth > kMaxDepth) fail_at(at, ErrorCode::kUnsupported, "arrays more than {} deep", kMaxDepth);
    array.element = type("element type");
    const std::uint64_t n = cursor_.count("array count"), each = min_bytes(array.element, cursor_.count_bytes());
    if (n > cursor_.bytes.remaining() / each)
      fail_at(at, ErrorCode::kCorrupt, "an array of {} elements ({}), but {} bytes are left in the file; cut short?", n,
              meta_type_name(array.element), cursor_.bytes.remaining());
    hold(held_bytes(array.element), n, at);
    return n;
  }

  MetaArray array(int depth) {
    MetaArray array;
    const std::uint64_t n = array_head(array, depth);
    const MetaType element = array.element;
    switch (element) {
      case MetaType::kString:
        array.values = elements<std::string>(n, [this] { return string(); });
        break;
      case MetaType::kArray:
        array.values = elements<MetaArray>(n, [this, depth] { return this->array(depth + 1); });
        break;
      case MetaType::kF32:
      case MetaType::kF64:
        array.values = elements<double>(n, [this, element] { return real(element); });
        break;
      case MetaType::kI8:
      case MetaType::kI16:
      case MetaType::kI32:
      case MetaType::kI64:
        array.values = elements<std::int64_t>(n, [this, element] { return signed_integer(element); });
        break;
      default:
        array.values = elements<std::uint64_t>(n, [this, element] { return unsigned_integer(element); });
        break;
    }
    return array;
  }

  Cursor& cursor_;
  const bool keep_;
  std::uint64_t held_ = 0, odd_bools_ = 0;
};

// By sorting: a hostile file cannot make it slow.
void refuse_duplicates(const Metadata& metadata, const std::vector<std::uint64_t>& positions) {
  std::vector<std::pair<std::string_view, std::uint64_t>> keys;
  keys.reserve(metadata.size());
  for (const auto& [key, value] : metadata) keys.emplace_back(key, positions[keys.size()]);
  std::sort(keys.begin(), keys.end());
  const auto same = std::adjacent_find(keys.begin(), keys.end(), [](auto& a, auto& b) { return a.first == b.first; });
  if (same != keys.end())
    fail_at(same[1].second, ErrorCode::kCorrupt, "the metadata key '{}' is there twice; the first is at byte {}",
            printable(same->first), same->second);
}

}  // namespace

Metadata read_metadata(Cursor& cursor, std::uint64_t n, FindingList& findings, std::vector<std::uint64_t>& positions) {
  const std::uint64_t begin = cursor.bytes.offset();
  PairReader prover(cursor, false);
  for (std::uint64_t i = 0; i < n; ++i) prover.read();
  cursor.bytes.seek(begin);

  Metadata metadata;
  PairReader reader(cursor, true);
  positions.reserve(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t at = cursor.bytes.offset();
    auto [key, value] = reader.read();
    positions.push_back(at);
    if (key.empty()) findings.warn("gguf-empty-key", fmt::format("the metadata key at byte {} is empty", at));
    if (reader.odd_bools() != 0)
      findings.warn("gguf-bool", fmt::format("metadata key '{}' has {} bool stored as neither 0 nor 1; kept as it is",
                                             printable(key), reader.odd_bools()));
    metadata.append(std::move(key), std::move(value));
  }
  refuse_duplicates(metadata, positions);
  return metadata;
}

}  // namespace wconv::gguf
