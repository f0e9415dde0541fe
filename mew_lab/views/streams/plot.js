// Plots numbers over their order of arrival: the last 2 000 points. A table beside the plot has the least, the greatest and the
// last value of each series, so that no line or colour alone carries a meaning.

import { make, write } from "../ui/elements.js";
import { roundNumber, groupDigits } from "../ui/text.js";

const POINTS = 2000, SERIES = 8;
const SERIES_INK = ["mcp", "error", "capability", "reasoning", "proposal", "chat", "participant", "stream"];
const SERIES_DASH = [[], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3], [10, 4], [3, 1]];

export function plot() {
  const canvas = make("canvas", { role: "img", "aria-label": "Plot of the numbers" });
  const high = make("span", { class: "mew-axis mew-num" }), low = make("span", { class: "mew-axis mew-num" });
  const legend = make("tbody");
  const bad = make("div", { class: "mew-dim" });
  const node = make("div", { class: "mew-plot" },
    make("div", { class: "mew-canvas" }, high, canvas, low),
    make("table", { class: "mew-legend" }, make("thead", {}, make("tr", {}, ...["series", "last", "least", "greatest"].map((text, n) => make("th", { scope: "col", class: n ? "mew-num" : null, text })))), legend),
    bad);
  let points = [], names = [], lost = 0;

  function add(item) {
    if (!item.points) return;
    names = item.names.slice(0, SERIES);
    lost = item.bad;
    points.push(...item.points);
    if (points.length > POINTS) points.splice(0, points.length - POINTS);
  }

  function paint() {
    let least = Infinity, greatest = -Infinity;
    const each = names.map((_, n) => {
      let a = Infinity, b = -Infinity, last = null;
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
        line = make("tr", {}, make("th", { scope: "row" }, swatch, make("bdi", { class: "mew-code" })), ...[0, 1, 2].map(() => make("td", { class: "mew-num mew-code" })));
        legend.append(line);
      }
      const sample = line.cells[0].firstChild.getContext("2d");
      sample.clearRect(0, 0, 24, 4);
      stroke(sample, n, (ink) => { ink.moveTo(0, 2); ink.lineTo(24, 2); });
      write(line.cells[0].lastChild, names[n]);
      [series.last, series.a, series.b].forEach((value, m) => write(line.cells[m + 1], roundNumber(value)));
    });
    write(bad, lost ? `${groupDigits(lost)} ${lost === 1 ? "line" : "lines"} had no number.` : "");
    write(high, points.length ? roundNumber(greatest) : "");
    write(low, points.length ? roundNumber(least) : "");
    canvas.setAttribute("aria-label", points.length ? `Plot of ${points.length} points, from ${roundNumber(least)} to ${roundNumber(greatest)}` : "Plot without points so far");
    draw(least, greatest);
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
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const ink = canvas.getContext("2d");
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.clearRect(0, 0, width, height);
    const span = greatest - least || 1, flat = greatest === least;
    const x = (n) => points.length > 1 ? 2 + n * (width - 4) / (points.length - 1) : width / 2;
    const y = (value) => flat ? height / 2 : 4 + (greatest - value) / span * (height - 8);
    names.forEach((_, n) => {
      stroke(ink, n, () => {
        let pen = false;
        points.forEach((point, at) => {
          const value = point[n];
          if (value === null || value === undefined) { pen = false; return; }
          if (pen) ink.lineTo(x(at), y(value));
          else ink.moveTo(x(at), y(value));
          pen = true;
        });
      });
      if (points.length === 1 && points[0][n] !== null) { ink.fillStyle = colour(n); ink.fillRect(x(0) - 2, y(points[0][n]) - 2, 4, 4); }
    });
  }

  return { node, add, paint, end() {} };
}
