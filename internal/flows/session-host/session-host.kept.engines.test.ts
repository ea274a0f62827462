// Work of sessions in boxes that survives its engine: kept when its daemon stops, put back by another one on an engine that
// has never seen it, with build steps and mounts; and setup without paths, kept on images whose programs are small ones. No
// secret is in an image, a snapshot or an archive. Precondition: root, dockerd and podman (`make test-engines` installs).

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { lacking, startEngine, testImage, type TestEngine } from '../../adapters/engine/engine-testkit.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

const missing = lacking('docker') ?? lacking('podman');
const canary = `canary-${randomBytes(24).toString('hex')}`;

for (const [from, to] of [
  ['docker', 'podman'],
  ['podman', 'docker'],
] as const) {
  describe(`the work of a session, from ${from} to ${to}`, { skip: missing !== null && missing }, () => {
    let engines: readonly TestEngine[] = [];
    let owner: TestDaemon;
    let server: GitServer;
    let dir: string;
    const benches: HostBench[] = [];
    before(async () => {
      dir = await mkdtemp(join(tmpdir(), 'svc-kept-'));
      const repository = await GitFixture.create(join(dir, 'acme', 'widgets.git'));
      await repository.commit({ 'a.txt': 'mounted\n' });
      server = await new GitServer({ root: dir }).start();
      engines = [await startEngine(from), await startEngine(to)];
      // Holds the database and the keys, and runs no sessions.
      owner = await startTestDaemon({ config: { roles: ['api', 'route', 'schedule'] } });
    });
    after(async () => {
      for (const bench of benches) await bench.stop();
      await owner?.stop();
      for (const engine of engines) await engine.stop();
      await server?.stop();
      await rm(dir, { recursive: true, force: true });
    });
    const start = async (engine: TestEngine): Promise<HostBench> => {
      const dataDir = join(dir, engine.name);
      await mkdir(dataDir);
      const { database, token, ctx } = owner;
      const sandboxes = {
        gitBaseUrl: new URL(server.url('')).origin,
        docker: { socket: engine.socket },
        presets: { base: { image: testImage } },
        snapshots: { maxMB: 8 },
      };
      const bench = await createHostBench({
        database,
        token,
        dataDir,
        config: {
          masterKeyFile: ctx.config.masterKeyFile,
          sandbox: 'docker',
          allowPrivateNetwork: true,
          roles: ['api', 'session'],
          file: { sandboxes },
        },
      });
      benches.push(bench);
      return bench;
    };
    const said = async (bench: HostBench, session: string, script: string): Promise<string> => {
      const word = `.${randomBytes(4).toString('hex')}.`;
      const before = (await bench.view(session)).said.length;
      await bench.send(session, `!exec ${script}\n!say ${word}`);
      const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes(word));
      return view.said.slice(before);
    };
    const stages = async (bench: HostBench, session: string): Promise<(string | undefined)[]> => {
      const { body } = await bench.view(session);
      const all = body['provisioning'] as unknown as { stage: string; name?: string; cache?: string }[];
      return all.flatMap(({ stage, name, cache }) => (stage === 'setup' ? [`${name} ${cache}`] : []));
    };
    /** Whether the bytes are in a file below a directory. */
    const holds = async (path: string): Promise<string[]> => {
      const all = await readdir(path, { recursive: true, withFileTypes: true });
      const found: string[] = [];
      for (const one of all.filter((entry) => entry.isFile())) {
        const file = join(one.parentPath, one.name);
        if ((await readFile(file)).includes(canary)) found.push(file);
      }
      return found;
    };
    const imagesOf = async (engine: TestEngine): Promise<string[]> => {
      const { body } = await engine.api('GET', '/v1.41/images/json');
      const names = (body as { RepoTags: string[] | null }[]).flatMap(({ RepoTags }) => RepoTags ?? []);
      return names.filter((name) => name.includes('svc-image-'));
    };

    it('goes on where nobody has seen it, with its steps, its mounts and what it has written', async () => {
      const first = await start(engines[0] as TestEngine);
      const put = await first.daemon.api('PUT', 'P/secrets/token', { value: canary });
      assert.ok(put.status < 300, JSON.stringify(put.body));
      const environment = {
        name: 'kept',
        image: { kind: 'preset', name: 'base' },
        steps: ['echo built > /usr/built; mkdir -p $HOME/.tool; echo tool > $HOME/.tool/x'],
        setup: [
          {
            name: 'made',
            commands: ['echo made > $HOME/.made; mkdir -p deep/er; echo "${#TOKEN}" > deep/er/n; ln -s er deep/link'],
            cache: { key: 'k' },
          },
        ],
        env: { TOKEN: { $secret: 'token' } },
      };
      const mounts = [{ kind: 'git', repository: 'acme/widgets', mountPath: '/srv/repo', auth: { kind: 'none' } }];
      await first.apply({ a: { environment, mounts } });
      const session = await first.start('a', '!say ready.');
      await first.until(session, ({ state, said }) => state === 'idle' && said.includes('ready.'));
      const look = 'cat /usr/built ~/.tool/x ~/.made deep/link/n /srv/repo/a.txt';
      const there = `built\ntool\nmade\n${canary.length}\nmounted\n`;
      assert.match(await said(first, session, look), new RegExp(`^${there}`));
      await said(first, session, 'echo mine > ~/mine; echo work > w; echo edited > /srv/repo/new; rm ~/.tool/x');
      // Opened again in a new box: its mounts are only on its volume then.
      const { body } = await (engines[0] as TestEngine).api('GET', '/v1.41/containers/json');
      const box = (body as { Id: string; Labels: Record<string, string> }[]).find(
        ({ Labels }) => Labels['svc/session'] === session,
      );
      await (engines[0] as TestEngine).api('DELETE', `/v1.41/containers/${box?.Id}?force=true`);
      assert.match(await said(first, session, 'cat ~/mine w /srv/repo/new'), /^.*mine\nwork\nedited\n/s);

      const other = await first.start('a', `!exec ${look}\n!say ready.`);
      const view = await first.until(other, ({ state, said }) => state === 'idle' && said.includes('ready.'));
      assert.match(view.said, new RegExp(there));
      assert.deepEqual(await stages(first, other), ['image hit', 'made hit']);

      await first.stop();
      benches.length = 0;
      const { rows } = await owner.ctx.db.query<{ session: string }>(
        'select session_id::text as session from svc.session_snapshots order by 1',
      );
      assert.deepEqual(
        rows.map((row) => row.session),
        [session, other].sort(),
      );
      const second = await start(engines[1] as TestEngine);
      const again = await said(
        second,
        session,
        'cat ~/mine w /srv/repo/new /srv/repo/a.txt /usr/built ~/.made deep/link/n; ls ~/.tool',
      );
      assert.match(again, new RegExp(`mine\nwork\nedited\nmounted\nbuilt\nmade\n${canary.length}\n`));
      // What it has removed is not there again from the image.
      assert.doesNotMatch(again, /\nx\n/);
    });

    it('no secret is in an image, a snapshot or an archive', async () => {
      for (const engine of engines) {
        const names = await imagesOf(engine);
        assert.equal(names.length, 1, engine.name);
        const { status, body } = await engine.api('GET', `/v1.41/images/${names[0]}/get`);
        assert.deepEqual(
          [status, String(body).includes('.svc-home'), String(body).includes(canary)],
          [200, true, false],
        );
      }
      const { rows } = await owner.ctx.db.query<{ pieces: Buffer }>(
        "select string_agg(piece, ''::bytea) as pieces from svc.session_snapshot_pieces",
      );
      const pieces = rows[0]?.pieces ?? Buffer.alloc(0);
      assert.ok(pieces.length > 200);
      assert.equal(pieces.includes(canary), false);
      assert.deepEqual(await holds(dir), []);
    });
  });
}
