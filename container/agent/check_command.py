"""What the checks are started with: roster, arguments and environment variables."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checks.bundle import Bundle
from checks.exchange import secret_key
from checks.exchange.secret_key import Access
from checks.process.environment import for_checks, for_training
from checks.roster import Member, Roster
from container.agent.hosts import address
from container.agent.hosts.roll_call import AttemptMembers
from container.agent.hosts.roster_source import Hosts
from container.agent.sagemaker import channel
from container.agent.settings import Settings, Verb
from container.agent.supervisor import Signals

PACKAGES = Path(__file__).parents[2]
POOLED_AS = "PRELAUNCH_POOL_TOKEN"  # checks.probes.host.system reads it
CHOICE = "chosen.json"
WORKING = "PRELAUNCH_WORKING_FOLDER"  # checks.runner.in_job.job_gate goes back there


@dataclass(frozen=True)
class AgentContext:
    """What the agent knows before the other hosts have called. `scratch` holds bundle.json, and pass.json where there is one.

    `bundle` is None only where a command runs without checks.
    """

    settings: Settings
    signals: Signals
    gate_id: str
    bundle: Bundle | None
    hosts: Hosts
    scratch: Path
    access: Access
    key_path: Path


def own_address(hosts: Hosts) -> str:
    """The address at which the peers find this host."""
    peers = tuple(map(hosts.resolvable, hosts.names[:8]))
    own = hosts.resolvable(hosts.node)
    return address.own(own, hosts.interface, peers) if len(hosts.names) > 1 else "127.0.0.1"


def roster(context: AgentContext, joined: AttemptMembers) -> Roster:
    """The addresses of the roll call; an absent host is resolved by its name."""
    hosts, port = context.hosts, context.settings.port
    addresses = {name: start.address for name, start in joined.members.items()}
    members = tuple(
        Member(name, addresses.get(name) or address.resolve(hosts.resolvable(name)) or name, port + 1)
        for name in hosts.names
    )
    return Roster(members, port + 2, hosts.interface)


def arguments(context: AgentContext) -> tuple[str, ...]:
    """The arguments for the checks alone, for the gate in front of the command, or for the command alone."""
    settings, scratch = context.settings, context.scratch
    if settings.verb is Verb.EXEC:
        return filled(settings)
    common = ("--bundle", str(scratch / "bundle.json"), "--out", str(settings.out.absolute()))
    argv = [settings.python or sys.executable, "-m", "checks", "gate", *common]
    if settings.verb is Verb.GATE:
        argv += ["--confirm", str(scratch / "pass.json")] if settings.confirm else []
        argv += ["--pooled"] if settings.confirm and settings.pooled else []
        argv += ["--ask-s", f"{settings.ask_s:g}"] if settings.ask_s else []
        argv += ["--observe"] if settings.observe else []
        argv += (
            ["--choice", str(scratch / CHOICE)] if context.bundle and context.bundle.declared.spares else []
        )
        argv += ["--", *settings.command]
    return tuple(argv)


def filled(settings: Settings) -> tuple[str, ...]:
    """The command with {job}, {out} and {python} for this host's folders and interpreter."""
    values = {
        "{job}": str(channel(settings.root)),
        "{out}": str(settings.out),
        "{python}": settings.python or sys.executable,
    }
    return tuple(
        re.sub(r"\{(?:job|out|python)\}", lambda match: values[match[0]], item) for item in settings.command
    )


def environment(
    context: AgentContext, token: str, inherited: Mapping[str, str], pool_token: str = ""
) -> dict[str, str]:
    """The container's own, and where this node is. Who starts the job cannot give it a pool's token.

    The checks are told where the key of their exchange lies; a command without checks is not.
    """
    bare = context.settings.verb is Verb.EXEC
    engine = {key: value for key, value in inherited.items() if key not in (POOLED_AS, secret_key.VARIABLE)}
    with_code = for_checks(engine, str(PACKAGES), {})
    return {
        **(for_training(with_code) if bare else with_code),
        **({} if bare else {secret_key.VARIABLE: str(context.key_path.absolute())}),
        **({POOLED_AS: pool_token} if pool_token else {}),
        "PRELAUNCH_ROSTER": str(context.scratch / "roster.json"),
        "PRELAUNCH_NODE": context.hosts.node,
        # The checks run elsewhere: an image may have a checks/ of its own where it works. The command gets it back.
        **({WORKING: os.getcwd()} if context.settings.verb is Verb.GATE else {}),
        "PRELAUNCH_ATTEMPT": token,
        **({} if bare else {"PRELAUNCH_SCRATCH": str(context.scratch / "scratch")}),
    }
