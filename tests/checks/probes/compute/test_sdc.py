"""compute.sdc: a device that computes wrongly is found, steadily wrong or once; sound ones have one digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest

from checks.check import fault_of
from checks.model import Value
from checks.probes.compute import bit_patterns, sdc, training_smoke
from checks.probes.compute.device import BF16, FP16, FP32, Precision
from tests.checks.worlds import world_of_session
from tests.fakes import compute as fakes
from tests.late import Late

torch = Late("torch")
FLOAT16_MOST, EXACT = 65504, 1 << 24


def measured(seeds: int = 1) -> Mapping[str, Value]:
    return sdc.measure("cpu", 64, seconds=0.0, seeds=seeds).metrics


def test_a_sound_device_has_the_digest_of_the_known_answers() -> None:
    """The digest follows from the answers alone, not from what was measured."""
    known = [sdc.digest_of(one.expected()) for one in sdc.all_known(64, 1)]
    said = sdc.measure("cpu", 64, 0.0, 1).evidence

    assert fault_of(sdc.sdc, measured()) == ""
    assert [digest[:16] in said for digest in known] == [True] * len(known)
    assert measured()["digest"] == measured()["digest"]


def test_the_digest_does_not_depend_on_how_often() -> None:
    """Ranks that are faster repeat more often, and must still agree."""
    assert sdc.measure("cpu", 64, 0.05, 1).metrics["digest"] == measured()["digest"]


def test_every_problem_counts_in_the_digest() -> None:
    """Another answer to one problem of many is another digest."""
    with fakes.products(lambda result, call: fakes.off_by_one(result, call) if call > 6 else result):
        broken = measured()["digest"]

    assert broken != measured()["digest"]


def test_a_wrong_product_within_a_burst_is_found() -> None:
    """Those that are not fetched are compared on the device."""
    with mock.patch.dict(sdc.BURST, {"cpu": 8}), fakes.products(fakes.once(3)):
        metrics = measured()

    assert metrics["wrong_elements"] == (1, 0, 0, 0)
    assert metrics["products"] == 8 * 2 * 4


def test_a_device_that_compares_wrongly_is_found_by_the_host() -> None:
    """What came off the device is compared again where it did not compute."""
    with mock.patch.object(sdc, "_burst", lambda shown, left, right, answer, count: answer + 1):
        metrics = measured()

    assert metrics["wrong_elements"] == (2 * 64 * 64,) * 4


LIES: dict[str, Any] = {
    "broadcastable": lambda result: result[:1, :1],
    "another type": lambda result: result.double(),
    "transposed": lambda result: result.t().contiguous(),
    "permuted": lambda result: result.roll(1, 0),
    "negated": lambda result: -result,
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_other_wrong_products_are_found(lie: Any) -> None:
    """In every problem."""
    with fakes.products(lambda result, call: lie(result)):
        wrong = measured()["wrong_elements"]

    assert isinstance(wrong, tuple)
    assert all(isinstance(count, int) and count > 0 for count in wrong)


def test_a_negative_zero_is_a_zero() -> None:
    """Kernels may leave either; both are the right answer."""
    assert sdc.digest_of(torch.tensor([0.0, 1.0])) == sdc.digest_of(torch.tensor([-0.0, 1.0]))


def test_a_digest_is_of_every_bit() -> None:
    """The last bit of one element makes another one, in 16 bits too."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        one = torch.ones(4, dtype=dtype)
        other = one.clone()
        other[3] += torch.finfo(dtype).eps

        assert sdc.digest_of(one) != sdc.digest_of(other)


@pytest.mark.parametrize("size", [64, 256])
def test_the_answer_is_the_product(size: int) -> None:
    """As 64-bit integers multiply it, in every element, of every problem, transposed ones too."""
    for known in sdc.all_known(size, 2):
        left, right = known.operands(FP32, "cpu")

        assert bool((left.long() @ right.long() == known.expected().long()).all()), known.name


def test_sdc_has_as_many_distinct_references_as_announced() -> None:
    """The time for each follows from the count; names tell them apart."""
    names = [known.name for known in sdc.all_known(8, 3)]

    assert names == [*sdc.names(3)] and len(names) == len(set(names))


@pytest.mark.parametrize("precision", [BF16, FP16], ids=lambda precision: precision.name)
def test_operands_and_answers_are_exact_in_16_bits(precision: Precision) -> None:
    """Nothing is rounded on the way in or out."""
    for known in (sdc.orthogonal, sdc.alternating):
        for tensor in known(sdc.SIZES["cpu"], 0):
            assert bool((tensor.to(precision.torch_dtype).float() == tensor).all())


