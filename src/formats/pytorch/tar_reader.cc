// torch 0.1.8 and earlier: a tar with the members sys_info, pickle, storages and tensors. The pickle names whole
// tensors by number. Source: torch/serialization.py (legacy_load). Nothing is unpacked to disk.
#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "formats/pytorch/containers.h"
#include "formats/pytorch/tree.h"
#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

constexpr std::uint64_t kBlock = 512;

struct Member {
  std::uint64_t begin = 0, end = 0;
};

std::uint64_t octal(std::string_view digits, std::uint64_t at) {
  std::uint64_t number = 0;
  for (const char c : digits) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7')
      fail_at(at, ErrorCode::kCorrupt, "a tar header holds a size or checksum that is no octal number");
    number = number * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

void check_sum(std::string_view header, std::uint64_t at) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  if (sum != octal(header.substr(148, 8), at)) fail_at(at, ErrorCode::kCorrupt, "a tar header has a wrong checksum");
}

std::map<std::string, Member> read_members(const std::shared_ptr<const File>& file) {
  std::map<std::string, Member> members;
  ByteReader reader(file);
  while (reader.remaining() >= kBlock) {
    const std::uint64_t at = reader.offset();
    const std::string header(reader.take_text(kBlock, "tar header"));
    if (header.find_first_not_of('\0') == std::string::npos) break;
    check_sum(header, at);
    std::string name = header.substr(0, 100);
    name.resize(std::min(name.find('\0'), name.size()));
    if (name.starts_with("./")) name.erase(0, 2);
    const std::uint64_t size = octal(std::string_view(header).substr(124, 12), at);
    const std::uint64_t begin = reader.offset();
    reader.skip(size, "tar member");
    if (header[156] == '0' || header[156] == '\0') {
      if (!members.emplace(name, Member{begin, begin + size}).second) {
        fail_at(at, ErrorCode::kCorrupt, "two tar members are called '{}'", printable(name));
      }
    }
    reader.skip(std::min((kBlock - size % kBlock) % kBlock, reader.remaining()), "tar padding");
  }
  return members;
}

// A sequence of pickles and raw numbers.
class Section {
 public:
  Section(std::shared_ptr<const File> file, const std::map<std::string, Member>& members, const std::string& name)
      : file_(std::move(file)), name_(name) {
    const auto found = members.find(name);
    if (found == members.end())
      fail(ErrorCode::kUnsupported, "a tar archive without the member '{}' is no PyTorch checkpoint", name);
    at_ = found->second.begin;
    end_ = found->second.end;
  }

  Pickle pickle() {
    Pickle made = read_pickle(file_, at_, end_);
    for (NodeId id = 0; id < made.size(); ++id) {
      if (made.kind(id) != NodeKind::kObject) continue;
      const NodeId callable = made.object(id).callable;
      if (made.kind(callable) == NodeKind::kGlobal &&
          lookup_global(made.global_name(callable)).meaning == Meaning::kUnknown) {
        fail_at(at_, ErrorCode::kCorrupt, "tar member '{}' calls {}, which has no place in it (nothing was run)", name_,
                printable(made.global_name(callable)));
      }
    }
    at_ = made.end_offset;
    return made;
  }
  std::uint64_t count() {
    const std::uint64_t begin = at_;
    const Pickle made = pickle();
    if (made.kind(made.root) != NodeKind::kInt || made.integer(made.root) < 0) {
      fail_at(begin, ErrorCode::kCorrupt, "tar member '{}' does not begin with a count", name_);
    }
    return static_cast<std::uint64_t>(made.integer(made.root));
  }
  std::int64_t i64(std::string_view field) { return static_cast<std::int64_t>(number(8, field)); }
  std::uint32_t u32(std::string_view field) { return static_cast<std::uint32_t>(number(4, field)); }
  std::uint64_t skip(std::uint64_t bytes) {
    if (bytes > end_ - at_)
      fail_at(at_, ErrorCode::kCorrupt, "tar member '{}' needs {} bytes here, {} are left", name_, bytes, end_ - at_);
    at_ += bytes;
    return at_ - bytes;
  }
  std::uint64_t offset() const { return at_; }

 private:
  std::uint64_t number(std::uint64_t bytes, std::string_view field) {
    if (bytes > end_ - at_)
      fail_at(at_, ErrorCode::kCorrupt, "tar member '{}': {} needs {} bytes, {} left; cut short?", name_, field, bytes,
              end_ - at_);
    std::array<std::byte, 8> number{};
    file_->read(at_, std::span(number).first(bytes));
    at_ += bytes;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(number[i]) << (8 * i);
    return value;
  }

  std::shared_ptr<const File> file_;
  std::string name_;
  std::uint64_t at_ = 0, end_ = 0;
};

// Item `index` of a tuple as a key: numbers and text alike.
std::string key_at(const Pickle& pickle, NodeId tuple, std::size_t index) {
  const bool known = (pickle.kind(tuple) == NodeKind::kTuple || pickle.kind(tuple) == NodeKind::kList) &&
                     pickle.items(tuple).size() > index;
  const NodeId item = known ? pickle.items(tuple)[index] : tuple;
  if (known && pickle.kind(item) == NodeKind::kInt) return fmt::format("{}", pickle.integer(item));
  if (known && pickle.kind(item) == NodeKind::kText) return pickle.text(item);
  if (known && pickle.kind(item) == NodeKind::kLong) return pickle.text(item);
  fail(ErrorCode::kCorrupt, "a tar checkpoint names a storage or tensor by something that is no key");
}

