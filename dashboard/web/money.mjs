// Money: what was spent by day, what each compaction cost and has earned, and what the host's own compressor would have cost.

import { Loaded, Notice, Panel, h, useData, useWords } from "./sdk.mjs";
import { Spent } from "./now.mjs";

const MOST_DAYS = 60;
const MOST_FOLDS = 50;

export function Money({ place, profile }) {
  const w = useWords();
  const now = useData("now", { profile, session: place.session });
  return h(Loaded, { of: now }, ({ money }) => {
    if (!money || !money.total) return h(Notice, null, (money && money.error) || w.say("now.empty"));
    if (!money.days.length) return h(Notice, null, w.say("money.nothing"));
    const folds = money.days.flatMap((day) => day.folds.map((fold) => ({ ...fold, day: day.day }))).slice(-MOST_FOLDS).reverse();
    return h("div", null,
      h(Spent, { money, w }),
      h(Panel, { title: w.say("money.days") }, h(Plot, { days: money.days.slice(-MOST_DAYS), w })),
      h(Panel, { title: w.say("money.folds") }, folds.length ? h(Folds, { folds, w }) : h("p", null, w.say("money.nofolds"))),
      h("p", { className: "lcm-quiet" }, w.say("money.formula"), " ", money.formula));
  });
}

/** Dollars by day, the summaries' part of them below. A table says the same to those who cannot see it. */
function Plot({ days, w }) {
  const most = Math.max(...days.map((day) => day.money), 1e-9);
  const wide = 720 / days.length;
  const bar = (day, n) => {
    const tall = (135 * day.money) / most;
    const summaries = (135 * day.summary_money) / most;
    return h("g", { key: day.day },
      h("title", null, `${day.day}: ${w.say("dollars", { n: w.money(day.money) })}`),
      h("rect", { x: n * wide + 1, y: 160 - tall, width: Math.max(1, Math.min(60, wide - 2)), height: tall - summaries, className: "plot-requests" }),
      h("rect", { x: n * wide + 1, y: 160 - summaries, width: Math.max(1, Math.min(60, wide - 2)), height: summaries, className: "plot-summaries" }));
  };
  return h("div", null,
    h("svg", { viewBox: "0 0 720 180", className: "lcm-plot", role: "img", "aria-label": w.say("money.plot", { n: days.length, most: w.money(most) }) },
      days.map(bar),
      h("text", { x: 2, y: 176 }, days[0].day), h("text", { x: 718, y: 176, textAnchor: "end" }, days.length > 1 ? days[days.length - 1].day : ""), h("text", { x: 2, y: 14 }, w.say("dollars", { n: w.money(most) }))),
    h("p", { className: "lcm-legend" }, h("span", null, h("i", { className: "lcm-key plot-requests" }), w.say("money.requests")), h("span", null, h("i", { className: "lcm-key plot-summaries" }), w.say("money.summaries"))),
    h("div", { className: "lcm-scroll" }, h("table", { className: "lcm-table" },
      h("thead", null, h("tr", null, ["money.day", "money.count", "money.cached", "money.uncached", "money.cost"].map((key) => h("th", { key, scope: "col" }, w.say(key))))),
      h("tbody", null, [...days].reverse().slice(0, 14).map((day) => h("tr", { key: day.day }, h("th", { scope: "row" }, day.day), h("td", null, w.number(day.requests)), h("td", null, w.number(day.cached)), h("td", null, w.number(day.uncached)), h("td", null, w.money(day.money))))))));
}

function Folds({ folds, w }) {
  return h("div", { className: "lcm-scroll" }, h("table", { className: "lcm-table" },
    h("thead", null, h("tr", null, ["money.day", "money.fold", "money.before", "money.after", "money.cost", "money.earned"].map((key) => h("th", { key, scope: "col" }, w.say(key))))),
    h("tbody", null, folds.map((fold) => h("tr", { key: `${fold.day} ${fold.assembly}` },
      h("td", null, fold.day), h("td", null, fold.assembly), h("td", null, w.number(fold.before)), h("td", null, w.number(fold.after)), h("td", null, w.money(fold.cost)), h("td", null, w.money(fold.earned)))))));
}
