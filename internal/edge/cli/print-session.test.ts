import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Event } from '../../../schemas/api/events.ts';
import type { Message, WholeSession } from '../../../schemas/api/sessions.ts';
import { eventText, explainedEventText } from './print-event.ts';
import { joinPieces, messageText, sessionText, stateText } from './print-session.ts';
import { plainPaint } from './text.ts';

const options = { paint: plainPaint, now: new Date('2026-11-21T12:00:00Z') };
const at = (minute: number): string => `2026-11-21T11:${String(minute).padStart(2, '0')}:00.000Z`;

/** Holds text to a file under testdata/cli; `--test-update-snapshots` writes it. */
function golden(context: TestContext, name: string, text: string): void {
  const path = join(import.meta.dirname, '../../../testdata/cli', name);
  context.assert.fileSnapshot(`${text}\n`, path, { serializers: [(value: string) => value] });
}

/** As a server tells it that may leave members out. */
const session = {
  id: 's1',
  agent: 'reviewer',
  revision: 3,
  state: 'waiting_permission',
  live: true,
  displayTitle: 'Review o/r#7',
  origin: 'event',
  eventId: 'e1',
  ordinal: 2,
  createdAt: at(0),
  startedAt: at(1),
  lastActiveAt: at(59),
  usage: {
    calls: 12,
    inputTokens: 120_400,
    outputTokens: 3_100,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    costUsd: '1.0425',
    unpricedCalls: 1,
  },
  inbox: { pending: 1, inFlight: 0, done: 4, failed: 0 },
  sandbox: {
    provider: 'process',
    notEnforced: ['isolation'],
    notes: ['/work is at /d/work: it cannot be shown there'],
  },
  turns: 4,
  lastTurn: { number: 4, state: 'failed', error: 'the harness went away', startedAt: at(50), endedAt: at(51) },
  claims: [{ kind: 'slot' }, { kind: 'thread', key: 'C1/2' }],
  bindings: [
    {
      id: 'b1',
      agent: 'reviewer',
      sessionId: 's1',
      target: { type: 'codehost.pull_request', key: 'o/r#7' },
      state: 'active',
      lifecycle: 'held',
      continuity: 'session',
    },
  ],
  checks: [
    {
      name: 'lint',
      target: { type: 'codehost.pull_request', key: 'o/r#7' },
      cycle: 2,
      headSha: 'abc',
      state: 'concluded',
      conclusion: 'success',
    },
  ],
  permissions: [{ id: 'p1', title: 'Run make test', request: {}, createdAt: at(58) }],
  provisioning: [
    { stage: 'pulling', ms: 12_400, at: at(0) },
    { stage: 'starting', ms: 310, at: at(0) },
    { stage: 'setup', name: 'install', ms: 4_000, at: at(0), cache: 'hit' },
  ],
  mountRefs: { '/work': 'refs/pull/7/head' },
  egress: {
    denied: [
      { host: 'registry.example.com', count: 12 },
      { host: '10.0.0.1', count: 1 },
    ],
  },
} as unknown as WholeSession;

test('a session is told with what it holds', (context) => {
  const replaced = {
    id: 's2',
    agent: 'a',
    revision: 1,
    state: 'failed',
    reason: 'the sandbox\nbroke',
    displayTitle: 't',
  };
  const texts = [
    sessionText(session, options),
    sessionText({ ...replaced, state: 'running', reason: undefined, wire: 'lost' } as unknown as WholeSession, options),
    sessionText(
      { ...replaced, origin: 'replacement', parentId: 's0', endedAt: at(9) } as unknown as WholeSession,
      options,
    ),
  ];
  golden(context, 'session.txt', texts.join('\n\n'));
});

test('a transcript reads as a conversation, and nothing in it reaches the terminal as a control', (context) => {
  const said = { role: 'user', kind: 'prompt' };
  const delivery = { state: 'done', mode: 'interrupt', sender: 'event', attempts: 1 };
  const messages = [
    {
      ...said,
      seq: 1,
      text: 'A pull request\nwas opened.\n',
      at: at(1),
      eventId: 'e1',
      delivery,
      detail: { event: 'codehost.pull_request.opened' },
    },
    { role: 'assistant', kind: 'text', seq: 2, text: 'I will look.\u001b[31m', at: at(2) },
    { role: 'assistant', kind: 'thought', seq: 3, text: 'Hm.', at: at(2) },
    { role: 'tool', kind: 'tool_call', seq: 4, text: 'read_file a.ts', at: at(3) },
    {
      ...said,
      seq: 5,
      text: 'Stop',
      at: at(4),
      detail: { name: 'ada' },
      delivery: { ...delivery, sender: 'operator', state: 'pending' },
    },
    {
      ...said,
      seq: 6,
      text: 'Hello',
      at: at(5),
      delivery: { ...delivery, sender: 'session', state: 'failed', reason: 'archived' },
    },
    { role: 'system', kind: 'notice', seq: 7, text: '', at: at(6) },
  ];
  const lines = messages.map((message) => messageText(message as Message, plainPaint));
  lines.push(stateText({ state: 'waiting_permission' }, plainPaint));
  lines.push(stateText({ state: 'archived', reason: 'archived by ada' }, plainPaint));
  golden(context, 'transcript.txt', lines.join('\n\n'));
});

