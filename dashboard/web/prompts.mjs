// Prompt at: what the model saw at a compaction or at a message, against what was said; and what changed between two compactions.

import { Button, Facts, Loaded, Notice, Pager, Panel, h, useData, useState, useWords } from "./sdk.mjs";

export function Prompts({ place, go, profile }) {
  const w = useWords();
  const [offset, setOffset] = useState(0);
  const list = useData("prompts", { profile, session: place.session, offset });
  return h("div", null,
    h(Panel, { title: w.say("prompt.title") },
      h("p", { className: "lcm-quiet" }, w.say("prompt.about")),
      h(At, { place, go, w }),
      h(Loaded, { of: list }, (said) => h("div", null,
        said.prompts.length ? null : h("p", null, w.say("prompt.none")),
        h("ul", { className: "lcm-list" }, said.prompts.map((each) => h("li", { key: each.id, className: "lcm-row" },
          h(Button, { onClick: () => go({ prompt: each.id, at: "" }), "aria-current": String(each.id) === place.prompt }, w.say("prompt.name", { n: each.id })),
          h("span", null, `${w.time(each.at)} · ${w.many("summaries", each.summaries)} · ${w.many("messages", each.messages)}`),
          place.prompt && String(each.id) !== place.prompt ? h(Button, { onClick: () => go({ with: each.id }) }, w.say("prompt.compare", { n: place.prompt })) : null))),
        h(Pager, { offset, size: 25, more: said.more, go: setOffset })))),
    place.prompt && place.with ? h(Compare, { place, go, profile, key: `${place.prompt} ${place.with}` }) : null,
    h(One, { place, go, profile, key: `${place.prompt} ${place.at} ${place.session}` }));
}

function At({ place, go, w }) {
  const [typed, setTyped] = useState(place.at ? `msg_${place.at}` : "");
  const number = typed.trim().replace(/^msg_/, "");
  return h("form", { className: "lcm-row", onSubmit: (event) => { event.preventDefault(); go({ at: number, prompt: "", with: "" }); } },
    h("label", null, w.say("prompt.at"), " ", h("input", { value: typed, onChange: (event) => setTyped(event.target.value), placeholder: "msg_120", size: 12 })),
    h("button", { type: "submit", className: "lcm-button", disabled: !/^\d+$/.test(number) }, w.say("look")));
}

function One({ place, go, profile }) {
  const w = useWords();
  const [offset, setOffset] = useState(0);
  const prompt = useData("prompt", { profile, session: place.session, id: place.prompt, at: place.at, offset });
  return h(Loaded, { of: prompt }, (said) =>
    h(Panel, { title: place.at ? w.say("prompt.atmessage", { n: place.at }) : said.id ? w.say("prompt.name", { n: said.id }) : w.say("prompt.whole") },
      said.id ? h(Notice, { kind: said.exact ? "good" : "" }, w.say(said.exact ? "prompt.exact" : "prompt.near")) : null,
      h("div", { className: "lcm-sides" },
        h("div", null,
          h("h3", null, w.say("prompt.saw")),
          said.summaries.map((each) => h(Folded, { key: each.id, each, go, w })),
          said.state ? h("details", { className: "lcm-source" }, h("summary", null, w.say("part.state")), h("pre", { className: "lcm-text" }, said.state)) : null),
        h("div", null,
          h("h3", null, w.say("prompt.raw", { n: w.many("messages", said.total) })),
          said.messages.map((each) => h("article", { key: each.id, className: "lcm-source" },
            h("header", null, h(Button, { onClick: () => go({ view: "conversation", msg: each.id, sum: "" }) }, `msg_${each.id}`), " ", w.say(`role.${["user", "assistant", "tool"].includes(each.role) ? each.role : "other"}`), each.tool ? ` ${each.tool}` : "", " ", h("time", null, w.time(each.at))),
            each.text === undefined ? null : h("pre", { className: "lcm-text" }, each.text))),
          h(Pager, { offset, size: said.limit, total: said.total, more: offset + said.limit < said.total, go: setOffset })))));
}

/** A summary of the prompt, and a way to what was said. */
function Folded({ each, go, w }) {
  return h("article", { className: "lcm-source" },
    h("header", null,
      h(Button, { onClick: () => go({ view: "conversation", sum: each.id, msg: "" }) }, `sum_${each.id}`), " ",
      w.say("depth", { n: each.depth }), " · ", w.say("prompt.standsfor", { messages: w.many("messages", each.messages) }), " · ", `${w.time(each.from)} – ${w.time(each.to)}`),
    each.text === undefined ? null : h("pre", { className: "lcm-text" }, each.text));
}

function Compare({ place, go, profile }) {
  const w = useWords();
  const both = useData("compare", { profile, session: place.session, a: Math.min(place.prompt, place.with), b: Math.max(place.prompt, place.with) });
  return h(Loaded, { of: both }, (said) =>
    h(Panel, { title: w.say("compare.title", { a: said.a, b: said.b }), actions: h(Button, { onClick: () => go({ with: "" }) }, w.say("close")) },
      h(Facts, { rows: [
        [w.say("compare.folded"), w.many("messages", said.folded)],
        [w.say("compare.left"), w.many("messages", said.left)],
        [w.say("compare.came"), w.many("messages", said.came)],
        [w.say("compare.stayed"), w.many("messages", said.stayed)],
        [w.say("compare.kept"), w.many("summaries", said.kept.length)],
      ] }),
      h("div", { className: "lcm-sides" },
        h("div", null, h("h3", null, w.say("compare.gone")), said.gone.map((each) => h(Folded, { key: each.id, each, go, w }))),
        h("div", null, h("h3", null, w.say("compare.new")), said.new.map((each) => h(Folded, { key: each.id, each, go, w }))))));
}
