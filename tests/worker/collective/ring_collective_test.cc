#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/transport/channel_pairs.h"
#include "worker/collective/collective.h"
#include "worker/transport/connector.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

using Members = std::vector<std::unique_ptr<Collective>>;
template <typename T>
using Data = std::vector<std::vector<T>>;  // by member

struct Case {
  TransportKind kind;
  int size;
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}{}", ToString(info.param.kind), info.param.size);
}

absl::StatusOr<Members> MakeMembers(ChannelFactory* factory, int size, size_t slots, size_t bytes) {
  auto count = static_cast<size_t>(size);
  std::vector<LocalChannel> edges;  // edge r leads from member r to member r + 1
  for (size_t r = 0; size > 1 && r < count; ++r) {
    PD_ASSIGN_OR_RETURN(LocalChannel edge, factory->Open(fmt::format("ring/{}", r), slots, bytes));
    edges.push_back(std::move(edge));
  }
  Members members;
  for (size_t r = 0; r < count; ++r) {
    std::unique_ptr<SendChannel> next;
    std::unique_ptr<ReceiveChannel> previous;
    if (size > 1) {
      next = std::move(edges[r].send);
      previous = std::move(edges[(r + count - 1) % count].receive);
    }
    members.push_back(
        MakeRingCollective(static_cast<int>(r), size, std::move(next), std::move(previous)));
  }
  return members;
}

absl::Status Finish(Collective* member) {
  while (true) {
    PD_ASSIGN_OR_RETURN(bool done, member->Advance());
    if (done) return absl::OkStatus();
    member->Wait(kLong);
  }
}

