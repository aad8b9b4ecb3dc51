// The picture of a conversation on a canvas: a line of messages below, summaries above it in rows by depth.
// Pure but for the canvas: a model and a view go in, pixels and hits come out. Nothing here knows React or requests.

const ROW = 26; // pixels of a row of summaries
const GAP = 15; // holds the name of the depth below
const LINE = 64; // of the line of messages
const LABEL = 18;
const DAY = 86400; // seconds
export const STATES = ["verified", "condensed", "extract", "verbatim", "archived"];

/** Rows by depth, each in the order of positions, so that what a view shows is found by bisection. */
export function model(graph) {
  const rows = [];
  const byId = new Map();
  for (const node of graph.nodes) {
    (rows[node.depth] = rows[node.depth] || []).push(node);
    byId.set(node.id, node);
  }
  const parents = new Map();
  for (const node of graph.nodes) for (const child of node.of) parents.set(child, [...(parents.get(child) || []), node.id]);
  for (let depth = 0; depth < rows.length; depth += 1) {
    rows[depth] = (rows[depth] || []).sort((a, b) => a.from - b.from || a.id - b.id);
    // What was replaced, or made again over other borders, would lie under its successor: it gets a lane of its own.
    const ends = [];
    for (const node of rows[depth]) {
      let lane = ends.findIndex((end) => end < node.from);
      if (lane < 0) lane = ends.length;
      ends[lane] = node.to;
      node.lane = Math.min(lane, 2);
    }
  }
  return { rows, byId, parents, from: graph.from, to: Math.max(graph.to, graph.from + 1), compactions: graph.compactions || [] };
}

export const height = (m) => LABEL + m.rows.length * (ROW + GAP) + LINE + LABEL + GAP;
export const whole = (m) => ({ low: m.from - 0.5, high: m.to + 0.5 });

/** The view after zooming by a factor around a position, kept within the conversation. */
export function zoomed(m, view, factor, at) {
  const least = 8;
  const span = Math.min(Math.max((view.high - view.low) * factor, least), m.to - m.from + 1);
  const share = (at - view.low) / (view.high - view.low);
  return moved(m, { low: at - share * span, high: at - share * span + span }, 0);
}

export function moved(m, view, by) {
  const all = whole(m);
  const span = view.high - view.low;
  const low = Math.max(all.low, Math.min(view.low + by, Math.max(all.low, all.high - span)));
  return { low, high: low + span };
}

const x = (view, width, pos) => ((pos - view.low) / (view.high - view.low)) * width;
export const positionAt = (view, width, px) => view.low + (px / width) * (view.high - view.low);
const top = (m, depth) => LABEL + (m.rows.length - 1 - depth) * (ROW + GAP);

/** Index of the first node of a row that ends behind a position; lanes are few, so the order by start is near enough. */
function firstIndex(row, pos) {
  let low = 0;
  let high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].from < pos) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 4);
}

function* visible(row, view) {
  for (let n = firstIndex(row, view.low); n < row.length && row[n].from <= view.high; n += 1) if (row[n].to >= view.low) yield row[n];
}

const box = (m, view, width, node) => {
  const lanes = node.lane;
  const left = x(view, width, node.from - 0.5);
  return { left, width: Math.max(1, x(view, width, node.to + 0.5) - left), top: top(m, node.depth) + lanes * 5, height: ROW - lanes * 5 };
};

export function draw(canvas, m, view, line, chosen, words) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const tall = height(m);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(tall * ratio);
  }
  const c = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(`--lcm-${name}`).trim() || "#888";
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, tall);
  c.font = `11px ${style.fontFamily}`;
  folds(c, m, view, width, tall, colour);
  m.rows.forEach((row, depth) => {
    c.fillStyle = colour("ink-quiet");
    for (const node of visible(row, view)) summary(c, box(m, view, width, node), node, node.id === chosen, colour);
    c.fillStyle = colour("ink-quiet");
    c.fillText(words.depth(depth), 4, top(m, depth) - 4);
  });
  if (m.byId.has(chosen)) links(c, m, view, width, m.byId.get(chosen), colour);
  messages(c, m, view, width, tall, line, colour, words);
}

function summary(c, at, node, chosen, colour) {
  c.globalAlpha = node.dissolved ? 0.35 : node.shown || chosen ? 1 : 0.86;
  c.fillStyle = colour(node.state);
  c.fillRect(at.left + 0.5, at.top, Math.max(1, at.width - 1), at.height);
  c.globalAlpha = 1;
  if (node.shown || chosen) {
    c.strokeStyle = colour(chosen ? "chosen" : "ink");
    c.lineWidth = chosen ? 3 : 1.2;
    c.strokeRect(at.left + 1, at.top + 0.5, Math.max(1, at.width - 2), at.height - 1);
  }
  if (at.width > 44) {
    c.fillStyle = "#fff";
    c.fillText(`sum_${node.id}`, at.left + 5, at.top + 16, at.width - 8);
  }
}

