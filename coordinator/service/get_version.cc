#include "common/base/version.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {

grpc::Status CoordinatorService::GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                                            v1::GetVersionResponse* response) {
  response->set_version(std::string(kVersion));
  return grpc::Status::OK;
}

}  // namespace pipedream
