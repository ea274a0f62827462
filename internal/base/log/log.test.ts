import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createLog } from './log.ts';

function logged(
  write: (log: ReturnType<typeof createLog>) => void,
  level: 'info' | 'warn' = 'info',
): Record<string, unknown>[] {
  const lines: string[] = [];
  write(createLog(level, { write: (line: string) => void lines.push(line) }));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('the log', () => {
  it('is one JSON line an outcome, with its level in words and its time', () => {
    const [line] = logged((log) => log.info({ repository: 'a' }, 'repo.synced'));
    assert.equal(line?.['level'], 'info');
    assert.equal(line?.['msg'], 'repo.synced');
    assert.match(String(line?.['time']), /^\d{4}-\d\d-\d\dT.*Z$/);
    assert.deepEqual(
      logged((log) => log.info({}, 'x'), 'warn'),
      [],
    );
  });

  it('cuts secret-bearing fields out', () => {
    const lines = logged((log) =>
      log.info({ token: 'hush', headers: { authorization: 'hush' }, a: { b: { password: 'hush' } } }, 'x'),
    );
    assert.doesNotMatch(JSON.stringify(lines), /hush/);
  });

  it('keeps of an error what explains it, with its cause, and nothing that hangs on it', () => {
    const cause = Object.assign(new Error('inner'), { code: 'ECONNRESET', connection: { key: 'hush' } });
    const [line] = logged((log) => log.error({ err: new Error('outer', { cause }) }, 'x'));
    const err = line?.['err'] as Record<string, unknown>;
    assert.equal(err['message'], 'outer');
    assert.deepEqual(Object.keys(err['cause'] as object), ['type', 'message', 'code', 'stack']);
    assert.doesNotMatch(JSON.stringify(line), /hush/);
  });
});