/** From the chosen summary to what it was condensed from, and to what was condensed from it. */
function links(c, m, view, width, node, colour) {
  c.strokeStyle = colour("chosen");
  c.lineWidth = 1;
  const mine = box(m, view, width, node);
  const middle = (at) => at.left + at.width / 2;
  for (const id of [...node.of, ...(m.parents.get(node.id) || [])]) {
    const other = m.byId.get(id);
    if (!other) continue;
    const at = box(m, view, width, other);
    const below = other.depth < node.depth;
    c.beginPath();
    c.moveTo(middle(mine), below ? mine.top + mine.height : mine.top);
    c.lineTo(middle(at), below ? at.top : at.top + at.height);
    c.stroke();
  }
}

function folds(c, m, view, width, tall, colour) {
  c.strokeStyle = colour("fold");
  c.lineWidth = 1;
  c.setLineDash([2, 4]);
  for (const fold of m.compactions) {
    if (fold.pos < view.low || fold.pos > view.high) continue;
    const at = Math.round(x(view, width, fold.pos + 0.5)) + 0.5;
    c.beginPath();
    c.moveTo(at, 0);
    c.lineTo(at, tall - LABEL);
    c.stroke();
  }
  c.setLineDash([]);
}

/** The line of messages: one bar each where there is room, else sums; as high as they are long (square root: an outlier hides nothing). */
function messages(c, m, view, width, tall, line, colour, words) {
  const base = tall - LABEL;
  if (line && line.bars.length) {
    const scale = LINE / Math.sqrt(line.most || 1);
    for (const bar of line.bars) {
      if (bar.to < view.low || bar.from > view.high) continue;
      const left = x(view, width, bar.from);
      const size = Math.max(0.7, x(view, width, bar.to) - left - (line.single ? 1 : 0));
      const tallness = Math.max(2, Math.sqrt(bar.tokens) * scale);
      let y = base;
      for (const [role, tokens] of bar.roles) {
        const part = (tallness * tokens) / (bar.tokens || 1);
        c.fillStyle = colour(`role-${role}`);
        c.fillRect(left, y - part, size, part);
        y -= part;
      }
    }
  }
  c.fillStyle = colour("ink-quiet");
  const steps = Math.max(2, Math.floor(width / 150));
  const times = line ? line.bars.filter((each) => each.at && each.to >= view.low && each.from <= view.high).map((each) => each.at) : [];
  const when = times.length && times[times.length - 1] - times[0] < DAY ? words.clock : words.time;
  let before = "";
  for (let n = 0; n < steps; n += 1) {
    const pos = positionAt(view, width, ((n + 0.02) * width) / steps);
    const bar = line && line.bars.find((each) => each.to >= pos);
    const text = bar && bar.at ? when(bar.at) : words.number(Math.round(pos));
    if (text !== before) c.fillText(text, (n * width) / steps + 2, tall - 4, width / steps - 6);
    before = text;
  }
}

/** Bars of the line from an answer of the page `messages`. */
export function bars(answer) {
  const role = (name) => (["user", "assistant", "tool"].includes(name) ? name : "other");
  const out = [];
  if (answer.messages) {
    for (const each of answer.messages) out.push({ from: each.pos - 0.5, to: each.pos + 0.5, id: each.id, at: each.at, tokens: each.tokens, roles: [[role(each.role), each.tokens]] });
  } else {
    const step = (answer.to - answer.from) / answer.parts;
    const byPart = new Map();
    for (const [part, name, , tokens, at] of answer.counts) {
      const from = answer.from + part * step;
      const bar = byPart.get(part) || { from, to: from + step, at, tokens: 0, roles: [] };
      bar.tokens += tokens;
      bar.roles.push([role(name), tokens]);
      byPart.set(part, bar);
    }
    out.push(...[...byPart.values()].sort((a, b) => a.from - b.from));
  }
  return { bars: out, single: Boolean(answer.messages), most: out.reduce((most, bar) => Math.max(most, bar.tokens), 0), from: answer.from, to: answer.to };
}

/** What lies at a point: {node} or {message}, or nothing. */
export function hit(canvas, m, view, line, px, py) {
  const width = canvas.clientWidth;
  for (let depth = 0; depth < m.rows.length; depth += 1) {
    if (py < top(m, depth) || py > top(m, depth) + ROW) continue;
    let best = null;
    for (const node of visible(m.rows[depth], view)) {
      const at = box(m, view, width, node);
      if (px >= at.left - 1 && px <= at.left + at.width + 1 && py >= at.top) best = node;
    }
    return best && { node: best };
  }
  const bar = line && line.single && py > height(m) - LABEL - LINE - GAP && line.bars.find((each) => each.from <= positionAt(view, width, px) && each.to > positionAt(view, width, px));
  return bar ? { message: bar.id } : null;
}

/** The summary that a key leads to from another one: along its row, to its parents or to its sources. */
export function neighbour(m, chosen, key) {
  const node = m.byId.get(chosen);
  if (!node) {
    const row = m.rows[m.rows.length - 1] || [];
    return row[0] && row[0].id;
  }
  const row = m.rows[node.depth];
  const at = row.indexOf(node);
  if (key === "ArrowRight") return (row[at + 1] || node).id;
  if (key === "ArrowLeft") return (row[at - 1] || node).id;
  if (key === "ArrowUp") return (m.parents.get(node.id) || [node.id])[0];
  return m.byId.has(node.of[0]) ? node.of[0] : node.id;
}
