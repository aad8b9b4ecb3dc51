// Exam: what the agent still knows of this conversation, graded by rule: in the prompt, one look away, or lost.

import { Button, Loaded, Notice, Pager, Panel, h, useData, useState, useWords } from "./sdk.mjs";

const GRADES = ["prompt", "look", "lost"];
const SIZE = 25;

export function Exam({ place, go, profile }) {
  const w = useWords();
  const [turn, setTurn] = useState(0);
  const exam = useData("exam", { profile, session: place.session, ask: turn || undefined });
  return h("div", null,
    h(Panel, { title: w.say("view.exam"), actions: h(Button, { kind: "strong", onClick: () => setTurn((n) => n + 1), disabled: exam.loading }, w.say("exam.ask")) },
      h("p", { className: "lcm-quiet" }, w.say("exam.about")),
      h(Loaded, { of: exam }, (said) => (said.kinds ? h(Grades, { said, w }) : h("p", null, w.say("exam.never"))))),
    exam.data && exam.data.probes ? h(Probes, { key: exam.data.at, probes: exam.data.probes, go, w }) : null);
}

function Grades({ said, w }) {
  const rows = [...Object.entries(said.kinds).map(([kind, counts]) => [w.say(`probe.${kind}`), counts]), [w.say("exam.all"), said.all], [w.say("exam.covered"), said.covered]].filter(([, counts]) => counts && counts.n);
  const percent = (counts, grade) => Math.round((100 * counts[grade]) / counts.n);
  return h("div", null,
    h("p", null, w.say("exam.when", { time: w.time(said.at), name: said.session_id })),
    said.finished_shown_as_open ? h(Notice, null, w.say("exam.reopened", { n: said.finished_shown_as_open })) : null,
    said.prompt_exact === false ? h(Notice, null, w.say("exam.inexact")) : null,
    rows.length ? null : h("p", null, w.say("exam.none")),
    h("p", { className: "lcm-legend" }, GRADES.map((grade) => h("span", { key: grade }, h("i", { className: `lcm-key grade-${grade}` }), w.say(`grade.${grade}`)))),
    h("div", { className: "lcm-scroll" }, h("table", { className: "lcm-table" },
      h("thead", null, h("tr", null, [w.say("exam.kind"), w.say("exam.questions"), ...GRADES.map((grade) => w.say(`grade.${grade}`)), ""].map((text, n) => h("th", { key: n, scope: "col" }, text)))),
      h("tbody", null, rows.map(([name, counts]) => h("tr", { key: name },
        h("th", { scope: "row" }, name), h("td", null, w.number(counts.n)), GRADES.map((grade) => h("td", { key: grade }, `${percent(counts, grade)} %`)),
        h("td", { "aria-hidden": true }, h("span", { className: "lcm-grades" }, GRADES.map((grade) => h("i", { key: grade, className: `grade-${grade}`, style: { width: `${(100 * counts[grade]) / counts.n}%` } }))))))))));
}

/** The questions with their answers, lost ones first. */
function Probes({ probes, go, w }) {
  const [grade, setGrade] = useState(probes.some((each) => each.grade === "lost") ? "lost" : "");
  const [offset, setOffset] = useState(0);
  const shown = probes.filter((each) => !grade || each.grade === grade);
  return h(Panel, { title: w.say("exam.probes") },
    h("label", null, w.say("exam.show"), " ", h("select", { value: grade, onChange: (event) => { setGrade(event.target.value); setOffset(0); } },
      [...GRADES, ""].map((each) => h("option", { key: each, value: each }, `${w.say(each ? `grade.${each}` : "exam.everything")} (${probes.filter((probe) => !each || probe.grade === each).length})`)))),
    shown.length ? null : h("p", null, w.say("exam.nothing")),
    h("ul", { className: "lcm-list" }, shown.slice(offset, offset + SIZE).map((each, n) => h("li", { key: offset + n },
      h("strong", null, each.question), " ", h(Button, { onClick: () => go({ view: "conversation", msg: each.address.split("_")[1], sum: "" }) }, each.address), " ", h("span", { className: "lcm-quiet" }, w.say(`grade.${each.grade}`)),
      h("div", { className: "lcm-quiet" }, each.answer)))),
    h(Pager, { offset, size: SIZE, more: offset + SIZE < shown.length, total: shown.length, go: setOffset }));
}