// Each member on a thread of its own; the first error.
template <typename T>
absl::Status SumOnThreads(Members* members, Data<T>* data) {
  std::vector<absl::Status> results(members->size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < members->size(); ++r) {
    threads.emplace_back([&, r] {
      results[r] = (*members)[r]->StartSum(std::span<T>((*data)[r]));
      if (results[r].ok()) results[r] = Finish((*members)[r].get());
    });
  }
  for (std::thread& t : threads) t.join();
  for (const absl::Status& result : results) PD_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

template <typename T>
Data<T> RandomData(int size, size_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Data<T> data(static_cast<size_t>(size), std::vector<T>(length));
  for (auto& member : data) {
    for (T& x : member) x = static_cast<T>(uniform(random));
  }
  return data;
}

// Compares with a sum in double precision, and the members with each other bit by bit.
template <typename T>
void ExpectSums(const Data<T>& before, const Data<T>& after, double tolerance) {
  for (size_t i = 0; i < before[0].size(); ++i) {
    double expected = 0;
    double magnitude = 0;
    for (const auto& member : before) {
      expected += static_cast<double>(member[i]);
      magnitude += std::abs(static_cast<double>(member[i]));
    }
    ASSERT_NEAR(static_cast<double>(after[0][i]), expected, tolerance * magnitude)
        << "element " << i;
  }
  for (size_t r = 1; r < after.size(); ++r) {
    ASSERT_EQ(after[r].size(), after[0].size());
    if (after[0].empty()) continue;
    ASSERT_EQ(std::memcmp(after[r].data(), after[0].data(), after[0].size() * sizeof(T)), 0)
        << "member " << r << " differs from member 0";
  }
}

class RingCollectiveTest : public testing::TestWithParam<Case> {
 protected:
  // Several collectives, one after the other, over the same members.
  template <typename T>
  Data<T> Check(size_t slots, size_t slot_bytes, const std::vector<size_t>& lengths,
                double tolerance) {
    int size = GetParam().size;
    ChannelFactory factory(GetParam().kind);
    auto members = MakeMembers(&factory, size, slots, slot_bytes);
    EXPECT_OK(members.status());
    Data<T> data;
    if (!members.ok()) return data;
    unsigned seed = 17;
    for (size_t length : lengths) {
      SCOPED_TRACE(fmt::format("length {} seed {}", length, seed));
      Data<T> before = RandomData<T>(size, length, seed++);
      data = before;
      EXPECT_OK(SumOnThreads<T>(&*members, &data));
      ExpectSums<T>(before, data, tolerance);
    }
    return data;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Every, RingCollectiveTest,
    testing::Values(Case{TransportKind::kLocal, 1}, Case{TransportKind::kLocal, 2},
                    Case{TransportKind::kLocal, 3}, Case{TransportKind::kLocal, 4},
                    Case{TransportKind::kLocal, 5}, Case{TransportKind::kShm, 1},
                    Case{TransportKind::kShm, 2}, Case{TransportKind::kShm, 3},
                    Case{TransportKind::kShm, 4}, Case{TransportKind::kShm, 5},
                    Case{TransportKind::kTcp, 3}),
    CaseName);

TEST_P(RingCollectiveTest, SumsFloatsOfAnyLength) {
  // None, fewer than members, not divisible, several chunks per segment.
  Check<float>(2, 64, {0, 1, 2, 3, 4, 5, 16, 17, 1000, 1003}, 1e-6);
}

TEST_P(RingCollectiveTest, SumsDoublesOfAnyLength) {
  Check<double>(2, 64, {0, 1, 2, 3, 4, 5, 16, 17, 1000, 1003}, 1e-15);
}

TEST_P(RingCollectiveTest, WorksWithOneSlotOfOneElement) {
  Check<float>(1, sizeof(float), {0, 1, 7, 100}, 1e-6);
}

TEST_P(RingCollectiveTest, GivesTheSameBitsWhateverTheChunks) {
  Data<float> small = Check<float>(1, 12, {997}, 1e-6);
  Data<float> again = Check<float>(1, 12, {997}, 1e-6);
  Data<float> large = Check<float>(4, 1 << 16, {997}, 1e-6);
  ASSERT_FALSE(small.empty() || again.empty() || large.empty());
  EXPECT_EQ(std::memcmp(small[0].data(), again[0].data(), 997 * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(small[0].data(), large[0].data(), 997 * sizeof(float)), 0);
}

TEST_P(RingCollectiveTest, RunsOnOneThreadWithoutBlocking) {
  int size = GetParam().size;
  ChannelFactory factory(GetParam().kind);
  ASSERT_OK_AND_ASSIGN(Members members, MakeMembers(&factory, size, 2, 40));
  Data<float> before = RandomData<float>(size, 333, 5);
  Data<float> data = before;
  for (size_t r = 0; r < members.size(); ++r) {
    ASSERT_OK(members[r]->StartSum(std::span<float>(data[r])));
  }
  std::vector<bool> done(members.size());
  // In an odd order, and never waiting.
  for (size_t left = members.size(); left > 0;) {
    for (size_t r = members.size(); r-- > 0;) {
      if (done[r]) continue;
      ASSERT_OK_AND_ASSIGN(bool finished, members[r]->Advance());
      if (finished) --left;
      done[r] = finished;
    }
    std::this_thread::yield();
  }
  ExpectSums<float>(before, data, 1e-6);
}

TEST_P(RingCollectiveTest, AbortReachesEveryMember) {
  int size = GetParam().size;
  ChannelFactory factory(GetParam().kind);
  ASSERT_OK_AND_ASSIGN(Members members, MakeMembers(&factory, size, 1, 16));
  Data<float> data = RandomData<float>(size, 100, 5);
  std::vector<absl::Status> results(members.size());
  std::vector<std::thread> threads;
  // The last member never takes part, so the others wait for ever.
  for (size_t r = 0; r + 1 < members.size(); ++r) {
    threads.emplace_back([&, r] {
      results[r] = members[r]->StartSum(std::span<float>(data[r]));
      if (results[r].ok()) results[r] = Finish(members[r].get());
      members[r]->Abort(results[r]);  // as an executor does
    });
  }
  members.back()->Abort(absl::DataLossError("stage 1 failed"));
  for (std::thread& t : threads) t.join();
  for (size_t r = 0; r + 1 < members.size(); ++r) {
    EXPECT_THAT(results[r], StatusIs(absl::StatusCode::kDataLoss, HasSubstr("stage 1 failed")));
  }
  EXPECT_THAT(members.back()->Advance(), StatusIs(absl::StatusCode::kDataLoss, "stage 1 failed"));
  EXPECT_THAT(members.back()->StartSum(std::span<float>(data[0])),
              StatusIs(absl::StatusCode::kDataLoss, "stage 1 failed"));
}

TEST(RingCollective, AddsInRingOrder) {
  // Segment 0 of three members is (x0 + x1) + x2: 1e8 swallows 1, so the order shows.
  ChannelFactory factory(TransportKind::kLocal);
  ASSERT_OK_AND_ASSIGN(Members members, MakeMembers(&factory, 3, 2, 64));
  Data<float> data = {{1e8f, 1e8f, 1e8f}, {1, 1, 1}, {-1e8f, -1e8f, -1e8f}};
  ASSERT_OK(SumOnThreads<float>(&members, &data));
  // Segment 1: (x1 + x2) + x0 = 0; segment 2: (x2 + x0) + x1 = 1.
  EXPECT_THAT(data[0], testing::ElementsAre(0, 0, 1));
}

TEST(RingCollective, MembersOfDifferentLengthsAreToldSo) {
  ChannelFactory factory(TransportKind::kLocal);
  ASSERT_OK_AND_ASSIGN(Members members, MakeMembers(&factory, 2, 2, 64));
  Data<float> data = {std::vector<float>(8), std::vector<float>(6)};
  ASSERT_OK(members[0]->StartSum(std::span<float>(data[0])));
  ASSERT_OK(members[1]->StartSum(std::span<float>(data[1])));
  ASSERT_OK(members[0]->Advance().status());
  EXPECT_THAT(members[1]->Advance(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("same number of elements")));
}

TEST(RingCollective, RefusesSlotsThatHoldNoElementAndOverlappingStarts) {
  ChannelFactory factory(TransportKind::kLocal);
  ASSERT_OK_AND_ASSIGN(Members members, MakeMembers(&factory, 2, 2, 4));
  std::vector<double> doubles(4);
  EXPECT_THAT(members[0]->StartSum(std::span<double>(doubles)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 bytes")));
  std::vector<float> floats(4);
  EXPECT_OK(members[0]->StartSum(std::span<float>(floats)));
  EXPECT_THAT(members[0]->StartSum(std::span<float>(floats)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("in progress")));
}

}  // namespace
}  // namespace pipedream
