// What a view needs of the host that shows it, whichever that is: the comm of a notebook (`comm_adapter.js`), or the socket of
// a page of its own (`page/page.js`).
//
// `get("host")` is the kind of host: `notebook` or `page`.
// `get("words")` are its sentences about the other end; see `Words`.
// `get("parts")` are the parts that a view holds: by name a function that draws one into an element.
// `get("kernel")` is the id of the process at the other end; empty where the host does not know it.
// `get("state")` is what the host itself knows of the other end: `ready`, `busy`, `gone`, or nothing.
// `set(name, value)` keeps a setting of the user.
// `on("message", take)` gets what Python sends, `on("state", take)` is called when the state has changed; either returns
// the function that ends it.
// `send(message)` throws where nothing can be sent.

/**
 * @typedef {object} Words
 * @property {string} gone the other end has gone
 * @property {string} back what helps then
 * @property {string} resumes what a space that was there can do then; empty where no cell can resume it
 * @property {string} quiet it does not answer, and may do so later
 * @property {string} waiting it has not answered the first request
 * @property {string} slow it has not answered an act
 * @property {string} lost what it has sent was lost
 * @property {string} off why nothing can be pressed
 * @property {string} sent what was pressed is not done yet
 * @property {string} confirms it has not said that a card is shown
 * @property {string} again how to draw a view anew
 */
/**
 * @typedef {object} Adapter
 * @property {(name: "host" | "words" | "parts" | "kernel" | "state") => any} get
 * @property {(name: string, value: unknown) => void} set
 * @property {(name: "message" | "state", take: (message?: any) => void) => () => void} on
 * @property {(message: object) => void} send
 */
/** @typedef {(at: { el: HTMLElement, signal?: AbortSignal }) => Promise<unknown>} DrawPart */

// Those of the host of this view, from when it is connected.
/** @type {Words} */
export const hostWords = {
  gone: "",
  back: "",
  resumes: "",
  quiet: "",
  waiting: "",
  slow: "",
  lost: "",
  off: "",
  sent: "",
  confirms: "",
  again: "",
};
