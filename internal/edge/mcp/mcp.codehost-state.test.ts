import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { chatToken, ChatSimulator } from '../../base/testkit/chat-simulator.ts';
import type { JsonBody } from '../../base/testkit/daemon.ts';
import { trackerKey, TrackerSimulator } from '../../base/testkit/tracker-simulator.ts';
import { type CodehostBench, everything, startCodehostBench } from './codehost-testkit.ts';
import type { Seat } from './mcp-testkit.ts';

describe('the state of a connection', () => {
  let bench: CodehostBench;
  let seat: Seat;
  before(async () => {
    bench = await startCodehostBench();
    seat = await bench.agent('worker', { 'acme/app': everything });
  });
  after(async () => {
    await bench.stopAll();
  });

  const shown = async (name = 'code'): Promise<JsonBody> =>
    (await bench.daemon.api('GET', `P/connections/${name}`)).body;
  const state = async (): Promise<string> => {
    const { status, reason } = await shown();
    return reason === undefined ? String(status) : `${status}: ${reason}`;
  };
  const deliver = async (event: string, body: object, id: string = randomUUID(), installation = 1) => {
    const { intakeUrl } = await shown();
    const raw = JSON.stringify({ installation: { id: installation }, ...body });
    const signature = createHmac('sha256', 'a-secret-of-the-hook').update(raw).digest('hex');
    const response = await fetch(String(intakeUrl), {
      method: 'POST',
      headers: { 'x-github-event': event, 'x-github-delivery': id, 'x-hub-signature-256': `sha256=${signature}` },
      body: raw,
    });
    return { status: response.status, body: (await response.json()) as { readonly [key: string]: unknown } };
  };
  const events = async (key: string): Promise<JsonBody[]> => {
    const { body } = await bench.daemon.api('GET', `P/events?key=svc.connection.${key}`);
    return body['items'] as unknown as JsonBody[];
  };
  const tokens = async (): Promise<number> => {
    const { rows } = await bench.daemon.ctx.db.query<{ n: number }>(
      'select count(*)::int as n from svc.installation_tokens where sealed is not null',
    );
    return rows[0]?.n ?? -1;
  };
  const read = async (): Promise<string> => {
    const input = { owner: 'acme', repo: 'app', path: 'README.md' };
    const { isError, text } = await seat.call('get_file_contents', input, 'code');
    return isError ? text : 'done';
  };
  const unchanged = { status: 202, body: { ignored: true, reason: 'no-change' } };

  it('follows the deliveries of its installation, each once, and says so in one event', async () => {
    assert.equal(await read(), 'done');
    assert.equal(await tokens(), 1);
    assert.deepEqual(await deliver('installation', { action: 'created' }), unchanged, 'it is active already');
    assert.equal(await tokens(), 0, 'tokens from before say nothing of it');

    bench.sim.state = 'suspended';
    const id = randomUUID();
    const suspended = await deliver('installation', { action: 'suspend' }, id);
    assert.deepEqual([suspended.status, suspended.body['created']], [202, true]);
    assert.equal(await state(), 'suspended');
    const [removed] = await events('removed');
    assert.equal(removed?.['id'], suspended.body['eventRecordId']);
    const project = removed?.['payload']?.['projectId'];
    assert.deepEqual(removed?.['payload'], {
      provider: 'codehost',
      connection: 'code',
      kind: 'provider',
      projectId: project,
      status: 'suspended',
    });
    const again = await deliver('installation', { action: 'suspend' }, id);
    assert.deepEqual([again.status, again.body['created'], again.body['eventRecordId']], [200, false, removed?.['id']]);
    assert.deepEqual(await deliver('installation', { action: 'suspend' }), unchanged);
    assert.match(await read(), /^connection-inactive: /);
    const { checks } = (await bench.daemon.api('GET', 'P/doctor')).body as unknown as { checks: { message: string }[] };
    assert.ok(checks.some(({ message }) => /^connection code: its installation is suspended/.test(message)));

    // A delivery that is late: the provider says otherwise.
    assert.deepEqual(await deliver('installation', { action: 'unsuspend' }), unchanged);
    bench.sim.state = 'active';
    assert.equal((await deliver('installation', { action: 'unsuspend' })).body['created'], true);
    assert.equal(await state(), 'active');
    assert.equal((await events('established')).length, 2, 'by whoever made it, and now');
    assert.equal(await read(), 'done');
  });

  it('tells new permissions and repositories, once, and is degraded where a mount lost its repository', async () => {
    const granted = { id: 1, permissions: { contents: 'write', pull_requests: 'read' } };
    const accepted = { action: 'new_permissions_accepted', installation: granted };
    assert.equal((await deliver('installation', accepted)).body['created'], true);
    assert.deepEqual(await deliver('installation', accepted), unchanged);
    assert.deepEqual((await shown())['permissions'], { contents: 'write', pullRequests: 'read' });
    const change = (action: string, names: string[]) =>
      deliver('installation_repositories', {
        action,
        repository_selection: 'selected',
        [`repositories_${action}`]: names.map((name, at) => ({ id: at, full_name: name, private: true })),
      });
    assert.equal((await change('added', ['acme/other'])).body['created'], true);
    assert.equal(await state(), 'active');
    assert.equal((await change('removed', ['Acme/App'])).body['created'], true);
    assert.equal(await state(), 'degraded: repository-removed');
    assert.deepEqual(await change('removed', ['acme/app']), unchanged);
    assert.equal((await change('added', ['acme/app'])).body['created'], true);
    assert.equal(await state(), 'active');
    assert.equal((await events('changed')).at(0)?.['payload']?.['status'], 'active');
  });

  it('passes over names that no repository has, and goes by the others of their delivery', async () => {
    const named = (action: string, names: string[]) =>
      deliver('installation_repositories', {
        action,
        repository_selection: 'selected',
        [`repositories_${action}`]: names.map((name) => ({ full_name: name })),
      });
    const removed = await named('removed', ['acme/\ud800', 'acme/\u0000', 'acme/app']);
    assert.deepEqual([removed.status, removed.body['created']], [202, true]);
    assert.equal(await state(), 'degraded: repository-removed');
    const added = await named('added', ['acme/\ud800', 'acme/\u0000', 'acme/app']);
    assert.deepEqual([added.status, added.body['created']], [202, true]);
    assert.equal(await state(), 'active');
    const created = { action: 'created', repository_selection: 'selected' };
    const repositories = ['acme/\ud800', 'acme/\u0000', 'acme/app', 'acme/other'].map((name) => ({ full_name: name }));
    assert.deepEqual(await deliver('installation', { ...created, repositories }), unchanged);
  });

  it('passes over whatever is of another installation, unless a mount names it', async () => {
    const before = await state();
    const other = { status: 202, body: { ignored: true, reason: 'other-installation' } };
    assert.deepEqual(await deliver('installation', { action: 'deleted' }, randomUUID(), 2), other);
    assert.deepEqual(await deliver('push', { ref: 'refs/heads/main' }, randomUUID(), 2), other);
    assert.equal(await state(), before);
    await bench.apply({
      elsewhere: {
        mounts: [
          {
            kind: 'git',
            repository: 'acme/elsewhere',
            mountPath: '/workspace/elsewhere',
            auth: { kind: 'codehostApp', installationId: '2', capabilities: { contents: 'read' } },
          },
        ],
      },
    });
    const gone = { action: 'removed', repositories_removed: [{ full_name: 'acme/elsewhere' }] };
    assert.equal((await deliver('installation_repositories', gone, randomUUID(), 2)).body['created'], true);
    assert.equal(await state(), 'degraded: repository-removed');
    await bench.apply({ elsewhere: { mounts: [] } });
    assert.equal(String((await bench.daemon.api('POST', 'P/connections/code/check')).body['status']), 'active');
  });

  it('is kept by mints and checks where deliveries are lost', async () => {
    bench.sim.state = 'suspended';
    bench.sim.revokeTokens();
    await bench.daemon.api('PUT', 'P/connections/code/credentials', {
      credentials: { webhookSecret: 'a-secret-of-the-hook' },
    });
    assert.equal(await tokens(), 0, 'new credentials, new tokens');
    assert.match(await read(), /^connection-inactive: /);
    assert.equal(await state(), 'suspended');
    bench.sim.state = 'active';
    const checked = await bench.daemon.api('POST', 'P/connections/code/check');
    assert.equal(checked.status, 200);
    assert.deepEqual([checked.body['status'], checked.body['permissions']?.['contents']], ['active', 'write']);
    assert.equal(checked.body['repositories']?.['selection'], 'selected');
    assert.match(String(checked.body['checkedAt']), /^\d{4}-/);
    assert.equal(await read(), 'done');

    bench.sim.fault = ({ path }) => (/access_tokens$/.test(path) ? { kind: 'status', status: 401 } : null);
    await bench.daemon.ctx.db.query('delete from svc.installation_tokens');
    assert.match(await read(), /^credential-refused: /);
    assert.equal(await state(), 'degraded: credential-refused');
    bench.sim.fault = () => null;
    assert.equal(await read(), 'done', 'a token that is given heals it');
    assert.equal(await state(), 'active');
    bench.sim.state = 'deleted';
    assert.equal(String((await bench.daemon.api('POST', 'P/connections/code/check')).body['status']), 'removed');
    bench.sim.state = 'active';
    await bench.daemon.api('POST', 'P/connections/code/check');
  });

  it('goes on with an installation that was made anew, which has to be one of its application', async () => {
    assert.equal((await deliver('installation', { action: 'deleted' })).body['created'], true);
    assert.equal(await state(), 'removed');
    bench.sim.installationId = '7';
    bench.sim.revokeTokens();
    assert.match(await read(), /^connection-inactive: /);
    const doctor = (await bench.daemon.api('GET', 'P/doctor')).body['checks'] as unknown as {
      message: string;
      hint?: string;
    }[];
    const hints = doctor.filter(({ message }) => message.startsWith('connection code:')).map(({ hint }) => hint);
    assert.deepEqual(hints, ['install the application again, then: svc connection edit code --installation-id ID']);
    const created = { action: 'created' };
    assert.equal((await deliver('installation', created, randomUUID(), 7)).body['reason'], 'other-installation');
    const edit = (config: object, name = 'code') => bench.daemon.api('PATCH', `P/connections/${name}`, { config });
    const foreign = await edit({ installationId: '8' });
    assert.deepEqual([foreign.status, String(foreign.body['code'])], [422, 'installation-unknown']);
    assert.equal((await edit({ botUserId: 'u' })).status, 400, 'no setting of a code host');
    assert.equal((await edit({})).status, 400);
    assert.equal((await edit({ installationId: '7' }, 'none')).status, 404);
    bench.sim.fault = ({ path }) => (/^\/app\/installations/.test(path) ? { kind: 'status', status: 503 } : null);
    assert.equal((await edit({ installationId: '7' })).status, 503);
    bench.sim.fault = () => null;
    assert.deepEqual([String((await shown())['config']?.['installationId']), await state()], ['1', 'removed']);

    const established = (await events('established')).length;
    const moved = await edit({ installationId: '7' });
    assert.deepEqual([moved.status, String(moved.body['status'])], [200, 'active']);
    assert.equal(String(moved.body['config']?.['installationId']), '7');
    assert.equal((await events('established')).length, established + 1);
    assert.equal(await read(), 'done');
    assert.deepEqual(await deliver('installation', created, randomUUID(), 7), unchanged, 'it is its own now');
    assert.equal((await deliver('installation', { action: 'deleted' })).body['reason'], 'other-installation');
    assert.equal(await state(), 'active');
    const { body } = await bench.daemon.api('GET', 'P/audit?limit=50');
    const entries = body['items'] as unknown as { action: string; detail: { changed?: string[] } }[];
    assert.deepEqual(entries.find(({ action }) => action === 'connection.updated')?.detail.changed, ['installationId']);
    assert.equal((await edit({ botLogin: null })).body['config']?.['botLogin'], undefined);
    assert.equal((await edit({ botLogin: 'svc-app[bot]' })).status, 200);
  });

  it('stays as it was where the code host limits who asks: that says nothing of it, and changes no setting', async () => {
    const before = await state();
    for (const [status, headers, message] of [
      [429, { 'retry-after': '90' }, ''],
      [403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '4000000000' }, ''],
      [403, {}, 'You have exceeded a secondary rate limit'],
    ] as const) {
      bench.sim.fault = ({ path }) =>
        /^\/app\/installations/.test(path) ? { kind: 'status', status, headers, body: { message } } : null;
      const checked = await bench.daemon.api('POST', 'P/connections/code/check');
      assert.deepEqual([checked.status, await state()], [200, before]);
      const edited = await bench.daemon.api('PATCH', 'P/connections/code', { config: { installationId: '9' } });
      assert.deepEqual([edited.status, String((await shown())['config']?.['installationId'])], [503, '7']);
    }
    bench.sim.fault = () => null;
  });

  it('is not made active by an answer that is not of its installation', async () => {
    for (const body of ['[]', '{}', '{"id":99,"permissions":{"contents":"write"}}']) {
      bench.sim.fault = ({ path }) =>
        /^\/app\/installations/.test(path) ? { kind: 'after', status: 200, body } : null;
      await bench.daemon.api('POST', 'P/connections/code/check');
      assert.equal(await state(), 'degraded: provider-unavailable', body);
    }
    bench.sim.fault = () => null;
    await bench.daemon.api('POST', 'P/connections/code/check');
    assert.equal(await state(), 'active');
  });

  it('asks the chat provider and the tracker who their keys are', async () => {
    const chat = await new ChatSimulator().start();
    const tracker = await new TrackerSimulator().start();
    const make = (provider: string, name: string, apiUrl: string, credentials: object) =>
      bench.daemon.api('POST', 'P/connections', { provider, name, config: { apiUrl }, credentials });
    const check = async (name: string): Promise<string> => {
      const { body } = await bench.daemon.api('POST', `P/connections/${name}/check`);
      return body['reason'] === undefined ? String(body['status']) : `${body['status']}: ${body['reason']}`;
    };
    await make('chat', 'talk', chat.url, { signingSecret: 's', botToken: chatToken });
    await make('chat', 'mute', chat.url, { signingSecret: 's', botToken: 'xoxb-not-this-one' });
    await make('tracker', 'issues', tracker.url, { webhookSecret: 's', apiKey: trackerKey });
    await make('tracker', 'gone', 'http://127.0.0.1:9', { webhookSecret: 's', apiKey: 'lin_x' });
    assert.deepEqual(await Promise.all(['talk', 'mute', 'issues', 'gone'].map(check)), [
      'active',
      'degraded: credential-refused',
      'active',
      'degraded: provider-unavailable',
    ]);
    await chat.stop();
    await tracker.stop();
  });

  it('is known by whoever speaks through it, where its key is not taken, and where another one is', async (t) => {
    const [chat, tracker] = [await new ChatSimulator().start(), await new TrackerSimulator().start()];
    t.after(() => Promise.all([chat.stop(), tracker.stop()]));
    chat.channels.set('C1', []);
    const make = (provider: string, name: string, apiUrl: string, credentials: object) =>
      bench.daemon.api('POST', 'P/connections', { provider, name, config: { apiUrl }, credentials });
    await make('chat', 'room', chat.url, { signingSecret: 's', botToken: 'xoxb-not-this-one' });
    await make('tracker', 'board', tracker.url, { webhookSecret: 's', apiKey: 'lin_not_this_one' });
    const auth = { kind: 'connection', provider: 'chat', connection: 'room' };
    const tools = {
      chat: { kind: 'local', implementation: 'chat', auth },
      board: { kind: 'connection', provider: 'tracker', connection: 'board' },
    };
    await bench.apply({ speaker: { tools } });
    const speaker = await bench.start('speaker');
    for (const [name, alias, tool, input, key] of [
      ['room', 'chat', 'chat_send', { channelId: 'C1', text: 'hi' }, { botToken: chatToken }],
      ['board', 'board', 'issue_get', { issue: 'ABC-1' }, { apiKey: trackerKey }],
    ] as const) {
      const told = async (): Promise<unknown[]> => {
        const { status, reason } = await shown(name);
        return [status, reason];
      };
      const changes = async () =>
        (await events('changed')).filter((one) => String(one['payload']?.['connection']) === name).length;
      for (const _ of [1, 2]) assert.match((await speaker.call(tool, input, alias)).text, /^credential-refused: /);
      assert.deepEqual([await told(), await changes()], [['degraded', 'credential-refused'], 1]);
      await bench.daemon.api('PUT', `P/connections/${name}/credentials`, { credentials: key });
      const spoken = await speaker.call(tool, input, alias);
      assert.equal(spoken.isError, false, spoken.text);
      assert.deepEqual([await told(), await changes()], [['active', undefined], 2]);
    }
  });

  it('finds a set that was written in whatever order and case the code host tells it', async () => {
    const { sim, app } = bench;
    for (const name of ['Bug', 'UI']) app.labels.set(name, { name, color: 'ededed', description: null });
    app.people.push('Ann', 'Bob');
    const call = (tool: string, input: object) => seat.call(tool, { owner: 'acme', repo: 'app', ...input }, 'code');
    const made = await call('issue_write', { method: 'create', title: 'Set' });
    const issue = Number(made.value['number']);
    await bench.app.git.commit({ 'set.txt': 'x' }, { branch: 'set' });
    const pull = await call('create_pull_request', { title: 'Set', head: 'set', base: 'main' });
    const lost = /^(PATCH .*\/issues\/\d+|POST .*\/requested_reviewers)$/;
    sim.fault = ({ method, path }) => (lost.test(`${method} ${path}`) ? { kind: 'lose' } : null);
    const sets = { labels: ['ui', 'bug', 'UI', 'new'], assignees: ['bob', 'ANN'] };
    const changed = await call('issue_write', { method: 'update', issue_number: issue, ...sets });
    assert.equal(changed.isError, false, changed.text);
    const asked = await call('update_pull_request', {
      pullNumber: Number(pull.value['number']),
      reviewers: ['BOB', 'acme/Core'],
    });
    assert.equal(asked.isError, false, asked.text);
    sim.fault = () => null;
    assert.deepEqual(app.issues.get(issue)?.labels, ['Bug', 'UI', 'new']);
    assert.deepEqual(app.issues.get(issue)?.assignees, ['Ann', 'Bob']);
  });

  it('mints one token for a repository and permission, however many sessions call at once', async () => {
    await bench.daemon.ctx.db.query('delete from svc.installation_tokens');
    const seats: Seat[] = [];
    for (let n = 0; n < 5; n += 1) seats.push(await bench.start('worker'));
    const before = bench.sim.log.length;
    const input = { owner: 'acme', repo: 'app', path: 'README.md' };
    const calls = seats.flatMap((one) =>
      Array.from({ length: 10 }, () => one.call('get_file_contents', input, 'code')),
    );
    const answers = await Promise.all(calls);
    assert.ok(answers.every((answer) => !answer.isError));
    const mints = bench.sim.log.slice(before).filter(({ path }) => /access_tokens$/.test(path));
    assert.equal(mints.length, 1);
  });

  it('uses a token for four fifths of its life', async () => {
    const { db } = bench.daemon.ctx;
    await db.query('delete from svc.installation_tokens');
    const seat = await bench.start('worker');
    const call = (): Promise<{ readonly isError: boolean }> =>
      seat.call('get_file_contents', { owner: 'acme', repo: 'app', path: 'README.md' }, 'code');
    const minted = (): number => bench.sim.log.filter(({ path }) => /access_tokens$/.test(path)).length;
    assert.equal((await call()).isError, false);
    const { rows } = await db.query<{ seconds: number }>(
      'select extract(epoch from usable_until - minted_at)::float8 as seconds from svc.installation_tokens',
    );
    // Of the hour that the code host gives.
    assert.ok(rows.length === 1 && Math.abs((rows[0]?.seconds ?? 0) - 2_880) < 30, JSON.stringify(rows));
    const before = minted();
    assert.equal((await call()).isError, false);
    assert.equal(minted(), before, 'the one that is there is used again');
    await db.query('update svc.installation_tokens set usable_until = now()');
    assert.equal((await call()).isError, false);
    assert.equal(minted(), before + 1);
  });
});
