"""NCCL's own log: which way each channel goes, in every form that releases and launchers give the lines."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from checks.check import CheckError
from checks.facts.instances import Instance
from checks.probes.collectives import nccl_log, transport
from tests.corpus.nccl_cases import logging_to, recorded
from tests.sample_reports import MADE_UP


@pytest.mark.parametrize(
    ("via", "kind", "way", "gpudirect"),
    [
        ("[send] via NET/AWS Libfabric/1/GDRDMA", "NET", "AWS Libfabric", True),
        ("[receive] via NET/Libfabric/0/GDRDMA/Shared", "NET", "Libfabric", True),
        ("[send] via NET/Libfabric/3(5)/GDRDMA", "NET", "Libfabric", True),
        ("[send] via NET/IB/3/GDRDMA(PCI)", "NET", "IB", True),
        ("[send] via NET/AWS Libfabric/0", "NET", "AWS Libfabric", False),
        ("[send] via NET/Socket/0", "NET", "Socket", False),
        ("via P2P/CUMEM/read", "P2P", "CUMEM", False),
        ("via P2P/MNNVL", "P2P", "MNNVL", False),
        ("via P2P/direct pointer", "P2P", "direct pointer", False),
        ("via SHM/direct/direct", "SHM", "direct", False),
    ],
)
@pytest.mark.parametrize(
    "head", ["Channel 00/0 : 7[7] -> 8[0]", "Channel 00 : 7[a01d0] -> 8[101c0]", "Ring 01 : 7[1] -> 8[1]"]
)
def test_a_channel_is_read_in_each_form(head: str, via: str, kind: str, way: str, gpudirect: bool) -> None:
    """Of NCCL 2.4 to 2.28."""
    (channel,) = nccl_log.read(f"ip-10-1-8-3:194:710 [0] NCCL INFO {head} {via}\n").channels

    assert (kind, way, gpudirect) == (channel.network, channel.carrier, channel.gpudirect)


@pytest.mark.parametrize("prefix", ["", "0: ", "[1,0]<stdout>:", "[2026-01-01 12:08:32] ", "[default0]:"])
def test_the_process_is_found_behind_a_prefix(prefix: str) -> None:
    """As launchers write it."""
    said = nccl_log.read(f"{prefix}ip-1:194:710 [0] NCCL INFO Using network Socket\n", "ip-1:194")

    assert ("Socket",) == said.networks


def test_the_order_of_a_ring_is_no_channel() -> None:
    """ "Channel 00/02 :    0   1" lists ranks, and says nothing of a transport."""
    assert () == nccl_log.read("a:1:1 [0] NCCL INFO Channel 00/02 :    0   1\n").channels


@pytest.mark.parametrize(
    ("line", "provider", "nics"),
    [
        ("NET/OFI Selected Provider is efa (found 4 nics)", "efa", 4),
        ("NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)", "efa", 32),
        ("NET/OFI Selected provider is tcp;ofi_rxm, fabric is 10.0.0.0/16 (found 1 nics)", "tcp;ofi_rxm", 1),
    ],
)
def test_the_provider_is_read_of_old_and_new_plugins(line: str, provider: str, nics: int) -> None:
    """aws-ofi-nccl before and after 1.8."""
    said = nccl_log.read(f"a:1:2 [0] NCCL INFO {line}\n")

    assert ({"a:1": provider}, (nics,)) == (said.providers, said.nics)


def test_a_communicator_that_did_not_come_up_is_unfinished() -> None:
    """Its start is there, its completion is not."""
    began = (
        "a:1:2 [0] NCCL INFO ncclCommInitRank comm 0x5d rank 0 nranks 16 cudaDev 0 commId 0xc4 - Init START"
    )

    assert (1, 1, 0) == ((said := nccl_log.read(began)).begun, said.unfinished, said.up)


def test_the_whole_log_has_both_ranks_up_and_ended() -> None:
    """On two nodes, whose files were put together."""
    said = nccl_log.read(recorded("log_efa.txt"))

    assert (2, 2, 2, 0) == (said.ranks, said.up, said.ended, said.unfinished)
    assert (2, 2) == (said.nodes, said.processes)
    assert ("2.27.5",) == said.versions


def test_sockets_on_a_type_that_may_have_efa_are_not_judged() -> None:
    """They are counted, and no fallback; where the table says of EFA they are one, or none."""
    said = nccl_log.read(recorded("log_socket.txt"))
    types = [Instance(4, "T4", MADE_UP, efa_devices=efa) for efa in (None, 1, 0)]
    counts = [transport.measured(said, kind, 2) for kind in (*types, None)]

    assert [made["unjudged_channels"] for made in counts] == [8, 0, 0, 8]
    assert [made["fallback_channels"] for made in counts] == [0, 8, 0, 0]
    assert {0} == {made["unproven_channels"] for made in counts}


def test_a_rank_sets_it_before_nccl_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later it would be read no more: here the group fails, and the variables are there."""
    import torch

    from checks.check import RankPlace
    from checks.runner import rank_process

    def no_gpu(device: int) -> None:
        raise RuntimeError("no GPU")

    for name in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(torch.cuda, "set_device", no_gpu)
    with pytest.raises(RuntimeError, match="no GPU"):
        rank_process.init_group(mock.Mock(scratch=tmp_path), RankPlace(0, 0, 2, "cuda:0"), 1.0)

    assert "INFO" == os.environ["NCCL_DEBUG"]
    assert str(tmp_path / "nccl.%h.%p.log") == os.environ["NCCL_DEBUG_FILE"]


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [("/var/log/nccl.%p", True), ("/var/log/nccl.log", False), ("/dev/stdout", False), ("/dev/stderr", False), ("", False)],
)  # fmt: skip
def test_a_users_own_file_is_read_and_a_terminal_is_not(chosen: str, kept: bool, tmp_path: Path) -> None:
    """What went to a terminal cannot be read back, nor what each rank of a node wrote over the others'."""
    assert kept is (chosen == nccl_log.environment({"NCCL_DEBUG_FILE": chosen}, tmp_path)["NCCL_DEBUG_FILE"])


