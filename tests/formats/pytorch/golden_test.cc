// Checkpoints that torch and Python wrote (golden/make.py): the same tensors, bit for bit, and every other leaf.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/support.h"
#include "wconv/format.h"
#include "wconv/stats.h"

namespace wconv {
namespace {

TEST(PytorchGolden, TensorsAndLeavesAreTorchs) {
  const std::string folder = std::string(WCONV_TEST_DATA) + "/formats/pytorch/golden/";
  const auto expected = nlohmann::json::parse(test::read_file(folder + "expected.json"));
  ASSERT_EQ(expected.size(), 8u);
  for (const auto& [file, wanted] : expected.items()) {
    SCOPED_TRACE(file);
    const Model model = open_model(folder + file, {});
    EXPECT_EQ(model.tensors.size(), wanted["tensors"].size());
    for (const Tensor& tensor : model.tensors) {
      ASSERT_TRUE(wanted["tensors"].contains(tensor.info.name)) << tensor.info.name;
      const auto& row = wanted["tensors"][tensor.info.name];
      EXPECT_EQ(name(tensor.info.dtype), row[0].get<std::string>()) << tensor.info.name;
      EXPECT_EQ(tensor.info.shape, row[1].get<std::vector<std::uint64_t>>()) << tensor.info.name;
      EXPECT_EQ(tensor_digest(tensor), row[2].get<std::string>()) << tensor.info.name;
    }
    for (const auto& [key, text] : wanted["leaves"].items()) {
      const MetaValue* value = model.metadata.find(key);
      ASSERT_NE(value, nullptr) << key;
      EXPECT_EQ(value->as_string() ? *value->as_string() : metadata_json(*value), text.get<std::string>()) << key;
    }
  }
}

}  // namespace
}  // namespace wconv
