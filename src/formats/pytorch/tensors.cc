// torch tensors: views of storages.
#include <algorithm>
#include <cstring>

#include "formats/pytorch/containers.h"
#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::pytorch {

bool Objects::is_tensor(NodeId id) const {
  if (pickle_.kind(id) == NodeKind::kPersistent) {
    const NodeId key = pickle_.items(id)[0];
    return pickle_.kind(key) == NodeKind::kText && storages_.persistent_tensor(pickle_.text(key)) != nullptr;
  }
  switch (meaning(id).meaning) {
    case Meaning::kRebuildTensor:
    case Meaning::kRebuildTensorV2:
    case Meaning::kRebuildTensorV3:
    case Meaning::kRebuildQTensor:
    case Meaning::kRebuildParameter:
    case Meaning::kRebuildFromType:
    case Meaning::kRebuildFromNumpy:
    case Meaning::kRefusedTensor:
      return true;
    case Meaning::kNumpyReconstruct:
    case Meaning::kNumpyFromBuffer: {
      // Arrays of text or Python objects are no tensors; they stay inert.
      try {
        const bool built = meaning(id).meaning == Meaning::kNumpyFromBuffer;
        const NodeId state = pickle_.object(id).state;
        if (!built && (state == kNoNode || pickle_.kind(state) != NodeKind::kTuple || pickle_.items(state).size() < 5))
          return false;
        numpy_dtype(built ? call_args(id, 2)[1] : pickle_.items(state)[2]);
        return true;
      } catch (const Error&) {
        return false;
      }
    }
    default:
      return false;
  }
}

std::int64_t Objects::integer(NodeId id, std::string_view what) const {
  if (pickle_.kind(id) != NodeKind::kInt) fail(ErrorCode::kCorrupt, "its {} is no 64-bit integer", what);
  return pickle_.integer(id);
}

std::vector<std::int64_t> Objects::integers(NodeId id, std::string_view what) const {
  if (meaning(id).meaning == Meaning::kSize) id = call_args(id, 1)[0];
  if (pickle_.kind(id) != NodeKind::kTuple && pickle_.kind(id) != NodeKind::kList) {
    fail(ErrorCode::kCorrupt, "its {} is no tuple of integers", what);
  }
  std::vector<std::int64_t> out;
  for (const NodeId item : pickle_.items(id)) out.push_back(integer(item, what));
  return out;
}

Objects::View Objects::view(const std::vector<NodeId>& args) const {
  View view;
  const std::int64_t offset = integer(args[1], "storage offset");
  if (offset < 0) fail(ErrorCode::kCorrupt, "its storage offset {} is negative", offset);
  view.offset = static_cast<std::uint64_t>(offset);
  for (const std::int64_t size : integers(args[2], "size")) {
    if (size < 0) fail(ErrorCode::kCorrupt, "its size {} is negative", size);
    view.shape.push_back(static_cast<std::uint64_t>(size));
  }
  view.strides = integers(args[3], "stride");
  return view;
}

std::shared_ptr<const TensorData> Objects::storage_data(const StorageRequest& request) {
  auto& data = storage_cache_[request.key];
  if (!data) data = storages_.storage(request);
  if (data->size_bytes() != request.bytes) {
    fail(ErrorCode::kCorrupt, "storage '{}' is claimed to have {} bytes here and {} elsewhere", request.key,
         request.bytes, data->size_bytes());
  }
  return data;
}