std::uint64_t number_at(const Pickle& pickle, NodeId tuple, std::size_t index) {
  if (pickle.items(tuple).size() > index) {
    const NodeId item = pickle.items(tuple)[index];
    if (pickle.kind(item) == NodeKind::kInt && pickle.integer(item) >= 0)
      return static_cast<std::uint64_t>(pickle.integer(item));
  }
  fail(ErrorCode::kCorrupt, "a storage view has no offset or size");
}

struct Storage {
  DType dtype = DType::kF32;
  std::uint64_t offset = 0, bytes = 0;  // in the file
};

class TarTensors final : public StorageSource {
 public:
  explicit TarTensors(std::shared_ptr<const File> file) : file_(std::move(file)) {}

  void read_storages(Section section) {
    for (std::uint64_t left = section.count(); left > 0; --left) {
      const Pickle pickle = section.pickle();
      const std::string key = key_at(pickle, pickle.root, 0);
      if (pickle.items(pickle.root).size() < 3 || pickle.kind(pickle.items(pickle.root)[2]) != NodeKind::kGlobal) {
        fail(ErrorCode::kCorrupt, "storage '{}' has no type", printable(key));
      }
      const std::string type = pickle.global_name(pickle.items(pickle.root)[2]);
      const auto dtype = lookup_global(type).dtype;
      if (!dtype)
        fail(ErrorCode::kUnsupported, "storage '{}' has the type {}, which is not supported", printable(key),
             printable(type));
      const std::int64_t count = section.i64("storage length");
      Storage storage{*dtype, 0, 0};
      if (count < 0 || !checked_mul(static_cast<std::uint64_t>(count), info(*dtype).block_bytes, storage.bytes)) {
        fail_at(section.offset() - 8, ErrorCode::kCorrupt, "storage '{}' claims {} elements", printable(key), count);
      }
      storage.offset = section.skip(storage.bytes);
      add(key, storage);
    }
    const Pickle views = section.pickle();
    if (views.kind(views.root) != NodeKind::kList) fail(ErrorCode::kCorrupt, "the list of storage views is no list");
    for (const NodeId view : views.items(views.root)) add_view(views, view);
  }

  void read_tensors(Section section) {
    for (std::uint64_t left = section.count(); left > 0; --left) {
      const Pickle pickle = section.pickle();
      const std::string key = key_at(pickle, pickle.root, 0);
      const Storage& storage = find(key_at(pickle, pickle.root, 1));
      const std::uint32_t rank = section.u32("tensor rank");
      section.skip(4);
      std::vector<std::uint64_t> shape;
      std::vector<std::int64_t> strides;
      for (std::uint32_t i = 0; i < rank; ++i) shape.push_back(static_cast<std::uint64_t>(section.i64("tensor size")));
      for (std::uint32_t i = 0; i < rank; ++i) strides.push_back(section.i64("tensor stride"));
      const auto first = static_cast<std::uint64_t>(section.i64("storage offset"));
      Tensor tensor;
      tensor.info = {"", storage.dtype, shape};
      tensor.source_dtype = storage.dtype;
      tensor.source_file = file_;
      tensor.source_offset = storage.offset + first * info(storage.dtype).block_bytes;
      try {
        tensor.data = strided_tensor(file_tensor(file_, storage.offset, storage.bytes), info(storage.dtype).block_bytes,
                                     first, shape, strides);
      } catch (Error& error) {
        throw error.in_tensor(key).at(storage.offset);
      }
      if (!tensors_.emplace(key, std::move(tensor)).second)
        fail(ErrorCode::kCorrupt, "two tensors have the key '{}'", printable(key));
    }
  }

  std::shared_ptr<const TensorData> storage(const StorageRequest& request) override {
    const Storage& storage = find(request.key);
    return file_tensor(file_, storage.offset, storage.bytes);
  }
  const Tensor* persistent_tensor(const std::string& key) override {
    const auto found = tensors_.find(key);
    return found == tensors_.end() ? nullptr : &found->second;
  }

 private:
  void add(const std::string& key, const Storage& storage) {
    if (!storages_.emplace(key, storage).second)
      fail(ErrorCode::kCorrupt, "two storages have the key '{}'", printable(key));
  }
  const Storage& find(const std::string& key) const {
    const auto found = storages_.find(key);
    if (found == storages_.end()) fail(ErrorCode::kCorrupt, "storage '{}' is not in the file", printable(key));
    return found->second;
  }
  // (key, key of the root, offset, length), in elements.
  void add_view(const Pickle& views, NodeId view) {
    const std::string key = key_at(views, view, 0);
    const Storage& root = find(key_at(views, view, 1));
    const std::uint64_t element = info(root.dtype).block_bytes, count = root.bytes / element;
    const std::uint64_t first = number_at(views, view, 2), length = number_at(views, view, 3);
    if (first > count || length > count - first) {
      fail(ErrorCode::kCorrupt, "storage view '{}' takes {} elements from element {} on; its root has {}",
           printable(key), length, first, count);
    }
    add(key, {root.dtype, root.offset + first * element, length * element});
  }

  std::shared_ptr<const File> file_;
  std::map<std::string, Storage> storages_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace

Model read_tar(std::shared_ptr<const File> file, const ReadOptions& options) {
  const auto members = read_members(file);
  Section(file, members, "sys_info").pickle();
  TarTensors tensors(file);
  tensors.read_storages(Section(file, members, "storages"));
  tensors.read_tensors(Section(file, members, "tensors"));
  const Pickle pickle = Section(file, members, "pickle").pickle();
  Objects objects(pickle, tensors);
  Model model;
  read_tree(objects, options, model);
  return model;
}

}  // namespace wconv::pytorch
