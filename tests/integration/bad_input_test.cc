// Every kind of bad input, tried with the real command; see bad_input_table.h.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <numeric>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "tests/integration/bad_input_table.h"
#include "tests/integration/cluster.h"
#include "tests/support/onnx_builder.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

// SmallJob's folder with bad files beside the good ones.
class BadInputTest : public testing::Test {
 protected:
  const std::string& folder() const { return small_.folder(); }
  void SetUp() override {
    auto model = ReadFile(small_.model_path(), 1 << 24);
    ASSERT_OK(model);
    ASSERT_OK(WriteFileAtomic(folder() + "/damaged.onnx", model->substr(0, model->size() / 2)));
    OnnxBuilder unsupported;
    unsupported.Input("x", {-1, 1, 8, 8}).Weight("w", {64, 5}).Output("logits");
    unsupported.Node("Selu", {"x"}, {"a"});
    unsupported.Node("Flatten", {"a"}, {"b"});
    unsupported.Node("Gemm", {"b", "w"}, {"c"});
    unsupported.Node("Hardmax", {"c"}, {"logits"});
    unsupported.Save(folder() + "/unsupported.onnx");
    const std::vector<float> pixels(37 * 56);
    WriteNpy(folder() + "/narrow-x.npy", "<f4", "(37, 1, 7, 8)", pixels.data(), pixels.size() * 4);
    std::vector<int64_t> labels(37);
    std::iota(labels.begin(), labels.end(), 0);
    for (int64_t& label : labels) label %= 5;
    labels[23] = 7;
    WriteNpy(folder() + "/bad-y.npy", "<i8", "(37,)", labels.data(), labels.size() * 8);
    WriteNpy(folder() + "/empty-x.npy", "<f4", "(0, 1, 8, 8)", nullptr, 0);
    WriteNpy(folder() + "/empty-y.npy", "<i8", "(0,)", nullptr, 0);
    ASSERT_OK(WriteFileAtomic(folder() + "/job.yaml",
                              "model: model.onnx\n"
                              "data: .\n"
                              "loss: cross_entropy\n"
                              "batchsize: 8\n"));
  }
  void Try(const BadInput& row, const std::string& server) { TryBadInput(row, folder(), server); }

 private:
  SmallJob small_;
};

// A port that nobody listens on, for as long as this lives.
class ClosedPort {
 public:
  ClosedPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  UniqueFd socket_;
  int port_ = 0;
};

// `submit` of a sound job, but for what is changed.
struct Said {
  std::string model = "model.onnx";
  Words data = {"--data", "."};
  Words more = {};
};
Words Submit(const Said& said) {
  Words words = {"submit", "--model", said.model};
  words.insert(words.end(), said.data.begin(), said.data.end());
  words.insert(words.end(), {"--loss", "cross_entropy"});
  words.insert(words.end(), said.more.begin(), said.more.end());
  return words;
}
Words Columns(const std::string& x, const std::string& y) { return {"--data", x, "--labels", y}; }

TEST_F(BadInputTest, TheCommandRefuses) {
  ClosedPort nobody;
  const std::vector<BadInput> rows = {
      {"A missing model",
       Submit({.model = "modle.onnx"}),
       3,
       {"cannot read 'modle.onnx': No such file or directory"}},
      {"A damaged model",
       Submit({.model = "damaged.onnx"}),
       3,
       {"model file 'damaged.onnx' is truncated", "bytes"}},
      {"A model that is something else",
       Submit({.model = "job.yaml"}),
       3,
       {"model file 'job.yaml' is not an ONNX model: it looks like a text file"}},
      {"Unsupported operators: the complete list",
       Submit({.model = "unsupported.onnx"}),
       3,
       {"unsupported.onnx", "Selu", "'a'", "Hardmax", "'logits'"}},
      {"A model input of another name",
       Submit({.data = Columns("image=train-x.npy", "train-y.npy")}),
       3,
       {"data.train: no file for 'x', an input of the model", "given: image"}},
      {"Missing data",
       Submit({.data = Columns("x=tarin-x.npy", "train-y.npy")}),
       3,
       {"cannot read tarin-x.npy: No such file or directory"}},
      {"A folder without data", Submit({.data = {"--data", "/dev"}}), 3, {"/dev", "train-x.npy"}},
      {"An unknown flag",
       Submit({.more = {"--epoch", "3"}}),
       2,
       {"unknown flag --epoch; did you mean --epochs?"}},
      {"An unknown command", {"sumbit"}, 2, {"unknown command sumbit; did you mean submit?"}},
      {"A flag's value that is no number",
       Submit({.more = {"--lr", "fast"}}),
       3,
       {"command line: optimizer.lr: 'fast' is not a number"}},
      {"An unknown key in the job file",
       {"submit", "-f", "job.yaml"},
       3,
       {"job.yaml:4: batchsize: unknown key; did you mean 'batch_size'?"}},
      {"No coordinator", {"get", "jobs"}, 6, {"HOST:PORT", "pipedream local --workers 4"}},
  };
  for (const BadInput& row : rows) Try(row, nobody.address());
}

