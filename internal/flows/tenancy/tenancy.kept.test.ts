// No table grows for ever without somebody having said why: each is let go by a step of its own, goes with what it hangs
// on, or has a reason to stay. A table that is new fails here until it is in one of the three lists.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';

/** Let go by age or when it is of no use any more: where that stands, below adapters/store. */
const letGo: { readonly [table: string]: string } = {
  agent_revisions: 'operations/slices.ts',
  audit: 'tenancy/audit.ts',
  blobs: 'repositories/snapshots.ts',
  calls: 'outbox/calls.ts',
  checks: 'operations/retention.ts',
  commit_statuses: 'repositories/commit-statuses.ts',
  daemons: 'operations/jobs.ts',
  device_grants: 'signin/web-sessions.ts',
  errtrack_attempts: 'connections/errtrack-attempts.ts',
  event_bodies: 'operations/retention.ts',
  events: 'operations/retention.ts',
  in_hand: 'operations/in-hand.ts',
  installation_tokens: 'outbox/tokens.ts',
  key_holders: 'secrets/key-holders.ts',
  notices: 'notify/notices.ts',
  oauth_attempts: 'connections/oauth-attempts.ts',
  oauth_tokens: 'connections/oauth-attempts.ts',
  pull_plans: 'repositories/pull-plans.ts',
  reconciles: 'operations/slices.ts',
  rejected_deliveries: 'events/rejected.ts',
  server_pauses: 'repositories/polls.ts',
  session_ties: 'sessions/tool-callers.ts',
  sessions: 'operations/slices.ts',
  signin_attempts: 'signin/web-sessions.ts',
  signin_handoffs: 'signin/web-sessions.ts',
  snapshots: 'repositories/snapshots.ts',
  suspects: 'operations/in-hand.ts',
  usage_days: 'operations/slices.ts',
  usage_ledger: 'operations/slices.ts',
  usage_open: 'sessions/ledger.ts',
  web_sessions: 'signin/web-sessions.ts',
};

/** Goes with rows of another table: by its reference, or by what the database does when those go. */
const goesWith: { readonly [table: string]: string } = {
  bindings: 'sessions',
  converted_spawns: 'sessions',
  event_routes: 'events',
  inbox: 'sessions',
  messages: 'sessions',
  notifications: 'notices',
  permissions: 'sessions',
  review_drafts: 'sessions',
  session_addresses: 'sessions',
  session_claims: 'sessions',
  session_diffs: 'sessions',
  session_egress: 'sessions',
  session_files: 'sessions',
  session_holds: 'sessions',
  session_leases: 'sessions',
  session_snapshot_pieces: 'session_snapshots',
  session_snapshots: 'sessions',
  snapshot_blobs: 'snapshots',
  turns: 'sessions',
  usage_sessions: 'sessions',
};

const perThing = 'one row for each thing that there is, not for each thing that happens; it goes with the thing';
const perAct = 'one row for each act of an administrator, of which there are few; the audit refers to it';
const proof = 'what was proven or used once must never be proven or used again';
/** Stays, and why. */
const stays: { readonly [table: string]: string } = {
  agents: perThing,
  api_tokens: perAct,
  assets: perThing,
  connections: perThing,
  endpoints: perThing,
  errtrack_codes: proof,
  errtrack_grants: perThing,
  errtrack_installation_claims: proof,
  errtrack_subscriptions: perThing,
  errtrack_uninstalls: proof,
  external_identities: perThing,
  host_pauses: 'one row for each server that the release before this one could not reach',
  generated_resource_users: perThing,
  generated_resources: perThing,
  installation: 'one row: what the database is called',
  key_rotations: perAct,
  key_versions: perAct,
  migrations: 'one row for each file of the release',
  oauth_clients: perThing,
  oauth_codes: proof,
  oauth_grants: perThing,
  org_members: perThing,
  orgs: perThing,
  principals: perThing,
  project_members: perThing,
  projects: perThing,
  provider_facts: perThing,
  provider_limits: perThing,
  pull_polls: perThing,
  receivers: perThing,
  repositories: perThing,
  repository_polls: perThing,
  repository_states: perThing,
  routing_generations: perThing,
  routing_marks: perThing,
  schedules: perThing,
  secret_uses: perThing,
  secrets: perThing,
  triggers: perThing,
};

const store = join(import.meta.dirname, '../../adapters/store');
let database: TestDatabase;
before(async () => {
  database = await createTestDatabase();
});
after(() => database.close());

test('every table has a retention, goes with another, or has a reason to stay', async () => {
  const { rows } = await database.db.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'svc'::regnamespace and relkind in ('r', 'p')
        and not relispartition order by relname collate "C"`,
  );
  const said = [letGo, goesWith, stays].flatMap((one) => Object.keys(one)).toSorted();
  assert.deepEqual(
    said,
    rows.map(({ name }) => name),
  );
});

test('what is said to be let go is deleted there', async () => {
  for (const [table, file] of Object.entries(letGo)) {
    const text = await readFile(join(store, file), 'utf8');
    const own = new RegExp(`delete from svc\\.(${table}\\b|\\$\\{)|drop table svc\\.`).test(text);
    assert.ok(own && text.includes(table.replace(/^usage_/, 'usage_')), `${file} deletes nothing of ${table}`);
  }
});

test('what is said to go with another table does', async () => {
  const { rows } = await database.db.query<{ name: string; parent: string }>(
    `select a.relname as name, b.relname as parent from pg_constraint c
       join pg_class a on a.oid = c.conrelid join pg_class b on b.oid = c.confrelid
      where c.contype = 'f' and c.confdeltype = 'c'`,
  );
  const migrations = join(import.meta.dirname, '../../../migrations');
  const texts = await Promise.all((await readdir(migrations)).map((file) => readFile(join(migrations, file), 'utf8')));
  const slices = await readFile(join(store, 'operations/slices.ts'), 'utf8');
  for (const [table, parent] of Object.entries(goesWith)) {
    const refers = rows.some((one) => one.name === table && one.parent === parent);
    const isTold = texts.some((text) => text.includes(`delete from svc.${table} `));
    assert.ok(refers || isTold || slices.includes(`svc.${table}`), `${table} stays when its ${parent} go`);
  }
});