def test_the_files_of_all_processes_of_the_node_are_read(tmp_path: Path) -> None:
    """And none of another host's, on a filesystem that they share."""
    host, pid = nccl_log.process().split(":")
    for name in (f"n.{host}.{pid}.log", f"n.{host}.7.log", "n.elsewhere.7.log"):
        (tmp_path / name).write_text(f"{name}\n")
    with logging_to(str(tmp_path / "n.%h.%p.log")):
        said = nccl_log.texts(os.environ)

    assert (True, True, False) == (f"{host}.{pid}" in said, f"{host}.7" in said, "elsewhere" in said)


def test_the_logs_of_earlier_runs_are_left_alone(tmp_path: Path) -> None:
    """In a folder that the user chose: that a channel led to another node last week proves nothing today."""
    # The second and third process do not exist: pid_max is at most 2**22.
    host, pid = nccl_log.process().split(":")
    own, beside, old = (tmp_path / f"n.{host}.{number}.log" for number in (pid, "5000007", "5000008"))
    for path in (own, beside, old):
        path.write_text(f"{path.name}\n")
    then = own.stat().st_mtime - 86_400
    os.utime(old, (then, then))
    with logging_to(str(tmp_path / "n.%h.%p.log")):
        said = nccl_log.texts(os.environ)

    assert (own.name in said, beside.name in said, old.name in said) == (True, True, False)
    own.unlink()  # what others wrote is not about the channels of this process
    with logging_to(str(tmp_path / "n.%h.%p.log")), pytest.raises(CheckError, match="wrote no log"):
        nccl_log.texts(os.environ)


def test_a_log_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it proves nothing."""
    monkeypatch.setattr(nccl_log, "MOST_BYTES", 64)
    (tmp_path / "n.log").write_text("x" * 65)
    with pytest.raises(CheckError, match="so it was not read"):
        nccl_log.texts({"NCCL_DEBUG_FILE": str(tmp_path / "n.log")})