def test_partial_sums_are_exact_in_any_order() -> None:
    """The sum of the magnitudes along k stays below 2^24, where float32 holds every integer."""
    for known in (sdc.orthogonal, sdc.alternating):
        left, right, _ = known(sdc.SIZES["cpu"], 1)

        assert float(left.abs().sum(1).max() * right.abs().max()) < EXACT


def test_the_greatest_order_is_exact_too() -> None:
    """A GPU's: answers are 1 to 9 times it, and a power of two changes no digits; float16 holds them all."""
    answers = torch.tensor([float(a * b * sdc.MOST_ORDER) for a in (1, 2, 3) for b in (1, 2, 3)])

    assert sdc.SIZES["cuda"] == sdc.MOST_ORDER
    assert float(answers.max()) <= FLOAT16_MOST
    assert torch.equal(answers.half().float(), answers)
    assert torch.equal(answers.bfloat16().float(), answers)


def test_no_answer_is_a_negative_zero() -> None:
    """Its bytes would differ from those of the product's 0."""
    for known in sdc.all_known(32, 2):
        zeros = known.answer[known.answer == 0]

        assert not bool(torch.signbit(zeros).any())


def test_each_seed_has_another_answer() -> None:
    """Or a remembered answer would do."""
    for known in (sdc.orthogonal, sdc.alternating):
        answers = [known(64, seed)[2] for seed in range(4)]

        assert not any(torch.equal(a, b) for i, a in enumerate(answers) for b in answers[:i])


@pytest.mark.parametrize("order", [48, 8192])
def test_an_order_without_exact_products_is_refused(order: int) -> None:
    """No power of two, or too large."""
    with pytest.raises(ValueError, match=str(order)):
        sdc.hadamard(order)


def test_checks_measure_where_torch_finds_no_numpy(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The ranks of the session's world find none: training.ddp measures there, and digests are the same as with numpy."""
    world = world_of_session(tmp_path_factory.getbasetemp())
    digests = {
        "sdc": sdc.measure("cpu", sdc.SIZES["cpu"], 0.0, 1).metrics["digest"],
        "model": training_smoke.digest(training_smoke.make_model("cpu")),
    }

    assert [{"numpy": False, **digests}] * 2 == world["numpy"]
    assert [64, 64] == [len(row["weights_digest"]) for row in world["ddp/healthy"]]


def test_digests_are_of_the_bytes_that_numpy_reads() -> None:
    """Of every type that the checks multiply in, of a view of a larger tensor, and of one that is not contiguous."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        whole = torch.arange(24, dtype=torch.float32).to(dtype).reshape(4, 6)
        for tensor in (whole, whole[1:, 2:], whole.t(), whole[:0]):
            expected = (tensor + 0).contiguous().view(torch.uint8).numpy().tobytes()

            assert hashlib.sha256(expected).hexdigest() == sdc.digest_of(tensor)
    model = training_smoke.make_model("cpu")
    expected = b"".join(weights.detach().numpy().tobytes() for weights in model.parameters())

    assert hashlib.sha256(expected).hexdigest() == training_smoke.digest(model)


def test_bit_patterns_have_no_wrong_words_when_unchanged() -> None:
    """Across the pieces in which it is made and compared; its complement as well."""
    made = bit_patterns.make(bit_patterns.CHUNK + 5, 3, "cpu")

    assert bit_patterns.wrong(made, 3) == 0
    assert bit_patterns.wrong(made.bitwise_not(), 3, flipped=True) == 0


@pytest.mark.parametrize(
    "index", [0, 1000, bit_patterns.CHUNK - 1, bit_patterns.CHUNK, bit_patterns.CHUNK + 4]
)
def test_flipped_bit_counts_as_one_wrong_word(index: int) -> None:
    """In the first word, the last, and where two pieces meet."""
    made = bit_patterns.make(bit_patterns.CHUNK + 5, 0, "cpu")
    made[index] ^= 1 << 30

    assert bit_patterns.wrong(made, 0) == 1


@pytest.mark.parametrize("shift", [1, 2, 64, 4096])
def test_shifted_words_are_wrong(shift: int) -> None:
    """Nearly everywhere."""
    made = bit_patterns.make(10_000, 0, "cpu")

    assert bit_patterns.wrong(made.roll(shift), 0) > 9_990


def test_another_seed_and_the_complement_are_wrong() -> None:
    """An earlier block is not taken for this one."""
    made = bit_patterns.make(1000, 0, "cpu")

    assert bit_patterns.wrong(made, 1) == 1000
    assert bit_patterns.wrong(made, 0, flipped=True) == 1000


def test_the_words_are_those_of_the_formula() -> None:
    """By Python's own integers."""
    expected = [(i * 2654435761 + 7) % (1 << 31) for i in range(50)]

    assert bit_patterns.make(50, 7, "cpu").tolist() == expected
