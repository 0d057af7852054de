#include "formats/safetensors/header_parser.h"

#include <algorithm>
#include <array>

#include "formats/safetensors/json_scanner.h"
#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::safetensors {
namespace {

// Limits of our own: a hostile header could hold millions of each.
constexpr std::size_t kMaxMetadata = 65'536;

constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

class HeaderParser {
 public:
  HeaderParser(const std::shared_ptr<const File>& file, std::uint64_t begin, std::uint64_t end, Header& header)
      : json_(file, begin, end), header_(header) {}

  void parse() {
    json_.object([&](std::string name) {
      if (name == "__metadata__") {
        metadata();
      } else {
        tensor(std::move(name));
      }
    });
    json_.end();
  }
  const std::vector<std::uint64_t>& key_positions() const { return key_positions_; }  // of the metadata's values

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(json_.position(), ErrorCode::kCorrupt, format, std::forward<Args>(args)...);
  }

  template <typename... Args>
  [[noreturn]] void refuse_tensor(const std::string& name, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorCode::kCorrupt, fmt::format(format, std::forward<Args>(args)...))
        .in_tensor(name)
        .at(json_.position());
  }

  void metadata() {
    if (std::exchange(had_metadata_, true)) refuse("duplicate key '__metadata__'");
    if (json_.take_null()) return;
    if (json_.next() != '{') refuse("'__metadata__' is {}; only an object of strings is allowed", json_.kind());
    header_.metadata_at = json_.position();
    json_.object([&](std::string key) {
      if (json_.next() != '"') refuse("'__metadata__' key '{}' is {}; only strings are allowed", key, json_.kind());
      if (header_.metadata.size() == kMaxMetadata) refuse("'__metadata__' has more than {} keys", kMaxMetadata);
      key_positions_.push_back(json_.position());
      header_.metadata.emplace_back(std::move(key), json_.string());
    });
  }

  void tensor(std::string name) {
    if (json_.next() != '{') refuse_tensor(name, "its entry is {}, not an object", json_.kind());
    if (header_.entries.size() == kMaxTensors) {
      fail_at(json_.position(), ErrorCode::kUnsupported, "the header has more than {} tensors, the most that are read",
              kMaxTensors);
    }
    Entry entry;
    entry.position = json_.position();
    entry.info.name = std::move(name);
    std::array<bool, kFields.size()> seen{};
    json_.object([&](const std::string& field) {
      const auto known = std::find(kFields.begin(), kFields.end(), field);
      if (known == kFields.end()) return json_.skip_value();
      if (std::exchange(seen[static_cast<std::size_t>(known - kFields.begin())], true)) {
        refuse_tensor(entry.info.name, "duplicate field '{}'", field);
      }
      take_field(entry, field);
    });
    for (std::size_t f = 0; f < kFields.size(); ++f) {
      if (!seen[f]) refuse_tensor(entry.info.name, "it has no field '{}'", kFields[f]);
    }
    header_.entries.push_back(std::move(entry));
  }

  void take_field(Entry& entry, const std::string& field) {
    if (field == "dtype") return take_dtype(entry);
    const std::vector<std::uint64_t> numbers = take_numbers(entry.info.name, field);
    if (field == "shape") {
      entry.info.shape.assign(numbers.begin(), numbers.end());
      return;
    }
    if (numbers.size() != 2) refuse_tensor(entry.info.name, "it has {} data_offsets, not 2", numbers.size());
    entry.begin = numbers[0];
    entry.end = numbers[1];
  }

  void take_dtype(Entry& entry) {
    if (json_.next() != '"') {
      refuse_tensor(entry.info.name, "field 'dtype' holds {}; only a string is allowed", json_.kind());
    }
    const std::string text = json_.string();
    const auto dtype = dtype_from_safetensors(text);
    if (!dtype) refuse_tensor(entry.info.name, "it has the dtype '{}', which safetensors does not define", text);
    entry.info.dtype = *dtype;
  }

  std::vector<std::uint64_t> take_numbers(const std::string& name, const std::string& field) {
    constexpr std::string_view kAllowed = "only an array of integers from 0 to 2^64-1 is allowed";
    if (json_.next() != '[') refuse_tensor(name, "field '{}' holds {}; {}", field, json_.kind(), kAllowed);
    std::vector<std::uint64_t> numbers;
    std::string text;
    json_.array([&] {
      if (numbers.size() == kMaxRank) refuse_tensor(name, "field '{}' holds more than {} numbers", field, kMaxRank);
      const std::string_view kind = json_.kind();
      if (kind != "a number") refuse_tensor(name, "field '{}' holds {}; {}", field, kind, kAllowed);
      if (!json_.unsigned_integer(numbers.emplace_back(), text)) {
        refuse_tensor(name, "field '{}' holds {}; {}", field, text, kAllowed);
      }
    });
    return numbers;
  }

  JsonScanner json_;
  Header& header_;
  bool had_metadata_ = false;
  std::vector<std::uint64_t> key_positions_;
};

// Two members of `list` with one key: the later one, in the header's order, and then the earlier one.
template <typename List, typename Key>
std::optional<std::pair<std::size_t, std::size_t>> find_duplicate(const List& list, const Key& key) {
  std::vector<std::size_t> order(list.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(list[a]) < key(list[b]); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (key(list[order[i - 1]]) == key(list[order[i]])) return std::pair(order[i], order[i - 1]);
  }
  return std::nullopt;
}

void refuse_duplicates(const Header& header, const std::vector<std::uint64_t>& key_positions) {
  const auto name_of = [](const Entry& entry) -> const std::string& { return entry.info.name; };
  if (const auto found = find_duplicate(header.entries, name_of)) {
    const Entry &later = header.entries[found->first], &earlier = header.entries[found->second];
    throw Error(ErrorCode::kCorrupt,
                fmt::format("the header has this name twice; the first is at byte {}", earlier.position))
        .in_tensor(later.info.name)
        .at(later.position);
  }
  const auto key_of = [](const auto& entry) -> const std::string& { return entry.first; };
  if (const auto found = find_duplicate(header.metadata, key_of)) {
    fail_at(key_positions[found->first], ErrorCode::kCorrupt,
            "duplicate __metadata__ key '{}'; the first is at byte {}", header.metadata[found->first].first,
            key_positions[found->second]);
  }
}

}  // namespace

Header parse_header(const std::shared_ptr<const File>& file) {
  if (file->size() < 8) {
    fail_at(0, ErrorCode::kCorrupt, "{} bytes is too small for a safetensors file, which begins with an 8-byte length",
            file->size());
  }
  ByteReader reader(file);
  const std::uint64_t size = reader.u64("header length");
  if (size > kMaxHeaderBytes) {
    fail_at(0, ErrorCode::kCorrupt, "header length {} is over the format's limit of {}", size, kMaxHeaderBytes);
  }
  if (size > reader.remaining()) {
    fail_at(0, ErrorCode::kCorrupt, "header length {} is more than the {} bytes that follow: truncated download?", size,
            reader.remaining());
  }
  Header header;
  header.data_begin = 8 + size;
  if (size == 0 || reader.u8("header") != '{') fail_at(8, ErrorCode::kCorrupt, "the header does not begin with '{{'");
  HeaderParser parser(file, 8, header.data_begin, header);
  parser.parse();
  refuse_duplicates(header, parser.key_positions());
  return header;
}

}  // namespace wconv::safetensors
