// A brokered tool: what it needs of the mount, and what it does.

import { sha256Bytes } from '../../base/hash.ts';
import type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import { objectAt, textAt } from '../../domain/fields.ts';
import { canonicalJson, type Json, type JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import type { FlowContext } from '../context.ts';
import type { Want } from './confine.ts';
import type { CodehostCall } from './codehost-call.ts';
import { marked } from './shape.ts';
import { withoutEnd } from '../../domain/text.ts';

export interface Asked {
  readonly ctx: FlowContext;
  readonly caller: ToolCaller;
  readonly input: JsonObject;
}

export interface BrokerTool {
  readonly about: string;
  /** Nothing, adds, or takes and replaces. */
  readonly effect: 'none' | 'adds' | 'takes';
  /** It may write; what `isWrite` says of an input counts for the call. */
  readonly write: boolean;
  readonly isWrite?: (input: JsonObject) => boolean;
  wants(input: JsonObject): readonly Want[];
  /** Throws Fault `invalid-input` for what the schema cannot say; before anything is asked. */
  check?(input: JsonObject): void;
  run(codehost: CodehostCall, asked: Asked): Promise<Json>;
}

export const text = (input: JsonObject, key: string): string => textAt(input[key]) ?? '';
export const maybe = (input: JsonObject, key: string): string | undefined => textAt(input[key]);
export const number = (input: JsonObject, key: string): number => Number(input[key] ?? 0);
export const given = (input: JsonObject, ...keys: readonly string[]): JsonObject =>
  Object.fromEntries(keys.filter((key) => input[key] !== undefined).map((key) => [key, input[key]]));

export const invalidInput = (what: string) => outsideFault('invalid-input', what);
/** Throws Fault where none of them is given. */
export function needs(input: JsonObject, ...keys: readonly string[]): void {
  const absent = keys.filter((key) => input[key] === undefined);
  if (absent.length > 0) throw invalidInput(`${absent.join(', ')}: is required here`);
}

/** Pages of a list, as the provider counts them. */
export const paging = (input: JsonObject): { readonly page: number; readonly per_page: number } => ({
  page: Number(input['page'] ?? 1),
  per_page: Math.min(100, Number(input['perPage'] ?? input['per_page'] ?? 30)),
});

export const body = (codehost: CodehostCall, said: string): string =>
  marked(said, { session: codehost.options.session, callId: codehost.callId });

export const digest = (value: Json | undefined): string =>
  sha256Bytes(canonicalJson(value ?? null)).toString('base64url');

const folded = (names: readonly Json[]): string[] => [...new Set(names.map((one) => String(one).toLowerCase()))].sort();
/** Whether names are among others: the code host tells them in the case in which they were made. */
export const areAmong = (names: readonly Json[], others: readonly Json[]): boolean => {
  const there = new Set(folded(others));
  return folded(names).every((one) => there.has(one));
};
/** What a field is set to, so that what the code host tells of it compares: names of a set have neither order nor case. */
export const digestOf = (key: string, value: Json | undefined): string =>
  digest((key === 'labels' || key === 'assignees') && Array.isArray(value) ? folded(value as readonly Json[]) : value);

/** Segments of a path, each encoded; none may lead elsewhere. */
export function pathIn(path: string): string {
  const parts = withoutEnd(path.replace(/^\/+/, ''), '/').split('/');
  if (parts.some((part) => part === '.' || part === '..')) throw invalidInput('path: may not lead upwards');
  return parts.map(encodeURIComponent).join('/');
}

export const numberAndUrl = (json: JsonObject): JsonObject => ({
  number: json['number'] ?? null,
  url: json['html_url'] ?? null,
});
export const idNumberUrl = (json: JsonObject): JsonObject => ({ id: json['id'] ?? null, ...numberAndUrl(json) });
export const shaOf = (json: Json): string => textAt(objectAt(objectAt(json)['object'])['sha']) ?? '';

/** Marks of a time, a minute earlier: clocks differ. */
export const sentSince = (codehost: CodehostCall): string => new Date(codehost.now.getTime() - 60_000).toISOString();
