// Draws bars and points from counts. The sequence diagram arrives as a list of shapes. Each node is made by name from a short
// list of tags, and text is set as text.

import { connect } from "../ui/connection.js";
import { announcer, doer, holdsFocus, keepKeys, make, setAttribute, ticker, write } from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { makeHeader } from "../ui/header.js";
import { onOpen, openIn } from "../ui/links.js";
import { keyedRows, makeTable } from "../ui/tables.js";
import { clockHover, clockTime, countOf, duration, groupDigits, elapsedTime, rateText } from "../ui/text.js";
import { barsOf, snapBrush } from "./scale.js";

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["circle", "g", "line", "path", "rect", "text", "title", "tspan"]);
const TRAITS = new Set([
  "class",
  "cx",
  "cy",
  "d",
  "data-seq",
  "height",
  "r",
  "rx",
  "text-anchor",
  "transform",
  "width",
  "x",
  "x1",
  "x2",
  "y",
  "y1",
  "y2",
]);
/** @type {[label: string, seconds: number][]} */
const WINDOWS = [
  ["Fit", 0],
  ["5 min", 300],
  ["1 h", 3600],
];
const KEYS = [
  ["← →", "Previous or next bar or point"],
  ["Shift+← →", "Select a time in the bars"],
  ["Enter", "Show the exchange of the point"],
  ["Escape", "Clear the selected time"],
];
const ENDED_WORDS = {
  answered: "answered",
  fulfilled: "approved",
  rejected: "rejected",
  withdrawn: "withdrawn",
};
const LEFT = 52;
const RIGHT = 8;
const WIDEST = 48;
const HOW = {
  answered: ["●", "is-mcp"],
  fulfilled: ["●", "is-capability"],
  rejected: ["×", "is-error"],
  withdrawn: ["○", "is-participant"],
};
const [ASKED, ASKER, ANSWER, WHEN, TOOK, ENDED, BY, LABEL] = /** @type {const} */ ([0, 1, 2, 3, 4, 5, 6, 7]);

/**
 * A chart with a place that the mouse and the arrows mark. `say` describes a place, `at` and `height_at` are where it is
 * drawn, `near` is the place at a point of the drawing, `time` is the time at its `x`, `choose` takes a place.
 * @typedef {object} Chart
 * @property {HTMLElement} box
 * @property {HTMLElement} line
 * @property {number} height
 * @property {number} count how many places there are
 * @property {number} place the marked one, or -1
 * @property {string} rest the line while no place is marked
 * @property {(place: number) => string} say
 * @property {(place: number) => number} at
 * @property {(place: number) => number} [height_at]
 * @property {(x: number, y?: number) => number} near
 * @property {(x: number) => number} [time]
 * @property {(place: number) => void} [choose]
 * @property {(width: number, nodes: Node[]) => void} draw
 * @property {() => void} settle
 */
/**
 * A call that has ended, as the kernel packs it.
 * @typedef {[asked: number, asker: string, answer: number, when: number, took: number, ended: string, by: string, label: string]} Point
 */
/**
 * What the kernel tells of all calls of a strip; `oldest` holds those that wait the longest.
 * @typedef {{ of: number, p50?: number, p95?: number, mine?: number, waiting: number, oldest: [seq: number, since: number, who: string, what: string][] }} Told
 */
/**
 * A chart of points, one for each call; `seen` are those of the time that is shown.
 * @typedef {Chart & { part: HTMLElement, marks: string, ended: string, points: Map<number, Point>, told: Told, took: HTMLElement, oldest: HTMLButtonElement, seen: Point[] }} Strip
 */

function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

// Makes the nodes of a drawing of Python; tags and attributes that are not on the lists are left out.
function makeDrawing([tag, attributes, inside]) {
  if (!SHAPES.has(tag)) return "";
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes))
    if (TRAITS.has(name)) node.setAttribute(name, String(value));
  if (typeof inside === "string") node.textContent = inside;
  else node.append(...inside.map(makeDrawing));
  return node;
}

