"""Gate files: what is taken, and how what is wrong is said.

Which checks a gate file may leave out ([checks] skip), and what it says of the switches.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from checks.model import Profile
from tasks.gate_file.read import GateFileError, read_gate_file
from tasks.render.rejected import from_error
from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import edit, opened, refusal
from tests.tasks.parameters import spread

ROOT = Path(__file__).parents[3]
GATES = sorted((ROOT / "deployments" / "gates").glob("*.toml"))


NOTIFY = """
[notify]
order = ["slack", "pagerduty", "log"]
owner = ["slack", "apprise"]
[notify.slack]
channel = "#gpu-gates"
owner_channel = "C0123456789"
token = "block:secret/slack-bot"
mention = ["S0123ABCD"]
[notify.pagerduty]
routing_key = "env:PD_HARDWARE"
[notify.apprise]
urls = ["env:MAIL"]
owner_urls = ["env:OWNER_MAIL"]
[approval]
approvers = ["U0123ABCD"]
overriders = ["W0123ABCD"]
on_fail = "ask"
"""


def with_people(folder: Path, old: str = "", new: str = "") -> Path:
    """The test gate file with all tables about people, and one text replaced."""
    path = write_gate(folder)
    path.write_text(path.read_text() + NOTIFY)
    return edit(path, old, new)


@pytest.mark.parametrize("path", GATES, ids=lambda path: path.stem)
def test_every_shipped_gate_file_opens(path: Path) -> None:
    """What is shipped is valid, and agrees with its policy, its launcher and the facts."""
    context = opened(path)

    assert context.gate.name == path.stem
    # Slurm chooses the nodes, and names them.
    assert bool(context.declared.node_names) is (context.engine.launcher != "slurm")


@pytest.mark.parametrize(
    ("old", "new", "said", "near"),
    [
        ("nodes = 2", "nodez = 2", "cluster.declared.nodez: unknown key", "cluster.declared.nodes"),
        ("nodes = 2", 'nodes = "2"', "cluster.declared.nodes: expected a whole number, found text '2'", None),
        ("nodes = 2", 'nodes = 2\nkernel_log = "withheld"',
         "cluster.declared.kernel_log: unknown key; `prelaunch site schema gate` prints all keys.", None),
        ("nodes = 2", "nodes = true", "cluster.declared.nodes: expected a whole number, found true", None),
        ('profile = "quick"', 'profile = "quik"', "checks.profile: 'quik' is none of quick, standard, deep", "quick"),
        ('name = "test"', 'name = "Test!"', "name: 'Test!' may have only lower-case letters, digits and dashes", None),
        ("network_s = 5.0", "network_s = nan", "checks.network_s: expected a finite number", None),
        ('on_fail = "ask"', 'on_warn = "ask"', "approval.on_warn: unknown key. It is a key of the policy", None),
        ("[policy]", '[remediation]\nmode = "auto"\n[policy]', "remediation.mode: 'auto' is none of its modes: off does", None),
        ('file = "policy.toml"', "", "policy.file: missing key", None),
        ('"cpu"', '"p5.48xlage"', "cluster.declared.instance_type: 'p5.48xlage' is not a known instance type", "p5.48xlarge"),
        ("ranks_per_node", "gpus_per_node = 8\nranks_per_node", "cluster.declared.gpus_per_node: cpu has 0", "0"),
        ('"cpu"\nnodes = 2\nranks_per_node = 2', '"p5.48xlarge"\nnodes = 2\ngpus_per_node = 8\nranks_per_node = 4',
         "cluster.declared.ranks_per_node: 8 GPUs and 4 ranks per node: each GPU has one rank", "8"),
        ('launcher = "local"', 'launcher = "locl"', "cluster.launcher: launcher 'locl' is none of local", None),
        ("network_s = 5.0", 'extra = ["no.such:thing"]', "checks.extra: check 'no.such:thing' cannot be imported", None),
        ('owner = ["slack", "apprise"]', "", "notify: name the owner of the gate", None),
        ('owner = ["slack"', 'owner = ["pagerduty"',
         "notify: owner names pagerduty, so [notify.pagerduty] owner_routing_key is required", None),
        ('owner_urls = ["env:OWNER_MAIL"]', "", "notify: owner names apprise, so [notify.apprise] owner_urls is required", None),
        ('order = ["slack"', 'order = ["slak"', "notify.order[0]: 'slak' is none of slack, pagerduty, apprise, log", "slack"),
        ("routing_key = ", "routing_kye = ", "notify.pagerduty.routing_kye: unknown key", "notify.pagerduty.routing_key"),
        ('"U0123ABCD"', '"@jane"', "approval.approvers[0]: is not the id of a Slack user", None),
        ('[notify.apprise]\nurls = ["env:MAIL"]', "[notify.apprise]\nurls = []", "notify.apprise.urls: must not be empty", None),
        ("routing_key", 'url = "http://events.pagerduty.com/x"\nrouting_key', "notify.pagerduty.url: is not of the form", None),
    ],
)  # fmt: skip
def test_gate_file_error_names_the_path_and_the_nearest_word(
    tmp_path: Path, old: str, new: str, said: str, near: str | None
) -> None:
    """The key, the matter in plain words, and the nearest valid word; from the files alone, before anything starts."""
    error = refusal(with_people(tmp_path, old, new))

    assert f": {said}" in str(error)
    assert near == error.nearest


@pytest.mark.parametrize(
    ("said", "assignment"),
    spread(
        ("the code that will run", ("training.command=['sh']", "training.command.0=sh")),
        ("the code that will run", ("training.environment.PATH=/tmp",)),
        ("code that will run", ("training.model_trainer=os:system", "training={model_trainer='os:system'}")),
        ("a path", ("policy.file=/tmp/p.toml", "policy={file='x'}")),
        ("a path", ("store.path=postgresql://me:hunter22@h/d", "store.work=postgresql://me:hunter22@h/d")),
        ("is a table", ("policy={file='x', mode='observe'}",)),
        ("is a part of it", ("policy=3",)),
        ("code", ("checks.extra=['os:system']",)),
        ("a file or a program", ("cluster.options.python=sh", "cluster.options.subnet=/etc")),
        ("lock", ("cluster.name=other",)),
        ("unknown key", ("cluster.declared.nodez=3",)),
        ("expected a whole number", ("cluster.declared.nodes=many",)),
        ("is none of quick", ("checks.profile=gründlich 😀",)),
        ("no table", ("name.x=1",)),
        ("not of the form", ("nodes", "=3", "policy.mode=1\npolicy.file='x'")),
        ("no dotted key", ("a b c=3",)),
        ("who is notified", ("notify.order=['log']",)),
        ("who may approve", ("approval.on_fail=ask",)),
    ),
)
def test_an_override_cannot(tmp_path: Path, assignment: str, said: str) -> None:
    """`--set` changes values; commands, paths, code and names of things stay, and it says why, without a password."""
    error = str(refusal(write_gate(tmp_path), assignment))

    assert said in error and "hunter22" not in error


def test_overrides_change_values(tmp_path: Path) -> None:
    """Numbers, words, and checks whose names have dots."""
    sets = ("cluster.declared.nodes=1", "checks.profile=deep", "policy.mode=observe")
    gate = read_gate_file(write_gate(tmp_path), [*sets, "checks.timeouts_s.compute.gemm=9"])

    assert (gate.cluster.declared.nodes, gate.checks.profile) == (1, Profile.DEEP)
    assert gate.checks.timeouts_s == {"compute.gemm": 9.0}
    assert gate.title == "gate test: 1 node, deep"


def test_every_wrong_key_is_named_at_once(tmp_path: Path) -> None:
    """Each with its line and the nearest valid word, so that nobody runs a command once for every typo."""
    path = edit(edit(write_gate(tmp_path), "nodes = 2", "nodes = 0"), 'profile = "quick"', 'profle = "quick"')
    edit(edit(path, "grace_s", 'partition = "x"\nspares = 1\ngrace_z'), "policy.toml", "polcy.toml")
    error = refusal(edit(path, "network_s = 5.0", 'skip = ["disk.oi", "x"]\ntimeouts_s = { "gpu.ecx" = 1 }'))
    first, also, *others = str(error).splitlines()

    assert "checks.profle: unknown key. Did you mean 'checks.profile'?" in first and "  Also wrong:" == also
    assert [
        "cluster.declared.nodes: must be 1 or more, and is 0.",
        "cluster.options.partition: the launcher local has no such option; slurm has it.",
        "cluster.options.spares: spares belongs to [cluster.declared].",
        "cluster.options.grace_z: unknown key. Did you mean 'grace_s'?",
        "checks.skip[0]: there is no such check. Did you mean 'disk.io'?",
        "checks.skip[1]: there is no such check.",
        "checks.timeouts_s.gpu.ecx: there is no such check. Did you mean 'gpu.ecc'?",
        f"policy.file: there is no file {tmp_path}/polcy.toml. Did you mean 'policy.toml'?",
    ] == [re.sub(r"^  line \d+: ", "", other) for other in others]
    assert len(others) == len(from_error(error).also)
    unsaid = edit(edit(write_gate(tmp_path), 'launcher = "local"\n', ""), "grace_s", "partition")
    assert "cluster.launcher: is not given, so it is local, which lacks some" in str(refusal(unsaid))


def test_an_override_does_not_mend_a_broken_file(tmp_path: Path) -> None:
    """The file has to be right by itself: the next run may have no override."""
    broken = edit(write_gate(tmp_path), "nodes = 2", 'nodes = "2"')

    assert "found text" in str(refusal(broken, "cluster.declared.nodes=2"))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.toml", b"a = [", "not valid TOML"),
        ("x.toml", b"\xff\xfe", "not UTF-8"),
        ("x.toml", b"#" * (1 << 21), "larger than"),
        ("x.toml", b"", "is empty. This needs a gate file, a TOML"),
        ("x.toml", b'{"cluster": {}}', "is JSON and not TOML. This needs"),
        ("x.toml", b"instance_types = []\non_warn = 1\nchecks = 1", "is a policy. This needs a gate file"),
        ("absent.toml", None, "no such file, and .* has no gate files. `prelaunch init` writes one.$"),
        ("x/a.toml", None, "there is no folder .*/x. `prelaunch init` writes a gate file.$"),
        (".", None, "is a folder"),
    ],
)
def test_gate_file_reader_refuses_bytes_of_another_kind(
    tmp_path: Path, name: str, data: bytes | None, said: str
) -> None:
    """Any bytes give one error with the file's name, and so does a file that is absent or a folder."""
    if data is not None:
        (tmp_path / name).write_bytes(data)

    with pytest.raises(GateFileError, match=said):
        read_gate_file(tmp_path / name)


