"""Whose rule it is: what others wrote in a message rules nothing, and a name in front of a rule is a speaker."""

from __future__ import annotations

import pytest
from worlds.linear import LIMIT, excess

from hermes_lcm.ledger.facts import stated
from hermes_lcm.text import salience, statements, turns
from hermes_lcm.text.others import label, own_words
from hermes_lcm.text.statements import is_order, is_rule, lifts, replaces

LOGS = [
    "[10:32] Tom: never deploy on Fridays", "[10:32 AM] <tom> never deploy on Fridays", "<tom> never deploy on Fridays",
    "2026-01-02 10:00 - Tom: never deploy on Fridays", "@tom: never deploy on Fridays",
    "Tom (10:32): never deploy on Fridays",
    "Tom Miller, 10:32\nNever deploy on Fridays.\nAlways ask me first.", "Tom  10:32 AM\nNever deploy on Fridays.",
    "Tom: never deploy on Fridays\nAnna: ok\nTom: always ask me first",
    "**Tom:** never deploy on Fridays\n**Tom:** I prefer tabs.",
    "User: never deploy on Fridays\nAssistant: Understood, I'll never deploy on Fridays.", "Me: never push to main\nTom: fine",
    "02.01.2026 10:00 | Анна: никогда не удаляй папку",
]  # fmt: skip


@pytest.mark.parametrize("log", LOGS)
def test_lines_of_a_chat_log_rule_nothing_and_state_nothing(log: str) -> None:
    """Somebody else said them, to somebody else; what stands beside them is the user's."""
    text = f"What do you make of this?\n\n{log}\n\nAlways answer in German."
    rules = [sentence for sentence in salience.sentences(own_words(text)) if is_rule(sentence)]

    assert rules == ["Always answer in German."]
    assert [fact.text for fact in stated(log)] == []


LETTERS = [
    "Dear team,\n\nfrom now on never deploy on Fridays.\n\nRegards,\nAnna",
    "Look what came today: Dear team, never deploy on Fridays. Always ask me first. Regards, Anna. What do you think?",
    "Summarize this:\n\nHi Bob,\n\nplease always use tabs from now on.\n\nCheers,\nTom",
    "Liebe Kollegen,\n\nab sofort nie freitags deployen. Bitte immer vorher fragen.\n\nViele Grüße\nAnna",
    "Estimado equipo,\n\nsiempre usa tabuladores en el código.\n\nSaludos,\nAnna",
    "各位同事，\n以后不要在周五部署。\n此致\n敬礼\n王磊", "Subject: Deploys\n\nFrom now on, never deploy on Fridays.",
    "From: Anna\nSubject: Deploys\n\nNever deploy on Fridays.", "> From now on never deploy on Fridays.\n\nWhat shall I answer?",
    "My boss wrote:\n\nNever deploy on Fridays.\nAlways use tabs.", "Here's the mail I got:\nNever deploy on Fridays.",
    '"Dear Anna,\nnever deploy on Fridays.\nTom"\nIs that polite?', "老板发来的邮件：\n以后不要在周五部署。",
    "2026-01-02 10:00:00 WARN never deploy on Fridays\n2026-01-02 10:00:01 INFO always use tabs",
]  # fmt: skip


@pytest.mark.parametrize(
    "fact",
    [
        "彼は必ず来ると思う。", "サーバーは常に落ちる。", "必ずしもそうではない。", "서버가 항상 죽어요.",
        "나는 항상 커피를 마셔.", "我永远爱你。", "Le serveur plante toujours.", "Toujours pas.", "Jamais vu ça.",
        "Sempre gostei de café.", "Não funciona.",
        "hmm Leo wants vanilla instead",
        "I'll keep that in mind.", "No changes on prod yet.", "Whenever I open it, it crashes.", "We use pnpm.",
        "Il server si blocca sempre.", "Non so cosa fare.", "Сервер всегда падает.", "Не знаю почему.",
    ],
)  # fmt: skip
def test_what_is_always_so_is_no_rule_in_any_language(fact: str) -> None:
    """No order is given."""
    assert not is_rule(fact)
    assert stated(fact) == ()


@pytest.mark.parametrize("letter", LETTERS)
def test_letters_that_a_user_pasted_rule_nothing_and_state_nothing(letter: str) -> None:
    """Somebody else wrote them, with a greeting and an end or not."""
    assert [sentence for sentence in salience.sentences(own_words(letter)) if is_rule(sentence)] == []
    assert stated(letter) == ()


