"""What a gate is opened with: its store, its policy, and the machine that its file describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checks.bundle import plan_of
from checks.model import Declared
from checks.model_details import DeclaredMachine
from tasks.gate.context import open_gate_context
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import Launcher
from tasks.store.call_timeout import PatientStore
from tasks.store.folder import FolderStore
from tasks.store.s3 import S3Store
from tasks.text.redact import redacted
from tests.flows.gates import write_gate
from tests.tasks.gate_file.gate_files import edit, opened, refusal

GATE = Path(__file__).parents[3] / "deployments" / "gates" / "slurm-ib.toml"


def stored(folder: Path, table: str) -> Path:
    """The test gate with this [store]."""
    path = write_gate(folder, fake=False)
    path.write_text(path.read_text().partition("[store]")[0] + f"[store]\n{table}\n")
    return path


def test_a_folder_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store, copies and the launcher's jobs; relative to where the command runs."""
    monkeypatch.chdir(tmp_path)
    context = opened(stored(tmp_path / "gates", 'path = "kept"'))

    assert isinstance(context.store, PatientStore) and isinstance(context.store.store, FolderStore)
    assert [str(tmp_path / "kept"), tmp_path / "kept" / "work"] == [context.address, context.work]
    assert f"{tmp_path}/kept/clusters/test" == context.engine.root


def test_work_folder_is_local_if_the_store_is_in_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In .prelaunch, or where `work` says."""
    monkeypatch.chdir(tmp_path)
    context = opened(stored(tmp_path, 'path = "s3://bucket/a/"'))
    other = opened(stored(tmp_path, 'path = "s3://bucket/a"\nwork = "w"'))

    assert isinstance(context.store, PatientStore) and isinstance(context.store.store, S3Store)
    assert ("s3://bucket/a", "s3://bucket/a/x") == (context.address, context.store.location("x"))
    assert [tmp_path / ".prelaunch" / "work", tmp_path / "w" / "work"] == [context.work, other.work]
    assert f"{tmp_path}/.prelaunch/clusters/test" == context.engine.root


def test_spares_are_machines_of_the_same_job(tmp_path: Path) -> None:
    """The job has them, and the training starts on as many as are declared. A second job would get others, and observing none out."""
    path = write_gate(tmp_path, fake=False, options="in_job = true")
    context = opened(path, "cluster.declared.spares=1")
    observes = edit(path, 'file = "policy.toml"', 'file = "policy.toml"\nmode = "observe"')

    alone = write_gate(tmp_path / "alone", fake=False)

    assert (3, 1, "gate test: 2 nodes and 1 spare, quick") == (
        context.declared.nodes,
        context.declared.spares,
        context.gate.title,
    )
    assert "spares need in_job = true in" in str(refusal(alone, "cluster.declared.spares=1"))
    assert "spares must be fewer than nodes" in str(refusal(path, "cluster.declared.spares=2"))
    assert "observing leaves no node out" in str(refusal(observes, "cluster.declared.spares=1"))


def test_secrets_of_the_training_are_removed_from_whatever_it_prints(tmp_path: Path) -> None:
    """The names of its variables say which values are secrets; the others stay."""
    opened(write_gate(tmp_path, more='environment = { HF_TOKEN = "hf_k3pt0ut", NCCL_DEBUG = "WARNING" }'))

    assert redacted("401: hf_k3pt0ut; WARNING") == "401: [removed]; WARNING"


def test_a_flow_finds_the_store_that_its_command_had(tmp_path: Path) -> None:
    """The request's address wins, from whatever folder it is opened."""
    first = opened(stored(tmp_path, 'path = "s3://bucket/a"'))
    other = opened(stored(tmp_path, 'path = "elsewhere"'), store=first.address)

    assert "s3://bucket/a" == other.address


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("s3://", ""),
        ("s3://me:hunter22@bucket/x", ""),
        ("s3:/bucket/prelaunch", "Write s3://bucket/prelaunch."),
        ("S3://bucket/prelaunch", "Write s3://bucket/prelaunch."),
        ("s3:bucket", "Write s3://bucket."),
        ("S3://me:hunter22@bucket/x", "Write s3://bucket/prefix."),
        ("gs:/x", "a store at gs:// is not supported"),
        ("gs://bucket/x", "a store at gs:// is not supported"),
        ("file:/x/y", "Write /x/y."),
        ("file:///x/y", "Write /x/y."),
    ],
)
def test_store_path_like_a_url_is_rejected_with_the_form(tmp_path: Path, path: str, instead: str) -> None:
    """Each worker would have a folder of its own, and no lock in common; the right form is written out."""
    said = str(refusal(stored(tmp_path, f'path = "{path}"')))

    assert "store.path" in said and instead in said and "hunter22" not in said


