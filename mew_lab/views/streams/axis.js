// The horizontal axis of a plot. Points that came one by one lie at their times; points that came many at once would lie on
// top of each other, so they lie in the order of their arrival.

const EACH_AT_ITS_TIME = 0.8;

// `{ byTime, share(n) }`: where point n lies, from 0 to 1. `times` are in seconds.
export function timeAxis(times) {
  const count = times.length,
    first = times[0],
    span = count ? times[count - 1] - first : 0;
  const byTime = count > 1 && span > 0 && new Set(times).size >= EACH_AT_ITS_TIME * count;
  return { byTime, share: (n) => (byTime ? (times[n] - first) / span : count > 1 ? n / (count - 1) : 0.5) };
}

// The point nearest to a place from 0 to 1; -1 without points.
export function nearestPoint(axis, count, share) {
  let best = -1,
    least = Infinity;
  for (let n = 0; n < count; n += 1) {
    const distance = Math.abs(axis.share(n) - share);
    if (distance < least) [best, least] = [n, distance];
  }
  return best;
}

// The points whose times stand below the axis: the first, some between, the last.
export function axisTicks(axis, count, most) {
  if (!count) return [];
  const ticks = Array.from({ length: most }, (_, n) =>
    nearestPoint(axis, count, most > 1 ? n / (most - 1) : 0.5),
  );
  return [...new Set(ticks)];
}
