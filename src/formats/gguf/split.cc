#include "formats/gguf/split.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/zstd_file.h"
#include "formats/gguf/layout.h"
#include "wconv/error.h"

namespace wconv::gguf {
namespace {

namespace fs = std::filesystem;

struct SplitKeys {
  std::uint64_t no = 0, count = 0;
  std::optional<std::uint64_t> tensors;
};

[[noreturn]] void fail_key(const Header& header, std::string_view key, std::string message) {
  throw Error(ErrorCode::kCorrupt, std::move(message)).in_file(header.file->path()).at(header.position_of(key));
}

std::optional<std::uint64_t> number(const Header& header, std::string_view key) {
  const MetaValue* value = header.metadata.find(key);
  if (value == nullptr) return std::nullopt;
  std::uint64_t result = 0;
  if (!value->as_unsigned(result))
    fail_key(
        header, key,
        fmt::format("metadata key '{}' is of type {} and not a number from 0 on", key, meta_type_name(value->type)));
  return result;
}

SplitKeys split_keys(const Header& header) {
  SplitKeys keys;
  keys.count = number(header, kSplitCountKey).value_or(0);
  keys.no = number(header, kSplitNoKey).value_or(0);
  keys.tensors = number(header, kSplitTensorsKey);
  if (keys.count > kMaxParts)
    fail_key(header, kSplitCountKey, fmt::format("{} is {}; at most {} parts", kSplitCountKey, keys.count, kMaxParts));
  if (keys.count > 1 && keys.no >= keys.count)
    fail_key(header, kSplitNoKey,
             fmt::format("{} is {}, but {} is {}", kSplitNoKey, keys.no, kSplitCountKey, keys.count));
  return keys;
}

// "model" of "model-00002-of-00003.gguf"; empty when the name doesn't end as part `no` of `count` should.
std::string stem_of(const std::string& name, std::uint64_t no, std::uint64_t count) {
  const std::string ending = part_name("", no, count);
  return name.size() > ending.size() && name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : "";
}

std::string sibling(const Header& header, const std::string& name) {
  return (fs::path(header.file->path()).parent_path() / name).string();
}

Header open_part(const Header& first, const std::string& name, std::uint64_t index, std::uint64_t count) {
  const auto missing = [&] {
    return Error(ErrorCode::kMissing, fmt::format("part {} of {} missing: {}", index + 1, count, printable(name)))
        .in_file(first.file->path());
  };
  if (!first.file->stored().is_on_disk()) throw missing();  // bytes in memory have nothing beside them
  try {
    return read_header(open_unpacked(sibling(first, name)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kMissing) throw missing();
    throw;
  }
}

void check_part(const Header& part, std::uint64_t index, const SplitKeys& expected) {
  const SplitKeys keys = split_keys(part);
  const auto check = [&part](std::string_view key, std::uint64_t found, std::uint64_t wanted) {
    if (found == wanted) return;
    if (part.metadata.find(key) != nullptr)
      fail_key(part, key, fmt::format("{} is {}; as this part of the model it must be {}", key, found, wanted));
    throw Error(ErrorCode::kCorrupt,
                fmt::format("there is no {}; as this part of the model it must be {}", key, wanted))
        .in_file(part.file->path());
  };
  check(kSplitCountKey, keys.count, expected.count);
  check(kSplitNoKey, keys.no, index);
  if (keys.tensors && expected.tensors) check(kSplitTensorsKey, *keys.tensors, *expected.tensors);
}

// Names are unique over all parts, and as many as the first part says.
void check_tensors(const std::vector<Header>& parts, const SplitKeys& keys) {
  struct Place {
    const TensorEntry* entry;
    const Header* part;
  };
  std::vector<Place> places;
  for (const Header& part : parts)
    for (const TensorEntry& entry : part.tensors) places.push_back({&entry, &part});
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.entry->info.name < b.entry->info.name; });
  const auto same = std::adjacent_find(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.entry->info.name == b.entry->info.name;
  });
  if (same != places.end())
    throw Error(ErrorCode::kCorrupt,
                fmt::format("the tensor is in another part too: {}", printable(same[0].part->file->path())))
        .in_tensor(same[1].entry->info.name)
        .in_file(same[1].part->file->path())
        .at(same[1].entry->position);
  if (keys.tensors && *keys.tensors != places.size())
    fail_key(parts.front(), kSplitTensorsKey,
             fmt::format("{} is {}, but the model has {} tensors", kSplitTensorsKey, *keys.tensors, places.size()));
}

}  // namespace

std::vector<Header> open_parts(Header first) {
  const SplitKeys keys = split_keys(first);
  std::vector<Header> parts;
  if (keys.count <= 1) {
    parts.push_back(std::move(first));
    if (keys.count == 1) check_tensors(parts, keys);
    return parts;
  }
  const std::string path = first.file->path();
  std::string name = fs::path(path).filename().string();
  if (name.ends_with(".zst")) name.resize(name.size() - 4);
  const std::string stem = stem_of(name, keys.no, keys.count);
  if (keys.no != 0) {
    const std::string wanted = stem.empty() ? "the first part" : part_name(stem, 0, keys.count);
    throw Error(ErrorCode::kUsage, fmt::format("this is part {} of {} of a split model; give {} instead", keys.no + 1,
                                               keys.count, printable(wanted)))
        .in_file(path)
        .at(first.position_of(kSplitNoKey));
  }
  if (stem.empty())
    throw Error(ErrorCode::kCorrupt,
                fmt::format("it says it is part 1 of {}, but its name does not end in '{}', so the others "
                            "cannot be found; give it its name back",
                            keys.count, part_name("", 0, keys.count)))
        .in_file(path)
        .at(first.position_of(kSplitCountKey));
  parts.push_back(std::move(first));
  for (std::uint64_t i = 1; i < keys.count; ++i) {
    parts.push_back(open_part(parts.front(), part_name(stem, i, keys.count), i, keys.count));
    check_part(parts.back(), i, keys);
  }
  check_tensors(parts, keys);
  return parts;
}

}  // namespace wconv::gguf
