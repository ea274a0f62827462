'use strict';
// Put before svc-init.cjs: what a box reaches by itself. The tries of its fence, and the way out to its daemon (`wire: dial`),
// with which nobody has to hold a stream into it.
// Both ends prove with TLS that they have the key, which comes from the wire's secret; an address alone opens nothing.

(() => {
const { createHmac } = require('node:crypto');
const net = require('node:net');

const ATTEMPT_MS = 5000;
const BACKOFF_MS = [100, 200, 500, 1000, 2000];

/** From the hash of the secret: the key, and the name by which the daemon finds it. */
const keyed = (hash) => {
  const of = (what) => createHmac('sha256', hash).update(what).digest();
  return { psk: of('svc-wire-key'), identity: of('svc-wire-name').toString('hex').slice(0, 32) };
};

/** Calls back with a stream to the daemon, or with the code of what went wrong. Gives what ends the attempt. */
function attempt({ host, port }, { psk, identity }, done) {
  // Loaded by those alone that dial: it takes as long as all else here.
  const socket = require('node:tls').connect({
    host,
    port,
    minVersion: 'TLSv1.3',
    ciphers: 'TLS_AES_128_GCM_SHA256',
    pskCallback: () => ({ psk, identity }),
    // No certificate stands in for the key.
    ca: [],
    checkServerIdentity: () => undefined,
  });
  const late = setTimeout(() => socket.destroy(Object.assign(new Error(), { code: 'ETIMEDOUT' })), ATTEMPT_MS);
  let isDone = false;
  const end = (stream, code) => {
    if (isDone) return;
    isDone = true;
    clearTimeout(late);
    done(stream, code);
  };
  socket.on('error', ({ code }) => end(null, String(code || 'unknown error')));
  socket.on('close', () => end(null, 'ECONNRESET'));
  socket.once('secureConnect', () => {
    if (Object.keys(socket.getPeerCertificate()).length > 0) return socket.destroy();
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 15000);
    end(socket);
  });
  return () => {
    isDone = true;
    clearTimeout(late);
    socket.destroy();
  };
}

/** Goes to the daemon's addresses in turn until one answers, each time that `again` is called and nobody is there. */
class Way {
  constructor(addresses, hash, { hasPeer, onStream, onTrouble }) {
    Object.assign(this, { addresses, key: keyed(hash), hasPeer, onStream, onTrouble, tries: 0 });
    this.next();
  }
  next() {
    const address = this.addresses[this.tries % this.addresses.length];
    this.tries += 1;
    this.stop = attempt(address, this.key, (stream, code) => {
      this.stop = null;
      if (stream === null) {
        this.onTrouble(code);
        return this.later();
      }
      stream.on('close', () => this.later());
      this.onStream(stream);
    });
  }
  later() {
    const most = BACKOFF_MS[Math.min(this.tries, BACKOFF_MS.length - 1)];
    const timer = setTimeout(() => !this.hasPeer() && this.next(), most * (0.5 + Math.random() / 2));
    this.stop = () => clearTimeout(timer);
  }
  /** Somebody is there. */
  reached() {
    this.tries = 0;
  }
  end() {
    this.onTrouble = this.onStream = this.next = this.later = () => undefined;
    if (this.stop) this.stop();
  }
}

/** Which of the addresses answer, the cluster's own among them: what a fence keeps from does not. */
async function answering(targets) {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
  const all = host && port ? [...targets, { host, port: Number(port) }] : targets;
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
  return (await Promise.all(all.map(one))).flat();
}

globalThis.svcDial = { Way, answering };
})();
