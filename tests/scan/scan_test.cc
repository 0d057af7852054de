#include "wconv/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "concerns.h"
#include "scan/names.h"
#include "wconv/error.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;
using test::call_op, test::concerns, test::kEvil, test::kGood, test::scan_bytes, test::global_op, test::make_zip,
    test::text_op, test::ZipEntry;
using testing::Contains, testing::IsEmpty, testing::IsSupersetOf, testing::Not;

std::string case_path(const std::string& name) { return std::string(WCONV_TEST_DATA) + "/cases/" + name; }

TEST(ScanNames, OnlyWhatIsKnownToBeDataIsData) {
  for (const char* name :
       {"torch._utils._rebuild_tensor_v2", "collections.OrderedDict", "torch.FloatStorage",
        "numpy.core.multiarray._reconstruct", "torch.float32", "torch.FloatTensor", "torch.cuda.HalfTensor"})
    EXPECT_EQ(scan::verdict_of_global(name), Verdict::kData) << name;
  for (const char* name : {"os.system", "posix.system", "builtins.eval", "__builtin__.getattr", "subprocess.run",
                           "torch.serialization.load", "pickle.loads", "idlelib.run.Executive.runcode"})
    EXPECT_EQ(scan::verdict_of_global(name), Verdict::kDanger) << name;
  for (const char* name : {"torch.utils.collect_env.run", "pandas.read_csv", "transformers.x", "__main__.Model", ".",
                           "", "collections.OrderedDict.fromkeys", "osmium.x", "joblib.numpy_pickle.NumpyArrayWrapper"})
    EXPECT_EQ(scan::verdict_of_global(name), Verdict::kUnknown) << name;
}

TEST(ScanPickles, NamesAreFoundHoweverTheyAreMade) {
  const std::string stack = "\x80\x04\x8c\x02os\x8c\x06system\x93.", inst = "(S'x'\nios\nsystem\n.";
  const std::string memo =
      "\x80\x04\x8c\x02osq\x00"
      "0h" +
      std::string(1, '\0') + "\x8c\x06system\x93.";
  for (const std::string& pickle : {kEvil, stack, inst, "\x80\x02" + global_op("os", "system") + "."})
    EXPECT_THAT(concerns(scan_bytes(pickle)), Contains("danger os.system"));
  EXPECT_THAT(concerns(scan_bytes(kGood)), IsEmpty());
  EXPECT_THAT(concerns(scan_bytes(kGood + kEvil)), Contains("danger os.system")) << "a second pickle";
}

// Python takes what no library writes: a value that is dropped at once, and then the rest.
TEST(ScanPickles, AnyOpcodeMayBeTheFirst) {
  const std::string zeros(8, '\0'), one = test::le(1, 4) + "x", one8 = test::le(1, 8) + "x";
  for (const std::string& value :
       {"G" + zeros, "T" + one, "B" + one, std::string("C\x01x"), std::string("\x88"), std::string("\x89"),
        std::string("\x8a\x01x"), "\x8b" + one, std::string("\x8c\x01x"), "\x8d" + one8, "\x8e" + one8,
        std::string("\x8f"), "\x95" + zeros + "N", "\x96" + one8}) {
    const std::string pickle = value + "0" + call_op("os", "system") + ".";
    for (const char* name : {"m.pth", "m.pkl", "m.json", "m.txt", "m.safetensors"})
      EXPECT_THAT(concerns(scan_bytes(pickle, name)), Contains("danger os.system")) << testing::PrintToString(value);
    EXPECT_THAT(concerns(scan_bytes(kGood + pickle)), Contains("danger os.system")) << testing::PrintToString(value);
    EXPECT_THAT(concerns(scan_bytes(make_zip({{"a/x.pkl", pickle}}))), Contains("danger os.system"));
  }
}

