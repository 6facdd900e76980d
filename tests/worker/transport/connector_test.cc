#include "worker/transport/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/transport/channel_pairs.h"
#include "worker/transport/rendezvous.h"
#include "worker/transport/wake.h"

namespace pipedream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const MessageKey kFirst{MessageKind::kActivation, 0};

ChannelOptions Options(const std::string& name, Duration timeout = kLong) {
  return {name, "secret", 2, 64, timeout};
}

using Accepted = absl::StatusOr<std::unique_ptr<ReceiveChannel>>;
using Connected = absl::StatusOr<std::unique_ptr<SendChannel>>;

class ConnectorTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(sender_, Connector::Create({}));
    ASSERT_OK_AND_ASSIGN(receiver_, Connector::Create({}));
  }
  std::future<Accepted> AcceptAsync(const ChannelOptions& options) {
    return std::async(std::launch::async, [this, options] { return receiver_->Accept(options); });
  }
  std::future<Connected> ConnectAsync(TransportKind kind, const ChannelOptions& options) {
    return std::async(std::launch::async, [this, kind, options] {
      return sender_->Connect(receiver_->address(), kind, options);
    });
  }
  // Opens a channel by `peer` and carries a message; whether it was read where it was written.
  absl::StatusOr<bool> SharesMemory(const DataAddress& peer, TransportKind kind) {
    auto accepted = AcceptAsync(Options("c"));
    auto send = sender_->Connect(peer, kind, Options("c"));
    auto receive =
        send.ok() ? accepted.get() : AbortAndGet(&accepted, receiver_.get(), send.status());
    PD_RETURN_IF_ERROR(send.status());
    PD_RETURN_IF_ERROR(receive.status());
    PD_ASSIGN_OR_RETURN(auto slot, (*send)->TryAcquire());
    PD_RETURN_IF_ERROR((*send)->Commit(kFirst, 8));
    if (!(*receive)->Wait(kLong)) return DeadlineExceeded("no message");
    PD_ASSIGN_OR_RETURN(auto message, (*receive)->TryReceive(kFirst));
    return message->data() == slot->data();
  }

  std::unique_ptr<Connector> sender_;
  std::unique_ptr<Connector> receiver_;
};

class ConnectorOfEveryKind : public ConnectorTest,
                             public testing::WithParamInterface<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(Every, ConnectorOfEveryKind,
                         testing::Values(TransportKind::kLocal, TransportKind::kShm,
                                         TransportKind::kTcp, TransportKind::kAuto),
                         KindName);

TEST_F(ConnectorTest, ReportsWhereItCanBeReached) {
  const DataAddress& a = sender_->address();
  const DataAddress& b = receiver_->address();
  EXPECT_EQ(a.host, "127.0.0.1");
  EXPECT_GT(a.port, 0);
  EXPECT_NE(a.port, b.port);
  EXPECT_NE(a.unix_name, b.unix_name);
  EXPECT_EQ(a.host_id, b.host_id);
  EXPECT_EQ(a.process_id, b.process_id);
}

TEST_F(ConnectorTest, NamesAnAddressThatIsTaken) {
  ConnectorOptions options;
  options.port = sender_->address().port;
  EXPECT_THAT(Connector::Create(options),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(fmt::format("127.0.0.1:{}", options.port))));
}

TEST_P(ConnectorOfEveryKind, OpensManyChannelsAtOnceInAnyOrder) {
  constexpr int kChannels = 12;
  std::vector<std::future<Accepted>> accepted;
  std::vector<std::future<Connected>> connected;
  // Half of them accept first, the others dial first.
  for (int i = 0; i < kChannels; ++i) {
    ChannelOptions options = Options(fmt::format("channel {}", i));
    if (i % 2 == 0) accepted.push_back(AcceptAsync(options));
    connected.push_back(ConnectAsync(GetParam(), options));
    if (i % 2 == 1) accepted.push_back(AcceptAsync(options));
  }
  std::vector<std::unique_ptr<SendChannel>> open;
  for (int i = 0; i < kChannels; ++i) {
    ASSERT_OK_AND_ASSIGN(auto send, connected[static_cast<size_t>(i)].get());
    ASSERT_OK(send->TryAcquire().status());
    ASSERT_OK(send->Commit({MessageKind::kActivation, i}, 1));
    open.push_back(std::move(send));
  }
  for (int i = 0; i < kChannels; ++i) {
    ASSERT_OK_AND_ASSIGN(auto receive, accepted[static_cast<size_t>(i)].get());
    ASSERT_TRUE(receive->Wait(kLong));
    ASSERT_OK_AND_ASSIGN(auto message, receive->TryReceive({MessageKind::kActivation, i}));
    EXPECT_TRUE(message.has_value());
  }
}

