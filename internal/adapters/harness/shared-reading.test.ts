import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { frameStream } from './frames.ts';
import { SharedReading } from './shared-reading.ts';

const until = async (isMet: () => boolean): Promise<void> => {
  while (!isMet()) await sleep(2);
};

type Program = ReturnType<typeof program>;

/** A program of an owner that writes a line of half a mebibyte; what was heard of it. */
function program(reading: SharedReading, owner: string) {
  const stdout = new PassThrough();
  const heard: string[] = [];
  const hear = (what: string) => (): void => {
    heard.push(what);
    if (what !== 'line') stdout.destroy();
  };
  const limits = { maxFrameBytes: 1_000_000, maxFrameValues: 40, maxOpenRequests: 4 };
  const stream = frameStream(
    new PassThrough(),
    stdout,
    limits,
    {
      gate: () => undefined,
      onUpdate: hear('line'),
      onOther: () => undefined,
      onWrite: async () => undefined,
      onGarbage: hear('garbage'),
      onTooLarge: hear('too large'),
      onSlow: hear('slow'),
      onEnd: () => undefined,
      onStray: () => undefined,
    },
    { from: 0, nextId: 0, asked: undefined, share: reading.of(owner) },
  );
  void stream.readable.getReader().read();
  const line = `{"jsonrpc":"2.0","method":"session/update","params":"${'x'.repeat(500_000)}"}\n`;
  const [begun, rest] = [line.slice(0, 400_000), line.slice(400_000)];
  stdout.write(begun);
  return { heard, isRead: () => stdout.readableLength === 0, end: () => stdout.write(rest) };
}

test('of lines that are large few come at once, of one owner half of those, and who takes long gives way', async () => {
  const reading = new SharedReading(0);
  const own = ['a', 'a', 'a', 'b'].map((owner) => program(reading, owner));
  const [first, second, third, other] = own as [Program, Program, Program, Program];
  // The third waits for one of its own owner's: that takes too long.
  await until(() => first.heard.length > 0);
  for (const one of [second, third, other]) one.end();
  await until(() => third.heard.length > 0 && other.heard.length > 0);
  assert.deepEqual(
    own.map(({ heard }) => heard),
    [['slow'], ['line'], ['line'], ['line']],
  );
});

test('a line that has its place comes as long as it likes while nobody waits', async () => {
  const reading = new SharedReading(0);
  const [one, two] = [program(reading, 'a'), program(reading, 'b')];
  await until(() => one.isRead() && two.isRead());
  for (const each of [one, two]) each.end();
  await until(() => one.heard.length > 0 && two.heard.length > 0);
  assert.deepEqual([one.heard, two.heard], [['line'], ['line']]);
});
