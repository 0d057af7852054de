#include "engine/ordered_hasher.h"

#include "wconv/error.h"

namespace wconv::engine {

BufferPool::BufferPool(std::size_t count, std::uint64_t bytes) : shared_(std::make_shared<Shared>()) {
  for (std::size_t i = 0; i < count; ++i) {
    auto buffer = std::make_unique<std::vector<std::byte>>();
    buffer->reserve(bytes);
    shared_->free.push_back(std::move(buffer));
  }
}

Buffer BufferPool::take() {
  std::unique_ptr<std::vector<std::byte>> buffer;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->freed.wait(lock, [&] { return shared_->stopped || !shared_->free.empty(); });
    if (shared_->stopped) return nullptr;
    buffer = std::move(shared_->free.back());
    shared_->free.pop_back();
  }
  // Without the lock: where this throws, the buffer goes back at once.
  return Buffer(buffer.release(), [shared = shared_](std::vector<std::byte>* used) {
    const std::lock_guard guard(shared->mutex);
    shared->free.emplace_back(used);
    shared->freed.notify_one();
  });
}

bool BufferPool::empty() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->free.empty();
}

void BufferPool::stop() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stopped = true;
  shared_->freed.notify_all();
}

void OrderedHasher::queue_next() {
  busy_ = !waiting_.empty() && waiting_.begin()->first == next_;
  if (busy_) queue_.ready_.push_back(this);
}

void OrderedHasher::add(std::uint64_t begin, std::span<std::byte> bytes, Buffer owner) {
  const std::lock_guard lock(queue_.mutex_);
  if (begin < next_ || !waiting_.emplace(begin, Item{bytes, std::move(owner)}).second) {
    fail(ErrorCode::kInternal, "byte {} is hashed twice", begin);
  }
  if (!busy_) queue_next();
}

void HashQueue::work(bool alone) {
  struct Turn {
    OrderedHasher* hasher;
    OrderedHasher::Item item;
  };
  std::unique_lock lock(mutex_);
  while (ready_.size() > (alone ? 0 : 1)) {
    std::vector<Turn> turns;
    for (; turns.size() < 2 && !ready_.empty(); ready_.pop_front()) {
      OrderedHasher* hasher = ready_.front();
      turns.push_back({hasher, std::move(hasher->waiting_.begin()->second)});
      hasher->waiting_.erase(hasher->waiting_.begin());
    }
    lock.unlock();
    for (const Turn& turn : turns) {
      if (turn.hasher->on_turn_) turn.hasher->on_turn_(turn.hasher->next_, turn.item.bytes);
    }
    if (turns.size() == 2 && turns[0].hasher->hash_ && turns[1].hasher->hash_) {
      Sha256::update_pair(turns[0].hasher->sha_, turns[0].item.bytes, turns[1].hasher->sha_, turns[1].item.bytes);
    } else {
      for (const Turn& turn : turns) {
        if (turn.hasher->hash_) turn.hasher->sha_.update(turn.item.bytes);
      }
    }
    lock.lock();
    for (Turn& turn : turns) {
      turn.hasher->next_ += turn.item.bytes.size();
      turn.hasher->queue_next();
    }
    // Buffers are given back outside of the lock.
    lock.unlock();
    turns.clear();
    lock.lock();
  }
}

std::string OrderedHasher::hex() { return hash_ ? sha_.hex() : std::string(); }

}  // namespace wconv::engine
