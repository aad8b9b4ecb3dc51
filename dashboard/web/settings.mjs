// Settings: what each is, where its value comes from, what it does; and what a preset would set.

import { Act, Button, Facts, Loaded, Notice, Panel, coded, h, useData, useState, useWords } from "./sdk.mjs";

export function Settings({ place, mode, profile }) {
  const w = useWords();
  const [typed, setTyped] = useState("");
  const [changed, setChanged] = useState(false);
  const [preset, setPreset] = useState("");
  const list = useData("settings", { profile, session: place.session });
  return h(Loaded, { of: list }, (said) => {
    const words = typed.trim().toLowerCase().split(/\s+/);
    const fits = (each) => words.every((word) => `${each.name} ${each.env} ${each.meaning}`.toLowerCase().includes(word)) && (!changed || each.source !== "default");
    const shown = said.settings.filter(fits);
    return h("div", null,
      said.refused.map((each) => h(Notice, { key: each, kind: "error" }, each)),
      h(Panel, { title: w.say("settings.presets") },
        h("label", null, w.say("settings.preset"), " ",
          h("select", { value: preset, onChange: (event) => setPreset(event.target.value) },
            h("option", { value: "" }, "…"), said.presets.map((each) => h("option", { key: each.name, value: each.name }, each.name)))),
        preset ? h("p", { className: "lcm-quiet" }, said.presets.find((each) => each.name === preset).summary) : null,
        preset && mode === "full" ? h(Act, { key: `show ${preset}`, words: `preset show ${preset}`, profile, session: place.session, open: true }) : null,
        preset ? h(Act, { key: preset, words: mode === "full" ? `preset use ${preset}` : `preset show ${preset}`, profile, session: place.session, done: list.again, open: true }) : null),
      h(Panel, { title: w.say("view.settings") },
        h("p", { className: "lcm-quiet" }, w.say("settings.how")),
        h("div", { className: "lcm-row" },
          h("input", { type: "search", value: typed, "aria-label": w.say("settings.filter"), placeholder: w.say("settings.filter"), onChange: (event) => setTyped(event.target.value) }),
          h("label", null, h("input", { type: "checkbox", checked: changed, onChange: (event) => setChanged(event.target.checked) }), w.say("settings.changed")),
          h("span", { className: "lcm-quiet", role: "status" }, w.say("of", { a: w.number(shown.length ? 1 : 0), b: w.number(shown.length), n: w.number(said.settings.length) }))),
        h("ul", { className: "lcm-list" }, shown.map((each) => h("li", { key: each.name },
          h("strong", null, each.name), " = ", each.value === null ? w.say("settings.hidden") : h("code", null, each.value),
          h("div", null, coded(each.meaning)),
          h(Facts, { rows: [
            [w.say("settings.source"), each.source === "default" ? w.say("settings.default") : each.source],
            [w.say("settings.expected"), each.expected],
            [w.say("settings.otherwise"), each.value === each.default ? null : each.default],
            [w.say("settings.env"), h("code", null, each.env)],
          ] }),
          mode === "full" && each.source !== "env" ? h(Change, { each, profile, session: place.session, done: list.again, w }) : null)))));
  });
}

/** Another value: typed, shown as a change, then written. */
function Change({ each, profile, session, done, w }) {
  const [open, setOpen] = useState(false);
  const [value, setValue] = useState("");
  const [words, setWords] = useState("");
  const send = (event) => {
    event.preventDefault();
    setWords(`${each.name} "${value.trim().replace(/["\\]/g, "\\$&")}"`);
  };
  if (!open) return h(Button, { onClick: () => setOpen(true) }, w.say("settings.change"));
  return h("div", null,
    h("form", { className: "lcm-row", onSubmit: send },
      h("input", { value, "aria-label": w.say("settings.value", { name: each.name }), placeholder: each.expected, onChange: (event) => { setValue(event.target.value); setWords(""); } }),
      h("button", { type: "submit", className: "lcm-button", disabled: !value.trim() }, w.say("look")),
      h(Button, { onClick: () => { setOpen(false); setWords(""); } }, w.say("leave"))),
    words && each.replayed ? h(Act, { key: `explain ${words}`, words: `config explain ${words}`, profile, session, open: true }) : null,
    words ? h(Act, { key: words, words: `config set ${words}`, profile, session, done, open: true }) : null);
}
