"""`prelaunch init`: every gate file that it writes is one that `prelaunch plan` accepts, and it leaves no half of one."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from tasks.gate_file import starter
from tasks.gate_file.folder import SHIPPED
from tasks.reports.schema import GATE_PATH
from tests.flows.cli.conftest import Run

VALIDATOR = jsonschema.Draft202012Validator(json.loads(GATE_PATH.read_text()))
H200 = "gpu=H200,gpus=8,gpu_memory_mib=143771"
SEVERAL_GPUS = ("p5.48xlarge", "g6e.48xlarge")
WISHES = [
    ("local", "cpu", 1, "log"),
    ("slurm", "cpu", 2, "slack"),
    ("slurm", "p5.48xlarge", 16, "slack,pagerduty,apprise"),
    ("slurm", "g6e.48xlarge", 2, "log"),
    ("slurm", "trn1.32xlarge", 2, "apprise"),
    ("kubernetes", "p5.48xlarge", 2, "log"),
    ("sagemaker", "g5.xlarge", 3, "pagerduty"),
    ("sagemaker", "p4d.24xlarge", 1, "log"),
    ("sagemaker", "p5.48xlarge", 2, "log"),
    ("sagemaker", "trn1.32xlarge", 2, "log,slack"),
]

__all__ = ["run"]


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The command in this process, without a terminal, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return run


def options(engine: str, kind: str, nodes: int, notify: str = "log") -> tuple[str, ...]:
    """The options of one wish."""
    return ("--engine", engine, "--instance-type", kind, "--nodes", str(nodes), "--notify", notify)


@pytest.mark.parametrize("place", ["mine.toml", "deployments/gates/mine.toml", "deployments/mine.toml"])
def test_copies_of_examples_go_before_the_installation(run: Run, tmp_path: Path, place: str) -> None:
    """A policy and a pod template that lie where `prelaunch site examples` puts them are the ones that are named, relatively."""
    for name in ("policies/nvidia.toml", "kubernetes/pods/eks-p5.yaml", "gates/eks-p5.toml"):
        copy = tmp_path / "deployments" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((SHIPPED.parent / name).read_text())
    code, _, err = run("init", place, *options("kubernetes", "p5.48xlarge", 2))
    assert 0 == code, err
    made, here = tomllib.loads((tmp_path / place).read_text()), (tmp_path / place).parent

    pods = made["cluster"]["options"]["pod_template_file"]
    words = {made["policy"]["file"]: "policies/nvidia.toml", pods: "kubernetes/pods/eks-p5.yaml"}
    for word, name in words.items():
        assert not Path(word).is_absolute(), word
        assert (here / word).resolve() == (tmp_path / "deployments" / name).resolve()


@pytest.mark.parametrize(("engine", "kind", "nodes", "notify"), WISHES)
def test_plan_accepts_what_was_written(
    run: Run, tmp_path: Path, engine: str, kind: str, nodes: int, notify: str
) -> None:
    """With the values that were asked for, the comments of a shipped file, and a schema that takes it."""
    code, out, err = run("init", "mine.toml", *options(engine, kind, nodes, notify))
    text = (tmp_path / "mine.toml").read_text()
    made = tomllib.loads(text)
    declared = made["cluster"]["declared"]

    assert (0, "mine.toml\n") == (code, out), err
    assert (kind, nodes) == (declared["instance_type"], declared["nodes"])
    assert engine == made["cluster"]["launcher"]
    if kind in SEVERAL_GPUS:  # it needs no quota of warm pools, and torchrun starts it
        assert "in_job" == made["cluster"]["options"]["placement"]
        assert "torchrun" == made["training"]["distributed"]
    assert notify.split(",") == made["notify"]["order"]
    assert text.startswith(f"#:schema {GATE_PATH.as_uri()}\n") and text.count("#") > 6
    assert [] == [error.message for error in VALIDATOR.iter_errors(made)]
    assert 0 == run("plan", "mine.toml", "--offline")[0]


def test_init_lists_the_placeholder_keys(run: Run) -> None:
    """Keys whose values are the shipped file's examples; none for this machine."""
    _, out, _ = run("init", "a.toml", *options("slurm", "p5.48xlarge", 2, "slack"), "--format", "json")
    _, local, _ = run("init", "b.toml", *options("local", "cpu", 2), "--format", "json")

    keys = {"cluster.options.partition", "cluster.options.folder", "notify.slack.channel"}
    assert keys <= set(json.loads(out)["to_replace"])
    assert ["training.command"] == json.loads(local)["to_replace"]


