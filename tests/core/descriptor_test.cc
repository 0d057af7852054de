// Files that are opened again for each use are still the files that were opened first.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "support/support.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::test {
namespace {

namespace fs = std::filesystem;

// Lowers the limit of descriptors while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lower{count, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &lower);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

std::vector<std::shared_ptr<const File>> open_many(const TempDir& folder, int count) {
  std::vector<std::shared_ptr<const File>> files;
  for (int i = 0; i < count; ++i) {
    const std::string path = folder / std::to_string(i);
    write_file(path, std::to_string(10000 + i));
    files.push_back(File::open(path));
  }
  return files;
}

std::string text_of(const File& file) {
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(Descriptor, MoreFilesThanTheLimitAreReadByManyThreads) {
  const FewDescriptors limit(64);
  const TempDir folder;
  const auto files = open_many(folder, 300);
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 40; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < files.size(); ++i) wrong += text_of(*files[i]) != std::to_string(10000 + i);
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  for (const auto& file : files) EXPECT_NO_THROW(file->check_unchanged());
}

std::string message_of_read(const File& file) {
  try {
    text_of(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    return error.message();
  }
  return "none";
}

TEST(Descriptor, RefusesAReplacedFile) {
  const FewDescriptors limit(64);
  const TempDir folder;
  const auto files = open_many(folder, 40);
  write_file(folder / "other", "10039");
  fs::rename(folder / "other", folder / "39");
  EXPECT_EQ(message_of_read(*files.back()), "was replaced during the run");
}

TEST(Descriptor, RefusesAChangedFile) {
  const FewDescriptors limit(64);
  const TempDir folder;
  const auto files = open_many(folder, 40);
  fs::resize_file(folder / "39", 3);
  EXPECT_EQ(message_of_read(*files.back()), "was changed during the run");
}

TEST(Descriptor, RefusesAFileThatIsGone) {
  const FewDescriptors limit(64);
  const TempDir folder;
  const auto files = open_many(folder, 40);
  fs::remove(folder / "39");
  EXPECT_EQ(message_of_read(*files.back()), "cannot open it again: No such file or directory");
}

TEST(Descriptor, KeepsAFewFilesOpen) {
  const FewDescriptors limit(64);
  const TempDir folder;
  const auto files = open_many(folder, 40);
  fs::remove(folder / "0");
  EXPECT_EQ(text_of(*files.front()), "10000");
}

}  // namespace
}  // namespace wconv::test
