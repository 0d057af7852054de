#include "engine/schedule.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

#include "wconv/file.h"

namespace wconv::engine {
namespace {

// A piece whose bytes are those of an input.
struct Copy {
  std::size_t file, piece;           // of the layout
  std::uint64_t begin = 0, end = 0;  // in the input
};

std::vector<std::vector<Copy>> copies_of(const Model& model, const Layout& layout) {
  std::unordered_map<const File*, std::size_t> inputs;
  const auto files = input_files(model);
  for (std::size_t i = 0; i < files.size(); ++i) inputs.emplace(files[i], i);
  std::vector<std::vector<Copy>> copies(files.size());
  for (std::size_t f = 0; f < layout.files.size(); ++f) {
    const auto& pieces = layout.files[f].pieces;
    if (layout.files[f].zstd_level > 0) continue;  // its tasks do not begin where pieces do
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const auto range = starts_task(pieces[p]) ? input_range(model, pieces[p]) : std::nullopt;
      const auto input = range ? inputs.find(range->file.get()) : inputs.end();
      if (input != inputs.end()) copies[input->second].push_back({f, p, range->offset, range->offset + range->size});
    }
  }
  return copies;
}

// Of the runs of copies, in the order of the outputs, that ascend in the input too: the one with the most bytes.
std::vector<Copy> ascending(const std::vector<Copy>& copies) {
  struct Run {
    std::uint64_t bytes;
    std::size_t last;  // copy
  };
  std::map<std::uint64_t, Run> best;               // by where in the input it ends; a later end has more bytes
  std::vector<std::size_t> before(copies.size());  // the first copy of a run has itself
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Copy& copy = copies[i];
    Run run{copy.end - copy.begin, i};
    before[i] = i;
    const auto after = best.upper_bound(copy.begin);
    if (after != best.begin()) {
      const Run& longest = std::prev(after)->second;
      run.bytes += longest.bytes;
      before[i] = longest.last;
    }
    auto next = best.upper_bound(copy.end);
    if (next != best.begin() && std::prev(next)->second.bytes >= run.bytes) continue;
    while (next != best.end() && next->second.bytes <= run.bytes) next = best.erase(next);
    best.insert_or_assign(copy.end, run);
  }
  std::vector<Copy> run;
  if (best.empty()) return run;
  for (std::size_t i = best.rbegin()->second.last;; i = before[i]) {
    run.push_back(copies[i]);
    if (before[i] == i) break;
  }
  std::reverse(run.begin(), run.end());
  return run;
}

// Both lists in one, so that inputs are scanned about where they are copied; each keeps its order.
std::vector<Task> interleave(const std::vector<Task>& outputs, const std::vector<Task>& scans) {
  std::vector<Task> tasks;
  tasks.reserve(outputs.size() + scans.size());
  for (std::size_t o = 0, s = 0; o < outputs.size() || s < scans.size();) {
    const bool output_next = s == scans.size() || (o < outputs.size() && o * scans.size() <= s * outputs.size());
    tasks.push_back(output_next ? outputs[o++] : scans[s++]);
  }
  return tasks;
}

}  // namespace

Schedule plan_schedule(const Model& model, const Layout& layout, bool hash, std::uint64_t tile_bytes) {
  Schedule schedule;
  for (const OutputFile& file : layout.files) schedule.feeds.emplace_back(file.pieces.size(), kNoInput);
  const auto outputs = output_tasks(model, layout, hash, tile_bytes);
  if (!hash) {
    schedule.tasks = interleave(outputs, record_scans(model, tile_bytes));
    return schedule;
  }
  const auto files = input_files(model);
  const auto copies = copies_of(model, layout);
  std::vector<std::uint64_t> done(files.size(), 0);
  // Of the content of a compressed file only the CRCs of records are wanted.
  const auto wanted = [&](std::size_t i) {
    return !files[i]->is_unpacked() ||
           std::any_of(model.checks.begin(), model.checks.end(),
                       [&](const RecordCheck& check) { return check.range.file.get() == files[i]; });
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!wanted(i)) done[i] = files[i]->size();
    if (done[i] > 0) continue;
    const auto run = ascending(copies[i]);
    std::uint64_t fed = 0;
    for (const Copy& copy : run) fed += copy.end - copy.begin;
    if (fed < files[i]->size() / 2) continue;  // scans of nearly all of it are better spread over the run
    for (const Copy& copy : run) schedule.feeds[copy.file][copy.piece] = i;
  }
  std::vector<Task> tasks, scans;
  for (const Task& task : outputs) {
    const auto& pieces = layout.files[task.file].pieces;
    const std::size_t input = task.piece < pieces.size() ? schedule.feeds[task.file][task.piece] : kNoInput;
    if (input != kNoInput && pieces[task.piece].offset == task.begin) {
      const FileRange range = *input_range(model, pieces[task.piece]);
      add_scans(input, done[input], range.offset, tile_bytes, tasks);
      done[input] = range.offset + range.size;
    }
    tasks.push_back(task);
  }
  for (std::size_t i = 0; i < files.size(); ++i)
    add_scans(i, done[i], files[i]->size(), tile_bytes, done[i] ? tasks : scans);
  schedule.tasks = interleave(tasks, scans);
  return schedule;
}

}  // namespace wconv::engine
