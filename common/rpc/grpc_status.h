// absl::Status <-> grpc::Status. The reason code travels as google.rpc.ErrorInfo in
// grpc-status-details-bin, so that it arrives at the other side (and in other clients' tools).
#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

#include <string>

namespace pipedream {

// Longer messages (a model with a thousand unsupported nodes) are cut here, and say so: they travel
// in HTTP/2 metadata, which is bounded (kMaxMetadataBytes in grpc_channel.h).
inline constexpr size_t kMaxStatusMessageBytes = 48 * 1024;

grpc::Status ToGrpcStatus(const absl::Status& status);
// Details that cannot be read are ignored; code and message always arrive.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Whom a call went to, for the message when nobody answers.
struct RpcPeer {
  std::string what;     // "the coordinator"
  std::string address;  // "127.0.0.1:7070"
  std::string hint;     // what to do when it does not answer
};

// As above; kUnavailable and kDeadlineExceeded additionally name the peer and say what to do.
absl::Status FromGrpcStatus(const grpc::Status& status, const RpcPeer& peer);

}  // namespace pipedream