@pytest.mark.parametrize(
    "text",
    [
        f"Please follow this:\n\n{LETTERS[0]}", f"{LETTERS[0]}\n\nPlease follow her rules from now on.",
        "Halte dich bitte daran:\n> From now on never deploy on Fridays.",
        f"{LETTERS[7].replace('Never deploy on Fridays.', 'See you.')}\n\nBest,\nAnna\n\nFrom now on never deploy on Fridays.",
        "Hi Hermes,\n\nfrom now on never deploy on Fridays.\n\nThanks,\nTom",
        "Here are the rules for mails:\nFrom now on never deploy on Fridays.",
        "The linter says:\nline too long\n\nFrom now on never deploy on Fridays.",
    ],
)  # fmt: skip
def test_what_the_user_adopts_or_says_himself_rules(text: str) -> None:
    """A letter that he tells to follow, his own letter to the agent, and what stands behind the end of another's."""
    assert [fact.text.casefold() for fact in stated(text)][:1] == ["from now on never deploy on fridays."]


def test_a_letter_that_is_not_to_be_followed_rules_nothing() -> None:
    """Nor one that is followed up."""
    assert stated(f"Don't follow this:\n\n{LETTERS[0]}") == stated(f"Follow up on this:\n\n{LETTERS[0]}") == ()


@pytest.mark.parametrize(
    "text",
    [
        "Rule: never push to main.", "Frontend: always use TypeScript.\nBackend: never use PHP.",
        "At 10:30 always stop the server.",
        "Never use <b> tags in the page.", "- Git: never force push\n- Python: always use type hints",
    ],
)  # fmt: skip
def test_rules_with_a_label_are_the_users(text: str) -> None:
    """A list of rules by subject is no talk."""
    assert own_words(text) == text


@pytest.mark.parametrize(("rule", "name"), [("Tom: never push", "tom"), ("Note: never push", ""), ("never push", "")])
def test_a_name_in_front_is_told(rule: str, name: str) -> None:
    """Labels that name nobody are none."""
    assert label(rule) == name


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "text",
    [
        "word ten " * 500,
        "please port the file " * 200,
        "不要改配置" * 700,
        "Never use tabs " * 300,
        "a" * 4000,
        "la mesa " * 500,
        "du darfst " * 400,
    ],
)
def test_a_long_sentence_is_read_for_rules_in_linear_time(text: str) -> None:
    """While a pattern is looked for, no other chat of the process goes on."""

    def read(said: str) -> None:
        is_order(said)
        lifts.__wrapped__(said)

    assert excess(read, text, text * 8) < LIMIT


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "text",
    [
        "Dear all, " * 900,
        "Dear Tom,\nRegards, Anna\n" * 400,
        "mail by:\n" * 900,
        '"\n' * 4000,
        "best " * 1900,
        "<tom> " * 2000,
        "Tom: x\n" * 1500,
        "10:32 " * 2000,
        "Tom " * 2500,
        "Tom 10:32\n" * 1200,
        "Tom" + "\t" * 4000,
    ],
)
def test_logs_are_looked_for_in_linear_time(text: str) -> None:
    """Whatever is made to be slow."""
    assert excess(own_words, text, text * 8) < LIMIT


@pytest.mark.parametrize(
    "told",
    [
        "We never found out why it crashed.", "We've never tested it on Windows.", "The build never worked on my machine.",
        "They always said it would be ready by May.", "We never know which port it takes.",
        "Nie haben wir das getestet.", "Nunca hemos probado eso.", "Siempre había errores en el registro.",
        "N'a jamais marché chez moi.", "我们总是忘记更新文档。", "우리는 항상 문서를 잊었다.",
    ],
)  # fmt: skip
def test_what_was_never_or_always_so_is_told_and_rules_nothing(told: str) -> None:
    """Past tense, whoever did it."""
    assert not is_rule(told)


