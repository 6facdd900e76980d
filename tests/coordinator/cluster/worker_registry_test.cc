#include "coordinator/cluster/worker_registry.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

WorkerInfo Info(std::string id = "") {
  return {.id = std::move(id),
          .device_kind = "cpu",
          .memory_bytes = 1 << 30,
          .version = "1",
          .control_address = "127.0.0.1:1",
          .data_address = {.host = "127.0.0.1", .port = 2, .host_id = "h"}};
}

Duration Seconds(double s) { return FromSeconds(s); }

TEST(WorkerRegistry, GivesIdsThatWereNeverUsed) {
  WorkerRegistry registry({});
  registry.Reserve("worker-7");
  registry.Reserve("worker-x");
  ASSERT_OK_AND_ASSIGN(auto first, registry.Register(Info(), Seconds(0), 0));
  EXPECT_EQ(first.id, "worker-8");
  ASSERT_OK_AND_ASSIGN(auto chosen, registry.Register(Info("worker-20"), Seconds(0), 0));
  EXPECT_EQ(chosen.id, "worker-20");
  ASSERT_OK_AND_ASSIGN(auto next, registry.Register(Info(), Seconds(0), 0));
  EXPECT_EQ(next.id, "worker-21");
}

TEST(WorkerRegistry, LeaseRunsOutWithoutHeartbeatsAndIsReportedOnce) {
  WorkerRegistry registry({.lease = Seconds(3)});
  ASSERT_OK_AND_ASSIGN(auto a, registry.Register(Info("a"), Seconds(0), 0));
  ASSERT_OK_AND_ASSIGN(auto b, registry.Register(Info("b"), Seconds(0), 0));
  EXPECT_OK(registry.Heartbeat("a", a.incarnation, Seconds(2), 2));
  EXPECT_THAT(registry.Expire(Seconds(3)), IsEmpty());
  EXPECT_THAT(registry.Expire(Seconds(3.1)), ElementsAre("b"));
  EXPECT_THAT(registry.Expire(Seconds(3.2)), IsEmpty());
  EXPECT_TRUE(registry.Find("b")->lost);
  EXPECT_THAT(registry.Heartbeat("b", b.incarnation, Seconds(3.3), 3),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("register anew")));
  EXPECT_FALSE(registry.Find("a")->lost);
}

TEST(WorkerRegistry, ANewRegistrationTakesTheIdOver) {
  WorkerRegistry registry({});
  ASSERT_OK_AND_ASSIGN(auto old, registry.Register(Info("a"), Seconds(0), 0));
  EXPECT_FALSE(old.replaced_live);
  ASSERT_OK_AND_ASSIGN(auto fresh, registry.Register(Info("a"), Seconds(1), 1));
  EXPECT_TRUE(fresh.replaced_live);
  EXPECT_THAT(registry.Heartbeat("a", old.incarnation, Seconds(1), 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("incarnation")));
  EXPECT_OK(registry.Heartbeat("a", fresh.incarnation, Seconds(1), 1));
}

TEST(WorkerRegistry, LostWorkersAreForgottenLater) {
  WorkerRegistry registry({.lease = Seconds(3), .remember_lost = Seconds(60)});
  ASSERT_OK(registry.Register(Info("a"), Seconds(0), 0));
  registry.Expire(Seconds(10));
  EXPECT_EQ(registry.List().size(), 1u);
  registry.Expire(Seconds(64));
  EXPECT_EQ(registry.List().size(), 0u);
}

TEST(WorkerRegistry, RefusesWorkersThatCannotBeReached) {
  WorkerRegistry registry({.max_workers = 1});
  struct Case {
    WorkerInfo info;
    std::string message;
  };
  std::vector<Case> cases(6, {Info("a"), ""});
  cases[0].info.id = "a b";
  cases[0].message = "worker.id 'a b'";
  cases[1].info.control_address = "nowhere";
  cases[1].message = "control_address 'nowhere'";
  cases[2].info.data_address.port = 70000;
  cases[2].message = "data_address.port 70000";
  cases[3].info.memory_bytes = -1;
  cases[3].message = "memory_bytes -1";
  cases[4].info.device_kind = "";
  cases[4].message = "device_kind";
  cases[5].info.speed = -1;
  cases[5].message = "worker.speed -1";
  for (const Case& c : cases)
    EXPECT_THAT(registry.Register(c.info, Seconds(0), 0),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  ASSERT_OK(registry.Register(Info("a"), Seconds(0), 0));
  EXPECT_THAT(registry.Register(Info("b"), Seconds(0), 0),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("limit")));
}

}  // namespace
}  // namespace pipedream
