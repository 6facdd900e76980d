#include "worker/transport/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "tests/support/status_matchers.h"
#include "tests/worker/transport/channel_pairs.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

class ProbeTest : public testing::TestWithParam<TransportKind> {
 protected:
  absl::StatusOr<LinkMeasurement> Measure(const ProbeOptions& options, size_t bytes) {
    ChannelFactory factory(GetParam());
    PD_ASSIGN_OR_RETURN(LocalChannel there, factory.Open("there", 2, bytes));
    PD_ASSIGN_OR_RETURN(LocalChannel back, factory.Open("back", 2, bytes));
    std::thread answerer([&] { answered_ = AnswerProbe(*there.receive, *back.send, Soon()); });
    auto result = MeasureLink(*there.send, *back.receive, options, Soon());
    answerer.join();
    return result;
  }
  absl::Status answered_;
};

INSTANTIATE_TEST_SUITE_P(Every, ProbeTest,
                         testing::Values(TransportKind::kLocal, TransportKind::kShm,
                                         TransportKind::kTcp),
                         KindName);

TEST_P(ProbeTest, MeasuresWithinItsBounds) {
  ProbeOptions options;
  options.latency_rounds = 10;
  options.max_bytes = 1 << 20;
  ASSERT_OK_AND_ASSIGN(LinkMeasurement link, Measure(options, 100'000));
  EXPECT_OK(answered_);
  EXPECT_GT(link.latency_s, 0);
  EXPECT_GT(link.bandwidth_bytes_per_s, 0);
  EXPECT_GE(link.bytes, 65536 + 1);
  EXPECT_LE(link.bytes, options.max_bytes);
}

TEST_P(ProbeTest, WorksWithSlotsOfOneByteAndNoTime) {
  ProbeOptions options;
  options.max_time = Duration::zero();
  options.max_bytes = 0;
  ASSERT_OK_AND_ASSIGN(LinkMeasurement link, Measure(options, 1));
  EXPECT_OK(answered_);
  EXPECT_EQ(link.bytes, 2);  // one round trip, one burst of a byte
}

TEST(Probe, EndsAtItsDeadlineWhenNobodyAnswers) {
  LocalChannel there = MakeLocalChannel(2, 64);
  LocalChannel back = MakeLocalChannel(2, 64);
  EXPECT_THAT(MeasureLink(*there.send, *back.receive, {}, SystemClock()->Now() + kShort),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("link probe")));
  LocalChannel silent = MakeLocalChannel(2, 64);
  EXPECT_THAT(AnswerProbe(*silent.receive, *back.send, SystemClock()->Now() + kShort),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("link probe")));
}

TEST(Probe, ReportsTheChannelsError) {
  LocalChannel there = MakeLocalChannel(2, 64);
  LocalChannel back = MakeLocalChannel(2, 64);
  there.receive.reset();
  EXPECT_THAT(MeasureLink(*there.send, *back.receive, {}, Soon()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("gone")));
}

TEST(Probe, SeesThePacingOfALink) {
  ConnectorOptions paced;
  paced.pacing_bytes_per_s = 20e6;
  ASSERT_OK_AND_ASSIGN(auto slow, Connector::Create(paced));
  ASSERT_OK_AND_ASSIGN(auto fast, Connector::Create({}));
  auto open = [](Connector* from, Connector* to, const char* name) {
    ChannelOptions options{name, "s", 2, 1 << 18, kLong};
    auto accepted = std::async(std::launch::async, [=] { return to->Accept(options); });
    auto send = from->Connect(to->address(), TransportKind::kTcp, options);
    return std::make_pair(std::move(send), accepted.get());
  };
  auto there = open(slow.get(), fast.get(), "there");
  auto back = open(fast.get(), slow.get(), "back");
  ASSERT_OK(there.first.status());
  ASSERT_OK(back.first.status());
  ASSERT_OK(there.second.status());
  ASSERT_OK(back.second.status());
  absl::Status answered;
  std::thread answerer([&] { answered = AnswerProbe(**there.second, **back.first, Soon()); });
  auto link = MeasureLink(**there.first, **back.second, {}, Soon());
  answerer.join();
  ASSERT_OK(link.status());
  EXPECT_OK(answered);
  // Only an upper bound: a busy machine may well be slower than the limit.
  EXPECT_LT(link->bandwidth_bytes_per_s, 2 * paced.pacing_bytes_per_s);
}

}  // namespace
}  // namespace pipedream
