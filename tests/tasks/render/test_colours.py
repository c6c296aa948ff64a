"""The colours of the page: told apart with every kind of colour sight, and legible upon each other."""

from __future__ import annotations

import itertools
import re

import pytest

from tasks.render.html import HERE

STYLE = HERE / "report.css"
Colour = tuple[float, float, float]
# Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency (IEEE TVCG 2009),
# the matrices of severity 1.0, for linear RGB.
SIGHTS: dict[str, tuple[Colour, Colour, Colour]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
# Distances in CIE L*a*b* (1976): 2.3 is a just noticeable difference (Mahy and others, Color Research 19, 1994).
NOTICEABLE = 2.3
TONES = ("pass", "warn", "unknown", "fail")


def _linear(colour: str) -> Colour:
    r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return _unfold(r), _unfold(g), _unfold(b)


def _unfold(value: float) -> float:
    return float(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)


def _lab(r: float, g: float, b: float) -> Colour:
    """Of linear sRGB, with D65 as white."""
    x = (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047
    y = 0.2126729 * r + 0.7151522 * g + 0.0721750 * b
    z = (0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def _seen(colour: str, sight: str) -> Colour:
    rgb = _linear(colour)
    r, g, b = (min(1.0, max(0.0, sum(m * c for m, c in zip(row, rgb, strict=True)))) for row in SIGHTS[sight])
    return _lab(r, g, b)


def distance(one: str, other: str, sight: str) -> float:
    """How far apart two colours are for such eyes."""
    pairs = zip(_seen(one, sight), _seen(other, sight), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it."""
    weights = (0.2126, 0.7152, 0.0722)
    low, high = sorted(sum(w * c for w, c in zip(weights, _linear(x), strict=True)) for x in (one, other))
    return (high + 0.05) / (low + 0.05)


def light() -> dict[str, str]:
    """The colours of the light scheme by name, such as "fail-fill" and "fail-ink"."""
    text = STYLE.read_text(encoding="utf-8").partition("@media")[0]
    return dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})", text))


def dark() -> dict[str, str]:
    """The colours of the dark scheme: the light one's, but for what the style sheet changes."""
    text = STYLE.read_text(encoding="utf-8").partition("prefers-color-scheme: dark")[2].partition("\n}")[0]
    return light() | dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})", text))


def shades() -> list[tuple[str, str]]:
    """(fill, ink) of each step of a heat map, the slowest first."""
    rule = r"\.h(\d) \{ --fill: (#[0-9a-f]{6}); --ink: (#[0-9a-f]{6}); \}"
    return [(fill, ink) for _, fill, ink in sorted(re.findall(rule, STYLE.read_text("utf-8")))]


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("scheme", [light(), dark()], ids=["light", "dark"])
def test_no_two_verdicts_look_alike(scheme: dict[str, str], sight: str) -> None:
    """Ten times what is just noticeable between any two; a cell that was skipped is apart from all of them."""
    fills = {tone: scheme[f"{tone}-fill"] for tone in (*TONES, "skipped")}
    apart = {(a, b): distance(fills[a], fills[b], sight) for a, b in itertools.combinations(fills, 2)}

    assert {} == {pair: d for pair, d in apart.items() if "skipped" not in pair and d < 10 * NOTICEABLE}
    assert min(apart.values()) > 3 * NOTICEABLE


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_shades_of_a_heat_map_stay_in_their_order(sight: str) -> None:
    """Darker is slower for every eye, and neighbours differ."""
    seen = [_seen(fill, sight)[0] for fill, _ in shades()]
    fills = [fill for fill, _ in shades()]

    assert sorted(seen) == seen and len(seen) == 6
    assert min(distance(a, b, sight) for a, b in itertools.pairwise(fills)) > 4 * NOTICEABLE


@pytest.mark.parametrize("scheme", [light(), dark()], ids=["light", "dark"])
def test_every_ink_can_be_read_on_its_fill(scheme: dict[str, str]) -> None:
    """4.5 to 1 at least (WCAG AA)."""
    pairs = [(scheme[f"{tone}-ink"], scheme[f"{tone}-fill"]) for tone in (*TONES, "skipped")]
    pairs += [(ink, fill) for fill, ink in shades()]
    pairs += [(scheme[tone], scheme["page"]) for tone in (*TONES, "text", "quiet", "focus")]

    assert [] == [pair for pair in pairs if contrast(*pair) < 4.5]
