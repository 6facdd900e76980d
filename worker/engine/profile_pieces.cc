#include "worker/engine/profile_pieces.h"

#include <algorithm>
#include <compare>
#include <limits>

#include "common/graph/cuts.h"

namespace pipedream {
namespace {

struct Choice {
  int pieces = std::numeric_limits<int>::max();
  int parted = 0;  // parameters
  int64_t crossing_bytes = 0;
  int begin = 0;  // of the last piece
  std::partial_ordering Compare(const Choice& other) const {
    if (pieces != other.pieces) return pieces <=> other.pieces;
    if (parted != other.parted) return parted <=> other.parted;
    return crossing_bytes <=> other.crossing_bytes;
  }
};

}  // namespace

std::vector<int> ChoosePieces(const TrainingGraph& training, const Profile& sizes,
                              int optimizer_tensors, int64_t limit_bytes) {
  const int count = training.forward_nodes;
  const std::vector<CutInfo> cuts = PrefixCuts(training);
  // Updates of running statistics live with what makes them: alone they are no piece.
  std::vector<bool> may_begin(count, true);
  for (NodeId id : training.state_updates) may_begin[id.value()] = false;
  may_begin[0] = true;

  std::vector<int64_t> kept(count, 0);  // with the first that keeps it
  for (const ProfileTensor& tensor : sizes.tensors)
    if (!tensor.kept_by.empty()) kept[tensor.kept_by.front()] += tensor.kept_bytes;

  std::vector<Choice> best(count + 1);  // of the nodes before
  best[0].pieces = 0;
  for (int end = 1; end <= count; ++end) {
    if (end < count && !may_begin[end]) continue;
    int64_t parameters = 0, others = 0, workspace = 0;
    // What enters, from either side, lies row-major beside what the kernels read.
    const int64_t behind = end < count ? cuts[end - 1].gradient_bytes : 0;
    for (int begin = end - 1; begin >= 0; --begin) {
      const NodeProfile& node = sizes.nodes[begin];
      parameters += node.parameter_bytes;
      others += node.state_bytes + node.saved_bytes + node.constant_bytes + kept[begin];
      workspace = std::max(workspace, node.workspace_bytes);
      if (!may_begin[begin] || best[begin].pieces == std::numeric_limits<int>::max()) continue;
      const int64_t before = begin > 0 ? cuts[begin - 1].forward_bytes : 0;
      const int64_t own = (2 + optimizer_tensors) * parameters + others + workspace + behind;
      const bool only = best[end].pieces == std::numeric_limits<int>::max();
      if (own > limit_bytes && !only) break;
      if (own + before > limit_bytes && !only) continue;
      Choice choice = best[begin];
      choice.begin = begin;
      ++choice.pieces;
      if (begin > 0) {
        choice.parted += cuts[begin - 1].legal() ? 0 : 1;
        choice.crossing_bytes += cuts[begin - 1].forward_bytes + cuts[begin - 1].gradient_bytes;
      }
      if (choice.Compare(best[end]) < 0) best[end] = choice;
    }
  }
  std::vector<int> piece_of(count);
  for (int end = count, piece = best[count].pieces - 1; end > 0; --piece) {
    const int begin = best[end].begin;
    std::fill(piece_of.begin() + begin, piece_of.begin() + end, piece);
    end = begin;
  }
  return piece_of;
}

}  // namespace pipedream
