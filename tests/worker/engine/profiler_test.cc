#include "worker/engine/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/job/stage_flow.h"
#include "examples/models/onnx_writer.h"
#include "tests/support/small_job.h"
#include "tests/support/small_models.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/profile_pieces.h"

namespace pipedream {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;

constexpr int64_t kBatch = 8;

class ProfilerTest : public testing::Test {
 protected:
  ProfilerTest() { backend_->SetThreads(1); }

  static RunShape Run() {
    RunShape run;
    run.train_samples = run.batch_size = kBatch;
    return run;
  }

  absl::StatusOr<Profile> ProfileWith(Device* device, const ProfilerOptions& options) {
    return ProfileModel(model_, job_.Spec(), Run(), *backend_, device, options);
  }
  Profile Measure(int64_t memory_bytes = 0) {
    const std::unique_ptr<Device> device = MakeCpuDevice(1, memory_bytes);
    ProfilerOptions options;
    options.budget_s = 0.05;
    absl::StatusOr<Profile> profile = ProfileWith(device.get(), options);
    EXPECT_OK(profile.status());
    EXPECT_EQ(device->allocated_bytes(), 0);
    return profile.ok() ? *std::move(profile) : Profile();
  }
  void UseModel(const std::string& path) {
    auto model = Model::Load(path);
    ASSERT_OK(model.status());
    model_ = *model;
  }
  // Convolutions of equal shapes, and one that differs.
  void UseAlikeLayers() {
    OnnxWriter w("alike", {1, 8, 8}, 3);
    std::string x = w.Relu("relu0", w.Conv("conv0", "x", 1, 16, 3, 1, 1, true));
    for (int i = 1; i <= 4; ++i)
      x = w.Relu("relu" + std::to_string(i),
                 w.Conv("conv" + std::to_string(i), x, 16, 16, 3, 1, 1, true));
    x = w.Linear("fc", w.Flatten("flatten", x), 16 * 64, 5);
    const std::string path = job_.folder() + "/alike.onnx";
    ASSERT_TRUE(w.Write(x, 5, path));
    UseModel(path);
  }

  SmallJob job_;
  std::shared_ptr<const Model> model_ = job_.model();
  std::unique_ptr<KernelBackend> backend_ = MakeOneDnnBackend();
};

double Sum(const Profile& profile) {
  double sum = 0;
  for (const NodeProfile& node : profile.nodes) sum += node.compute_s();
  return sum;
}

const NodeProfile& Find(const Profile& profile, const std::string& name) {
  const auto it = std::ranges::find(profile.nodes, name, &NodeProfile::name);
  EXPECT_NE(it, profile.nodes.end()) << name;
  return *it;
}

// What the nodes take in memory to be run together.
int64_t BytesOf(const Profile& profile) {
  int64_t bytes = 0, workspace = 0;
  for (const NodeProfile& node : profile.nodes) {
    bytes += (2 + profile.optimizer_state_tensors) * node.parameter_bytes + node.state_bytes +
             node.saved_bytes;
    workspace = std::max(workspace, node.workspace_bytes);
  }
  for (const ProfileTensor& tensor : profile.tensors) bytes += tensor.kept_bytes;
  return bytes + workspace;
}

// All but the times.
Profile SizesOnly(Profile profile) {
  for (NodeProfile& node : profile.nodes)
    node.forward_s = node.input_gradient_s = node.weight_gradient_s = node.optimizer_s = 0;
  profile.step_s = 0;
  return profile;
}

TEST_F(ProfilerTest, NodesAddUpToAStep) {
  const Profile profile = Measure();
  EXPECT_GT(profile.step_s, 0);
  EXPECT_NEAR(Sum(profile), profile.step_s, 1e-9 * profile.step_s);
  const NodeProfile& conv = Find(profile, "conv2");
  EXPECT_GT(conv.forward_s, 0);
  EXPECT_GT(conv.input_gradient_s, 0);
  EXPECT_GT(conv.weight_gradient_s, 0);
  EXPECT_GT(conv.optimizer_s, 0);
  EXPECT_EQ(Find(profile, "conv1").input_gradient_s, 0);  // nobody wants the data's
}

TEST_F(ProfilerTest, AlikeNodesTakeAlikeTimes) {
  UseAlikeLayers();
  const Profile profile = Measure();
  // The first of them gets what conv0 leaves, the last what the matrix product wants.
  const NodeProfile& two = Find(profile, "conv2");
  const NodeProfile& three = Find(profile, "conv3");
  EXPECT_DOUBLE_EQ(two.forward_s, three.forward_s);
  EXPECT_DOUBLE_EQ(two.input_gradient_s, three.input_gradient_s);
  EXPECT_DOUBLE_EQ(two.weight_gradient_s, three.weight_gradient_s);
  EXPECT_DOUBLE_EQ(two.optimizer_s, three.optimizer_s);
}

TEST_F(ProfilerTest, PiecesHaveTheSizesOfTheWhole) {
  UseAlikeLayers();
  const Profile whole = Measure();
  const Profile pieces = Measure(BytesOf(whole) * 6 / 10);
  EXPECT_EQ(SizesOnly(pieces), SizesOnly(whole));
  EXPECT_NEAR(Sum(pieces), pieces.step_s, 1e-9 * pieces.step_s);
  for (const NodeProfile& node : pieces.nodes) {
    if (node.op == "Reshape") continue;  // a new name, or a copy where the layout is another
    EXPECT_EQ(node.forward_s > 0, Find(whole, node.name).forward_s > 0) << node.name;
    EXPECT_EQ(node.input_gradient_s > 0, Find(whole, node.name).input_gradient_s > 0) << node.name;
    EXPECT_EQ(node.weight_gradient_s > 0, Find(whole, node.name).weight_gradient_s > 0)
        << node.name;
  }
}

TEST_F(ProfilerTest, PiecesMayPartTheReadersOfAParameter) {
  UseModel(WriteTiedModel(job_.folder()));
  const Profile whole = Measure();
  EXPECT_EQ(whole.ties.size(), 1u);
  EXPECT_EQ(SizesOnly(Measure(BytesOf(whole) * 8 / 10)), SizesOnly(whole));
}

TEST_F(ProfilerTest, SaysWhenNotEvenANodeFits) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1, 500);
  EXPECT_THAT(ProfileWith(device.get(), {}),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr("not enough")));
}

