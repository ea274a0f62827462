import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { gitId, sha256, sha256Bytes } from './hash.ts';

const shared = new Uint8Array(new SharedArrayBuffer(64), 8, 20).fill(7);

test('a hash in one call is that of the object which is fed, whatever it is given', () => {
  for (const data of ['', 'text', 'é', '\ud800 alone', new Uint8Array(), Buffer.from('abc').subarray(1), shared]) {
    const of = createHash('sha256').update(data);
    assert.deepEqual([sha256(data), sha256Bytes(data)], [of.copy().digest('hex'), of.digest()]);
  }
});

test('an object of git has the id that git gives it, however long it is', () => {
  assert.equal(gitId('blob', Buffer.from('hello\n')), 'ce013625030ba8dba906f756967f9e9ca394464a');
  assert.equal(gitId('tree', Buffer.alloc(0)), '4b825dc642cb6eb9a060e54bf8d69288fbee4904');
  for (const bytes of [shared, Buffer.alloc(65_536, 1), Buffer.alloc(65_537, 1)]) {
    const of = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes);
    assert.equal(gitId('blob', bytes), of.digest('hex'));
  }
});
