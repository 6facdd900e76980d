#include <memory>

#include "common/base/status.h"
#include "common/rpc/grpc_limits.h"
#include "common/rpc/grpc_status.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {

grpc::Status CoordinatorService::UploadBlob(grpc::ServerContext*,
                                            grpc::ServerReader<v1::UploadBlobRequest>* reader,
                                            v1::UploadBlobResponse*) {
  return ToGrpcStatus(Upload(reader));
}

absl::Status CoordinatorService::Upload(grpc::ServerReader<v1::UploadBlobRequest>* reader) {
  v1::UploadBlobRequest message;
  if (!reader->Read(&message) || !message.has_header())
    return InvalidArgument("the first message of an upload must be its header");
  const v1::UploadBlobRequest::Header header = message.header();
  if (coordinator_->blobs().Has(header.sha256())) return absl::OkStatus();
  PD_ASSIGN_OR_RETURN(std::unique_ptr<BlobStore::Upload> upload,
                      coordinator_->blobs().Begin(header.sha256(), header.bytes()));
  while (reader->Read(&message)) {
    if (message.part_case() != v1::UploadBlobRequest::kData)
      return InvalidArgument("blob {}: after the header only data may follow", header.sha256());
    if (message.data().size() > kMaxChunkBytes)
      return InvalidArgument("blob {}: {} bytes in one message, at most {} are allowed",
                             header.sha256(), message.data().size(), kMaxChunkBytes);
    PD_RETURN_IF_ERROR(upload->Write(message.data()));
  }
  return upload->Finish();
}

}  // namespace pipedream
