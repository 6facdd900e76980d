#include "coordinator/store/sqlite_db.h"

namespace pipedream {

absl::Status SqliteError(sqlite3* db, int code, std::string_view action) {
  const char* text = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  if (code == SQLITE_CONSTRAINT)
    return MakeStatus(absl::StatusCode::kAlreadyExists, "{}: {}", action, text);
  if (code == SQLITE_FULL) return ResourceExhausted("{}: {}", action, text);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
    return MakeStatus(absl::StatusCode::kDataLoss, "{}: {}", action, text);
  return Unavailable("{}: {}", action, text);
}

SqliteQuery::SqliteQuery(sqlite3* db, std::string_view sql) : db_(db) {
  error_ = sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr);
}

SqliteQuery& SqliteQuery::Bind(int64_t value) {
  if (error_ == SQLITE_OK) error_ = sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}

SqliteQuery& SqliteQuery::Bind(std::string_view bytes) {
  // A null pointer would bind NULL.
  if (error_ == SQLITE_OK)
    error_ = sqlite3_bind_blob64(statement_, ++bound_, bytes.empty() ? "" : bytes.data(),
                                 bytes.size(), SQLITE_TRANSIENT);
  return *this;
}

absl::Status SqliteQuery::Run(const std::function<absl::Status(const SqliteRow&)>& row) {
  if (error_ != SQLITE_OK) return SqliteError(db_, error_, "the job store cannot be read");
  int code;
  while ((code = sqlite3_step(statement_)) == SQLITE_ROW)
    if (row) PD_RETURN_IF_ERROR(row(SqliteRow(statement_)));
  if (code != SQLITE_DONE) return SqliteError(db_, code & 0xff, "the job store cannot be used");
  return absl::OkStatus();
}

}  // namespace pipedream
