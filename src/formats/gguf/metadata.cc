// Reading key-value pairs.
//
//   key: string | type: u32 | value            string: length, bytes
//   array value: element type: u32 | count | elements        lengths and counts: u64 (u32 in version 1)
#include <array>
#include <string_view>
#include <unordered_set>

#include "formats/gguf/header.h"
#include "formats/gguf/layout.h"
#include "wconv/error.h"

namespace wconv::gguf {
namespace {

constexpr int kMaxDepth = 16;
// Elements take 8 bytes and more in memory, one in the file. The largest vocabularies have some 500,000 entries.
constexpr std::uint64_t kMaxArray = 16 << 20;

class ValueReader {
 public:
  ValueReader(Cursor& cursor, std::string_view key, FindingList& findings)
      : cursor_(cursor), key_(key), findings_(findings) {}

  MetaValue read() {
    MetaValue value;
    value.type = type("type");
    switch (value.type) {
      case MetaType::kString:
        value.value = cursor_.string(field());
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
    if (odd_bools_ != 0)
      findings_.warn("gguf-bool", fmt::format("key '{}' has {} bool of a byte other than 0 and 1; taken as true",
                                              printable(key_), odd_bools_));
    return value;
  }

 private:
  // Only made where something fails: keys come by the hundred, elements by the million.
  std::string field() const { return fmt::format("value of key '{}'", printable(key_)); }

  MetaType type(std::string_view what) {
    const std::uint64_t at = cursor_.bytes.offset();
    const std::uint32_t id = cursor_.bytes.u32("value type");
    if (id > static_cast<std::uint32_t>(MetaType::kF64))
      fail_at(at, ErrorCode::kCorrupt, "key '{}' has the {} {}; GGUF has types 0 to 12", printable(key_), what, id);
    return static_cast<MetaType>(id);
  }

  std::uint64_t min_bytes(MetaType element) const {
    switch (element) {
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
        return cursor_.count_bytes();
      case MetaType::kArray:
        return 4 + cursor_.count_bytes();
      default:
        return 8;
    }
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
    return flag != 0;
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
    values.reserve(n);
    for (std::uint64_t i = 0; i < n; ++i) values.push_back(next());
    return values;
  }

  MetaArray array(int depth) {
    const std::uint64_t at = cursor_.bytes.offset();
    if (depth > kMaxDepth)
      fail_at(at, ErrorCode::kCorrupt, "key '{}' has arrays more than {} deep", printable(key_), kMaxDepth);
    MetaArray array;
    array.element = type("element type");
    const MetaType element = array.element;
    const std::uint64_t n = cursor_.count("array count");
    if (n > cursor_.bytes.remaining() / min_bytes(element))
      fail_at(at, ErrorCode::kCorrupt, "key '{}' has an array of {} elements ({}), {} bytes are left in the file",
              printable(key_), n, meta_type_name(element), cursor_.bytes.remaining());
    if (n > kMaxArray)
      fail_at(at, ErrorCode::kUnsupported, "key '{}' has an array of {} elements; at most {} are read", printable(key_),
              n, kMaxArray);
    switch (element) {
      case MetaType::kString:
        array.values = elements<std::string>(n, [this] { return cursor_.string("string in an array"); });
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
  std::string_view key_;
  FindingList& findings_;
  std::uint64_t odd_bools_ = 0;
};

}  // namespace

Metadata read_metadata(Cursor& cursor, std::uint64_t n, FindingList& findings) {
  Metadata metadata;
  std::unordered_set<std::string> seen;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t at = cursor.bytes.offset();
    std::string key = cursor.string("metadata key");
    if (!seen.insert(key).second)
      fail_at(at, ErrorCode::kCorrupt, "the metadata key '{}' appears twice", printable(key));
    if (key.empty()) findings.warn("gguf-empty-key", fmt::format("the metadata key at byte {} is empty", at));
    if (key.size() > kMaxKeyBytes)
      findings.warn("gguf-long-key", fmt::format("the metadata key at byte {} has {} bytes; GGUF allows {}", at,
                                                 key.size(), kMaxKeyBytes));
    MetaValue value = ValueReader(cursor, key, findings).read();
    metadata.append(std::move(key), std::move(value));
  }
  return metadata;
}

}  // namespace wconv::gguf
