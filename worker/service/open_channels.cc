#include "worker/service/open_channels.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "worker/service/address_codec.h"

namespace pipedream {
namespace {

constexpr Duration kOpenTimeout = std::chrono::seconds(30);
constexpr Duration kProbeTimeout = std::chrono::seconds(5);
constexpr Duration kPollPeriod = std::chrono::milliseconds(20);
constexpr size_t kRingSlots = 4;
constexpr size_t kRingMessageBytes = size_t{1} << 20;
constexpr size_t kProbeMessageBytes = size_t{1} << 20;

std::string PlaceName(int stage, int replica) { return fmt::format("s{}r{}", stage, replica); }

// Handshakes wait for each other across workers, so each runs on a thread of its own.
class ParallelOpen {
 public:
  ParallelOpen(Connector* connector, AbortCause aborted)
      : connector_(connector), aborted_(std::move(aborted)) {}
  ~ParallelOpen() { Join().IgnoreError(); }

  void Add(std::function<absl::Status()> open) {
    {
      MutexLock lock(mutex_);
      ++running_;
    }
    threads_.emplace_back([this, open = std::move(open)] {
      absl::Status status = first_error();
      if (status.ok()) status = open();
      MutexLock lock(mutex_);
      if (status_.ok()) status_ = status;
      --running_;
      changed_.NotifyAll();
    });
  }

  absl::Status Join() {
    while (true) {
      absl::Status cause = aborted_();
      MutexLock lock(mutex_);
      if (running_ == 0) break;
      if (status_.ok()) status_ = cause;
      // Time and again: a handshake that begins after the connector was told does not know.
      if (!status_.ok()) connector_->AbortHandshakes(status_);
      changed_.WaitFor(mutex_, kPollPeriod);
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return first_error();
  }

 private:
  absl::Status first_error() {
    MutexLock lock(mutex_);
    return status_;
  }

  Connector* const connector_;
  const AbortCause aborted_;
  std::vector<std::thread> threads_;
  Mutex mutex_;
  CondVar changed_;
  int running_ PD_GUARDED_BY(mutex_) = 0;
  absl::Status status_ PD_GUARDED_BY(mutex_);
};

class StageOpener {
 public:
  StageOpener(const v1::PrepareStageRequest& request, const StageState& stage, Connector* connector,
              const AbortCause& aborted, TransportKind kind)
      : request_(request),
        stage_(stage),
        program_(stage.program),
        connector_(connector),
        kind_(kind),
        open_(connector, aborted),
        self_(PlaceName(program_.stage.value(), program_.replica.value())),
        base_(fmt::format("{}/{}/", request.job().job_id(), request.job().attempt())) {}

  absl::Status Open(StageChannels* channels) {
    const StagePeers peers = PeersOf(program_);
    const size_t slots = static_cast<size_t>(program_.channel_slots);
    for (Peer peer : peers.activation_to)
      Send(Address(peer), Edge(self_, Name(peer), "activation"), slots,
           stage_.activation_out_bytes.of(peer.stage), &channels->activation_out[peer]);
    for (Peer peer : peers.activation_from)
      Receive(Edge(Name(peer), self_, "activation"), slots,
              stage_.activation_in_bytes.of(peer.stage), &channels->activation_in[peer]);
    for (Peer peer : peers.gradient_to)
      Send(Address(peer), Edge(self_, Name(peer), "gradient"), slots,
           stage_.gradient_out_bytes.of(peer.stage), &channels->gradient_out[peer]);
    for (Peer peer : peers.gradient_from)
      Receive(Edge(Name(peer), self_, "gradient"), slots, stage_.gradient_in_bytes.of(peer.stage),
              &channels->gradient_in[peer]);

    std::vector<Peer> all;
    for (int s = 0; s < program_.shape.stages(); ++s)
      for (int r = 0; r < program_.shape.replicas[s]; ++r)
        all.push_back({StageId(s), ReplicaId(r)});
    std::vector<Peer> replicas;
    for (Peer peer : all)
      if (peer.stage == program_.stage) replicas.push_back(peer);
    Ring replica_ring = OpenRing(replicas, "replicas");
    Ring worker_ring;
    if (program_.shape.global_norm) worker_ring = OpenRing(all, "workers");

    PD_RETURN_IF_ERROR(open_.Join());
    channels->replicas = Finish(std::move(replica_ring));
    channels->workers = Finish(std::move(worker_ring));
    return absl::OkStatus();
  }

 private:
  struct Ends {
    std::unique_ptr<SendChannel> send;
    std::unique_ptr<ReceiveChannel> receive;
  };
  struct Ring {
    int rank = 0;
    int size = 1;
    std::unique_ptr<Ends> ends;
  };

  static std::string Name(Peer peer) { return PlaceName(peer.stage.value(), peer.replica.value()); }
  std::string Edge(const std::string& from, const std::string& to, std::string_view what) const {
    return fmt::format("{}{}>{}/{}", base_, from, to, what);
  }

  absl::StatusOr<DataAddress> Address(Peer peer) const {
    for (const v1::StageMember& member : request_.members())
      if (member.stage() == peer.stage.value() && member.replica() == peer.replica.value())
        return FromProto(member.address());
    return InvalidArgument("the request names no worker for {}", Name(peer));
  }

