import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Refusal, UsageError } from './failure.ts';
import { readSecret } from './input.ts';
import type { Call } from './types.ts';

/** A terminal: what is typed, whether it would echo it at that moment, and what it shows. */
function terminal() {
  const shown: string[] = [];
  let isRaw = false;
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (raw: boolean): void => {
      isRaw = raw;
    },
  });
  const stderr = { write: (text: string) => void shown.push(text) };
  const io = { stdin, stderr, signal: new AbortController().signal, cwd: '/' };
  const call = { io, text: () => undefined } as unknown as Call;
  const type = (text: string): void => {
    // What a terminal does with a key while it is not raw.
    if (!isRaw) shown.push(text);
    stdin.write(text);
  };
  return { call, type, shown, isRaw: () => isRaw };
}

for (const [what, keys, value] of [
  ['as it was typed', ['hush', '-hush', '\r'], 'hush-hush'],
  ['after a correction', ['husx\u007fh', '\r'], 'hush'],
  ['after a line that was thrown away', ['wrong\u0015hush\n'], 'hush'],
  ['with characters of more than one byte', ['hüsh🔑🔑\u007f\r'], 'hüsh🔑'],
] as const) {
  test(`a value is read from a terminal ${what}, and not shown`, async () => {
    const { call, type, shown, isRaw } = terminal();
    const reading = readSecret(call, 'value of db');
    assert.ok(isRaw(), 'before the prompt');
    for (const key of keys) type(key);
    assert.equal(await reading, value);
    assert.deepEqual(shown, ['value of db: ', '\n']);
    assert.equal(isRaw(), false, 'the terminal is left as it was');
  });
}

test('an interrupt ends the question and leaves the terminal as it was', async () => {
  const { call, type, shown, isRaw } = terminal();
  const reading = readSecret(call, 'value of db');
  type('hush\u0003');
  await assert.rejects(reading, (error) => error instanceof Refusal && error.problem.code === 'interrupted');
  assert.equal(isRaw(), false);
  assert.doesNotMatch(shown.join(''), /hush/);
});

test('an interrupt ends the reading of what is typed until its end', async () => {
  const stdin = new PassThrough();
  const stop = new AbortController();
  const call = { io: { stdin, signal: stop.signal, cwd: '/' }, text: () => '-' } as unknown as Call;
  const reading = readSecret(call, 'value of db');
  stdin.write('half of i');
  setImmediate(() => stop.abort());
  const end = await Promise.race([
    reading.catch((error: unknown) => error),
    sleep(20_000, 'it reads on', { ref: false }),
  ]);
  assert.ok(end instanceof Refusal && end.problem.code === 'interrupted', String(end));
});

test('bytes that are no UTF-8 are refused, wherever they come from, and not turned into others', async () => {
  const bytes = Buffer.from([0x68, 0xff, 0xfe]);
  const stdin = new PassThrough();
  stdin.end(bytes);
  const place = await mkdtemp(join(tmpdir(), 'svc-input-'));
  await writeFile(join(place, 'key'), bytes);
  await writeFile(join(place, 'text'), '\ufeffh\r\n');
  const signal = new AbortController().signal;
  const from = (path: string) =>
    readSecret({ io: { stdin, signal, cwd: place }, text: () => path } as unknown as Call, 'value of db');
  for (const [path, named] of [
    ['-', 'stdin'],
    ['key', '--from-file: key'],
  ] as const) {
    await assert.rejects(
      from(path),
      (error) => error instanceof UsageError && error.message === `${named} is not text in UTF-8`,
    );
  }
  assert.equal(await from('text'), '\ufeffh\r\n');
  await rm(place, { recursive: true });
});
