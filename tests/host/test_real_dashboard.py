"""The tab in the real dashboard of the host, in a real Chromium, with a mouse and a keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from worlds.earlier import EarlierPlugin, talk
from worlds.home import Home as Stored

from host.browser import Browser, dashboard, until
from host.drive import WINDOW, Home
from host.model_server import ModelServer, Turns
from host.scripts import busy_turn, sayings

#: The browser needs the pages of the host, which only some wheels bring along.
pytestmark = [pytest.mark.slow, pytest.mark.host]

ATTACK = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
LONG, SHORT = 50_000, 500


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard over two conversations: a hostile one that is folded twice, and one of 50,000 messages."""
    home = Home.make(tmp_path_factory.mktemp("dashboard") / "home", "http://127.0.0.1:9/v1", window=100_000)
    world = Stored(home.path)
    texts = [f"message {n}: the port of nginx_proxy is {8000 + n} {ATTACK if n % 10 == 0 else ''}" for n in range(LONG)]
    for at in range(0, LONG, 10_000):
        world.say(*texts[: at + 10_000], session="long")
    world.say(*texts[:SHORT], session="short")
    world.say("Always answer in German, please.", "ok", session="facts")
    world.say(*texts[:60], session="hostile")
    first = world.runtime.sessions.find("hostile")
    assert first is not None
    ids = [row[0] for row in world.runtime.db.query(
        "SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY pos", (first.conversation_id,))]  # fmt: skip
    leaves = [world.node(*ids[at : at + 10], text=f"ports were told {ATTACK}", conversation=first.conversation_id)
              for at in (0, 10, 20, 30)]  # fmt: skip
    top = world.node(
        *[leaf.node_id for leaf in leaves[:2]], depth=1, text="all ports", conversation=first.conversation_id
    )
    for roots, tail in (([leaves[0], leaves[1]], ids[20:]), ([top, *leaves[2:]], ids[40:])):
        world.runtime.dag.publish(first.conversation_id, "hostile", [root.node_id for root in roots], tail,
                                  last_seq=60, last_pos=60, now=world.now)  # fmt: skip
    world.close()
    with dashboard(home) as found:
        yield found


@pytest.fixture
def page(address: str) -> Iterator[Browser]:
    """A fresh browser on the tab; at the end nothing was thrown and no text became code."""
    with Browser() as browser:
        browser.open(f"{address}/lcm")
        browser.sees("The window")
        yield browser
        assert browser.errors == []
        assert browser.js("document.title") != "owned"
        assert browser.js("document.querySelectorAll('.lcm img, .lcm script').length") == 0


def go(page: Browser, **place: str) -> None:
    """As a link would."""
    page.js(f"location.hash = new URLSearchParams({place!r}).toString()")


def test_the_first_page_says_whose_data_and_how_full(page: Browser, address: str) -> None:
    """And is found in the menu of the host."""
    assert page.sees(r"every conversation of everybody who talks to this agent")
    assert page.sees(r"About [\d,]+ of 100,000 tokens")
    assert page.sees(r"If it came now")
    assert page.js("!!document.querySelector('a[href=\"/lcm\"]')")


def test_a_summary_is_read_beside_its_sources_by_mouse(page: Browser) -> None:
    """Click in the picture, click a source, and back to what was said."""
    go(page, view="conversation", session="hostile")
    page.sees("Choose a summary")
    page.place(".lcm-canvas")  # scrolled into view
    box = page.js(
        "(() => { const b = document.querySelector('.lcm-canvas').getBoundingClientRect(); return [b.x, b.y, b.width]; })()"
    )
    page.click_at(box[0] + box[2] * 0.2, box[1] + 30)
    page.sees(r"condensed, depth 1")
    page.click(".lcm-source button", "sum_1")
    page.sees("ports were told <img src=x")
    page.place(".lcm-source mark")  # drawn with the sources
    assert page.js("document.querySelector('.lcm-source mark').innerText")
    page.click(".lcm-source button", "msg_")
    page.sees("What is known about it")


def test_the_picture_works_by_keyboard(page: Browser) -> None:
    """Arrows choose along the row, down to the sources and up again; + and - zoom."""
    go(page, view="conversation", session="hostile")
    page.sees("Choose a summary")
    page.js("document.querySelector('.lcm-canvas').focus()")
    page.key("ArrowRight")
    page.sees("sum_5: condensed")
    page.key("ArrowDown")
    page.sees("sum_1: verified")
    page.key("ArrowRight")
    page.sees("sum_2: verified")
    page.key("ArrowUp")
    page.sees("sum_5: condensed")
    for key in "++[]-":
        page.key(key)
    assert page.js("document.activeElement.className") == "lcm-canvas"


def test_tabs_work_by_keyboard(page: Browser) -> None:
    """One stop for Tab, arrows between them."""
    page.js("document.querySelector('[role=tab][aria-selected=true]').focus()")
    for view in ("Conversation", "Prompt at", "Search"):
        page.key("ArrowRight")
        page.sees({"Conversation": "Sessions", "Prompt at": "What the model saw", "Search": "Where"}[view])
        assert page.js("document.activeElement.innerText") == view


