// What all views share: React from the host, requests, words in the user's language, numbers, small parts.
// Text is only ever given to React as a child. Stored messages are hostile: no view builds HTML from a string.

const sdk = window.__HERMES_PLUGIN_SDK__;
export const h = sdk.React.createElement;
export const { Fragment } = sdk.React;
export const { useState, useEffect, useMemo, useRef, useCallback } = sdk.hooks;
const context = sdk.hooks.createContext || sdk.React.createContext;
const PLUGIN = "hermes-lcm";

// -- requests -----------------------------------------------------------------------------------------------------------
function address(page, params) {
  const typed = Object.entries(params || {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(typed).toString();
  return `/api/plugins/${PLUGIN}/${page}${query ? `?${query}` : ""}`;
}

/** The host's errors read "503: {...}"; ours hold words for people. */
function explained(error) {
  const text = String((error && error.message) || error);
  const body = text.replace(/^\d{3}: /, "");
  try {
    const said = JSON.parse(body);
    return [said.error || said.detail || text, said.remedy].filter(Boolean).join(" ");
  } catch {
    return text;
  }
}

export const ask = (page, params) =>
  sdk.fetchJSON(address(page, params)).catch((error) => Promise.reject(new Error(explained(error))));

export const act = (body, profile) =>
  sdk
    .fetchJSON(address("run", { profile }), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    })
    .catch((error) => Promise.reject(new Error(explained(error))));

/** Data of a page, asked for again whenever an argument changes. An older answer never replaces a newer one. */
export function useData(page, params) {
  const key = page && JSON.stringify([page, params]);
  const [state, setState] = useState({ key: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!page) return undefined;
    let current = true;
    ask(page, params).then(
      (data) => current && setState({ key, data }),
      (error) => current && setState({ key, error: error.message }),
    );
    return () => {
      current = false;
    };
  }, [key, turn]);
  const fresh = state.key === key;
  return { ...state, loading: Boolean(page) && !fresh, error: fresh ? state.error : "", again: () => setTurn((n) => n + 1) };
}

export const profiles = () => sdk.fetchJSON("/api/profiles").catch(() => ({ profiles: [] }));

// -- words --------------------------------------------------------------------------------------------------------------
const FILLED = ["en", "de", "zh"];
export const Words = context(null);
export const useWords = () => (sdk.hooks.useContext || sdk.React.useContext)(Words);

const file = (language) => sdk.fetchJSON(`/dashboard-plugins/${PLUGIN}/web/languages/${language}.json`);

/** Words in the language of the dashboard, English where a language or a word is missing. */
export function useLanguage() {
  const { locale } = (sdk.useI18n || (() => ({ locale: "en" })))();
  const [words, setWords] = useState(null);
  useEffect(() => {
    const wanted = String(locale || "en").split("-")[0];
    const other = FILLED.includes(wanted) ? wanted : "en";
    Promise.all([file("en"), file(other)]).then(([base, own]) => setWords(worded({ ...base, ...own }, locale || "en")));
  }, [locale]);
  return words;
}

function worded(texts, locale) {
  const plural = new Intl.PluralRules(locale);
  const numbers = new Intl.NumberFormat(locale);
  const cents = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const small = new Intl.NumberFormat(locale, { minimumFractionDigits: 2, maximumFractionDigits: 4 });
  const times = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
  const clock = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });
  const say = (key, values) => {
    const text = texts[key] === undefined ? key : texts[key];
    return text.replace(/\{(\w+)\}/g, (whole, name) => (values && name in values ? String(values[name]) : whole));
  };
  return {
    say,
    /** So many things: the form of the word that the language has for that number. */
    many: (key, count) => say(`${key}.${texts[`${key}.${plural.select(count)}`] ? plural.select(count) : "other"}`, { n: numbers.format(count) }),
    number: (value) => numbers.format(value || 0),
    money: (value) => (Math.abs(value) < 0.1 ? small : cents).format(value || 0),
    clock: (seconds) => clock.format(new Date(seconds * 1000)),
    time: (seconds) => (seconds ? times.format(new Date(seconds * 1000)) : "–"),
  };
}

// -- where the page stands: kept in the address, so that it can be linked and the browser's back works --------------------
const read = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

export function usePlace() {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const changed = () => setPlace(read());
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  const go = useCallback((changes) => {
    const next = Object.entries({ ...read(), ...changes }).filter(([, value]) => value);
    location.hash = new URLSearchParams(next).toString();
  }, []);
  return [place, go];
}