// Keeps the last `most` entries.
/** @type {(map: Map<number, unknown>, most: number) => void} */
function forgetOldest(map, most) {
  for (const key of map.keys()) {
    if (map.size <= most) break;
    map.delete(key);
  }
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function render({ adapter, el }) {
  const root = make("section", { class: "mew mew-timeline", "aria-label": "Timeline" });
  const header = makeHeader({ title: "Timeline", keys: KEYS });
  const spans = make("div", { class: "mew-spans", role: "group", "aria-label": "Time shown" });
  const legend = make("div", { class: "mew-legend mew-drawing", role: "group", "aria-label": "Kinds shown" });
  const rate = makeChart("Messages per second", 140);
  const strips = { request: makeStrip("Requests", "request"), decision: makeStrip("Decisions", "decision") };
  const empty = emptyState("No messages yet. Their times appear here.", { code: 'lab.chat("hello")' });
  const rangeText = make("span", { class: "mew-range-text" });
  const unzoom = make("button", { text: "Reset zoom", hidden: true, onclick: () => setZoom(null) });
  const range = make(
    "div",
    { class: "mew-range", role: "group", "aria-label": "The selected time", hidden: true },
    rangeText,
    make("button", { text: "Zoom in", onclick: () => setZoom(brush) }),
    make("button", { text: "Show messages", onclick: showMessages }),
    make("button", {
      class: "mew-quiet",
      text: "Clear",
      "aria-label": "Clear the selected time",
      onclick: () => {
        setBrush(null);
        rate.box.focus();
      },
    }),
  );
  const charts = make(
    "div",
    { class: "mew-charts" },
    rate.box,
    rate.line,
    range,
    make("div", { class: "mew-strips" }, strips.request.part, strips.decision.part),
  );
  const which = make("input", {
    type: "text",
    placeholder: "Number or id",
    "aria-label": "Number or id of a message",
    spellcheck: "false",
    autocomplete: "off",
  });
  const show = doer("Show exchange", () => select(which.value));
  const clear = doer("Clear", () => link.act("clear"), { hidden: true });
  const about = make("span", { class: "mew-about" });
  const stage = make("div", {
    class: "mew-stage",
    tabindex: 0,
    role: "region",
    "aria-label": "Sequence diagram",
    hidden: true,
  });
  const stepCount = make("summary"),
    stepBody = make("tbody");
  const stepRows = keyedRows(stepBody, { keyOf: ([seq]) => seq, build: stepLine, fill: fillStep });
  const stepPart = make(
    "div",
    { class: "mew-scroll", tabindex: 0, role: "region", "aria-label": "Messages of the exchange" },
    makeTable(["#", "+s", "From", "To", "Kind", "What", "Verdict"], stepBody),
  );
  const steps = make("details", { class: "mew-steps", hidden: true }, stepCount, stepPart);
  const keepCode = make("code");
  const keep = make(
    "div",
    { class: "mew-keep", hidden: true },
    "In a cell, ",
    keepCode,
    " keeps it in the notebook.",
  );
  header.filter.append(spans, unzoom);
  root.append(
    header.node,
    legend,
    empty,
    charts,
    make("div", { class: "mew-toolbar" }, which, show, clear, about),
    stage,
    steps,
    keep,
  );
  el.replaceChildren(root);
  keepKeys(root);
  const announce = announcer(root);

  let families = [],
    seconds = new Map(),
    minutes = new Map(),
    space = "",
    sign = "#",
    count = 0,
    window_ = 0,
    /** @type {number | null} */
    ended = null, // when a log from files ends
    zoom = null,
    brush = null,
    scale = null;
  let frame = 0,
    dirty = true,
    painted = "",
    paints = 0,
    exchange = { drawing: null };
  const off = new Set();

  for (const [text, length] of WINDOWS) {
    spans.append(
      make("button", {
        text,
        "data-length": length,
        "aria-pressed": String(length === window_),
        onclick: (event) => {
          window_ = length;
          zoom = null;
          for (const button of spans.children)
            button.setAttribute("aria-pressed", String(button === event.currentTarget));
          repaint();
        },
      }),
    );
  }

  const link = connect(adapter, root, {
    from: () => 0,
    items: { snapshot: begin, stats: take, exchange: showExchange },
    done: repaint,
  });

  function begin(item) {
    space = item.space;
    ended = item.ended;
    write(keepCode, `${ended === null ? "lab" : "log"}.view.timeline.diagram`);
    if (ended !== null)
      empty.replaceChildren(
        make("div", { class: "mew-empty-text", text: "There is no message in this log." }),
      );
    sign = item.sign;
    families = item.families;
    seconds = new Map();
    minutes = new Map();
    for (const [name, part] of Object.entries(strips)) {
      part.points = new Map();
      add(part, item.points[name]);
    }
    if (!legend.children.length) addToggles();
    showExchange(item.exchange);
    put(item);
  }

  function take(item) {
    for (const [name, part] of Object.entries(strips)) add(part, item.points[name]);
    const waited = strips.decision.told?.waiting ?? 0;
    put(item);
    const waiting = strips.decision.told.waiting;
    if (waiting !== waited)
      announce(
        waiting ? `${waiting} ${waiting === 1 ? "decision waits" : "decisions wait"}` : "No decision waits",
      );
  }

  // A call is answered once, so a point that arrives again is the same.
  function add(part, fresh) {
    for (const point of fresh) part.points.set(point[ASKED], point);
    forgetOldest(part.points, 1000);
  }

  function put(item) {
    count = item.count;
    for (const [start, counts] of item.seconds) seconds.set(start, counts);
    for (const [start, counts] of item.minutes) minutes.set(start, counts);
    forgetOldest(seconds, 3600);
    forgetOldest(minutes, 1440);
    for (const [name, part] of Object.entries(strips)) part.told = item.told[name];
  }

  // The end of the time that is shown.
  function now() {
    return ended ?? link.now();
  }

  function repaint() {
    dirty = true;
    paintSoon();
  }

  function paintSoon() {
    frame ||= requestAnimationFrame(paint);
  }

  const paintEachSecond = ticker(paintSoon);

  // The part of the time that is shown closer.
  function setZoom(wanted) {
    zoom = wanted;
    unzoom.hidden = !zoom;
    for (const button of spans.children)
      button.setAttribute("aria-pressed", String(!zoom && Number(button.dataset.length) === window_));
    const here = holdsFocus(range);
    setBrush(null);
    if (here) unzoom.focus();
    repaint();
  }

  // The time that the reader has marked in the bars.
  function setBrush(wanted) {
    brush = wanted;
    range.hidden = !brush;
    if (brush)
      write(
        rangeText,
        `${clockTime(brush.since)} – ${clockTime(brush.until)} · ${countOf(countBetween(brush), "message")}`,
        `${clockHover(brush.since)} – ${clockHover(brush.until)}`,
      );
    repaint();
  }

  function countBetween({ since, until }) {
    let sum = 0;
    for (const [start, counts] of scale?.fine === false ? minutes : seconds)
      if (start >= since && start < until) for (const [, many] of counts) sum += many;
    return sum;
  }

  async function showMessages() {
    const { since, until } = brush;
    if (!(await openIn(root, "feed", { since, until })))
      link.notice("No list of messages is open on this page: lab.view.feed shows one.", "status");
  }

  // The time that is shown: the length of a bar in seconds, the start of the first bar, the number of bars.
  function timeScale(width) {
    const ends = [...seconds.keys()],
      firstSecond = ends[0] ?? now(),
      lastSecond = ends.at(-1) ?? now(),
      firstMinute = minutes.keys().next().value ?? firstSecond;
    scale = barsOf({
      zoom,
      length: window_,
      now: now(),
      firstSecond,
      lastSecond,
      firstMinute,
      most: Math.max(20, Math.floor((width - LEFT - RIGHT) / 3)),
    });
    return scale;
  }

  function paint() {
    frame = 0;
    empty.hidden = count > 0;
    charts.hidden = legend.hidden = count === 0;
    const width = rate.box.clientWidth;
    if (count === 0) {
      header.setCounts([{ text: space }]);
      return;
    }
    if (!width) {
      // Out of the layout: the observer is started again, so that it reports the return.
      sizes.unobserve(charts);
      sizes.observe(charts);
      return;
    }
    const view = timeScale(width),
      key = `${view.end} ${view.length} ${width}`;
    writeHeads(view);
    if (!dirty && key === painted) return;
    dirty = false;
    painted = key;
    if (exchange.drawing && stage.dataset.tight !== String(root.clientWidth < 640)) drawExchange();
    root.dataset.paints = String(++paints);
    root.dataset.count = String(count);
    const busy = drawBars(view, width);
    const dots = Object.values(strips).map((part) => drawPoints(part, view));
    // The charts move with time while they have content.
    const moves = busy || dots.some(Boolean) || Object.values(strips).some((part) => part.told.waiting);
    paintEachSecond(ended === null && moves);
  }

  function writeHeads(view) {
    const recent = [...seconds].slice(-12).filter(([start]) => start >= now() - 10);
    const perSecond =
      recent.reduce((sum, [, counts]) => sum + counts.reduce((all, [, n]) => all + n, 0), 0) / 10;
    header.setCounts([
      { text: space },
      { text: countOf(count, "message") },
      ...(ended === null ? [{ text: rateText(perSecond), hover: "Messages per second" }] : []),
    ]);
    for (const part of Object.values(strips)) writeHead(part);
  }

  function writeHead(part) {
    const { of, p50, p95, mine, waiting, oldest } = part.told;
    const took = of
      ? `median ${duration(p50)}, p95 ${duration(p95)}, of ${groupDigits(of)}${mine ? `, ${groupDigits(mine)} by you` : ""}`
      : `none ${part.ended}${ended === null ? " yet" : ""}`;
    write(part.took, `${took}${waiting ? ` · ${groupDigits(waiting)} waiting` : ""}`);
    part.oldest.hidden = !oldest.length;
    if (!oldest.length) return;
    const [seq, since, who, what] = oldest[0];
    write(part.oldest, `oldest ${sign}${seq}, ${elapsedTime(now() - since)}`);
    part.oldest.dataset.seq = `${sign}${seq}`;
    if (part.oldest.title !== `${who}: ${what}`) part.oldest.title = `${who}: ${what}`;
  }

  // --- messages per second ---

  function drawBars(view, width) {
    const sums = Array.from({ length: view.bars }, () => new Array(families.length).fill(0));
    const totals = new Array(families.length).fill(0);
    for (const [start, counts] of view.fine ? seconds : minutes) {
      const n = Math.floor((start - view.first) / view.length);
      if (n < 0 || n >= view.bars) continue;
      for (const [place, many] of counts) {
        totals[place] += many;
        if (!off.has(place)) sums[n][place] += many;
      }
    }
    const top = 12,
      floor = rate.height - 20,
      room = width - LEFT - RIGHT,
      each = room / view.bars;
    const most = Math.max(...sums.map((bar) => bar.reduce((a, b) => a + b, 0))) / view.length;
    const ceiling = roundUp(most || 1),
      scale = (floor - top) / ceiling,
      nodes = [];
    for (const value of [0, ceiling / 2, ceiling])
      nodes.push(...mark(width, floor - value * scale, String(Math.round(value * 1000) / 1000), value === 0));
    const heights = new Array(view.bars).fill(0);
    families.forEach(([name], place) => {
      let d = "";
      sums.forEach((bar, n) => {
        if (!bar[place]) return;
        const tall = (bar[place] / view.length) * scale,
          wide = clamp(each - (each > 4 ? 1 : 0.25), 1, WIDEST);
        d += `M${(LEFT + n * each + Math.max(0, each - 1 - wide) / 2).toFixed(1)} ${(floor - heights[n]).toFixed(1)}h${wide.toFixed(1)}v${(-tall).toFixed(1)}h${(-wide).toFixed(1)}z`;
        heights[n] += tall;
      });
      if (d) nodes.push(shape("path", { class: `filled is-${name}`, d }));
    });
    nodes.push(...ends(view, width, rate.height - 4));
    const edge = (t) => LEFT + clamp((t - view.first) / view.length, 0, view.bars) * each;
    if (brush)
      nodes.unshift(
        shape("rect", {
          class: "brush",
          x: edge(brush.since).toFixed(1),
          y: 4,
          width: Math.max(2, edge(brush.until) - edge(brush.since)).toFixed(1),
          height: floor - 4,
        }),
      );
    rate.time = (x) => view.first + ((x - LEFT) / each) * view.length;
    rate.draw(width, nodes);
    rate.count = view.bars;
    rate.at = (n) => LEFT + (n + 0.5) * each;
    rate.near = (x) => clamp(Math.floor((x - LEFT) / each), 0, view.bars - 1);
    rate.say = (n) => {
      const many = sums[n].reduce((a, b) => a + b, 0);
      const parts = families
        .map(([, label], place) => (sums[n][place] ? `${label} ${groupDigits(sums[n][place])}` : ""))
        .filter(Boolean);
      const when = `${clockTime(view.first + n * view.length)}, ${duration(view.length)}`;
      return many
        ? `${when}: ${groupDigits(many)} ${many === 1 ? "message" : "messages"} · ${parts.join(" · ")}`
        : `${when}: nothing`;
    };
    rate.rest = `Messages per second; a bar is ${duration(view.length)}; ${groupDigits(totals.reduce((a, b) => a + b, 0))} shown. Drag over the bars to select a time.`;
    rate.settle();
    families.forEach((_, place) => {
      const chip = legend.children[place];
      chip.hidden = !totals[place] && !off.has(place);
      write(chip.lastChild, groupDigits(totals[place]));
    });
    return totals.some(Boolean);
  }

  function addToggles() {
    families.forEach(([name, label], place) => {
      const chip = make(
        "button",
        {
          class: `mew-chip is-${name}`,
          "aria-pressed": "true",
          title: `Show or hide ${label}`,
          hidden: true,
          onclick: () => {
            if (!off.delete(place)) off.add(place);
            chip.setAttribute("aria-pressed", String(!off.has(place)));
            repaint();
          },
        },
        make("span", { text: label }),
        make("span", { class: "mew-count mew-num" }),
      );
      legend.append(chip);
    });
  }

  // --- answers and decisions ---

  /** @type {(name: string, key: string) => Strip} */
  function makeStrip(name, key) {
    const part = /** @type {Strip} */ (
      makeChart(
        key === "request"
          ? "How long requests waited for their answers"
          : "How long proposals waited for a decision",
        96,
      )
    );
    part.marks = key === "request" ? "● answered" : "● approved  × rejected  ○ withdrawn";
    part.ended = key === "request" ? "answered" : "decided";
    part.points = new Map();
    part.told = { of: 0, waiting: 0, oldest: [] };
    part.took = make("span", { class: "mew-took" });
    part.oldest = doer("", () => select(part.oldest.dataset.seq), { class: "mew-link", hidden: true });
    part.part = make(
      "div",
      { class: `mew-strip mew-strip-${key}` },
      make("div", { class: "mew-strip-head" }, make("b", { text: name }), part.took, part.oldest),
      part.box,
      part.line,
    );
    part.choose = (n) => select(`${sign}${part.seen[n][ASKED]}`);
    part.seen = [];
    return part;
  }

  function drawPoints(part, view) {
    const width = part.box.clientWidth;
    if (!width) return false;
    const seen = [...part.points.values()].filter(
      (point) => point[WHEN] >= view.first && point[WHEN] < view.end,
    );
    part.seen = seen;
    const took = seen.map((point) => clamp(point[TOOK], 1e-3, 1e6));
    const low = Math.floor(Math.log10(Math.min(...(took.length ? took : [1e-3]))) + 1e-9);
    const high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(...(took.length ? took : [1]))) - 1e-9));
    const top = 8,
      floor = part.height - 20,
      room = width - LEFT - RIGHT - 8,
      nodes = [];
    const y = (value) => floor - ((Math.log10(clamp(value, 1e-3, 1e6)) - low) / (high - low)) * (floor - top);
    const x = (t) => LEFT + 4 + ((t - view.first) / (view.end - view.first)) * room;
    const every = Math.ceil((high - low) / 4);
    for (let power = low; power <= high; power += every)
      nodes.push(
        ...mark(
          width,
          y(10 ** power),
          power < 0 ? `${Math.round(10 ** (power + 3))} ms` : `${10 ** power} s`,
          power === low,
        ),
      );
    const paths = {};
    for (const point of seen) {
      const [px, py] = [x(point[WHEN]), y(point[TOOK])];
      paths[point[ENDED]] =
        (paths[point[ENDED]] ?? "") +
        (point[ENDED] === "rejected"
          ? `M${(px - 3).toFixed(1)} ${(py - 3).toFixed(1)}l6 6m0 -6l-6 6`
          : point[ENDED] === "withdrawn"
            ? `M${(px - 3).toFixed(1)} ${py.toFixed(1)}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`
            : `M${px.toFixed(1)} ${py.toFixed(1)}h0`);
    }
    for (const [how, d] of Object.entries(paths))
      nodes.push(
        shape("path", {
          class: `drawn ${how === "rejected" || how === "withdrawn" ? "arrow" : "dots"} ${HOW[how]?.[1] ?? ""}`,
          d,
        }),
      );
    nodes.push(...ends(view, width, part.height - 4));
    part.draw(width, nodes);
    part.count = seen.length;
    part.at = (n) => x(seen[n][WHEN]);
    part.height_at = (n) => y(seen[n][TOOK]);
    part.near = (px, py) => {
      let best = -1,
        least = Infinity;
      seen.forEach((point, n) => {
        const away = (x(point[WHEN]) - px) ** 2 + (py === undefined ? 0 : (y(point[TOOK]) - py) ** 2);
        if (away <= least) {
          best = n;
          least = away;
        }
      });
      return best;
    };
    part.say = (n) => {
      const point = seen[n];
      return `${HOW[point[ENDED]]?.[0] ?? ""} ${clockTime(point[WHEN])} ${duration(point[TOOK])}: ${ENDED_WORDS[point[ENDED]] ?? point[ENDED]} by ${point[BY]} · ${sign}${point[ASKED]} ${point[ASKER]}: ${point[LABEL]}`;
    };
    part.rest = seen.length
      ? `${part.marks}; click a point to see its exchange`
      : `Nothing was ${part.ended} in this time.`;
    part.settle();
    return seen.length > 0;
  }

  // --- shared by all charts: a cursor for the mouse and the keyboard, and a line that describes the marked place ---

  /** @type {(label: string, height: number) => Chart} */
  function makeChart(label, height) {
    const svg = shape("svg", { class: "mew-drawing", "aria-hidden": "true", height });
    const cursor = shape("path", { class: "cursor" });
    const box = make(
      "div",
      {
        class: "mew-chart",
        role: "slider",
        tabindex: 0,
        "aria-label": label,
        "aria-valuemin": 0,
        "aria-valuemax": 0,
        "aria-valuenow": 0,
        "aria-valuetext": "",
      },
      svg,
    );
    const line = make("div", { class: "mew-line", dir: "ltr" });
    /** @type {Chart} */
    const self = {
      box,
      line,
      height,
      count: 0,
      place: -1,
      rest: "",
      say: () => "",
      at: () => 0,
      near: () => -1,
      draw,
      settle,
    };
    function draw(width, nodes) {
      svg.setAttribute("width", width);
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.replaceChildren(...nodes, cursor);
    }
    function settle() {
      if (self.place >= self.count) self.place = -1;
      const marked = self.place >= 0,
        text = marked ? self.say(self.place) : self.rest;
      write(line, text);
      const y = marked ? self.height_at?.(self.place) : 0;
      cursor.setAttribute(
        "d",
        !marked
          ? ""
          : self.height_at
            ? `M${self.at(self.place) - 6} ${y}a6 6 0 1 0 12 0a6 6 0 1 0 -12 0`
            : `M${self.at(self.place)} 6V${height - 20}`,
      );
      setAttribute(box, "aria-valuemax", Math.max(0, self.count - 1));
      setAttribute(box, "aria-valuenow", Math.max(0, self.place));
      setAttribute(box, "aria-valuetext", text);
    }
    const put = (place) => {
      self.place = place;
      self.settle();
    };
    const under = (event) => {
      const edge = svg.getBoundingClientRect();
      return self.near(event.clientX - edge.left, event.clientY - edge.top);
    };
    box.addEventListener("pointermove", (event) => self.count && put(under(event)));
    box.addEventListener("pointerleave", () => put(-1));
    box.addEventListener("blur", () => put(-1));
    box.addEventListener("click", (event) => {
      if (!self.count || !event.isTrusted) return;
      put(under(event));
      self.choose?.(self.place);
    });
    box.addEventListener("keydown", (event) => {
      const last = self.count - 1,
        page = Math.max(1, Math.round(self.count / 10));
      const to = {
        ArrowLeft: self.place < 0 ? last : self.place - 1,
        ArrowDown: self.place < 0 ? last : self.place - 1,
        ArrowRight: self.place + 1,
        ArrowUp: self.place + 1,
        PageUp: self.place + page,
        PageDown: self.place - page,
        Home: 0,
        End: last,
      }[event.key];
      if (event.key === "Enter" && self.place >= 0 && event.isTrusted) self.choose?.(self.place);
      if (to === undefined || last < 0) return;
      event.preventDefault();
      put(clamp(to, 0, last));
    });
    return self;
  }

  function mark(width, y, text, base) {
    const label = shape("text", { class: "faint", x: LEFT - 6, y: y + 4, "text-anchor": "end" });
    label.textContent = text;
    return [
      shape("line", { class: base ? "rule" : "thin", x1: LEFT, y1: y, x2: width - RIGHT, y2: y }),
      label,
    ];
  }

  function ends(view, width, y) {
    const from = shape("text", { class: "faint", x: LEFT, y }),
      to = shape("text", { class: "faint", x: width - RIGHT, y, "text-anchor": "end" });
    from.textContent = clockTime(view.first);
    to.textContent = clockTime(window_ && !zoom ? Math.min(view.end, now()) : view.end);
    return [from, to];
  }

  function roundUp(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((bound) => bound >= value * (1 - 1e-9));
  }

  // --- the exchange ---

  async function select(id) {
    if (!String(id).trim()) return which.focus();
    const done = await link.act("select", { which: String(id) });
    if (done) announce(done.said);
  }

  function showExchange(item) {
    exchange = item;
    const shown = Boolean(item.drawing),
      other = root.dataset.chosen !== String(item.chosen);
    stage.hidden = steps.hidden = keep.hidden = clear.hidden = !shown;
    root.dataset.chosen = shown ? String(item.chosen) : "";
    if (!shown) {
      about.textContent = "Click a point, or enter a message number, to see the exchange.";
      stage.replaceChildren();
      stepRows.show([]);
      return;
    }
    about.textContent = item.drawing.title;
    drawExchange();
    // The keyboard focus and the scroll position stay when the exchange grows.
    write(
      stepCount,
      `${item.steps.length === 1 ? "The message" : `The ${item.steps.length} messages`} as a table`,
    );
    stepRows.show(item.steps);
    if (other) stepPart.scrollTop = 0;
  }

  function fillStep({ node, data: texts }) {
    texts.forEach((text, n) => {
      if (n) write(node.cells[n].firstChild, text);
    });
  }

  function stepLine([seq]) {
    const go = make("button", {
      class: "mew-link",
      text: seq,
      title: "Show in messages",
      onclick: () => openIn(root, "feed", { seq: Number(seq.slice(1)) }),
    });
    const css = ["mew-num", "mew-num", "mew-code", "mew-code", "mew-code", "", ""];
    const cells = css.map((name, n) => make("td", { class: name }, n ? make("bdi") : go));
    return { node: make("tr", { "data-seq": seq }, ...cells), data: undefined };
  }

  // A view of a phone's width has a diagram of its own, in which the summaries stand below the arrows.
  function drawExchange() {
    const tight = root.clientWidth > 0 && root.clientWidth < 640,
      near = stage.scrollLeft,
      drawing = tight ? exchange.narrow : exchange.drawing;
    stage.dataset.tight = String(tight);
    const picture = shape("svg", {
      class: "mew-drawing",
      role: "img",
      "aria-label": `${drawing.title}. ${drawing.about}`,
      width: drawing.width,
      height: drawing.height,
      viewBox: `0 0 ${drawing.width} ${drawing.height}`,
    });
    picture.append(...drawing.shapes.map(makeDrawing));
    stage.replaceChildren(picture);
    stage.scrollLeft = near;
  }

  // A time is marked by dragging over the bars, or with Shift and the arrows.
  let grip = null;
  const placeOf = (event) => rate.time(event.clientX - rate.box.getBoundingClientRect().left);
  const markTime = (a, b) => setBrush(snapBrush(scale, a, b));
  rate.box.addEventListener("pointerdown", (event) => {
    if (event.button || !rate.count) return;
    grip = { x: event.clientX, t: placeOf(event) };
    rate.box.setPointerCapture(event.pointerId);
  });
  rate.box.addEventListener("pointermove", (event) => {
    if (grip && Math.abs(event.clientX - grip.x) > 4) markTime(grip.t, placeOf(event));
  });
  rate.box.addEventListener("lostpointercapture", () => {
    grip = null;
  });
  rate.box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && brush) {
      event.preventDefault();
      return setBrush(null);
    }
    if (!event.shiftKey || !/^Arrow(Left|Right)$/.test(event.key) || rate.place < 0) return;
    // The marked place has moved by now; the time begins where it was at first.
    const at = scale.first + rate.place * scale.length,
      middle = at + scale.length / 2;
    const anchor = brush?.anchor ?? middle + (event.key === "ArrowRight" ? -scale.length : scale.length);
    setBrush({ ...snapBrush(scale, anchor, middle), anchor });
  });

  const endOffer = onOpen(root, "timeline", async ({ id, seq }) => {
    const done = await link.act("select", { which: id === undefined ? `#${seq}` : `id:${id}` }, () => {});
    if (done) announce(done.said);
    return done !== null;
  });

  which.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.isTrusted) select(which.value);
  });

  const sizes = new ResizeObserver(paintSoon);
  sizes.observe(charts);
  return () => {
    sizes.disconnect();
    paintEachSecond(false);
    cancelAnimationFrame(frame);
    endOffer();
    link.end();
  };
}

export default { render };
