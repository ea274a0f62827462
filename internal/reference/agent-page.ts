// docs/reference/agent-document.md: every field of an agent document, in the order of the table that describes them.

import { agent } from '../../schemas/agent.ts';
import { chooser, limitsOf, placeholdersOf, typeOf } from '../../schemas/explain.ts';
import type { AnyGroup, AnyVariants, Desc, Merge } from '../../schemas/grammar.ts';
import { code, madeFrom, page, table } from './text.ts';

const merging: { readonly [merge in Exclude<Merge, 'none'>]: string } = {
  override: 'The later one stands.',
  deep: 'Maps merge key by key, to any depth; scalars and lists override.',
  environment: 'As deep, its `env` as leaves; a name overrides an inline object, and an inline object a name.',
  append: 'A plain text overrides; `append` is put behind the imported text, without a separator.',
  map: 'Key by key, each value deep; keys can be removed.',
  leaves: 'Key by key, each value whole; keys can be removed.',
  mounts: 'Items of one `name`, else `mountPath`, merge deep; the others are appended.',
  triggers:
    'Items of one `name`, else `event`, joined `events`, `cron:<cron>:<timezone>`, merge deep, clauses of `where` whole; the others are appended; items can be removed.',
};

const anchorOf = (path: readonly string[]): string =>
  path
    .join('-')
    .replaceAll(/[^A-Za-z0-9_-]/g, '-')
    .toLowerCase();

/** A part of the page: a group of fields with its table. */
interface Part {
  readonly path: readonly string[];
  /** Names of the variants on the way. */
  readonly when: string;
  readonly desc: AnyGroup;
}

/** The groups inside a description, each once at its first place. */
function* parts(desc: Desc, path: readonly string[], when: string, seen: Set<Desc>): Generator<Part | AnyVariantsPart> {
  if (desc.kind === 'list') yield* parts(desc.item, path, when, seen);
  else if (desc.kind === 'record') yield* parts(desc.value, path, when, seen);
  else if (desc.kind === 'either') yield* parts(desc.parts, path, when, seen);
  else if (desc.kind === 'variants') {
    if (seen.has(desc)) return;
    seen.add(desc);
    yield { path, when, variants: desc };
    for (const [name, variant] of Object.entries(desc.variants)) {
      const when = `${desc.by}: ${name}`;
      if (variant.kind === 'group') yield* groupParts(variant, [...path, name], when, seen, { path, of: desc });
      else yield* parts(variant, [...path, name], when, seen);
    }
  } else if (desc.kind === 'group') yield* groupParts(desc, path, when, seen);
}

function* groupParts(
  desc: AnyGroup,
  path: readonly string[],
  when: string,
  seen: Set<Desc>,
  above?: { readonly path: readonly string[]; readonly of: AnyVariants },
): Generator<Part | AnyVariantsPart> {
  if (seen.has(desc)) return;
  seen.add(desc);
  yield { path, when, desc };
  const siblings = above === undefined ? [] : Object.values(above.of.variants);
  for (const [key, field] of Object.entries(desc.fields)) {
    // What all variants share has one place, whichever it is.
    const isShared = siblings.length > 0 && siblings.every((one) => one.kind === 'group' && one.fields[key] === field);
    yield* parts(field, isShared && above !== undefined ? [...above.path, key] : [...path, key], '', seen);
  }
}
interface AnyVariantsPart {
  readonly path: readonly string[];
  readonly when: string;
  readonly variants: AnyVariants;
}

function rowOf(name: string, path: readonly string[], field: Desc): string[] {
  const tokens = placeholdersOf(field);
  const limits = [...limitsOf(field), ...(tokens === undefined ? [] : [`may hold ${tokens}`])];
  const absent =
    field.required === 'merged'
      ? 'required once imports are merged'
      : field.required === true
        ? 'required'
        : field.default === undefined
          ? (field.otherwise ?? '')
          : code(JSON.stringify(field.default));
  const legacy =
    field.kind === 'choice' && field.legacy !== undefined ? `Legacy spellings: ${field.legacy.join(', ')}.` : '';
  const said = [field.description, field.rule ?? '', legacy].filter((text) => text !== '').join(' ');
  return [
    `<a id="${anchorOf([...path, name])}"></a>${code(name)}`,
    code(typeOf(field)),
    absent,
    limits.join('; '),
    said,
  ];
}

const headings = ['Field', 'Type', 'Where absent', 'Limits', 'Meaning'];
const example = (desc: Desc): string[] =>
  desc.example === undefined ? [] : [`\`\`\`json\n${JSON.stringify(desc.example)}\n\`\`\``];

function partText(part: Part | AnyVariantsPart): string[] {
  const desc: Desc = 'variants' in part ? part.variants : part.desc;
  const level = Math.min(2 + Math.max(0, part.path.length - 1), 4);
  const title = `${'#'.repeat(level)} ${part.path.join('.')}${part.when === '' ? '' : ` (${part.when})`}`;
  const head = [
    `<a id="${anchorOf(part.path)}"></a>\n\n${title}`,
    [desc.description, desc.rule ?? ''].join(' ').trim(),
    ...example(desc),
  ];
  if ('variants' in part)
    return [...head, table(headings, [rowOf(part.variants.by, part.path, chooser(part.variants))])];
  return [
    ...head,
    table(
      headings,
      Object.entries(part.desc.fields).map(([name, field]) => rowOf(name, part.path, field)),
    ),
  ];
}

function mergingRows(): string[][] {
  const byClass = new Map<string, string[]>();
  for (const [name, { merge }] of Object.entries(agent.fields)) {
    if (merge === undefined || merge === 'none') continue;
    byClass.set(merge, [...(byClass.get(merge) ?? []), code(name)]);
  }
  return [...byClass].map(([merge, names]) => [names.join(', '), code(merge), merging[merge as keyof typeof merging]]);
}

export function agentPage(): string {
  const seen = new Set<Desc>([agent]);
  const below = Object.entries(agent.fields).flatMap(([key, field]) => [...parts(field, [key], '', seen)]);
  return page([
    madeFrom('the table of fields in schemas/'),
    '# Agent document',
    'One document in a file of `.svc/agents/` is one agent; what stands here may also stand in a fragment that one imports. Unknown fields of the root are ignored, in maps below it they are errors. `svc explain FIELD` says the same on a terminal, `svc schema` to an editor.',
    '## Fields',
    table(
      headings,
      Object.entries(agent.fields).map(([name, field]) => rowOf(name, ['field'], field)),
    ),
    '## Merging',
    'Imports are merged in order, the document’s own fields last; `remove` acts in between.',
    table(['Fields', 'Class', 'What it does'], mergingRows()),
    ...below.flatMap(partText),
  ]);
}
