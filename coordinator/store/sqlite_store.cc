#include "coordinator/store/sqlite_store.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/codec/plan_codec.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/store/page_token.h"
#include "coordinator/store/sqlite_db.h"

namespace pipedream {
namespace {

constexpr int kSchemaVersion = 1;
constexpr std::string_view kSchema[] = {
    "CREATE TABLE IF NOT EXISTS jobs(number INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB UNIQUE NOT "
    "NULL, state INTEGER NOT NULL, job BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs(state, number)",
    "CREATE TABLE IF NOT EXISTS events(job_id BLOB NOT NULL, sequence INTEGER NOT NULL, event BLOB "
    "NOT NULL, PRIMARY KEY(job_id, sequence)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS keys(key BLOB PRIMARY KEY, job_id BLOB NOT NULL, spec_hash BLOB "
    "NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS profiles(key BLOB PRIMARY KEY, profile BLOB NOT NULL) WITHOUT "
    "ROWID",
    "CREATE TABLE IF NOT EXISTS workers(id BLOB PRIMARY KEY) WITHOUT ROWID",
};

// A message as it was stored. kDataLoss if it does not parse.
template <typename Message>
absl::StatusOr<Message> Parse(const std::string& bytes, std::string_view what) {
  Message message;
  if (!message.ParseFromString(bytes))
    return MakeStatus(absl::StatusCode::kDataLoss, "the job store holds a broken {}", what);
  return message;
}

absl::StatusOr<Job> ParseJob(const std::string& bytes) {
  PD_ASSIGN_OR_RETURN(v1::Job message, Parse<v1::Job>(bytes, "job"));
  return FromProto(message);
}

class SqliteStore : public JobStore {
 public:
  explicit SqliteStore(sqlite3* db) : db_(db) {}
  ~SqliteStore() override { sqlite3_close(db_); }

