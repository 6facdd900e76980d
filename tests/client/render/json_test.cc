#include "client/render/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "client/render/yaml.h"
#include "common/base/status.h"
#include "pipedream/v1/coordinator.pb.h"

namespace pipedream {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Json, FollowsTheConventions) {
  v1::JobEvent event;
  event.set_sequence(int64_t{1} << 53);
  event.set_time_us(1'700'000'000'000'000);
  event.set_level("info");
  event.set_source("worker-1");
  event.set_message("a \"quoted\" line");
  EXPECT_EQ(MessageJson("JobEvent", event), R"({
  "apiVersion": "pipedream/v1",
  "kind": "JobEvent",
  "sequence": 9007199254740992,
  "time": "2023-11-14T22:13:20Z",
  "level": "info",
  "source": "worker-1",
  "message": "a \"quoted\" line"
}
)");
}

TEST(Json, EnumeratorsLoseTheirPrefixAndTimesAreNullWhenUnset) {
  v1::Job job;
  job.set_id("j1");
  job.set_state(v1::JOB_STATE_RUNNING);
  std::string json = MessageJson("Job", job);
  EXPECT_THAT(json, HasSubstr("\"state\": \"RUNNING\""));
  EXPECT_THAT(json, HasSubstr("\"finished_time\": null"));
  EXPECT_THAT(json, HasSubstr("\"warnings\": []"));
  EXPECT_THAT(json, Not(HasSubstr("\"plan\"")));  // not set
  v1::Worker worker;
  worker.set_state(v1::Worker::STATE_LOST);
  EXPECT_THAT(MessageJson("Worker", worker), HasSubstr("\"state\": \"LOST\""));
}

TEST(Json, NonFiniteNumbersAreNull) {
  v1::LossPoint point;
  point.set_loss_sum(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(MessageJson("LossPoint", point), HasSubstr("\"loss_sum\": null"));
}

TEST(Json, ListsHaveItems) {
  v1::FileReference a, b;
  a.set_path("a");
  b.set_path("b");
  EXPECT_EQ(
      ListJson("FileList", {}),
      "{\n  \"apiVersion\": \"pipedream/v1\",\n  \"kind\": \"FileList\",\n  \"items\": []\n}\n");
  EXPECT_THAT(ListJson("FileList", {&a, &b}), HasSubstr("\"path\": \"b\""));
}

TEST(Json, ErrorsAreOneLine) {
  EXPECT_EQ(ErrorJson(WithReason(NotFound("no job {}", "x"), "GONE"), kExitNotFound),
            R"({"apiVersion":"pipedream/v1","kind":"Error","code":"NOT_FOUND","reason":"GONE",)"
            R"("message":"no job x","exit_code":4})"
            "\n");
}

TEST(Json, TimesAreRfc3339) {
  EXPECT_EQ(FormatTime(0), "");
  EXPECT_EQ(FormatTime(951'782'400'000'000), "2000-02-29T00:00:00Z");
  EXPECT_EQ(FormatTime(951'782'400'123'456), "2000-02-29T00:00:00.123Z");
}

TEST(Yaml, WritesBlocksAndQuotesWhatWouldBeMisread) {
  EXPECT_EQ(JsonToYaml(R"({"a":1,"b":"word","c":"yes","d":"1.5","e":"a: b","f":null,"g":true,
                           "h":[],"i":{},"j":["x",2],"k":{"l":"","m":0.5},
                           "n":[{"o":1,"p":2},{"o":3,"q":[4]}]})"),
            R"(a: 1
b: word
c: "yes"
d: "1.5"
e: "a: b"
f: null
g: true
h: []
i: {}
j:
- x
- 2
k:
  l: ""
  m: 0.5
n:
- o: 1
  p: 2
- o: 3
  q:
  - 4
)");
}

}  // namespace
}  // namespace pipedream
