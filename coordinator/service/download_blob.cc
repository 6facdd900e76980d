#include <algorithm>
#include <memory>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/grpc_limits.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {

grpc::Status CoordinatorService::DownloadBlob(grpc::ServerContext*,
                                              const v1::DownloadBlobRequest* request,
                                              grpc::ServerWriter<v1::BlobChunk>* writer) {
  auto path = coordinator_->blobs().PathOf(request->sha256());
  if (!path.ok()) return ToGrpcStatus(path.status());
  auto file = MappedFile::Open(*path);  // blobs never change
  if (!file.ok()) return ToGrpcStatus(file.status());
  std::span<const std::byte> rest = (*file)->bytes();
  if (request->offset() < 0 || request->offset() > static_cast<int64_t>(rest.size()))
    return ToGrpcStatus(MakeStatus(absl::StatusCode::kOutOfRange,
                                   "offset {} is outside the blob of {} bytes", request->offset(),
                                   rest.size()));
  rest = rest.subspan(request->offset());
  v1::BlobChunk chunk;
  while (!rest.empty()) {
    size_t n = std::min<size_t>(rest.size(), kMaxChunkBytes);
    chunk.set_data(rest.data(), n);
    if (!writer->Write(chunk)) break;  // the caller is gone
    rest = rest.subspan(n);
  }
  return grpc::Status::OK;
}

}  // namespace pipedream