// -- small parts --------------------------------------------------------------------------------------------------------
export function Button({ onClick, children, kind, ...rest }) {
  return h("button", { type: "button", className: `lcm-button ${kind || ""}`, onClick, ...rest }, children);
}

/** What is to be shown of a request: that it runs, what went wrong, or its answer. */
export function Loaded({ of, children }) {
  const w = useWords();
  if (of.error) return h(Notice, { kind: "error" }, of.error, " ", h(Button, { onClick: of.again }, w.say("again")));
  if (!of.data) return h("p", { role: "status", className: "lcm-quiet" }, w.say("loading"));
  return h("div", { "aria-busy": of.loading }, children(of.data));
}

export function Notice({ kind, children }) {
  return h("div", { className: `lcm-notice ${kind || ""}`, role: kind === "error" ? "alert" : "status" }, children);
}

export function Panel({ title, actions, children, ...rest }) {
  return h(
    "section",
    { className: "lcm-panel", ...rest },
    title ? h("header", null, h("h2", null, title), actions) : null,
    children,
  );
}

/** Earlier and later pages of a list that is answered from an offset on. */
export function Pager({ offset, size, more, total, go }) {
  const w = useWords();
  if (!offset && !more) return null;
  const shown = total === undefined ? w.say("from.on", { n: w.number(offset + 1) }) : w.say("of", { a: w.number(offset + 1), b: w.number(Math.min(total, offset + size)), n: w.number(total) });
  return h(
    "nav",
    { className: "lcm-pager", "aria-label": w.say("pages") },
    h(Button, { onClick: () => go(Math.max(0, offset - size)), disabled: !offset }, w.say("previous")),
    h("span", null, shown),
    h(Button, { onClick: () => go(offset + size), disabled: !more }, w.say("next")),
  );
}

/** Names and values in two columns. */
export function Facts({ rows }) {
  return h(
    "dl",
    { className: "lcm-facts" },
    rows.filter((row) => row && row[1] !== undefined && row[1] !== null && row[1] !== "").map(([name, value]) =>
      h(Fragment, { key: name }, h("dt", null, name), h("dd", null, value)),
    ),
  );
}

/** A text in which names stand between backticks. */
export const coded = (text) => text.split("`").map((part, n) => (n % 2 ? h("code", { key: n }, part) : part));

/** A text in which some terms are marked. */
export function Marked({ text, terms }) {
  if (!terms || !terms.length) return text;
  const escaped = [...terms].sort((a, b) => b.length - a.length).map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text.split(new RegExp(`(${escaped.join("|")})`)).map((part, n) => (n % 2 ? h("mark", { key: n }, part) : part));
}

// -- a verb that changes something: shown first, then done -----------------------------------------------------------------
export function Act({ words, label, profile, session, done, open }) {
  const w = useWords();
  const [shown, setShown] = useState(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const send = (more) => {
    setBusy(true);
    setError("");
    act({ words, session, ...more }, profile)
      .then((answer) => {
        setShown(answer);
        if (answer.applied && done) done(answer);
      }, (why) => setError(why.message))
      .finally(() => setBusy(false));
  };
  useEffect(() => {
    setShown((was) => (was && was.applied ? was : null)); // what was done a moment ago may be why the words are others
    setError("");
    if (open) send();
  }, [words, session, profile]);
  const ready = shown && shown.changes && !shown.applied && shown.code < 2;
  return h(
    "div",
    { className: "lcm-act" },
    open && shown ? null : h(Button, { onClick: () => send(), disabled: busy }, label || w.say("look")),
    error ? h(Notice, { kind: "error" }, error) : null,
    shown ? h("pre", { className: "lcm-said", tabIndex: 0, "aria-label": `hermes lcm ${shown.words}` }, shown.text) : null,
    ready
      ? h("div", { className: "lcm-row" },
          h(Button, { kind: "strong", disabled: busy, onClick: () => send({ apply: true, seen: shown.seen }) }, w.say("apply")),
          h(Button, { onClick: () => setShown(null) }, w.say("leave")),
          h("span", { className: "lcm-quiet" }, w.say("apply.note")))
      : null,
    busy ? h("p", { className: "lcm-quiet", role: "status" }, w.say("working")) : null,
    shown && shown.applied ? h(Notice, { kind: "good" }, w.say("applied")) : null,
  );
}
