"""The cluster that these tests start is a real one, and what our own parsers read is what Slurm itself says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.documents.hostlist import expand
from flows.cli.main import main as command
from tasks.launchers.slurm.job_states import STATES
from tests.engines.slurm_cluster import SlurmCluster
from tests.engines.slurm_gates import SHIPPED
from tests.waiting import until

pytestmark = pytest.mark.root


NAMES = st.lists(
    st.builds(
        "{}{:0{}d}{}".format, st.sampled_from(["n", "gpu-", "ip-10-0-", "r1n"]), st.integers(0, 1200),
        st.integers(1, 4), st.sampled_from(["", "-x", "a2"]),
    ),
    min_size=1, max_size=30, unique=True,
)  # fmt: skip


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=NAMES)
def test_lists_of_hosts_are_read_as_slurm_reads_them(slurm: SlurmCluster, names: list[str]) -> None:
    """Whatever names Slurm packs into a list, we get the names that Slurm gets, in its order."""
    packed = slurm.run("scontrol", "show", "hostlist", ",".join(names)).strip()

    assert expand(packed) == slurm.run("scontrol", "show", "hostnames", packed).split()


@pytest.mark.parametrize("text", ["r[0-1]n[2-3]", "n[3,1-2]", "n[08-11]", "a,b,a"])
def test_lists_that_slurm_itself_would_not_write(slurm: SlurmCluster, text: str) -> None:
    """Two brackets, another order, zeros in front, a name twice."""
    assert expand(text) == slurm.run("scontrol", "show", "hostnames", text).split()


def test_the_table_has_every_state_that_slurm_names(slurm: SlurmCluster) -> None:
    """squeue lists its states where it is asked for one that it has not."""
    said = slurm.run("squeue", "--states=nonsense", check=False, both=True)
    _, _, listed = said.partition("Valid job states include: ")
    names = {name.strip().upper() for name in listed.strip().split(",")}  # 24.11 writes them small

    assert len(names) > 15, said
    assert [] == sorted(names - set(STATES))


def test_the_printed_batch_script_is_one_that_slurm_takes(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`prelaunch plan --format shell > job.sbatch; sbatch --test-only job.sbatch`; nothing else is on stdout, and nothing is left."""
    monkeypatch.chdir(tmp_path)
    gate = tmp_path / "gate.toml"
    text = SHIPPED.read_text().replace('"../policies', f'"{SHIPPED.parent}/../policies')
    text = text.replace("{here}", str(SHIPPED.parent))
    lines = f'placement = "in_job"\npython = "{sys.executable}"'
    gate.write_text(text.replace('placement = "in_job"', lines))
    # A job of another test may be completing.
    before = set(slurm.run("squeue", "-h", "-o", "%i %j").splitlines())
    code = command(["plan", str(gate), "--format", "shell"])
    script = tmp_path / "job.sbatch"
    script.write_text(capsys.readouterr().out)
    said = slurm.run("sbatch", "--test-only", str(script), both=True)

    assert (code, script.read_text()[:12]) == (0, "#!/bin/bash\n")
    assert "to start at" in said and "on nodes n[" in said
    # The job of its own with which the plan looked at the nodes may be completing, too.
    until(lambda: set(slurm.run("squeue", "-h", "-o", "%i %j").splitlines()) <= before)
    assert {gate, script} == set(tmp_path.iterdir())
