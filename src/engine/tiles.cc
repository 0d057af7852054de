#include "engine/tiles.h"

#include <algorithm>

#include "core/threads.h"
#include "core/zstd_writer.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::engine {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kDefaultBudget = 96 * kMiB;  // all tile buffers together
constexpr std::uint64_t kPackedBudget = 256 * kMiB;  // the same where an output is compressed
constexpr std::uint64_t kMinTile = 64 * 1024, kMaxTile = 4 * kMiB;
constexpr std::uint64_t kCacheTile = 256 * 1024;      // stays in a core's cache
constexpr std::uint64_t kTasks = 64 * 1024;           // about as many as are made: larger models have larger tiles
constexpr std::uint64_t kMaxTasks = 4 * 1024 * 1024;  // outputs of up to 16 TiB; views of one number can say more
constexpr std::uint64_t kProgramMemory = 24 * kMiB;   // code, libraries, stacks, metadata of a usual model
constexpr std::uint64_t kKernelCopyMin = kMiB, kKernelCopyTile = 32 * kMiB;
constexpr std::uint64_t kOwnTaskMin = 64 * 1024;

}  // namespace

std::uint64_t piece_size(const Piece& piece) {
  if (const auto* literal = std::get_if<LiteralPiece>(&piece.content)) return literal->bytes.size();
  if (const auto* tensor = std::get_if<TensorPiece>(&piece.content)) return tensor->size;
  if (const auto* range = std::get_if<FilePiece>(&piece.content)) return range->range.size;
  return 4;
}

bool starts_task(const Piece& piece) {
  const auto* tensor = std::get_if<TensorPiece>(&piece.content);
  const auto* range = std::get_if<FilePiece>(&piece.content);
  return (tensor || range) && piece_size(piece) >= kOwnTaskMin;
}

std::optional<FileRange> input_range(const Model& model, const Piece& piece) {
  if (const auto* range = std::get_if<FilePiece>(&piece.content)) return range->range;
  const auto* tensor = std::get_if<TensorPiece>(&piece.content);
  return tensor ? model.tensors[tensor->tensor].data->file_range() : std::nullopt;
}

void read_slice(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out) {
  const std::uint64_t block = info(tensor.info.dtype).block_bytes, size = tensor.data->size_bytes();
  std::vector<std::byte> whole;
  while (!out.empty()) {
    const std::uint64_t skip = offset % block, left = out.size();
    const bool inside = skip > 0 || (left < block && offset + left < size);  // less than a block is wanted
    std::uint64_t part = offset + left == size ? left : left / block * block;
    if (inside) {
      part = std::min(block - skip, left);
      whole.resize(std::min(block, size - (offset - skip)));
      tensor.data->read(offset - skip, whole);
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(skip), part, out.begin());
    } else {
      tensor.data->read(offset, out.first(part));
    }
    offset += part;
    out = out.subspan(part);
  }
}

namespace {

std::uint64_t literal_bytes(const Layout& layout) {
  std::uint64_t bytes = 0;
  for (const OutputFile& file : layout.files) {
    for (const Piece& piece : file.pieces) {
      if (const auto* literal = std::get_if<LiteralPiece>(&piece.content)) bytes += literal->bytes.size();
    }
  }
  return bytes;
}

class FileCutter {
 public:
  FileCutter(const Model& model, const OutputFile& file, std::size_t index, bool hash, std::uint64_t tile,
             std::vector<Task>& tasks)
      : model_(model), file_(file), index_(index), hash_(hash), tile_(tile), tasks_(tasks) {}

  void cut() {
    if (file_.zstd_level > 0) return cut_frames();
    for (std::size_t p = 0; p < file_.pieces.size(); ++p) {
      const Piece& piece = file_.pieces[p];
      const std::uint64_t size = piece_size(piece), end = piece.offset + size;
      const bool slot = std::holds_alternative<Crc32Piece>(piece.content);
      check_place(p, begin_);
      while (piece.offset - begin_ > tile_) close(begin_ + tile_, p);  // a gap
      if (slot && end - begin_ > tile_) close(piece.offset, p);        // a slot is never cut in two
      if (starts_task(piece)) close(piece.offset, p);
      if (kernel_copyable(piece, size)) {
        emit_kernel_copies(p, piece.offset, end);
        begin_ = end;
        first_piece_ = p + 1;
        continue;
      }
      slots_ = slots_ || slot;
      const std::uint64_t step = granule(piece);
      while (end - begin_ > tile_) {
        std::uint64_t stop = begin_ + tile_;
        if (stop > piece.offset) stop = piece.offset + (stop - piece.offset) / step * step;
        close(stop, p);
      }
    }
    while (file_.size - begin_ > tile_) close(begin_ + tile_, file_.pieces.size());
    close(file_.size, file_.pieces.size());
  }