@pytest.mark.parametrize(
    ("old", "path"),
    [
        ('"block:secret/slack-bot"', "notify.slack.token"),
        ('"env:PD_HARDWARE"', "notify.pagerduty.routing_key"),
        ('"env:MAIL"', "notify.apprise.urls[0]"),
    ],
)
@pytest.mark.parametrize(
    "pasted", ["xoxb-1234-5678-abcdefghijkl", "mailtos://me:pass9word@mail.test", "0f" * 16]
)
def test_a_pasted_secret_is_refused_and_not_shown(tmp_path: Path, old: str, path: str, pasted: str) -> None:
    """The error goes to logs and to the form."""
    error = refusal(with_people(tmp_path, old, f'"{pasted}"'))

    assert (path, False) == (error.path, pasted in str(error))
    assert "Never write a secret itself into" in str(error)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('urls = ["env:MAIL"]', 'urls = "mailtos://me:pass9word@mail.test"'),
        ('urls = ["env:MAIL"]', f'urls = ["json://host/pass9word{"x" * 300}"]'),
        ("[notify.pagerduty]\n", '[notify.pagerduty]\nrouting_kye = "pass9word"\n'),
        ('[notify.slack]\nchannel = "#gpu-gates"', '[notify.slack]\nchannel = "pass9word"'),
    ],
)
def test_a_secret_in_a_wrong_place_is_not_repeated(tmp_path: Path, old: str, new: str) -> None:
    """Of a wrong kind, too long, or under a wrong key."""
    assert "pass9word" not in str(refusal(with_people(tmp_path, old, new)))


