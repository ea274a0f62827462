// A real registry of images on loopback for tests: the distribution's docker-registry, ended by its process id.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';

export interface TestRegistry {
  /** `127.0.0.1:<port>`: what names of its images begin with. */
  readonly host: string;
  /** Gives the address up; images stay, and `start` serves them again. */
  stop(): Promise<void>;
  /** `refuses`: nobody is let in who does not show who they are. */
  start(refuses?: boolean): Promise<void>;
  /** The digest of a tag's manifest, as the registry tells it. */
  digest(repository: string, tag: string): Promise<string>;
  remove(): Promise<void>;
}

const startMs = 30_000;

/** A port that nobody has now. */
async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

export async function makeRegistry(): Promise<TestRegistry> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-registry-'));
  const host = `127.0.0.1:${await freePort()}`;
  let end = async (): Promise<void> => undefined;
  const asked = (path: string) =>
    request(`http://${host}/v2/${path}`, {
      method: 'GET',
      headers: {
        accept: 'application/vnd.docker.distribution.manifest.v2+json,application/vnd.oci.image.manifest.v1+json',
      },
    });
  const start = async (refuses = false): Promise<void> => {
    await end();
    const config = join(dir, 'config.yml');
    const storage = `storage: {filesystem: {rootdirectory: ${join(dir, 'images')}}}\n`;
    // Whose password nobody has.
    writeFileSync(join(dir, 'passwords'), `nobody:$2y$05$${'a'.repeat(53)}\n`);
    const auth = refuses ? `auth: {htpasswd: {realm: test, path: ${join(dir, 'passwords')}}}\n` : '';
    writeFileSync(config, `version: 0.1\nlog: {level: error}\n${storage}${auth}http: {addr: "${host}"}\n`);
    const child = spawn('docker-registry', ['serve', config], {
      stdio: 'ignore',
      env: { OTEL_TRACES_EXPORTER: 'none' },
    });
    end = async () => {
      end = async () => undefined;
      if (child.exitCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    };
    for (let waitedMs = 0; waitedMs < startMs && child.exitCode === null; waitedMs += 50) {
      const status = await asked('').then(
        async ({ statusCode, body }) => (await body.dump(), statusCode),
        () => 0,
      );
      if (status === (refuses ? 401 : 200)) return;
      await sleep(50);
    }
    await end();
    throw new Error('the registry does not come up');
  };
  await start();
  return {
    host,
    start,
    stop: () => end(),
    async digest(repository, tag) {
      const { headers, body } = await asked(`${repository}/manifests/${tag}`);
      await body.dump();
      return String(headers['docker-content-digest']);
    },
    async remove() {
      await end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
