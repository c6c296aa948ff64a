"""What a site runs on its cluster besides gates: `prelaunch site slurm`, and nccl-tests through sbatch."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli.main import main as command
from tests.corpus.nccl_cases import recorded
from tests.engines.slurm_cluster import SlurmCluster
from tests.programs import executable, python_line
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]
SBATCH = Path(__file__).resolve().parents[2] / "deployments" / "slurm" / "nccl-tests.sbatch"
# There are no GPUs here. It writes what was written down before, after a line of NCCL's log from each rank.
STAND_IN = """{first_line}
import os, sys
assert " ".join(sys.argv[1:]) == "--minbytes 8 --maxbytes 16G --stepfactor 2 --ngpus 1 --check 1 --iters 100", sys.argv
assert (os.environ["NCCL_DEBUG"], os.environ["LD_LIBRARY_PATH"].split(":")[0]) == ("INFO", "{library}")
host = os.environ["SLURMD_NODENAME"]
print(host + ":7:7 [0] NCCL INFO NET/OFI Selected provider is {provider}, fabric is efa-direct (found 32 nics)")
if os.environ["SLURM_PROCID"] == "0":
    print("# a stand-in of nccl-tests, which measured nothing: these lines were written by hand")
    print(open("{recording}").read())
"""


def test_srun_works_and_what_is_not_installed_is_said(
    slurm: SlurmCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plain Slurm has neither enroot nor pyxis; that is no fault, and not a go either."""
    code = command(["site", "slurm", "--nodes", "4"])
    lines = capsys.readouterr().out.splitlines()

    assert (code, lines[0]) == (3, "srun: works: n0, n1, n2, n3 answered")
    assert lines[1].startswith("enroot: not installed: it is not on the PATH of n0, n1, n2, n3.")
    assert lines[2].startswith("pyxis: not installed: srun has no option --container-image here.")
    assert command(["site", "slurm", "srun"]) == 0


def submit(slurm: SlurmCluster, folder: Path, program: Path, mpi: str = "none") -> str:
    """The number of the job of nccl-tests.sbatch. The nodes of this cluster run one task each."""
    here = (f"--chdir={folder}", "--ntasks-per-node=1", f"--export=ALL{f',MPI={mpi}' if mpi else ''}")
    return slurm.run("sbatch", "--parsable", *here, str(SBATCH), str(program), str(folder / "lib")).strip()


def state_of(slurm: SlurmCluster, job: str) -> str:
    """The state in which it ended."""

    def state() -> str:
        return slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    until(lambda: state() in ("COMPLETED", "FAILED"), state)
    return state()


def test_nccl_tests_through_sbatch_are_judged_by_their_output(
    slurm: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against what the instance type should reach, with the line of NCCL's log that names the provider. A stand-in of the program;
    one that is not there is said before a step is started.
    """
    recording = tmp_path / "recording.txt"
    recording.write_text(recorded("two_nodes_2.17.txt"))
    jobs = {"none": submit(slurm, tmp_path, tmp_path / "none")}
    for provider in ("efa", "tcp"):
        places = {"library": tmp_path / "lib", "recording": recording}
        program = STAND_IN.format(first_line=python_line(), provider=provider, **places)
        jobs[provider] = submit(slurm, tmp_path, executable(tmp_path / provider, program))
    ended = {name: state_of(slurm, job) for name, job in jobs.items()}
    outputs = {name: tmp_path / f"nccl-all_reduce_perf_{job}.out" for name, job in jobs.items()}
    judged = dict[str, tuple[int, str]]()
    for provider in ("efa", "tcp"):
        words = ("--instance-type", "p5en.48xlarge", "--nodes", "2")
        code = command(["explain", str(outputs[provider]), *words])
        judged[provider] = (code, " ".join(capsys.readouterr().out.split()))

    assert ended == {"none": "FAILED", "efa": "COMPLETED", "tcp": "COMPLETED"}
    assert [code for code, _ in judged.values()] == [0, 1], judged
    texts = {provider: text for provider, (_, text) in judged.items()}
    assert all(f"libfabric's provider {one}, 32 devices" in text for one, text in texts.items())
    assert "no fault in what was judged" in judged["efa"][1]
    assert "carries 2 channels over another transport than the declared one" in judged["tcp"][1]
    assert "a stand-in of nccl-tests" in outputs["efa"].read_text() and outputs["none"].read_text() == ""
    assert "nccl-tests: not installed: n" in outputs["none"].with_suffix(".err").read_text()
