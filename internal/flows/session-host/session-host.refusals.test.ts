// Apply refuses what a launch would refuse, as far as it can be known, and what apply takes comes up: one table judged both
// ways (docs/reference/compile.md#environments). Precondition: namespaces can be made here.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findProgram } from '../../adapters/sandbox/sandbox.ts';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';
import { judged, type Judged, judgeBothWays } from './refusals-testkit.ts';

const here = await findProgram('bwrap', process.env['PATH'] ?? '');
const secrets = (a: string, b: string) => ({ env: { A: { $secret: a }, B: { $secret: b } } });

const settings: readonly Judged[] = [
  {
    what: 'more processors than the preset allows',
    environment: { resources: { cpuCount: 3 }, image: { kind: 'preset', name: 'small' } },
    apply: ['resources-over-limit', 'environment.resources.cpuCount'],
    launch: /^The environment asks for cpuCount 3; its preset and project allow 2\.$/,
  },
  {
    what: 'more memory than the project allows',
    environment: { resources: { memoryMB: 8_193 } },
    apply: ['resources-over-limit', 'resources.memoryMB'],
    launch: /^The environment asks for memoryMB 8193; its preset and project allow 8192\.$/,
  },
  {
    what: 'as much as the preset and the project allow',
    environment: { resources: { cpuCount: 2, memoryMB: 2_048 }, image: { kind: 'preset', name: 'small' } },
    apply: null,
  },
  {
    what: 'a preset of an engine that has no image for it, and is away',
    environment: { image: { kind: 'preset', name: 'boxed' } },
    apply: ['preset-image', 'environment.image.name'],
    launch: /^Preset boxed has no image: set sandboxes\.presets\.boxed\.image$/,
  },
  {
    what: 'two injected secrets that claim one header of one host',
    agent: secrets('one', 'two'),
    apply: ['injection-conflict', 'env.B'],
    warns: true,
    launch: /^Injected secrets one and two both claim header x-key of host in\.test$/,
  },
  {
    what: 'an injected secret whose host is not in the list',
    agent: secrets('far', 'one'),
    apply: ['injection-host', 'env.A'],
    warns: true,
    launch:
      /^Injected secret far: its host out\.test is not among those that the session may reach \(network\.allow\)$/,
  },
  {
    what: 'injected secrets that claim different headers',
    agent: secrets('one', 'other'),
    apply: null,
  },
  {
    what: 'a secret that is not there',
    agent: { env: { A: { $secret: 'absent' } } },
    apply: ['secret-missing', 'env.A'],
    launch: /^Secret not found: absent$/,
  },
];

describe('what a launch refuses', { skip: here === null && 'no bubblewrap on this machine' }, () => {
  let bench: HostBench;
  let server: GitServer;
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'svc-refusals-'));
    const repository = await GitFixture.create(join(dir, 'acme', 'widgets.git'));
    await repository.commit({ 'a.txt': 'one\n' });
    server = await new GitServer({ root: dir }).start();
    const sandboxes = {
      gitBaseUrl: new URL(server.url('')).origin,
      docker: { socket: join(dir, 'no-engine.sock') },
      presets: { small: { limits: { cpuCount: 2 } }, boxed: { provider: 'docker' } },
      network: { allow: ['in.test', '*.in.test'] },
      snapshots: { maxMB: 0 },
    };
    bench = await createHostBench({
      config: { sandbox: 'bubblewrap', allowPrivateNetwork: true, file: { sandboxes } },
    });
    const { api } = bench.daemon;
    const injection = (host: string, header: string) => ({ hosts: [host], header });
    const values = {
      one: injection('in.test', 'X-Key'),
      two: injection('in.test', 'x-key'),
      other: injection('in.test', 'authorization'),
      far: injection('out.test', 'x-far'),
    };
    for (const [name, of] of Object.entries(values)) {
      const put = await api('PUT', `P/secrets/${name}`, { value: `value-of-${name}`, injection: of });
      assert.ok(put.status < 300, JSON.stringify(put.body));
    }
    const changed = await api('PATCH', 'P', { limits: { memoryMB: 8_192 } });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
  });
  after(async () => {
    await bench?.stop();
    await server?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it('apply refuses at the place that is wrong, and what apply takes comes up', async () => {
    await judgeBothWays(bench, [...judged, ...settings]);
  });

  it('a list of hosts that no session could go by is refused where it is set', async () => {
    const wrong = [
      'https://a.test',
      'a.test/path',
      '*',
      '*.',
      'a.*.test',
      'a.test:0',
      'a.test:65536',
      'A.test',
      '@none',
      '',
    ];
    for (const entry of wrong) {
      const { status } = await bench.daemon.api('PATCH', 'P', { network: { allow: [entry] } });
      assert.ok(status === 400 || status === 422, `${entry}: ${status}`);
    }
    const forms = ['a.test', 'a.test:8443', '*.a.test', '*.a.test:1', '@npm', '127.0.0.1:80', '[::1]:443'];
    const { status, body } = await bench.daemon.api('PATCH', 'P', { network: { allow: forms } });
    assert.equal(status, 200, JSON.stringify(body));
  });
});
