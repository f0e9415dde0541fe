// Where the bar of a step lies within the time of its sequence, in percent: a waterfall, as tracing tools draw it.

const LEAST_WIDTH = 1;

// The bar from `start` to `end` within `from` to `to`; all are times in seconds.
export function durationBar(start, end, from, to) {
  const whole = Math.max(to - from, 1e-6);
  const left = Math.min(100 - LEAST_WIDTH, Math.max(0, (100 * (start - from)) / whole));
  const width = Math.max(LEAST_WIDTH, Math.min(100 - left, (100 * (end - start)) / whole));
  return { left, width };
}

// The time that a step took: a call until its end, another step since the step before it or since the start.
export function stepSpan(step, before, started, now) {
  if (step.call) return { start: step.t, end: Math.max(step.t, step.call.ended ?? now) };
  const reported = step.took ?? null;
  const start = reported === null ? (before ?? started) : Math.max(started, step.t - reported);
  return { start: Math.min(start, step.t), end: step.t };
}
