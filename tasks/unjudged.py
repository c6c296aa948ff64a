"""A verdict for a gate that judged nothing: nobody can tell, and why. A page that an earlier run left must not stand."""

from __future__ import annotations

from checks.facts.shipped import builtin
from checks.model import CLUSTER, Cause, Digests, Finding, Level, Verdict
from checks.report import digest, dump_plain
from checks.verdict import NOTHING, conclude
from checks.version import ENGINE
from tasks.inputs import NO_POLICY

REMEDY = "Mend what it says and run the gate again. It says nothing against any machine."


def unjudged(reason: str) -> Verdict:
    """Cannot tell, for the reason given."""
    said = f"nothing was judged: {reason}"
    finding = Finding(Level.FAIL, Cause.EVIDENCE, "report", CLUSTER, said, "", REMEDY)
    digests = Digests(digest(b""), digest(dump_plain(NO_POLICY)), builtin().digest, None, ENGINE)
    return conclude([finding], NOTHING, NO_POLICY, 1, digests, None)
