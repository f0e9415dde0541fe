// Filters the rows. A row passes where all words of the text stand in it, in any order, case-insensitively: `-word` leaves
// out, `"two words"` mean exactly this text, and `from:x`, `to:x`, `kind:x`, `context:x`, `verdict:x` search one column.
// tests/views/row_filter.py has the same rule once more, as a reference.

const FILTER_FIELDS = ["from", "to", "kind", "context", "verdict"];
const VERDICT_WORDS = { "✓": "accepted", "✗": "refused", "·": "sent" };

function verdictText(packed) {
  const word = VERDICT_WORDS[packed[0]];
  return word ? word + packed.slice(1) : packed;
}

// Returns a predicate of a packed row; throws an Error whose message the person reads.
export function compileFilter(text) {
  const terms = filterTerms(text);
  if (!terms.length) return () => true;
  return (row) => {
    const [seq, , from, to, kind, what, context, , packed] = row;
    const verdict = verdictText(packed), texts = { from, to, kind, context, verdict };
    let whole = null;
    for (const { without, field, wanted } of terms) {
      const text = field ? texts[field].toLowerCase() : (whole ??= `${seq} ${from} ${to} ${kind} ${what} ${context} ${verdict}`.toLowerCase());
      if (text.includes(wanted) === without) return false;
    }
    return true;
  };
}

function filterTerms(text) {
  if ([...text].length > 500) throw new Error("A filter has at most 500 characters.");
  const terms = [], term = /[ \t\r\n]*(-?)(?:([A-Za-z]+):)?("[^"]*"|[^ \t\r\n"]*)/y, end = text.replace(/[ \t\r\n]+$/, "").length;
  while (term.lastIndex < end) {
    const [, sign, field = "", value] = term.exec(text);
    if (text[term.lastIndex] === '"' && !value) throw new Error('A quotation mark is not closed: add ".');
    if (field && !FILTER_FIELDS.includes(field.toLowerCase()))
      throw new Error(`The feed has no field "${field}:", only ${FILTER_FIELDS.map((name) => `${name}:`).join(", ")}. To search for the text, put it in quotes.`);
    const wanted = value.replaceAll('"', "").toLowerCase();
    if (!wanted) throw new Error(`"${sign}${field ? `${field}:` : ""}" needs a word after it.`);
    terms.push({ without: sign === "-", field: field.toLowerCase(), wanted });
    if (terms.length > 50) throw new Error("A filter has at most 50 words.");
  }
  return terms;
}
