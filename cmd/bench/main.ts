// `make bench [ONLY=name]`: runs the benches, prints a table of ratios, and exits 1 when a bound is missed; `route` stands for all
// that begin with `route-`, `accept` for those with `accept-`.
// Each bench compares with its baseline in the same run; what they have to keep is written beside each row.

import { programsVariable, startProgramServer } from '../../internal/base/testkit/programs.ts';
import { type Bench, isKept, printRows, runBench } from '../../internal/bench/harness.ts';

const benches: { readonly [name: string]: () => Promise<Bench> } = {
  git: async () => (await import('../../internal/bench/git.ts')).bench,
  poll: async () => (await import('../../internal/bench/poll.ts')).bench,
  compile: async () => (await import('../../internal/bench/compile.ts')).bench,
  apply: async () => (await import('../../internal/bench/apply.ts')).bench,
  secrets: async () => (await import('../../internal/bench/secrets.ts')).bench,
  sync: async () => (await import('../../internal/bench/sync.ts')).bench,
  'first-sync': async () => (await import('../../internal/bench/first-sync.ts')).bench,
  stall: async () => (await import('../../internal/bench/stall.ts')).bench,
  match: async () => (await import('../../internal/bench/match.ts')).bench,
  'accept-crowd': async () => (await import('../../internal/bench/accept.ts')).crowd,
  'accept-wide': async () => (await import('../../internal/bench/accept.ts')).wide,
  'accept-alone': async () => (await import('../../internal/bench/accept.ts')).alone,
  'route-backlog': async () => (await import('../../internal/bench/backlog.ts')).backlog,
  'route-triggers': async () => (await import('../../internal/bench/backlog.ts')).triggers,
  'route-door': async () => (await import('../../internal/bench/route.ts')).door,
  'route-minute': async () => (await import('../../internal/bench/route.ts')).minute,
  'route-lag': async () => (await import('../../internal/bench/route.ts')).lag,
  'route-quiet': async () => (await import('../../internal/bench/route.ts')).quiet,
  'crowd-backlogs': async () => (await import('../../internal/bench/crowd.ts')).backlog,
  'crowd-locked': async () => (await import('../../internal/bench/crowd-locked.ts')).locked,
  'crowd-projects': async () => (await import('../../internal/bench/crowd.ts')).many,
  'crowd-killed': async () => (await import('../../internal/bench/crowd-killed.ts')).killed,
  'crowd-history': async () => (await import('../../internal/bench/crowd-history.ts')).history,
  'crowd-daemons': async () => (await import('../../internal/bench/crowd-history.ts')).together,
  broker: async () => (await import('../../internal/bench/broker.ts')).bench,
  gateway: async () => (await import('../../internal/bench/gateway.ts')).bench,
  sessions: async () => (await import('../../internal/bench/sessions.ts')).bench,
  'sessions-idle': async () => (await import('../../internal/bench/sessions.ts')).idle,
  'engine-docker': async () => (await import('../../internal/bench/engines.ts')).docker,
  'engine-kubernetes': async () => (await import('../../internal/bench/engine-kubernetes.ts')).kubernetes,
  'engine-podman': async () => (await import('../../internal/bench/engines.ts')).podman,
  mounts: async () => (await import('../../internal/bench/mounts.ts')).bench,
  'crowd-servers': async () => (await import('../../internal/bench/crowd-sync.ts')).servers,
  'crowd-repositories': async () => (await import('../../internal/bench/crowd-sync.ts')).repositories,
  'crowd-places': async () => (await import('../../internal/bench/crowd-places.ts')).places,
  idle: async () => (await import('../../internal/bench/idle.ts')).bench,
  ticks: async () => (await import('../../internal/bench/ticks.ts')).bench,
  console: async () => (await import('../../internal/bench/console.ts')).bench,
  validate: async () => (await import('../../internal/bench/validate.ts')).bench,
};

const wanted = process.argv.slice(2);
const isMeant = (by: string, name: string): boolean => name === by || name.startsWith(`${by}-`);
const unknown = wanted.filter((by) => !Object.keys(benches).some((name) => isMeant(by, name)));
if (unknown.length > 0) {
  console.error(`no bench is called ${unknown.join(', ')}; there are ${Object.keys(benches).join(', ')}`);
  process.exit(2);
}

// What a git server of the bench starts would take as long to start as the bench is large, in the midst of what is measured.
const programs = await startProgramServer();
process.env[programsVariable] = programs.path;
let missed = 0;
const begun = performance.now();
const sinceSeconds = (start: number): number => Math.round((performance.now() - start) / 1_000);
for (const [name, load] of Object.entries(benches)) {
  if (wanted.length > 0 && !wanted.some((by) => isMeant(by, name))) continue;
  const bench = await load();
  const start = performance.now();
  try {
    const rows = await runBench(bench);
    console.log(`\n${printRows(`${name}: ${bench.title} (${sinceSeconds(start)} s)`, rows)}`);
    missed += rows.filter((row) => !isKept(row)).length;
  } catch (error) {
    // The others are measured all the same.
    console.log(`\n${name}: ${bench.title} (${sinceSeconds(start)} s)\n  MISS  it broke off`);
    console.error(error);
    missed += 1;
  }
}
await programs.stop();
console.log(`\n${sinceSeconds(begun)} s in all`);
if (missed > 0) {
  console.error(`\n${missed} ${missed === 1 ? 'bound was' : 'bounds were'} missed`);
  process.exitCode = 1;
}
