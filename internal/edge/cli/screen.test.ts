// What reaches a terminal: its colours, its width, and nothing that steers it otherwise.

import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { CliIo } from './io.ts';
import { createScreen, type Screen } from './screen.ts';

interface Terminal {
  readonly screen: Screen;
  readonly stdout: () => string;
  readonly stderr: () => string;
}

function terminal(env: CliIo['env'] = {}, columns = 80): Terminal {
  const stream = () => Object.assign(new PassThrough().setEncoding('utf8'), { isTTY: true, columns });
  const [stdout, stderr] = [stream(), stream()];
  const io = { stdout, stderr, env, now: () => new Date(0) } as unknown as CliIo;
  const all = (of: PassThrough) => () => String(of.read() ?? '');
  return { screen: createScreen(io, 'text'), stdout: all(stdout), stderr: all(stderr) };
}

test('colours that were set stay, and what else a terminal would obey is shown', () => {
  const { screen, stdout, stderr } = terminal();
  const evil = 'a\u001b[8mb\u001b]0;t\u0007\u009bJ\u202ec\r';
  const shown = 'a\\x1b[8mb\\x1b]0;t\\x07\\x9bJ\\u202ec\\x0d';
  screen.emit(undefined, () => `${screen.paint('bold', 'head')}: ${evil}`);
  assert.equal(stdout(), `\u001b[1mhead\u001b[22m: ${shown}\n`);
  screen.stream(undefined, () => evil);
  assert.equal(stdout(), `${shown}\n`);
  screen.exact(undefined, () => evil);
  assert.equal(stdout(), `${shown}\n`);
  screen.note(`${screen.errPaint('red', 'svc:')} ${evil}`);
  assert.equal(stderr(), `\u001b[31msvc:\u001b[39m ${shown}\n`);
});

test('a line in place is cut to one line of the terminal, since only one is cleared', () => {
  const { screen, stderr } = terminal({}, 20);
  screen.progress('… syncing fleet: 日本語 compile (1.24s)');
  assert.equal(stderr(), '… syncing fleet: …');
  screen.progress('');
  assert.equal(stderr(), '\r\u001b[2K');
  screen.progress('a\u001b[2Jb');
  assert.equal(stderr(), 'a\\x1b[2Jb');
});

test('a terminal that obeys nothing is told nothing in place', () => {
  const { screen, stderr } = terminal({ TERM: 'dumb' });
  screen.progress('planning…');
  screen.note('done');
  assert.equal(stderr(), 'done\n');
});
