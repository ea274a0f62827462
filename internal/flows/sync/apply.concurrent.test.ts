import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { notMoved } from '../../adapters/store/repositories/reconciles.ts';
import { agentsTree, createBench, hook, onCron, onEvent, type Bench } from './apply-testkit.ts';

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const none = { auth: { kind: 'none' } } as const;
const fleet = (prefix: string, size: number, prompt = '') =>
  agentsTree(
    Object.fromEntries(
      Array.from({ length: size }, (_, index) => [
        `${prefix}${index}`,
        {
          systemPrompt: `${prompt}${index}`,
          environment: `${prefix}-env`,
          triggers: [hook(`${prefix}-hook`, none), onCron('0 * * * *'), onEvent('svc.x')],
        },
      ]),
    ),
  );

test('the number of statements does not grow with the number of agents', async () => {
  const counted = async (work: () => Promise<unknown>): Promise<number> => {
    const before = bench.db.statements();
    await work();
    return bench.db.statements() - before;
  };
  // The first apply of a project says so.
  await bench.apply(agentsTree({ first: {} }));
  const small = await bench.addRepository('small');
  const large = await bench.addRepository('large');
  const rounds: [few: () => Promise<{ status: string }>, many: () => Promise<{ status: string }>, status: string][] = [
    [
      () => bench.apply(fleet('s', 10), { owner: small }),
      () => bench.apply(fleet('l', 300), { owner: large }),
      'applied',
    ],
    [
      () => bench.apply(fleet('s', 10), { owner: small }),
      () => bench.apply(fleet('l', 300), { owner: large }),
      'unchanged',
    ],
    [
      () => bench.apply(fleet('s', 10, 'new'), { owner: small }),
      () => bench.apply(fleet('l', 300, 'new'), { owner: large }),
      'applied',
    ],
    [() => bench.apply(fleet('s', 1), { owner: small }), () => bench.apply(fleet('l', 1), { owner: large }), 'applied'],
  ];
  for (const [few, many, status] of rounds) {
    const run = async (apply: () => Promise<{ status: string }>) => assert.equal((await apply()).status, status);
    const [fewer, more] = [await counted(() => run(few)), await counted(() => run(many))];
    // Where as many triggers change as one apply does not match events against again, what they were is not read.
    assert.ok(more === fewer || more === fewer - 1, `${status}: ${fewer} and ${more} statements`);
  }
});

test('applies to one project happen one after the other, each wholly', async () => {
  const owners = await Promise.all(['a', 'b', 'c', 'd'].map((name) => bench.addRepository(name)));
  const results = await Promise.all(
    owners.map((owner, index) =>
      bench.apply(agentsTree({ [`own${index}`]: {}, shared: { systemPrompt: String(index) } }), { owner }),
    ),
  );
  const statuses = results.map((result) => result.status).sort();
  assert.deepEqual(statuses, ['applied', 'failed', 'failed', 'failed']);
  const winner = results.findIndex((result) => result.status === 'applied');
  for (const result of results.filter((item) => item.status === 'failed')) {
    assert.match(result.diagnostics[0]?.message ?? '', /^Agent shared is owned by repository [abcd]$/);
  }
  const { rows } = await bench.db.query<{ name: string }>(
    `select name from svc.agents where name like 'own%' or name = 'shared' order by name`,
  );
  assert.deepEqual(
    rows.map((row) => row.name),
    [`own${winner}`, 'shared'],
  );
});

test('the same tree applied at once by several makes one revision', async () => {
  const owner = await bench.addRepository('twice');
  const compiled = agentsTree({ once: { triggers: [hook('once', none)] } });
  const results = await Promise.all([1, 2, 3].map(() => bench.apply(compiled, { owner, prune: false })));
  assert.deepEqual(results.map((result) => result.status).sort(), ['applied', 'unchanged', 'unchanged']);
  const { rows } = await bench.db.query<{ n: number }>(
    `select count(*) as n from svc.agent_revisions r join svc.agents a on a.id = r.agent_id where a.name = 'once'`,
  );
  assert.equal(rows[0]?.n, 1);
});

test('settings that changed since they were read supersede an apply', async () => {
  const owner = await bench.addRepository('changed');
  await bench.db.query('update svc.repositories set generation = 2 where id = $1::uuid', [owner.repositoryId]);
  const seen: string[] = [];
  const result = await bench.apply(agentsTree({ late: {} }), {
    owner,
    finish: async (_tx, outcome) => {
      seen.push(outcome.status);
      return 'commit';
    },
  });
  assert.equal(result.status, 'superseded');
  assert.deepEqual(seen, ['superseded']);
});

