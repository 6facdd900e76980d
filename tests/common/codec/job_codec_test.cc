#include "common/codec/job_codec.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

const std::string kHash(64, 'a');

// Every field differs from its default.
JobSpec FullSpec() {
  JobSpec spec;
  spec.name = "näme";
  spec.model = {"m.onnx", kHash, 17};
  spec.model_data = {{"w.bin", kHash, 1}, {"sub/v.bin", "", 2}};
  ColumnSpec image{"image", "x.gz", ColumnFormat::kIdx, 1.0 / 255, 0.5, 0, 0, 0, "", 8000};
  ColumnSpec text{"tokens", "t.txt", ColumnFormat::kText, 1, 0, 64, 32, 1, "vocab.txt", 5};
  spec.train_columns = {image, text};
  spec.evaluation_columns = {text};
  spec.data_files = {{"x.gz", kHash, int64_t{1} << 40}};
  spec.loss = {{LossTerm::Kind::kMse, "y", "t", 0.25}, {LossTerm::Kind::kOutput, "loss", "", -1}};
  spec.optimizer = {OptimizerKind::kAdamW, 0.9, true, 0.8, 0.7, 1e-6, 0.01, 5};
  spec.learning_rate = {LrScheduleKind::kCosine, 0.125, 10, 20, 0.5, 1000};
  spec.train_patterns = {"fc*"};
  spec.freeze_patterns = {"conv*", "bn?"};
  spec.epochs = 7;
  spec.batch_size = 128;
  spec.microbatches = 4;
  spec.shuffle = false;
  spec.seed = std::numeric_limits<uint64_t>::max();
  spec.ledger = false;
  spec.evaluate = false;
  spec.schedule = "1f1b";
  spec.stages = 3;
  spec.workers = 4;
  spec.max_replicas = 2;
  spec.warmup = {3, 2, 1};
  spec.transport = "tcp";
  spec.replica_lr = false;
  spec.start_timeout_s = 12.5;
  spec.on_nonfinite = OnNonFinite::kSkip;
  spec.chunks = 2;
  spec.schedule_table = "schedule 1f1b policy=flush\ns0.r0: F0 B0\n";
  spec.plan = Plan();
  spec.plan->schedule = "1f1b";
  spec.plan->stages.resize(1);
  spec.plan->stages[0].nodes = {0, 1};
  spec.plan->stages[0].workers = {"w"};
  spec.plan_file = "plan.json";
  spec.recompute = {true, {"conv3", "block*/add"}};
  return spec;
}

// Names of the fields that are unset in `message`, to show that a test left none out.
std::vector<std::string> UnsetFields(const google::protobuf::Message& message) {
  std::vector<std::string> unset;
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    bool set = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) > 0
                                    : message.GetReflection()->HasField(message, field);
    if (!set) unset.push_back(field->name());
  }
  return unset;
}

TEST(JobCodec, RoundTripsASpecWithEveryFieldSet) {
  JobSpec spec = FullSpec();
  v1::JobSpec message = ToProto(spec);
  // These are false on purpose: their default is true.
  EXPECT_THAT(UnsetFields(message),
              testing::UnorderedElementsAre("shuffle", "ledger", "evaluate", "replica_lr"));
  v1::JobSpec arrived;
  ASSERT_TRUE(arrived.ParseFromString(message.SerializeAsString()));
  ASSERT_OK_AND_ASSIGN(JobSpec back, FromProto(arrived));
  EXPECT_EQ(back, spec);
}

TEST(JobCodec, RoundTripsTheDefaults) {
  ASSERT_OK_AND_ASSIGN(JobSpec back, FromProto(ToProto(JobSpec())));
  EXPECT_EQ(back, JobSpec());
}

TEST(JobCodec, ReadsJobsStoredBeforeTheChoiceOfNonFiniteValues) {
  v1::JobSpec message = ToProto(JobSpec());
  message.clear_on_nonfinite();
  message.clear_recompute();
  ASSERT_OK_AND_ASSIGN(JobSpec back, FromProto(message));
  EXPECT_EQ(back, JobSpec());
}

TEST(JobCodec, CarriesATableOfAMegabyte) {
  JobSpec spec = FullSpec();
  spec.schedule_table.assign(kMaxScheduleTableBytes, 'x');
  ASSERT_OK_AND_ASSIGN(JobSpec back, FromProto(ToProto(spec)));
  EXPECT_EQ(back, spec);
}

TEST(JobCodec, WritesWordsForEnumerators) {
  v1::JobSpec message = ToProto(FullSpec());
  EXPECT_EQ(message.train_columns(0).format(), "idx");
  EXPECT_EQ(message.train_columns(1).format(), "text");
  EXPECT_EQ(message.loss(0).kind(), "mse");
  EXPECT_EQ(message.loss(1).kind(), "output");
  EXPECT_EQ(message.optimizer().kind(), "adamw");
  EXPECT_EQ(message.learning_rate().kind(), "cosine");
}

TEST(JobCodec, RoundTripsARunShape) {
  RunShape run{60001, 10000, 64, 3, 4, false, 99};
  ASSERT_OK_AND_ASSIGN(RunShape back, FromProto(ToProto(run)));
  EXPECT_EQ(back, run);
}

struct BadSpec {
  const char* name;
  std::function<void(v1::JobSpec*)> spoil;
  const char* message;
};

