"""The first verdict on nodes that nobody prepared: `srun -N4 python3 prelaunch.pyz check --instance-type T`, or the same command on
each host with `--hosts a,b --run NAME`.

The first node makes a folder that the others see, with the bundle and a key; then every node runs the agent. The first one prints the
verdict, and the --exclude line for the next srun. Without Slurm and --hosts it is this machine alone.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from checks import bundle as bundles
from checks import cli as checks_cli
from checks.bundle import Bundle
from checks.command_line import PlaceError
from checks.documents.hostlist import HostListError, expand
from checks.documents.report import MERGED_FILE, load
from checks.exchange import secret_key
from checks.exit_codes import Exit
from checks.facts import person_options
from checks.facts.builtin import builtin
from checks.judge.verdict import ANSWER_EXITS, decide, failed_nodes
from checks.model import CLUSTER, LINK, Cause, Level, Profile, Report, Verdict, node_of
from checks.process import inheritance, machine_state
from checks.process.stderr import say
from checks.runner import single_node
from checks.value_types import DecodeError
from container.agent import cli as agent_cli

JOIN_S = 60.0
LOOK_S = 0.1
INHERITED = ("PRELAUNCH_INTERFACE", "PRELAUNCH_PYTHON", machine_state.VARIABLE)
# As in a gate's batch script (tasks/launchers/slurm/job.sh): two jobs on one node do not meet.
FIRST_PORT, PORTS, PORTS_PER_JOB = 20000, 3000, 4


def main(argv: Sequence[str]) -> int:
    """Run `check`, or one of the commands of `python -m checks`; returns the exit code."""
    inheritance.restore_defaults()
    if list(argv[:1]) != ["check"]:
        return checks_cli.main(list(argv), prog="prelaunch.pyz")
    arguments = _parser().parse_args(argv[1:])
    try:
        return _check(arguments, dict(os.environ))
    except (PlaceError, HostListError) as error:
        say(f"prelaunch: {error}")
        return Exit.REJECTED
    except OSError as error:
        say(f"prelaunch: {error.filename or arguments.out}: {error.strerror}")
        return Exit.CANNOT_TELL


def excluded(verdict: Verdict, names: Sequence[str], reported: Sequence[str]) -> tuple[str, ...]:
    """The nodes that the next srun should do without, of those that are there: what failed, and what cannot be told.

    () if nothing says so, and if it would be all of them: then the cause is not one node. Of a bad link both ends count.
    """
    failed = [finding for finding in verdict.findings if finding.level is Level.FAIL]
    silent = set(names) - set(reported)
    broken = set(failed_nodes(verdict))
    unknown = _nodes(finding.subject for finding in failed if finding.cause is Cause.EVIDENCE)
    bad = broken | silent | (unknown if unknown < set(names) else set())
    if verdict.suspect_policy or bad >= set(names):
        return ()
    return tuple(name for name in names if name in bad)


def _nodes(subjects: Iterable[str]) -> set[str]:
    return {node_of(end) for subject in subjects for end in subject.split(LINK)} - {CLUSTER}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prelaunch.pyz check", description=__doc__)
    parser.add_argument("--instance-type", help="the instance type of the nodes, such as cpu or p5.48xlarge")
    parser.add_argument("--profile", choices=[p.value for p in Profile], default=Profile.QUICK.value)
    parser.add_argument("--policy", type=Path, help="policy as JSON (or TOML from Python 3.11 on)")
    text = "a folder that all nodes see, for the reports (default: the current one)"
    parser.add_argument("--out", type=Path, default=Path(), help=text)
    text = "the names of all hosts (node-[1-4] or a,b), where Slurm does not say them"
    parser.add_argument("--hosts", default="", help=text)
    parser.add_argument("--host", default="", help="which of them this one is (default: its own name)")
    text = "the same on all hosts, and another one each time"
    parser.add_argument("--run", default="", metavar="NAME", help=text)
    person_options.add_arguments(parser)
    return parser


def _check(arguments: argparse.Namespace, environment: Mapping[str, str]) -> int:
    if environment.get("SLURM_LOCALID", "0") != "0":
        return Exit.GO  # one process per node checks it
    start = _start_of(arguments, environment)
    names, node = start.names, start.node
    folder = arguments.out.absolute() / f"prelaunch-check-{start.number}"
    bundle = folder / "in" / "bundle.json"
    first = node == names[0]
    # Every node reads the policy: where it is none, nobody waits for a folder that the first node will not make.
    own_bundle = single_node.own_bundle("check", arguments, len(names), announced=first)
    if first:
        _prepare(folder, own_bundle)
    elif not _within(JOIN_S, lambda: _is_ours(folder) and bundle.is_file()):
        message = f"{node}: the first node, {names[0]}, made no folder {folder} that is seen here. Name a shared folder with --out."
        raise PlaceError(message)
    _set_environment(folder, start, listed=bool(arguments.hosts))
    code = agent_cli.main(
        ("check", "--root", str(folder / node), "--bundle", str(bundle), "--out", str(folder / "out"))
    )
    if not first:
        return code
    secret_key.remove(folder / "in" / secret_key.FILE)
    return _show(folder / "out" / MERGED_FILE, bundle, names, code, verbose=arguments.verbose)


@dataclass(frozen=True)
class _Start:
    """One start of the same command on all hosts: their names, this one's, what names the start, and the first of its ports."""

    names: tuple[str, ...]
    node: str
    number: str
    port: int


