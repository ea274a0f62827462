// Sessions of a real daemon in boxes of a real engine (docs/reference/sessions.md#engines), with the scripted agent. One
// daemon and one engine for all. Precondition: root, and dockerd of the distribution; `make test-engines` installs it.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { lacking, startEngine, testImage, type TestEngine } from '../../adapters/engine/engine-testkit.ts';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { eventually } from './host-crash-testkit.ts';
import { createHostBench, type HostBench, type TurnView } from './host-testkit.ts';
import { judged, type Judged, judgeBothWays } from './refusals-testkit.ts';

const missing = lacking('docker');

const onEngines: readonly Judged[] = [
  {
    what: 'a preset without an image',
    environment: { image: { kind: 'preset', name: 'bare' } },
    apply: ['preset-image', 'environment.image.name'],
    launch: /^Preset bare has no image: set sandboxes\.presets\.bare\.image$/,
  },
  {
    what: 'a colon, which engines write between the paths of a mount',
    agent: {
      mounts: [{ kind: 'git', repository: 'acme/widgets', mountPath: '/srv/a:b', auth: { kind: 'none' } }],
    },
    apply: ['invalid-value', 'mounts[0].mountPath'],
    launch: /^Mount \/srv\/a:b: engines take no path with a colon$/,
  },
];

/** Another image while the tests run. */
const movedImage = 'svc-moved:latest';

