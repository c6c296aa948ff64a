"""A sheet of pixels to draw on, over matplotlib's own renderer: no browser, no network, no display.

matplotlib is the extra `picture`; it is imported on first use, and keeps its font cache in this machine's temporary folder.
Text is never markup: a "$" is a dollar sign, and a character that no font has is written out.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.text.inert import one_line

if TYPE_CHECKING:
    from matplotlib.backend_bases import GraphicsContextBase
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path as Outline

DPI = 100
FONTS = {False: "DejaVuSans.ttf", True: "DejaVuSans-Bold.ttf"}
# From the baseline to the top of the tallest letters, as a share of the font's size: sTypoAscender of both fonts.
ASCENT = 1556 / 2048
_LOCK = threading.Lock()


class PictureUnavailable(Exception):
    """No picture could be drawn; the message says why, and the remedy."""


class Sheet:
    """Places and sizes are pixels, from the top left. What is drawn later lies on top. Nothing that is drawn outlives `png`.

    It draws with matplotlib's renderer alone: importing its figures and axes takes longer than everything that is drawn here.
    """

    def __init__(self, width: int, height: int) -> None:
        """Raises PictureUnavailable."""
        load()
        from matplotlib import get_data_path
        from matplotlib.backends.backend_agg import RendererAgg
        from matplotlib.font_manager import FontProperties
        from matplotlib.ft2font import FT2Font
        from matplotlib.transforms import Affine2D

        fonts = Path(get_data_path()) / "fonts" / "ttf"
        self.width, self.height = width, height
        renderer: Any = RendererAgg  # matplotlib has no types for it
        self._agg = renderer(width, height, DPI)
        self._upwards = Affine2D().scale(1, -1).translate(0, height)
        self._fonts: dict[bool, FontProperties] = {
            bold: FontProperties(fname=str(fonts / name)) for bold, name in FONTS.items()
        }
        self._faces = {bold: FT2Font(str(fonts / name)) for bold, name in FONTS.items()}
        self._known = {bold: frozenset(face.get_charmap()) for bold, face in self._faces.items()}
        self.box(0, 0, width, height, "#ffffff")

    def box(self, x: float, y: float, width: float, height: float, fill: str, edge: str = "") -> None:
        """A rectangle."""
        corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
        self._draw(_path(corners, closed=True), self._pen(edge or fill, 1.0 if edge else 0.0), fill)

    def line(
        self,
        places: Sequence[tuple[float, float]],
        colour: str,
        width: float = 2.0,
        dashes: Sequence[float] = (),
    ) -> None:
        """A line through the places; `dashes` are lengths of strokes and gaps."""
        pen = self._pen(colour, width * 72 / DPI)
        pen.set_joinstyle("round")
        pen.set_capstyle("butt" if dashes else "projecting")
        if dashes:
            pen.set_dashes(0, [length * width * 72 / DPI for length in dashes])
        self._draw(_path(places), pen)

    def shape(self, places: Sequence[tuple[float, float]], fill: str, opacity: float = 1.0) -> None:
        """A filled outline."""
        pen = self._pen(fill, 0.0)
        pen.set_alpha(opacity)
        self._draw(_path(places, closed=True), pen, fill)

    def dot(self, x: float, y: float, radius: float, fill: str) -> None:
        """A filled circle."""
        from matplotlib.path import Path as Outline

        self._draw(Outline.circle((x, y), radius), self._pen(fill, 0.0), fill)

    def cells(self, x: float, y: float, side: float, colours: Sequence[Sequence[str]]) -> None:
        """A square of equal cells."""
        import numpy

        left, top, pixels = round(x), round(y), round(side)
        known = {colour: bytes.fromhex(f"{colour[1:]}ff") for row in colours for colour in row}
        data = b"".join(known[colour] for row in colours for colour in row)
        cells = numpy.frombuffer(data, numpy.uint8).reshape(len(colours), -1, 4)
        place = numpy.arange(pixels) * len(colours) // pixels
        sheet = numpy.asarray(self._agg.buffer_rgba())
        sheet[top : top + pixels, left : left + pixels] = cells[place][:, place]

    def text(
        self, x: float, y: float, text: str, size: float, colour: str, bold: bool = False, right: bool = False
    ) -> None:
        """One line whose middle is at y, from x on; with `right` up to x."""
        line = self.shown(text, bold)
        if not line:
            return
        font = self._fonts[bold].copy()
        font.set_size(size * 72 / DPI)
        left = x - self.width_of(line, size, bold) if right else x
        self._agg.draw_text(self._pen(colour), left, y + ASCENT * size / 2, line, font, 0)

    def width_of(self, text: str, size: float, bold: bool = False) -> float:
        """How wide a line is."""
        face = self._faces[bold]
        face.set_size(size * 72 / DPI, DPI)
        face.set_text(self.shown(text, bold))
        width: float = face.get_width_height()[0] / 64
        return width

    def fitted(self, text: str, size: float, room: float, bold: bool = False) -> str:
        """The text, its middle left out where it is too wide: a name differs at its ends."""
        line = self.shown(text, bold)
        if self.width_of(line, size, bold) <= room:
            return line
        low, high = 1, len(line) - 1
        while low < high:
            kept = (low + high + 1) // 2
            low, high = (kept, high) if self._fits(line, kept, size, room, bold) else (low, kept - 1)
        return _without_middle(line, low)

    def ending(self, text: str, size: float, room: float) -> str:
        """The text, its beginning left out where it is too wide."""
        line = self.shown(text)
        kept = len(line)
        while kept > 1 and self.width_of(_ending(line, kept), size) > room:
            kept -= 1
        return _ending(line, kept)

    def wrapped(self, text: str, size: float, room: float, lines: int, bold: bool = False) -> list[str]:
        """At most so many lines; what does not fit ends in an ellipsis."""
        words, made, here = self.shown(text, bold).split(" "), [], ""
        for word in words:
            longer = f"{here} {word}" if here else word
            if self.width_of(longer, size, bold) <= room:
                here = longer
                continue
            if here:
                made.append(here)
            here = self.fitted(word, size, room, bold)
        made.append(here)
        if len(made) > lines:
            rest = made[lines - 1]
            while rest and self.width_of(f"{rest}…", size, bold) > room:
                rest = rest[:-1]
            made = [*made[: lines - 1], f"{rest.rstrip()}…"]
        return made

    def shown(self, text: str, bold: bool = False) -> str:
        """One line of characters that the font has; others are written out."""
        known = self._known[bold]
        line = one_line(text, 1000)
        return "".join(c if ord(c) in known else f"\\u{ord(c):04x}" for c in line)

    def png(self) -> bytes:
        """The picture; the same bytes for the same drawing."""
        from PIL import Image

        out = io.BytesIO()
        drawn = Image.frombuffer("RGBA", (self.width, self.height), self._agg.buffer_rgba())
        drawn.convert("RGB").save(out, "PNG", dpi=(DPI, DPI))
        return out.getvalue()

    def _pen(self, colour: str, width: float = 1.0) -> GraphicsContextBase:
        pen: GraphicsContextBase = self._agg.new_gc()
        pen.set_foreground(colour)
        pen.set_linewidth(width)
        return pen

    def _draw(self, outline: Outline, pen: GraphicsContextBase, fill: str = "") -> None:
        from matplotlib.colors import to_rgba

        self._agg.draw_path(pen, outline, self._upwards, to_rgba(fill) if fill else None)

    def _fits(self, line: str, kept: int, size: float, room: float, bold: bool) -> bool:
        return self.width_of(_without_middle(line, kept), size, bold) <= room


def load() -> None:
    """Import matplotlib, once. Raises PictureUnavailable if it is not installed."""
    with _LOCK:
        if "matplotlib.font_manager" in sys.modules:
            return
        spec = find_spec("matplotlib")
        if spec is None or not spec.submodule_search_locations:
            raise PictureUnavailable("matplotlib is not installed: pip install 'prelaunch[picture]'")
        with _own_settings(Path(spec.submodule_search_locations[0])):
            try:
                import matplotlib.backends.backend_agg
                import matplotlib.font_manager  # noqa: F401 - it finds its cache while it is imported
            except Exception as error:
                raise PictureUnavailable(
                    f"matplotlib cannot be loaded ({error}): pip install --force-reinstall 'prelaunch[picture]'"
                ) from error


@contextmanager
def _own_settings(package: Path) -> Iterator[None]:
    """Its shipped settings and a folder of ours: neither the user's matplotlibrc nor their home is touched."""
    ours = {"MATPLOTLIBRC": str(package / "mpl-data" / "matplotlibrc")}
    if "MPLCONFIGDIR" not in os.environ:
        ours["MPLCONFIGDIR"] = str(_cache())
    before = {name: os.environ.get(name) for name in ours}
    log = logging.getLogger("matplotlib")
    level = log.level
    os.environ.update(ours)
    log.setLevel(logging.ERROR)  # it says that it builds a cache of fonts, which nobody needs to know
    try:
        yield
    finally:
        log.setLevel(level)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _cache() -> Path:
    """A folder that is ours alone: in one that somebody else made, they could put fonts and settings."""
    path = Path(tempfile.gettempdir()) / f"prelaunch-matplotlib-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if not path.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return path
    except OSError as error:
        raise PictureUnavailable(f"no temporary folder for matplotlib: {error}. Set TMPDIR.") from error
    return Path(tempfile.mkdtemp(prefix="prelaunch-matplotlib-"))


def _path(places: Sequence[tuple[float, float]], closed: bool = False) -> Outline:
    from matplotlib.path import Path as Outline

    return Outline([*places, places[0]] if closed else list(places), closed=closed)


def _without_middle(line: str, kept: int) -> str:
    head = (kept + 1) // 2
    return f"{line[:head]}…{line[len(line) - (kept - head) :]}" if kept > 1 else f"{line[:1]}…"


def _ending(line: str, kept: int) -> str:
    return line if kept >= len(line) else f"…{line[len(line) - kept :]}"