@pytest.mark.parametrize(
    "said",
    [
        "If we were a museum, we would never lend this vase.", "We'd always ask twice for that price.",
        "My sister would never let you open the gate.", "I can never find the spare key.", "They could never agree on a colour.",
        "I wish people would always knock.", "If only they never moved the button.", "Even if you never need it, keep the box.",
        "They should never have sold the boat.", "Hypothetically, suppose we only use one source.",
        "Let's say we never mention the price.", "Say we always retry: does it help?", "Nehmen wir an, du darfst nie schlafen.",
        "Angenommen, wir dürfen nie neu starten.", "假设我们永远不要重启。", "You must try this!",
        "Ella never replies before noon.",
        "The checker complains: do not use globals.", "Rename the switch to Never ask again.", "I told him to never ring again.",
        "Write a story in which a robot must always obey.", "Now or never, as my aunt says it.",
        "N'oublie pas la fête de samedi.",
        "One could argue we should never mock.", "The old rule was: never deploy on Fridays.",
        "Back then we were never allowed to push.", "Unless you always back up, you will lose data.",
        "If you never clean it, it breaks.", "Those who never test always debug.", "You should always be kind, my mother said.",
        "The spec requires that clients must not retry.", "Wenn du nie fragst, lernst du nichts.",
        "Früher durften wir nie freitags deployen.", "Laut Doku darf man das nie zweimal aufrufen.", "听说千万不要用这个版本。",
        "Du musst morgen nicht kommen.", "Du darfst jetzt die Pumpe neu starten.", "Du musst mal den neuen Film sehen.",
        "Du sollst gleich Anna anrufen.", "Nigdy nie byłem w Gdańsku.", "Nie mam czasu na to.", "Не переживай из-за этого.",
    ],
)  # fmt: skip
def test_what_would_be_and_what_others_do_rules_nothing(said: str) -> None:
    """Nor what is supposed, wished, missed, a name, or an order of one thing."""
    assert not any(is_rule(each) for each in turns.sentences(said))


@pytest.mark.parametrize(
    "rule",
    [
        "Du darfst nie ohne Rückfrage pushen.", "Du darfst die Datei a.env nicht anfassen.", "Du sollst keine Emojis verwenden.",
        "Du musst vor jedem Commit die Tests laufen lassen.", "You can never push to main.",
        "Before you deploy, I must approve it.",
        "If you never hear from me, always ask Tom.", "If you never hear from me, you must stop the job.",
        "Unless I say otherwise, never push.", "Wenn du nie sicher bist, frag immer mich.", "以前写的测试不要删。",
        "If you always need a password, never store it.", "Früher erstellte Dateien nie löschen.",
        "Functions should never have side effects.", "Even if I ask, never push to main.", "I said never push to main.",
        "If only one test fails, never merge the branch.", "Code never ships without a review.",
    ],
)  # fmt: skip
def test_rules_in_similar_words_are_rules(rule: str) -> None:
    """What is forbidden by a "can never" or for a case is an order."""
    assert is_rule(rule)


@pytest.mark.parametrize(
    "said",
    [
        "The sign says 'Never feed the swans. Always close the gate.' Put that on the poster.",
        "The guide says ‘Never open the lid. Don’t lift it, always slide it.’ Is that so?",
        "Der Chef sagt: ‚Nie am Montag. Immer erst dienstags.‘ Na ja.",
        "Elle dit : 'Ne poussez jamais le soir. Testez toujours.' Bof.",
        "他说过：‘永远不要周五上线。一定要先测试。’",
    ],
)
def test_sentences_within_single_marks_are_somebody_elses(said: str) -> None:
    """An apostrophe in them ends nothing."""
    assert not any(is_rule(each) for each in turns.sentences(said))
    assert [fact.text for fact in stated(said) if fact.kind == "rule"] == []


@pytest.mark.parametrize(
    "said", ["The '90s theme stays. Never touch the users' theme.", "Keep the dogs' names. Never mix the cats' names."]
)
def test_apostrophes_hide_no_rule(said: str) -> None:
    """Of a year or a plural."""
    assert any(is_rule(each) for each in turns.sentences(said))


@pytest.mark.parametrize(
    "rule", ["Never push.", "don't commit", "Always ask!", "No emojis.", "no comments", "Be brief.", "Nunca use.",
     "No emojis, please.", "Please no emojis", "No external dependencies."],
)  # fmt: skip
def test_two_words_may_be_a_rule(rule: str) -> None:
    """Nobody says a short one again; a "please" makes it no other."""
    assert is_rule(rule)