def test_a_search_tells_why(page: Browser) -> None:
    """Typed and sent with Enter; the first hit opens in its conversation."""
    go(page, view="search", session="hostile")
    page.click("input[type=search]")
    page.type("nginx_proxy 8042")
    page.key("Enter")
    page.sees("Why here:")
    page.click(".lcm-list button", "msg_")
    assert page.sees("What is known about it")
    assert "8042" in page.text()

    page.js("history.back()")
    page.sees("Why here:")


def test_a_link_with_words_searches(page: Browser) -> None:
    """Nobody presses a button for what the address already says."""
    go(page, view="search", session="hostile", q="nginx_proxy 8042")
    assert page.sees("Why here:")


def test_two_prompts_are_compared(page: Browser) -> None:
    """What the model saw at the first, and what changed to the second."""
    go(page, view="prompt", session="hostile")
    page.click(".lcm-list button", "Prompt 1")
    page.sees("As they were said: 40 messages")
    page.click(".lcm-list button", "Compare with 1")
    page.sees("From prompt 1 to prompt 2")
    assert re.search(r"Newly covered by summaries\s+20 messages", page.text())


def test_a_compaction_is_undone_after_it_was_shown(page: Browser) -> None:
    """Dry run, then done, noted in the journal, and taken back."""
    go(page, view="conversation", session="hostile", sum="4")
    page.click("button", "Undo this compaction")
    page.sees("Dry run")
    page.click("button", "Do it")
    page.sees("Use it again")
    page.sees("Done, and noted")
    page.click("button", "Use it again")
    page.sees("may be used again. Dry run")
    page.click("button", "Do it")
    page.sees(r"may be used again\.\s+Done, and noted")
    go(page, view="doctor")
    page.sees("hermes lcm dissolve sum_4 apply")
    page.sees("hermes lcm dissolve sum_4 undo")


def test_a_message_is_purged_after_it_was_shown(page: Browser) -> None:
    """The dry run names what goes; then its words are gone from the page too."""
    go(page, view="conversation", session="hostile")
    page.sees("Choose a summary")
    number = page.js("""fetch('/api/plugins/hermes-lcm/prompt?session=hostile&id=1&offset=39', {headers:
      {'X-Hermes-Session-Token': window.__HERMES_SESSION_TOKEN__}}).then((r) => r.json()).then((d) => d.messages[0].id)""")
    go(page, view="conversation", session="hostile", msg=str(number))
    page.sees(r"nginx_proxy is 8059")
    page.click("button", "Purge it for good")
    page.sees("Dry run")
    page.click("button", "Do it")
    page.sees("Working …")  # every file is searched, beside a session of 50,000 messages
    until(lambda: "Working …" not in page.text(), page.text, seconds=300)
    page.sees("Done, and noted")
    assert until(lambda: "nginx_proxy is 8059" not in page.text(), page.text)


def test_the_exam_is_held_and_its_questions_lead_to_messages(page: Browser) -> None:
    """With a bar for each kind."""
    go(page, view="exam", session="hostile")
    page.click("button", "Run the exam now")
    page.sees(r"Run .* about hostile")
    page.sees("one search away")
    page.js("document.querySelectorAll('.lcm-grades').length || (() => { throw new Error('no bar') })()")


def test_a_fact_is_struck_after_it_was_shown_and_taken_back(page: Browser) -> None:
    """The ledger of a conversation; each change stands in the journal."""
    go(page, view="ledger", session="facts")
    page.sees("Always answer in German")
    page.click("button", "Strike")
    page.sees("would be struck")
    page.click("button", "Do it")
    page.sees("struck")
    page.click("button", "Undo")
    page.sees("would be as it was said")
    page.click("button", "Do it")
    page.sees("is as it was said")
    go(page, view="doctor")
    page.sees("hermes lcm ledger strike")
    page.sees("hermes lcm ledger clear")


def test_a_preset_is_taken_over_after_it_was_shown(page: Browser) -> None:
    """By click; the settings show where their value comes from then."""
    go(page, view="settings")
    page.sees("context_threshold")
    page.js("""(() => { const box = document.querySelector('select option[value=economy]').parentElement;
      Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, 'value').set.call(box, 'economy');
      box.dispatchEvent(new Event('change', {bubbles: true})); })()""")
    page.sees(r"context_threshold: 0.75 \(the default\) -> 0.25")
    page.click("button", "Do it")
    page.sees("Written to config.yaml")
    page.sees(r"context_threshold = 0.25")


def test_the_doctor_shows_a_repair_before_it_is_done(page: Browser) -> None:
    """Any verb, in the words of the terminal."""
    go(page, view="doctor")
    page.sees(r"\d+ failed")
    page.js("""(() => { const s = document.querySelector('form select'); s.value = 'doctor repair';
               s.dispatchEvent(new Event('change', {bubbles: true})); })()""")
    page.click("form button", "Look")
    assert page.sees("Nothing to repair|Dry run")


