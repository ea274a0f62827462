import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Migration, readMigrations } from './migrate.ts';

/** Up to here there was no release before, beside which a migration could have run. */
const beforeRules = 24;

/** Tables that grow with what happens. All others have a row for each thing that there is, and are read in no time. */
const large = new Set(
  `agent_revisions audit bindings blobs calls checks event_bodies event_routes events inbox messages permissions reconciles
   sessions session_ties snapshots turns usage_days usage_ledger usage_sessions`.split(/\s+/),
);

const withoutBodies = (sql: string): string => sql.replaceAll(/--.*$/gm, '').replaceAll(/\$\$[\s\S]*?\$\$/g, "''");
const takesAway =
  /\bdrop\s+(table|column|type|constraint|sequence|view)\b|\brename\s+(to|column)\b|\balter\s+column\s+\w+\s+(set\s+data\s+)?type\b/i;
const adds = /\bcreate\s+(table|unlogged\s+table|type|sequence|view)\b|\badd\s+column\b/i;

/** What is wrong with a migration that daemons of the release before go on working beside. */
function faultsOf({ sql }: Pick<Migration, 'sql'>): string[] {
  const text = withoutBodies(sql);
  const own = new Set(
    [...text.matchAll(/create\s+(?:unlogged\s+)?table\s+(?:if\s+not\s+exists\s+)?svc\.(\w+)/gi)].map((one) => one[1]),
  );
  const faults: string[] = [];
  for (const [, concurrently, table = ''] of text.matchAll(
    /create\s+(?:unique\s+)?index\s+(concurrently\s+)?(?:if\s+not\s+exists\s+)?(?:\w+\s+)?on\s+(?:only\s+)?svc\.(\w+)/gi,
  )) {
    if (concurrently === undefined && large.has(table) && !own.has(table))
      faults.push(`an index on ${table}, which is there, holds up its writers`);
  }
  for (const [, table = '', rest = ''] of text.matchAll(/alter\s+table\s+(?:only\s+)?svc\.(\w+)([^;]*)/gi)) {
    if (own.has(table)) continue;
    if (
      large.has(table) &&
      /\badd\s+(constraint\s+\w+\s+)?(check|foreign\s+key)\b/i.test(rest) &&
      !/\bnot\s+valid\b/i.test(rest)
    ) {
      faults.push(`a constraint on ${table}, which is there, reads all of it under its lock`);
    }
    if (large.has(table) && /\bset\s+not\s+null\b/i.test(rest))
      faults.push(`set not null reads all of ${table} under its lock`);
    if (/\badd\s+column\b[^,;]*\bnot\s+null\b/i.test(rest) && !/\bdefault\b/i.test(rest)) {
      faults.push(`a column of ${table} that the release before does not write has no default`);
    }
  }
  // A constraint that comes back under its name is changed, which the release before has to stand, and not taken away.
  const changed = text.replaceAll(/\bdrop\s+constraint\s+(\w+)\s*;(?=[\s\S]*\badd\s+constraint\s+\1\b)/gi, ';');
  if (takesAway.test(changed) && adds.test(changed)) faults.push('it both expands and contracts');
  return faults;
}

test('a migration lets the release before go on: it expands or contracts, and holds up nobody', async () => {
  const all = (await readMigrations()).filter((one) => one.number > beforeRules);
  assert.ok(all.length >= 5);
  const found = all.flatMap((one) => faultsOf(one).map((fault) => `${one.name}: ${fault}`));
  assert.deepEqual(found, []);
});

test('a migration that would hold up the release before, or do more than one thing, is found', () => {
  const wrong = [
    'create index a on svc.events (key);',
    'create unique index if not exists a on svc.sessions (id);',
    'alter table svc.events add constraint a check (seq > 0);',
    'alter table svc.events alter column key set not null;',
    'alter table svc.sessions add column n int not null;',
    'alter table svc.sessions add column n int; alter table svc.sessions drop column reason;',
    'create table svc.new (n int); alter table svc.orgs drop constraint a;',
  ];
  for (const sql of wrong) assert.equal(faultsOf({ sql }).length, 1, sql);
  const right = [
    'create table svc.new (n int); create index a on svc.new (n);',
    '-- create index a on svc.events (key);\nselect 1;',
    'create index concurrently if not exists a on svc.events (key);',
    'alter table svc.sessions add column n int not null default 0;',
    'alter table svc.events add constraint a check (seq > 0) not valid;',
    'alter table svc.sessions drop column reason;',
    'create table svc.new (n int); alter table svc.orgs drop constraint a; alter table svc.orgs add constraint a check (true);',
  ];
  for (const sql of right) assert.deepEqual(faultsOf({ sql }), [], sql);
});
