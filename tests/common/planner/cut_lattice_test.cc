#include "common/planner/cut_lattice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace pipedream {
namespace {

using testing::ElementsAre;

NodeProfile Heavy(double seconds) {
  NodeProfile node;
  node.forward_s = seconds;
  return node;
}

void Join(Profile* profile, std::vector<int> early, std::vector<int> late, int64_t bytes) {
  profile->tensors.push_back({early, late, bytes, false, {}, 0});
  profile->tensors.push_back({early, late, bytes, true, {}, 0});
}

// 0 -> 1 -> 3 and 0 -> 2 -> 3.
Profile Diamond() {
  Profile profile;
  for (int n = 0; n < 4; ++n) profile.nodes.push_back(Heavy(1));
  Join(&profile, {0}, {1, 2}, 10);
  Join(&profile, {1}, {3}, 3);
  Join(&profile, {2}, {3}, 5);
  return profile;
}

TEST(CutLatticeTest, HasEveryClosedSetAndCountsWhatCrossesOnce) {
  const CutLattice lattice(Diamond(), LatticeOptions{});
  // {}, 0, 01, 02, 012, all.
  ASSERT_EQ(lattice.size(), 6);
  EXPECT_TRUE(lattice.complete());
  EXPECT_EQ(lattice.most_stages(), 4);
  std::map<std::vector<int>, int64_t> bytes;
  for (int cut = 0; cut < lattice.size(); ++cut)
    bytes[lattice.NodesBetween(0, cut)] = lattice.forward_bytes(cut);
  EXPECT_THAT(bytes, ElementsAre(std::pair(std::vector<int>{}, 0), std::pair(std::vector{0}, 10),
                                 std::pair(std::vector{0, 1}, 13),
                                 std::pair(std::vector{0, 1, 2}, 8),
                                 std::pair(std::vector{0, 1, 2, 3}, 0),
                                 std::pair(std::vector{0, 2}, 15)));
  EXPECT_EQ(lattice.gradient_bytes(1), 10);
}

TEST(CutLatticeTest, FreeNodesGoWhereLeastCrosses) {
  Profile profile;
  profile.nodes = {Heavy(1), Heavy(0), Heavy(0), Heavy(1)};  // 1 and 2 are free
  Join(&profile, {0}, {1}, 100);
  Join(&profile, {1}, {2}, 7);
  Join(&profile, {2}, {3}, 50);
  const CutLattice lattice(profile, LatticeOptions{});
  ASSERT_EQ(lattice.size(), 3);
  EXPECT_THAT(lattice.NodesBetween(0, 1), ElementsAre(0, 1));
  EXPECT_EQ(lattice.bytes(1), 14);
}

TEST(CutLatticeTest, TiedNodesStayTogether) {
  Profile profile = Diamond();
  profile.ties = {{1, 2}};
  const CutLattice lattice(profile, LatticeOptions{});
  EXPECT_EQ(lattice.size(), 4);  // {}, 0, 012, all
  EXPECT_EQ(lattice.most_stages(), 3);
  const CutLattice parted(profile, LatticeOptions{.part_ties = true});
  EXPECT_EQ(parted.size(), 6);
}

Profile RandomProfile(std::mt19937& random, int count) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Profile profile;
  for (int n = 0; n < count; ++n) profile.nodes.push_back(Heavy(draw(0, 2)));
  for (int n = 0; n + 1 < count; ++n) {
    std::set<int> readers = {draw(n + 1, count - 1)};
    if (draw(0, 1) == 1) readers.insert(draw(n + 1, count - 1));
    Join(&profile, {n}, {readers.begin(), readers.end()}, draw(0, 30));
  }
  return profile;
}

int64_t Crossing(const Profile& profile, unsigned set) {
  int64_t bytes = 0;
  for (const ProfileTensor& tensor : profile.tensors) {
    bool in = false, out = false;
    for (const int node : tensor.early) in = in || (set >> node & 1);
    for (const int node : tensor.late) out = out || !(set >> node & 1);
    if (in && out) bytes += tensor.bytes;
  }
  return bytes;
}

TEST(CutLatticeTest, AgreesWithAllSubsetsOfSmallGraphs) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const int count = std::uniform_int_distribution<int>(1, 9)(random);
    const Profile profile = RandomProfile(random, count);
    // For every closed set of heavy nodes the least that crosses with any free ones.
    std::map<unsigned, int64_t> least;
    unsigned heavy = 0;
    for (int n = 0; n < count; ++n)
      if (profile.nodes[n].forward_s > 0) heavy |= 1u << n;
    for (unsigned set = 0; set < 1u << count; ++set) {
      bool closed = true;
      for (const ProfileTensor& tensor : profile.tensors)
        for (const int reader : tensor.late)
          closed = closed && (!(set >> reader & 1) || (set >> tensor.early[0] & 1));
      if (!closed) continue;
      const int64_t bytes = Crossing(profile, set);
      const auto [it, fresh] = least.try_emplace(set & heavy, bytes);
      it->second = std::min(it->second, bytes);
    }
    const CutLattice lattice(profile, LatticeOptions{});
    ASSERT_TRUE(lattice.complete());
    if (heavy == 0) continue;
    ASSERT_EQ(lattice.size(), static_cast<int>(least.size()));
    std::vector<unsigned> sets;
    for (int cut = 0; cut < lattice.size(); ++cut) {
      unsigned set = 0;
      for (const int node : lattice.NodesBetween(0, cut)) set |= 1u << node;
      sets.push_back(set);
      const bool end = cut == 0 || cut == lattice.last();
      EXPECT_EQ(lattice.bytes(cut), end ? 0 : least.at(set & heavy));
      EXPECT_EQ(lattice.bytes(cut), end ? 0 : Crossing(profile, set));
    }
    for (int a = 0; a < lattice.size(); ++a) {
      for (int b = 0; b < lattice.size(); ++b) {
        const unsigned low = sets[a] & heavy, high = sets[b] & heavy;
        const bool before = low != high && (low & ~high) == 0;
        EXPECT_EQ(lattice.IsBefore(a, b), before);
        if (before) {
          EXPECT_EQ(sets[a] & ~sets[b], 0u) << "cuts inside one another stay so";
        }
      }
    }
  }
}

TEST(CutLatticeTest, MakesAChoiceWhereThereAreTooMany) {
  // Twelve chains of four beside each other: 5^12 closed sets.
  Profile profile;
  profile.nodes = {Heavy(1)};
  std::vector<int> first, last;
  for (int chain = 0; chain < 12; ++chain) {
    for (int k = 0; k < 4; ++k) {
      profile.nodes.push_back(Heavy(1));
      const int n = static_cast<int>(profile.nodes.size()) - 1;
      if (k == 0) first.push_back(n);
      if (k > 0) Join(&profile, {n - 1}, {n}, 5);
      if (k == 3) last.push_back(n);
    }
  }
  profile.nodes.push_back(Heavy(1));
  const int end = static_cast<int>(profile.nodes.size()) - 1;
  Join(&profile, {0}, first, 40);
  for (const int n : last) Join(&profile, {n}, {end}, 5);
  const CutLattice lattice(profile, LatticeOptions{.most_cuts = 200});
  EXPECT_FALSE(lattice.complete());
  EXPECT_GE(lattice.size(), 20);
  EXPECT_LE(lattice.size(), 700);
  EXPECT_EQ(static_cast<int>(lattice.NodesBetween(0, lattice.last()).size()), end + 1);
  EXPECT_GE(lattice.most_stages(), 16);
}

}  // namespace
}  // namespace pipedream
