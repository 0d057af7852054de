// Opening what a person names: by content, with what is no model called by its name.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "support/support.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/format.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;

std::vector<test::TensorSpec> small() { return {{"w", DType::kF32, {2}, test::bytes_of({1.0f, 2.0f})}}; }

void expect_refused(const std::string& path, ErrorCode code, std::string_view words) {
  try {
    open_model(path, {});
    ADD_FAILURE() << path << " was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what() << "\nnot: " << words;
    EXPECT_NE(std::string_view(error.what()).find(path), std::string_view::npos) << error.what();
  }
}

// Under every extension: the name does not matter.
void expect_refused_as(std::string_view bytes, ErrorCode code, std::string_view words) {
  const test::TempDir dir;
  for (const std::string name : {"m.safetensors", "m.bin", "m.pth", "m.gguf", "m.ckpt", "m"}) {
    test::write_file(dir / name, bytes);
    expect_refused(dir / name, code, words);
  }
}

TEST(Impostor, GitLfsPointerSaysWhatIsMissingAndWhatToDo) {
  constexpr std::string_view kOid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
  const std::string pointer =
      fmt::format("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n", kOid);
  expect_refused_as(
      pointer, ErrorCode::kMissing,
      fmt::format("is a Git LFS pointer, not the file itself (real size 12345 bytes, sha256 {}); run 'git lfs pull'",
                  kOid));
  expect_refused_as("version https://git-lfs.github.com/spec/v1\r\nsize 7\r\n", ErrorCode::kMissing,
                    "real size 7 bytes, sha256 unknown");
  EXPECT_EQ(exit_status(ErrorCode::kMissing), 66);
}

TEST(Impostor, ErrorPagesAreNamed) {
  expect_refused_as("<!DOCTYPE html>\n<html><body>404</body></html>", ErrorCode::kCorrupt,
                    "is an HTML page, not a model");
  expect_refused_as("\xef\xbb\xbf\n  <HTML lang=en>", ErrorCode::kCorrupt, "is an HTML page");
  expect_refused_as("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", ErrorCode::kCorrupt,
                    "is an XML message");
  expect_refused_as("{\"error\":\"Repository not found\"}", ErrorCode::kCorrupt, "is JSON text, not weights");
  expect_refused_as("Entry not found", ErrorCode::kCorrupt, "is a message of the server, not a model: \"Entry not");
  expect_refused_as("Invalid username or password.\n", ErrorCode::kCorrupt,
                    "\"Invalid username or password.\"; log in");
  // A safetensors header of 123 bytes begins with the byte '{' and keeps its own faults.
  const std::string header = std::string("{\0\0\0\0\0\0\0", 8) + R"({"w":{"dtype":"F33",)" + std::string(102, ' ');
  const test::TempDir dir;
  test::write_file(dir / "m.safetensors", header + "}");
  try {
    open_model(dir / "m.safetensors", {});
    ADD_FAILURE() << "was opened";
  } catch (const Error& error) {
    EXPECT_EQ(std::string_view(error.what()).find("JSON text"), std::string_view::npos) << error.what();
  }
}

