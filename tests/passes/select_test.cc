#include <gtest/gtest.h>

#include "names.h"
#include "wconv/error.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

using test::model_of;
using test::names_of;

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("**", "a.b"));
  EXPECT_TRUE(glob_match("model.layers.*.mlp.*", "model.layers.10.mlp.up.weight"));
  EXPECT_FALSE(glob_match("model.layers.*.mlp.*", "model.layers.10.attn.q"));
  EXPECT_FALSE(glob_match("layers.*", "model.layers.0"));  // the whole name
  EXPECT_FALSE(glob_match("*.layers", "model.layers.0"));
  EXPECT_TRUE(glob_match("l?yer", "layer"));
  EXPECT_FALSE(glob_match("l?yer", "lyer"));
  EXPECT_TRUE(glob_match("*ab*ab", "abxabab"));
  EXPECT_FALSE(glob_match("a*b*c", "axxbxx"));
  EXPECT_FALSE(glob_match("A", "a"));
}

TEST(Glob, Sets) {
  EXPECT_TRUE(glob_match("layer[012]", "layer1"));
  EXPECT_FALSE(glob_match("layer[012]", "layer3"));
  EXPECT_TRUE(glob_match("layer[0-9].w", "layer7.w"));
  EXPECT_FALSE(glob_match("layer[!0-9].w", "layer7.w"));
  EXPECT_TRUE(glob_match("layer[!0-9].w", "layerx.w"));
  EXPECT_TRUE(glob_match("[a-]", "-"));
  EXPECT_TRUE(glob_match("[]]", "]"));
  EXPECT_TRUE(glob_match("[!]", "!"));
  EXPECT_FALSE(glob_match("[!]", "x"));
  EXPECT_TRUE(glob_match("a[b", "a[b"));  // no set without its end
  EXPECT_TRUE(glob_match("*[0-9]", "layer.10"));
}

TEST(Glob, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(20'000, 'a')));
}

TEST(Select, IncludesThenExcludes) {
  const Model model = model_of({"a.0", "a.1", "b.0", "b.1"});
  EXPECT_EQ(names_of(select_tensors(model, {}, {})), "a.0 a.1 b.0 b.1");
  EXPECT_EQ(names_of(select_tensors(model, {"b.*", "a.1"}, {})), "a.1 b.0 b.1");  // in the source's order
  EXPECT_EQ(names_of(select_tensors(model, {"b.*", "a.1"}, {"*.1"})), "b.0");
  EXPECT_EQ(names_of(select_tensors(model, {}, {"a.*"})), "b.0 b.1");
  EXPECT_EQ(names_of(select_tensors(model, {}, {"*"})), "");
}

TEST(Select, ANameWithBracketsMatchesItself) {
  EXPECT_EQ(names_of(select_tensors(model_of({"w[0]", "w0"}), {"w[0]"}, {})), "w[0] w0");
  EXPECT_EQ(names_of(select_tensors(model_of({"w[0]", "v"}), {}, {"w[0]"})), "v");
}

TEST(Select, APatternThatMatchesNothingNamesTheNearest) {
  for (const bool exclude : {false, true}) {
    try {
      const std::vector<std::string> patterns = {"model.embed.weigth"};
      select_tensors(model_of({"lm_head.weight", "model.embed.weight"}),
                     exclude ? std::vector<std::string>{} : patterns, exclude ? patterns : std::vector<std::string>{});
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_STREQ(error.what(), "no tensor matches 'model.embed.weigth'; the nearest name is 'model.embed.weight'");
    }
  }
}

TEST(Select, KeepsTensorsAsTheyAre) {
  const Model model = model_of({"a", "b"});
  const Model selected = select_tensors(model, {"b"}, {});
  EXPECT_EQ(selected.tensors[0].data, model.tensors[1].data);
  EXPECT_TRUE(selected.tensors[0].transforms.empty());
}

}  // namespace
}  // namespace wconv
