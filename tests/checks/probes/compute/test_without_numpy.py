"""Nodes whose torch finds no numpy: the checks that compare bytes measure there, too, and their digests are those of numpy's bytes."""

from __future__ import annotations

import hashlib

import pytest

from checks.probes.compute import sdc, training_smoke
from tests.checks.worlds import world_of_session
from tests.late import Late

torch = Late("torch")


def test_checks_measure_where_torch_finds_no_numpy(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The ranks of the session's world find none: training.ddp measures there, and digests are the same as with numpy."""
    world = world_of_session(tmp_path_factory.getbasetemp())
    digests = {
        "sdc": sdc.measure("cpu", sdc.SIZES["cpu"], 0.0, 1).metrics["digest"],
        "model": training_smoke.digest(training_smoke.make_model("cpu")),
    }

    assert [{"numpy": False, **digests}] * 2 == world["numpy"]
    assert [64, 64] == [len(row["weights_digest"]) for row in world["ddp/healthy"]]


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
