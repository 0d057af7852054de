#include "formats/onnx/number_list.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>
#include <vector>

#include "formats/onnx/schema.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::onnx {
namespace {

constexpr std::uint64_t kMaxDecoded = 64 * 1024 * 1024;
constexpr std::uint64_t kWindow = 64 * 1024;
constexpr std::uint64_t kCheckpointItems = 16 * 1024;

constexpr ItemCodec small_int(std::uint32_t bytes, std::int64_t min, std::uint64_t max) {
  return {tensor_proto::kInt32Data, "int32_data", Wire::varint, bytes, true, true, min, max};
}
constexpr ItemCodec big_int(std::uint32_t field, std::string_view name, std::uint32_t bytes, bool is_signed,
                            std::int64_t min, std::uint64_t max) {
  return {field, name, Wire::varint, bytes, false, is_signed, min, max};
}

template <typename T>
constexpr ItemCodec small_int_of() {
  return small_int(sizeof(T), std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::uint64_t kMax64 = std::numeric_limits<std::int64_t>::max();
constexpr ItemCodec kByte = small_int_of<std::uint8_t>();
constexpr ItemCodec kFloat = {tensor_proto::kFloatData, "float_data", Wire::fixed32, 4, false, true, 0, 0};
constexpr ItemCodec kDouble = {tensor_proto::kDoubleData, "double_data", Wire::fixed64, 8, false, true, 0, 0};
constexpr ItemCodec kInt64 = big_int(tensor_proto::kInt64Data, "int64_data", 8, true, kMin64, kMax64);

struct Row {
  DType dtype;
  ItemCodec codec;
};
constexpr auto kRows = std::to_array<Row>({
    {DType::kF32, kFloat},
    {DType::kC64, kFloat},
    {DType::kF64, kDouble},
    {DType::kC128, kDouble},
    {DType::kI64, kInt64},
    {DType::kU32, big_int(tensor_proto::kUint64Data, "uint64_data", 4, false, 0, 0xffff'ffff)},
    {DType::kU64, big_int(tensor_proto::kUint64Data, "uint64_data", 8, false, 0, ~std::uint64_t{0})},
    {DType::kI32, small_int_of<std::int32_t>()},
    {DType::kI16, small_int_of<std::int16_t>()},
    {DType::kU16, small_int_of<std::uint16_t>()},
    {DType::kF16, small_int_of<std::uint16_t>()},
    {DType::kBF16, small_int_of<std::uint16_t>()},
    {DType::kI8, small_int_of<std::int8_t>()},
    {DType::kU8, kByte},
    {DType::kBool, small_int(1, 0, 1)},
    {DType::kF8E4M3, kByte},
    {DType::kF8E5M2, kByte},
    {DType::kF8E4M3Fnuz, kByte},
    {DType::kF8E5M2Fnuz, kByte},
    {DType::kF8E8M0, kByte},
    {DType::kF4, kByte},
    {DType::kU4, kByte},
    {DType::kI4, kByte},
    {DType::kU2, kByte},
    {DType::kI2, kByte},
});

// The stored bits of a varint. `at`: its byte offset.
std::uint64_t checked(const ItemCodec& codec, std::uint64_t raw, std::uint64_t at) {
  if (!codec.is_signed) {
    if (raw > codec.max) fail_at(at, ErrorCode::kCorrupt, "{} holds {}; at most {} fits", codec.name, raw, codec.max);
    return raw;
  }
  const std::int64_t value = codec.is_int32 ? static_cast<std::int32_t>(raw) : static_cast<std::int64_t>(raw);
  if (value < codec.min || (value > 0 && static_cast<std::uint64_t>(value) > codec.max))
    fail_at(at, ErrorCode::kCorrupt, "{} holds {}; {} to {} fit", codec.name, value, codec.min, codec.max);
  return static_cast<std::uint64_t>(value);
}

// Decodes varints of [position, end) until `take(value, offset of it)` says false.
template <typename Take>
void read_varints(const File& file, std::uint64_t position, std::uint64_t end, std::string_view name, Take take) {
  std::vector<std::byte> window;
  while (position < end) {
    window.resize(std::min(kWindow, end - position));
    file.read(position, window);
    const char* const begin = reinterpret_cast<const char*>(window.data());
    const char* const stop = begin + window.size();
    const bool last = window.size() == end - position;
    const char* data = begin;
    while (data < stop && (last || stop - data >= protozero::max_varint_length)) {
      const std::uint64_t at = position + static_cast<std::uint64_t>(data - begin);
      std::uint64_t value = 0;
      try {
        value = protozero::decode_varint(&data, stop);
      } catch (const protozero::exception&) {
        fail_at(at, ErrorCode::kCorrupt, "{} ends inside a number, or holds one of more than {} bytes", name,
                protozero::max_varint_length);
      }
      if (!take(value, at)) return;
    }
    position += static_cast<std::uint64_t>(data - begin);
  }
}

void store(std::uint64_t value, std::uint32_t bytes, std::byte* out) {
  for (std::uint32_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

[[noreturn]] void fail_count(const ItemCodec& codec, std::uint64_t at, std::uint64_t found, std::uint64_t wanted) {
  fail_at(at, ErrorCode::kCorrupt, "{} holds {} numbers; dims and data_type need {}", codec.name, found, wanted);
}

// Packed integers of a file, decoded on request.
class VarintTensor final : public TensorData {
 public:
  VarintTensor(std::shared_ptr<const File> file, const Field& field, const ItemCodec& codec, std::uint64_t items)
      : file_(std::move(file)), begin_(field.begin), end_(field.end), codec_(codec), size_(items * codec.bytes) {
    std::uint64_t found = 0;
    read_varints(*file_, begin_, end_, codec.name, [&](std::uint64_t raw, std::uint64_t at) {
      if (found % kCheckpointItems == 0) checkpoints_.push_back(at);
      checked(codec_, raw, at);
      return ++found <= items;
    });
    if (found != items) fail_count(codec, field.at, count_items_of(found, items), items);
  }

  std::uint64_t size_bytes() const override { return size_; }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (out.empty()) return;
    const std::uint64_t first = offset / codec_.bytes, checkpoint = first / kCheckpointItems;
    std::uint64_t item = checkpoint * kCheckpointItems;
    std::size_t done = 0;
    read_varints(*file_, checkpoints_.at(checkpoint), end_, codec_.name, [&](std::uint64_t raw, std::uint64_t at) {
      if (item++ < first) return true;
      store(checked(codec_, raw, at), codec_.bytes, &out[done]);
      done += codec_.bytes;
      return done < out.size();
    });
    if (done < out.size()) fail_at(end_, ErrorCode::kIo, "{} changed while it was read", codec_.name);
  }

 private:
  std::uint64_t count_items_of(std::uint64_t found, std::uint64_t items) const {
    if (found <= items) return found;
    std::uint64_t all = 0;
    read_varints(*file_, begin_, end_, codec_.name, [&](std::uint64_t, std::uint64_t) { return ++all > 0; });
    return all;
  }

  std::shared_ptr<const File> file_;
  std::uint64_t begin_, end_;
  ItemCodec codec_;
  std::uint64_t size_;
  std::vector<std::uint64_t> checkpoints_;  // byte offset of every kCheckpointItems-th item
};

// Every item of a list in several fields, in order: take(stored bits, offset).
template <typename Take>
void read_fields(const ListPlace& place, const ItemCodec& codec, Take take) {
  Cursor cursor(place.reader, place.begin, place.end, codec.name);
  while (cursor.next()) {
    const Field& field = cursor.field();
    if (field.number != place.field) continue;
    if (field.wire == Wire::length_delimited && codec.wire == Wire::varint) {
      read_varints(*place.file, field.begin, field.end, codec.name, [&](std::uint64_t raw, std::uint64_t at) {
        take(checked(codec, raw, at), at);
        return true;
      });
    } else if (field.wire == codec.wire && codec.wire == Wire::varint) {
      take(checked(codec, field.value, field.at), field.at);
    } else if (field.wire == codec.wire || field.wire == Wire::length_delimited) {
      if (field.size() % codec.bytes != 0)
        fail_at(field.at, ErrorCode::kCorrupt, "{} has {} bytes, not a multiple of {}", codec.name, field.size(),
                codec.bytes);
      for (std::uint64_t at = field.begin; at < field.end; at += codec.bytes) {
        place.reader.seek(at);
        take(codec.bytes == 4 ? place.reader.u32(codec.name) : place.reader.u64(codec.name), at);
      }
    } else {
      fail_at(field.at, ErrorCode::kCorrupt, "{} has the wire type {}, {} or 2 is right", codec.name,
              static_cast<unsigned>(field.wire), static_cast<unsigned>(codec.wire));
    }
  }
}

bool one_packed(const ListPlace& place) {
  return place.list.fields == 1 && place.list.first.wire == Wire::length_delimited;
}

}  // namespace

const ItemCodec* item_codec(DType dtype) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.dtype == dtype; });
  return row == kRows.end() ? nullptr : &row->codec;
}

const ItemCodec& float_codec() { return kFloat; }
const ItemCodec& int_codec() { return kInt64; }

std::uint64_t count_items(const ListPlace& place, const ItemCodec& codec) {
  if (one_packed(place) && codec.wire != Wire::varint) return place.list.first.size() / codec.bytes;
  std::uint64_t count = 0;
  read_fields(place, codec, [&](std::uint64_t, std::uint64_t) { ++count; });
  return count;
}

std::shared_ptr<const TensorData> list_tensor(const ListPlace& place, const ItemCodec& codec, std::uint64_t items) {
  const Field& first = place.list.first;
  if (one_packed(place) && codec.wire == Wire::varint)
    return std::make_shared<VarintTensor>(place.file, first, codec, items);
  if (one_packed(place)) {
    if (first.size() != items * codec.bytes)
      fail_at(first.at, ErrorCode::kCorrupt, "{} has {} bytes; dims and data_type need {}", codec.name, first.size(),
              items * codec.bytes);
    return file_tensor(place.file, first.begin, first.size());
  }
  if (place.list.fields == 1 && items == 1 && first.wire == codec.wire && codec.wire != Wire::varint)
    return file_tensor(place.file, first.begin, first.size());
  if (items > kMaxDecoded / codec.bytes)
    fail_at(first.at, ErrorCode::kUnsupported,
            "{} holds its numbers one by one, which wconv reads up to {} bytes; save the model again with raw_data",
            codec.name, kMaxDecoded);
  std::vector<std::byte> bytes;
  std::uint64_t found = 0;
  read_fields(place, codec, [&](std::uint64_t bits, std::uint64_t) {
    if (found++ >= items) return;
    bytes.resize(bytes.size() + codec.bytes);
    store(bits, codec.bytes, &bytes[bytes.size() - codec.bytes]);
  });
  if (found != items) fail_count(codec, place.list.fields == 0 ? place.begin : first.at, found, items);
  return memory_tensor(std::move(bytes));
}

}  // namespace wconv::onnx
