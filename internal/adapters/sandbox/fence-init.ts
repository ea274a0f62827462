// The first program inside a fenced sandbox, which has no network: it listens on the sandbox's own loopback address,
// hands each connection to a socket of the daemon, and runs the program that follows with its own standard streams.
// Imports nothing of the house, since it is alone in there, and holds no type syntax: it is run as plain JavaScript,
// which starts sooner. usage: fence-init.mjs PORT:SOCKET… -- PROGRAM ARGS…

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { constants } from 'node:os';
import { parseArgs } from 'node:util';

const { positionals, tokens } = parseArgs({ allowPositionals: true, strict: false, tokens: true });
const split = tokens.find((token) => token.kind === 'option-terminator')?.index ?? 0;
const channels = positionals.slice(0, split);
const [program = '', ...args] = positionals.slice(split);

for (const channel of channels) {
  const colon = channel.indexOf(':');
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (inner) => {
    const outer = connect({ path: channel.slice(colon + 1), allowHalfOpen: true });
    // Either end may break; the other then learns it by the end of the stream.
    inner.on('error', () => outer.destroy());
    outer.on('error', () => inner.destroy());
    inner.pipe(outer).pipe(inner);
    // Nothing but the program keeps this one alive.
    inner.unref();
    outer.unref();
  });
  server.listen(Number(channel.slice(0, colon)), '127.0.0.1');
  await once(server, 'listening');
  server.unref();
}
const child = spawn(program, args, { stdio: 'inherit' });
child.once('error', (error) => {
  console.error(`${program} cannot be started in the sandbox (${'code' in error ? error.code : error.name})`);
  process.exitCode = 127;
});
child.once('exit', (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal ?? 'SIGKILL'];
});
