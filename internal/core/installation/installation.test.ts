import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { InstallationChange, Observed } from '../../domain/connection.ts';
import {
  afterInstallation,
  type InstallationNow,
  missingOf,
  observedAfter,
  type InstallationAnswer,
} from './installation.ts';

const nothing = { observed: {}, added: [], removed: [] };
const change = (what: InstallationChange['what'], more: Partial<InstallationChange> = {}): InstallationChange => ({
  ...nothing,
  ...more,
  what,
});
const active: InstallationNow = { status: 'active', reason: null, observed: null };

test('the status that follows what is said of an installation, and whether that is news', () => {
  const lost = change('repositories', { observed: { repositories: { selection: 'selected' } }, removed: ['A/b'] });
  const cases: [InstallationNow, InstallationChange, InstallationAnswer | undefined, string][] = [
    [active, change('established'), undefined, 'active false'],
    [active, change('suspended'), undefined, 'suspended true'],
    [active, change('removed'), undefined, 'removed true'],
    [{ ...active, status: 'suspended' }, change('suspended'), undefined, 'suspended false'],
    [{ ...active, status: 'suspended' }, change('established'), 'suspended', 'suspended false'],
    [{ ...active, status: 'suspended' }, change('established'), 'unavailable', 'active true'],
    [{ ...active, status: 'removed' }, change('established'), 'credential-refused', 'degraded true'],
    [{ ...active, status: 'suspended' }, change('permissions'), undefined, 'suspended true'],
    [active, change('renamed'), undefined, 'active true'],
    [active, lost, undefined, 'degraded true'],
    [{ ...active, status: 'suspended' }, lost, undefined, 'suspended true'],
    [{ status: 'degraded', reason: 'credential-refused', observed: null }, lost, undefined, 'degraded true'],
  ];
  for (const [now, said, seen, expected] of cases) {
    const next = afterInstallation(now, said, seen, ['a/B']);
    assert.equal(`${next.status} ${next.isChange}`, expected, `${now.status} ${said.what} ${seen}`);
  }
});

test('what was taken away is missed until it is given back, in any spelling, or until all are given', () => {
  const repositories = { selection: 'selected' as const };
  const lost = observedAfter(null, { observed: { repositories }, added: [], removed: ['A/b', 'a/c'] });
  assert.deepEqual(lost, { repositories: { ...repositories, missing: ['a/b', 'a/c'] } });
  assert.deepEqual(observedAfter(lost, { ...nothing, removed: ['a/B'] }), lost);
  assert.deepEqual(observedAfter(lost, { ...nothing, added: ['a/B'] }).repositories?.missing, ['a/c']);
  const all = observedAfter(lost, { ...nothing, observed: { repositories: { selection: 'all' } } });
  assert.deepEqual(all.repositories, { selection: 'all' });
  const named = { selection: 'selected' as const, names: ['A/b'] };
  const known = observedAfter(null, { ...nothing, observed: { repositories: named } });
  assert.deepEqual(observedAfter(known, { ...nothing, added: ['a/B', 'a/d'] }).repositories?.names, ['A/b', 'a/d']);
  assert.deepEqual(observedAfter(known, { ...nothing, removed: ['a/b'] }).repositories?.names, []);
});

/** Everything that is decided but what is known: the row is the answer, to the last field. */
const given = { contents: 'read', issues: 'write' } as const;
const degraded: InstallationNow = { status: 'degraded', reason: 'repository-removed', observed: null };
const refused: InstallationNow = { ...degraded, reason: 'credential-refused' };
const back = change('repositories', { observed: { repositories: { selection: 'all' } } });
const knows = (observed: Observed): InstallationNow => ({ ...active, observed });
const told = (permissions: Observed['permissions']): InstallationChange =>
  change('permissions', permissions === undefined ? {} : { observed: { permissions } });
