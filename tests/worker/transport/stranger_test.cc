// What arrives from those who are no well-behaved worker: at the listening sockets, on an open tcp
// channel, and in shared memory.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/transport/channel_pairs.h"
#include "worker/transport/acceptor.h"
#include "worker/transport/handshake.h"
#include "worker/transport/shm/shm_channel.h"
#include "worker/transport/socket.h"
#include "worker/transport/tcp/frame.h"

namespace pipedream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class StrangerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(receiver_, Connector::Create({}));
    ASSERT_OK_AND_ASSIGN(sender_, Connector::Create({}));
    ASSERT_OK_AND_ASSIGN(Wake wake, Wake::Create());
    forever_ = std::make_unique<Cancellation>(std::move(wake));
  }

  UniqueFd Dial(TransportKind kind) {
    const DataAddress& a = receiver_->address();
    auto fd = kind == TransportKind::kShm ? DialUnix(a.unix_name, Soon(), *forever_)
                                          : DialTcp(a.host, a.port, Soon(), *forever_);
    EXPECT_OK(fd.status());
    return fd.ok() ? *std::move(fd) : UniqueFd();
  }

  // The receiver still does its work.
  void ExpectHealthy(TransportKind kind) {
    auto accepted = std::async(std::launch::async, [&] { return receiver_->Accept(options_); });
    EXPECT_OK(sender_->Connect(receiver_->address(), kind, options_));
    EXPECT_OK(accepted.get());
  }

  // Ends once the receiver has hung up; false if it has not.
  bool SeesHangUp(int fd) {
    char byte[256];
    while (PollUntil(fd, POLLIN, Soon(), *forever_).ok()) {
      ssize_t n = recv(fd, byte, sizeof byte, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return true;
    }
    return false;
  }

  // A channel whose sender is this test, speaking the protocol by hand.
  void OpenByHand() {
    auto accepted = std::async(std::launch::async, [&] { return receiver_->Accept(options_); });
    by_hand_ = Dial(TransportKind::kTcp);
    ASSERT_OK(SendNow(by_hand_.get(), EncodeHello({TransportKind::kTcp, options_})));
    UniqueFd none;
    ASSERT_OK(ReadReply(by_hand_.get(), &none, Soon(), *forever_));
    ASSERT_OK(SendNow(by_hand_.get(), std::string(1, kConfirmByte)));
    ASSERT_OK_AND_ASSIGN(channel_, accepted.get());
  }
  void Say(const FrameHeader& header, const std::string& payload = "") {
    FrameHeaderBytes bytes = EncodeFrameHeader(header);
    ASSERT_OK(SendNow(by_hand_.get(), std::string(bytes.data(), bytes.size()) + payload));
  }
  // The channel's error, after `delivered` messages.
  absl::Status Failure(int delivered) {
    for (int64_t i = 0;; ++i) {
      if (!channel_->Wait(kLong)) return DeadlineExceeded("nothing happened");
      PD_RETURN_IF_ERROR(channel_->TryReceive({MessageKind::kActivation, i}).status());
      if (i >= delivered) return Internal("message {} came", i);
      channel_->Release();
    }
  }

  ChannelOptions options_{"c", "secret", 2, 64, kLong};
  std::unique_ptr<Connector> receiver_;
  std::unique_ptr<Connector> sender_;
  std::unique_ptr<Cancellation> forever_;
  UniqueFd by_hand_;
  std::unique_ptr<ReceiveChannel> channel_;
};

class StrangerAtEverySocket : public StrangerTest,
                              public testing::WithParamInterface<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(Every, StrangerAtEverySocket,
                         testing::Values(TransportKind::kShm, TransportKind::kTcp), KindName);

TEST_P(StrangerAtEverySocket, RandomBytesAreHungUpOn) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    UniqueFd fd = Dial(GetParam());
    std::string bytes(1 + random() % 5000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    SendNow(fd.get(), bytes).IgnoreError();  // it may hang up before it has all
    EXPECT_TRUE(SeesHangUp(fd.get()));
  }
  ExpectHealthy(GetParam());
}

TEST_P(StrangerAtEverySocket, AlmostRightGreetingsAreHungUpOn) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const std::string good = EncodeHello({GetParam(), options_});
  for (int round = 0; round < 200; ++round) {
    std::string bytes = good;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    UniqueFd fd = Dial(GetParam());
    SendNow(fd.get(), bytes).IgnoreError();
    // Some are asked for more, or parked under another name: no answer is due.
  }
  ExpectHealthy(GetParam());
}

