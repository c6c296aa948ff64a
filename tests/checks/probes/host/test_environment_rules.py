"""environment.lint: what a setting does, in which world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks.facts.instances import Instance
from checks.probes.host.environment import has_efa, may_lock, measured, settings
from checks.probes.host.environment_rules import RULES, LintContext, lint, listed, parse_file
from checks.process.environment import home_folder
from tests.sample_reports import MADE_UP

WORLD = LintContext(gpus=8, nodes=2, efa=True, interfaces=("lo", "eth0", "docker0"), kernel=(6, 1))


def harm(world: LintContext, variables: dict[str, str]) -> list[str]:
    return [fault.harm.value for fault in lint(variables, world)]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (name, value, expected)
        for name, expected, *values in (
            ("NCCL_PROTO", "crippling", "LL,LL128", "^Simple", "nonsense"),
            ("NCCL_PROTO", "misleading", "simple", "^LL"),
            ("NCCL_PROTO", "", "LL,LL128,Simple"),
            ("NCCL_SOCKET_IFNAME", "", "eth", "=eth0", "^docker,lo"),
            ("NCCL_SOCKET_IFNAME", "crippling", "=eth", "ens,ib", "lo"),
            ("FI_PROVIDER", "crippling", "tcp;ofi_rxm"),
            ("NCCL_NET", "", "AWS Libfabric"),
            ("NCCL_DEBUG_FILE", "", "/tmp/nccl.%h.%p.log"),
            ("NCCL_DEBUG_FILE", "misleading", "/tmp/nccl.log"),
            ("CUDA_VISIBLE_DEVICES", "", "0,1,2,3,4,5,6,7"),
            ("CUDA_VISIBLE_DEVICES", "crippling", ""),
            ("NVIDIA_VISIBLE_DEVICES", "", "all", "0,1,2,3,4,5,6,7"),
            ("NVIDIA_VISIBLE_DEVICES", "crippling", "0,1", ""),
            ("NCCL_BUFFSIZE", "", "4194304"),
            ("NCCL_BUFFSIZE", "misleading", "65536"),
            ("NCCL_P2P_LEVEL", "", "NVL"),
            ("NCCL_P2P_LEVEL", "crippling", "LOC"),
            ("SOME_SECRET", "", "hunter2"),
        )
        for value in values
    ],
)
def test_environment_setting_does_the_expected_harm(name: str, value: str, expected: str) -> None:
    """On two nodes of eight GPUs with EFA."""
    assert harm(WORLD, {name: value}) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("world", "variables", "expected"),
    [
        (replace(WORLD, efa=False), {"NCCL_NET": "Socket"}, []),
        (replace(WORLD, efa=None), {"NCCL_NET": "Socket"}, ["crippling"]),
        (replace(WORLD, efa=False), {"FI_PROVIDER": "efa"}, ["misleading"]),
        (replace(WORLD, efa=False), {"FI_PROVIDER": "tcp"}, []),
        (replace(WORLD, nodes=1), {"NCCL_SOCKET_IFNAME": "lo"}, []),
        (replace(WORLD, kernel=(5, 4)), {"RDMAV_FORK_SAFE": "1"}, []),
        (replace(WORLD, gpus=0), {"CUDA_VISIBLE_DEVICES": ""}, []),
        (replace(WORLD, gpus=0), {"NVIDIA_VISIBLE_DEVICES": "void"}, []),
        (replace(WORLD, missing_paths={"/t.xml"}), {"NCCL_TOPO_FILE": "/t.xml"}, ["crippling"]),
        (replace(WORLD, shm_bytes=64 << 20), {}, ["crippling"]),
        (replace(WORLD, shm_bytes=512 << 20), {}, ["misleading"]),
        (replace(WORLD, shm_bytes=64 << 20, gpus=1), {}, []),
        (replace(WORLD, memlock_bytes=64 << 10, efa=False), {}, []),
    ],
)
def test_harm_of_settings_and_limits_depends_on_the_machine(
    world: LintContext, variables: dict[str, str], expected: list[str]
) -> None:
    """What cripples a node of many GPUs, or one with EFA, does nothing to another: settings, shared memory, locked memory."""
    assert harm(world, variables) == expected


def test_nccls_file_is_read() -> None:
    """Comments, blanks, and lines that set nothing."""
    text = "# x\nNCCL_ALGO = Ring # why\n\nNCCL_PROTO=LL\nnonsense\n=1\n"
    assert {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"} == parse_file(text)


def test_the_environment_outranks_nccls_file(tmp_path: Path) -> None:
    """As NCCL itself has it."""
    (tmp_path / ".nccl.conf").write_text("NCCL_ALGO=Ring\nNCCL_PROTO=LL\n")
    variables, files = settings({"NCCL_ALGO": "Tree"}, tmp_path)

    assert (variables["NCCL_ALGO"], variables["NCCL_PROTO"]) == ("Tree", "LL")
    assert str(tmp_path / ".nccl.conf") in files


def test_the_instance_table_tells_of_efa() -> None:
    """Or nobody knows."""
    row = Instance(gpus=8, gpu="H100", provenance=MADE_UP)

    rows = (None, row, replace(row, efa_devices=0), replace(row, efa_devices=32))

    assert [None, None, False, True] == [has_efa(made) for made in rows]


ROOTS = {
    "root of the host": ("000001ffffffffff", "0 0 4294967295", True),
    "root of a container": ("00000000a80425fb", "0 0 4294967295", False),
    "root of a user namespace": ("000001ffffffffff", "0 100000 65536", False),
}


@pytest.mark.parametrize(("capabilities", "mapped", "expected"), ROOTS.values(), ids=ROOTS)
def test_memlock_spares_who_may_lock(tmp_path: Path, capabilities: str, mapped: str, expected: bool) -> None:
    """A root shell on a host has 8 MiB and registers what it likes: it must not be refused for ever."""
    (tmp_path / "status").write_text(f"Name:\tpython3\nCapEff:\t{capabilities}\nCapBnd:\t{capabilities}\n")
    (tmp_path / "uid_map").write_text(f"         {mapped}\n")

    assert expected is may_lock(tmp_path / "status", tmp_path / "uid_map")


def test_environment_lint_lists_variables_without_their_secrets() -> None:
    """Names always; values where they are harmless."""
    secret = "hunter2"
    found = listed(
        {
            "NCCL_DEBUG": "INFO",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_API_KEY": secret,
            "PRELAUNCH_POOL_TOKEN": secret,
            "PRELAUNCH_NODE": "node-0",
            "LD_PRELOAD": "/lib/x.so",
            "HOME": "/root",
            "CUDA_VISIBLE_DEVICES": "x" * 500,
        }
    )
    evidence = measured((), (), WORLD, found).evidence

    assert "HOME" not in found and 7 == len(found)
    assert "NCCL_DEBUG=INFO, NVIDIA_API_KEY, NVIDIA_VISIBLE_DEVICES=all, PRELAUNCH_NODE, " in evidence
    assert secret not in evidence
    assert max(map(len, found.values())) < 100


def test_every_variable_that_harms_is_listed_when_it_is_set() -> None:
    """A finding names a variable that the report's list names as well."""
    names = {name for known in RULES for name in known.names.split()}

    assert set(listed(dict.fromkeys(names, "1"))) == names
    assert all(len(known.reason.split()) > 3 for known in RULES)


def test_a_user_without_a_home_has_no_settings_of_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with --user 12345 and no HOME: NCCL finds no home folder either, and reads only /etc/nccl.conf."""

    def nobody(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    home = home_folder()

    assert home is None
    assert {"PATH": "/bin"}.items() <= settings({"PATH": "/bin"}, home)[0].items()