@pytest.mark.parametrize("path", ["./s3:x", "a/b:c", "~/kept", "s3"])
def test_a_folder_with_a_colon_further_on_is_a_folder(tmp_path: Path, path: str) -> None:
    """Also one that is written with ./ before its name."""
    assert Path(path).name == Path(opened(stored(tmp_path, f'path = "{path}"')).address).name


def test_gate_file_error_names_all_checks_that_the_policy_lacks(tmp_path: Path) -> None:
    """One at a time would take as many rounds as there are checks; the whole policy is taken."""
    gate = write_gate(tmp_path)
    opened(gate)
    (tmp_path / "policy.toml").write_text(
        'name = "own"\ninstance_types = ["cpu"]\non_warn = "go"\nmax_unfit_fraction = 0.25\n'
        '[checks."system.clock"]\nrules = [{ metric = "year", fail_below = 2026, source = "s", remedy = "r" }]\n',
        encoding="utf-8",
    )

    assert re.search(r"the checks system.identity, system.resources, .* and \d+ more", str(refusal(gate)))


MISSPELT = "has a rule for the metric wrong_element of check compute.gemm, which does not exist: did you mean wrong_elements"
UNKNOWN_OPTION = "which does not exist: did you mean floor_gbps?"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('[checks."training.ddp"]', '[checks."training.other"]', "has no entry for check training.ddp"),
        ('part = "any"', 'part = "efa"', "has part = efa for check"),
        ("min_nodes = 2", "min_nodes = 3", "has min_nodes = 3 for check"),
        ('metric = "wrong_elements"', 'metric = "wrong_element"', MISSPELT),
        ("min_nodes = 2", "min_nodes = 2\noptions = { floor_gb_s = 12.5 }", UNKNOWN_OPTION),
    ],
)
def test_a_policy_that_its_checks_do_not_fit_fails(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Every gate would end as CANNOT TELL, or excuse a check: to what a check applies is the catalogue's to say."""
    gate = write_gate(tmp_path)
    edit(tmp_path / "policy.toml", old, new)

    assert said in str(refusal(gate))


def test_a_policy_that_is_not_there_is_a_mistake_of_the_gate_file(tmp_path: Path) -> None:
    """It names the gate file, the line of its key, and the nearest file; a path that does not exist is no place of an error."""
    gate = edit(write_gate(tmp_path), '"policy.toml"', '"polcy.toml"')
    text, error = gate.read_text(encoding="utf-8"), refusal(gate)

    assert (str(gate), "policy.file", "policy.toml") == (error.file, error.path, error.nearest)
    assert error.line == text[: text.index('"polcy.toml"')].count("\n") + 1
    assert str(tmp_path / "polcy.toml") in error.message


def test_a_policy_that_is_wrong_says_whose_it_is(tmp_path: Path) -> None:
    """Its own line, and the gate file that names it."""
    gate, policy = write_gate(tmp_path), tmp_path / "policy.toml"
    edit(policy, "on_warn", "on_wran")
    error = refusal(gate)

    assert (str(policy), "on_wran", "on_warn") == (error.file, error.path, error.nearest)
    assert error.line is not None and f"the [policy] file of {gate}" in str(error)


def test_a_gate_that_only_checks_needs_no_time_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks nobody. Of one that launches, the machines may be gone before the answer."""
    gate = write_gate(tmp_path, on_warn="ask")
    monkeypatch.setattr(Launcher, "keeps_s", 1800.0)
    open_gate_context(GateRequest(gate_file=str(gate), launch=False))

    assert "a person has 30 minutes to answer" in str(refusal(gate))


def described(folder: Path, old: str = "", new: str = "") -> Path:
    """The shipped gate of such machines, changed."""
    text = GATE.read_text(encoding="utf-8").replace("../policies", str(GATE.parents[1] / "policies"))
    (folder / "gate.toml").write_text(text, encoding="utf-8")
    return edit(folder / "gate.toml", old, new)


def test_an_own_machine_is_declared_and_judged_by_the_policy_of_its_gpu(tmp_path: Path) -> None:
    context = opened(described(tmp_path))
    instance = context.facts.instances["hgx-h100"]

    assert context.declared.machine is not None
    assert (8, 18, 8, 400) == (instance.gpus, instance.nvlinks, instance.ib_ports, instance.ib_rate_gbit_s)
    _, plan = plan_of(context.bundle("plan"))
    planned = {line.check for line in plan if line.skip is None}
    assert {"ib.ports", "ib.counters", "nccl.transport"} <= planned
    assert not {"efa.devices", "neuron.devices"} & planned
    assert context.facts.are_for(context.policy.instance_types, context.declared)


@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        ('type = "hgx-h100"', 'type = "p5.48xlarge"', "cluster.machine", "p5.48xlarge is a known instance type"),
        ('gpu = "H100 80GB HBM3"', 'gpu = "H100"', "cluster.declared.instance_type", "was not written for hgx-h100"),
        ('gpu = "H100 80GB HBM3"', 'gpu = ""', "cluster.machine.gpu", "Name the model of the GPUs"),
        ("gpus_per_node = 8\nranks", "gpus_per_node = 0\nranks", "cluster.machine.gpu", "0 GPUs are declared"),
        ("ib_rate_gbit_s = 400", "", "cluster.machine", "ib_ports and ib_rate_gbit_s"),
        ("ib_ports = 8", "", "cluster.machine", "ib_ports and ib_rate_gbit_s"),
        ("ib_ports = 8", "ib_port = 8", "cluster.machine.ib_port", "ib_ports"),
        ("nvlinks = 18", "nvlinks = -1", "cluster.machine.nvlinks", ""),
    ],
)  # fmt: skip
def test_gate_file_with_a_contradictory_machine_is_rejected_by_field(
    tmp_path: Path, old: str, new: str, where: str, said: str
) -> None:
    error = refusal(described(tmp_path, old, new))

    assert where in str(error) and said in str(error)


def test_an_unknown_type_without_a_description_names_the_table_that_describes_it(tmp_path: Path) -> None:
    text = GATE.read_text(encoding="utf-8")
    begin, end = text.index("\n[cluster.machine]"), text.index("[cluster.options]")
    error = refusal(described(tmp_path, text[begin:end]))

    assert re.search(r"not a known instance type.*\[cluster.machine\]", str(error))


def test_own_machine_is_judged_by_policies_for_its_kind_only(tmp_path: Path) -> None:
    """A machine without GPUs is one of the policy of CPUs, and never one of Neuron devices, which have no GPUs either."""
    facts = opened(described(tmp_path)).facts
    cpu = Declared("own", 2, 0, 2, machine=DeclaredMachine())

    assert facts.are_for(("cpu",), cpu)
    assert not facts.are_for(("trn1.32xlarge",), cpu)
    assert not facts.are_for(("p5.48xlarge",), cpu)
    assert facts.are_for(("own",), cpu)
    assert not facts.are_for(("cpu",), Declared("own", 2, 0, 2))


def test_a_pass_of_another_description_is_no_pass_of_this_one(tmp_path: Path) -> None:
    """What was declared belongs to what a PASS means."""
    first, again = opened(described(tmp_path)), opened(described(tmp_path))
    other = opened(described(tmp_path, "ib_ports = 8", "ib_ports = 4"))

    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.gate.cluster.machine is not None
