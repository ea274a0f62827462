import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { InstallationChange } from '../../domain/connection.ts';
import { afterInstallation, type InstallationNow, observedAfter, type SeenWord } from './installation.ts';

const nothing = { observed: {}, added: [], removed: [] };
const change = (what: InstallationChange['what'], more: Partial<InstallationChange> = {}): InstallationChange => ({
  ...nothing,
  ...more,
  what,
});
const active: InstallationNow = { status: 'active', reason: null, observed: null };

test('the status that follows what is said of an installation, and whether that is news', () => {
  const lost = change('repositories', { observed: { repositories: { selection: 'selected' } }, removed: ['A/b'] });
  const cases: [InstallationNow, InstallationChange, SeenWord | undefined, string][] = [
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
  assert.deepEqual(lost.repositories, { ...repositories, missing: ['a/b', 'a/c'] });
  assert.deepEqual(observedAfter(lost, { ...nothing, removed: ['a/B'] }), lost);
  assert.deepEqual(observedAfter(lost, { ...nothing, added: ['a/B'] }).repositories?.missing, ['a/c']);
  const all = observedAfter(lost, { ...nothing, observed: { repositories: { selection: 'all' } } });
  assert.deepEqual(all.repositories, { selection: 'all' });
  const named = { selection: 'selected' as const, names: ['A/b'] };
  const known = observedAfter(null, { ...nothing, observed: { repositories: named } });
  assert.deepEqual(observedAfter(known, { ...nothing, added: ['a/B', 'a/d'] }).repositories?.names, ['A/b', 'a/d']);
  assert.deepEqual(observedAfter(known, { ...nothing, removed: ['a/b'] }).repositories?.names, []);
});