@pytest.mark.parametrize(
    "said",
    [
        "Never mind.",
        "Never again!",
        "No worries.",
        "No changes.",
        "No problem",
        "Don't worry.",
        "Be careful.",
        "Never works.",
        "Don't stop!",
        "Don't go.",
        "Please never mind.",
    ],
)
def test_two_words_are_mostly_none(said: str) -> None:
    """Only a verb that tells an agent what to do is, and what it writes."""
    assert not is_rule(said)


@pytest.mark.parametrize(
    "rule",
    [
        "We never deploy on Fridays.", "We always need two reviews.", "They must never be deleted.", "Never trust the old wiki.",
        "Nunca toques la rama main.", "我们必须使用空格缩进。", "Tests always proceed in order.", "I said never push to main.",
    ],
)  # fmt: skip
def test_what_somebody_never_does_is_a_rule(rule: str) -> None:
    """Present tense: it holds on."""
    assert is_rule(rule)


@pytest.mark.parametrize(
    "fact",
    [
        "Thanks, you always do great work!",
        "He must be tired today.",
        "You must be kidding!",
        "The tests must have passed.",
        "It is always raining.",
        "The server always restarts at midnight.",
        "I remember that we used Redis.",
        "Maybe we should never have done that.",
        "I would never do that.",
        "Users don't want this.",
        "The docs say you must not call it.",
        "It must not be null, says the linter.",
        "No matter what I try, it fails.",
        "No worries, John.",
        "Keine Zeit heute.",
        "Immer mehr Fehler tauchen auf.",
        "Immer wenn ich klicke, stürzt es ab.",
        "Tests schlagen immer fehl.",
        "No puedes hacer eso con Python.",
        "Ne t'inquiète pas.",
        "总是报错，怎么办。",
        "谢谢你，总是这么快！",
        "服务器总是在午夜重启。",
        "我必须走了。",
        "以后再说吧。",
        "始终没有找到原因。",
    ],
)
def test_thanks_and_plain_facts_rule_nothing(fact: str) -> None:
    """Though they say always, never or must."""
    assert not is_rule(fact)
    assert stated(fact) == ()


