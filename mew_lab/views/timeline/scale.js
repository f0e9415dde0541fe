// Which part of the time the charts show, and in how many bars.

const LENGTHS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600];
const LEAST = 10; // seconds that are shown at least, so that a few messages at once are a bar and no slab
const FINE = 3600; // seconds that are known one by one; before them there are minutes

// `zoom` is a part that the reader has chosen, `length` the last so many seconds, or 0 for all that there is: then the
// charts begin with the first message and end with the last one, whatever the time is now; a very short time is in their middle.
export function barsOf({ zoom, length, now, firstSecond, lastSecond, firstMinute, most }) {
  const whole = lastSecond + 1 - firstMinute <= FINE ? firstSecond : firstMinute;
  const spare = Math.max(0, LEAST - (lastSecond + 1 - whole)),
    before = Math.ceil(spare / 2);
  const [from, to] = zoom
    ? [zoom.since, zoom.until]
    : length
      ? [now - length, now]
      : [whole - before, lastSecond + 1 + spare - before];
  const span = Math.max(1, to - from),
    fine = from >= lastSecond - FINE || lastSecond - firstMinute <= FINE;
  const size = LENGTHS.find((size) => (fine || size >= 60) && span / size <= most) ?? LENGTHS.at(-1);
  const first = Math.floor(from / size) * size,
    bars = Math.max(1, Math.ceil((to - first) / size));
  return { length: size, first, end: first + bars * size, bars, fine };
}

// The whole bars between two moments, at least one.
export function snapBrush({ first, end, length }, a, b) {
  const low = Math.max(first, Math.min(a, b)),
    high = Math.min(end, Math.max(a, b));
  const since =
    first + Math.min(Math.floor((low - first) / length), Math.round((end - first) / length) - 1) * length;
  return { since, until: Math.max(since + length, first + Math.ceil((high - first) / length) * length) };
}
