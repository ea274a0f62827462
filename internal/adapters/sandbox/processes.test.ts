// What tells a sandbox's processes from others: read from /proc, and from `ps` for a system without it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { guardScript } from './guard.ts';
import { fromProc, fromPs, markerName, type ProcessTable, processTable } from './process-table.ts';
import { runningIds } from './processes.ts';
import { runId } from './test-support.ts';

const tables: readonly (readonly [string, ProcessTable])[] = [
  ...(existsSync('/proc/self/stat') ? [['/proc', fromProc] as const] : []),
  ['ps', fromPs],
];

for (const [name, table] of tables) {
  test(`${name}: a process is listed with its marker, its group and its parent, and the guard ends it`, async () => {
    const prefix = `t${name === 'ps' ? 1 : 0}${runId}.boot.`;
    // A program of its own that keeps its environment where the system shows it: Node, as harnesses are.
    const child = spawn(
      process.execPath,
      ['-e', 'console.log("up"); setInterval(() => {}, 1e6)', `a ${markerName}=b`],
      {
        env: { [markerName]: `${prefix}one.1` },
        detached: true,
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const exited = once(child, 'exit');
    const pid = child.pid ?? 0;
    try {
      await once(child.stdout, 'data');
      const all = await table.list();
      const found = all.find((one) => one.pid === pid);
      assert.equal(found?.group, pid);
      assert.equal(found?.parent, process.pid);
      if (name !== 'ps') assert.equal(found?.marker, `${prefix}one.1`);
      assert.ok(!all.some((one) => one.pid === process.pid));
      assert.equal(await table.isRunning(pid), true);
      const guard = spawn('/bin/sh', ['-c', guardScript(table), 'sh', prefix], {
        env: { PATH: '/usr/bin:/bin' },
        stdio: ['pipe', 'inherit', 'inherit'],
      });
      guard.stdin?.end();
      assert.deepEqual(await once(guard, 'exit'), [0, null]);
      assert.deepEqual(await exited, [null, 'SIGKILL']);
      assert.equal(await table.isRunning(pid), false);
    } finally {
      child.kill('SIGKILL');
    }
  });
}

test('who asks for a look before one begins has it in common, and who asks while one goes on has one that begins later', async (t) => {
  const begun: PromiseWithResolvers<never[]>[] = [];
  t.mock.method(processTable, 'list', () => {
    const look = Promise.withResolvers<never[]>();
    begun.push(look);
    return look.promise;
  });
  const beginning = async (nth: number): Promise<void> => {
    while (begun.length < nth) await setImmediate();
  };
  const first = Promise.all(Array.from({ length: 100 }, () => runningIds('nobody')));
  await beginning(1);
  const second = [runningIds('nobody'), runningIds('nobody')];
  begun[0]?.resolve([]);
  await first;
  await beginning(2);
  begun[1]?.reject(new Error('no list'));
  assert.deepEqual(
    (await Promise.allSettled(second)).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  const third = runningIds('nobody');
  await beginning(3);
  begun[2]?.resolve([]);
  assert.deepEqual(await third, []);
  assert.equal(begun.length, 3);
});
