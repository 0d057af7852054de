#include "formats/pytorch/zip_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/hash.h"
#include "formats/pytorch/zip_directory.h"

namespace wconv::pytorch {
namespace {

constexpr std::uint64_t kAlignment = 64, kLocalHeaderBytes = 30;
constexpr std::uint16_t kVersion = 20, kVersion64 = 45;  // needed to extract
constexpr std::uint16_t kDate = 1 << 5 | 1;              // 1980-01-01, zip's first day: the same bytes at any time
constexpr std::uint16_t kUtf8Names = 1u << 11;
constexpr std::uint16_t kPaddingField = 0x4246;  // "FB", as torch.save pads

bool wide(std::uint64_t value) { return value >= kSaturated; }
std::uint64_t narrow(std::uint64_t value) { return std::min<std::uint64_t>(value, kSaturated); }

class Bytes {
 public:
  Bytes& number(std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  Bytes& u16(std::uint64_t value) { return number(value, 2); }
  Bytes& u32(std::uint64_t value) { return number(value, 4); }
  Bytes& u64(std::uint64_t value) { return number(value, 8); }
  Bytes& text(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  Bytes& zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

void ZipPlan::add_literal(std::vector<std::byte> bytes) {
  if (bytes.empty()) return;
  Piece& piece = file_.pieces.emplace_back();
  piece.offset = file_.size;
  file_.size += bytes.size();
  piece.content = LiteralPiece{std::move(bytes)};
}

void ZipPlan::add_crc32(std::size_t tensor_piece) {
  Piece& piece = file_.pieces.emplace_back();
  piece.offset = file_.size;
  piece.content = Crc32Piece{tensor_piece};
  file_.size += 4;
}

// The local header, padded so that the data behind it is aligned. With a descriptor CRC and sizes are left to it.
void ZipPlan::begin_record(const Entry& entry) {
  const bool zip64 = wide(entry.size);
  const std::uint64_t fixed = file_.size + kLocalHeaderBytes + entry.name.size() + (zip64 ? 20 : 0) + 4;
  const std::uint64_t padding = (kAlignment - fixed % kAlignment) % kAlignment;
  const std::uint64_t size = entry.tensor && !zip64 ? 0 : narrow(entry.size);
  Bytes header;
  header.u32(kLocalHeaderMark).u16(zip64 ? kVersion64 : kVersion).u16(kUtf8Names | (entry.tensor ? kHasDescriptor : 0));
  header.u16(0).u16(0).u16(kDate).u32(entry.crc32).u32(size).u32(size);
  header.u16(entry.name.size()).u16((zip64 ? 20 : 0) + 4 + padding).text(entry.name);
  if (zip64) header.u16(kZip64Field).u16(16).u64(entry.size).u64(entry.size);
  header.u16(kPaddingField).u16(padding).zeros(padding);
  add_literal(header.take());
}

void ZipPlan::add(const std::string& name, std::vector<std::byte> bytes) {
  Entry entry{name, file_.size, bytes.size(), wconv::crc32(0, bytes), 0, false};
  begin_record(entry);
  add_literal(std::move(bytes));
  entries_.push_back(std::move(entry));
}

void ZipPlan::add_tensor(const std::string& name, std::size_t tensor, std::uint64_t bytes) {
  if (bytes == 0) return add(name, {});
  Entry entry{name, file_.size, bytes, 0, 0, true};
  begin_record(entry);
  entry.piece = file_.pieces.size();
  Piece& piece = file_.pieces.emplace_back();
  piece.offset = file_.size;
  piece.content = TensorPiece{.tensor = tensor, .size = bytes, .want_crc32 = true};
  file_.size += bytes;
  add_literal(Bytes().u32(kDescriptorMark).take());
  add_crc32(entry.piece);
  const std::size_t width = wide(bytes) ? 8 : 4;
  add_literal(Bytes().number(bytes, width).number(bytes, width).take());
  entries_.push_back(std::move(entry));
}

void ZipPlan::directory_entry(const Entry& entry) {
  Bytes extra;
  if (wide(entry.size)) extra.u64(entry.size).u64(entry.size);
  if (wide(entry.header_offset)) extra.u64(entry.header_offset);
  const std::vector<std::byte> values = extra.take();
  const std::uint16_t version = values.empty() ? kVersion : kVersion64;
  add_literal(Bytes()
                  .u32(kEntryMark)
                  .u16(version)
                  .u16(version)
                  .u16(kUtf8Names | (entry.tensor ? kHasDescriptor : 0))
                  .u16(0)
                  .u16(0)
                  .u16(kDate)
                  .take());
  entry.tensor ? add_crc32(entry.piece) : add_literal(Bytes().u32(entry.crc32).take());
  Bytes rest;
  rest.u32(narrow(entry.size))
      .u32(narrow(entry.size))
      .u16(entry.name.size())
      .u16(values.empty() ? 0 : 4 + values.size());
  rest.zeros(2 + 2 + 2 + 4).u32(narrow(entry.header_offset)).text(entry.name);  // no comment, disk 0, no attributes
  if (!values.empty()) rest.u16(kZip64Field).u16(values.size());
  add_literal(rest.take());
  add_literal(values);
}

void ZipPlan::end_records(std::uint64_t directory) {
  const std::uint64_t size = file_.size - directory, count = entries_.size(), at = file_.size;
  Bytes end;
  if (count >= 0xffff || wide(size) || wide(directory)) {
    end.u32(kEnd64Mark)
        .u64(44)
        .u16(kVersion64)
        .u16(kVersion64)
        .u32(0)
        .u32(0)
        .u64(count)
        .u64(count)
        .u64(size)
        .u64(directory);
    end.u32(kLocator64Mark).u32(0).u64(at).u32(1);
  }
  const std::uint64_t narrow_count = std::min<std::uint64_t>(count, 0xffff);
  end.u32(kEndMark).u16(0).u16(0).u16(narrow_count).u16(narrow_count).u32(narrow(size)).u32(narrow(directory)).u16(0);
  add_literal(end.take());
}

OutputFile ZipPlan::finish(std::string file_name) {
  const std::uint64_t directory = file_.size;
  for (const Entry& entry : entries_) directory_entry(entry);
  end_records(directory);
  file_.name = std::move(file_name);
  return std::move(file_);
}

}  // namespace wconv::pytorch
