// From what was received to what a handler takes: JSON with a bounded depth, then the route's schema.

import { yieldToEventLoop } from '../../base/concurrency.ts';
import * as v from 'valibot';
import { parseOutside } from '../../../schemas/parse.ts';
import { lookedAt, parseWithin, TooDeep } from '../../domain/depth.ts';
import { isExactNumber } from '../../core/match/match.ts';
import { Fault } from '../../domain/fault.ts';
import { messagesTable } from '../../domain/messages.ts';
import { largeFrom, takeTexts } from './large-body.ts';
import { HttpFault } from './problem.ts';
import type { Schema } from './route.ts';

/** Levels of `{` and `[`; deeper input is refused before it is parsed. */
const depthMax = 100;

/** A body of more costs hundreds of megabytes, however few its bytes are. */
const valuesMax = 1_000_000;

const tooDeep = (): Fault =>
  new Fault('invalid', 'json-too-deep', `The body is nested deeper than ${depthMax} levels.`);

/**
 * Holds a body that is large against the bounds of depth and number, a slice at a turn, and gives what is to be parsed of it:
 * without its long texts where they are taken. Throws Fault `invalid`.
 */
export async function checkLargeBody(bytes: unknown, takesTexts: boolean): Promise<unknown> {
  if (!Buffer.isBuffer(bytes) || bytes.length <= largeFrom) return bytes;
  const looking = lookedAt(bytes, { levels: depthMax, values: valuesMax });
  for (;;) {
    const { done, value } = looking.next();
    if (value === 'deep') throw tooDeep();
    if (value === 'many') throw new Fault('invalid', 'invalid-json', `The body holds over ${valuesMax} values.`);
    await yieldToEventLoop();
    if (done === true) return takesTexts ? takeTexts(bytes) : bytes;
  }
}

/** Parses a body, which `checkLargeBody` has passed where it is a large one. An empty one is undefined. */
export function readJson(bytes: Buffer, contentType: string | undefined, parse: (text: string) => unknown): unknown {
  if (bytes.length === 0) return undefined;
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== undefined && type !== 'application/json' && !/^application\/[\w.+-]+\+json$/.test(type)) {
    throw new Fault('unsupported_media', 'unsupported-media-type', messagesTable.notJsonType);
  }
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(contentType ?? '')?.[1]?.toLowerCase();
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    throw new Fault(
      'unsupported_media',
      'unsupported-charset',
      'JSON is UTF-8 here, whatever its charset is said to be.',
    );
  }
  if (bytes.length > largeFrom) return parsed(bytes, parse);
  try {
    return parseWithin(bytes, depthMax, () => parsed(bytes, parse));
  } catch (error) {
    throw error instanceof TooDeep ? tooDeep() : error;
  }
}

function parsed(bytes: Buffer, parse: (text: string) => unknown): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Fault('invalid', 'invalid-json', 'The body is not valid UTF-8.');
  }
  try {
    return parse(text);
  } catch {
    throw new Fault('invalid', 'invalid-json', messagesTable.notJson);
  }
}

/**
 * Checks a body or a query against its schema; the fault lists every problem with its path, of a very large one the first. What
 * was received is never repeated, and where it is `confidential` not even the name of a key that does not belong there: it may
 * be a value.
 */
export function check(schema: Schema, value: unknown, what: 'body' | 'query', confidential = false): unknown {
  // A number that is kept by its digits is an object to the schema library.
  if (isExactNumber(value))
    throw new Fault('invalid', `invalid-${what}`, `The ${what} is not as expected. Expected an object`);
  const parsed = parseOutside(schema, value);
  if (parsed.success) {
    const at = listAsObject(value, parsed.output, '');
    if (at === undefined) return parsed.output;
    throw new Fault('invalid', `invalid-${what}`, `The ${what} is not as expected. ${at}Expected an object`);
  }
  const problems = parsed.issues.slice(0, 20).map((issue) => {
    const isUnknown = issue.type === 'strict_object' && issue.expected === 'never';
    if (isUnknown && confidential) return 'a key that is unknown here';
    const path = v.getDotPath(issue);
    const message = isUnknown ? 'is unknown here' : saidOf(issue);
    return path === null ? message : `${path}: ${message}`;
  });
  throw new Fault('invalid', `invalid-${what}`, `The ${what} is not as expected. ${problems.join('; ')}`);
}

const kindNames: { readonly [expected: string]: string } = {
  Object: 'an object',
  Array: 'a list',
  string: 'a string',
  number: 'a number',
  boolean: 'true or false',
};

/** What is wrong, without what was received. */
function saidOf(issue: v.BaseIssue<unknown>): string {
  // A member that is not there, as the schema library tells it of objects, and of each kind of value.
  if (issue.kind === 'schema' && issue.input === undefined && issue.type !== 'variant') return 'is required';
  if (issue.message.startsWith('Invalid type: ') && issue.expected !== null) {
    const kinds = issue.expected.replace(/^\((.*)\)$/, '$1').split(' | ');
    return `Expected ${kinds.map((kind) => kindNames[kind] ?? kind).join(' or ')}`;
  }
  return issue.message.replace(/(?: but|:) received [^]*$/i, '');
}

/** Where a list was taken for an object without keys, as the schema library does; undefined where nowhere. */
function listAsObject(given: unknown, taken: unknown, path: string): string | undefined {
  if (given === taken || typeof given !== 'object' || given === null || typeof taken !== 'object' || taken === null)
    return undefined;
  if (Array.isArray(given) && !Array.isArray(taken)) return path === '' ? '' : `${path}: `;
  for (const [key, inner] of Object.entries(given)) {
    const below = path === '' ? key : `${path}.${key}`;
    const found = Object.hasOwn(taken, key) ? listAsObject(inner, taken[key as never], below) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Refuses a query, or a body other than `{}`, where a route takes none. */
export function requireNone(value: unknown, what: 'body' | 'query'): void {
  const isEmpty =
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
  if (isEmpty) return;
  throw new Fault('invalid', `invalid-${what}`, `The ${what} is not as expected. This call takes none.`);
}

/** Bodies arrive as they are: nothing is inflated here, so that a limit means what it says. */
export function requireNoEncoding(contentEncoding: string | undefined): void {
  if (contentEncoding === undefined) return;
  throw new Fault('unsupported_media', 'unsupported-encoding', 'Send the body without a Content-Encoding.');
}

/** NUL cannot be part of any name here. */
export function requirePlain(values: Iterable<unknown>): void {
  for (const value of values) {
    if (typeof value === 'string' && value.includes('\0'))
      throw new HttpFault(400, 'invalid-text', 'A NUL character has no place in a URL.');
  }
}
