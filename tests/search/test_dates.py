"""Dates and times that a question names, and what they do to a search."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.recall import Archive, user

from hermes_lcm.search import dates

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC).timestamp()


def at(day: str) -> float:
    return datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp()


@pytest.mark.parametrize(
    ("question", "inside", "outside"),
    [
        ("What broke on 2023-10-13?", "2023-10-13", "2023-10-16"),
        ("what did she show on October 13, 2023", "2023-10-13", "2023-11-13"),
        ("what did we plan this week", "2026-03-16", "2026-03-12"),
        ("diesen Monat", "2026-03-02", "2026-02-20"),
        ("cette année", "2026-01-10", "2025-12-20"),
        ("este año", "2026-01-10", "2025-12-20"),
        ("esta semana", "2026-03-16", "2026-03-12"),
        ("questo mese", "2026-03-02", "2026-02-20"),
        ("на этой неделе", "2026-03-16", "2026-03-12"),
        ("本月的计划", "2026-03-02", "2026-02-20"),
        ("last weekend", "2026-03-14", "2026-03-18"),
        ("letztes Wochenende", "2026-03-14", "2026-03-18"),
        ("el fin de semana pasado", "2026-03-14", "2026-03-18"),
        ("no fim de semana passado", "2026-03-14", "2026-03-18"),
        ("в прошлые выходные", "2026-03-14", "2026-03-18"),
        ("en 2024", "2024-07-01", "2025-07-01"),
        ("в 2024 году", "2024-07-01", "2025-07-01"),
        ("2024年的旅行", "2024-07-01", "2025-07-01"),
        ("Anfang Mai", "2025-05-03", "2025-07-02"),
        ("début mai", "2025-05-03", "2025-07-02"),
        ("a principios de mayo", "2025-05-03", "2025-07-02"),
        ("no início de maio", "2025-05-03", "2025-07-02"),
        ("all'inizio di maggio", "2025-05-03", "2025-07-02"),
        ("в начале мая", "2025-05-03", "2025-07-02"),
        ("五月三日的会议", "2025-05-03", "2025-06-03"),
        ("十二月二十一号", "2025-12-21", "2025-12-02"),
        ("五月的会议", "2025-05-15", "2025-07-02"),
        ("十天前", "2026-03-08", "2026-03-17"),
        ("去年买的车", "2025-06-01", "2023-06-01"),
        ("duas semanas atrás", "2026-03-04", "2026-03-17"),
        ("What happened on 3 June, 2023?", "2023-06-03", "2023-06-06"),
        ("the 3rd of June 2023", "2023-06-03", "2023-06-06"),
        ("Which class in December 2023?", "2023-12-31", "2024-02-01"),
        ("the parade in August", "2024-08-15", "2024-10-01"),
        ("How often in 2023?", "2023-01-05", "2024-01-05"),
        ("Dec. 24", "2025-12-24", "2025-12-27"),
        ("May 5 users, what broke?", "2025-05-05", "2025-05-09"),
        ("who said on may 5 users may wait", "2025-05-05", "2025-05-09"),
        ("what broke on 5 may for users", "2025-05-05", "2025-05-09"),
        ("may 5 2024 users", "2024-05-05", "2025-05-05"),
        ("from march 3 to march 5 we slept", "2025-03-04", "2025-03-09"),
        ("who came march 3?", "2025-03-03", "2025-03-06"),
        ("2024年4月1日说了什么", "2024-04-01", "2024-04-04"),
        ("4月1日的会议", "2025-04-01", "2025-05-01"),
        ("What did we decide yesterday?", "2026-03-17", "2026-03-12"),
        ("昨天的密码", "2026-03-17", "2026-03-12"),
        ("what I said two weeks ago", "2026-03-04", "2026-03-17"),
        ("last month", "2026-02-15", "2025-12-20"),
        ("3天前", "2026-03-15", "2026-03-10"),
        ("what did I say last Monday?", "2026-03-16", "2026-03-12"),
        ("上周三说了什么", "2026-03-11", "2026-03-14"),
        ("Was haben wir gestern beschlossen?", "2026-03-17", "2026-03-12"),
        ("im letzten Monat", "2026-02-15", "2025-12-20"),
        ("letzte Woche", "2026-03-10", "2026-02-28"),
        ("Was geschah im Mai?", "2025-05-15", "2025-07-02"),
        ("am 3. Juni 2023", "2023-06-03", "2023-06-06"),
        ("vor drei Tagen", "2026-03-15", "2026-03-10"),
        ("letzten Mittwoch", "2026-03-11", "2026-03-14"),
        ("vor fünf Tagen", "2026-03-13", "2026-03-17"),
        ("Qu'avons-nous décidé hier ?", "2026-03-17", "2026-03-12"),
        ("le 3 juin 2023", "2023-06-03", "2023-06-06"),
        ("en août", "2025-08-15", "2025-10-01"),
        ("le mois dernier", "2026-02-15", "2025-12-20"),
        ("il y a trois jours", "2026-03-15", "2026-03-10"),
        ("mercredi dernier", "2026-03-11", "2026-03-14"),
        ("¿Qué dijo ayer?", "2026-03-17", "2026-03-12"),
        ("el 3 de junio de 2023", "2023-06-03", "2023-06-06"),
        ("en mayo", "2025-05-15", "2025-07-02"),
        ("la semana pasada", "2026-03-10", "2026-02-28"),
        ("hace dos semanas", "2026-03-04", "2026-03-17"),
        ("hace tres meses", "2025-12-18", "2026-03-01"),
        ("el miércoles pasado", "2026-03-11", "2026-03-14"),
        ("O que decidimos ontem?", "2026-03-17", "2026-03-12"),
        ("em março de 2023", "2023-03-15", "2023-05-02"),
        ("no mês passado", "2026-02-15", "2025-12-20"),
        ("há três dias", "2026-03-15", "2026-03-10"),
        ("Che cosa abbiamo deciso ieri?", "2026-03-17", "2026-03-12"),
        ("a maggio", "2025-05-15", "2025-07-02"),
        ("tre giorni fa", "2026-03-15", "2026-03-10"),
        ("la scorsa settimana", "2026-03-10", "2026-02-28"),
        ("mercoledì scorso", "2026-03-11", "2026-03-14"),
        ("Что мы решили вчера?", "2026-03-17", "2026-03-12"),
        ("3 июня 2023", "2023-06-03", "2023-06-06"),
        ("в мае", "2025-05-15", "2025-07-02"),
        ("в прошлом месяце", "2026-02-15", "2025-12-20"),
        ("три дня назад", "2026-03-15", "2026-03-10"),
        ("неделю назад", "2026-03-11", "2026-03-17"),
        ("в прошлую среду", "2026-03-11", "2026-03-14"),
        ("what broke on Monday?", "2026-03-16", "2026-03-12"),
        ("Was war am Montag?", "2026-03-16", "2026-03-12"),
        ("¿qué pasó el lunes?", "2026-03-16", "2026-03-12"),
        ("o que foi na segunda-feira?", "2026-03-16", "2026-03-12"),
        ("che cosa è successo il lunedì?", "2026-03-16", "2026-03-12"),
        ("что было в понедельник?", "2026-03-16", "2026-03-12"),
        ("周一的会议", "2026-03-16", "2026-03-12"),
        ("a few days ago", "2026-03-14", "2026-03-18"),
        ("several weeks ago", "2026-02-18", "2026-03-16"),
        ("vor ein paar Tagen", "2026-03-14", "2026-03-18"),
        ("il y a quelques jours", "2026-03-14", "2026-03-18"),
        ("hace unos días", "2026-03-14", "2026-03-18"),
        ("há alguns dias", "2026-03-14", "2026-03-18"),
        ("qualche giorno fa", "2026-03-14", "2026-03-18"),
        ("несколько дней назад", "2026-03-14", "2026-03-18"),
        ("几天前", "2026-03-14", "2026-03-18"),
        ("前年买的车", "2024-03-18", "2026-01-01"),
        ("the week before last", "2026-03-03", "2026-03-17"),
        ("vorletzte Woche", "2026-03-03", "2026-03-17"),
        ("上上周的会议", "2026-03-03", "2026-03-17"),
        ("what did we cook at Christmas?", "2025-12-25", "2025-12-29"),
        ("an Weihnachten", "2024-12-25", "2025-11-25"),
        ("à Noël", "2025-12-25", "2026-03-01"),
        ("en Navidad", "2025-12-25", "2026-03-01"),
        ("圣诞节的晚饭", "2025-12-25", "2026-03-01"),
        ("around Christmas", "2025-12-25", "2026-03-01"),
        ("on New Year's Eve", "2025-12-31", "2026-03-01"),
        ("an Silvester", "2025-12-31", "2026-03-01"),
        ("last spring", "2025-04-15", "2026-01-15"),
        ("where did we swim in the summer of 2024?", "2024-07-15", "2025-07-15"),
        ("im Winter", "2026-01-15", "2025-07-15"),
        ("letzten Herbst", "2025-10-15", "2026-01-15"),
        ("l'été dernier", "2025-07-15", "2026-01-15"),
        ("au printemps", "2025-04-15", "2026-01-15"),
        ("en otoño", "2025-10-15", "2026-01-15"),
        ("no verão passado", "2025-07-15", "2026-01-15"),
        ("in autunno", "2025-10-15", "2026-01-15"),
        ("летом", "2025-07-15", "2026-01-15"),
        ("去年夏天去了哪里", "2025-07-15", "2026-03-01"),
        ("over the weekend", "2026-03-14", "2026-03-18"),
        ("am Wochenende", "2026-03-14", "2026-03-18"),
        ("на выходных", "2026-03-14", "2026-03-18"),
        ("周末做了什么", "2026-03-14", "2026-03-18"),
        ("the other day", "2026-03-12", "2026-02-18"),
        ("前几天", "2026-03-12", "2026-02-18"),
        ("half a year ago", "2025-09-18", "2025-03-18"),
        ("vor einem halben Jahr", "2025-09-18", "2025-12-18"),
        ("полгода назад", "2025-09-18", "2025-12-18"),
        ("半年前", "2025-09-18", "2025-12-18"),
        ("a fortnight ago", "2026-03-04", "2026-03-17"),
        ("vor vierzehn Tagen", "2026-03-04", "2026-03-17"),
        ("hace quince días", "2026-03-03", "2026-03-17"),
        ("anoche", "2026-03-17", "2026-03-12"),
        ("l'avant-dernière semaine", "2026-03-03", "2026-03-17"),
        ("в позапрошлом году", "2024-06-01", "2026-01-01"),
        ("what did we eat Friday?", "2026-03-13", "2026-03-17"),
        ("qu'est-ce qu'on a mangé vendredi ?", "2026-03-13", "2026-03-17"),
        ("cosa ho fatto venerdì?", "2026-03-13", "2026-03-17"),
        ("the day before yesterday", "2026-03-16", "2026-03-18"),
        ("antes de ayer", "2026-03-16", "2026-03-18"),
        ("l'altro ieri", "2026-03-16", "2026-03-18"),
        ("大前天", "2026-03-15", "2026-03-17"),
        ("ce matin", "2026-03-18", "2026-03-16"),
        ("hier soir", "2026-03-17", "2026-03-15"),
        ("in the last two weeks", "2026-03-06", "2026-02-20"),
        ("in den letzten drei Tagen", "2026-03-16", "2026-03-12"),
        ("les deux dernières semaines", "2026-03-06", "2026-02-20"),
        ("las últimas dos semanas", "2026-03-06", "2026-02-20"),
        ("за последние две недели", "2026-03-06", "2026-02-20"),
        ("最近两周", "2026-03-06", "2026-02-20"),
        ("am 13.10.2023", "2023-10-13", "2023-10-16"),
        ("on 3/4/2024", "2024-03-04", "2024-04-30"),
        ("on 3/4/2024", "2024-04-03", "2024-04-30"),
        ("le 7 mai 2025", "2025-05-07", "2025-05-20"),
        ("el miercoles pasado", "2026-03-11", "2026-03-14"),
        ("en fevrier", "2026-02-15", "2026-03-15"),
        ("au mois de mars", "2025-03-15", "2025-05-02"),
        ("im Monat März", "2025-03-15", "2025-05-02"),
        ("in May last year", "2025-05-15", "2024-05-15"),
        ("last May", "2025-05-15", "2024-05-15"),
        ("im letzten Mai", "2025-05-15", "2024-05-15"),
        ("去年五月", "2025-05-15", "2024-05-15"),
    ],
)
def test_a_named_time_is_understood(question: str, inside: str, outside: str) -> None:
    """In the forms that people type, in eight languages; relative ones count from now."""
    when = dates.times_in(question, NOW)

    assert when.covers(at(inside))
    assert not when.covers(at(outside))


@pytest.mark.parametrize(
    "question",
    ["May I ask what she may do?", "march on", "version 2023.10 of it", "port 8080", "the last word", "error 1013",
     "10/13", "30 February 2024", "", "mark", "deco", "junk", "sept", "2023", "das letzte Wort", "vor dem Test", "im Test",
     "die Mai", "周到", "monday", "was steht hier?", "in mars", "il passato", "mes amis", "un an", "a few words",
     "la segunda vez", "on Mondays we rest", "natal place", "每周一", "el lunes que viene", "lundi prochain", "мая", "fa caldo",
     "mayo",
     "in spring boot", "real estate", "elle a été ici", "did the tests fall apart", "what did we plan by friday?", "on weekends",
     "the first half of a year", "primavera", "a spring in the mattress",
     "which may 3 users do?", "may 5 of them fail?", "a limit of 2000 users", "in 2020 lines", "may be in may be not",
     "may 5 users log in at once?", "which of the first 5 may fail?", "up to 5 may log in", "how far may they march 5 days",
     "vor 2000 Jahren", "does it retry after 2000 seconds?", "vor 2000 Sekunden"],
)  # fmt: skip
def test_what_is_no_date_is_not_taken_for_one(question: str) -> None:
    """A wrong guess would push the right answers down."""
    assert not dates.times_in(question, NOW)


@pytest.mark.parametrize(
    ("question", "today", "first", "last"),
    [
        ("last week", "2026-01-01", "2025-12-22", "2025-12-28"),
        ("last week", "2026-01-05", "2025-12-29", "2026-01-04"),
        ("last month", "2026-01-05", "2025-12-01", "2025-12-31"),
        ("im letzten Monat", "2026-03-31", "2026-02-01", "2026-02-28"),
        ("last year", "2026-01-05", "2025-01-01", "2025-12-31"),
        ("去年", "2024-12-31", "2023-01-01", "2023-12-31"),
        ("上上个月", "2026-03-31", "2026-01-01", "2026-01-31"),
        ("上周三", "2026-01-05", "2025-12-31", "2025-12-31"),
        ("last summer", "2026-03-18", "2025-06-01", "2025-08-31"),
        ("letzten Sommer", "2025-11-01", "2025-06-01", "2025-08-31"),
        ("last May", "2026-06-01", "2026-05-01", "2026-05-31"),
        ("last December", "2026-01-01", "2025-12-01", "2025-12-31"),
        ("im letzten Februar", "2024-03-01", "2024-02-01", "2024-02-29"),
        ("yesterday", "2024-03-01", "2024-02-29", "2024-02-29"),
        ("between 3 May and 7 May 2025", "2026-03-18", "2025-05-03", "2025-05-07"),
        ("vom 3. Mai bis 7. Mai 2025", "2026-03-18", "2025-05-03", "2025-05-07"),
        ("du 3 mai au 7 mai 2025", "2026-03-18", "2025-05-03", "2025-05-07"),
        ("entre el 3 de mayo y el 7 de mayo de 2025", "2026-03-18", "2025-05-03", "2025-05-07"),
        ("2025年5月3日到2025年5月7日", "2026-03-18", "2025-05-03", "2025-05-07"),
        ("since last week", "2026-03-18", "2026-03-09", "2026-03-18"),
        ("after 3 June 2025", "2026-03-18", "2025-06-04", "2026-03-18"),
        ("nach dem 3. Juni 2025", "2026-03-18", "2025-06-04", "2026-03-18"),
        ("seit gestern", "2026-03-18", "2026-03-17", "2026-03-18"),
    ],
)
def test_a_stretch_of_time_is_told_by_its_first_and_last_day(question: str, today: str, first: str, last: str) -> None:
    """Of the calendar, at the borders of months and years too; the answer says these days."""
    when = dates.times_in(question, at(today))

    assert when.days([at(first)]) == (first if first == last else f"{first} to {last}")


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("what did we decide before May 2024?", "before 2024-05-01"),
        ("vor dem 3. Juni 2024", "before 2024-06-03"),
        ("avant 2024", "before 2024-01-01"),
        ("до 5 мая 2024", "until 2024-05-05"),
        ("2024年5月之前", "before 2024-05-01"),
        ("until yesterday", "until 2026-03-17"),
    ],
)
def test_before_a_date_is_not_that_date(question: str, told: str) -> None:
    """All that was said earlier, told so."""
    when = dates.times_in(question, NOW)

    assert when.days([at("2023-01-01")]) == told
    assert not when.covers(at("2026-03-19"))


def test_what_was_a_week_before_a_date_may_have_been_told_on_that_date() -> None:
    assert dates.times_in("where was Tim in the week before 16 November 2023?", NOW).covers(at("2023-11-16"))


@given(st.text(max_size=300), st.floats(min_value=0, max_value=4e9))
def test_reading_never_fails(text: str, now: float) -> None:
    """Whatever was typed, whenever."""
    for first, last in dates.times_in(text, now).spans:
        assert first < last


@given(st.integers(0, 10**12), st.sampled_from(["days", "weeks", "months", "years", "年", "月"]))
def test_no_number_is_too_large(count: int, unit: str) -> None:
    """A million years ago is no time that anybody spoke at."""
    dates.times_in(f"{count} {unit} ago, {count}{unit}前", NOW)


def test_messages_of_the_named_time_come_first(tmp_path: Path) -> None:
    """The words are the same; the day decides, and the answer says so."""
    archive = Archive(tmp_path)
    ids = [
        archive.say(user("the deployment failed again"), at=at(day))[0]
        for day in ("2025-05-01", "2025-06-03", "2025-07-01", "2025-08-01")
    ]

    assert archive.found("Why did the deployment fail on 3 June 2025?")[0] == ids[1]
    notes = archive.grep("Why did the deployment fail on 3 June 2025?")["notes"]
    assert any("time_from" in note for note in notes)
    assert "notes" not in archive.grep("Why did the deployment fail?")


def test_the_named_time_is_found_behind_many_better_matches(tmp_path: Path) -> None:
    """More messages match than a search weighs: those of the day are weighed as well."""
    archive = Archive(tmp_path)
    other = [user("the deployment failed"), *(user("quite another matter") for _ in range(3))] * 250
    archive.say(*other, at=at("2025-05-01"))
    long = user("on this day, among much else that happened to us, the deployment failed because of a full disk")
    wanted = archive.say(long, at=at("2025-06-03"))[0]
    archive.say(*other, at=at("2025-07-01"))

    assert archive.found("deployment failed on 3 June 2025")[0] == wanted


def test_an_explicit_filter_needs_no_guess(tmp_path: Path) -> None:
    """Who gave time_from has said what he means."""
    archive = Archive(tmp_path)
    archive.say(user("the deployment failed"), at=at("2025-06-03"))

    notes = archive.grep("deployment on 3 June 2025", time_from=at("2025-01-01"))["notes"]
    assert not any("come first" in note for note in notes)


def test_the_answer_says_which_time_it_read(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.say(user("the deployment failed"), at=at("2025-06-03"))

    assert "2025-06-03" in " ".join(archive.grep("Why did the deployment fail on 3 June 2025?")["notes"])


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Why did the deployment fail on 4 June 2020?", "(2020-06-04)"),
        ("Did the deployment fail before 2020?", "(before 2020-01-01)"),
        ("Why did the deployment fail in August?", "names; these"),
    ],
)
def test_that_nothing_is_of_the_named_time_is_told(tmp_path: Path, question: str, told: str) -> None:
    """Else what was said at another time passes for it."""
    archive = Archive(tmp_path)
    archive.say(user("the deployment failed"), at=at("2025-06-03"))

    note = next(each for each in archive.grep(question)["notes"] if "no match is of the time" in each)
    assert told in note


def test_of_a_month_without_its_year_those_are_told_that_were_meant(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.say(user("the deployment failed"), at=at("2025-06-03"))

    notes = " ".join(archive.grep("Why did the deployment fail in June?")["notes"])
    assert "(2025-06-01 to 2025-06-30)" in notes


def test_a_timeline_has_a_line_for_each_day(tmp_path: Path) -> None:
    """Questions of order and duration: what matches, oldest first."""
    archive = Archive(tmp_path)
    for day in ("2025-06-03", "2025-05-01", "2025-08-01"):
        archive.say(user(f"the deployment failed, day {day}"), user("and the deployment again"), at=at(day))

    answer = archive.raw("lcm_grep", query="deployment", sort="time")

    assert [line for line in answer.splitlines() if line.startswith("lcm: 2025")] == [
        "lcm: 2025-05-01 UTC", "lcm: 2025-06-03 UTC", "lcm: 2025-08-01 UTC",
    ]  # fmt: skip
    assert "msg_3 user 12:00: the deployment failed, day 2025-05-01" in answer
    assert "oldest first" in answer


def days_of(answer: str) -> list[str]:
    """The days of a timeline, as it shows them."""
    return [line[5:15] for line in answer.splitlines() if line.startswith("lcm: 20")]


def test_a_timeline_of_all_that_says_the_words_begins_with_the_first(tmp_path: Path) -> None:
    """However many say them: who asks for the first time must not read a later one."""
    archive = Archive(tmp_path)
    for day in range(55):
        archive.say(user(f"the deployment number {day} failed"), at=at("2025-05-01") + day * 86_400)

    days = days_of(archive.raw("lcm_grep", query="deployment failed", sort="time", budget_tokens=4000))

    assert days[0] == "2025-05-01"
    assert days == sorted(days)
    assert len(days) == 55


def test_a_timeline_says_where_the_next_best_matches_begin(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    for day in range(50):
        archive.say(user(f"the deployment number {day} failed"), at=at("2025-05-01") + day * 86_400)

    answer = archive.raw("lcm_grep", query="did a deployment ever fail in Oslo?", sort="time", budget_tokens=4000)
    first, _, second = answer.partition("lcm: of the next best matches, again oldest first:\n")

    assert days_of(first) == sorted(days_of(first))
    assert days_of(second) == sorted(days_of(second))
    assert len(days_of(first)) + len(days_of(second)) == 50


@pytest.mark.parametrize(
    ("question", "side", "event"),
    [
        ("What did we eat before the move?", "before", "the move"),
        ("Who called after our trip to Ulm?", "after", "our trip to Ulm"),
        ("Was galt vor der Umstellung?", "before", "der Umstellung"),
        ("Que mangeait-on après le voyage ?", "after", "le voyage"),
        ("¿Qué usamos antes de la mudanza?", "before", "la mudanza"),
        ("Что было после переезда?", "after", "переезда"),
        ("搬家之前吃什么", "before", "搬家"),
    ],
)
def test_an_event_that_a_question_counts_from_is_understood(question: str, side: str, event: str) -> None:
    """When it was, a search tells."""
    assert dates.anchor_in(question) == dates.Anchor(event, side)


@pytest.mark.parametrize(
    "question", ["What came before?", "vor drei Tagen", "the port", "after 5 pm", "x" * 400 + " before the move"]
)
def test_where_no_event_is_named_there_is_none(question: str) -> None:
    assert dates.anchor_in(question) is None


def moved(tmp_path: Path) -> tuple[Archive, list[int]]:
    """Breakfast was spoken of before and after a move."""
    day = 86_400.0
    archive = Archive(tmp_path)
    lines = [
        "For breakfast we ate porridge",
        "The move to Ulm is done, boxes everywhere",
        "For breakfast we ate pancakes",
    ]
    return archive, archive.say(*(user(text, timestamp=1.7e9 + 30 * n * day) for n, text in enumerate(lines)))


@pytest.mark.parametrize(("side", "wanted"), [("before", 0), ("after", 2)])
def test_what_was_said_on_the_asked_side_of_an_event_comes_first(tmp_path: Path, side: str, wanted: int) -> None:
    archive, ids = moved(tmp_path)

    assert archive.grep(f"What did we eat for breakfast {side} the move?")["results"][0]["store_id"] == ids[wanted]


def test_the_answer_says_which_event_it_took(tmp_path: Path) -> None:
    """A wrong guess must be seen."""
    archive, ids = moved(tmp_path)

    notes = " ".join(archive.grep("What did we eat for breakfast before the move?")["notes"])
    assert f'before "the move", by msg_{ids[1]} of 2023-12-14' in notes


def test_the_first_time_is_the_earliest_of_the_matches(tmp_path: Path) -> None:
    archive, ids = moved(tmp_path)

    answer = archive.grep("When was it that we ate breakfast for the first time?")
    assert answer["results"][0]["store_id"] == ids[0]
