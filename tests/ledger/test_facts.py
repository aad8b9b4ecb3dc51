"""Facts are read by rule out of what a user typed: quotations with subject and value, and nothing that only might be one."""

from __future__ import annotations

import pytest

from hermes_lcm.ledger.facts import Fact, stated

STATED = [
    ("Always use tabs in Makefiles.", "rule", "", "Always use tabs in Makefiles."),
    ("please never commit to main without asking", "rule", "", "please never commit to main without asking"),
    ("I prefer short answers.", "rule", "", "I prefer short answers."),
    ("Never push to main!", "rule", "", "Never push to main!"),
    ("Commit but do not push.", "rule", "", "Commit but do not push."),
    ("don't use mocks in those tests", "rule", "", "don't use mocks in those tests"),
    (
        "Every time you change the schema, write a migration.",
        "rule",
        "",
        "Every time you change the schema, write a migration.",
    ),
    ("From now on we deploy on Mondays.", "rule", "", "From now on we deploy on Mondays."),
    (
        "From now on whenever I say go, start the server.",
        "rule",
        "",
        "From now on whenever I say go, start the server.",
    ),
    ("始终用中文回答", "rule", "", "始终用中文回答"),
    ("My name is Anna Schmidt.", "name", "My name", "Anna Schmidt"),
    ("My sister Mia is coming too.", "name", "My sister", "Mia"),
    ("My boss is Dr. Hartmann, by the way.", "name", "My boss", "Dr. Hartmann"),
    ("The deadline was extended to 29 January 2027.", "date", "The deadline", "29 January 2027"),
    ("The exam got pushed back to May 3.", "date", "The exam", "May 3"),
    ("The launch party is on March 5, 2027.", "date", "The launch party", "March 5, 2027"),
    ("I have an interview with Greg on May 12 and no suit.", "date", "an interview with Greg", "May 12"),
    ("I must meet the April 15 deadline for the report.", "date", "the April 15 deadline", "April 15"),
    ("I've got my first review scheduled for October 15, 2024.", "date", "my first review", "October 15, 2024"),
    ("Sure, my user ID is mia_li_3668.", "value", "my user ID", "mia_li_3668"),
    ("The reservation ID is H9ZU1C.", "value", "The reservation ID", "H9ZU1C"),
    ("I'm trying to ship it and I've decided to use Netlify, but how?", "decision", "decided", "use Netlify"),
    ("We have decided against microservices.", "decision", "decided", "against microservices"),
    ("I've decided on version 1.0 with migrations.", "decision", "decided", "version 1.0 with migrations"),
    ("Our budget is $400.", "value", "Our budget", "$400"),
    ("I set a goal of 50,000, and no more.", "value", "a goal", "50,000"),
    ("My commute is about 40 minutes each way.", "value", "My commute", "40 minutes"),
    ("Our valuation is now $1.5 million.", "value", "Our valuation", "$1.5 million"),
    ("change the upload limit from 5 MB to 20 MB", "value", "the upload limit", "20 MB"),
    ("I'm using Flask 2.3.1 for it.", "value", "Flask", "2.3.1"),
    ("it listens on port 8080", "value", "port", "8080"),
    ("Our staging URL is https://staging.example.com.", "value", "Our staging URL", "https://staging.example.com"),
    ("The repo is at https://example.com/app.", "value", "The repo", "https://example.com/app"),
    ("The database is called orders_db.", "value", "The database", "orders_db"),
    ("My timezone is Europe/Berlin.", "value", "My timezone", "Europe/Berlin"),
    ("The project uses Python 3.12.", "value", "Python", "3.12"),
    ("The release moved to May 9.", "date", "The release", "May 9"),
    ("ok, use redis then", "decision", "use", "redis"),
    ("Let's go with the blue one.", "decision", "go with", "the blue one"),
    ("We decided to build it like what we had before.", "decision", "decided", "build it like what we had before"),
    ("We decided to use Redis what are the risks?", "decision", "decided", "use Redis"),
    ("We decided to drop Python 2.", "decision", "decided", "drop Python 2"),
    ("Mein Name ist Max Müller.", "name", "Mein Name", "Max Müller"),
    ("Unser Budget ist jetzt 500 €.", "value", "Unser Budget", "500 €"),
    ("Der Port ist 8080.", "value", "Der Port", "8080"),
    ("Our API port is 9090 now.", "value", "Our API port", "9090"),
    ("Die Frist ist jetzt am 3. Mai 2026.", "date", "Die Frist", "3. Mai 2026"),
    ("Der Termin ist am 04.05.2026.", "date", "Der Termin", "04.05.2026"),
    ("Ich habe mich für Postgres entschieden.", "decision", "entschieden", "Postgres"),
    ("Verwende immer Tabs.", "rule", "", "Verwende immer Tabs."),
    ("Mi nombre es Ana López.", "name", "Mi nombre", "Ana López"),
    ("Nuestro presupuesto es de $400.", "value", "Nuestro presupuesto", "$400"),
    ("La fecha límite es el 4 de mayo.", "date", "La fecha límite", "4 de mayo"),
    ("Hemos decidido usar Postgres.", "decision", "decidido", "usar Postgres"),
    ("Responde siempre en español.", "rule", "", "Responde siempre en español."),
    ("我的名字是李雷。", "name", "我的名字", "李雷"),
    ("我们的预算是400美元。", "value", "我们的预算", "400美元"),
    ("端口改为9090。", "value", "端口", "9090"),
    ("截止日期是5月4日。", "date", "截止日期", "5月4日"),
    ("我叔叔的生日是8月7号。", "date", "我叔叔的生日", "8月7号"),
    ("王磊是我的上司，其生日是08月30日。", "date", "王磊是我的上司，其生日", "08月30日"),
    ("我表妹的电话号码是13401551341。", "value", "我表妹的电话号码", "13401551341"),
    ("我们决定用Postgres。", "decision", "决定", "用Postgres"),
    ("We use PostgreSQL for the database.", "decision", "database", "PostgreSQL"),
    ("btw we use pnpm for the packages", "decision", "packages", "pnpm"),
    ("We use PostgreSQL as our database, not MySQL.", "decision", "database", "PostgreSQL"),
    ("It's a shop and we use Redis for the cache.", "decision", "cache", "Redis"),
    ("I'm using GitHub Pages for deployment.", "decision", "deployment", "GitHub Pages"),
    ("In this project, we use tabs for indentation.", "decision", "indentation", "tabs"),
    ("Usamos PostgreSQL como base de datos.", "decision", "base de datos", "PostgreSQL"),
    ("Usamos PostgreSQL para o banco de dados.", "decision", "banco de dados", "PostgreSQL"),
    ("On utilise Redis pour le cache.", "decision", "cache", "Redis"),
    ("Usiamo PostgreSQL per il database.", "decision", "database", "PostgreSQL"),
    ("Мы используем PostgreSQL для базы данных.", "decision", "базы данных", "PostgreSQL"),
    ("我们用 Redis 做缓存。", "decision", "缓存", "Redis"),
    ("Our database is PostgreSQL.", "value", "Our database", "PostgreSQL"),
    ("Unsere Datenbank ist PostgreSQL 15.", "value", "Unsere Datenbank", "PostgreSQL 15"),
    ("Nuestra base de datos es PostgreSQL.", "value", "Nuestra base de datos", "PostgreSQL"),
    ("我们的数据库是PostgreSQL。", "value", "我们的数据库", "PostgreSQL"),
    ("We moved the wedding to 21 June 2027.", "date", "the wedding", "21 June 2027"),
    ("Let's move the meeting to May 5.", "date", "the meeting", "May 5"),
    ("Wir haben die Hochzeit auf den 21. Juni 2027 verschoben.", "date", "die Hochzeit", "21. Juni 2027"),
    ("Hemos movido la boda al 21 de junio de 2027.", "date", "la boda", "21 de junio de 2027"),
    ("我们把婚礼改到6月21日。", "date", "婚礼", "6月21日"),
    ("結婚式は2027年6月21日です。", "date", "結婚式", "2027年6月21日"),
    ("My sister's birthday is on the 3rd of March.", "date", "My sister's birthday", "3rd of March"),
    ("Der Geburtstag meiner Schwester ist am 3. März.", "date", "Der Geburtstag meiner Schwester", "3. März"),
    ("Our photographer is Marta.", "name", "Our photographer", "Marta"),
    ("Marta's phone number is 0151 2345678.", "value", "Marta's phone number", "0151 2345678"),
    ("Wir nehmen doch Postgres.", "decision", "nehmen", "Postgres"),
    ("データベースにはPostgreSQLを使っています。", "decision", "データベース", "PostgreSQL"),
    ("데이터베이스로 PostgreSQL을 사용합니다.", "decision", "데이터베이스", "PostgreSQL"),
]


