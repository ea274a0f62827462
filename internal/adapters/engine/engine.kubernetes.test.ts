// The engine for clusters against the fake cluster of testdata/kubernetes, whose pods run for real: boxes, wires, events,
// refusals, images and pools, with the rights of the Role that deploy/ ships and no more.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { BRIDGE_ARGV } from '../../../testdata/kubernetes/echo.ts';
import { wrongs } from '../../../testdata/kubernetes/fields.ts';
import { Refusal } from '../../../testdata/kubernetes/store.ts';
import { kubeconfigAccess } from './kubernetes-access.ts';
import { KubernetesClient } from './kubernetes-client.ts';
import { claimManifest } from './kubernetes-claims.ts';
import { podManifest } from './kubernetes-pod.ts';
import {
  digestText,
  echoed,
  imageTable,
  installation,
  refused,
  roleRules,
  sandboxManifests,
  Scene,
  until,
  whyNoPods,
} from './kubernetes-testkit.ts';
import type { KubernetesEngine } from './kubernetes.ts';
import type { BoxEvent, BoxSpec } from './types.ts';

let scene: Scene;
let cluster: Scene['cluster'];
let engine: KubernetesEngine;

describe('Kubernetes', { skip: await whyNoPods() }, () => {
  before(async () => {
    scene = await Scene.start();
    cluster = scene.cluster;
    engine = await scene.open();
  });
  beforeEach(() => {
    cluster.fault = () => undefined;
    cluster.kubelet.unschedulable = undefined;
    cluster.quota = Number.POSITIVE_INFINITY;
  });
  after(() => scene.stop());

  test('the manifests of deploy/ and of a box are those of the published API', () => {
    for (const one of sandboxManifests)
      assert.deepEqual(wrongs(one, `V1${one.kind}`, `${one.kind} ${one.metadata.name}`), []);
    assert.deepEqual(wrongs(podManifest(scene.box(), { runtimeClass: 'gvisor' }), 'V1Pod', 'pod'), []);
    const labels = (box: Partial<BoxSpec>) => podManifest(scene.box(box), {}).metadata.labels;
    assert.deepEqual([labels({})['svc/wire'], labels({ dials: true })['svc/wire']], [undefined, 'dial']);
    const claimed = claimManifest(scene.box({ dials: true }), 'pool').spec.additionalPodMetadata.labels;
    assert.deepEqual([claimed['svc/fenced'], claimed['svc/wire']], ['true', 'dial']);
    // What a pod that dials is let out to, and nothing else of it.
    const policies = sandboxManifests.filter(({ kind }) => kind === 'NetworkPolicy').map(({ spec }) => spec);
    const [out] = policies.filter((spec) =>
      JSON.stringify(spec).includes('"podSelector":{"matchLabels":{"svc/wire":"dial"}},"policyTypes"'),
    );
    assert.deepEqual(
      (out as { egress: { ports: unknown }[] }).egress.map(({ ports }) => ports),
      [[{ protocol: 'TCP', port: 4410 }]],
    );
    assert.deepEqual(
      roleRules.flatMap(({ resources }) => resources).filter((one) => /secret|\*/.test(one)),
      [],
    );
  });

  test('the API server is among what no pod may reach, unless it is on loopback, which is another one in a pod', async () => {
    const access = kubeconfigAccess(await scene.kubeconfig());
    const around = async (server: string) => (await scene.open({ access: { ...access, server } })).around();
    assert.deepEqual(await around('https://10.96.0.1:6443'), [{ host: '10.96.0.1', port: 6443 }]);
    assert.deepEqual(await around('https://[fd00::1]'), [{ host: 'fd00::1', port: 443 }]);
    assert.deepEqual(await around(cluster.url), []);
    assert.deepEqual(await around('https://no-such-name.invalid'), []);
  });

  test('a box is made once, echoes over its wire, is listed, and ends', async () => {
    const stages: string[] = [];
    const box = scene.box({ onStage: (stage) => stages.push(stage) });
    const ref = await engine.create(box);
    assert.deepEqual(
      [ref.owner, ref.name, ref.running, ref.node],
      [box.owner, `svc-${box.owner.session}-1`, true, 'node-1'],
    );
    assert.equal(stages[0], 'scheduling');
    assert.deepEqual(await engine.create(box), ref);
    const [one, two] = await Promise.all([echoed(engine, ref, 'hello\n'), echoed(engine, ref, 'x'.repeat(200_000))]);
    assert.deepEqual([one, two.length], ['hello\n', 200_000]);
    assert.deepEqual(
      (await engine.list(installation, box.owner.session)).map(({ uid }) => uid),
      [ref.uid],
    );
    assert.deepEqual(await engine.list('another'), []);
    await engine.destroy({ ...ref, uid: 'another-uid' });
    assert.equal((await engine.list(installation, box.owner.session)).length, 1);
    await engine.destroy(ref);
    await engine.destroy(ref);
    assert.deepEqual(await engine.list(installation, box.owner.session), []);
  });

  test('programs are a user with no rights on a root that is read only, with what was asked for and no token', async () => {
    const box = scene.box();
    const ref = await engine.create(box);
    const asked = `
      const { writeFileSync, readFileSync } = require('node:fs');
      const tried = (path) => { try { writeFileSync(path, 'x'); return 'written'; } catch (error) { return error.code; } };
      const caps = /CapEff:\\s+(\\S+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1];
      console.log(JSON.stringify([process.getuid(), caps, tried('/etc/x'), tried('/home/user/x'), tried('/workspace/x'), tried('/tmp/x'),
        Object.keys(process.env).filter((name) => /token|secret|key/i.test(name))]));`;
    const wire = await engine.wire(ref, ['node', '-e', asked]);
    let text = '';
    for await (const part of wire) text += String(part);
    assert.deepEqual(JSON.parse(text), [1000, '0000000000000000', 'EROFS', 'written', 'written', 'written', []]);
    const { spec } = cluster.pod(ref.name);
    assert.deepEqual(
      [
        spec?.['automountServiceAccountToken'],
        spec?.['enableServiceLinks'],
        spec?.['restartPolicy'],
        spec?.['activeDeadlineSeconds'],
      ],
      // A session may be as old as it likes: its pod ends itself without its daemon.
      [false, false, 'Never', undefined],
    );
    await engine.destroy(ref);
  });

  test('a wire that is cut is made again, and the program that it spoke with has gone on', async () => {
    const ref = await engine.create(scene.box());
    const first = await engine.wire(ref, BRIDGE_ARGV);
    const closed = new Promise((resolve) => first.once('close', resolve));
    cluster.cutExecs();
    await closed;
    assert.equal(await echoed(engine, ref, 'again\n'), 'again\n');
    // A stream that nobody reads stops its sender, and not this process.
    const flood = await engine.wire(ref, ['node', '-e', "process.stdout.write('x'.repeat(24 << 20))"]);
    await sleep(300);
    assert.ok(flood.readableLength < 8 << 20, String(flood.readableLength));
    let bytes = 0;
    for await (const part of flood) bytes += (part as Buffer).length;
    assert.equal(bytes, 24 << 20);
    await engine.destroy(ref);
  });

  test('events tell that it runs and how it ended, over lists that are too old and watches that are cut', async () => {
    const ref = await engine.create(scene.box());
    const events: BoxEvent[] = [];
    const ended = (async () => {
      for await (const event of engine.events(ref, AbortSignal.timeout(30_000))) events.push(event);
    })();
    await until('it runs', () => events.length === 1);
    cluster.store.tick();
    cluster.store.compact();
    cluster.cutWatches();
    const wire = await engine.wire(ref, BRIDGE_ARGV);
    wire.on('error', () => undefined);
    wire.write('end\n');
    await ended;
    assert.deepEqual(events, [{ kind: 'running' }, { kind: 'ended', code: 7, oom: false, reason: 'Error' }]);
    await engine.destroy(ref);
    const last = async (act: (name: string) => unknown): Promise<BoxEvent | undefined> => {
      const box = await engine.create(scene.box());
      const told = (async () => {
        let found: BoxEvent | undefined;
        for await (const event of engine.events(box, AbortSignal.timeout(30_000))) found = event;
        return found;
      })();
      await act(box.name);
      const found = await told;
      await engine.destroy(box);
      return found;
    };
    assert.deepEqual(await last((name) => cluster.kubelet.outOfMemory(cluster.pod(name))), {
      kind: 'ended',
      code: 137,
      oom: true,
      reason: 'OOMKilled',
    });
    assert.deepEqual(
      await last((name) =>
        cluster.kubelet.evict(cluster.pod(name), 'Evicted', 'The node was low on resource: memory.'),
      ),
      { kind: 'evicted', reason: 'Evicted: The node was low on resource: memory.' },
    );
    const client = new KubernetesClient(kubeconfigAccess(await scene.kubeconfig()));
    assert.deepEqual(
      await last((name) => client.request({ method: 'DELETE', path: `/api/v1/namespaces/svc/pods/${name}` })),
      { kind: 'evicted', reason: 'somebody deleted the pod' },
    );
    await client.close();
  });

  test('each refusal has its word and the words of the cluster, and leaves no pod', async () => {
    const create = (over?: Partial<BoxSpec>) => engine.create(scene.box(over));
    const none = (reason: string, message: string): Partial<BoxSpec> => {
      const reference = `registry.example.com/x${scene.count()}@${digestText}`;
      cluster.kubelet.images.set(reference, { reason, message });
      return { image: { reference, digest: digestText } };
    };
    await assert.rejects(
      create(none('ErrImagePull', 'manifest unknown')),
      refused('image-missing', /manifest unknown/),
    );
    await assert.rejects(create(none('InvalidImageName', 'x')), refused('image-missing', /InvalidImageName/));
    await assert.rejects(
      create(none('ImagePullBackOff', '401 Unauthorized')),
      refused('image-refused', /Unauthorized/),
    );
    await assert.rejects(
      create(none('ErrImagePull', 'dial tcp: connection refused')),
      refused('pull-failed', /refused/),
    );
    await assert.rejects(create(none('CreateContainerError', 'no command')), refused('pod-rejected', /no command/));
    cluster.kubelet.unschedulable = '0/1 nodes are available: 1 Insufficient memory.';
    await assert.rejects(create(), refused('unschedulable', /Insufficient memory/));
    cluster.kubelet.unschedulable = undefined;
    cluster.quota = 0;
    await assert.rejects(create(), refused('quota-exceeded', /exceeded quota: pods/));
    cluster.quota = Number.POSITIVE_INFINITY;
    await assert.rejects(create({ resources: { cpuCount: Number.NaN } }), refused('pod-rejected', /quantities/));
    const words = 'admission webhook "policy.example.com" denied the request: no images of strangers';
    cluster.fault = (method) => (method === 'POST' ? new Refusal(403, 'Forbidden', words) : undefined);
    await assert.rejects(create(), refused('pod-rejected', /no images of strangers/));
    cluster.fault = (method) =>
      method === 'POST' ? new Refusal(503, 'ServiceUnavailable', 'etcd leader changed') : undefined;
    await assert.rejects(create(), refused('engine-unreachable', /leader changed/));
    cluster.fault = () => 'cut';
    await assert.rejects(create(), refused('engine-unreachable', /127\.0\.0\.1/));
    cluster.fault = () => undefined;
    const gvisor = await scene.open({ runtimeClass: 'gvisor' });
    await assert.rejects(gvisor.create(scene.box()), refused('runtime-missing', /RuntimeClass "gvisor" not found/));
    const elsewhere = await scene.open({ namespace: 'nowhere' });
    await assert.rejects(elsewhere.create(scene.box()), refused('engine-refused', /namespaces "nowhere" not found/));
    const given = AbortSignal.timeout(300);
    cluster.kubelet.unschedulable = 'never';
    await assert.rejects(create({ signal: given }), (error) => error === given.reason);
    await until('nothing is left', () => cluster.store.all('pods').length === 0);
  });

  test('a request whose answer is lost makes one pod; a pod of its name that has ended is replaced, a stranger’s is left', async () => {
    const box = scene.box();
    let cuts = 0;
    cluster.fault = (method) => (method === 'POST' && (cuts += 1) === 1 ? 'cut-after' : undefined);
    const ref = await engine.create(box);
    assert.equal(cuts, 2);
    assert.equal(cluster.store.all('pods').length, 1);
    await cluster.kubelet.outOfMemory(cluster.pod(ref.name));
    const next = await engine.create(box);
    assert.notEqual(next.uid, ref.uid);
    const other = { ...box, owner: { ...box.owner, installation: 'another' } };
    await assert.rejects(engine.create(other), refused('pod-rejected', /not of this session/));
    await engine.destroy(next);
    let busy = 0;
    cluster.fault = (method) =>
      method === 'POST' && (busy += 1) < 3
        ? new Refusal(busy === 1 ? 429 : 409, busy === 1 ? 'TooManyRequests' : 'Conflict', 'again')
        : undefined;
    await engine.destroy(await engine.create(box));
  });

  test('a tag is resolved by the cluster once for launches at once, a digest never', async () => {
    const tag = 'registry.example.com/node:24';
    cluster.kubelet.images.set(tag, `docker-pullable://registry.example.com/node@${digestText}`);
    const before = cluster.requests.length;
    assert.deepEqual(await Promise.all([engine.resolve(tag), engine.resolve(tag)]), [imageTable, imageTable]);
    const posts = cluster.requests.slice(before).filter((one) => one.startsWith('POST'));
    assert.equal(posts.length, 1);
    await until('its pod is gone', () => cluster.store.all('pods').length === 0);
    assert.deepEqual(await engine.resolve(imageTable.reference), imageTable);
    await assert.rejects(engine.resolve('registry.example.com/none:1'), refused('image-missing', /not found/));
  });

  test('a claim on a pool gives a box that stood ready; an empty or unlike pool goes cold at once', async () => {
    const tag = 'registry.example.com/warm:1';
    cluster.kubelet.images.set(tag, imageTable.reference);
    const pooled = await scene.open({ pools: { [tag]: 'warm' } });
    const image = await pooled.resolve(tag);
    const box = scene.box({ image });
    const spec = podManifest(box, {}).spec;
    const [container] = spec.containers;
    const resting = { ...container, name: 'main', command: ['/bin/sh', '-c', 'exec sleep 600'] };
    const template = { ...spec, containers: [resting] };
    await cluster.kubelet.addPool('warm', { spec: template as never, replicas: 1 });
    const stages: string[] = [];
    const ref = await pooled.create({ ...box, onStage: (stage) => stages.push(stage) });
    assert.match(ref.name, /^warm-/);
    assert.deepEqual(stages, ['claiming', 'starting']);
    assert.equal(await echoed(pooled, ref, 'warm\n'), 'warm\n');
    const claims = () => cluster.store.all('sandboxclaims.extensions.agents.x-k8s.io');
    assert.equal(claims().length, 1);
    assert.deepEqual(
      (await pooled.list(installation)).map(({ uid }) => uid),
      [ref.uid],
    );
    // Another daemon's engine finds the program of the pool's own container.
    const another = await scene.open({ pools: { [tag]: 'warm' } });
    assert.equal(await echoed(another, ref, 'again\n'), 'again\n');
    const cold = await pooled.create(scene.box({ image }));
    assert.equal(cold.name, `svc-${cold.owner.session}-1`);
    assert.equal(await echoed(pooled, cold, 'cold\n'), 'cold\n');
    await cluster.kubelet.addPool('warm', { spec: template as never, replicas: 1 });
    const larger = await pooled.create(scene.box({ image, resources: { cpuCount: 2, memoryMB: 512 } }));
    assert.doesNotMatch(larger.name, /^warm-/);
    for (const one of [ref, cold, larger]) await pooled.destroy(one);
    await until(
      'claims and pods are gone',
      () =>
        claims().length === 0 && cluster.store.all('pods').every(({ metadata }) => 'pool' in (metadata.labels ?? {})),
    );
    const nowhere = await scene.open({ pools: { [image.reference]: 'none' } });
    await nowhere.destroy(await nowhere.create(scene.box({ image })));
    // A claim whose pod never came is listed like any box, and goes like one.
    const manifest = {
      apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
      kind: 'SandboxClaim',
      spec: { warmPoolRef: { name: 'none' } },
    };
    const labels = { 'svc/installation': installation, 'svc/session': 'orphan', 'svc/epoch': '3' };
    const client = new KubernetesClient(kubeconfigAccess(await scene.kubeconfig()));
    const path = '/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/svc/sandboxclaims';
    await client.request({
      method: 'POST',
      path,
      body: { ...manifest, metadata: { name: 'svc-orphan-3-claim', labels } },
    });
    const [orphan] = await pooled.list(installation);
    assert.equal(orphan?.owner.session, 'orphan');
    await pooled.destroy(orphan);
    assert.deepEqual(await pooled.list(installation), []);
    await client.close();
  });
});
