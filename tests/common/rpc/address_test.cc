#include "common/rpc/address.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

TEST(Address, ReadsHostAndPort) {
  ASSERT_OK_AND_ASSIGN(HostPort v4, ParseAddress("127.0.0.1:7070"));
  EXPECT_EQ(v4, (HostPort{"127.0.0.1", 7070}));
  ASSERT_OK_AND_ASSIGN(HostPort v6, ParseAddress("[::1]:0"));
  EXPECT_EQ(v6, (HostPort{"::1", 0}));
  ASSERT_OK_AND_ASSIGN(HostPort name, ParseAddress("node-3.example:65535"));
  EXPECT_EQ(name, (HostPort{"node-3.example", 65535}));
}

TEST(Address, FormatIsTheInverse) {
  for (const char* text : {"127.0.0.1:7070", "[::1]:1", "[fe80::2]:80", "localhost:0"}) {
    ASSERT_OK_AND_ASSIGN(HostPort address, ParseAddress(text));
    EXPECT_EQ(FormatAddress(address), text);
  }
}

TEST(Address, RefusesEverythingElse) {
  for (const char* text :
       {"", ":", "localhost", ":80", "host:", "host:-1", "host:65536", "host:8x", "::1:80",
        "http://host:80", "a b:80", "[::1]", "[]:80", "host:99999999999"}) {
    EXPECT_THAT(ParseAddress(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                             testing::HasSubstr("expected host:port")))
        << text;
  }
}

TEST(Address, KnowsLoopback) {
  EXPECT_TRUE(IsLoopback("localhost"));
  EXPECT_TRUE(IsLoopback("127.0.0.1"));
  EXPECT_TRUE(IsLoopback("127.8.9.10"));
  EXPECT_TRUE(IsLoopback("::1"));
  EXPECT_FALSE(IsLoopback("0.0.0.0"));
  EXPECT_FALSE(IsLoopback("::"));
  EXPECT_FALSE(IsLoopback("10.0.0.1"));
  EXPECT_FALSE(IsLoopback("127.0.0.1.example.com"));
}

}  // namespace
}  // namespace pipedream
