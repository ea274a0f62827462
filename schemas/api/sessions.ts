// Sessions: what runs, what it says, and what people do with it.

import * as v from 'valibot';
import { engineReasons } from '../../internal/domain/sandbox.ts';
import { sessionStates } from '../../internal/domain/session-state.ts';
import { binding } from './bindings.ts';
import {
  dryRun,
  dryRunQuery,
  integer,
  json,
  maxCharacters,
  nameText,
  onOff,
  projectPath,
  reasonText,
  target,
  timestamp,
  usage,
} from './common.ts';
import { named, operation, pageOf, pageQuery, type Shape } from './operation.ts';

const textMax = 100_000;
/** What is said to a session: any text but white space alone. */
const words = v.pipe(v.string(), maxCharacters(textMax), v.regex(/\S/, 'Expected words'));

export const sessionState = v.picklist(sessionStates);
const entries = {
  id: v.string(),
  agent: v.string(),
  revision: integer,
  state: sessionState,
  live: v.boolean(),
  /** While it waits for its launch: `capacity`, `harness`, `key`, `cap` or `engine`; else why it is in this state. */
  reason: v.optional(v.string()),
  /** Such a word's, for people. */
  reasonText: v.optional(v.string()),
  engineReason: v.optional(v.picklist(engineReasons)),
  wire: v.optional(v.picklist(['ok', 'lost'])),
  /** In the queue for places, from 1: only where it waits for `capacity`. */
  position: v.optional(integer),
  /** Whether its harness runs; one that rests may give its place up, and is launched again for its next message. */
  loaded: v.boolean(),
  displayTitle: v.string(),
  origin: v.picklist(['event', 'manual', 'session', 'replacement']),
  /** The event and the trigger of its agent that it was spawned by. */
  eventId: v.optional(v.string()),
  ordinal: v.optional(integer),
  /** The session that spawned it, or that it replaces. */
  parentId: v.optional(v.string()),
  createdAt: timestamp,
  startedAt: v.optional(timestamp),
  lastActiveAt: timestamp,
  endedAt: v.optional(timestamp),
  usage,
};
export const session = named('Session', v.object(entries));
export type Session = Shape<typeof session>;

const turn = named(
  'Turn',
  v.object({
    number: integer,
    state: v.picklist(['running', 'done', 'cancelled', 'failed', 'lost']),
    stopReason: v.optional(v.string()),
    error: v.optional(v.string()),
    startedAt: timestamp,
    endedAt: v.optional(timestamp),
  }),
);
export const sessionCheck = named(
  'SessionCheck',
  v.object({
    name: v.string(),
    target,
    cycle: integer,
    headSha: v.string(),
    state: v.picklist(['queued', 'in_progress', 'concluded', 'superseded']),
    conclusion: v.optional(v.string()),
    title: v.optional(v.string()),
  }),
);
const permissionRequest = named(
  'PermissionRequest',
  v.object({ id: v.string(), title: v.string(), request: json, createdAt: v.string() }),
);
export const wholeSession = named(
  'SessionDetail',
  v.object({
    ...entries,
    inbox: v.object({ pending: integer, inFlight: integer, done: integer, failed: integer }),
    turns: integer,
    lastTurn: v.optional(turn),
    claims: v.array(v.object({ kind: v.picklist(['slot', 'thread']), key: v.optional(v.string()) })),
    bindings: v.array(binding),
    /** It holds others, which `GET P/bindings?session=` lists. */
    moreBindings: v.optional(v.literal(true)),
    checks: v.array(sessionCheck),
    /** What its harness asks and a person has to answer. */
    permissions: v.array(permissionRequest),
    /** Mount path to the ref that was rendered when it was made. */
    mountRefs: v.record(v.string(), v.string()),
    hiddenContext: v.optional(v.string()),
    sandbox: v.optional(json),
    /** Stages of its latest launch, in order. */
    provisioning: v.optional(
      v.array(
        v.object({
          stage: v.picklist(['pulling', 'scheduling', 'claiming', 'starting', 'mounting', 'setup']),
          /** Of a setup step; `image` for the steps of the image. */
          name: v.optional(v.string()),
          ms: integer,
          at: timestamp,
          cache: v.optional(v.picklist(['hit', 'miss'])),
        }),
      ),
    ),
    /** Hosts that it asked for and may not reach. */
    egress: v.optional(v.object({ denied: v.array(v.object({ host: v.string(), count: integer })) })),
  }),
);
export type WholeSession = Shape<typeof wholeSession>;

