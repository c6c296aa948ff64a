"""What an Xid calls for in the light of what stands beside it, what repeats, and what came since."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks.facts.builtin import builtin
from checks.model import Action
from checks.probes.collectives.transport import GPUDIRECT
from checks.probes.kernel import xid
from checks.probes.kernel.log_lines import Now
from checks.probes.kernel.log_source import Reader
from checks.probes.kernel.xid_catalogue import Need, Since, generation_of, is_odd
from checks.probes.kernel.xid_decision import incidents
from checks.probes.kernel.xid_rows import XidIncident
from tests.checks.probes.kernel.world import NOW, log_of, said

GPU = "NVRM: Xid (PCI:0000:b9:00): "
OTHER = "NVRM: Xid (PCI:0000:53:00): "
RESET_ASKED = f"{GPU}154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
WITHDRAWN = f"{GPU}154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
NAMED = "NVRM: GPU at PCI:0000:b9:00: GPU-7d1be7a0-1111-4222-8333-944455566677"
RESET = "GPU reset executed: GPU-7d1be7a0-1111-4222-8333-944455566677, success: true"
BOOT = "Linux version 6.1.119 (mockbuild@host) (gcc 11.4.1) #1 SMP"


def log(*said: tuple[float, str]) -> tuple[XidIncident, ...]:
    """The incidents of a log: each message with the second at which it was said."""
    return incidents(log_of("".join(f"[{at:10.1f}] {text}\n" for at, text in said)).recent)


def answers(*said: tuple[float, str]) -> dict[int | None, tuple[Need, Action]]:
    """Code -> what it needs and calls for."""
    return {one.decision.code: (one.decision.need, one.decision.action) for one in log(*said)}


def test_a_double_bit_error_with_a_remapped_row_is_drained_and_reset() -> None:
    """48 with 63 or 64; alone it is reset too, and the row that was remapped is routine."""
    both = log((9000, f"{GPU}48, x"), (9001, f"{GPU}63, x"))

    assert [(one.decision.code, one.decision.need) for one in both] == [(48, Need.ACT), (63, Need.ROUTINE)]
    assert both[0].decision.reason == "Xid 63 was seen too: drain the GPU and reset it"
    assert log((9000, f"{GPU}48, x"))[0].decision.reason == "no row remapping was seen: reset the GPU"


def test_another_gpus_fault_is_no_company() -> None:
    """What stands beside is of the same GPU."""
    (first, _) = log((9000, f"{GPU}48, x"), (9001, f"{OTHER}63, x"))
    assert first.decision.reason == "no row remapping was seen: reset the GPU"


@pytest.mark.parametrize("code", [43, 45])
def test_xid_that_follows_a_grave_one_on_its_gpu_is_routine(code: int) -> None:
    """43 and 45 after 79 are routine; an hour later, on another GPU or after a routine one they are not."""
    assert answers((9000, f"{GPU}79, x"), (9002, f"{GPU}{code}, x"))[code] == (Need.ROUTINE, Action.NONE)
    assert answers((5000, f"{GPU}79, x"), (9002, f"{GPU}{code}, x"))[code][0] is Need.APPLICATION
    assert answers((9000, f"{OTHER}79, x"), (9002, f"{GPU}{code}, x"))[code][0] is Need.APPLICATION
    assert answers((9000, f"{GPU}63, x"), (9002, f"{GPU}{code}, x"))[code][0] is Need.APPLICATION


def test_a_program_removed_alone_points_to_the_fabric_manager() -> None:
    """45 without another Xid."""
    assert "fabric manager" in log((9000, f"{GPU}45, x"))[0].decision.reason


def test_a_contained_error_follows_from_an_uncontained_fault() -> None:
    """94 is sympathetic to what must be acted on; beside a program's fault it stands by itself."""
    assert answers((9000, f"{GPU}94, x"), (9001, f"{GPU}48, x"))[94][0] is Need.ROUTINE
    assert answers((9000, f"{GPU}94, x"), (9001, f"{GPU}31, x"))[94][0] is Need.SUPPORT


def test_an_exception_at_one_place_again_and_again_may_be_hardware() -> None:
    """13 at one GPC and TPC in two launches; in one burst, at two places, or on two GPUs it is the program's."""
    place = "13, Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address"
    other = "13, Graphics SM Warp Exception on (GPC 2, TPC 0, SM 1): Out Of Range Address"

    assert answers((8000, GPU + place), (9000, GPU + place))[13] == (Need.SUPPORT, Action.INSPECT)
    assert answers((9000, GPU + place), (9001, GPU + place))[13][0] is Need.APPLICATION
    assert answers((8000, GPU + place), (9000, GPU + other))[13][0] is Need.APPLICATION
    assert answers((8000, GPU + place), (9000, GPU + place), (9000, OTHER + place))[13][0] is Need.APPLICATION


def test_page_faults_on_one_gpu_alone_may_be_hardware() -> None:
    """31 again and again on one GPU; on two it is the program's."""
    assert answers((8000, f"{GPU}31, x"), (9000, f"{GPU}31, x"))[31] == (Need.SUPPORT, Action.INSPECT)
    assert answers((8000, f"{GPU}31, x"), (9000, f"{OTHER}31, x"))[31][0] is Need.APPLICATION


