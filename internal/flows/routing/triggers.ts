// A project's triggers, compiled, as the generation that a routing transaction reads says they are. A changed generation
// loads again only the agents that changed. Owns no truth: what it keeps may be dropped at any time.

import { routableAgents, type RoutableAgentRow, routableDigests } from '../../adapters/store/routing/routing.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { createTriggerIndex, type TriggerIndex } from '../../core/match/match.ts';
import type { RoutableTrigger, RoutingAgent } from '../../core/route/route.ts';
import { type Template, parseTemplate, type Rendering, renderWithin } from '../../core/template/template.ts';
import { eventKeySpellings } from '../../domain/events.ts';
import type { Json } from '../../domain/json.ts';
import type { CheckSpec, Mount, Where } from '../../domain/spec.ts';
import { mapInSlices } from '../../base/concurrency.ts';
import { LRUCache } from '../../base/lru.ts';

export interface RoutedAgent extends RoutingAgent {
  readonly revision: number;
  readonly initialPrompt: string | undefined;
  readonly displayTitle: string | undefined;
  readonly mounts: readonly Pick<Mount, 'mountPath' | 'ref'>[];
}

export interface RoutedTrigger extends RoutableTrigger {
  readonly owner: RoutedAgent;
  readonly message: string | undefined;
  readonly attachedUserPrompt: string | undefined;
  readonly checks: readonly CheckSpec[];
}

export interface ProjectTriggers {
  readonly generation: number;
  readonly index: TriggerIndex<RoutedTrigger>;
  agent(id: string): RoutedAgent | undefined;
  /** Whether any trigger listens to the key, through whatever place. */
  listens(key: string): boolean;
  /** Renders a template as far as a bound, read once however often it is rendered. */
  render(template: string, payload: Json, bytesMax: number): Rendering;
}

interface Cached extends ProjectTriggers {
  generation: number;
  readonly digests: Map<string, string>;
  readonly agents: Map<string, RoutedAgent>;
  readonly keys: Map<string, number>;
  readonly triggersOf: Map<string, Own>;
  /** What it takes in memory, about. */
  bytes: number;
}

/** An agent's triggers, and what they and the agent take by themselves. */
interface Own {
  readonly triggers: readonly KeptTrigger[];
  readonly bytes: number;
}

/** What triggers say that many of them say alike. */
interface SharedFields {
  readonly event: string;
  readonly scope: string | null;
  readonly fallback: boolean;
  readonly routing: RoutedTrigger['routing'];
  readonly message: string | undefined;
  readonly attachedUserPrompt: string | undefined;
  readonly checks: readonly CheckSpec[];
  readonly bytes: number;
  /** Triggers that say it: the first brings its bytes, the last takes them along. */
  users: number;
}

/**
 * A trigger as it is kept: what it alone says, and the rest by reference. There may be a hundred thousand of them, and
 * whatever runs beside them pays for each object when the garbage collector looks.
 */
class KeptTrigger implements RoutedTrigger {
  readonly owner: RoutedAgent;
  readonly ordinal: number;
  readonly where: Where;
  readonly #said: SharedFields;

  constructor(owner: RoutedAgent, ordinal: number, where: Where, said: SharedFields) {
    this.owner = owner;
    this.ordinal = ordinal;
    this.where = where;
    this.#said = said;
  }

  /** Notes that it is kept; gives what that takes of what it shares with others. */
  begin(): number {
    this.#said.users += 1;
    return this.#said.users === 1 ? this.#said.bytes : 0;
  }
  /** Notes that it is not kept any more; gives what that leaves free. */
  end(): number {
    this.#said.users -= 1;
    return this.#said.users === 0 ? this.#said.bytes : 0;
  }

  get agentId(): string {
    return this.owner.id;
  }
  get agent(): string {
    return this.owner.name;
  }
  get event(): string {
    return this.#said.event;
  }
  get scope(): string | null {
    return this.#said.scope;
  }
  get fallback(): boolean {
    return this.#said.fallback;
  }
  get routing(): SharedFields['routing'] {
    return this.#said.routing;
  }
  get message(): string | undefined {
    return this.#said.message;
  }
  get attachedUserPrompt(): string | undefined {
    return this.#said.attachedUserPrompt;
  }
  get checks(): readonly CheckSpec[] {
    return this.#said.checks;
  }
}

