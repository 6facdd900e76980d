// What every transport promises (worker/transport/channel.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/transport/channel_pairs.h"
#include "worker/transport/channel.h"

namespace pipedream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Content that depends on message and place; known without running a channel.
std::byte ContentAt(int64_t message, size_t i) {
  return static_cast<std::byte>((static_cast<uint64_t>(message) * 131 + i * 7 + (i >> 8)) & 0xff);
}

class ChannelContract : public testing::TestWithParam<TransportKind> {
 protected:
  void Open(size_t slots, size_t bytes) {
    ASSERT_OK_AND_ASSIGN(channel_, factory_.Open("job-1/0/s0r0>s1r0/activation", slots, bytes));
  }

  absl::Status Send(const MessageKey& key, size_t bytes) {
    while (true) {
      PD_ASSIGN_OR_RETURN(auto slot, channel_.send->TryAcquire());
      if (slot.has_value()) {
        for (size_t i = 0; i < bytes; ++i) (*slot)[i] = ContentAt(key.index, i);
        return channel_.send->Commit(key, bytes);
      }
      if (!channel_.send->Wait(kLong)) return DeadlineExceeded("no slot");
    }
  }

  // Waits for the message and leaves it held.
  absl::StatusOr<std::span<const std::byte>> Receive(const MessageKey& key) {
    while (true) {
      PD_ASSIGN_OR_RETURN(auto message, channel_.receive->TryReceive(key));
      if (message.has_value()) return *message;
      if (!channel_.receive->Wait(kLong)) return DeadlineExceeded("no message");
    }
  }

  absl::Status ReceiveAndCheck(const MessageKey& key, size_t bytes) {
    PD_ASSIGN_OR_RETURN(auto message, Receive(key));
    if (message.size() != bytes) return Internal("{} bytes", message.size());
    for (size_t i = 0; i < bytes; ++i) {
      if (message[i] != ContentAt(key.index, i)) return Internal("byte {} differs", i);
    }
    channel_.receive->Release();
    return absl::OkStatus();
  }

  ChannelFactory factory_{GetParam()};
  LocalChannel channel_;
};

INSTANTIATE_TEST_SUITE_P(Every, ChannelContract,
                         testing::Values(TransportKind::kLocal, TransportKind::kShm,
                                         TransportKind::kTcp),
                         KindName);

TEST_P(ChannelContract, DeliversInOrder) {
  Open(3, 100);
  for (int64_t i = 0; i < 3; ++i) ASSERT_OK(Send(Activation(i), 10 + static_cast<size_t>(i)));
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_OK(ReceiveAndCheck(Activation(i), 10 + static_cast<size_t>(i)));
  }
}

TEST_P(ChannelContract, KnowsItsMessageSizeAtBothEnds) {
  Open(1, 12345);
  EXPECT_EQ(channel_.send->max_message_bytes(), 12345u);
  EXPECT_EQ(channel_.receive->max_message_bytes(), 12345u);
}

TEST_P(ChannelContract, NamesBothKeysWhenTheyDiffer) {
  Open(2, 16);
  ASSERT_OK(Send({MessageKind::kGradient, 7}, 16));
  ASSERT_TRUE(channel_.receive->Wait(kLong));
  EXPECT_THAT(channel_.receive->TryReceive(Activation(8)),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("gradient 7"), HasSubstr("activation 8"))));
  // The message is not lost.
  EXPECT_OK(ReceiveAndCheck({MessageKind::kGradient, 7}, 16));
}

TEST_P(ChannelContract, SlotsAreAlignedAndOfFullSize) {
  Open(2, 100);
  for (int64_t i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(auto slot, channel_.send->TryAcquire());
    ASSERT_TRUE(slot.has_value());
    EXPECT_EQ(slot->size(), 100u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slot->data()) % 64, 0u);
    ASSERT_OK(channel_.send->Commit(Activation(i), 100));
  }
  for (int64_t i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(auto message, Receive(Activation(i)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(message.data()) % 64, 0u);
    channel_.receive->Release();
  }
}

TEST_P(ChannelContract, ViewsStayTheSameUntilGivenBack) {
  Open(2, 64);
  ASSERT_OK_AND_ASSIGN(auto slot, channel_.send->TryAcquire());
  ASSERT_OK_AND_ASSIGN(auto again, channel_.send->TryAcquire());
  EXPECT_EQ(slot->data(), again->data());
  ASSERT_OK(Send(Activation(0), 64));
  ASSERT_OK_AND_ASSIGN(auto held, Receive(Activation(0)));
  ASSERT_OK(Send(Activation(1), 64));
  ASSERT_OK_AND_ASSIGN(auto still, Receive(Activation(0)));
  EXPECT_EQ(held.data(), still.data());
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(held[i], ContentAt(0, i));
}

