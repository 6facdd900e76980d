// Networks of random shape with data for them, on disk: to compare a cut run with a whole one where
// no formula says what must come out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/graph/model.h"
#include "common/graph/training_graph.h"
#include "tests/support/random_source.h"

namespace pipedream {

struct RandomNetworkOptions {
  uint32_t seed = 1;
  int64_t train_samples = 19;
  int64_t evaluation_samples = 7;
  // Convolutions and last layers of equal shape share their weights; most are of equal shape.
  bool shares_parameters = false;
};

// Images of 8x8 through convolutions, normalisations, pools, activations, dropout, skip
// connections (sums, products, concatenations) that reach back over several layers, into one or
// more heads with a loss each, some of which may hang on early layers. Files live in a temporary
// folder until destruction.
class RandomNetwork {
 public:
  explicit RandomNetwork(const RandomNetworkOptions& options);
  ~RandomNetwork();
  RandomNetwork(const RandomNetwork&) = delete;
  RandomNetwork& operator=(const RandomNetwork&) = delete;

  const std::shared_ptr<const Model>& model() const { return model_; }
  const std::shared_ptr<const Dataset>& train() const { return train_; }
  const std::shared_ptr<const Dataset>& evaluation() const { return evaluation_; }
  const std::vector<LossTerm>& loss() const { return loss_; }
  const std::string& text() const { return text_; }  // its layers, for messages

 private:
  friend class RandomNetworkMaker;
  std::shared_ptr<const Dataset> WriteSplit(const std::string& split, int64_t samples,
                                            uint64_t seed) const;

  std::string folder_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> evaluation_;
  int64_t channels_ = 1;
  std::vector<LossTerm> loss_;
  std::string text_;
};

// The stage of each forward node in a random cut into at most `stages`: consecutive nodes, or any
// that keep values from running backward, so that a stage may lie beside another. Every stage owns
// a node that evaluation has, too.
std::vector<int> RandomCut(const TrainingGraph& training, int stages, RandomSource* random);

}  // namespace pipedream
