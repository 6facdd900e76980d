// Files by content: what users upload, and trained models.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/file.h"
#include "common/base/sha256.h"

namespace pipedream {

struct BlobLimits {
  int64_t max_bytes = int64_t{64} << 30;       // of one blob
  int64_t keep_free_bytes = int64_t{1} << 30;  // of the file system, after an upload
};

// A folder of read-only files, <first two digits>/<SHA-256>. A blob appears whole, checked and
// synced, or not at all. Thread-safe; two uploads of the same content do not disturb each other.
class BlobStore {
 public:
  // Creates the folder, drops what interrupted uploads left behind.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(const std::string& folder,
                                                         const BlobLimits& limits = {});

  // False also for what is no SHA-256 in lower-case hexadecimal digits.
  bool Has(const std::string& sha256) const;
  // kInvalidArgument: no hash; kNotFound (reason BLOB_MISSING): not there.
  absl::StatusOr<std::string> PathOf(const std::string& sha256) const;

  // One upload; dropped without Finish, it leaves nothing. Not thread-safe.
  class Upload {
   public:
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    // kInvalidArgument beyond the announced size.
    absl::Status Write(std::string_view data);
    // kInvalidArgument (reason BLOB_CORRUPT): size or hash differ from what was announced.
    absl::Status Finish();

   private:
    friend class BlobStore;
    Upload(BlobStore* store, std::string sha256, int64_t bytes, std::string path, UniqueFd fd)
        : store_(store),
          sha256_(std::move(sha256)),
          bytes_(bytes),
          path_(std::move(path)),
          fd_(std::move(fd)) {}
    BlobStore* store_;
    std::string sha256_;
    int64_t bytes_;
    std::string path_;  // temporary
    UniqueFd fd_;
    Sha256 hash_;
    int64_t written_ = 0;
  };
  // kInvalidArgument: no hash; kResourceExhausted: beyond max_bytes, or too little free space.
  absl::StatusOr<std::unique_ptr<Upload>> Begin(const std::string& sha256, int64_t bytes);

  // Copies a file in; returns its hash.
  absl::StatusOr<std::string> AddFile(const std::string& path);

  // Stores a short text; returns its hash.
  absl::StatusOr<std::string> AddText(std::string_view text);

  // A fresh folder on the same file system for work in progress; the caller removes it.
  absl::StatusOr<std::string> MakeWorkFolder();

 private:
  BlobStore(std::string folder, const BlobLimits& limits)
      : folder_(std::move(folder)), limits_(limits) {}
  std::string FinalPath(const std::string& sha256) const;
  const std::string folder_;
  const BlobLimits limits_;
};

bool IsSha256(std::string_view text);

}  // namespace pipedream
