import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { PieceSpool, type SpooledPiece } from './piece-spool.ts';

test('pieces come back as they were given, as often as they are asked for, and leave no file', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-spool-'));
  const spool = await PieceSpool.open(dir);
  try {
    assert.deepEqual(await readdir(dir), []);
    const given: SpooledPiece[] = [
      { part: 0, number: 0, piece: Buffer.alloc(1_048_605, 'a') },
      { part: 0, number: 1, piece: Buffer.from('the last') },
      { part: 2, number: 0, piece: Buffer.alloc(0) },
    ];
    for (const one of given) await spool.add(one);
    for (let times = 0; times < 2; times += 1) assert.deepEqual(await Array.fromAsync(spool.pieces()), given);
  } finally {
    await spool.close();
    await rm(dir, { recursive: true });
  }
});
