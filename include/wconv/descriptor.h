// Open files within the process's limit of descriptors.
#pragma once

#include <sys/stat.h>

#include <string>

namespace wconv {

// A file that stays open, or where many are open already is opened by its path for each use. What is opened must be the
// same file. Any thread may use it.
class Descriptor {
 public:
  enum class Kind {
    kInput,   // must keep its size and modification time too
    kOutput,  // only this process writes it
    kLocked,  // stays open, for its lock would be lost
  };

  // A descriptor for as long as the object lives. A thread holds at most one input and one output, that one last.
  class Use {
   public:
    Use(const Descriptor& owner, int descriptor) : owner_(owner), descriptor_(descriptor) {}
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    int get() const { return descriptor_; }

   private:
    const Descriptor& owner_;
    int descriptor_;
  };

  // Takes over `descriptor`, which open(path, flags) has given; `flags` must not create or truncate.
  // Throws Error(kIo) where its status can't be had.
  Descriptor(std::string path, int flags, int descriptor, Kind kind);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  // Throws Error(kIo) where the file can't be opened again, or another one has its name.
  Use use() const;
  const struct stat& status() const { return status_; }  // when it was opened first

 private:
  int reopen() const;

  std::string path_;
  int flags_;
  int descriptor_;  // -1: opened for each use
  Kind kind_;
  struct stat status_ {};
};

}  // namespace wconv
