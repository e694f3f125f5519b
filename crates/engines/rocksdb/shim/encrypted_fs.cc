// A file system for RocksDB that encrypts what it writes and refuses changed data. The formats are those of crates/cipher
// (docs/adr/0041-encryption-at-rest.md), which provides keys and AES through a table of functions. It knows files only.
//
// Promises: RocksDB reads the bytes that it wrote, at the same place of a file of the same name, or the read fails; no number is used
// twice with one key. Compiled separately from RocksDB, with the same options, and linked with its archive.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/options.h"

namespace {

using namespace ROCKSDB_NAMESPACE;

constexpr uint64_t kHeader = 64;
constexpr uint64_t kTag = 16;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kOverhead = 4 + kTag;
constexpr uint64_t kStride = kPage + kOverhead;
constexpr uint64_t kPieceMax = 256 * 1024;
// Sealed bytes that are collected before they are written.
constexpr size_t kBatch = 1 << 20;

}  // namespace

// Declared in ffi/encryption.rs.
extern "C" struct QuarryCipher {
  const void* state;
  void* (*begin)(const void* state, const char* name, size_t name_length, int pages, uint8_t* header);
  void* (*resume)(const void* state, const char* name, size_t name_length, const uint8_t* header, int* pages);
  void (*end)(void* key);
  // Seals `length` bytes in place and writes the tag after them.
  void (*seal)(const void* key, uint64_t number, uint32_t turn, uint8_t* bytes, size_t length);
  // Opens `length` bytes and the tag after them in place; 0 when they were changed.
  int (*open)(const void* key, uint64_t number, uint32_t turn, uint8_t* bytes, size_t length);
};

namespace {

void PutFixed(uint8_t* to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

uint32_t GetFixed(const uint8_t* from) {
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) value |= static_cast<uint32_t>(from[i]) << (8 * i);
  return value;
}

bool EndsWith(const std::string& text, const char* end) {
  const size_t length = strlen(end);
  return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
}

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// The name to which a file is bound; empty for a file that may be renamed.
std::string BoundName(const std::string& path) {
  const std::string name = BaseName(path);
  const bool bound = EndsWith(name, ".sst") || EndsWith(name, ".blob") || EndsWith(name, ".log") || name.rfind("MANIFEST-", 0) == 0;
  return bound ? name : std::string();
}

bool HasPages(const std::string& path) { return EndsWith(path, ".sst") || EndsWith(path, ".blob"); }

IOStatus Changed(const std::string& path, uint64_t at = 0) {
  return IOStatus::Corruption("encrypted file " + BaseName(path) + " was changed at offset " + std::to_string(at) +
                              ", or belongs to another key");
}

// The key of an open file.
class Key {
 public:
  Key(const QuarryCipher* cipher, void* key) : cipher_(cipher), key_(key) {}
  ~Key() { cipher_->end(key_); }
  Key(const Key&) = delete;
  void operator=(const Key&) = delete;

  void Seal(uint64_t number, uint32_t turn, uint8_t* bytes, size_t length) const { cipher_->seal(key_, number, turn, bytes, length); }
  bool Open(uint64_t number, uint32_t turn, uint8_t* bytes, size_t length) const {
    return cipher_->open(key_, number, turn, bytes, length) != 0;
  }

