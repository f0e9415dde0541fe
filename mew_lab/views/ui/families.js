// The family of a kind: the table of mew_lab/protocol/families.py, which is joined to this module as family_table.js.

import { FAMILIES, KIND_STARTS } from "./family_table.js";

export function family(kind) {
  const [, name] = KIND_STARTS.find(([start]) => kind.startsWith(start)) ?? ["", "system"];
  return { name, label: familyLabel(name) };
}

// The word for a family, such as "Proposal".
export function familyLabel(name) {
  return FAMILIES.find((row) => row.name === name)?.label ?? "System";
}
