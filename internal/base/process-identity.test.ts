import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { hasEnded, processIdentity } from './process-identity.ts';

const self = processIdentity();

test('a process that runs has not ended, and one whose number is somebody else’s now has', {
  skip: self === undefined,
}, () => {
  if (self === undefined) return;
  assert.equal(hasEnded(self, self), false);
  assert.equal(hasEnded({ ...self, startTicks: '1' }, self), true);
});

test('a process that is gone has ended', { skip: self === undefined }, async () => {
  if (self === undefined) return;
  const child = spawn(process.execPath, ['-e', '']);
  const pid = child.pid ?? 0;
  await once(child, 'exit');
  assert.equal(hasEnded({ ...self, pid }, self), true);
});

test('nothing is known of another kernel, of other numbers, or where the kernel does not tell', {
  skip: self === undefined,
}, () => {
  if (self === undefined) return;
  const gone = { ...self, pid: 2 ** 22 - 1, startTicks: '1' };
  assert.equal(hasEnded({ ...gone, bootId: 'another' }, self), false);
  assert.equal(hasEnded({ ...gone, pidNamespace: 'pid:[1]' }, self), false);
  assert.equal(hasEnded(gone, undefined), false);
});
