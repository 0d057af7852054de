// Names of parts, read and made.
#include "core/part_name.h"

#include <gtest/gtest.h>

namespace wconv {
namespace {

TEST(PartName, IsReadAsItWasMade) {
  for (const std::string name : {"m-00002-of-00003.safetensors", "a/b.c-00001-of-99999.gguf", "-00000-of-00000.bin"}) {
    const auto part = parse_part_name(name);
    ASSERT_TRUE(part) << name;
    EXPECT_EQ(part_name(part->stem, part->number, part->count, part->ending), name);
    EXPECT_EQ(parse_part_name(name + ".zst")->ending, part->ending);
  }
  const auto part = parse_part_name("a/b.c-00001-of-99999.gguf");
  EXPECT_EQ(part->stem, "a/b.c");
  EXPECT_EQ(part->number, 1u);
  EXPECT_EQ(part->count, 99999u);
  EXPECT_EQ(part->ending, ".gguf");
}

TEST(PartName, OtherNamesAreNone) {
  for (const char* name : {"", ".gguf", "m.gguf", "m-0001-of-00002.gguf", "m-00001-of-00002", "m-00001-of-0000a.gguf",
                           "m-00001_of-00002.gguf", "m-00001-of-00002.x/y", "-of-00002.gguf"})
    EXPECT_FALSE(parse_part_name(name)) << name;
}

}  // namespace
}  // namespace wconv
