#include "formats/pytorch/globals.h"

#include <algorithm>
#include <array>

namespace wconv::pytorch {
namespace {

using enum Meaning;

struct Row {
  std::string_view name;
  Meaning meaning;
  std::string_view refused = {};
};

// Sources: torch/_utils.py, torch/_tensor.py, torch/_weights_only_unpickler.py, numpy/_core/multiarray.
constexpr auto kRows = std::to_array<Row>({
    {"torch._utils._rebuild_tensor", kRebuildTensor},
    {"torch._utils._rebuild_tensor_v2", kRebuildTensorV2},
    {"torch._utils._rebuild_tensor_v3", kRebuildTensorV3},
    {"torch._utils._rebuild_qtensor", kRebuildQTensor},
    {"torch._utils._rebuild_parameter", kRebuildParameter},
    {"torch._utils._rebuild_parameter_with_state", kRebuildParameter},
    {"torch._tensor._rebuild_from_type_v2", kRebuildFromType},
    {"torch._tensor._rebuild_from_type", kRebuildFromType},
    {"torch.tensor._rebuild_from_type", kRebuildFromType},
    {"torch._utils._rebuild_device_tensor_from_numpy", kRebuildFromNumpy},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", kRebuildParameter},
    {"torch._utils._rebuild_sparse_tensor", kRefusedTensor, "a sparse tensor"},
    {"torch._utils._rebuild_sparse_csr_tensor", kRefusedTensor, "a sparse CSR tensor"},
    {"torch._utils._rebuild_meta_tensor_no_storage", kRefusedTensor, "a meta tensor, which has no data"},
    {"torch._utils._rebuild_nested_tensor", kRefusedTensor, "a nested tensor"},
    {"torch._utils._rebuild_wrapper_subclass", kRefusedTensor, "a wrapper subclass of a tensor"},
    {"torch._utils._rebuild_xla_tensor", kRefusedTensor, "an XLA tensor"},
    {"torch._utils._rebuild_mlc_tensor", kRefusedTensor, "an MLC tensor"},
    {"torch.storage._load_from_bytes", kLoadFromBytes},
    {"torch.distributed.tensor.DTensor", kRefusedTensor, "a sharded tensor (DTensor); gather it before saving"},
    {"torch.distributed._tensor.DTensor", kRefusedTensor, "a sharded tensor (DTensor); gather it before saving"},
    {"torch.distributed._tensor.api.DTensor", kRefusedTensor, "a sharded tensor (DTensor); gather it before saving"},
    {"torch.distributed._shard.sharded_tensor.api.ShardedTensor", kRefusedTensor,
     "a sharded tensor; gather it before saving"},
    {"joblib.numpy_pickle.NumpyArrayWrapper", kRefusedTensor, "an array of joblib, whose data lies between pickles"},
    {"torch.storage.UntypedStorage", kUntypedStorage},
    {"torch.UntypedStorage", kUntypedStorage},
    {"torch.per_tensor_affine", kScheme},
    {"torch.per_tensor_symmetric", kScheme},
    {"torch.per_channel_affine", kScheme},
    {"torch.per_channel_symmetric", kScheme},
    {"torch.per_channel_affine_float_qparams", kScheme},
    {"torch.Size", kSize},
    {"torch.device", kDevice},
    {"torch.serialization._get_layout", kTextLike},
    {"torch.strided", kTextLike},
    {"torch.contiguous_format", kTextLike},
    {"torch.channels_last", kTextLike},
    {"collections.OrderedDict", kDict},
    {"collections.defaultdict", kDict},
    {"collections.Counter", kDict},
    {"builtins.dict", kDict},
    {"__builtin__.dict", kDict},
    {"builtins.list", kList},
    {"__builtin__.list", kList},
    {"builtins.tuple", kTuple},
    {"__builtin__.tuple", kTuple},
    {"torch.jit._pickle.build_intlist", kList},
    {"torch.jit._pickle.build_doublelist", kList},
    {"torch.jit._pickle.build_boollist", kList},
    {"torch.jit._pickle.build_tensorlist", kList},
    {"torch.jit._pickle.restore_type_tag", kTypeTag},
    {"builtins.set", kSet},
    {"__builtin__.set", kSet},
    {"builtins.frozenset", kSet},
    {"__builtin__.frozenset", kSet},
    {"builtins.int", kScalar},
    {"__builtin__.int", kScalar},
    {"__builtin__.long", kScalar},
    {"builtins.float", kScalar},
    {"__builtin__.float", kScalar},
    {"builtins.bool", kScalar},
    {"__builtin__.bool", kScalar},
    {"builtins.str", kScalar},
    {"__builtin__.str", kScalar},
    {"__builtin__.unicode", kScalar},
    {"builtins.slice", kTuple},
    {"builtins.range", kTuple},
    {"builtins.bytes", kBytes},
    {"__builtin__.bytes", kBytes},
    {"builtins.bytearray", kBytes},
    {"__builtin__.bytearray", kBytes},
    {"builtins.complex", kComplex},
    {"__builtin__.complex", kComplex},
    {"builtins.object", kTextLike},
    {"__builtin__.object", kTextLike},
    {"_codecs.encode", kEncode},
    {"copy_reg._reconstructor", kReconstructor},
    {"copyreg._reconstructor", kReconstructor},
    {"numpy.core.multiarray._reconstruct", kNumpyReconstruct},
    {"numpy._core.multiarray._reconstruct", kNumpyReconstruct},
    {"numpy.core.numeric._frombuffer", kNumpyFromBuffer},
    {"numpy._core.numeric._frombuffer", kNumpyFromBuffer},
    {"numpy.core.multiarray.scalar", kNumpyScalar},
    {"numpy._core.multiarray.scalar", kNumpyScalar},
    {"numpy.dtype", kNumpyDtype},
    {"numpy.ndarray", kNumpyArray},
    {"torch.Tensor", kTextLike},
    {"torch.nn.parameter.Parameter", kTextLike},
    {"torch.nn.Parameter", kTextLike},
});

struct StorageRow {
  std::string_view name;
  std::optional<DType> dtype;
};

constexpr auto kStorages = std::to_array<StorageRow>({
    {"FloatStorage", DType::kF32},
    {"DoubleStorage", DType::kF64},
    {"HalfStorage", DType::kF16},
    {"BFloat16Storage", DType::kBF16},
    {"LongStorage", DType::kI64},
    {"IntStorage", DType::kI32},
    {"ShortStorage", DType::kI16},
    {"CharStorage", DType::kI8},
    {"ByteStorage", DType::kU8},
    {"BoolStorage", DType::kBool},
    {"ComplexHalfStorage", DType::kC32},
    {"ComplexFloatStorage", DType::kC64},
    {"ComplexDoubleStorage", DType::kC128},
    {"QInt8Storage", DType::kI8},
    {"QUInt8Storage", DType::kU8},
    {"QInt32Storage", DType::kI32},
    {"QUInt4x2Storage", std::nullopt},
    {"QUInt2x4Storage", std::nullopt},
});

// torch's other names for the dtypes of the table.
constexpr std::pair<std::string_view, std::string_view> kDtypeAliases[] = {
    {"float", "float32"}, {"double", "float64"}, {"half", "float16"},     {"long", "int64"},
    {"int", "int32"},     {"short", "int16"},    {"cfloat", "complex64"}, {"cdouble", "complex128"}};

constexpr std::string_view kOtherDtypes[] = {"float4_e2m1fn_x2", "quint4x2", "quint2x4", "qint8",
                                             "quint8",           "qint32",   "bits8",    "bits16",
                                             "bits1x8",          "bits2x4",  "bits4x2",  "complex32"};

}  // namespace

GlobalInfo lookup_global(std::string_view name) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == name; });
  if (row != kRows.end()) return {row->meaning, std::nullopt, row->refused};
  if (!name.starts_with("torch.")) return {};
  std::string_view rest = name.substr(6);
  for (const std::string_view module : {"cuda.", "storage.", "xpu.", "npu."}) {
    if (rest.starts_with(module)) rest.remove_prefix(module.size());
  }
  const auto storage =
      std::find_if(kStorages.begin(), kStorages.end(), [&](const StorageRow& r) { return r.name == rest; });
  if (storage != kStorages.end()) return {Meaning::kStorage, storage->dtype, {}};
  rest = name.substr(6);
  for (const auto& [alias, full] : kDtypeAliases) {
    if (rest == alias) rest = full;
  }
  if (const auto dtype = dtype_from_torch(rest)) return {Meaning::kDtype, dtype, {}};
  if (std::find(std::begin(kOtherDtypes), std::end(kOtherDtypes), rest) != std::end(kOtherDtypes)) {
    return {Meaning::kDtype, std::nullopt, {}};
  }
  return {};
}

}  // namespace wconv::pytorch
