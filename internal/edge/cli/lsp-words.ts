// What an editor is told at a place: keys and values that may stand there, from the table that compile reads documents by,
// event keys, paths of payloads, and the text of a field. Pure.

import { type Explained, explain } from '../../../schemas/explain.ts';
import { defaultCatalog } from '../../base/config/default-catalog.ts';
import { knownEvents } from '../../domain/events.ts';
import { namedPaths, payloadPaths } from '../../domain/payloads.ts';
import type { At } from './lsp-place.ts';

export interface Word {
  readonly label: string;
  readonly kind: 'key' | 'value' | 'event' | 'path' | 'file';
  readonly detail?: string;
  readonly documentation?: string;
  /** What is put in, where that is more than the label. */
  readonly insert?: string;
}

/** Keys that tell variants apart, of the map that the cursor stands in. */
const chosen = (at: At): string[] =>
  ['kind', 'provider'].flatMap((key) => {
    const value = at.beside.get(key);
    return value === undefined || value === '' ? [] : [value];
  });

/** The field at a path, that of the variant that is written where there are several. */
function fieldsAt(path: readonly string[], at: At): readonly Explained[] {
  for (const variant of chosen(at)) {
    const narrow = explain([...path, variant].join('.'));
    if (narrow.length > 0 && narrow.some(({ fields }) => fields !== undefined)) return narrow;
  }
  const found = explain(path.join('.'));
  const [field] = found;
  // A map of several variants, none of which is written yet: the usual one where there is one, else all.
  const names = /^(?:list of: )?map, by \w+: (.+)$/.exec(field?.type ?? '')?.[1]?.split(', ');
  if (field === undefined || names === undefined) return found;
  const usual = names.includes('event') ? ['event'] : names;
  return usual.flatMap((variant) => explain([...path, variant].join('.')).filter(({ fields }) => fields !== undefined));
}

/** Events of the trigger around the cursor; of all triggers of the document where it stands in none. */
function eventsAt(at: At, text: string): string[] {
  for (const map of at.around) {
    const one = map.get('event');
    if (one !== undefined && one !== '') return [one];
  }
  return [...text.matchAll(/\bevent:\s*['"]?([\w.]+)/g)].map(([, event = '']) => event);
}

function pathsOf(events: readonly string[]): string[] {
  const found = new Set<string>();
  for (const event of events) for (const path of namedPaths(payloadPaths(event) ?? [])) found.add(path);
  return [...found].sort();
}

const eventWords = (): Word[] => [...knownEvents].sort().map((label) => ({ label, kind: 'event' }));

export function wordsAt(at: At, text: string, files: readonly string[]): Word[] {
  if (at.token !== undefined) return pathsOf(eventsAt(at, text)).map((label) => ({ label, kind: 'path' }));
  const path = [...at.path, ...(at.key === undefined ? [] : [at.key])];
  const last = path.at(-1);
  if (at.kind === 'key') {
    if (last === 'where' && at.path.includes('triggers')) {
      return pathsOf(eventsAt(at, text)).map((label) => ({
        label: `$.${label}`,
        kind: 'path',
        insert: `$.${label}: `,
      }));
    }
    if (last === 'events') return eventWords();
    if (last === 'imports' || last === 'import') return files.map((label) => ({ label, kind: 'file' }));
    return keyWords(path, at);
  }
  if (last === 'event' || last === 'events') return eventWords();
  if (last === 'imports' || last === 'import') return files.map((label) => ({ label, kind: 'file' }));
  return valueWords(path, at);
}

function keyWords(path: readonly string[], at: At): Word[] {
  const seen = new Map<string, Word>();
  for (const { fields } of fieldsAt(path, at)) {
    for (const { name, type, required, description } of fields ?? []) {
      if (at.beside.has(name) || seen.has(name)) continue;
      const detail = required ? `${type} (required)` : type;
      seen.set(name, { label: name, kind: 'key', detail, documentation: description, insert: `${name}: ` });
    }
  }
  return [...seen.values()];
}

function valueWords(path: readonly string[], at: At): Word[] {
  const last = path.at(-1);
  if (path.join('.').endsWith('environment.image.name')) return valuesOf(defaultCatalog.presets);
  if (path.join('.') === 'model.id') return valuesOf(Object.values(defaultCatalog.models).flatMap(({ ids }) => ids));
  if (last === 'timezone') return valuesOf(['UTC', ...Intl.supportedValuesOf('timeZone')]);
  const parent = fieldsAt(path.slice(0, -1), at);
  const own = parent.flatMap(({ fields }) =>
    (fields ?? []).filter(({ name }) => name === last).map(({ type }) => type),
  );
  const types = [...own, ...explain(path.join('.')).map(({ type }) => type)];
  const words = types.flatMap((type) => {
    if (type === 'true or false') return ['true', 'false'];
    const listed = /^(?:list of: )?one of (.+)$/.exec(type)?.[1];
    return listed === undefined ? [] : listed.split(', ');
  });
  return valuesOf([...new Set(words)]);
}

const valuesOf = (labels: readonly string[]): Word[] => labels.map((label) => ({ label, kind: 'value' }));

/** A field in Markdown: what it is, its type, default, limits and an example. */
export function hoverOf(path: readonly string[]): string | undefined {
  const exact = explain(path.join('.'));
  // Beside the field, a word may name a variant.
  const [field] = exact.filter((one) => one.path.endsWith(path.at(-1) ?? ''));
  if (field === undefined || field.path === '') return undefined;
  const rows = [
    `**${field.path}** · ${field.type}${field.required === true ? ' · required' : ''}`,
    '',
    field.description,
  ];
  if (field.default !== undefined) rows.push('', `Default: \`${JSON.stringify(field.default)}\``);
  if (field.otherwise !== undefined) rows.push('', `Where absent: ${field.otherwise}`);
  for (const limit of field.limits) rows.push('', `Limits: ${limit}`);
  if (field.rule !== undefined) rows.push('', field.rule);
  if (field.merge !== undefined) rows.push('', `Merging: ${field.merge}`);
  if (field.example !== undefined) rows.push('', '```yaml', `${path.at(-1)}: ${JSON.stringify(field.example)}`, '```');
  return rows.join('\n');
}
