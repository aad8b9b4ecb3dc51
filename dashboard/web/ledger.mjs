// Ledger: the facts that were stated in this conversation, each a quotation; pin, strike, correct, each shown before it is done.

import { Act, Button, Loaded, Notice, Pager, Panel, h, useData, useState, useWords } from "./sdk.mjs";

const KINDS = ["rule", "decision", "name", "value", "date"];
const SIZE = 25;

export function Ledger({ place, go, mode, profile }) {
  const w = useWords();
  const [typed, setTyped] = useState("");
  const [about, setAbout] = useState("");
  const [kind, setKind] = useState("");
  const [offset, setOffset] = useState(0);
  const [turn, setTurn] = useState(0);
  const list = useData("ledger", { profile, session: place.session, about, kind, offset, turn });
  const full = mode === "full";
  return h("div", null,
    h(Panel, { title: w.say("view.ledger") },
      h("p", { className: "lcm-quiet" }, w.say("ledger.about")),
      full ? h("form", { role: "search", className: "lcm-row", onSubmit: (event) => { event.preventDefault(); setOffset(0); setAbout(typed); } },
        h("input", { type: "search", value: typed, "aria-label": w.say("ledger.words"), placeholder: w.say("ledger.words"), onChange: (event) => setTyped(event.target.value) }),
        h("label", null, w.say("ledger.kind"), " ", h("select", { value: kind, onChange: (event) => { setKind(event.target.value); setOffset(0); } }, ["", ...KINDS].map((each) => h("option", { key: each, value: each }, w.say(each ? `fact.${each}` : "exam.everything"))))),
        h("button", { type: "submit", className: "lcm-button" }, w.say("search.go"))) : h(Notice, null, w.say("mode.hidden")),
      h(Loaded, { of: list }, (said) => h("div", null,
        h(Kinds, { kinds: said.kinds, w }),
        said.contradictions ? h(Notice, null, w.say("ledger.contradictions", { n: said.contradictions })) : null,
        said.behind ? h(Notice, null, w.say("ledger.behind"), " ", h(Button, { onClick: list.again }, w.say("again"))) : null,
        said.entries ? h(Entries, { said, go, profile, session: place.session, done: () => setTurn((n) => n + 1), w }) : null,
        h(Pager, { offset, size: SIZE, more: said.more, total: said.total, go: setOffset })))));
}

/** How many of each kind, as bars. */
function Kinds({ kinds, w }) {
  const most = Math.max(1, ...Object.values(kinds));
  const there = KINDS.filter((kind) => kinds[kind]);
  if (!there.length) return h("p", null, w.say("ledger.nothing"));
  return h("table", { className: "lcm-table lcm-kinds" }, h("tbody", null, there.map((kind) => h("tr", { key: kind },
    h("th", { scope: "row" }, w.say(`fact.${kind}`)), h("td", null, w.number(kinds[kind])),
    h("td", { "aria-hidden": true }, h("span", { className: "lcm-grades" }, h("i", { className: "plot-requests", style: { width: `${(100 * kinds[kind]) / most}%` } })))))));
}

function Entries({ said, go, profile, session, done, w }) {
  return h("ul", { className: "lcm-list" }, said.entries.map((each) => h("li", { key: each.entry, className: `mark-${each.mark || "none"}` },
    h("header", null,
      h("strong", null, w.say(`fact.${each.what}`)), " ", h(Button, { onClick: () => go({ view: "conversation", msg: each.address.split("_")[1], sum: "" }) }, each.address), " ",
      h("span", { className: "lcm-quiet" }, [each.at.slice(0, 10), each.said_by, each.times ? w.say("ledger.times", { n: each.times }) : ""].filter(Boolean).join(" · ")),
      each.mark ? h("strong", { className: "lcm-warn" }, ` ${w.say(`mark.${each.mark}`)}`) : null),
    h("blockquote", { className: "lcm-text" }, each.quote),
    each.correction ? h("div", null, w.say("ledger.right"), " ", each.correction) : null,
    ["replaces", "replaced_by", "contradicts"].filter((name) => each[name]).map((name) => h("div", { key: name, className: "lcm-quiet" }, w.say(`ledger.${name}`, { name: `msg_${each[name].split(".")[0]}` }))),
    h(Marks, { entry: each, profile, session, done, w }))));
}

function Marks({ entry, profile, session, done, w }) {
  const [right, setRight] = useState("");
  const [chosen, setChosen] = useState("");
  const words = { pin: `ledger pin ${entry.entry}`, strike: `ledger strike ${entry.entry}`, clear: `ledger clear ${entry.entry}`, correct: right };
  const offered = entry.mark ? ["pin", "strike", "correct", "clear"] : ["pin", "strike", "correct"];
  return h("div", null,
    h("div", { className: "lcm-row" }, offered.map((name) => h(Button, { key: name, "aria-pressed": chosen === name, onClick: () => { setChosen(chosen === name ? "" : name); setRight(""); } }, w.say(`ledger.${name}`)))),
    chosen === "correct" && !right ? h(Correction, { entry, send: setRight, w }) : null,
    chosen && words[chosen] ? h(Act, { key: words[chosen], words: words[chosen], profile, session, done, open: true }) : null);
}

function Correction({ entry, send, w }) {
  const [text, setText] = useState("");
  const quoted = () => `"${text.trim().replace(/["\\]/g, "\\$&")}"`;
  return h("form", { className: "lcm-row", onSubmit: (event) => { event.preventDefault(); send(`ledger correct ${entry.entry} ${quoted()}`); } },
    h("input", { value: text, "aria-label": w.say("ledger.instead"), placeholder: w.say("ledger.instead"), onChange: (event) => setText(event.target.value) }),
    h("button", { type: "submit", className: "lcm-button", disabled: !text.trim() }, w.say("look")));
}
