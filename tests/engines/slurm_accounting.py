"""A cluster with accounting: slurmdbd of the same Slurm, over MariaDB of this machine, both on the login node.

slurmctld forgets a job soon after its end, so that only the accounting knows how it ended.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
from pathlib import Path

from tests.engines.slurm_cluster import SlurmCluster, end, unavailable
from tests.waiting import until
from tests.world_processes import tail

PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "my_print_defaults")
INSTALL = "apt-get install slurmdbd mariadb-server-core mariadb-client-core"
UP_S = 60.0
DBD_PORT, DATABASE_PORT = 17120, 17130
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={address}
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.sock
"""
# The least that slurm.conf(5) allows; what is older is removed once a minute.
FORGETS_S = 2
SLURMDBD = Path(__file__).with_name("slurmdbd.conf.template").read_text()
GRANTS = """\
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@127.0.0.1 IDENTIFIED BY '{password}';
GRANT ALL ON slurm_acct_db.* TO slurm@127.0.0.1;
"""


def no_accounting() -> str:
    """Why no cluster with accounting can be started here, with the remedy; "" where it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}. Remedy: {INSTALL}" if missing else unavailable()


class AccountedCluster(SlurmCluster):
    """A cluster whose jobs are known to sacct."""

    def configuration(self) -> str:
        """slurm.conf with accounting, and with a short memory of slurmctld."""
        text = super().configuration()
        accounting = ACCOUNTING.format(folder=self.folder, address=self.login_address, port=DBD_PORT)
        for old, new in (
            ("AccountingStorageType=accounting_storage/none\n", accounting),
            ("MinJobAge=300\n", f"MinJobAge={FORGETS_S}\n"),
        ):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text

    def before_slurmctld(self) -> None:
        """Start the database and slurmdbd, which then knows the cluster."""
        password, data = secrets.token_hex(16), self.folder / "database"
        grants, conf = self.folder / "grants.sql", self.folder / "slurmdbd.conf"
        values = {"folder": self.folder, "address": self.login_address, "password": password}
        settings = SLURMDBD.format(**values, port=DBD_PORT, database=DATABASE_PORT)
        for path, text in ((grants, GRANTS.format(password=password)), (conf, settings)):
            path.touch(0o600)
            path.write_text(text)
        own = ("--no-defaults", "--user=root", "--skip-test-db", "--auth-root-authentication-method=normal")
        made = ("mariadb-install-db", *own, f"--datadir={data}")
        subprocess.run(made, check=True, capture_output=True, timeout=UP_S)
        words = (
            "mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={self.folder}/database.sock",
            f"--init-file={grants}", "--bind-address=127.0.0.1", f"--port={DATABASE_PORT}", "--skip-name-resolve",
            "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0",
        )  # fmt: skip
        log = self.folder / "log" / "mariadbd.log"
        script = f'"$@" >{log} 2>&1 & echo $! >{self.folder}/mariadbd.pid'
        self.start_on_login("/bin/sh", "-c", script, "database", *words, other=False)
        until(lambda: log.exists() and "ready for connections" in log.read_text(), lambda: tail(log), UP_S)
        self.open_login()
        self.start_accounting()
        self.run("sacctmgr", "--immediate", "add", "cluster", "prelaunch")

    def start_accounting(self) -> None:
        """Start slurmdbd (again), and wait until it answers."""
        self.start_on_login("slurmdbd")
        words = ("sacctmgr", "--noheader", "list", "cluster")
        log = self.folder / "log" / "slurmdbd.log"
        until(lambda: "error" not in self.run(*words, check=False, both=True), lambda: tail(log), UP_S)

    def end_accounting(self) -> None:
        """slurmdbd is gone."""
        end(int((self.folder / "slurmdbd.pid").read_text()))
