// A page of its own: signs in by the code in the fragment of its address, then shows the panel of the space. The secret of the
// session stays in this tab, and is no cookie, so no other page sends it along.

import { make } from "../ui/elements.js";
import { openSocket } from "./socket_adapter.js";

const KEPT_AS = "mew-lab-session";
const HOW =
  "A link is printed where the space runs: when it is started with --ui, by %mew ui, or by lab.serve_ui().";

function render({ el }) {
  const root = make("main", { class: "mew mew-page" });
  el.append(root);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = () => (document.body.dataset.jpThemeLight = String(!dark.matches));
  dark.addEventListener("change", setTheme);
  setTheme();

  function tell(title, text, ...more) {
    root.replaceChildren(
      make(
        "div",
        { class: "mew-sign-in", role: "status" },
        make("h1", { text: title }),
        make("p", { text }),
        ...more,
      ),
    );
  }

  async function signIn() {
    const code = location.hash.slice(1);
    // Neither the history nor the address of this tab keeps the code.
    if (code) history.replaceState(null, "", location.pathname);
    try {
      if (code) sessionStorage.setItem(KEPT_AS, await exchange(code));
    } catch (error) {
      return tell("Not signed in", error.message, make("p", { text: HOW }));
    }
    const secret = sessionStorage.getItem(KEPT_AS);
    if (!secret) return tell("Not signed in", HOW);
    tell("Connecting", "Waiting for the server of this page.");
    const socket = openSocket(secret, {
      ready(space) {
        document.title = space;
        const place = make("div", { class: "mew-page-panel" });
        root.replaceChildren(place);
        socket.draw("panel")({ el: place });
      },
      over() {
        sessionStorage.removeItem(KEPT_AS);
        tell("Signed out", `The session of this page has ended. ${HOW}`);
      },
    });
  }
  // Another link in the same tab changes the fragment alone.
  window.addEventListener("hashchange", () => location.reload());
  signIn();
}

async function exchange(code) {
  let answer;
  try {
    answer = await fetch("/ui/session", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    throw new Error("The server of this page does not answer, so nobody was signed in.");
  }
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()).session;
}

export default { render };
