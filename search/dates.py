"""
Times of a question: dates that are typed in it, and events that it counts from ("before the move").

Pure. Reads what is unmistakable (2023-10-13, October 13, 2023, 3 June, July 2023, in August, 2023年10月13日, 10月,
yesterday, last week, this month, last Wednesday, on Monday, 3 days ago, a few weeks ago, at Christmas, last summer, over the
weekend, im Mai, letzte Woche, vor drei Tagen, 昨天, 上个月, 上周三, 五月初, le 3 juin, la semana pasada, há dois dias,
tre giorni fa, в мае, вчера) and nothing else: a wrong guess would push right
answers down. Days are whole days in UTC with some hours on both sides, for neither the zone of the one who asks nor of the
one who spoke is known. Which words name an event, and on which side of it the question looks, stands here; when it was, a
search must tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from . import forms

_MONTH: Final = (
    r"(?P<month>january|february|march|april|may|june|july|august|september|october|november|december|"
    r"(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
)
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_MONTH_DE: Final = (
    r"(?P<month>januar|jänner|februar|feber|märz|maerz|april|mai|juni|juli|august|september|oktober|november|"
    r"dezember)(?!\w)"
)
_MONTHS: Final = {
    **{name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)},
    "jän": 1,
    "mär": 3,
    "mae": 3,
    "mai": 5,
    "okt": 10,
    "dez": 12,
}
_WEEKDAY_NAMES: Final = (
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    "montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag"
)
_WEEKDAY: Final = rf"(?P<weekday>{_WEEKDAY_NAMES})\b"
_WEEKDAYS: Final = {
    **{name: n for n, name in enumerate("mon tue wed thu fri sat sun".split())},
    **{name: n for n, name in enumerate(("mont", "dien", "mitt", "donn", "frei", "sams", "sonn"))},
    **{name: n for n, name in enumerate("一二三四五六日")}, "天": 6, "末": 5,
}  # fmt: skip

#: Names of months, in order, by language; in Russian in the two forms that a date or "in" asks for.
_NAMED_MONTHS: Final = {
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "ru ": "январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре",
}
_WHOLE_MONTHS: Final = {
    each: n
    for names in _NAMED_MONTHS.values()
    for n, name in enumerate(names.split(), 1)
    for each in (name, forms.plain(name))
}
_ACCENTED_WEEKDAYS: Final = (
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miércoles jueves viernes sábado domingo",
    "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
    "понедельник вторник среду четверг пятницу субботу воскресенье",
)
_NAMED_WEEKDAYS: Final = tuple(dict.fromkeys((*_ACCENTED_WEEKDAYS, *map(forms.plain, _ACCENTED_WEEKDAYS))))
_FEASTS: Final = {  # month and day on which the days of a feast begin
    (12, 24): "christmas|weihnachten|noël|navidad|natal|natale|рождество|圣诞节?",
    (12, 31): (
        "new year['’]?s(?: eve| day)?|silvester|neujahr|nochevieja|año nuevo|nouvel an|capodanno|ano novo|новый год|元旦|跨年"
    ),
}
_FEAST: Final = "|".join(_FEASTS.values())
_SEASONS: Final = {  # the month in which it begins, in the north
    3: "spring|frühling|frühjahr|printemps|primavera|весной|春天|春季",
    6: "summer|sommer|été|verano|verão|estate|летом|夏天|夏季",
    9: "autumn|fall|herbst|automne|otoño|outono|autunno|осенью|秋天|秋季",
    12: "winter|hiver|invierno|inverno|зимой|冬天|冬季",
}
_SEASON: Final = rf"(?P<season>{'|'.join(_SEASONS.values())})(?!\w*[a-zа-я])"


def _month_of(*languages: str) -> str:
    names = {name for language in languages for name in _NAMED_MONTHS[language].split()}
    return rf"(?P<month>{'|'.join(sorted(names | set(map(forms.plain, names))))})(?!\w)"


_Span = tuple[float, float]
_Meaning = Callable[[re.Match[str], float], list[_Span]]
_MOST_CHARS: Final = 2000
_MOST_SPANS: Final = 40
_MOST_DAYS: Final = 20_000
_YEARS_BACK: Final = 5
_MARGIN: Final = timedelta(hours=14)  # the widest zone
_SHARE: Final = 0.3  # of what a date counts: half of an archive lies before an event
_FOREVER: Final = 1e11
_DAY_S: Final = 86_400.0
_UNITS: Final = {
    "day": 1,
    "week": 7,
    "fortnight": 14,
    "month": 30,
    "year": 365,
    "天": 1,
    "日": 1,
    "周": 7,
    "星期": 7,
    "月": 30,
    "年": 365,
    "tag": 1, "tage": 1, "tagen": 1, "woche": 7, "wochen": 7, "monat": 30, "monate": 30, "monaten": 30,
    "jahr": 365, "jahre": 365, "jahren": 365,
    "jour": 1, "semaine": 7, "mois": 30, "an": 365, "année": 365, "día": 1, "dia": 1, "semana": 7, "mes": 30, "mês": 30,
    "mese": 30,
    "año": 365, "ano": 365, "giorno": 1, "giorni": 1, "settimana": 7, "settimane": 7, "mesi": 30, "anno": 365, "anni": 365,
    "день": 1, "дня": 1, "дней": 1, "неделю": 7, "недели": 7, "недель": 7, "неделе": 7, "месяц": 30, "месяца": 30,
    "месяцев": 30,
    "месяце": 30, "год": 365, "года": 365, "лет": 365, "году": 365,
}  # fmt: skip
_NUMBERS: Final = {
    "a": 1,
    "an": 1,
    "ein": 1,
    "einem": 1,
    "einer": 1,
    "两": 2,
    **{name: n for n, name in enumerate("one two three four five six seven eight nine ten".split(), 1)},
    **{
        name: n
        for names in (
            "un deux trois quatre cinq six sept huit neuf dix",
            "un dos tres cuatro cinco seis siete ocho nueve diez",
            "um dois três quatro cinco seis sete oito nove dez",
            "un due tre quattro cinque sei sette otto nove dieci",
            "один два три четыре пять шесть семь восемь девять десять",
            "une duas",
            "una две",
            "uma",
            "одну",
        )
        for n, name in enumerate(names.split(), 1)
    },
    **dict.fromkeys("eleven elf once onze undici".split(), 11),
    **dict.fromkeys("twelve zwölf douze doce doze dodici".split(), 12),
    **dict.fromkeys("fourteen vierzehn quatorze catorce quattordici".split(), 14),
    **dict.fromkeys("fifteen fünfzehn quinze quince quindici".split(), 15),
    **{name: n for n, name in enumerate("zwei drei vier fünf sechs sieben acht neun zehn".split(), 2)},
    **{name: n for n, name in enumerate("一二三四五六七八九", 1)},
}
_HAN_NUMBER: Final = re.compile(
    r"(?<![周期拜])(?:[一二三四五六七八九]?十[一二三四五六七八九]?|[一二三四五六七八九])(?=[天月日号])"
)


@dataclass(frozen=True, slots=True)
class When:
    """The times that a question names, as Unix seconds: first included, last excluded. False when it names none.

    ``named``: how they are told to people, where not by their days; ``share``: of the weight of a date.
    """

    spans: tuple[tuple[float, float], ...] = ()
    named: str = ""
    share: float = 1.0

    def __bool__(self) -> bool:
        return bool(self.spans)

    def days(self, said: Iterable[float]) -> str:
        """Days, for people, of those times at which something was said."""
        told = [*said]
        spans = [span for span in self.spans if any(span[0] <= at < span[1] for at in told)]
        if self.named or not spans:
            return self.named if spans else ""
        whole = [(first + _MARGIN.total_seconds(), last - _MARGIN.total_seconds() - 1) for first, last in spans]
        named = [[datetime.fromtimestamp(at, UTC).date().isoformat() for at in span] for span in whole]
        return ", ".join(first if first == last else f"{first} to {last}" for first, last in named)

    def covers(self, seconds: float) -> bool:
        """Is this one of the times?"""
        return any(first <= seconds < last for first, last in self.spans)


def times_in(text: str, now: float) -> When:
    """The times named in a text. ``now`` is what "yesterday" counts from."""
    whole = left = _HAN_NUMBER.sub(_in_digits, _VERB.sub(_as_typed, text[:_MOST_CHARS]).lower()[:_MOST_CHARS])
    named: list[_Named] = []
    for pattern, meaning in _FORMS:
        named += [_Named(found.start(), found.end(), meaning(found, now)) for found in pattern.finditer(left)]
        left = pattern.sub(_blanks, left)
    spans, early = [], When()
    for each in _narrowed(_joined(sorted(each for each in named if each.spans), whole)):
        side = _side_of(each, whole)
        if side in ("before", "until"):
            early = _until(each.spans, side, now)
        else:
            spans += _from(each.spans, side, now) if side else each.spans
    return When(tuple(dict.fromkeys(spans))[:_MOST_SPANS]) or early


class _Named(NamedTuple):
    """A place of a text that names times."""

    start: int
    end: int
    spans: list[_Span]


def _blanks(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _as_typed(found: re.Match[str]) -> str:
    """A month's name in small letters that is a word as well: blanks where nothing beside it makes it a date."""
    dated = _DATED.search(found.string[: found.start()]) or {found["next"], found["behind"]} & _AFTER_DATE
    return found[0] if dated else _blanks(found)


