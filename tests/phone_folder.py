"""Makes a folder as a phone has it, and images of each kind in several styles.

`make_phone_folder` writes photographs with EXIF dates, files of messengers without, screenshots,
scans, drawings and broken files. Photographs are synthetic: nothing that is measured on them says
anything about real ones.
"""

from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

_TEXT = """invoice total amount due date customer number thank you for your order please pay within
fourteen days meeting agenda minutes report summary table figure chapter contract street house
garden music violin train ticket departure platform seat weather rain tomorrow hello where are you
dinner at eight birthday party list milk bread apples coffee"""
# Pixels of common screens, upright, and of desktops.
SCREENS = ((1080, 2400), (1170, 2532), (1080, 1920), (750, 1334), (1440, 3120))
DESKTOPS = ((1920, 1080), (1366, 768), (2560, 1440))


def text_of(rng: np.random.Generator, n_words: int) -> str:
    return " ".join(rng.choice(_TEXT.split(), n_words))


def draw_photo(rng: np.random.Generator, size: tuple[int, int] = (640, 480)) -> Image.Image:
    """Draw smooth shapes in many colours under sensor noise."""
    small = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = rng.integers(0, size[0]), rng.integers(0, size[1])
        radius = int(rng.integers(20, 120))
        fill = tuple(rng.integers(0, 256, 3).tolist())
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
    image = image.filter(ImageFilter.GaussianBlur(2))
    noise = rng.normal(0, 6, (size[1], size[0], 3))
    pixels = np.clip(np.asarray(image, dtype=np.float32) + noise, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels)


