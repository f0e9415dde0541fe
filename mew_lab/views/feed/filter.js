// Filters the rows. A row passes where all words of the text stand in it, in any order, case-insensitively: `-word` leaves
// out, `"two words"` mean exactly this text, and `from:x`, `to:x`, `kind:x`, `tool:x`, `id:x`, `context:x`, `verdict:x`
// search one column. `since:5m` and `since:21:37` mean the time. tests/views/row_filter.py has the same rule once more, as
// a reference.

const FILTER_FIELDS = ["from", "to", "kind", "tool", "id", "context", "verdict", "since"];
const VERDICT_WORDS = { "✓": "accepted", "✗": "refused", "·": "sent" };
const UNITS = { s: 1, m: 60, min: 60, h: 3600, d: 86400 };
const DAY = 86400;
// Columns that the reader must name on purpose: such a term, or a word, finds messages that are hidden as plumbing, too.
const ASKED = ["", "kind", "id", "verdict"];

function verdictText(packed) {
  const word = VERDICT_WORDS[packed[0]];
  return word ? word + packed.slice(1) : packed;
}

// Returns a predicate of a packed row; throws an Error whose message the person reads. Its `asks` tells whether the text
// asks for rows by what they are. `now` is in seconds of the epoch, `zone` the seconds by which the clock of the reader is
// ahead of UTC.
/** @typedef {((row: import("./cells.js").Row) => boolean) & { asks: boolean }} RowFilter */
/** @type {(text: string, clock?: { now?: number, zone?: number }) => RowFilter} */
export function compileFilter(text, { now = 0, zone = 0 } = {}) {
  const terms = filterTerms(text, now, zone);
  /** @type {RowFilter} */
  const passes = (row) => {
    const [seq, t, from, to, kind, what, context, , packed, , , id = "", tool = ""] = row;
    const verdict = verdictText(packed),
      texts = { from, to, kind, tool, id, context, verdict };
    let whole = null;
    for (const { without, field, wanted, since } of terms) {
      if (field === "since") {
        if (t >= since === without) return false;
        continue;
      }
      const text = field
        ? texts[field].toLowerCase()
        : (whole ??= `#${seq} ~${seq} ${from} ${to} ${kind} ${what} ${context} ${verdict}`.toLowerCase());
      if (text.includes(wanted) === without) return false;
    }
    return true;
  };
  passes.asks = terms.some(({ without, field }) => !without && ASKED.includes(field));
  return passes;
}

// The moment that `since:` means: so long ago, or the last time at which the reader's clock showed that.
function sinceMoment(wanted, now, zone) {
  const ago = /^(\d{1,6})(s|m|min|h|d)$/.exec(wanted);
  if (ago) return now - Number(ago[1]) * UNITS[ago[2]];
  const clock = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(wanted);
  const [hours, minutes, seconds] = clock ? [Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0)] : [];
  if (!clock || hours > 23 || minutes > 59 || seconds > 59)
    throw new Error(`"since:${wanted}" is no time: write since:5m, since:90s, since:2h or since:21:37.`);
  const today = Math.floor((now + zone) / DAY) * DAY - zone + hours * 3600 + minutes * 60 + seconds;
  return today <= now ? today : today - DAY;
}

function filterTerms(text, now, zone) {
  if ([...text].length > 500) throw new Error("A filter has at most 500 characters.");
  const terms = [],
    term = /[ \t\r\n]*(-?)(?:([A-Za-z]+):)?("[^"]*"|[^ \t\r\n"]*)/y,
    end = text.replace(/[ \t\r\n]+$/, "").length;
  while (term.lastIndex < end) {
    const [, sign, field = "", value] = term.exec(text);
    if (text[term.lastIndex] === '"' && !value) throw new Error('A quotation mark is not closed: add ".');
    if (field && !FILTER_FIELDS.includes(field.toLowerCase()))
      throw new Error(
        `Messages have no field "${field}:", only ${FILTER_FIELDS.map((name) => `${name}:`).join(", ")}. To search for the text, put it in quotes.`,
      );
    const wanted = value.replaceAll('"', "").toLowerCase();
    if (!wanted) throw new Error(`"${sign}${field ? `${field}:` : ""}" needs a word after it.`);
    const since = field.toLowerCase() === "since" ? sinceMoment(wanted, now, zone) : 0;
    terms.push({ without: sign === "-", field: field.toLowerCase(), wanted, since });
    if (terms.length > 50) throw new Error("A filter has at most 50 words.");
  }
  return terms;
}

const OPERATOR =
  /(?:^|[\s(])(-?)([A-Za-z_][^\s()"=!<>~]*|payload[^\s()]*)\s*(==|!=|=~|!~|<=|>=|[~<>=]|\s(?:in\s*\(|in\s+\S*\.\.|has\s|exists(?:[\s)]|$)))/g;
const RANGE = /(?:^|[\s(])(?:seq|time|size|latency)\s+[^\s()]+\.\.[^\s()]/;
const JOIN = /(?:^|[\s()])(?:and|or|not|AND|OR|NOT)(?=[\s()]|$)/;

// Whether a text is more than words: a condition on a field, or words that are joined. Such a text goes to the kernel.
/** @type {(text: string, fields: string[]) => boolean} */
export function isExpression(text, fields) {
  const bare = text.replace(/"(?:[^"\\]|\\.)*"?/g, '""');
  if (JOIN.test(bare) || RANGE.test(bare) || /(?:^|\s)-?\(/.test(bare)) return true;
  for (const [, , name, operator] of bare.matchAll(OPERATOR)) {
    if (fields.includes(name) || name.startsWith("payload.") || name.startsWith("payload[")) return true;
    // A field that there is not, before an operator that no word holds: the kernel says which was meant.
    if (operator === "==" || operator === "!=" || operator === "=~" || operator === "!~") return true;
  }
  return false;
}

// The filter that adds a condition to another one.
/** @type {(text: string, condition: string) => string} */
export function joinFilters(text, condition) {
  const other = text.trim();
  return other ? `(${other}) and ${condition}` : condition;
}

// What may complete the last word of a filter, such as `from:bo`: the text with each of the values that begin so.
/** @type {(text: string, values: Record<string, Iterable<string>>) => string[]} */
export function completeFilter(text, values) {
  const match = /^(.*?)(-?)(from|to|kind|tool):("?)([^\s"]*)$/is.exec(text);
  if (!match) return [];
  const [, before, sign, field, , begun] = match,
    wanted = begun.toLowerCase();
  if (before && !/\s$/.test(before)) return [];
  const fitting = [...(values[field.toLowerCase()] ?? [])].filter(
    (value) => value.toLowerCase().startsWith(wanted) && value.toLowerCase() !== wanted,
  );
  return fitting
    .slice(0, 12)
    .map((value) => `${before}${sign}${field}:${/\s/.test(value) ? `"${value}"` : value}`);
}
