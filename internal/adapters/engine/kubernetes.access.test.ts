// Who the engine for clusters is to a cluster: credentials, rights, what a probe tells; and the fake cluster held against the
// real kubectl, where one is installed.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { isLong } from '../../base/testkit/long.ts';
import { inClusterAccess, kubeconfigAccess } from './kubernetes-access.ts';
import { podManifest } from './kubernetes-pod.ts';
import { BRIDGE_ARGV } from '../../../testdata/kubernetes/echo.ts';
import { echoed, installation, refused, Scene, whyNoKubectl, whyNoPods } from './kubernetes-testkit.ts';
import type { KubernetesEngine } from './kubernetes.ts';

const run = promisify(execFile);
/** It takes as long as all the rest: of the long form. */
const noKubectl = isLong ? await whyNoKubectl() : 'the judgement of kubectl is in the long form (make test-engines)';

let scene: Scene;
let cluster: Scene['cluster'];
let engine: KubernetesEngine;

describe('Access to Kubernetes', { skip: await whyNoPods() }, () => {
  before(async () => {
    scene = await Scene.start();
    cluster = scene.cluster;
    engine = await scene.open();
  });
  after(() => scene.stop());

  test('a probe tells version, runtime and isolation, and names the rights that the role lacks', async () => {
    const facts = await engine.probe();
    assert.deepEqual(
      [facts.version, facts.isolation, facts.runtime, facts.fence],
      ['Kubernetes v1.34.1', 'container', null, null],
    );
    assert.match(facts.commit ?? '', /image/);
    // The Role does not let runtime classes be read: the name tells.
    assert.equal((await (await scene.open({ runtimeClass: 'gvisor' })).probe()).isolation, 'gvisor');
    const all = cluster.rules;
    cluster.rules = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];
    cluster.runtimeClasses.set('fast', 'kata-qemu');
    assert.equal((await (await scene.open({ runtimeClass: 'fast' })).probe()).isolation, 'vm');
    await assert.rejects((await scene.open({ runtimeClass: 'none' })).probe(), refused('runtime-missing', /none/));
    cluster.rules = all.filter(({ resources }) => !resources.includes('pods/exec'));
    await assert.rejects(engine.probe(), refused('engine-refused', /lacks create pods\/exec, get pods\/exec/));
    cluster.rules = [];
    await assert.rejects(engine.probe(), refused('engine-refused', /cannot list resource "pods"/));
    cluster.rules = all;
  });
  test('credentials are a token, a file that is read again at 401, or a certificate; programs are never run', async () => {
    const file = join(scene.folder, 'token');
    await writeFile(file, cluster.token);
    const probed = async (user: object): Promise<string> => {
      const made = await scene.open({ access: kubeconfigAccess(await scene.kubeconfig(user as never)) });
      return (await made.probe()).version;
    };
    assert.equal(await probed(cluster.clientCertificate), 'Kubernetes v1.34.1');
    await assert.rejects(probed({ token: 'wrong' }), refused('engine-refused', /Unauthorized/));
    const fromFile = await scene.open({ access: kubeconfigAccess(await scene.kubeconfig({ tokenFile: 'token' })) });
    const account = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: new URL(cluster.url).port };
    await writeFile(join(scene.folder, 'ca.crt'), cluster.ca);
    const inCluster = await scene.open({ access: inClusterAccess(account, scene.folder) });
    const ref = await fromFile.create(scene.box());
    const wire = await fromFile.wire(ref, BRIDGE_ARGV);
    cluster.token = 'second-token';
    await writeFile(file, 'second-token');
    assert.equal((await inCluster.probe()).warm, false);
    assert.equal(await echoed(fromFile, ref, 'new token\n'), 'new token\n');
    assert.equal(wire.destroyed, false);
    await fromFile.destroy(ref);
    engine = await scene.open();
    const refusal = async (user: object, words: RegExp) =>
      assert.rejects(async () => kubeconfigAccess(await scene.kubeconfig(user as never)), words);
    await refusal({ exec: { command: 'touch', args: [join(scene.folder, 'ran')] } }, /exec plugin, which is refused/);
    await refusal({ 'auth-provider': { name: 'x' } }, /auth-provider/);
    await refusal({ username: 'x', password: 'y' }, /password/);
    await refusal({ token: 'x', as: 'admin' }, /impersonation/);
    await refusal({ 'client-certificate-data': 'eA==' }, /together/);
    await refusal({ tokenFile: 'none' }, /none cannot be read: ENOENT/);
    assert.throws(() => inClusterAccess({}), /runs in no pod/);
    assert.throws(() => kubeconfigAccess(join(scene.folder, 'nothing')), /cannot be read: ENOENT/);
  });
  test('the real kubectl creates, waits, watches, runs programs and deletes', {
    skip: noKubectl,
  }, async () => {
    const all = cluster.rules;
    cluster.rules = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];
    const config = await scene.kubeconfig();
    const cache = join(scene.folder, 'cache');
    const args = ['--kubeconfig', config, '--cache-dir', cache, '--namespace', 'svc'];
    const kubectl = (...rest: string[]) => run('kubectl', [...args, ...rest], { timeout: 60_000 });
    const box = scene.box();
    const name = `svc-${box.owner.session}-1`;
    const path = join(scene.folder, 'pod.json');
    await writeFile(path, JSON.stringify(podManifest(box, {})));
    await kubectl('create', '--validate=false', '-f', path);
    await kubectl('wait', '--for=condition=Ready', `pod/${name}`, '--timeout=30s');
    assert.match(
      (await kubectl('get', 'pods', '-l', `svc/session=${box.owner.session}`, '-o', 'name')).stdout,
      new RegExp(name),
    );
    const child = spawn('kubectl', [...args, 'exec', '-i', name, '--', '/bin/sh', '-c', 'cat; exit 7']);
    child.stdin.end('half-close\n');
    let text = '';
    child.stdout.on('data', (part: Buffer) => (text += String(part)));
    const code = await new Promise((resolve) => child.once('close', resolve));
    assert.deepEqual([text, code], ['half-close\n', 7]);
    // Our client and theirs speak with the same pod.
    const ref = await engine.create(box);
    assert.equal(await echoed(engine, ref, 'both\n'), 'both\n');
    await kubectl('delete', 'pod', name, '--wait');
    assert.deepEqual(await engine.list(installation, box.owner.session), []);
    await assert.rejects(
      kubectl('create', '--validate=false', '-f', path, '--as=nobody').then(() =>
        kubectl('create', '--validate=false', '-f', path),
      ),
      /AlreadyExists|already exists/,
    );
    await kubectl('delete', 'pod', name, '--wait');
    cluster.rules = all;
  });
});