@pytest.mark.parametrize(
    ("word", "action"),
    [
        ("GPU Reset Required", Action.RESET_GPU),
        ("Node Reboot Required", Action.REBOOT),
        ("OS Reboot", Action.REBOOT),
        ("PF FLR", Action.RESET_GPU),
        ("Drain P2P", Action.RESTART_APP),
        ("Drain and Reset", Action.RESET_GPU),
        ("Something New", Action.CONTACT),
    ],
)
def test_154_carries_the_action(word: str, action: Action) -> None:
    """The driver's own word decides; one that nobody knows is no less grave."""
    text = f"{GPU}154, GPU recovery action changed from 0x0 (None) to 0x9 ({word})"

    assert answers((9000, text))[154] == (Need.ACT, action)


@pytest.mark.parametrize(
    ("after", "since"),
    [((9010, WITHDRAWN), Since.CLEARED), ((9010, RESET), Since.RESET), ((9010, BOOT), Since.REBOOTED)],
)
def test_xid_handled_by_a_later_event_is_a_warning(after: tuple[float, str], since: Since) -> None:
    """A reset, a start or the driver's own word after it; each only if it came after."""
    text = f"{GPU}119, Timeout after 6s of waiting for RPC response from GPU4 GSP!"
    mended = log((8000, NAMED), (9000, text), after)
    before = log((8000, NAMED), (8500, after[1]), (9000, text))
    for found, expected in ((mended, (Need.HANDLED, since)), (before, (Need.ACT, Since.NOTHING))):
        assert [expected] == [(one.decision.need, one.since) for one in found if one.decision.code == 119]


def test_the_drivers_demand_ends_when_it_is_withdrawn() -> None:
    """154: reset required, then None: handled. Asked for again after that: not."""
    first = log((9000, RESET_ASKED), (9010, WITHDRAWN))
    again = log((9000, RESET_ASKED), (9010, WITHDRAWN), (9020, RESET_ASKED))

    assert [one.decision.need for one in first] == [Need.HANDLED, Need.ROUTINE]
    assert [one.decision.need for one in again] == [Need.ACT, Need.HANDLED, Need.ROUTINE]


def test_a_reset_mends_no_gpu_that_must_be_restarted_or_inspected() -> None:
    """79 calls for a restart, 54 for hands: a reset answers neither; a start of the machine leaves a warning."""
    for code in (79, 54):
        assert answers((8000, NAMED), (9000, f"{GPU}{code}"), (9010, RESET))[code][0] is Need.ACT
        assert answers((9000, f"{GPU}{code}"), (9010, BOOT))[code][0] is Need.HANDLED


@pytest.mark.parametrize(
    "said",
    [
        "GPU reset executed: GPU-00000000-1111-4222-8333-944455566677, success: true",
        "GPU reset executed:",
        "app: Linux version 6.1.119",
    ],
)
def test_xid_stays_to_be_acted_on_after_a_line_that_is_no_reset(said: str) -> None:
    """It failed, was another GPU's, or only sounds like it."""
    assert answers((8000, NAMED), (9000, f"{GPU}119, x"), (9010, said))[119][0] is Need.ACT


def test_a_fault_after_the_repair_is_one_of_its_own() -> None:
    """Before and after a reset are two incidents."""
    found = log((8000, NAMED), (8500, f"{GPU}119, x"), (9000, RESET), (9010, f"{GPU}119, x"))

    assert [(one.decision.need, one.count) for one in found] == [(Need.ACT, 1), (Need.HANDLED, 1)]


def test_order_is_that_of_time_not_of_lines() -> None:
    """Two sources are read one after the other: what stands later in the text may have happened before."""
    events = log_of(f"[ 9010.0] {WITHDRAWN}\n[ 9000.0] {GPU}119, x\n").recent
    unnumbered = [replace(event, line=replace(event.line, number=0)) for event in events]

    assert {one.decision.code: one.decision.need for one in incidents(unnumbered)}[119] is Need.HANDLED
    assert {one.decision.code: one.decision.need for one in incidents(events)}[119] is Need.ACT


@pytest.mark.parametrize(
    ("said", "need"),
    [
        ("[ 9000.0] {fault}\n[ 9010.0] {boot}", Need.HANDLED),
        ("[ 9000.0] {fault}\n{boot}", Need.ACT),
        ("{fault}\n[ 9010.0] {boot}", Need.ACT),
        ("[ 9000.0] {fault}\n[ 8990.0] {boot}", Need.ACT),
        ("[ 9000.0] {fault}\n[ 9000.0] {boot}", Need.ACT),
        ("[ 9010.0] {boot}\n[ 9000.0] {fault}", Need.ACT),
    ],
)
def test_a_restart_counts_if_its_place_and_its_stamp_say_so(said: str, need: Need) -> None:
    """One of the two alone may be an order that somebody made, or a clock that was wrong."""
    text = said.format(fault=f"{GPU}79, x", boot=BOOT)

    assert {one.decision.code: one.decision.need for one in incidents(log_of(text).recent)}[79] is need