TEST(Impostor, EmptyAndZeroFilledFilesAreUnfinishedDownloads) {
  expect_refused_as("", ErrorCode::kCorrupt, "is empty (0 bytes): an unfinished download");
  expect_refused_as(std::string(100'000, '\0'), ErrorCode::kCorrupt,
                    "begins with 4096 zero bytes: an unfinished or damaged download");
}

TEST(Impostor, OtherFormatsAreNamed) {
  using namespace std::string_view_literals;
  expect_refused_as("\x1f\x8b\x08\x00rest"sv, ErrorCode::kUnsupported, "is compressed with gzip; unpack it first");
  expect_refused_as("\x28\xb5\x2f\xfd\x20\x10\x81"sv, ErrorCode::kCorrupt, "the zstd file is cut off");
  expect_refused_as("\x89HDF\r\n\x1a\nrest"sv, ErrorCode::kUnsupported, "is an HDF5 file");
  expect_refused_as("\x93NUMPY\x01\x00rest"sv, ErrorCode::kUnsupported, "is a NumPy array");
  expect_refused_as("\x1c\x00\x00\x00TFL3rest"sv, ErrorCode::kUnsupported, "is a TensorFlow Lite model");
  expect_refused_as("tjgg\x03\x00\x00\x00rest"sv, ErrorCode::kUnsupported, "is an old GGML file from before GGUF");
  expect_refused_as("outs:\n- md5: 0\n  path: m\n"sv, ErrorCode::kMissing,
                    "is a DVC stub, not the file itself; run 'dvc pull'");
  expect_refused_as("%PDF-1.7\n"sv, ErrorCode::kCorrupt, "is a PDF document");
}

// The length of a safetensors header, and the producer of an ONNX model.
TEST(Impostor, AModelThatBeginsLikeAnotherFormatKeepsItsOwnFault) {
  const test::TempDir dir;
  for (const std::uint64_t length : {std::uint64_t{0x8b1f}, std::uint64_t{0x68'5a42}}) {  // gzip, bzip2
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    bytes += R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    bytes.resize(8 + length, ' ');
    test::write_file(dir / "m.safetensors", bytes);
    expect_refused(dir / "m.safetensors", ErrorCode::kCorrupt, "truncated download?");
    test::write_file(dir / "m.safetensors", bytes + std::string(8, '\1'));
    EXPECT_EQ(open_model(dir / "m.safetensors", {}).tensors.size(), 1u);
  }
  test::write_file(dir / "m.onnx", std::string_view("\x08\x0a\x12\x04TFL3\x3a\x7f", 10));
  expect_refused(dir / "m.onnx", ErrorCode::kCorrupt, "truncated?");
  test::write_file(dir / "m", std::string_view("lmgg\1\0\0\0", 8));  // the opcodes of a pickle
  expect_refused(dir / "m", ErrorCode::kUnsupported, "is an old GGML file");
}

TEST(Impostor, UnknownBytesAreNoFormat) {
  const test::TempDir dir;
  test::write_file(dir / "m", "neither this nor that");
  expect_refused(dir / "m", ErrorCode::kUnsupported, "is in no format that wconv reads");
}

TEST(Truncated, EveryLengthOfADownloadIsRefused) {
  const test::TempDir dir;
  const auto bytes = test::safetensors_bytes(small());
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const std::string path = dir / "m.safetensors";
    test::write_file(path, std::span(bytes).first(size));
    EXPECT_THROW(open_model(path, {}), Error) << size;
  }
  test::write_file(dir / "m.safetensors", std::span(bytes).first(bytes.size() - 1));
  expect_refused(dir / "m.safetensors", ErrorCode::kCorrupt, "truncated download?");
}

TEST(Truncated, DownloadersNamesAreUnderstood) {
  const test::TempDir dir;
  const auto bytes = test::safetensors_bytes(small());
  const auto half = std::span(bytes).first(bytes.size() - 4);
  for (const std::string name :
       {"abc123.incomplete", "m.safetensors.aria2", "m.safetensors.part", "m.crdownload", ".m.safetensors.wconv-tmp"}) {
    test::write_file(dir / name, half);
    expect_refused(dir / name, ErrorCode::kCorrupt,
                   "is an unfinished download; let the download end, or start it again");
  }
  test::write_file(dir / "m.safetensors", half);  // with aria2's control file beside it
  expect_refused(dir / "m.safetensors", ErrorCode::kCorrupt, "is an unfinished download");
  test::write_file(dir / "whole.incomplete", bytes);
  EXPECT_EQ(open_model(dir / "whole.incomplete", {}).tensors.size(), 1u) << "all of it is there";
}

TEST(Content, DecidesAndNotTheExtension) {
  const test::TempDir dir;
  for (const std::string name : {"m.safetensors", "m.bin", "m.gguf", "m.pth", "m"}) {
    test::write_safetensors(dir / name, small());
    const Model model = open_model(dir / name, {});
    EXPECT_EQ(model.format, "safetensors");
    EXPECT_EQ(model.path, dir / name);
    const bool right = name == "m.safetensors" || name == "m";
    ASSERT_EQ(model.findings.size(), right ? 0u : 1u) << name;
    if (right) continue;
    EXPECT_EQ(model.findings[0].code, "wrong-extension");
    EXPECT_NE(model.findings[0].message.find("the content is safetensors"), std::string::npos);
  }
}

TEST(Files, ThatAreNoneAreRefusedWithoutBlocking) {
  const test::TempDir dir;
  expect_refused(dir / "absent.safetensors", ErrorCode::kMissing, "no such file");
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  expect_refused(dir / "fifo", ErrorCode::kUsage, "is a FIFO");
  expect_refused("/dev/zero", ErrorCode::kUsage, "is a device");
  expect_refused(dir / "absent.safetensors.index.json", ErrorCode::kMissing, "no such file");
}

// models--org--name/snapshots/<revision>/NAME → ../../blobs/<hash>, as the hub's client lays it out.
TEST(HuggingFaceCache, LinksIntoItsBlobsAreFollowed) {
  const test::TempDir dir;
  const fs::path root = dir.path() / "models--org--name", snapshot = root / "snapshots" / "abc";
  fs::create_directories(root / "blobs");
  fs::create_directories(snapshot / "text_encoder");
  test::write_safetensors(root / "blobs/1", small());
  test::write_file((root / "blobs/2").string(), R"({"model_type":"qwen2"})");
  fs::create_symlink("../../blobs/1", snapshot / "model.safetensors");
  fs::create_symlink("../../blobs/2", snapshot / "config.json");
  fs::create_symlink("../../../blobs/1", snapshot / "text_encoder/model.safetensors");
  fs::create_symlink("../../../blobs/2", snapshot / "text_encoder/config.json");
  for (const fs::path& folder : {snapshot, snapshot / "text_encoder"}) {
    const Model model = open_model(folder.string(), {});
    EXPECT_EQ(model.tensors.size(), 1u);
    EXPECT_EQ(model.architecture, "qwen2");
    const bool outer = folder == snapshot;
    EXPECT_EQ(model.findings.size(), outer ? 1u : 0u);
    if (outer) {
      EXPECT_EQ(model.findings.front().code, "subfolder");
      ASSERT_EQ(model.side_files.size(), 2u);
      EXPECT_EQ(model.side_files[1].name, "text_encoder/config.json");
    }
  }
  EXPECT_EQ(open_model((snapshot / "model.safetensors").string(), {}).tensors.size(), 1u);
  test::write_file((root / "blobs/3").string(), R"({"weight_map":{"w":"model.safetensors"}})");
  fs::create_symlink("../../blobs/3", snapshot / "model.safetensors.index.json");
  EXPECT_EQ(open_model(snapshot.string(), {}).tensors.size(), 1u);
}

TEST(Folder, OddShardsAndLinksAreNamed) {
  const test::TempDir dir;
  fs::create_directories(dir / "none");
  test::write_safetensors(dir / "none/model-00001-of-00000.safetensors", small());
  expect_refused(dir / "none", ErrorCode::kCorrupt, "is a shard of none");
  fs::create_directories(dir / "half");
  test::write_safetensors(dir / "half/model.safetensors", small());
  fs::create_symlink("gone", dir / "half/tokenizer.json");
  const Model model = open_model(dir / "half", {});
  ASSERT_EQ(model.findings.size(), 1u);
  EXPECT_EQ(model.findings[0].code, "link-nowhere");
}

TEST(HuggingFaceCache, LinksThatLeaveTheModelAreNot) {
  const test::TempDir dir;
  fs::create_directories(dir / "model");
  test::write_safetensors(dir / "secret.safetensors", small());
  test::write_file(dir / "secret.json", R"({"model_type":"secret"})");
  fs::create_symlink("../secret.json", dir / "model/config.json");
  test::write_safetensors(dir / "model/model.safetensors", small());
  const Model model = open_model(dir / "model", {});
  EXPECT_TRUE(model.side_files.empty());
  EXPECT_EQ(model.architecture, "");
  ASSERT_EQ(model.findings.size(), 1u);
  EXPECT_EQ(model.findings[0].code, "link-outside");
  fs::create_symlink("../secret.safetensors", dir / "model/shard.safetensors");
  test::write_file(dir / "model/model.safetensors.index.json", R"({"weight_map":{"w":"shard.safetensors"}})");
  expect_refused(dir / "model", ErrorCode::kCorrupt,
                 "the shard 'shard.safetensors' is a link that leaves the model's folder");
}

}  // namespace
}  // namespace wconv
