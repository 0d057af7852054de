// `wconv inspect` for people.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "core/json_text.h"
#include "inspect_tree.h"
#include "inspection.h"
#include "text_table.h"
#include "wconv/error.h"

namespace wconv::tool {
namespace {

constexpr std::size_t kMetadataEntries = 40, kFilesShown = 20, kArrayItems = 4, kTextWidth = 80;
constexpr std::size_t kMaxLabel = 72;

struct DtypeRow {
  std::uint64_t tensors = 0, parameters = 0, bytes = 0;
};

void print_dtypes(const Model& model) {
  std::map<DType, DtypeRow> rows;
  std::unordered_set<const TensorData*> seen;
  for (const Tensor& tensor : model.tensors) {
    DtypeRow& row = rows[tensor.info.dtype];
    ++row.tensors;
    row.parameters += element_count(tensor.info.shape);
    if (seen.insert(tensor.data.get()).second) row.bytes += tensor.data->size_bytes();
  }
  std::vector<std::pair<DType, DtypeRow>> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  TextTable table("llrrr");
  for (const auto& [dtype, row] : sorted) {
    table.add({table.empty() ? "dtypes      " : "", std::string(name(dtype)), counted(row.tensors, "tensor"),
               grouped(row.parameters), human_size(row.bytes)});
  }
  print(table.text("  "));
}

void print_header(const Globals& globals, const Inspection& inspection) {
  const Model& model = inspection.model;
  const Totals totals = totals_of(model);
  std::uint64_t file_bytes = 0;
  for (const SourceFile& file : model.files) file_bytes += file.bytes;
  print(bold(globals, printable(model.path)) + "\n");
  TextTable table("ll");
  table.add({"format      ", model.format});
  if (!model.architecture.empty()) table.add({"architecture", printable(model.architecture)});
  table.add({"files", fmt::format("{}, {}", grouped(model.files.size()), human_size(file_bytes))});
  std::string parameters = grouped(totals.parameters);
  if (totals.parameters >= 1000) parameters += fmt::format(" ({})", short_count(totals.parameters));
  table.add({"parameters", parameters});
  table.add({"tensors", fmt::format("{}, {}", grouped(totals.tensors), human_size(totals.bytes))});
  print(table.text("  "));
  print_dtypes(model);
}

void print_files(const Globals& globals, const Inspection& inspection) {
  const auto& files = inspection.model.files;
  if (files.size() < 2 && !inspection.hash) return;
  print("\n" + bold(globals, "files") + "\n");
  TextTable table("lrl");
  const std::size_t shown = inspection.hash || globals.verbose ? files.size() : std::min(files.size(), kFilesShown);
  for (std::size_t f = 0; f < shown; ++f) {
    table.add({printable(files[f].path), human_size(files[f].bytes),
               inspection.hash ? "sha256 " + inspection.measures.file_sha256[f] : ""});
  }
  print(table.text("  "));
  if (files.size() > shown) print(fmt::format("  … and {} more (-v shows all)\n", grouped(files.size() - shown)));
}

std::string quoted(const std::string& text) {
  return "\"" + shortened(printable(text.substr(0, 4 * kTextWidth)), kTextWidth) + "\"";
}

std::string array_text(const MetaArray& array) {
  if (array.size() > kArrayItems || array.element == MetaType::kArray || array.element == MetaType::kString) {
    std::string text;
    std::visit(
        [&](const auto& list) {
          using Item = typename std::decay_t<decltype(list)>::value_type;
          for (std::size_t i = 0; i < std::min(list.size(), kArrayItems); ++i) {
            text += i ? ", " : "";
            if constexpr (std::is_same_v<Item, std::string>) {
              text += "\"" + shortened(printable(list[i].substr(0, kTextWidth)), kTextWidth / 4) + "\"";
            } else if constexpr (std::is_same_v<Item, MetaArray>) {
              text += "[…]";
            } else {
              text += fmt::format("{}", list[i]);
            }
          }
        },
        array.values);
    if (array.size() > kArrayItems) text += ", …";
    return fmt::format("[{}] ({} × {})", text, grouped(array.size()), meta_type_name(array.element));
  }
  return metadata_json({MetaType::kArray, array});
}

std::string value_text(const MetaValue& value) {
  if (const std::string* text = value.as_string()) {
    std::string out = quoted(*text);
    if (text->size() > kTextWidth) out += fmt::format(" ({} bytes)", grouped(text->size()));
    return out;
  }
  if (const auto* array = std::get_if<MetaArray>(&value.value)) return array_text(*array);
  return metadata_json(value);
}

void print_metadata(const Globals& globals, const Model& model) {
  if (model.metadata.empty()) return;
  print("\n" + bold(globals, fmt::format("metadata ({})", grouped(model.metadata.size()))) + "\n");
  TextTable table("ll");
  std::size_t shown = 0;
  for (const auto& [key, value] : model.metadata) {
    if (!globals.verbose && shown == kMetadataEntries) break;
    table.add({shortened(printable(key), kMaxLabel), value_text(value)});
    ++shown;
  }
  print(table.text("  "));
  if (shown < model.metadata.size()) {
    print(fmt::format("  … and {} more (-v or --json shows all)\n", grouped(model.metadata.size() - shown)));
  }
}

// Lines of label, dtype, shape and bytes, whose widths are measured before the first is printed.
class Columns {
 public:
  void measure(const std::string& label, const Tensor* tensor, std::uint64_t bytes) {
    label_ = std::max(label_, std::min(display_width(label), kMaxLabel));
    bytes_ = std::max(bytes_, human_size(bytes).size());
    if (!tensor) return;
    dtype_ = std::max(dtype_, name(tensor->info.dtype).size());
    shape_ = std::max(shape_, display_width(shape_text(tensor->info.shape)));
  }
  std::string line(const std::string& label, const Tensor* tensor, std::uint64_t bytes,
                   const std::string* tied_to) const {
    std::string text = fmt::format(
        "  {}  {}  {}  {}", pad_right(label, label_), pad_right(tensor ? name(tensor->info.dtype) : "", dtype_),
        pad_right(tensor ? shape_text(tensor->info.shape) : "", shape_), pad_left(human_size(bytes), bytes_));
    if (tied_to) text += "  = " + printable(*tied_to);
    return text + "\n";
  }

