// Conversation: the picture of summaries over messages, one summary beside its sources, one message whole, the list of sessions.

import { Act, Button, Facts, Loaded, Marked, Notice, Pager, Panel, ask, h, useCallback, useData, useEffect, useMemo, useRef, useState, useWords } from "./sdk.mjs";
import * as graph from "./graph.mjs";

export function Conversation({ place, go, mode, profile }) {
  const w = useWords();
  const picture = useGraph(profile, place.session);
  return h("div", null,
    h(Loaded, { of: picture }, (found) =>
      h(Panel, { title: w.many("messages", found.messages), actions: h("span", { className: "lcm-quiet" }, w.many("compactions", found.compactions_total)) },
        h(Picture, { found, place, go, profile, w, key: found.session_id }))),
    place.sum ? h(Summary, { place, go, mode, profile, changed: picture.again, key: `sum ${place.sum}` }) : null,
    place.msg ? h(Message, { place, go, mode, profile, key: `msg ${place.msg}` }) : null,
    h(Sessions, { place, go, profile }));
}

/** All pages of the graph, one after the other. */
function useGraph(profile, session) {
  const first = useData("graph", { profile, session });
  const [rest, setRest] = useState({ of: null, nodes: [] });
  useEffect(() => {
    if (!first.data || !first.data.next) return undefined;
    let current = true;
    const more = async () => {
      const nodes = [];
      for (let after = first.data.next; after && current; ) {
        const part = await ask("graph", { profile, session, after });
        nodes.push(...part.nodes);
        after = part.next;
      }
      if (current) setRest({ of: first.data, nodes });
    };
    more();
    return () => {
      current = false;
    };
  }, [first.data]);
  const data = useMemo(() => first.data && rest.of === first.data ? { ...first.data, nodes: [...first.data.nodes, ...rest.nodes] } : first.data, [first.data, rest]);
  return { ...first, data };
}

// -- the picture --------------------------------------------------------------------------------------------------------
function Picture({ found, place, go, profile, w }) {
  const m = useMemo(() => graph.model(found), [found]);
  const [view, setView] = useState(() => graph.whole(m));
  const [line, setLine] = useState(null);
  const [width, setWidth] = useState(0);
  const canvas = useRef(null);
  const drag = useRef(null);
  const chosen = Number(place.sum) || 0;
  const words = useMemo(() => ({ time: w.time, clock: w.clock, number: w.number, depth: (n) => w.say("depth", { n }) }), [w]);

  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(canvas.current ? canvas.current.clientWidth : 0));
    watch.observe(canvas.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    const frame = requestAnimationFrame(() => canvas.current && graph.draw(canvas.current, m, view, line, chosen, words));
    return () => cancelAnimationFrame(frame);
  }, [m, view, line, chosen, width, words]);
  useEffect(() => {
    // A little more than is seen, and only when the hand rests: moving draws what is there already.
    const margin = (view.high - view.low) / 2;
    const low = Math.max(0, Math.floor(view.low - margin));
    const high = Math.ceil(view.high + margin);
    let current = true;
    const later = setTimeout(() => {
      ask("messages", { profile, session: found.session_id, from: low, to: high }).then((answer) => current && setLine(graph.bars(answer)), () => {});
    }, line ? 150 : 0);
    return () => {
      current = false;
      clearTimeout(later);
    };
  }, [found.session_id, profile, view]);

  const zoom = useCallback((factor, at) => setView((v) => graph.zoomed(m, v, factor, at === undefined ? (v.low + v.high) / 2 : at)), [m]);
  const shift = useCallback((share) => setView((v) => graph.moved(m, v, (v.high - v.low) * share)), [m]);
  const choose = (id) => {
    if (!id) return;
    const node = m.byId.get(id);
    if (node.to < view.low || node.from > view.high) setView((v) => graph.moved(m, v, (node.from + node.to) / 2 - (v.low + v.high) / 2));
    go({ sum: id, msg: "" });
  };
  useEffect(() => {
    // Passive listeners of React cannot keep the page from scrolling.
    const element = canvas.current;
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      const at = event.clientX - element.getBoundingClientRect().left;
      setView((v) => graph.zoomed(m, v, Math.exp((event.deltaY || event.deltaX) / 300), graph.positionAt(v, element.clientWidth, at)));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, [m]);

  const keys = (event) => {
    const step = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), Home: () => setView(graph.whole(m)), "[": () => shift(-0.3), "]": () => shift(0.3) }[event.key];
    if (step) step();
    else if (event.key.startsWith("Arrow")) choose(graph.neighbour(m, chosen, event.key));
    else return;
    event.preventDefault();
  };
  const down = (event) => {
    drag.current = { x: event.clientX, view, moved: false };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const move = (event) => {
    const was = drag.current;
    if (!was) return;
    const by = ((was.x - event.clientX) / canvas.current.clientWidth) * (was.view.high - was.view.low);
    was.moved = was.moved || Math.abs(event.clientX - was.x) > 4;
    if (was.moved) setView(graph.moved(m, was.view, by));
  };
  const up = (event) => {
    const was = drag.current;
    drag.current = null;
    if (!was || was.moved) return;
    const at = canvas.current.getBoundingClientRect();
    const found_ = graph.hit(canvas.current, m, view, line, event.clientX - at.left, event.clientY - at.top);
    if (found_ && found_.node) choose(found_.node.id);
    else if (found_) go({ msg: found_.message, sum: "" });
  };
  const node = m.byId.get(chosen);
  return h("div", null,
    h("div", { className: "lcm-row" },
      h(Button, { onClick: () => zoom(0.5), "aria-label": w.say("zoom.in") }, "+"),
      h(Button, { onClick: () => zoom(2), "aria-label": w.say("zoom.out") }, "−"),
      h(Button, { onClick: () => shift(-0.5), "aria-label": w.say("earlier") }, "←"),
      h(Button, { onClick: () => shift(0.5), "aria-label": w.say("later") }, "→"),
      h(Button, { onClick: () => setView(graph.whole(m)) }, w.say("zoom.all")),
      h("span", { className: "lcm-quiet" }, w.say("picture.keys"))),
    h("canvas", {
      ref: canvas, className: "lcm-canvas", tabIndex: 0, role: "application", style: { height: `${graph.height(m)}px` }, "aria-label": w.say("picture.label", { messages: w.many("messages", found.messages), summaries: w.many("summaries", found.nodes.length) }),
      onKeyDown: keys, onPointerDown: down, onPointerMove: move, onPointerUp: up,
    }),
    h("p", { "aria-live": "polite", className: "lcm-quiet" }, node ? w.say("picture.chosen", { address: `sum_${node.id}`, state: w.say(`state.${node.state}`), messages: w.many("messages", node.messages), depth: node.depth }) : w.say("picture.none")),
    h("p", { className: "lcm-legend" },
      graph.STATES.map((state) => h("span", { key: state }, h("i", { className: `lcm-key state-${state}` }), w.say(`state.${state}`))),
      ["user", "assistant", "tool", "other"].map((role) => h("span", { key: role }, h("i", { className: `lcm-key role-${role}` }), w.say(`role.${role}`))),
      h("span", null, h("i", { className: "lcm-key fold" }), w.say("compaction"))));
}

