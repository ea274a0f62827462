import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { doctorText } from './command-doctor.ts';
import { explainText } from './print-event.ts';
import { printDiagnostics } from './diagnostics.ts';
import { jsonLines } from './lists.ts';
import { printPlan, printRun, type Run, runLine, shortCommit } from './print-run.ts';
import { colourPaint, plainPaint } from './text.ts';

const now = new Date('2026-01-05T12:00:00Z');
const options = { paint: plainPaint, width: 100, now };

const run: Run = {
  id: '0b0c6a5e-0000-4000-8000-000000000001',
  repository: 'fleet',
  commit: '77057d156e7ecc1f1abac9f2ae54560838607176',
  reason: 'push',
  status: 'applied',
  startedAt: '2026-01-05T11:59:48.000Z',
  finishedAt: '2026-01-05T11:59:48.374Z',
  stages: [
    { name: 'resolve', ms: 47.2 },
    { name: 'snapshot', ms: 63 },
    { name: 'compile', ms: 191 },
    { name: 'apply', ms: 1032 },
  ],
  actions: [
    { op: 'create', kind: 'Agent', name: 'greeter', changes: [] },
    {
      op: 'update',
      kind: 'Agent',
      name: 'triage',
      changes: [
        { path: 'reasoningEffort', from: 'low', to: 'high' },
        {
          path: 'systemPrompt',
          from: `${'You sort reports. '.repeat(9)}Be kind.`,
          to: `${'You sort reports. '.repeat(9)}Be brief.`,
        },
        { path: 'triggers[1]', from: null, to: { kind: 'heartbeat', cron: '0 * * * *' } },
        { path: 'env.TOKEN', from: { $secret: 'token' }, to: null },
      ],
    },
    { op: 'delete', kind: 'Identity', name: 'old\u001b[2J', changes: [] },
    { op: 'unchanged', kind: 'Environment', name: 'node', changes: [] },
  ],
  origins: { triage: { reasoningEffort: { file: '.svc/agents/triage.yaml', line: 7, layer: 'document' } } },
  consequences: {
    sessions: {
      kept: [{ agent: 'triage', revision: 7, count: 1 }],
      archived: [{ agent: 'sweep', revision: 2, count: 3 }],
    },
    schedules: {
      gained: [
        {
          agent: 'triage',
          ordinal: 1,
          cron: '0 * * * *',
          timezone: 'UTC',
          next: ['2026-01-05T13:00:00Z', '2026-01-05T14:00:00Z'],
        },
      ],
      changed: [
        {
          agent: 'greeter',
          ordinal: 0,
          cron: '5 8 * * *',
          timezone: 'Europe/Lisbon',
          next: ['2026-01-06T08:05:00Z'],
          from: { cron: '0 8 * * *', timezone: 'UTC' },
        },
      ],
      lost: [{ agent: 'old', ordinal: 2, cron: '@never', timezone: 'UTC', next: [] }],
    },
    endpoints: { gained: ['reports'], lost: ['legacy'] },
    triggers: { activated: [], skipped: [{ agent: 'triage', ordinal: 0, event: 'codehost.push' }] },
  },
  webhooks: [{ event: 'webhook.received', endpoint: 'reports', ingestUrl: 'http://127.0.0.1:4400/x', status: 'ready' }],
  diagnostics: [],
};

const explained = {
  triggers: [
    {
      agent: 'triage',
      ordinal: 0,
      matched: false,
      fallback: false,
      decision: null,
      clauses: [
        { path: '$.severity', clause: 'high', value: 'low', matched: false },
        { path: '$.labels', clause: { contains: 'x' }, matched: true },
        { path: '$.sev', clause: 'high', instead: ['severity', '$.alert.severity'], matched: false },
      ],
    },
    { agent: 'catch', ordinal: 1, matched: true, fallback: true, decision: 'spawn', clauses: [] },
    { agent: 'catch', ordinal: 2, matched: false, fallback: true, decision: null, clauses: [] },
    {
      agent: 'catch',
      ordinal: 3,
      matched: false,
      fallback: true,
      decision: null,
      clauses: [],
      standsBackFor: [{ agent: 'other', ordinal: 4 }],
    },
  ],
};

/** Holds text to a file under testdata/cli; `--test-update-snapshots` writes it. */
function golden(context: TestContext, name: string, text: string): void {
  const path = join(import.meta.dirname, '../../../testdata/cli', name);
  context.assert.fileSnapshot(`${text}\n`, path, { serializers: [(value: string) => value] });
}

test('a run is told with stages, field by field changes and consequences', (context) => {
  golden(context, 'run.txt', `${runLine(run, options)}\n\n${printRun(run, options)}`);
});