TEST_P(ConnectorOfEveryKind, TellsBothEndsOfDifferentSizes) {
  ChannelOptions larger = Options("c");
  larger.slots = 3;
  larger.max_message_bytes = 128;
  auto accepted = AcceptAsync(Options("c"));
  auto both = AllOf(HasSubstr("3 slots of 128 bytes"), HasSubstr("2 slots of 64 bytes"));
  EXPECT_THAT(sender_->Connect(receiver_->address(), GetParam(), larger),
              StatusIs(absl::StatusCode::kFailedPrecondition, both));
  EXPECT_THAT(accepted.get(), StatusIs(absl::StatusCode::kFailedPrecondition, both));
}

TEST_P(ConnectorOfEveryKind, RefusesAWrongSecretAndGoesOnWaiting) {
  ChannelOptions wrong = Options("c");
  wrong.secret = "guess1";
  auto accepted = AcceptAsync(Options("c"));
  auto refused = sender_->Connect(receiver_->address(), GetParam(), wrong);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kPermissionDenied,
                                AllOf(HasSubstr("channel c"), Not(HasSubstr("guess1")))));
  EXPECT_OK(sender_->Connect(receiver_->address(), GetParam(), Options("c")));
  EXPECT_OK(accepted.get());
}

TEST_P(ConnectorOfEveryKind, ReceiverSaysWhomItRefusedWhenItsTimeIsUp) {
  ChannelOptions wrong = Options("c");
  wrong.secret = "";
  auto refused = ConnectAsync(GetParam(), wrong);
  // Until the dialler has come during one of the waits.
  absl::Status accepted;
  do {
    accepted = receiver_->Accept(Options("c", kShort)).status();
    ASSERT_THAT(accepted, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("channel c")));
  } while (accepted.ToString().find("another secret") == std::string::npos);
  EXPECT_THAT(refused.get(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("channel c")));
}

TEST_P(ConnectorOfEveryKind, NamesTheChannelThatNobodyAccepts) {
  EXPECT_THAT(sender_->Connect(receiver_->address(), GetParam(), Options("lonely", kShort)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("channel lonely")));
  // And what was left behind does not get in the way.
  auto accepted = AcceptAsync(Options("lonely"));
  EXPECT_OK(sender_->Connect(receiver_->address(), GetParam(), Options("lonely")));
  EXPECT_OK(accepted.get());
}

TEST_F(ConnectorTest, NamesTheChannelThatNobodyDials) {
  EXPECT_THAT(receiver_->Accept(Options("lonely", kShort)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("channel lonely")));
}

TEST_P(ConnectorOfEveryKind, AbortEndsHandshakesInProgress) {
  auto accepted = AcceptAsync(Options("a"));
  auto connected = ConnectAsync(GetParam(), Options("b"));
  absl::Status cause = absl::CancelledError("job 1 is cancelled");
  EXPECT_THAT(AbortAndGet(&accepted, receiver_.get(), cause),
              StatusIs(absl::StatusCode::kCancelled, "job 1 is cancelled"));
  EXPECT_THAT(AbortAndGet(&connected, sender_.get(), cause),
              StatusIs(absl::StatusCode::kCancelled, "job 1 is cancelled"));
  // The next attempt is not affected.
  EXPECT_OK(SharesMemory(receiver_->address(), GetParam()).status());
}