 private:
  void check_place(std::size_t p, std::uint64_t least) const {
    const std::uint64_t begin = file_.pieces[p].offset, end = begin + piece_size(file_.pieces[p]);
    if (begin < least || end < begin || end > file_.size)
      fail(ErrorCode::kInternal, "piece {} of {} overlaps another or leaves the file", p, file_.name);
  }

  void cut_frames() {
    const auto end_of = [&](std::size_t p) { return file_.pieces[p].offset + piece_size(file_.pieces[p]); };
    for (std::size_t p = 0; p < file_.pieces.size(); ++p) check_place(p, p ? end_of(p - 1) : 0);
    while (begin_ < file_.size) {
      const std::uint64_t end = std::min(begin_ + kZstdFrameBytes, file_.size);
      while (first_piece_ < file_.pieces.size() && end_of(first_piece_) <= begin_) ++first_piece_;
      for (std::size_t p = first_piece_; p < file_.pieces.size() && file_.pieces[p].offset < end; ++p)
        slots_ = slots_ || std::holds_alternative<Crc32Piece>(file_.pieces[p].content);
      close(end, first_piece_);
    }
  }

  bool kernel_copyable(const Piece& piece, std::uint64_t size) const {
    if (hash_ || size < kKernelCopyMin) return false;
    const auto* tensor = std::get_if<TensorPiece>(&piece.content);
    const auto range = input_range(model_, piece);
    return !(tensor && tensor->want_crc32) && range && range->file->is_on_disk();
  }

  std::uint64_t granule(const Piece& piece) const {
    const auto* tensor = std::get_if<TensorPiece>(&piece.content);
    return tensor ? info(model_.tensors[tensor->tensor].info.dtype).block_bytes : 1;
  }

  void emit_kernel_copies(std::size_t piece, std::uint64_t begin, std::uint64_t end) {
    for (; begin < end; begin += std::min(kKernelCopyTile, end - begin)) {
      tasks_.push_back(
          {TaskKind::kKernelCopy, index_, begin, begin + std::min(kKernelCopyTile, end - begin), piece, false});
    }
  }

  // Ends the open tile at `end`; `piece` is the first one that may go on after it.
  void close(std::uint64_t end, std::size_t piece) {
    if (end > begin_) tasks_.push_back({TaskKind::kAssemble, index_, begin_, end, first_piece_, slots_});
    begin_ = end;
    first_piece_ = piece;
    slots_ = false;
  }

  const Model& model_;
  const OutputFile& file_;
  std::size_t index_;
  bool hash_;
  std::uint64_t tile_;
  std::vector<Task>& tasks_;
  std::uint64_t begin_ = 0;      // of the open tile
  std::size_t first_piece_ = 0;  // of the open tile
  bool slots_ = false;
};

}  // namespace

