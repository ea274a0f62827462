// What dry runs of a project with a session, a repository and secrets are held to.

import assert from 'node:assert/strict';
import type { DryRun } from '../../../../schemas/api/common.ts';
import type { TestDaemon } from '../../../base/testkit/daemon.ts';

const env = { KEY: { $secret: 'shared' }, OTHER: { $secret: 'backed' } };
/** An agent that hangs on two secrets, an endpoint and a schedule. */
const content = JSON.stringify({
  name: 'user',
  harness: 'harness-a',
  environment: { name: 'e2', image: { kind: 'preset', name: 'base' } },
  env,
  triggers: [
    {
      event: 'webhook.received',
      endpoint: 'mine',
      auth: { kind: 'hmac_sha256', secretRef: 'shared' },
      routing: { kind: 'spawn' },
    },
    { kind: 'heartbeat', cron: '0 3 * * *', message: 'm', routing: { kind: 'spawn' } },
  ],
});

/** What taking something away is told to take with it, before and after: the dry run changes nothing, the reason is kept. */
export async function foretold(daemon: TestDaemon): Promise<void> {
  const dry = async (method: string, path: string, body?: object): Promise<string[]> => {
    const { status, body: found } = await daemon.api(method, `${path}dryRun=true`, body);
    assert.equal(status, 200, `${path} ${JSON.stringify(found)}`);
    const { consequences } = found as unknown as DryRun;
    return consequences.map(({ text, names }) => [text, ...names].join(' | '));
  };
  await daemon.api('PUT', 'P/secrets/shared', { value: 'x'.repeat(20) });
  await daemon.api('PUT', '/api/v1/orgs/default/secrets/backed', { value: 'x'.repeat(20) });
  await daemon.api('PUT', 'P/secrets/backed', { value: 'x'.repeat(20) });
  const files = [{ path: '.svc/agents/user.json', content }];
  assert.equal((await daemon.api('POST', 'P/apply', { files, prune: false })).status, 200);
  const { body: session } = await daemon.api('POST', 'P/agents/user/sessions', { message: 'Hello' });
  const id = String(session['id']);
  assert.deepEqual(await dry('DELETE', 'P/agents/user?'), [
    'Agent user goes; its revisions stay',
    '1 trigger goes | user#0',
    '1 schedule goes | user#1',
    `1 live session is archived | ${id}`,
    '1 endpoint wakes nobody any more | mine',
  ]);
  assert.deepEqual(await dry('DELETE', 'P/secrets/shared?'), [
    'Secret shared goes, with its value; nobody gets it back',
    '1 agent no longer finds it: a launch that needs it fails | user',
    `1 live session keeps the value until its next launch | ${id}`,
    '1 endpoint refuses every call | mine',
  ]);
  const backed = await dry('DELETE', 'P/secrets/backed?');
  assert.ok(
    backed.includes("1 agent reads the organization's secret of that name from then on | user"),
    String(backed),
  );
  // The project has one of its own: the organization's is not what it reads.
  assert.equal((await dry('DELETE', '/api/v1/orgs/default/secrets/backed?')).length, 1);
  assert.match((await dry('POST', `P/sessions/${id}/archive?`, {})).join(), /^The session ends/);
  assert.ok((await dry('DELETE', 'P/repositories/fleet?')).includes('1 agent that it owns is deleted | review'));
  const kept = await dry('DELETE', 'P/repositories/fleet?keepResources=true&');
  assert.ok(kept.includes('1 agent stays and is owned by hand | review'), String(kept));
  assert.ok(
    (await dry('DELETE', '/api/v1/orgs/default/projects/default?')).some((line) =>
      /^\d+ agents are deleted/.test(line),
    ),
  );
  // What the act is refused for, its dry run is refused for.
  for (const [method, path, code] of [
    ['DELETE', 'P/agents/review', 'agent-owned'],
    ['DELETE', 'P/endpoints/mine', 'endpoint-in-use'],
    ['POST', 'P/repositories/fleet/rollback', 'nothing-to-roll-back'],
  ] as const) {
    const { status, body } = await daemon.api(method, `${path}?dryRun=true`, method === 'POST' ? {} : undefined);
    assert.deepEqual([status, body['code']], [409, code]);
  }
  // Nothing has gone.
  assert.equal((await daemon.api('GET', 'P/agents/user')).status, 200);
  assert.equal((await daemon.api('POST', `P/sessions/${id}/archive`, {})).status, 200);
  assert.equal((await daemon.api('DELETE', 'P/agents/user', { reason: 'not needed' })).status, 204);
  const { body: audit } = await daemon.api('GET', 'P/audit?action=agent.deleted&limit=1');
  assert.equal(audit['items']?.[0]?.['detail']?.['reason'], 'not needed');
  for (const name of ['shared', 'backed']) assert.equal((await daemon.api('DELETE', `P/secrets/${name}`)).status, 204);
}
