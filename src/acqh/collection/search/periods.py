"""Dates in queries: "march 2022", "last week", in English, German and French."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Any, NamedTuple

# Month, first month of a season and last day of a feast, by their names without diacritics.
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janner janvier janv",
            "february feb februar fevrier fev fevr",
            "march mar marz maerz mars",
            "april apr avril avr",
            "may mai",
            "june jun juni juin",
            "july jul juli juillet juil",
            "august aug aout",
            "september sep sept septembre",
            "october oct oktober okt octobre",
            "november nov novembre",
            "december dec dezember dez decembre",
        ),
        start=1,
    )
    for name in names.split()
}
_SEASONS = {
    name: number
    for number, names in (
        (3, "spring fruhling fruehling fruhjahr printemps"),
        (6, "summer sommer ete"),
        (9, "autumn fall herbst automne"),
        (12, "winter hiver"),
    )
    for name in names.split()
}
_FEASTS = {
    **dict.fromkeys(("christmas", "xmas", "weihnachten", "noel"), ((12, 24), 3)),
    **dict.fromkeys(("halloween",), ((10, 31), 1)),
    **dict.fromkeys(("new year's eve", "silvester", "saint-sylvestre"), ((12, 31), 1)),
}
_UNITS = {"weekend": "weekend wochenende week-end", "week": "week woche semaine",
          "month": "month monat mois", "year": "year jahr annee an"}  # fmt: skip
_UNIT_OF = {name: unit for unit, names in _UNITS.items() for name in names.split()}


def _any(names: Iterable[str]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


_YEAR = r"(?:18[3-9]\d|19\d\d|20\d\d)"
_SPAN = _any([*_UNIT_OF, *_SEASONS, *_MONTHS, *_FEASTS])
_WHICH = r"last|previous|this|(?:letzt|vorig|vergangen|dies)e[nmrs]?"
# The more specific come first.
_FORMS = (
    rf"(?P<iso>{_YEAR}-[01]\d(?:-[0-3]\d)?)",
    rf"(?P<day3>[0-3]?\d)\.\s?(?P<number>[01]?\d)\.\s?(?P<y5>{_YEAR})",
    rf"(?P<first>{_YEAR})\s?(?:-|–|to|and|bis|und|a|et)\s?(?P<last>{_YEAR})",
    rf"(?P<day>[0-3]?\d)(?:st|nd|rd|th|er|\.)?\s(?:of\s|de\s)?(?P<month>{_any(_MONTHS)})\.?,?\s(?P<y>{_YEAR})",
    rf"(?P<month2>{_any(_MONTHS)})\.?\s(?:(?P<day2>[0-3]?\d)(?:st|nd|rd|th)?,?\s)?(?:of\s|de\s)?(?P<y2>{_YEAR})",
    rf"(?P<season>{_any(_SEASONS)})\s(?:of\s|de\s)?(?P<y3>{_YEAR})",
    rf"(?P<feast>{_any(_FEASTS)})\s(?:of\s|de\s)?(?P<y4>{_YEAR})",
    r"(?P<today>today|heute|aujourd'hui)",
    r"(?P<yesterday>yesterday|gestern|(?<=d')hier|^hier$)",
    rf"(?:the\s|d(?:er|en|em|as|ie)\s)?(?P<which>{_WHICH})\s(?P<span>{_SPAN})",
    rf"(?:la\s|le\s|l')?(?P<span2>{_SPAN})\s(?P<which2>derniere?|passee?)",
    rf"(?P<which3>cette|cet|ce)\s(?P<span3>{_SPAN})",
    rf"(?P<year>(?<![-\w.,#/])(?<!\d\s){_YEAR}(?![-.,/]\d|\w))",
)
_BEFORE = (
    r"(?:(?P<since>since|seit|depuis)\s|(?P<until>before|vor|avant)\s|(?P<after>after|nach|apres)\s|"
    r"(?:(?:in|from|of|on|at|during|between|taken|im|vom|von|am|aus|an|zwischen|en|au|du|de|le|"
    r"entre|pendant)\s|d')*)(?:the\s|dem\s|l')?"
)
_PERIOD = re.compile(rf"(?<!\w){_BEFORE}(?:{'|'.join(_FORMS)})(?!\w)")
# Most queries have none of these, nor a year; to look for them takes a microsecond.
_HINTS = (
    *("last ", "previous", "this ", "today", "yesterday", "letzt", "vorig", "vergang", "diese"),
    *("heute", "gestern", "hier", "aujourd", "derni", "pass", "cet", "ce "),
)
_DIGITS = re.compile(r"\d{4}")
# What photos are called, if nothing else than their time is asked for.
_PHOTOS = re.compile(
    r"(?:all\s|my\s|alle\s|meine\s|mes\s)?(?:photos?|pictures?|pics|images?|fotos?|bilder|aufnahmen)"
)
_QUOTED = re.compile(r'"[^"]*"')


class Period(NamedTuple):
    """A period of time in a query."""

    text: str  # the words that name it
    rest: str  # the query without them
    start: str  # ISO 8601, as short as it can be; empty for none
    end: str  # the first moment after it; empty for none
    is_year: bool  # whether it is a number alone, which may mean something else

    def conditions(self) -> dict[str, str]:
        """Return the period as conditions of `where`."""
        bounds = {"date>=": self.start, "date<": self.end}
        return {name: bound for name, bound in bounds.items() if bound}


def find_period(text: str, today: Callable[[], date] = date.today) -> Period | None:
    """Return the first period of time that a query names, or None; quotes protect words.

    Examples
    --------
    >>> find_period("dogs in summer 2021")
    Period(text='in summer 2021', rest='dogs', start='2021-06', end='2021-09', is_year=False)
    >>> find_period("gestern am See", lambda: date(2024, 3, 1))[:4]
    ('gestern', 'am See', '2024-02-29', '2024-03')
    >>> find_period('"summer 2021"') is None
    True
    """
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS) and _DIGITS.search(text) is None:
        return None
    folded = "".join(unicodedata.normalize("NFKD", letter)[0] for letter in text).casefold()
    if len(folded) != len(text):  # one letter became two, such as ß
        folded = lowered
    folded = _QUOTED.sub(lambda quoted: '"' * len(quoted[0]), folded.replace("’", "'"))
    for match in _PERIOD.finditer(folded):
        parts = {name: part for name, part in match.groupdict().items() if part is not None}
        try:
            start, end = _range({name.rstrip("2345"): part for name, part in parts.items()}, today)
        except (ValueError, OverflowError):  # such as 31 february
            continue
        shown = _short(start), _short(end)
        if "since" in parts:
            shown = shown[0], ""
        elif "until" in parts:
            shown = "", shown[0]
        elif "after" in parts:
            shown = shown[1], ""
        at, to = match.span()
        rest = " ".join(f"{text[:at]} {text[to:]}".split())
        rest = "" if _PHOTOS.fullmatch(rest.casefold()) else rest
        return Period(" ".join(text[at:to].split()), rest, *shown, "year" in parts)
    return None


def period_table() -> dict[str, Any]:
    """Return the words for periods, and patterns of them for JavaScript; as JSON can hold them."""
    return {
        "pattern": _in_javascript(_PERIOD.pattern),
        "photos": _in_javascript(_PHOTOS.pattern),
        "hints": [*_HINTS],
        "months": _MONTHS,
        "seasons": _SEASONS,
        "feasts": {name: [*day, n_days] for name, (day, n_days) in _FEASTS.items()},
        "units": _UNIT_OF,
    }


def _in_javascript(pattern: str) -> str:
    """Return a regular expression in the syntax of JavaScript, for any letters."""
    pattern = pattern.replace("(?P<", "(?<").replace(r"[-\w", r"[-\p{L}\p{N}_")
    return pattern.replace(r"\w", r"[\p{L}\p{N}_]").replace(r"\d", r"\p{Nd}")


def _range(parts: dict[str, str], today: Callable[[], date]) -> tuple[date, date]:
    """Return the first day of a period, and the first one after it."""
    if "iso" in parts:
        numbers = [int(number) for number in parts["iso"].split("-")]
        return _days(*numbers)
    if "first" in parts:
        return _days(int(parts["first"]))[0], _days(int(parts["last"]))[1]
    if "year" in parts:
        return _days(int(parts["year"]))
    if "number" in parts:
        return _days(int(parts["y"]), int(parts["number"]), int(parts["day"]))
    if "month" in parts:
        day = [int(parts["day"])] if "day" in parts else []
        return _days(int(parts["y"]), _MONTHS[parts["month"]], *day)
    for name in parts.keys() & {"season", "feast"}:
        return _in_year(parts[name], int(parts["y"]))
    now = today()
    if "span" in parts:
        is_this = parts["which"].startswith(("this", "diese", "ce"))
        return _relative(parts["span"], now, is_this=is_this)
    start = now - timedelta("yesterday" in parts)
    return start, start + timedelta(1)


def _relative(span: str, now: date, *, is_this: bool) -> tuple[date, date]:
    """Return this or the last weekend, week, month, year, season or feast, or the last March."""
    if span not in _UNIT_OF:
        years = (now.year + 1, now.year, now.year - 1, now.year - 2)
        yearly = [_in_year(span, year) for year in years]
        return next(dates for dates in yearly if (dates[0] if is_this else dates[1]) <= now)
    unit = _UNIT_OF[span]
    if unit == "weekend":
        saturday = now + timedelta(5 - now.weekday() - 7 * (not is_this))
        return saturday, saturday + timedelta(2)
    if unit == "week":
        start = now - timedelta(now.weekday() + 7 * (not is_this))
        return start, start + timedelta(7)
    if unit == "year":
        return _days(now.year - (not is_this))
    month = now.year * 12 + now.month - 1 - (not is_this)
    return _days(month // 12, month % 12 + 1)


def _in_year(name: str, year: int) -> tuple[date, date]:
    """Return a month, a season or a feast; the winter of a year begins in its December."""
    if name in _MONTHS:
        return _days(year, _MONTHS[name])
    if name in _FEASTS:
        month_and_day, n_days = _FEASTS[name]
        start = date(year, *month_and_day)
        return start, start + timedelta(n_days)
    month = _SEASONS[name]
    end = month + 3
    return date(year, month, 1), date(year + (end > 12), (end - 1) % 12 + 1, 1)


def _days(year: int, month: int | None = None, day: int | None = None) -> tuple[date, date]:
    """Return the bounds of a year, a month or a day."""
    if month is None:
        return date(year, 1, 1), date(year + 1, 1, 1)
    if day is None:
        return date(year, month, 1), date(year + month // 12, month % 12 + 1, 1)
    return date(year, month, day), date(year, month, day) + timedelta(1)


def _short(moment: date) -> str:
    """Return a day as the year or month that begins with it, if it does."""
    text = moment.isoformat()
    return text.removesuffix("-01").removesuffix("-01") if moment.day == 1 else text
