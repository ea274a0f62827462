// What deploy/ and the workflow hold for those who run svcd: every field of the Kubernetes manifests is one of the published API and
// every required one is there, each role has its deployment, budget and probes; the image, the compose file and the unit
// run as nobody special on a system that they cannot write to, with settings that svcd knows; and where an engine is, the
// image is built and answers.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { parse, parseAllDocuments } from 'yaml';
import type { JsonBody } from '../../internal/base/testkit/daemon.ts';
import { roleNames, settings } from '../../internal/base/config/config.ts';
import { wrongs } from '../../testdata/kubernetes/fields.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
/** Undefined where there is no such program, or it does not do this here. */
const attempt = (file: string, args: readonly string[]): Promise<string | undefined> =>
  run(file, [...args], { maxBuffer: 1 << 24 }).then(
    ({ stdout }) => stdout,
    () => undefined,
  );

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec?: JsonBody;
}
const manifests = parseAllDocuments(read('deploy/kubernetes/svc.yaml')).map((one) => one.toJS() as Manifest);

test('the Kubernetes manifests are those of the published API, a deployment for each role', () => {
  for (const one of manifests) assert.deepEqual(wrongs(one, `V1${one.kind}`, `${one.kind} ${one.metadata.name}`), []);
  assert.deepEqual(wrongs({ ...manifests[0], sepc: {} }, 'V1ConfigMap', 'x'), ['x.sepc is unknown']);
  const of = (kind: string): readonly Manifest[] => manifests.filter((one) => one.kind === kind);
  for (const role of roleNames) {
    const deployment = of('Deployment').find((one) => one.metadata.name === `svc-${role}`);
    const pod = deployment?.spec?.['template']?.['spec'];
    const container = pod?.['containers']?.[0];
    assert.deepEqual(container?.['args'], ['--roles', role]);
    assert.equal(container?.['readinessProbe']?.['httpGet']?.['path'], '/readyz');
    assert.equal(container?.['livenessProbe']?.['httpGet']?.['path'], '/healthz');
    assert.deepEqual(container?.['securityContext'], {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    assert.equal(pod?.['securityContext']?.['runAsNonRoot'], true);
    const variables = (container?.['env'] ?? []) as unknown as readonly { name: string }[];
    const names = variables.map((one) => one.name);
    assert.ok(names.includes('SVC_MASTER_KEY_FILE'));
    for (const name of names)
      assert.ok(
        settings.some((setting) => setting.env === name),
        name,
      );
    const budget = of('PodDisruptionBudget').find((one) => one.metadata.name === `svc-${role}`);
    // It protects the pods that the deployment makes.
    assert.deepEqual(budget?.spec?.['selector'], deployment?.spec?.['selector']);
    assert.deepEqual(
      deployment?.spec?.['template']?.['metadata']?.['labels'],
      deployment?.spec?.['selector']?.['matchLabels'],
    );
  }
  const config = manifests.find((one) => one.kind === 'ConfigMap') as unknown as { data: object };
  for (const name of Object.keys(config.data))
    assert.ok(
      settings.some((setting) => setting.env === name),
      name,
    );
  assert.deepEqual(of('Service')[0]?.spec?.['selector'], {
    'app.kubernetes.io/name': 'svc',
    'app.kubernetes.io/component': 'api',
  });
  assert.deepEqual(of('NetworkPolicy')[0]?.spec?.['policyTypes'], ['Ingress', 'Egress']);
});

test('the image and the compose file run as nobody special on a root that is read only', () => {
  const docker = read('deploy/docker/Dockerfile');
  assert.match(docker, /^USER (?!0)\d+:\d+$/m);
  assert.match(docker, /^HEALTHCHECK .*\n\s+CMD .*\/healthz/m);
  for (const [, name = ''] of docker.matchAll(/\b(SVC_[A-Z_]+)=/g))
    assert.ok(
      settings.some(({ env }) => env === name),
      name,
    );
  const { services } = parse(read('deploy/docker/compose.yaml')) as { services: JsonBody };
  const svcd = services['svcd'];
  assert.deepEqual([svcd?.['read_only'], svcd?.['cap_drop']], [true, ['ALL']]);
  assert.equal(svcd?.['depends_on']?.['postgres']?.['condition'], 'service_healthy');
  for (const name of Object.keys(svcd?.['environment'] ?? {}))
    assert.ok(name === 'SVC_CONFIG' || settings.some(({ env }) => env === name), name);
});

test('the unit is hardened', async (t) => {
  const unit = read('deploy/systemd/svcd.service');
  for (const line of [
    'NoNewPrivileges=yes',
    'ProtectSystem=strict',
    'CapabilityBoundingSet=',
    'User=svc',
    'KillSignal=SIGTERM',
  ])
    assert.ok(unit.split('\n').includes(line), line);
  const path = join(root, 'deploy/systemd/svcd.service');
  const told = await attempt('systemd-analyze', ['security', '--offline=true', '--no-pager', '--threshold=40', path]);
  const found = /Overall exposure level for svcd\.service: ([\d.]+)/.exec(told ?? '')?.[1];
  if (found === undefined && (await attempt('systemd-analyze', ['--version'])) === undefined)
    t.diagnostic('no systemd-analyze on this machine: the exposure of the unit was not measured');
  else assert.ok(Number(found) < 4, `an exposure of ${found}`);
});

test('the workflow runs what the README says, on Linux and macOS of both processors', () => {
  const { jobs } = parse(read('.github/workflows/ci.yaml')) as {
    jobs: Record<string, { strategy: { matrix: { os: string[] } }; steps: { run?: string }[] }>;
  };
  const systems = jobs['test']?.strategy.matrix.os ?? [];
  assert.ok(
    systems.filter((one) => one.startsWith('macos')).length >= 2 && systems.some((one) => one.endsWith('-arm')),
  );
  const lines = Object.values(jobs).flatMap(({ steps }) => steps.flatMap((step) => step.run ?? []));
  assert.ok(lines.includes('make test') && lines.includes('npm pack'));
});

test('the image is built and answers, where there is an engine', async (t) => {
  const engine = (await attempt('docker', ['info', '--format', '{{.ServerVersion}}']))?.trim();
  if (!engine) return t.skip('no container engine answers on this machine: the image was not built');
  const directory = await mkdtemp(join(tmpdir(), 'svc-image-'));
  const name = `svc-test-${randomBytes(4).toString('hex')}`;
  try {
    await run('npm', ['pack', '--pack-destination', directory], { cwd: root, maxBuffer: 1 << 24 });
    await run('docker', ['build', '-f', join(root, 'deploy/docker/Dockerfile'), '-t', name, directory], {
      maxBuffer: 1 << 26,
    });
    const flags = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
    await run('docker', ['run', '--detach', '--name', name, ...flags, '--volume', `${name}:/data`, name]);
    for (let tries = 0; tries < 120; tries += 1) {
      const state = await attempt('docker', ['inspect', '--format', '{{.State.Health.Status}}', name]);
      if (state?.trim() === 'healthy') break;
      assert.ok(tries < 119, String(await attempt('docker', ['logs', name])));
      await sleep(1_000);
    }
  } finally {
    await attempt('docker', ['rm', '--force', '--volumes', name]);
    await attempt('docker', ['volume', 'rm', '--force', name]);
    await attempt('docker', ['rmi', '--force', name]);
    await rm(directory, { recursive: true, force: true });
  }
});
