#include "common/base/units.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

TEST(UnitsTest, ReadsDurationsDownToMicroseconds) {
  EXPECT_EQ(ParseSeconds("50us").value(), 50e-6);
  EXPECT_EQ(ParseSeconds("5e-6").value(), 5e-6);
  EXPECT_EQ(ParseSeconds("250ms").value(), 0.25);
  EXPECT_FALSE(ParseSeconds("5 days").ok());
}

TEST(UnitsTest, ReadsBitRatesAsBytesPerSecond) {
  EXPECT_EQ(ParseBitRate("25G").value(), 3.125e9);
  EXPECT_EQ(ParseBitRate("25Gbit/s").value(), 3.125e9);
  EXPECT_EQ(ParseBitRate("100Mbps").value(), 12.5e6);
  EXPECT_EQ(ParseBitRate("8").value(), 1);
  for (const char* bad : {"25GB/s", "fast", "", "-1G"}) EXPECT_FALSE(ParseBitRate(bad).ok()) << bad;
}

}  // namespace
}  // namespace pipedream
