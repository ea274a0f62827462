import assert from 'node:assert/strict';
import { test } from 'node:test';
import { syncSettings } from './sync-settings.ts';

test('a repository is compared as a whole every ten minutes unless told otherwise', () => {
  assert.equal(syncSettings({}).resyncSeconds, 600);
  assert.equal(syncSettings({ sync: { resyncSeconds: 60 } }).resyncSeconds, 60);
});

test('what cannot be used is named', () => {
  assert.throws(() => syncSettings({ sync: { resyncSeconds: 1 } }), /sync\.resyncSeconds/);
  assert.throws(() => syncSettings({ sync: { resync: 60 } }), /sync/);
});
