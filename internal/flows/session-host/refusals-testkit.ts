// What apply refuses against what a launch refuses: one table of agents and environments, each judged both ways. For the
// launch what apply would not take is put into the rows past it, as an operator's settings could make it so afterwards.
// Only tests import this.

import assert from 'node:assert/strict';
import type { HostBench } from './host-testkit.ts';

export interface Judged {
  readonly what: string;
  /** Fields of the agent's document. */
  readonly agent?: { readonly [field: string]: unknown };
  /** Fields of its environment. */
  readonly environment?: { readonly [field: string]: unknown };
  /** The code and the path of what apply says; null where it takes it. */
  readonly apply: readonly [code: string, path: string] | null;
  /** It takes it, and says that as a warning: what is wrong is not in the tree. */
  readonly warns?: true;
  /**
   * The reason of a session that was put past apply; `up`: it comes up all the same, since what apply refuses is of other
   * providers, or of no use; absent where it cannot be put there.
   */
  readonly launch?: RegExp | 'up';
}

const mount = (mountPath: string, more: object = {}) => ({
  kind: 'git',
  repository: 'acme/widgets',
  mountPath,
  auth: { kind: 'none' },
  ...more,
});
const system = /: the path belongs to the sandbox itself$/;
const absolute = /is not an absolute path without \.\.$/;
const at = (path: string, launch: RegExp | 'up'): Judged => ({
  what: `a mount at ${path.slice(0, 40)}`,
  agent: { mounts: [mount(path)] },
  apply: ['invalid-value', 'mounts[0].mountPath'],
  launch,
});
const taken = (path: string, more: object = {}): Judged => ({
  what: `a mount at ${path.slice(0, 40)}`,
  agent: { mounts: [mount(path, more)] },
  apply: null,
});
const works = (workingDirectory: string, refused: RegExp | 'up' | null): Judged => ({
  what: `a working directory ${workingDirectory}`,
  agent: { workingDirectory },
  apply: refused === null ? null : ['invalid-value', 'workingDirectory'],
  ...(refused !== null && { launch: refused }),
});
const long = 'v'.repeat(140_000);

/** Without what needs settings: those are of the tests that make them. */
export const judged: readonly Judged[] = [
  at('/', system),
  at('/etc', system),
  at('/etc/app', system),
  at('/home', system),
  // It would stand in for what the service puts there.
  at('/home/user', 'up'),
  at('/home/user/../x', absolute),
  at('/usr/src/app', system),
  at('/library/app', system),
  at('/run/app', system),
  at('workspace/app', absolute),
  at(`/srv/${'d'.repeat(300)}`, /: a name in the path is too long$/),
  taken('/srv/repo'),
  taken('/workspace/repo/'),
  taken(`/srv/${'d'.repeat(120)}/${'e'.repeat(120)}`),
  {
    what: 'one mount inside another, in any order',
    agent: { mounts: [mount('/workspace/a/vendor/b'), mount('/workspace/a')] },
    apply: null,
  },
  {
    what: 'two mounts at one path',
    agent: { mounts: [mount('/srv/a'), mount('/srv/a', { ref: 'main' })] },
    apply: ['mount-conflict', 'mounts[0].mountPath'],
    launch: /another repository is mounted there|something else at this path/,
  },
  {
    what: 'a ref that git does not spell so',
    agent: { mounts: [mount('/srv/a', { ref: 'a..b' })] },
    apply: ['invalid-value', 'mounts[0].ref'],
    launch: /"a\.\.b" is not a ref$/,
  },
  {
    what: 'a repository above the host',
    agent: { mounts: [mount('/srv/a', { repository: '../widgets' })] },
    apply: ['invalid-value', 'mounts[0].repository'],
    launch: /^Mount \/srv\/a: /,
  },
  {
    what: 'a capability that needs others',
    agent: {
      mounts: [mount('/srv/a', { auth: { kind: 'codehostApp', capabilities: { merge: 'write', contents: 'read' } } })],
    },
    apply: ['mount-capabilities', 'mounts[0].auth.capabilities.merge'],
  },
  works('/usr/local/app', system),
  works('../elsewhere', absolute),
  works('/srv/app', null),
  works('packages/app', null),
  {
    what: 'a variable longer than the kernel takes',
    agent: { env: { LONG: long } },
    apply: ['invalid-value', 'env.LONG'],
    launch: /^The value of LONG has more than the 131072 bytes that a variable may have\.$/,
  },
  {
    what: 'a setup command longer than the kernel takes',
    environment: { setup: [{ name: 'long', commands: [`: ${long}`] }] },
    apply: ['invalid-value', 'environment.setup[0].commands[0]'],
    launch: /E2BIG/,
  },
  {
    what: 'a build step longer than the kernel takes',
    environment: { steps: [`: ${long}`] },
    apply: ['invalid-value', 'environment.steps[0]'],
    launch: /E2BIG/,
  },
  {
    what: 'build steps, where an engine keeps them and where home does',
    environment: { steps: ['echo built > $HOME/step'] },
    apply: null,
  },
  {
    what: 'an unknown preset',
    environment: { image: { kind: 'preset', name: 'node42' } },
    apply: ['environment-preset', 'environment.image.name'],
  },
  {
    what: 'aliases of tools that look alike to a harness',
    agent: {
      tools: {
        'a.b': { kind: 'local', implementation: 'ping' },
        a_b: { kind: 'local', implementation: 'ping' },
      },
    },
    apply: ['tool-alias-conflict', 'tools["a.b"]'],
    launch: /^Tool aliases look alike to the harness/,
  },
  {
    what: 'a capability of a tool that is none',
    agent: { tools: { svc: { kind: 'local', implementation: 'svc', capabilities: { billing: 'all' } } } },
    apply: ['invalid-value', 'tools.svc.capabilities.billing'],
  },
];

