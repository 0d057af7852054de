// Zstd files made for tests with the library and by hand.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "core/zstd_file.h"
#include "wconv/error.h"

namespace wconv::test {

using Bytes = std::vector<std::byte>;

// Random words of a short list: it compresses, and no two parts are alike.
inline Bytes content_of(std::size_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 11);
  return bytes;
}

inline Bytes frame_of(std::span<const std::byte> content, int level = 1, bool checksum = true, bool state_size = true) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, state_size);
  Bytes out(ZSTD_compressBound(content.size()));
  const std::size_t size = ZSTD_compress2(context, out.data(), out.size(), content.data(), content.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(size));
  out.resize(size);
  return out;
}

inline void append(Bytes& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }
inline void append_u32(Bytes& to, std::uint32_t number) {
  for (int i = 0; i < 4; ++i) to.push_back(static_cast<std::byte>(number >> (8 * i)));
}

struct Entry {
  std::uint32_t stored = 0, content = 0, checksum = 0;
};

// The seek table as the specification has it, written here by hand.
inline Bytes table_of(const std::vector<Entry>& entries, bool checksums = false) {
  Bytes table;
  append_u32(table, 0x184D2A5E);
  append_u32(table, static_cast<std::uint32_t>(entries.size() * (checksums ? 12 : 8) + 9));
  for (const Entry& entry : entries) {
    append_u32(table, entry.stored);
    append_u32(table, entry.content);
    if (checksums) append_u32(table, entry.checksum);
  }
  append_u32(table, static_cast<std::uint32_t>(entries.size()));
  table.push_back(std::byte{static_cast<unsigned char>(checksums ? 0x80 : 0)});
  append_u32(table, 0x8F92EAB1);
  return table;
}

struct Packed {
  Bytes file;  // the frames
  std::vector<Entry> entries;
  Bytes seekable() const {
    Bytes whole = file;
    append(whole, table_of(entries));
    return whole;
  }
};

inline Packed pack(std::span<const std::byte> content, std::size_t frame_bytes, bool checksum = true) {
  Packed packed;
  for (std::size_t done = 0; done < content.size(); done += frame_bytes) {
    const auto part = content.subspan(done, std::min(frame_bytes, content.size() - done));
    const Bytes frame = frame_of(part, 1, checksum);
    packed.entries.push_back({static_cast<std::uint32_t>(frame.size()), static_cast<std::uint32_t>(part.size())});
    append(packed.file, frame);
  }
  return packed;
}

inline std::shared_ptr<const File> open(std::span<const std::byte> bytes) {
  return unpacked(File::from_bytes("m.zst", bytes));
}

inline Bytes read(const File& file, std::uint64_t offset, std::uint64_t size) {
  Bytes bytes(size);
  file.read(offset, bytes);
  return bytes;
}
inline Bytes read_whole(const File& file) { return read(file, 0, file.size()); }

inline bool equal(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }

inline void expect_refused(std::span<const std::byte> bytes, ErrorCode code, std::string_view words,
                           std::optional<std::uint64_t> offset = std::nullopt) {
  try {
    read_whole(*open(bytes));
    ADD_FAILURE() << "was read, not: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what() << "\nnot: " << words;
    EXPECT_EQ(error.file(), "m.zst");
    ASSERT_TRUE(error.offset()) << error.what();
    EXPECT_EQ(*error.offset(), offset.value_or(*error.offset())) << error.what();
  }
}

}  // namespace wconv::test
