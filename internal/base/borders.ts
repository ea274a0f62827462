// What it takes to look for something long in a time that grows with both lengths and no faster, whoever says the two.

/** How far what ends here is a beginning of the whole, for each of its units: characters or bytes, as `unitAt` gives them. */
export function bordersOf(length: number, unitAt: (at: number) => number): Uint32Array {
  const borders = new Uint32Array(length);
  for (let at = 1, matched = 0; at < length; at += 1) {
    const unit = unitAt(at);
    while (matched > 0 && unitAt(matched) !== unit) matched = borders[matched - 1] as number;
    if (unitAt(matched) === unit) matched += 1;
    borders[at] = matched;
  }
  return borders;
}

/** Of what is looked for: up to so many, the runtime's own search is linear enough. */
const shortChars = 64;

/** What `text.includes(what)` says, which compares on and on where the two repeat themselves: for minutes in the text of a delivery. */
export function contains(text: string, what: string): boolean {
  if (!text.includes(what.slice(0, shortChars))) return false;
  if (what.length <= shortChars) return true;
  const borders = bordersOf(what.length, (at) => what.charCodeAt(at));
  for (let at = 0, matched = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    while (matched > 0 && what.charCodeAt(matched) !== unit) matched = borders[matched - 1] as number;
    if (what.charCodeAt(matched) === unit) matched += 1;
    if (matched === what.length) return true;
  }
  return false;
}
