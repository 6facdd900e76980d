#include "common/graph/training_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/graph/autodiff.h"
#include "common/graph/op_def.h"

namespace pipedream {
namespace {

struct Loss {
  ValueId value = kNoValue;
  ValueId correct = kNoValue;
};

absl::StatusOr<ValueId> FindOutput(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (ValueId id : graph.outputs()) {
    if (graph.value(id).name == name) return id;
    names.push_back(graph.value(id).name);
  }
  return InvalidArgument("the loss reads output '{}', which the model does not have; it has {}",
                         name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

// The input `name`, added if the model does not have it.
absl::StatusOr<ValueId> LabelInput(GraphBuilder& builder, const LossTerm& term, DataType dtype,
                                   const Shape& shape) {
  if (term.label.empty()) {
    return InvalidArgument("the loss on output '{}' names no label", term.output);
  }
  ValueId id = builder.graph().FindValue(term.label);
  if (id == kNoValue) return builder.AddInput(term.label, dtype, shape);
  const Value& value = builder.graph().value(id);
  if (value.kind != ValueKind::kInput) {
    return InvalidArgument("label '{}' of the loss on '{}' is a tensor of the model, not an input",
                           term.label, term.output);
  }
  if (value.dtype != dtype || value.shape != shape) {
    return InvalidArgument("label '{}' is {}{}, but the loss on output '{}' needs {}{}", term.label,
                           ToString(value.dtype), value.shape.ToString(), term.output,
                           ToString(dtype), shape.ToString());
  }
  return id;
}

absl::StatusOr<Loss> AddCrossEntropy(GraphBuilder& builder, const LossTerm& term, ValueId output) {
  Shape logits = builder.graph().value(output).shape;
  if (logits.rank() < 1) {
    return InvalidArgument("cross-entropy reads output '{}', a scalar; expected [.., classes]",
                           term.output);
  }
  Shape positions(std::vector<int64_t>(logits.dims().begin(), logits.dims().end() - 1));
  PD_ASSIGN_OR_RETURN(ValueId label, LabelInput(builder, term, DataType::kInt64, positions));
  PD_ASSIGN_OR_RETURN(
      std::vector<ValueId> outputs,
      builder.AddNode(term.output + "/cross_entropy", "CrossEntropy", {output, label}, {}));
  return Loss{outputs[0], outputs[2]};
}

absl::StatusOr<Loss> AddMse(GraphBuilder& builder, const LossTerm& term, ValueId output) {
  Shape shape = builder.graph().value(output).shape;
  PD_ASSIGN_OR_RETURN(ValueId label, LabelInput(builder, term, DataType::kFloat32, shape));
  PD_ASSIGN_OR_RETURN(std::vector<ValueId> outputs,
                      builder.AddNode(term.output + "/mse", "Mse", {output, label}, {}));
  return Loss{outputs[0], kNoValue};
}

absl::StatusOr<Loss> AddScalar(GraphBuilder& builder, const LossTerm& term, ValueId output) {
  const Shape& shape = builder.graph().value(output).shape;
  if (shape.elements() != 1) {
    return InvalidArgument("the loss is output '{}' itself, which is {}, not a scalar", term.output,
                           shape.ToString());
  }
  if (shape.rank() == 0) return Loss{output, kNoValue};
  PD_ASSIGN_OR_RETURN(std::vector<ValueId> outputs,
                      builder.AddNode(term.output + "/scalar", "Reshape", {output},
                                      Attributes().Set("shape", std::vector<int64_t>())));
  return Loss{outputs[0], kNoValue};
}

absl::StatusOr<Loss> AddTerm(GraphBuilder& builder, const LossTerm& term) {
  PD_ASSIGN_OR_RETURN(ValueId output, FindOutput(builder.graph(), term.output));
  const Value& value = builder.graph().value(output);
  if (value.dtype != DataType::kFloat32) {
    return InvalidArgument("the loss reads output '{}', which is {}, not float32", term.output,
                           ToString(value.dtype));
  }
  if (!std::isfinite(term.weight)) {
    return InvalidArgument("the loss on output '{}' has weight {}", term.output, term.weight);
  }
  Loss loss;
  switch (term.kind) {
    case LossTerm::Kind::kCrossEntropy: {
      PD_ASSIGN_OR_RETURN(loss, AddCrossEntropy(builder, term, output));
      break;
    }
    case LossTerm::Kind::kMse: {
      PD_ASSIGN_OR_RETURN(loss, AddMse(builder, term, output));
      break;
    }
    case LossTerm::Kind::kOutput: {
      PD_ASSIGN_OR_RETURN(loss, AddScalar(builder, term, output));
      break;
    }
  }
  if (term.weight != 1) {
    PD_ASSIGN_OR_RETURN(std::vector<ValueId> scaled,
                        builder.AddNode(term.output + "/weight", "Scale", {loss.value},
                                        Attributes().Set("factor", term.weight)));
    loss.value = scaled[0];
  }
  return loss;
}

absl::StatusOr<Loss> AddLoss(GraphBuilder& builder, const std::vector<LossTerm>& terms) {
  if (terms.empty()) return InvalidArgument("no loss is given");
  Loss total;
  for (const LossTerm& term : terms) {
    PD_ASSIGN_OR_RETURN(Loss loss, AddTerm(builder, term));
    if (total.correct == kNoValue) total.correct = loss.correct;
    if (total.value == kNoValue) {
      total.value = loss.value;
      continue;
    }
    PD_ASSIGN_OR_RETURN(std::vector<ValueId> sum,
                        builder.AddNode("loss/sum", "Add", {total.value, loss.value}, {}));
    total.value = sum[0];
  }
  return total;
}

void DropUnreadOutputs(GraphBuilder& builder, const TrainingGraph& training) {
  auto kept = [&](ValueId id) {
    if (!builder.graph().consumers(id).empty()) return true;
    const std::vector<ValueId>& outputs = builder.graph().outputs();
    return std::find(outputs.begin(), outputs.end(), id) != outputs.end() ||
           std::any_of(training.gradients.begin(), training.gradients.end(),
                       [&](const ParameterGradient& g) { return g.gradient == id; });
  };
  for (int i = 0; i < builder.graph().node_count(); ++i) {
    const Node& node = builder.graph().node(NodeId(i));
    uint32_t optional = FindOpDef(node.op)->optional_outputs;
    if (optional == 0) continue;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if ((optional >> o & 1) == 0 || node.outputs[o] == kNoValue || kept(node.outputs[o]))
        continue;
      builder.DropOutput(NodeId(i), static_cast<int>(o));
    }
  }
}

absl::StatusOr<TrainingGraph> Complete(GraphBuilder builder, const Loss& loss,
                                       TrainingGraph training) {
  DropUnreadOutputs(builder, training);
  training.loss = loss.value;
  training.correct = loss.correct;
  PD_ASSIGN_OR_RETURN(training.graph, std::move(builder).Build());
  for (int i = 0; i < training.forward_nodes; ++i) {
    if (training.graph.node(NodeId(i)).op == "UpdateRunningStatistics") {
      training.state_updates.push_back(NodeId(i));
    }
  }
  return training;
}

}  // namespace

absl::StatusOr<TrainingGraph> MakeTrainingGraph(const Graph& forward,
                                                const std::vector<LossTerm>& terms,
                                                const std::vector<int>& stage_of) {
  GraphBuilder builder(forward);
  PD_ASSIGN_OR_RETURN(Loss loss, AddLoss(builder, terms));
  PD_ASSIGN_OR_RETURN(TrainingGraph training, AddGradients(builder, loss.value, stage_of));
  return Complete(std::move(builder), loss, std::move(training));
}

absl::StatusOr<TrainingGraph> MakeEvaluationGraph(const Graph& forward_inference,
                                                  const std::vector<LossTerm>& terms) {
  GraphBuilder builder(forward_inference);
  PD_ASSIGN_OR_RETURN(Loss loss, AddLoss(builder, terms));
  TrainingGraph evaluation;
  evaluation.forward_nodes = builder.graph().node_count();
  evaluation.pass.assign(evaluation.forward_nodes, Pass::kForward);
  evaluation.sum_of.assign(evaluation.forward_nodes, kNoValue);
  for (int i = 0; i < evaluation.forward_nodes; ++i) evaluation.origin.push_back(NodeId(i));
  return Complete(std::move(builder), loss, std::move(evaluation));
}

}  // namespace pipedream
