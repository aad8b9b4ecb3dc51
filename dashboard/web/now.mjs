// Now: how full the window is and with what, what the next compaction would fold, health in words, money.

import { Button, Facts, Loaded, Notice, Panel, h, useData, useWords } from "./sdk.mjs";

export function Now({ place, go, profile }) {
  const w = useWords();
  const now = useData("now", { profile, session: place.session });
  return h(Loaded, { of: now }, (said) =>
    h("div", { className: "lcm-grid" },
      said.engine === "lcm" ? null : h(Notice, null, w.say("now.other", { engine: said.engine })),
      said.window ? h(Window, { said, w }) : h(Panel, { title: w.say("now.window") }, h("p", null, nothing(said, w))),
      h(Health, { said, go, w }),
      said.window ? h(Next, { said, go, w }) : null,
      said.money && said.money.total ? h(Spent, { money: said.money, go, w }) : null,
      said.window ? h(Kept, { said, w }) : null));
}

/** Why no window is shown: nothing was stored, or the earlier plugin's file is still to be taken over. */
function nothing({ database }, w) {
  if (database.state !== "earlier") return w.say("now.empty");
  return w.say("now.earlier", { messages: w.many("messages", database.messages || 0) });
}

const named = (part, w) => (part.kind === "summaries" ? w.say("part.summaries", { depth: part.depth }) : w.say(`part.${part.kind}`));

function Window({ said, w }) {
  const { size, threshold, used, parts } = said.window;
  const share = (tokens) => `${(100 * tokens) / Math.max(size, used)}%`;
  const words = w.say("now.used", { used: w.number(used), size: w.number(size), percent: Math.round((100 * used) / size) });
  return h(Panel, { title: w.say("now.window") },
    h("p", null, words),
    h("div", { className: "lcm-bar", role: "img", "aria-label": [words, ...parts.map((part) => `${named(part, w)}: ${w.number(part.tokens)}`)].join("; ") },
      parts.map((part, n) => h("span", { key: n, className: `part-${part.kind} depth-${Math.min(part.depth || 0, 3)}`, style: { width: share(part.tokens) }, title: named(part, w) })),
      h("i", { className: "lcm-threshold", style: { left: share(threshold) }, title: w.say("threshold", { n: w.number(threshold) }) })),
    h("table", { className: "lcm-table" },
      h("tbody", null,
        parts.map((part, n) => h("tr", { key: n },
          h("th", { scope: "row" }, h("span", { className: `lcm-key part-${part.kind} depth-${Math.min(part.depth || 0, 3)}` }), named(part, w)),
          h("td", null, part.count === undefined ? "" : w.many(part.kind === "tail" ? "messages" : "summaries", part.count)),
          h("td", null, part.known === false ? w.say("unknown") : w.many("tokens", part.tokens)))),
        h("tr", null, h("th", { scope: "row" }, h("span", { className: "lcm-key threshold" }), w.say("threshold.name")), h("td", null, said.threshold_source), h("td", null, w.many("tokens", threshold))))),
    h("p", { className: "lcm-quiet" }, w.say("now.reckoned")));
}

function Next({ said, go, w }) {
  const next = said.next;
  if (!next) return h(Panel, { title: w.say("now.next") }, h("p", null, w.say("now.never")));
  return h(Panel, { title: w.say("now.next") },
    h("p", null, next.left ? w.say("now.left", { n: w.number(next.left) }) : w.say("now.due")),
    h("p", null, next.messages ? w.say("now.folds", { messages: w.many("messages", next.messages), tokens: w.number(next.tokens), stay: w.many("messages", next.stay) }) : w.say("now.nothing")),
    next.first ? h(Button, { onClick: () => go({ view: "conversation", msg: next.first, sum: "" }) }, `msg_${next.first} – msg_${next.last}`) : null);
}

function Health({ said, go, w }) {
  const bad = said.problems || [];
  const refused = said.refused_settings || [];
  return h(Panel, { title: w.say("now.health"), actions: h(Button, { onClick: () => go({ view: "doctor" }) }, w.say("view.doctor")) },
    bad.length || refused.length
      ? h("ul", { className: "lcm-list" },
          bad.map((each) => h("li", { key: each.topic },
            h("strong", { className: each.severity === "error" ? "lcm-bad" : "lcm-warn" }, each.topic), ": ", each.message,
            each.remedy ? h("div", { className: "lcm-quiet" }, each.remedy) : null)),
          refused.map((each) => h("li", { key: each }, each)))
      : said.database.state === "earlier"
        ? h("p", null, w.say("now.adopt"))
        : h("p", null, h("span", { className: "lcm-good" }, "✓ "), w.say("now.well")));
}

export function Spent({ money, go, w }) {
  return h(Panel, { title: w.say("now.money"), actions: go ? h(Button, { onClick: () => go({ view: "money" }) }, w.say("view.money")) : null },
    h(Facts, { rows: [
      [w.say("money.all"), w.say("dollars", { n: w.money(money.total.money) })],
      [w.say("money.session"), w.say("dollars", { n: w.money(money.session.money) })],
      [w.say("money.summaries"), w.say("dollars", { n: w.money(money.total.summary_money) })],
      [w.say("money.host"), money.host_estimate === null ? null : w.say("dollars", { n: w.money(money.host_estimate) })],
      [w.say(money.saved < 0 ? "money.more" : "money.saved"), money.saved === null ? null : h("strong", null, w.say("dollars", { n: w.money(Math.abs(money.saved)) }))],
    ] }),
    h("p", { className: "lcm-quiet" }, priced(money.prices, w)));
}

/** Whose prices they are. Where the host knows none of this model, the assumed ones are told. */
function priced({ source, main: [read, cached, written] }, w) {
  if (source === "local") return w.say("money.local");
  return source === "stated" ? w.say("money.assumed", { read, cached, written }) : w.say("money.prices");
}

function Kept({ said, w }) {
  const store = said.store || {};
  return h(Panel, { title: w.say("now.kept") },
    h(Facts, { rows: [
      [w.say("session"), said.session_id],
      [w.say("kept.here"), store.conversation_messages === undefined ? null : w.many("messages", store.conversation_messages)],
      [w.say("kept.all"), store.total_messages === undefined ? null : w.many("messages", store.total_messages)],
      [w.say("kept.summaries"), said.dag && said.dag.nodes !== undefined ? w.many("summaries", said.dag.nodes) : null],
      [w.say("kept.file"), said.database && said.database.path],
    ] }));
}
