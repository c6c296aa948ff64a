"""What a rule about peers finds has the link as its subject, or the node that all bad links share, and never a good node."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from checks.judge.blame import MOST_LINKS
from checks.judge.rules.apply import apply
from checks.model import CLUSTER, Cause, Finding, Observation, Outcome, Value
from tasks.gate_file.references import default_policy
from tests.checks.local_policy import local_policy

MTU = "network.mtu"
LINE = local_policy().checks[MTU]


def found(interfaces: Mapping[str, int], lost: frozenset[tuple[str, str]] = frozenset()) -> list[Finding]:
    """The findings about nodes with these interfaces' MTUs, whose kernels find the path MTU as Linux does."""
    rows = []
    for name, own in interfaces.items():
        peers = [peer for peer in interfaces if peer != name]
        gone = [(name, peer) in lost for peer in peers]
        path = [min(own, interfaces[peer]) for peer in peers]
        metrics: dict[str, Value] = {
            "peers": tuple(peers),
            "failures": tuple("lost" if one else "ok" for one in gone),
            "interface_mtu_bytes": own,
            "path_mtu_bytes": tuple(None if one else mtu for one, mtu in zip(gone, path, strict=True)),
            "full_size_lost": tuple(map(int, gone)),
            "narrowed_bytes": tuple(own - mtu for mtu in path),
        }
        rows.append(Observation(MTU, name, Outcome.MEASURED, 1.0, metrics, evidence=f"evidence of {name}"))
    return list(apply(MTU, LINE, rows, len(rows)))


def narrowed(*by: int | None) -> list[Finding]:
    """The findings of one rule about n0, which measured that the paths to n1, n2 ... are narrowed by so many bytes."""
    peers = tuple(f"n{peer}" for peer, _ in enumerate(by, start=1))
    row = Observation(MTU, "n0", Outcome.MEASURED, 1.0, {"peers": peers, "narrowed_bytes": by})
    rules = tuple(rule for rule in LINE.rules if rule.metric == "narrowed_bytes")
    return list(apply(MTU, dataclasses.replace(LINE, rules=rules), [row], len(by) + 1))


def told(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """Level, metric and subject."""
    return [(one.level.value, one.metric, one.subject) for one in findings]


def test_link_is_the_subject_between_two_nodes_and_neither_is_named() -> None:
    """n0 measures that the path to n1 is narrow, because n1's MTU was changed: neither is named alone."""
    findings = found({"n0": 1500, "n1": 1200})

    assert told(findings) == [("WARN", "narrowed_bytes", "n0<->n1"), ("FAIL", "interface_mtu_bytes", CLUSTER)]
    assert findings[0].message == (
        "carries packets that are smaller by 300 bytes than the interfaces allow (from n0 to n1)"
    )
    assert findings[0].evidence == "evidence of n0"
    assert "on the interfaces of both nodes" in findings[0].remedy
    majority = "MTU of the interface differs, and no value has a majority: 1200 on n1; 1500 on n0"
    assert findings[1].message == majority


def test_at_most_four_values_are_listed() -> None:
    """The message says that there are more."""
    listed = "1500 on n0; 1501 on n1; 1502 on n2; 1503 on n3"
    for nodes, end in ((4, ""), (5, "; ...")):
        (differs,) = (
            one for one in found({f"n{at}": 1500 + at for at in range(nodes)}) if one.subject == CLUSTER
        )
        assert differs.message.endswith(f": {listed}{end}")


@pytest.mark.parametrize("nodes", [3, 4, 9])
@pytest.mark.parametrize("odd", [1200, 9001])
def test_node_with_the_odd_mtu_is_named_alone_among_three_or_more(nodes: int, odd: int) -> None:
    """Whether its own MTU is the smaller one or the greater one."""
    findings = found({f"n{index}": odd if index == 1 else 1500 for index in range(nodes)})

    assert {one.subject for one in findings} == {"n1"}
    assert {one.metric for one in findings} == {"narrowed_bytes", "interface_mtu_bytes"}


def test_a_single_bad_link_between_good_nodes_is_named() -> None:
    """Both directions are one finding, which names neither node."""
    nodes = dict.fromkeys(("n0", "n1", "n2", "n3"), 1500)
    findings = found(nodes, frozenset({("n1", "n3"), ("n3", "n1")}))

    assert told(findings) == [("FAIL", "full_size_lost", "n1<->n3")]
    assert findings[0].message == "loses packets of full size (from n1 to n3, from n3 to n1)"
    assert findings[0].evidence == "evidence of n1\nevidence of n3"


def test_a_node_of_which_one_link_was_measured_is_not_to_blame() -> None:
    """Its other links may be good."""
    assert told(narrowed(0, 300)) == [("WARN", "narrowed_bytes", "n0<->n2")]


def test_two_halves_with_different_mtus_name_the_network() -> None:
    """More links than anybody reads: one finding about the cluster."""
    half = MOST_LINKS // 2
    findings = found({f"n{index:02}": 1500 if index < half else 1200 for index in range(2 * half)})

    assert told(findings) == [("WARN", "narrowed_bytes", CLUSTER), ("FAIL", "interface_mtu_bytes", CLUSTER)]
    links = f"{half * half} links are affected, and no single node explains it: suspect the network"
    assert links in findings[0].message
    assert findings[1].message.endswith(
        f": 1200 on n32, n33, n34, n35 and {half - 4} more; 1500 on n00, n01, n02, n03 and {half - 4} more"
    )


def test_peers_towards_which_nothing_was_measured_are_evidence_and_no_link() -> None:
    """A null is missing evidence about the node that should have measured."""
    assert [(one.cause, one.subject) for one in narrowed(None)] == [(Cause.EVIDENCE, "n0")]


@pytest.mark.parametrize(("bad", "named"), [({0}, {"n0<->n1"}), ({0, 1}, {"n1"})])
def test_neighbour_that_does_not_answer_is_named_and_not_the_node_that_sends(
    bad: set[int], named: set[str]
) -> None:
    """Of a ring with two devices each, of which the second ones are well."""
    line = default_policy("p5.48xlarge")[1].checks["efa.pingpong"]
    rules = tuple(rule for rule in line.rules if rule.metric == "failures")
    rows = [
        Observation("efa.pingpong", f"n{at}", Outcome.MEASURED, 1.0, {
            "peers": (f"n{(at + 1) % 4}",) * 2, "failures": ("no answer" if at in bad else "ok", "ok"),
        }) for at in range(4)
    ]  # fmt: skip

    assert named == {
        one.subject for one in apply("efa.pingpong", dataclasses.replace(line, rules=rules), rows, 4)
    }


def test_the_remedy_fits_what_is_declared() -> None:
    """The policy of CPU machines speaks neither of jumbo frames nor of the gateways of a cloud."""
    remedies = " ".join(rule.remedy for rule in LINE.rules)

    assert "9001" not in remedies and "gateway" not in remedies and "eth0" not in remedies