def draw_screenshot(
    rng: np.random.Generator, size: tuple[int, int] | None = None, style: str | None = None
) -> Image.Image:
    """Draw a chat, a list of settings, a web page or a grid of icons, light or dark."""
    size = size or SCREENS[int(rng.integers(len(SCREENS)))]
    style = style or str(rng.choice(["chat", "list", "page", "icons"]))
    is_dark = bool(rng.random() < 0.4)
    back, ink = ((18, 18, 20), (230, 230, 230)) if is_dark else ((250, 250, 252), (30, 30, 30))
    accent = tuple(rng.integers(40, 220, 3).tolist())
    image = Image.new("RGB", size, back)
    draw = ImageDraw.Draw(image)
    width, height = size
    unit = width // 24 if width < height else width // 60
    font = ImageFont.load_default(unit)
    draw.text((unit, unit // 2), "12:30", ink, font)
    draw.rectangle((0, 2 * unit, width, 5 * unit), accent)
    draw.text((2 * unit, 3 * unit), text_of(rng, 2), (255, 255, 255), font)
    y = 6 * unit
    while y < height - 4 * unit:
        if style == "chat":
            is_own = rng.random() < 0.5
            x = width // 4 if is_own else unit
            box = (x, y, x + width * 2 // 3, y + int(rng.integers(2, 5)) * unit)
            bubble = accent if is_own else ((45, 45, 50) if is_dark else (225, 228, 232))
            draw.rounded_rectangle(box, unit, bubble)
            draw.text((x + unit, y + unit // 2), text_of(rng, 4), ink, font)
            y = box[3] + unit
        elif style == "icons":
            for x in range(2 * unit, width - 4 * unit, 6 * unit):
                fill = tuple(rng.integers(40, 240, 3).tolist())
                draw.rounded_rectangle((x, y, x + 4 * unit, y + 4 * unit), unit, fill)
            y += 7 * unit
        else:
            draw.text((2 * unit, y), text_of(rng, 6 if style == "page" else 3), ink, font)
            if style == "list":
                draw.line((0, y + 2 * unit, width, y + 2 * unit), (128, 128, 128))
            elif rng.random() < 0.1:
                picture = draw_photo(rng, (width - 4 * unit, 8 * unit))
                image.paste(picture, (2 * unit, y + 2 * unit))
                y += 9 * unit
            y += int((3 if style == "list" else 1.6) * unit)
    return image


def draw_document(rng: np.random.Generator, style: str | None = None) -> Image.Image:
    """Draw a page of text: a clean scan, a grey one with noise, a receipt, or a table."""
    style = style or str(rng.choice(["clean", "grey", "receipt", "table"]))
    width, height = (600, int(rng.integers(1000, 1800))) if style == "receipt" else (1240, 1754)
    image = Image.new("RGB", (width, height), (255, 255, 255))
    draw = ImageDraw.Draw(image)
    size = int(rng.integers(18, 30))
    font, title = ImageFont.load_default(size), ImageFont.load_default(2 * size)
    margin = width // 12
    draw.text((margin, margin), text_of(rng, 3).title(), (20, 20, 20), title)
    y = margin + 4 * size
    while y < height - 2 * margin:
        if rng.random() < 0.12:
            y += 2 * size
            continue
        if style == "table":
            draw.rectangle((margin, y, width - margin, y + 2 * size), outline=(60, 60, 60))
        n_words = 3 if style in ("receipt", "table") else int(width / size / 3)
        draw.text((margin + 6, y + 4), text_of(rng, n_words), (30, 30, 30), font)
        if style in ("receipt", "table"):
            draw.text(
                (width - margin - 5 * size, y + 4), f"{rng.random() * 90:.2f}", (30, 30, 30), font
            )
        y += int(size * (2 if style == "table" else 1.5))
    if style == "grey":
        turned = image.rotate(float(rng.uniform(-2, 2)), fillcolor=(225, 222, 214))
        shade = np.linspace(0.8, 1.0, width)[np.newaxis, :, np.newaxis]
        pixels = np.asarray(turned, dtype=np.float32) * shade * [0.97, 0.96, 0.92]
        pixels += rng.normal(0, 4, (height, width, 1))
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    return image


def draw_drawing(rng: np.random.Generator, style: str | None = None) -> Image.Image:
    """Draw flat shapes, a chart, a line drawing or a cartoon face."""
    style = style or str(rng.choice(["shapes", "chart", "lines", "face"]))
    size = int(rng.integers(400, 900))
    pale = tuple(rng.integers(200, 256, 3).tolist())
    image = Image.new("RGB", (size, size), pale if rng.random() < 0.5 else (255, 255, 255))
    draw = ImageDraw.Draw(image)

    def colour() -> tuple[int, ...]:
        return tuple(rng.integers(0, 256, 3).tolist())

    if style == "face":
        draw.ellipse((0.1 * size, 0.1 * size, 0.9 * size, 0.9 * size), colour(), (0, 0, 0), 6)
        for x in (0.3, 0.6):
            draw.ellipse((x * size, 0.3 * size, (x + 0.1) * size, 0.45 * size), (20, 20, 20))
        draw.arc((0.3 * size, 0.4 * size, 0.7 * size, 0.75 * size), 0, 180, (20, 20, 20), 10)
    elif style == "chart":
        for bar in range(6):
            top = float(rng.uniform(0.1, 0.8)) * size
            draw.rectangle(
                ((0.1 + 0.13 * bar) * size, top, (0.2 + 0.13 * bar) * size, 0.9 * size), colour()
            )
        draw.line((0.05 * size, 0.9 * size, 0.95 * size, 0.9 * size), (0, 0, 0), 4)
    else:
        for _ in range(int(rng.integers(4, 14))):
            points = [tuple(point) for point in (rng.random((4, 2)) * size).tolist()]
            if style == "lines":
                draw.line(points, (30, 30, 30), int(rng.integers(2, 8)))
            else:
                draw.polygon(points[:3], colour(), (0, 0, 0))
    return image


DRAW = {
    "photo": draw_photo,
    "screenshot": draw_screenshot,
    "document": draw_document,
    "drawing": draw_drawing,
}


@dataclass
class PhoneFolder:
    """A folder that was made, and what is in it."""

    path: Path
    dates: dict[str, tuple[str, str]] = field(default_factory=dict)  # date and source, by name
    kinds: dict[str, str] = field(default_factory=dict)  # by name
    broken: tuple[str, ...] = ()


def exif_of(date: str, *, camera: str = "Phone 7", **tags: Any) -> Image.Exif:
    """Return EXIF data with a date ("2021:03:14 18:03:29") and the name of a camera."""
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "Maker", camera
    exif.get_ifd(0x8769).update({0x9003: date, 0x829A: 0.01, 0x829D: 1.8})
    for name, value in tags.items():
        exif[int(name.strip("_"), 16)] = value
    return exif


def make_phone_folder(path: Path, *, n_photos: int = 12, seed: int = 0) -> PhoneFolder:
    """Write a folder as a phone has it; the same seed gives the same files."""
    rng = np.random.default_rng(seed)
    folder = PhoneFolder(path)

    def save(name: str, kind: str, date: str = "", source: str = "", **how: Any) -> None:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        DRAW[kind](rng).save(path / name, **how)
        folder.kinds[name] = kind
        if date:
            folder.dates[name] = date, source

    for number in range(n_photos):
        year, month, day = 2019 + number % 5, 1 + (3 * number) % 12, 1 + (7 * number) % 28
        stamp = f"{year}:{month:02}:{day:02} 18:03:{number:02}"
        name = f"DCIM/Camera/IMG_{year}{month:02}{day:02}_1803{number:02}.jpg"
        date = f"{year}-{month:02}-{day:02}T18:03:{number:02}"
        save(name, "photo", date, "exif", exif=exif_of(stamp))
    save("WhatsApp Images/IMG-20240125-WA0003.jpg", "photo", "2024-01-25", "name")
    save("WhatsApp Images/IMG-20240126-WA0001.jpg", "document", "2024-01-26", "name")
    save("DCIM/Camera/PXL_20230101_101112345.jpg", "photo", "2023-01-01T10:11:12", "name")
    save("signal-2022-03-05-123456_001.jpeg", "photo", "2022-03-05T12:34:56", "name")
    save("2021-07-30 18.03.29.jpg", "photo", "2021-07-30T18:03:29", "name")
    for number in range(3):
        name = f"Screenshots/Screenshot_2023-05-0{number + 1}-12-30-45.png"
        save(name, "screenshot", f"2023-05-0{number + 1}T12:30:45", "name")
        save(f"Scans/scan00{number}.png", "document")
        save(f"Zeichnungen/Bild {number}.png", "drawing")
    save("Ferien in Österreich/DSC01303.JPG", "photo", "2020-12-25T09:00:00", "exif",
         exif=exif_of("2020:12:25 09:00:00"))  # fmt: skip
    save("北京/wall.webp", "photo")
    jpeg = BytesIO()
    draw_photo(rng).save(jpeg, "JPEG")
    broken = {
        "broken/empty.jpg": b"",
        "broken/text.jpg": b"this is not an image",
        "broken/cut.jpg": jpeg.getvalue()[:400],
        "broken/noise.png": b"\x89PNG\r\n\x1a\n" + rng.bytes(200),
    }
    for name, content in broken.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(content)
    folder.broken = tuple(broken)
    (path / "VID_20220102_030405.mp4").write_bytes(b"\x00\x00\x00\x18ftypmp42" + rng.bytes(64))
    return folder
