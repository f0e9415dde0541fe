// Plots numbers over the time of their arrival: the last 2 000 points. A table beside the plot has the last, the least and
// the greatest value of each series, so that no line or colour alone carries a meaning. The pointer or the arrow keys read
// the values of one point.

import { activeOf, make, write } from "../ui/elements.js";
import { makeTable } from "../ui/tables.js";
import { clockHover, clockTime, countOf, roundNumber } from "../ui/text.js";
import { axisTicks, nearestPoint, timeAxis } from "./axis.js";

const POINTS = 2000;
const SERIES = 8;
const SERIES_INK = ["mcp", "error", "capability", "reasoning", "proposal", "chat", "participant", "stream"];
const SERIES_DASH = [[], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3], [10, 4], [3, 1]];

export function plot() {
  const canvas = make("canvas", { role: "img", "aria-label": "Plot of the numbers", tabindex: 0 });
  const ticks = make("div", { class: "mew-ticks", "aria-hidden": "true" });
  const readout = make("div", { class: "mew-readout mew-num", role: "status" });
  const high = make("span", { class: "mew-axis mew-num" }),
    low = make("span", { class: "mew-axis mew-num" });
  const legend = make("tbody");
  const bad = make("div", { class: "mew-dim" });
  const node = make(
    "div",
    { class: "mew-plot" },
    make("div", { class: "mew-canvas" }, high, canvas, low, ticks, readout),
    makeTable(["series", ...["last", "min", "max"].map((text) => ({ class: "mew-num", text }))], legend, {
      class: "mew-legend",
    }),
    bad,
  );
  let points = [],
    times = [],
    names = [],
    lost = 0,
    axis = timeAxis([]),
    pointed = -1;

  function add(item) {
    if (!item.points) return;
    names = item.names.slice(0, SERIES);
    lost = item.bad;
    points.push(...item.points);
    times.push(...item.times);
    const surplus = points.length - POINTS;
    if (surplus > 0) {
      points.splice(0, surplus);
      times.splice(0, surplus);
      if (pointed >= 0) pointed = Math.max(0, pointed - surplus);
    }
    axis = timeAxis(times);
  }

  // --- the values of one point ---

  function read(n) {
    pointed = n;
    const values =
      n < 0
        ? []
        : names
            .map((name, series) => [name, points[n][series]])
            .filter(([, value]) => value !== null && value !== undefined);
    readout.replaceChildren(
      ...(n < 0
        ? ["Point at the plot, or use ← and →, to read a value."]
        : [
            make("b", { text: times[n] ? clockTime(times[n]) : `point ${n + 1}` }),
            ...values.flatMap(([name, value]) => [
              " · ",
              make("bdi", { text: names.length > 1 ? `${name} ` : "" }),
              roundNumber(value),
            ]),
          ]),
    );
    readout.title = n >= 0 && times[n] ? clockHover(times[n]) : "";
    paint();
  }
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    read(nearestPoint(axis, points.length, (event.clientX - box.left - 2) / Math.max(1, box.width - 4)));
  });
  canvas.addEventListener("pointerleave", () => {
    if (activeOf(canvas) !== canvas) read(-1);
  });
  canvas.addEventListener("blur", () => read(-1));
  canvas.addEventListener("keydown", (event) => {
    const last = points.length - 1,
      from = pointed < 0 ? last + 1 : pointed;
    const to = { ArrowLeft: from - 1, ArrowRight: Math.min(last, from + 1), Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    read(Math.max(0, Math.min(last, to)));
  });

  function paint() {
    let least = Infinity,
      greatest = -Infinity;
    const each = names.map((_, n) => {
      let a = Infinity,
        b = -Infinity,
        last = null;
      for (const point of points) {
        const value = point[n];
        if (value === null || value === undefined) continue;
        if (value < a) a = value;
        if (value > b) b = value;
        last = value;
      }
      least = Math.min(least, a);
      greatest = Math.max(greatest, b);
      return { last, a: a === Infinity ? null : a, b: b === -Infinity ? null : b };
    });
    while (legend.rows.length > names.length) legend.lastChild.remove();
    each.forEach((series, n) => {
      let line = legend.rows[n];
      if (!line) {
        const swatch = make("canvas", { class: "mew-swatch", width: 24, height: 4, "aria-hidden": true });
        line = make(
          "tr",
          {},
          make("th", { scope: "row" }, swatch, make("bdi", { class: "mew-code" })),
          ...[0, 1, 2].map(() => make("td", { class: "mew-num mew-code" })),
        );
        legend.append(line);
      }
      const sample = line.cells[0].firstChild.getContext("2d");
      sample.clearRect(0, 0, 24, 4);
      stroke(sample, n, (ink) => {
        ink.moveTo(0, 2);
        ink.lineTo(24, 2);
      });
      write(line.cells[0].lastChild, names[n]);
      [series.last, series.a, series.b].forEach((value, m) => write(line.cells[m + 1], roundNumber(value)));
    });
    write(
      bad,
      [
        lost ? `${countOf(lost, "line")} had no number.` : "",
        points.length > 1 && !axis.byTime
          ? "Many points came at once, so they stand in their order, not at their times."
          : "",
      ]
        .filter(Boolean)
        .join(" "),
    );
    showTicks();
    if (pointed < 0 && !readout.textContent) read(-1);
    write(high, points.length ? roundNumber(greatest) : "");
    write(low, points.length ? roundNumber(least) : "");
    canvas.setAttribute(
      "aria-label",
      points.length
        ? `Plot of ${points.length} points, from ${roundNumber(least)} to ${roundNumber(greatest)}`
        : "Plot without points so far",
    );
    draw(least, greatest);
  }

  function showTicks() {
    const wanted = axisTicks(axis, points.length, canvas.clientWidth < 320 ? 2 : 4);
    while (ticks.children.length > wanted.length) ticks.lastChild.remove();
    wanted.forEach((n, at) => {
      const tick = ticks.children[at] ?? ticks.appendChild(make("span"));
      write(tick, times[n] ? clockTime(times[n]) : `${n + 1}`, times[n] ? clockHover(times[n]) : "");
      const share = axis.share(n);
      tick.style.left = `${100 * share}%`;
      tick.style.transform = `translateX(${share < 0.1 ? 0 : share > 0.9 ? -100 : -50}%)`;
    });
  }

  // The colour of a series in the present theme.
  function colour(n) {
    return getComputedStyle(node).getPropertyValue(`--mew-${SERIES_INK[n]}`).trim();
  }

  function stroke(ink, n, path) {
    ink.strokeStyle = colour(n);
    ink.lineWidth = 1.5;
    ink.setLineDash(SERIES_DASH[n]);
    ink.beginPath();
    path(ink);
    ink.stroke();
  }

  function draw(least, greatest) {
    const scale = window.devicePixelRatio || 1,
      width = canvas.clientWidth,
      height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const ink = canvas.getContext("2d");
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.clearRect(0, 0, width, height);
    const span = greatest - least || 1,
      flat = greatest === least;
    const x = (n) => (points.length > 1 ? 2 + axis.share(n) * (width - 4) : width / 2);
    const y = (value) => (flat ? height / 2 : 4 + ((greatest - value) / span) * (height - 8));
    if (pointed >= 0 && pointed < points.length) {
      ink.fillStyle = getComputedStyle(node).getPropertyValue("--mew-line-strong").trim() || "#888";
      ink.fillRect(Math.round(x(pointed)), 0, 1, height);
    }
    names.forEach((_, n) => {
      stroke(ink, n, () => {
        let pen = false;
        points.forEach((point, at) => {
          const value = point[n];
          if (value === null || value === undefined) {
            pen = false;
            return;
          }
          if (pen) ink.lineTo(x(at), y(value));
          else ink.moveTo(x(at), y(value));
          pen = true;
        });
      });
      const value = pointed >= 0 ? points[pointed]?.[n] : null;
      if (value !== null && value !== undefined) {
        ink.fillStyle = colour(n);
        ink.fillRect(x(pointed) - 3, y(value) - 3, 6, 6);
      }
      if (points.length === 1 && points[0][n] !== null) {
        ink.fillStyle = colour(n);
        ink.fillRect(x(0) - 2, y(points[0][n]) - 2, 4, 4);
      }
    });
  }

  return { node, add, paint, end() {} };
}