// -- one summary --------------------------------------------------------------------------------------------------------
function Summary({ place, go, mode, profile, changed }) {
  const w = useWords();
  const [offset, setOffset] = useState(0);
  const [marking, setMarking] = useState(true);
  const node = useData("node", { profile, session: place.session, id: place.sum, offset });
  return h(Loaded, { of: node }, (said) =>
    h(Panel, { title: said.address, "aria-label": said.address, actions: h(Button, { onClick: () => go({ sum: "" }) }, w.say("close")) },
      h(Facts, { rows: [
        [w.say("summary.state"), `${w.say(`state.${said.state}`)}, ${w.say("depth", { n: said.depth })}`],
        [w.say("summary.covers"), `${w.many("messages", said.messages)}, msg_${said.first} – msg_${said.last}, ${w.time(said.from)} – ${w.time(said.to)}`],
        [w.say("summary.size"), w.say("summary.sizes", { before: w.number(said.source_tokens), after: w.number(said.tokens) })],
        [w.say("summary.by"), said.model || w.say("summary.nobody")],
        [w.say("summary.checks"), said.checks],
        [w.say("summary.place"), said.place],
        [w.say("summary.above"), said.parents.length ? said.parents.map((id) => h(Button, { key: id, onClick: () => go({ sum: id, msg: "" }) }, `sum_${id}`)) : null],
      ] }),
      said.text === undefined ? h(Notice, null, w.say("mode.hidden")) : h("div", { className: "lcm-sides" },
        h("div", null, h("h3", null, w.say("summary.says")), h("pre", { className: "lcm-text", tabIndex: 0 }, said.text),
          said.hint ? h("p", { className: "lcm-quiet" }, w.say("summary.hint"), " ", said.hint) : null),
        h("div", null,
          h("h3", null, w.say("summary.sources")),
          h("label", { className: "lcm-quiet" }, h("input", { type: "checkbox", checked: marking, onChange: (event) => setMarking(event.target.checked) }), " ", w.say("summary.mark")),
          said.sources.map((each) => h(Source, { key: each.address, each, marking, go, w })),
          h(Pager, { offset, size: said.limit, total: said.total, more: offset + said.limit < said.total, go: setOffset }))),
      said.dissolved
        ? h(Act, { key: said.address, words: `dissolve ${said.address} undo`, label: w.say("dissolve.undo"), profile, session: place.session, done: () => { node.again(); changed(); } })
        : mode === "full" ? h(Act, { key: said.address, words: `dissolve ${said.address}`, label: w.say("dissolve"), profile, session: place.session, done: () => { node.again(); changed(); } }) : null));
}