@pytest.mark.parametrize(
    "rule",
    [
        "Avoid global variables.",
        "Stop using semicolons.",
        "Ask me before deleting anything.",
        "Use British spelling everywhere.",
        "No emojis in commit messages.",
        "Whenever you change the schema, write a migration.",
        "Keep functions under 50 lines.",
        "Benutze keine globalen Variablen.",
        "Bitte frag mich, bevor du etwas löschst.",
        "Alle Kommentare müssen auf Englisch sein.",
        "Die Datei secrets.env darf nie eingecheckt werden.",
        "Auf keinen Fall die Datenbank löschen.",
        "Siempre ejecuta las pruebas antes de hacer commit.",
        "Todos los comentarios deben estar en inglés.",
        "No uses emojis.",
        "从现在起用 pnpm。",
        "每次提交前都要运行测试。",
        "注释一律用英文。",
        "别动 payments 目录。",
        "永远不要直接推送到main。", "千万不要动配置文件。", "一定要先问我再部署。",
        "常に日本語で答えてください。", "必ずテストを実行してからコミットしてください。", "絶対に本番データベースに触らないで。",
        "今後は日本語で返信して。", "コメントは英語で書くこと。", "テストなしでコミットしないでください。",
        "항상 한국어로 대답해 주세요.", "반드시 테스트를 먼저 실행하세요.", "절대 main에 직접 푸시하지 마세요.",
        "앞으로는 한국어로 답해 줘.",
        "Utilise toujours des tabulations.", "Il faut toujours lancer les tests.", "Jamais de commentaires dans le code.",
        "Responda sempre em português.", "Nunca faça push direto na main.", "A partir de agora responda em português.",
        "Rispondi sempre in italiano.", "Non fare mai push su main.", "D'ora in poi rispondi in italiano.",
        "Отвечай всегда на русском.", "Обязательно запускай тесты перед коммитом.", "Ни в коем случае не трогай базу.",
        "Please put numbers as numbers in every export you make.", "Please answer in German.", "Antworte bitte auf Deutsch.",
        "请用中文回答，代码注释用英文。", "日本語で答えてください。",
        "Por cierto, nunca me mandes correos de noche.",
        "Rule #1: no breaking API changes.", "Hallo, bitte duze mich und antworte immer auf Deutsch.",
        "btw we use pnpm here, not npm.", "no changes on prod between 9 and 17 pls", "I am new here, keep that in mind.",
        "Whenever an alert fires, first check the dashboard, then ping me.",
        "Use pnpm instead of npm.", "Write commit messages in English.",
    ],
)  # fmt: skip
def test_a_rule_needs_neither_always_nor_never(rule: str) -> None:
    """In the present state and in the ledger."""
    assert is_rule(rule)
    assert [fact.kind for fact in stated(rule)] == ["rule"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Always use 2 spaces in YAML files.", "From now on always use 2 spaces in JSON files."),
        ("Always write the lexer tests with pytest.", "From now on write the parser tests with pytest."),
        ("Always log requests to stdout.", "Use httpx instead of requests."),
        ("Always run the unit tests before a commit.", "Never run the unit tests before a commit in the docs branch."),
        ("Always run the tests.", "No need to run the tests this time."),
        ("Always add comments to functions.", "From now on never add comments to tests."),
        ("Always format dates as ISO 8601.", "From now on format times as ISO 8601."),
        ("Always use tabs in Makefiles.", "Forget the rule about tabs in Python."),
        ("Always use SQLite in tests.", "Use Postgres instead of SQLite in production."),
        ("Always use port 8080 for the web server.", "From now on use port 9090 for the API server."),
        ("From now on run npm lint before each commit.", "From now on run npm test before each commit."),
        ("Always push to the feature branch.", "From now on never push to the release branch."),
        ("Keep answers under 50 words.", "From now on keep summaries under 100 words."),
        ("Always confirm before rebooting anything.", "No need to confirm reboots of staging."),
        ("Always run the tests.", "You don't have to run the slow tests."),
        ("Keep functions under 50 lines.", "From now on keep files under 500 lines."),
        ("Always write changelog entries.", "You don't need to write changelog entries for docs."),
        ("Always ask before deleting files.", "You don't have to ask before reading files."),
        ("Always use type hints.", "You don't have to use type hints in scripts."),
        ("Verwende immer 2 Leerzeichen in JSON.", "Verwende ab jetzt 4 Leerzeichen in YAML."),
        ("Schreibe Dokumente immer auf Deutsch.", "Ab jetzt schreibe Kommentare auf Englisch."),
    ],
)
def test_a_similar_rule_of_a_different_thing_replaces_none(earlier: str, later: str) -> None:
    """Nor does an exception, or what is said for once."""
    assert not replaces(later, earlier)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Always use 2 spaces in YAML files.", "From now on use 4 spaces in YAML files."),
        ("Use npm for installs.", "Use pnpm instead of npm."),
        ("Always use double quotes in Python.", "Always use single quotes in Python from now on."),
        ("Keep answers under 100 words.", "From now on keep answers under 50 words."),
        ("Always use port 8080 for the API server.", "From now on use port 9090 for the API server."),
        ("Always answer in German.", "From now on always answer me in English instead."),
        ("Usa siempre tabs.", "Nunca uses tabs."),
        ("Always use semicolons.", "Don't use semicolons any more."),
        ("Always write changelog entries.", "You no longer need to write changelog entries."),
    ],
)
def test_another_value_of_the_same_thing_replaces_the_earlier_rule(earlier: str, later: str) -> None:
    """Its own words speak of a change, or forbid what was said."""
    assert replaces(later, earlier)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (
            "Und Commit-Messages ab jetzt immer auf Englisch.",
            "Actually, scratch the rule about commit messages: write them in German.",
        ),
        ("Commit-Nachrichten immer auf Englisch.", "Forget the rule about commit messages."),
        ("Never deploy on Fridays.", "Vergiss die Regel mit den Deploys."),
        ("Nie freitags deployen.", "Drop the deploy rule, please."),
        ("Vor jedem Commit die Tests laufen lassen.", "Forget the rule about running the tests."),
        ("Toujours lancer les tests avant de commiter.", "Scratch the rule about the tests."),
        ("Alle Kommentare müssen auf Englisch sein.", "Olvida la regla sobre los comentarios."),
        ("注释一律用英文。", "Forget the rule about comments."),
        ("Comments must be in English.", "取消关于注释的规则。"),
        ("コミットメッセージは必ず英語で書いてください。", "Scratch the rule about commit messages."),
        ("Keine Emojis in den Antworten.", "Forget the rule about emojis."),
        ("I hate coriander, never put it on the menu.", "forget the coriander rule"),
        ("Always answer in German.", "Ab jetzt antworte immer auf Englisch."),
        ("Responde siempre en español.", "From now on always answer in English."),
        ("Antworte immer auf Englisch.", "À partir de maintenant, réponds-moi en français."),
        ("Отвечай всегда по-русски.", "From now on always answer in English."),
    ],
)
def test_a_rule_is_taken_back_and_replaced_in_another_language(earlier: str, later: str) -> None:
    """The words for its subject are the same, near, or known to be of the same thing."""
    assert replaces(later, earlier)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Commit-Messages immer auf Englisch.", "Scratch the rule about comments."),
        ("Kommentare immer auf Englisch.", "Scratch the rule about commit messages: write them in German from now on."),
        ("Vor jedem Commit die Tests laufen lassen.", "Scratch the rule about commit messages."),
        ("Sign all commits.", "Scratch the rule about commit messages: write them in German from now on."),
        ("Always answer in German.", "Ab jetzt schreibe Kommentare auf Englisch."),
        ("Responde siempre en español.", "From now on write comments in English."),
        ("Never deploy on Fridays.", "Vergiss die Regel mit den Tests."),
        ("Never push to main.", "Forget the rule about the develop branch."),
        ("Never delete files.", "Olvida la regla sobre los comentarios."),
        ("Antworte immer auf Deutsch.", "From now on write the docs in English."),
    ],
)
def test_a_rule_of_another_subject_holds_on_in_any_language(earlier: str, later: str) -> None:
    """One word in common is not enough where two tell what is taken back."""
    assert not replaces(later, earlier)


