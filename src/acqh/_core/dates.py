"""Dates in names of files, and in the metadata of images."""

import re
from datetime import datetime
from typing import Any

# Since when there are photographs; camera clocks that were never set say 1970.
_FIRST_YEAR = 1826
_UNSET = datetime(1970, 1, 1)
# A date as cameras, telephones and messengers write it into names, and the time after it: six
# digits in a row, maybe with milliseconds, or hours, minutes and seconds apart.
DATE_IN_NAME = re.compile(
    r"""(?<!\d)(?P<year>19[89]\d|20\d\d)(?P<sep>[-_.:\ ]?)(?P<month>[01]\d)(?P=sep)(?P<day>[0-3]\d)
    (?:
        (?:[-_.\ T]*|\ at\ |_at_)
        (?P<hour>[0-2]?\d)(?P<mark>[-_.:h]?)(?P<minute>[0-5]\d)(?P=mark)(?P<second>[0-5]\d)
        (?:\d{3})?(?:\ ?(?P<half>[AP])M)?(?![0-9])
      | (?![0-9A-Za-z])
    )""",
    re.VERBOSE | re.IGNORECASE,
)
# Milliseconds since 1970, as the whole name or after that of an app.
_MILLISECONDS = re.compile(r"(?:FB_IMG_|received_)?(1\d{12})", re.IGNORECASE)
_EXIF = re.compile(r"(\d{4})\D(\d\d?)\D(\d\d?)(?:\D(\d\d?)\D(\d\d?)(?:\D(\d\d?))?)?")


def parse_exif_date(value: Any) -> str | None:
    """Return a date of EXIF data as local time in ISO 8601; None if it says nothing.

    Examples
    --------
    >>> parse_exif_date("2021:07:30 18:03:29"), parse_exif_date(b"2021-07-30T18:03:29+02:00")
    ('2021-07-30T18:03:29', '2021-07-30T18:03:29')
    >>> parse_exif_date("0000:00:00 00:00:00"), parse_exif_date("    :  :     :  :  ")
    (None, None)
    """
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    parts = _EXIF.match(text.strip())
    return None if parts is None else _date(*(int(part or 0) for part in parts.groups()))


def date_in_name(name: str) -> str | None:
    """Return the date in the name of a file as local time in ISO 8601; None if it has none.

    Examples
    --------
    >>> date_in_name("DCIM/IMG_20210314_180329.jpg"), date_in_name("IMG-20240125-WA0003.jpg")
    ('2021-03-14T18:03:29', '2024-01-25')
    >>> date_in_name("WhatsApp Image 2021-03-14 at 6.03.29 PM.jpeg"), date_in_name("DSC_0012.jpg")
    ('2021-03-14T18:03:29', None)
    """
    stem = name.rpartition("/")[2].rpartition(".")[0] or name
    if (since := _MILLISECONDS.fullmatch(stem)) is not None:
        return datetime.fromtimestamp(int(since[1]) // 1000).isoformat()
    for match in DATE_IN_NAME.finditer(stem):
        parts = match.groupdict()
        day = [int(parts[part]) for part in ("year", "month", "day")]
        if parts["hour"] is None:
            date = _date(*day)
        else:
            hour = int(parts["hour"])
            if parts["half"]:
                hour = hour % 12 + 12 * (parts["half"].upper() == "P")
            date = _date(*day, hour, int(parts["minute"]), int(parts["second"]))
        if date is not None:
            return date if parts["hour"] is not None else date[:10]
    return None


def date_of_file(name: str, modified: str = "") -> tuple[str, str]:
    """Return when a file was made, by its name or else the time of the last change.

    `modified`: ISO 8601, UTC. Returns the date as local time, and "name" or "file"; or both empty.

    Examples
    --------
    >>> date_of_file("IMG-20240125-WA0003.jpg", "2024-02-01T10:00:00+00:00")
    ('2024-01-25', 'name')
    """
    if (date := date_in_name(name)) is not None:
        return date, "name"
    try:
        moment = datetime.fromisoformat(modified).astimezone().replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return "", ""
    return moment.isoformat(timespec="seconds"), "file"


def _date(*parts: int) -> str | None:
    try:
        moment = datetime(*parts)  # type: ignore[arg-type]
    except ValueError:
        return None
    return None if moment.year < _FIRST_YEAR or moment == _UNSET else moment.isoformat()
