// Runs a layout: tasks in ascending order on all threads, each in a bounded buffer.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <unordered_map>

#include "core/threads.h"
#include "engine/ordered_hasher.h"
#include "engine/packed_file.h"
#include "engine/records.h"
#include "engine/schedule.h"
#include "engine/tiles.h"
#include "engine/write_all.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv {
namespace engine {
namespace {

// SHA-256 of each tensor. Small ones that lie in one tile are hashed at once; the others keep a state and go through
// the queue, where they share a core with another stream.
class TensorDigests {
 public:
  explicit TensorDigests(HashQueue& queue) : queue_(queue) {}

  void feed(std::size_t tensor, std::uint64_t tensor_bytes, std::uint64_t offset, std::span<std::byte> bytes,
            const Buffer& owner) {
    constexpr std::size_t kSmall = 64 * 1024;
    if (bytes.size() == tensor_bytes && bytes.size() <= kSmall) {
      Sha256 sha;
      sha.update(bytes);
      const std::lock_guard lock(mutex_);
      whole_[tensor] = sha.hex();
      return;
    }
    OrderedHasher* hasher = nullptr;
    {
      const std::lock_guard lock(mutex_);
      auto& entry = spanning_[tensor];
      if (!entry) entry = std::make_unique<OrderedHasher>(queue_, true);
      hasher = entry.get();
    }
    hasher->add(offset, bytes, owner);
  }

  // After everything was fed.
  std::unordered_map<std::size_t, std::string> take() {
    for (auto& [tensor, hasher] : spanning_) whole_[tensor] = hasher->hex();
    return std::move(whole_);
  }

 private:
  HashQueue& queue_;
  std::mutex mutex_;
  std::unordered_map<std::size_t, std::string> whole_;
  std::unordered_map<std::size_t, std::unique_ptr<OrderedHasher>> spanning_;
};

struct OpenFile {
  const OutputFile* plan = nullptr;
  const Descriptor* descriptor = nullptr;
  std::unique_ptr<OrderedHasher> order;                               // with hashing, CRC slots or compression
  std::unique_ptr<PackedFile> packed;                                 // with compression
  std::unordered_map<std::size_t, std::unique_ptr<PartialCrc>> crcs;  // by piece
};

class Run {
 public:
  Run(const Model& model, const Layout& layout, Output& output, const EngineOptions& options)
      : model_(model),
        options_(options),
        budget_(plan_budget(layout, options, read_memory(model))),
        pool_(budget_.buffers, budget_.buffer_bytes),
        inputs_(input_files(model)),
        records_(model.checks),
        encoded_(layout.encoded) {
    for (const OutputFile& file : layout.files) {
      total_bytes_ += file.size;
      open(file, output.create(file.name, file.zstd_level ? 0 : file.size));
    }
    // After that the disk is known to hold the output, and the list of tasks to be in proportion to it.
    schedule_ = plan_schedule(model, layout, options.hash, budget_.tile_bytes);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      input_hashes_.push_back(std::make_unique<OrderedHasher>(hashes_, options.hash));
  }

  EngineResult run() {
    const auto threads = static_cast<unsigned>(std::min<std::size_t>(budget_.threads, schedule_.tasks.size()));
    std::vector<std::jthread> others = start_threads(std::max(threads, 1u) - 1, [this] { work(); });
    work();
    others.clear();
    if (error_) std::rethrow_exception(error_);
    records_.require_sound();
    if (options_.hash) digest_encoded();
    for (const File* file : inputs_) file->check_unchanged();
    return result();
  }

