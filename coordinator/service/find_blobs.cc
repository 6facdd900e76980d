#include "common/base/status.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {
namespace {
constexpr int kMaxHashes = 100'000;
}

grpc::Status CoordinatorService::FindBlobs(grpc::ServerContext*,
                                           const v1::FindBlobsRequest* request,
                                           v1::FindBlobsResponse* response) {
  if (request->sha256_size() > kMaxHashes)
    return ToGrpcStatus(InvalidArgument("sha256: {} hashes, at most {} are allowed",
                                        request->sha256_size(), kMaxHashes));
  for (const std::string& hash : request->sha256())
    if (coordinator_->blobs().Has(hash)) response->add_present(hash);
  return grpc::Status::OK;
}

}  // namespace pipedream