TEST_P(StrangerAtEverySocket, SilentConnectionsDoNotCrowdOutWorkers) {
  std::vector<UniqueFd> silent;
  for (size_t i = 0; i < kMaxStrangers + 20; ++i) silent.push_back(Dial(GetParam()));
  ExpectHealthy(GetParam());
  // The oldest made room.
  EXPECT_TRUE(SeesHangUp(silent.front().get()));
}

TEST_P(StrangerAtEverySocket, ParkedDiallersAreLimited) {
  std::vector<UniqueFd> parked;
  ChannelOptions other = options_;
  other.name = "never accepted";
  for (size_t i = 0; i <= kMaxParked; ++i) {
    parked.push_back(Dial(GetParam()));
    ASSERT_OK(WriteAll(parked.back().get(), EncodeHello({GetParam(), other}), Soon(), *forever_));
  }
  // Exactly one too many, and it is told so.
  int refused = 0;
  while (refused == 0) {
    for (UniqueFd& fd : parked) {
      if (!HungUp(fd.get())) continue;
      ++refused;
      UniqueFd none;
      EXPECT_THAT(ReadReply(fd.get(), &none, Soon(), *forever_),
                  StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("never accepted")));
    }
  }
  EXPECT_EQ(refused, 1);
  // Once they have gone there is room again.
  parked.clear();
  ExpectHealthy(GetParam());
}

TEST_F(StrangerTest, AnotherProtocolVersionIsToldSo) {
  std::string hello = EncodeHello({TransportKind::kTcp, options_});
  hello[4] = 9;
  UniqueFd fd = Dial(TransportKind::kTcp);
  ASSERT_OK(SendNow(fd.get(), hello));
  UniqueFd none;
  EXPECT_THAT(ReadReply(fd.get(), &none, Soon(), *forever_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("version 9"), HasSubstr("version 1"))));
}

TEST_F(StrangerTest, DiallerMayComeFirst) {
  by_hand_ = Dial(TransportKind::kTcp);
  ASSERT_OK(SendNow(by_hand_.get(), EncodeHello({TransportKind::kTcp, options_})));
  // One thread hears all: once a later connection is refused, the earlier one is parked.
  UniqueFd later = Dial(TransportKind::kTcp);
  ASSERT_OK(SendNow(later.get(), "nonsense"));
  ASSERT_TRUE(SeesHangUp(later.get()));
  auto accepted = std::async(std::launch::async, [&] { return receiver_->Accept(options_); });
  UniqueFd none;
  ASSERT_OK(ReadReply(by_hand_.get(), &none, Soon(), *forever_));
  ASSERT_OK(SendNow(by_hand_.get(), std::string(1, kConfirmByte)));
  ASSERT_OK_AND_ASSIGN(channel_, accepted.get());
  Say({{MessageKind::kActivation, 0}, false, 3}, "abc");
  ASSERT_TRUE(channel_->Wait(kLong));
  ASSERT_OK_AND_ASSIGN(auto message, channel_->TryReceive({MessageKind::kActivation, 0}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(message->data()), message->size()), "abc");
}

TEST_F(StrangerTest, DiallerThatLeavesHalfWayIsForgotten) {
  auto accepted = std::async(std::launch::async, [&] { return receiver_->Accept(options_); });
  {
    UniqueFd fd = Dial(TransportKind::kTcp);
    ASSERT_OK(SendNow(fd.get(), EncodeHello({TransportKind::kTcp, options_})));
    UniqueFd none;
    ASSERT_OK(ReadReply(fd.get(), &none, Soon(), *forever_));
  }
  EXPECT_OK(sender_->Connect(receiver_->address(), TransportKind::kTcp, options_));
  EXPECT_OK(accepted.get());
}

TEST_F(StrangerTest, TcpRefusesMessagesThatDoNotFit) {
  OpenByHand();
  Say({{MessageKind::kActivation, 0}, false, 65});
  EXPECT_THAT(Failure(0), StatusIs(absl::StatusCode::kUnavailable,
                                   AllOf(HasSubstr("channel c"), HasSubstr("65 bytes"))));
}