TEST(ScanPickles, BrokenOnesAreNotKnownToBeData) {
  EXPECT_THAT(concerns(scan_bytes("\x80\x02" + call_op("os", "system") + "\xff")),
              IsSupersetOf({"danger os.system", "unknown pickle-broken"}));
  EXPECT_TRUE(scan_bytes(kGood.substr(0, kGood.size() - 1)).refused());
  EXPECT_TRUE(scan_bytes("\x80\x02\x82\x01.").refused()) << "an extension code";
}

TEST(ScanPickles, CallsOfWhatThePickleMadeAreReported) {
  EXPECT_THAT(concerns(scan_bytes("\x80\x02" + global_op("collections", "OrderedDict") + ")R)R.")),
              Contains("unknown pickle-call"));
}

TEST(ScanPickles, BytesThatTorchWouldLoadAreLookedInto) {
  const auto nested = [](const std::string& inner) {
    return "\x80\x03" + global_op("torch.storage", "_load_from_bytes") + "B" + test::le(inner.size(), 4) + inner +
           "\x85R.";
  };
  EXPECT_THAT(concerns(scan_bytes(nested(kEvil))), Contains("danger os.system"));
  EXPECT_THAT(concerns(scan_bytes(nested(nested(kEvil)))), Contains("danger os.system"));
  EXPECT_THAT(concerns(scan_bytes(nested("no pickle"))), Not(IsEmpty()));
}

// torch's own function calls the first of its arguments with the third.
TEST(ScanPickles, TheLoaderOfBytesAsAnArgumentIsReported) {
  const std::string loader = global_op("torch.storage", "_load_from_bytes");
  const std::string call = "\x80\x02" + global_op("torch._tensor", "_rebuild_from_type_v2");
  EXPECT_THAT(concerns(scan_bytes(call + "(" + loader + global_op("torch", "Tensor") + text_op("bytes") + "\x85NtR.")),
              Contains("unknown pickle-nested"));
  EXPECT_THAT(concerns(scan_bytes("\x80\x02]" + loader + "a.")), Contains("unknown pickle-nested"));
}

TEST(ScanPickles, ArgumentsThatAreNoTupleAreRefused) {
  const std::string load = "\x80\x02" + global_op("torch.storage", "_load_from_bytes");
  for (const char* args : {"J\xff\xff\xff\x7f", "N", ")", "]", "}", "K\x01"})
    EXPECT_THAT(concerns(scan_bytes(load + args + "R.")), Contains("unknown pickle-nested")) << args;
}

// The verdict is of what the records hold, whatever the archive's headers claim.
TEST(ScanZip, TheVerdictDoesNotDependOnTheHeaders) {
  const std::map<std::string, ZipEntry> variants = {
      {"plain", {"a/data.pkl", kEvil}},
      {"deflated", {"a/data.pkl", kEvil, true}},
      {"another name", {"a/data.txt", kEvil}},
      {"hidden among weights", {"a/data/7", kEvil}},
      {"wrong CRC", {"a/data.pkl", kEvil, false, 0, 0, 0xffff, "", 0, 1}},
      {"encrypted flag in the directory", {"a/data.pkl", kEvil, false, 1, 0}},
      {"encrypted flag in both", {"a/data.pkl", kEvil, true, 1, 1}},
      {"strange flags", {"a/data.pkl", kEvil, false, 0x20, 0x40}},
      {"another local name", {"a/data.pkl", kEvil, false, 0, 0, 0xffff, "b/data.txt"}},
      {"a size too small", {"a/data.pkl", kEvil, false, 0, 0, 0xffff, "", -10}},
      {"a size too large", {"a/data.pkl", kEvil, false, 0, 0, 0xffff, "", 1000}},
      {"no local header there", {"a/data.pkl", kEvil, false, 0, 0, 0xffff, "", 0, 0, 3}},
      {"in an archive in it", {"a/inner.zip", make_zip({{"x", kEvil}}), true}},
  };
  for (const auto& [what, entry] : variants) {
    const std::string zip = make_zip({{"a/data/0", "0123456789abcdef"}, entry});
    EXPECT_THAT(concerns(scan_bytes(zip)), Contains("danger os.system")) << what;
    EXPECT_THAT(concerns(scan_bytes(zip, "model.txt")), Contains("danger os.system")) << what << ", renamed";
    EXPECT_THAT(concerns(scan_bytes("junk before" + zip)), Contains("danger os.system")) << what << ", after junk";
    EXPECT_THAT(concerns(scan_bytes(kGood + zip)), Contains("danger os.system")) << what << ", after a pickle";
    EXPECT_THAT(concerns(scan_bytes(zip + make_zip({{"b/data.pkl", kGood}}))), Contains("danger os.system"))
        << what << ", before another archive";
    EXPECT_THAT(concerns(scan_bytes(zip.substr(0, zip.size() - 22))), Contains("danger os.system"))
        << what << ", without an end record";
  }
  EXPECT_THAT(concerns(scan_bytes(make_zip({{"a/data.pkl", kGood}, {"a/data/0", std::string(1000, '\x80')}}))),
              IsEmpty());
}

