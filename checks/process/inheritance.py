"""What a program inherits from whoever started it, set right before it does anything.

Supervisors and daemons start programs with closed descriptors, and some ignore SIGCHLD or block signals, which execve(2) hands on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Slurm sends them to every process of a step (sbatch --signal, scancel --signal), and trainings save their state then. Their default
# action would end the process.
FOR_TRAINING = (signal.SIGUSR1, signal.SIGUSR2)


def restore_defaults() -> None:
    """Give this process three standard streams, the exit codes of its children, and the signals that end it.

    A file that is opened later would take the number of a closed stream, and what is printed would go into that file; Python has no
    sys.stdout then. With SIGCHLD ignored the kernel keeps no exit code (wait(2)), and Python takes 0 for it: a tool that failed
    would have succeeded. A blocked SIGTERM never arrives: a gate that nobody can cancel leaves its jobs running.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # for as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    ):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def outlive_signals_for_training() -> None:
    """Handle them by doing nothing, which a command that this process starts does not inherit, as it would inherit that they are
    ignored: it gets each itself.
    """
    for number in FOR_TRAINING:
        signal.signal(number, lambda *_: None)
