// A file system on top of the system's, for plain and encrypted databases. It promises two things. A thread can ask which part of which
// table or blob file it has read last, which gives the place of damage that RocksDB reports without one. And device failures on files
// that are written or read again in a retry (tables, blobs, manifests: everything except the journal) are marked as retryable, so that
// RocksDB continues by itself instead of refusing writes for good.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/options.h"

namespace {

using namespace ROCKSDB_NAMESPACE;

// The last read of a thread.
struct LastRead {
  uint64_t number = 0;
  uint64_t offset = 0;
  int is_blob = 0;
};
thread_local LastRead last_read;

bool EndsWith(const std::string& name, const char* end) {
  const size_t n = strlen(end);
  return name.size() >= n && name.compare(name.size() - n, n, end) == 0;
}

// Marks a failure of the device as retryable; running out of space has its own rules.
IOStatus Passing(IOStatus s) {
  if (s.code() == Status::Code::kIOError && s.subcode() == Status::SubCode::kNone) s.SetRetryable(true);
  return s;
}

class WatchedReader : public FSRandomAccessFileOwnerWrapper {
 public:
  WatchedReader(std::unique_ptr<FSRandomAccessFile> base, uint64_t number, bool is_blob)
      : FSRandomAccessFileOwnerWrapper(std::move(base)), number_(number), is_blob_(is_blob ? 1 : 0) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) const override {
    Note(offset);
    return Passing(target()->Read(offset, n, options, result, scratch, dbg));
  }
  IOStatus MultiRead(FSReadRequest* requests, size_t count, const IOOptions& options, IODebugContext* dbg) override {
    if (count > 0) Note(requests[0].offset);
    IOStatus s = Passing(target()->MultiRead(requests, count, options, dbg));
    for (size_t i = 0; i < count; i++) requests[i].status = Passing(requests[i].status);
    return s;
  }

 private:
  void Note(uint64_t offset) const {
    last_read.number = number_;
    last_read.offset = offset;
    last_read.is_blob = is_blob_;
  }

  const uint64_t number_;
  const int is_blob_;
};

class WatchedWriter : public FSWritableFileOwnerWrapper {
 public:
  explicit WatchedWriter(std::unique_ptr<FSWritableFile> base) : FSWritableFileOwnerWrapper(std::move(base)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    return Passing(target()->Append(data, options, dbg));
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo& info, IODebugContext* dbg) override {
    return Passing(target()->Append(data, options, info, dbg));
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options, IODebugContext* dbg) override {
    return Passing(target()->PositionedAppend(data, offset, options, dbg));
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options, const DataVerificationInfo& info,
                            IODebugContext* dbg) override {
    return Passing(target()->PositionedAppend(data, offset, options, info, dbg));
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* dbg) override {
    return Passing(target()->Truncate(size, options, dbg));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override { return Passing(target()->Close(options, dbg)); }
  IOStatus Flush(const IOOptions& options, IODebugContext* dbg) override { return Passing(target()->Flush(options, dbg)); }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override { return Passing(target()->Sync(options, dbg)); }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override { return Passing(target()->Fsync(options, dbg)); }
  IOStatus RangeSync(uint64_t offset, uint64_t n, const IOOptions& options, IODebugContext* dbg) override {
    return Passing(target()->RangeSync(offset, n, options, dbg));
  }
};

class WatchedFileSystem : public FileSystemWrapper {
 public:
  explicit WatchedFileSystem(const std::shared_ptr<FileSystem>& base) : FileSystemWrapper(base) {}
  static const char* kClassName() { return "QuarryWatchedFileSystem"; }
  const char* Name() const override { return kClassName(); }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options, std::unique_ptr<FSRandomAccessFile>* result,
                               IODebugContext* dbg) override {
    std::unique_ptr<FSRandomAccessFile> base;
    IOStatus s = Passing(target()->NewRandomAccessFile(path, options, &base, dbg));
    if (!s.ok()) return s;
    const bool is_blob = EndsWith(path, ".blob");
    if (is_blob || EndsWith(path, ".sst")) {
      const uint64_t number = strtoull(path.c_str() + path.find_last_of('/') + 1, nullptr, 10);
      result->reset(new WatchedReader(std::move(base), number, is_blob));
    } else {
      *result = std::move(base);
    }
    return s;
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<FSWritableFile>* result,
                           IODebugContext* dbg) override {
    // A failed append to the journal, or a failed flush of it, is not retried (commits.rs).
    if (EndsWith(path, ".log")) return target()->NewWritableFile(path, options, result, dbg);
    std::unique_ptr<FSWritableFile> base;
    IOStatus s = Passing(target()->NewWritableFile(path, options, &base, dbg));
    if (s.ok()) result->reset(new WatchedWriter(std::move(base)));
    return s;
  }
};

}  // namespace

// Makes a database that is opened with these options use this file system, on top of the one that they name. The file system lives as
// long as the process. `options` is RocksDB's rocksdb_options_t, whose first and only member is Options (db/c.cc).
extern "C" void quarry_watch(void* options) {
  Options* to = static_cast<Options*>(options);
  auto files = std::make_shared<WatchedFileSystem>(to->env->GetFileSystem());
  to->env = NewCompositeEnv(files).release();
}

// Which part of which table or blob file the calling thread has read last; 0 when it has read none.
extern "C" int quarry_last_read(uint64_t* number, uint64_t* offset, int* is_blob) {
  *number = last_read.number;
  *offset = last_read.offset;
  *is_blob = last_read.is_blob;
  return last_read.number == 0 ? 0 : 1;
}
