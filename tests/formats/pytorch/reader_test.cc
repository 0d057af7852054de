#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "build.h"
#include "support/support.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

Model open(const std::string& bytes, const ReadOptions& options = {}) { return open_file(file_of(bytes), options); }

std::vector<float> floats(const Tensor& tensor) {
  const auto stored = read_all(tensor);
  std::vector<float> values(stored.size() / 4);
  if (!stored.empty()) std::memcpy(values.data(), stored.data(), stored.size());
  return values;
}

std::vector<std::string> names(const Model& model) {
  std::vector<std::string> list;
  for (const Tensor& tensor : model.tensors) list.push_back(tensor.info.name);
  return list;
}

std::vector<std::string> codes(const Model& model) {
  std::vector<std::string> list;
  for (const Finding& finding : model.findings) list.push_back(finding.code);
  return list;
}

void expect_refused(const std::string& bytes, ErrorCode code, const std::string& message,
                    const ReadOptions& options = {}) {
  try {
    open(bytes, options);
    FAIL() << "accepted; should say: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

void expect_unfolds_or_opens(const std::string& bytes) {
  try {
    open(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
  }
}

TEST(PytorchReader, ReadsViewsExactly) {
  const Model model = open(checkpoint(dict_op({{"w", tensor_op()},
                                               {"t", tensor_op({.strides = {1, 2}})},
                                               {"row", tensor_op({.offset = 2, .shape = {2}, .strides = {1}})},
                                               {"expanded", tensor_op({.shape = {3}, .strides = {0}})},
                                               {"scalar", tensor_op({.offset = 3, .shape = {}, .strides = {}})},
                                               {"empty", tensor_op({.shape = {0, 5}, .strides = {5, 1}})}})));
  ASSERT_EQ(model.tensors.size(), 6u);
  EXPECT_THAT(floats(model.tensors[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(floats(model.tensors[1]), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(floats(model.tensors[2]), ElementsAre(3, 4));
  EXPECT_THAT(floats(model.tensors[3]), ElementsAre(1, 1, 1));
  EXPECT_THAT(floats(model.tensors[4]), ElementsAre(4));
  EXPECT_THAT(floats(model.tensors[5]), ElementsAre());
  EXPECT_EQ(model.checks.size(), 1u);  // of the one record, once
}

TEST(PytorchReader, EqualViewsAreTied) {
  const Model model =
      open(checkpoint(dict_op({{"a", tensor_op()}, {"b", tensor_op()}, {"c", tensor_op({.strides = {1, 2}})}})));
  EXPECT_EQ(model.tensors[0].data, model.tensors[1].data);
  EXPECT_NE(model.tensors[0].data, model.tensors[2].data);
}

TEST(PytorchReader, RefusesViewsOutsideTheirStorage) {
  const auto refused = [](const TensorOp& tensor, const std::string& message) {
    expect_refused(checkpoint(dict_op({{"w", tensor_op(tensor)}})), ErrorCode::kCorrupt, message);
  };
  refused({.offset = 1}, "tensor 'w'");
  refused({.shape = {2, 3}, .strides = {2, 1}}, "tensor 'w'");
  refused({.strides = {0x7fffffff, 1}}, "tensor 'w'");
  refused({.offset = 0xffffffff}, "negative");  // BININT is signed: -1
  refused({.count = 5}, "has 16 bytes, the pickle says 20");
  refused({.key = "1"}, "record 'archive/data/1', which the archive doesn't have");
  refused({.key = "../../x"}, "doesn't have");
}

TEST(PytorchReader, SaysWhereARefusedTensorIsMade) {
  const std::string dict = dict_op({{"v", tensor_op()}, {"w", tensor_op({.offset = 1})}});
  const std::string bytes = checkpoint(dict), pickle = pickle_of(dict);
  const std::size_t reduce = bytes.find(pickle) + pickle.rfind('R');  // the last call makes w
  expect_refused(bytes, ErrorCode::kCorrupt, "(at byte " + std::to_string(reduce) + ")");
}

TEST(PytorchReader, BigEndianArchivesAreSwapped) {
  std::string big;
  for (std::size_t i = 0; i < kFloats.size(); ++i) big += kFloats[i / 4 * 4 + 3 - i % 4];
  const std::string zip = make_zip({{"archive/data.pkl", pickle_of(dict_op({{"w", tensor_op()}}))},
                                    {"archive/byteorder", "big"},
                                    {"archive/data/0", big}});
  EXPECT_THAT(floats(open(zip).tensors[0]), ElementsAre(1, 2, 3, 4));
  expect_refused(checkpoint(dict_op({{"w", tensor_op()}}), {{"archive/byteorder", "middle"}}), ErrorCode::kCorrupt,
                 "'middle'");
}

TEST(PytorchReader, DeflatedArchivesAreRead) {
  const std::string zip = make_zip(
      {{"archive/data.pkl", pickle_of(dict_op({{"w", tensor_op()}})), true}, {"archive/data/0", kFloats, true}});
  const Model model = open(zip);
  EXPECT_THAT(floats(model.tensors[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(model.checks.empty());
}

TEST(PytorchReader, PicksTheObviousPart) {
  const std::string nested =
      dict_op({{"epoch", int_op(7)},
               {"model_state_dict", dict_op({{"w", tensor_op()}})},
               {"ema", dict_op({{"w", tensor_op({.strides = {1, 2}})}})},
               {"optimizer", dict_op({{"lr", "G?\xf0" + std::string(6, '\0')}, {"m", tensor_op()}})},
               {"loss", tensor_op({.shape = {}, .strides = {}})}});
  const Model model = open(checkpoint(nested));
  EXPECT_THAT(names(model), ElementsAre("w"));
  EXPECT_THAT(model.left_out, ElementsAre("ema.w", "optimizer.m", "loss"));
  EXPECT_THAT(codes(model), ElementsAre("picked-key"));
  EXPECT_THAT(model.findings[0].message, HasSubstr("took 'model_state_dict'"));
  ASSERT_NE(model.metadata.find("epoch"), nullptr);
  EXPECT_EQ(std::get<std::int64_t>(model.metadata.find("epoch")->value), 7);
  EXPECT_EQ(model.metadata.size(), 1u);  // the optimizer's learning rate is not the model's

  ReadOptions options;
  options.key = "ema";
  EXPECT_THAT(floats(open(checkpoint(nested), options).tensors[0]), ElementsAre(1, 3, 2, 4));
  options.key = "optimizer.m";
  EXPECT_THAT(names(open(checkpoint(nested), options)), ElementsAre("optimizer.m"));
  options.key = "emma";
  expect_refused(checkpoint(nested), ErrorCode::kUsage, "tensors lie under: model_state_dict, ema, optimizer, loss",
                 options);
  options.key = "epoch";
  expect_refused(checkpoint(nested), ErrorCode::kUsage, "no tensors in it", options);

  ReadOptions whole;
  whole.whole_tree = true;
  EXPECT_THAT(names(open(checkpoint(nested), whole)),
              ElementsAre("model_state_dict.w", "ema.w", "optimizer.m", "loss"));
}

TEST(PytorchReader, AStateDictIsNotSearchedForAnother) {
  const Model model = open(checkpoint(dict_op({{"w", tensor_op()}, {"model", dict_op({{"x", tensor_op()}})}})));
  EXPECT_THAT(names(model), ElementsAre("w", "model.x"));
  EXPECT_THAT(codes(model), ElementsAre("picked-key"));
  EXPECT_THAT(model.findings[0].message, Not(HasSubstr("which begin their names"))) << "w does not";
  const Model parts =
      open(checkpoint(dict_op({{"a", dict_op({{"x", tensor_op()}})}, {"b", dict_op({{"x", tensor_op()}})}})));
  EXPECT_THAT(names(parts), ElementsAre("a.x", "b.x"));
  EXPECT_THAT(parts.findings[0].message, HasSubstr("from the parts a, b, which begin their names"));
}

TEST(PytorchReader, TheStateOfTrainingIsNoPartOfTheModel) {
  const std::string weights = dict_op({{"w", tensor_op()}}), rng = tensor_op();
  const std::vector<std::pair<std::string, std::vector<std::string>>> beside = {
      {dict_op({{"model", weights}, {"optimizer", dict_op({{"m", rng}})}, {"rng_state", rng}}), {"w"}},
      {dict_op({{"model", weights}, {"cuda_rng_state", rng}}), {"w"}},
      {dict_op({{"ema", weights}, {"model", weights}, {"rng", rng}}), {"w"}},
      {dict_op({{"teacher", weights}, {"optim_t", weights}}), {"teacher.w"}},
      {dict_op({{"scaler", rng}, {"opt", rng}}), {"scaler", "opt"}},  // single tensors are weights
  };
  for (const auto& [ops, wanted] : beside) {
    EXPECT_THAT(names(open(checkpoint(ops))), testing::ElementsAreArray(wanted));
  }
}

TEST(PytorchReader, KeysWithDotsAreFound) {
  const std::string nested = dict_op({{"a.b", dict_op({{"w", tensor_op()}})}, {"a", dict_op({{"b.c", tensor_op()}})}});
  ReadOptions options;
  options.key = "a.b";
  EXPECT_THAT(names(open(checkpoint(nested), options)), ElementsAre("w"));
}

TEST(PytorchReader, UnknownClassesStayInertAndAreNamed) {
  const std::string object =
      global_op("evil.module", "Class") + ")\x81" + dict_op({{"lr", int_op(3)}, {"t", tensor_op()}}) + "b";
  const Model model = open(checkpoint(dict_op({{"w", tensor_op()}, {"args", object}})));
  EXPECT_THAT(names(model), ElementsAre("w", "args.t"));
  EXPECT_THAT(codes(model), ElementsAre("picked-key", "unknown-object"));
  EXPECT_THAT(model.findings[1].message, HasSubstr("evil.module.Class"));
  EXPECT_NE(model.metadata.find("args.lr"), nullptr);
  const Model called =
      open(checkpoint(dict_op({{"w", tensor_op()}, {"x", global_op("os", "system") + "(" + text_op("id") + "tR"}})));
  EXPECT_THAT(codes(called), ElementsAre("unknown-call"));
}

// A pickle of a whole model: the tensors are where state_dict would put them.
TEST(PytorchReader, WholeModulesHaveTheNamesOfTheirStateDict) {
  const auto module = [](const std::string& parameters, const std::string& buffers, const std::string& modules) {
    return global_op("my.nn", "Net") + ")\x81" +
           dict_op(
               {{"training", "\x88"},
                {"_parameters", parameters},
                {"_buffers", buffers},
                {"_modules", modules},
                {"_non_persistent_buffers_set", global_op("__builtin__", "set") + "](" + text_op("tmp") + "e\x85R"}}) +
           "b";
  };
  const std::string leaf = module(dict_op({{"weight", tensor_op()}, {"bias", "N"}}),
                                  dict_op({{"mean", tensor_op()}, {"tmp", tensor_op()}}), dict_op({}));
  const Model model = open(checkpoint(module(dict_op({}), dict_op({}), dict_op({{"conv", leaf}}))));
  EXPECT_THAT(names(model), ElementsAre("conv.weight", "conv.mean"));
  EXPECT_TRUE(model.metadata.empty());
}

TEST(PytorchReader, RefusesTensorsWithoutDenseDataByName) {
  const std::string sparse = global_op("torch._utils", "_rebuild_sparse_tensor") + ")R";
  const Model model =
      open(checkpoint(dict_op({{"w", tensor_op()}, {"s", sparse}, {"q", tensor_op({.storage = "QUInt4x2Storage"})}})));
  EXPECT_THAT(names(model), ElementsAre("w"));
  ASSERT_EQ(model.refused.size(), 2u);
  EXPECT_EQ(model.refused[0].name, "s");
  EXPECT_EQ(model.refused[0].reason, "is a sparse tensor");
  EXPECT_THAT(model.refused[1].reason, HasSubstr("QUInt4x2Storage"));
}

TEST(PytorchReader, AContainerThatHoldsItselfIsShownOnce) {
  const Model model = open(checkpoint("}q\x01(" + text_op("w") + tensor_op() + text_op("self") + "h\x01u"));
  EXPECT_THAT(names(model), ElementsAre("w"));
  EXPECT_THAT(codes(model), ElementsAre("holds-itself"));
}

TEST(PytorchReader, RefusesWhatUnfoldsWithoutEnd) {
  std::string doubling = "]q\x01" + text_op("x") + "a";
  for (int i = 0; i < 40; ++i)
    doubling +=
        "]q\x02(h\x01h\x01"
        "eq\x01"
        "0h\x02"
        "q\x01"
        "0";
  // Each list holds the previous one twice: 2^40 leaves, and a tensor, so that it must be walked.
  std::string ops = "}(" + text_op("w") + tensor_op() + text_op("l");
  ops += "](";
  for (int i = 0; i < 30; ++i) ops += "](";
  ops += text_op("x");
  for (int i = 0; i < 30; ++i) ops += "e2";  // DUP the filled list
  ops += "eu";
  EXPECT_THROW(open(checkpoint(ops)), Error);
  std::string deep = "}" + text_op("w") + tensor_op() + "s";
  for (int i = 0; i < 3000; ++i) deep = "](" + deep + "e";
  expect_refused(checkpoint(deep), ErrorCode::kCorrupt, "nested more than");
}

// Each is small and would take minutes or gigabytes if what it refers to again and again were made again.
TEST(PytorchReader, RepeatedReferencesCostLittle) {
  const auto start = std::chrono::steady_clock::now();
  std::string texts = "](" + text_op(std::string(60'000, '\x01')) + "q\x01";
  for (int i = 0; i < 999; ++i) texts += "h\x01";
  texts +=
      "eq\x02"
      "0";
  std::string lists = "](";
  for (int i = 0; i < 200; ++i) lists += "h\x02";
  expect_unfolds_or_opens(checkpoint(texts + dict_op({{"w", tensor_op()}, {"l", lists + "e"}})));
  std::string module = global_op("torch.nn.modules.linear", "Linear") + ")\x81}(" + text_op("_parameters") + "}(";
  for (int i = 0; i < 20'000; ++i) module += text_op(std::to_string(i)) + "K\x01";
  module +=
      "uubq\x01"
      "0";
  std::string modules = "](";
  for (int i = 0; i < 20'000; ++i) modules += "h\x01";
  expect_unfolds_or_opens(checkpoint(module + dict_op({{"w", tensor_op()}, {"l", modules + "e"}})));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

// Objects that have no tensor, each with the same keywords: looked into one by one they take most of a minute.
TEST(PytorchReader, TheSearchForTensorsEndsWithItsBudget) {
  const auto start = std::chrono::steady_clock::now();
  std::string keywords = "(" + global_op("m", "C") + "q\x01)q\x02}q\x03(";
  for (int i = 0; i < 5000; ++i) keywords += text_op(std::to_string(i)) + "N";
  keywords += "u](";
  for (int i = 0; i < 200'000; ++i) keywords += "h\x01h\x02h\x03\x92";
  expect_refused(checkpoint(dict_op({{"l", keywords + "et"}, {"w", tensor_op()}})), ErrorCode::kCorrupt,
                 "unfolds without end");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(PytorchReader, RefusesNamesAndArenasThatOutgrowTheFile) {
  std::string deep = dict_op({{"w", tensor_op()}});
  for (int i = 0; i < 70; ++i) deep = dict_op({{std::string(1000, 'k'), deep}});
  expect_refused(checkpoint(deep), ErrorCode::kCorrupt, "a tensor's name has");
  std::string lists;
  for (int i = 0; i < 2'000'000; ++i) lists += "]0";
  const ZipEntry bomb{"archive/data.pkl", pickle_of(lists + dict_op({{"w", tensor_op()}})), true};
  expect_refused(make_zip({bomb, {"archive/data/0", kFloats}}), ErrorCode::kCorrupt,
                 "more values than its size on disk");
}

// Found by a reader: torch sets these items and this storage, too.
TEST(PytorchReader, ADictTakesBothWhatItIsMadeOfAndWhatIsSet) {
  const std::string made = global_op("collections", "OrderedDict") + dict_op({{"a", tensor_op()}}) + "\x85R";
  const Model model = open(checkpoint(made + "(" + text_op("b") + tensor_op({.shape = {4}, .strides = {1}}) + "u"));
  ASSERT_EQ(model.tensors.size(), 2u);
  EXPECT_EQ(model.tensors[0].info.name, "a");
  EXPECT_EQ(model.tensors[1].info.name, "b");
}

TEST(PytorchReader, ATensorThatIsGivenAnotherStorageIsNamed) {
  const Model model = open(checkpoint(dict_op({{"w", tensor_op() + "(K\x01tb"}})));
  ASSERT_EQ(model.refused.size(), 1u);
  EXPECT_THAT(model.refused[0].reason, HasSubstr("another storage"));
}

TEST(PytorchReader, AChannelwiseQuantizedTensorKeepsItsAxis) {
  const std::string storage =
      "(" + text_op("storage") + global_op("torch", "QInt32Storage") + text_op("0") + text_op("cpu") + int_op(4) + "tQ";
  const std::string quantized = global_op("torch._utils", "_rebuild_qtensor") + "(" + storage + int_op(0) +
                                tuple_op({2, 2}) + tuple_op({2, 1}) + "(" + global_op("torch", "per_channel_affine") +
                                tensor_op({.key = "1"}) + tensor_op({.key = "1"}) + "K\x01t\x89" +
                                global_op("collections", "OrderedDict") + ")RtR";
  const Model model = open(checkpoint(dict_op({{"q", quantized}}), {{"archive/data/1", kFloats}}));
  ASSERT_EQ(model.tensors.size(), 4u);
  EXPECT_EQ(model.tensors[3].info.name, "q.axis");
  std::int64_t axis = 0;
  model.tensors[3].data->read(0, std::as_writable_bytes(std::span(&axis, 1)));
  EXPECT_EQ(axis, 1);
}

TEST(PytorchReader, ATensorMayHaveAnEmptyName) {
  EXPECT_EQ(open(checkpoint(dict_op({{"", tensor_op()}}))).tensors.at(0).info.name, "");
  EXPECT_EQ(open(checkpoint(tensor_op())).tensors.at(0).info.name, "tensor");
}

TEST(PytorchReader, AnEmptyStateDictIsAModelWithoutTensors) {
  EXPECT_TRUE(open(checkpoint("}")).tensors.empty());
  expect_refused(checkpoint(dict_op({{"epoch", "K\x01"}})), ErrorCode::kUnsupported, "no tensors");
}

TEST(PytorchReader, RefusesPicklesWithoutTensors) {
  expect_refused(pickle_of(global_op("os", "system") + "(" + text_op("id") + "tR"), ErrorCode::kUnsupported,
                 "os.system");
  expect_refused(pickle_of("K\x01") + "trailing", ErrorCode::kCorrupt, "8 bytes follow");
  expect_refused(make_zip({{"a.npy", "x"}}), ErrorCode::kUnsupported, "NumPy");
  expect_refused(make_zip({{"a/data.pkl", pickle_of("N")}, {"b/data.pkl", pickle_of("N")}}), ErrorCode::kCorrupt,
                 "several data.pkl");
}

TEST(PytorchReader, HiddenPicklesAreReported) {
  const Model model = open(checkpoint(dict_op({{"w", tensor_op()}}),
                                      {{"archive/data/7", pickle_of("N") + "xx"}, {"archive/version", "3\n"}}));
  EXPECT_THAT(codes(model), ElementsAre("hidden-pickle"));
}

}  // namespace
}  // namespace wconv
