// What a row says of a participant: its initials, its kind and its state, in words.

import { clockTime, duration } from "../ui/text.js";

export const KIND_WORDS = { you: "you", agent: "agent", tools: "provides tools", other: "other participant" };
export const KIND_ICONS = { you: "◉", agent: "✦", tools: "⚒", other: "○" };

// Up to three letters: "YOU", all of a short name, the first letters of the words of a name, or its first consonants. The
// last digits of a name stay, for they tell the agents of a crowd apart.
export function initials(name, you = false) {
  if (you) return "YOU";
  const words = name.split(/[^A-Za-z0-9]+/).filter(Boolean);
  const joined = words.join("");
  if (!joined) return "?";
  if (joined.length <= 3) return joined;
  const number = name.match(/\d{1,2}(?=\D*$)/)?.[0] ?? "";
  if (number)
    return (
      words
        .filter((word) => !/^\d/.test(word))
        .map((word) => word[0])
        .join("")
        .slice(0, 3 - number.length) + number
    );
  if (words.length > 1)
    return words
      .slice(0, 3)
      .map((word) => word[0])
      .join("");
  const rest = joined.slice(1),
    consonants = rest.replace(/[aeiou]/gi, "");
  return (joined[0] + (consonants.length >= 2 ? consonants : rest)).slice(0, 3);
}

// The state in a few words, a longer text for a tooltip, and a tone: "wait", "bad", "think" or nothing.
export function describeState(data, now) {
  const {
    presence,
    paused,
    doing: [state, since, about],
  } = data;
  if (presence === "paused" && paused) {
    const until = paused.until === null ? "" : ` until ${clockTime(paused.until).slice(0, 5)}`;
    return {
      text: `paused${until}`,
      hover: `paused by ${paused.by}${paused.reason ? `: ${paused.reason}` : ""}`,
      tone: "wait",
    };
  }
  if (presence === "invited") return { text: "invited", hover: "It has not joined yet.", tone: "" };
  if (presence !== "here")
    return {
      text: presence,
      hover: data.since ? `since ${clockTime(data.since)}` : "",
      tone: presence === "left" ? "" : "bad",
    };
  const here = data.since ? `Here since ${clockTime(data.since)}.` : "",
    tell = (text) => [text, here].filter(Boolean).join("\n");
  if (state === "waiting")
    return {
      text: "waiting for you",
      hover: tell(`Its proposal of ${about} is open since ${clockTime(since)}.`),
      tone: "wait",
    };
  if (state === "thinking")
    return {
      text: `thinking ${duration(Math.max(1, Math.floor(now - since)))}`,
      hover: tell(`Its reasoning began at ${clockTime(since)}.`),
      tone: "think",
    };
  if (state === "failed")
    return {
      text: `failed: ${about}`,
      hover: tell(`The last call failed at ${clockTime(since)}. ${about}`),
      tone: "bad",
    };
  return { text: "idle", hover: here, tone: "" };
}

// Whether the words of a state change by themselves as time passes.
export function isMoving(data) {
  return data.presence === "here" && data.doing[0] === "thinking";
}
