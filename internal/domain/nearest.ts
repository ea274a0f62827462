// Edit distance, for "did you mean": the optimal string alignment distance, where two swapped neighbours count once.

/** Edit distance of two short words; gives `limit + 1` as soon as it is certain to exceed `limit`. */
export function editDistance(left: string, right: string, limit: number): number {
  if (Math.abs(left.length - right.length) > limit) return limit + 1;
  let before: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row++) {
    const line = [row];
    let least = row;
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (line[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      if (swapped && row > 1 && column > 1) cost = Math.min(cost, (before[column - 2] ?? 0) + 1);
      line.push(cost);
      least = Math.min(least, cost);
    }
    if (least > limit) return limit + 1;
    before = last;
    last = line;
  }
  return last[right.length] ?? 0;
}

/** The candidate nearest to `word` within `limit` edits, the first of equals; words over 64 characters have none. */
export function nearest(word: string, candidates: Iterable<string>, limit = 2): string | undefined {
  if (word.length > 64) return undefined;
  let best: string | undefined;
  let bound = limit;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate, bound);
    if (distance > bound || (best !== undefined && distance === bound)) continue;
    best = candidate;
    bound = distance;
  }
  return best;
}

/** The one candidate that goes on where `word` ends, as secretRef after secret; none for words of fewer than three letters. */
export function completed(word: string, candidates: readonly string[]): string | undefined {
  const longer = word.length < 3 ? [] : candidates.filter((one) => one.startsWith(word));
  return longer.length === 1 ? longer[0] : undefined;
}