test('finish runs in the transaction of the apply, and can undo it', async () => {
  const owner = await bench.addRepository('fenced');
  const before = await bench.dump();
  const result = await bench.apply(agentsTree({ fenced: {} }), {
    owner,
    finish: async (tx, outcome) => {
      if (outcome.status === 'superseded') return 'commit';
      const { rows } = await tx.query<{ n: number }>(`select count(*) as n from svc.agents where name = 'fenced'`);
      assert.equal(rows[0]?.n, 1, 'it sees what the apply wrote');
      return 'rollback';
    },
  });
  assert.equal(result.status, 'superseded');
  assert.equal(await bench.dump(), before);
});

test('an apply that changes nothing commits with its last statements, and decides again where these find that it may not', async () => {
  const owner = await bench.addRepository('together');
  const tree = agentsTree({ together: {} });
  assert.equal((await bench.apply(tree, { owner })).status, 'applied');
  const before = await bench.dump();
  const ends = async (moved: number): Promise<readonly [status: string, calls: string[]]> => {
    const calls: string[] = [];
    const { status } = await bench.apply(tree, {
      owner,
      finish: async (tx, outcome, _took, last) => {
        calls.push(`${outcome.status} ${last === undefined ? 'alone' : 'with the commit'}`);
        if (last === undefined) return outcome.status === 'superseded' ? 'commit' : 'rollback';
        const asked = [
          tx.query(`update svc.agents set revision = revision + 1 where name = 'together'`),
          tx.query('select svc.as_many($1::bigint, 1, $2::text)', [moved, notMoved]),
        ];
        last();
        await Promise.all(asked);
        return 'committed';
      },
    });
    return [status, calls];
  };
  const again = ['unchanged with the commit', 'unchanged alone', 'superseded alone'];
  assert.deepEqual(await ends(0), ['superseded', again]);
  assert.equal(await bench.dump(), before);
  assert.deepEqual(await ends(1), ['unchanged', ['unchanged with the commit']]);
  assert.notEqual(await bench.dump(), before);
});

test('an apply that breaks by itself stores nothing but the event that says so', async () => {
  const owner = await bench.addRepository('broken');
  const apply = bench.apply(agentsTree({ broken: {} }), {
    owner,
    finish: async (tx) => {
      await tx.query('select 1 / 0');
      return 'commit';
    },
  });
  await assert.rejects(apply, /division by zero/);
  const { rows } = await bench.db.query<{ key: string; payload: Buffer }>(
    'select key, payload from svc.events join svc.event_bodies on event_id = id order by seq desc limit 1',
  );
  assert.equal(rows[0]?.key, 'svc.project_resource_apply.failed');
  assert.ok(!String(rows[0]?.payload).includes('division'), 'what went wrong inside stays inside');
  const { rows: agents } = await bench.db.query(`select 1 from svc.agents where name = 'broken'`);
  assert.equal(agents.length, 0);
});

test('the guard holds an apply that deletes too much until it is approved', async () => {
  const owner = await bench.addRepository('guarded');
  await bench.apply(fleet('g', 12), { owner });
  const before = await bench.dump();
  const held = await bench.apply(fleet('g', 2), { owner, guard: {} });
  assert.equal(held.status, 'held');
  assert.equal(held.held?.deletes, 10);
  assert.equal(held.actions.filter((action) => action.op === 'delete').length, 10);
  const gone = { ok: false, resources: [], diagnostics: [], assets: [] };
  assert.equal((await bench.apply(gone, { owner, hasSvc: false, guard: {} })).status, 'held');
  assert.equal(await bench.dump(), before);
  const approved = await bench.apply(fleet('g', 2), { owner, guard: 'off' });
  assert.equal(approved.status, 'applied');
  const empty = await bench.apply(gone, { owner, hasSvc: false, guard: 'off' });
  assert.equal(empty.status, 'applied');
  const nothingOwned = {
    ...gone,
    diagnostics: [{ severity: 'error', code: 'no-svc-directory', message: 'none' }] as const,
  };
  assert.equal((await bench.apply(nothingOwned, { owner, hasSvc: false, guard: {} })).status, 'failed');
});
