import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { mountRepository, openSandboxes, type SandboxCommand } from './sandbox.ts';
import { commandLines, testPath, temporary } from './test-support.ts';

const time = { timeoutMs: 120_000 };

/** A program that stands for a container's: it hands in the named variables only, and shows its other arguments. */
async function operator(t: TestContext) {
  const dir = temporary(t);
  const program = join(dir, 'box');
  const script = `#!/bin/bash
case "$LD_PRELOAD$DOCKER_HOST$BASH_ENV" in ?*) echo STEERED >&2;; esac
id=$1 home=$2 work=$3; shift 3
keep=()
while [ "$1" != -- ]; do keep+=("\${1#--env=}=$(printenv "\${1#--env=}")"); shift; done; shift
cd "$work" && exec env -i "\${keep[@]}" PATH="$PATH" "$@"
`;
  await writeFile(program, script, { mode: 0o755 });
  const remove = join(dir, 'remove');
  await writeFile(remove, `#!/bin/sh\necho "$1" >> ${dir}/removed\n`, { mode: 0o755 });
  const command: SandboxCommand = {
    run: [program, '{id}', '{home}', '{work}', '--env={env-names}', '--'],
    remove: [remove, '{id}'],
  };
  return { dir, command, program };
}

const opened = (dataDir: string, command?: SandboxCommand) =>
  openSandboxes({ dataDir, sandbox: 'command', command, host: { PATH: testPath, HOME: '/nonexistent' } });

test('an operator’s program gets its placeholders, names without values, and the values in its environment', async (t) => {
  const { dir, command } = await operator(t);
  const { provider, facts } = await opened(dir, command);
  t.after(() => provider.close());
  assert.deepEqual([facts.inUse, facts.capabilities.isolation], ['command', 'external']);
  const sandbox = await provider.create({ id: 'one', fenced: true, resources: { cpuCount: 1 } });
  assert.deepEqual(sandbox.notEnforced, ['network', 'resources']);
  const env = {
    TOKEN: 'canary "$HOME" \n\'x\'',
    LD_PRELOAD: '',
    BASH_ENV: '/nonexistent/evil',
    DOCKER_HOST: 'tcp://evil',
    NODE_ENV: 'test',
  };
  const child = await sandbox.spawn({
    argv: [
      '/bin/sh',
      '-c',
      'printf "%s|" "$TOKEN" "$HOME" "$BASH_ENV" "$DOCKER_HOST" "$NODE_ENV" "$*"; env | grep -c ^SVC_ENV_; read x',
      'sh',
      'a b',
    ],
    env,
  });
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    if (Buffer.concat(chunks).includes('|0\n')) break;
  }
  const said = Buffer.concat(chunks).toString();
  assert.equal(said, `${env.TOKEN}|/home/user|/nonexistent/evil|tcp://evil|test|a b|0\n`);
  assert.deepEqual(commandLines('canary "$HOME"'), []);
  const errors: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  await child.kill();
  assert.equal(Buffer.concat(errors).includes('STEERED'), false);
  await sandbox.destroy();
  assert.ok(existsSync(join(dir, 'removed')));
});

test('mounts are named as the operator’s program shows them', async (t) => {
  const { dir, command } = await operator(t);
  const { provider } = await opened(dir, command);
  t.after(() => provider.close());
  const root = temporary(t);
  await (await GitFixture.create(join(root, 'w.git'))).commit({ 'a.txt': 'one\n' });
  const server = await new GitServer({ root }).start();
  t.after(() => server.stop());
  const sandbox = await provider.create({ id: 'one' });
  const options = { allowPrivateNetwork: true, path: testPath };
  const inWork = await mountRepository(sandbox, { url: server.url('w.git'), mountPath: '/workspace/w' }, options);
  const outside = await mountRepository(sandbox, { url: server.url('w.git'), mountPath: '/data/w' }, options);
  assert.deepEqual([inWork.path, inWork.isMoved], ['/workspace/w', false]);
  assert.deepEqual([outside.path, outside.isMoved], ['/workspace/data/w', true]);
  assert.equal((await sandbox.run({ command: 'cat w/a.txt data/w/a.txt', ...time })).output, 'one\none\n');
});

test('templates that cannot be used are refused at the start, saying why', async (t) => {
  const { dir, program } = await operator(t);
  const whole = ['{id}', '{home}', '{work}', '{env-names}'];
  const cases: [SandboxCommand | undefined, RegExp][] = [
    [undefined, /needs sessions.command in the file/],
    [{ run: [] }, /run cannot be used: it names no program/],
    [{ run: ['{id}', ...whole] }, /cannot be a placeholder/],
    [{ run: [program, ...whole, '{secret}'] }, /\{secret\} is no placeholder there; known are \{id\}/],
    [{ run: [program, '{id}', '{home}', '{env-names}'] }, /\{work\} is in none/],
    [{ run: [program, '{id}', '{home}', '{work}'] }, /\{env-names\} is in none/],
    [{ run: ['no-such-program-here', ...whole] }, /no-such-program-here is not in PATH/],
    [{ run: [program, ...whole], remove: [program] }, /remove cannot be used: \{id\} is in none/],
    [{ run: [program, ...whole, 'a\0b'] }, /NUL/],
  ];
  for (const [command, message] of cases) await assert.rejects(opened(dir, command), message);
});