const answers: readonly (readonly [InstallationNow, InstallationChange, InstallationAnswer | undefined, object])[] = [
  [active, change('renamed'), undefined, { status: 'active', isChange: true, detail: 'renamed' }],
  [active, change('removed'), 'active', { status: 'removed', isChange: true }],
  [refused, change('renamed'), undefined, { ...refused, isChange: true, detail: 'renamed' }],
  [degraded, change('renamed'), undefined, { ...degraded, isChange: true, detail: 'renamed' }],
  [refused, change('established'), 'credential-refused', { ...refused, isChange: false }],
  [degraded, change('established'), 'credential-refused', { ...refused, isChange: true }],
  [active, change('established'), 'removed', { status: 'removed', isChange: true }],
  [degraded, back, undefined, { status: 'active', isChange: true }],
  [refused, back, undefined, { ...refused, isChange: true, detail: 'repositories' }],
  [
    { ...degraded, status: 'suspended' },
    back,
    undefined,
    { ...degraded, status: 'suspended', isChange: true, detail: 'repositories' },
  ],
  [active, told(given), undefined, { status: 'active', isChange: true, detail: 'permissions' }],
  [{ ...active, status: 'suspended' }, told(given), 'active', { status: 'active', isChange: true }],
  [active, told(given), 'suspended', { status: 'suspended', isChange: true }],
  [active, told(given), 'removed', { status: 'removed', isChange: true }],
  [active, told(given), 'credential-refused', { ...refused, isChange: true }],
  [
    knows({ permissions: given }),
    told({ issues: 'write', contents: 'read' }),
    'active',
    { status: 'active', isChange: false },
  ],
  [knows({ permissions: given }), told(undefined), 'active', { status: 'active', isChange: false }],
  [
    knows({ permissions: given }),
    told({ contents: 'read' }),
    'active',
    { status: 'active', isChange: true, detail: 'permissions' },
  ],
  [knows({ repositories: { selection: 'all' } }), back, undefined, { status: 'active', isChange: false }],
  [active, change('established'), 'active', { status: 'active', isChange: false }],
];
for (const [now, said, seen, expected] of answers) {
  test(`${now.status} (${now.reason}) told ${said.what}, asked ${seen}: ${JSON.stringify(expected)}`, () => {
    const { observed: _, ...next } = afterInstallation(now, said, seen, ['a/b']);
    const { observed: __, ...wanted } = { observed: null, ...expected };
    assert.deepEqual(next, wanted);
  });
}

test('permissions that were told stand until others are, and nothing is known of what was never told', () => {
  assert.deepEqual(observedAfter(null, nothing), {});
  const known = observedAfter(null, { ...nothing, observed: { permissions: given } });
  assert.deepEqual(known, { permissions: given });
  assert.deepEqual(observedAfter(known, nothing), known);
  const both = observedAfter(known, { ...nothing, observed: { repositories: { selection: 'all' } } });
  assert.deepEqual(both, { permissions: given, repositories: { selection: 'all' } });
  assert.deepEqual(observedAfter(both, { ...nothing, observed: { permissions: {} } }).permissions, {});
});

test('names are kept of a selection alone, at most 2,000 of them, and a whole list ends what is missed', () => {
  const names = Array.from({ length: 2_001 }, (_, index) => `a/${index}`);
  const selected = { selection: 'selected' as const };
  const known = observedAfter(null, { ...nothing, observed: { repositories: { ...selected, names } } });
  assert.deepEqual(known.repositories?.names, names.slice(0, 2_000));
  const lost = observedAfter(null, { ...nothing, observed: { repositories: selected }, removed: names });
  assert.deepEqual(lost.repositories, { ...selected, missing: names.slice(0, 2_000) });
  assert.deepEqual(
    observedAfter(lost, { ...nothing, observed: { repositories: { ...selected, names: ['a/1'] } } }).repositories,
    { ...selected, names: ['a/1'] },
  );
  const all = observedAfter(known, { ...nothing, observed: { repositories: { selection: 'all' } } });
  assert.deepEqual(all.repositories, { selection: 'all' });
  assert.equal(observedAfter(lost, { ...nothing, added: ['b/c'] }).repositories?.names, undefined);
  assert.deepEqual(missingOf(lost, ['A/0', 'b/c']), ['A/0']);
  assert.deepEqual(missingOf(null, ['a/b']), []);
});
