// Field numbers of onnx/onnx-ml.proto (onnx 1.23, IR version 14), as far as wconv reads them.
#pragma once

#include <cstdint>

namespace wconv::onnx {

namespace model_proto {
enum : std::uint32_t {
  kIrVersion = 1,
  kProducerName = 2,
  kProducerVersion = 3,
  kDomain = 4,
  kModelVersion = 5,
  kDocString = 6,
  kGraph = 7,
  kOpsetImport = 8,
  kMetadataProps = 14,
  kTrainingInfo = 20,
  kFunctions = 25,
  kConfiguration = 26,
};
}
namespace training_info_proto {
enum : std::uint32_t { kInitialization = 1, kAlgorithm = 2 };
}
namespace opset_proto {
enum : std::uint32_t { kDomain = 1, kVersion = 2 };
}
namespace entry_proto {  // StringStringEntryProto
enum : std::uint32_t { kKey = 1, kValue = 2 };
}
namespace function_proto {
enum : std::uint32_t { kName = 1, kNode = 7, kOpsetImport = 9, kDomain = 10, kAttributeProto = 11 };
}
namespace graph_proto {
enum : std::uint32_t {
  kNode = 1,
  kName = 2,
  kInitializer = 5,
  kDocString = 10,
  kInput = 11,
  kOutput = 12,
  kValueInfo = 13,
  kSparseInitializer = 15,
};
}
namespace node_proto {
enum : std::uint32_t { kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDomain = 7 };
}
namespace attribute_proto {
enum : std::uint32_t {
  kName = 1,
  kF = 2,
  kI = 3,
  kS = 4,
  kT = 5,
  kG = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kTensors = 10,
  kGraphs = 11,
  kRefAttrName = 21,
  kSparseTensor = 22,
  kSparseTensors = 23,
};
}
namespace tensor_proto {
enum : std::uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
};
enum : std::uint64_t { kTypeString = 8, kLocationDefault = 0, kLocationExternal = 1 };
}  // namespace tensor_proto
namespace sparse_proto {
enum : std::uint32_t { kValues = 1, kIndices = 2, kDims = 3 };
}
namespace value_info_proto {
enum : std::uint32_t { kName = 1, kType = 2 };
}
namespace type_proto {
enum : std::uint32_t { kTensor = 1, kSequence = 4, kMap = 5, kOpaque = 7, kSparseTensor = 8, kOptional = 9 };
// Of Tensor and SparseTensor; Sequence and Optional have their element type at 1; Map has key and value types.
enum : std::uint32_t { kElemType = 1, kShape = 2, kMapValue = 2 };
}  // namespace type_proto
namespace shape_proto {
enum : std::uint32_t { kDim = 1, kDimValue = 1, kDimParam = 2 };
}

}  // namespace wconv::onnx
