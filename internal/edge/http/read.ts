// From what was received to what a handler takes: JSON with a bounded depth, then the route's schema.

import * as v from 'valibot';
import { Fault } from '../../words/fault.ts';
import { HttpFault } from './problem.ts';
import type { Schema } from './route.ts';

/** Levels of `{` and `[`; deeper input is refused before it is parsed. */
const depthMax = 100;

/** Parses a body. An empty one is undefined. */
export function readJson(bytes: Buffer, contentType: string | undefined, parse: (text: string) => unknown): unknown {
  if (bytes.length === 0) return undefined;
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== undefined && type !== 'application/json' && !/^application\/[\w.+-]+\+json$/.test(type)) {
    throw new Fault('unsupported_media', 'unsupported-media-type', 'The body must be application/json.');
  }
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(contentType ?? '')?.[1]?.toLowerCase();
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    throw new Fault(
      'unsupported_media',
      'unsupported-charset',
      'JSON is UTF-8 here, whatever its charset is said to be.',
    );
  }
  requireShallow(bytes);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Fault('invalid', 'invalid-json', 'The body is not valid UTF-8.');
  }
  try {
    return parse(text);
  } catch {
    throw new Fault('invalid', 'invalid-json', 'The body is not valid JSON.');
  }
}

function requireShallow(bytes: Buffer): void {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (quoted) {
      if (byte === 0x5c) at += 1;
      else if (byte === 0x22) quoted = false;
    } else if (byte === 0x22) quoted = true;
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      if (depth > depthMax)
        throw new Fault('invalid', 'json-too-deep', `The body is nested deeper than ${depthMax} levels.`);
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
  }
}

/**
 * Checks a body or a query against its schema; the fault lists every problem with its path. What was received is never
 * repeated, and where it is `confidential` not even the name of a key that does not belong there: it may be a value.
 */
export function check(schema: Schema, value: unknown, what: 'body' | 'query', confidential = false): unknown {
  const parsed = v.safeParse(schema, value);
  if (parsed.success) return parsed.output;
  const problems = parsed.issues.slice(0, 20).map((issue) => {
    const message = issue.message.replace(/ but received [^]*$/, '');
    if (issue.type === 'strict_object' && issue.expected === 'never' && confidential)
      return 'a key that is unknown here';
    const path = v.getDotPath(issue);
    return path === null ? message : `${path}: ${message}`;
  });
  throw new Fault('invalid', `invalid-${what}`, `The ${what} is not as expected. ${problems.join('; ')}`);
}

/** Refuses a query, or a body other than `{}`, where a route takes none. */
export function requireNone(value: unknown, what: 'body' | 'query'): void {
  const isEmpty =
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
  if (isEmpty) return;
  throw new Fault('invalid', `invalid-${what}`, `The ${what} is not as expected. This call takes none.`);
}

/** Bodies arrive as they are: nothing is inflated here, so that a limit means what it says. */
export function requireIdentity(contentEncoding: string | undefined): void {
  if (contentEncoding === undefined || contentEncoding.trim().toLowerCase() === 'identity') return;
  throw new Fault('unsupported_media', 'unsupported-encoding', 'Send the body without a Content-Encoding.');
}

/** NUL cannot be part of any name here. */
export function requirePlain(values: Iterable<unknown>): void {
  for (const value of values) {
    if (typeof value === 'string' && value.includes('\0'))
      throw new HttpFault(400, 'invalid-text', 'A NUL character has no place in a URL.');
  }
}
