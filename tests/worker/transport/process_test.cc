// Channels between processes, and what the survivor sees when the other one is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "common/base/file.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/transport/channel_pairs.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

class Pipe {
 public:
  Pipe() {
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0) std::abort();
    read_.Reset(ends[0]);
    write_.Reset(ends[1]);
  }
  void WriteLine(const std::string& line) {
    std::string bytes = line + "\n";
    if (write(write_.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      _exit(3);
    }
  }
  std::string ReadLine() {
    std::string line;
    char c = 0;
    while (read(read_.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  void CloseWrite() { write_.Reset(); }

 private:
  UniqueFd read_;
  UniqueFd write_;
};

void WriteAddress(Pipe* pipe, const DataAddress& a) {
  for (const std::string& field :
       {a.host, std::to_string(a.port), a.host_id, a.unix_name, a.process_id}) {
    pipe->WriteLine(field);
  }
}

DataAddress ReadAddress(Pipe* pipe) {
  DataAddress a;
  a.host = pipe->ReadLine();
  a.port = std::atoi(pipe->ReadLine().c_str());
  a.host_id = pipe->ReadLine();
  a.unix_name = pipe->ReadLine();
  a.process_id = pipe->ReadLine();
  return a;
}

absl::Status Send(SendChannel* channel, int64_t index, size_t bytes) {
  while (true) {
    PD_ASSIGN_OR_RETURN(auto slot, channel->TryAcquire());
    if (slot.has_value()) {
      std::memset(slot->data(), static_cast<int>(index), bytes);
      return channel->Commit(Activation(index), bytes);
    }
    if (!channel->Wait(kLong)) return DeadlineExceeded("no slot");
  }
}

absl::Status Receive(ReceiveChannel* channel, int64_t index, size_t bytes) {
  while (true) {
    PD_ASSIGN_OR_RETURN(auto message, channel->TryReceive(Activation(index)));
    if (message.has_value()) {
      if (message->size() != bytes) return Internal("{} bytes", message->size());
      for (std::byte b : *message) {
        if (b != static_cast<std::byte>(index)) return Internal("wrong content");
      }
      channel->Release();
      return absl::OkStatus();
    }
    if (!channel->Wait(kLong)) return DeadlineExceeded("no message");
  }
}

// Runs before this process has any thread; the child never returns.
class Child {
 public:
  explicit Child(const std::function<absl::Status(Pipe* from_parent, Pipe* to_parent)>& run) {
    pid_ = fork();
    if (pid_ != 0) {
      to_parent.CloseWrite();
      return;
    }
    absl::Status status = run(&from_parent, &to_parent);
    if (!status.ok()) std::fprintf(stderr, "child: %s\n", status.ToString().c_str());
    _exit(status.ok() ? 0 : 1);
  }
  ~Child() {
    if (pid_ > 0) Kill();
  }
  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // The exit code.
  int Join() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  Pipe from_parent;
  Pipe to_parent;

 private:
  pid_t pid_ = -1;
};

class ProcessTest : public testing::TestWithParam<TransportKind> {
 protected:
  static constexpr size_t kBytes = 100'000;
  ChannelOptions options_{"between processes", "secret", 3, kBytes, kLong};
};

INSTANTIATE_TEST_SUITE_P(Every, ProcessTest,
                         testing::Values(TransportKind::kShm, TransportKind::kTcp,
                                         TransportKind::kAuto),
                         KindName);

TEST_P(ProcessTest, CarriesMessages) {
  constexpr int64_t kMessages = 200;
  Child child([&](Pipe*, Pipe* to_parent) -> absl::Status {
    PD_ASSIGN_OR_RETURN(auto connector, Connector::Create({}));
    WriteAddress(to_parent, connector->address());
    PD_ASSIGN_OR_RETURN(auto channel, connector->Accept(options_));
    for (int64_t i = 0; i < kMessages; ++i) {
      PD_RETURN_IF_ERROR(Receive(channel.get(), i, kBytes - static_cast<size_t>(i)));
    }
    return absl::OkStatus();
  });
  DataAddress address = ReadAddress(&child.to_parent);
  ASSERT_OK_AND_ASSIGN(auto connector, Connector::Create({}));
  EXPECT_NE(address.process_id, connector->address().process_id);
  EXPECT_EQ(address.host_id, connector->address().host_id);
  ASSERT_OK_AND_ASSIGN(auto channel, connector->Connect(address, GetParam(), options_));
  for (int64_t i = 0; i < kMessages; ++i) {
    ASSERT_OK(Send(channel.get(), i, kBytes - static_cast<size_t>(i)));
  }
  // Closing loses nothing.
  channel.reset();
  EXPECT_EQ(child.Join(), 0);
}

TEST_P(ProcessTest, SenderSeesThatTheReceiverWasKilled) {
  Child child([&](Pipe*, Pipe* to_parent) -> absl::Status {
    PD_ASSIGN_OR_RETURN(auto connector, Connector::Create({}));
    WriteAddress(to_parent, connector->address());
    PD_ASSIGN_OR_RETURN(auto channel, connector->Accept(options_));
    PD_RETURN_IF_ERROR(Receive(channel.get(), 0, kBytes));
    to_parent->WriteLine("received");
    while (true) pause();
  });
  DataAddress address = ReadAddress(&child.to_parent);
  ASSERT_OK_AND_ASSIGN(auto connector, Connector::Create({}));
  ASSERT_OK_AND_ASSIGN(auto channel, connector->Connect(address, GetParam(), options_));
  ASSERT_OK(Send(channel.get(), 0, kBytes));
  ASSERT_EQ(child.to_parent.ReadLine(), "received");
  child.Kill();
  absl::Status status;
  for (int64_t i = 1; i < 10 && status.ok(); ++i) status = Send(channel.get(), i, kBytes);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("peer of channel between processes is gone")));
}

TEST_P(ProcessTest, ReceiverSeesThatTheSenderWasKilledAfterWhatArrived) {
  Child child([&](Pipe* from_parent, Pipe* to_parent) -> absl::Status {
    DataAddress address = ReadAddress(from_parent);
    PD_ASSIGN_OR_RETURN(auto connector, Connector::Create({}));
    PD_ASSIGN_OR_RETURN(auto channel, connector->Connect(address, GetParam(), options_));
    for (int64_t i = 0; i < 3; ++i) PD_RETURN_IF_ERROR(Send(channel.get(), i, kBytes));
    to_parent->WriteLine("committed");
    while (true) pause();
  });
  ASSERT_OK_AND_ASSIGN(auto connector, Connector::Create({}));
  WriteAddress(&child.from_parent, connector->address());
  ASSERT_OK_AND_ASSIGN(auto channel, connector->Accept(options_));
  ASSERT_EQ(child.to_parent.ReadLine(), "committed");
  child.Kill();
  int64_t received = 0;
  absl::Status status;
  while (status.ok() && received < 4) {
    status = Receive(channel.get(), received, kBytes);
    if (status.ok()) ++received;
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("peer of channel between processes is gone")));
  // In shared memory a commit has arrived at once; tcp may have had it under way.
  if (GetParam() == TransportKind::kTcp) {
    EXPECT_LE(received, 3);
  } else {
    EXPECT_EQ(received, 3);
  }
}

TEST_P(ProcessTest, LeavesNoNamedSharedMemory) {
  Child child([&](Pipe*, Pipe* to_parent) -> absl::Status {
    PD_ASSIGN_OR_RETURN(auto connector, Connector::Create({}));
    WriteAddress(to_parent, connector->address());
    PD_ASSIGN_OR_RETURN(auto channel, connector->Accept(options_));
    to_parent->WriteLine("open");
    while (true) pause();
  });
  DataAddress address = ReadAddress(&child.to_parent);
  ASSERT_OK_AND_ASSIGN(auto connector, Connector::Create({}));
  ASSERT_OK_AND_ASSIGN(auto channel, connector->Connect(address, GetParam(), options_));
  ASSERT_EQ(child.to_parent.ReadLine(), "open");
  child.Kill();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr("pipedream")));
  }
}

}  // namespace
}  // namespace pipedream
