// Docker and Podman as they are reached and fed: over TLS with certificates of both sides, with images of a real registry on
// this machine, and with limits that hold for all programs of a box together.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it, type TestContext } from 'node:test';
import { makeCertificates } from '../../../testdata/kubernetes/certificates.ts';
import { DockerEngine, EngineError } from './engine.ts';
import { type TestEngine, lacking, startEngine, testImage } from './engine-testkit.ts';
import { makeRegistry, type TestRegistry } from './registry-testkit.ts';
import type { BoxSpec } from './types.ts';

const refused = (code: string, words: RegExp) => (error: unknown) => {
  assert.ok(error instanceof EngineError, String(error));
  assert.deepEqual([error.code, words.test(error.message)], [code, true], error.message);
  return true;
};

for (const name of ['docker', 'podman'] as const) {
  const missing = lacking(name);
  describe(`images for ${name}`, { skip: missing !== null && missing }, () => {
    let registry: TestRegistry;
    let engine: TestEngine;
    let docker: DockerEngine;
    before(async () => {
      registry = await makeRegistry();
      engine = await startEngine(name, { registry: registry.host });
      docker = new DockerEngine({ socket: engine.socket });
    });
    after(async () => {
      await docker?.close();
      await engine?.stop();
      await registry?.remove();
    });
    const repository = (): string => `${registry.host}/team/app`;

    it('come by tag and by digest, and a tag that was moved meanwhile changes no launch that has begun', async () => {
      const digests: string[] = [];
      for (const [index, text] of ['one', 'two'].entries()) {
        await engine.importText(`${repository()}:${text}`, text);
        await engine.push(`${repository()}:${text}`);
        digests[index] = await registry.digest('team/app', text);
        await engine.removeImage(`${repository()}:${text}`);
      }
      const [first = '', second = ''] = digests;
      assert.notEqual(first, second);
      const byDigest = await docker.resolve(`${repository()}@${first}`);
      assert.equal(byDigest.digest, first);
      const byTag = await docker.resolve(`${repository()}:two`);
      assert.equal(byTag.digest, second);
      // What a launch was given names the content, and not the tag.
      assert.match(byTag.reference, /^sha256:[0-9a-f]{64}$/);
      await engine.tag(byDigest.reference, `${repository()}:two`);
      const moved = await docker.resolve(`${repository()}:two`);
      assert.equal(moved.reference, byDigest.reference);
      assert.notEqual(moved.reference, byTag.reference);
    });

    it('that are missing, refused or out of reach are told in their words', async () => {
      const none = `sha256:${'0'.repeat(64)}`;
      for (const image of [`${repository()}:none`, `${repository()}@${none}`, `${registry.host}/nobody/none:x`])
        await assert.rejects(docker.resolve(image), refused('image-missing', /could not be pulled|has no image/));
      for (const image of ['UPPER/case:x', '-x', 'a b', '../x', ''])
        await assert.rejects(
          docker.resolve(image),
          refused('image-missing', /cannot name an image|could not be pulled/),
        );
      await registry.start(true);
      await assert.rejects(docker.resolve(`${repository()}:other`), refused('image-refused', /could not be pulled/));
      await registry.stop();
      await assert.rejects(docker.resolve(`${repository()}:other`), refused('pull-failed', /could not be pulled/));
      // What the engine has needs no registry.
      assert.match((await docker.resolve(`${repository()}:two`)).digest, /^sha256:/);
    });
  });
}

const missing = lacking('docker');
describe('a box', { skip: missing !== null && missing }, () => {
  let engine: TestEngine;
  const certificates = makeCertificates();
  before(async () => {
    engine = await startEngine('docker', { tls: certificates });
  });
  after(() => engine?.stop());
  const open = (t: TestContext, more: object): DockerEngine => {
    const made = new DockerEngine({ host: engine.host ?? '', ...more });
    t.after(() => made.close());
    return made;
  };
  const { ca, clientCert: cert, clientKey: key } = certificates;
  const box = (session: string, image: BoxSpec['image'], more: Partial<BoxSpec> = {}): BoxSpec => ({
    owner: { installation: 'tls-test', session, epoch: 1 },
    image,
    argv: ['/bin/sh', '-c', 'sleep 300'],
    purpose: 'session',
    directories: [{ path: '/home/user' }, { path: '/workspace' }],
    readOnlyPaths: [],
    resources: {},
    fenced: true,
    ...more,
  });
  const output = async (docker: DockerEngine, ref: Awaited<ReturnType<DockerEngine['create']>>, script: string) => {
    const stream = await docker.wire(ref, ['/bin/sh', '-c', script]);
    let text = '';
    stream.on('data', (part: Buffer) => (text += part.toString()));
    await once(stream, 'close');
    return text;
  };

  it('is made, spoken with, listed and removed over TLS, with certificates of both sides', async (t) => {
    const docker = open(t, { tls: { ca, cert, key } });
    assert.match((await docker.probe()).version, /^Docker /);
    const ref = await docker.create(box('secure', await docker.resolve(testImage)));
    assert.equal(await output(docker, ref, 'id -u; cat /etc/os-release'), '1000\nNAME=svc-test\nID=svc-test\n');
    assert.deepEqual(
      (await docker.list('tls-test')).map(({ name, running }) => [name, running]),
      [['svc-secure-1', true]],
    );
    await docker.destroy(ref);
    await docker.removeVolume('tls-test', 'secure');
    assert.deepEqual(await docker.list('tls-test'), []);
  });

  it('is not given to who has no certificate, or another authority’s, and goes to no stranger', async (t) => {
    const other = makeCertificates();
    await assert.rejects(open(t, {}).probe(), EngineError);
    await assert.rejects(
      open(t, { tls: { ca, cert: other.clientCert, key: other.clientKey } }).probe(),
      refused('engine-unreachable', /does not answer/),
    );
    // An engine whose certificate another authority has signed is not spoken with.
    await assert.rejects(
      open(t, { tls: { ca: other.ca, cert, key } }).probe(),
      refused('engine-unreachable', /does not answer/),
    );
  });

  it('has limits of memory, processors and processes that hold for all its programs together', async (t) => {
    const docker = open(t, { tls: { ca, cert, key } });
    const image = await docker.resolve(testImage);
    const ref = await docker.create(box('limits', image, { resources: { memoryMB: 256, cpuCount: 1 } }));
    // Of its control groups, as the kernel has them: either kind.
    const of = (file: string, other: string) => `cat /sys/fs/cgroup/${file} 2>/dev/null || cat /sys/fs/cgroup/${other}`;
    const cpu = await output(
      docker,
      ref,
      'cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us',
    );
    assert.match(cpu, /^100000\s100000\s/);
    assert.equal((await output(docker, ref, of('pids.max', 'pids/pids.max'))).trim(), '4096');
    const memory = await output(docker, ref, of('memory.max', 'memory/memory.limit_in_bytes'));
    assert.equal(memory.trim(), String(256 * 1024 * 1024));
    // Each of the two is below the limit, and both together are over it.
    const hold = `node -e 'const a=[];for(let n=0;n<18;n++)a.push(Buffer.alloc(8<<20,1));setTimeout(()=>{},8000)'`;
    const kills = await output(
      docker,
      ref,
      `(${hold} & ${hold} & wait) 2>&1; (cat /sys/fs/cgroup/memory.events 2>/dev/null || cat /sys/fs/cgroup/memory/memory.oom_control) | grep '^oom_kill '`,
    );
    assert.match(kills, /oom_kill [1-9]/);
    await docker.destroy(ref);
    await docker.removeVolume('tls-test', 'limits');
  });
});