test('a call that was told again when it was known what it is for is one', () => {
  const call = (seq: number, text: string, callId?: string): Message =>
    ({ role: 'tool', kind: 'tool_call', seq, text, at: at(seq), ...(callId && { detail: { callId } }) }) as Message;
  const told = [call(1, 'Terminal', 'a'), call(2, 'npm test', 'a'), call(3, 'ls', 'b'), call(4, 'x'), call(5, 'y')];
  assert.deepEqual(
    joinPieces(told).map((one) => [one.text, one.at]),
    [
      ['npm test', at(1)],
      ['ls', at(3)],
      ['x', at(4)],
      ['y', at(5)],
    ],
  );
});

const event: Event = {
  id: 'e1',
  source: 'codehost',
  key: 'codehost.pull_request.opened',
  routerStatus: 'unmatched',
  severity: 'warning',
  receivedAt: at(30),
  target: { type: 'codehost.pull_request', key: 'o/r#7' },
  replayOf: 'e0',
  payload: { codehost: { pullRequest: { number: 7, title: 'Add\na thing' } } },
  routes: [
    { agent: 'reviewer', ordinal: 0, decision: 'converted', sessionId: 's1', because: 'slot' },
    { agent: 'crowd', ordinal: 1, decision: 'deliver', sessionId: 's1', sessionIds: ['s1', 's2'] },
    { agent: 'binder', ordinal: 0, decision: 'unmatched-warn', severity: 'warning' },
    { agent: 'loop', ordinal: 0, decision: 'unmatched-error', because: 'loop' },
    { agent: 'mounted', ordinal: 3, decision: 'unmatched-error', because: 'the mount /work needs payload.n' },
    { agent: 'nobody', ordinal: 0, decision: 'deliver' },
    { agent: 'later', ordinal: 0, decision: 'of-a-newer-server', sessionId: 's3' },
  ],
};

test('an event is told with what came of it', (context) => {
  const gone: Event = {
    ...event,
    severity: undefined,
    routes: [],
    payload: null,
    target: null,
    reason: 'its body is gone',
  };
  golden(context, 'event.txt', `${eventText(event, options)}\n\n${eventText(gone, options)}`);
});

test('an explained event says what was decided then, what would be now, and what listens no more', (context) => {
  const clause = (path: string, asked: unknown, value: unknown, matched: boolean) => ({
    path,
    clause: asked,
    value,
    matched,
  });
  const base = { ordinal: 0, matched: true, fallback: false, clauses: [], recorded: false, decision: 'spawn' };
  const triggers = [
    { ...base, agent: 'reviewer', decision: 'converted', recorded: true, sessionId: 's1', because: 'thread' },
    { ...base, agent: 'crowd', ordinal: 1, matched: false, recorded: true, decision: 'deliver', sessionId: 's2' },
    { ...base, agent: 'fresh' },
    { ...base, agent: 'busy', decision: 'converted', because: 'slot' },
    {
      ...base,
      agent: 'mounted',
      decision: 'unmatched-error',
      because: 'spawn refused: the ref of /work needs payload.n',
    },
    { ...base, agent: 'silent', decision: 'unmatched-error' },
    { ...base, agent: 'odd', decision: 'of-a-newer-server', because: 'it says so' },
    { ...base, agent: 'rest', matched: false, fallback: true, decision: null },
    {
      ...base,
      agent: 'picky',
      matched: false,
      decision: null,
      clauses: [
        clause('$.a', { exists: false }, 1, false),
        clause('$.b', { in: ['x', 2] }, 'y', false),
        clause('$.c', { notIn: [null] }, undefined, true),
        clause('$.state', { changedTo: 'open' }, 'open', true),
        clause('$.list', { contains: 'x' }, ['x'], true),
        clause('$.there', { exists: true }, {}, true),
        clause('bare', true, true, true),
      ],
    },
  ];
  golden(context, 'event-explain.txt', explainedEventText(event, { triggers }, options));
  assert.match(
    explainedEventText({ ...event, routes: [] }, { triggers: [] }, options),
    /no trigger listens to this event$/,
  );
});
