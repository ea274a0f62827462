// Several statements go in one message, and rows are copied in, by parts of `pg` that it keeps to itself. Nothing but this
// test tells when an upgrade changes them: it names the version that was looked at.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import pg from 'pg';

const lookedAt = '8.23.1';
const readAgain = 'read batch.ts and copy-in.ts against the new one, then change the version here';

const isMethod = (on: object, name: string): boolean => typeof (on as Record<string, unknown>)[name] === 'function';

test('the driver is the one whose inside was looked at', () => {
  const manifest = createRequire(import.meta.url).resolve('pg/package.json');
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
  assert.equal(version, lookedAt, readAgain);
});

test('a query writes its own messages, reads its own answer, and keeps its result and its types', () => {
  const query = new pg.Query({ name: 'one', text: 'select 1', values: [] }) as unknown as {
    _result: object;
    name: string;
  };
  for (const name of [
    'prepare',
    'handleRowDescription',
    'handleDataRow',
    'handleCommandComplete',
    'handleReadyForQuery',
  ]) {
    assert.ok(isMethod(query, name), `${name}: ${readAgain}`);
  }
  assert.ok(Object.hasOwn(query._result, '_types'), readAgain);
  assert.equal(query.name, 'one');
});

test('a connection keeps its named statements, and has what a batch and a copy call', () => {
  const { connection } = new pg.Client() as unknown as { connection: Record<string, object> };
  assert.ok(connection);
  for (const name of ['parse', 'close', 'sync', 'query', 'sendCopyFromChunk', 'endCopyFrom', 'sendCopyFail']) {
    assert.ok(isMethod(connection, name), `${name}: ${readAgain}`);
  }
  assert.deepEqual(connection['parsedStatements'], {});
  assert.deepEqual(connection['submittedNamedStatements'], {});
});
