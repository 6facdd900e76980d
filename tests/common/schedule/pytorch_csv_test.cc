#include "common/schedule/pytorch_csv.h"

#include "common/schedule/schedules.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

TEST(PyTorchCsv, RowsAreDevicesAndCellsActions) {
  ASSERT_OK_AND_ASSIGN(ScheduleTable table, ParsePyTorchCsv("0F0,0F1,,0B0,0B1\n"
                                                            ",1F0,1I0,1F1,1I1,1W0,1W1\n"));
  ASSERT_OK_AND_ASSIGN(ScheduleTable expected,
                       ParseTable("schedule csv policy=flush replicas=1,1 microbatches=2\n"
                                  "s0.r0: F0 F1 B0 B1 U0\n"
                                  "s1.r0: F0 I0 F1 I1 W0 W1 U0\n"));
  EXPECT_EQ(table, expected);
  EXPECT_OK(MakePrograms(table));
}

TEST(PyTorchCsv, StagesOfADeviceAreChunks) {
  // Three stages on two devices, the first and the last together.
  ASSERT_OK_AND_ASSIGN(ScheduleTable table, ParsePyTorchCsv("0F0,2F0,2B0,0B0\r\n1F0,1B0\r\n\r\n"));
  ASSERT_OK_AND_ASSIGN(
      ScheduleTable expected,
      ParseTable("schedule csv policy=flush replicas=1,1,1 microbatches=1 devices=0,1,0\n"
                 "s0.r0: F0 F0c1 B0c1 B0 U0 U0c1\n"
                 "s1.r0: F0 B0 U0\n"));
  EXPECT_EQ(table, expected);
  EXPECT_OK(MakePrograms(table));
}

TEST(PyTorchCsv, TransfersAndShardingAreLeftOut) {
  ASSERT_OK_AND_ASSIGN(
      ScheduleTable table,
      ParsePyTorchCsv("0UNSHARD,0F0,0SEND_F0, 0RECV_B0 ,\"0B0\",0REDUCE_GRAD,0RESHARD\n"
                      "1RECV_F0,1F0,1B0,1SEND_B0\n"));
  ASSERT_OK_AND_ASSIGN(std::string csv, FormatPyTorchCsv(table));
  EXPECT_EQ(csv, "0F0,0B0\n1F0,1B0\n");
}

TEST(PyTorchCsv, ParseInvertsFormat) {
  for (const ScheduleInfo& info : AllSchedules()) {
    if (!info.synchronous) continue;
    for (int devices : {1, 2, 3, 4}) {
      for (int m : {1, 2, 5, 8}) {
        if (info.name == "data_parallel" && devices > 1) continue;
        const int chunks = std::clamp(3, info.min_chunks, info.max_chunks);
        ScheduleShape shape = MakeShape(std::vector<int>(devices * chunks, 1), 1, m);
        if (info.place != nullptr) shape.device_of = info.place(devices, chunks);
        ASSERT_OK_AND_ASSIGN(ScheduleTable table, info.build(shape));
        ASSERT_OK_AND_ASSIGN(std::string csv, FormatPyTorchCsv(table));
        ASSERT_OK_AND_ASSIGN(ScheduleTable parsed, ParsePyTorchCsv(csv));
        EXPECT_EQ(parsed.programs, table.programs) << csv;
        EXPECT_EQ(parsed.shape.replicas, shape.replicas);
        EXPECT_EQ(parsed.shape.microbatches_per_minibatch, m);
        for (int s = 0; s < shape.stages(); ++s) {
          EXPECT_EQ(DeviceOf(parsed.shape, StageId(s)), DeviceOf(shape, StageId(s)));
        }
        // What passes add is not for this notation.
        ASSERT_OK_AND_ASSIGN(table, LowerTable(table));
        ASSERT_OK_AND_ASSIGN(std::string again, FormatPyTorchCsv(table));
        EXPECT_EQ(again, csv);
      }
    }
  }
}

TEST(PyTorchCsv, ErrorsNameRowAndCell) {
  auto expect = [](const std::string& text, const std::string& message) {
    EXPECT_THAT(ParsePyTorchCsv(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << text;
  };
  expect("", "no row, expected one per device");
  expect("\n \n", "no row");
  expect("0F0,0B0\n1F0,1X0\n", "row 2 cell 2: '1X0', expected an action like 0F3");
  expect("0F0,,F1", "row 1 cell 3: 'F1', expected an action");
  expect("0F", "row 1 cell 1: '0F'");
  expect("0F1.5", "row 1 cell 1: '0F1.5'");
  expect("0F-1", "row 1 cell 1: '0F-1'");
  expect("-1F0", "row 1 cell 1: '-1F0'");
  expect("0BW0", "row 1 cell 1: '0BW0'");
  expect("0SEND_FX", "row 1 cell 1: '0SEND_FX'");
  expect("0F99999999999", "row 1 cell 1: '0F99999999999'");
  expect("0F0,(0F1;0B0)OVERLAP_F_B", "row 1 cell 2: '(0F1;0B0)OVERLAP_F_B' overlaps actions");
  expect("0F0,0B0,0F0", "row 1 cell 3: '0F0' comes for the second time");
  expect("0F0,0B0\n1F0,0F1", "row 2 cell 2: '0F1', but stage 0 is on device 0");
  expect("0F0,0B0\n,,\n1F0", "row 2: no action that computes");
  expect("0F0,0B0\n2F0,2B0", "stage 1 is missing, the last one is 2");
  expect("0F2000000000,0B0", "at most");
}

TEST(PyTorchCsv, TellsWhatItCannotSay) {
  auto expect = [](std::string_view schedule, const ScheduleShape& shape,
                   const std::string& message) {
    ASSERT_OK_AND_ASSIGN(ScheduleTable table, (*FindSchedule(schedule))->build(shape));
    EXPECT_THAT(FormatPyTorchCsv(table),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect("pipedream", MakeShape({1, 1}, 4), "policy: stash");
  expect("1f1b", MakeShape({2, 1}, 1, 4), "replicas: 2,1");
  expect("1f1b", MakeShape({1, 1}, 2, 4), "minibatches: 2");
}

// What the parser lets through and no run could do is for the validator to name.
TEST(PyTorchCsv, ImpossibleOrdersAreFoundByTheValidator) {
  ASSERT_OK_AND_ASSIGN(ScheduleTable table, ParsePyTorchCsv("0F0,0B0,0F1\n1F0,1B0,1F1,1B1\n"));
  EXPECT_THAT(MakePrograms(table), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("csv")));
  // Stage 0 waits for a gradient that needs its own next forward.
  ASSERT_OK_AND_ASSIGN(table, ParsePyTorchCsv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"));
  EXPECT_THAT(MakePrograms(table), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("V9")));
}

}  // namespace
}  // namespace pipedream