interface Told {
  readonly code: string;
  readonly path?: string;
  readonly severity: string;
  readonly line?: number;
  readonly message: string;
}

const nameOf = (index: number): string => `judged-${index}`;

function fileOf(name: string, { agent, environment }: Pick<Judged, 'agent' | 'environment'>) {
  const document = {
    name,
    harness: 'harness-a',
    environment: { name, image: { kind: 'preset', name: 'base' }, ...environment },
    ...agent,
  };
  // A value a line, so that the place of a finding is that of what it is about.
  return { path: `.svc/agents/${name}.yaml`, content: JSON.stringify(document, null, 1) };
}

/** Judges all of them by a dry apply and by a launch, and holds one against the other. */
export async function judgeBothWays(bench: HostBench, cases: readonly Judged[]): Promise<void> {
  const { api, ctx } = bench.daemon;
  // All that is wrong is told at once: a launch takes its time.
  const wrong: string[] = [];
  for (const [index, one] of cases.entries()) {
    const files = [fileOf(nameOf(index), one)];
    const { status, body } = await api('POST', 'P/apply', { files, dryRun: true, prune: false });
    const diagnostics = (body['diagnostics'] ?? []) as unknown as Told[];
    const wanted = one.warns === true ? 'warning' : 'error';
    const errors = diagnostics.filter(({ severity }) => severity === wanted);
    const found = [status, errors.map(({ code, path }) => [code, path])[0] ?? null];
    const asWanted = [one.apply === null || one.warns === true ? 200 : 422, one.apply];
    const isPlaced = errors.every(({ line, message }) => (line ?? 0) > 1 && message.length < 400);
    if (JSON.stringify(found) !== JSON.stringify(asWanted) || !isPlaced) {
      const told = errors.map(({ code, path, line, message }) => `${line}: ${code} ${path}: ${message}`);
      wrong.push(`${one.what}: apply ${status} ${told.join('; ')}`);
    }
  }
  const launched = cases.flatMap((one, index) =>
    one.apply === null || one.launch !== undefined ? [[nameOf(index), one] as const] : [],
  );
  const files = launched.map(([name, one]) => fileOf(name, one.apply === null ? one : {}));
  const applied = await api('POST', 'P/apply', { files, prune: false });
  assert.equal(applied.status, 200, JSON.stringify(applied.body));
  for (const [name, one] of launched) {
    if (one.apply === null) continue;
    const { rowCount: agents } = await ctx.db.query(
      `update svc.agent_revisions r set spec = r.spec || $2::jsonb from svc.agents a
        where a.id = r.agent_id and a.name = $1`,
      [name, JSON.stringify(one.agent ?? {})],
    );
    const { rowCount: environments } = await ctx.db.query(
      `update svc.generated_resources set spec = spec || $2::jsonb where kind = 'Environment' and name = $1`,
      [name, JSON.stringify(one.environment ?? {})],
    );
    assert.deepEqual([agents, environments], [1, 1], name);
  }
  const sessions: (readonly [session: string, one: Judged])[] = [];
  for (const [name, one] of launched) sessions.push([await bench.start(name, '!say up.'), one]);
  for (const [session, one] of sessions) {
    const view = await bench.until(
      session,
      ({ state, said }) => state === 'failed' || (state === 'idle' && said.includes('up.')),
    );
    const wanted = one.apply === null ? 'up' : one.launch;

    const isAsWanted =
      wanted === 'up' ? view.state === 'idle' : view.state === 'failed' && wanted?.test(String(view.reason)) === true;
    if (!isAsWanted) wrong.push(`${one.what}: launch ${view.state} ${view.reason?.slice(0, 300)}`);
  }
  assert.deepEqual(wrong, []);
}