// A persistent id: ('storage', type, key, location, size[, (view key, offset, view size)]).
Objects::Storage Objects::named_storage(NodeId storage) const {
  const NodeId id = pickle_.items(storage)[0];
  if (pickle_.kind(id) != NodeKind::kTuple || pickle_.items(id).size() < 5) {
    fail(ErrorCode::kCorrupt, "its storage id is no tuple ('storage', type, key, location, size)");
  }
  const auto& parts = pickle_.items(id);
  const GlobalInfo type = global_meaning(parts[1]);
  if (type.meaning != Meaning::kStorage && type.meaning != Meaning::kUntypedStorage) {
    fail(ErrorCode::kCorrupt, "its storage has a type that is no torch storage");
  }
  if (type.meaning == Meaning::kStorage && !type.dtype) {
    fail(ErrorCode::kUnsupported, "its storage type {} is not supported", pickle_.global_name(parts[1]));
  }
  if (pickle_.kind(parts[3]) == NodeKind::kText && pickle_.text(parts[3]) == "meta") {
    fail(ErrorCode::kUnsupported, "is a meta tensor, which has no data");
  }
  Storage out;
  out.dtype = type.dtype;
  const std::uint64_t unit = type.dtype ? info(*type.dtype).block_bytes : 1;
  const std::int64_t count = integer(parts[4], "storage size");
  out.request.key = pickle_.kind(parts[2]) == NodeKind::kText ? pickle_.text(parts[2]) : key_text(parts[2]);
  if (count < 0 || !checked_mul(static_cast<std::uint64_t>(count), unit, out.request.bytes)) {
    fail(ErrorCode::kCorrupt, "its storage claims {} elements", count);
  }
  if (parts.size() > 5 && pickle_.kind(parts[5]) == NodeKind::kTuple && pickle_.items(parts[5]).size() == 3) {
    const std::int64_t shift = integer(pickle_.items(parts[5])[1], "storage view offset");
    if (shift < 0) fail(ErrorCode::kCorrupt, "its storage view begins at {}", shift);
    out.view_offset = static_cast<std::uint64_t>(shift);
  }
  return out;
}

// A storage that torch.save wrote into bytes of the pickle.
Objects::Storage Objects::storage_in_bytes(NodeId id) const {
  const auto data = bytes(call_args(id, 1)[0]);
  std::shared_ptr<const File> file = pickle_.file();
  std::uint64_t begin = 0, size = data->size_bytes();
  if (const auto range = data->file_range()) {
    begin = range->offset;
  } else {
    std::vector<std::byte> held(size);
    data->read(0, held);
    file = File::from_bytes(file->path(), held);
  }
  Stream stream = read_stream_range(file, begin, begin + size);
  Objects objects(stream.pickle, stream.storages);
  if (stream.pickle.kind(stream.pickle.root) != NodeKind::kPersistent)
    fail(ErrorCode::kUnsupported, "holds a torch file that is no storage");
  Storage out = objects.named_storage(stream.pickle.root);
  out.data = stream.storages.storage(out.request);
  out.request.key = fmt::format("bytes {}", id);
  return out;
}

Objects::Storage Objects::storage(NodeId id) {
  if (meaning(id).meaning == Meaning::kLoadFromBytes) {
    const auto known = nested_.find(id);
    return known != nested_.end() ? known->second : nested_.emplace(id, storage_in_bytes(id)).first->second;
  }
  if (pickle_.kind(id) != NodeKind::kPersistent) fail(ErrorCode::kCorrupt, "its storage is no persistent id");
  Storage out = named_storage(id);
  out.data = storage_data(out.request);
  return out;
}

// `dtype`: of the tensor, where its storage has none.
Tensor Objects::strided(NodeId storage_id, View view, std::optional<DType> dtype) {
  const Storage held = storage(storage_id);
  const DType element = dtype ? *dtype : held.dtype.value_or(DType::kU8);
  const std::uint32_t element_bytes = info(element).block_bytes;
  if (!checked_add(view.offset, held.view_offset, view.offset))
    fail(ErrorCode::kCorrupt, "its storage view begins at {}", held.view_offset);
  Tensor tensor;
  tensor.info = {"", element, view.shape};
  tensor.source_dtype = element;
  auto& data = views_[ViewKey(held.request.key, element, view.offset, view.shape, view.strides)];
  if (!data) {
    data = strided_tensor(held.data, element_bytes, view.offset, view.shape, view.strides);
    const bool complex = info(element).kind == DTypeKind::kComplex;
    if (storages_.big_endian()) data = swapped_tensor(data, complex ? element_bytes / 2 : element_bytes);
  }
  tensor.data = data;
  if (const auto range = held.data->file_range()) {
    tensor.source_file = range->file;
    tensor.source_offset = range->offset + view.offset * element_bytes;
  }
  return tensor;
}