  ChannelOptions Options(std::string name, size_t slots, size_t bytes) const {
    return {std::move(name), request_.secret(), slots, std::max<size_t>(bytes, 64), kOpenTimeout};
  }

  void Send(absl::StatusOr<DataAddress> to, std::string name, size_t slots, size_t bytes,
            std::unique_ptr<SendChannel>* out) {
    open_.Add([this, to, options = Options(std::move(name), slots, bytes), out]() -> absl::Status {
      PD_RETURN_IF_ERROR(to.status());
      PD_ASSIGN_OR_RETURN(*out, connector_->Connect(*to, kind_, options));
      return absl::OkStatus();
    });
  }

  void Receive(std::string name, size_t slots, size_t bytes, std::unique_ptr<ReceiveChannel>* out) {
    open_.Add([this, options = Options(std::move(name), slots, bytes), out]() -> absl::Status {
      PD_ASSIGN_OR_RETURN(*out, connector_->Accept(options));
      return absl::OkStatus();
    });
  }

  Ring OpenRing(const std::vector<Peer>& members, std::string_view what) {
    Ring ring;
    ring.size = static_cast<int>(members.size());
    const Peer self{program_.stage, program_.replica};
    ring.rank = static_cast<int>(std::ranges::find(members, self) - members.begin());
    if (ring.size == 1) return ring;
    ring.ends = std::make_unique<Ends>();
    const Peer next = members[(ring.rank + 1) % ring.size];
    const Peer previous = members[(ring.rank + ring.size - 1) % ring.size];
    Send(Address(next), Edge(self_, Name(next), what), kRingSlots, kRingMessageBytes,
         &ring.ends->send);
    Receive(Edge(Name(previous), self_, what), kRingSlots, kRingMessageBytes, &ring.ends->receive);
    return ring;
  }

  static std::unique_ptr<Collective> Finish(Ring ring) {
    if (ring.size == 1) return nullptr;
    return MakeRingCollective(ring.rank, ring.size, std::move(ring.ends->send),
                              std::move(ring.ends->receive));
  }

  const v1::PrepareStageRequest& request_;
  const StageState& stage_;
  const StageProgram& program_;
  Connector* const connector_;
  const TransportKind kind_;
  ParallelOpen open_;
  const std::string self_;
  const std::string base_;
};

}  // namespace

absl::Status OpenStageChannels(const v1::PrepareStageRequest& request, const StageState& stage,
                               Connector* connector, const AbortCause& aborted,
                               StageChannels* channels) {
  PD_ASSIGN_OR_RETURN(TransportKind kind, ParseTransport(stage.spec.transport));
  return StageOpener(request, stage, connector, aborted, kind).Open(channels);
}

absl::StatusOr<LinkMeasurement> ProbeLink(const v1::ProbeLinkRequest& request,
                                          const AbortCause& aborted, Connector* connector) {
  PD_ASSIGN_OR_RETURN(TransportKind kind, ParseTransport(request.transport()));
  const DataAddress peer = FromProto(request.peer());
  auto options = [&](const char* direction) {
    return ChannelOptions{request.name() + direction, request.secret(), 4, kProbeMessageBytes,
                          kProbeTimeout};
  };
  // The measuring side's outward channel is the answering side's inward one.
  const char* outward = request.measure() ? "/out" : "/back";
  const char* inward = request.measure() ? "/back" : "/out";
  std::unique_ptr<SendChannel> send;
  std::unique_ptr<ReceiveChannel> receive;
  ParallelOpen open(connector, aborted);
  open.Add([&]() -> absl::Status {
    PD_ASSIGN_OR_RETURN(send, connector->Connect(peer, kind, options(outward)));
    return absl::OkStatus();
  });
  open.Add([&]() -> absl::Status {
    PD_ASSIGN_OR_RETURN(receive, connector->Accept(options(inward)));
    return absl::OkStatus();
  });
  PD_RETURN_IF_ERROR(open.Join());
  const Duration deadline = SystemClock()->Now() + kProbeTimeout;
  if (request.measure()) return MeasureLink(*send, *receive, ProbeOptions{}, deadline);
  PD_RETURN_IF_ERROR(AnswerProbe(*receive, *send, deadline));
  return LinkMeasurement{};
}

absl::StatusOr<TransportKind> ParseTransport(const std::string& text) {
  if (text.empty()) return TransportKind::kAuto;
  for (TransportKind kind :
       {TransportKind::kAuto, TransportKind::kLocal, TransportKind::kShm, TransportKind::kTcp})
    if (ToString(kind) == text) return kind;
  return InvalidArgument("transport '{}' is unknown; it is one of auto, local, shm, tcp", text);
}

std::string TransportBetween(const DataAddress& self, const DataAddress& peer, TransportKind kind) {
  if (kind != TransportKind::kAuto) return ToString(kind);
  if (self.process_id == peer.process_id) return "local";
  return self.host_id == peer.host_id && !self.unix_name.empty() && !peer.unix_name.empty() ? "shm"
                                                                                            : "tcp";
}

}  // namespace pipedream