TEST_F(StrangerTest, TcpRefusesMoreMessagesThanSlots) {
  OpenByHand();
  for (int64_t i = 0; i < 3; ++i) Say({{MessageKind::kActivation, i}, false, 0});
  // None is released before the third has come: the peer hangs up then.
  ASSERT_TRUE(SeesHangUp(by_hand_.get()));
  EXPECT_THAT(Failure(2), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("more messages")));
}

TEST_F(StrangerTest, TcpRefusesWhatIsNoFrame) {
  OpenByHand();
  Say({{MessageKind::kActivation, 0}, false, 1}, "x");
  ASSERT_OK(SendNow(by_hand_.get(), std::string(24, 'z')));
  EXPECT_THAT(Failure(1), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("protocol")));
}

TEST_F(StrangerTest, TcpDeliversWholeMessagesOnly) {
  OpenByHand();
  Say({{MessageKind::kActivation, 0}, false, 2}, "ab");
  Say({{MessageKind::kActivation, 1}, false, 2}, "a");
  by_hand_.Reset();
  EXPECT_THAT(Failure(1), StatusIs(absl::StatusCode::kUnavailable,
                                   AllOf(HasSubstr("gone"), HasSubstr("middle of a message"))));
}

class SharedMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(region_, ShmRegion::Create("c", 2, 64));
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    ours_.Reset(ends[0]);
    theirs_.Reset(ends[1]);
    ASSERT_OK_AND_ASSIGN(peer_, ShmRegion::Map(UniqueFd(dup(region_->fd())), "c", 2, 64));
  }
  std::unique_ptr<ShmRegion> region_;  // of the end under test
  std::unique_ptr<ShmRegion> peer_;    // the same memory, in wrong hands
  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST_F(SharedMemoryTest, ReceiverRefusesMoreMessagesThanSlots) {
  auto channel = MakeShmReceive(std::move(region_), std::move(ours_));
  peer_->header().committed.store(3);
  EXPECT_THAT(channel->TryReceive({}),
              StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("corrupt"), HasSubstr("3"))));
  peer_->header().committed.store(1);
  EXPECT_THAT(channel->TryReceive({}), StatusIs(absl::StatusCode::kInternal, HasSubstr("corrupt")));
}

TEST_F(SharedMemoryTest, ReceiverRefusesMessagesThatDoNotFit) {
  auto channel = MakeShmReceive(std::move(region_), std::move(ours_));
  peer_->slot(0) = {0, 65, 0};
  peer_->header().committed.store(1);
  EXPECT_THAT(channel->TryReceive({}), StatusIs(absl::StatusCode::kInternal, HasSubstr("65")));
}

TEST_F(SharedMemoryTest, SenderRefusesReleasesOfWhatItHasNotSent) {
  auto channel = MakeShmSend(std::move(region_), std::move(ours_));
  peer_->header().released.store(1);
  EXPECT_THAT(channel->TryAcquire(), StatusIs(absl::StatusCode::kInternal, HasSubstr("corrupt")));
}

TEST_F(SharedMemoryTest, NonsenseBesideTheMemoryCountsAsGone) {
  auto channel = MakeShmSend(std::move(region_), std::move(ours_));
  ASSERT_OK(SendNow(theirs_.get(), "hello"));
  while (channel->TryAcquire().ok()) {  // until the watcher has read it
  }
  EXPECT_THAT(channel->TryAcquire(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("gone")));
}

TEST_F(SharedMemoryTest, MapRefusesOtherSizesAndLayouts) {
  EXPECT_THAT(ShmRegion::Map(UniqueFd(dup(region_->fd())), "c", 200, 64),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("bytes; expected")));
  // The same number of pages, another layout.
  EXPECT_THAT(ShmRegion::Map(UniqueFd(dup(region_->fd())), "c", 2, 128),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("layout")));
  EXPECT_THAT(ShmRegion::Map(UniqueFd(), "c", 2, 64),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("channel c")));
}

TEST_F(SharedMemoryTest, MapRefusesMemoryThatCouldShrink) {
  UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), lseek(region_->fd(), 0, SEEK_END)), 0);
  EXPECT_THAT(ShmRegion::Map(std::move(file), "c", 2, 64),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("sealed")));
}

}  // namespace
}  // namespace pipedream
