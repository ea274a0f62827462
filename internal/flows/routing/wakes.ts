// Wake-ups of projects that are being routed at that moment: what they are about may be part of what is routed just now, and is
// then not looked for again.

export class Wakes {
  /** By project the events that are meant; null: any. */
  readonly #of = new Map<string, Set<string> | null>();

  /** Without ids, anything may have come. */
  add(projectId: string, ids: readonly string[]): void {
    const before = this.#of.get(projectId);
    if (ids.length === 0 || before === null) this.#of.set(projectId, null);
    else if (before === undefined) this.#of.set(projectId, new Set(ids));
    else for (const id of ids) before.add(id);
  }

  /** These have been routed; a wake-up that meant no others is gone. */
  routed(projectId: string, ids: Iterable<string>): void {
    const meant = this.#of.get(projectId);
    if (meant === undefined || meant === null) return;
    for (const id of ids) meant.delete(id);
    if (meant.size === 0) this.#of.delete(projectId);
  }

  /** Takes what is left of them: the events that are meant, none where it may be any; undefined: nobody has waked it. */
  take(projectId: string): readonly string[] | undefined {
    const meant = this.#of.get(projectId);
    this.#of.delete(projectId);
    return meant === undefined ? undefined : [...(meant ?? [])];
  }
}