 private:
  void open(const OutputFile& plan, const Descriptor& descriptor) {
    OpenFile file;
    file.plan = &plan;
    file.descriptor = &descriptor;
    bool slots = false;
    for (std::size_t p = 0; p < plan.pieces.size(); ++p) {
      const auto* tensor = std::get_if<TensorPiece>(&plan.pieces[p].content);
      if (tensor && tensor->want_crc32) file.crcs.emplace(p, std::make_unique<PartialCrc>());
      slots = slots || std::holds_alternative<Crc32Piece>(plan.pieces[p].content);
    }
    const std::size_t index = files_.size();
    if (plan.zstd_level) file.packed = std::make_unique<PackedFile>(plan, descriptor, options_.hash);
    if (options_.hash || slots || file.packed) {
      file.order = std::make_unique<OrderedHasher>(
          hashes_, options_.hash && !file.packed,
          [this, index](std::uint64_t begin, std::span<std::byte> bytes) { complete(files_[index], begin, bytes); });
    }
    files_.push_back(std::move(file));
  }

  void work() {
    while (true) {
      std::size_t index = schedule_.tasks.size();  // no task yet
      try {
        Buffer buffer = pool_.take();
        if (!buffer) return;
        index = next_.fetch_add(1);
        if (index >= schedule_.tasks.size()) return hashes_.work(true);
        if (options_.interrupted && options_.interrupted->load()) fail(ErrorCode::kInterrupted, "interrupted");
        perform(schedule_.tasks[index], std::move(buffer));
        hashes_.work(pool_.empty());
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (index <= error_index_) {
          error_index_ = index;
          error_ = std::current_exception();
        }
        pool_.stop();
        return;
      }
    }
  }

  void perform(const Task& task, Buffer buffer) {
    if (task.kind == TaskKind::kScan) return scan(task, std::move(buffer));
    if (task.kind == TaskKind::kKernelCopy) {
      buffer = kernel_copy(task, std::move(buffer));
    } else {
      assemble(task, std::move(buffer));
    }
    // Starting the write-back now keeps the disk busy while later tiles are computed; the final sync then waits less.
    if (!files_[task.file].packed)
      ::sync_file_range(files_[task.file].descriptor->use().get(), static_cast<off_t>(task.begin),
                        static_cast<off_t>(task.end - task.begin), SYNC_FILE_RANGE_WRITE);
    const std::lock_guard lock(mutex_);
    done_bytes_ += task.end - task.begin;
    if (options_.progress) options_.progress(done_bytes_, total_bytes_);
  }

  void assemble(const Task& task, Buffer buffer) {
    OpenFile& file = files_[task.file];
    const std::uint64_t size = task.end - task.begin;
    buffer->resize(size + (file.packed ? zstd_frame_bound(size) : 0));
    const auto& pieces = file.plan->pieces;
    std::uint64_t done = task.begin;
    const auto zero_up_to = [&](std::uint64_t end) {
      if (end > done) std::memset(buffer->data() + (done - task.begin), 0, end - done);
    };
    for (std::size_t p = task.piece; p < pieces.size() && pieces[p].offset < task.end; ++p) {
      if (std::holds_alternative<Crc32Piece>(pieces[p].content)) continue;  // zero until its turn
      zero_up_to(pieces[p].offset);
      fill(p, task, buffer);
      done = std::min(task.end, std::max(done, pieces[p].offset + piece_size(pieces[p])));
    }
    zero_up_to(task.end);
    const std::span<std::byte> bytes = std::span(*buffer).first(size);
    if (!task.has_crc_slots && file.packed) file.packed->pack(task.begin, size, *buffer);
    if (!task.has_crc_slots && !file.packed) write_all(*file.descriptor, task.begin, bytes, file.plan->name);
    if (file.order) file.order->add(task.begin, bytes, std::move(buffer));
  }

