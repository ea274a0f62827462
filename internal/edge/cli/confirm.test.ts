import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { confirmed } from './confirm.ts';
import type { Call } from './types.ts';

/** A call at a terminal, or in a pipe; what is typed is waiting already. */
function callWith(
  typed: string,
  options: { readonly isTTY: boolean; readonly yes?: boolean; readonly json?: boolean },
) {
  const stdin = Object.assign(new PassThrough(), { isTTY: options.isTTY });
  const stderr = Object.assign(new PassThrough(), { isTTY: options.isTTY });
  let shown = '';
  stderr.on('data', (chunk: Buffer) => (shown += chunk.toString()));
  setImmediate(() => stdin.write(typed));
  const call = {
    io: { stdin, stderr, signal: new AbortController().signal },
    json: options.json ?? false,
    flag: (name: string) => name === 'yes' && options.yes === true,
    screen: { note: (text: string) => void stderr.write(`${text}\n`) },
  } as unknown as Call;
  return { call, shown: () => shown };
}
const lines = async (): Promise<readonly string[]> => ['3 agents'];

test('a person at a terminal is shown what goes, and asked', async () => {
  const { call, shown } = callWith('y\n', { isTTY: true });
  await confirmed(call, 'removing fleet takes', lines);
  assert.match(shown(), /removing fleet takes:\n {2}3 agents\n/);
});

for (const typed of ['\n', 'n\n', 'yes please\n', '\u0003', 'y\u0003', '\u0004']) {
  test(`anything but yes does nothing: ${JSON.stringify(typed)}`, async () => {
    const { call } = callWith(typed, { isTTY: true });
    await assert.rejects(confirmed(call, 'removing fleet takes', lines), /nothing was done/);
  });
}

test('a script, --yes and --json are not asked, and nothing is counted for them', async () => {
  const never = async (): Promise<readonly string[]> => assert.fail('it was counted');
  for (const options of [{ isTTY: false }, { isTTY: true, yes: true }, { isTTY: true, json: true }])
    await confirmed(callWith('', options).call, 'x', never);
});
