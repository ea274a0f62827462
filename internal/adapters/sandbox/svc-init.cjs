'use strict';
// The first process of a box: owns its programs, and speaks one stream of numbered frames with the daemon.
// It is given to `node -e` as an argument, so that an image needs Node 18 or later and nothing of ours, and holds no secret.
// usage: node -e SOURCE '{"socket": PATH or "@NAME", "tag": TEXT, "seconds": 60, "stdio": true}'; with `stdio` the first peer may come over
// its standard streams too; without a socket it speaks over them alone, to one peer and until they end.
//
// A frame is two lengths of 32 bits, a header in JSON and data. Both sides number what may not be lost (`n`), keep it until
// the other has said `got`, and send it again to a new peer; so a stream that is cut loses and repeats nothing. How much
// may be kept is bounded by what each program and each connection may have unconsumed: past it they are paused.
//
// Another daemon may take the box over: its `hello` names another owner. The output of a program that was started to last
// (`keep`) stays here until it was told as `safe`, however often it was got, and goes to the new owner from there on; the
// numbers begin anew, other programs end, and connections that the old owner has heard of are reset.

const { spawn } = require('node:child_process');
const { createHash, timingSafeEqual } = require('node:crypto');
const fs = require('node:fs');
const net = require('node:net');
const { Duplex } = require('node:stream');

const { MARKER, sweep, oomKills, imageEnv, outlive } = globalThis.svcProcesses;
const { Way, answering } = globalThis.svcDial;
const { socket: path, tag = 'box', seconds = 60 } = JSON.parse(process.argv[1]);
const HEADER_BYTES = 65536;
const DATA_BYTES = 2 << 20;
const PIECE_BYTES = 65536;
/** Of a program's output, and of one connection, that the daemon has not consumed yet. */
const OUT_WINDOW = 4 << 20;
const CONNECTION_WINDOW = 1 << 20;
/** Of a program that lasts, got and not yet safe: more than its longest message. */
const KEPT_BYTES = 32 << 20;
const CONNECTIONS = 512;
const STRANGERS = 8;

const programs = new Map();
const connections = new Map();
const servers = new Map();
const strangers = new Set();
let outbox = [];
/** What was got, and is kept for another owner. */
let kept = [];
let keptBytes = 0;
let [sent, received] = [0, 0];
let peer = null;
/** To the daemon, where it has told one. */
let way = null;
let secret = null;
let owner = null;
let [started, heardAt, isEnding] = [0, performance.now(), false];
/** Settles when the ports that were asked for are open: a program finds its channels so. */
let bound = Promise.resolve();

function encode(header, data) {
  const head = Buffer.from(JSON.stringify(header));
  const lengths = Buffer.allocUnsafe(8);
  lengths.writeUInt32BE(head.length, 0);
  lengths.writeUInt32BE(data === undefined ? 0 : data.length, 4);
  return data === undefined ? Buffer.concat([lengths, head]) : Buffer.concat([lengths, head, data]);
}

const put = (stream, { n, header, data }) => stream.write(encode({ ...header, n }, data));

function send(header, data) {
  sent += 1;
  const entry = { n: sent, header, data };
  outbox.push(entry);
  if (peer !== null) put(peer, entry);
}

/** Tells of bytes as soon as they are worth a frame, which is far within each window. */
const summed = (tell, sum = 0) => (bytes) => (sum += bytes) >= PIECE_BYTES && (tell(sum), (sum = 0));

const isUnsafe = ({ header, data }) =>
  header.at !== undefined && header.at + data.length > (programs.get(header.id)?.safeAt ?? Infinity);

function drop(until) {
  let count = 0;
  while (count < outbox.length && outbox[count].n <= until) count += 1;
  if (count === 0) return;
  for (const { header } of outbox.slice(0, count)) if (header.t === 'open') connections.get(header.c)?.seen();
  const fresh = outbox.slice(0, count).filter(isUnsafe);
  for (const { data } of fresh) keptBytes += data.length;
  kept.push(...fresh);
  outbox = outbox.slice(count);
}

/** The new owner has all of a program's output before this byte. */
function safe({ id, at }) {
  const program = programs.get(id);
  if (program === undefined || !(at > program.safeAt)) return;
  program.safeAt = at;
  kept = kept.filter(isUnsafe);
  keptBytes = kept.reduce((sum, { data }) => sum + data.length, 0);
  program.acked(0);
}