TEST(Rendezvous, RefusesToAnnounceOneNameTwiceAtATime) {
  ASSERT_OK_AND_ASSIGN(Wake wake, Wake::Create());
  Cancellation receiver(std::move(wake));
  Rendezvous rendezvous;
  ASSERT_OK(rendezvous.Announce("c", &receiver));
  EXPECT_THAT(rendezvous.Announce("c", &receiver),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("channel c")));
  rendezvous.Withdraw("c");
  EXPECT_OK(rendezvous.Announce("c", &receiver));
}

TEST_F(ConnectorTest, RefusesOptionsThatCannotBe) {
  ChannelOptions nameless = Options("");
  EXPECT_THAT(receiver_->Accept(nameless),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  ChannelOptions slotless = Options("c");
  slotless.slots = 0;
  EXPECT_THAT(sender_->Connect(receiver_->address(), TransportKind::kTcp, slotless),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 slots")));
  ChannelOptions huge = Options("c");
  huge.max_message_bytes = ~size_t{0};
  EXPECT_THAT(receiver_->Accept(huge),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("channel c")));
}

TEST_F(ConnectorTest, AutoIsLocalWithinOneProcess) {
  DataAddress peer = receiver_->address();
  peer.unix_name = "nobody listens here";
  ASSERT_OK_AND_ASSIGN(bool shared, SharesMemory(peer, TransportKind::kAuto));
  EXPECT_TRUE(shared);
}

TEST_F(ConnectorTest, AutoIsShmWithinOneHost) {
  DataAddress peer = receiver_->address();
  peer.process_id = "another";
  peer.port = 1;  // tcp would be refused
  ASSERT_OK_AND_ASSIGN(bool shared, SharesMemory(peer, TransportKind::kAuto));
  EXPECT_FALSE(shared);  // the same memory, mapped twice
}

TEST_F(ConnectorTest, AutoIsTcpBetweenHosts) {
  DataAddress peer = receiver_->address();
  peer.process_id = "another";
  peer.host_id = "another";
  EXPECT_OK(SharesMemory(peer, TransportKind::kAuto).status());
  peer.port = 1;
  EXPECT_THAT(SharesMemory(peer, TransportKind::kAuto),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1:1")));
}

TEST_F(ConnectorTest, AutoFallsBackToTcpWithoutSharedMemory) {
  DataAddress peer = receiver_->address();
  peer.process_id = "another";
  peer.unix_name = "nobody listens here";
  EXPECT_OK(SharesMemory(peer, TransportKind::kAuto).status());
  EXPECT_THAT(SharesMemory(peer, TransportKind::kShm),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nobody listens here")));
}

TEST_F(ConnectorTest, OffersNoSharedMemoryWhenToldNotTo) {
  ConnectorOptions options;
  options.offer_shm = false;
  ASSERT_OK_AND_ASSIGN(receiver_, Connector::Create(options));
  EXPECT_EQ(receiver_->address().unix_name, "");
  EXPECT_THAT(sender_->Connect(receiver_->address(), TransportKind::kShm, Options("c")),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("channel c")));
  DataAddress peer = receiver_->address();
  peer.process_id = "another";
  EXPECT_OK(SharesMemory(peer, TransportKind::kAuto).status());
}

TEST_F(ConnectorTest, ChannelsOutliveTheirConnectors) {
  for (TransportKind kind : {TransportKind::kLocal, TransportKind::kShm, TransportKind::kTcp}) {
    SCOPED_TRACE(ToString(kind));
    ASSERT_OK_AND_ASSIGN(auto sender, Connector::Create({}));
    ASSERT_OK_AND_ASSIGN(receiver_, Connector::Create({}));
    auto accepted = AcceptAsync(Options("c"));
    ASSERT_OK_AND_ASSIGN(auto send, sender->Connect(receiver_->address(), kind, Options("c")));
    ASSERT_OK_AND_ASSIGN(auto receive, accepted.get());
    sender.reset();
    receiver_.reset();
    ASSERT_OK(send->TryAcquire().status());
    ASSERT_OK(send->Commit(kFirst, 8));
    ASSERT_TRUE(receive->Wait(kLong));
    EXPECT_OK(receive->TryReceive(kFirst));
  }
}

}  // namespace
}  // namespace pipedream