TEST_P(ChannelContract, AdmitsExactlyAsManyMessagesAsSlots) {
  Open(3, 8);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(channel_.send->Wait(Duration::zero()));
    ASSERT_OK(Send(Activation(i), 8));
  }
  // All delivered, none released.
  ASSERT_OK(Receive(Activation(0)).status());
  ASSERT_OK_AND_ASSIGN(auto slot, channel_.send->TryAcquire());
  EXPECT_FALSE(slot.has_value());
  EXPECT_FALSE(channel_.send->Wait(kShort));
  channel_.receive->Release();
  ASSERT_TRUE(channel_.send->Wait(kLong));
  ASSERT_OK(Send(Activation(3), 8));
  ASSERT_OK_AND_ASSIGN(slot, channel_.send->TryAcquire());
  EXPECT_FALSE(slot.has_value());
  for (int64_t i = 1; i < 4; ++i) ASSERT_OK(ReceiveAndCheck(Activation(i), 8));
}

TEST_P(ChannelContract, ReceiveMayComeFirst) {
  Open(2, 32);
  ASSERT_OK_AND_ASSIGN(auto nothing, channel_.receive->TryReceive(Activation(0)));
  EXPECT_FALSE(nothing.has_value());
  absl::Status received;
  std::thread receiver([&] { received = ReceiveAndCheck(Activation(0), 32); });
  EXPECT_OK(Send(Activation(0), 32));
  receiver.join();
  EXPECT_OK(received);
}

TEST_P(ChannelContract, WaitTimesOutWhereThereIsNothing) {
  Open(1, 8);
  EXPECT_FALSE(channel_.receive->Wait(Duration::zero()));
  EXPECT_FALSE(channel_.receive->Wait(kShort));
  EXPECT_FALSE(channel_.receive->Wait(-kShort));
}

TEST_P(ChannelContract, CarriesEmptyAndFullMessages) {
  constexpr size_t kBytes = 3'000'001;  // more than a socket buffer takes at once, and odd
  Open(2, kBytes);
  ASSERT_OK(Send(Activation(0), 0));
  ASSERT_OK(Send(Activation(1), kBytes));
  ASSERT_OK(ReceiveAndCheck(Activation(0), 0));
  ASSERT_OK(ReceiveAndCheck(Activation(1), kBytes));
}

TEST_P(ChannelContract, CarriesMessagesWithoutAnyRoom) {
  Open(2, 0);
  for (int64_t i = 0; i < 5; ++i) {
    ASSERT_OK(Send(Activation(i), 0));
    ASSERT_OK(ReceiveAndCheck(Activation(i), 0));
  }
}

TEST_P(ChannelContract, RefusesToCommitTooMuchOrWithoutASlot) {
  Open(1, 8);
  EXPECT_THAT(channel_.send->Commit(Activation(5), 1),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("activation 5")));
  ASSERT_OK(channel_.send->TryAcquire().status());
  EXPECT_THAT(channel_.send->Commit(Activation(5), 9),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("9 bytes")));
}

TEST_P(ChannelContract, CarriesManyMessagesThroughFewSlots) {
  constexpr int64_t kMessages = 3000;
  Open(2, 1000);
  auto size_of = [](int64_t i) { return static_cast<size_t>(i * 37 % 1001); };
  absl::Status sent;
  std::thread sender([&] {
    for (int64_t i = 0; i < kMessages && sent.ok(); ++i) sent = Send(Activation(i), size_of(i));
  });
  absl::Status received;
  for (int64_t i = 0; i < kMessages && received.ok(); ++i) {
    received = ReceiveAndCheck(Activation(i), size_of(i));
  }
  sender.join();
  EXPECT_OK(sent);
  EXPECT_OK(received);
}

TEST_P(ChannelContract, AbortAtTheSenderWakesBothEnds) {
  Open(1, 8);
  std::thread receiver([&] { EXPECT_TRUE(channel_.receive->Wait(kLong)); });
  channel_.send->Abort(absl::DataLossError("stage 3 failed"));
  receiver.join();
  EXPECT_THAT(channel_.send->TryAcquire(), StatusIs(absl::StatusCode::kDataLoss, "stage 3 failed"));
  EXPECT_THAT(channel_.receive->TryReceive(Activation(0)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("stage 3 failed")));
}

