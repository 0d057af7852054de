// The short list of globals whose meaning is known. Everything else stays an inert object of its class.
#pragma once

#include <optional>
#include <string_view>

#include "wconv/dtype.h"

namespace wconv::pytorch {

enum class Meaning {
  kUnknown,
  // torch: tensors
  kRebuildTensor,     // (storage, offset, size, stride)
  kRebuildTensorV2,   // (storage, offset, size, stride, requires_grad, hooks[, metadata])
  kRebuildTensorV3,   // (untyped storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])
  kRebuildQTensor,    // (storage, offset, size, stride, quantizer, requires_grad, hooks)
  kRebuildParameter,  // (tensor, requires_grad, hooks[, state])
  kRebuildFromType,   // (function, type, args, state)
  kRebuildFromNumpy,  // (ndarray, dtype, device, requires_grad)
  kRefusedTensor,     // sparse, meta, nested, distributed: there is no dense data to take
  kStorage,           // a storage class; its dtype is in the table
  kUntypedStorage,
  kLoadFromBytes,  // (a storage saved by torch, as bytes): storages in a pickle that torch.save did not write
  kDtype,          // torch.float32
  kScheme,         // torch.per_tensor_affine and its kin
  // torch and Python: data
  kSize,
  kDevice,
  kTextLike,
  kDict,
  kList,
  kTuple,
  kSet,
  kScalar,
  kBytes,
  kComplex,
  kEncode,         // _codecs.encode(text, "latin1")
  kTypeTag,        // TorchScript: (container, its type)
  kReconstructor,  // copyreg._reconstructor(class, base, state)
  // numpy
  kNumpyReconstruct,
  kNumpyFromBuffer,
  kNumpyScalar,
  kNumpyDtype,
  kNumpyArray,
};

struct GlobalInfo {
  Meaning meaning = Meaning::kUnknown;
  std::optional<DType> dtype;     // of storages and torch dtypes that wconv can hold
  std::string_view refused = {};  // what kRefusedTensor stands for: "a sparse tensor"
};

// `name`: "torch._utils._rebuild_tensor_v2".
GlobalInfo lookup_global(std::string_view name);

}  // namespace wconv::pytorch
