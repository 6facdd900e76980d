#include <sys/file.h>

#include <fcntl.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/grpc_server.h"
#include "coordinator/launch/grpc_worker_client.h"
#include "coordinator/service/coordinator.h"
#include "coordinator/service/coordinator_service.h"
#include "coordinator/service/daemon.h"
#include "coordinator/store/sqlite_store.h"

namespace pipedream {
namespace {

// Two coordinators on one folder would undo each other's work. Held for the life of the process.
absl::StatusOr<UniqueFd> LockStateDir(const std::string& folder) {
  PD_RETURN_IF_ERROR(MakeDirectories(folder));
  std::string path = folder + "/lock";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return Unavailable("cannot write in --state-dir '{}'", folder);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return FailedPrecondition("another coordinator uses --state-dir '{}'; stop it or give another",
                              folder);
  return fd;
}

CoordinatorOptions MakeOptions(const DaemonOptions& options) {
  CoordinatorOptions result;
  result.registry.lease = options.lease;
  result.heartbeat = options.lease / 6;
  // Whoever lost a peer waits for that peer's lease to run out, and a little.
  result.machine.suspect = options.lease + std::chrono::seconds(1);
  result.launcher.data_root = options.data_root;
  return result;
}

absl::Status Serve(const DaemonOptions& options) {
  PD_ASSIGN_OR_RETURN(UniqueFd lock, LockStateDir(options.state_dir));
  CoordinatorParts parts;
  parts.clock = SystemClock();
  PD_ASSIGN_OR_RETURN(parts.store, OpenSqliteStore(options.state_dir + "/jobs.sqlite"));
  PD_ASSIGN_OR_RETURN(parts.blobs, BlobStore::Open(options.state_dir + "/blobs"));
  parts.clients = MakeGrpcWorkerClients(options.insecure);
  PD_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> coordinator,
                      Coordinator::Start(MakeOptions(options), std::move(parts)));
  CoordinatorService service(coordinator.get());
  PD_ASSIGN_OR_RETURN(
      std::unique_ptr<RpcServer> server,
      RpcServer::Start({.address = options.listen, .insecure = options.insecure}, {&service}));
  server->SetReady(true);
  std::printf("listening on %s\n", server->address().c_str());
  std::fflush(stdout);
  if (!options.port_file.empty())
    PD_RETURN_IF_ERROR(WriteFileAtomic(options.port_file, std::to_string(server->port()) + "\n"));

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  int signal = 0;
  sigwait(&signals, &signal);
  LogInfo("stops on signal {}", signal);
  server->SetReady(false);
  coordinator->Shutdown(std::chrono::seconds(2));
  server->Shutdown(std::chrono::seconds(1));
  return absl::OkStatus();
}

}  // namespace

int RunCoordinator(const DaemonOptions& options) {
  absl::Status status = Serve(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "pipedream-coordinator: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace pipedream
