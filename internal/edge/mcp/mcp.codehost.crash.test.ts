// A daemon that is killed around a write: never sent twice, never silently lost.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CodehostSimulator } from '../../base/testkit/codehost-simulator.ts';
import type { Api } from '../../base/testkit/daemon.ts';
import { type CrashBench, createCrashBench, eventually } from '../../flows/session-host/host-crash-testkit.ts';
import { appKey, appPublicKey } from './codehost-testkit.ts';

describe('a daemon that is killed around a write', () => {
  let sim: CodehostSimulator;
  let bench: CrashBench;
  let dir: string;
  let env: { readonly [name: string]: string };
  let repo: Awaited<ReturnType<CodehostSimulator['repository']>>;
  before(async () => {
    sim = await new CodehostSimulator({ appPublicKey }).start();
    repo = await sim.repository('acme/app');
    bench = await createCrashBench('process');
    dir = await mkdtemp(join(tmpdir(), 'svc-crash-codehost-'));
    const file = join(dir, 'svc.yaml');
    await writeFile(file, JSON.stringify({ providers: { codehost: { writeSpacingMs: 0 } } }));
    env = { SVC_CONFIG: file, SVC_ALLOW_PRIVATE_NETWORK: 'true', SVC_ROLES: 'api,route,schedule' };
  });
  after(async () => {
    await bench.remove();
    await sim.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const prepare = async (api: Api): Promise<void> => {
    await api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'code',
      config: { apiUrl: sim.origin, appId: '1', installationId: '1', botLogin: 'svc-app[bot]' },
      credentials: { webhookSecret: 'a-secret-of-the-hook', privateKey: appKey },
    });
    const spec = {
      name: 'worker',
      harness: 'harness-a',
      environment: { name: 'base', image: { kind: 'preset', name: 'base' } },
      tools: { code: { kind: 'codehost' } },
      mounts: [{ kind: 'git', repository: 'acme/app', mountPath: '/workspace/app', auth: { kind: 'codehostApp' } }],
    };
    const files = [{ path: '.svc/agents/worker.yaml', content: JSON.stringify(spec) }];
    assert.equal((await api('POST', 'P/apply', { files })).status, 200);
  };
  /** Sits in a new session; calls a tool, and does not wait for what the daemon cannot say any more. */
  const sit = async (url: string, api: Api) => {
    const session = String((await api('POST', 'P/agents/worker/sessions', { message: 'go' })).body['id']);
    const token = randomBytes(32).toString('base64url');
    const hash = createHash('sha256').update(token).digest();
    await bench.database.db.query('update svc.sessions set token_hash = $2::bytea where id = $1::uuid', [
      session,
      hash,
    ]);
    const call = (name: string, input: object) =>
      fetch(`${url}/api/v1/sessions/${session}/mcp/code`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } }),
      }).then(
        (answer) => answer.text(),
        () => undefined,
      );
    return { session, call };
  };

  it('leaves a row that another one ends: not-sent, done or unknown, as it was', async () => {
    const first = await bench.start('b', env);
    await prepare(first.api);
    const points = ['outbox.opened', 'outbox.handed', 'outbox.answered', 'sending'] as const;
    const sessions = new Map<string, string>();
    for (const point of points) {
      const { daemon, api } = await bench.start(point, {
        ...env,
        ...(point !== 'sending' && { SVC_FAILPOINT: point }),
      });
      const { url } = await daemon.ready;
      const { session, call } = await sit(url, api);
      sessions.set(point, session);
      const input = { owner: 'acme', repo: 'app', method: 'create', title: point, body: 'x', idempotencyKey: 'k' };
      if (point === 'sending') {
        // In the middle: the code host has the request, and nobody is there for the answer.
        sim.fault = ({ operation }) =>
          operation === 'POST /repos/{owner}/{repo}/issues' ? { kind: 'slow', delayMs: 1_000 } : null;
        const calling = call('issue_write', input);
        await eventually('it was sent', () =>
          sim.log.some((one) => (one.body as { title?: string } | undefined)?.title === point),
        );
        await daemon.kill('SIGKILL');
        await calling;
        sim.fault = () => null;
      } else await call('issue_write', input);
      await daemon.exited;
    }
    const rows = async (): Promise<{ status: string; code?: string; url?: string }[]> =>
      Promise.all(
        points.map(async (point) => {
          const { body } = await first.api('GET', `P/sessions/${sessions.get(point)}/calls`);
          const [row, ...others] = body['items'] as unknown as { status: string; code?: string; url?: string }[];
          assert.equal(others.length, 0);
          return row ?? assert.fail(point);
        }),
      );
    await eventually('every row has ended', async () => (await rows()).every((one) => one.status !== 'sending'));
    const ended = (await rows()).map(({ status, code }) => [status, code]);
    assert.deepEqual(ended, [
      ['refused', 'not-sent'],
      ['unknown', 'outcome-unknown'],
      ['done', undefined],
      ['done', undefined],
    ]);
    const titles = [...repo.issues.values()].map((one) => one.title);
    assert.deepEqual(titles, ['outbox.answered', 'sending'], 'each is there as often as was told');
    assert.match((await rows())[2]?.url ?? '', /\/issues\/1$/);
  });
});
