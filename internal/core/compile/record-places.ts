// What the records of agent files tell of places, offsets as lines and columns: where the parts stand that an apply may have
// to point at, and where the values come from.

import type { Origin, Origins, Place, Places, Range } from '../../domain/diagnostic.ts';
import { LineTable } from '../source/source.ts';
import type { AgentRecord } from './cache.ts';

/** The origins of the agents of records that were made to tell them, offsets as lines. */
export function originsIn(
  records: readonly AgentRecord[],
  textOf: (file: string) => string | undefined,
): { readonly [agent: string]: Origins } {
  const tables = new Map<string, LineTable | undefined>();
  const lineOf = ({ file, start }: Range): number | null => {
    if (!tables.has(file)) {
      const text = textOf(file);
      tables.set(file, text === undefined ? undefined : new LineTable(text));
    }
    return tables.get(file)?.at(start).line ?? null;
  };
  const agents: { [agent: string]: Origins } = Object.create(null);
  for (const { name, origins } of records.flatMap(({ drafts }) => drafts)) {
    if (name === undefined || origins === undefined) continue;
    const paths: { [path: string]: Origin } = Object.create(null);
    for (const { path, range, layer } of origins)
      paths[path] = { file: range?.file ?? null, line: range === undefined ? null : lineOf(range), layer };
    agents[name.name] = paths;
  }
  return agents;
}

/** Turns the offsets of one file's parts into lines and columns; done once and kept with the record. */
export function placed(
  record: AgentRecord,
  tables: Map<string, LineTable | undefined>,
  textOf: (file: string) => string | undefined,
): AgentRecord {
  if (!record.isKeepable) return record;
  const places: { [resource: string]: { [path: string]: Place } } = {};
  for (const { resource, path, range } of record.drafts.flatMap((draft) => draft.parts)) {
    const group = (places[resource] ??= {});
    group[path] ??= placeOf(range, tables, textOf);
  }
  return { ...record, places };
}

function placeOf(
  range: Range,
  tables: Map<string, LineTable | undefined>,
  textOf: (file: string) => string | undefined,
): Place {
  if (!tables.has(range.file)) {
    const text = textOf(range.file);
    tables.set(range.file, text === undefined ? undefined : new LineTable(text));
  }
  const table = tables.get(range.file);
  if (table === undefined) return { file: range.file };
  const [from, to] = [table.at(range.start), table.at(range.end)];
  return { file: range.file, line: from.line, column: from.column, endLine: to.line, endColumn: to.column };
}

/** The places of a whole tree; of a resource that several documents generate, those of the first. */
export function placesOf(records: readonly AgentRecord[]): Places {
  const all: { [resource: string]: { readonly [path: string]: Place } } = {};
  for (const { places } of records) {
    for (const [resource, group] of Object.entries(places ?? {})) all[resource] ??= group;
  }
  return all;
}
