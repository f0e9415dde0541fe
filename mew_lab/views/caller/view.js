// Calls the person from a page that shows no card of what waits: the title counts it, and the front end calls as it does for
// a part that is out of sight. It draws nothing, and is silent as long as a part of the same kernel does the same.

import { attention, lineOf } from "../ui/attention.js";
import { make } from "../ui/elements.js";

const WHERE = "Run %mew approvals in a cell: it draws what waits for you.";

/**
 * anywidget's model of a caller: `waiting` and `space` of the kernel.
 * @typedef {import("../ui/comm_adapter.js").Model & { get(name: "waiting"): number }} CallerModel
 */

// Returns the function that ends it.
/** @type {(model: CallerModel, adapter: import("../ui/adapter.js").Adapter) => () => void} */
export function callFrom(model, adapter) {
  const root = make("div", {});
  const group = adapter.get("kernel");
  const called = attention({ root, group, shown: () => false, show: tellWhere });
  const page = /** @type {import("../ui/attention.js").HostPage} */ (document);
  const isAlone = () =>
    ![...page.mewHosts.values()].some((host) => host.group === group && host.root !== root);
  function update() {
    const waits = adapter.get("state") !== "gone" && isAlone();
    called.set(waits ? model.get("waiting") : 0, model.get("space"));
  }
  // Each part that begins or ceases to show what waits says so to the page.
  document.addEventListener("mew-attention", update);
  model.on("change:waiting", update);
  const leave = adapter.on("state", update);
  update();
  return () => {
    document.removeEventListener("mew-attention", update);
    model.off("change:waiting", update);
    leave();
    called.end();
  };
}

function tellWhere() {
  const line = lineOf(WHERE, () => line.remove());
  document.body.append(line);
  line.showPopover();
}

function render() {}

export default { render };
