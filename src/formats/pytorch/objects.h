// What the nodes of a pickle mean: tensors, arrays, containers, leaves.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "formats/pytorch/globals.h"
#include "formats/pytorch/pickle.h"
#include "wconv/model.h"

namespace wconv::pytorch {

// The bytes of a storage, as a container (zip, legacy stream, tar) holds them.
struct StorageRequest {
  std::string key;
  std::uint64_t bytes = 0;  // what the pickle claims
};
class StorageSource {
 public:
  virtual ~StorageSource() = default;
  // Exactly request.bytes bytes, as stored. Throws Error(kCorrupt) naming the key.
  virtual std::shared_ptr<const TensorData> storage(const StorageRequest& request) = 0;
  virtual bool big_endian() const { return false; }
  // Containers that name whole tensors by persistent ids (tar). Null where they don't.
  virtual const Tensor* persistent_tensor(const std::string&) { return nullptr; }
};

struct NamedTensor {
  std::string suffix;  // "" or, for the parts of a quantized tensor, ".scale"
  Tensor tensor;       // without a name
};

// Reads nodes of one pickle. Not thread-safe.
class Objects {
 public:
  Objects(const Pickle& pickle, StorageSource& storages) : pickle_(pickle), storages_(storages) {}

  const Pickle& pickle() const { return pickle_; }

  // The meaning of an object's class or function; kUnknown for all other nodes.
  GlobalInfo meaning(NodeId id) const;
  // Class name of an object: "module.Class".
  std::string class_name(NodeId id) const;

  bool is_tensor(NodeId id) const;  // a torch tensor or numpy array, readable or not
  // The tensor's description and data. Throws Error(kCorrupt | kUnsupported) without the tensor's name.
  std::vector<NamedTensor> tensor(NodeId id);

  // Children of a container in order, as (key, node): dict entries, list items, attributes. Parameters, buffers and
  // sub-modules of an nn.Module stand under the names of its state_dict. Empty for leaves.
  std::vector<std::pair<std::string, NodeId>> children(NodeId id) const;
  bool is_container(NodeId id) const;
  bool is_module(NodeId id) const;  // an nn.Module or TorchScript object: its children are named by state_dict

  // A leaf as metadata: numbers, text, booleans, None; lists of those as arrays of JSON text; small bytes and complex
  // numbers as Python prints them. Nothing for the rest.
  std::optional<MetaValue> leaf(NodeId id) const;
  // What a node holds that is bytes, or text that stands for bytes. Throws Error(kCorrupt | kUnsupported).
  std::shared_ptr<const TensorData> bytes(NodeId id) const;
  // What a node is that is neither tensor nor container nor leaf: "a numpy array of dtype 'O8'".
  std::string description(NodeId id) const;

 private:
  struct View {
    std::uint64_t offset = 0;
    std::vector<std::uint64_t> shape;
    std::vector<std::int64_t> strides;
  };
  const std::vector<NodeId>& call_args(NodeId id, std::size_t least) const;
  GlobalInfo global_meaning(NodeId global) const;
  NodeId inner_tensor(NodeId id) const;
  std::int64_t integer(NodeId id, std::string_view what) const;
  std::int64_t integer_or_bool(NodeId id) const;
  std::vector<std::int64_t> integers(NodeId id, std::string_view what) const;
  View view(const std::vector<NodeId>& args) const;
  // A storage of a tensor; view_offset is in elements.
  struct Storage {
    StorageRequest request;
    std::optional<DType> dtype;  // nothing: untyped
    std::uint64_t view_offset = 0;
    std::shared_ptr<const TensorData> data;
  };
  Storage storage(NodeId id);
  Storage named_storage(NodeId id) const;
  Storage storage_in_bytes(NodeId id) const;
  Tensor strided(NodeId storage, View view, std::optional<DType> dtype);
  Tensor resolved(Tensor tensor, const std::vector<NodeId>& args, std::size_t at) const;
  std::shared_ptr<const TensorData> storage_data(const StorageRequest& request);
  std::vector<NamedTensor> quantized(NodeId id);
  Tensor array(NodeId id);
  Tensor read_array(NodeId id) const;
  Tensor numpy_scalar(NodeId id) const;
  struct NumpyCode {
    std::string text;  // "f4"; empty for what is no plain dtype
    bool big_endian = false;
  };
  NumpyCode numpy_code(NodeId id) const;
  std::pair<DType, bool> numpy_dtype(NodeId id) const;  // and whether it is big-endian
  std::optional<std::vector<std::pair<std::string, NodeId>>> module_children(NodeId id) const;
  std::vector<std::pair<std::string, NodeId>> entries(const std::vector<NodeId>& pairs) const;
  std::vector<NodeId> sequence_items(NodeId id) const;
  std::string key_text(NodeId id) const;
  const std::vector<NodeId>* pairs_of(NodeId id) const;
  const std::vector<NodeId>* state_pairs(NodeId id) const;
  NodeId find_key(const std::vector<NodeId>& pairs, std::string_view key) const;
  std::optional<std::string> scalar_json(NodeId id) const;
  std::optional<MetaValue> object_leaf(NodeId id) const;
  std::optional<MetaValue> bytes_leaf(NodeId id) const;
  std::optional<MetaValue> numpy_leaf(NodeId id) const;

  const Pickle& pickle_;
  StorageSource& storages_;
  using ViewKey = std::tuple<std::string, DType, std::uint64_t, std::vector<std::uint64_t>, std::vector<std::int64_t>>;
  std::map<ViewKey, std::shared_ptr<const TensorData>> views_;  // equal views are one TensorData: tied
  std::unordered_map<std::string, std::shared_ptr<const TensorData>> storage_cache_;
  std::unordered_map<NodeId, Tensor> arrays_;                // by node: one TensorData wherever an array stands
  std::unordered_map<NodeId, Storage> nested_;               // by the node of the call
  mutable std::unordered_map<NodeId, GlobalInfo> meanings_;  // by the callable's node
};

}  // namespace wconv::pytorch
