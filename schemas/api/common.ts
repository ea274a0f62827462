// Shapes that several resources share, and the roots of their paths.

import * as v from 'valibot';
import { isStorable } from '../../internal/domain/text.ts';
import { mapOf, withKeysMax } from '../parse.ts';
import { isoMillis } from '../secret.ts';
import { named, type Shape } from './operation.ts';

export const orgPath = '/api/v1/orgs/:org';
export const projectPath = '/api/v1/orgs/:org/projects/:project';

export const integer = v.pipe(v.number(), v.integer());
export const timestamp = v.pipe(v.string(), v.isoTimestamp());
/** A time that a query asks for: one that there is, with its zone. */
export const askedTime = v.pipe(
  timestamp,
  v.check((text) => isoMillis(text) !== undefined, 'Expected a time as in 2030-01-31T12:00:00Z'),
);
/** Any JSON object. */
export const json = v.record(v.string(), v.unknown());
/**
 * At most so many characters, as the description of the API counts them: the library's own count is of UTF-16 units, of
 * which an emoji has two.
 */
export function maxCharacters(max: number): v.MaxLengthAction<string, number, string> {
  const inUnits = v.maxLength<string, number, string>(max, `Expected at most ${max} characters`);
  return {
    ...inUnits,
    '~run': (dataset, config) =>
      dataset.typed && [...dataset.value].length <= max ? dataset : inUnits['~run'](dataset, config),
  };
}
/** A member of a body or query that is an agent's name, or another name of that length. */
export const nameText = v.pipe(v.string(), v.maxLength(128));
/** Of a text that is kept in JSON of the database, which has room for neither; anything else would be kept as another text. */
export const storable = v.check(isStorable, 'Expected text without lone surrogates and NUL');
/** What people call something. It goes into the audit, which is JSON and takes no lone surrogates. */
export const displayName = v.pipe(
  v.string(),
  v.trim(),
  v.minLength(1),
  maxCharacters(200),
  v.check((text) => text.isWellFormed(), 'Expected text without lone surrogates'),
);
/** Why somebody does something, for the audit. */
export const reasonText = v.pipe(
  v.string(),
  maxCharacters(500),
  v.check(isStorable, 'Expected text without lone surrogates'),
);
/** A switch of a query. */
export const onOff = v.picklist(['true', 'false']);

/** Who owns a resource: the repository of that name, or `manual`, which is whatever people applied by hand. */
export const owner = named(
  'Owner',
  v.variant('kind', [
    v.object({ kind: v.literal('repository'), name: v.string() }),
    v.object({ kind: v.literal('manual') }),
  ]),
);

/** Context variables of a tree; numbers and booleans are taken as in a document's own `variables`. */
export const contextVariables = withKeysMax(
  mapOf(
    v.pipe(v.string(), v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'Expected a name of letters, digits and _')),
    v.union([v.pipe(v.string(), storable), v.number(), v.boolean()]),
  ),
  1_000,
  'variables',
);

/** Where a resource stands in its tree: the file, and the index of the document within it. */
export const source = v.object({ file: v.string(), document: integer });
export const triggerStatus = v.picklist(['active', 'skipped']);
/** What an event or a session is about: `codehost.pull_request` and its key. */
export const target = named('Target', v.object({ type: v.string(), key: v.string() }));
export type Target = Shape<typeof target>;

export const change = named('Change', v.object({ path: v.string(), from: v.unknown(), to: v.unknown() }));
export const action = named(
  'Action',
  v.object({
    op: v.picklist(['create', 'update', 'delete', 'unchanged']),
    kind: v.picklist(['Agent', 'Environment', 'Identity']),
    name: v.string(),
    changes: v.array(change),
  }),
);
export type Action = Shape<typeof action>;

/** Of `dryRun=true`: what would follow. */
export const dryRun = named(
  'DryRun',
  v.object({
    consequences: v.array(
      named(
        'Consequence',
        v.object({
          /** What it happens to: `agents`, `sessions`, `triggers`, … */
          kind: v.string(),
          count: integer,
          text: v.string(),
          /** The first twenty. */
          names: v.array(v.string()),
        }),
      ),
    ),
    /** What would be written, of acts that apply something. */
    actions: v.optional(v.array(action)),
    /** Of a rollback and a pin: what would be applied, as the act takes it. */
    commit: v.optional(v.string()),
  }),
);
export type DryRun = Shape<typeof dryRun>;
/** Of an operation that takes something away. */
export const dryRunQuery = {
  dryRun: v.optional(
    v.pipe(onOff, v.description('`true`: changes nothing; answers 200 with what would follow, or as the act would.')),
  ),
};

/** Of an apply: where callers of an endpoint post to. */
export const receipt = named(
  'WebhookReceipt',
  v.object({ event: v.string(), endpoint: v.string(), ingestUrl: v.string(), status: v.literal('ready') }),
);

/** Lines of a file around a mistake. */
export const excerpt = named(
  'Excerpt',
  v.object({
    /** Number of the first of `lines`. */
    line: integer,
    lines: v.array(v.string()),
    /** Of the mistake in its own line, from 1, in code points; a tab is one. */
    column: integer,
    /** Code points that are wrong, within that line. */
    length: integer,
  }),
);
/** Why somebody does something; it stands in the audit. */
export const actReason = v.exactOptional(v.pipe(v.string(), maxCharacters(500), storable));

/** The body of an act that may be sent without one. */
export const reasonBody = v.optional(v.strictObject({ reason: actReason }), {});

/** A mistake of an author; lines and columns count from 1. */
export const diagnostic = named(
  'Diagnostic',
  v.object({
    severity: v.picklist(['error', 'warning']),
    code: v.string(),
    message: v.string(),
    file: v.optional(v.string()),
    line: v.optional(integer),
    column: v.optional(integer),
    endLine: v.optional(integer),
    endColumn: v.optional(integer),
    path: v.optional(v.string()),
    hint: v.optional(v.string()),
    excerpt: v.optional(excerpt),
    related: v.optional(v.array(v.object({ message: v.string(), file: v.string(), line: integer, column: integer }))),
  }),
);

export type Diagnostic = Shape<typeof diagnostic>;

/** RFC 9457: what every refusal and failure answers, as application/problem+json. */
export const problem = named(
  'Problem',
  v.strictObject({
    type: v.string(),
    title: v.string(),
    status: integer,
    detail: v.string(),
    code: v.string(),
    requestId: v.string(),
    diagnostics: v.optional(v.array(diagnostic)),
  }),
);

/** What an intake answers for an event that it has recorded, now (`created`) or before. */
export const recorded = named(
  'RecordedEvent',
  v.object({
    eventRecordId: v.string(),
    created: v.boolean(),
    routerStatus: v.picklist(['pending', 'routed', 'unmatched', 'failed']),
  }),
);

export const usage = named(
  'Usage',
  v.object({
    calls: integer,
    inputTokens: integer,
    outputTokens: integer,
    cacheReadTokens: integer,
    cacheWriteTokens: integer,
    /** A decimal, of the calls whose price is known. */
    costUsd: v.string(),
    unpricedCalls: integer,
  }),
);
export type Usage = Shape<typeof usage>;
/** Of an agent or a project: this UTC day, this UTC month, and ever. */
export const spending = named('Spending', v.object({ day: usage, month: usage, total: usage }));
export type Spending = Shape<typeof spending>;
