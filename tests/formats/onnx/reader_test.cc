// What is recognised, how names are given, and where external data may lie.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "proto.h"

namespace wconv::onnx::test {
namespace {

namespace fs = std::filesystem;
using wconv::test::TempDir;
using wconv::test::write_file;

bool probe(std::string_view head) { return onnx_reader().probe(std::as_bytes(std::span(head))); }

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const Tensor& tensor : model.tensors) names.push_back(tensor.info.name);
  return names;
}

TEST(OnnxProbe, FieldsOfAModel) {
  EXPECT_TRUE(probe(model_with({pair("w")}).bytes()));
  EXPECT_TRUE(probe(model_of(Proto()).bytes()));
  EXPECT_TRUE(probe(Proto().message(7, graph_of({})).bytes()));  // without a version
  EXPECT_TRUE(probe(Proto().number(1, 8).text(2, "pytorch").text(3, "2.1").message(7, graph_of({})).bytes()));
  EXPECT_TRUE(probe(Proto().number(1, 8).text(900, "later").message(7, graph_of({})).bytes()));
  EXPECT_TRUE(probe(Proto().number(1, 8).text(6, std::string(9000, 'd')).bytes().substr(0, 4096)));
}

TEST(OnnxProbe, OtherFiles) {
  for (const std::string_view head : {"", "PK\3\4", "GGUF", "\x80\2}q", "{\"a\": 1}", "<!DOCTYPE html>", "(lp0\n."})
    EXPECT_FALSE(probe(head)) << head;
  EXPECT_FALSE(probe(std::string_view("\x08\0\0\0\0\0\0\0{}", 10)));      // safetensors
  EXPECT_FALSE(probe(Proto().number(1, 8).text(2, "producer").bytes()));  // no graph
  EXPECT_FALSE(probe(Proto().number(1, 2000).message(7, graph_of({})).bytes()));
  // A Core ML model: its version is field 1 and a message is field 2.
  EXPECT_FALSE(probe(Proto().number(1, 4).message(2, Proto().message(1, Proto().text(1, "x"))).text(500, "y").bytes()));
  EXPECT_FALSE(probe(Proto().text(1, "a graph of TensorFlow").bytes()));
}

TEST(OnnxReader, AModelWithoutWeights) {
  const Model model = open(model_of(Proto()));
  EXPECT_TRUE(model.tensors.empty());
  EXPECT_EQ(model.format, "onnx");
  EXPECT_TRUE(has_finding(open(Proto().number(1, 8).message(7, graph_of({}))), "no-opset", "opset_import"));
}

// If("choose") in If("choose") …: each graph has a tensor w.
Proto nested(int levels) {
  Proto graph = graph_of({pair("w")});
  if (levels > 0)
    graph.message(
        1, Proto().text(3, "choose").text(4, "If").message(5, Proto().text(1, "then").message(6, nested(levels - 1))));
  return graph;
}

TEST(OnnxReader, TheMainGraphKeepsItsNames) {
  EXPECT_EQ(names_of(open(model_of(nested(2)))),
            (std::vector<std::string>{"w", "choose/then/w", "choose/then/choose/then/w"}));
  // The name of a path is taken: two nodes have one name.
  const auto branch = [] {
    return Proto().text(3, "n").text(4, "If").message(5, Proto().text(1, "b").message(6, nested(0)));
  };
  const Proto graph = Proto(nested(0)).message(1, branch()).message(1, branch());
  EXPECT_EQ(names_of(open(model_of(graph))), (std::vector<std::string>{"w", "n/b/w", "n/b/w#2"}));
}