TEST(ScanZip, WhatCannotBeLookedIntoIsNotKnownToBeData) {
  const auto verdict = [](ZipEntry entry) { return concerns(scan_bytes(make_zip({{"a/data.pkl", kGood}, entry}))); };
  EXPECT_THAT(verdict({"a/x", "\x91\x92\x93", false, 1, 1}), Contains("unknown zip-encrypted"));
  EXPECT_THAT(verdict({"a/x", "\x91\x92\x93", false, 0, 0, 12}), Contains("unknown zip-method"));
  EXPECT_THAT(verdict({"a/x.7z", "7z\xbc\xaf\x27\x1c...."}), Contains("unknown 7-Zip"));
  EXPECT_THAT(verdict({"a/x.pkl", "\x91\x92\x93"}), Contains("unknown not-a-pickle"));
  for (const bool deflated : {false, true})  // a deflated record is judged as a stored one
    EXPECT_THAT(verdict({"a/x.pkl", std::string("\x88\x92\x93"), deflated}), Contains("unknown not-a-pickle"));
  EXPECT_THAT(verdict({"a/x.pkl", std::string(65 << 20, '\0'), true}), Contains("unknown zip-large"));
  std::string nested = kGood;
  for (int i = 0; i < 12; ++i) nested = make_zip({{"x.zip", nested}});
  EXPECT_THAT(concerns(scan_bytes(nested)), Contains("unknown too-deep"));
}

