import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Fault } from '../../domain/fault.ts';
import { renderProblem } from './problem.ts';

const ofSystem = (code: string, path?: string): Error =>
  Object.assign(new Error(`${code}: said the system, open '${path}'`), { code, ...(path !== undefined && { path }) });

test('what the machine lacks is told without a path, to be tried again, and logged in full', () => {
  const rows: (readonly [error: Error, detail: string])[] = [
    [ofSystem('ENOSPC', '/var/lib/svc/templates/x'), 'The machine of the daemon has no room left (ENOSPC); try again.'],
    [
      new Error('the template cannot be kept', { cause: ofSystem('EROFS', join(tmpdir(), 'svc-x')) }),
      'The daemon’s directory for temporary files (TMPDIR) can be read only (EROFS); try again.',
    ],
    [ofSystem('EMFILE'), 'The machine of the daemon has too many files open (EMFILE); try again.'],
  ];
  for (const [error, detail] of rows) {
    const { problem, headers, isBug } = renderProblem(error, 'r-1');
    assert.deepEqual([problem.status, problem.code, problem.detail], [503, 'unavailable', detail]);
    assert.deepEqual([headers['retry-after'], isBug], ['30', true]);
  }
});

test('what is no lack of the machine is a bug, and a fault is what it says', () => {
  const { problem, isBug } = renderProblem(ofSystem('EACCES', '/hush'), 'r-1');
  assert.deepEqual([problem.status, problem.code, isBug], [500, 'internal', true]);
  assert.doesNotMatch(problem.detail, /hush/);
  const fault = new Fault('unavailable', 'away', 'Gone.', { cause: ofSystem('ENOSPC') });
  assert.deepEqual([renderProblem(fault, 'r-1').problem.code, renderProblem(fault, 'r-1').isBug], ['away', false]);
});
