import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents, codehostDoor, hook, post, routesOf, settled } from './routing-testkit.ts';

let daemon: TestDaemon;
let path: string;
/** 400 triggers of eight clauses each, all of which quote what is large. */
before(async () => {
  daemon = await startTestDaemon();
  const fields = Array.from({ length: 8 }, (_, at) => `$.${'a.'.repeat(at)}a`);
  const where = Object.fromEntries(fields.map((field) => [field, { exists: true }]));
  const agents = Array.from({ length: 4 }, (_, agent) => {
    const triggers = Array.from({ length: 100 }, () =>
      hook('many', { kind: 'deliver', onUnmatched: 'drop' }, { where, message: 'm' }),
    );
    return [`many-${agent}`, { concurrency: 1, triggers }];
  });
  const paths = await applyAgents(daemon.api, Object.fromEntries(agents) as Parameters<typeof applyAgents>[1]);
  path = paths['many'] ?? '';
});
after(() => daemon.stop());

interface ExplainedEvent {
  readonly triggers: readonly {
    readonly clauses: readonly { readonly truncated?: boolean; readonly value: string }[];
  }[];
  readonly more?: boolean;
}

/**
 * Bytes of memory that this process, which the daemon runs in, has had at most. Linux also has it without what the
 * process had before its program began, which its usage counts.
 */
function peak(): number {
  const status = existsSync('/proc/self/status') ? readFileSync('/proc/self/status', 'utf8') : '';
  const kibibytes = /VmHWM:\s+(\d+) kB/.exec(status)?.[1];
  return Number(kibibytes ?? process.resourceUsage().maxRSS) * 1_024;
}

test('an explanation has at most 4 MiB, says that there is more, and costs little memory, four at once', async () => {
  let payload: object = { a: 'z'.repeat(900_000) };
  for (let at = 1; at < 8; at += 1) payload = { a: payload };
  await post(daemon.url, path, payload);
  await settled(daemon.ctx.db);
  const { body: list } = await daemon.api('GET', 'P/events?key=webhook.received');
  const id = (list as unknown as { items: { id: string }[] }).items[0]?.id ?? '';
  const ask = {
    trigger: () => daemon.api('POST', 'P/triggers/explain', { event: 'webhook.received', payload }),
    event: () => daemon.api('GET', `P/events/${id}/explain`),
  };
  for (const one of Object.values(ask)) {
    const before = peak();
    const answers = await Promise.all([one(), one(), one(), one()]);
    assert.ok(peak() - before < 150 * 1_048_576, `${(peak() - before) / 1_048_576} MiB`);
    for (const { status, body } of answers) {
      assert.equal(status, 200, JSON.stringify(body).slice(0, 200));
      const { triggers, more } = body as unknown as ExplainedEvent;
      assert.equal(more, true);
      const size = Buffer.byteLength(JSON.stringify(body));
      assert.ok(size <= 4 * 1_048_576 && size > 3.9 * 1_048_576, String(size));
      for (const { clauses } of triggers) {
        assert.equal(clauses.length, 8);
        for (const clause of clauses) assert.ok(clause.truncated && clause.value.length === 4_096);
      }
    }
  }
});

test('what an agent notes on its bindings is read by no explanation, however many triggers it has', async () => {
  const triggers = Array.from({ length: 400 }, () => hook('noted', { kind: 'deliver', onUnmatched: 'drop' }));
  const bindings = { 'codehost.pull_request': { context: { notes: 'n'.repeat(900_000) } } };
  await applyAgents(daemon.api, { noted: { concurrency: 1, bindings, triggers } });
  const asked = { event: 'webhook.received', endpoint: 'noted', payload: {} };
  const before = peak();
  const { status, body } = await daemon.api('POST', 'P/triggers/explain', asked);
  assert.ok(peak() - before < 150 * 1_048_576, `${(peak() - before) / 1_048_576} MiB`);
  assert.equal(status, 200, JSON.stringify(body).slice(0, 200));
  assert.equal((body['triggers'] as unknown as object[]).length, 400);
});