@pytest.mark.parametrize(("text", "kind", "subject", "value"), STATED, ids=[each[0] for each in STATED])
def test_a_statement_is_a_fact(text: str, kind: str, subject: str, value: str) -> None:
    """Quoted as it was said."""
    assert stated(text) == (Fact(kind, subject, value, text),)


@pytest.mark.parametrize(
    "rule",
    [
        "Never touch the vendor directory.",
        "Make sure you always run the tests before committing.", "I want you to always answer in German.", "Call me Max.",
        "I want all commit messages in English.", "I don't want any emojis in commit messages.",
        "I never want you to force push.", "All functions must have type hints.", "Use 4 spaces for indentation, never tabs.",
        "Before each commit run make lint.", "After each change, run the tests.", "You are not allowed to install packages.",
        "Only touch files in src/.", "Ask before you delete anything.", "Let me know before you run migrations.",
        "Please respond in French.", "Please be concise.", "Remember to update the changelog with each change.",
        "In this project we always use tabs.", "The API must stay backwards compatible.", "No emojis please.",
        "no console logs!", "When writing tests, use pytest.", "Don't start the server yourself, I run it.",
        "Always confirm before rebooting anything.", "Never reboot the gateway.", "Always double-check the numbers.",
        "Confirm with me before rebooting anything.", "Get my approval before deploying.", "Always notify me before a restart.",
        "You must always back up the database before migrating.", "Don't kill my processes.", "重启前务必先确认。",
        "Confirme toujours avant de redémarrer.",
    ],
)  # fmt: skip
def test_what_an_agent_is_told_for_all_its_work_is_a_rule(rule: str) -> None:
    """In the words that people use for it."""
    assert stated(rule) == (Fact("rule", "", rule, rule),)


