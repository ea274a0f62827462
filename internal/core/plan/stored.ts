// What the rules that need stored state share: lookups over it, built once per plan, and diagnostics, each at the place that
// compile recorded for its part of the resource, else at the nearest enclosing part that has one, else at the document that
// made the resource.

import type { Json, JsonObject } from '../../domain/json.ts';
import type {
  Change,
  Current,
  CurrentAgent,
  CurrentConnection,
  CurrentEndpoint,
  CurrentGenerated,
  CurrentSchedule,
  CurrentTrigger,
} from './types.ts';
import type { DiagnosticCode } from '../../domain/codes.ts';
import { maskCredentials } from '../../domain/credential.ts';
import type { Diagnostic, Place, Places, Severity } from '../../domain/diagnostic.ts';
import type { Resource } from '../../domain/spec.ts';
import { compareText } from '../../domain/text.ts';

const isObject = (value: Json | undefined): value is JsonObject =>
  value !== null && typeof value === 'object' && !Array.isArray(value);

/** The JSON path of a member: `triggers[0].where["$.a.b"]`. */
export function memberPath(path: string, key: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_-]*$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path === '' ? key : `${path}.${key}`;
}

/** Changes that turn `from` into `to`; a side that has no value at a path is null there. Texts are kept whole. */
export function diffJson(from: Json | undefined, to: Json | undefined, path = ''): Change[] {
  if (isObject(from) && isObject(to)) return diffObjects(from, to, path);
  if (Array.isArray(from) && Array.isArray(to)) {
    const changes: Change[] = [];
    for (let index = 0; index < Math.max(from.length, to.length); index += 1) {
      changes.push(...diffJson(from[index] as Json, to[index] as Json, `${path}[${index}]`));
    }
    return changes;
  }
  return from === to ? [] : [{ path, from: from ?? null, to: to ?? null }];
}

function diffObjects(from: JsonObject, to: JsonObject, path: string): Change[] {
  const keys = new Set([...Object.keys(from), ...Object.keys(to)]);
  const changes: Change[] = [];
  for (const key of [...keys].sort()) {
    const before = Object.hasOwn(from, key) ? from[key] : undefined;
    const after = Object.hasOwn(to, key) ? to[key] : undefined;
    changes.push(...diffJson(before, after, memberPath(path, key)));
  }
  return changes;
}

export interface Facts {
  readonly current: Current;
  readonly agentByName: ReadonlyMap<string, CurrentAgent>;
  readonly agentById: ReadonlyMap<string, CurrentAgent>;
  /** By `Kind/name`. */
  readonly generatedByKey: ReadonlyMap<string, CurrentGenerated>;
  readonly endpointByName: ReadonlyMap<string, CurrentEndpoint>;
  readonly endpointById: ReadonlyMap<string, CurrentEndpoint>;
  readonly connectionByName: ReadonlyMap<string, CurrentConnection>;
  /** By `agentId/ordinal`. */
  readonly triggerByKey: ReadonlyMap<string, CurrentTrigger>;
  readonly scheduleByKey: ReadonlyMap<string, CurrentSchedule>;
  readonly triggersByAgent: ReadonlyMap<string, readonly CurrentTrigger[]>;
  readonly schedulesByAgent: ReadonlyMap<string, readonly CurrentSchedule[]>;
}

export const rowKey = (agentId: string, ordinal: number): string => `${agentId}/${ordinal}`;

const byKey = <T>(items: readonly T[], key: (item: T) => string): Map<string, T> =>
  new Map(items.map((item) => [key(item), item]));

