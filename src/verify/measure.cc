// Statistics and digests of many tensors at once.
#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "core/hash.h"
#include "core/threads.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/stats.h"

namespace wconv {
namespace {

constexpr std::uint64_t kReadBytes = 1024 * 1024;
// Smaller tensors are measured side by side, larger ones one after another with all threads.
constexpr std::uint64_t kLargeBytes = 16 * 1024 * 1024;

// SHA-256 of `size` bytes read in steps of whole `granule`s; `on_bytes` is told of each step.
template <typename Read, typename OnBytes>
std::string digest(std::uint64_t size, std::uint64_t granule, const Read& read, const OnBytes& on_bytes) {
  Sha256 sha;
  const std::uint64_t step = kReadBytes / granule * granule;
  std::vector<std::byte> bytes(std::min(size, step));
  for (std::uint64_t done = 0; done < size; done += bytes.size()) {
    bytes.resize(std::min(step, size - done));
    read(done, bytes);
    sha.update(bytes);
    on_bytes(bytes.size());
  }
  return sha.hex();
}

template <typename OnBytes>
std::string digest_of(const Tensor& tensor, const OnBytes& on_bytes) {
  try {
    const auto read = [&](std::uint64_t offset, std::span<std::byte> out) { tensor.data->read(offset, out); };
    return digest(tensor.data->size_bytes(), info(tensor.info.dtype).block_bytes, read, on_bytes);
  } catch (Error& error) {
    throw error.in_tensor(tensor.info.name);
  }
}

class Measuring {
 public:
  Measuring(const Model& model, std::span<const std::size_t> tensors, const MeasureOptions& options)
      : model_(model), options_(options) {
    result_.tensors.resize(tensors.size());
    std::map<std::pair<const TensorData*, DType>, std::size_t> first;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = model.tensors[tensors[i]];
      const auto [entry, is_new] = first.emplace(std::pair(tensor.data.get(), tensor.info.dtype), distinct_.size());
      if (is_new) distinct_.push_back({&tensor, {}});
      distinct_of_.push_back(entry->second);
    }
  }

  ModelMeasures run() {
    if (options_.digests) plan_digests();
    if (options_.stats) plan_stats();
    // Largest first, so that no thread is left alone with a large one at the end.
    std::stable_sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) { return a.bytes > b.bytes; });
    for (const Job& job : jobs_) total_ += job.bytes;
    for (const std::size_t large : large_) total_ += distinct_[large].tensor->data->size_bytes();
    parallel_for(jobs_.size(), options_.threads, [&](std::size_t i) { jobs_[i].work(); });
    for (const std::size_t large : large_) {
      distinct_[large].measures.stats = stats_of(*distinct_[large].tensor, options_.threads);
    }
    for (const SourceFile& file : model_.files) file.file->check_unchanged();
    for (std::size_t i = 0; i < distinct_of_.size(); ++i) result_.tensors[i] = distinct_[distinct_of_[i]].measures;
    return std::move(result_);
  }

 private:
  struct Distinct {
    const Tensor* tensor = nullptr;
    TensorMeasures measures;
  };
  struct Job {
    std::uint64_t bytes = 0;
    std::function<void()> work;
  };

  void plan_digests() {
    result_.file_sha256.resize(model_.files.size());
    for (std::size_t f = 0; f < model_.files.size(); ++f) {
      jobs_.push_back({model_.files[f].bytes, [this, f] {
                         const File& file = model_.files[f].file->stored();
                         const auto read = [&](std::uint64_t offset, std::span<std::byte> out) {
                           file.read(offset, out);
                         };
                         result_.file_sha256[f] = digest(file.size(), 1, read, [this](std::uint64_t n) { advance(n); });
                       }});
    }
    for (Distinct& item : distinct_) {
      jobs_.push_back({item.tensor->data->size_bytes(), [this, &item] {
                         item.measures.sha256 = digest_of(*item.tensor, [this](std::uint64_t n) { advance(n); });
                       }});
    }
  }

  void plan_stats() {
    for (std::size_t i = 0; i < distinct_.size(); ++i) {
      Distinct& item = distinct_[i];
      if (!has_stats(item.tensor->info.dtype)) continue;
      if (item.tensor->data->size_bytes() > kLargeBytes) {
        large_.push_back(i);
      } else {
        jobs_.push_back(
            {item.tensor->data->size_bytes(), [this, &item] { item.measures.stats = stats_of(*item.tensor, 1); }});
      }
    }
  }

  TensorStats stats_of(const Tensor& tensor, unsigned threads) {
    TensorStats stats = tensor_stats(tensor, threads, options_.interrupted);
    advance(tensor.data->size_bytes());
    return stats;
  }

  void advance(std::uint64_t bytes) {
    if (options_.interrupted && options_.interrupted->load()) fail(ErrorCode::kInterrupted, "interrupted");
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    options_.progress(done_, total_);
  }

  const Model& model_;
  const MeasureOptions& options_;
  std::vector<Distinct> distinct_;
  std::vector<std::size_t> distinct_of_;  // for each of the tensors asked for
  std::vector<Job> jobs_;
  std::vector<std::size_t> large_;
  ModelMeasures result_;
  std::mutex mutex_;
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace

std::string tensor_digest(const Tensor& tensor) {
  return digest_of(tensor, [](std::uint64_t) {});
}

ModelMeasures measure(const Model& model, std::span<const std::size_t> tensors, const MeasureOptions& options) {
  check_expansion(model);
  return Measuring(model, tensors, options).run();
}

}  // namespace wconv
