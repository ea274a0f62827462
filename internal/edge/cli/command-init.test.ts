// `svc init` as a person at a terminal has it.

import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, test } from 'node:test';
import { runCli } from './cli.ts';

let place: string;
before(async () => {
  place = await mkdtemp(join(tmpdir(), 'svc-init-'));
});
after(() => rm(place, { recursive: true, force: true }));

/** Runs it in `place`; `typed` at a terminal, where it is given. */
async function svc(args: readonly string[], typed?: string): Promise<{ code: number; stderr: string; stdout: string }> {
  const isTTY = typed !== undefined;
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const said = { stdout: '', stderr: '' };
  stdout.on('data', (chunk: Buffer) => (said.stdout += chunk.toString()));
  stderr.on('data', (chunk: Buffer) => {
    said.stderr += chunk.toString();
    if (isTTY && said.stderr.endsWith('] ')) stdin.write(typed);
  });
  const code = await runCli(args, {
    stdin: Object.assign(stdin, { isTTY }) as unknown as NodeJS.ReadStream,
    stdout: stdout as unknown as NodeJS.WriteStream,
    stderr: Object.assign(stderr, { isTTY }) as unknown as NodeJS.WriteStream,
    env: { TERM: 'dumb' },
    cwd: place,
    home: place,
    now: () => new Date(),
    signal: new AbortController().signal,
  });
  return { code, ...said };
}

for (const [what, key] of [
  ['Ctrl-C', '\u0003'],
  ['Ctrl-D', '\u0004'],
] as const) {
  test(`${what} at a question ends it, and nothing is written`, async () => {
    const { code, stderr } = await svc(['init', 'asked'], key);
    assert.equal(code, 1);
    assert.match(stderr, /\nsvc: interrupted; nothing was written\n$/);
    assert.deepEqual(await readdir(place), []);
  });
}

for (const name of ['2024', '1e3', '0x1F', 'true', 'Null', '-', '.5', '..', '_a', 'triage-2']) {
  test(`a tree that compiles, for an agent that is called ${name}`, async () => {
    const root = join(place, `of${name}`);
    const made = await svc(['init', root, `--name=${name}`, '--yes', '--schema=https://svc.example.com/agent.json']);
    assert.equal(made.code, 0, made.stderr);
    const { code, stdout, stderr } = await svc(['compile', root, '--json']);
    assert.deepEqual([code, stderr], [0, ''], stdout);
    const { resources } = JSON.parse(stdout) as { resources: readonly { kind: string; name: string }[] };
    assert.deepEqual(
      resources.map((one) => `${one.kind} ${one.name}`),
      [`Agent ${name}`, 'Environment base'],
    );
  });
}
