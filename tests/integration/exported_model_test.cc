// The trained model in the hands of others: ONNX's own checker, and ONNX Runtime.
//
// ONNX Runtime is used through node and the package onnxruntime-node; the folder node_modules that
// holds it is PIPEDREAM_ONNXRUNTIME or build/onnxruntime/node_modules. Without it that test is
// skipped; onnxruntime/run.mjs says how to install it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <onnx/checker.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/base/file.h"
#include "tests/integration/cluster.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

// BatchNorm and Dropout are in the model, so that the inference form matters.
class ExportedModelTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cluster_.Start(Patient(3)));
    ASSERT_OK_AND_ASSIGN(
        job_, cluster_.Train({"--model", small_.model_path(), "--data", small_.folder(), "--loss",
                              "cross_entropy", "--batch-size", "8", "--epochs", "4", "--lr", "0.05",
                              "--stages", "3", "--max-replicas", "1", "--start-timeout", "30"}));
    CommandResult exported = cluster_.Run({"export", job_.id(), "--onnx", exported_path()});
    ASSERT_EQ(exported.code, 0) << exported.err;
  }
  std::string exported_path() const { return cluster_.folder() + "/trained.onnx"; }

  SmallJob small_{{.evaluation_samples = 60}};
  TestCluster cluster_;
  v1::Job job_;
};

TEST_F(ExportedModelTest, IsAcceptedByOnnxsChecker) {
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(exported_path(), 1 << 24));
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  EXPECT_NO_THROW(onnx::checker::check_model(model));
}

// node_modules with onnxruntime-node, or empty.
std::string OnnxRuntime() {
  const char* named = std::getenv("PIPEDREAM_ONNXRUNTIME");
  std::string folder =
      named != nullptr ? named : PIPEDREAM_SOURCE_DIR "/build/onnxruntime/node_modules";
  return std::filesystem::exists(folder + "/onnxruntime-node") ? folder : "";
}

struct Score {
  double loss_sum = 0;
  int64_t correct = 0;
};

// Cross-entropy and right answers of logits[samples, classes], in double.
Score ScoreOf(const std::vector<float>& logits, const std::vector<int64_t>& labels) {
  const size_t classes = logits.size() / labels.size();
  Score score;
  for (size_t i = 0; i < labels.size(); ++i) {
    const float* row = logits.data() + i * classes;
    const float* largest = std::max_element(row, row + classes);
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(row[c]) - *largest);
    score.loss_sum += std::log(sum) + *largest - row[labels[i]];
    score.correct += largest - row == labels[i];
  }
  return score;
}

class OnnxRuntimeTest : public ExportedModelTest {
 protected:
  void SetUp() override {
    if (OnnxRuntime().empty())
      GTEST_SKIP() << "onnxruntime-node is not installed; "
                      "tests/integration/onnxruntime/run.mjs says how to";
    if (RunProgram("/usr/bin/env", {"node", "--version"}).code != 0)
      GTEST_SKIP() << "node is not installed";
    ExportedModelTest::SetUp();
  }
};

TEST_F(OnnxRuntimeTest, ScoresTheModelAsTheJobReported) {
  const std::string logits_path = cluster_.folder() + "/logits.bin";
  CommandResult ran =
      RunProgram("/usr/bin/env",
                 {"node", PIPEDREAM_SOURCE_DIR "/tests/integration/onnxruntime/run.mjs",
                  OnnxRuntime(), exported_path(), small_.folder() + "/test-x.npy", logits_path});
  ASSERT_EQ(ran.code, 0) << ran.err;

  const int64_t samples = small_.evaluation()->rows();
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(logits_path, 1 << 20));
  std::vector<float> logits(bytes.size() / sizeof(float));
  std::memcpy(logits.data(), bytes.data(), logits.size() * sizeof(float));
  ASSERT_EQ(static_cast<int64_t>(logits.size()), samples * 5);
  std::vector<int64_t> rows(samples), labels(samples);
  for (int64_t i = 0; i < samples; ++i) rows[i] = i;
  small_.evaluation()->Find("y")->Gather(rows, DataType::kInt64,
                                         reinterpret_cast<std::byte*>(labels.data()));
  Score score = ScoreOf(logits, labels);

  ASSERT_EQ(job_.progress().evaluations_size(), 4);
  const v1::EvaluationResult& reported = job_.progress().evaluations(3);
  ASSERT_EQ(reported.samples(), samples);
  EXPECT_NEAR(score.loss_sum / samples, reported.loss_sum() / samples, 1e-4);
  EXPECT_EQ(score.correct, reported.correct());
}

}  // namespace
}  // namespace pipedream
