#include "core/zstd_writer.h"

#include <zstd.h>

#include <algorithm>
#include <new>

#include "core/zstd_frames.h"
#include "wconv/error.h"

namespace wconv {
namespace {

std::uint64_t frame_count(std::uint64_t content_bytes) {
  return content_bytes / kZstdFrameBytes + (content_bytes % kZstdFrameBytes != 0);
}

std::uint64_t table_bytes(std::uint64_t frames) { return 8 + 8 * frames + 9; }

void put_u32(std::vector<std::byte>& bytes, std::uint64_t number) {
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::byte>(number >> shift));
}

}  // namespace

struct ZstdCompressor::Context {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ~Context() { ZSTD_freeCCtx(context); }
};

ZstdCompressor::ZstdCompressor(int level) : context_(std::make_unique<Context>()) {
  if (!context_->context) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context_->context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context_->context, ZSTD_c_checksumFlag, 1);
}

ZstdCompressor::~ZstdCompressor() = default;

std::size_t ZstdCompressor::compress(std::span<const std::byte> content, std::span<std::byte> out) {
  const std::size_t size = ZSTD_compress2(context_->context, out.data(), out.size(), content.data(), content.size());
  if (ZSTD_isError(size)) fail(ErrorCode::kIo, "cannot compress: {}", ZSTD_getErrorName(size));  // out of memory
  return size;
}

std::uint64_t ZstdCompressor::memory_bytes() const { return ZSTD_sizeof_CCtx(context_->context); }

std::uint64_t zstd_frame_bound(std::uint64_t content_bytes) { return ZSTD_compressBound(content_bytes); }

std::uint64_t zstd_file_bound(std::uint64_t content_bytes) {
  const std::uint64_t frames = frame_count(content_bytes), last = content_bytes % kZstdFrameBytes;
  const std::uint64_t whole = content_bytes / kZstdFrameBytes * zstd_frame_bound(kZstdFrameBytes);
  return whole + (last ? zstd_frame_bound(last) : 0) + table_bytes(frames);
}

std::uint64_t zstd_compress_memory(int level) {
  const std::vector<std::byte> content(kZstdFrameBytes);
  std::vector<std::byte> out(zstd_frame_bound(content.size()));
  ZstdCompressor compressor(level);
  compressor.compress(content, out);
  return compressor.memory_bytes();
}

std::vector<std::byte> zstd_seek_table(std::span<const std::uint32_t> frames, std::uint64_t content_bytes) {
  std::vector<std::byte> table;
  table.reserve(table_bytes(frames.size()));
  put_u32(table, kZstdTableFrameMagic);
  put_u32(table, 8 * frames.size() + 9);
  for (const std::uint32_t stored : frames) {
    const std::uint64_t content = std::min(kZstdFrameBytes, content_bytes);
    put_u32(table, stored);
    put_u32(table, content);
    content_bytes -= content;
  }
  put_u32(table, frames.size());
  table.push_back(std::byte{0});  // the frames carry their own checksums
  put_u32(table, kZstdTableMagic);
  return table;
}

}  // namespace wconv