// Without a limit these take hours: records that hold the archive they are in, records that share what they unpack to.
TEST(ScanZip, OverlapsDoNotMultiplyTheWork) {
  std::vector<ZipEntry> around, shared = {{"0", std::string(8 << 20, '\0'), true}};
  for (int i = 0; i < 40; ++i) around.push_back({"a/data/" + std::to_string(i), "x", false, 0, 0, 0xffff, "", 100'000});
  EXPECT_THAT(concerns(scan_bytes(make_zip(around))), Contains("unknown too-much"));
  const std::string packed = test::deflate_raw(shared[0].data);
  std::int64_t at = static_cast<std::int64_t>(30 + 1 + packed.size());
  for (int i = 0; i < 300; ++i) {  // their places in the directory are that of the first
    shared.push_back({"1", "", false, 0, 0, 8, "", 0, 0, -at});
    at += 30 + 1;
  }
  EXPECT_THAT(concerns(scan_bytes(make_zip(shared))), Contains("unknown too-much"));
}

TEST(ScanCases, AllAreRefusedAndThePayloadIsNamed) {
  for (const char* name : {"A15/hidden_pickle_in_data.pth", "A15/two_data_pkl.pth", "A16/inst_system.pkl",
                           "A16/proto0_system.pkl", "A16/stack_global.pkl", "A16/trailing_after_stop.pkl"})
    EXPECT_THAT(concerns(scan_model(case_path(name))), Contains("danger os.system")) << name;
  for (const auto& entry : fs::directory_iterator(case_path("A16")))
    EXPECT_TRUE(scan_model(entry.path().string()).refused()) << entry.path();
}

// Raw numbers stand between the pickles of an old tar checkpoint.
TEST(ScanTar, EveryPickleOfAMemberIsFound) {
  const auto member = [](std::string name, const std::string& data) {
    name.resize(124);
    std::string header = name + fmt::format("{:011o}", data.size());
    header.resize(257);
    header += "ustar";
    header.resize(512);
    return header + data + std::string((512 - data.size() % 512) % 512, '\0');
  };
  const auto tar = [&](const std::string& storages) {
    return member("sys_info", kGood) + member("storages", storages) + std::string(1024, '\0');
  };
  EXPECT_THAT(concerns(scan_bytes(tar(kGood + std::string(1000, '\x7f')))), IsEmpty());
  EXPECT_THAT(concerns(scan_bytes(tar(kGood + std::string(1000, '\x7f') + kEvil))), Contains("danger os.system"));
  EXPECT_FALSE(scan_model(case_path("A04/tar.pth")).refused());
  std::string marks;  // each begins a pickle that ends with the file
  for (int i = 0; i < 30'000; ++i) marks += "\x80\x02";
  EXPECT_THAT(concerns(scan_bytes(tar(marks))), Contains("unknown too-much"));
}

TEST(ScanNumpy, ObjectsArePickles) {
  const std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
  const std::string start = "\x93NUMPY" + std::string("\x01\x00", 2) + test::le(header.size(), 2) + header;
  EXPECT_THAT(concerns(scan_bytes(start + kEvil, "a.npy")), Contains("danger os.system"));
  EXPECT_THAT(concerns(scan_bytes(start + kGood, "a.npy")), IsEmpty());
}

// The length of a safetensors header may begin with any byte.
TEST(ScanModel, OtherFormatsAreNoPicklesByChance) {
  for (const char first : {'(', 'c', ']', '}', 'X', 'K', 'C', 'G', 'T', 'B', '\x88', '\x8c'}) {
    std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    header.resize(256 + static_cast<unsigned char>(first), ' ');
    const std::string file = test::le(header.size(), 8) + header + "x";
    ASSERT_EQ(file[0], first);
    EXPECT_THAT(concerns(scan_bytes(file, "m.safetensors")), IsEmpty()) << first;
  }
}

// A safetensors file that is a pickle too: 'C' and its length skip to a text in the header, that to the tensor.
TEST(ScanModel, TwoFacedFilesAreLookedIntoAsBoth) {
  const std::string code = "0cos\nsystem\n(S'x'\ntR.";
  const std::string tensor =
      fmt::format(R"("}},"w":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", code.size());
  std::string header = R"({"__metadata__":{"a":")";
  constexpr std::size_t kSize = 'C' | 0x60 << 8, kJump = 2 + 0x60 - 8;  // less what stands before the header
  header.resize(kJump, 'x');
  while (kSize - header.size() > 240) header += "U\x7f" + std::string(127, 'x');
  header += std::string("U") + static_cast<char>(kSize - header.size() - 2);
  header.resize(kSize - tensor.size(), 'x');
  const std::string file = test::le(kSize, 8) + header + tensor + code;
  EXPECT_THAT(concerns(scan_bytes(file, "pytorch_model.bin")), Contains("danger os.system"));
}

TEST(ScanOnnx, PathsThatLeaveTheFolderAreDanger) {
  for (const char* name : {"D01/traversal.onnx", "D01/absolute.onnx", "D01/nul.onnx"})
    EXPECT_THAT(concerns(scan_model(case_path(name))), Contains("danger path")) << name;
  EXPECT_FALSE(scan_model(case_path("D01/ok.onnx")).refused());
}

TEST(ScanModel, RealModelsAreData) {
  EXPECT_THAT(concerns(scan_model(std::string(WCONV_TEST_DATA) + "/models/kjv-qwen2")), IsEmpty());
  EXPECT_THROW(scan_model("/nonexistent"), Error);
  EXPECT_THAT(concerns(scan_bytes("\x01\x02\x03 what is this", "x.bin")), Contains("unknown unknown-format"));
}

}  // namespace
}  // namespace wconv