_WORDS_NEAR: Final = 24  # characters in front of a time in which such a word stands
#: What joins the two ends of a stretch of time by itself, and what does so behind "between" and its like.
_TO: Final = r"to|until|till|through|thru|bis|jusqu['’](?:au|à)|au|hasta|al?|até|ao|fino\s+al?|до|по|到|至|[-–—~]"
_AND: Final = rf"{_TO}|and|und|et|à|y|e|и"
_ARTICLE: Final = r"(?:\s*(?:the|zum|dem|den|le|la|el|o|il|l['’]))?"
_JOINED: Final = re.compile(rf"\s*(?:{_TO}){_ARTICLE}\s*")
_JOINED_AND: Final = re.compile(rf"\s*(?:{_AND}){_ARTICLE}\s*")
_OPENED: Final = re.compile(rf"(?<!\w)(?:between|zwischen|entre|tra|fra|между){_ARTICLE}\s*$")
_SIDE: Final = tuple(
    (
        side,
        re.compile(rf"(?<!\w)(?:{words}){_ARTICLE}\s*$"),
        re.compile(rf"(?:{begins or words})(?!\w)"),
        re.compile(rf"\s*(?:{behind})"),
    )
    for side, words, begins, behind in (
        (
            "before",
            r"before|prior to|vor|avant|antes del?|antes d[oa]|prima de(?:l|lla|ll['’])|prima di",
            r"before|(?:vor|avant)(?=\s+(?:19|20)\d\d)",  # "vor drei Tagen" is a time of its own
            "之前|以前|前",
        ),
        ("until", r"until|till|up to|bis(?: zum)?|jusqu['’](?:en|au|à)|hasta|até|fino (?:al?|alla)|до", "", "为止"),
        ("after", r"after|nach|après|después del?|depois d[eoa]|dopo|после", "", "之后|以后|后"),
        ("since", r"since|seit|depuis|desde|от", "", "以来|起"),
    )
)