  // The part of piece p that lies in the tile.
  void fill(std::size_t p, const Task& task, const Buffer& buffer) {
    const Piece& piece = files_[task.file].plan->pieces[p];
    const std::uint64_t begin = std::max(piece.offset, task.begin);
    const std::uint64_t end = std::min(piece.offset + piece_size(piece), task.end);
    if (begin >= end) return;
    const std::uint64_t offset = begin - piece.offset;
    const std::span<std::byte> out = std::span(*buffer).subspan(begin - task.begin, end - begin);
    if (const auto* literal = std::get_if<LiteralPiece>(&piece.content)) {
      std::copy_n(literal->bytes.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    } else if (const auto* range = std::get_if<FilePiece>(&piece.content)) {
      range->range.file->read(range->range.offset + offset, out);
    } else if (const auto* content = std::get_if<TensorPiece>(&piece.content)) {
      fill_tensor(files_[task.file], p, *content, offset, out, buffer);
    }
    const std::size_t input = schedule_.feeds[task.file][p];
    if (input != kNoInput) feed_input(input, input_range(model_, piece)->offset + offset, out, buffer);
  }

  void fill_tensor(OpenFile& file, std::size_t p, const TensorPiece& piece, std::uint64_t offset,
                   std::span<std::byte> out, const Buffer& buffer) {
    const Tensor& tensor = model_.tensors[piece.tensor];
    try {
      read_slice(tensor, offset, out);
    } catch (Error& error) {
      throw error.in_tensor(tensor.info.name);
    }
    if (piece.want_crc32) file.crcs.at(p)->add(offset, crc32(0, out), out.size());
    if (options_.hash) tensor_digests_.feed(piece.tensor, piece.size, offset, out, buffer);
  }

  void feed_input(std::size_t input, std::uint64_t begin, std::span<std::byte> bytes, const Buffer& owner) {
    records_.feed(inputs_[input], begin, bytes);
    if (options_.hash && !inputs_[input]->is_unpacked()) input_hashes_[input]->add(begin, bytes, owner);
  }

  // The file's bytes in order, with room behind them where it is compressed.
  void complete(OpenFile& file, std::uint64_t begin, std::span<std::byte> bytes) {
    const bool filled = fill_slots(file, begin, bytes);
    if (file.packed) {
      file.packed->append(begin, bytes.size(), {bytes.data(), bytes.size() + zstd_frame_bound(bytes.size())});
    } else if (filled) {
      write_all(*file.descriptor, begin, bytes, file.plan->name);
    }
  }

  // By now the CRCs of everything before `begin` are known. A frame may hold a part of a slot. True: there are some.
  bool fill_slots(OpenFile& file, std::uint64_t begin, std::span<std::byte> bytes) {
    const auto& pieces = file.plan->pieces;
    auto piece = std::partition_point(pieces.begin(), pieces.end(),
                                      [&](const Piece& p) { return p.offset + piece_size(p) <= begin; });
    bool filled = false;
    for (; piece != pieces.end() && piece->offset < begin + bytes.size(); ++piece) {
      const auto* slot = std::get_if<Crc32Piece>(&piece->content);
      if (!slot) continue;
      const std::uint32_t crc = file.crcs.at(slot->piece)->value();
      for (std::uint64_t i = 0; i < 4; ++i) {
        const std::uint64_t at = piece->offset + i - begin;  // below the first byte: larger than any
        if (at < bytes.size()) bytes[at] = static_cast<std::byte>(crc >> (8 * i));
      }
      filled = true;
    }
    return filled;
  }

  // Returns the buffer. Falls back to reading and writing where the kernel can't copy between the two files.
  Buffer kernel_copy(const Task& task, Buffer buffer) {
    OpenFile& file = files_[task.file];
    const Piece& piece = file.plan->pieces[task.piece];
    const auto* tensor = std::get_if<TensorPiece>(&piece.content);
    const FileRange range =
        tensor ? *model_.tensors[tensor->tensor].data->file_range() : std::get<FilePiece>(piece.content).range;
    off_t from = static_cast<off_t>(range.offset + (task.begin - piece.offset)), to = static_cast<off_t>(task.begin);
    std::uint64_t left = task.end - task.begin;
    while (left > 0 && !no_kernel_copy_.load(std::memory_order_relaxed)) {
      const Descriptor::Use input = range.file->descriptor(), output = file.descriptor->use();
      const ssize_t copied = ::copy_file_range(input.get(), &from, output.get(), &to, left, 0);
      if (copied > 0) {
        left -= static_cast<std::uint64_t>(copied);
      } else if (copied < 0 && (errno == EIO || errno == ENOSPC)) {
        throw Error(ErrorCode::kIo, fmt::format("cannot copy from {}: {}", range.file->path(), std::strerror(errno)))
            .in_file(file.plan->name);
      } else if (copied == 0 || errno != EINTR) {
        no_kernel_copy_ = true;  // the file system can't; a file that has shrunk is found by the reads below
      }
    }
    while (left > 0) {
      buffer->resize(std::min(left, budget_.tile_bytes));
      range.file->read(static_cast<std::uint64_t>(from), *buffer);
      write_all(*file.descriptor, static_cast<std::uint64_t>(to), *buffer, file.plan->name);
      from += static_cast<off_t>(buffer->size());
      to += static_cast<off_t>(buffer->size());
      left -= buffer->size();
    }
    return buffer;
  }

  void scan(const Task& task, Buffer buffer) {
    buffer->resize(task.end - task.begin);
    inputs_[task.file]->read(task.begin, *buffer);
    feed_input(task.file, task.begin, *buffer, buffer);
  }

  void digest_encoded() {
    for (const std::size_t index : encoded_) {
      const TensorData& data = *model_.tensors[index].data;
      const std::uint64_t size = data.size_bytes();
      const std::uint64_t step = budget_.tile_bytes / info(model_.tensors[index].info.dtype).block_bytes *
                                 info(model_.tensors[index].info.dtype).block_bytes;
      Sha256 sha;
      std::vector<std::byte> tile;
      for (std::uint64_t offset = 0; offset < size; offset += tile.size()) {
        tile.resize(std::min(step, size - offset));
        data.read(offset, tile);
        sha.update(tile);
      }
      encoded_digests_[&data] = sha.hex();
    }
  }

  EngineResult result() {
    EngineResult result;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i]->is_unpacked()) continue;  // the compressed file follows
      result.inputs.push_back({inputs_[i]->path(), inputs_[i]->size(), input_hashes_[i]->hex()});
    }
    for (OpenFile& file : files_) {
      result.outputs.push_back(
          file.packed ? file.packed->finish()
                      : FileRecord{file.plan->name, file.plan->size, file.order ? file.order->hex() : std::string()});
    }
    sort_by_path(result.outputs);  // the layout's order says which file is put in place last
    std::unordered_map<const TensorData*, std::string> digests = std::move(encoded_digests_);
    for (auto& [tensor, hex] : tensor_digests_.take()) digests[model_.tensors[tensor].data.get()] = std::move(hex);
    for (const Tensor& tensor : model_.tensors) {
      TensorRecord record;
      if (options_.hash) {
        const auto known = digests.find(tensor.data.get());
        if (known != digests.end()) record.sha256 = known->second;
        if (tensor.data->size_bytes() == 0) record.sha256 = Sha256().hex();
        if (record.sha256.empty()) fail(ErrorCode::kInternal, "the layout leaves out tensor '{}'", tensor.info.name);
      }
      record.overflow = tensor.data->overflow();
      result.tensors.push_back(std::move(record));
    }
    return result;
  }

  const Model& model_;
  const EngineOptions& options_;
  Budget budget_;
  BufferPool pool_;
  std::vector<const File*> inputs_;
  HashQueue hashes_;
  std::vector<std::unique_ptr<OrderedHasher>> input_hashes_;
  RecordCrcs records_;
  const std::vector<std::size_t>& encoded_;  // of the layout
  std::unordered_map<const TensorData*, std::string> encoded_digests_;
  Schedule schedule_;
  std::vector<OpenFile> files_;
  TensorDigests tensor_digests_{hashes_};
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> no_kernel_copy_{false};
  std::mutex mutex_;  // guards what follows
  std::exception_ptr error_;
  std::size_t error_index_ = ~std::size_t{0};
  std::uint64_t done_bytes_ = 0, total_bytes_ = 0;
};

}  // namespace
}  // namespace engine

EngineResult execute(const Model& model, const Layout& layout, Output& output, const EngineOptions& options) {
  return engine::Run(model, layout, output, options).run();
}

}  // namespace wconv
