// Hashing in file order what is produced out of order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/hash.h"

namespace wconv::engine {

// A fixed set of tile buffers. `take` waits until one is free; returns null after stop().
class BufferPool {
 public:
  BufferPool(std::size_t count, std::uint64_t bytes);
  std::shared_ptr<std::vector<std::byte>> take();
  bool empty() const;
  void stop();

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable freed;
    std::vector<std::unique_ptr<std::vector<std::byte>>> free;
    bool stopped = false;
  };
  std::shared_ptr<Shared> shared_;
};

using Buffer = std::shared_ptr<std::vector<std::byte>>;

class OrderedHasher;

// Hashers with work to do. Any thread takes two at a time, for two are hashed nearly as fast as one.
class HashQueue {
 public:
  // Hashes ranges that have their turn, two at a time, until there are none or other threads have the rest. A last one
  // without a partner is hashed where `alone`, else left for a later call. A caller that leaves it must know that a
  // buffer is free, or the ranges that wait behind it hold them all.
  void work(bool alone);

 private:
  friend class OrderedHasher;
  std::mutex mutex_;  // of every hasher that uses this queue, too
  std::deque<OrderedHasher*> ready_;
};

// SHA-256 of ranges that any thread may add in any order. A range that comes early is kept (with its buffer) until its
// turn; whoever closes the gap and calls HashQueue::work hashes what follows, so no thread waits for another. A range
// that was added before is Error(kInternal).
class OrderedHasher {
 public:
  // Called in file order, one range at a time, before the range is hashed; may change the bytes.
  using OnTurn = std::function<void(std::uint64_t begin, std::span<std::byte> bytes)>;

  OrderedHasher(HashQueue& queue, bool hash, OnTurn on_turn = nullptr)
      : queue_(queue), hash_(hash), on_turn_(std::move(on_turn)) {}
  void add(std::uint64_t begin, std::span<std::byte> bytes, Buffer owner);
  std::string hex();  // after everything was added and worked off; empty when not hashing

 private:
  friend class HashQueue;
  struct Item {
    std::span<std::byte> bytes;
    Buffer owner;
  };
  void queue_next();  // with the queue's mutex held
  HashQueue& queue_;
  std::map<std::uint64_t, Item> waiting_;
  std::uint64_t next_ = 0;
  bool busy_ = false, hash_;  // busy: in the queue, or being hashed
  OnTurn on_turn_;
  Sha256 sha_;
};

}  // namespace wconv::engine