def test_the_shipped_example_of_the_tables_about_people_is_valid(tmp_path: Path) -> None:
    """The commented block of sagemaker-p5.toml, as whoever takes the comment signs away gets it."""
    shipped = (GATES[0].parent / "sagemaker-p5.toml").read_text(encoding="utf-8")
    block = shipped[shipped.index("# [notify]") : shipped.index("\n[store]")]
    path = write_gate(tmp_path)
    lines = [line.removeprefix("#").removeprefix(" ") for line in block.splitlines()]
    path.write_text(path.read_text() + "\n".join(lines), encoding="utf-8")
    gate = read_gate_file(path)

    assert ("slack", "pagerduty", "apprise") == gate.notify.notifiers
    assert ("refuse", ("U0456EFGH",)) == (gate.approval.on_fail, gate.approval.overriders)


def test_beside_a_file_that_is_not_there_the_gate_files_are_named(tmp_path: Path) -> None:
    """And the nearest one; a policy is none."""
    write_gate(tmp_path).rename(tmp_path / "p5-prod.toml")
    error = refusal(tmp_path / "p5-prd.toml")

    assert error.message.endswith(f"The gate files in {tmp_path}: p5-prod.toml")
    assert str(tmp_path / "p5-prod.toml") == error.nearest


def gate(folder: Path, check: str = "disk.io", line: str = "") -> Path:
    """The test gate, whose policy does without this check where the tool for it is not installed."""
    path, line = write_gate(folder), line or 'accept_skips = ["tool not installed on this node"]'
    edit(folder / "policy.toml", f'[checks."{check}"]\n', f'[checks."{check}"]\n{line}\n')
    return path


