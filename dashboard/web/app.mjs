// The frame: whose data this is, the choice of profile and session, and the views as tabs.

import { Button, Loaded, Notice, Words, ask, h, profiles, useData, useEffect, useLanguage, usePlace, useState } from "./sdk.mjs";
import { Conversation } from "./conversation.mjs";
import { Doctor } from "./doctor.mjs";
import { Exam } from "./exam.mjs";
import { Ledger } from "./ledger.mjs";
import { Money } from "./money.mjs";
import { Now } from "./now.mjs";
import { Prompts } from "./prompts.mjs";
import { Search } from "./search.mjs";
import { Settings } from "./settings.mjs";

const VIEWS = { now: Now, conversation: Conversation, prompt: Prompts, search: Search, exam: Exam, ledger: Ledger, money: Money, settings: Settings, doctor: Doctor };

export function App() {
  const words = useLanguage();
  const [place, go] = usePlace();
  const about = useData("about", { profile: place.profile });
  if (!words) return h("p", { role: "status" }, "…");
  const view = VIEWS[place.view] ? place.view : "now";
  return h(
    Words.Provider,
    { value: words },
    h(
      "div",
      { className: "lcm" },
      h(Head, { place, go, about, words }),
      h(Tabs, { view, go, words }),
      h("div", { role: "tabpanel", id: "lcm-panel", "aria-labelledby": `lcm-tab-${view}` },
        h(Loaded, { of: about }, (said) =>
          h(VIEWS[view], { place, go, mode: said.mode, profile: place.profile || "", key: `${view} ${place.profile || ""}` }))),
    ),
  );
}

function Head({ place, go, about, words: w }) {
  const [known, setKnown] = useState([]);
  useEffect(() => {
    profiles().then((found) => setKnown((found.profiles || []).map((each) => each.name).filter(Boolean)));
  }, []);
  const said = about.data;
  return h(
    "header",
    { className: "lcm-head" },
    h("p", null,
      said ? w.say("whose", { home: said.home }) : "…", " ",
      h("strong", null, said && said.mode === "metadata" ? w.say("mode.metadata") : w.say("mode.full"))),
    h("div", { className: "lcm-row" },
      known.length > 1
        ? h("label", null, w.say("profile"), " ",
            h("select", { value: place.profile || "", onChange: (event) => go({ profile: event.target.value, session: "", sum: "", msg: "" }) },
              h("option", { value: "" }, w.say("profile.current")),
              known.map((name) => h("option", { key: name, value: name }, name))))
        : null,
      h(SessionChoice, { place, go, w })),
  );
}

function SessionChoice({ place, go, w }) {
  const list = useData("sessions", { profile: place.profile, limit: 50 });
  const found = (list.data && list.data.sessions) || [];
  if (!found.length) return null;
  const known = found.some((each) => each.session_id === place.session);
  return h("label", null, w.say("session"), " ",
    h("select", { value: place.session || "", onChange: (event) => go({ session: event.target.value, sum: "", msg: "", prompt: "", at: "" }) },
      h("option", { value: "" }, w.say("session.newest", { name: found[0].title || found[0].session_id })),
      place.session && !known ? h("option", { value: place.session }, place.session) : null,
      found.map((each) => h("option", { key: each.session_id, value: each.session_id },
        `${each.title || each.session_id} · ${w.many("messages", each.messages)}`))));
}

/** Tabs as the ARIA practices have them: one of them in the tab order, arrows between them. */
function Tabs({ view, go, words: w }) {
  const names = Object.keys(VIEWS);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? names.length - 1 : step && (names.indexOf(view) + step + names.length) % names.length;
    if (to === undefined) return;
    event.preventDefault();
    go({ view: names[to] });
    document.getElementById(`lcm-tab-${names[to]}`).focus();
  };
  return h("div", { role: "tablist", className: "lcm-tabs", "aria-label": "LCM", onKeyDown: move },
    names.map((name) =>
      h("button", {
        key: name, type: "button", role: "tab", id: `lcm-tab-${name}`, "aria-selected": name === view, "aria-controls": "lcm-panel",
        tabIndex: name === view ? 0 : -1, onClick: () => go({ view: name }),
      }, w.say(`view.${name}`))));
}
