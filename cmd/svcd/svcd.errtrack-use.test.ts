import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setupPath, type ErrtrackBench, organization, startErrtrackBench } from './errtrack-testkit.ts';

describe('a connected error tracker', () => {
  let at: ErrtrackBench;
  before(async () => {
    at = await startErrtrackBench();
  });
  after(() => at.stop());

  it('takes webhooks of every installation, each once, for who is subscribed', async () => {
    const org = organization(2);
    const { id, state } = await at.start();
    const consent = at.simulator.consent(org);
    await at.callback(state, consent);
    const [heard, unheard] = org.projects;
    await at.daemon.api('PUT', `${setupPath}/${id}/recipients`, {
      recipients: [{ projectId: at.projectId, errtrackProjectId: heard?.id }],
    });
    const send = async (
      resource: string,
      body: unknown,
      headers: object = {},
      change: (text: string) => string = (text) => text,
    ) => {
      const made = at.simulator.webhook(resource, body);
      const answer = await fetch(`${at.daemon.url}/api/v1/intake/errtrack`, {
        method: 'POST',
        body: change(made.body),
        headers: { ...made.headers, ...headers },
      });
      return { status: answer.status, body: (await answer.json()) as { [key: string]: unknown } };
    };
    const issue = (project: unknown, more: object = {}) => ({
      action: 'created',
      installation: { uuid: consent.installationId },
      data: {
        issue: {
          id: '7',
          shortId: 'API-7',
          title: 'Größe',
          project,
          level: 'error',
          status: 'unresolved',
          count: '3',
          web_url: 'https://x.example/7',
          ...more,
        },
      },
      actor: { type: 'application', id: 'sentry', name: 'S' },
    });
    const made = await send('issue', issue(heard));
    assert.deepEqual([made.status, made.body['created']], [202, true]);
    const shown = await at.daemon.api('GET', `P/events/${made.body['eventRecordId']}`);
    assert.equal(shown.body['key'], 'svc.errtrack.issue.created');
    const { errtrack } = shown.body['payload'] as unknown as {
      errtrack: { [key: string]: { [key: string]: unknown } };
    };
    assert.deepEqual(errtrack['organization'], { slug: org.slug });
    assert.deepEqual(errtrack['project'], heard);
    assert.equal(errtrack['issue']?.['permalink'], 'https://x.example/7');
    assert.equal(errtrack['issue']?.['title'], 'Größe');
    const again = await send('issue', issue(heard));
    assert.deepEqual(
      [again.status, again.body['created'], again.body['eventRecordId']],
      [200, false, made.body['eventRecordId']],
    );
    const keyed = { 'idempotency-key': 'k'.repeat(32) };
    assert.equal((await send('issue', issue(heard, { count: '4' }), keyed)).status, 202);
    assert.equal((await send('issue', issue(heard, { count: '5' }), keyed)).status, 200);
    assert.equal((await send('issue', issue(unheard))).body['ignored'], true);
    assert.equal((await send('issue', { ...issue(heard), action: 'archived' })).status, 202);
    assert.equal((await send('issue', { ...issue(heard), action: 'odd' })).body['ignored'], true);
    assert.equal((await send('issue', issue(heard), {}, (text) => `${text} `)).status, 401);
    assert.equal((await send('issue', issue(heard), { 'sentry-hook-signature': '' })).status, 401);
    assert.equal((await send('event_alert', issue(heard))).status, 400);
    assert.equal(
      (
        await send('installation', {
          action: 'created',
          installation: { uuid: consent.installationId },
          data: { installation: { code: 'c' } },
        })
      ).body['ignored'],
      true,
    );
    const gone = {
      action: 'deleted',
      installation: { uuid: consent.installationId },
      data: { installation: { uuid: consent.installationId } },
    };
    const removed = await send('installation', gone);
    assert.equal(removed.status, 202);
    const event = (await at.daemon.api('GET', `P/events/${removed.body['eventRecordId']}`)).body;
    assert.equal(event['key'], 'svc.connection.removed');
    const { connection } = event['payload'] as unknown as { connection: string };
    const told = { provider: 'errtrack', connection, kind: 'provider', projectId: at.projectId, status: 'removed' };
    assert.deepEqual(event['payload'], { ...told, reason: 'uninstalled' });
    const row = (await at.daemon.api('GET', `P/connections/${connection}`)).body;
    assert.deepEqual([row['status'], row['reason']], ['removed', 'uninstalled']);
    const doctor = JSON.stringify((await at.daemon.api('GET', 'P/doctor')).body['checks']);
    assert.match(doctor, new RegExp(`connection ${connection}: its installation is removed[^}]*svc connect errtrack;`));
    assert.deepEqual((await send('installation', gone)).body, { ignored: true, reason: 'no-change' });
    assert.equal((await send('issue', issue(heard, { id: '8' }))).body['ignored'], true);
    const options = await at.options();
    assert.ok(!JSON.stringify(options).includes(org.slug));
  });

  it('takes a delivery that it had before a project was disconnected for that one when it is connected again', async () => {
    const org = organization(1);
    const consent = at.simulator.consent(org);
    const { body } = await at.callback((await at.start()).state, consent);
    const [project] = org.projects;
    const selects = (errtrackProjectIds: readonly unknown[]) =>
      at.daemon.api('PUT', '/api/v1/connections/errtrack/projects', {
        ...{ ...at.scope, providerGrantId: body['providerGrantId'], errtrackProjectIds },
      });
    for (const keyed of [{ 'idempotency-key': 'again' }, {}] as const) {
      const issue = { id: '9', project, title: JSON.stringify(keyed) };
      const installation = { uuid: consent.installationId };
      const sent = at.simulator.webhook('issue', { action: 'created', installation, data: { issue } }, keyed);
      const send = async () => {
        const answer = await fetch(`${at.daemon.url}/api/v1/intake/errtrack`, { method: 'POST', ...sent });
        return { status: answer.status, ...((await answer.json()) as { eventRecordId?: string; ignored?: boolean }) };
      };
      const first = await send();
      assert.equal(first.status, 202);
      assert.equal((await selects([])).status, 200);
      assert.equal((await send()).ignored, true);
      assert.equal((await selects([project?.id])).status, 200);
      const again = await send();
      assert.deepEqual([again.status, again.eventRecordId], [200, first.eventRecordId]);
    }
  });

  it('gives sessions four read-only tools, for what is allowed at that moment', async () => {
    const org = organization(1);
    const { body } = await at.callback((await at.start()).state, at.simulator.consent(org));
    const grantId = String(body['providerGrantId']);
    const [project] = org.projects;
    const options = await at.options();
    const name = options.find((one) => one.id === grantId)?.name;
    at.simulator.issues.set('77', {
      id: '77',
      shortId: 'API-77',
      title: 'Boom',
      status: 'unresolved',
      count: '2',
      project,
      firstRelease: { version: '1' },
      seenBy: [{ name: 'x' }],
    });
    at.simulator.issues.set('78', {
      id: '78',
      shortId: 'WEB-78',
      title: 'Other',
      project: { id: '1', slug: 'elsewhere' },
    });
    at.simulator.events.set('77', {
      eventID: 'e'.repeat(32),
      groupID: '77',
      projectID: project?.id,
      title: 'Boom',
      entries: [
        { type: 'message', data: { formatted: 'm', extra: 1 } },
        { type: 'spans', data: {} },
      ],
      contexts: { trace: {} },
      release: {},
    });
    const errors = { kind: 'connection', provider: 'errtrack', connection: name };
    await at.bench.apply({
      looker: { tools: { errors, few: { ...errors, tools: ['get_latest_event', 'list_projects'] } } },
    });
    const seat = await at.bench.start('looker');
    const call = (tool: string, input: object = {}) => seat.call(tool, input, 'errors');
    assert.deepEqual(
      (await (await seat.client('errors')).listTools()).tools.map((one) => one.name),
      ['list_projects', 'search_issues', 'get_issue_details', 'get_latest_event'],
    );
    assert.deepEqual((await call('list_projects')).value['items'], [{ id: project?.id, slug: project?.slug }]);
    const found = await call('search_issues', { query: 'is:unresolved' });
    assert.equal(found.isError, false, found.text);
    assert.deepEqual(found.value['items'], [
      {
        shortId: 'API-77',
        url: `https://${org.slug}.example/issues/API-77`,
        title: 'Boom',
        status: 'unresolved',
        count: '2',
      },
    ]);
    const details = await call('get_issue_details', { issue: 'API-77' });
    assert.equal(String(details.value['issue']?.['title']), 'Boom');
    assert.ok(!/seenBy|firstRelease/.test(details.text));
    const latest = await call('get_latest_event', { issue: '77' });
    assert.deepEqual(latest.value['event']?.['entries'], [{ type: 'message', data: { formatted: 'm' } }]);
    assert.ok(!/contexts|release|spans/.test(latest.text));
    at.simulator.events.delete('77');
    assert.equal((await call('get_latest_event', { issue: '77' })).value['event'], null);
    assert.match((await call('get_issue_details', { issue: '78' })).text, /^not-found/);
    const asked = at.simulator.requests.length;
    // An allow-list gives exactly what it names; a call beyond it stops before anybody is asked.
    assert.deepEqual(
      (await (await seat.client('few')).listTools()).tools.map((one) => one.name),
      ['list_projects', 'get_latest_event'],
    );
    assert.match((await seat.call('get_issue_details', { issue: '77' }, 'few')).text, /^no-such-tool/);
    assert.equal((await seat.call('list_projects', {}, 'few')).isError, false);
    assert.match((await call('update_issue', { issue: '77' })).text, /^no-such-tool/);
    assert.match((await call('get_issue_details', { issue: '../77' })).text, /^invalid-input/);
    assert.equal(at.simulator.requests.length, asked);
    // Taken away while the provider answers.
    at.simulator.onRequest = async (path) => {
      if (!path.includes('/issues/')) return;
      at.simulator.onRequest = undefined;
      await at.daemon.api('PUT', '/api/v1/connections/errtrack/projects', {
        ...at.scope,
        providerGrantId: grantId,
        errtrackProjectIds: [],
      });
    };
    const late = await call('get_issue_details', { issue: '77' });
    assert.ok(late.isError);
    assert.ok(!late.text.includes('Boom'));
  });

  it('takes an answer that nests without end for one that cannot be read, and keeps its own credential to itself', async () => {
    const org = organization(1);
    const consent = at.simulator.consent(org);
    const { body } = await at.callback((await at.start()).state, consent);
    const [project] = org.projects;
    const grantId = String(body['providerGrantId']);
    const connection = (await at.options()).find((one) => one.id === grantId)?.name;
    const token = String(at.simulator.installations.get(consent.installationId)?.token);
    // A title repeats it as it is, a header as JSON may spell it.
    const issue = { id: '95', shortId: 'API-95', title: `Boom ${token}`, status: 'unresolved', count: '1', project };
    at.simulator.issues.set('95', issue);
    await at.bench.apply({ deep: { tools: { errors: { kind: 'connection', provider: 'errtrack', connection } } } });
    const seat = await at.bench.start('deep');
    const answered = (data: string): void => {
      const event = `{"groupID":"95","projectID":"${project?.id}","entries":[{"type":"request","data":${data}}]}`;
      // Sent as it stands.
      at.simulator.events.set('95', event as unknown as { readonly [key: string]: unknown });
    };
    answered(`{"data":${'['.repeat(100_000)}${']'.repeat(100_000)}}`);
    assert.match(
      (await seat.call('get_latest_event', { issue: '95' }, 'errors')).text,
      /^provider-unavailable: .*unreadable/,
    );
    answered(`{"headers":[["Authorization","Bearer \\u00${token.charCodeAt(0).toString(16)}${token.slice(1)}"]]}`);
    for (const [tool, input, shown] of [
      ['get_latest_event', { issue: '95' }, 'Bearer ***'],
      ['get_issue_details', { issue: '95' }, 'Boom ***'],
      ['search_issues', { query: 'Boom' }, 'Boom ***'],
    ] as const) {
      const { text } = await seat.call(tool, input, 'errors');
      assert.deepEqual([text.includes(shown), text.includes(token)], [true, false], text);
    }
  });

  it('refreshes a credential once, however many ask, and parks an answer that was lost', async () => {
    const org = organization(1);
    const consent = at.simulator.consent(org);
    const { body } = await at.callback((await at.start()).state, consent);
    const grantId = String(body['providerGrantId']);
    const options = await at.options();
    const name = options.find((one) => one.id === grantId)?.name;
    at.simulator.issues.set('90', { id: '90', shortId: 'R-90', title: 'T', project: org.projects[0] });
    await at.bench.apply({
      refresher: { tools: { errors: { kind: 'connection', provider: 'errtrack', connection: name } } },
    });
    const seat = await at.bench.start('refresher');
    const expire = (minutes = 0) =>
      at.daemon.ctx.db.query(
        'update svc.errtrack_grants set token_expires_at = now() + make_interval(mins => $2::int) where id = $1::uuid',
        [grantId, minutes],
      );
    // A limit did nothing: what is held goes on while it lasts, and is replaced at the next call.
    await expire(10);
    at.simulator.faults.add('refresh-limited');
    assert.equal((await seat.call('get_issue_details', { issue: '90' }, 'errors')).isError, false);
    await expire();
    at.simulator.faults.add('refresh-limited');
    assert.match((await seat.call('get_issue_details', { issue: '90' }, 'errors')).text, /^rate-limited/);
    assert.equal(at.simulator.faults.size, 0);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => seat.call('get_issue_details', { issue: '90' }, 'errors')),
    );
    assert.deepEqual(
      answers.filter((one) => one.isError).map((one) => one.text),
      [],
    );
    assert.equal(at.simulator.installations.get(consent.installationId)?.refreshes, 1);
    // What came is kept also where the database goes down the first time that it is to be.
    const { db } = at.daemon.database;
    await db.query('create sequence public.breaks');
    await db.query(`create function public.break_off() returns trigger language plpgsql as $$ begin
      if nextval('public.breaks') = 1 then raise exception 'it goes down' using errcode = '57P01'; end if; return new; end $$`);
    await db.query(
      'create trigger break_off before insert on svc.oauth_tokens for each row execute function public.break_off()',
    );
    await expire();
    const kept = await seat.call('get_issue_details', { issue: '90' }, 'errors');
    assert.equal(kept.isError, false, kept.text);
    await db.query('drop trigger break_off on svc.oauth_tokens');
    assert.equal(at.simulator.installations.get(consent.installationId)?.refreshes, 2);
    await expire();
    at.simulator.faults.add('refresh-lost');
    assert.match((await seat.call('get_issue_details', { issue: '90' }, 'errors')).text, /^authorization-required/);
    assert.match((await seat.call('get_issue_details', { issue: '90' }, 'errors')).text, /^authorization-required/);
    assert.equal(at.simulator.installations.get(consent.installationId)?.refreshes, 3);
  });

  it('holds each limit at both of its sides', async () => {
    const { api } = at.daemon;
    const consent = at.simulator.consent(organization(1));
    const first = await at.start();
    for (const state of [first.state.slice(1), `${first.state}A`, `${first.state.slice(1)}*`]) {
      assert.equal((await at.callback(state, consent)).status, 400, 'a state has 43 characters of base64url');
    }
    for (const code of ['x'.repeat(8_193), 'a\u007f', 'a\u001f', 'a\u00a0']) {
      assert.equal((await at.callback(first.state, { ...consent, code })).status, 400);
    }
    // Taken, and what the provider does not know.
    const longest = await at.callback(first.state, { ...consent, code: `~${'x'.repeat(8_190)} ` });
    assert.deepEqual([longest.status, longest.body['reason']], [200, 'exchange-refused']);

    const recipientsOf = (project: string, count: number) => ({
      recipients: Array.from({ length: count }, () => ({ projectId: at.projectId, errtrackProjectId: project })),
    });
    const chooses = async (count: number): Promise<number> => {
      const org = organization(2);
      const { id, state } = await at.start();
      await at.callback(state, at.simulator.consent(org));
      return (await api('PUT', `${setupPath}/${id}/recipients`, recipientsOf(String(org.projects[0]?.id), count)))
        .status;
    };
    assert.deepEqual(
      [await chooses(0), await chooses(1), await chooses(100), await chooses(101)],
      [400, 200, 200, 400],
    );

    // At most ten pages, however many stand on each.
    const enumerated = async (count: number): Promise<string> => {
      const { state } = await at.start();
      const { body } = await at.callback(state, at.simulator.consent(organization(count)));
      return `${body['status']} ${body['reason'] ?? ''}`;
    };
    at.simulator.pageSize = 1;
    const pages = [await enumerated(10), await enumerated(11)];
    at.simulator.pageSize = 100;
    assert.deepEqual(pages, [
      'awaiting_selection ',
      'failed enumeration-rejected: there are over 10 pages of projects',
    ]);

    const hundred = organization(101);
    const { id, state } = await at.start();
    const visible = await at.callback(state, at.simulator.consent(hundred));
    assert.equal(visible.body['projects']?.['length'], 101);
    const one = recipientsOf(String(hundred.projects[0]?.id), 1);
    const published = await api('PUT', `${setupPath}/${id}/recipients`, one);
    const selects = async (count: number): Promise<number> => {
      const errtrackProjectIds = hundred.projects.slice(0, count).map((project) => project.id);
      const body = { ...at.scope, providerGrantId: published.body['providerGrantId'], errtrackProjectIds };
      return (await api('PUT', '/api/v1/connections/errtrack/projects', body)).status;
    };
    assert.deepEqual([await selects(100), await selects(101), await selects(0)], [200, 400, 200]);

    // Fifteen minutes, for the consent and for the selection.
    const begun = await at.start();
    const life = Date.parse(String(begun.body['expiresAt'])) - at.daemon.ctx.runtime.now().getTime();
    assert.ok(life > 14 * 60_000 && life <= 15 * 60_000, `${life} ms`);
    const expiresIn = (attempt: string, seconds: number) =>
      at.daemon.ctx.db.query(
        `update svc.errtrack_attempts set expires_at = now() + make_interval(secs => $2::int) where id = $1::uuid`,
        [attempt, seconds],
      );
    const org = organization(2);
    const late = at.simulator.consent(org);
    await expiresIn(begun.id, -1);
    assert.equal((await at.callback(begun.state, late)).status, 409);
    assert.equal((await api('GET', `${setupPath}/${begun.id}`)).body['status'], 'expired');
    assert.equal(at.simulator.installations.get(late.installationId)?.exchanges, 0);
    const inTime = await at.start();
    await expiresIn(inTime.id, 120);
    assert.equal((await at.callback(inTime.state, late)).body['status'], 'awaiting_selection');
    await expiresIn(inTime.id, -1);
    const over = await api('PUT', `${setupPath}/${inTime.id}/recipients`, recipientsOf(String(org.projects[0]?.id), 1));
    assert.equal(over.status, 409);
    const shown = (await api('GET', `${setupPath}/${inTime.id}`)).body;
    assert.deepEqual([shown['status'], shown['projects']], ['expired', []]);
  });
});