def _start_of(arguments: argparse.Namespace, environment: Mapping[str, str]) -> _Start:
    """From the options, otherwise from Slurm, otherwise this host alone. Raises PlaceError and HostListError."""
    if arguments.hosts:
        names = tuple(expand(arguments.hosts))
        node = arguments.host or socket.gethostname()
        if node not in names:
            raise PlaceError(f"this host is {node}, which --hosts does not have. Name it with --host.")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", arguments.run):
            message = "with --hosts, give all of them the same --run NAME, another one each time: letters, digits, . _ -"
            raise PlaceError(message)
        return _Start(names, node, arguments.run, _port(zlib.crc32(arguments.run.encode())))
    listed = environment.get("SLURM_STEP_NODELIST", "")
    if not listed:
        return _Start((socket.gethostname(),), socket.gethostname(), uuid.uuid4().hex, _port(os.getpid()))
    ids = [environment.get(f"SLURM_{name}", "0") for name in ("JOB_ID", "STEP_ID", "RESTART_COUNT")]
    job = int(ids[0]) if ids[0].isdecimal() else os.getpid()
    return _Start(tuple(expand(listed)), environment.get("SLURMD_NODENAME", ""), "-".join(ids), _port(job))


def _port(number: int) -> int:
    return FIRST_PORT + PORTS_PER_JOB * (number % PORTS)


def _prepare(folder: Path, own_bundle: Bundle) -> None:
    """Let the folder appear complete, for its owner alone. Raises OSError."""
    partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        (partial / "in").mkdir(parents=True)
        partial.chmod(0o700)
        (partial / "in" / "bundle.json").write_bytes(bundles.dump(own_bundle))
        secret_key.write(partial / "in" / secret_key.FILE, secret_key.make())
        os.rename(partial, folder)
    except OSError as error:
        if folder.exists():
            message = f"{folder} is there already: a run of that name was made before. Give another --run."
            raise PlaceError(message) from error
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Whether we made it: in a folder that everybody may write, somebody else could have been first."""
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _set_environment(folder: Path, start: _Start, *, listed: bool) -> None:
    """The agent's settings; what the user's shell has of another gate is none of them."""
    for name in [name for name in os.environ if name.startswith("PRELAUNCH_") and name not in INHERITED]:
        del os.environ[name]
    os.environ |= {
        "PRELAUNCH_EXCHANGE_KEY": str(folder / "in" / secret_key.FILE),
        "PRELAUNCH_SHARED": "1",
        "PRELAUNCH_JOIN_S": f"{JOIN_S:g}",
        "PRELAUNCH_PORT": str(start.port),
        **({"PRELAUNCH_HOSTS": ",".join(start.names), "PRELAUNCH_NODE": start.node} if listed else {}),
    }


def _show(path: Path, bundle: Path, names: Sequence[str], code: int, *, verbose: bool) -> int:
    """Print where the merged report is, whose verdict the checks printed, and the line for the next srun. Returns the exit code."""
    try:
        report: Report = load(path.read_bytes())
        rules = bundles.load(bundle.read_bytes()).policy
    except FileNotFoundError:
        return code or Exit.CANNOT_TELL  # the agent has said why
    except DecodeError as error:
        say(f"prelaunch: {path}: {error}")
        return code or Exit.CANNOT_TELL
    if verbose:
        say("\n".join(person_options.lines_of(report)))
    verdict = decide(report, rules, builtin())
    code_of_verdict = ANSWER_EXITS[verdict.answer]
    print(f"report: {path}")
    without = excluded(verdict, names, [reported.name for reported in report.nodes])
    if without:
        print(f"--exclude={','.join(without)}")
    elif code_of_verdict and len(names) > 1:
        print("There is no --exclude line: no part of the nodes explains this.")
    sys.stdout.flush()
    return code_of_verdict or code


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