 private:
  const QuarryCipher* cipher_;
  void* key_;
};

// Offset of a page in a file of pages.
uint64_t PageStart(uint64_t page) { return kHeader + page * kStride; }
uint64_t Physical(uint64_t offset) { return PageStart(offset / kPage) + offset % kPage; }

// Plain length of a file of pages.
uint64_t PlainLength(uint64_t physical) {
  if (physical <= kHeader) return 0;
  const uint64_t body = physical - kHeader;
  const uint64_t rest = body % kStride;
  return body / kStride * kPage + (rest > kOverhead ? rest - kOverhead : 0);
}

// A table or blob file during writing. The last, incomplete page stays in memory until a flush or the end; if it has grown after a
// flush, it is sealed again with the next turn.
class PagesWriter : public FSWritableFile {
 public:
  PagesWriter(std::unique_ptr<FSWritableFile> base, std::unique_ptr<Key> key) : base_(std::move(base)), key_(std::move(key)) {}
  ~PagesWriter() override {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    const char* from = data.data();
    size_t left = data.size();
    std::vector<uint8_t> sealed;
    uint64_t first = page_;
    while (left > 0) {
      const size_t n = std::min<size_t>(left, kPage - tail_.size());
      tail_.append(from, n);
      from += n;
      left -= n;
      if (tail_.size() < kPage) break;
      SealTail(&sealed);
      tail_.clear();
      page_++;
      turn_ = 0;
      if (sealed.size() >= kBatch) {
        IOStatus s = base_->PositionedAppend(View(sealed), PageStart(first), options, dbg);
        if (!s.ok()) return s;
        sealed.clear();
        first = page_;
      }
    }
    tail_is_written_ = tail_.empty();
    if (sealed.empty()) return IOStatus::OK();
    return base_->PositionedAppend(View(sealed), PageStart(first), options, dbg);
  }
  using FSWritableFile::Append;

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    // RocksDB truncates a file only to the length that it has written.
    return size == Length() ? IOStatus::OK() : IOStatus::NotSupported("Truncate of an encrypted file");
  }
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus s = WriteTail(options, dbg);
    IOStatus closed = base_->Close(options, dbg);
    return s.ok() ? closed : s;
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* dbg) override { return base_->Flush(options, dbg); }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus s = WriteTail(options, dbg);
    return s.ok() ? base_->Sync(options, dbg) : s;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus s = WriteTail(options, dbg);
    return s.ok() ? base_->Fsync(options, dbg) : s;
  }
  bool IsSyncThreadSafe() const override { return false; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return Length(); }
  void SetWriteLifeTimeHint(Env::WriteLifeTimeHint hint) override { base_->SetWriteLifeTimeHint(hint); }
  void SetIOPriority(Env::IOPriority priority) override { base_->SetIOPriority(priority); }
  void SetPreallocationBlockSize(size_t size) override { base_->SetPreallocationBlockSize(size); }
  void GetPreallocationStatus(size_t* block, size_t* last) override { base_->GetPreallocationStatus(block, last); }
  void PrepareWrite(size_t offset, size_t length, const IOOptions& options, IODebugContext* dbg) override {
    base_->PrepareWrite(Physical(offset), length / kPage * kStride + kStride, options, dbg);
  }
  IOStatus Allocate(uint64_t offset, uint64_t length, const IOOptions& options, IODebugContext* dbg) override {
    return base_->Allocate(Physical(offset), length / kPage * kStride + kStride, options, dbg);
  }
  IOStatus RangeSync(uint64_t offset, uint64_t length, const IOOptions& options, IODebugContext* dbg) override {
    return base_->RangeSync(Physical(offset), length / kPage * kStride, options, dbg);
  }

 private:
  uint64_t Length() const { return page_ * kPage + tail_.size(); }
  static Slice View(const std::vector<uint8_t>& bytes) { return Slice(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

  void SealTail(std::vector<uint8_t>* out) {
    const size_t at = out->size();
    out->resize(at + tail_.size() + kOverhead);
    PutFixed(out->data() + at, turn_);
    memcpy(out->data() + at + 4, tail_.data(), tail_.size());
    key_->Seal(page_, turn_, out->data() + at + 4, tail_.size());
  }

  IOStatus WriteTail(const IOOptions& options, IODebugContext* dbg) {
    if (tail_is_written_ || tail_.empty()) return IOStatus::OK();
    std::vector<uint8_t> sealed;
    SealTail(&sealed);
    turn_++;
    IOStatus s = base_->PositionedAppend(View(sealed), PageStart(page_), options, dbg);
    tail_is_written_ = s.ok();
    return s;
  }

  std::unique_ptr<FSWritableFile> base_;
  std::unique_ptr<Key> key_;
  std::string tail_;
  uint64_t page_ = 0;
  uint32_t turn_ = 0;
  bool tail_is_written_ = true;
};

// A table or blob file during reading.
class PagesReader : public FSRandomAccessFile {
 public:
  PagesReader(std::string path, std::unique_ptr<FSRandomAccessFile> base, std::unique_ptr<Key> key, uint64_t length)
      : path_(std::move(path)), base_(std::move(base)), key_(std::move(key)), length_(length) {}
  ~PagesReader() override {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) const override {
    *result = Slice(scratch, 0);
    if (offset >= length_ || n == 0) return IOStatus::OK();
    n = static_cast<size_t>(std::min<uint64_t>(n, length_ - offset));
    const uint64_t first = offset / kPage;
    const uint64_t last = (offset + n - 1) / kPage;
    const uint64_t from = PageStart(first);
    const uint64_t to = PageStart(last) + kOverhead + std::min<uint64_t>(kPage, length_ - last * kPage);
    // One buffer for each thread; read-ahead data of a compaction is not cached.
    thread_local std::vector<uint8_t> kept;
    std::vector<uint8_t> large;
    std::vector<uint8_t>& sealed = to - from > kBatch ? large : kept;
    if (sealed.size() < to - from) sealed.resize(static_cast<size_t>(to - from));
    Slice got;
    IOStatus s = base_->Read(from, static_cast<size_t>(to - from), options, &got, reinterpret_cast<char*>(sealed.data()), dbg);
    if (!s.ok()) return s;
    if (got.size() != to - from) return Changed(path_, from + got.size());
    if (got.data() != reinterpret_cast<char*>(sealed.data())) memcpy(sealed.data(), got.data(), got.size());
    size_t done = 0;
    for (uint64_t page = first; page <= last; page++) {
      uint8_t* at = sealed.data() + (PageStart(page) - from);
      const size_t length = static_cast<size_t>(std::min<uint64_t>(kPage, length_ - page * kPage));
      if (!key_->Open(page, GetFixed(at), at + 4, length)) return Changed(path_, PageStart(page));
      const size_t skip = page == first ? static_cast<size_t>(offset % kPage) : 0;
      const size_t take = std::min(n - done, length - skip);
      memcpy(scratch + done, at + 4 + skip, take);
      done += take;
    }
    *result = Slice(scratch, done);
    return IOStatus::OK();
  }
  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions& options, IODebugContext* dbg) override {
    return base_->Prefetch(PageStart(offset / kPage), n / kPage * kStride + 2 * kStride, options, dbg);
  }
  size_t GetUniqueId(char* id, size_t size) const override { return base_->GetUniqueId(id, size); }
  void Hint(AccessPattern pattern) override { base_->Hint(pattern); }
  IOStatus InvalidateCache(size_t offset, size_t length) override {
    return length == 0 ? base_->InvalidateCache(0, 0) : base_->InvalidateCache(Physical(offset), length);
  }
  IOStatus GetFileSize(uint64_t* result) override {
    *result = length_;
    return IOStatus::OK();
  }
  uint64_t Length() const { return length_; }

 private:
  const std::string path_;
  std::unique_ptr<FSRandomAccessFile> base_;
  std::unique_ptr<Key> key_;
  const uint64_t length_;
};