TEST_F(ProfilerTest, StopsWhenCancelled) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1, 0);
  ProfilerOptions options;
  options.cancelled = [] { return true; };
  EXPECT_THAT(ProfileWith(device.get(), options),
              StatusIs(absl::StatusCode::kCancelled, testing::HasSubstr("cancelled")));
}

TEST_F(ProfilerTest, SlowdownIsInAllTimes) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1, 0);
  ProfilerOptions options;
  options.budget_s = 0.05;
  options.slowdown = 1000;
  const absl::StatusOr<Profile> profile = ProfileWith(device.get(), options);
  ASSERT_OK(profile.status());
  EXPECT_NEAR(Sum(*profile), profile->step_s, 1e-9 * profile->step_s);
  EXPECT_GT(profile->step_s, 100 * Measure().step_s);
}

class PiecesTest : public ProfilerTest {
 protected:
  PiecesTest() {
    UseAlikeLayers();
    auto training = BindTraining(*model_, job_.Spec(), kBatch);
    EXPECT_OK(training.status());
    training_ = *std::move(training);
    sizes_.nodes.resize(training_.forward_nodes);
  }
  TrainingGraph training_;
  Profile sizes_;
};

TEST_F(PiecesTest, WhatFitsStaysWhole) {
  EXPECT_THAT(ChoosePieces(training_, sizes_, 1, int64_t{1} << 40), Each(0));
}

TEST_F(PiecesTest, AsFewAsFitAndFewBytesCross) {
  // Two nodes that do not fit together: one cut, anywhere between them.
  for (int n : {0, 5}) sizes_.nodes[n].parameter_bytes = 1 << 20;
  const std::vector<int> pieces = ChoosePieces(training_, sizes_, 1, (1 << 20) * 5);
  EXPECT_EQ(pieces.front(), 0);
  EXPECT_EQ(pieces.back(), 1);
  EXPECT_TRUE(std::ranges::is_sorted(pieces));
  EXPECT_EQ(pieces[5], 1);
}

TEST_F(PiecesTest, WhatIsTooLargeIsAPieceOfItsOwn) {
  for (NodeProfile& node : sizes_.nodes) node.parameter_bytes = 100;
  const std::vector<int> pieces = ChoosePieces(training_, sizes_, 1, 1);
  std::vector<int> each(pieces.size());
  std::iota(each.begin(), each.end(), 0);
  EXPECT_EQ(pieces, each);
}

}  // namespace
}  // namespace pipedream
