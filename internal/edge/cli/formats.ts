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

/** `agent/triage` for each thing of a list, or for the one. */
export function namesOf(kind: string, value: unknown): string {
  return thingsIn(value)
    .map((item) => handleOf(kind, item) ?? nameOf(item))
    .filter((name) => name !== undefined)
    .map((name) => `${kind}/${name}`)
    .join('\n');
}

/** Of what no command takes by its name: a token, of which several may have one, and a person. */
function handleOf(kind: string, item: unknown): string | undefined {
  const { id, principalId, email, kind: sort } = Object(item) as { readonly [member: string]: unknown };
  const handle = kind === 'token' ? id : kind === 'member' && sort === 'user' ? (email ?? principalId) : undefined;
  return typeof handle === 'string' ? handle : undefined;
}

/** Some answers call their list otherwise than `items`, and have no name of their own. */
function thingsIn(value: unknown): readonly unknown[] {
  const members = Object(value) as { readonly [member: string]: unknown };
  if (Array.isArray(members['items'])) return members['items'];
  const [list] = Object.values(members).filter((one) => Array.isArray(one));
  return nameOf(value) === undefined && list !== undefined ? list : [value];
}

/** What a thing is asked for by: its name or slug, else its id. */
export function nameOf(item: unknown): string | undefined {
  const { name, slug, id, principalId, agent, ordinal, scheduleId, version, session } = Object(item) as {
    readonly [member: string]: unknown;
  };
  // A trigger is told by its agent and its place there; sessions name the one that started them, and have ids.
  if (typeof agent === 'string' && typeof ordinal === 'number' && id === undefined && scheduleId === undefined)
    return `${agent}#${ordinal}`;
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
