"""Decisions on one thing: a later one replaces an earlier one, contradicts it, or is of something else."""

from __future__ import annotations

import pytest

from hermes_lcm.ledger.facts import DECISION
from hermes_lcm.ledger.table import Entry, entries
from hermes_lcm.records import Row, Stored


def decided(*texts: str, speakers: tuple[str, ...] = ()) -> list[Entry]:
    """The decisions of these messages."""

    def row(n: int, text: str) -> Row:
        head = Stored(n, 1, "s", n, float(n), "user", None, None, b"", 0, len(text), None, float(n), "", 0, None)
        return Row(head, text, (), {"role": "user", "content": text})

    rows = [row(n, text) for n, text in enumerate(texts, 1)]
    return [each for each in entries(rows, {}, dict(enumerate(speakers, 1))) if each.fact.kind == DECISION]


@pytest.mark.parametrize(
    ("text", "subject", "value"),
    [
        ("We decided to use PostgreSQL for the database.", "database", "PostgreSQL"),
        ("I chose to use Vue for our frontend.", "frontend", "Vue"),
        ("We switched the database to MySQL.", "database", "MySQL"),
        ("We decided to host the app on Hetzner.", "app", "Hetzner"),
        ("I've decided to limit the results to 5 items.", "results", "5 items"),
        ("I'm using Bootstrap 5.3 for the styling.", "styling", "Bootstrap 5.3"),
        ("Wir haben uns für PostgreSQL als Datenbank entschieden.", "Datenbank", "PostgreSQL"),
        ("Wir nehmen Redis für den Cache.", "Cache", "Redis"),
        ("Hemos decidido usar PostgreSQL como base de datos.", "base de datos", "PostgreSQL"),
        ("Nous utilisons Redis pour le cache.", "cache", "Redis"),
        ("我们决定用PostgreSQL作为数据库", "数据库", "PostgreSQL"),
        ("キャッシュにはRedisを使っています。", "キャッシュ", "Redis"),
        ("We decided to use PostgreSQL.", "decided", "use PostgreSQL"),
        ("I chose to wait for the results.", "chose", "wait for the results"),
        ("We decided to use Redis to store sessions for the shop.", "decided", "use Redis to store sessions for the shop"),
        ("We agreed to meet on Monday for the review.", "agreed", "meet on Monday for the review"),
        ("I decided to take a walk for an hour.", "decided", "take a walk for an hour"),
        ("I'll use it for the report.", "use", "it for the report"),
        ("We decided to use Redis for this.", "decided", "use Redis for this"),
    ],
)  # fmt: skip
def test_a_decision_is_about_what_its_form_names(text: str, subject: str, value: str) -> None:
    """Where no form tells, its verb stands for it."""
    (entry,) = decided(text)

    assert (entry.fact.subject, entry.fact.value) == (subject, value)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("We decided to use Postgres for the database.", "Let's go with MySQL for the database instead."),
        ("We decided to use Postgres for the database.", "We switched the database to MySQL."),
        ("We decided to use Postgres for the database.", "Let's use MySQL instead of Postgres."),
        ("We decided to use Postgres for the database.", "We decided to switch from Postgres to MySQL."),
        ("We decided on Redis for the cache.", "Let's switch to Memcached for the cache."),
        ("Let's go with Vue for the frontend.", "We decided to use React for the frontend instead of Vue."),
        ("We decided to use Jest for the tests.", "We decided to replace Jest with Vitest."),
        ("We decided to use GitLab for CI.", "Okay, let's use GitHub Actions for CI instead."),
        ("We settled on Hetzner for hosting.", "We decided to move from Hetzner to AWS."),
        ("I decided to use pandas for the report.", "I decided to use polars for the report instead."),
        ("Let's use npm for the packages.", "We decided to switch from npm to pnpm."),
        ("We decided to use JWT for authentication.", "We'll use sessions for authentication instead."),
        ("We decided to use Kafka for the queue.", "We decided to use RabbitMQ rather than Kafka."),
        ("We decided on blue for the logo.", "Let's go with green for the logo instead."),
        ("We've decided to use Stripe for payments.", "We've decided to replace Stripe with Adyen."),
        ("Let's use Flask for the backend.", "Let's use FastAPI instead of Flask for the backend."),
        ("We decided to use Docker for the deployment.", "We decided to move the deployment to Podman."),
        ("We decided to use Heroku for hosting.", "We migrated the hosting to Fly."),
        ("Let's use Figma for the designs.", "Let's switch to Penpot for the designs."),
        ("We agreed to use English for the docs.", "Let's use German for the docs instead."),
        ("We decided to use S3 for the backups.", "We decided to switch the backups to Backblaze."),
        ("We decided to use black for formatting.", "We decided to use ruff for formatting instead."),
        ("We'll use Ubuntu for the servers.", "We'll switch to Debian for the servers."),
        ("Let's use red for it.", "Let's use blue instead of red for the logo."),
        ("We use Postgres for the database.", "We switched the database to MySQL."),
        ("We use Prometheus for metrics.", "We use VictoriaMetrics for metrics now."),
        ("We decided on Alice as a tester.", "Let's go with Bob as a tester instead."),
        ("We decided to use Auth0 for the login.", "We decided to change the login to Keycloak."),
    ],
)
def test_a_decision_that_says_so_replaces_one_on_the_same_thing(earlier: str, later: str) -> None:
    """The earlier one stays, and names the later."""
    old, new = decided(earlier, later)

    assert (old.replaced_by, new.replaces) == (new.name, old.name)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Let's use tabs for indentation.", "Let's use spaces for indentation."),
        ("Let's go with Vue for the frontend.", "We've decided to use React for the frontend."),
        ("We agreed on Slack for the chat.", "We agreed on Matrix for the chat."),
        ("We'll use Mongo for storage.", "We'll use SQLite for storage."),
        ("We decided to go with Terraform for the infrastructure.", "Let's go with Pulumi for the infrastructure."),
    ],
)
def test_two_decisions_on_one_thing_contradict_each_other(earlier: str, later: str) -> None:
    """Where no word says that the earlier one holds no longer."""
    old, new = decided(earlier, later)

    assert (old.contradicts, new.contradicts) == (new.name, old.name)
    assert (old.replaced_by, new.replaces) == ("", "")


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("We decided to use Postgres for the database.", "Let's go with MySQL for the analytics instead."),
        ("We decided to use Postgres for the database.", "Let's use Redis for the cache."),
        ("We decided to use Postgres for the database.", "We decided to use Postgres for the queue."),
        ("We decided to use Postgres for the user database.", "Let's use SQLite for the test database instead."),
        ("We decided to use Redis for the cache.", "We decided to use Memcached instead of Redis for sessions."),
        ("We decided to use Postgres for the database.", "Let's use MySQL for the database in tests."),
        ("We decided to use Postgres for the database.", "We decided to also use MySQL for the database."),
        ("We decided to use Postgres for the database.", "Let's use MySQL for the database for now."),
        ("Let's use tabs for the Makefiles.", "Let's use spaces for the YAML files instead."),
        ("We decided to buy milk for the cat.", "We decided to buy litter for the cat."),
        ("We decided on a gift for the office.", "We decided on a card for the office party."),
        ("We decided to use Jest for the unit tests.", "We decided to use Playwright for the end-to-end tests."),
        ("Let's use v2 for the API.", "Let's use v3 for the SDK instead."),
        ("We decided to hire Anna for the project.", "We decided to hire Ben for the project."),
        ("We decided to go with Vue.", "Let's go with the blue logo instead."),
        ("Let's go with option 2.", "Let's go with option 3."),
        ("We decided to use GitHub Actions for CI.", "We decided to use GitHub Actions for releases instead."),
        ("We decided to use Stripe for payments in Europe.", "We decided to use Adyen for payments in Asia instead."),
        ("We decided to use Docker for the deployment.", "We decided to use Docker Compose for the deployment."),
        ("We decided to use the small model for summaries.", "We decided to use the large model for answers instead."),
        ("Let's use English for the docs.", "Let's use German for the emails instead."),
        ("We agreed to meet on Monday for the review.", "We agreed to meet on Friday for the retro instead."),
        ("We decided to use S3 for the backups.", "We decided to use Glacier for the archives instead."),
        ("We decided to use npm for the frontend.", "We switched the docs from yarn to Pnpm."),
        ("We decided to use Kafka for the queue.", "Let's use Kafka for the queue as well."),
        ("We decided to use Hetzner for hosting.", "We decided to switch from Vercel to Netlify."),
        ("We decided to use Oracle for the billing.", "We decided to switch from Oracle to MySQL for the warehouse."),
        ("We decided to use MySQL for the database.", "We switched the database from MySQL to Mongo for staging."),
        ("We decided on pizza for dinner.", "We decided on pasta for dinner."),
        ("We decided to use Mongo for logs.", "Let's use Mongo for metrics instead."),
        ("We decided to use pytest for the tests.", "Let's use tox for the matrix."),
        ("We decided to take the train for the trip.", "We decided to take the bus for the airport instead."),
        ("We decided on Berlin for the offsite.", "We decided on Adlon for the hotel instead."),
        (
            "We decided to use Postgres for the database.",
            "We decided to switch from Oracle to MySQL for the warehouse.",
        ),
        ("Let's use red for it.", "Let's use blue for it instead."),
        ("Let's use tabs for them.", "Let's use spaces for them."),
        ("Let's use tabs for those.", "Let's switch to spaces for these."),
        ("We decided on Alice as a tester.", "We decided on Bob as a tester."),
        ("We decided on Alice as a tester.", "Let's go with Bob as the tester instead."),
        ("We decided on Alice as the tester.", "Let's go with Bob as a tester."),
        ("We decided to use Redis for the cache.", "We decided to use Memcached for a cache."),
    ],
)
def test_decisions_on_different_things_stand_side_by_side(earlier: str, later: str) -> None:
    """A place, a part or a while is another thing, a pronoun may be any, and of a thing with an article there may be more."""
    old, new = decided(earlier, later)

    assert {old.replaced_by, old.contradicts, new.replaces, new.contradicts} == {""}


def test_a_decision_names_only_the_last_one_on_its_thing() -> None:
    """What was replaced before is replaced by that."""
    first, second, third = decided(
        "We decided to use Postgres for the database.",
        "Let's go with MySQL for the database instead.",
        "We switched the database back to Postgres.",
    )

    assert (first.replaced_by, second.replaced_by, third.replaces) == (second.name, third.name, second.name)


def test_nobody_replaces_what_somebody_else_decided() -> None:
    """In a group both stand, as a contradiction."""
    old, new = decided(
        "We decided to use Postgres for the database.",
        "Let's go with MySQL for the database instead.",
        speakers=("Anna (1)", "Ben (2)"),
    )

    assert (old.contradicts, new.contradicts, old.replaced_by) == (new.name, old.name, "")
