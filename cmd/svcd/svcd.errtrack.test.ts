import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon } from '../../internal/base/testkit/daemon.ts';
import { isLong } from '../../internal/base/testkit/long.ts';
import { emptyHome, type Ran, runSvc } from '../svc/testkit.ts';
import type { FaultPlace } from '../../internal/base/testkit/errtrack-provider.ts';
import { setupPath, type ErrtrackBench, organization, startErrtrackBench } from './errtrack-testkit.ts';

describe('the setup of an error tracker', () => {
  let at: ErrtrackBench;
  before(async () => {
    at = await startErrtrackBench();
  });
  after(() => at.stop());

  const selected = async (): Promise<number> => (await at.options()).flatMap((one) => one.selectedProjectIds).length;

  it('completes by itself with one project and one destination, and tells it', async () => {
    const { id, state } = await at.start();
    const consent = at.simulator.consent(organization(1));
    const { status, body } = await at.callback(state, consent);
    assert.equal(status, 200);
    assert.equal(body['status'], 'completed');
    assert.notEqual(body['providerGrantId'], null);
    assert.deepEqual(body['projects'], []);
    const installation = at.simulator.installations.get(consent.installationId);
    assert.deepEqual([installation?.exchanges, installation?.confirmations, installation?.status], [1, 1, 'installed']);
    const connection = await at.daemon.api('GET', 'P/connections/errtrack');
    assert.deepEqual([connection.body['provider'], connection.body['status']], ['errtrack', 'active']);
    const events = await at.daemon.api('GET', 'P/events?key=svc.connection.established');
    assert.equal(String(events.body['items']?.[0]?.['payload']?.['provider']), 'errtrack');
    const again = await at.callback(state, consent);
    assert.equal(again.status, 409);
    assert.equal((await at.daemon.api('DELETE', `${setupPath}/${id}`)).status, 409);
    assert.equal(installation?.exchanges, 1);
  });

  it('completes for an organization whose name cannot be kept, under its slug', async () => {
    for (const name of ['Acme\0', 'Acme\ud800']) {
      const org = { ...organization(1), name };
      const { status, body } = await at.callback((await at.start()).state, at.simulator.consent(org));
      assert.deepEqual([status, body['status']], [200, 'completed'], JSON.stringify(body));
      const found = (await at.options()).find((one) => one.id === String(body['providerGrantId']));
      assert.equal((found as unknown as { readonly organizationName: string }).organizationName, org.slug);
    }
  });

  it('waits for a selection where more is possible, and publishes what is chosen once', async () => {
    const org = organization(3, 'de');
    // An id is the same in capitals.
    const [first, second] = [at.projectId, at.second].map((one) => one.toUpperCase());
    const { id, state } = await at.start({ destinationProjectIds: [at.projectId, first, second] });
    const waiting = await at.callback(state, at.simulator.consent(org));
    assert.equal(waiting.body['status'], 'awaiting_selection');
    assert.equal(waiting.body['region'], 'de');
    assert.deepEqual(
      waiting.body['projects'],
      org.projects.map(({ id: one, slug }) => ({ id: one, slug })),
    );
    const chosen = String(org.projects[1]?.id);
    for (const recipients of [
      [],
      [{ projectId: 'other', errtrackProjectId: chosen }],
      [{ projectId: at.projectId, errtrackProjectId: '5' }],
      [{ projectId: at.projectId, errtrackProjectId: '-1' }],
      [{ projectId: at.projectId, errtrackProjectId: chosen, more: 1 }],
      Array.from({ length: 101 }, () => ({ projectId: at.projectId, errtrackProjectId: chosen })),
    ])
      assert.equal(
        (await at.daemon.api('PUT', `${setupPath}/${id}/recipients`, { recipients })).status,
        400,
        JSON.stringify(recipients).slice(0, 80),
      );
    const recipients = [
      { projectId: at.second, errtrackProjectId: chosen },
      { projectId: second, errtrackProjectId: chosen },
    ];
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => at.daemon.api('PUT', `${setupPath}/${id}/recipients`, { recipients })),
    );
    assert.deepEqual(
      answers.map((one) => one.status).sort((a, b) => a - b),
      [200, 409, 409, 409, 409],
    );
    const { body } = await at.daemon.api('GET', `${setupPath}/${id}`);
    assert.equal(body['status'], 'completed');
    // The name of the first is taken in the organization.
    const options = await at.options(at.second);
    const mine = options.find((one) => one.id === String(body['providerGrantId']));
    assert.deepEqual([mine?.name, mine?.selectedProjectIds], [`errtrack-${id.slice(0, 8)}`, [chosen]]);
  });

  it('exchanges a code once, however many callbacks come at once', async () => {
    for (let round = 0; round < (isLong ? 1_000 : 5); round += 1) {
      const { state } = await at.start();
      const consent = at.simulator.consent(organization(2));
      const answers = await Promise.all(Array.from({ length: 20 }, () => at.callback(state, consent)));
      assert.equal(answers.filter((one) => one.status === 200).length, 1);
      assert.equal(answers.filter((one) => one.status === 409).length, 19);
      assert.equal(at.simulator.installations.get(consent.installationId)?.exchanges, 1);
    }
  });

  const ENDS: readonly (readonly [FaultPlace, string, string])[] = [
    ['exchange-lost', 'uncertain', 'exchange-unknown'],
    ['exchange-500', 'uncertain', 'exchange-unknown'],
    ['not-pending', 'failed', 'installation-not-pending'],
    ['foreign-app', 'failed', 'readback-mismatch'],
    ['foreign-region', 'failed', 'read-failed: unreadable'],
    ['id-mismatch', 'failed', 'organization-mismatch'],
    ['projects-object', 'failed', 'enumeration-rejected: the list of projects is not a list'],
    ['projects-repeat', 'failed', 'enumeration-rejected: a project is listed twice'],
    ['confirm-lost', 'uncertain', 'confirmation-unknown'],
    ['confirm-refused', 'failed', 'confirmation-refused'],
  ];
  for (const [fault, status, reason] of ENDS) {
    it(`ends as ${status} where the provider has ${fault}`, async () => {
      const before = await selected();
      const { id, state } = await at.start();
      at.simulator.faults.add(fault);
      const { body } = await at.callback(state, at.simulator.consent(organization(1)));
      assert.deepEqual([body['status'], body['reason']], [status, reason]);
      assert.equal(at.simulator.faults.size, 0);
      assert.equal(await selected(), before);
      const left = await at.daemon.ctx.db.query(
        'select token_id as id from svc.errtrack_attempts where id = $1::uuid',
        [id],
      );
      assert.equal(left.rows[0]?.['id'], null);
      assert.equal((await at.daemon.api('DELETE', `${setupPath}/${id}`)).status, status === 'uncertain' ? 200 : 409);
    });
  }

  it('refuses an enumeration that repeats its cursor', async () => {
    const { state } = await at.start();
    at.simulator.pageSize = 1;
    at.simulator.faults.add('cursor-repeat');
    const { body } = await at.callback(state, at.simulator.consent(organization(5)));
    at.simulator.pageSize = 100;
    assert.equal(body['status'], 'failed');
  });

  it('takes no code twice, no wrong code, and no installation of another setup', async () => {
    const consent = at.simulator.consent(organization(2));
    const one = await at.start();
    assert.equal((await at.callback(one.state, consent)).status, 200);
    const other = await at.start();
    assert.equal((await at.callback(other.state, consent)).status, 409);
    assert.equal((await at.daemon.api('GET', `${setupPath}/${other.id}`)).body['status'], 'awaiting_authorization');
    const wrong = await at.callback(other.state, { ...consent, code: 'never-given' });
    assert.deepEqual([wrong.body['status'], wrong.body['reason']], ['failed', 'exchange-refused']);
    // A new code of an installation that another setup has proven.
    const found = at.simulator.installations.get(consent.installationId);
    assert.ok(found !== undefined);
    found.code = 'a-second-code';
    found.status = 'pending';
    const third = await at.start();
    const taken = await at.callback(third.state, { ...consent, code: 'a-second-code' });
    assert.deepEqual([taken.status, taken.body['code']], [409, 'installation-claimed']);
  });

  it('refuses what is malformed, foreign or without the right, and tells nothing', async () => {
    const { id, state } = await at.start();
    const consent = at.simulator.consent(organization(1));
    for (const body of [
      { state: 'short', ...consent },
      { state, ...consent, installationId: 'no' },
      { state, ...consent, code: '' },
      { state, ...consent, code: 'x'.repeat(8_193) },
      { state, ...consent, code: 'ümlaut' },
      { state, ...consent, more: true },
    ]) {
      const answer = await at.daemon.api('POST', `${setupPath}/callback`, body);
      assert.equal(answer.status, 400);
      assert.ok(!JSON.stringify(answer.body).includes(consent.code));
    }
    assert.equal((await at.callback('A'.repeat(43), consent)).status, 404);
    assert.equal((await at.daemon.api('POST', setupPath, { ...at.scope, projectId: 'nope' })).status, 403);
    assert.equal((await at.daemon.api('POST', setupPath, { ...at.scope, other: 1 })).status, 400);
    assert.equal(
      (await at.daemon.api('POST', setupPath, { ...at.scope, destinationProjectIds: ['nope'] })).status,
      400,
    );
    const made = await at.daemon.api('POST', '/api/v1/orgs/default/service-accounts', { name: 'robot', role: 'admin' });
    assert.equal(made.status, 201);
    const { body: robot } = await at.daemon.api('POST', '/api/v1/orgs/default/tokens', {
      serviceAccount: 'robot',
      name: 'r',
    });
    const token = String(robot['token']);
    for (const [method, path, body] of [
      ['POST', setupPath, at.scope],
      ['POST', `${setupPath}/callback`, { state, ...consent }],
      ['GET', `${setupPath}/${id}`],
      ['GET', `${setupPath}/${'0'.repeat(8)}-0000-4000-8000-${'0'.repeat(12)}`],
      ['DELETE', `${setupPath}/${id}`],
      ['GET', `/api/v1/connections/errtrack/projects?organizationId=${at.orgId}&projectId=${at.projectId}`],
    ] as const)
      assert.equal((await at.daemon.api(method, path, body, { token })).status, 403, `${method} ${path}`);
    assert.equal((await at.daemon.api('GET', `${setupPath}/nope`)).status, 404);
    assert.equal((await at.daemon.api('GET', `${setupPath}/${id}`, undefined, { token: null })).status, 401);
    assert.equal((await at.daemon.api('DELETE', `${setupPath}/${id}`)).body['status'], 'cancelled');
    assert.equal((await at.callback(state, consent)).status, 409);
    assert.equal(at.simulator.installations.get(consent.installationId)?.exchanges, 0);
  });

  it('selects, disconnects and connects again, each with new subscriptions', async () => {
    const query = `/api/v1/connections/errtrack/projects?organizationId=${at.orgId}&projectId=${at.projectId}`;
    const { body } = await at.daemon.api('GET', query);
    const [option] = body['items'] as unknown as { id: string; projects: { id: string }[] }[];
    assert.ok(option !== undefined);
    const put = (ids: string[], more: object = {}) =>
      at.daemon.api('PUT', '/api/v1/connections/errtrack/projects', {
        ...at.scope,
        providerGrantId: option.id,
        errtrackProjectIds: ids,
        ...more,
      });
    const [only] = option.projects;
    const subscriptions = async (): Promise<unknown[]> =>
      (
        await at.daemon.ctx.db.query(
          'select id from svc.errtrack_subscriptions where project_id = $1::uuid and grant_id = $2::uuid and enabled',
          [at.projectId, option.id],
        )
      ).rows;
    const first = await subscriptions();
    assert.equal((await put([String(only?.id), String(only?.id)])).status, 200);
    assert.deepEqual(await subscriptions(), first);
    assert.equal((await put(['424242'])).status, 400);
    assert.equal((await put([], { more: 1 })).status, 400);
    assert.equal((await put([], { providerGrantId: 'nope' })).status, 404);
    assert.equal((await put([])).status, 200);
    assert.deepEqual(await subscriptions(), []);
    const shown = (await at.daemon.api('GET', 'P/connections/errtrack')).body;
    assert.deepEqual([shown['status'], shown['intakeUrl']], ['disabled', `${at.daemon.url}/api/v1/intake/errtrack`]);
    // As a daemon before this one wrote it.
    await at.daemon.ctx.db.query(`update svc.connections set status = 'inactive' where name = 'errtrack'`);
    assert.equal((await at.daemon.api('GET', 'P/connections/errtrack')).body['status'], 'disabled');
    const removed = await at.daemon.api('GET', 'P/events?key=svc.connection.removed');
    assert.equal(removed.body['items']?.[0]?.['payload']?.['connection'], 'errtrack');
    assert.equal((await put([String(only?.id)])).status, 200);
    assert.notDeepEqual(await subscriptions(), first);
  });

  it('goes with its connection, and an attempt that nobody knows the end of is named by the doctor', async () => {
    const checks = async (): Promise<string> => JSON.stringify((await at.daemon.api('GET', 'P/doctor')).body['checks']);
    const { id, state } = await at.start();
    at.simulator.faults.add('exchange-lost');
    assert.equal((await at.callback(state, at.simulator.consent(organization(1)))).body['status'], 'uncertain');
    assert.match(
      await checks(),
      new RegExp(`setup attempt ${id} of the error tracker is uncertain \\(exchange-unknown\\)`),
    );
    assert.ok((await checks()).includes(`DELETE ${setupPath}/${id}`), 'what puts it away');
    assert.equal((await at.daemon.api('DELETE', `${setupPath}/${id}`)).status, 200);
    assert.doesNotMatch(await checks(), new RegExp(id));
    const [grant] = await at.options();
    const { db } = at.daemon.ctx;
    await db.query(`update svc.errtrack_grants set status = 'uncertain' where id = $1::uuid`, [grant?.id]);
    assert.match(await checks(), new RegExp(`error-tracking connection ${grant?.name} is uncertain`));
    await db.query(`update svc.errtrack_grants set status = 'ready' where id = $1::uuid`, [grant?.id]);

    const removedBefore = (await at.daemon.api('GET', 'P/events?key=svc.connection.removed&limit=200')).body['items'];
    assert.equal((await at.daemon.api('DELETE', `P/connections/${grant?.name}`)).status, 204);
    assert.equal((await at.daemon.api('GET', `P/connections/${grant?.name}`)).status, 404);
    const left = (await at.options()).find((one) => one.id === grant?.id);
    assert.deepEqual([left?.selectedProjectIds, left?.projects.length], [[], grant?.projects.length]);
    const removed = (await at.daemon.api('GET', 'P/events?key=svc.connection.removed&limit=200')).body['items'];
    assert.equal(Number(removed?.['length']), Number(removedBefore?.['length']) + 1);
  });

  it('is connected and allowed from a terminal, which waits and ends clearly', async (t) => {
    const home = await emptyHome();
    t.after(() => home.remove());
    const made = await at.daemon.api('POST', '/api/v1/orgs', { slug: 'terminal' });
    assert.equal(made.status, 201);
    assert.equal((await at.daemon.api('POST', '/api/v1/orgs/terminal/projects', { slug: 'web' })).status, 201);
    const svc = (args: string[], onStderr?: (text: string) => void): Promise<Ran> =>
      runSvc(home.path, args, {
        env: { SVC_URL: at.daemon.url, SVC_TOKEN: at.daemon.token, SVC_ORG: 'terminal', SVC_PROJECT: 'web' },
        ...(onStderr && { onStderr }),
      });
    /** Runs the command until it waits; `then` does what the person does with the state of the address it prints. */
    const waiting = async (then: (state: string) => Promise<unknown>): Promise<Ran> => {
      let acted: Promise<unknown> | undefined;
      const ran = await svc(['connect', 'errtrack', '--no-browser'], (text) => {
        const [, state] = /consent at \S*[?&]state=([\w-]{43})/.exec(text) ?? [];
        if (state !== undefined) acted ??= then(state);
      });
      assert.notEqual(acted, undefined, ran.stderr);
      await acted;
      return ran;
    };
    const attemptOf = async (state: string): Promise<string> => {
      const { rows } = await at.daemon.ctx.db.query<{ id: string }>(
        `select id from svc.errtrack_attempts where state_hash = sha256($1::text::bytea)`,
        [state],
      );
      return rows[0]?.id ?? '';
    };
    const cancelled = await waiting(async (state) => at.daemon.api('DELETE', `${setupPath}/${await attemptOf(state)}`));
    assert.equal(cancelled.code, 1);
    assert.match(cancelled.stderr, /the setup is cancelled/);
    const printed = await svc(['connect', 'errtrack', '--no-wait', '--json']);
    assert.equal(printed.code, 0, printed.stderr);
    const required = JSON.parse(printed.stdout) as { status: string; provider: string; url: string };
    assert.deepEqual([required.status, required.provider], ['authorization_required', 'errtrack']);
    const connected = await waiting((state) => at.callback(state, at.simulator.consent(organization(1))));
    assert.equal(connected.code, 0, connected.stderr);
    assert.match(connected.stdout, /web is connected/);
    const again = await svc(['connect', 'errtrack', '--json']);
    assert.deepEqual([again.code, JSON.parse(again.stdout).status], [0, 'connected'], again.stderr);
    for (const form of [[], ['--json']]) {
      const replace = await svc(['connect', 'errtrack', '--replace', ...form]);
      assert.equal(replace.code, 1);
      assert.match(replace.stderr, /not_implemented/);
    }

    assert.equal((await at.daemon.api('POST', '/api/v1/orgs/terminal/projects', { slug: 'api' })).status, 201);
    const unknown = await svc(['allow', 'errtrack', 'api', '--connection', 'nope']);
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /no error-tracking connection nope/);
    const allowed = await svc(['allow', 'errtrack', 'api', '--connection', 'errtrack']);
    assert.equal(allowed.code, 0, allowed.stderr);
    const connection = await at.daemon.api('GET', '/api/v1/orgs/terminal/projects/api/connections/errtrack');
    assert.equal(connection.body['status'], 'active');
    // A project that is named by --allow, and not the active one; one that was selected of is reused without consent.
    assert.equal((await at.daemon.api('POST', '/api/v1/orgs/terminal/projects', { slug: 'third' })).status, 201);
    const third = await svc(['connect', 'errtrack', '--allow', 'third']);
    assert.match(third.stdout, /third is connected as errtrack/, third.stderr);
  });

  it('is gone on with from a terminal where it waits for a choice, and is no second one', async (t) => {
    const home = await emptyHome();
    t.after(() => home.remove());
    assert.equal((await at.daemon.api('POST', '/api/v1/orgs', { slug: 'again' })).status, 201);
    assert.equal((await at.daemon.api('POST', '/api/v1/orgs/again/projects', { slug: 'web' })).status, 201);
    const env = { SVC_URL: at.daemon.url, SVC_TOKEN: at.daemon.token, SVC_ORG: 'again', SVC_PROJECT: 'web' };
    const begin = async (): Promise<URL> => {
      const ran = await runSvc(home.path, ['connect', 'errtrack', '--no-wait', '--json'], { env });
      assert.equal(ran.code, 0, ran.stderr);
      return new URL((JSON.parse(ran.stdout) as { url: string }).url);
    };
    const state = (await begin()).searchParams.get('state') ?? '';
    const visible = organization(101);
    const waiting = await at.callback(state, at.simulator.consent(visible));
    assert.equal(waiting.body['status'], 'awaiting_selection');
    const chooser = await begin();
    const attemptId = String(waiting.body['attemptId']);
    assert.equal(chooser.href, `${at.daemon.url}/again/web/connections?errtrackAttempt=${attemptId}`);
    // All that may be seen is allowed, also where it is more than one selection may name.
    const recipients = [{ projectId: waiting.body['projectId'], errtrackProjectId: visible.projects[100]?.id }];
    const { body } = await at.daemon.api('PUT', `${setupPath}/${attemptId}/recipients`, { recipients });
    assert.equal(body['status'], 'completed', JSON.stringify(body));
    const ran = await runSvc(home.path, ['allow', 'errtrack', 'web', '--connection', 'errtrack', '--json'], { env });
    assert.equal(ran.code, 0, ran.stderr);
    assert.equal((JSON.parse(ran.stdout) as { selectedProjectIds: string[] }).selectedProjectIds.length, 101);
  });
});

it('without an application every call of a setup is 503, and the options still answer', async () => {
  const daemon = await startTestDaemon();
  try {
    const organizationId = String((await daemon.api('GET', '/api/v1/orgs/default')).body['id']);
    const scope = { organizationId, projectId: 'default' };
    assert.equal((await daemon.api('POST', setupPath, scope)).status, 503);
    assert.equal((await daemon.api('GET', `${setupPath}/${organizationId}`)).status, 503);
    const options = await daemon.api(
      'GET',
      `/api/v1/connections/errtrack/projects?organizationId=${organizationId}&projectId=default`,
    );
    assert.deepEqual(options.body, { items: [], nextCursor: null, errtrackConnection: { connected: false } });
    assert.equal((await fetch(`${daemon.url}/api/v1/intake/errtrack`, { method: 'POST', body: '{}' })).status, 503);
  } finally {
    await daemon.stop();
  }
});
