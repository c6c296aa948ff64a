"""What a file is that was taken for another kind, by the keys at its top: so that a refusal says what was named (pure)."""

from __future__ import annotations

import tomllib

from checks.decode import DecodeError, parse_json

MOST_BYTES = 1 << 24
# The first whose keys are all there. Each set is of no other kind.
KINDS = (
    ("a report", frozenset({"schema_version", "gate_id", "declared", "plan"})),
    ("a baseline", frozenset({"schema_version", "groups", "left_out", "reports"})),
    ("a verdict", frozenset({"answer", "findings", "digests"})),
    ("a policy", frozenset({"instance_types", "on_warn", "checks"})),
    ("a gate file", frozenset({"cluster", "policy", "training"})),
    ("a report of another tool", frozenset({"cluster_info", "cluster_summary", "nodes"})),
)


def kind_of(data: bytes) -> str:
    """Such as "a baseline"; "" for what nobody here writes, and for more bytes than are worth a look."""
    if len(data) > MOST_BYTES:
        return ""
    keys = _keys(data)
    return next((name for name, needed in KINDS if needed <= keys), "")


def _keys(data: bytes) -> frozenset[str]:
    try:
        text = data.decode("utf-8")
        value = parse_json(text, MOST_BYTES) if text.lstrip()[:1] == "{" else tomllib.loads(text)
    except (DecodeError, ValueError, RecursionError):
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()