// A table or blob file that is read from its start, e.g. to copy it.
class PagesFromStart : public FSSequentialFile {
 public:
  explicit PagesFromStart(std::unique_ptr<PagesReader> file) : file_(std::move(file)) {}
  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) override {
    IOStatus s = file_->Read(at_, n, options, result, scratch, dbg);
    if (s.ok()) at_ += result->size();
    return s;
  }
  IOStatus Skip(uint64_t n) override {
    at_ = std::min(at_ + n, file_->Length());
    return IOStatus::OK();
  }

 private:
  std::unique_ptr<PagesReader> file_;
  uint64_t at_ = 0;
};

// A journal, manifest or other file during writing. Each append becomes a piece, so nothing is ever sealed or written twice.
class PiecesWriter : public FSWritableFileOwnerWrapper {
 public:
  PiecesWriter(std::unique_ptr<FSWritableFile> base, std::unique_ptr<Key> key)
      : FSWritableFileOwnerWrapper(std::move(base)), key_(std::move(key)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    sealed_.clear();
    for (size_t from = 0; from < data.size(); from += kPieceMax) {
      const size_t n = std::min<size_t>(kPieceMax, data.size() - from);
      const size_t at = sealed_.size();
      sealed_.resize(at + n + kOverhead);
      PutFixed(sealed_.data() + at, static_cast<uint32_t>(n));
      memcpy(sealed_.data() + at + 4, data.data() + from, n);
      key_->Seal(number_++, 0, sealed_.data() + at + 4, n);
    }
    IOStatus s = target()->Append(Slice(reinterpret_cast<const char*>(sealed_.data()), sealed_.size()), options, dbg);
    if (s.ok()) length_ += data.size();
    if (sealed_.capacity() > kBatch) std::vector<uint8_t>().swap(sealed_);
    return s;
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo&, IODebugContext* dbg) override {
    return Append(data, options, dbg);
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("PositionedAppend of an encrypted file");
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, const DataVerificationInfo&, IODebugContext*) override {
    return IOStatus::NotSupported("PositionedAppend of an encrypted file");
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    return size == length_ ? IOStatus::OK() : IOStatus::NotSupported("Truncate of an encrypted file");
  }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return length_; }
  // Offsets of pieces are not known, so the whole file is synced; the system has written most of it already.
  IOStatus RangeSync(uint64_t offset, uint64_t length, const IOOptions& options, IODebugContext* dbg) override {
    return target()->RangeSync(0, offset + length, options, dbg);
  }

 private:
  std::unique_ptr<Key> key_;
  std::vector<uint8_t> sealed_;
  uint64_t number_ = 0;
  uint64_t length_ = 0;
};