export const message = named(
  'Message',
  v.object({
    seq: integer,
    role: v.picklist(['user', 'assistant', 'tool', 'system']),
    kind: v.string(),
    text: v.string(),
    at: timestamp,
    eventId: v.optional(v.string()),
    detail: v.optional(v.unknown()),
    /** Of what the session is told: whether it has gone in. */
    delivery: v.optional(
      v.object({
        state: v.picklist(['pending', 'in_flight', 'done', 'failed']),
        mode: v.picklist(['interrupt', 'defer']),
        sender: v.string(),
        attempts: integer,
        reason: v.optional(v.string()),
      }),
    ),
  }),
);
export type Message = Shape<typeof message>;

const read = { tag: 'sessions', method: 'GET', scope: 'project', permission: 'sessions:read' } as const;
const control = { tag: 'sessions', method: 'POST', scope: 'project', permission: 'sessions:control' } as const;
const one = `${projectPath}/sessions/:id` as const;

export const listSessions = operation({
  ...read,
  id: 'listSessions',
  path: `${projectPath}/sessions`,
  summary: 'Sessions, newest first',
  query: v.strictObject({
    ...pageQuery,
    agent: v.optional(nameText),
    state: v.optional(sessionState),
    live: v.optional(onOff),
  }),
  answers: { 200: pageOf('SessionPage', session) },
});

export const getSession = operation({
  ...read,
  id: 'getSession',
  path: one,
  summary: 'One session with what it holds: bindings, claims, checks, its inbox in numbers, its latest turn',
  answers: { 200: wholeSession },
});

export const listMessages = operation({
  ...read,
  id: 'listMessages',
  path: `${one}/messages`,
  summary:
    'A session’s transcript by seq: from its start, or with order=desc from its newest message; a page ends early at 4 MiB',
  query: v.strictObject({
    ...pageQuery,
    order: v.optional(v.picklist(['asc', 'desc'])),
    /** Only messages behind this seq, from the first of them. */
    after: v.optional(v.pipe(v.string(), v.regex(/^\d{1,15}$/, 'Expected a seq'))),
  }),
  answers: { 200: pageOf('MessagePage', message) },
});

export const sendMessage = operation({
  ...control,
  id: 'sendMessage',
  path: `${one}/messages`,
  summary: 'Say something to a live session: it interrupts the turn in flight; 409 for one that has ended',
  body: v.strictObject({ text: words }),
  answers: { 202: message },
});

export const interruptSession = operation({
  ...control,
  id: 'interruptSession',
  path: `${one}/interrupt`,
  summary: 'Stop the turn that runs in a session; its message counts as read, and the session goes on',
  answers: { 202: v.object({ id: v.string(), turn: v.nullable(integer) }) },
});

/** Bytes of standard input in one call. */
export const execInputMaxBytes = 512 * 1024;
/** In base64. */
const execInput = v.pipe(v.string(), v.base64(), v.maxLength(Math.ceil(execInputMaxBytes / 3) * 4));
const execLine = named(
  'ExecLine',
  v.union([
    v.object({ id: v.string() }),
    v.object({ fd: v.picklist([1, 2]), data: v.string() }),
    v.object({ exitCode: integer, message: v.optional(v.string()) }),
  ]),
);
export const execSession = operation({
  ...control,
  permission: 'sessions:exec',
  id: 'execSession',
  path: `${one}/exec`,
  summary:
    'Run a program in a session’s sandbox: its output in base64 as it comes, then its exit code, 255 with a message where the session cannot be reached',
  body: v.strictObject({
    argv: v.pipe(
      v.array(
        v.pipe(
          v.string(),
          v.maxLength(65_536),
          v.regex(/^[^\0]*$/, 'Expected no NUL'),
          // What is audited is what is run: neither JSON of the database nor an argument list has room for half a character.
          v.check((text) => text.isWellFormed(), 'Expected text without lone surrogates'),
        ),
      ),
      v.minLength(1),
      v.maxLength(256),
    ),
    stdin: v.optional(execInput),
    /** More of it comes: the first line has the `id` that takes it. */
    input: v.optional(v.boolean()),
  }),
  lines: true,
  answers: { 200: execLine },
});
export const execSessionInput = operation({
  ...control,
  permission: 'sessions:exec',
  id: 'execSessionInput',
  path: `${one}/exec/:program/input`,
  summary:
    'More of the standard input of a program that runs in a session’s sandbox; 404 where it does not run any more',
  body: v.strictObject({ data: v.optional(execInput), end: v.optional(v.boolean()) }),
  answers: { 204: null },
});