DAY_S = 86400.0


def of_two_days(text: str) -> tuple[XidIncident, ...]:
    """The incidents of a machine that started 40 hours ago."""
    now = Now(40 * 3600.0, NOW.epoch_s, 40 * 3600.0)
    reader = Reader(xid.find, now, DAY_S)
    reader.take(said(text, now))
    return incidents(reader.log("text").this_boot, None, DAY_S)


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", Need.ACT),
        ("154, GPU recovery action chan", Need.UNREAD),
        ("999, x", Need.UNKNOWN),
        ("81, x", Need.SUPPORT),
        ("13, Graphics Exception", None),
        ("63, Row Remapper: New row marked for remapping", None),
        ("121, x", None),
    ],
)
def test_an_old_xid_stays_open_if_it_calls_for_an_action(text: str, need: Need | None) -> None:
    """Of 30 hours ago, in this boot. What a program did, what is routine, and what the catalogue ignores is not spoken of."""
    found = of_two_days(f"[ 36000.0] {GPU}{text}\n[ 143000.0] usb 1-1: new device\n")

    assert [one.decision.need for one in found] == ([] if need is None else [need])
    assert all(one.age_s == pytest.approx(30 * 3600) for one in found)


@pytest.mark.parametrize(
    ("answer", "open_", "at"),
    [(WITHDRAWN, False, 40000), (RESET, False, 143000), (BOOT, False, 40000), ("usb 1-1: new", True, 40000)],
)
def test_an_old_xid_is_closed_by_what_answers_it(answer: str, open_: bool, at: int) -> None:
    """The answer may be old as well, or of today: then nothing is left to be done."""
    found = of_two_days(f"[ 30000.0] {NAMED}\n[ 36000.0] {GPU}119, x\n[ {at}.0] {answer}\n")

    assert open_ == (119 in {one.decision.code for one in found})


def needs_in_order(text: str) -> dict[int | None, Need]:
    """What each Xid needs if the lines of the log are numbered."""
    events = enumerate(log_of(text).recent, 1)
    numbered = [replace(event, line=replace(event.line, number=place)) for place, event in events]
    return {one.decision.code: one.decision.need for one in incidents(numbered)}


def test_a_text_of_two_starts_mends_nothing_of_the_later_one() -> None:
    """Stamps begin again at 0: what was reset before the second start says nothing of what came after it."""
    text = f"[    1.0] {NAMED}\n[ 5000.0] {RESET}\n[    0.0] {BOOT}\n[  100.0] {GPU}119, x\n[  101.0] {GPU}45, x\n"

    assert needs_in_order(text) == {119: Need.ACT, 45: Need.ROUTINE}


def test_stamps_that_go_back_put_nothing_together() -> None:
    """79 late in one start and 45 early in the next are an hour or a week apart."""
    text = f"[ 5000.0] {GPU}79, x\n[  100.0] {GPU}45, x\n"

    assert needs_in_order(text)[45] is Need.APPLICATION


def test_words_without_an_xid_are_the_same_fault() -> None:
    """79, and the line that only says so, are one incident, of which a page speaks once."""
    found = log((9000, f"{GPU}79, x"), (9001, "NVRM: GPU 0000:b9:00.0: GPU has fallen off the bus."))

    assert [(79, Action.REBOOT, 2)] == [(one.decision.code, one.decision.action, one.count) for one in found]


def test_a_code_of_another_generation_is_odd() -> None:
    """The catalogue says which GPUs report a code; of a GPU that it has no column for nobody can tell."""
    assert is_odd(149, generation_of("H100-SXM5-80GB"))
    assert not is_odd(149, generation_of("B200"))
    assert not is_odd(149, generation_of("L40S"))
    assert not is_odd(999, generation_of("H100"))
    assert is_odd(74, generation_of("GB200"))


# The Xid catalogue has no column for these, and NCCL's GPUDirect is not required of them: AWS has it from p4d (A100) on, and of the
# RTX PRO models, which came later, no log of NCCL was recorded.
NEITHER = {"T4", "T4G", "A10G", "L4", "L40S", "V100", "RTX PRO 4500", "RTX PRO 6000 Blackwell SE"}


def test_every_gpu_model_has_a_generation_and_gpudirect_or_is_listed_as_having_neither() -> None:
    """A model that is in no table would drop out of both checks without a word."""
    models = {row.gpu.partition("-")[0] for row in builtin().instances.values() if row.gpu}

    assert NEITHER == {gpu for gpu in models if not generation_of(gpu) or not gpu.startswith(GPUDIRECT)}


def test_a_log_of_faults_alone_is_read_in_time_that_grows_with_it() -> None:
    """Every look at what stands beside is a search, no walk: 5,000 lines of one GPU within seconds."""
    lines = [(index / 10, f"{GPU}{(45, 31, 13, 74, 48)[index % 5]}, x") for index in range(5_000)]

    assert sum(one.count for one in log(*lines)) == 5_000
