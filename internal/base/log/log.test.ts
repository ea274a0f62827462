import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
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

  it('ends nothing where it cannot be written, and goes on once it can', (t) => {
    if (spawnSync('test', ['-c', '/dev/full']).status !== 0) return t.skip('no device is always full here');
    const file = join(mkdtempSync(join(tmpdir(), 'svc-log-')), 'log');
    const full = openSync('/dev/full', 'w');
    const logTo = (script: string) =>
      spawnSync(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', full] });
    const log = `const { createLog } = await import(${JSON.stringify(join(import.meta.dirname, 'log.ts'))});
      const log = createLog('info');
      const { closeSync, openSync } = await import('node:fs');`;
    const many = `for (let i = 0; i < 20_000; i++) log.info({ text: 'x'.repeat(100) }, 'many');`;
    const free = `closeSync(2); openSync(${JSON.stringify(file)}, 'w'); log.info({}, 'last');`;
    const ended = logTo(`${log} log.info({}, 'first'); ${many} ${free} process.stdout.write('on');`);
    closeSync(full);
    assert.deepEqual([ended.status, ended.stdout.toString()], [0, 'on']);
    const written = readFileSync(file, 'utf8');
    assert.match(written, /"msg":"first"/);
    assert.ok(written.length < 2 * 1024 * 1024);
    rmSync(dirname(file), { recursive: true });
  });
});
