"""A rule is told by its form where no word alone tells it; what only says how things are has none."""

from __future__ import annotations

import pytest
from worlds.linear import LIMIT, excess

from hermes_lcm.ledger.facts import stated
from hermes_lcm.text import rule_forms
from hermes_lcm.text.statements import is_rule, without_commands

AGAIN = [
    "Before every commit, run the linter.", "Run the formatter before every push.",
    "Every Monday morning, send me the open tickets.",
    "Vor jedem Commit die Tests laufen lassen.", "Antes de cada commit, ejecuta los tests.",
    "Avant chaque commit, lance le linter.",
    "Antes de cada deploy, rode os testes.", "Prima di ogni commit esegui i test.",
    "Перед каждым коммитом запускай линтер.",
    "每次部署前先备份数据库。", "コミットするたびにテストを実行してください。", "커밋할 때마다 린트를 실행해 주세요.",
]  # fmt: skip
LEAVE = [
    "Nothing gets merged without my approval.", "No branch gets deleted unless I say so.",
    "Ohne mein OK wird nichts deployt.",
    "Nichts wird gelöscht, ohne dass ich es freigebe.", "Nadie toca producción sin avisarme.",
    "Rien n'est déployé sans mon accord.",
    "Nada vai para produção sem a minha aprovação.", "Niente va in produzione senza il mio ok.",
    "Без моего разрешения ничего не удаляй.", "未经我同意，不得合并任何分支。", "私の承認なしにマージしないこと。",
    "제 허락 없이 배포하지 마세요.",
]  # fmt: skip
DOUBT = [
    "If a test fails twice, stop and ask me.", "When in doubt, ask.",
    "If you are unsure about anything, ask me instead of guessing.",
    "Wenn ein Schritt fehlschlägt, hör auf und sag mir Bescheid.", "Im Zweifel frag mich lieber einmal zu viel.",
    "Si no estás seguro de algo, pregúntame antes.", "En cas de doute, demande-moi.", "Na dúvida, pergunte antes.",
    "Nel dubbio chiedi sempre.", "Если тест падает дважды, остановись и спроси меня.", "如果不确定，先问我，不要猜。",
    "迷った場合は私に確認してください。", "확실하지 않으면 먼저 물어봐 주세요.",
]  # fmt: skip
EVERY_ONE = [
    "Jede Funktion braucht einen Docstring.", "Toda função deve ter um teste.", "모든 함수에는 테스트가 있어야 합니다.",
    "All timestamps must be UTC.", "Every public function needs a docstring.",
    "The API has to stay backwards compatible.",
    "Secrets must never appear in the logs.", "Alle Beträge müssen in Cent gespeichert werden.",
    "Todas las fechas deben ir en formato ISO.", "Tous les messages d'erreur doivent être en français.",
    "Todas as datas devem estar em UTC.", "Tutti i commenti devono essere in inglese.", "Все даты должны быть в UTC.",
    "所有时间都必须用UTC。",
]  # fmt: skip
MAY = [
    "Nobody except me merges to main.", "Niemand außer mir deployt.", "Until I approve it, nothing may be published.",
    "I'd prefer if you never used global state.", "Passwörter dürfen nicht geloggt werden.",
    "Use American spelling in all documents.",
    "Escribe los commits en inglés.", "Écris les messages en anglais.", "Kommentare schreiben wir auf Englisch.",
    "You may not use the network.", "The vendor folder is off limits.", "I'd rather you didn't touch the CSS.",
    "No console.log in committed code.", "As a rule, log with structlog.",
    "Tests go in tests/, not next to the source.",
    "When a user asks: always answer in German.", "Wenn ein Nutzer fragt: antworte immer auf Deutsch.",
    "Use npm, not pnpm.", "Nutze pnpm, nicht npm.", "Usa pnpm, no npm.", "用pnpm，不要用npm。",
    "Indent with two spaces everywhere.", "Committe, aber pushe nicht.",
    "Bitte nichts global installieren.", "Bitte nicht direkt auf main pushen.",
    "Ne jamais modifier les migrations existantes.",
    "Queda prohibido borrar los registros.",
]  # fmt: skip
LED = [
    "Oh and the API has to stay backwards compatible.", "Just to be clear: no new dependencies without asking me.",
    "One more thing — commits should be signed.",
    "Ja, aber bitte nichts global installieren – immer ein venv unter .venv benutzen.",
    "From now on you sign your messages with a name, ok?", "Und ab sofort duzen wir uns, ja?",
]  # fmt: skip


