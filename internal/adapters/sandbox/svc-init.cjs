'use strict';
// The first process of a box: owns its programs, and speaks one stream of numbered frames with the daemon.
// It is given to `node -e` as an argument, so that an image needs Node 18 or later and nothing of ours, and holds no secret.
// usage: node -e SOURCE '{"socket": PATH or "@NAME", "tag": TEXT, "seconds": 60, "stdio": true}'; with `stdio` the first peer may come over
// its standard streams too; without a socket it speaks over them alone, to one peer and until they end.
//
// A frame is two lengths of 32 bits, a header in JSON and data. Both sides number what may not be lost (`n`), keep it until
// the other has said `got`, and send it again to a new peer; so a stream that is cut loses and repeats nothing. How much
// may be kept is bounded by what each program and each connection may have unconsumed: past it they are paused.

const { spawn } = require('node:child_process');
const { createHash, timingSafeEqual } = require('node:crypto');
const fs = require('node:fs');
const net = require('node:net');
const { Duplex } = require('node:stream');

const { socket: path, tag = 'box', seconds = 60 } = JSON.parse(process.argv[1]);
const MARKER = 'SVC_SANDBOX_ID';
const HEADER_BYTES = 65536;
const DATA_BYTES = 2 << 20;
const PIECE_BYTES = 65536;
/** Of a program's output, and of one connection, that the daemon has not consumed yet. */
const OUT_WINDOW = 4 << 20;
const CONNECTION_WINDOW = 1 << 20;
const CONNECTIONS = 512;
const STRANGERS = 8;

const programs = new Map();
const connections = new Map();
const servers = new Map();
const strangers = new Set();
let outbox = [];
let sent = 0;
let received = 0;
let peer = null;
let secret = null;
let heardAt = performance.now();
let isEnding = false;
/** Settles when the ports that were asked for are open: a program finds its channels so. */
let bound = Promise.resolve();

function encode(header, data) {
  const head = Buffer.from(JSON.stringify(header));
  const lengths = Buffer.allocUnsafe(8);
  lengths.writeUInt32BE(head.length, 0);
  lengths.writeUInt32BE(data === undefined ? 0 : data.length, 4);
  return data === undefined ? Buffer.concat([lengths, head]) : Buffer.concat([lengths, head, data]);
}

function send(header, data) {
  sent += 1;
  const frame = encode({ ...header, n: sent }, data);
  outbox.push({ n: sent, frame });
  if (peer !== null) peer.write(frame);
}

function drop(until) {
  let count = 0;
  while (count < outbox.length && outbox[count].n <= until) count += 1;
  if (count > 0) outbox = outbox.slice(count);
}

/** Calls back with each whole frame; false from it, or a frame past the bounds, ends the stream. */
function readFrames(stream, onFrame) {
  let rest = Buffer.alloc(0);
  stream.on('data', (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= 8) {
      const head = rest.readUInt32BE(0);
      const size = rest.readUInt32BE(4);
      if (head > HEADER_BYTES || size > DATA_BYTES) return stream.destroy();
      if (rest.length < 8 + head + size) return;
      let header;
      try {
        header = JSON.parse(rest.toString('utf8', 8, 8 + head));
      } catch {
        return stream.destroy();
      }
      const data = rest.subarray(8 + head, 8 + head + size);
      rest = rest.subarray(8 + head + size);
      if (onFrame(header, data) === false) return stream.destroy();
    }
  });
}

function isOurs(offered) {
  if (typeof offered !== 'string' || offered.length < 16) return false;
  const hash = createHash('sha256').update(offered).digest();
  // The first that comes is the daemon: no program runs before it.
  if (secret === null) secret = hash;
  return timingSafeEqual(hash, secret);
}

function accept(stream, isTimed = true) {
  stream.on('error', () => stream.destroy());
  if (strangers.size >= STRANGERS) return stream.destroy();
  strangers.add(stream);
  const late = !isTimed ? null : setTimeout(() => stream.destroy(), 5000);
  let gotTimer = null;
  stream.on('close', () => {
    clearTimeout(late);
    clearImmediate(gotTimer);
    strangers.delete(stream);
    if (peer === stream) peer = null;
  });
  readFrames(stream, (header, data) => {
    if (stream !== peer) {
      if (stream.isOld || header.t !== 'hello' || !isOurs(header.secret)) return false;
      clearTimeout(late);
      strangers.delete(stream);
      if (peer !== null) {
        peer.isOld = true;
        peer.destroy();
      }
      peer = stream;
      heardAt = performance.now();
      drop(header.got);
      stream.write(encode({ t: 'state', got: received }));
      for (const { frame } of outbox) stream.write(frame);
      return true;
    }
    heardAt = performance.now();
    if (header.t === 'got') drop(header.got);
    else if (header.t === 'ping') stream.write(encode({ t: 'pong' }));
    else if (header.n === received + 1) {
      received = header.n;
      if (gotTimer === null) {
        gotTimer = setImmediate(() => {
          gotTimer = null;
          if (peer === stream) stream.write(encode({ t: 'got', got: received }));
        });
      }
      handle(header, data);
    } else if (!(header.n <= received)) return false;
    return true;
  });
}

