// The objects of the fake cluster, as an API server keeps them: one counter of versions for all of them, the last changes
// for those who watch, and nothing of what is older.

export type Fields = { readonly [key: string]: unknown };

export interface Stored {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
    readonly deletionGracePeriodSeconds?: number;
  };
  readonly spec?: Fields;
  readonly status?: Fields;
}
export interface Change {
  readonly version: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly resource: string;
  readonly object: Stored;
  /** As it was before: a watch by label tells of what leaves its selection as deleted. */
  readonly before: Stored | undefined;
}

export class Refusal extends Error {
  readonly code: number;
  readonly reason: string;
  readonly details: Fields;

  constructor(code: number, reason: string, message: string, details: Fields = {}) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.details = details;
  }

  get status(): Fields {
    const { code, reason, message, details } = this;
    return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, details, code };
  }
}

export class Store {
  #version = 1_000;
  /** Changes up to this one are forgotten: who asks for them hears 410. */
  #oldest = 1_000;
  readonly #objects = new Map<string, Map<string, Stored>>();
  #changes: Change[] = [];
  readonly #listeners = new Set<(change: Change) => void>();

  get version(): number {
    return this.#version;
  }

  /** As compaction does: what was before is known no more. */
  compact(): void {
    this.#changes = [];
    this.#oldest = this.#version;
  }

  /** The version counter moves for reasons that are no change of these objects. */
  tick(): void {
    this.#version += 1;
  }

  on(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Throws Refusal 410 for what is forgotten. */
  since(version: number): readonly Change[] {
    if (version < this.#oldest)
      throw new Refusal(410, 'Expired', `too old resource version: ${version} (${this.#oldest})`);
    return this.#changes.filter((change) => change.version > version);
  }

  all(resource: string): readonly Stored[] {
    const found = [...(this.#objects.get(resource)?.values() ?? [])];
    return found.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  }

  get(resource: string, name: string): Stored {
    const found = this.#objects.get(resource)?.get(name);
    if (found === undefined)
      throw new Refusal(404, 'NotFound', `${resource} "${name}" not found`, { name, kind: resource.split('.')[0] });
    return found;
  }

  has(resource: string, name: string): boolean {
    return this.#objects.get(resource)?.has(name) ?? false;
  }

  put(resource: string, object: Stored): Stored {
    this.#version += 1;
    const metadata = { ...object.metadata, resourceVersion: String(this.#version) };
    const next = { ...object, metadata };
    const before = this.#objects.get(resource)?.get(metadata.name);
    const objects = this.#objects.get(resource) ?? new Map<string, Stored>();
    this.#objects.set(resource, objects.set(metadata.name, next));
    this.#tell({
      version: this.#version,
      type: before === undefined ? 'ADDED' : 'MODIFIED',
      resource,
      object: next,
      before,
    });
    return next;
  }

  /** Of exactly this one: nothing where it is gone, or another has its name. */
  update(resource: string, { metadata: { name, uid } }: Stored, change: (found: Stored) => Stored): Stored | undefined {
    const found = this.#objects.get(resource)?.get(name);
    return found?.metadata.uid === uid ? this.put(resource, change(found)) : undefined;
  }

  remove(resource: string, { metadata: { name, uid } }: Stored): void {
    const found = this.#objects.get(resource)?.get(name);
    if (found?.metadata.uid !== uid) return;
    this.#version += 1;
    this.#objects.get(resource)?.delete(name);
    const object = { ...found, metadata: { ...found.metadata, resourceVersion: String(this.#version) } };
    this.#tell({ version: this.#version, type: 'DELETED', resource, object, before: found });
  }

  #tell(change: Change): void {
    this.#changes.push(change);
    for (const listener of this.#listeners) listener(change);
  }
}

/** `a=b,c!=d,e,!f` and `e in (x,y)` of a label selector. */
export function selects(selector: string, labels: Readonly<Record<string, string>> = {}): boolean {
  const parts = selector.match(/[^,(]+(\([^)]*\))?/g) ?? [];
  return parts.every((text) => {
    const part = text.trim();
    const set = /^(\S+) (in|notin) \(([^)]*)\)$/.exec(part);
    if (set !== null) {
      const isIn = (set[3] ?? '').split(',').some((one) => one.trim() === labels[set[1] ?? '']);
      return isIn === (set[2] === 'in');
    }
    const [, key = '', operator, value] = /^(!?[^=!]+)(==|=|!=)?(.*)$/.exec(part) ?? [];
    if (operator === undefined) return key.startsWith('!') ? !(key.slice(1) in labels) : key in labels;
    return operator === '!=' ? labels[key] !== value : labels[key] === value;
  });
}