#: "Two weeks before 3 June" is near it; who said so on that day may be meant.
_NEAR_IT: Final = re.compile(
    rf"\b(?:days?|nights?|mornings?|weeks?|weekends?|months?|years?|{_WEEKDAY_NAMES}|tage?|wochen?|monate?|jahre?)\s+"
    r"(?:before|prior to|after|following|vor|nach)\s*$"
)


def _joined(named: list[_Named], text: str) -> list[_Named]:
    """Two ends of a stretch ("from 3 May to 7 May") as one."""
    out: list[_Named] = []
    for each in named:
        last = out[-1] if out else None
        if last is not None and _are_ends(last, each, text) and (spans := _between(last.spans, each.spans)):
            out[-1] = _Named(last.start, each.end, spans)
        else:
            out.append(each)
    return out


def _are_ends(first: _Named, last: _Named, text: str) -> bool:
    joins = _JOINED_AND if _OPENED.search(text[max(0, first.start - _WORDS_NEAR) : first.start]) else _JOINED
    return joins.fullmatch(text[first.end : last.start]) is not None


def _between(begins: list[_Span], ends: list[_Span]) -> list[_Span]:
    """From each beginning to the end that is nearest, where no other beginning is nearer."""
    out = []
    for begin in begins:
        end = min((each for each in ends if each[0] >= begin[0]), default=None)
        if end is not None and not any(begin[0] < other[0] <= end[0] for other in begins):
            out.append((begin[0], end[1]))
    return out


def _narrowed(named: list[_Named]) -> list[_Named]:
    """Times where a month of each year is narrowed to the year that is named beside it ("in May last year")."""
    for years in [each for each in named if len(each.spans) == 1]:
        (first, last) = years.spans[0]
        for each in named:
            inside = [span for span in each.spans if first <= span[0] and span[1] <= last]
            if each is not years and len(each.spans) > len(inside) > 0:
                return _narrowed([each._replace(spans=inside) if n is each else n for n in named if n is not years])
    return named


def _side_of(named: _Named, text: str) -> str:
    """On which side of a named time the question looks; "" for the time itself."""
    in_front = text[max(0, named.start - _WORDS_NEAR) : named.start]
    if _NEAR_IT.search(in_front):
        return ""
    for side, ahead, begins, behind in _SIDE:
        if ahead.search(in_front) or begins.match(text, named.start) or behind.match(text, named.end):
            return side
    return ""


def _until(spans: list[_Span], side: str, now: float) -> When:
    """Time up to the beginning of a named one, or to its end; told by its day."""
    first, last = max((span for span in spans if span[0] <= now), default=spans[-1])
    edge = first + 2 * _MARGIN.total_seconds() if side == "before" else last
    day = datetime.fromtimestamp(edge - _MARGIN.total_seconds() - (side == "until"), UTC).date().isoformat()
    return When(((-_FOREVER, edge),), f"{side} {day}", _SHARE)


def _from(spans: list[_Span], side: str, now: float) -> list[_Span]:
    """Time from the beginning of a named one on, or from its end on."""
    first, last = max((span for span in spans if span[0] <= now), default=spans[-1])
    begin = last - 2 * _MARGIN.total_seconds() if side == "after" else first
    today = (_midnight(now) + timedelta(days=1) + _MARGIN).timestamp()
    return [(begin, max(today, begin + _DAY_S))]


def _in_digits(found: re.Match[str]) -> str:
    """A Chinese number up to 99: 十, 五, 十五, 二十一."""
    tens, ten, ones = found.group().rpartition("十")
    return str((_NUMBERS[tens] if tens else 1) * 10 * bool(ten) + (_NUMBERS[ones] if ones else 0))


def _this(found: re.Match[str], now: float) -> list[_Span]:
    """This week, month or year, until today."""
    today = _midnight(now)
    size = _UNITS[found["unit"]]
    gone = {7: today.weekday(), 30: today.day - 1}.get(size, today.timetuple().tm_yday - 1)
    return [_span(today - timedelta(days=gone), today + timedelta(days=1))]