test('a failed run is told with its condition and diagnostics', (context) => {
  const failed: Run = {
    ...run,
    status: 'failed',
    condition: 'auth-failed',
    detail: 'the server refused the token',
    commit: null,
    actions: [],
    consequences: {},
    webhooks: [],
    stages: [{ name: 'resolve', ms: 12 }],
    diagnostics: [
      {
        severity: 'error',
        code: 'invalid-value',
        message: 'harness must be one of harness-a, harness-b, not "x"',
        file: '.svc/agents/a.yaml',
        line: 2,
        column: 10,
        endLine: 2,
        endColumn: 11,
        excerpt: { line: 2, lines: ['harness: x'], column: 10, length: 1 },
        hint: 'Did you mean harness-a?',
      },
    ],
  };
  golden(context, 'run-failed.txt', `${runLine(failed, options)}\n\n${printRun(failed, options)}`);
});

test('a plan speaks of what would be done', (context) => {
  golden(context, 'plan.txt', printPlan({ ...run, status: 'planned' }, options).join('\n'));
});

test('a plan says which stored events would match otherwise', (context) => {
  const since = '2026-01-01T00:00:00Z';
  const eventImpact = {
    since,
    events: 1_500,
    truncated: true,
    triggers: [
      {
        agent: 'triage',
        ordinal: 0,
        event: 'webhook.received',
        newly: { count: 12, eventIds: ['e1', 'e2', 'e3'] },
        stopped: { count: 1, eventIds: ['e4'] },
      },
      {
        agent: 'notes',
        ordinal: 2,
        event: 'codehost.push',
        newly: { count: 0, eventIds: [] },
        stopped: { count: 2, eventIds: ['e5', 'e6'] },
      },
    ],
  };
  const plan = { status: 'planned', actions: [] };
  const none = { since, events: 3, truncated: false, triggers: [] };
  const texts = [
    printPlan({ ...plan, eventImpact }, options),
    printPlan({ ...plan, status: 'held', consequences: { eventImpact: none } }, options),
    printPlan({ ...plan, status: 'applied', consequences: { eventImpact } }, options),
    printPlan({ ...plan, eventImpact: { ...none, events: 0, reason: '201 triggers change at once' } }, options),
  ];
  golden(context, 'impact.txt', texts.map((lines) => lines.join('\n')).join('\n'));
  assert.deepEqual(
    printPlan({ ...plan, eventImpact: { since, events: 0, truncated: false, triggers: [] } }, options),
    [],
  );
});

test('an explanation shows each clause with what it read', (context) => {
  golden(context, 'explain.txt', explainText(explained, plainPaint));
  assert.equal(explainText({ triggers: [] }, plainPaint), 'no trigger listens to this event');
});

test('the doctor says what to do', (context) => {
  const checks = [
    { name: 'server', status: 'ok', message: 'http://127.0.0.1:4400 answers in 3ms' },
    {
      name: 'clock',
      status: 'warning',
      message: 'this machine is 2m behind the server',
      hint: 'set both clocks by NTP',
    },
    { name: 'token', status: 'error', message: 'no token is known', hint: 'give --token or SVC_TOKEN' },
  ] as const;
  golden(context, 'doctor.txt', doctorText(checks, plainPaint));
});

test('a spec reads as lines, with blocks for texts of several lines', (context) => {
  const spec = {
    harness: 'harness-a',
    systemPrompt: 'One\n\nTwo\n',
    env: {},
    triggers: [{ kind: 'event', where: { '$.a': { in: [1, 'x: y'] } }, fallback: false }],
  };
  golden(context, 'spec.txt', jsonLines(spec, '  '));
});

test('colour is only paint: without its codes the text is the same', () => {
  const painted = printRun(run, { ...options, paint: colourPaint });
  // oxlint-disable-next-line no-control-regex -- colour codes are what is looked for
  assert.equal(painted.replace(/\u001b\[\d+m/g, ''), printRun(run, options));
});

test('commits are short, and a folder’s says what it is', () => {
  assert.deepEqual(
    [shortCommit(run.commit), shortCommit('folder:d96a0062529d63a3'), shortCommit(null)],
    ['77057d156e7e', 'folder:d96a0062529d', '-'],
  );
});

test('diagnostics are counted at the end, and none is no text', () => {
  const warning = { severity: 'warning', code: 'ignored-file', message: 'x' } as const;
  assert.match(printDiagnostics([warning, { ...warning, severity: 'error' }], plainPaint), /\n1 error, 1 warning$/);
  assert.equal(printDiagnostics([], plainPaint), '');
});
