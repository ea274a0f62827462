import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sessionSettings } from './session-settings.ts';

test('without a section a host has 200 places, gives them back after a minute, and its sessions may spawn so much', () => {
  const { max, perProject, unloadAfterSeconds, turnSeconds, spawn } = sessionSettings({});
  assert.deepEqual([max, perProject, unloadAfterSeconds, turnSeconds], [200, undefined, 60, 3_600]);
  assert.deepEqual(spawn, { depth: 8, live: 100, perMinute: 60 });
  const more = sessionSettings({ sessions: { spawn: { live: 5 } } });
  assert.deepEqual(more.spawn, { depth: 8, live: 5, perMinute: 60 }, 'of what is named, that alone');
});
