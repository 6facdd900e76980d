#include "client/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>

#include "client/exit_codes.h"
#include "client/flags.h"
#include "common/base/log.h"
#include "common/base/nearest_name.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace pipedream {
namespace {

constexpr char kFooter[] = R"(Examples:
  pipedream local --workers 4
  pipedream submit --model lenet.onnx --data fashion/ --loss cross_entropy --lr 0.05 --epochs 8 --follow
  pipedream submit -f job.yaml --set optimizer.lr=0.01 --wait
  pipedream get jobs
  pipedream export JOB --onnx trained.onnx
  pipedream schedule show zb_h1 --stages 4 --microbatches 8

`pipedream COMMAND --help` explains a command, `pipedream help exit-codes` the exit codes.)";

class CommandTree {
 public:
  explicit CommandTree(CommandContext context) : context_(std::move(context)) {
    app_.footer(kFooter);
    app_.require_subcommand(1);
    app_.fallthrough();  // --server and -o may come after the command
    AddGlobalOptions();
    AddSubmitAndPlan();
    AddProfile();
    AddGet();
    AddJobCommands();
    AddLocal();
    AddSchedule();
    AddOthers();
  }

  int Run(std::vector<std::string> arguments) {
    // What follows "--" belongs to the command that `local` runs, whatever it looks like.
    auto mark = std::find(arguments.begin(), arguments.end(), "--");
    bool marked = mark != arguments.end();
    if (marked) local_.command.assign(mark + 1, arguments.end());
    arguments.erase(mark, arguments.end());
    std::reverse(arguments.begin(), arguments.end());  // as the parser wants it
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      *context_.terminal.out << Focus()->help(PathTo(Focus()->get_parent()));
      return kExitOk;
    } catch (const CLI::ParseError& error) {
      return Usage(DidYouMean(error));
    }
    if (marked && (!local_command_->parsed() || local_.command.empty())) {
      return Usage("\"--\" is for `pipedream local -- COMMAND...`");
    }
    if (context_.terminal.format == OutputFormat::kWide && !get_->parsed()) {
      return Usage("-o wide is for `pipedream get`");
    }
    if (context_.terminal.format == OutputFormat::kMarkdown && !compare_->parsed()) {
      return Usage("-o markdown is for `pipedream schedule compare`");
    }
    absl::Status complete = CompleteContext();
    if (!complete.ok())
      return Usage(std::string(complete.message().data(), complete.message().size()));
    absl::StatusOr<int> code = commands_.at(Focus())();
    if (code.ok()) return *code;
    int exit_code = ExitCodeOf(code.status());
    PrintError(context_.terminal, code.status(), exit_code);
    return exit_code;
  }

 private:
  using Command = std::function<absl::StatusOr<int>()>;

  CLI::App* Add(CLI::App* parent, const std::string& name, const std::string& help,
                Command command) {
    CLI::App* app = parent->add_subcommand(name, help);
    commands_[app] = std::move(command);
    return app;
  }

  // The innermost command that was named: whose help is wanted.
  CLI::App* Focus() {
    CLI::App* focus = &app_;
    while (!focus->get_subcommands().empty()) focus = focus->get_subcommands().front();
    return focus;
  }

  // "pipedream get jobs"; empty for the parent of the root.
  static std::string PathTo(const CLI::App* app) {
    std::string path;
    for (; app != nullptr; app = app->get_parent()) {
      path = app->get_name() + (path.empty() ? "" : " ") + path;
    }
    return path;
  }

  int Usage(std::string_view message) {
    std::string path = PathTo(Focus());
    absl::Status status = InvalidArgument("{}\n`{} --help` shows what can be said", message, path);
    PrintError(context_.terminal, WithReason(status, kUsageReason), kExitUsage);
    return kExitUsage;
  }

  std::string DidYouMean(const CLI::ParseError& error) {
    CLI::App* focus = Focus();
    std::vector<std::string> extras = app_.remaining(true);
    if (extras.empty()) return error.what();
    std::string word = extras.front();
    bool flag = word.starts_with("-");
    if (flag) word = word.substr(0, word.find('='));
    std::vector<std::string> known;
    if (flag) {
      for (CLI::App* app = focus; app != nullptr; app = app->get_parent()) {
        for (const CLI::Option* option : app->get_options()) {
          for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
          for (const std::string& name : option->get_snames()) known.push_back("-" + name);
        }
      }
    } else {
      for (const CLI::App* app : focus->get_subcommands({})) known.push_back(app->get_name());
    }
    std::string_view kind = flag ? "flag" : known.empty() ? "argument" : "command";
    std::string nearest = NearestName(word, known);
    std::string hint = nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
    return fmt::format("unknown {} {}{}", kind, word, hint);
  }

  template <typename E>
  static CLI::CheckedTransformer Words(std::map<std::string, E> words) {
    CLI::CheckedTransformer transformer(std::move(words), CLI::ignore_case);
    transformer.description("");  // the help text lists them
    return transformer;
  }

  void AddGlobalOptions() {
    app_.add_option("--server", server_,
                    "Coordinator, HOST:PORT (or PIPEDREAM_SERVER, or the "
                    "config file; default 127.0.0.1:7070)")
        ->group("Global");
    app_.add_flag("--insecure", context_.insecure, "Allow plain text to another machine")
        ->group("Global");
    app_.add_option("-o,--output", context_.terminal.format,
                    "table, wide, markdown, json, yaml or name; data on stdout, all else on stderr")
        ->transform(Words<OutputFormat>({{"table", OutputFormat::kTable},
                                         {"wide", OutputFormat::kWide},
                                         {"markdown", OutputFormat::kMarkdown},
                                         {"json", OutputFormat::kJson},
                                         {"yaml", OutputFormat::kYaml},
                                         {"name", OutputFormat::kName}}))
        ->group("Global");
    app_.add_option("--progress", context_.terminal.progress, "auto, plain or none")
        ->transform(Words<ProgressMode>({{"auto", ProgressMode::kAuto},
                                         {"plain", ProgressMode::kPlain},
                                         {"none", ProgressMode::kNone}}))
        ->group("Global");
    app_.add_option("--color", color_, "auto, always or never (NO_COLOR is honoured)")
        ->transform(Words<ColorMode>({{"auto", ColorMode::kAuto},
                                      {"always", ColorMode::kAlways},
                                      {"never", ColorMode::kNever}}))
        ->group("Global");
    app_.add_option("--log-level", log_level_,
                    "Of this command itself: debug, info, warning, error")
        ->group("Global");
  }

  void AddSubmitAndPlan() {
    CLI::App* submit = Add(&app_, "submit", "Train a model", [this]() -> absl::StatusOr<int> {
      if (dry_run_ == "server") submit_.dry_run = DryRun::kServer;
      if (dry_run_ == "client") submit_.dry_run = DryRun::kClient;
      return Submit(context_, submit_);
    });
    AddDataOptions(submit, &submit_.job);
    AddTrainingOptions(submit, &submit_.job);
    submit->add_flag("--wait", submit_.wait, "Wait until the job ends; its end is the exit code");
    submit->add_flag("--follow", submit_.follow, "The same, with progress");
    AddTimeout(submit, &submit_.timeout_s, "Stop waiting after this time; the job goes on");
    submit
        ->add_flag("--dry-run{client}", dry_run_,
                   "Only check: =client (here) or =server (all checks)")
        ->check(CLI::IsMember({"client", "server"}));
    submit->add_option("--idempotency-key", submit_.idempotency_key,
                       "The same key and job again: the same job, not a second one");
    CLI::App* plan = Add(&app_, "plan", "Profile and plan a job without running it",
                         [this]() -> absl::StatusOr<int> { return PlanCommand(context_, plan_); });
    AddDataOptions(plan, &plan_.job);
    AddTrainingOptions(plan, &plan_.job);
    AddTimeout(plan, &plan_.timeout_s, "Give up after this time (default 10m)");
    AddPlanOptions(plan, &plan_);
    plan->footer(
        "With --profile and --topology nobody is asked, and no model is needed: a profile is one "
        "that\n`pipedream profile` saved or a published *.graph.txt, a topology a file as in "
        "docs/planner.md.\n\n"
        "Examples:\n"
        "  pipedream plan --model m.onnx --data d/ --loss cross_entropy --explain --save "
        "plan.json\n"
        "  pipedream plan --model m.onnx --data d/ --loss cross_entropy --what-if "
        "workers=8,link=25G\n"
        "  pipedream plan --profile vgg16.graph.txt --topology cluster.yaml -o json");
  }

  void AddProfile() {
    CLI::App* profile = app_.add_subcommand("profile", "What a model costs, node by node");
    profile->require_subcommand(1);
    CLI::App* make =
        Add(profile, "make", "Measure a model on the idle workers",
            [this]() -> absl::StatusOr<int> { return ProfileMake(context_, profile_); });
    AddDataOptions(make, &profile_.job);
    AddTrainingOptions(make, &profile_.job);
    AddTimeout(make, &profile_.timeout_s, "Give up after this time (default 10m)");
    make->add_option("--save-topology", profile_.save_topology,
                     "Write the workers and their links to a file too, for plan --topology")
        ->type_name("FILE");
    CLI::App* show =
        Add(profile, "show", "Show a saved profile, or a published *.graph.txt",
            [this]() -> absl::StatusOr<int> { return ProfileShow(context_, profile_); });
    show->add_option("FILE", profile_.file)->required();
    for (CLI::App* app : {make, show}) {
      app->add_option("--save", profile_.save, "Write the profile to a file, for plan --profile")
          ->type_name("FILE");
    }
  }

  void AddGet() {
    get_ = app_.add_subcommand("get", "List jobs or workers");
    get_->require_subcommand(1);
    CLI::App* jobs = Add(get_, "jobs", "Jobs, newest first", [this]() -> absl::StatusOr<int> {
      if (list_.exit_status && list_.ids.size() != 1) {
        return WithReason(InvalidArgument("--exit-status needs exactly one ID"), kUsageReason);
      }
      return GetJobs(context_, list_);
    });
    jobs->alias("job");
    jobs->add_option("ID", list_.ids, "Only these");
    jobs->add_option("--state", list_.states, "Only jobs in this state; may be repeated")
        ->delimiter(',')
        ->expected(1)
        ->take_all();
    jobs->add_option("--limit", list_.limit, "At most so many")->check(CLI::Range(1, 100'000));
    jobs->add_flag("--exit-status", list_.exit_status,
                   "Of one ID: 0 succeeded, 100 failed, 101 not finished, 103 cancelled");
    CLI::App* workers =
        Add(get_, "workers", "Workers and what they do",
            [this]() -> absl::StatusOr<int> { return GetWorkers(context_, list_); });
    workers->alias("worker");
    workers->add_option("ID", list_.ids, "Only these");
    for (CLI::App* app : {jobs, workers}) {
      app->add_flag("--no-headers{false}", context_.terminal.headers, "Rows only");
    }
  }

  void AddJobCommands() {
    CLI::App* describe = app_.add_subcommand("describe", "Everything about one thing");
    describe->require_subcommand(1);
    CLI::App* job = Add(describe, "job", "A job: plan, progress, failure, events",
                        [this] { return DescribeJobCommand(context_, describe_); });
    job->alias("jobs");
    job->add_option("ID", describe_.id)->required();
    job->add_option("--events", describe_.events, "How many of the latest events")
        ->check(CLI::NonNegativeNumber);
    CLI::App* logs = Add(&app_, "logs", "What happened to a job",
                         [this]() -> absl::StatusOr<int> { return Logs(context_, logs_); });
    logs->add_option("ID", logs_.id)->required();
    logs->add_flag("-f,--follow", logs_.follow, "Until it ends; its end is the exit code");
    logs->add_option("--tail", logs_.tail, "Only the latest N")->check(CLI::NonNegativeNumber);
    AddTimeout(logs, &logs_.timeout_s, "Stop following after this time");
    CLI::App* cancel = Add(&app_, "cancel", "Stop a job",
                           [this]() -> absl::StatusOr<int> { return Cancel(context_, id_); });
    cancel->add_option("ID", id_)->required();
    CLI::App* verify = Add(&app_, "verify", "Say which semantics a job really followed",
                           [this]() -> absl::StatusOr<int> { return Verify(context_, verify_); });
    verify->add_option("ID", verify_.id)->required();
    verify
        ->add_option("--steps", verify_.steps,
                     "Minibatches to replay (default: as many as take about 10 s)")
        ->check(CLI::PositiveNumber);
    AddTimeout(verify, &verify_.timeout_s, "Give up after this time (default 10m)");
    CLI::App* take = Add(&app_, "export", "Take the trained model of a job",
                         [this]() -> absl::StatusOr<int> { return Export(context_, export_); });
    take->add_option("ID", export_.id)->required();
    take->add_option("--onnx", export_.path, "File to write")->type_name("FILE")->required();
  }

  void AddLocal() {
    local_command_ = Add(&app_, "local", "Run a coordinator and workers on this machine",
                         [this]() -> absl::StatusOr<int> { return Local(context_, local_); });
    CLI::App* app = local_command_;
    app->add_option("--workers", local_.workers, "How many workers (default 4)")
        ->check(CLI::Range(1, 1024));
    app->add_option("--threads", local_.threads, "Threads per worker (default: cores / workers)")
        ->check(CLI::Range(1, 1024));
    app->add_option(
        "--state-dir", local_.state_dir,
        "Where jobs and logs are kept (default: a temporary folder, removed at the end)");
    app->add_option("--port", local_.port,
                    "Of the coordinator; 0: any free one (default 7070, or "
                    "any free one with a COMMAND)")
        ->check(CLI::Range(0, 65535));
    AddBytes(app, "--memory", &local_.memory_bytes, "Memory that each worker may use (1.5GiB)");
    app->add_option("--transport", local_.transport, "auto, shm or tcp");
    app->footer(
        "pipedream local [flags] -- COMMAND runs COMMAND with PIPEDREAM_SERVER set, ends "
        "with it, and returns its exit code.");
  }

  static void AddCosts(CLI::App* app, UnitCosts* costs) {
    const char* group = "Costs (any unit of time; of a device and one microbatch)";
    auto add = [&](const char* flag, double* value, const char* help) {
      app->add_option(flag, *value, help)
          ->check(CLI::Range(0.0, 1e9))
          ->type_name("X")
          ->group(group);
    };
    add("--forward", &costs->forward, "Forward (default 1)");
    add("--backward-input", &costs->backward_input, "Input gradient (default 1)");
    add("--backward-weight", &costs->backward_weight, "Weight gradient (default 1)");
    add("--step", &costs->step, "Update (default 0)");
  }

  void AddSchedule() {
    CLI::App* schedule = app_.add_subcommand("schedule", "What schedules do and cost, on paper");
    schedule->require_subcommand(1);
    Add(schedule, "list", "The schedules that there are",
        [this]() -> absl::StatusOr<int> { return ScheduleList(context_); });
    CLI::App* show = Add(schedule, "show", "A schedule's picture, time and memory",
                         [this]() -> absl::StatusOr<int> {
                           if (show_.name.empty() == show_.file.empty()) {
                             return Usage("expected the NAME of a schedule or --file");
                           }
                           return ScheduleShow(context_, show_);
                         });
    CLI::Option* file = show->add_option("--file", show_.file,
                                         "A table of your own, text or CSV (docs/schedules.md)")
                            ->type_name("FILE");
    const CLI::Range counts(1, 4096);
    std::vector<CLI::Option*> shape = {
        show->add_option("NAME", show_.name),
        show->add_option("--stages", show_.pipeline.devices, "Devices in a row (default 4)")
            ->check(counts),
        show->add_option("--microbatches", show_.pipeline.microbatches,
                         "Of a minibatch (default 8)")
            ->check(counts),
        show->add_option("--chunks", show_.pipeline.chunks,
                         "Model stages on each device (default 2 where the schedule takes several)")
            ->check(counts),
        show->add_option("--replicas", show_.pipeline.replicas, "Of each stage: 2,1,1,1")
            ->delimiter(',')
            ->check(counts),
        show->add_option("--warmup", show_.pipeline.warmup,
                         "Forwards ahead of the first backward, of each stage: 6,4,2,0")
            ->delimiter(',')
            ->check(CLI::Range(0, 4096))};
    for (CLI::Option* option : shape) option->excludes(file);
    show->add_option("--minibatches", show_.minibatches, "How many to draw")->check(counts);
    AddCosts(show, &show_.costs);
    show->add_option("--link", show_.costs.link_latency, "One way between devices (default 0)")
        ->check(CLI::Range(0.0, 1e9))
        ->type_name("X");
    show->add_option("--trace", show_.trace, "Write the picture for ui.perfetto.dev")
        ->type_name("FILE");
    show->add_option("--table", show_.table, "Print the table instead: text or csv")
        ->check(CLI::IsMember({"text", "csv"}));
    compare_ = Add(schedule, "compare", "Time and memory of all schedules side by side",
                   [this]() -> absl::StatusOr<int> {
                     return ScheduleCompare(context_, schedule_comparison_);
                   });
    auto list = [&](const char* flag, std::vector<int>* values, const char* help) {
      compare_->add_option(flag, *values, help)->delimiter(',')->check(counts);
    };
    list("--stages", &schedule_comparison_.stages, "Devices in a row (default 4,8)");
    list("--microbatches", &schedule_comparison_.microbatches, "Of a minibatch (default 8,32)");
    list("--chunks", &schedule_comparison_.chunks,
         "Model stages on each device, where schedules take several (default 2,4)");
    compare_->add_option("--link", schedule_comparison_.links, "One way (default 0,0.25,0.5,1)")
        ->delimiter(',')
        ->check(CLI::Range(0.0, 1e9))
        ->type_name("X");
    AddCosts(compare_, &schedule_comparison_.costs);
  }

  void AddOthers() {
    CLI::App* version =
        Add(&app_, "version", "Versions of this command and the coordinator",
            [this]() -> absl::StatusOr<int> { return Version(context_, client_only_); });
    version->add_flag("--client", client_only_, "Only of this command");
    CLI::App* help =
        Add(&app_, "help", "Help on a command, or exit-codes", [this] { return Help(); });
    help->add_option("TOPIC", topic_, "exit-codes, or a command");
    CLI::App* completion = app_.add_subcommand("completion", "Completion script for a shell");
    completion->require_subcommand(1);
    Add(completion, "bash", "source <(pipedream completion bash)", [this]() -> absl::StatusOr<int> {
      PrintCompletion();
      return kExitOk;
    });
  }

  absl::StatusOr<int> Help() {
    std::ostream& out = *context_.terminal.out;
    if (topic_.empty()) {
      out << app_.help();
    } else if (topic_ == "exit-codes") {
      PrintExitCodes(out);
    } else if (auto apps = app_.get_subcommands(
                   [this](const CLI::App* app) { return app->get_name() == topic_; });
               !apps.empty()) {
      out << apps.front()->help("pipedream");
    } else {
      return Usage(fmt::format("help: no topic {}; there are exit-codes and the commands", topic_));
    }
    return kExitOk;
  }

  static std::string WordsOf(const CLI::App* app) {
    std::string words;
    for (const CLI::App* sub : app->get_subcommands({})) words += sub->get_name() + " ";
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
    }
    return words;
  }

  void PrintCompletion() {
    std::ostream& out = *context_.terminal.out;
    out << "_pipedream() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words\n"
           "  case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n";
    std::vector<std::pair<std::string, std::string>> rows;
    for (const CLI::App* app : app_.get_subcommands({})) {
      for (const CLI::App* sub : app->get_subcommands({})) {
        rows.emplace_back(fmt::format("\"{} {}\"", app->get_name(), sub->get_name()), WordsOf(sub));
      }
      rows.emplace_back(fmt::format("\"{} \"*", app->get_name()), WordsOf(app));
    }
    rows.emplace_back("*", WordsOf(&app_));
    for (const auto& [pattern, words] : rows) {
      out << fmt::format("    {}) words=\"{}\" ;;\n", pattern, words);
    }
    out << "  esac\n  [[ $COMP_CWORD -eq 1 ]] && words=\"" << WordsOf(&app_)
        << "\"\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "  [[ ${#COMPREPLY[@]} -gt 0 ]] || COMPREPLY=($(compgen -f -- \"$cur\"))\n}\n"
           "complete -F _pipedream pipedream\n";
  }

  absl::Status CompleteContext() {
    if (!server_.empty()) context_.server.flag = server_;
    if (color_ == ColorMode::kAlways) context_.terminal.color = true;
    if (color_ == ColorMode::kNever) context_.terminal.color = false;
    LogOptions log;
    log.program = "pipedream";
    if (!ParseLogLevel(log_level_, &log.level)) {
      return InvalidArgument("--log-level {}: expected debug, info, warning, error or off",
                             log_level_);
    }
    InitLog(log);
    return absl::OkStatus();
  }

  CommandContext context_;
  CLI::App app_{"Trains ONNX models as a pipeline over several workers.", "pipedream"};
  std::map<const CLI::App*, Command> commands_;
  CLI::App* get_ = nullptr;
  CLI::App* local_command_ = nullptr;
  CLI::App* compare_ = nullptr;
  std::string server_, log_level_ = "warning", dry_run_, id_, topic_;
  ColorMode color_ = ColorMode::kAuto;
  bool client_only_ = false;
  SubmitOptions submit_;
  PlanOptions plan_;
  ProfileOptions profile_;
  GetOptions list_;
  DescribeOptions describe_;
  LogsOptions logs_;
  ExportOptions export_;
  VerifyOptions verify_;
  LocalOptions local_;
  ScheduleShowOptions show_;
  ScheduleCompareOptions schedule_comparison_;
};

}  // namespace

int RunCommandLine(const std::vector<std::string>& arguments, CommandContext context) {
  return CommandTree(std::move(context)).Run(arguments);
}

}  // namespace pipedream
