"""The files of deployments/monitoring, by the programs that read them, and what people hear of an outage of much of a cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from checks.cli import add_verbs
from checks.command_line import Parser
from checks.process.free_ports import free_port
from flows.cli.verbs import whole_parser
from tasks.gate_file.read import read_gate_file
from tasks.monitoring.config import PORTS, SHIPPED, MonitoringSettings, ScrapeJob, rendered
from tasks.monitoring.targets import document, targets_of
from tests.deployments.monitoring.alert_world import World, get, until
from tests.deployments.monitoring.test_rules import ALERTS, promtool
from tests.deployments.test_server import unit
from tests.fakes.mail import Webhook
from tests.fakes.serving import serving
from tests.programs import executable

ROOT = Path(__file__).parents[3]
HOOK = "http://127.0.0.1:1/"
SETTINGS = MonitoringSettings(HOOK + "on-call", HOOK + "owner", HOOK + "heartbeat")
WHOLE = replace(
    SETTINGS, slurm="127.0.0.1:9341", remote_write="https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1/api/v1/remote_write",
    region="us-west-2",
)  # fmt: skip


def written(folder: Path, settings: MonitoringSettings) -> Path:
    """The configuration with targets of four nodes."""
    for name, text in rendered(settings).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "targets").mkdir()
    gate = read_gate_file(ROOT / "deployments" / "gates" / "slurm-p5.toml")
    (folder / "targets" / "p5.json").write_text(document(targets_of(gate, "n[1-3],n4=10.0.0.4")))
    return folder


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("settings", [SETTINGS, WHOLE], ids=["small", "whole"])
def test_prometheus_takes_the_configuration(tmp_path: Path, settings: MonitoringSettings) -> None:
    """With its rules and its targets, SigV4 included."""
    file = written(tmp_path, settings) / "prometheus.yml"
    done = promtool("check", "config", file)
    file.write_text(file.read_text().replace("scrape_interval:", "scrape_intervall:"))

    broken = promtool("check", "config", file)
    assert (0, 1) == (done.returncode, broken.returncode), done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@pytest.mark.needs("promtool", "prometheus")
def test_the_text_that_exporters_serve_is_linted_by_prometheus(tmp_path: Path) -> None:
    """Names, types, help and units of our own families, as the exporter of a store writes them."""
    from tasks.store.folder import FolderStore
    from tests.sample_reports import healthy
    from tests.tasks.kept_gates import keep
    from tests.tasks.monitoring.test_store_collector import scraped

    store = FolderStore(tmp_path)
    keep(store, 0, healthy())
    linted(scraped(store).collector.text().encode())


@pytest.mark.needs("promtool", "prometheus")
def test_the_text_that_a_watch_serves_is_linted_by_prometheus() -> None:
    """Also ten thousand findings with hostile names."""
    from checks.watch.exposition import exposition
    from tests.checks.watch.test_exposition import an_open, numbers

    linted(exposition(numbers(*(an_open(f'a"b\\\n{{\u202e{n}') for n in range(10_000)))).encode())


def linted(text: bytes) -> None:
    """promtool has nothing to say about it."""
    done = subprocess.run(("promtool", "check", "metrics"), input=text, capture_output=True, check=False)

    assert (0, b"") == (done.returncode, done.stdout), done.stdout + done.stderr


@pytest.mark.needs("amtool")
@pytest.mark.parametrize("settings", [SETTINGS, WHOLE], ids=["small", "whole"])
def test_alertmanager_takes_the_configuration(tmp_path: Path, settings: MonitoringSettings) -> None:
    """And each notify label of a rule leads to a receiver of its name."""
    file = written(tmp_path, settings) / "alertmanager.yml"
    done = subprocess.run(("amtool", "check-config", file), capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr

    def receiver(*labels: str) -> str:
        words = ("amtool", "config", "routes", "test", f"--config.file={file}", *labels)
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

    assert ["on-call", "owner", "heartbeat", "owner"] == [
        receiver("alertname=PrelaunchFindingOpen", "notify=on-call"),
        receiver("alertname=PrelaunchFindingOpen", "notify=owner"),
        receiver("alertname=PrelaunchHeartbeat", "notify=heartbeat"),
        receiver("alertname=SomebodyElses"),
    ]


# ------------------------------------------------------------------------------------------------ services


def node_parser() -> Parser:
    """The parser of `python -m checks`."""
    made = Parser(prog="checks")
    add_verbs(made)
    return made


def test_the_units_start_commands_that_exist() -> None:
    """With options that the programs have."""
    units = (unit(name, SHIPPED) for name in ("prelaunch-watch", "prelaunch-exporter"))
    [watch], [exporter] = (found["ExecStart"] for found in units)
    settings = {"LISTEN": "127.0.0.1:9402"}
    words = re.sub(r"\$\{(\w+)\}", lambda match: settings.get(match[1], "x"), watch).split()
    node = node_parser().parse_args(words[2:])
    served = whole_parser().parse_args(exporter.replace("${STORE}", "s3://b/p").split()[1:])

    assert ("prelaunch", "node") == (Path(words[0]).name, words[1])
    assert ("127.0.0.1:9402", "x") == (node.listen, node.instance_type)
    assert ("s3://b/p", "127.0.0.1:9403") == (served.store, served.listen)


@pytest.mark.parametrize("name", ["prelaunch-watch", "prelaunch-exporter"])
def test_the_services_come_back(name: str) -> None:
    """Unless their configuration is wrong, which no restart mends."""
    said = unit(name, SHIPPED)

    assert (["always"], ["2"], ["143"]) == (
        said["Restart"],
        said["RestartPreventExitStatus"],
        said["SuccessExitStatus"],
    )


def test_the_watch_sees_the_mounts_of_the_host() -> None:
    """These settings give a unit mounts of its own, which lie over those that have to answer, such as an NFS /home."""
    own = re.compile(
        r"(Protect|Private|ReadOnly|ReadWrite|Inaccessible|TemporaryFileSystem|Root|Bind|DynamicUser)"
    )

    lines = unit("prelaunch-watch", SHIPPED)
    assert [] == [key for key, values in lines.items() if own.match(key) and values != ["no"]]


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("name", ["prelaunch-watch", "prelaunch-exporter", "prometheus"])
def test_systemd_knows_every_setting(tmp_path: Path, name: str) -> None:
    """It only warns about those that it does not know. The programs are others here, since nothing is installed."""
    text = (SHIPPED / f"{name}.service").read_text()
    (tmp_path / f"{name}.service").write_text(re.sub(r"(?m)^(Exec\w+)=\S+", r"\1=/bin/true", text))
    words = ("systemd-analyze", "verify", "--man=no", tmp_path / f"{name}.service")
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert [] == [line for line in done.stderr.splitlines() if f"{name}.service" in line]


def test_the_daemon_set_runs_the_watch() -> None:
    """The options exist, the port is the watch's, and open findings are kept on the host."""
    namespace, document_ = yaml.safe_load_all((SHIPPED / "kubernetes" / "watch-daemonset.yaml").read_text())
    pod = document_["spec"]["template"]["spec"]
    [container] = pod["containers"]
    words = [
        word.replace("$(INSTANCE_TYPE)", "p5.48xlarge").replace("$(HOST_IP)", "10.0.0.1")
        for word in container["args"]
    ]
    watched = node_parser().parse_args([*container["command"][3:], *words])

    assert ["python3", "-m", "checks", "watch"] == container["command"]
    assert ("10.0.0.1:9402", "p5.48xlarge") == (watched.listen, watched.instance_type)
    # Privileged pods are on the nodes of that type alone, and in a namespace where nothing else is.
    affinity = pod["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (told,) = [row["value"] for row in container["env"] if row["name"] == "INSTANCE_TYPE"]
    terms = [(row["key"], row["operator"], row["values"]) for row in term["matchExpressions"]]
    assert [("node.kubernetes.io/instance-type", "In", [told, f"ml.{told}"])] == terms
    assert namespace["metadata"]["name"] == document_["metadata"]["namespace"] != "prelaunch"
    assert "privileged" == namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert PORTS[ScrapeJob.WATCH] == container["livenessProbe"]["httpGet"]["port"]
    assert "/var/lib/prelaunch" in {volume.get("hostPath", {}).get("path") for volume in pod["volumes"]}
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


# ------------------------------------------------------------------------------------------------ HyperPod

OUTPUTS = """case "$*" in *AMPRemoteWriteURL*) echo https://aps/w;; *"'Region'"*) echo us-west-2;; *) echo None;; esac"""
FAKE = {
    "aws": OUTPUTS,
    "sinfo": "printf 'ip-10-0-0-%s\\n' 2 1 4 3 3",
    "hostname": 'echo "10.0.0.7 fd00::7 "',
    **dict.fromkeys(("systemctl", "docker", "apt-get", "nvidia-smi", "chown"), ":"),
}


def install(folder: Path, *words: str, **environment: str) -> tuple[int, str, list[str]]:
    """Run the script below a folder of its own, with programs that only say how they were called: code, stderr, calls."""
    programs = folder / "bin"
    programs.mkdir()
    for name, body in FAKE.items():
        executable(programs / name, f'#!/bin/sh\necho "{name} $*" >>"{folder}/calls"\n{body}\n')
    script = f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m flows.cli.main "$@"\n'
    prelaunch = executable(programs / "prelaunch", script)
    done = subprocess.run(
        (SHIPPED / "hyperpod" / "install.sh", *words), capture_output=True, text=True, check=False,
        env={"PATH": f"{programs}:/usr/bin:/bin", "DESTDIR": str(folder / "root"), "PRELAUNCH": str(prelaunch), **environment},
    )  # fmt: skip
    calls = folder / "calls"
    return done.returncode, done.stderr, calls.read_text().splitlines() if calls.exists() else []


HOOKS = {"ON_CALL": HOOK, "OWNER": HOOK, "HEARTBEAT": HOOK}
GATE = str(ROOT / "deployments" / "gates" / "hyperpod-slurm.toml")


@pytest.mark.needs("promtool")
def test_the_controller_of_hyperpod_gets_prometheus(tmp_path: Path) -> None:
    """Its address and region come from the stack, its nodes from Slurm, and Prometheus takes what is written."""
    code, err, calls = install(tmp_path, "controller", GATE, "observability", **HOOKS)
    etc = tmp_path / "root" / "etc"
    assert 0 == code, err

    assert 0 == promtool("check", "config", etc / "prometheus" / "prometheus.yml").returncode
    found = yaml.safe_load((etc / "prometheus" / "prometheus.yml").read_text())["remote_write"][0]
    targets = json.loads((etc / "prometheus" / "targets" / "nodes.json").read_text())
    nodes = [target["labels"]["node"] for target in targets]
    assert ("https://aps/w", "us-west-2") == (found["url"], found["sigv4"]["region"])
    assert [f"ip-10-0-0-{number}" for number in (1, 2, 3, 4)] == nodes
    assert "systemctl enable --now prelaunch-exporter prometheus-alertmanager prometheus" in calls
    assert f"STORE={GATE}" in (etc / "prelaunch" / "exporter.env").read_text()
    # Webhooks are secrets, and Alertmanager has no password: they are its user's alone, and it listens on this machine alone.
    assert 0o600 == (etc / "prometheus" / "alertmanager.yml").stat().st_mode & 0o777
    assert f"chown prometheus: {etc / 'prometheus' / 'alertmanager.yml'}" in calls
    settings = (etc / "default" / "prometheus-alertmanager").read_text()
    assert "--web.listen-address=127.0.0.1:9093 --cluster.listen-address= --web.get-concurrency=" in settings
    limits = etc / "systemd/system/prometheus-alertmanager.service.d" / "prelaunch.conf"
    assert "MemoryMax=" in limits.read_text()


def test_a_node_of_hyperpod_gets_the_watch(tmp_path: Path) -> None:
    """It listens where Prometheus reaches it, and DCGM has our counters."""
    image = "registry/dcgm-exporter@sha256:0"
    code, err, calls = install(tmp_path, "node", "ml.p5.48xlarge", DCGM_IMAGE=image)
    etc = tmp_path / "root" / "etc"
    assert 0 == code, err

    watch = (etc / "prelaunch" / "watch.env").read_text()
    assert "INSTANCE_TYPE=p5.48xlarge\nLISTEN=10.0.0.7:9402\n" == watch
    counters = (etc / "prelaunch" / "dcgm-counters.csv").read_text()
    assert (SHIPPED / "dcgm-counters.csv").read_text() == counters
    starts = [call for call in calls if call.startswith("docker run")]
    assert any("-f /etc/prelaunch/dcgm-counters.csv" in call for call in starts)


@pytest.mark.parametrize("words", [(), ("node",), ("node", "p5"), ("controller", GATE, "stack"), ("worker",)])
def test_monitoring_installation_fails_when_an_argument_or_setting_is_missing(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """With a message; a lifecycle script that went on would leave a cluster that nobody watches."""
    code, err, _ = install(tmp_path, *words)

    assert code != 0 and err


@pytest.mark.needs("promtool")
def test_an_outage_of_a_cluster_silences_what_follows_from_it_and_no_finding() -> None:
    """Each alert about what does not come from a node; never one about what was found on it, or about another cluster."""
    [rule] = yaml.safe_load(rendered(SETTINGS)["alertmanager.yml"])["inhibit_rules"]
    [matcher] = rule["target_matchers"]
    pattern = matcher.partition("=~")[2].strip().strip('"')
    silenced = {one["alert"] for one in ALERTS if re.fullmatch(pattern, one["alert"])}

    assert (['alertname = "PrelaunchClusterDown"'], ["cluster"]) == (rule["source_matchers"], rule["equal"])
    assert {
        "PrelaunchTargetDown",
        "PrelaunchTargetFlapping",
        "PrelaunchGpusUnmonitored",
        "PrelaunchDcgmFrozen",
        "PrelaunchMetricMissing",
        "PrelaunchWatchStale",
        "PrelaunchRoundIncomplete",
        "PrelaunchTextfileStale",
        "PrelaunchTextfileGone",
    } == silenced


@pytest.mark.needs("prometheus-alertmanager", "unshare")
@pytest.mark.root
def test_an_outage_of_64_nodes_is_one_notification(tmp_path: Path) -> None:
    """The real Alertmanager: of two nodes of another cluster both are named, in one notification as well."""
    port = free_port()
    with serving(Webhook()) as heard:
        address = f"http://127.0.0.1:{heard.server_port}"
        settings = MonitoringSettings(address + "/on-call", address + "/owner", address + "/heartbeat")
        text = rendered(settings)["alertmanager.yml"].replace("group_wait: 10s", "group_wait: 2s")
        (tmp_path / "alertmanager.yml").write_text(text)
        program = "prometheus-alertmanager"
        argv = (
            *World.sharing(program), program, f"--config.file={tmp_path / 'alertmanager.yml'}", "--cluster.listen-address=",
            f"--storage.path={tmp_path / 'am'}", f"--web.listen-address=127.0.0.1:{port}", "--web.get-concurrency=16",
            "--web.timeout=30s",
        )  # fmt: skip
        with (
            open(tmp_path / "log", "wb") as log,
            subprocess.Popen(argv, stdout=log, stderr=log, cwd=tmp_path) as running,
        ):
            try:
                until("it is ready", lambda: get(f"http://127.0.0.1:{port}/api/v2/status") != {})
                down = [
                    _alert("PrelaunchTargetDown", cluster, node, job)
                    for cluster, nodes in (("big", range(64)), ("small", range(2)))
                    for node in nodes
                    for job in ("node", "prelaunch-watch")
                ]
                outage = [_alert("PrelaunchClusterDown", "big", "", "")]
                body = json.dumps(down + outage).encode()
                headers = {"Content-Type": "application/json"}
                request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v2/alerts", body, headers)
                urllib.request.urlopen(request, timeout=10).close()
                until("both are heard", lambda: len(heard.posted) >= 2)
            finally:
                running.terminate()
    groups = [(body["groupLabels"], body["alerts"]) for _, body in heard.posted]
    said = sorted((labels["alertname"], labels["cluster"], len(alerts)) for labels, alerts in groups)

    assert [("PrelaunchClusterDown", "big", 1), ("PrelaunchTargetDown", "small", 4)] == said


def _alert(name: str, cluster: str, node: object, job: str) -> dict[str, object]:
    labels = {
        "alertname": name, "cluster": cluster, "node": f"n{node}", "job": job, "instance": f"n{node}:1", "notify": "on-call"
    }  # fmt: skip
    return {"labels": labels, "annotations": {"summary": "x"}}
