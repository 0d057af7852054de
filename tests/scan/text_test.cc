// Templates, JSON and what is only called so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "concerns.h"
#include "scan/sink.h"
#include "scan/text_scan.h"

namespace wconv {
namespace {

using test::concerns, test::kEvil, test::kGood, test::scan_bytes;
using testing::Contains, testing::ElementsAre, testing::IsEmpty, testing::Not;

std::vector<std::string> template_concerns(const std::string& text) {
  scan::Sink sink;
  sink.allow(text.size());
  scan::scan_template(text, "chat_template", sink);
  return concerns(sink.take());
}

TEST(ScanTemplate, ReachingForPythonIsDanger) {
  for (const char* text :
       {"{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ x|attr('__class__') }}", "{{ x | attr(a ~ b) }}", "{{ x |\t\nattr('_' ~ '_class__') }}",
        "{{ ''[ '_' ~ '_class__' ] }}", "{{ x['__class__'] }}", "{{ x[\"\\x5f\\x5fclass\\x5f\\x5f\"] }}",
        "{% import 'os' as os %}", "{{ lipsum }}", "{% set y = self._TemplateReference__context %}",
        "{{ messages|map(attribute='__class__')|list }}", "{{ namespace.__init__ }}", "{{ x['\\u005f_class__'] }}"})
    EXPECT_THAT(template_concerns(text), Not(IsEmpty())) << text;
}

TEST(ScanTemplate, OrdinaryTemplatesAreData) {
  for (const char* text :
       {"{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] }}{% endfor %}",
        "{# __class__ in a comment #}__text__ outside", "{%- set ns = namespace(found=false) -%}",
        "{{ raise_exception('Conversation roles must alternate') }}",
        "{% if tool.attr is defined %}{{ attr }}{% endif %}", "{{ strftime_now('%d %b %Y') }}",
        "{{ x | tojson(indent=4) }}"})
    EXPECT_THAT(template_concerns(text), IsEmpty()) << text;
}

// Jinja ends an expression neither in a string nor in brackets.
TEST(ScanTemplate, TheEndOfAnExpressionIsFoundAsJinjaDoes) {
  for (const char* text :
       {R"({{ "}}" ~ ().__class__.__base__.__subclasses__() }})", R"({{ '}}' ~ x.__class__ }})",
        R"({{ "\"}}" ~ x.__class__ }})", R"({{ {'a': {'b': 1}} ~ x.__class__ }})",
        R"({% set a = "%}" ~ x.__class__ %})", R"({% set a = ("%}", x.__class__) %})",
        R"({% raw %}{{ " {% endraw %}{{ x.__class__ }})", R"({% raw %}{# {%- endraw -%}{{ x.__class__ }})",
        "{%\xc2\xa0raw %}{{ ' {% endraw %}{{ x.__class__ }}",
        R"({% raw %}{% endraw x %}{{ " {% endraw %}{{ x.__class__ }})", R"({{ x["\N{low line}_class__"] }})"})
    EXPECT_THAT(template_concerns(text), Not(IsEmpty())) << text;
  for (const char* text : {R"({{ "}}" }} __text__ {{ {'a': {'b': 1}} }} __text__ {{ ')' }} lipsum {% if x %} self)",
                           R"({{ 'it\'s' }} self {% raw %} self {{ 'a' }} self {% endraw %} self {{ a }})",
                           "{{ x }} don't __text__ {{ y }}", "{# don't {{ #} self {{ y }}"})
    EXPECT_THAT(template_concerns(text), IsEmpty()) << text;
  std::string openings = "{% raw %}";
  for (int i = 0; i < 200'000; ++i) openings += "{{";
  EXPECT_THAT(template_concerns(openings), Contains("unknown too-much"));
}

TEST(ScanJson, TemplatesAreFoundWhereverTheyAre) {
  const std::string evil = R"({"name": "x", "template": "{{ a.__b__ }}"})";
  std::string many = R"({"chat_template": [)";
  for (int i = 0; i < 1000; ++i) many += R"({"name": "n", "template": "{{ a }}"}, )";
  EXPECT_THAT(concerns(scan_bytes(many + evil + "]}", "tokenizer_config.json")), Contains("danger __b__"));
  EXPECT_THAT(concerns(scan_bytes(R"({"loss": [NaN, -Infinity, "a\"NaN", Infinity], "chat_template": )" + evil + "}",
                                  "x.json")),
              ElementsAre("danger __b__"));
  EXPECT_THAT(concerns(scan_bytes(R"({"loss": NaN})", "trainer_state.json")), IsEmpty());
  EXPECT_THAT(concerns(scan_bytes(std::string(300'000, '[') + std::string(300'000, ']'), "x.json")),
              ElementsAre("unknown json"));
}