/** Agents that are read at once at most: some milliseconds for the driver, whose rows come in one turn of the event loop. */
const readMax = 256;
/** What a daemon has room for: projects kept compiled, bytes of all of them together, and of templates that were read. */
const room = { projects: 20_000, bytes: 256 * 1_048_576, templateBytes: 24 * 1_048_576 } as const;
/**
 * What is kept takes, in bytes, about: an agent, a trigger, what several of them say, a clause, a value that a clause lists, a
 * character of any text (which may need two), one of what is compiled (a clause is kept as it was read, split, and as a key)
 * and a token of a template.
 */
const takes = {
  ...{ agent: 600, trigger: 200, shared: 300, clause: 200, listed: 60 },
  ...{ character: 2, compiled: 6, token: 200 },
} as const;

export class TriggerCache {
  readonly #projects: LRUCache<string, Cached>;
  /** By their texts, of whichever project. */
  readonly #templates: LRUCache<string, Template>;

  constructor(most: { readonly projects: number; readonly bytes: number; readonly templateBytes: number } = room) {
    // What alone is more than there is room for is kept alone.
    this.#projects = new LRUCache({
      max: most.projects,
      maxSize: most.bytes,
      sizeCalculation: ({ bytes }) => Math.min(takes.agent + bytes, most.bytes),
    });
    this.#templates = new LRUCache({
      maxSize: most.templateBytes,
      sizeCalculation: ({ text, tokens }) =>
        Math.min(takes.shared + text.length * takes.character + tokens.length * takes.token, most.templateBytes),
    });
  }

  /** How much is kept: bytes of projects, and of templates, as they are weighed. */
  get held(): { readonly bytes: number; readonly templateBytes: number } {
    return { bytes: this.#projects.calculatedSize, templateBytes: this.#templates.calculatedSize };
  }

  /** The triggers of a generation; `sql` reads them where they are not those that are kept. */
  async get(sql: Sql, projectId: string, generation: number): Promise<ProjectTriggers> {
    const known = this.#projects.get(projectId);
    if (known?.generation === generation) return known;
    const cached = known ?? makeKept(this.#templates);
    // Out of the cache while it is made anew in slices: one that breaks off half-way is nobody's. It is weighed again where it
    // is put back.
    this.#projects.delete(projectId);
    await refresh(cached, sql, projectId);
    cached.generation = generation;
    this.#projects.set(projectId, cached);
    return cached;
  }
}

function makeKept(templates: LRUCache<string, Template>): Cached {
  const agents = new Map<string, RoutedAgent>();
  const keys = new Map<string, number>();
  return {
    generation: -1,
    bytes: 0,
    index: createTriggerIndex<RoutedTrigger>(),
    digests: new Map(),
    agents,
    keys,
    triggersOf: new Map(),
    agent: (id) => agents.get(id),
    listens: (key) => eventKeySpellings(key).some((spelling) => keys.has(spelling)),
    render(text, payload, bytesMax) {
      let template = templates.get(text);
      if (template === undefined) {
        template = parseTemplate(text);
        templates.set(text, template);
      }
      return renderWithin(template, payload, bytesMax);
    },
  };
}

async function refresh(kept: Cached, sql: Sql, projectId: string): Promise<void> {
  const digests = await routableDigests(sql, projectId);
  const changed = [...digests].filter(([id, digest]) => kept.digests.get(id) !== digest).map(([id]) => id);
  const gone = [...kept.digests.keys()].filter((id) => !digests.has(id));
  // First all that go, for an agent made anew has the name of the one before it.
  await mapInSlices([...gone, ...changed], (id) => takeOut(kept, id));
  const shared = new Map<string, SharedFields>();
  // Read a moment later than the digests: an agent that has gone in between is not among the rows.
  for (let at = 0, most = readMax; at < changed.length; ) {
    const { rows, reached } = await routableAgents(sql, projectId, changed.slice(at, at + most));
    await mapInSlices(rows, (row) => putIn(kept, row, { digest: digests.get(row.id) ?? '', shared }));
    at += reached;
    // To find where a page ends takes reading all that are looked at: behind large ones, not many more.
    most = Math.min(readMax, 2 * reached);
  }
}

function takeOut(kept: Cached, id: string): void {
  const agent = kept.agents.get(id);
  if (agent === undefined) return;
  kept.index.removeAgent(agent.name);
  const own = kept.triggersOf.get(id);
  kept.bytes -= own?.bytes ?? 0;
  for (const trigger of own?.triggers ?? []) {
    kept.bytes -= trigger.end();
    const left = (kept.keys.get(trigger.event) ?? 0) - 1;
    if (left > 0) kept.keys.set(trigger.event, left);
    else kept.keys.delete(trigger.event);
  }
  kept.triggersOf.delete(id);
  kept.agents.delete(id);
  kept.digests.delete(id);
}

const none: readonly never[] = [];
const noBindings: RoutedAgent['bindings'] = {};

interface Loading {
  readonly digest: string;
  /** Of all agents that are read together, by its text. */
  readonly shared: Map<string, SharedFields>;
}

function putIn(kept: Cached, row: RoutableAgentRow, { digest, shared }: Loading): void {
  const mounts = row.mounts.map(({ mountPath, ref }) => ({ mountPath, ...(ref !== undefined && { ref }) }));
  const owner: RoutedAgent = {
    id: row.id,
    name: row.name,
    revision: row.revision,
    bindings: Object.keys(row.bindings).length === 0 ? noBindings : row.bindings,
    initialPrompt: row.initialPrompt ?? undefined,
    displayTitle: row.displayTitle ?? undefined,
    mounts: mounts.length === 0 ? none : mounts,
    ...(row.concurrency !== null && { concurrency: row.concurrency }),
  };
  const triggers = row.triggers.map((one) => new KeptTrigger(owner, one.ordinal, one.spec.where, saidBy(one, shared)));
  kept.index.setAgent(row.name, triggers);
  kept.agents.set(row.id, owner);
  kept.digests.set(row.id, digest);
  const bytes = bytesOf(owner, triggers);
  kept.triggersOf.set(row.id, { triggers, bytes });
  kept.bytes += bytes;
  for (const trigger of triggers) {
    kept.bytes += trigger.begin();
    kept.keys.set(trigger.event, (kept.keys.get(trigger.event) ?? 0) + 1);
  }
}

/** What an agent and its triggers take, without what these share. */
function bytesOf(owner: RoutedAgent, triggers: readonly RoutedTrigger[]): number {
  const { initialPrompt = '', displayTitle = '', bindings, mounts } = owner;
  let bytes = takes.agent + takes.character * (initialPrompt.length + displayTitle.length);
  bytes += takes.compiled * JSON.stringify([bindings, mounts]).length;
  for (const { where } of triggers) {
    const asked = Object.values(where).flatMap((clause) =>
      clause instanceof Object && 'in' in clause ? clause.in : [],
    );
    bytes += takes.trigger + takes.clause * Object.keys(where).length + takes.listed * asked.length;
    bytes += takes.compiled * JSON.stringify(where).length;
  }
  return bytes;
}

function saidBy(
  { event, scope, spec }: RoutableAgentRow['triggers'][number],
  shared: Map<string, SharedFields>,
): SharedFields {
  const said = {
    event,
    scope,
    fallback: spec.fallback,
    routing: spec.routing,
    message: spec.message,
    attachedUserPrompt: spec.kind === 'event' ? spec.attachedUserPrompt : undefined,
    checks: spec.kind === 'event' ? (spec.checks ?? none) : none,
  };
  const text = JSON.stringify(said);
  const known = shared.get(text);
  if (known !== undefined) return known;
  const made = { ...said, bytes: takes.shared + takes.character * text.length, users: 0 };
  shared.set(text, made);
  return made;
}