  absl::Status Initialize() {
    MutexLock lock(mutex_);
    sqlite3_busy_timeout(db_, 5000);
    for (std::string_view pragma :
         {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON"})
      PD_RETURN_IF_ERROR(Execute(pragma));
    int64_t version = 0;
    PD_RETURN_IF_ERROR(SqliteQuery(db_, "PRAGMA user_version").Run([&](const SqliteRow& row) {
      version = row.Int(0);
      return absl::OkStatus();
    }));
    if (version > kSchemaVersion)
      return FailedPrecondition("it has version {}, this program knows up to {}; use the newer one",
                                version, kSchemaVersion);
    for (std::string_view sql : kSchema) PD_RETURN_IF_ERROR(Execute(sql));
    return Execute(fmt::format("PRAGMA user_version={}", kSchemaVersion));
  }

  absl::Status Apply(const StoreBatch& batch) override {
    MutexLock lock(mutex_);
    PD_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
    absl::Status status = Write(batch);
    if (status.ok()) status = Execute("COMMIT");
    if (!status.ok()) (void)Execute("ROLLBACK");
    return status;
  }

  absl::StatusOr<Job> GetJob(const std::string& id) override {
    MutexLock lock(mutex_);
    PD_ASSIGN_OR_RETURN(std::vector<Job> jobs,
                        Jobs(SqliteQuery(db_, "SELECT job FROM jobs WHERE id=?").Bind(id)));
    if (jobs.empty()) return NotFound("there is no job '{}'", id);
    return std::move(jobs[0]);
  }

  absl::StatusOr<std::vector<Job>> UnfinishedJobs() override {
    MutexLock lock(mutex_);
    return Jobs(SqliteQuery(db_, "SELECT job FROM jobs WHERE state<? ORDER BY number")
                    .Bind(static_cast<int64_t>(JobState::kSucceeded)));
  }

  absl::StatusOr<JobPage> ListJobs(const std::vector<JobState>& states, int limit,
                                   const std::string& token) override {
    PD_ASSIGN_OR_RETURN(int64_t below, ParsePageToken(token));
    std::string filter;
    if (!states.empty()) {
      std::vector<int> numbers;
      for (JobState state : states) numbers.push_back(static_cast<int>(state));
      filter = fmt::format("AND state IN ({})", fmt::join(numbers, ","));
    }
    MutexLock lock(mutex_);
    SqliteQuery query(
        db_,
        fmt::format("SELECT number, job FROM jobs WHERE number<? {} ORDER BY number DESC LIMIT ?",
                    filter));
    query.Bind(below).Bind(int64_t{limit} + 1);
    JobPage page;
    int64_t last = 0;
    PD_RETURN_IF_ERROR(query.Run([&](const SqliteRow& row) -> absl::Status {
      if (static_cast<int>(page.jobs.size()) == limit) {
        page.next_token = std::to_string(last);
        return absl::OkStatus();
      }
      last = row.Int(0);
      PD_ASSIGN_OR_RETURN(Job job, ParseJob(row.Bytes(1)));
      page.jobs.push_back(std::move(job));
      return absl::OkStatus();
    }));
    return page;
  }

  absl::StatusOr<std::vector<JobEvent>> Events(const std::string& job_id, int64_t after,
                                               int limit) override {
    MutexLock lock(mutex_);
    std::vector<JobEvent> events;
    SqliteQuery query(
        db_, "SELECT event FROM events WHERE job_id=? AND sequence>? ORDER BY sequence LIMIT ?");
    query.Bind(job_id).Bind(after).Bind(int64_t{limit});
    PD_RETURN_IF_ERROR(query.Run([&](const SqliteRow& row) -> absl::Status {
      PD_ASSIGN_OR_RETURN(v1::JobEvent event, Parse<v1::JobEvent>(row.Bytes(0), "event"));
      events.push_back(FromProto(event));
      return absl::OkStatus();
    }));
    return events;
  }

  absl::StatusOr<std::optional<IdempotencyKey>> FindKey(const std::string& key) override {
    MutexLock lock(mutex_);
    std::optional<IdempotencyKey> found;
    SqliteQuery query(db_, "SELECT job_id, spec_hash FROM keys WHERE key=?");
    PD_RETURN_IF_ERROR(query.Bind(key).Run([&](const SqliteRow& row) {
      found = IdempotencyKey{key, row.Bytes(0), row.Bytes(1)};
      return absl::OkStatus();
    }));
    return found;
  }

  absl::StatusOr<std::map<std::string, Profile>> Profiles() override {
    MutexLock lock(mutex_);
    std::map<std::string, Profile> profiles;
    SqliteQuery query(db_, "SELECT key, profile FROM profiles");
    PD_RETURN_IF_ERROR(query.Run([&](const SqliteRow& row) -> absl::Status {
      PD_ASSIGN_OR_RETURN(v1::Profile message, Parse<v1::Profile>(row.Bytes(1), "profile"));
      PD_ASSIGN_OR_RETURN(profiles[row.Bytes(0)], FromProto(message));
      return absl::OkStatus();
    }));
    return profiles;
  }

  absl::StatusOr<std::vector<std::string>> WorkerIds() override {
    MutexLock lock(mutex_);
    std::vector<std::string> ids;
    SqliteQuery query(db_, "SELECT id FROM workers ORDER BY id");
    PD_RETURN_IF_ERROR(query.Run([&](const SqliteRow& row) {
      ids.push_back(row.Bytes(0));
      return absl::OkStatus();
    }));
    return ids;
  }

  absl::StatusOr<int64_t> NextJobNumber() override {
    MutexLock lock(mutex_);
    int64_t next = 1;
    PD_RETURN_IF_ERROR(
        SqliteQuery(db_, "SELECT COALESCE(MAX(number),0)+1 FROM jobs").Run([&](const SqliteRow& r) {
          next = r.Int(0);
          return absl::OkStatus();
        }));
    return next;
  }

 private:
  absl::Status Execute(std::string_view sql) PD_REQUIRES(mutex_) {
    return SqliteQuery(db_, sql).Run();
  }

  static absl::StatusOr<std::vector<Job>> Jobs(SqliteQuery& query) {
    std::vector<Job> jobs;
    PD_RETURN_IF_ERROR(query.Run([&](const SqliteRow& row) -> absl::Status {
      PD_ASSIGN_OR_RETURN(Job job, ParseJob(row.Bytes(0)));
      jobs.push_back(std::move(job));
      return absl::OkStatus();
    }));
    return jobs;
  }

  absl::Status Write(const StoreBatch& batch) PD_REQUIRES(mutex_) {
    for (const Job& job : batch.jobs)
      PD_RETURN_IF_ERROR(
          SqliteQuery(
              db_,
              // AUTOINCREMENT would count every update, too.
              "INSERT INTO jobs(number, id, state, job) VALUES((SELECT COALESCE(MAX(number),0)+1 "
              "FROM jobs),?,?,?) ON CONFLICT(id) DO UPDATE SET state=excluded.state, "
              "job=excluded.job")
              .Bind(job.id)
              .Bind(static_cast<int64_t>(job.state))
              .Bind(ToProto(job).SerializeAsString())
              .Run());
    for (const auto& [job_id, event] : batch.events)
      PD_RETURN_IF_ERROR(SqliteQuery(db_, "INSERT OR REPLACE INTO events VALUES(?,?,?)")
                             .Bind(job_id)
                             .Bind(event.sequence)
                             .Bind(ToProto(event).SerializeAsString())
                             .Run());
    for (const IdempotencyKey& key : batch.keys)
      PD_RETURN_IF_ERROR(SqliteQuery(db_, "INSERT INTO keys VALUES(?,?,?)")
                             .Bind(key.key)
                             .Bind(key.job_id)
                             .Bind(key.spec_hash)
                             .Run());
    for (const auto& [key, profile] : batch.profiles)
      PD_RETURN_IF_ERROR(SqliteQuery(db_, "INSERT OR REPLACE INTO profiles VALUES(?,?)")
                             .Bind(key)
                             .Bind(ToProto(profile).SerializeAsString())
                             .Run());
    for (const std::string& id : batch.worker_ids)
      PD_RETURN_IF_ERROR(
          SqliteQuery(db_, "INSERT OR IGNORE INTO workers VALUES(?)").Bind(id).Run());
    return absl::OkStatus();
  }

  Mutex mutex_;
  sqlite3* const db_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> OpenSqliteStore(const std::string& path) {
  sqlite3* db = nullptr;
  int code =
      sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  auto store = std::make_unique<SqliteStore>(db);
  absl::Status status =
      code == SQLITE_OK ? store->Initialize() : SqliteError(db, code & 0xff, "it cannot be opened");
  if (!status.ok()) return Annotate(status, fmt::format("job store '{}'", path));
  return std::unique_ptr<JobStore>(std::move(store));
}

}  // namespace pipedream