def test_what_takes_back_one_rule_means_the_closest() -> None:
    """Of two of the same subject; where several are taken back, all."""
    rules = ["Before every commit, run the linter and the tests.", "Sign commits.", "Never squash those long commits."]

    assert list(statements.meant("Forget the rule about commits.", rules)) == ["Sign commits."]
    assert list(statements.meant("Forget the rules about commits.", rules)) == rules


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "text",
    [
        "I decided to use it so we decided to use it " * 20, "and we use A for the " * 45,
        "my name is the port of my id is " * 28, "I prefer the one " * 50,
        "don't use it and always use the " * 25, "the meeting with Greg on May " * 30, "我的叔叔的生日是我们的" * 80,
        "from now on " * 75, "王磊是我的上司，其" * 90,
    ],
)  # fmt: skip
def test_facts_are_looked_for_in_linear_time(text: str) -> None:
    """Up to the longest that is read."""

    def read(said: str) -> None:
        for _ in range(20):
            stated(said)

    assert excess(read, text[:110], text[:880]) < LIMIT


@pytest.mark.parametrize(
    "text", ["From now on use the tabs in " * 40, "use in to with " * 60, "please never use " * 60]
)
def test_rules_are_compared_in_linear_time(text: str) -> None:
    """What a rule is about is found in one pass."""

    def read(said: str) -> None:
        replaces(said, "Always use tabs.")

    assert excess(read, text, text * 8) < LIMIT


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("The report is at https://example.org/r/7, read it.", ["https://example.org/r/7"]),
        ("The fare of that flight is $1,625.50 in all.", ["$1,625.50"]),
        ("We release v2.14.0 of it on 2026-03-01.", ["v2.14.0", "2026-03-01"]),
        ("The server listens on port 7443 since May 2.", ["7443", "May 2"]),
        ("It is ticket OPS-114, and 75% of it are done.", ["OPS-114", "75%"]),
    ],
)
def test_a_sentence_is_given_with_the_values_that_it_names(said: str, named: list[str]) -> None:
    """Each with its place."""
    found = [value for sentence in statements.naming(said) for value in sentence.values]

    assert [value for value, *_ in found] == named
    assert statements.value_in(said) == named[0]


def test_code_names_no_value() -> None:
    """What stands in a fence was not said."""
    assert (
        statements.naming("Like this:\n```\nserver.listen(port 7443) # v2.14.0\n```\nThat is all there is to it.") == ()
    )


def test_a_sentence_tells_whether_something_was_changed() -> None:
    """`moved to`, not `is`."""
    told = [each.changes for each in statements.naming("I moved the server to port 7443. The other is on port 8080.")]

    assert told == [True, False]
