// Who is there, of what comes and goes by the thousand: in the order of coming, with nothing of who has left. A set or a map does
// that worse than it looks once it has lived for a while. The engine makes the next table of one that is old an old one too, and each
// table that is done with keeps what it held until the whole heap is collected: the quick collections, which are to find the
// young dead, find nearly all of them held (measured: 135 of 135 MB after each, where a list leaves 5 of 69).

interface Place<T> {
  readonly item: T;
  before: Place<T> | undefined;
  after: Place<T> | undefined;
  isLeft: boolean;
}

export class Roster<T> implements Iterable<T> {
  #first: Place<T> | undefined;
  #last: Place<T> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds one, behind all who are there. What it returns takes it off again, once. */
  add(item: T): () => void {
    const place: Place<T> = { item, before: this.#last, after: undefined, isLeft: false };
    if (this.#last === undefined) this.#first = place;
    else this.#last.after = place;
    this.#last = place;
    this.#size += 1;
    return () => this.#leave(place);
  }

  /** Those who are there, first come first; who leaves meanwhile is not met any more. */
  *[Symbol.iterator](): Iterator<T> {
    const places: Place<T>[] = [];
    for (let at = this.#first; at !== undefined; at = at.after) places.push(at);
    for (const place of places) if (!place.isLeft) yield place.item;
  }

  #leave(place: Place<T>): void {
    if (place.isLeft) return;
    const { before, after } = place;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    place.isLeft = true;
    // One that is old and dead would keep the next, and that the one after it.
    place.before = undefined;
    place.after = undefined;
    this.#size -= 1;
  }
}
