#include "common/graph/onnx/inline_functions.h"

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/graph/onnx/proto.h"
#include "common/graph/onnx/validate.h"

namespace pipedream::onnx_import {
namespace {

using AttributeMap = std::map<std::string, const onnx::AttributeProto*, std::less<>>;
using Opsets = google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>;

std::map<std::string, int64_t> OpsetMap(const Opsets& opsets) {
  std::map<std::string, int64_t> map;
  for (const auto& opset : opsets) map[NormalDomain(opset.domain())] = opset.version();
  return map;
}

// Where a body is being pasted.
struct Call {
  int function = -1;                         // -1: the main graph
  std::string prefix;                        // of internal names
  std::map<std::string, std::string> names;  // body name -> name outside
  AttributeMap attributes;                   // what attribute references mean
  std::map<std::string, int64_t> opsets;
};

class Inliner {
 public:
  explicit Inliner(const onnx::ModelProto& model) : model_(model) {
    for (int f = 0; f < model.functions_size(); ++f) {
      const auto& function = model.functions(f);
      functions_[{NormalDomain(function.domain()), function.name()}] = f;
    }
    for (const auto& input : model.graph().input()) taken_.insert(input.name());
    for (const auto& tensor : model.graph().initializer()) taken_.insert(tensor.name());
    for (const auto& node : model.graph().node()) {
      for (const std::string& output : node.output()) taken_.insert(output);
      if (!node.name().empty()) node_names_.emplace(node.name(), 0);
    }
  }

  absl::StatusOr<InlinedNodes> Run() {
    PD_RETURN_IF_ERROR(CheckFunctions());
    Call main;
    main.opsets = OpsetMap(model_.opset_import());
    PD_RETURN_IF_ERROR(Paste(model_.graph().node(), &main, 0));
    return std::move(result_);
  }

 private:
  absl::Status CheckFunctions() {
    if (functions_.size() != static_cast<size_t>(model_.functions_size()))
      return InvalidArgument("two functions share one domain and name");
    for (const auto& function : model_.functions()) {
      std::string where = fmt::format("function '{}': ", function.name());
      PD_RETURN_IF_ERROR(ValidateOpsets(function.opset_import(), where));
      std::set<std::string> inputs(function.input().begin(), function.input().end());
      PD_RETURN_IF_ERROR(ValidateNodes(function.node(), inputs, function.opset_import(), where));
      for (const auto& node : function.node())
        inputs.insert(node.output().begin(), node.output().end());
      for (const std::string& output : function.output())
        if (!inputs.contains(output))
          return InvalidArgument("{}output '{}' is produced by nothing", where, output);
      defaults_.emplace_back();
      PD_RETURN_IF_ERROR(ReadDefaults(function, where, &defaults_.back()));
    }
    return absl::OkStatus();
  }

