"""What a container starts with: the agent, from the image or from the input channel, and what it is told. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks import exchangekey
from tasks.launchers.base import JobSpec, LaunchRejected, Placement, Work
from tasks.launchers.sagemaker import places
from tasks.launchers.sagemaker.limits import at
from tasks.launchers.sagemaker.machines import keeps
from tasks.launchers.sagemaker.options import Code, SageMakerOptions
from tasks.launchers.sagemaker.places import Places
from tasks.launchers.sagemaker.uploads import code_archive, start_script

FROM_IMAGE = ("python3", "-m", "container.agent")
FROM_CHANNEL = ("/bin/sh", places.START)
# TrainingContainerArgument and TrainingContainerArguments, botocore 1.44.5: .* of at most 256 characters, 100 of them.
MOST_CHARACTERS, MOST_ITEMS = 256, 100
LINE_ENDS = re.compile("[\n\r\x85\u2028\u2029]")
FILE_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
OWN_FILES = ("command.json", "prelaunch.tar.gz", "start.sh", exchangekey.FILE)
# Where the check image has the code: a PYTHONPATH of the training's own would hide it.
IN_IMAGE = "/opt/prelaunch"
PYTHON = "PRELAUNCH_PYTHON"


@dataclass(frozen=True)
class Entry:
    """The container's entrypoint and arguments, and the files of the input channel that these need."""

    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    files: Mapping[str, bytes]


def entry_of(job: JobSpec, options: SageMakerOptions, where: Places) -> Entry:
    """The start of one job's containers. Raises LaunchRejected for a file that cannot be given to them."""
    files = dict(job.files)
    for name in files:
        if name in OWN_FILES or re.fullmatch(FILE_NAME, name) is None:
            raise LaunchRejected(f"{job.name}: a file cannot be named {name!r:.80}. Use a plain, free name.")
    by_channel = in_channel(job, options)
    if by_channel:
        files |= {"prelaunch.tar.gz": code_archive(), "start.sh": start_script()}
    told = _told(job, options, where)
    if any(len(word) > MOST_CHARACTERS for word in told):
        raise LaunchRejected(
            f"{job.name}: prefix {options.prefix!r:.80} makes addresses of more than the {MOST_CHARACTERS} characters that "
            "SageMaker takes in an argument. Shorten it."
        )
    words = job.command if job.work is Work.COMMAND else _filled(job)
    if job.work is not Work.CHECK:
        if _fits(told, words):
            told = (*told, "--", *words)
        else:
            told = (*told, "--command-file", places.COMMAND)
            files["command.json"] = json.dumps(list(words)).encode()
    return Entry(FROM_CHANNEL if by_channel else FROM_IMAGE, told, files)


def in_channel(job: JobSpec, options: SageMakerOptions) -> bool:
    """Whether the code comes by the input channel: asked for, or a training image of its own (AUTO)."""
    own_image = bool(job.image) and job.image != options.image
    return options.code == Code.CHANNEL or (options.code == Code.AUTO and own_image)


def environment_of(job: JobSpec, options: SageMakerOptions) -> dict[str, str]:
    """The training's own environment, and what the agent is told by it."""
    made = dict(job.environment)
    return {**made, PYTHON: options.python} if options.python else made


def found_first(body: Mapping[str, object]) -> dict[str, object]:
    """The request in which a PYTHONPATH, whoever said it, does not hide the agent that the image has."""
    environment, path = body.get("Environment"), at(body, "Environment.PYTHONPATH")
    from_image = at(body, "AlgorithmSpecification.ContainerEntrypoint") == list(FROM_IMAGE)
    if not from_image or not isinstance(environment, Mapping) or path is None:
        return dict(body)
    return {**body, "Environment": {**environment, "PYTHONPATH": f"{IN_IMAGE}:{path}"}}


def _told(job: JobSpec, options: SageMakerOptions, where: Places) -> tuple[str, ...]:
    """Verb and options. With network isolation no container reaches S3: nothing is copied there, nothing awaited."""
    isolated = options.network_isolation
    upload = () if isolated else ("--upload", where.reports)
    bundle = ("--bundle", places.BUNDLE, *upload)
    match job.work:
        case Work.COMMAND:
            return ("exec", *upload)
        case Work.CHECK:
            return ("check", *bundle, *(("--keep",) if keeps(job, options) else ()))
        case Work.CONFIRM:
            pooled = ("--pooled",) if options.strength is Placement.POOLED else ()
            return ("gate", *bundle, "--confirm", places.PASS, *pooled, *_observe(job))
        case Work.GATE:
            ask = ("--ask-s", f"{job.ask_s:g}", "--answers", where.answers) if job.ask_s else ()
            return ("gate", *bundle, *_observe(job), *ask)


def _filled(job: JobSpec) -> tuple[str, ...]:
    """The training's words with the container's folders; a ModelTrainer's own stand as they are."""
    fill = {} if job.trainer else {"{job}": places.FOLDER, "{out}": places.OUT}
    return tuple(
        re.sub(r"\{(job|out)\}", lambda found: fill.get(found[0], found[0]), word) for word in job.behind
    )


def _observe(job: JobSpec) -> tuple[str, ...]:
    return ("--observe",) if job.observe else ()


def _fits(told: tuple[str, ...], words: tuple[str, ...]) -> bool:
    short = all(len(word) <= MOST_CHARACTERS and not LINE_ENDS.search(word) for word in words)
    return short and len(told) + 1 + len(words) <= MOST_ITEMS
