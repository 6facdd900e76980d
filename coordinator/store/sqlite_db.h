// SQLite's C interface in the project's terms. Private to coordinator/store.
#pragma once

#include <absl/status/statusor.h>
#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace pipedream {

// One row's columns while a query's callback runs.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string Bytes(int column) const {
    const void* data = sqlite3_column_blob(statement_, column);
    int size = sqlite3_column_bytes(statement_, column);
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
  }

 private:
  sqlite3_stmt* statement_;
};

// A prepared statement with its parameters; not thread-safe. Parameters are numbered from 1.
class SqliteQuery {
 public:
  SqliteQuery(sqlite3* db, std::string_view sql);
  ~SqliteQuery() { sqlite3_finalize(statement_); }
  SqliteQuery(const SqliteQuery&) = delete;
  SqliteQuery& operator=(const SqliteQuery&) = delete;
  SqliteQuery& Bind(int64_t value);
  SqliteQuery& Bind(std::string_view bytes);  // as a blob
  // Runs to the end; stops early with the callback's error.
  absl::Status Run(const std::function<absl::Status(const SqliteRow&)>& row = nullptr);

 private:
  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  int error_ = SQLITE_OK;
};

// kUnavailable or kResourceExhausted (disk full) with SQLite's own words.
absl::Status SqliteError(sqlite3* db, int code, std::string_view action);

}  // namespace pipedream
