"""Different images of one kind, drawn: documents, drawings, skies, and frames of one scene.

``KINDS[name](seed)`` gives an image; other seeds give other images. Sizes are those of screens and
of pages scanned at 100 dots per inch. Those of ``CLOSE`` differ in so little that thumbnails hardly
show it.
"""

from collections.abc import Callable
from functools import cache
from itertools import permutations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

_WORDS = (  # noqa: SIM905
    "account amount annual balance before board budget change client copy date delivery draft due "
    "early enclosed final garden harbour invoice item joint kind letter light machine meeting "
    "number office order paper please project quarter receipt regards repair report river service "
    "signed station street summer supply table thank total travel under value visit water winter"
).split()
_PAGE = (827, 1169)


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def _sheet(size: tuple[int, int] = _PAGE, colour: object = "white"):
    image = Image.new("RGB", size, colour)
    return image, ImageDraw.Draw(image)


def _sentence(rng, n_words: int) -> str:
    return " ".join(rng.choice(_WORDS, n_words).tolist()).capitalize()


def _letterhead(draw) -> None:
    draw.rectangle((0, 0, _PAGE[0], 90), fill=(30, 70, 130))
    draw.text((60, 25), "Harbour & Sons", fill="white", font=_font(36))
    draw.text((60, 1120), "Harbour & Sons, 12 River Street", fill=(90, 90, 90), font=_font(16))


def letter(seed: int) -> Image.Image:
    """Draw one letterhead with another addressee and text."""
    rng = np.random.default_rng(seed)
    image, draw = _sheet()
    _letterhead(draw)
    for line in range(3):
        draw.text((80, 150 + 24 * line), _sentence(rng, 2), fill="black", font=_font(18))
    y = 280
    for n_lines in rng.integers(2, 7, 5).tolist():
        for line in range(n_lines):
            n_words = int(rng.integers(3, 10)) if line == n_lines - 1 else 10
            draw.text((80, y), _sentence(rng, n_words), fill="black", font=_font(17))
            y += 24
        y += 20
    return image


def invoice(seed: int) -> Image.Image:
    """Draw one form with other items and amounts."""
    rng = np.random.default_rng(seed)
    image, draw = _sheet()
    _letterhead(draw)
    draw.text((80, 140), f"Invoice {10_000 + seed}", fill="black", font=_font(28))
    draw.text((80, 190), _sentence(rng, 3), fill="black", font=_font(18))
    draw.rectangle((70, 260, 757, 300), fill=(215, 225, 240))
    draw.text((80, 268), "Item", fill="black", font=_font(18))
    draw.text((650, 268), "Amount", fill="black", font=_font(18))
    total = 0
    for line in range(int(rng.integers(4, 12))):
        y, amount = 315 + 36 * line, int(rng.integers(100, 99_999))
        total += amount
        draw.text((80, y), _sentence(rng, int(rng.integers(2, 6))), fill="black", font=_font(18))
        draw.text((650, y), f"{amount / 100:9.2f}", fill="black", font=_font(18))
        draw.line((70, y + 30, 757, y + 30), fill=(200, 200, 200))
    draw.text((560, 780), f"Total {total / 100:.2f}", fill="black", font=_font(24))
    return image