 private:
  std::size_t label_ = 0, dtype_ = 0, shape_ = 0, bytes_ = 0;
};

void print_tree(const Model& model, const Ties& ties) {
  const TensorTree tree(model);
  const auto label = [](const TreeLine& line) {
    std::string text = std::string(2 * line.depth, ' ') + line.label;
    if (line.repeated > 1) text += fmt::format(" ({} ×)", line.repeated);
    return text;
  };
  Columns columns;
  tree.visit([&](const TreeLine& line) { columns.measure(label(line), line.tensor, line.bytes); });
  tree.visit([&](const TreeLine& line) {
    print(columns.line(label(line), line.tensor, line.bytes, line.tensor ? ties.first_name(line.index) : nullptr));
  });
}

std::string stats_text(const TensorStats& stats) {
  std::string text =
      fmt::format("      min {}  max {}  mean {}  sd {}  zeros {}  nan {}  infinite {}\n      ",
                  short_number(stats.min), short_number(stats.max), short_number(stats.mean), short_number(stats.sd),
                  grouped(stats.zeros), grouped(stats.nans), grouped(stats.infinities));
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
    text += fmt::format("{}p{} {}", i ? "  " : "", kPercentiles[i], short_number(stats.percentiles[i]));
  }
  return text + "\n";
}

void print_list(const Inspection& inspection, const Ties& ties) {
  const Model& model = inspection.model;
  Columns columns;
  for (const std::size_t i : inspection.shown) {
    columns.measure(printable(model.tensors[i].info.name), &model.tensors[i], model.tensors[i].data->size_bytes());
  }
  for (std::size_t k = 0; k < inspection.shown.size(); ++k) {
    const std::size_t i = inspection.shown[k];
    const Tensor& tensor = model.tensors[i];
    print(columns.line(printable(tensor.info.name), &tensor, tensor.data->size_bytes(), ties.first_name(i)));
    if (!inspection.stats && !inspection.hash) continue;
    const TensorMeasures& measures = inspection.measures.tensors[k];
    if (measures.stats) print(stats_text(*measures.stats));
    if (inspection.stats && !measures.stats)
      print(fmt::format("      no statistics: {} has no decoder\n", name(tensor.info.dtype)));
    if (inspection.hash) print("      sha256 " + measures.sha256 + "\n");
  }
}

void print_findings(const Globals& globals, const Model& model) {
  if (model.findings.empty()) return;
  print("\n");
  for (const Finding& finding : model.findings) {
    const std::string severity(severity_name(finding.severity));
    print((finding.severity == Severity::kNote ? severity : red(globals, severity)) + ": " +
          printable(finding.message) + "\n");
  }
}

}  // namespace

void print_inspection_text(const Globals& globals, const Inspection& inspection) {
  const Model& model = inspection.model;
  print_header(globals, inspection);
  print_files(globals, inspection);
  print_metadata(globals, model);
  if (!inspection.shown.empty()) {
    const std::string title = inspection.filtered ? fmt::format("tensors ({} of {})", grouped(inspection.shown.size()),
                                                                grouped(model.tensors.size()))
                                                  : "tensors";
    print("\n" + bold(globals, title) + "\n");
    const Ties ties(model);
    if (inspection.filtered || inspection.stats || inspection.hash) {
      print_list(inspection, ties);
    } else {
      print_tree(model, ties);
    }
  }
  print_findings(globals, model);
}

}  // namespace wconv::tool
