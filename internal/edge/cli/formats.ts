// A result in another format than text and JSON: YAML for people and files, and names for loops of a shell.

import { parseDocument, visit } from 'yaml';
import { cleanDocument, isUnclean } from './text.ts';

/** JSON as YAML in block style; numbers keep their digits. `isOneOfSeveral` begins a document of its own. */
export function yamlOf(json: string, isOneOfSeveral: boolean): string {
  const document = parseDocument(json, { intAsBigInt: true });
  visit(document, {
    Collection: (_key, node) => {
      // An empty one has no block style.
      if (node.items.length > 0) node.flow = false;
    },
    Scalar: (_key, node) => {
      if (typeof node.value === 'string' && isUnclean(node.value)) node.type = 'QUOTE_DOUBLE';
      else delete node.type;
    },
  });
  return `${isOneOfSeveral ? '---\n' : ''}${cleanDocument(document.toString({ lineWidth: 0 }))}`;
}

/** What the list is of that names are told of. */
export interface Listed {
  /** The first word of its command. */
  readonly kind: string;
  /** What the command was asked about, which things of it do not repeat. */
  readonly about: string | undefined;
}

/** `agent/triage` for each thing of a list, or for the one; undefined where there are things and none has a name. */
export function namesOf(listed: Listed, value: unknown): string | undefined {
  const things = thingsIn(value);
  const names = things.map((item) => handleOf(listed, item)).filter((name) => name !== undefined);
  return things.length > 0 && names.length === 0 ? undefined : [...new Set(names)].join('\n');
}

/** Resources that answers of several kinds tell apart. */
const resourceKinds: { readonly [kind: string]: string } = {
  Agent: 'agent',
  Environment: 'environment',
  Identity: 'identity',
};

/** The kind and the name that commands take: where its name alone is none, or another kind's command takes it, that one. */
function handleOf({ kind, about }: Listed, item: unknown): string | undefined {
  const thing = Object(item) as { readonly [member: string]: unknown };
  const { id, principalId, email, kind: sort, name, revision, path, day, agent } = thing;
  const as = (word: string, handle: unknown): string | undefined =>
    typeof handle === 'string' ? `${word}/${handle}` : undefined;
  // Several tokens may have one name, and people have names that no command takes.
  if (kind === 'token') return as(kind, id);
  if (kind === 'member' && sort === 'user') return as(kind, email ?? principalId);
  if (typeof sort === 'string' && typeof name === 'string' && Object.hasOwn(resourceKinds, sort))
    return as(resourceKinds[sort] ?? '', name);
  if (kind === 'agent' && name === undefined && typeof revision === 'number' && about !== undefined)
    return as(kind, `${about}@${revision}`);
  if (kind === 'session' && typeof path === 'string' && id === undefined) return as('file', path);
  if (kind === 'spend') return id === undefined ? (as('agent', agent) ?? as('day', day)) : as('session', id);
  return as(isToldByAgent(thing) ? 'trigger' : kind, nameOf(item));
}

/** Some answers call their list otherwise than `items`, and have no name of their own. */
function thingsIn(value: unknown): readonly unknown[] {
  const members = Object(value) as { readonly [member: string]: unknown };
  if (Array.isArray(members['items'])) return members['items'];
  const [list] = Object.values(members).filter((one) => Array.isArray(one));
  return nameOf(value) === undefined && list !== undefined ? list : [value];
}

/** A trigger is told by its agent and its place there; sessions name the one that started them, and have ids. */
const isToldByAgent = ({ agent, ordinal, id, scheduleId }: { readonly [member: string]: unknown }): boolean =>
  typeof agent === 'string' && typeof ordinal === 'number' && id === undefined && scheduleId === undefined;

/** What a thing is asked for by: its name or slug, else its id. */
export function nameOf(item: unknown): string | undefined {
  const { name, slug, id, principalId, agent, ordinal, scheduleId, version, session } = Object(item) as {
    readonly [member: string]: unknown;
  };
  if (isToldByAgent(Object(item))) return `${agent}#${ordinal}`;
  // A name that people see is no handle where there is a slug.
  const found = [
    slug !== undefined && id !== undefined ? slug : undefined,
    name,
    slug,
    id,
    principalId,
    scheduleId,
    session,
    version,
  ].find((one) => typeof one === 'string' || typeof one === 'number');
  return found === undefined ? undefined : String(found);
}