@pytest.mark.parametrize("rule", [*AGAIN, *LEAVE, *DOUBT, *EVERY_ONE, *MAY])
def test_a_rule_is_told_by_its_form_in_ten_languages(rule: str) -> None:
    """A time that comes again, somebody's leave, a doubt, all of a kind, and what is not allowed."""
    assert is_rule(rule)
    assert [fact.kind for fact in stated(rule)] == ["rule"]


@pytest.mark.parametrize(
    "rule",
    [
        "Leave the print styles alone.", "Treat vendor/ as off limits.", "Write outputs to /srv/out, and nowhere else.",
        "Error types go in errors.rs, and nowhere else.", "No unsafe blocks, ever.",
        "When you add a module, add a line to MAP.md.",
        "When you rename something, update the docs.", "Only cite papers from 2018 or later.", "Only open the gate when I ask.",
        "From next sprint on, please run the benchmarks.", "Starting Monday, use the new cluster.",
        "Start each answer with a summary.", "Bot, keep answers short please.",
        "Use 4 spaces, and keep lines under 100 characters.",
        "Commit, don't push.", "Lass die Server im Keller in Ruhe.", "Backups gehören nach /srv/b, und nirgends sonst.",
        "Ab nächster Woche bitte keine Updates am Vormittag.", "Sprich mich bitte mit Du an, nie mit Sie.",
        "Laisse le dossier legacy tranquille.", "Mets les scripts dans bin/, et nulle part ailleurs.",
        "À partir de lundi, merci de lancer les tests.", "Deja en paz la carpeta vieja.", "A partir del lunes, no hagas copias.",
        "Pon los informes en /srv, y en ningún otro sitio.", "Отвечай только по-русски.", "Теперь используй только одну ветку.",
        "Больше не пиши комментарии.", "Rispondi in italiano.", "Responda em inglês.",
    ],
)  # fmt: skip
def test_what_is_to_be_left_alone_or_holds_from_a_day_on_is_a_rule(rule: str) -> None:
    """And what goes nowhere else, is never to be, or is done whenever the agent does something."""
    assert is_rule(rule)
    assert [fact.kind for fact in stated(rule)] == ["rule"]


@pytest.mark.parametrize("rule", LED)
def test_words_in_front_and_a_request_for_consent_behind_hide_no_rule(rule: str) -> None:
    """They say nothing of it."""
    assert is_rule(rule)


@pytest.mark.parametrize("rule", ["Call me Sam, not Samuel.", "Nenn mich bitte Kim.", "Llámame Lucía, por favor."])
def test_how_somebody_is_to_be_called_is_a_rule(rule: str) -> None:
    """It holds for every answer."""
    assert is_rule(rule)


