#include "client/commands/commands.h"
#include "client/commands/measure.h"
#include "client/documents.h"
#include "client/exit_codes.h"
#include "client/render/json.h"
#include "client/render/plan_json.h"
#include "client/render/yaml.h"
#include "common/base/status.h"
#include "common/codec/plan_codec.h"
#include "common/plan/profile_table.h"

namespace pipedream {
namespace {

// One profile by itself, several as a list.
std::string ProfilesJson(const std::vector<Profile>& profiles) {
  if (profiles.size() == 1) return MessageJson("Profile", ToProto(profiles[0]));
  std::vector<v1::Profile> messages;
  for (const Profile& profile : profiles) messages.push_back(ToProto(profile));
  std::vector<const google::protobuf::Message*> items;
  for (const v1::Profile& message : messages) items.push_back(&message);
  return ListJson("ProfileList", items);
}

absl::Status Print(const CommandContext& context, const std::vector<Profile>& profiles,
                   const std::string& save) {
  const Terminal& terminal = context.terminal;
  if (!save.empty()) {
    PD_RETURN_IF_ERROR(SaveDocument(save, ProfilesJson(profiles)));
    if (terminal.progress != ProgressMode::kNone) *terminal.err << "saved " << save << "\n";
  }
  if (terminal.format == OutputFormat::kJson) {
    *terminal.out << ProfilesJson(profiles);
  } else if (terminal.format == OutputFormat::kYaml) {
    *terminal.out << JsonToYaml(ProfilesJson(profiles));
  } else if (terminal.format == OutputFormat::kName) {
    for (const Profile& profile : profiles) *terminal.out << profile.device_kind << "\n";
  } else {
    for (size_t p = 0; p < profiles.size(); ++p)
      *terminal.out << (p == 0 ? "" : "\n") << FormatProfileTable(profiles[p]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> ProfileMake(const CommandContext& context, const ProfileOptions& options) {
  PD_ASSIGN_OR_RETURN(const MeasureResult measured,
                      AskForPlan(context, options.job, options.timeout_s, /*measure_only=*/true));
  if (measured.exit_code != kExitOk) return measured.exit_code;
  if (!options.save_topology.empty()) {
    PD_RETURN_IF_ERROR(SaveDocument(options.save_topology,
                                    MessageJson("Topology", ToProto(measured.origin.topology))));
  }
  PD_RETURN_IF_ERROR(Print(context, measured.origin.profiles, options.save));
  return kExitOk;
}

absl::StatusOr<int> ProfileShow(const CommandContext& context, const ProfileOptions& options) {
  PD_ASSIGN_OR_RETURN(const std::vector<Profile> profiles, ReadProfiles(options.file));
  PD_RETURN_IF_ERROR(Print(context, profiles, options.save));
  return kExitOk;
}

}  // namespace pipedream