  // FunctionProto.attribute_proto (field 11, attributes with a default) is younger than the
  // packaged message class, which keeps it among the unknown fields.
  absl::Status ReadDefaults(const onnx::FunctionProto& function, const std::string& where,
                            AttributeMap* defaults) {
    const auto& unknown = function.GetReflection()->GetUnknownFields(function);
    for (int i = 0; i < unknown.field_count(); ++i) {
      const auto& field = unknown.field(i);
      if (field.number() != 11 ||
          field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
        continue;
      auto attribute = std::make_shared<onnx::AttributeProto>();
      if (!attribute->ParseFromString(field.length_delimited()))
        return InvalidArgument("{}the default of an attribute is damaged", where);
      (*defaults)[attribute->name()] = attribute.get();
      result_.owned.push_back(std::move(attribute));
    }
    return absl::OkStatus();
  }

  absl::Status Paste(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Call* call,
                     int depth) {
    for (int n = 0; n < nodes.size(); ++n) {
      const auto& proto = nodes[n];
      FlatNode node;
      PD_RETURN_IF_ERROR(Translate(proto, n, call, &node));
      auto function = functions_.find({node.domain, node.op});
      if (function == functions_.end()) {
        if (static_cast<int>(result_.nodes.size()) >= kMaxInlinedNodes)
          return ResourceExhausted("inlining the model's functions makes more than {} nodes",
                                   kMaxInlinedNodes);
        if (!skip_) result_.nodes.push_back(std::move(node));
        continue;
      }
      PD_RETURN_IF_ERROR(Expand(function->second, node, depth));
    }
    return absl::OkStatus();
  }

  // Fills `node` from `proto` with the names and attributes of `call`. Sets skip_ for a shared
  // constant that an earlier call has made already.
  absl::Status Translate(const onnx::NodeProto& proto, int index, Call* call, FlatNode* node) {
    skip_ = false;
    node->op = proto.op_type();
    node->domain = NormalDomain(proto.domain());
    auto opset = call->opsets.find(node->domain);
    node->opset = opset == call->opsets.end() ? 0 : opset->second;
    for (const std::string& input : proto.input()) {
      auto name = call->names.find(input);
      node->inputs.push_back(name == call->names.end() ? input : name->second);
    }
    bool has_reference = false;
    for (const auto& attribute : proto.attribute()) {
      const onnx::AttributeProto* value = &attribute;
      if (!attribute.ref_attr_name().empty()) {
        has_reference = true;
        auto actual = call->attributes.find(attribute.ref_attr_name());
        if (actual == call->attributes.end()) continue;  // optional and not given
        value = actual->second;
      }
      node->attributes[attribute.name()] = value;
    }
    bool shared = call->function >= 0 && node->op == "Constant" && node->domain.empty() &&
                  !has_reference && proto.output_size() == 1;
    for (const std::string& output : proto.output())
      node->outputs.push_back(shared ? SharedName(call->function, index, output, call)
                                     : OutputName(output, call));
    node->name = UniqueNodeName(proto, *node, call->prefix);
    return absl::OkStatus();
  }

  std::string OutputName(const std::string& output, Call* call) {
    if (output.empty() || call->function < 0) return output;
    auto known = call->names.find(output);  // an output of the function
    if (known != call->names.end()) return known->second;
    return call->names[output] = Fresh(call->prefix + output);
  }

  std::string SharedName(int function, int node, const std::string& output, Call* call) {
    auto& name = shared_[{function, node}];
    skip_ = !name.empty();
    if (name.empty()) {
      name = Fresh(fmt::format("{}/{}", model_.functions(function).name(), output));
      result_.function_constants[name] = {function, node};
    }
    return call->names[output] = name;
  }

  absl::Status Expand(int f, const FlatNode& node, int depth) {
    const auto& function = model_.functions(f);
    if (std::find(active_.begin(), active_.end(), f) != active_.end())
      return InvalidArgument("function '{}' calls itself", function.name());
    if (depth >= kMaxCallDepth)
      return InvalidArgument("node '{}': functions call each other more than {} deep", node.name,
                             kMaxCallDepth);
    if (static_cast<int>(node.inputs.size()) > function.input_size() ||
        static_cast<int>(node.outputs.size()) > function.output_size())
      return InvalidArgument(
          "node '{}' calls function '{}' with {} inputs and {} outputs; it has {} and {}",
          node.name, node.op, node.inputs.size(), node.outputs.size(), function.input_size(),
          function.output_size());
    Call call;
    call.function = f;
    call.prefix = node.name + "/";
    call.opsets = OpsetMap(function.opset_import());
    call.attributes = defaults_[f];
    for (const auto& [name, value] : node.attributes) call.attributes[name] = value;
    for (int i = 0; i < function.input_size(); ++i)
      call.names[function.input(i)] =
          i < static_cast<int>(node.inputs.size()) ? node.inputs[i] : "";
    std::vector<std::pair<std::string, std::string>> copies;  // actual output <- body name
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& formal = function.output(static_cast<int>(i));
      if (node.outputs[i].empty()) continue;
      // An output that is an input, named twice, or a shared constant is copied at the end.
      if (call.names.contains(formal) || IsConstantNode(f, formal))
        copies.emplace_back(node.outputs[i], formal);
      else
        call.names[formal] = node.outputs[i];
    }
    active_.push_back(f);
    absl::Status status = PasteBody(function, &call, depth + 1, copies);
    active_.pop_back();
    return status;
  }

  absl::Status PasteBody(const onnx::FunctionProto& function, Call* call, int depth,
                         const std::vector<std::pair<std::string, std::string>>& copies) {
    PD_RETURN_IF_ERROR(Paste(function.node(), call, depth));
    for (const auto& [actual, formal] : copies) {
      FlatNode copy;
      copy.name = UniqueNodeName(call->prefix + "copy");
      copy.op = "Identity";
      copy.opset = call->opsets.count("") ? call->opsets[""] : kMinOpset;
      copy.inputs = {call->names[formal]};
      copy.outputs = {actual};
      result_.nodes.push_back(std::move(copy));
    }
    return absl::OkStatus();
  }

  bool IsConstantNode(int f, const std::string& output) const {
    for (const auto& node : model_.functions(f).node())
      if (node.op_type() == "Constant" && node.output_size() == 1 && node.output(0) == output)
        return true;
    return false;
  }

  std::string Fresh(std::string wanted) {
    if (taken_.insert(wanted).second) return wanted;
    for (int i = 2;; ++i) {
      std::string name = fmt::format("{}#{}", wanted, i);
      if (taken_.insert(name).second) return name;
    }
  }

  std::string UniqueNodeName(const onnx::NodeProto& proto, const FlatNode& node,
                             const std::string& prefix) {
    std::string wanted = proto.name().empty() ? "" : prefix + proto.name();
    for (size_t i = 0; wanted.empty() && i < node.outputs.size(); ++i) wanted = node.outputs[i];
    if (wanted.empty()) wanted = prefix + node.op;
    return UniqueNodeName(std::move(wanted));
  }

  std::string UniqueNodeName(std::string wanted) {
    int& uses = node_names_[wanted];
    if (++uses == 1) return wanted;
    std::string name;
    do {
      name = fmt::format("{}#{}", wanted, uses);
      ++uses;
    } while (node_names_.contains(name));
    node_names_[name] = 1;
    return name;
  }

  const onnx::ModelProto& model_;
  std::map<std::pair<std::string, std::string>, int> functions_;
  std::vector<AttributeMap> defaults_;
  std::map<std::pair<int, int>, std::string> shared_;  // (function, node) -> name
  std::vector<int> active_;
  std::set<std::string> taken_;            // tensor names
  std::map<std::string, int> node_names_;  // uses so far
  bool skip_ = false;
  InlinedNodes result_;
};

}  // namespace

absl::StatusOr<InlinedNodes> InlineFunctions(const onnx::ModelProto& model) {
  return Inliner(model).Run();
}

}  // namespace pipedream::onnx_import
