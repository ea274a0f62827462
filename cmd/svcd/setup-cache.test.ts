import assert from 'node:assert/strict';
import { createSecretKey, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createSealer } from '../../internal/adapters/crypto/crypto.ts';
import { type Config, ConfigError } from '../../internal/base/config/config.ts';
import { createLog } from '../../internal/base/log/log.ts';
import type { HostPorts } from '../../internal/flows/session-host/session-host.ts';
import { openSetupCaches } from './setup-cache.ts';

const key = 'ab'.repeat(32);
const log = createLog('silent');
const now = new Date('2026-01-01T00:00:00Z');

function temporary(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'svc-shared-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

const configOf = (dataDir: string, setupCache: object, env: Readonly<Record<string, string>> = {}): Config =>
  ({
    dataDir,
    fileDir: '/etc/svc',
    file: { sandboxes: { setupCache } },
    secretEnv: (name: string) => env[name],
  }) as never;

const sealing = (master: Buffer) =>
  ({
    sealer: createSealer({ current: 1, byVersion: new Map([[1, createSecretKey(master)]]) }),
  }) as unknown as Parameters<HostPorts['setupCache']>[0];

test('what one daemon set up is another’s too, where they have one master key and within its time', async (t) => {
  const directory = join(temporary(t), 'shared');
  const master = randomBytes(32);
  const daemon = async (own: Buffer) => {
    const caches = openSetupCaches(configOf(temporary(t), { directory }), log);
    return { cache: await caches.open(sealing(own)), close: () => caches.close() };
  };
  const content = randomBytes(3_000_000);
  const first = await daemon(master);
  const archive = async function* () {
    yield content;
  };
  assert.equal(await first.cache.save(key, now, archive()), true);
  await first.close();
  const restored = async (own: Buffer, at = now, ttlMs: number | null = 3_600_000): Promise<Buffer | null> => {
    const { cache, close } = await daemon(own);
    let found: Buffer | null = null;
    const take = async (stream: AsyncIterable<Buffer>): Promise<boolean> => {
      found = Buffer.concat(await Array.fromAsync(stream));
      return true;
    };
    const isFound = await cache.restore(key, { now: at, ttlMs }, take);
    await close();
    return isFound ? found : null;
  };
  assert.deepEqual(await restored(master), content);
  assert.equal(await restored(randomBytes(32)), null);
  // As old as it was made, and not as when it was brought here.
  assert.equal(await restored(master, new Date(now.getTime() + 3_600_001)), null);
  assert.deepEqual(await restored(master, new Date(now.getTime() + 3_600_001), null), content);
});

test('a store whose keys are not there, or that is named twice, is no configuration', (t) => {
  const s3 = { endpoint: 'https://store.example', bucket: 'bucket' };
  const env = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'key' };
  const open = (setupCache: object, given = {}) => openSetupCaches(configOf(temporary(t), setupCache, given), log);
  const refused = (setupCache: object, words: RegExp, given = {}): void =>
    assert.throws(
      () => open(setupCache, given),
      (error: unknown) => error instanceof ConfigError && words.test(error.message),
    );
  assert.ok(open({ s3 }, env));
  refused({ s3 }, /^sandboxes\.setupCache\.s3\.accessKeyIdEnv cannot be used: AWS_ACCESS_KEY_ID is not set/);
  refused({ s3: { ...s3, secretAccessKeyFile: 'none' } }, /secretAccessKeyFile cannot be used: \/etc\/svc\/none /, env);
  refused({ s3, directory: 'shared' }, /takes a directory or s3/, env);
  refused({}, /takes a directory or s3/);
  refused({ s3: { ...s3, endpoint: 'https://id:key@store.example' } }, /endpoint cannot be used/, env);
  refused({ s3: { ...s3, bucket: '../x' } }, /bucket cannot be used/, env);
});