class JobCodecRefuses : public testing::TestWithParam<BadSpec> {};

TEST_P(JobCodecRefuses, AndNamesTheField) {
  v1::JobSpec message = ToProto(FullSpec());
  GetParam().spoil(&message);
  EXPECT_THAT(FromProto(message),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Cases, JobCodecRefuses,
    testing::Values(
        BadSpec{"negative_epochs", [](v1::JobSpec* m) { m->set_epochs(-3); },
                "JobSpec.epochs: found -3"},
        BadSpec{"huge_batch", [](v1::JobSpec* m) { m->set_batch_size(INT64_MAX); },
                "JobSpec.batch_size"},
        BadSpec{"negative_stages", [](v1::JobSpec* m) { m->set_stages(-1); }, "JobSpec.stages"},
        BadSpec{"negative_warmup", [](v1::JobSpec* m) { m->add_warmup(-1); }, "JobSpec.warmup"},
        BadSpec{"nan_rate", [](v1::JobSpec* m) { m->mutable_learning_rate()->set_base(kNan); },
                "LrSchedule.base: found nan"},
        BadSpec{"infinite_timeout", [](v1::JobSpec* m) { m->set_start_timeout_s(kInf); },
                "JobSpec.start_timeout_s: found inf"},
        BadSpec{"infinite_scale",
                [](v1::JobSpec* m) { m->mutable_train_columns(1)->set_scale(-kInf); },
                "JobSpec.train_columns[1]: ColumnSpec.scale: found -inf"},
        BadSpec{"nan_weight", [](v1::JobSpec* m) { m->mutable_loss(1)->set_weight(kNan); },
                "JobSpec.loss[1]: LossTerm.weight"},
        BadSpec{"negative_momentum",
                [](v1::JobSpec* m) { m->mutable_optimizer()->set_momentum(-0.5); },
                "OptimizerSpec.momentum: found -0.5"},
        BadSpec{"unknown_nonfinite", [](v1::JobSpec* m) { m->set_on_nonfinite("ignore"); },
                "JobSpec.on_nonfinite: unknown \"ignore\"; known are \"stop\", \"skip\""},
        BadSpec{"negative_chunks", [](v1::JobSpec* m) { m->set_chunks(-2); }, "JobSpec.chunks"},
        BadSpec{"endless_table",
                [](v1::JobSpec* m) {
                  m->set_schedule_table(std::string(kMaxScheduleTableBytes + 1, 'x'));
                },
                "JobSpec.schedule_table: found 1048577 bytes"},
        BadSpec{"endless_recompute",
                [](v1::JobSpec* m) {
                  for (int i = 0; i < 10'001; ++i) m->mutable_recompute()->add_checkpoints("x");
                },
                "JobSpec.recompute.checkpoints: found 10003 entries"},
        BadSpec{"unknown_optimizer",
                [](v1::JobSpec* m) { m->mutable_optimizer()->set_kind("lion"); },
                "OptimizerSpec.kind: unknown \"lion\"; known are \"sgd\", \"adam\", \"adamw\""},
        BadSpec{"unknown_loss", [](v1::JobSpec* m) { m->mutable_loss(0)->set_kind(""); },
                "LossTerm.kind: unknown \"\""},
        BadSpec{"unknown_format",
                [](v1::JobSpec* m) { m->mutable_train_columns(0)->set_format("csv"); },
                "ColumnSpec.format: unknown \"csv\""},
        BadSpec{"unknown_schedule_of_rate",
                [](v1::JobSpec* m) { m->mutable_learning_rate()->set_kind("poly"); },
                "LrSchedule.kind"},
        BadSpec{"hash_with_a_path",
                [](v1::JobSpec* m) { m->mutable_model()->set_sha256("../../etc/passwd"); },
                "FileReference.sha256"},
        BadSpec{"upper_case_hash",
                [](v1::JobSpec* m) { m->mutable_model()->set_sha256(std::string(64, 'A')); },
                "FileReference.sha256"},
        BadSpec{"negative_size", [](v1::JobSpec* m) { m->mutable_model()->set_bytes(-1); },
                "FileReference.bytes: found -1"},
        BadSpec{"zero_byte_in_path",
                [](v1::JobSpec* m) { m->mutable_model()->set_path(std::string("a\0b", 3)); },
                "FileReference.path: found a zero byte"},
        BadSpec{"endless_name", [](v1::JobSpec* m) { m->set_name(std::string(5000, 'x')); },
                "JobSpec.name: found 5000 bytes"},
        BadSpec{"endless_list",
                [](v1::JobSpec* m) {
                  for (int i = 0; i < 10'001; ++i) m->add_freeze_patterns("x");
                },
                "JobSpec.freeze_patterns: found 10003 entries"}),
    [](const auto& info) { return info.param.name; });

TEST(JobCodec, RefusesARunShapeThatDividesByZero) {
  v1::RunShape good = ToProto(RunShape{100, 0, 10, 1, 2, true, 0});
  ASSERT_OK(FromProto(good).status());
  v1::RunShape bad = good;
  bad.set_batch_size(0);
  EXPECT_THAT(FromProto(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("RunShape.batch_size")));
  bad = good;
  bad.set_microbatches(11);
  EXPECT_THAT(FromProto(bad), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("RunShape.microbatches: found 11")));
}

}  // namespace
}  // namespace pipedream
