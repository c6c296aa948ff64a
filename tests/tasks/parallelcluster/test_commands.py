"""The commands are what a shell takes apart into the intended words."""

from __future__ import annotations

import shlex
from pathlib import Path

from tasks.parallelcluster.commands import cluster_commands
from tasks.parallelcluster.settings import Part
from tests.tasks.parallelcluster.clusters import cluster


def test_the_cluster_is_created_from_the_file() -> None:
    """First as a dry run; what becomes of a failed creation is said only where somebody decided it."""
    lines = [command.line for command in cluster_commands(cluster(), Path("a b.yaml"), False)]
    create = "pcluster create-cluster -n ml-cluster -c 'a b.yaml' -r us-west-2"

    assert f"{create} --dryrun true" in lines
    assert f"{create} --rollback-on-failure false" in lines
    assert "pcluster list-clusters -r us-west-2" in lines
    assert create in [command.line for command in cluster_commands(cluster(), Path("a b.yaml"))]


def test_the_login_is_session_manager_and_ssh_with_a_key_pair() -> None:
    """The shell expands the folder of the keys, and nothing of the key's name."""
    *_, manager, ssh = cluster_commands(cluster(key_pair="my (key)"), Path("c.yaml"))
    *_, last = cluster_commands(cluster(without=frozenset({Part.KEY_PAIR})), Path("c.yaml"))

    assert manager.line.startswith(
        'aws ssm start-session --region us-west-2 --target "$(pcluster describe-cluster '
    )
    assert "pcluster ssh -n ml-cluster -r us-west-2 -i ~/.ssh/'my (key).pem'" == ssh.line
    assert manager == last


def test_what_the_nodes_install_is_uploaded_where_the_configuration_says() -> None:
    """Three files that are here; nothing without scripts."""
    upload = cluster_commands(cluster(), Path("c.yaml"))[0]
    copies = [shlex.split(part) for part in upload.line.split(" && ")][1:]

    assert ["install.sh", "prelaunch-watch.service", "prelaunch.pyz"] == [
        Path(copy[3]).name for copy in copies
    ]
    assert {"s3://my-bucket/prelaunch/"} == {copy[4] for copy in copies}
    assert all(Path(copy[3]).is_file() for copy in copies[:2])
    without = cluster_commands(cluster(without=frozenset({Part.SCRIPTS})), Path("c.yaml"))
    assert not any("s3" in command.line for command in without)


def test_a_file_whose_name_begins_with_a_hyphen_is_no_option() -> None:
    """`-c -x` would be one."""
    lines = [command.line for command in cluster_commands(cluster(), Path("-x.yaml"))]

    assert any(" -c ./-x.yaml " in line for line in lines)
