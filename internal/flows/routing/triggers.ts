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
  readonly triggersOf: Map<string, readonly RoutedTrigger[]>;
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

/** Agents that are read at once: some milliseconds for the driver, whose rows come in one turn of the event loop. */
const readMax = 256;
/** Templates kept read, of one project. */
const templatesMax = 10_000;
/** What a daemon has room for: projects kept compiled, and triggers of all of them together, each some hundred bytes. */
const room = { projects: 20_000, triggers: 400_000 } as const;

export class TriggerCache {
  readonly #projects: LRUCache<string, Cached>;

  constructor(most: { readonly projects: number; readonly triggers: number } = room) {
    this.#projects = new LRUCache({
      max: most.projects,
      maxSize: most.triggers,
      // A project with more than there is room for is kept alone.
      sizeCalculation: ({ triggersOf }) => {
        let triggers = 1;
        for (const those of triggersOf.values()) triggers += those.length;
        return Math.min(triggers, most.triggers);
      },
    });
  }

  /** The triggers of a generation; `sql` reads them where they are not those that are kept. */
  async get(sql: Sql, projectId: string, generation: number): Promise<ProjectTriggers> {
    const known = this.#projects.get(projectId);
    if (known?.generation === generation) return known;
    const cached = known ?? makeKept();
    // Out of the cache while it is made anew in slices: one that breaks off half-way is nobody's. It is weighed again where it
    // is put back.
    this.#projects.delete(projectId);
    await refresh(cached, sql, projectId);
    cached.generation = generation;
    this.#projects.set(projectId, cached);
    return cached;
  }
}

function makeKept(): Cached {
  const agents = new Map<string, RoutedAgent>();
  const keys = new Map<string, number>();
  const templates = new Map<string, Template>();
  return {
    generation: -1,
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
        if (templates.size >= templatesMax) templates.clear();
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
  for (let at = 0; at < changed.length; at += readMax) {
    const rows = await routableAgents(sql, projectId, changed.slice(at, at + readMax));
    await mapInSlices(rows, (row) => putIn(kept, row, { digest: digests.get(row.id) ?? '', shared }));
  }
}

function takeOut(kept: Cached, id: string): void {
  const agent = kept.agents.get(id);
  if (agent === undefined) return;
  kept.index.removeAgent(agent.name);
  for (const { event: key } of kept.triggersOf.get(id) ?? []) {
    const left = (kept.keys.get(key) ?? 0) - 1;
    if (left > 0) kept.keys.set(key, left);
    else kept.keys.delete(key);
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
  kept.triggersOf.set(row.id, triggers);
  for (const { event: key } of triggers) kept.keys.set(key, (kept.keys.get(key) ?? 0) + 1);
}

function saidBy(
  { event, scope, spec }: RoutableAgentRow['triggers'][number],
  shared: Map<string, SharedFields>,
): SharedFields {
  const said: SharedFields = {
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
  if (known === undefined) shared.set(text, said);
  return known ?? said;
}