// torch.conj() and the imaginary part of one are views with a mark: {"conj": True} or {"neg": True} in args[at].
Tensor Objects::resolved(Tensor tensor, const std::vector<NodeId>& args, std::size_t at) const {
  const auto* marks = at < args.size() ? pairs_of(args[at]) : nullptr;
  if (!marks) return tensor;
  const DTypeInfo& type = info(tensor.info.dtype);
  const bool complex = type.kind == DTypeKind::kComplex;
  for (std::size_t i = 0; i + 1 < marks->size(); i += 2) {
    const NodeId key = (*marks)[i], value = (*marks)[i + 1];
    if (pickle_.kind(key) != NodeKind::kText || pickle_.kind(value) != NodeKind::kBool || !pickle_.integer(value))
      continue;
    const bool conjugate = pickle_.text(key) == "conj", negative = pickle_.text(key) == "neg";
    if (!conjugate && !negative) continue;
    if (!complex && (conjugate || type.kind != DTypeKind::kFloat)) {
      fail(ErrorCode::kCorrupt, "is marked '{}', which {} cannot be", pickle_.text(key), type.name);
    }
    tensor.data = negated_tensor(tensor.data, complex ? type.block_bytes / 2 : type.block_bytes,
                                 conjugate ? Negated::kImaginary : Negated::kAll);
  }
  return tensor;
}

std::vector<NamedTensor> Objects::quantized(NodeId id) {
  const auto& args = call_args(id, 5);
  if (pickle_.kind(args[4]) != NodeKind::kTuple || pickle_.items(args[4]).size() < 3) {
    fail(ErrorCode::kCorrupt, "its quantizer is no tuple");
  }
  const auto& quantizer = pickle_.items(args[4]);
  std::vector<NamedTensor> out;
  out.push_back({"", strided(args[0], view(args), std::nullopt)});
  const auto number = [&](std::string suffix, NodeId node, DType dtype) {
    std::vector<std::byte> bytes(8);
    const bool real = pickle_.kind(node) == NodeKind::kFloat;
    const double value = real ? pickle_.real(node) : 0;
    const std::int64_t whole = real ? 0 : integer(node, "zero point");
    std::memcpy(bytes.data(), real ? static_cast<const void*>(&value) : &whole, 8);
    Tensor tensor;
    tensor.info = {"", dtype, {}};
    tensor.source_dtype = dtype;
    tensor.data = memory_tensor(std::move(bytes));
    out.push_back({std::move(suffix), std::move(tensor)});
  };
  const auto part = [&](std::string suffix, NodeId node) {
    if (meaning(inner_tensor(node)).meaning == Meaning::kRebuildQTensor)
      fail(ErrorCode::kCorrupt, "its scale is quantized itself");
    for (NamedTensor& inner : tensor(node)) out.push_back({suffix + inner.suffix, std::move(inner.tensor)});
  };
  if (is_tensor(quantizer[1])) {
    part(".scale", quantizer[1]);
    part(".zero_point", quantizer[2]);
    if (quantizer.size() > 3) number(".axis", quantizer[3], DType::kI64);  // of the channels
  } else {
    number(".scale", quantizer[1], DType::kF64);
    number(".zero_point", quantizer[2], DType::kI64);
  }
  return out;
}