function Source({ each, marking, go, w }) {
  const [kind, number] = each.address.split("_");
  return h("article", { className: "lcm-source" },
    h("header", null,
      h(Button, { onClick: () => go(kind === "sum" ? { sum: number, msg: "" } : { msg: number }) }, each.address), " ",
      w.say(`role.${["user", "assistant", "tool", "summary"].includes(each.role) ? each.role : "other"}`), each.tool ? ` ${each.tool}` : "", " ", h("time", null, w.time(each.at))),
    h("pre", { className: "lcm-text" }, h(Marked, { text: each.text, terms: marking ? each.dropped : [] })),
    (each.calls || []).map((call, n) => h("pre", { key: n, className: "lcm-call" }, call)),
    each.chars > each.text.length ? h("p", { className: "lcm-quiet" }, w.say("cut", { n: w.number(each.chars) })) : null);
}

// -- one message --------------------------------------------------------------------------------------------------------
export function Message({ place, go, mode, profile }) {
  const w = useWords();
  const [offset, setOffset] = useState(0);
  const message = useData("message", { profile, session: place.session, id: place.msg, offset });
  return h(Loaded, { of: message }, (said) =>
    h(Panel, { title: said.address, "aria-label": said.address, actions: h(Button, { onClick: () => go({ msg: "" }) }, w.say("close")) },
      h("p", null, w.say(`role.${["user", "assistant", "tool"].includes(said.role) ? said.role : "other"}`), said.tool ? ` ${said.tool}` : "", " · ", w.time(said.at), " · ", said.session_id),
      h("pre", { className: "lcm-text", tabIndex: 0 }, said.text),
      said.calls.map((call, n) => h("pre", { key: n, className: "lcm-call" }, call)),
      h(Pager, { offset, size: 20000, total: said.chars, more: said.next !== null, go: setOffset }),
      h("div", { className: "lcm-row" },
        h(Button, { onClick: () => go({ msg: place.msg - 1 }), disabled: place.msg < 2 }, w.say("previous")),
        h(Button, { onClick: () => go({ msg: Number(place.msg) + 1 }) }, w.say("next")),
        h(Button, { onClick: () => go({ view: "prompt", at: place.msg, prompt: "", session: said.session_id }) }, w.say("prompt.here"))),
      mode === "full" ? h("div", { className: "lcm-row" },
        h(Act, { key: `pin ${said.address}`, words: `pin ${said.address}`, label: w.say("message.hold"), profile, session: place.session, done: message.again }),
        h(Act, { key: `purge messages ${said.address}`, words: `purge messages ${said.address}`, label: w.say("message.purge"), profile, session: place.session, done: message.again })) : null,
      h("details", null, h("summary", null, w.say("message.facts")), h(Facts, { rows: Object.entries(said.facts).map(([name, value]) => [name, String(value)]) }))));
}

// -- the list -----------------------------------------------------------------------------------------------------------
function Sessions({ place, go, profile }) {
  const w = useWords();
  const [offset, setOffset] = useState(0);
  const list = useData("sessions", { profile, offset });
  return h(Panel, { title: w.say("sessions") },
    h(Loaded, { of: list }, (said) => said.sessions.length ? h("div", null,
      h("ul", { className: "lcm-list" }, said.sessions.map((each) =>
        h("li", { key: each.session_id },
          h("button", { type: "button", className: "lcm-link", "aria-current": each.session_id === place.session, onClick: () => go({ session: each.session_id, sum: "", msg: "", prompt: "", at: "" }) }, each.title || each.session_id),
          h("div", { className: "lcm-quiet" }, [each.platform || "?", each.owner, w.many("messages", each.messages), w.many("summaries", each.summaries), `${w.time(each.first_at)} – ${w.time(each.last_at)}`].join(" · "))))),
      h(Pager, { offset, size: 25, more: said.more, go: setOffset })) : h("p", null, w.say("now.empty"))));
}