function handle(header, data) {
  const { t, id, c } = header;
  // Nothing else comes for it before it was told as started.
  if (t === 'start') return void bound.then(() => start(id, JSON.parse(data.toString())));
  if (t === 'listen') return listen(header);
  if (t === 'try') return tryAll(id, header.targets);
  if (t === 'stop') return void endAll();
  const program = programs.get(id);
  if (program !== undefined) {
    if (t === 'in') program.write(data);
    else if (t === 'inend') program.child.stdin.end();
    else if (t === 'ack') program.acked(header.bytes);
    else if (t === 'kill') void program.kill();
    return;
  }
  const connection = connections.get(c);
  if (connection === undefined) return;
  if (t === 'data') connection.write(data);
  else if (t === 'end') connection.inner.end();
  else if (t === 'reset') connection.drop();
  else if (t === 'ack') connection.acked(header.bytes);
}

/** Of the image, less what the engine or a shell has put there. */
function imageEnv() {
  const env = { ...process.env };
  for (const name of ['HOME', 'HOSTNAME', 'PWD', 'OLDPWD', 'SHLVL', 'TERM', '_', 'container']) delete env[name];
  return env;
}

function start(id, { argv, env, cwd }) {
  const marker = `${tag}.box.${id}`;
  let child;
  const failed = (error) => send({ t: 'failed', id, code: error.code || 'unknown error' });
  try {
    const options = { cwd, detached: true, stdio: ['pipe', 'pipe', 'pipe'] };
    child = spawn(argv[0], argv.slice(1), { ...options, env: { ...imageEnv(), ...env, [MARKER]: marker } });
  } catch (error) {
    return failed(error);
  }
  if (child.pid === undefined) return void child.once('error', failed);
  child.on('error', () => {}); // It runs: how it ends is told by its end.
  try {
    // A program is ended for want of memory before this process is; on the daemon's own machine they are as any others.
    if (path !== undefined) fs.writeFileSync(`/proc/${child.pid}/oom_score_adj`, '500');
  } catch {
    // Only a preference.
  }
  send({ t: 'started', id, pid: child.pid });
  follow(id, child, marker);
}

function follow(id, child, marker) {
  let unconsumed = 0;
  let open = 2;
  let exit = null;
  let isTold = false;
  let lastDataAt = Date.now();
  const outputs = [child.stdout, child.stderr];
  const isPaused = () => unconsumed > OUT_WINDOW;
  const tell = () => {
    if (isTold || exit === null) return;
    isTold = true;
    send({ t: 'exit', id, ...exit, oom: oomKills() });
    if (open === 0) programs.delete(id);
  };
  for (const [index, output] of outputs.entries()) {
    let isEnded = false;
    const ended = () => {
      if (isEnded) return;
      isEnded = true;
      open -= 1;
      send({ t: 'outend', id, fd: index + 1 });
      if (open > 0) return;
      tell();
      if (isTold) programs.delete(id);
    };
    output.on('data', (chunk) => {
      lastDataAt = Date.now();
      for (let at = 0; at < chunk.length; at += PIECE_BYTES) {
        send({ t: 'out', id, fd: index + 1 }, chunk.subarray(at, at + PIECE_BYTES));
      }
      unconsumed += chunk.length;
      if (isPaused()) for (const one of outputs) one.pause();
    });
    output.on('end', ended);
    output.on('close', ended);
    output.on('error', ended);
  }
  child.stdin.on('error', () => {}); // How the program ended is the news, not the broken pipe.
  const program = {
    child,
    write(data) {
      const told = () => send({ t: 'inack', id, bytes: data.length });
      if (child.stdin.writable) child.stdin.write(Buffer.from(data), told);
      else told();
    },
    acked(bytes) {
      unconsumed -= bytes;
      if (!isPaused()) for (const one of outputs) one.resume();
    },
    kill: () => sweep(marker, child.pid),
  };
  programs.set(id, program);
  child.once('exit', async (code, signal) => {
    await sweep(marker, child.pid);
    exit = { code, signal };
    if (open === 0) return tell();
    // What could not be told as its own may hold a pipe for ever.
    const timer = setInterval(() => {
      tell();
      if (open === 0) clearInterval(timer);
      else if (!isPaused() && Date.now() - lastDataAt > 1000) for (const output of outputs) output.destroy();
    }, 1000);
  });
}

function processes() {
  return fs.readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, 'latin1');
      // The name in parentheses may hold anything; the fields after it are plain.
      const [state, parent, group, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (state === 'Z' || state === 'X') return [];
      let environ = '';
      try {
        environ = fs.readFileSync(`/proc/${name}/environ`, 'latin1');
      } catch {
        // Of another user.
      }
      return [{ pid: Number(name), parent: Number(parent), group: Number(group), session: Number(session), environ }];
    } catch {
      return []; // Gone since the directory was read.
    }
  });
}