// The tensor inside a Parameter or a tensor subclass.
NodeId Objects::inner_tensor(NodeId id) const {
  for (int depth = 0; depth < 16; ++depth) {
    const Meaning what = meaning(id).meaning;
    if (what != Meaning::kRebuildParameter) return id;
    if (pickle_.object(id).state != kNoNode)
      fail(ErrorCode::kUnsupported, "is given another storage after it is made (BUILD)");
    id = call_args(id, 1)[0];
  }
  fail(ErrorCode::kCorrupt, "parameters are nested more than 16 deep");
}

std::vector<NamedTensor> Objects::tensor(NodeId id) {
  if (pickle_.kind(id) == NodeKind::kPersistent) {
    if (!is_tensor(id)) fail(ErrorCode::kCorrupt, "has a storage where a tensor belongs");
    return {{"", *storages_.persistent_tensor(pickle_.text(pickle_.items(id)[0]))}};
  }
  id = inner_tensor(id);
  if (pickle_.kind(id) != NodeKind::kObject) fail(ErrorCode::kCorrupt, "is a parameter without a tensor");
  const GlobalInfo what = meaning(id);
  const Object& object = pickle_.object(id);
  if (!object.pairs.empty() || !object.list.empty() || object.keywords != kNoNode) {
    fail(ErrorCode::kCorrupt, "the pickle sets items on it; only dicts and lists have items");
  }
  const bool numpy = what.meaning == Meaning::kNumpyReconstruct || what.meaning == Meaning::kNumpyFromBuffer;
  if (object.state != kNoNode && !numpy)
    fail(ErrorCode::kUnsupported, "is given another storage after it is made (BUILD)");
  switch (what.meaning) {
    case Meaning::kRebuildTensor:
    case Meaning::kRebuildTensorV2: {
      const auto& args = call_args(id, 4);
      return {{"", resolved(strided(args[0], view(args), std::nullopt), args, 6)}};
    }
    case Meaning::kRebuildTensorV3: {
      const auto& args = call_args(id, 7);
      const GlobalInfo dtype = global_meaning(args[6]);
      if (dtype.meaning != Meaning::kDtype || !dtype.dtype) {
        fail(ErrorCode::kUnsupported, "its dtype {} is not supported",
             pickle_.kind(args[6]) == NodeKind::kGlobal ? pickle_.global_name(args[6]) : "is no dtype and");
      }
      return {{"", resolved(strided(args[0], view(args), dtype.dtype), args, 7)}};
    }
    case Meaning::kRebuildQTensor:
      return quantized(id);
    case Meaning::kRebuildFromType: {
      // (function, type, arguments, state): the tensor that function(*arguments) would give.
      const auto& args = call_args(id, 3);
      const GlobalInfo function = global_meaning(args[0]);
      if (function.meaning == Meaning::kRefusedTensor) fail(ErrorCode::kUnsupported, "is {}", function.refused);
      if (function.meaning != Meaning::kRebuildTensorV2 || pickle_.kind(args[2]) != NodeKind::kTuple ||
          pickle_.items(args[2]).size() < 4) {
        fail(ErrorCode::kUnsupported, "is made by a function that wconv does not know");
      }
      const auto& inner = pickle_.items(args[2]);
      return {{"", resolved(strided(inner[0], view(inner), std::nullopt), inner, 6)}};
    }
    case Meaning::kRebuildFromNumpy: {
      const NodeId source = call_args(id, 1)[0];
      const Meaning made = meaning(source).meaning;
      if (made != Meaning::kNumpyReconstruct && made != Meaning::kNumpyFromBuffer)
        fail(ErrorCode::kCorrupt, "is made from no numpy array");
      return {{"", array(source)}};
    }
    case Meaning::kNumpyReconstruct:
    case Meaning::kNumpyFromBuffer:
      return {{"", array(id)}};
    case Meaning::kRefusedTensor:
      fail(ErrorCode::kUnsupported, "is {}", what.refused);
    default:
      fail(ErrorCode::kCorrupt, "is a parameter without a tensor");
  }
}

}  // namespace wconv::pytorch