long peak_kib() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// What is found does not depend on how much else there is, and no name of it is kept in full.
TEST(ScanJson, ManyValuesTakeNoMemory) {
  std::string text = R"({"weight_map": {"a": 5, "b": "w.bin", "c": ["x"]}, "x": [)", nested;
  for (int i = 0; i < 2'000'000; ++i) text += "[],";
  text += "0], ";
  for (int i = 0; i < 400; ++i) nested += "\"template\xc3\xa4" + std::string(20'000, 'x') + "\": {";
  text += nested + R"("a": ["{{ a.__b__ }}", {"c": 1}, "{{ a.__d__ }}"], "e": 1)" + std::string(401, '}');
  const long before = peak_kib();
  const ScanReport report = scan_bytes(text, "x.json");
  EXPECT_LT(peak_kib() - before, 600 * 1024);
  EXPECT_THAT(concerns(report), ElementsAre("danger \"\"", "danger __b__", "danger __d__"));
  for (const ScanItem& item : report.items) EXPECT_LE(item.part.size(), 200u);
}

TEST(ScanJson, AnIndexOfTooManyFilesIsNotKnownToBeData) {
  const auto index = [](int files) {
    std::string text = R"({"weight_map": {"t": "0")";
    for (int i = 0; i < files; ++i) text += ", \"t" + std::to_string(i) + "\": \"" + std::to_string(i) + "\"";
    return concerns(scan_bytes(text + "}}", "x.json"));
  };
  EXPECT_THAT(index(10'000), IsEmpty());
  EXPECT_THAT(index(10'001), ElementsAre("unknown json"));
}

// The content decides; the name only says what text is for.
TEST(ScanJson, WhatIsOnlyCalledTextIsLookedIntoAllTheSame) {
  const test::TempDir dir;
  const std::string proto0 = "cos\nsystem\n(S'x'\ntR.";
  for (const char* name : {"evil.json", "evil.jinja", "evil.py", "evil.txt", "evil"}) {
    for (const std::string& bytes : {kEvil, proto0, test::make_zip({{"a/data.pkl", kEvil}})}) {
      EXPECT_THAT(concerns(scan_bytes(bytes, name)), Contains("danger os.system")) << name;
      test::write_file(dir / name, bytes);
      EXPECT_THAT(concerns(scan_model(dir.path().string())), Contains("danger os.system")) << name << " in a folder";
      std::filesystem::remove(dir / name);
    }
  }
  EXPECT_THAT(concerns(scan_bytes(kGood, "good.json")), IsEmpty());
  EXPECT_THAT(concerns(scan_bytes("{\"a\": ", "broken.json")), ElementsAre("unknown json"));
  EXPECT_THAT(concerns(scan_bytes("\x80\x02]", "broken.json")), ElementsAre("unknown pickle-broken"));
  EXPECT_THAT(concerns(scan_bytes("\x1f\x8b\x08", "packed.json")), ElementsAre("unknown gzip"));
  EXPECT_THAT(concerns(scan_bytes("N.{{ a.__b__ }}", "x.jinja")), Contains("danger __b__")) << "a pickle of None too";
}

TEST(ScanJson, OrdinaryTextIsNoPickle) {
  const test::TempDir dir;
  test::write_file(dir / "LICENSE", "MIT License\n\nCopyright\n");
  test::write_file(dir / "README.md", "Install it.\nThen run it.\n");
  test::write_file(dir / "qwen.tiktoken", "IQ== 0\nIg== 1\n");
  test::write_file(dir / "GGUF.md", "GGUF files of it\n");
  EXPECT_THAT(concerns(scan_model(dir.path().string())), IsEmpty());
  test::write_file(dir / "modeling.py", "import os\nimport sys\n");
  test::write_file(dir / "x.jinja", "Mine: {{ a }}");
  EXPECT_THAT(concerns(scan_model(dir.path().string())), ElementsAre("note modeling.py"));
}

}  // namespace
}  // namespace wconv