def _longest_task(page: Browser, session: str) -> float:
    """Longest task in milliseconds while a conversation is opened and zoomed in and out; tasks below 50 ms count as 50."""
    page.js("""(() => { window.longest = 50; window.watcher?.disconnect();
      window.watcher = new PerformanceObserver((list) => {
        for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
      });
      window.watcher.observe({entryTypes: ['longtask']}); performance.clearResourceTimings(); })()""")
    go(page, view="conversation", session=session)
    page.place(".lcm-canvas")
    page.js("document.querySelector('.lcm-canvas').focus()")
    for key in "+" * 12 + "]" * 5 + "-" * 12 + "+" * 12:
        page.key(key)
    answers = "performance.getEntriesByType('resource').filter((e) => e.name.includes('/messages')).map((e) => e.decodedBodySize)"
    asked = until(lambda: page.js(answers), "the line of messages was never asked for")
    page.js("new Promise((done) => setTimeout(done, 500))")
    assert max(asked) < 500_000
    return float(page.js("window.longest"))


def test_fifty_thousand_messages_do_not_stall(page: Browser) -> None:
    """Opened and zoomed from all of them to single ones: no task takes much longer than with 500, and what comes is bounded."""
    pairs = [(_longest_task(page, "long"), _longest_task(page, "short")) for _ in range(3)]
    best = min(long for long, _ in pairs) / min(short for _, short in pairs)
    print(f"longest tasks in ms with {LONG:,} and with {SHORT} messages: {pairs}; ratio of the best: {best:.2f}")

    assert best < 4, pairs


@pytest.mark.parametrize("view", ["now", "conversation", "prompt", "search", "money", "settings", "doctor"])
def test_nothing_is_cut_off_at_400_pixels(page: Browser, view: str) -> None:
    """No view is wider than a small telephone."""
    page.resize(400, 800)
    go(page, view=view, session="hostile", sum="5")
    page.sees("Texts are shown")
    page.js("new Promise((done) => setTimeout(done, 1500))")

    wide = page.js("[...document.querySelectorAll('.lcm *')].filter((e) => !e.closest('.lcm-scroll, select') && "
                   "e.getBoundingClientRect().right > 401).map((e) => e.className || e.tagName).slice(0, 5)")  # fmt: skip
    assert wide == []


@pytest.mark.parametrize(("locale", "said"), [
    ("de", "Das Fenster"), ("zh", "上下文窗口"), ("zh-hant", "上下文窗口"),
    *((other, "The window") for other in ("ja", "es", "fr", "tr", "uk", "af", "ko", "it", "ga", "pt", "ru", "hu")),
])  # fmt: skip
def test_the_tab_speaks_the_language_of_the_dashboard(page: Browser, locale: str, said: str) -> None:
    """English where a language is not filled."""
    page.js(f"localStorage.setItem('hermes-locale', '{locale}'); location.reload()")

    assert page.sees(said)


def test_a_conversation_of_the_real_agent_is_seen_as_it_was(tmp_path: Path) -> None:
    """Folded by the host; its prompt is the very text that the model got, and its system prompt is counted."""
    with ModelServer(Turns(busy_turn), limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            host.cli()
            for turn in range(5):
                host.cli_say(text=model.says(sayings(turn)))
            assert host.compactions()
    with dashboard(home) as address, Browser() as browser:
        browser.open(f"{address}/lcm")
        browser.sees(r"System prompt, without tools\s+[1-9][\d,]* tokens")
        browser.sees("This conversation")
        browser.js("location.hash = 'view=prompt'")
        browser.sees("This is exactly what the model saw")
        browser.js("location.hash = 'view=settings'")
        browser.sees("context_threshold")

        assert browser.errors == []


def test_metadata_hides_what_was_said(tmp_path: Path) -> None:
    """The picture stays, without a word."""
    home = Home.make(tmp_path / "home", "http://127.0.0.1:9/v1", settings={"LCM_DASHBOARD": "metadata"})
    world = Stored(home.path)
    world.say(*(f"zebra {n}" for n in range(30)))
    world.node(*range(1, 11), text="of a zebra")
    world.close()
    with dashboard(home) as address, Browser() as browser:
        browser.open(f"{address}/lcm#view=conversation&sum=1")
        browser.sees("Figures only, no texts")
        browser.sees("Texts are hidden by LCM_DASHBOARD=metadata")

        assert "zebra" not in browser.text()


def test_a_file_of_the_earlier_plugin_reads_as_what_it_is(tmp_path: Path) -> None:
    """Nothing on the first page calls it empty, well or failed."""
    home = Home.make(tmp_path / "home", "http://127.0.0.1:9/v1", window=100_000)
    plugin = EarlierPlugin(home.path)
    plugin.store("s1", talk(6))
    plugin.close()
    with dashboard(home) as address, Browser() as browser:
        browser.open(f"{address}/lcm")
        assert browser.sees("written by the earlier hermes-lcm plugin")
        text = browser.text()

    assert "when an agent starts: 6 messages" in text
    assert "hermes lcm adopt --apply" in text
    assert not any(words in text for words in ("No problem is known", "Nothing is stored yet", "failed"))
