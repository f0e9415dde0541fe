// The adapter of a view in a notebook: anywidget's model of it, whose comm leads to the kernel, and what the front end knows
// of that kernel. Front ends other than JupyterLab tell nothing of it.

const NOTEBOOK_WORDS = {
  gone: "The kernel of this view is gone.",
  back: "Run the notebook from the top.",
  resumes:
    "Its space can go on from its journal; open requests do not come back, and who still wants them proposes them again.",
  quiet:
    "The kernel does not answer. The view continues when the running cell has ended; if no cell runs, run this cell again.",
  waiting: "Waiting for the kernel: a running cell may keep it busy, or it has ended.",
  slow: "The kernel has not answered yet: a running cell may block it.",
  lost: "A message of the kernel was lost, so it is not known whether this was done. Check what is shown now before you try again.",
  off: "The kernel does not answer",
  sent: "Sent; waiting for the kernel (a cell is running)",
  confirms: "Waiting for the kernel to confirm that this is shown",
  again: "Run the cell of this view again.",
};
const KERNEL_ENDED = ["restarting", "autorestarting", "dead", "terminating"];

/**
 * anywidget's model of a view, as far as it is used here. `widget_manager.kernel` is JupyterLab's object of the kernel.
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(message: object) => void} send
 * @property {(name: string, receive: (message: any) => void) => void} on
 * @property {(name: string, receive: (message: any) => void) => void} off
 * @property {{ kernel?: any }} [widget_manager]
 */

// JupyterLab's object for the kernel of a view; null in a front end without one.
/** @type {(model: Model) => any} */
function kernelOf(model) {
  try {
    return model.widget_manager?.kernel ?? null;
  } catch (error) {
    return null;
  }
}

// `host` is anywidget's way to the other widgets of the page.
/** @type {(model: Model, host?: { getWidget(ref: string): Promise<{ render: import("./adapter.js").DrawPart }> }) => import("./adapter.js").Adapter} */
export function commAdapter(model, host) {
  const kernel = kernelOf(model);
  let ended = false; // the kernel of this view never comes back
  function state() {
    if (ended || kernel?.isDisposed || KERNEL_ENDED.includes(kernel?.status)) return "gone";
    if (!kernel) return "";
    return kernel.status === "busy" || kernel.connectionStatus === "connecting" ? "busy" : "ready";
  }
  const drawPart = (ref) => async (at) => (await host.getWidget(ref)).render(at);
  const known = {
    host: () => "notebook",
    words: () => NOTEBOOK_WORDS,
    parts: () =>
      Object.fromEntries(
        Object.entries(model.get("parts") ?? {}).map(([name, ref]) => [name, drawPart(ref)]),
      ),
    kernel: () => kernel?.id ?? "",
    state,
  };
  return {
    get: (name) => known[name](),
    set: (name, value) => model.send({ t: "setting", name, value }),
    send: (message) => model.send(message),
    on(name, take) {
      if (name === "message") {
        model.on("msg:custom", take);
        return () => model.off("msg:custom", take);
      }
      const changed = (_, now) => {
        ended ||= KERNEL_ENDED.includes(now);
        take();
      };
      kernel?.statusChanged?.connect(changed);
      return () => kernel?.statusChanged?.disconnect(changed);
    },
  };
}
