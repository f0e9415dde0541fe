// Viewers of a stream's content: text, JSON lines, hexadecimal, or the last picture. A viewer has a node, takes items and
// paints the new ones. It holds a bounded tail: 256 Ki characters, 1 000 lines of JSON, 1 024 of hexadecimal, one picture.

import { make } from "../ui/elements.js";
import { countOf, groupDigits } from "../ui/text.js";

const TEXT = 256 * 1024;
const JSON_ROWS = 1000;
const HEX_ROWS = 1024;

// A box that stays at its end until the reader scrolls away.
function tail(label, content) {
  const box = make(
    "div",
    { class: "mew-tail", tabindex: 0, role: "region", "aria-label": label, dir: "ltr" },
    content,
  );
  return {
    box,
    keep(change) {
      const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
      change();
      if (atEnd) box.scrollTop = box.scrollHeight;
    },
  };
}

export function textViewer() {
  const pre = make("pre", { class: "mew-code" });
  const { box, keep } = tail("Text of the stream", pre);
  let fresh = "",
    length = 0;
  return {
    node: box,
    add(item) {
      fresh += item.text ?? "";
      if (fresh.length > TEXT) fresh = fresh.slice(-TEXT);
    },
    paint() {
      if (!fresh) return;
      keep(() => {
        pre.append(document.createTextNode(fresh));
        length += fresh.length;
        fresh = "";
        while (length > TEXT && pre.childNodes.length > 1) {
          length -= pre.firstChild.data.length;
          pre.firstChild.remove();
        }
      });
    },
    end() {},
  };
}

// Indents visible JSON without parsing it, so that escapes stay as they are.
export function indent(text) {
  let out = "",
    depth = 0,
    quoted = false;
  const line = () => `\n${"  ".repeat(Math.min(depth, 40))}`;
  for (let n = 0; n < text.length; n++) {
    const c = text[n];
    if (quoted) {
      out += c;
      if (c === "\\") out += text[++n] ?? "";
      else if (c === '"') quoted = false;
    } else if (c === '"') {
      quoted = true;
      out += c;
    } else if (c === "{" || c === "[") {
      if (text[n + 1] === "}" || text[n + 1] === "]") {
        out += c + text[++n];
        continue;
      }
      depth += 1;
      out += c + line();
    } else if (c === "}" || c === "]") {
      depth = Math.max(0, depth - 1);
      out += line() + c;
    } else if (c === ",") {
      out += c + line();
      if (text[n + 1] === " ") n += 1;
    } else out += c;
  }
  return out;
}

export function jsonViewer() {
  const list = make("div", { class: "mew-jsonlines", role: "list" });
  const { box, keep } = tail("JSON lines of the stream", list);
  const toggle = make("button", {
    class: "mew-indent",
    text: "indent",
    "aria-pressed": "false",
    onclick: () => {
      deep = !deep;
      toggle.setAttribute("aria-pressed", String(deep));
      keep(() => {
        for (const line of list.children) show(line, line.row);
      });
    },
  });
  let fresh = [],
    deep = false;

  function show(line, [number, good, text, more]) {
    line.row = [number, good, text, more];
    line.lastChild.textContent =
      (deep && good && !more ? indent(text) : text) + (more ? ` … ${countOf(more, "more character")}` : "");
  }

  return {
    node: box,
    tools: [toggle],
    add(item) {
      fresh.push(...(item.rows ?? []));
      if (fresh.length > JSON_ROWS) fresh = fresh.slice(-JSON_ROWS);
    },
    paint() {
      if (!fresh.length) return;
      keep(() => {
        for (const row of fresh) {
          const line = make(
            "div",
            { role: "listitem", class: row[1] ? "mew-line" : "mew-line mew-bad" },
            make("span", { class: "mew-num mew-code mew-no", text: row[0] }),
          );
          if (!row[1]) line.append(make("span", { class: "mew-mark", text: "✗ not JSON" }));
          line.append(make("span", { class: "mew-code mew-said" }));
          show(line, row);
          list.append(line);
        }
        fresh = [];
        while (list.children.length > JSON_ROWS) list.firstChild.remove();
      });
    },
    end() {},
  };
}

export function hexViewer() {
  const pre = make("pre", { class: "mew-code mew-hex" });
  const { box, keep } = tail("Bytes of the stream, hexadecimal", pre);
  let fresh = [];
  return {
    node: box,
    add(item) {
      fresh.push(...(item.lines ?? []));
      if (fresh.length > HEX_ROWS) fresh = fresh.slice(-HEX_ROWS);
    },
    paint() {
      if (!fresh.length) return;
      keep(() => {
        // The last line may arrive again with more bytes.
        if (pre.lastChild?.offset === fresh[0][0]) pre.lastChild.remove();
        for (const [offset, data, text] of fresh) {
          const line = make("div", {
            text: `${offset.toString(16).padStart(8, "0")}  ${data.padEnd(47)}  ${text}`,
          });
          line.offset = offset;
          pre.append(line);
        }
        fresh = [];
        while (pre.children.length > HEX_ROWS) pre.firstChild.remove();
      });
    },
    end() {},
  };
}

export function pictureViewer() {
  const image = make("img", { alt: "The last picture of the stream", hidden: true });
  const caption = make("div", { class: "mew-dim", text: "No whole picture has come yet." });
  const node = make("div", { class: "mew-picture" }, image, caption);
  let fresh = null,
    address = "";
  image.addEventListener("error", () => {
    image.hidden = true;
    caption.textContent = "The browser cannot read this picture. Look at it as hex, or save it.";
  });

  function forget() {
    if (address) URL.revokeObjectURL(address);
    address = "";
  }

  return {
    node,
    add(item) {
      if (item.type || item.note) fresh = { ...fresh, ...item };
    },
    paint() {
      if (!fresh) return;
      const { type, data, width, height, count, note } = fresh;
      fresh = null;
      if (data && ["image/png", "image/jpeg", "image/gif", "image/webp"].includes(type)) {
        forget();
        const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
        address = URL.createObjectURL(new Blob([bytes], { type }));
        image.src = address;
        image.alt = `The last picture of the stream, ${width} by ${height} pixels`;
        image.hidden = false;
        caption.textContent = `${type}, ${width} × ${height}, ${groupDigits(bytes.length)} bytes, picture ${groupDigits(count)}`;
      }
      if (note) caption.textContent = note;
    },
    end: forget,
  };
}