TEST_F(BadInputTest, TheCoordinatorRefuses) {
  TestCluster cluster;
  ASSERT_OK(cluster.Start(Patient(0)));
  const Words twice = Submit({.more = {"--idempotency-key", "monday"}});
  const std::vector<BadInput> rows = {
      {"Data of another shape than the model's input",
       Submit({.data = Columns("x=narrow-x.npy", "train-y.npy")}),
       3,
       {"training data: narrow-x.npy: column 'x' has samples of shape [1, 7, 8], the model wants "
        "[1, 8, 8]"}},
      {"A label out of range",
       Submit({.data = Columns("x=train-x.npy", "bad-y.npy")}),
       3,
       {"bad-y.npy", "row 23 is 7, but the model has 5 classes: values must be 0 to 4"}},
      {"More samples than labels",
       Submit({.data = Columns("x=train-x.npy", "test-y.npy")}),
       3,
       {"'x' (train-x.npy) has 37", "(test-y.npy) has 11"}},
      {"An empty dataset",
       Submit({.data = Columns("x=empty-x.npy", "empty-y.npy")}),
       3,
       {"empty-x.npy: has no rows"}},
      {"A batch larger than the dataset",
       Submit({.more = {"--batch-size", "64"}}),
       3,
       {"batch_size", "64", "37"}},
      {"More stages than the model has nodes",
       Submit({.more = {"--batch-size", "8", "--stages", "99"}}),
       3,
       {"stages: 99 are more than the", "nodes of the model"}},
      {"An unknown schedule",
       Submit({.more = {"--batch-size", "8", "--schedule", "gpip"}}),
       3,
       {"schedule 'gpip' is unknown; known are: pipedream, pipedream_vsync, 2bw"}},
      {"A job that does not exist",
       {"describe", "job", "nightly"},
       4,
       {"no job nightly; `pipedream get jobs` lists them"}},
      {"The same idempotency key and job again: no second job",
       Submit({.more = {"--batch-size", "8", "--idempotency-key", "monday"}}),
       0,
       {"JOB was submitted before with this idempotency key"},
       {Submit({.more = {"--batch-size", "8", "--idempotency-key", "monday"}})}},
      {"The same idempotency key for another job",
       Submit({.more = {"--batch-size", "8", "--idempotency-key", "monday", "--lr", "0.5"}}),
       8,
       {"idempotency key 'monday' was used for another job; use a new one"}},
  };
  for (const BadInput& row : rows) Try(row, cluster.address());
}

TEST_F(BadInputTest, TheJobFails) {
  TestCluster cluster;
  ASSERT_OK(cluster.Start(Patient(2)));
  const std::vector<BadInput> rows = {
      {"More workers than there are",
       Submit({.more = {"--batch-size", "8", "--workers", "5", "--start-timeout", "1", "--wait"}}),
       100,
       {"job JOB FAILED",
        "UNSATISFIABLE: not started within 1 s: needs 5 workers, 2 are registered",
        "start more workers"}},
      {"A learning rate at which the loss is no number",
       Submit({.more = {"--batch-size", "8", "--stages", "2", "--lr", "1e30", "--wait"}}),
       100,
       {"job JOB FAILED", "NON_FINITE_", "stage", "minibatch", "lower the learning rate"}},
  };
  for (const BadInput& row : rows) Try(row, cluster.address());
}

TEST_F(BadInputTest, TheJobDoesNotFit) {
  TestCluster cluster;
  ASSERT_OK(cluster.Start(Patient(1, {"--memory", "32KiB"})));
  Try({"Workers with too little memory",
       Submit({.more = {"--batch-size", "8", "--wait"}}),
       100,
       {"job JOB FAILED", "OUT_OF_MEMORY", "32.0 KiB", "raise the worker's --memory"}},
      cluster.address());
}

}  // namespace
}  // namespace pipedream
