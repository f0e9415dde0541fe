// The button that cancels a call that runs, for every view that shows one. Where no cancel may be sent it is hidden.

import { doer } from "./elements.js";

/**
 * A call that runs, as ui/running.py packs it; `seq` and `calls` are the places that a view has asked for.
 * `fulfils` are the ids of the proposals that it carries out. In a cell that waits a call that has ended has its `end`: `done`, `failed` or `unknown`, in words, and when.
 * @typedef {{ id: string, text: string, since: number, progress: string, cancel: boolean, fulfils?: string[], seq?: number, calls?: string[], end?: { how: string, text: string, at: number } }} RunningData
 */

// `say(sentence)` shows what became of it; `ready()` may hold a press back.
/** @type {(link: any, call: RunningData, say: (sentence: string) => void, attributes?: Record<string, any>, ready?: () => boolean) => HTMLButtonElement} */
export function cancelButton(link, call, say, attributes = {}, ready = () => true) {
  const label = `Cancel ${call.text}`;
  return doer(
    "Cancel",
    async () => {
      if (!ready()) return;
      const done = await link.act("cancel_call", { id: call.id });
      if (done) say(done.said);
    },
    {
      class: "mew-small mew-danger mew-cancel-call",
      "aria-label": label,
      title: label,
      hidden: !call.cancel,
      ...attributes,
    },
  );
}