/** Indexes the stored state. */
export function indexFacts(current: Current): Facts {
  return {
    current,
    agentByName: byKey(current.agents, (agent) => agent.name),
    agentById: byKey(current.agents, (agent) => agent.id),
    generatedByKey: byKey(current.generated, (item) => `${item.kind}/${item.name}`),
    endpointByName: byKey(current.endpoints, (endpoint) => endpoint.name),
    endpointById: byKey(current.endpoints, (endpoint) => endpoint.id),
    connectionByName: byKey(current.connections, (connection) => connection.name),
    triggerByKey: byKey(current.triggers, (row) => rowKey(row.agentId, row.ordinal)),
    scheduleByKey: byKey(current.schedules, (row) => rowKey(row.agentId, row.ordinal)),
    triggersByAgent: Map.groupBy(current.triggers, (row) => row.agentId),
    schedulesByAgent: Map.groupBy(current.schedules, (row) => row.agentId),
  };
}

/** How an owner is named to people. */
export function ownerName(current: Current, repositoryId: string | null): string {
  if (repositoryId === null) return 'manual';
  return `repository ${current.repositories.get(repositoryId) ?? repositoryId}`;
}

export interface ResourceProblem {
  readonly resource: Resource;
  /** Steps into the stored spec: `['triggers', 0, 'connection']`. */
  readonly path: readonly (string | number)[];
  readonly code: DiagnosticCode;
  readonly message: string;
  readonly hint?: string;
  readonly severity?: Severity;
}

/** A tree as far as places are told by it. */
export type Placed = { readonly resources: readonly Resource[]; readonly places?: Places | undefined };

export type Report = (problem: ResourceProblem) => void;

/** Prints steps as a JSON path. */
export function printSteps(steps: readonly (string | number)[]): string {
  let path = '';
  for (const step of steps) path = typeof step === 'number' ? `${path}[${step}]` : memberPath(path, step);
  return path;
}

function findPlace(desired: Placed, problem: ResourceProblem): Place | undefined {
  const { resource } = problem;
  const known = desired.places?.[`${resource.kind}/${resource.name}`];
  if (known !== undefined) {
    for (let length = problem.path.length; length >= 0; length -= 1) {
      const path = printSteps(problem.path.slice(0, length));
      if (Object.hasOwn(known, path)) return known[path];
    }
  }
  const maker = resource.source === undefined ? makerOf(desired, resource) : resource;
  return maker?.source === undefined ? undefined : { file: maker.source.file };
}

/** The first agent of the tree that refers to a generated resource. */
function makerOf(desired: Placed, resource: Resource): Resource | undefined {
  const field = resource.kind === 'Environment' ? 'environment' : 'identity';
  return desired.resources.find((item) => item.kind === 'Agent' && item.spec[field] === resource.name);
}

/** As messages tell the name of what an agent names: somebody may have written a credential in its place. */
export const toldName = maskCredentials;

/** A problem as the outside sees it (docs/reference/repositories.md#ownership). */
export function toDiagnostic(desired: Placed, problem: ResourceProblem): Diagnostic {
  const path = maskCredentials(printSteps(problem.path));
  return {
    severity: problem.severity ?? 'error',
    code: problem.code,
    message: problem.message,
    ...findPlace(desired, problem),
    ...(path === '' ? {} : { path }),
    ...(problem.hint === undefined ? {} : { hint: problem.hint }),
  };
}

/**
 * The order of every list of diagnostics: file, line, column (docs/reference/compile.md#output), then code and message;
 * repeats are kept once.
 */
export function sortDiagnostics(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const sorted = diagnostics.toSorted(
    (a, b) =>
      compareText(a.file ?? '', b.file ?? '') ||
      (a.line ?? 0) - (b.line ?? 0) ||
      (a.column ?? 0) - (b.column ?? 0) ||
      compareText(a.code, b.code) ||
      compareText(a.message, b.message) ||
      compareText(a.path ?? '', b.path ?? ''),
  );
  return sorted.filter((item, index) => index === 0 || !isRepeat(item, sorted[index - 1] as Diagnostic));
}

/** The same mistake at the same place, such as in an import that several agents share, is told once (docs/reference/compile.md#files). */
function isRepeat(a: Diagnostic, b: Diagnostic): boolean {
  return (
    a.file === b.file &&
    a.line === b.line &&
    a.column === b.column &&
    a.code === b.code &&
    a.message === b.message &&
    (a.line !== undefined || a.path === b.path)
  );
}