def test_a_required_check_cannot_be_left_out(tmp_path: Path) -> None:
    """It is refused before anything starts, with the checks that may be."""
    error = refusal(gate(tmp_path), "checks.skip=['compute.gemm']")

    assert ("checks.skip[0]", None) == (error.path, error.nearest)
    assert "requires compute.gemm, so it cannot be skipped. Name an optional check (disk.io)" in error.message


def test_the_edit_that_the_refusal_names_lets_the_check_be_left_out(tmp_path: Path) -> None:
    """As it is written there, and in docs/policies.md; the other checks stay required."""
    skipping = "checks.skip=['compute.gemm']"
    line = re.search(r"\((accept_skips = \[[^]]*\])", refusal(write_gate(tmp_path), skipping).message)

    assert line and line[1] in (ROOT / "docs" / "policies.md").read_text()
    assert ("compute.gemm",) == opened(gate(tmp_path, "compute.gemm", line[1]), skipping).bundle("a").skip


def test_a_check_that_is_left_out_reaches_every_node(tmp_path: Path) -> None:
    """In the bundle; and a PASS without it is another one."""
    path = gate(tmp_path)
    whole, without = opened(path), opened(path, "checks.skip=['disk.io']")

    assert ((), ("disk.io",)) == (whole.bundle("a").skip, without.bundle("a").skip)
    assert whole.fingerprint != without.fingerprint


def test_a_file_beside_the_gate_file_reaches_every_node(tmp_path: Path) -> None:
    """Its path is relative to the gate file, and its content is a part of what a PASS means."""
    (tmp_path / "racks.csv").write_text("n0,leaf0,spine\nn1,leaf0,spine\n", encoding="utf-8-sig")
    lines = 'topology = "racks.csv"\ntopology_names = "rack(\\\\d+)"'
    context = opened(write_gate(tmp_path, cluster=lines))

    assert context.topology == context.bundle("gate-1").topology
    assert context.topology is not None
    assert context.topology.under == {"leaf0,spine": ("n0", "n1")}
    assert context.topology.names == r"rack(\d+)"
    moved = replace(context, topology=replace(context.topology, under={"leaf1": ("n0",)}))
    assert context.fingerprint != moved.fingerprint


def test_without_either_nothing_is_described(tmp_path: Path) -> None:
    """None, which is another thing than an empty description."""
    assert opened(write_gate(tmp_path)).topology is None


@pytest.mark.parametrize(
    ("lines", "content", "said"),
    [
        ('topology = "gone.csv"', None, "gone.csv: it cannot be read"),
        ('topology = "t"', b"n0\n", "line 1"),
        ('topology = "t"', b"\xff\xfe", "UTF-8"),
        ('topology = "t"', b"n0,s\n" * 1_000_000, "larger than"),
        ('topology = "t"', b"".join(b"%060d,s\n" % i for i in range(9000)), "leave out"),
        ('topology_names = "rack[0-9]+"', None, "has 0 groups"),
        ('topology_names = "rack("', None, "no regular expression"),
    ],
    ids=["gone", "no-csv", "no-text", "too-large", "too-many", "no-group", "no-expression"],
)
def test_unusable_topology_is_refused_with_its_key(
    tmp_path: Path, lines: str, content: bytes | None, said: str
) -> None:
    """With the key, the file and what is wrong in it."""
    if content is not None:
        (tmp_path / "t").write_bytes(content)
    error = refusal(write_gate(tmp_path, cluster=lines))

    assert said in str(error) and error.path == f"cluster.{lines.split()[0]}"
