import assert from 'node:assert/strict';
import { test } from 'node:test';
import { whySaid } from './said.ts';

test('of what a program of PostgreSQL says when it gives up, its reason is told, and not what it did thereafter', () => {
  // As initdb says it on a disk that is full.
  const full = `2026-11-29 06:13:03.630 UTC [24299] FATAL:  could not extend file "base/1/2691": No space left on device
2026-11-29 06:13:03.630 UTC [24299] HINT:  Check free disk space.
2026-11-29 06:13:03.630 UTC [24299] PANIC:  cannot abort transaction 1, it was already committed
Aborted
child process exited with exit code 134
initdb: removing contents of data directory "/d/postgres.new"
`;
  assert.equal(
    whySaid(full),
    'FATAL: could not extend file "base/1/2691": No space left on device (Check free disk space.)',
  );
  const statement = `2026-11-29 06:13:08.173 UTC [2] FATAL:  could not write to file "base/4/1249": No space left on device
2026-11-29 06:13:08.173 UTC [2] STATEMENT:  CREATE DATABASE template0
	OID = 4;

child process exited with exit code 1
initdb: removing data directory "x"`;
  assert.equal(whySaid(statement), 'FATAL: could not write to file "base/4/1249": No space left on device');
  assert.equal(
    whySaid('initdb: error: could not change permissions of "/d"\n'),
    'initdb: error: could not change permissions of "/d"',
  );
  // What a server that starts tells those who come meanwhile is not why it did not.
  const early =
    'x [1] FATAL:  the database system is starting up\nx [2] FATAL:  could not map anonymous shared memory: Cannot allocate memory\n';
  assert.equal(whySaid(early), 'FATAL: could not map anonymous shared memory: Cannot allocate memory');
  assert.equal(whySaid('a\nb\nlibicu: not found\nc'), 'b libicu: not found c');
  assert.equal(whySaid(' \n'), 'it says nothing');
});
