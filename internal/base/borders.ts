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