def test_init_overwrites_a_file_only_with_force(run: Run, tmp_path: Path) -> None:
    """Exit code 2, and the file is as it was."""
    (tmp_path / "gate.toml").write_text("mine")
    refused = run("init", *options("local", "cpu", 2))
    kept = (tmp_path / "gate.toml").read_text()
    forced = run("init", *options("local", "cpu", 2), "--force")

    assert (2, "mine", 0) == (refused[0], kept, forced[0])
    assert "--force" in refused[2]


def described(kind: str, words: str) -> tuple[str, ...]:
    """The options of a wish for machines of one's own."""
    return ("mine.toml", *options("slurm", kind, 2), "--machine", words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--engine, --instance-type, --nodes"),
        (("--engine", "slurm"), "--instance-type, --nodes"),
        (options("local", "p5.48xlarg", 2), "Did you mean 'p5.48xlarge'?"),
        (options("local", "cpu", 0), "is not a number from 1"),
        (options("local", "cpu", 2, "slak"), "Did you mean 'slack'?"),
        ((*options("local", "cpu", 2), "--policy", "none.toml"), "there is no file 'none.toml'"),
        ((*options("local", "cpu", 2), "--name", "<b>\x1b[31m"), "name: "),
        ((*options("local", "cpu", 2), "--name", "x" * 10_000), "name: "),
        (options("sagemaker", "cpu", 2), "'ml.cpu' is none of"),
        (options("slurm", "ours-1", 2), "prelaunch init --machine"),
        (described("ours", ""), "'' is none of"),
        (described("ours", "gpu=H2000"), "'H2000' is none of"),
        (described("ours", "gpu=H100"), "Did you mean 'H100 80GB HBM3'?"),
        (described("ours", "gpu=H200"), "--machine gpus: '' is not a number"),
        (described("ours", f"{H200},network_gbit_s=fast"), "network_gbit_s: 'fast' is not a number"),
        (described("ours", "gpu=H200,memory=8"), "'memory' is none of"),
        (described("p5.48xlarge", "gpu=H200"), "is a known type"),
        (described("Our Machine", "gpu=H200"), "no name of lower case letters"),
    ],
)
def test_init_with_unusable_options_writes_no_file(
    run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Exit code 2 and what to write instead."""
    code, out, err = run("init", *words)

    assert (2, "", []) == (code, out, list(tmp_path.iterdir())), err
    assert said in err and "\x1b" not in err and len(err) < 1000


def test_a_file_that_names_the_installation_says_so(run: Run, tmp_path: Path) -> None:
    """The next runner has no such path; with a copy of deployments/ every path is relative, and the schema's is as well."""
    _, _, err = run("init", "alone.toml", *options("local", "cpu", 2))
    assert "alone.toml refers to files of this installation in" in err

    assert 0 == run("site", "examples", "deployments")[0]
    _, _, err = run("init", "root.toml", *options("local", "cpu", 2))
    text = Path("root.toml").read_text()
    assert "this installation" not in err and str(Path(__file__).parents[3]) not in text
    assert text.startswith("#:schema ./deployments/schemas/gate.schema.json\n")


def test_a_value_with_letters_of_another_script_is_valid_toml() -> None:
    """As the folder of an installation may have. JSON's own form of a character beyond 65,535 is none of TOML's."""
    text = starter._changed('[policy]\nfile = "a"  # a comment', "policy.file", "/srv/Prüf 😀")

    assert {"policy": {"file": "/srv/Prüf 😀"}} == tomllib.loads(text)


@pytest.mark.parametrize(
    ("engine", "gpu", "gpus", "memory", "network"),
    [
        ("slurm", "H200", 8, 143771, 3200),
        ("kubernetes", "H100 80GB HBM3", 4, 81559, 1600),
        ("local", "L40S", 2, 46068, 100),
    ],
)
def test_a_machine_of_ones_own_is_written_with_its_table(
    run: Run, tmp_path: Path, engine: str, gpu: str, gpus: int, memory: int, network: int
) -> None:
    """Without a terminal its numbers are in one option."""
    words = f"gpu={gpu},gpus={gpus},gpu_memory_mib={memory},network_gbit_s={network}"
    code, _, err = run("init", "mine.toml", *options(engine, "ours-1", 2), "--machine", words)

    assert 0 == code, err
    made = tomllib.loads((tmp_path / "mine.toml").read_text())["cluster"]
    assert {"gpu": gpu, "gpu_memory_mib": memory, "network_gbit_s": network} == made["machine"]
    declared = {"instance_type": "ours-1", "gpus_per_node": gpus, "ranks_per_node": gpus}
    assert declared.items() <= made["declared"].items()
    assert 0 == run("plan", "mine.toml", "--offline")[0]
