import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statusText } from './run-record.ts';

test('each end of a run has its word', () => {
  const run = { condition: null, detail: null, actions: [], diagnostics: [] };
  const error = { severity: 'error', message: 'no harness' };
  const cases = [
    [{ ...run, status: 'unchanged' }, 'success', 'nothing to change'],
    [{ ...run, status: 'held', detail: 'would delete 12 agents' }, 'failure', 'would delete 12 agents'],
    [{ ...run, status: 'quarantined' }, 'failure', 'left aside by a rollback'],
    [{ ...run, status: 'failed', diagnostics: [error, { severity: 'warning' }] }, 'failure', '1 error: no harness'],
    [{ ...run, status: 'failed', condition: 'unreachable' }, 'error', 'not read: unreachable'],
    [{ ...run, status: 'failed' }, 'error', 'the sync broke off'],
  ] as const;
  for (const [given, state, description] of cases) assert.deepEqual(statusText(given), { state, description });
});
