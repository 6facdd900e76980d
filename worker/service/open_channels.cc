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
constexpr Duration kCancelPollPeriod = std::chrono::milliseconds(20);
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
      changed_.WaitFor(mutex_, kCancelPollPeriod);
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

class ChannelOpener {
 public:
  ChannelOpener(const v1::PrepareStageRequest& request, const WorkerState& worker,
                Connector* connector, const AbortCause& aborted, TransportKind kind)
      : request_(request),
        worker_(worker),
        program_(worker.program),
        connector_(connector),
        kind_(kind),
        open_(connector, aborted),
        base_(fmt::format("{}/{}/", request.job().job_id(), request.job().attempt())) {}

  absl::Status Open(WorkerChannels* channels) {
    channels->stages.resize(worker_.stages.size());
    for (size_t chunk = 0; chunk < worker_.stages.size(); ++chunk)
      OpenStage(*worker_.stages[chunk], static_cast<int>(chunk), channels);
    Ring replicas = OpenRing(ReplicaGroup(program_.shape, program_.stage), "replicas");
    Ring ties = OpenRing(TieGroup(program_.shape), "ties");
    Ring workers = OpenRing(NormGroup(program_.shape), "workers");
    PD_RETURN_IF_ERROR(open_.Join());
    channels->replicas = Finish(std::move(replicas));
    channels->ties = Finish(std::move(ties));
    channels->workers = Finish(std::move(workers));
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

  void OpenStage(const StageState& stage, int chunk, WorkerChannels* channels) {
    const StagePeers peers = PeersOf(program_, chunk);
    const Peer self{stage.stage, stage.replica};
    StageChannels& own = channels->stages[chunk];
    for (Peer peer : peers.activation_to) {
      const std::string name = Edge(Name(self), Name(peer), "activation");
      const size_t bytes = stage.activation_out_bytes.of(peer.stage);
      if (IsHere(peer)) {
        OpenInside(self, peer, bytes, &own.activation_out[peer],
                   &channels->stages[ChunkOf(program_.shape, peer.stage)].activation_in[self]);
      } else {
        Send(Address(peer), name, Slots(self, peer), bytes, &own.activation_out[peer]);
      }
    }
    for (Peer peer : peers.activation_from) {
      if (IsHere(peer)) continue;
      Receive(Edge(Name(peer), Name(self), "activation"), Slots(self, peer),
              stage.activation_in_bytes.of(peer.stage), &own.activation_in[peer]);
    }
    for (Peer peer : peers.gradient_to) {
      const std::string name = Edge(Name(self), Name(peer), "gradient");
      const size_t bytes = stage.gradient_out_bytes.of(peer.stage);
      if (IsHere(peer)) {
        OpenInside(self, peer, bytes, &own.gradient_out[peer],
                   &channels->stages[ChunkOf(program_.shape, peer.stage)].gradient_in[self]);
      } else {
        Send(Address(peer), name, Slots(self, peer), bytes, &own.gradient_out[peer]);
      }
    }
    for (Peer peer : peers.gradient_from) {
      if (IsHere(peer)) continue;
      Receive(Edge(Name(peer), Name(self), "gradient"), Slots(self, peer),
              stage.gradient_in_bytes.of(peer.stage), &own.gradient_in[peer]);
    }
  }

  // Two stages of this worker need no transport.
  void OpenInside(const Peer& self, const Peer& peer, size_t bytes,
                  std::unique_ptr<SendChannel>* send, std::unique_ptr<ReceiveChannel>* receive) {
    LocalChannel channel = MakeLocalChannel(Slots(self, peer), std::max<size_t>(bytes, 64));
    *send = std::move(channel.send);
    *receive = std::move(channel.receive);
  }

  bool IsHere(const Peer& peer) const { return WorkerOf(peer) == Self(); }
  Peer Self() const { return {program_.stage, program_.replica}; }
  // As workers are named: by their first stage.
  Peer WorkerOf(const Peer& peer) const {
    return {StagesOn(program_.shape, DeviceOf(program_.shape, peer.stage)).front(), peer.replica};
  }
  size_t Slots(const Peer& self, const Peer& peer) const {
    return static_cast<size_t>(ChannelSlots(program_.channel_slots, self.stage, peer.stage));
  }

  static std::string Name(Peer peer) { return PlaceName(peer.stage.value(), peer.replica.value()); }
  std::string Edge(const std::string& from, const std::string& to, std::string_view what) const {
    return fmt::format("{}{}>{}/{}", base_, from, to, what);
  }

  absl::StatusOr<DataAddress> Address(Peer peer) const {
    const Peer worker = WorkerOf(peer);
    for (const v1::StageMember& member : request_.members())
      if (member.stage() == worker.stage.value() && member.replica() == worker.replica.value())
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
    const auto self = std::ranges::find(members, Self());
    if (self == members.end() || members.size() < 2) return ring;
    ring.size = static_cast<int>(members.size());
    ring.rank = static_cast<int>(self - members.begin());
    ring.ends = std::make_unique<Ends>();
    const Peer next = members[(ring.rank + 1) % ring.size];
    const Peer previous = members[(ring.rank + ring.size - 1) % ring.size];
    Send(Address(next), Edge(Name(Self()), Name(next), what), kRingSlots, kRingMessageBytes,
         &ring.ends->send);
    Receive(Edge(Name(previous), Name(Self()), what), kRingSlots, kRingMessageBytes,
            &ring.ends->receive);
    return ring;
  }

  static std::unique_ptr<Collective> Finish(Ring ring) {
    if (ring.size == 1) return nullptr;
    return MakeRingCollective(ring.rank, ring.size, std::move(ring.ends->send),
                              std::move(ring.ends->receive));
  }

  const v1::PrepareStageRequest& request_;
  const WorkerState& worker_;
  const StageProgram& program_;
  Connector* const connector_;
  const TransportKind kind_;
  ParallelOpen open_;
  const std::string base_;
};

}  // namespace

absl::Status OpenChannels(const v1::PrepareStageRequest& request, const WorkerState& worker,
                          Connector* connector, const AbortCause& aborted,
                          WorkerChannels* channels) {
  PD_ASSIGN_OR_RETURN(TransportKind kind, ParseTransport(worker.stages[0]->spec.transport));
  return ChannelOpener(request, worker, connector, aborted, kind).Open(channels);
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