/** Kills a program with all that carries its mark, is in its group or session, or descends from such. */
async function sweep(marker, leader) {
  const text = `${MARKER}=${marker}\0`;
  for (let tries = 0; tries < 200; tries += 1) {
    const all = processes();
    const isIts = ({ group, session, environ }) =>
      group === leader || session === leader || environ.startsWith(text) || environ.includes(`\0${text}`);
    const chosen = new Map(all.filter(isIts).map((found) => [found.pid, found]));
    for (let before = -1; before !== chosen.size; ) {
      before = chosen.size;
      for (const found of all) if (chosen.has(found.parent)) chosen.set(found.pid, found);
    }
    if (chosen.size === 0) return;
    // Stopped first, so that none of them can start another while the rest is being killed.
    for (const name of ['SIGSTOP', 'SIGKILL']) {
      for (const pid of chosen.keys()) {
        try {
          process.kill(pid, name);
        } catch {
          // Gone already.
        }
      }
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(2 << tries, 100)));
  }
}

/** How often the kernel has ended a process of this box for want of memory. */
function oomKills() {
  for (const file of ['/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control']) {
    try {
      const count = /^oom_kill (\d+)$/m.exec(fs.readFileSync(file, 'latin1'));
      if (count !== null) return Number(count[1]);
    } catch {
      // The other kind of control group, or none.
    }
  }
  return 0;
}

function listen({ channels }) {
  const open = ({ name, port }, resolve) => {
    const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (inner) => take(name, inner));
    servers.set(port, server);
    server.on('error', ({ code }) => resolve(send({ t: 'unheard', name, port, code })));
    server.listen(port, '127.0.0.1', () => resolve(send({ t: 'listening', name, port })));
  };
  const fresh = channels.filter(({ port }) => !servers.has(port));
  bound = Promise.all([bound, ...fresh.map((one) => new Promise((resolve) => open(one, resolve)))]);
}

let opened = 0;
function take(name, inner) {
  inner.on('error', () => inner.destroy());
  if (connections.size >= CONNECTIONS) return inner.resetAndDestroy ? inner.resetAndDestroy() : inner.destroy();
  const c = (opened += 1);
  let unconsumed = 0;
  let isOver = false;
  connections.set(c, {
    inner,
    write: (data) => inner.write(Buffer.from(data), () => isOver || send({ t: 'ack', c, bytes: data.length })),
    acked(bytes) {
      unconsumed -= bytes;
      if (unconsumed <= CONNECTION_WINDOW) inner.resume();
    },
    drop() {
      isOver = true;
      connections.delete(c);
      inner.destroy();
    },
  });
  send({ t: 'open', c, name });
  inner.on('data', (chunk) => {
    for (let at = 0; at < chunk.length; at += PIECE_BYTES) {
      send({ t: 'data', c }, chunk.subarray(at, at + PIECE_BYTES));
    }
    unconsumed += chunk.length;
    if (unconsumed > CONNECTION_WINDOW) inner.pause();
  });
  inner.on('end', () => send({ t: 'end', c }));
  inner.on('close', () => {
    if (isOver) return;
    isOver = true;
    connections.delete(c);
    send({ t: 'reset', c });
  });
}

/** Which of the addresses answer: what a fence keeps from does not. */
function tryAll(id, targets) {
  const one = ({ host, port }) =>
    new Promise((resolve) => {
      const socket = net.connect({ host, port });
      const done = (answered) => {
        socket.destroy();
        resolve(answered ? [`${host}:${port}`] : []);
      };
      socket.setTimeout(1500, () => done(false));
      socket.on('connect', () => done(true));
      // A refusal is an answer: a packet has been there and back.
      socket.on('error', (error) => done(error.code === 'ECONNREFUSED' || error.code === 'ECONNRESET'));
    });
  void Promise.all(targets.map(one)).then((found) => send({ t: 'tried', id, answered: found.flat() }));
}

async function endAll() {
  if (isEnding) return;
  isEnding = true;
  await Promise.all([...programs.values()].map((program) => program.kill()));
  process.exit(0);
}

setInterval(() => {
  if (performance.now() - heardAt > seconds * 1000) void endAll();
}, Math.min(1000, seconds * 250));
process.on('SIGTERM', () => void endAll());
const { stdio = path === undefined } = JSON.parse(process.argv[1]);
if (stdio) {
  const streams = Duplex.from({ readable: process.stdin, writable: process.stdout });
  if (path === undefined) streams.on('close', () => void endAll());
  // Whoever started this process may take its time.
  accept(streams, false);
}
if (path !== undefined) net.createServer((stream) => accept(stream)).listen(path.replace(/^@/, '\0'));
