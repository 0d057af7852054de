// Zip archives and pickles made by hand for the tests, so that each field can be wrong.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wconv/file.h"
#include "wconv/format.h"

namespace wconv::test {

inline std::string le(std::uint64_t value, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string deflate_raw(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A record as it is to stand in the archive; fields that differ from the truth make it a bad one.
struct ZipEntry {
  std::string name, data;
  bool deflated = false;
  std::uint16_t flags = 0, local_flags = 0, method = 0xffff;     // 0xffff: as `deflated` says
  std::string local_name = {};                                   // empty: name
  std::int64_t size_error = 0, crc_error = 0, offset_error = 0;  // added in the directory
};

inline std::string make_zip(const std::vector<ZipEntry>& entries) {
  std::string body, directory;
  for (const ZipEntry& entry : entries) {
    const std::string stored = entry.deflated ? deflate_raw(entry.data) : entry.data;
    const std::uint64_t crc =
        ::crc32(0, reinterpret_cast<const Bytef*>(entry.data.data()), static_cast<uInt>(entry.data.size()));
    const std::uint64_t method = entry.method == 0xffff ? (entry.deflated ? 8 : 0) : entry.method;
    const std::string local = entry.local_name.empty() ? entry.name : entry.local_name;
    const std::uint64_t at = body.size();
    body += le(0x04034b50, 4) + le(20, 2) + le(entry.local_flags, 2) + le(method, 2) + le(0, 4) + le(crc, 4) +
            le(stored.size(), 4) + le(entry.data.size(), 4) + le(local.size(), 2) + le(0, 2) + local + stored;
    const std::uint64_t wrong = static_cast<std::uint64_t>(entry.size_error);
    directory += le(0x02014b50, 4) + le(20, 2) + le(20, 2) + le(entry.flags, 2) + le(method, 2) + le(0, 4) +
                 le(crc + static_cast<std::uint64_t>(entry.crc_error), 4) +
                 le(stored.size() + (entry.deflated ? 0 : wrong), 4) + le(entry.data.size() + wrong, 4) +
                 le(entry.name.size(), 2) + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) +
                 le(at + static_cast<std::uint64_t>(entry.offset_error), 4) + entry.name;
  }
  return body + directory + le(0x06054b50, 4) + le(0, 4) + le(entries.size(), 2) + le(entries.size(), 2) +
         le(directory.size(), 4) + le(body.size(), 4) + le(0, 2);
}

inline std::shared_ptr<const File> file_of(const std::string& text) {
  return File::from_bytes("test.pth", std::as_bytes(std::span(text)));
}

// Pieces of a protocol 2 pickle.
inline std::string text_op(const std::string& text) { return "X" + le(text.size(), 4) + text; }
inline std::string int_op(std::uint64_t value) { return "J" + le(value, 4); }
inline std::string global_op(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple_op(const std::vector<std::uint64_t>& values) {
  std::string text = "(";
  for (const std::uint64_t value : values) text += int_op(value);
  return text + "t";
}

struct TensorOp {
  std::string storage = "FloatStorage", key = "0";
  std::uint64_t count = 4, offset = 0;
  std::vector<std::uint64_t> shape = {2, 2}, strides = {2, 1};
};
inline std::string tensor_op(const TensorOp& tensor = {}) {
  return global_op("torch._utils", "_rebuild_tensor_v2") + "((" + text_op("storage") +
         global_op("torch", tensor.storage) + text_op(tensor.key) + text_op("cpu") + int_op(tensor.count) + "tQ" +
         int_op(tensor.offset) + tuple_op(tensor.shape) + tuple_op(tensor.strides) + "\x89" +
         global_op("collections", "OrderedDict") + ")RtR";
}
// A dict from keys to the opcodes of their values.
inline std::string dict_op(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string text = "}(";
  for (const auto& [key, value] : items) text += text_op(key) + value;
  return text + "u";
}
inline std::string pickle_of(const std::string& ops) { return "\x80\x02" + ops + "."; }

// An archive of one pickle and 16 bytes of storage '0': the floats 1, 2, 3, 4.
inline const std::string kFloats("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40", 16);
inline std::string checkpoint(const std::string& ops, const std::vector<ZipEntry>& more = {}) {
  std::vector<ZipEntry> entries = {{"archive/data.pkl", pickle_of(ops)}, {"archive/data/0", kFloats}};
  entries.insert(entries.end(), more.begin(), more.end());
  return make_zip(entries);
}

}  // namespace wconv::test
