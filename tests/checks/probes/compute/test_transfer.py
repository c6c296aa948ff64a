"""compute.transfer: every word is compared on every link, and a GPU that is not seen is no link that works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest import mock

from checks.check import fault_of
from checks.facts.builtin import builtin
from checks.model import Value
from checks.probes.compute import transfer
from tests.fakes import compute as fakes
from tests.late import Late

torch = Late("torch")


def measured(targets: int = 3) -> Mapping[str, Value]:
    return transfer.measure("cpu", ["cpu"] * targets, 1 << 16, 0.0).metrics


def test_every_word_arrives() -> None:
    """A link a GPU, the way there and back first, and all that the check promises."""
    metrics = measured()

    assert fault_of(transfer.transfer, metrics) == ""
    assert metrics["links"] == ("host to GPU", "GPU to host", "to GPU 0", "to GPU 1", "to GPU 2")
    assert metrics["wrong_words"] == (0, 0, 0, 0, 0)
    assert metrics["gpus"] == ("the slowest GPU reached directly",)
    assert metrics["peer_access"] == (1, 1, 1)


def test_a_node_with_one_gpu_still_has_a_row() -> None:
    """The local copy: a report holds no empty list."""
    assert fault_of(transfer.transfer, measured(1)) == ""


def test_a_copy_within_the_gpu_is_no_peer() -> None:
    """Several times faster than any link, it made the only link of a node of two GPUs an outlier."""
    through_the_host = {"the slowest GPU reached through the host": 25.0}
    assert transfer.between_gpus([700.0, 25.0], [1, 0], 0, False) == through_the_host
    assert list(transfer.between_gpus([9.0] * 5, [1] * 5, 2, False)) == ["GPU 0", "GPU 1", "GPU 3", "GPU 4"]
    assert transfer.between_gpus([700.0], [1], 0, False) == {"GPU 0": 700.0}


def test_gpus_that_are_joined_in_part_are_compared_by_their_slowest_links() -> None:
    """A V100 of p3.16xlarge reaches two GPUs over two NVLinks, two over one, and three through the host."""
    row = transfer.between_gpus([360, 24, 24, 48, 48, 9, 9.5, 9], [1, 1, 1, 1, 1, 0, 0, 0], 0, True)

    assert row == {"the slowest GPU reached directly": 24, "the slowest GPU reached through the host": 9}


def test_only_gpus_without_a_switch_are_joined_in_part() -> None:
    """As the instance table counts their NVLinks."""
    instances = builtin().instances
    in_part = {name for name, instance in instances.items() if transfer.joined_in_part(instance)}

    assert in_part == {"p3.8xlarge", "p3.16xlarge", "p3dn.24xlarge"}
    assert not transfer.joined_in_part(None)


def test_the_broken_link_is_told_from_the_others() -> None:
    """Words are counted a link."""
    real, calls = transfer._timed, 0

    def timed(source: Any, target: Any, own: str, other: str) -> float:
        nonlocal calls
        calls += 1
        spent = real(source, target, own, other)
        if calls > 3 * transfer.LEAST_REPEATS:  # past host to GPU, GPU to host, GPU 0
            target[9] ^= 4
        return spent

    with mock.patch.object(transfer, "_timed", timed):
        assert measured(2)["wrong_words"] == (0, 0, 0, transfer.LEAST_REPEATS)


def test_ranks_that_send_at_once_send_to_different_gpus() -> None:
    """Each begins with its own place: in no turn do two send to the same one, which would share its links."""
    targets = [f"cuda:{index}" for index in range(8)]
    turns = [transfer._in_turn(targets, device) for device in targets]

    assert all(sorted(to) == list(range(8)) for to in (*turns, *zip(*turns, strict=True)))


def test_more_gpus_than_declared_are_left_alone() -> None:
    """They are not ours."""
    with fakes.gpus(8):
        assert transfer.visible(2) == ("cuda:0", "cuda:1")