def chat(seed: int) -> Image.Image:
    """Draw a screen of messages."""
    rng = np.random.default_rng(seed)
    image, draw = _sheet((540, 1170), (236, 229, 221))
    draw.rectangle((0, 0, 540, 90), fill=(7, 94, 84))
    draw.text((90, 30), "Family", fill="white", font=_font(28))
    y = 110
    while y < 1060:
        n_lines, is_own = int(rng.integers(1, 4)), bool(rng.integers(2))
        width = int(rng.integers(180, 400))
        left = 520 - width if is_own else 20
        box = (left, y, left + width, y + 26 * n_lines + 16)
        draw.rounded_rectangle(box, 10, fill=(220, 248, 198) if is_own else "white")
        for line in range(n_lines):
            text = _sentence(rng, 6)[: width // 11]
            draw.text((left + 10, y + 8 + 26 * line), text, fill="black", font=_font(18))
        y += 26 * n_lines + 34
    return image


def card(seed: int) -> Image.Image:
    """Draw a number on a card with a coloured edge."""
    image, draw = _sheet((600, 400), (250, 246, 235))
    draw.rectangle((0, 0, 599, 399), outline=(160, 40, 40), width=24)
    draw.text((300, 200), f"{seed:03}", fill="black", font=_font(120), anchor="mm")
    return image


def page(seed: int) -> Image.Image:
    """Draw a page full of text, as of a book."""
    rng = np.random.default_rng(seed)
    image, draw = _sheet()
    for line in range(42):
        n_words = 10 if rng.random() < 0.85 else int(rng.integers(2, 9))
        draw.text((80, 80 + 24 * line), _sentence(rng, n_words), fill="black", font=_font(17))
    return image


def chart(seed: int) -> Image.Image:
    """Draw a line chart."""
    rng = np.random.default_rng(seed)
    image, draw = _sheet((800, 500))
    for y in range(60, 460, 80):
        draw.line((70, y, 770, y), fill=(220, 220, 220))
    draw.line((70, 40, 70, 450, 770, 450), fill="black", width=3)
    for colour in ((31, 119, 180), (255, 127, 14)):
        values = np.cumsum(rng.normal(0, 22, 40)) + rng.uniform(150, 350)
        points = zip(range(70, 770, 18), values.clip(50, 440).tolist(), strict=False)
        draw.line([value for point in points for value in point], fill=colour, width=3)
    return image


def smiley(seed: int) -> Image.Image:
    """Draw a round face with other eyes and another mouth."""
    rng = np.random.default_rng(seed)
    image, draw = _sheet((256, 256))
    draw.ellipse((16, 16, 240, 240), fill=(255, 205, 60), outline=(200, 140, 20), width=4)
    wide, tall = rng.integers(8, 22, 2).tolist()
    gap, height = int(rng.integers(30, 56)), int(rng.integers(80, 112))
    for x in (128 - gap, 128 + gap):
        draw.ellipse((x - wide, height - tall, x + wide, height + tall), fill=(60, 40, 20))
    half, drop = int(rng.integers(24, 70)), int(rng.integers(8, 44))
    start = 0 if rng.random() < 0.6 else 180
    box = (128 - half, 165 - drop, 128 + half, 165 + drop)
    draw.arc(box, start, start + 180, fill=(60, 40, 20), width=int(rng.integers(5, 12)))
    return image


def sky(seed: int) -> Image.Image:
    """Draw a clear sky: from one blue to another."""
    rng = np.random.default_rng(seed)
    ends = rng.uniform((40, 90, 160), (150, 200, 255), (2, 3))
    ramp = np.linspace(ends[0], ends[1], 360) + rng.normal(0, 1.0, (360, 1))
    noise = rng.normal(0, 1.5, (360, 480, 1))
    pixels = (ramp[:, np.newaxis] + noise).clip(0, 255)
    return Image.fromarray(pixels.astype(np.uint8))


def scene(seed: int, size: tuple[int, int] = (480, 360)) -> Image.Image:
    """Draw large and small shapes, as photographs have."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", size)
    for n_cells in (3, 8, 20, 60):
        noise = Image.fromarray(rng.integers(0, 256, (n_cells, n_cells, 3), dtype=np.uint8))
        image = Image.blend(image, noise.resize(size, Image.Resampling.BICUBIC), 0.4)
    return image


def noisy_frame(seed: int) -> Image.Image:
    """Draw one scene in low light: its fine detail is noise."""
    rng = np.random.default_rng(seed)
    smooth = scene(0, (128, 96)).filter(ImageFilter.GaussianBlur(6))
    pixels = np.asarray(smooth, np.float32) + rng.normal(0, 25, (96, 128, 1))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def camera_frame(seed: int) -> Image.Image:
    """Draw one scene of a fixed camera with six other things in it."""
    rng = np.random.default_rng(seed)
    image = scene(1)
    draw = ImageDraw.Draw(image)
    for x, y, radius in rng.integers((20, 20, 8), (460, 340, 24), (6, 3)).tolist():
        fill = tuple(rng.integers(0, 256, 3).tolist())
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
    return image


def burst_frame(seed: int) -> Image.Image:
    """Draw one scene of a burst: the camera shakes, and one thing in it moves."""
    rng = np.random.default_rng(seed)
    left, top = rng.integers(0, 8, 2).tolist()
    image = scene(2, (500, 380))
    x, y = 60 + (37 * seed) % 380, 120 + (53 * seed) % 160
    ImageDraw.Draw(image).ellipse((x - 16, y - 30, x + 16, y + 30), fill=(200, 60, 40))
    pixels = np.asarray(image.crop((left, top, left + 480, top + 360)), np.float32)
    return Image.fromarray((pixels + rng.normal(0, 6, pixels.shape)).clip(0, 255).astype(np.uint8))


def disc(seed: int) -> Image.Image:
    """Draw one disc, each of another colour."""
    image, draw = _sheet((256, 256))
    at = seed * 577 % 1_000
    fill = (25 * (at % 10), 25 * (at // 10 % 10), 25 * (at // 100))
    draw.ellipse((40, 40, 216, 216), fill=fill)
    return image


def flag(seed: int) -> Image.Image:
    """Draw three stripes of other colours on waving cloth."""
    rng = np.random.default_rng(0)
    palette = rng.integers(0, 256, (9, 3))
    orders = list(permutations(range(len(palette)), 3))
    stripes = palette[list(orders[(seed * 37) % len(orders)])]
    pixels = np.repeat(stripes, 60, axis=0)[:, np.newaxis].repeat(270, axis=1)
    down, right = np.mgrid[:180, :270]
    light = 0.85 + 0.15 * np.sin(right / 14 + down / 40)
    return Image.fromarray((pixels * light[..., np.newaxis]).astype(np.uint8))


def amended(seed: int) -> Image.Image:
    """Draw one invoice with another number and one other amount."""
    image = invoice(1).copy()
    draw = ImageDraw.Draw(image)
    draw.rectangle((75, 135, 400, 180), fill="white")
    draw.text((80, 140), f"Invoice {20_000 + seed}", fill="black", font=_font(28))
    draw.rectangle((640, 314, 757, 343), fill="white")
    draw.text((650, 315), f"{(seed * 7_919) % 100_000 / 100:9.2f}", fill="black", font=_font(18))
    return image


KINDS: dict[str, Callable[[int], Image.Image]] = {
    "letters": letter,
    "invoices": invoice,
    "chats": chat,
    "cards": card,
    "pages": page,
    "charts": chart,
    "smileys": smiley,
    "skies": sky,
    "discs": disc,
    "flags": flag,
    "noisy frames": noisy_frame,
    "camera frames": camera_frame,
    "burst frames": burst_frame,
}
CLOSE = {"amended invoices": amended}
