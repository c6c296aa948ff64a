"""The commands of `prelaunch`, and its parser. A command's module is imported only when its arguments are needed."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Sequence

from checks.command_line import Parser
from checks.documents.nearest import nearest
from checks.version import ENGINE

# The words of a command -> its module in flows/cli, which has add_arguments(parser) and run(arguments) -> int, and what --help says.
# A verb without a module has commands below it.
COMMANDS = {
    "gate": ("gate", "check the nodes and decide, then launch, ask a person, or refuse"),
    "plan": ("plan", "print what a gate would check, start and cost; nothing is started"),
    "check": ("check", "check this node now"),
    "init": ("init", "write a new gate file, from options"),
    "doctor": ("doctor", "check that this machine and this account have what a gate needs"),
    "judge": ("judge", "judge reports again, or show the verdict that a gate stored"),
    "explain": ("explain", "say what the output of nccl-tests, dcgmi and other tools shows"),
    "facts": ("facts", "print what is known about an instance type: GPUs, rates, price"),
    "fleet": ("", "list nodes and verdicts of past gates"),
    "fleet list": ("fleet", "say which nodes are proven, and list all of them, or show everything about one"),
    "fleet store": ("store", "list or index the verdicts in a store, and remove old ones"),
    "fleet baseline": ("baseline", "learn from reports what your machines usually reach, or print it"),
    "fleet replay": ("replay", "show which past verdicts would change under another policy, and why"),
    "fleet export": ("export", "send a report and its verdict to MLflow, as a run of an experiment"),
    "repair": ("", "repair condemned machines, or rehearse a fault"),
    "repair run": (
        "remedy",
        "repair the machines that a gate condemned, test them again and return them to service, as far as the gate file allows",
    ),
    "repair drill": ("drill", "make a fault on a free node, to see whether it is noticed, and undo it"),
    "serve": ("", "run a service until it is stopped (Ctrl-C or SIGTERM)"),
    "serve forms": ("serve", "offer the forms on a Prefect server, and run what they start on this machine"),
    "serve slack": ("slack", "serve the buttons and the /prelaunch command of a Slack workspace"),
    "serve exporter": ("exporter", "serve metrics about the gates in a store to Prometheus"),
    "run": ("", "start or follow a gate on a Prefect server"),
    "run start": ("trigger", "start a run of a deployment, and follow it"),
    "run follow": ("watch", "follow a run, and exit with its exit code"),
    "node": ("node", "list, run or judge the checks on a node, or gate a command there"),
    "site": ("", "write a site's files, and check its cluster"),
    "site monitoring": ("monitoring", "write what Prometheus needs to watch the declared nodes"),
    "site slurm": ("slurm", "check what a Slurm cluster can do for jobs: srun, enroot, pyxis"),
    "site parallelcluster": ("cluster_config", "write the configuration of a cluster of AWS ParallelCluster"),
    "site examples": ("examples", "copy the files that you edit (gate files, policies, units) to a folder"),
    "site schema": ("schema", "print the JSON Schema of a gate file, a policy, a report or a result"),
    "site completion": ("completion", "print the script that completes prelaunch in bash, zsh or fish"),
}
VERBS = tuple(path for path in COMMANDS if " " not in path)
# The first verb of a group in --help -> the title of the group.
TITLES = {"gate": "A gate", "judge": "Evidence", "fleet": "Machines", "serve": "Services", "node": "A site"}
HELP = """usage: prelaunch [-h] [--version] VERB ...

Tests the machines that a distributed training job will run on, and decides
whether it may start. The first three commands are:

  prelaunch init --engine local --instance-type cpu --nodes 1
  prelaunch doctor gate.toml
  prelaunch gate gate.toml"""
# A command -> other words that people try for it.
MEANT = {"fleet list": "machines nodes history trend", "judge": "render", "run follow": "status"}
OF_GATE = (
    "0 go, 1 no-go, 2 rejected before anything started, 3 cannot tell, 4 launch or training failed after a go, 5 no machines (for the "
    "checks, or after a go for the training) or a service error, 130 and 143 interrupted (0 also for any verdict in observe mode)"
)
OF_VERDICT = "0 go, 1 no-go, 2 rejected, 3 cannot tell, {}130 and 143 interrupted"
# Others say in their description what their codes mean.
EXIT_CODES = {
    **dict.fromkeys(("gate", "run start", "run follow"), OF_GATE),
    "plan": "0 nothing but example values is known to be wrong, 2 the gate would be rejected, 3 the engine did not "
    "answer, 5 no machines now, or the store failed",
    **dict.fromkeys(("check", "explain"), OF_VERDICT.format("")),
    "judge": OF_VERDICT.format("5 the store failed, "),
    "node": OF_VERDICT.format("127 COMMAND does not exist, "),
}


def help_text() -> str:
    """The text of `prelaunch --help`: the commands that a newcomer needs first, then the verbs in groups."""
    lines = [HELP]
    for verb in VERBS:
        below = ", ".join(path.partition(" ")[2] for path in COMMANDS if path.startswith(f"{verb} "))
        text = f"{verb:9}{COMMANDS[verb][1]}{below and ': '}{below}"
        lines += ["", f"{TITLES[verb]}:"] if verb in TITLES else []
        lines += textwrap.wrap(text, 79, initial_indent="  ", subsequent_indent=" " * 11)
    return "\n".join([*lines, "", "prelaunch VERB --help shows the options of a verb.", ""])


def empty_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and that of each command, which has no arguments yet."""
    parser = Parser(prog="prelaunch", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"prelaunch {ENGINE}")
    groups = {"": parser.add_subparsers(metavar="VERB")}
    parsers = {}
    for path, (module, text) in COMMANDS.items():
        group, _, name = path.rpartition(" ")
        codes = f"exit codes: {EXIT_CODES[path]}" if path in EXIT_CODES else None
        own = groups[group].add_parser(name, help=text, description=text, epilog=codes, allow_abbrev=False)
        parsers[path] = own
        if not module:
            groups[path] = own.add_subparsers(title="commands", required=True)
    return parser, parsers


def command_of(argv: Sequence[str]) -> str:
    """The command that the words begin with; "" for none."""
    return next((path for count in (2, 1) if (path := " ".join(argv[:count])) in COMMANDS), "")


def nearest_command(command: str, typed: str) -> str | None:
    """The command that was probably meant by a word that is none: its last word, its module, or another word for it is nearest.

    `command` stands before the word. None if nothing is near, if the word is an option, or if the command takes arguments.
    """
    if typed[:1] in ("", "-") or COMMANDS.get(command, ("",))[0]:
        return None
    below = [path for path in COMMANDS if path.startswith(f"{command} ".lstrip())]
    below.sort(key=len, reverse=True)  # the shorter command has the name that two have
    terms = {path: (COMMANDS[path][0], path.split()[-1], *MEANT.get(path, "").split()) for path in below}
    names = {name: path for path in below for name in terms[path]}
    match = nearest(typed, list(names))
    return names[match] if match else None


def add_arguments(command: str, parser: Parser) -> None:
    """Import the command's module, which adds its arguments to the command's parser; a group has none."""
    if name := COMMANDS[command][0]:
        module = importlib.import_module(f"flows.cli.{name}")
        module.add_arguments(parser)
        parser.set_defaults(run=module.run)


def whole_parser() -> Parser:
    """The parser with the arguments of every command."""
    parser, parsers = empty_parser()
    for command, own in parsers.items():
        add_arguments(command, own)
    return parser