TEST_P(ChannelContract, AbortAtTheReceiverWakesBothEnds) {
  Open(1, 8);
  ASSERT_OK(Send(Activation(0), 8));
  std::thread sender([&] { EXPECT_TRUE(channel_.send->Wait(kLong)); });
  channel_.receive->Abort(WithReason(absl::DataLossError("stage 3 failed"), "NON_FINITE_LOSS"));
  sender.join();
  auto acquired = channel_.send->TryAcquire();
  EXPECT_THAT(acquired, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("stage 3 failed")));
  EXPECT_EQ(ReasonOf(acquired.status()), "NON_FINITE_LOSS");
  EXPECT_THAT(channel_.receive->TryReceive(Activation(0)),
              StatusIs(absl::StatusCode::kDataLoss, "stage 3 failed"));
}

TEST_P(ChannelContract, AbortFromAnotherThreadWakesItsOwnEnd) {
  Open(1, 8);
  std::thread aborter([&] { channel_.receive->Abort(absl::CancelledError("cancelled")); });
  EXPECT_TRUE(channel_.receive->Wait(kLong));
  aborter.join();
  EXPECT_THAT(channel_.receive->TryReceive(Activation(0)),
              StatusIs(absl::StatusCode::kCancelled, "cancelled"));
}

TEST_P(ChannelContract, FirstCauseWins) {
  Open(1, 8);
  channel_.send->Abort(absl::DataLossError("first"));
  channel_.send->Abort(absl::CancelledError("second"));
  ASSERT_TRUE(channel_.receive->Wait(kLong));
  channel_.receive->Abort(absl::CancelledError("third"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(channel_.send->TryAcquire(), StatusIs(absl::StatusCode::kDataLoss, "first"));
    EXPECT_THAT(channel_.receive->TryReceive(Activation(0)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("first")));
  }
  EXPECT_TRUE(channel_.send->Wait(kLong));
  EXPECT_THAT(channel_.send->Commit(Activation(0), 0),
              StatusIs(absl::StatusCode::kDataLoss, "first"));
}

TEST_P(ChannelContract, DeliversWhatArrivedBeforeTheSenderWent) {
  constexpr size_t kBytes = 2'000'000;  // cannot all be in socket buffers
  Open(3, kBytes);
  for (int64_t i = 0; i < 3; ++i) ASSERT_OK(Send(Activation(i), kBytes));
  channel_.send.reset();
  for (int64_t i = 0; i < 3; ++i) ASSERT_OK(ReceiveAndCheck(Activation(i), kBytes));
  ASSERT_TRUE(channel_.receive->Wait(kLong));
  EXPECT_THAT(channel_.receive->TryReceive(Activation(3)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is gone")));
}

TEST_P(ChannelContract, SenderLearnsThatTheReceiverWent) {
  Open(2, 8);
  ASSERT_OK(Send(Activation(0), 8));
  ASSERT_OK(Send(Activation(1), 8));
  std::thread waiter([&] { EXPECT_TRUE(channel_.send->Wait(kLong)); });
  channel_.receive.reset();
  waiter.join();
  EXPECT_THAT(channel_.send->TryAcquire(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is gone")));
}

TEST_P(ChannelContract, GoneAndAbortedAreNotMixedUp) {
  Open(2, 8);
  ASSERT_OK(Send(Activation(0), 8));
  channel_.send.reset();
  ASSERT_OK(ReceiveAndCheck(Activation(0), 8));
  ASSERT_TRUE(channel_.receive->Wait(kLong));
  channel_.receive->Abort(absl::CancelledError("too late"));
  EXPECT_THAT(channel_.receive->TryReceive(Activation(1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("s0r0>s1r0")));
}

TEST_P(ChannelContract, ManyChannelsOfOnePairOfWorkersDoNotMix) {
  constexpr size_t kChannels = 8;
  std::vector<LocalChannel> channels;
  for (size_t i = 0; i < kChannels; ++i) {
    ASSERT_OK_AND_ASSIGN(LocalChannel one, factory_.Open(fmt::format("c{}", i), 1, 8));
    channels.push_back(std::move(one));
  }
  for (size_t i = 0; i < kChannels; ++i) {
    channel_ = std::move(channels[i]);
    ASSERT_OK(Send(Activation(static_cast<int64_t>(i)), 8));
    ASSERT_OK(ReceiveAndCheck(Activation(static_cast<int64_t>(i)), 8));
  }
}

TEST(MakeLocalChannel, ReadsWhereItWasWritten) {
  LocalChannel channel = MakeLocalChannel(2, 64);
  ASSERT_OK_AND_ASSIGN(auto slot, channel.send->TryAcquire());
  ASSERT_OK(channel.send->Commit(Activation(0), 64));
  ASSERT_OK_AND_ASSIGN(auto message, channel.receive->TryReceive(Activation(0)));
  EXPECT_EQ(message->data(), slot->data());
}

}  // namespace
}  // namespace pipedream
