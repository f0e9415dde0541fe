// The progress of a running call as a bar with its text. A participant reports [done, total, message]; the total may be null.

import { make, write } from "../ui/elements.js";
import { roundNumber } from "../ui/text.js";

// "3 of 10 (30 %) · reading"; without a total "3 · reading". A report may exceed its total, the share does not.
export function progressText([done, total, message]) {
  const share = progressShare([done, total]);
  const amount =
    share === null
      ? roundNumber(done)
      : `${roundNumber(done)} of ${roundNumber(total)} (${Math.round(share * 100)} %)`;
  return message ? `${amount} · ${message}` : amount;
}

export function progressShare([done, total]) {
  return total === null || !(total > 0) ? null : Math.min(1, Math.max(0, done / total));
}

export function progressBar(label) {
  const fill = make("div", { class: "mew-progress-fill" });
  const track = make(
    "div",
    {
      class: "mew-progress-track",
      role: "progressbar",
      "aria-label": `Progress of ${label}`,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
    },
    fill,
  );
  const text = make("bdi", { class: "mew-progress-text mew-num" });
  const node = make("div", { class: "mew-progress", hidden: true }, track, text);
  return {
    node,
    show(progress) {
      node.hidden = !progress;
      if (!progress) return;
      const share = progressShare(progress),
        said = progressText(progress);
      track.hidden = share === null;
      fill.style.width = `${100 * (share ?? 0)}%`;
      if (share !== null) track.setAttribute("aria-valuenow", String(Math.round(share * 100)));
      track.setAttribute("aria-valuetext", said);
      write(text, said, said);
    },
  };
}
