"""Check this node now: no gate, no engine, no other node."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from checks import alone
from checks import bundle as bundles
from checks.decode import nearest
from checks.facts.shipped import builtin
from checks.model import Declared, Profile, Report, Verdict
from checks.policy import Policy
from checks.report import load
from checks.verdict import decide
from tasks.inputs import InputError
from tasks.ticks import Ticks

PRODUCT_NAME = Path("/sys/class/dmi/id/product_name")


def undeclared(product_name: Path = PRODUCT_NAME) -> InputError:
    """Nobody said what this machine is. What the firmware says of it (EC2's types, on Nitro) is a hint, no more."""
    try:
        named = product_name.read_text(errors="replace").strip()
    except OSError:
        named = ""
    known = builtin().instances
    near = named if named in known else nearest(named, list(known)) if "." in named else None
    seen = f" Its firmware calls it {named!r:.64}." if named else ""
    said = f"say what this machine should be, such as cpu or p5.48xlarge: what is found proves nothing.{seen}"
    return InputError("--instance-type", said, "", near)


def check_node(
    declared: Declared,
    profile: Profile,
    policy: Policy,
    say: Callable[[str], None],
    colour: bool,
    write: Callable[[bytes], None],
) -> tuple[Report, Verdict]:
    """Run the checks that the declaration plans, `say` a line for each as it ends, `write` the report, and judge it."""
    made = bundles.make(f"node-{uuid.uuid4().hex[:8]}", declared, profile, policy, builtin())
    ticks = Ticks(bundles.plan_of(made)[1], declared, policy, builtin(), say, colour)
    with tempfile.TemporaryDirectory(prefix="prelaunch-") as folder:
        data = alone.checked(made, Path(folder), ticks)
    ticks.finish()
    write(data)
    report = load(data)
    return report, decide(report, policy, builtin())
