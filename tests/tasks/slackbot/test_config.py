"""deployments/slack.toml: what is wrong with it is said as for a gate file, before anybody is asked anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.gate_file.read import GateFileError
from tasks.slackbot.config import read_config
from tasks.slackbot.prefect_client import _parameters
from tests.flows.gates import write_gate

GATE = '[gates.p5]\ndeployment = "gate/p5"\ngate_file = "gate.toml"\n'


def refusal(folder: Path, text: str) -> str:
    """The error for a list of this text, which begins with its file."""
    write_gate(folder)
    path = folder / "slack.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GateFileError) as raised:
        read_config(path)
    assert str(raised.value).startswith(str(path))
    return str(raised.value)


def test_the_shipped_list_can_be_read() -> None:
    """And lets nobody start anything."""
    config = read_config(Path("deployments/slack.toml"))

    (gate,) = config.gates
    assert ("local", "gate/local", ()) == (gate.name, gate.table.deployment, gate.table.users)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ap_token = 'env:X'\n" + GATE, "ap_token: unknown key. Did you mean 'app_token'?"),
        (GATE + 'users = ["ada"]', "gates.p5.users[0]: 'ada' is not of the form"),
        ('[gates.p5]\ngate_file = "gate.toml"', "gates.p5.deployment: missing key"),
        (GATE.replace("gate/p5", "p5"), "gates.p5.deployment: 'p5' is not of the form"),
        (GATE.replace("gate.toml", "no.toml"), "no.toml: there is no such file"),
        ("", "is empty. This needs a file such as deployments/slack.toml"),
        ("[gates]", "gates: must not be empty"),
        ("gates = 1", "gates: expected a table"),
        ("[", "is not valid TOML"),
    ],
)
def test_slack_config_error_names_its_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    """File, key, and the nearest valid word."""
    assert said in refusal(tmp_path, text)


@pytest.mark.parametrize("key", ["app_token", "bot_token"])
@pytest.mark.parametrize("value", ["xoxb-0123456789-secret", "x" * 300])
def test_a_token_in_the_file_is_refused_and_not_repeated(tmp_path: Path, key: str, value: str) -> None:
    """It belongs into the environment or a block."""
    error = refusal(tmp_path, f'{key} = "{value}"\n{GATE}')

    assert "Never write a secret itself into this file" in error
    assert value[:20] not in error


@pytest.mark.parametrize(("folder", "name"), [("gates", "gate"), ("others", "")])
def test_a_gate_file_is_named_as_a_deployment_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    """A deployment without a gate file of its own takes names of the folder of gate files, and paths only where there is none."""
    (tmp_path / "gates").mkdir()
    file = write_gate(tmp_path / "gates")
    monkeypatch.setenv("PRELAUNCH_GATES", str(tmp_path / folder))

    request = _parameters("gate/here", {"request": {"wait": "verdict"}}, file)["request"]
    assert {"gate_file": name or str(file), "wait": "verdict"} == request