describe('sessions on an engine', { skip: missing !== null && missing }, () => {
  let engine: TestEngine;
  let bench: HostBench;
  let server: GitServer;
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'svc-mounted-'));
    const repository = await GitFixture.create(join(dir, 'acme', 'widgets.git'));
    await repository.commit({ 'a.txt': 'one\n' });
    server = await new GitServer({ root: dir }).start();
    engine = await startEngine('docker');
    await engine.tag(testImage, movedImage);
    const config = {
      sandbox: 'docker',
      allowPrivateNetwork: true,
      file: {
        sandboxes: {
          gitBaseUrl: new URL(server.url('')).origin,
          snapshots: { maxMB: 0 },
          docker: { socket: engine.socket, fence: 'required' },
          presets: {
            base: { image: testImage },
            node24: { image: testImage },
            moved: { image: movedImage },
            gone: { image: '127.0.0.1:1/none:x' },
            bare: {},
            plain: { provider: 'process' },
          },
        },
      },
    } as const;
    bench = await createHostBench({ config });
    const environment = (name: string, more: object = {}) => ({
      environment: { name, image: { kind: 'preset', name }, ...more },
    });
    await bench.apply({
      inside: environment('node24', {
        steps: ['echo built > /usr/built'],
        env: { PLAIN: 'word' },
        resources: { memoryMB: 512, cpuCount: 1 },
      }),
      moved: environment('moved', {
        steps: ['echo built > /usr/built'],
        setup: [{ name: 'made', commands: ['echo made > ~/made'], cache: { key: 'v1', paths: ['/home/user/made'] } }],
      }),
      gone: environment('gone'),
      plain: environment('plain'),
    });
  });
  after(async () => {
    await bench?.stop();
    await engine?.stop();
    await server?.stop();
    await rm(dir, { recursive: true, force: true });
  });
  const run = async (agent: string, script: string) => {
    const session = await bench.start(agent, `!exec ${script}\n!say .the-end.`);
    const view = await bench.until(
      session,
      ({ state, said }) => state === 'failed' || (state === 'idle' && said.endsWith('.the-end.')),
    );
    return { session, view };
  };

  /** Ends a session, and waits for the end of its volume. */
  const goneSoon = async (session: string): Promise<void> => {
    const archived = await bench.daemon.api('POST', `P/sessions/${session}/archive`, {});
    assert.equal(archived.status, 200);
    let status = 200;
    for (let tries = 0; tries < 300 && status !== 404; tries += 1) {
      await sleep(100);
      ({ status } = await engine.api('GET', `/v1.41/volumes/svc-${session}`));
    }
    assert.equal(status, 404);
  };

  it('run in the image of their preset, fenced, with their steps, and are recorded with its digest', async () => {
    const { view, session } = await run('inside', 'cat /etc/os-release /usr/built; id -u; pwd; echo $PLAIN');
    assert.match(view.said, /^NAME=svc-test\nID=svc-test\nbuilt\n1000\n\/workspace\nword\n/, JSON.stringify(view.body));
    const sandbox = view.body['sandbox'] as unknown as { [key: string]: unknown };
    assert.match(String(sandbox['digest']), /^sha256:[0-9a-f]{64}$/);
    assert.match(String(sandbox['runtime']), /^Docker \d/);
    const { provider, isolation, image, fenced, notEnforced } = sandbox;
    assert.deepEqual([provider, isolation, image, fenced, notEnforced], ['docker', 'container', testImage, true, []]);
    assert.equal(view.body['wire'], 'ok');
    const { body } = await engine.api(
      'GET',
      `/v1.41/containers/json?filters=${encodeURIComponent(JSON.stringify({ label: [`svc/session=${session}`] }))}`,
    );
    const [box] = body as { Id: string; Names: string[]; Labels: Record<string, string> }[];
    assert.equal(box?.Names[0], `/svc-${session}-${box?.Labels['svc/epoch']}`);
    const again = await run('inside', 'cat /usr/built');
    const stages = again.view.body['provisioning'] as unknown as { stage: string; cache?: string }[];
    assert.deepEqual(
      stages.filter(({ stage }) => stage === 'setup').map(({ cache }) => cache),
      ['hit'],
    );
  });

  it('run their steps and setup again where the tag of their image is moved, and find both else', async () => {
    const seen = async () => {
      const { view } = await run('moved', 'cat /usr/built ~/made');
      assert.match(view.said, /^built\nmade\n/, JSON.stringify(view.body));
      const all = view.body['provisioning'] as unknown as { stage: string; name?: string; cache?: string }[];
      const steps = all.flatMap(({ stage, name, cache }) => (stage === 'setup' ? [`${name} ${cache}`] : []));
      return { steps, digest: (view.body['sandbox'] as unknown as { digest: string }).digest };
    };
    const first = await seen();
    assert.deepEqual(first.steps, ['image miss', 'made miss']);
    assert.deepEqual(await seen(), { ...first, steps: ['image hit', 'made hit'] });
    const { body } = await engine.api('POST', '/v1.41/containers/create', { Image: testImage, Cmd: ['true'] });
    const made = await engine.api(
      'POST',
      `/v1.41/commit?container=${(body as { Id: string }).Id}&repo=svc-moved&tag=latest`,
      {},
    );
    assert.equal(made.status, 201);
    const digest = (made.body as { Id: string }).Id;
    assert.notEqual(digest, first.digest);
    assert.deepEqual(await seen(), { ...first, digest });
  });

  it('keep home and work when their box is gone, and go on', async () => {
    const { session } = await run('inside', 'echo kept > ~/file');
    const { body } = await engine.api(
      'GET',
      `/v1.41/containers/json?filters=${encodeURIComponent(JSON.stringify({ label: [`svc/session=${session}`] }))}`,
    );
    const [box] = body as { Id: string }[];
    await engine.api('DELETE', `/v1.41/containers/${box?.Id}?force=true`);
    await bench.send(session, '!exec cat ~/file\n!say .again.');
    const view = await bench.until(session, ({ said }) => said.endsWith('.again.'));
    assert.match(view.said, /kept\n.*\.again\.$/s);
    await goneSoon(session);
  });

  it('leave nothing behind within thirty seconds of their end, also where none of them runs here', async () => {
    const { session } = await run('inside', 'true');
    const filters = encodeURIComponent(JSON.stringify({ label: [`svc/session=${session}`] }));
    const { body } = await engine.api('GET', `/v1.41/containers/json?filters=${filters}`);
    const [box] = body as { Id: string }[];
    await engine.api('DELETE', `/v1.41/containers/${box?.Id}?force=true`);
    await bench.until(session, (view) => view.body['loaded'] === (false as never));
    assert.equal((await engine.api('GET', `/v1.41/volumes/svc-${session}`)).status, 200);
    await goneSoon(session);
  });

  it('are suspended in the words of the engine that ends their box, go on, and fail after three times', async () => {
    const session = await bench.start('inside', '!say ready');
    await bench.until(session, ({ state, said }) => state === 'idle' && said === 'ready');
    await bench.send(session, '!exec sleep 600');
    const filters = encodeURIComponent(JSON.stringify({ label: [`svc/session=${session}`] }));
    const seen = new Set<string>();
    for (const time of [1, 2, 3]) {
      await bench.until(session, ({ state }) => state === 'running');
      const { body } = await engine.api('GET', `/v1.41/containers/json?filters=${filters}`);
      const [box] = body as { Id: string }[];
      assert.ok(box !== undefined && !seen.has(box.Id));
      seen.add(box.Id);
      await engine.api('DELETE', `/v1.41/containers/${box.Id}?force=true`);
      let lost: readonly TurnView[] = [];
      await eventually('its turn is lost', async () => {
        lost = (await bench.turns(session)).filter(({ error }) => error !== null);
        return lost.length === time;
      });
      assert.match(lost.at(-1)?.error ?? '', /^its engine has ended its sandbox: the box (was removed|ended)/);
    }
    const view = await bench.until(session, ({ state }) => state === 'failed');
    assert.match(view.reason ?? '', /^its engine has ended its sandbox: .*, 3 times within ten minutes$/);
  });

  it('fail in the words of what is wrong, or wait for the engine and say so', async () => {
    const gone = await bench.start('gone', 'x');
    const waiting = await bench.until(
      gone,
      ({ state, body }) => state === 'queued' && body['engineReason'] !== undefined,
    );
    assert.deepEqual([waiting.reason, waiting.body['engineReason']], ['engine', 'pull-failed']);
    assert.match(
      String(waiting.body['reasonText']),
      /^pull-failed: The image 127\.0\.0\.1:1\/none:x could not be pulled/,
    );
    const { view } = await run('plain', 'true');
    assert.equal((view.body['sandbox'] as unknown as { provider: string }).provider, 'process');
  });

  it('are refused at apply where a launch would be, and come up where apply takes them', async () => {
    await judgeBothWays(bench, [...judged, ...onEngines]);
    const more = { resources: { cpuCount: 4_096 } };
    await bench.apply({ many: { environment: { name: 'many', image: { kind: 'preset', name: 'base' }, ...more } } });
    const session = await bench.start('many', 'x');
    const failed = await bench.until(session, ({ state }) => state === 'failed');
    assert.match(String(failed.reason), /^pod-rejected: .*CPUs/i);
  });

  it('are told of by the API: the engine, its version, and each capability', async () => {
    const { body } = await bench.daemon.api('GET', '/api/v1/sandbox');
    const [first] = body['providers'] as unknown as {
      provider: string;
      version: string;
      runtimes: string[];
      capabilities: { isolation: string };
    }[];
    assert.equal(first?.provider, 'docker');
    assert.match(String(first?.version), /^Docker/);
    assert.ok(first?.runtimes.includes('runc'));
    assert.equal(first?.capabilities.isolation, 'container');
  });
});
