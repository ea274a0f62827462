// What ends the process is found out at every loop that takes work (flows/in-hand.ts). Each loop and each job says here what it
// notes in hand, so that it is parked, or why nothing that it takes can end a process by what it holds: it goes over rows of
// bounded columns, a bounded number of them at a time. One that is new fails here until it says so.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { WorkKind } from '../../adapters/store/operations/in-hand.ts';
import { services } from './services.ts';
import { tasks } from './tasks.ts';

interface Takes {
  readonly parks?: WorkKind;
  /** Why the rest of what it takes, or all of it, is not parked. */
  readonly plain?: string;
}

/** By the name of a service, of a loop that one runs beside its own, or of a job. */
const takes: { readonly [name: string]: Takes } = {
  'audit.retention': { plain: 'deletes by age, a slice at a time, and reads nothing of what it deletes' },
  'check.deadlines': { plain: '500 checks that nobody has concluded, so that they have no text yet' },
  'check.report': { parks: 'check' },
  'event.route': { parks: 'event' },
  'heartbeat.tick': { parks: 'tick' },
  'intake.forget': { plain: 'deletes by age' },
  'keys.watch': { plain: 'the key file, which is the operator’s' },
  'notify.clock': { plain: 'names and times of secrets, in the database alone; deletes by age' },
  'notify.send': { parks: 'notice', plain: 'spreading makes rows of a hundred notices, whose columns are bounded' },
  'outbox.forget': { plain: 'deletes by age' },
  'outbox.resolve': { parks: 'call' },
  'plan.forget': { plain: 'deletes by age' },
  'plan.look': { parks: 'look' },
  'plan.pulls': { parks: 'plan' },
  'plan.statuses': { parks: 'status' },
  'project.deletion': { plain: 'deletes in slices by id, in the database alone' },
  'repo.poll': { parks: 'sync' },
  'repo.watch': { plain: 'names and times of at most 10,000 entries of a folder; of one with more nothing is watched' },
  'session.host': {
    parks: 'session',
    plain:
      'late in a turn its messages are worn out, and taking over its hold (svc.session_holds.taken): each at the third time',
  },
  'session.orphans': { plain: 'ids of a hundred sessions or claims, each ended by itself' },
  'session.upkeep': {
    parks: 'session',
    plain: 'beside successors ids and states of 200 sessions, and specs, which an apply has bounded',
  },
  'signin.refresh': {
    plain: 'one answer of the operator’s own provider, read up to a bound; a token that was sent is never sent again',
  },
  retention: { plain: 'deletes by age, a slice at a time' },
  // Loops of theirs.
  folders: { plain: 'the loop of repo.watch' },
  'jobs.look': { plain: 'counts jobs' },
  keep: { plain: 'counts repositories' },
  poll: { parks: 'sync' },
  'route.sweep': { plain: 'the oldest number that waits, by project' },
  sweep: { plain: 'ids of snapshots and blobs, in slices in the database alone' },
  'take-over': { plain: 'runs of daemons that are gone, and what was asked of each: a kind and a commit' },
  // Jobs.
  'event.route job': { plain: 'wakes the router' },
  'keys.rotate job': { plain: '200 sealed values at a time, each of at most the size of a secret, and none is parsed' },
  'repo.status job': { plain: 'writes a row for the loop that tells' },
  'repo.sync job': { plain: 'writes a row for the loop that syncs' },
};

/** Where a crash test has one of a kind end the process. */
const pointOf: { readonly [kind in WorkKind]: readonly string[] } = {
  event: ['route.event'],
  sync: ['sync.run'],
  tick: ['heartbeat.tick'],
  session: ['session.launch', 'session.replace', 'session.turn-in-hand'],
  plan: ['plan.tell'],
  look: ['look.tell'],
  status: ['status.tell'],
  notice: ['notice.tell'],
  check: ['check.tell'],
  call: ['call.tell'],
};

const root = join(import.meta.dirname, '../..');
async function sources(isWanted: (name: string) => boolean): Promise<string[]> {
  const names = (await readdir(root, { recursive: true })).filter(isWanted);
  return Promise.all(names.map((name) => readFile(join(root, name), 'utf8')));
}

test('every loop and every job says what it parks, or why it need not', async () => {
  const code = await sources((name) => /^(?:edge|flows)\/.*\.ts$/.test(name) && !name.endsWith('.test.ts'));
  const loops = code.flatMap((text) =>
    [...text.matchAll(/\b(?:wokenLoop|loop)\((?:this\.#)?ctx, '([^']+)'/g)].map(([, name = '']) => name),
  );
  const found = new Set([...services.map(({ name }) => name), ...loops, ...tasks.map(({ name }) => `${name} job`)]);
  assert.ok(loops.length >= 8, loops.join());
  assert.deepEqual([...found].sort(), Object.keys(takes).sort());
  for (const [name, { parks, plain }] of Object.entries(takes)) assert.ok(parks !== undefined || plain, name);
});

test('of each kind that is parked a test has one end the process again and again', async () => {
  const tests = (await sources((name) => name.endsWith('.parking.crash.test.ts'))).join('\n');
  for (const [kind, points] of Object.entries(pointOf))
    for (const point of points) assert.ok(tests.includes(`${point}@`), `${kind}: no test arms ${point}`);
  const parked = new Set(Object.values(takes).flatMap(({ parks }) => parks ?? []));
  assert.deepEqual([...parked].sort(), Object.keys(pointOf).sort());
});
