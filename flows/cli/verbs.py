"""The verbs of `prelaunch`, and its parser. A verb's module is imported only when its arguments are needed."""

from __future__ import annotations

import importlib

from checks.command_line import Parser
from checks.version import ENGINE

# verb -> what --help says of it. Its module, flows.cli.<verb>, has add_arguments(parser) and run(arguments) -> int.
VERBS = {
    "gate": "check the nodes, decide, then launch the training, ask a person, or notify people",
    "serve": "offer the gate and commission forms on a Prefect server, and run them on this machine",
    "init": "write a new gate file, from options",
    "doctor": "look at everything that a gate needs on this machine and account",
    "plan": "print what a gate would check, start and cost, and who would be notified; nothing is started",
    "trigger": "start a run of a deployment on a Prefect server, and follow it",
    "watch": "follow a run on a Prefect server, and exit with its exit code",
    "judge": "judge existing reports again, or show the verdict that a gate kept, in every format",
    "replay": "show which past verdicts would change under another policy, and why",
    "slack": "serve the buttons and the /prelaunch command of a Slack workspace",
    "store": "list or index the verdicts in a store, and remove old ones",
    "baseline": "learn from reports what your machines usually reach, or print a baseline",
    "remedy": "repair the machines that a gate condemned, prove them and give them back, as the gate file allows",
    "fleet": "say which nodes are proven, and list all of them, or show everything that is kept of one",
    "explain": "read the raw output of a tool: findings, and the lines that prove them",
    "check": "check this node now",
    "node": "list the checks of a node, run or judge them there, or put a gate in front of a command",
    "machines": "list the machines of a cluster: their state by the engine and by us, and every act",
    "drill": "make a fault on a free node, to see whether it is noticed, and undo it",
    "monitoring": "write what Prometheus needs to watch the declared nodes",
    "exporter": "serve metrics about the gates in a store to Prometheus",
    "cluster-config": "write the configuration of a cluster of AWS ParallelCluster, and print the commands that create it",
    "slurm": "check what a Slurm cluster can do for jobs: srun, enroot, pyxis",
    "export": "send a report and its verdict to MLflow, as a run of an experiment",
    "examples": "copy the files that you edit (gate files, policies, prefect.yaml, systemd units) to a folder",
    "completion": "print the script that completes prelaunch in bash, zsh or fish",
    "schema": "print the JSON Schema of a gate file, a policy or a report, for editors",
    "facts": "print the facts about an instance type, and the thresholds of its policy",
}
EXIT_CODES = (
    "exit codes: 0 go, 1 no-go, 2 rejected before anything started, 3 cannot tell, "
    "4 launch or training failed after a go, 5 no machines (for the checks, or after a go for the training) or a service "
    "error, 130 and 143 interrupted"
)


def empty_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and that of each verb, which has no arguments yet."""
    parser = Parser(
        prog="prelaunch",
        description="Tests the machines that a distributed training job will run on, and decides whether it may start.",
        epilog=EXIT_CODES,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"prelaunch {ENGINE}")
    group = parser.add_subparsers(metavar="VERB", title="verbs")
    made = {
        verb: group.add_parser(verb, help=text, description=text, epilog=EXIT_CODES, allow_abbrev=False)
        for verb, text in VERBS.items()
    }
    return parser, made


def add_verb(verb: str, parser: Parser) -> None:
    """Import the verb's module, which adds its arguments to the verb's parser."""
    module = importlib.import_module(f"flows.cli.{verb.replace('-', '_')}")
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)


def whole_parser() -> Parser:
    """The parser with the arguments of every verb."""
    parser, verbs = empty_parser()
    for verb, own in verbs.items():
        add_verb(verb, own)
    return parser