@pytest.mark.parametrize(
    "text",
    [
        "Use the new class instead of the old one in this function.", "When did you fix it?", "Write a poem in French verse.",
        "No comments yet, I am still reading.", "Call me Monday.", "Don't reboot it yet.", "Confirm before you send it.",
        "Always consult a doctor.", "Never shut down the part of you that dreams.", "We always have fun.",
        "All the tests should be green now?",
        "You are not allowed to be sad.", "I want all of it.", "When adding up the numbers, I get 12.",
    ],
)  # fmt: skip
def test_a_request_in_similar_words_is_no_rule(text: str) -> None:
    """It is of this request, or of life."""
    assert stated(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "Do you always use tabs?",
        "It must be such an honor!",
        "Always happy to help.",
        "Never saw this coming.",
        "Is the budget $400?",
        "If the area is 30 cm, how long is it?",
        "look for a flight on 3 May",
        "Please find me a flight on 3 May.",
        "I need a flight on 3 May.",
        "The customer number changed yesterday.",
        "The probability is 1/2.",
        "Thanks, that works.",
        "```\nport = 8080\nAlways use tabs.\n```",
        "[System note: The previous turn was interrupted by a restart. Always use tabs.]",
        "The tutorial says the port is 8080.",
        "Translate: my name is Bob Ross.",
        "Write a letter that says: our budget is $9000.",
        'Add the line "our budget is $9000" to the page.',
        'Kaz says: "I am no king. My name is Kaz."',
        "In the story, my name is Zork Blax.",
        "For example, the timeout is 30 seconds.",
        "I'm considering using Sass 1.56.1 for it.",
        "Wenn der Port 8080 ist, geht es.",
        "Mein Mann ist Arzt.",
        "我叫你不要这样。",
        "Always confirm before rebooting, said Anna.",
        "Don't confirm yet, I need to think.",
        "They always confirm before rebooting.",
        "Do we use Postgres for the database?",
        "If we use Redis for the cache and we use Postgres for the database, it costs more.",
        "They use MySQL for the database.",
        "We used MySQL for the database.",
        "Tom says we use MySQL for the database.",
        "I doubt that we use MySQL for the database.",
        "In tests we use SQLite for the database.",
        "In our tests we use SQLite for the database.",
        "We use the car for trips.",
        "We use humor for coping.",
        "I'm using JavaScript for this.",
        "We use MySQL for the time being.",
        "We use Zoom for fun.",
        "In the tutorial we use Flask for the backend.",
        "Usamos MySQL para la base de datos el año pasado.",
        "データベースにはPostgreSQLを使っていますか。",
        "他们用MySQL做数据库。",
    ],
)
def test_what_only_might_be_a_fact_is_none(text: str) -> None:
    """Questions, suppositions, courtesies, code, notes of the host."""
    assert stated(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "The docs say to run it but don't commit.", "The CI says: commit but do not push.", "They deploy but never test.",
        "You keep adding mocks but never run them.", "I wanted to but never use it.",
    ],
)  # fmt: skip
def test_what_is_told_with_a_but_is_no_rule(text: str) -> None:
    """Only what is forbidden beside an order is one."""
    assert stated(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "I prefer Chinese buffets, though.", "I'd prefer to pay with a gift card.",
        "Don't die on me.", "Don't make fun of my name.",
        "But when I asked I always told the truth.", "I am not going to chat with him from now on.", "Don't do it, man.",
        "The dance in From now on was great.", "I really like the song from now on.",
        "and From now on", "Every time you look at yourself, smile.",
        "Whenever you need help, just let me know.",
        "Tell me when you find them.", "no their car had the broken mirror", "No businesses would be able to operate.",
        "Don't get me wrong, it works.", 'I like the "From now on" song.', "Never change.", "Don't answer then.",
        "I prefer to fill the space.", "Always look out for yourself first.",
    ],
)  # fmt: skip
def test_what_people_ask_and_like_of_each_other_rules_no_agent(text: str) -> None:
    """The verb or the thing is none of an agent's work."""
    assert stated(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "After walking for a while we decided to leave.", "I was bored, so I decided to give it a whirl.",
        "I wish I had known before I decided to do CS.",
        "One winter my friends and I decided to camp.", "I will take 5 years to graduate.",
        "The method we chose to get there is the bus.", "I'll take it into consideration!",
        "We will take classes at a university.",
        "I chose to write about this because it is personal.", "We decided to include it.",
    ],
)  # fmt: skip
def test_an_episode_and_a_turn_of_speech_are_no_decision(text: str) -> None:
    """What was decided that day holds no longer."""
    assert stated(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "Our database is Down.", "Unsere Datenbank ist Schrott.", "Is our database PostgreSQL?", "Our manager is Great at this.",
        "I have to move the couch on May 5.", "If our database is PostgreSQL, what then?", "The API (v2.1.0), +3 points.",
        "One of my friends is 26.", "I would name my son Arthur.", "My siblings are 20 and 21.",
        "He offers a salary of 50,000 a year.",
        "The clock on my laptop is 1 hour late.", "My doodles are 90% of the time better.",
        "My brother is 10 years older than me.", "I'm watching it with my wife It is fun!",
        "I offered a phone call on April 22 or 23.",
    ],
)  # fmt: skip
def test_a_number_a_name_or_a_day_of_something_else_is_no_fact(text: str) -> None:
    """It stands behind a preposition, counts or compares something else, or is one of two."""
    assert stated(text) == ()


def test_a_long_sentence_is_quoted_around_its_value() -> None:
    """At whole words, and the value is in it."""
    text = f"{'so many words ' * 12}and my deadline is on April 15 {'as i said before ' * 12}"
    (fact,) = stated(text)

    assert fact.text in text
    assert len(fact.text) < 300
    assert "my deadline is on April 15" in fact.text