export const archiveSession = operation({
  ...control,
  id: 'archiveSession',
  path: `${one}/archive`,
  summary: 'End a session; one that is archived stays as it is, 409 for one that ended otherwise',
  query: v.strictObject(dryRunQuery),
  body: v.strictObject({ reason: v.optional(reasonText) }),
  answers: { 200: v.union([wholeSession, dryRun]) },
});

export const sessionFile = named(
  'SessionFile',
  v.object({
    path: v.string(),
    /** Bytes. */
    size: integer,
    sha256: v.nullable(v.string()),
    /** Why its bytes were not kept: over 10 MiB, over 50 MiB with those before it, or not to be read. */
    refused: v.nullable(v.picklist(['too-large', 'too-many', 'unreadable'])),
    keptAt: timestamp,
  }),
);
export type SessionFile = Shape<typeof sessionFile>;

export const listSessionFiles = operation({
  ...read,
  id: 'listSessionFiles',
  path: `${one}/files`,
  summary: 'Files that a session left in the directory of SVC_ARTIFACTS, by path',
  description:
    'Read after each turn and at the end: up to 100 files, 10 MiB each and 50 MiB in all. Values of secrets in them are masked. They are kept as long as the session.',
  query: v.strictObject(pageQuery),
  answers: { 200: pageOf('SessionFilePage', sessionFile) },
});

export const getSessionFile = operation({
  ...read,
  id: 'getSessionFile',
  path: `${one}/files/:path`,
  tail: true,
  summary: 'The bytes of such a file, as an attachment; 409 for one that was not kept',
  answers: { 200: null },
});

export const sessionDiff = named(
  'SessionDiff',
  v.object({
    mounts: v.array(
      v.object({
        mountPath: v.string(),
        repository: v.string(),
        ref: v.nullable(v.string()),
        /** What was mounted. */
        commit: v.string(),
        /** Of the work tree against it, as git writes it, with files that are new; empty where nothing differs. */
        diff: v.string(),
        /** It is longer than 1 MiB, and ends there; or the differences before it are 16 MiB, and it is not told. */
        truncated: v.boolean(),
        takenAt: timestamp,
      }),
    ),
  }),
);
export type SessionDiff = Shape<typeof sessionDiff>;

export const getSessionDiff = operation({
  ...read,
  id: 'getSessionDiff',
  path: `${one}/diff`,
  summary: 'How a session’s work trees differ from what was mounted, as of its latest turn',
  answers: { 200: sessionDiff },
});

export const answerPermission = operation({
  ...control,
  id: 'answerPermission',
  path: `${one}/permissions/:permission`,
  summary: 'Answer what a session’s harness asks; 409 where that is not open any more',
  body: v.strictObject({ decision: v.picklist(['allow', 'allow_always', 'reject']) }),
  answers: { 204: null },
});

export const streamSession = operation({
  ...read,
  id: 'streamSession',
  path: `${one}/stream`,
  summary:
    'Server-sent events: the session’s state, each message from its first and each change of state; resumes after Last-Event-ID, or after=SEQ; ends when the session does',
  query: v.strictObject({ after: v.optional(v.pipe(v.string(), v.regex(/^\d{1,15}$/, 'Expected a seq'))) }),
  answers: { 200: null },
  stream: true,
});

export const startSession = operation({
  tag: 'sessions',
  method: 'POST',
  scope: 'project',
  permission: 'agents:start',
  id: 'startSession',
  path: `${projectPath}/agents/:name/sessions`,
  summary: 'Start a session by hand; `input` stands where an event’s payload would',
  body: v.strictObject({ message: v.optional(words), input: v.optional(v.unknown()) }),
  exactNumbers: true,
  answers: { 201: wholeSession },
});
