// Which places a host asks back: sessions that rest give theirs up for sessions that wait, one for one.

export interface HeldPlace {
  readonly projectId: string;
  /** How long it rests, where it rests long enough to be asked; else undefined. */
  readonly restsForMs: number | undefined;
  /** It gives its place up already. */
  readonly isLeaving: boolean;
}

interface Waiting {
  readonly projectId: string;
  /** Places that its project would hold with it. */
  readonly turn: number;
}

/**
 * The sessions to be asked, from those that hold a place. `waiting`: in the order in which they get one. One that its
 * project's own number holds up is helped by a place of that project alone; else the project that holds most is asked
 * first, and of its sessions the one that has rested longest.
 */
export function placesToAskBack<T extends HeldPlace>(
  held: readonly T[],
  waiting: readonly Waiting[],
  limits: { readonly max: number; readonly perProject: number | undefined },
): T[] {
  const stays = held.filter((one) => !one.isLeaving);
  let free = limits.max - stays.length;
  const freed = new Map<string, number>();
  for (const { projectId } of held.filter((one) => one.isLeaving))
    freed.set(projectId, (freed.get(projectId) ?? 0) + 1);
  const asked: T[] = [];
  const left = (): T[] => stays.filter((one) => one.restsForMs !== undefined && !asked.includes(one));
  const take = (from: readonly T[]): boolean => {
    const best = from.toSorted((a, b) => holds(b) - holds(a) || (b.restsForMs ?? 0) - (a.restsForMs ?? 0))[0];
    if (best === undefined) return false;
    asked.push(best);
    return true;
  };
  const holds = (one: T): number =>
    stays.filter((other) => other.projectId === one.projectId && !asked.includes(other)).length;
  for (const { projectId, turn } of waiting) {
    const over = limits.perProject !== undefined && turn > limits.perProject + (freed.get(projectId) ?? 0);
    if (over) {
      if (take(left().filter((one) => one.projectId === projectId)))
        freed.set(projectId, (freed.get(projectId) ?? 0) + 1);
    } else if (free > 0) free -= 1;
    else if (!take(left())) break;
  }
  return asked;
}