Budget plan_budget(const Layout& layout, const EngineOptions& options, const ReadMemory& reading) {
  // Four buffers a thread, and four more: a thread takes a buffer before it takes a task, so the lowest unfinished task
  // always has one and ordered hashing cannot stall; the others let two streams wait for each other.
  const auto buffers = [](std::uint64_t threads) { return 4 * threads + 4; };
  std::uint64_t total = 0;
  int level = 0;
  for (const OutputFile& file : layout.files) {
    total += file.size;
    level = std::max(level, file.zstd_level);
  }
  const std::uint64_t compressor = level ? zstd_compress_memory(level) : 0,
                      most = level ? kPackedBudget : kDefaultBudget;
  const auto buffer_bytes = [&](std::uint64_t tile) { return tile + (level ? zstd_frame_bound(tile) : 0); };
  // Tiles, compressors, and the list of tasks: one for every output tile and as many for scans of inputs.
  const auto memory = [&](std::uint64_t threads, std::uint64_t tile) {
    return buffers(threads) * buffer_bytes(tile) + threads * (compressor + reading.per_thread) +
           2 * (total / tile) * sizeof(Task);
  };
  const std::uint64_t fixed = kProgramMemory + literal_bytes(layout) + reading.shared;
  const std::uint64_t limit = options.max_memory > 0 ? options.max_memory : ~std::uint64_t{0};
  const std::uint64_t wanted =
      level ? kZstdFrameBytes : std::clamp(total / kTasks, kCacheTile, kMaxTile) / kMinTile * kMinTile;
  const std::uint64_t least = level ? kZstdFrameBytes : kMinTile;
  if (const std::uint64_t most_bytes = kMaxTasks * std::max(wanted, least); total > most_bytes)
    fail(ErrorCode::kUnsupported, "the output would have {} bytes; at most {} can be planned", total, most_bytes);
  std::uint64_t minimum = memory(1, std::max(wanted, least));
  Budget budget;
  for (budget.threads = options.threads ? options.threads : usable_cores(); budget.threads > 0; --budget.threads) {
    budget.buffers = buffers(budget.threads);
    for (budget.tile_bytes = wanted; budget.tile_bytes >= least; budget.tile_bytes -= kMinTile) {
      budget.buffer_bytes = buffer_bytes(budget.tile_bytes);
      const bool fits = fixed + memory(budget.threads, budget.tile_bytes) <= limit;
      if (fits && budget.buffers * budget.buffer_bytes <= most) return budget;
      minimum = std::min(minimum, memory(1, budget.tile_bytes));
    }
  }
  fail(ErrorCode::kUsage, "--max-memory {} is below the {} bytes that this job needs", options.max_memory,
       fixed + minimum);
}

std::vector<Task> output_tasks(const Model& model, const Layout& layout, bool hash, std::uint64_t tile_bytes) {
  std::vector<Task> tasks;
  for (std::size_t f = 0; f < layout.files.size(); ++f) {
    FileCutter(model, layout.files[f], f, hash, tile_bytes, tasks).cut();
  }
  return tasks;
}

ReadMemory read_memory(const Model& model) {
  ReadMemory most;  // files share it
  for (const SourceFile& source : model.files) {
    const ReadMemory memory = source.file->memory();
    most.shared = std::max(most.shared, memory.shared);
    most.per_thread = std::max(most.per_thread, memory.per_thread);
  }
  return most;
}

std::vector<const File*> input_files(const Model& model) {
  std::vector<const File*> files;
  const auto add = [&](const File& file) {
    files.push_back(&file);
    if (file.is_unpacked()) files.push_back(&file.stored());
  };
  for (const SourceFile& source : model.files) add(*source.file);
  for (const SideFile& side : model.side_files) add(*side.file);
  return files;
}

void add_scans(std::size_t input, std::uint64_t begin, std::uint64_t end, std::uint64_t tile_bytes,
               std::vector<Task>& tasks) {
  for (; begin < end; begin += std::min(tile_bytes, end - begin)) {
    tasks.push_back({TaskKind::kScan, input, begin, begin + std::min(tile_bytes, end - begin), 0, false});
  }
}

std::vector<Task> record_scans(const Model& model, std::uint64_t tile_bytes) {
  std::vector<Task> tasks;
  const auto files = input_files(model);
  for (std::size_t f = 0; f < files.size(); ++f) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (const RecordCheck& check : model.checks) {
      if (check.range.file.get() == files[f])
        ranges.emplace_back(check.range.offset, check.range.offset + check.range.size);
    }
    std::sort(ranges.begin(), ranges.end());
    for (const auto& [begin, end] : ranges) add_scans(f, begin, end, tile_bytes, tasks);
  }
  return tasks;
}

}  // namespace wconv::engine

namespace wconv {

std::uint64_t planned_memory(const Layout& layout, const Model& model, const EngineOptions& options) {
  const engine::Budget budget = engine::plan_budget(layout, options, engine::read_memory(model));
  return budget.buffers * budget.buffer_bytes;
}

}  // namespace wconv