_LAST_ONE: Final = re.compile(r"\b(?:last|letzte[ns]|vergangene[ns]|vorige[ns])\b")


def _date(found: re.Match[str], now: float) -> list[_Span]:
    """A day, a month or a year, as far as they are named; without a year, that of the last years."""
    parts = found.groupdict()
    month = parts.get("month")
    number = 0 if not month else int(month) if month.isdigit() else _WHOLE_MONTHS.get(month) or _MONTHS[month[:3]]
    day, year = int(parts.get("day") or 0), int(parts.get("year") or 0)
    this = datetime.fromtimestamp(now, UTC).year
    out: list[_Span] = []
    for each in [year] if year else range(this - _YEARS_BACK, this + 1):
        try:
            first = datetime(each, number or 1, day or 1, tzinfo=UTC)
        except ValueError:  # the 30th of February
            continue
        out.append(_span(first, first + timedelta(days=1) if day else _next(first, month=bool(number))))
    return out if year else _meant(found[0], out, now)


def _meant(typed: str, spans: list[_Span], now: float) -> list[_Span]:
    """Spans of a month in each year, or the one that "last May" or "this May" means."""
    if _LAST_ONE.search(typed):
        return [max(span for span in spans if span[1] - _MARGIN.total_seconds() <= now)]
    return spans[-1:] if typed.startswith("this ") else spans


def _next(first: datetime, *, month: bool) -> datetime:
    if not month or first.month == 12:
        return first.replace(year=first.year + 1, month=1)
    return first.replace(month=first.month + 1)


