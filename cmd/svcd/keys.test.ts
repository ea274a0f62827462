// Daemons that were given different master keys: whoever comes second takes no work, from the first start of the first key
// on, and both are named to whoever asks either. A key file that is overwritten is told at once.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { apiClient, type JsonBody, startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { callSvc } from '../svc/testkit.ts';

/** Until it holds; what it was last, where it does not. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await holds()) return;
    await sleep(100);
  }
  assert.ok(await holds());
}

const reasonOf = async ({ api }: TestDaemon): Promise<string> => {
  const { status, body } = await api('GET', '/readyz');
  return status === 200 ? '' : JSON.stringify(body);
};

describe('two daemons of one database with two master keys', () => {
  let right: TestDaemon;
  let wrong: TestDaemon;
  let log = '';
  before(async () => {
    const stream = new PassThrough();
    stream.setEncoding('utf8').on('data', (text: string) => (log += text));
    right = await startTestDaemon({ log: pino({ level: 'info' }, stream) });
    const dataDir = join(right.dataDir, 'other');
    await mkdir(dataDir);
    wrong = await startTestDaemon({ database: right.database, token: right.token, dataDir });
  });
  after(async () => {
    await wrong?.stop();
    await right?.stop();
  });

  const doctor = (at: TestDaemon) =>
    callSvc(at.dataDir, ['doctor'], {
      env: { SVC_URL: at.url, SVC_TOKEN: at.token, SVC_ORG: 'default', SVC_PROJECT: 'default' },
    });
  const here = `${hostname()} (pid ${process.pid})`;

  it('the second takes no work though nothing is sealed yet, and says who holds the key', async () => {
    const reason = await reasonOf(wrong);
    assert.ok(reason.includes('another key as version 1 than the one of this installation'), reason);
    assert.ok(reason.includes(`which ${here} holds; this daemon is ${here}`), reason);
    assert.equal((await wrong.api('PUT', 'P/secrets/A', { value: 'half-blind' })).status, 503);
  });

  it('the first goes on: it is ready and seals', async () => {
    assert.equal(await reasonOf(right), '');
    assert.ok((await right.api('PUT', 'P/secrets/A', { value: 'sealed' })).status < 300);
  });

  it('svc doctor names both, whichever is asked', async () => {
    for (const at of [right, wrong]) {
      const { code, stdout } = await doctor(at);
      assert.equal(code, 1, stdout);
      assert.ok(
        stdout.includes(`the daemon ${here} holds another key as version 1 than ${here}, and takes no work`),
        stdout,
      );
      assert.match(stdout, /give \S+ the master key file of \S+, or stop it/);
    }
  });

  it('and says to who does not operate the installation only that there is one', async () => {
    const { api, url } = right;
    const member = { email: 'looks@example.com', role: 'member' };
    assert.equal((await api('POST', '/api/v1/orgs/default/members', member)).status, 201);
    await api('POST', 'P/members', { email: member.email, role: 'viewer' });
    const made = await api('POST', '/api/v1/orgs/default/tokens', { email: member.email, name: 'test' });
    const viewer = apiClient(url, String(made.body['token']));
    for (const page of ['doctor', 'overview']) {
      const text = JSON.stringify((await viewer('GET', `P/${page}`)).body);
      assert.match(text, /a daemon holds another master key than the rest, and takes no work/);
      assert.doesNotMatch(text, /\(pid \d+\)/);
    }
  });

  it('the second goes on by itself once it has the right file', async () => {
    const { masterKeyFile } = wrong.ctx.config;
    await writeFile(masterKeyFile, await readFile(right.ctx.config.masterKeyFile));
    await until(async () => (await reasonOf(wrong)) === '');
    assert.ok((await wrong.api('PUT', 'P/secrets/B', { value: 'sealed' })).status < 300);
    await until(async () => !(await doctor(right)).stdout.includes('another key'));
  });

  it('a key file that is overwritten makes the daemon unready at once, and ready when it is put back', async () => {
    const { masterKeyFile } = right.ctx.config;
    const before = await readFile(masterKeyFile);
    const asked = log.length;
    await writeFile(masterKeyFile, `1:${randomBytes(32).toString('base64')}\n`);
    // Nobody asks the daemon: it tells by itself.
    const changed = /"ready":false,"reasons":"keys: [^"]*"[^}]*"msg":"readiness.changed"/;
    await until(async () => changed.test(log.slice(asked)));
    const reason = await reasonOf(right);
    assert.ok(reason.includes('now has another key as version 1 than the one that this daemon began with'), reason);
    // What it holds is right: values stay as they are.
    assert.equal((await right.api('POST', 'P/secrets/B/reveal')).status, 403);
    await until(async () => log.includes('keys.file_replaced'));
    await writeFile(masterKeyFile, before);
    assert.equal(await reasonOf(right), '');
    await until(async () => log.includes('keys.file_restored'));
    await until(async () => /"ready":true[^}]*"msg":"readiness.changed"/.test(log.slice(asked)));
  });
});

describe('a next master key that one daemon has and another has not yet', () => {
  let ahead: TestDaemon;
  let behind: TestDaemon;
  before(async () => {
    ahead = await startTestDaemon();
    const dataDir = join(ahead.dataDir, 'other');
    await mkdir(dataDir);
    const masterKeyFile = join(dataDir, 'keys');
    await writeFile(masterKeyFile, await readFile(ahead.ctx.config.masterKeyFile), { mode: 0o600 });
    behind = await startTestDaemon({
      database: ahead.database,
      token: ahead.token,
      dataDir,
      config: { masterKeyFile },
    });
  });
  after(async () => {
    await behind?.stop();
    await ahead?.stop();
  });

  const rotated = async ({ api }: TestDaemon): Promise<JsonBody> => {
    assert.equal((await api('POST', '/api/v1/keys/rotate')).status, 202);
    const asked = async (): Promise<JsonBody> => (await api('GET', '/api/v1/keys')).body;
    await until(async () => (await asked())['rotation']?.['status'] !== ('running' as unknown));
    return asked();
  };
  const versions = (body: JsonBody) =>
    (body['versions'] as unknown as { version: number; status: string }[]).map(({ version, status }) => [
      version,
      status,
    ]);

  it('is not retired by a rotation that is asked of the other: it seals, and the rotation behind it goes to it', async () => {
    assert.ok((await ahead.api('PUT', 'P/secrets/A', { value: 'sealed' })).status < 300);
    await appendFile(ahead.ctx.config.masterKeyFile, `2:${randomBytes(32).toString('base64')}\n`);
    await until(
      async () =>
        (await reasonOf(ahead)) === '' && versions((await ahead.api('GET', '/api/v1/keys')).body).length === 2,
    );
    const early = await rotated(behind);
    assert.deepEqual(
      [early['rotation']?.['toVersion'], early['rotation']?.['retired']],
      [1, []],
      'nothing is done, and nothing is lost',
    );
    assert.equal(await reasonOf(ahead), '');
    assert.ok((await ahead.api('PUT', 'P/secrets/B', { value: 'sealed' })).status < 300);
    await writeFile(behind.ctx.config.masterKeyFile, await readFile(ahead.ctx.config.masterKeyFile));
    await until(async () => (await reasonOf(behind)) === '');
    const late = await rotated(behind);
    assert.deepEqual(late['rotation']?.['retired'], [1]);
    assert.deepEqual(versions(late), [
      [1, 'retired'],
      [2, 'current'],
    ]);
  });
});
