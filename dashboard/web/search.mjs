// Search: the answers of lcm_grep, with filters, and why each hit stands where it stands.

import { Button, Notice, Panel, ask, h, useEffect, useState, useWords } from "./sdk.mjs";

const EMPTY = { query: "", where: "all", role: "", sort: "relevance", mode: "", time_from: "", time_to: "" };

export function Search({ place, go, mode, profile }) {
  const w = useWords();
  const [form, setForm] = useState({ ...EMPTY, query: place.q || "" });
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const set = (name) => (event) => setForm({ ...form, [name]: event.target.value });
  const search = (cursor) => {
    setBusy(true);
    setError("");
    ask("search", { ...form, cursor, profile, session: place.session })
      .then((answer) => setFound((before) => (cursor ? { ...answer, results: [...before.results, ...answer.results] } : answer)), (why) => setError(why.message))
      .finally(() => setBusy(false));
  };
  useEffect(() => { if (mode === "full" && form.query) search(); }, []); // a link, or Back from a hit
  if (mode !== "full") return h(Notice, null, w.say("mode.hidden"));
  const choice = (name, values) => h("label", null, w.say(`search.${name}`), " ",
    h("select", { value: form[name], onChange: set(name) }, values.map((value) => h("option", { key: value, value }, w.say(`search.${name}.${value || "any"}`)))));
  return h(Panel, { title: w.say("view.search") },
    h("form", { role: "search", onSubmit: (event) => { event.preventDefault(); go({ q: form.query }); search(); } },
      h("div", { className: "lcm-row" },
        h("input", { type: "search", "aria-label": w.say("search.words"), placeholder: w.say("search.words"), value: form.query, onChange: set("query") }),
        h("button", { type: "submit", className: "lcm-button strong", disabled: busy || !form.query.trim() }, w.say("search.go"))),
      h("div", { className: "lcm-row" },
        choice("where", ["all", "here"]), choice("role", ["", "user", "assistant", "tool"]), choice("sort", ["relevance", "recency", "hybrid", "time"]), choice("mode", ["", "regex"]),
        h("label", null, w.say("search.from"), " ", h("input", { type: "date", value: form.time_from, onChange: set("time_from") })),
        h("label", null, w.say("search.to"), " ", h("input", { type: "date", value: form.time_to, onChange: set("time_to") })))),
    error ? h(Notice, { kind: "error" }, error) : null,
    found ? h(Results, { found, go, w, more: () => search(found.next_cursor), busy }) : null);
}

function Results({ found, go, w, more, busy }) {
  const best = Math.max(1e-9, ...found.results.map((hit) => (hit.reasons ? hit.reasons.score : 0)));
  return h("div", { "aria-live": "polite" },
    h("p", null, w.say(found.total_is_lower_bound ? "search.atleast" : "search.total", { n: w.number(found.total_results) })),
    (found.notes || []).map((note) => h("p", { key: note, className: "lcm-quiet" }, note)),
    found.results.length ? null : h("p", null, (found.nearest_terms || []).length ? w.say("search.nearest", { terms: found.nearest_terms.join(", ") }) : w.say("search.nothing")),
    h("ol", { className: "lcm-list" }, found.results.map((hit) => h(Hit, { key: hit.address, hit, best, go, w }))),
    found.has_more && found.next_cursor ? h(Button, { onClick: more, disabled: busy }, w.say("search.more")) : null);
}

function Hit({ hit, best, go, w }) {
  const summary = hit.type === "summary";
  const number = hit.address.split("_")[1];
  const open = () => go({ view: "conversation", session: hit.session_id || "", sum: summary ? number : "", msg: summary ? "" : number });
  return h("li", { className: hit.match === "near" ? "near" : "" },
    h("header", null, h(Button, { onClick: open }, hit.address), " ", summary ? w.say("role.summary") : w.say(`role.${["user", "assistant", "tool"].includes(hit.role) ? hit.role : "other"}`), hit.tool_name ? ` ${hit.tool_name}` : "", " ", h("time", null, hit.time ? w.time(Date.parse(hit.time) / 1000) : ""), " ", h("span", { className: "lcm-quiet" }, hit.session_id)),
    h("pre", { className: "lcm-text" }, hit.snippet || hit.text || ""),
    h("p", { className: "lcm-why" }, h("strong", null, w.say("search.why"), " "), reasons(hit, best, w).map((each) => h("span", { key: each }, each))));
}

/** The reasons in words: how it matched, then the signals that raised it above the other candidates. */
function reasons(hit, best, w) {
  const out = [w.say(`match.${hit.match || "any"}`)];
  const why = hit.reasons || { raised_by: {} };
  for (const [name, amount] of Object.entries(why.raised_by)) out.push(`${w.say(`signal.${name}`)} +${amount.toFixed(1)}`);
  if (why.score !== undefined) out.push(w.say("search.score", { n: Math.round((100 * why.score) / best) }));
  return [...new Set(out)];
}
