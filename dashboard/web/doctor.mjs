// Doctor: findings with failures first, repairs that are shown before they are done, every other verb, and what was done so far.

import { Act, Button, Loaded, Notice, Pager, Panel, act, h, useData, useEffect, useState, useWords } from "./sdk.mjs";

const ORDER = ["fail", "warn", "pass"];

export function Doctor({ place, profile }) {
  const w = useWords();
  const [deep, setDeep] = useState(false);
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState({});
  useEffect(() => {
    setState({});
    let current = true;
    act({ words: deep ? "doctor deep" : "doctor", session: place.session }, profile).then((data) => current && setState({ data }), (why) => current && setState({ error: why.message }));
    return () => {
      current = false;
    };
  }, [deep, turn, place.session, profile]);
  const again = () => setTurn((n) => n + 1);
  return h("div", null,
    h(Panel, { title: w.say("view.doctor"), actions: h("div", { className: "lcm-row" }, h(Button, { onClick: () => { setDeep(false); again(); } }, w.say("again")), h(Button, { onClick: () => { setDeep(true); again(); } }, w.say("doctor.deep"))) },
      h(Loaded, { of: { ...state, again } }, (said) => h(Findings, { said, profile, session: place.session, again, w }))),
    h(Verbs, { place, profile, done: again, w }),
    h(Journal, { profile, turn, w }));
}

function Findings({ said, profile, session, again, w }) {
  const [all, setAll] = useState(false);
  if (!said.data.checks) return h("pre", { className: "lcm-said" }, said.text);
  const checks = [...said.data.checks].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status));
  const bad = checks.filter((each) => each.status !== "pass");
  const shown = all ? checks : bad;
  return h("div", null,
    h("p", null, h("strong", { className: { healthy: "lcm-good", warnings: "lcm-warn", unhealthy: "lcm-bad" }[said.data.overall] }, w.say(`doctor.${said.data.overall}`)), " ", w.say("doctor.counts", said.data.counts)),
    h("ul", { className: "lcm-list" }, shown.map((each) => h("li", { key: each.check, className: `check-${each.status}` },
      h("strong", null, each.check), ": ", each.detail,
      each.meaning ? h("div", { className: "lcm-quiet" }, each.meaning) : null,
      each.remedy ? h("div", null, w.say("doctor.todo"), " ", each.remedy) : null,
      each.command && /^hermes lcm /.test(each.command) ? h(Act, { words: each.command.replace(/^hermes lcm /, "").replace(/ apply$/, ""), label: each.command.replace(/ apply$/, ""), profile, session, done: again }) : null))),
    h(Button, { onClick: () => setAll(!all), "aria-expanded": all }, w.say(all ? "doctor.fewer" : "doctor.all", { n: checks.length })));
}

/** Any verb of the terminal: the same words, the same answer. */
function Verbs({ place, profile, done, w }) {
  const verbs = useData("verbs", { profile });
  const [name, setName] = useState("");
  const [rest, setRest] = useState("");
  const [asked, setAsked] = useState("");
  return h(Panel, { title: w.say("verbs.title") },
    h("p", { className: "lcm-quiet" }, w.say("verbs.about")),
    h(Loaded, { of: verbs }, (said) => {
      const verb = said.verbs.find((each) => each.name === name);
      return h("form", { onSubmit: (event) => { event.preventDefault(); setAsked(`${name} ${rest}`.trim()); } },
        h("div", { className: "lcm-row" },
          h("label", null, "hermes lcm ", h("select", { value: name, "aria-label": w.say("verbs.title"), onChange: (event) => { setName(event.target.value); setRest(""); setAsked(""); } },
            h("option", { value: "" }, "…"), said.verbs.map((each) => h("option", { key: each.name, value: each.name }, each.name)))),
          h("input", { value: rest, "aria-label": w.say("verbs.words"), placeholder: verb ? verb.usage.replace(/\[?apply\]?\|?/, "") : "", onChange: (event) => { setRest(event.target.value); setAsked(""); } }),
          h("button", { type: "submit", className: "lcm-button", disabled: !name }, w.say(verb && !verb.changes ? "run" : "look"))),
        verb ? h("p", { className: "lcm-quiet" }, verb.help) : null,
        asked ? h(Act, { key: asked, words: asked, profile, session: place.session, done, open: true }) : null);
    }));
}

function Journal({ profile, turn, w }) {
  const [offset, setOffset] = useState(0);
  const list = useData("journal", { profile, offset, turn });
  return h(Panel, { title: w.say("journal.title") },
    h(Loaded, { of: list }, (said) => said.entries.length
      ? h("div", null,
          h("ul", { className: "lcm-list" }, said.entries.map((each) => h("li", { key: each.at }, h("time", null, w.time(each.at)), " ", h("code", null, `hermes lcm ${each.words}`), h("div", { className: "lcm-quiet" }, each.said)))),
          h(Pager, { offset, size: 25, more: said.more, go: setOffset }))
      : h("p", null, w.say("journal.nothing"))));
}