// A file of pieces during reading, from its start.
class PiecesReader : public FSSequentialFile {
 public:
  PiecesReader(std::string path, std::unique_ptr<FSSequentialFile> base, std::unique_ptr<Key> key)
      : path_(std::move(path)), base_(std::move(base)), key_(std::move(key)) {}

  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) override {
    size_t done = 0;
    IOStatus s;
    while (done < n) {
      if (given_ == plain_) {
        bool more = false;
        s = Advance(options, dbg, &more);
        if (!s.ok() || !more) break;
      }
      const size_t take = std::min(n - done, plain_ - given_);
      memcpy(scratch + done, piece_.data() + given_, take);
      given_ += take;
      done += take;
    }
    *result = Slice(scratch, done);
    // Data that was read before the failure is returned first; the next call fails.
    return done > 0 ? IOStatus::OK() : s;
  }
  IOStatus Skip(uint64_t n) override {
    std::string scratch(static_cast<size_t>(std::min<uint64_t>(n, kPieceMax)), '\0');
    while (n > 0) {
      Slice got;
      IOStatus s = Read(static_cast<size_t>(std::min<uint64_t>(n, scratch.size())), IOOptions(), &got, scratch.data(), nullptr);
      if (!s.ok() || got.empty()) return s;
      n -= got.size();
    }
    return IOStatus::OK();
  }

 private:
  // Fills `to`; `*whole` is false when the file ends first.
  IOStatus Fill(uint8_t* to, size_t n, const IOOptions& options, IODebugContext* dbg, bool* whole) {
    size_t done = 0;
    while (done < n) {
      Slice got;
      IOStatus s = base_->Read(n - done, options, &got, reinterpret_cast<char*>(to + done), dbg);
      if (!s.ok()) return s;
      if (got.empty()) break;
      if (got.data() != reinterpret_cast<char*>(to + done)) memcpy(to + done, got.data(), got.size());
      done += got.size();
    }
    *whole = done == n;
    return IOStatus::OK();
  }

  IOStatus Advance(const IOOptions& options, IODebugContext* dbg, bool* more) {
    if (ended_) return failed_ ? Changed(path_, at_) : IOStatus::OK();
    ended_ = true;
    uint8_t length[4];
    bool whole = false;
    IOStatus s = Fill(length, sizeof(length), options, dbg, &whole);
    if (!s.ok() || !whole) return s;
    const uint32_t plain = GetFixed(length);
    // The space that was added to the file in advance.
    if (plain == 0) return IOStatus::OK();
    if (plain > kPieceMax) {
      failed_ = true;
      return Changed(path_, at_);
    }
    piece_.resize(plain + kTag);
    s = Fill(piece_.data(), piece_.size(), options, dbg, &whole);
    // A piece that was not written completely.
    if (!s.ok() || !whole) return s;
    if (!key_->Open(number_, 0, piece_.data(), plain)) {
      failed_ = true;
      return Changed(path_, at_);
    }
    number_++;
    at_ += plain + kOverhead;
    plain_ = plain;
    given_ = 0;
    ended_ = false;
    *more = true;
    return IOStatus::OK();
  }

  const std::string path_;
  std::unique_ptr<FSSequentialFile> base_;
  std::unique_ptr<Key> key_;
  std::vector<uint8_t> piece_;
  size_t plain_ = 0;
  size_t given_ = 0;
  uint64_t number_ = 0;
  // Offset of the next piece in the file.
  uint64_t at_ = kHeader;
  bool ended_ = false;
  bool failed_ = false;
};

// A file without a header: nothing was written to it yet.
class EmptyFile : public FSSequentialFile {
 public:
  IOStatus Read(size_t, const IOOptions&, Slice* result, char* scratch, IODebugContext*) override {
    *result = Slice(scratch, 0);
    return IOStatus::OK();
  }
  IOStatus Skip(uint64_t) override { return IOStatus::OK(); }
};

