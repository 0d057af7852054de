// The three containers of PyTorch checkpoints. Each function opens one and proves all of its metadata.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "formats/pytorch/objects.h"
#include "wconv/format.h"

namespace wconv::pytorch {

// Zip archives of torch 1.6 and later, TorchScript among them.
Model read_zip(std::shared_ptr<const File> file, const ReadOptions& options);
// The stream of pickles and raw storages before torch 1.6, or one bare pickle.
Model read_stream(std::shared_ptr<const File> file, const ReadOptions& options);
// The tar archive of torch 0.1.8 and earlier.
Model read_tar(std::shared_ptr<const File> file, const ReadOptions& options);

// Storages that lie one after another in a file, under the names that the pickle has for them.
class RangeStorages : public StorageSource {
 public:
  explicit RangeStorages(std::shared_ptr<const File> file) : file_(std::move(file)) {}
  // Throws Error(kCorrupt) when the key is taken.
  void add(const std::string& key, std::uint64_t offset, std::uint64_t bytes);
  std::shared_ptr<const TensorData> storage(const StorageRequest& request) override;
  const std::shared_ptr<const File>& file() const { return file_; }

 private:
  std::shared_ptr<const File> file_;
  std::unordered_map<std::string, std::shared_ptr<const TensorData>> storages_;
};

// The parts of a stream of pickles and raw storages.
struct Stream {
  Pickle pickle;
  RangeStorages storages;
  std::uint64_t end = 0;  // of the last storage
};
// One that lies in [begin, end) of a file: what torch puts into a plain pickle of a tensor.
Stream read_stream_range(const std::shared_ptr<const File>& file, std::uint64_t begin, std::uint64_t end);

}  // namespace wconv::pytorch
