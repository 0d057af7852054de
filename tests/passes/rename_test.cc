#include <gtest/gtest.h>

#include "names.h"
#include "wconv/error.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

using Rules = std::vector<std::pair<std::string, std::string>>;

using test::model_of;
using test::names_of;

std::string stripped(const std::vector<std::string>& names, const std::vector<std::string>& prefixes) {
  return names_of(rename_tensors(model_of(names), {prefixes, {}}));
}
std::string replaced(const std::vector<std::string>& names, const Rules& rules) {
  return names_of(rename_tensors(model_of(names), {{}, rules}));
}

std::string refusal(const std::vector<std::string>& names, const RenameRules& rules) {
  try {
    rename_tensors(model_of(names), rules);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Rename, StripsPrefixes) {
  EXPECT_EQ(stripped({"module.a", "module.module.b", "c"}, {"module."}), "a module.b c");
  EXPECT_EQ(stripped({"module.model.a", "model.b"}, {"module.", "model."}), "a b");  // one after the other
  EXPECT_EQ(stripped({"module.", "module.a"}, {"module."}), "module. a");            // a name is never empty
}

TEST(Rename, ReplacesEveryMatch) {
  EXPECT_EQ(replaced({"a.b.a"}, {{"a", "xx"}}), "xx.b.xx");
  EXPECT_EQ(replaced({"h.0.attn", "h.12.mlp"}, {{R"(^h\.(\d+)\.)", "layers.$1."}}), "layers.0.attn layers.12.mlp");
  EXPECT_EQ(replaced({"a.b"}, {{R"((?<first>\w)\.(\w))", "$2.${first}"}}), "b.a");
  EXPECT_EQ(replaced({"a"}, {{"a", "b"}, {"b", "c"}}), "c");   // one after the other
  EXPECT_EQ(replaced({"ab"}, {{"(a)|(z)", "$1$2x"}}), "axb");  // a group that did not take part is empty
  EXPECT_EQ(replaced({"gone.a"}, {{"^gone\\.", ""}}), "a");
  EXPECT_EQ(replaced({"a"}, {{"a", "$$"}}), "$");
}

TEST(Rename, GrowsAsMuchAsNeeded) {
  EXPECT_EQ(replaced({std::string(1000, 'a')}, {{"a", "0123456789"}}).size(), 10'000u);
}

TEST(Rename, NamesAreBytes) {
  EXPECT_EQ(replaced({"\xff\xfe.a"}, {{"a$", "b"}}), "\xff\xfe.b");
  EXPECT_EQ(replaced({"größe"}, {{"ö", "oe"}}), "groeße");
  EXPECT_EQ(replaced({std::string("a\0b", 3)}, {{"\\x00", "."}}), "a.b");
}

TEST(Rename, RecordsWhereANameCameFrom) {
  const Model model = rename_tensors(rename_tensors(model_of({"m.a", "b"}), {{"m."}, {}}), {{}, {{"^a$", "c"}}});
  EXPECT_EQ(model.tensors[0].info.name, "c");
  EXPECT_EQ(model.tensors[0].source_name, "m.a");
  ASSERT_EQ(model.tensors[0].transforms.size(), 2u);
  EXPECT_EQ(model.tensors[0].transforms[1].op, "rename");
  EXPECT_EQ(model.tensors[0].transforms[1].parameters,
            (std::vector<std::pair<std::string, std::string>>{{"from", "a"}, {"to", "c"}}));
  EXPECT_EQ(model.tensors[1].source_name, "");
  EXPECT_TRUE(model.tensors[1].transforms.empty());
  EXPECT_TRUE(model.findings.empty());
}

TEST(Rename, TwoRulesAreOneTransform) {
  const Model model = rename_tensors(model_of({"m.a"}), {{"m."}, {{"a", "b"}}});
  ASSERT_EQ(model.tensors[0].transforms.size(), 1u);
  EXPECT_EQ(model.tensors[0].transforms[0].parameters.front().second, "m.a");
}

TEST(Rename, ClashNamesAllThreeAndWhatToDo) {
  EXPECT_EQ(refusal({"module.a", "b", "a"}, {{"module."}, {}}),
            "the tensors 'module.a' and 'a' would both be named 'a'; keep them apart with another --strip-prefix or "
            "--rename, leave one out with --exclude, or take one part of a nested checkpoint with --key PATH");
  EXPECT_TRUE(refusal({"w.0", "w.1"}, {{}, {{"\\d", "n"}}})
                  .starts_with("the tensors 'w.0' and 'w.1' would both be named 'w.n'; "));
}

TEST(Rename, NamesMayBeSwapped) { EXPECT_EQ(replaced({"a", "b"}, {{"a", "t"}, {"b", "a"}, {"t", "b"}}), "b a"); }

TEST(Rename, ARuleThatChangesNothingIsAWarning) {
  const Model model = rename_tensors(model_of({"a"}), {{"module."}, {{"zzz", "y"}, {"a", "a"}}});
  ASSERT_EQ(model.findings.size(), 3u);
  EXPECT_EQ(model.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(model.findings[0].message, "--strip-prefix 'module.' changes no tensor name");
  EXPECT_EQ(model.findings[1].message, "--rename 'zzz' changes no tensor name");
  EXPECT_EQ(model.findings[2].message, "--rename 'a' changes no tensor name");
}

TEST(Rename, WrongExpressions) {
  EXPECT_EQ(refusal({"a"}, {{}, {{"(a", "b"}}}),
            "the expression '(a' is wrong at character 2: missing closing parenthesis");
  EXPECT_NE(refusal({"a"}, {{}, {{"a", "$1"}}}).find("renaming 'a' by 'a' to '$1' fails: "), std::string::npos);
  EXPECT_EQ(refusal({"a"}, {{}, {{"a", ""}}}), "--rename 'a' would leave tensor 'a' without a name");
}

TEST(Rename, AnExpressionWithoutEndIsRefused) {
  EXPECT_NE(refusal({std::string(40, 'a')}, {{}, {{"^(a+)+[xy]$", "x"}}}).find("fails: "), std::string::npos);
}

}  // namespace
}  // namespace wconv