@pytest.mark.parametrize(
    "fact",
    [
        "After each deployment the server was slow for a minute.", "Before every exam I drink two coffees.",
        "Every Monday the build breaks.", "For each row in the table, print the name.",
        "Before each of the two calls, add a log line.", "When I run it, it always fails.",
        "When the server restarts: it never comes back.", "Use the second file, not the first.", "Ich konnte es nicht pushen.",
        "Nach jedem Deploy stürzt der Server ab.", "Vor jedem Urlaub bin ich gestresst.",
        "Antes de cada partido me pongo nervioso.",
        "Avant chaque réunion, je relis mes notes.", "Prima di ogni viaggio controllo il meteo.",
        "Перед каждым экзаменом я волнуюсь.", "每次部署前都很紧张。", "テストのたびに失敗する。", "배포할 때마다 오류가 나요.",
        "Nobody told me about the outage.", "Nothing works without the config file.",
        "Nothing was merged without my approval last week.",
        "Ohne meine Brille sehe ich nichts.", "Nadie me dijo nada.", "Sin café no puedo trabajar.",
        "Personne n'est venu.",
        "If the build is green, merge it.", "If you have any questions, let me know.",
        "When in doubt he always calls his brother.",
        "If a test fails twice, what does pytest do?", "Wenn der Test durchläuft, sag Bescheid.",
        "Si tienes dudas, avísame.",
        "All tests must have passed, I guess.", "All the kids must be tired by now.",
        "Every function I looked at has a bug.",
        "Alle Tests sind grün.", "Todas las pruebas pasaron.",
        "Each team must play twice.", "All passengers must have a passport.", "No one should have to work on Sundays.",
        "Use the second file for this plot.", "Write a test for each function in utils.py.",
        "Rename every variable called foo to bar.",
        "Jeder Test ist anders.", "Cada día aprendo algo nuevo.", "Chaque jour est différent.", "所有航班都取消了。",
        "You may not believe this, but it works.", "My parents live in Porto, not in Lisbon.",
        "By default, the server listens on port 80.",
        "As a rule, I get up at six.", "No new messages in the queue.", "Nichts gefunden, danke trotzdem.",
        "Call me when you are done.", "Call me tomorrow.", "I'd rather you booked the earlier flight.",
        "remote: You are not allowed to push code to protected branches.", "The error says: You are not allowed to push.",
        "Imagine a rule like: all tests must be green.",
        'My colleague wrote: "nothing gets merged without my approval".', "The README says that every commit must be signed.",
        "The bug happens on Windows and nowhere else.", "No luck, ever.", "When you write a book, start early.",
        "When you merge two lists, sort them.", "Only go there when the weather is good.",
        "Leave me alone.", "Lass mich in Ruhe.",
        "From Monday on the shop is open.", "Starting tomorrow I work from home.", "Close all branches by Friday.",
        "Ab Montag bin ich nie mehr im Büro.", "Laisse-moi tranquille.", "Plus jamais de vacances avec lui !",
        "À partir de lundi, merci de votre compréhension.", "Теперь только чай.", "С понедельника не работает лифт.",
        "Voortaan rijdt de bus om acht.", "We hebben nooit getest.", "Od teraz mieszkam w Krakowie.",
        "Bundan sonra orada yaşıyorum.",
        "Is it true that nobody may deploy on Fridays?", "Should all timestamps be UTC?",
    ],
)  # fmt: skip
def test_what_has_nearly_the_form_is_no_rule(fact: str) -> None:
    """Told, asked, said by others, courtesy, or an order for the task at hand."""
    assert not is_rule(fact)
    assert [each for each in stated(fact) if each.kind == "rule"] == []


@pytest.mark.parametrize(
    "said",
    [
        "They are always there for us.", "It must've been great.", "I'll always remember that day.", "Must be awesome to see it.",
        "Always happy to help.", "Never saw this coming.", "Keep going and don't quit!", "That sign reminds me to never give up.",
    ],
)  # fmt: skip
def test_praise_and_encouragement_rule_nothing(said: str) -> None:
    """Though they say always, never and must."""
    assert not is_rule(said)


@pytest.mark.parametrize(
    "rule",
    [
        "Always remind me to stretch.", "Never quit the session without saving.", "Answers must be very short.",
        "Must be under 100 words.",
        "The default branch is always main.", "Dairy-free is a must for me.",
    ],
)  # fmt: skip
def test_rules_in_the_words_of_praise_are_rules(rule: str) -> None:
    """They tell of nobody's feelings."""
    assert is_rule(rule)


def test_an_error_that_says_what_is_not_allowed_is_kept() -> None:
    """It tells its reader why something failed, and nothing to do."""
    line = "remote: error: You are not allowed to push code to protected branches on this project."

    assert without_commands(line) == line


@pytest.mark.parametrize(
    "text",
    [
        "before every commit " * 60, "no one is without " * 60, "if you are not sure of any " * 50, "all the files must " * 60,
        "vor jedem Commit bitte die " * 50, "si un " * 200, "oh and also, so " * 80, "每次部署前" * 200,
        "ob ohne mein OK nichts " * 50,
    ],
)  # fmt: skip
def test_forms_are_looked_for_in_linear_time(text: str) -> None:
    """Whatever is made to be slow."""
    assert excess(rule_forms.is_formed, text, text * 8) < LIMIT
