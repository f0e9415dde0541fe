// Numbers, times and names as a person reads them.

// Stands beside each field in which a person may write a pattern; `SEE` of `protocol/profiles.py`.
export const PATTERN_HELP = "How patterns are written: notebooks/reference/patterns.ipynb";

let MEW_CLOCK_UTC = false;

// Whether clock times are shown in UTC; otherwise in the reader's zone.
export function setClockUtc(wanted) {
  MEW_CLOCK_UTC = wanted;
}

export function clockTime(seconds) {
  const zone = MEW_CLOCK_UTC ? { timeZone: "UTC" } : {};
  return new Date(seconds * 1000).toLocaleTimeString([], {
    hourCycle: "h23",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    ...zone,
  });
}

// The date and time in UTC, for a tooltip.
export function clockHover(seconds) {
  const text = new Date(seconds * 1000).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

// "1 participant", "2 participants".
export function countOf(n, noun, plural = `${noun}s`) {
  return `${groupDigits(n)} ${n === 1 ? noun : plural}`;
}

// A sentence whose first letter is a capital; every other text is left as it is.
export function capitalize(text) {
  return text.replace(/^[a-z]/, (letter) => letter.toUpperCase());
}

export function elapsedTime(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const two = (n) => String(n).padStart(2, "0");
  return s < 3600
    ? `${Math.floor(s / 60)}:${two(s % 60)}`
    : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

export function groupDigits(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

// "3.2/s", "1 200/s"; nothing for none.
export function rateText(perSecond) {
  if (!perSecond) return "";
  return `${perSecond < 10 ? Math.round(perSecond * 10) / 10 : groupDigits(Math.round(perSecond))}/s`;
}

// "3.2 s" below ten seconds, "41 s" below a minute, then minutes and hours.
export function timeSpan(seconds) {
  const s = Math.max(0, seconds);
  return s < 9.95 ? `${s.toFixed(1)} s` : s < 60 ? `${Math.round(s)} s` : elapsedTime(s);
}

// A name, shortened in its middle.
export function shorten(text, most = 64) {
  const signs = text.length > most ? Array.from(text) : [];
  if (signs.length <= most) return text;
  const head = (most - 1) >> 1;
  return `${signs.slice(0, head).join("")}…${signs.slice(head + 1 - most).join("")}`;
}

// The units of a duration: their name, their length in seconds, and the value from which on the next one is used.
/** @type {[string, number, number][]} */
const DURATION_UNITS = [
  ["s", 1, 99.5],
  ["min", 60, 99.5],
  ["h", 3600, 47.5],
  ["d", 86400, Infinity],
];

// "250 ms", "3.2 s", "12 min", "3 h", "2 d".
/** @type {(seconds: number) => string} */
export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  for (const [unit, size, most] of DURATION_UNITS) {
    const value = seconds / size;
    if (value < most)
      return `${value < 9.95 ? String(Math.round(value * 10) / 10) : Math.round(value)} ${unit}`;
  }
}

// The time between two rows: exact below two minutes.
export function seconds(s) {
  return s < 1
    ? `${Math.max(0, Math.round(s * 1000))} ms`
    : s < 10
      ? `${s.toFixed(2)} s`
      : s < 120
        ? `${s.toFixed(1)} s`
        : elapsedTime(s);
}

// A number of bytes.
export function amount(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const [value, unit] = bytes < 1048576 ? [bytes / 1024, "KiB"] : [bytes / 1048576, "MiB"];
  return `${value < 10 ? value.toFixed(1) : groupDigits(Math.round(value))} ${unit}`;
}

// A number of a series, to four digits after the point.
export function roundNumber(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-3)) return value.toExponential(3);
  return String(Math.round(value * 1e4) / 1e4);
}
