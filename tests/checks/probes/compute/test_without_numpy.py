"""Nodes whose torch finds no numpy: the checks that compare bytes measure there, too, and their digests are those of numpy's bytes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from checks.probes.compute import sdc, training_smoke
from tests.checks.worlds import ROOT
from tests.installation.hostile import NO_NUMPY
from tests.late import Late

torch = Late("torch")
MEASURE = """
import json, os
from checks.check import RankPlace
from checks.probes.compute import sdc, training_smoke
from tests.checks.worlds import context
import torch
torch.set_num_threads(1)
try:
    torch.ones(1).numpy()
except RuntimeError:
    numpy = False
rank = context(options={"seconds": 0.0}, place=RankPlace(0, 0, 1, "cpu"))
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
print(json.dumps({
    "numpy": numpy,
    "sdc": sdc.sdc.body(rank).metrics["digest"],
    "smoke": training_smoke.smoke.body(rank).metrics["loss_ratio"],
    "ddp": training_smoke.ddp.body(rank).metrics["weights_digest"],
    "model": training_smoke.digest(training_smoke.make_model("cpu")),
}), flush=True)
os._exit(0)
"""


def test_checks_measure_where_torch_finds_no_numpy(tmp_path: Path) -> None:
    """compute.sdc, training.smoke and training.ddp; the digests are the same as with numpy."""
    (tmp_path / "numpy.py").write_text(NO_NUMPY)
    done = subprocess.run(
        (sys.executable, "-c", MEASURE), cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    # torch warns that it found no numpy: on stderr, because stdout is for results.
    found = json.loads(done.stdout)
    size = sdc.SIZES["cpu"]

    assert found["numpy"] is False
    assert sdc.measure("cpu", size, 0.0, 1).metrics["digest"] == found["sdc"]
    assert training_smoke.digest(training_smoke.make_model("cpu")) == found["model"]
    assert 0 < found["smoke"] < 0.5 and 64 == len(found["ddp"])


def test_digests_are_of_the_bytes_that_numpy_reads() -> None:
    """Of every type that the checks multiply in, of a view of a larger tensor, and of one that is not contiguous."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        whole = torch.arange(24, dtype=torch.float32).to(dtype).reshape(4, 6)
        for tensor in (whole, whole[1:, 2:], whole.t(), whole[:0]):
            expected = (tensor + 0).contiguous().view(torch.uint8).numpy().tobytes()

            assert hashlib.sha256(expected).hexdigest() == sdc.digest_of(tensor)
    model = training_smoke.make_model("cpu")
    expected = b"".join(weights.detach().numpy().tobytes() for weights in model.parameters())

    assert hashlib.sha256(expected).hexdigest() == training_smoke.digest(model)