// A file of pieces that is opened for reading at any place. RocksDB opens one to check its options, but never reads from it.
class FromStartOnly : public FSRandomAccessFile {
 public:
  IOStatus Read(uint64_t, size_t, const IOOptions&, Slice*, char*, IODebugContext*) const override {
    return IOStatus::NotSupported("an encrypted file of pieces is read from its start only");
  }
};

class EncryptedFileSystem : public FileSystemWrapper {
 public:
  EncryptedFileSystem(const std::shared_ptr<FileSystem>& base, const QuarryCipher& cipher) : FileSystemWrapper(base), cipher_(cipher) {}
  static const char* kClassName() { return "QuarryEncryptedFileSystem"; }
  const char* Name() const override { return kClassName(); }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<FSWritableFile>* result,
                           IODebugContext* dbg) override {
    FileOptions plain = options;
    plain.use_direct_writes = false;
    plain.use_mmap_writes = false;
    std::unique_ptr<FSWritableFile> base;
    IOStatus s = target()->NewWritableFile(path, plain, &base, dbg);
    if (!s.ok()) return s;
    const bool pages = HasPages(path);
    const std::string name = BoundName(path);
    uint8_t header[kHeader];
    auto key = std::make_unique<Key>(&cipher_, cipher_.begin(cipher_.state, name.data(), name.size(), pages ? 1 : 0, header));
    s = base->Append(Slice(reinterpret_cast<const char*>(header), kHeader), options.io_options, dbg);
    if (!s.ok()) return s;
    if (pages) {
      result->reset(new PagesWriter(std::move(base), std::move(key)));
    } else {
      result->reset(new PiecesWriter(std::move(base), std::move(key)));
    }
    return s;
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<FSWritableFile>* result,
                              IODebugContext* dbg) override {
    // Files that are being deleted are reopened only to be truncated step by step. Other files would continue with numbers that were
    // used already.
    if (EndsWith(path, ".trash")) return target()->ReopenWritableFile(path, options, result, dbg);
    return IOStatus::NotSupported("an encrypted file is not continued");
  }
  IOStatus ReuseWritableFile(const std::string&, const std::string&, const FileOptions&, std::unique_ptr<FSWritableFile>*,
                             IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is not written again");
  }
  IOStatus NewRandomRWFile(const std::string&, const FileOptions&, std::unique_ptr<FSRandomRWFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("an encrypted file is not written anywhere");
  }
  IOStatus NewMemoryMappedFileBuffer(const std::string&, std::unique_ptr<MemoryMappedFileBuffer>*) override {
    return IOStatus::NotSupported("an encrypted file is not mapped");
  }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options, std::unique_ptr<FSSequentialFile>* result,
                             IODebugContext* dbg) override {
    std::unique_ptr<FSSequentialFile> base;
    FileOptions plain = Buffered(options);
    IOStatus s = target()->NewSequentialFile(path, plain, &base, dbg);
    if (!s.ok()) return s;
    uint8_t header[kHeader];
    size_t done = 0;
    while (done < kHeader) {
      Slice got;
      s = base->Read(kHeader - done, options.io_options, &got, reinterpret_cast<char*>(header + done), dbg);
      if (!s.ok()) return s;
      if (got.empty()) break;
      memmove(header + done, got.data(), got.size());
      done += got.size();
    }
    if (IsEmpty(header, done)) {
      result->reset(new EmptyFile());
      return s;
    }
    bool pages = false;
    std::unique_ptr<Key> key;
    s = Resume(path, header, &pages, &key);
    if (!s.ok()) return s;
    if (pages) {
      std::unique_ptr<PagesReader> file;
      s = OpenPages(path, plain, &file, dbg);
      if (s.ok()) result->reset(new PagesFromStart(std::move(file)));
      return s;
    }
    result->reset(new PiecesReader(path, std::move(base), std::move(key)));
    return s;
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options, std::unique_ptr<FSRandomAccessFile>* result,
                               IODebugContext* dbg) override {
    std::unique_ptr<PagesReader> file;
    IOStatus s = OpenPages(path, Buffered(options), &file, dbg);
    if (s.ok()) {
      *result = std::move(file);
    } else if (s.IsNotSupported()) {
      result->reset(new FromStartOnly());
      return IOStatus::OK();
    }
    return s;
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size, IODebugContext* dbg) override {
    uint64_t physical = 0;
    IOStatus s = target()->GetFileSize(path, options, &physical, dbg);
    if (!s.ok()) return s;
    *size = physical;
    if (physical < kHeader || EndsWith(path, ".trash")) return s;
    std::unique_ptr<FSRandomAccessFile> file;
    s = target()->NewRandomAccessFile(path, FileOptions(), &file, dbg);
    if (!s.ok()) return s;
    uint8_t header[kHeader];
    s = ReadExactly(file.get(), 0, header, kHeader, dbg);
    if (!s.ok()) return s;
    if (memcmp(header, "QRYSEAL1", 8) != 0) {
      // The file is not encrypted (the library's own log), or is still empty.
      if (IsEmpty(header, kHeader)) *size = 0;
      return s;
    }
    if (header[8] == 1) {
      *size = PlainLength(physical);
      return s;
    }
    // The length of all complete pieces.
    uint64_t at = kHeader;
    *size = 0;
    while (at + kOverhead < physical) {
      uint8_t length[4];
      s = ReadExactly(file.get(), at, length, sizeof(length), dbg);
      if (!s.ok()) return s;
      const uint64_t plain = GetFixed(length);
      if (plain == 0 || plain > kPieceMax || at + plain + kOverhead > physical) break;
      *size += plain;
      at += plain + kOverhead;
    }
    return s;
  }

  void SupportedOps(int64_t& supported) override { supported = 1 << FSSupportedOps::kFSPrefetch; }

 private:
  static FileOptions Buffered(const FileOptions& options) {
    FileOptions plain = options;
    plain.use_direct_reads = false;
    plain.use_mmap_reads = false;
    return plain;
  }

  static bool IsEmpty(const uint8_t* header, size_t length) {
    if (length < kHeader) return true;
    for (size_t i = 0; i < kHeader; i++) {
      if (header[i] != 0) return false;
    }
    return true;
  }

  static IOStatus ReadExactly(FSRandomAccessFile* file, uint64_t at, uint8_t* to, size_t n, IODebugContext* dbg) {
    Slice got;
    IOStatus s = file->Read(at, n, IOOptions(), &got, reinterpret_cast<char*>(to), dbg);
    if (!s.ok()) return s;
    if (got.size() != n) return IOStatus::Corruption("an encrypted file ends within its header");
    if (got.data() != reinterpret_cast<char*>(to)) memcpy(to, got.data(), n);
    return s;
  }

  IOStatus Resume(const std::string& path, const uint8_t* header, bool* pages, std::unique_ptr<Key>* key) {
    const std::string name = BoundName(path);
    int has_pages = 0;
    void* raw = cipher_.resume(cipher_.state, name.data(), name.size(), header, &has_pages);
    if (raw == nullptr) return Changed(path);
    *key = std::make_unique<Key>(&cipher_, raw);
    *pages = has_pages != 0;
    return IOStatus::OK();
  }

  IOStatus OpenPages(const std::string& path, const FileOptions& options, std::unique_ptr<PagesReader>* result, IODebugContext* dbg) {
    uint64_t physical = 0;
    IOStatus s = target()->GetFileSize(path, options.io_options, &physical, dbg);
    if (!s.ok()) return s;
    std::unique_ptr<FSRandomAccessFile> base;
    s = target()->NewRandomAccessFile(path, options, &base, dbg);
    if (!s.ok()) return s;
    if (physical < kHeader) return Changed(path);
    uint8_t header[kHeader];
    s = ReadExactly(base.get(), 0, header, kHeader, dbg);
    if (!s.ok()) return s;
    bool pages = false;
    std::unique_ptr<Key> key;
    s = Resume(path, header, &pages, &key);
    if (!s.ok()) return s;
    if (!pages) return IOStatus::NotSupported("an encrypted file of pieces is read from its start only");
    result->reset(new PagesReader(path, std::move(base), std::move(key), PlainLength(physical)));
    return s;
  }

  const QuarryCipher cipher_;
};

}  // namespace

// Makes a database that is opened with these options encrypt its files. The file system lives as long as the process, because threads
// of the library may use it until the end. `options` is RocksDB's rocksdb_options_t, whose first and only member is Options (db/c.cc).
extern "C" void quarry_encrypt(void* options, const QuarryCipher* cipher) {
  auto files = std::make_shared<EncryptedFileSystem>(FileSystem::Default(), *cipher);
  static_cast<Options*>(options)->env = NewCompositeEnv(files).release();
}
