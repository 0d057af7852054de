#include "engine/ordered_hasher.h"

namespace wconv::engine {

BufferPool::BufferPool(std::size_t count, std::uint64_t bytes) : shared_(std::make_shared<Shared>()) {
  for (std::size_t i = 0; i < count; ++i) {
    auto buffer = std::make_unique<std::vector<std::byte>>();
    buffer->reserve(bytes);
    shared_->free.push_back(std::move(buffer));
  }
}

Buffer BufferPool::take() {
  std::unique_lock lock(shared_->mutex);
  shared_->freed.wait(lock, [&] { return shared_->stopped || !shared_->free.empty(); });
  if (shared_->stopped) return nullptr;
  std::unique_ptr<std::vector<std::byte>> buffer = std::move(shared_->free.back());
  shared_->free.pop_back();
  return Buffer(buffer.release(), [shared = shared_](std::vector<std::byte>* used) {
    const std::lock_guard guard(shared->mutex);
    shared->free.emplace_back(used);
    shared->freed.notify_one();
  });
}

void BufferPool::stop() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stopped = true;
  shared_->freed.notify_all();
}

void OrderedHasher::feed(std::uint64_t begin, std::span<std::byte> bytes, Buffer owner) {
  std::unique_lock lock(mutex_);
  waiting_.emplace(begin, Item{bytes, std::move(owner)});
  if (busy_) return;
  busy_ = true;
  for (auto turn = waiting_.find(next_); turn != waiting_.end(); turn = waiting_.find(next_)) {
    const Item item = std::move(turn->second);
    waiting_.erase(turn);
    lock.unlock();
    try {
      if (on_turn_) on_turn_(next_, item.bytes);
      if (hash_) sha_.update(item.bytes);
    } catch (...) {
      lock.lock();
      busy_ = false;
      throw;
    }
    lock.lock();
    next_ += item.bytes.size();
  }
  busy_ = false;
}

std::string OrderedHasher::hex() { return hash_ ? sha_.hex() : std::string(); }

}  // namespace wconv::engine