// Counting up from #2 for each would take half a minute.
TEST(OnnxReader, ManyNodesOfOneNameAreNamedInTime) {
  constexpr int kNodes = 20'000;
  Proto graph = nested(0);
  for (int i = 0; i < kNodes; ++i)
    graph.message(
        1, Proto().text(3, "n").text(4, "If").message(5, Proto().text(1, "b").message(6, graph_of({pair("w")}))));
  const auto start = std::chrono::steady_clock::now();
  const auto names = names_of(open(model_of(graph)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  ASSERT_EQ(names.size(), kNodes + 1u);
  EXPECT_EQ(names[1], "n/b/w");
  EXPECT_EQ(names.back(), "n/b/w#20000");
}

TEST(OnnxReader, GraphsMayBeNestedAsDeepAsProtobufReadsThem) {
  EXPECT_EQ(open(model_of(nested(33))).tensors.size(), 34u);
  const Refusal refused = refusal([] { open(model_of(nested(34))); });
  EXPECT_EQ(refused.code, ErrorCode::kCorrupt);
  EXPECT_NE(refused.text.find("more than 100 messages deep"), std::string::npos) << refused.text;
  EXPECT_TRUE(refused.offset.has_value());
}

TEST(OnnxReader, NumbersMayLieAtAnyOffset) {
  constexpr std::uint64_t kInt64 = 7;
  const std::int64_t values[] = {-1, std::int64_t{1} << 40};
  const std::string_view raw(reinterpret_cast<const char*>(values), sizeof values);
  for (std::size_t shift = 1; shift <= 8; ++shift) {
    const Model model = open(model_with({tensor(std::string(shift, 'w'), kInt64, {2}).text(9, raw)}));
    std::int64_t second = 0;
    model.tensors.at(0).data->read(8, std::as_writable_bytes(std::span(&second, 1)));
    EXPECT_EQ(second, values[1]) << shift;
  }
}

TEST(OnnxReader, ToldByContentUnderAnyName) {
  const TempDir dir;
  write_file(dir / "model.bin", model_with({pair("w")}).bytes());
  EXPECT_EQ(open_model(dir / "model.bin", {}).format, "onnx");
}

class External : public testing::Test {
 protected:
  std::string path(std::string_view name) const { return dir_ / name; }
  // A model whose tensor w lies in `location`; returns its path.
  std::string model(std::string_view location, std::string_view name = "m.onnx") const {
    write_file(path(name), model_with({external("w", location)}).bytes());
    return path(name);
  }
  void data(std::string_view name, std::size_t size = 8) const { write_file(path(name), std::string(size, 'd')); }
  TempDir dir_;
};

void expect_refused(const std::string& path, ErrorCode code, std::string_view text) {
  const Refusal refused = refusal([&] { open_model(path, {}); });
  EXPECT_EQ(refused.code, code) << refused.text;
  EXPECT_EQ(refused.tensor, "w") << refused.text;
  EXPECT_NE(refused.text.find(text), std::string::npos) << refused.text;
  EXPECT_TRUE(refused.offset.has_value()) << refused.text;
}

TEST_F(External, BesideTheModelAndBelow) {
  data("w.bin");
  fs::create_directory(path("sub"));
  data("sub/w.bin");
  EXPECT_EQ(wconv::test::read_all(open_model(model("w.bin"), {}).tensors.at(0)).size(), 8u);
  EXPECT_EQ(open_model(model("sub/w.bin"), {}).tensors.size(), 1u);
  EXPECT_EQ(open_model(model("./w.bin"), {}).tensors.size(), 1u);
}

TEST_F(External, ThroughALinkToTheFolderThatTheUserGave) {
  fs::create_directory(path("real"));
  fs::create_symlink("real", path("link"));
  data("real/w.bin");
  model("w.bin", "real/m.onnx");
  EXPECT_EQ(open_model(path("link/m.onnx"), {}).tensors.size(), 1u);
}

TEST_F(External, PathsThatLeaveTheFolder) {
  data("secret");
  fs::create_directory(path("in"));
  for (const std::string_view location : {"../secret", "sub/../../secret", "/etc/hostname", "..\\secret", "", "."})
    expect_refused(model(location, "in/m.onnx"), ErrorCode::kCorrupt, "external_data location");
  data("w.bin");
  expect_refused(model(std::string_view("w.bin\0x", 7)), ErrorCode::kCorrupt, "NUL");
}

TEST_F(External, Links) {
  data("real.bin");
  fs::create_directory(path("in"));
  fs::create_symlink(path("real.bin"), path("in/out.bin"));
  expect_refused(model("out.bin", "in/m.onnx"), ErrorCode::kCorrupt, "leaves the model's folder");
  fs::create_symlink("real.bin", path("inside.bin"));
  expect_refused(model("inside.bin"), ErrorCode::kCorrupt, "is a symbolic link");
  fs::create_symlink("in", path("in_link"));
  data("in/w.bin");
  expect_refused(model("in_link/w.bin"), ErrorCode::kCorrupt, "is a symbolic link");
  fs::create_hard_link(path("real.bin"), path("hard.bin"));
  expect_refused(model("hard.bin"), ErrorCode::kCorrupt, "several hard links");
  fs::create_symlink("nowhere", path("dangling.bin"));
  expect_refused(model("dangling.bin"), ErrorCode::kMissing, "is not there");
}

TEST_F(External, WhatIsNoFile) {
  fs::create_directory(path("folder"));
  expect_refused(model("folder"), ErrorCode::kCorrupt, "no regular file");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  expect_refused(model("fifo"), ErrorCode::kCorrupt, "no regular file");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{AF_UNIX, {}};
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_refused(model("socket"), ErrorCode::kCorrupt, "no regular file");
  ::close(socket);
  expect_refused(model("absent.bin"), ErrorCode::kMissing, "'absent.bin' is not there");
}

TEST_F(External, DevicesAndKernelFiles) {
  for (const std::string target : {"/dev/zero", "/dev/stdin", "/proc/self/mem", "/proc/self/environ", "/dev/fd/0"}) {
    expect_refused(model(target), ErrorCode::kCorrupt, "is an absolute path");
    const std::string link = "link" + std::to_string(dir_.names().size());
    fs::create_symlink(target, path(link));
    const Refusal refused = refusal([&] { open_model(model(link), {}); });
    EXPECT_TRUE(refused.code == ErrorCode::kCorrupt || refused.code == ErrorCode::kMissing) << target << refused.text;
  }
}

// A file system that takes two names for one would hand out another file than the one that was packed.
TEST_F(External, NamesThatDifferInCaseOrInTheirUnicodeFormAreOthers) {
  data("w.bin");
  data("caf\u00e9.bin");
  for (const std::string_view twin : {"W.bin", "w.BIN", "w.bin ", "cafe\u0301.bin", "w.b\u0131n"})
    expect_refused(model(twin), ErrorCode::kMissing, "is not there");
  EXPECT_EQ(open_model(model("caf\u00e9.bin"), {}).tensors.size(), 1u);
  data("W.bin", 16);
  const Model both = open_model(model("w.bin"), {});
  EXPECT_EQ(both.files.at(1).bytes, 8u);
}

TEST_F(External, AChecksumIsSaidToBeUnchecked) {
  data("w.bin");
  write_file(path("m.onnx"),
             model_with({external("w", "w.bin").message(13, entry("checksum", std::string(40, 'a')))}).bytes());
  EXPECT_TRUE(has_finding(open_model(path("m.onnx"), {}), "external-checksum", "does not compare"));
  EXPECT_FALSE(has_finding(open_model(model("w.bin"), {}), "external-checksum", ""));
}

// snapshots/<commit>/{model.onnx, w.bin} are links to ../../blobs/<hash>.
TEST_F(External, TheDownloadCacheOfHuggingFace) {
  const std::string repository = path("models--a--b");
  fs::create_directories(repository + "/blobs");
  fs::create_directories(repository + "/snapshots/abc");
  model("w.bin", "models--a--b/blobs/1");
  data("models--a--b/blobs/2");
  fs::create_symlink("../../blobs/1", repository + "/snapshots/abc/model.onnx");
  fs::create_symlink("../../blobs/2", repository + "/snapshots/abc/w.bin");
  EXPECT_EQ(open_model(repository + "/snapshots/abc/model.onnx", {}).tensors.size(), 1u);
  data("models--a--b/other");
  fs::remove(repository + "/snapshots/abc/w.bin");
  fs::create_symlink("../../other", repository + "/snapshots/abc/w.bin");
  expect_refused(repository + "/snapshots/abc/model.onnx", ErrorCode::kCorrupt, "leaves the model's folder");
}

TEST_F(External, Ranges) {
  data("w.bin", 20);
  const auto with = [&](std::string_view key, std::string_view value) {
    write_file(path("m.onnx"), model_with({external("w", "w.bin").message(13, entry(key, value))}).bytes());
    return path("m.onnx");
  };
  EXPECT_EQ(open_model(with("offset", "12"), {}).tensors.at(0).source_offset, 12u);
  EXPECT_EQ(open_model(with("length", "8"), {}).tensors.size(), 1u);
  expect_refused(with("checksum", "x"), ErrorCode::kCorrupt, "no length, so that 'w.bin' is the tensor: 20 bytes");
  expect_refused(with("offset", "13"), ErrorCode::kCorrupt, "from byte 13 on and has 8 bytes, but that file has 20");
  expect_refused(with("offset", "18446744073709551615"), ErrorCode::kCorrupt, "that file has 20");
  expect_refused(with("length", "7"), ErrorCode::kCorrupt, "length of 7 bytes");
  for (const std::string_view number : {"-1", "", "8x", "0x8", "99999999999999999999"})
    expect_refused(with("offset", number), ErrorCode::kCorrupt, "is no number");
  expect_refused(with("location", "w.bin"), ErrorCode::kCorrupt, "'location' stands there twice");
}

TEST_F(External, UnknownKeys) {
  data("w.bin");
  write_file(path("m.onnx"), model_with({external("w", "w.bin").message(13, entry("__class__", "x"))}).bytes());
  EXPECT_TRUE(has_finding(open_model(path("m.onnx"), {}), "external-key", "'__class__'"));
}

TEST_F(External, AnLfsPointerInItsPlace) {
  write_file(path("w.bin"), "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 800\n");
  write_file(path("m.onnx"),
             model_with({tensor("w", kFloat, {200}).message(13, entry("location", "w.bin")).number(14, 1)}).bytes());
  expect_refused(path("m.onnx"), ErrorCode::kMissing, "Git LFS pointer");
}

TEST(OnnxReader, MemoryHasNothingBesideIt) {
  const Refusal refused = refusal([] { open(model_with({external("w", "w.bin")})); });
  EXPECT_EQ(refused.code, ErrorCode::kMissing);
}

}  // namespace
}  // namespace wconv::onnx::test
