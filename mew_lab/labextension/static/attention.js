// What JupyterLab does for the views of mew_lab. An item of the status bar says how many requests wait in all notebooks, a
// notification has a button that leads to the first, and a cell is inserted below a view. The views ask for that by events
// of the page (views/ui/attention.js and resume.js), and do without where nobody prevents the default.
//
// This is a module as JupyterLab loads prebuilt extensions, written by hand: `init` gets the modules that all extensions
// share, `get` gives the plugin. Nothing has to be built.

(() => {
  let shared = {};

  // JupyterLab's own module of that name; null in a front end that does not have it.
  async function load(name) {
    const [version] = Object.values(shared[name] ?? {});
    return version ? (await version.get())() : null;
  }

  // The tab that holds a view, which comes to the front.
  function showTab(app, node) {
    const tab = [...app.shell.widgets("main")].find((widget) => widget.node.contains(node));
    if (tab) app.shell.activateById(tab.id);
    return tab;
  }

  async function lead(app, { node, show }) {
    showTab(app, node);
    // A tab that was hidden has no layout before the next frame.
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    show();
  }

  async function insertCell(app, { node, code }) {
    const { content } = showTab(app, node);
    content.activeCellIndex = content.widgets.findIndex((cell) => cell.node.contains(node));
    await app.commands.execute("notebook:insert-cell-below");
    content.activeCell.model.sharedModel.setSource(code);
    content.activeCell.node.scrollIntoView({ block: "nearest" });
  }

  function statusItem(statusBar, { Widget }, run) {
    const node = document.createElement("button");
    node.className = "mew-status-item";
    node.style.cssText =
      "border: none; font: inherit; font-weight: 600; color: #3d2900; background: #ffd980;";
    node.addEventListener("click", run);
    let count = 0,
      ask = () => {};
    // The bar shows the item while it is active, and asks that anew after a change.
    const activeStateChanged = { connect: (changed) => (ask = changed), disconnect() {} };
    const item = new Widget({ node });
    const place = { item, align: "left", rank: 100, isActive: () => count > 0, activeStateChanged };
    statusBar.registerStatusItem("mew_lab:waiting", place);
    return (waiting) => {
      count = waiting;
      node.textContent = `${count} need${count === 1 ? "s" : ""} you`;
      ask();
    };
  }

  function activate(app, { Notification }, widgets, statusBar) {
    let last = { waiting: 0 },
      notification = null;
    const setCount = statusBar && statusItem(statusBar, widgets, () => last.node && lead(app, last));
    document.addEventListener("mew-attention", (event) => {
      const call = (last = event.detail);
      setCount?.(call.waiting);
      if (notification && (call.seen || call.text || !call.waiting)) Notification.dismiss(notification);
      if (!call.text) return;
      event.preventDefault();
      const actions = [{ label: "Show", callback: () => lead(app, call) }];
      notification = Notification.warning(call.text, { autoClose: false, actions });
    });
    document.addEventListener("mew-insert-cell", (event) => {
      if (!event.detail.node.closest(".jp-Notebook")) return;
      event.preventDefault();
      insertCell(app, event.detail);
    });
  }

  (window._JUPYTERLAB ??= {}).mew_lab = {
    init(scope) {
      shared = scope;
    },
    async get() {
      const names = ["@jupyterlab/apputils", "@lumino/widgets", "@jupyterlab/statusbar"];
      const [apputils, widgets, statusbar] = await Promise.all(names.map(load));
      const plugin = {
        id: "mew_lab:attention",
        autoStart: true,
        optional: statusbar ? [statusbar.IStatusBar] : [],
        activate: (app, statusBar) => activate(app, apputils, widgets, statusBar),
      };
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