/** Begins the numbers anew with what a new owner has to know. */
function changeOwner() {
  for (const connection of [...connections.values()]) if (!connection.isUnseen) connection.drop();
  for (const program of programs.values()) if (!program.keep) void program.kill();
  const tells = ({ t, id, c }) =>
    c === undefined ? ['out', 'outend', 'exit'].includes(t) && programs.get(id)?.keep : connections.has(c);
  const all = [...kept, ...outbox.filter(({ header }) => tells(header))];
  kept = [];
  keptBytes = received = sent = 0;
  outbox = all.map((entry) => ({ ...entry, n: (sent += 1) }));
  for (const [id, program] of programs) program.owe(outbox.filter(({ header }) => header.t === 'out' && header.id === id));
}

/** Programs that last, and how much of their input has come. */
const lasting = () => [...programs].flatMap(([id, { keep, input, isOver }]) => (keep && !isOver() ? [{ id, in: input }] : []));

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
  // Whom this process has dialed has shown the key.
  if (strangers.size >= STRANGERS && !stream.encrypted) return stream.destroy();
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
      if (stream.isOld || !['hello', 'dial'].includes(header.t) || !isOurs(header.secret)) return false;
      clearTimeout(late);
      if (header.t === 'dial') return dial(header.addresses, stream);
      strangers.delete(stream);
      if (peer !== null) {
        peer.isOld = true;
        peer.destroy();
      }
      peer = stream;
      if (way !== null) way.reached();
      heardAt = performance.now();
      if (owner !== null && header.owner !== owner) changeOwner();
      owner = header.owner;
      drop(header.got);
      stream.write(encode({ t: 'state', got: received, programs: lasting(), ids: started, oom: oomKills() }));
      for (const entry of outbox) put(stream, entry);
      return true;
    }
    heardAt = performance.now();
    if (header.t === 'got') drop(header.got);
    else if (header.t === 'safe') safe(header);
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

/** Goes to the daemon from now on; whoever told the way hears why nobody is reached there. */
function dial(addresses, teller) {
  heardAt = performance.now();
  strangers.delete(teller);
  if (way !== null) way.end();
  const onTrouble = (code) => teller.destroyed || teller.write(encode({ t: 'undialed', code }));
  way = new Way(addresses, secret, { hasPeer: () => peer !== null, onStream: accept, onTrouble });
  return true;
}

function handle(header, data) {
  const { t, id, c } = header;
  // Nothing else comes for it before it was told as started.
  if (t === 'start') return void bound.then(() => start(id, JSON.parse(data.toString()), header.keep === true));
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

function start(id, { argv, env, cwd }, keep) {
  started = Math.max(started, id);
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
  follow(id, child, marker, keep);
}

function follow(id, child, marker, keep) {
  let [unconsumed, open, at] = [0, 2, 0];
  let exit = null;
  let isTold = false;
  let lastDataAt = Date.now();
  const outputs = [child.stdout, child.stderr];
  const wrote = summed((bytes) => send({ t: 'inack', id, bytes }));
  const isPaused = () => unconsumed > OUT_WINDOW || (keep && keptBytes > KEPT_BYTES);
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
      for (let from = 0; from < chunk.length; from += PIECE_BYTES) {
        const piece = chunk.subarray(from, from + PIECE_BYTES);
        send({ t: 'out', id, fd: index + 1, ...(keep && index === 0 && { at }) }, piece);
        if (index === 0) at += piece.length;
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
    keep,
    input: 0,
    safeAt: 0,
    isOver: () => exit !== null,
    /** What the new owner has not consumed yet. */
    owe(frames) {
      unconsumed = frames.reduce((sum, { data }) => sum + data.length, 0);
      this.acked(0);
    },
    write(data) {
      this.input += data.length;
      if (child.stdin.writable) child.stdin.write(Buffer.from(data), () => wrote(data.length));
      else wrote(data.length);
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
    outlive(outputs, () => (tell(), open === 0), () => !isPaused() && Date.now() - lastDataAt > 1000);
  });
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
  const wrote = summed((bytes) => send({ t: 'ack', c, bytes }));
  connections.set(c, {
    inner,
    /** No daemon has said that it knows of it, and nothing of it was sent: whether one is there a stream does not tell. */
    isUnseen: true,
    seen() {
      this.isUnseen = false;
      inner.resume();
    },
    write: (data) => inner.write(Buffer.from(data), () => isOver || wrote(data.length)),
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
  inner.pause();
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

const tryAll = (id, targets) => void answering(targets).then((answered) => send({ t: 'tried', id, answered }));

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
