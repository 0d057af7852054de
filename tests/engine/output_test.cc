// How outputs appear: whole or not at all, one run at a time, never through a link.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "support/support.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

void make_file(const std::string& path, std::string_view text, bool force = false) {
  Output output(path, false, force);
  output.add(fs::path(path).filename().string(), text);
  output.commit();
}

void make_folder(const std::string& path, const std::vector<std::pair<std::string, std::string>>& files,
                 bool force = false) {
  Output output(path, true, force);
  for (const auto& [name, text] : files) output.add(name, text);
  output.commit();
}

void expect_refused(ErrorCode code, const auto& work, std::string_view words) {
  try {
    work();
    ADD_FAILURE() << "not refused: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
  }
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

class Umask {
 public:
  explicit Umask(mode_t mask) : old_(::umask(mask)) {}
  ~Umask() { ::umask(old_); }

 private:
  mode_t old_;
};

TEST(Output, AppearsOnlyWhenCommitted) {
  const test::TempDir dir;
  {
    Output output(dir / "out", false, false);
    output.add("out", "text");
    EXPECT_EQ(dir.names(), Names{".out.wconv-tmp"});
  }
  EXPECT_EQ(dir.names(), Names{});
  make_file(dir / "out", "text");
  EXPECT_EQ(dir.names(), Names{"out"});
  EXPECT_EQ(test::read_file(dir / "out"), "text");
}

TEST(Output, ASetOfFilesIsCompleteOrAbsent) {
  const test::TempDir dir;
  {
    Output output(dir / "m.safetensors", false, false);
    output.create("m-00001-of-00002.safetensors", 1);
    output.create("m-00002-of-00002.safetensors", 1);
    output.add("m.safetensors.wconv.json", "{}");
  }
  EXPECT_EQ(dir.names(), Names{});
  Output output(dir / "m.safetensors", false, false);
  output.create("m-00001-of-00002.safetensors", 1);
  output.create("m-00002-of-00002.safetensors", 1);
  output.commit();
  EXPECT_EQ(dir.names(), (Names{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"}));
}

TEST(Output, ASetThatCannotBeCompletedIsTakenBack) {
  const test::TempDir dir;
  {
    Output output(dir / "m", false, false);
    output.create("m-1", 1);
    output.create("m-2", 1);
    test::write_file(dir / "m-2", "another program's");
    expect_refused(
        ErrorCode::kBusy, [&] { output.commit(); }, "appeared while this run was making it");
  }
  EXPECT_EQ(dir.names(), Names{"m-2"});
  EXPECT_EQ(test::read_file(dir / "m-2"), "another program's");
}

TEST(Output, OfTwoRunsOneWinsAndTheOtherIsToldToTryAgain) {
  const test::TempDir dir;
  for (const bool folder : {false, true}) {
    Output first(dir / "out", folder, true);
    expect_refused(
        ErrorCode::kBusy, [&] { Output second(dir / "out", folder, true); }, "another run is writing this output");
  }
  EXPECT_EQ(exit_status(ErrorCode::kBusy), 75);
  EXPECT_EQ(dir.names(), Names{});
}

TEST(Output, OfManyRunsAtOnceExactlyOneWins) {
  const test::TempDir dir;
  for (int round = 0; round < 30; ++round) {
    const bool folder = round % 2 == 1;
    const std::string path = dir / std::to_string(round);
    std::atomic<int> winners = 0, waiting = 8;
    std::vector<std::jthread> runs;
    for (int run = 0; run < 8; ++run) {
      runs.emplace_back([&, run] {
        --waiting;
        while (waiting > 0) std::this_thread::yield();
        try {
          if (folder) make_folder(path, {{"model.safetensors", std::to_string(run)}});
          if (!folder) make_file(path, std::to_string(run));
          ++winners;
        } catch (const Error& error) {
          EXPECT_TRUE(error.code() == ErrorCode::kBusy || error.code() == ErrorCode::kUsage) << error.what();
        }
      });
    }
    runs.clear();
    EXPECT_EQ(winners, 1) << path;
    EXPECT_EQ(test::read_file(folder ? path + "/model.safetensors" : path).size(), 1u);
  }
  EXPECT_EQ(dir.names().size(), 30u);
}

TEST(Output, AnExistingOneNeedsForce) {
  const test::TempDir dir;
  test::write_file(dir / "out", "old");
  expect_refused(
      ErrorCode::kUsage, [&] { make_file(dir / "out", "new"); }, "exists; --force replaces it");
  EXPECT_EQ(test::read_file(dir / "out"), "old");
  make_file(dir / "out", "new", true);
  EXPECT_EQ(test::read_file(dir / "out"), "new");
  test::write_file(dir / "m-2", "old");  // a member of a set, too
  Output output(dir / "m", false, false);
  expect_refused(
      ErrorCode::kUsage, [&] { output.create("m-2", 1); }, "exists; --force replaces it");
  EXPECT_EQ(test::read_file(dir / "m-2"), "old");
}

TEST(Output, ALinkIsReplacedAndNotFollowed) {
  const test::TempDir dir;
  test::write_file(dir / "precious", "keep");
  fs::create_symlink("precious", dir / "out");
  expect_refused(
      ErrorCode::kUsage, [&] { make_file(dir / "out", "new"); }, "exists; --force replaces it");
  make_file(dir / "out", "new", true);
  EXPECT_FALSE(fs::is_symlink(dir / "out"));
  EXPECT_EQ(test::read_file(dir / "out"), "new");
  EXPECT_EQ(test::read_file(dir / "precious"), "keep");
  fs::create_symlink("nowhere", dir / "dangling");
  expect_refused(
      ErrorCode::kUsage, [&] { make_file(dir / "dangling", "new"); }, "exists; --force replaces it");
  EXPECT_EQ(dir.names(), (Names{"dangling", "out", "precious"}));
}

TEST(Output, ALinkToAFolderIsReplacedAndNotFollowed) {
  const test::TempDir dir;
  make_folder(dir / "precious", {{"model.safetensors", "keep"}});
  fs::create_directory_symlink("precious", dir / "out");
  expect_refused(
      ErrorCode::kUsage,
      [&] {
        make_folder(dir / "out", {{"model.safetensors", "new"}});
      },
      "--force");
  make_folder(dir / "out", {{"model.safetensors", "new"}}, true);
  EXPECT_FALSE(fs::is_symlink(dir / "out"));
  EXPECT_EQ(test::read_file(dir / "out/model.safetensors"), "new");
  EXPECT_EQ(test::read_file(dir / "precious/model.safetensors"), "keep");
  EXPECT_EQ(dir.names(), (Names{"out", "precious"}));
}

TEST(Output, LinksInPlaceOfTheTemporaryAreNotFollowed) {
  const test::TempDir dir;
  test::write_file(dir / "precious", "keep");
  fs::create_symlink("precious", dir / ".out.wconv-tmp");
  expect_refused(
      ErrorCode::kIo, [&] { make_file(dir / "out", "new"); }, "cannot create its temporary");
  fs::remove(dir / ".out.wconv-tmp");
  fs::create_hard_link(dir / "precious", dir / ".out.wconv-tmp");
  expect_refused(
      ErrorCode::kIo, [&] { make_file(dir / "out", "new"); }, "is in the way");
  fs::remove(dir / ".out.wconv-tmp");
  ASSERT_EQ(::mkfifo((dir / ".out.wconv-tmp").c_str(), 0600), 0);
  expect_refused(
      ErrorCode::kIo, [&] { make_file(dir / "out", "new"); }, "is in the way");
  EXPECT_EQ(test::read_file(dir / "precious"), "keep");
}

TEST(Output, MayBeItsOwnInput) {
  const test::TempDir dir;
  const std::string path = test::write_safetensors(
      dir / "m.safetensors",
      {{"b", DType::kF32, {1}, test::bytes_of({1.5f})}, {"a", DType::kU8, {2}, test::bytes_of<unsigned char>({1, 2})}});
  for (const std::string& out : {path, dir / "link.safetensors"}) {
    if (out != path) fs::create_symlink("m.safetensors", out);
    const Model model = open_model(path, {});
    Output output(out, false, true);
    execute(model, find_writer("safetensors")->plan(model, {.file_name = fs::path(out).filename().string()}), output,
            {});
    output.commit();
    const Model back = open_model(out, {});
    EXPECT_EQ(test::read_all(back.tensors[0]), test::bytes_of({1.5f}));
    EXPECT_EQ(test::read_all(back.tensors[1]), test::bytes_of<unsigned char>({1, 2}));
  }
}

TEST(Output, TakesOverWhatAKilledRunLeft) {
  const test::TempDir dir;
  test::write_file(dir / ".out.wconv-tmp", std::string(1000, 'x'));
  make_file(dir / "out", "text");
  EXPECT_EQ(test::read_file(dir / "out"), "text");
  fs::create_directories(dir / ".folder.wconv-tmp/sub");
  test::write_file(dir / ".folder.wconv-tmp/sub/old", "x");
  make_folder(dir / "folder", {{"model.safetensors", "new"}});
  EXPECT_EQ(dir.names(), (Names{"folder", "out"}));
  EXPECT_FALSE(fs::exists(dir / "folder/sub"));
}

TEST(Output, AFolderIsCompleteOrAbsent) {
  const test::TempDir dir;
  {
    Output output(dir / "out/", true, false);
    output.add("model.safetensors", "new");
    EXPECT_FALSE(fs::exists(dir / "out"));
  }
  EXPECT_EQ(dir.names(), Names{});
  make_folder(dir / "out/", {{"model.safetensors", "1"}, {"config.json", "{}"}});
  EXPECT_EQ(test::read_file(dir / "out/config.json"), "{}");
  expect_refused(
      ErrorCode::kUsage,
      [&] {
        make_folder(dir / "out", {{"model.safetensors", "2"}});
      },
      "exists; --force replaces it");
  make_folder(dir / "out", {{"model.safetensors", "2"}}, true);
  EXPECT_EQ(test::read_file(dir / "out/model.safetensors"), "2");
  EXPECT_FALSE(fs::exists(dir / "out/config.json")) << "the old folder is gone as a whole";
  EXPECT_EQ(dir.names(), Names{"out"});
  fs::create_directory(dir / "empty");
  make_folder(dir / "empty", {{"model.safetensors", "3"}});
  EXPECT_EQ(test::read_file(dir / "empty/model.safetensors"), "3");
}

TEST(Output, PartsOfAModelInFoldersOfTheirOwn) {
  const test::TempDir dir;
  make_folder(dir / "out", {{"1_Pooling/config.json", "{}"}, {"1_Pooling/x.txt", "x"}, {"model.safetensors", "1"}});
  EXPECT_EQ(test::read_file(dir / "out/1_Pooling/config.json"), "{}");
  EXPECT_EQ(test::read_file(dir / "out/1_Pooling/x.txt"), "x");
  make_folder(dir / "out", {{"model.safetensors", "2"}}, true);
  EXPECT_FALSE(fs::exists(dir / "out/1_Pooling"));
  make_folder(dir / "out", {{"1_Pooling/config.json", "{}"}}, true);
  fs::create_directory(dir / "out/1_Pooling/photos");
  expect_refused(
      ErrorCode::kUsage, [&] { make_folder(dir / "out", {}, true); }, "holds the folder 1_Pooling");
}

TEST(Output, ReplacesOnlyFoldersThatHoldAModel) {
  const test::TempDir dir;
  fs::create_directories(dir / "home/photos");
  test::write_file(dir / "home/model.safetensors", "x");
  expect_refused(
      ErrorCode::kUsage, [&] { make_folder(dir / "home", {}, true); }, "holds the folder photos");
  fs::create_directory(dir / "notes");
  test::write_file(dir / "notes/todo.txt", "x");
  expect_refused(
      ErrorCode::kUsage, [&] { make_folder(dir / "notes", {}, true); }, "holds no weights");
  test::write_file(dir / "file", "x");
  expect_refused(
      ErrorCode::kUsage, [&] { make_folder(dir / "file", {}, true); }, "is a file; the output is a folder");
  expect_refused(
      ErrorCode::kUsage, [&] { make_file(dir / "notes", "x", true); }, "is a folder; the output is a file");
  fs::create_directory(dir / "thesis");
  for (const std::string name : {"model.safetensors", "thesis.docx"}) test::write_file(dir / "thesis/" + name, "x");
  expect_refused(
      ErrorCode::kUsage, [&] { make_folder(dir / "thesis", {}, true); }, "holds 'thesis.docx'");
  EXPECT_EQ(dir.names(), (Names{"file", "home", "notes", "thesis"}));
}

TEST(Output, NamesThatCannotBeMadeAreRefused) {
  const test::TempDir dir;
  expect_refused(
      ErrorCode::kUsage, [&] { make_file(dir / "absent/out", "x"); }, "does not exist");
  expect_refused(
      ErrorCode::kUsage, [&] { make_file("", "x"); }, "is no name for an output");
  expect_refused(
      ErrorCode::kUsage, [&] { make_folder(dir / "..", {}, true); }, "is no name for an output");
  expect_refused(
      ErrorCode::kUsage, [&] { make_file("/dev/null", "x", true); }, "neither a regular file nor a link");
}

TEST(Output, NewFilesHaveTheUmasksModeAndReplacedOnesKeepTheirs) {
  const test::TempDir dir;
  const Umask mask(027);
  make_file(dir / "out", "1");
  make_folder(dir / "folder", {{"model.safetensors", "1"}});
  EXPECT_EQ(mode_of(dir / "out"), 0640u);
  EXPECT_EQ(mode_of(dir / "folder"), 0750u);
  EXPECT_EQ(mode_of(dir / "folder/model.safetensors"), 0640u);
  for (const auto& [name, mode] : {std::pair{"out", 0604}, {"folder", 0705}, {"folder/model.safetensors", 0606}}) {
    ASSERT_EQ(::chmod((dir / name).c_str(), static_cast<mode_t>(mode)), 0);
  }
  make_file(dir / "out", "2", true);
  make_folder(dir / "folder", {{"model.safetensors", "2"}, {"config.json", "{}"}}, true);
  EXPECT_EQ(mode_of(dir / "out"), 0604u);
  EXPECT_EQ(mode_of(dir / "folder"), 0705u);
  EXPECT_EQ(mode_of(dir / "folder/model.safetensors"), 0606u);
  EXPECT_EQ(mode_of(dir / "folder/config.json"), 0640u);
}

TEST(Output, WhatAKilledRunHasLeftIsNotTakenOver) {
  const test::TempDir dir;
  test::write_file(dir / ".out.wconv-tmp", "a longer text of before");
  ASSERT_EQ(::chmod((dir / ".out.wconv-tmp").c_str(), 0666), 0);
  make_file(dir / "out", "1");
  EXPECT_EQ(test::read_file(dir / "out"), "1");
  EXPECT_NE(mode_of(dir / "out"), 0666u);
  fs::create_directory(dir / ".folder.wconv-tmp");
  test::write_file(dir / ".folder.wconv-tmp/stale", "x");
  make_folder(dir / "folder", {{"model.safetensors", "1"}});
  EXPECT_FALSE(fs::exists(dir / "folder/stale"));
  EXPECT_EQ(dir.names(), (Names{"folder", "out"}));
}

TEST(Output, NamesTooLongForTheirTemporaryAreRefused) {
  const test::TempDir dir;
  expect_refused(
      ErrorCode::kUsage, [&] { make_file(dir / std::string(250, 'n'), "x"); }, "the name has 250 bytes");
}

TEST(Output, AFullDiskIsSaidBeforeAnythingIsWritten) {
  const test::TempDir dir;
  Output output(dir / "out", false, false);
  expect_refused(
      ErrorCode::kIo, [&] { output.create("out", std::uint64_t{1} << 62); }, dir / "out");
}

}  // namespace
}  // namespace wconv
