#include "common/rpc/grpc_status.h"

#include <string_view>

#include "common/base/status.h"
#include "pipedream/v1/error.pb.h"

namespace pipedream {
namespace {

constexpr std::string_view kErrorInfoUrl = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr std::string_view kDomain = "pipedream";

// At most kMaxStatusMessageBytes, cut between UTF-8 characters.
std::string BoundedMessage(std::string_view message) {
  if (message.size() <= kMaxStatusMessageBytes) return std::string(message);
  size_t end = kMaxStatusMessageBytes - 64;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  return fmt::format("{} ... ({} more bytes)", message.substr(0, end), message.size() - end);
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message =
      BoundedMessage(std::string_view(status.message().data(), status.message().size()));
  auto code = static_cast<grpc::StatusCode>(status.code());
  std::string reason = ReasonOf(status);
  if (reason.empty()) return grpc::Status(code, message);
  v1::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(std::string(kDomain));
  v1::RpcStatus details;
  details.set_code(static_cast<int>(status.code()));
  // The message is not repeated here: it would double what must fit into the metadata.
  v1::DetailAny* detail = details.add_details();
  detail->set_type_url(std::string(kErrorInfoUrl));
  detail->set_value(info.SerializeAsString());
  return grpc::Status(code, message, details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  int code = status.error_code();
  if (code < 0 || code > 16) code = static_cast<int>(absl::StatusCode::kUnknown);
  absl::Status result(static_cast<absl::StatusCode>(code), status.error_message());
  v1::RpcStatus details;
  if (!details.ParseFromString(status.error_details())) return result;
  for (const v1::DetailAny& detail : details.details()) {
    v1::ErrorInfo info;
    if (detail.type_url() == kErrorInfoUrl && info.ParseFromString(detail.value())) {
      result = WithReason(std::move(result), info.reason());
    }
  }
  return result;
}

absl::Status FromGrpcStatus(const grpc::Status& status, const RpcPeer& peer) {
  absl::Status result = FromGrpcStatus(status);
  if (!ReasonOf(result).empty()) return result;  // the peer itself said so
  if (result.code() == absl::StatusCode::kUnavailable) {
    return WithReason(Unavailable("cannot reach {} at {}: {}. {}", peer.what, peer.address,
                                  status.error_message(), peer.hint),
                      "UNREACHABLE");
  }
  if (result.code() == absl::StatusCode::kDeadlineExceeded) {
    return DeadlineExceeded("{} at {} did not answer in time: {}", peer.what, peer.address,
                            status.error_message());
  }
  return result;
}

}  // namespace pipedream