describe('what is explained of a pull request is what routing then does', () => {
  const event = 'codehost.pull_request.opened';
  let arrive: (event: string, body: object) => Promise<string>;
  before(async () => {
    arrive = await codehostDoor(daemon);
  });
  const only = (agent: string, spec: object) => applyAgents(daemon.api, { [agent]: spec }, true);
  const explained = async (payload: object): Promise<string[]> => {
    const { status, body } = await daemon.api('POST', 'P/triggers/explain', { event, payload });
    assert.equal(status, 200, JSON.stringify(body));
    const told = body['triggers'] as unknown as { ordinal: number; decision: string | null }[];
    return told.flatMap((one) => (one.decision === null ? [] : [`${one.ordinal} ${one.decision}`]));
  };
  const all = { kind: 'allLiveSessions' };
  const asked = (pullRequest: object): object => ({ codehost: { repository: { fullName: 'o/r' }, pullRequest } });
  const routed = async (pullRequest: object): Promise<string[]> => {
    const ann = { login: 'ann', id: 1, type: 'User' };
    const base = { ref: 'main', sha: 'b' };
    const id = await arrive('pull_request', {
      action: 'opened',
      repository: { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } },
      sender: ann,
      pull_request: { title: 'A change', body: '', state: 'open', user: ann, labels: [], base, ...pullRequest },
    });
    return (await routesOf(daemon.ctx.db, id)).map((one) => `${one.ordinal} ${one.decision}`);
  };

  test('with the sessions that are there: bound, in the slot, tied to it', async () => {
    await only('told', {
      concurrency: 1,
      triggers: [
        { event, routing: { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'spawn' } },
        { event, routing: { kind: 'deliver' } },
        { event, routing: { kind: 'spawn' } },
        {
          event,
          where: { '$.svc.attributions': { exists: true } },
          routing: { kind: 'deliver', routeBy: { kind: 'allLiveSessions' } },
        },
      ],
    });
    for (const decisions of [
      ['0 unmatched-spawn', '1 unmatched-drop', '2 converted'],
      ['0 deliver', '1 deliver', '2 converted', '3 deliver'],
    ]) {
      const said = await explained(asked({ number: 1 }));
      assert.deepEqual(await routed({ number: 1, head: { ref: 'topic', sha: 'a' } }), decisions);
      assert.deepEqual(said, decisions);
    }
    // Of a target that the payload does not name nobody holds anything; the slot is the agent's all the same.
    assert.deepEqual(await explained({}), ['0 converted', '1 deliver', '2 converted']);
  });

  test('with the session that made it, where its text says so', async () => {
    await only('maker', {
      triggers: [
        { event, where: { '$.svc.attributions': { exists: true } }, routing: { kind: 'deliver', routeBy: all } },
        { event, where: { '$.svc.attributions': { exists: false } }, routing: { kind: 'spawn' } },
      ],
    });
    const { body } = await daemon.api('POST', 'P/agents/maker/sessions', { message: 'go' });
    const session = String(body['id']);
    for (const [login, decisions] of [
      ['svc-app', ['0 deliver']],
      ['ann', ['1 spawn']],
    ] as const) {
      const by = { login, id: 1, type: 'User' };
      const said = `Done. <!-- svc:v=1 session=${session} agent=maker -->`;
      const opened = {
        action: 'opened',
        repository: { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } },
        sender: by,
        pull_request: {
          number: login.length,
          title: 'A',
          body: said,
          state: 'open',
          user: by,
          labels: [],
          head: {},
          base: {},
        },
      };
      const raw = { raw: true, connection: 'hub', event: 'pull_request', payload: opened };
      const asked = await daemon.api('POST', 'P/triggers/explain', raw);
      const told = asked.body['triggers'] as unknown as { ordinal: number; decision: string | null }[];
      const would = told.flatMap((one) => (one.decision === null ? [] : [`${one.ordinal} ${one.decision}`]));
      const id = await arrive('pull_request', opened);
      assert.deepEqual(
        (await routesOf(daemon.ctx.db, id)).map((one) => `${one.ordinal} ${one.decision}`),
        decisions,
      );
      assert.deepEqual(would, decisions, login);
    }
  });

  test('where a mount has no ref to be cloned at', async () => {
    const ref = '{{ payload.codehost.pullRequest.head.ref }}';
    await only('mounted', {
      mounts: [{ kind: 'git', repository: 'o/r', mountPath: '/w', ref }],
      triggers: [
        { event, routing: { kind: 'bind', target: 'codehost.pull_request', onUnmatched: 'spawn' } },
        { event, routing: { kind: 'spawn' } },
      ],
    });
    for (const [pullRequest, decisions] of [
      [{ number: 2, head: { sha: 'a' } }, ['0 unmatched-error', '1 unmatched-error']],
      [{ number: 3, head: { sha: 'a', ref: 'topic' } }, ['0 unmatched-spawn', '1 spawn']],
    ] as const) {
      const said = await explained(asked(pullRequest));
      assert.deepEqual(await routed(pullRequest), decisions);
      assert.deepEqual(said, decisions);
    }
  });
});