def _midnight(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _span(first: datetime, last: datetime) -> _Span:
    return (first - _MARGIN).timestamp(), (last + _MARGIN).timestamp()


def _days_back(found: re.Match[str], now: float) -> list[_Span]:
    """Yesterday, three days ago, last week."""
    parts = found.groupdict()
    word = parts.get("word") or ""
    today = _midnight(now)
    if word == "hier" and forms.languages(found.string) != ("fr",):  # in German it is "here"
        return []
    if word in _SINGLE:
        back = _SINGLE[word]
        return [_span(today - timedelta(days=back), today - timedelta(days=back - 1))]
    size = _days_of(parts["unit"])
    count = parts.get("count") or ("один" if parts.get("ago") else None)
    if count is None:
        return [_span(*_unit_before(today, size))]
    number = int(count) if count.isdigit() else _NUMBERS[count]
    if number * size > _MOST_DAYS:
        return []
    middle = today - timedelta(days=number * size)
    return [_span(middle - timedelta(days=size // 3), middle + timedelta(days=size // 3 + 1))]


def _unit_before(today: datetime, size: int) -> tuple[datetime, datetime]:
    """Last week, month or year of the calendar."""
    if size == 7:
        end = today - timedelta(days=today.weekday())
        return end - timedelta(days=7), end
    if size == 30:
        end = today.replace(day=1)
        return (end - timedelta(days=1)).replace(day=1), end
    if size == 365:
        end = today.replace(month=1, day=1)
        return end.replace(year=end.year - 1), end
    return today - timedelta(days=size), today


def _rolling(found: re.Match[str], now: float) -> list[_Span]:
    """Span of "in the last two weeks": until today."""
    count = found["count"] or "один"
    days = (int(count) if count.isdigit() else _NUMBERS[count]) * _days_of(found["unit"])
    today = _midnight(now)
    return [_span(today - timedelta(days=days), today + timedelta(days=1))] if days <= _MOST_DAYS else []


def _either(found: re.Match[str], _: float) -> list[_Span]:
    """A date as 1/2/2023, which is written in either order."""
    orders = ((int(found["one"]), int(found["other"])), (int(found["other"]), int(found["one"])))
    out = []
    for month, day in dict.fromkeys(orders):
        try:
            first = datetime(int(found["year"]), month, day, tzinfo=UTC)
        except ValueError:
            continue
        out.append(_span(first, first + timedelta(days=1)))
    return out


def _weekday(found: re.Match[str], now: float) -> list[_Span]:
    """The last Wednesday before today; in Chinese that of the week before."""
    parts = found.groupdict()
    today = _midnight(now)
    chinese = "末" if parts.get("weekend") or parts.get("han_weekend") else parts.get("chinese")
    if chinese:
        day = today - timedelta(days=today.weekday() + 7 - _WEEKDAYS[chinese])
        return [_span(day, day + timedelta(days=2 if chinese == "末" else 1))]
    name = parts.get("bare") or parts.get("weekday") or ""
    named = (names.split().index(name) for names in _NAMED_WEEKDAYS if name in names.split())
    wanted = next(named, _WEEKDAYS.get(name[:4], _WEEKDAYS.get(name[:3], 0)))
    back = (today.weekday() - wanted - 1) % 7 + 1
    return [_span(today - timedelta(days=back), today - timedelta(days=back - 1))]


def _days_of(unit: str) -> int:
    return _UNITS.get(unit) or _UNITS[unit.removesuffix("s")]


def _past(first: int, last: int) -> _Meaning:
    """Meaning of a vague time ago: from ``first`` to ``last`` units back, days where no unit is named."""

    def meaning(found: re.Match[str], now: float) -> list[_Span]:
        size = _days_of(found.groupdict().get("unit") or "day")
        return [_span(_midnight(now) - timedelta(days=first * size), _midnight(now) - timedelta(days=last * size))]

    return meaning


#: A few weeks ago: more than one, fewer than eight. Half a year ago: five to seven months.
_few, _other_day, _half_year = _past(7, 1), _past(14, 0), _past(213, 152)


def _before_last(found: re.Match[str], now: float) -> list[_Span]:
    """The week, month or year before the last one."""
    size = _days_of(found["unit"])
    return [_span(*_unit_before(_unit_before(_midnight(now), size)[0], size))]


def _feast(found: re.Match[str], now: float) -> list[_Span]:
    """The last one, and those of the years before it."""
    last = datetime.fromtimestamp(now, UTC).year
    month, day = next(begins for begins, names in _FEASTS.items() if re.fullmatch(names, found["feast"]))
    days = [datetime(year, month, day, tzinfo=UTC) for year in range(last - _YEARS_BACK, last + 1)]
    return [_span(day, day + timedelta(days=3)) for day in days if day.timestamp() <= now]


def _season(found: re.Match[str], now: float) -> list[_Span]:
    """Season of the year that is named, else of the last years; the winter of a year is at both of its ends."""
    last, year = datetime.fromtimestamp(now, UTC).year, int(found["year"] or 0)
    month = next(begins for begins, names in _SEASONS.items() if found["season"] in names.split("|"))
    years = range(year - (month == 12), year + 1) if year else range(last - _YEARS_BACK, last + 1)
    begun = [datetime(each, month, 1, tzinfo=UTC) for each in years if each]
    spans = [_span(first, first + timedelta(days=92)) for first in begun if first.timestamp() <= now]
    if not year and _LAST_ONE.search(found[0]):  # while it lasts, that of the year before may be meant too
        return spans[-1:] if spans[-1][1] <= now else spans[-2:]
    return spans


_SINGLE: Final = {
    "heute": 0, "gestern": 1, "vorgestern": 2, "today": 0, "tonight": 0, "this morning": 0, "yesterday": 1, "last night": 1,
    "aujourd'hui": 0, "aujourd’hui": 0, "hier": 1, "avant-hier": 2, "hoy": 0, "anoche": 1, "ayer": 1, "anteayer": 2,
    "hoje": 0, "ontem": 1,
    "day before yesterday": 2, "antes de ayer": 2, "antier": 2, "l'altro ieri": 2, "l’altro ieri": 2, "altroieri": 2,
    "avantieri": 2, "hier soir": 1, "hier matin": 1, "ce matin": 0, "ce soir": 0, "esta mañana": 0, "esta noche": 0,
    "esta manhã": 0, "hoje de manhã": 0, "stamattina": 0, "stasera": 0, "大前天": 3, "今早": 0,
    "anteontem": 2, "oggi": 0, "ieri": 1, "сегодня": 0, "вчера": 1, "позавчера": 2,
    "今天": 0, "今晚": 0, "昨天": 1, "昨晚": 1, "前天": 2,
}  # fmt: skip
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{'|'.join(sorted((k for k in _NUMBERS if k < '一'), key=len, reverse=True))})"

#: What "May 5" is not a day behind, and what "in 2000" counts.
_NO_VERB: Final = "".join(
    rf"(?<!\b{word} )" for word in "what who which that it we you they he she i one users user clients server".split()
)
#: "may 5 users log in", "the first 5 may fail": without a capital a verb, unless a preposition or a year makes it a date.
_VERB: Final = re.compile(
    r"(?<!\w)(?:(?:may|march)(?=\s+\d{1,2}\s+(?P<next>[^\W\d]+))|(?<=\d )(?:may|march)(?=\s+(?P<behind>[^\W\d]+)))(?!\w)"
)
_DATED: Final = re.compile(
    r"(?<!\w)(?:on|in|since|by|before|after|until|till|from|of|around|about|(?:from|between)\s[^.?!]*?\s(?:to|and|until))\s+"
    r"(?:\d{1,2}\s+)?$",
    re.IGNORECASE,
)
_AFTER_DATE: Final = frozenset("at in on to and or until till through with about for from by".split())
_COUNTED: Final = (
    r"%|px|ms\b|[kmg]?b\b|bytes|characters|tokens|lines|words|users|people|customers|requests|messages|rows|items|files|times|"
    r"cases|tests|steps|bits|seconds|minutes|hours|retries|iterations|epochs|sekunden|minuten|"
    r"stunden|dollars|euros?\b|usd|eur\b|years|jahren?|anni|años|anos|лет|руб|zeilen|nutzer|zeichen|lignes|líneas|linhas|righe|строк|行|个"
)
_IN_MONTH: Final = (
    rf"\b(?:in|during|of|since|last|this|before|after|until|till)\s+(?:early\s+|late\s+|mid-?\s*)?{_MONTH}(?![a-z])"
    r"(?!\s+(?:be|have|not|i|we|you)\b)"
)
_IN_YEAR: Final = (
    r"\b(?:in|during|of|early|late|since|before|after|until|seit|vor|nach|bis|en|em|depuis|avant|après|desde|hasta|até|nel|в|до|"
    rf"после)\s+{_YEAR}\b(?!\s*(?:{_COUNTED}))"
)
_ROLLED: Final = rf"(?:{_COUNT}\s+)"
_ANY_MONTH: Final = _month_of(*_NAMED_MONTHS)
_WEEKDAYS_LATIN: Final = "|".join(name for names in _NAMED_WEEKDAYS for name in names.split())
_LAST: Final = r"(?:derni[eè]re?|pass[eé]e?|pasad[ao]|passad[ao]|scors[ao]|passat[ao])"
_UNIT: Final = "jour|semaine|mois|an|année|día|dia|semana|mes|mês|año|ano|giorno|settimana|mese|anno"

_UNITS_LATIN: Final = rf"(?P<unit>(?:{_UNIT})s?|meses|giorni|settimane|mesi|anni)\b"

_WEEKEND: Final = (
    r"\b(?P<weekend>(?:(?:last|past)|(?:over|on|at)\s+the)\s+weekend|(?:letzte[ns]?|vorige[ns]?|am)\s+wochenende|"
    r"week-?end\s+(?:dernier|passé)|fi[nm]\s+de\s+semana\s+pass?ado|scorso\s+fine\s+settimana|"
    r"fine\s+settimana\s+scorso|прошлы[ех]\s+выходны[ех]|на\s+выходных)\b|(?<![上下每这本])(?P<han_weekend>周末)"
)
_IN_SEASON: Final = (
    r"(?:\b(?:(?:in|during|over|last|this|of)\s+(?:the\s+|early\s+|late\s+)?|(?:im|letzte[ns]|diesen|vorige[ns])\s+|"
    r"(?:en|au|cet|à\s+l['’]|l['’]|d['’]|quest['’])\s*|(?:el|la|na|no|nel|esta|este|neste|nesta)\s+)|(?=[весонлтизм春夏秋冬]))"
    rf"{_SEASON}(?!\s+(?:boot|framework|cloud|security|data|mvc|back|through|short|apart))"
    rf"(?:\s+(?:of\s+|del?\s+)?{_YEAR})?"
)
#: At the end of a question about what was; "by Friday" and "next Friday" are to come.
_BARE_WEEKDAY: Final = (
    r"\b(?:did|was|were|had|ai|as|a|avons|avez|ont|ho|hai|ha|abbiamo|hanno)\b(?:\s+[\w'’-]+){1,8}?\s+"
    rf"(?<!next )(?<!every )(?<!by )(?<!until )(?P<weekday>{_WEEKDAYS_LATIN}|{_WEEKDAY_NAMES})\s*[?.!]*\s*$"
)
_THIS: Final = (
    r"\b(?:this|diese[nmrs]?|cet(?:te)?|ce|est[ae]|questa|questo|quest['’]|этой|этом)\s*"
    rf"(?P<unit>week|month|year|woche|monat|jahr|{_UNIT}|неделе|месяце|году)\b"
)

_FORMS: Final[tuple[tuple[re.Pattern[str], _Meaning], ...]] = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        (_IN_SEASON, _season),
        (rf"\b{_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?!\d)", _date),
        (rf"(?<![\d./-]){_DAY}\.\s?(?P<month>\d{{1,2}})\.\s?{_YEAR}(?![\d./-]\d)", _date),
        (rf"(?<![\d./-])(?P<one>\d{{1,2}})(?P<sign>[/-])(?P<other>\d{{1,2}})(?P=sign){_YEAR}(?![\d./-])", _either),
        (rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}\b", _date),
        (rf"\b{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}\b", _date),
        (rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}\b", _date),
        (rf"\b{_YEAR}[-/](?P<month>0[1-9]|1[0-2])(?![\d/-])", _date),
        (rf"{_YEAR}\s*年\s*(?P<month>\d{{1,2}})\s*月(?:\s*(?P<day>\d{{1,2}})\s*[日号])?", _date),
        (r"(?P<month>\d{1,2})\s*月\s*(?P<day>\d{1,2})\s*[日号]", _date),
        (rf"{_NO_VERB}\b{_MONTH}\s+{_DAY}\b(?!\s*[:%])(?!\s+of\s+(?:the|them|these|those|us|you)\b)", _date),
        (rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}(?![a-z])", _date),
        (_IN_MONTH, _date),
        (rf"\b{_DAY}\.\s*{_MONTH_DE}(?:\s+{_YEAR}\b)?", _date),
        (rf"(?<!\d )(?<!\d\. )\b{_MONTH_DE}\s+{_YEAR}\b", _date),
        (
            rf"\b(?:im|seit)\s+(?:(?:letzten|vergangenen|vorigen)\s+)?(?:monat\s+|anfang\s+|ende\s+|mitte\s+)?{_MONTH_DE}",
            _date,
        ),
        (rf"\b(?:anfang|ende|mitte)\s+{_MONTH_DE}", _date),
        (_IN_YEAR, _date),
        (rf"{_YEAR}\s*年", _date),
        (rf"\b{_DAY}(?:er|º|°)?\s+(?:de\s+|d['’])?{_ANY_MONTH}(?:\s+(?:de\s+|del\s+)?{_YEAR})?", _date),
        (rf"\b{_ANY_MONTH}\s+(?:de\s+|del\s+)?{_YEAR}\b", _date),
        (rf"\b(?:(?:en|au\s+mois\s+de|depuis|pendant|début|fin)\s+|mi-){_month_of('fr')}", _date),
        (rf"\b(?:en|desde|durante|(?:mes|principios|mediados|finales)\s+de)\s+{_month_of('es')}", _date),
        (rf"\b(?:em|desde|durante|(?:mês|início|meados|fim|final)\s+de)\s+{_month_of('pt')}", _date),
        (rf"\b(?:a|in|da|(?:mese|inizio|metà|fine)(?:\s+di)?)\s+{_month_of('it')}", _date),
        (rf"\b(?:в|с|за|начал[еу]|середин[еу]|конц[еу])\s+{_month_of('ru', 'ru ')}", _date),
        (
            rf"(?<!\w)(?P<word>{'|'.join(sorted((w for w in _SINGLE if w < '一'), key=len, reverse=True))})(?!\w)",
            _days_back,
        ),
        (r"(?P<word>今天|今早|今晚|昨天|昨晚|大?前天)", _days_back),
        (
            rf"\b(?:in|over|during|within|for)\s+the\s+(?:last|past|previous)\s+{_ROLLED}?(?P<unit>days?|weeks?|months?|years?)\b",
            _rolling,
        ),
        (rf"\b(?:letzten|vergangenen)\s+{_ROLLED}(?P<unit>tagen?|wochen|monaten?|jahren?)\b", _rolling),
        (rf"\b{_ROLLED}derni[eè]re?s\s+{_UNITS_LATIN}", _rolling),
        (rf"\b[uú]ltim(?:[oa]s|i|e)\s+{_ROLLED}{_UNITS_LATIN}", _rolling),
        (rf"\bпоследни[ехм]\s+{_ROLLED}(?P<unit>дня|дней|недели|недель|месяца|месяцев|года|лет)\b", _rolling),
        (r"(?:最近|过去|近)的?(?P<count>\d{1,3}|[一两二三四五六七])\s*个?(?P<unit>天|周|星期|月|年)", _rolling),
        (_WEEKEND, _weekday),
        (r"\b(?:a\s+few|a\s+couple\s+of|several)\s+(?P<unit>days|weeks|months|years)\s+ago\b", _few),
        (r"\bvor\s+(?:ein\s+paar|einigen|wenigen)\s+(?P<unit>tagen|wochen|monaten|jahren)\b", _few),
        (
            rf"\b(?:il\s+y\s+a\s+quelques|(?:hace|há|faz)\s+(?:un[oa]s|algun[oa]s|alguns|uns|umas))\s+{_UNITS_LATIN}",
            _few,
        ),
        (rf"\b(?:qualche|alcun[ie])\s+{_UNITS_LATIN}\s+fa\b", _few),
        (r"\bнесколько\s+(?P<unit>дней|недель|месяцев|лет)\s+назад\b", _few),
        (r"几\s*个?(?P<unit>天|周|星期|月|年)之?前", _few),
        (r"\b(?P<unit>week|month|year)\s+before\s+last\b", _before_last),
        (r"\bvorletzte[nrms]?\s+(?P<unit>woche|monat|jahr)\b", _before_last),
        (r"\bavant-derni[eè]re?\s+(?P<unit>semaine|mois|année)\b", _before_last),
        (r"\bпозапрошл(?:ой|ом)\s+(?P<unit>неделе|месяце|году)\b", _before_last),
        (r"(?:上上个?(?P<unit>周|星期|月))", _before_last),
        (r"(?<!\d)前(?P<unit>年)", _before_last),
        (
            rf"\b(?:on|am|el|il|la|le|na|no|в|во)\s+(?P<weekday>{_WEEKDAYS_LATIN})(?!\w)(?!\s+(?:{_LAST}|pro|que viene))",
            _weekday,
        ),
        (rf"\b(?:on|am)\s+{_WEEKDAY}", _weekday),
        (r"(?<![上下每这])(?:周|星期|礼拜)(?P<bare>[一二三四五六日天])(?!\w*[起到至])", _weekday),
        (
            rf"(?:\b(?:at|on|over|around|an|um|zu|à|au|en|no|a|на|last|letzte[ns]?)\s+|(?=[圣元跨]))(?P<feast>{_FEAST})(?!\w*[a-z])",
            _feast,
        ),
        (r"\b(?:the other day|neulich|l['’]autre jour|el otro día|l['’]altro giorno|на днях)\b|前几天", _other_day),
        (
            r"\b(?:half a year ago|vor einem halben jahr|hace medio año|há meio ano|mezzo anno fa|полгода назад)\b|半年之?前",
            _half_year,
        ),
        (_THIS, _this),
        (r"(?:这(?:一)?个?|(?<!日)本|今)(?P<unit>周|星期|月|年)", _this),
        (rf"\b(?:last|past|previous|letzte[nrms]?|vorige[nrms]?|vergangene[nrms]?)\s+{_WEEKDAY}", _weekday),
        (r"上(?:个)?(?:周|星期|礼拜)(?P<chinese>[一二三四五六日天末])", _weekday),
        (rf"\b(?P<weekday>{_WEEKDAYS_LATIN})\s+{_LAST}(?!\w)", _weekday),
        (rf"\bпрошл(?:ый|ую|ое)\s+(?P<weekday>{_WEEKDAYS_LATIN})(?!\w)", _weekday),
        (rf"\b(?P<unit>{_UNIT})\s+{_LAST}(?!\w)", _days_back),
        (rf"\bscors[ao]\s+(?P<unit>{_UNIT})\b", _days_back),
        (r"\bпрошл(?:ой|ом)\s+(?P<unit>неделе|месяце|году)\b", _days_back),
        (rf"\b(?:il\s+y\s+a|hace|há|faz)\s+{_COUNT}\s+(?P<unit>(?:{_UNIT})s?|meses)\b", _days_back),
        (rf"\b{_COUNT}\s+(?P<unit>(?:{_UNIT})s?|meses|giorni|settimane|mesi|anni)\s+(?:fa|atrás)\b", _days_back),
        (rf"\b{_COUNT}\s+(?P<unit>день|дня|дней|недели|недель|месяца|месяцев|года|лет)\s+назад\b", _days_back),
        (r"\b(?P<unit>неделю|месяц|год)\s+(?P<ago>назад)\b", _days_back),
        (rf"\bvor\s+{_COUNT}\s+(?P<unit>tag(?:en)?|wochen?|monat(?:en)?|jahr(?:en)?)\b", _days_back),
        (r"\b(?:letzte[nrms]?|vorige[nrms]?|vergangene[nrms]?)\s+(?P<unit>woche|monat|jahr)(?:e?s)?\b", _days_back),
        (rf"\b{_COUNT}\s+(?P<unit>days?|weeks?|fortnights?|months?|years?)\s+ago\b", _days_back),
        (r"\b(?:last|past|previous)\s+(?P<unit>week|month|year)\b", _days_back),
        (r"(?P<count>\d{1,3}|[一两二三四五六七])\s*(?:个)?(?P<unit>天|周|星期|月|年)(?:之?前)", _days_back),
        (r"(?:上(?:一)?个?|去(?=年))(?P<unit>周|星期|月|年)", _days_back),
        (r"(?P<month>\d{1,2})\s*月", _date),
        (_BARE_WEEKDAY, _weekday),
    )
)


_MOST_QUESTION: Final = 300  # characters; a page has many words like "before"
_EVENT: Final = r"(?P<event>[^,.;:?!？。，]{3,60})"
_DETERMINED: Final = (
    (r"before|prior to", r"after|since", r"(?:the|our|my|your|his|her|their|we|i|she|he|they|you)\s"),
    (r"vor", r"nach|seit", r"(?:dem|der|den|unsere[mrn]|meine[mrn]|deine[mrn]|seine[mrn]|ihre[mrn])\s"),
    (r"avant", r"après|depuis", r"(?:le|la|les|mon|ma|notre|nos|son|sa)\s|l['’]"),
    (r"antes de", r"después de|desde", r"(?:la|las|los|mi|nuestro|nuestra|su)\s"),
    (r"antes del|antes da|antes do", r"después del|depois da|depois do", r""),
    (r"prima del(?:la|lo)?|prima dell['’]", r"dopo|dopo l['’]", r"(?:il\s|la\s|lo\s)?"),
    (r"до", r"после", r"(?!\d)"),
)
_SIDES: Final = (
    *(
        (side, re.compile(rf"(?<!\w)(?:{words})\s+(?=(?:{determined})){_EVENT}", re.IGNORECASE))
        for before, after, determined in _DETERMINED
        for side, words in (("before", before), ("after", after))
    ),
    ("before", re.compile(r"(?P<event>[\u3400-\u9fff]{2,8})(?:之前|以前)")),
    ("after", re.compile(r"(?P<event>[\u3400-\u9fff]{2,8})(?:之后|以后)")),
)
_FIRST: Final = re.compile(
    r"\bthe (?:very )?first time\b|\bfor the first time\b|\bzum ersten mal\b|\bpremière fois\b|\bprimera vez\b|\bprimeira vez\b|"
    r"\bprima volta\b|\bвпервые\b|\bв первый раз\b|第一次|首次",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Anchor:
    """``event``: the words of what happened, as they were typed; ``side``: "before" or "after" it, or the "first" of it."""

    event: str
    side: str

    def when(self, at: float, said: str) -> When:
        """The times that are meant, where the event was at ``at``; ``said``: which message tells, for people."""
        spans = {"before": (-_FOREVER, at), "after": (at, _FOREVER), "first": (at - 1, at + _DAY_S)}
        words = f"the first time, {said}" if self.side == "first" else f'{self.side} "{self.event}", {said}'
        return When((spans[self.side],), words, _SHARE)


def anchor_in(question: str) -> Anchor | None:
    """The event that a question counts from; None where it names none."""
    if len(question) > _MOST_QUESTION:
        return None
    for side, pattern in _SIDES:
        if found := pattern.search(question):
            return Anchor(found["event"].strip(), side)
    event, said = _FIRST.subn(" ", question)
    return Anchor(event.strip(), "first") if said else None
