// Who waits to be let in, and whose turn it is: lanes take turns, in a lane those for whom something is asked, and of one of
// them goes first what was asked first. In the order of asking alone, whoever asks for fifty things at once has all others wait
// for fifty.

/** The waiting of one owner in one lane, first come first. */
interface Line<W> {
  readonly owner: string;
  readonly waiting: W[];
}

interface LaneLines<L, W> {
  readonly lane: L;
  /** First the one whose turn it is. */
  readonly lines: Line<W>[];
}

export class Turns<L, W extends { readonly lane: L; readonly owner: string }> {
  /** First the one whose turn it is. Lists, and no maps, which would hold who has left: see `Roster`. */
  readonly #lanes: LaneLines<L, W>[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many owners wait in a lane, and how many of them of this one. */
  sharesOf(lane: L, owner: string): { readonly owners: number; readonly own: number } {
    const lines = this.#lanes.find((of) => of.lane === lane)?.lines ?? [];
    return { owners: lines.length, own: lines.find((line) => line.owner === owner)?.waiting.length ?? 0 };
  }

  /** Owners of whom more than `most` wait in a lane. */
  crowdsIn(lane: L, most: number): string[] {
    const lines = this.#lanes.find((of) => of.lane === lane)?.lines ?? [];
    return lines.filter(({ waiting }) => waiting.length > most).map(({ owner }) => owner);
  }

  add(one: W): void {
    let lane = this.#lanes.find((of) => of.lane === one.lane);
    if (lane === undefined) this.#lanes.push((lane = { lane: one.lane, lines: [] }));
    const line = lane.lines.find(({ owner }) => owner === one.owner);
    if (line === undefined) lane.lines.push({ owner: one.owner, waiting: [one] });
    else line.waiting.push(one);
    this.#size += 1;
  }

  /** Takes off one who waits no more; false where it is not there. */
  remove(one: W): boolean {
    const lane = this.#lanes.find((of) => of.lane === one.lane);
    const line = lane?.lines.find(({ owner }) => owner === one.owner);
    const at = line?.waiting.indexOf(one) ?? -1;
    if (lane === undefined || line === undefined || at === -1) return false;
    line.waiting.splice(at, 1);
    if (line.waiting.length === 0) lane.lines.splice(lane.lines.indexOf(line), 1);
    this.#size -= 1;
    return true;
  }

  /** Whose turn it is of those who may; it stays where it is. */
  first(may: (lane: L, owner: string) => boolean): W | undefined {
    for (const { lane, lines } of this.#lanes)
      for (const { owner, waiting } of lines) if (may(lane, owner)) return waiting[0];
    return undefined;
  }

  /** Takes off one whose turn it was: its lane, and its owner in that, are last from now on. */
  take(one: W): void {
    const at = this.#lanes.findIndex(({ lane }) => lane === one.lane);
    const [lane] = this.#lanes.splice(at, 1) as [LaneLines<L, W>];
    this.#lanes.push(lane);
    const [line] = lane.lines.splice(
      lane.lines.findIndex(({ owner }) => owner === one.owner),
      1,
    ) as [Line<W>];
    line.waiting.splice(line.waiting.indexOf(one), 1);
    if (line.waiting.length > 0) lane.lines.push(line);
    this.#size -= 1;
  }
}
