// Sessions on real engines whose daemon is gone for a moment (docs/reference/sessions.md#taking-over): their turn goes on in the
// same box, each byte of it is there once, and nothing is delivered again, also where the daemon that takes them over is
// killed over it, with a secret that is injected, and with an open question. Precondition: root and the engines;
// `make test-engines` installs them.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { makeCertificates } from '../../../testdata/kubernetes/certificates.ts';
import { lacking } from '../../adapters/engine/engine-testkit.ts';
import type { Api } from '../../base/testkit/daemon.ts';
import { isLong } from '../../base/testkit/long.ts';
import { atRest, readSession, running, saidIn, stateOf, stream, streamed, wentThrough } from './boxes-testkit.ts';
import { createEngineBench, type EngineBench } from './engine-crash-testkit.ts';
import { beginWorker, eventually } from './host-crash-testkit.ts';

/** Asks a host over TLS through the edge, as clients do that know of proxies, and prints what was answered. */
const askText = [
  `const port=+process.argv[1],http=require("node:http"),https=require("node:https"),tls=require("node:tls"),host="localhost";`,
  `const proxy=new URL(process.env.HTTPS_PROXY);const q=http.request({host:proxy.hostname,port:proxy.port,method:"CONNECT",path:host+":"+port});`,
  `q.on("connect",(r,s)=>https.request({host,port,createConnection:()=>tls.connect({socket:s,servername:host})},(m)=>{let t="";m.on("data",(d)=>t+=d).on("end",()=>console.log("GOT",t))}).on("error",(e)=>console.log("GOT",e.code)).end()).end()`,
].join('');

for (const name of ['docker', 'podman'] as const) {
  describe(`sessions on ${name} that are taken over`, { skip: lacking(name) ?? false }, () => {
    let on: EngineBench;
    let folder: string;
    let secure: Server;
    const heardKeys: unknown[] = [];
    const portOf = (): number => (secure.address() as AddressInfo).port;
    before(async () => {
      const { ca, cert, key } = makeCertificates();
      folder = await mkdtemp(join(tmpdir(), 'svc-taken-'));
      await writeFile(join(folder, 'ca.pem'), ca);
      secure = createServer({ cert, key }, ({ headers }, response) => {
        heardKeys.push(headers['x-key']);
        response.end(`as ${headers['x-key'] === undefined ? 'nobody' : 'somebody'}`);
      });
      secure.listen(0, '127.0.0.1');
      await once(secure, 'listening');
      on = await createEngineBench(name, {
        sandboxes: { network: { allow: [`localhost:${portOf()}`] } },
        env: { SVC_ALLOW_PRIVATE_NETWORK: 'true', NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem') },
      });
    });
    after(async () => {
      await on?.stop();
      secure?.close();
      await rm(folder, { recursive: true, force: true });
    });
    const boxesOf = (session: string) => on.boxesOf(session);

    /** Ended with its test. */
    const start = async (t: TestContext, env: { readonly [variable: string]: string } = {}, home = 'home') => {
      const started = await on.bench.start(home, env);
      t.after(() => started.daemon.kill('SIGTERM'));
      return started;
    };
    /** A later life of the daemon that dies at a point of taking over. */
    const diesAt = async (point: string): Promise<void> => {
      const { daemon } = await on.bench.start('home', { SVC_FAILPOINT: point }).catch((error: unknown) => {
        // Before it had said that it is ready.
        if (error instanceof Error && /svcd ended with SIGKILL/.test(error.message)) return { daemon: undefined };
        throw error;
      });
      if (daemon === undefined) return;
      try {
        await eventually('it dies there', () => daemon.process.signalCode === 'SIGKILL');
      } finally {
        await daemon.kill('SIGKILL');
      }
    };
    const archived = async (api: Api, session: string): Promise<void> => {
      await api('POST', `P/sessions/${session}/archive`);
      await on.isGone(session);
      assert.deepEqual(on.twins, []);
    };

    const gone: {
      readonly [what: string]: (of: { kill(signal: NodeJS.Signals): Promise<unknown> }) => Promise<unknown>;
    } = {
      'is killed': (daemon) => daemon.kill('SIGKILL'),
      'stops in good order': (daemon) => daemon.kill('SIGTERM'),
      ...(isLong && {
        'is killed, and once more when it has claimed them': async (daemon) => {
          await daemon.kill('SIGKILL');
          await diesAt('session.taken');
        },
        'stops, and is killed when it has them in hand': async (daemon) => {
          await daemon.kill('SIGTERM');
          await diesAt('session.taken-up');
        },
        'is killed, and twice more, once at each of the two': async (daemon) => {
          await daemon.kill('SIGKILL');
          await diesAt('session.taken-up');
          await diesAt('session.taken');
        },
      }),
    };
    for (const [what, end] of Object.entries(gone)) {
      it(`go on in the same turn when their daemon ${what}`, async (t) => {
        const first = await start(t);
        const session = await beginWorker(first.api, '!say ready.');
        const box = await stream(first.api, session, boxesOf);
        const { epoch } = await readSession(first.api, session);
        await end(first.daemon);
        const { api, daemon } = await start(t);
        await atRest(api, session, 'after.');
        assert.match(daemon.stderr(), /session\.taken_up/);
        assert.equal(await saidIn(api, session), `ready.${streamed}after.`);
        await wentThrough(api, session, { boxesOf, box });
        assert.notEqual((await readSession(api, session))['epoch'] ?? 'new', epoch ?? 'old');
        // The next turn goes to the same harness, which has heard each once.
        await api('POST', `P/sessions/${session}/messages`, { text: '!say again.' });
        await atRest(api, session, 'again.');
        const heard = await on.heard(session);
        assert.deepEqual(
          heard.map((text) => text.split('\n')[0]),
          ['!say ready.', '!stream 200 20', '!say again.'],
        );
        await archived(api, session);
        await daemon.kill('SIGTERM');
      });
    }

    it('go on in the same turn at another daemon, at once, when theirs stops in good order', async (t) => {
      const first = await start(t);
      const session = await beginWorker(first.api, '!say ready.');
      await atRest(first.api, session, 'ready.');
      const { api, daemon } = await start(t, {}, 'other');
      const box = await stream(first.api, session, boxesOf);
      await first.daemon.kill('SIGTERM');
      await atRest(api, session, 'after.');
      assert.match(daemon.stderr(), /session\.taken_up/);
      assert.equal(await saidIn(api, session), `ready.${streamed}after.`);
      await wentThrough(api, session, { boxesOf, box });
      // The daemon that it was of leaves it alone when it is back, and the other one can open it again.
      const back = await start(t);
      const { body } = await back.api('GET', '/api/v1/sandboxes');
      const items = body['items'] as unknown as { session: string; state: string }[];
      assert.equal(items.filter((one) => one.session === session && one.state === 'running').length, 1);
      await daemon.kill('SIGTERM');
      await eventually('it is taken back', () => /session\.taken_up/.test(back.daemon.stderr()));
      await back.api('POST', `P/sessions/${session}/messages`, { text: '!say again.' });
      await atRest(back.api, session, 'again.');
      assert.deepEqual(
        (await on.heard(session)).map((text) => text.split('\n')[0]),
        ['!say ready.', '!stream 200 20', '!say again.'],
      );
      assert.deepEqual(
        (await running(boxesOf, session)).map(({ name }) => name),
        [box.name],
      );
      await archived(back.api, session);
      await back.daemon.kill('SIGTERM');
    });

    it('go on at a daemon whose data directory has the path of theirs and is another one, as that of another pod', async (t) => {
      const first = await start(t);
      const session = await beginWorker(first.api, '!say ready.');
      const box = await stream(first.api, session, boxesOf);
      await first.daemon.kill('SIGTERM');
      const { dataDir } = first.daemon;
      await rename(dataDir, `${dataDir}.of-the-first`);
      await mkdir(dataDir);
      const { api, daemon } = await start(t);
      await atRest(api, session, 'after.');
      assert.match(daemon.stderr(), /session\.taken_up/);
      assert.equal(await saidIn(api, session), `ready.${streamed}after.`);
      await wentThrough(api, session, { boxesOf, box });
      await archived(api, session);
      await daemon.kill('SIGTERM');
    });

    it('end their turn while nobody is there, and that is told when their daemon is back', async (t) => {
      const first = await start(t);
      const session = await beginWorker(first.api, '!say ready.');
      const box = await stream(first.api, session, boxesOf, { behind: '!say after.\n!write /home/user/over yes' });
      await first.daemon.kill('SIGKILL');
      const volume = await on.volumeOf(session);
      await eventually('the turn is over', () => existsSync(join(volume, 'user', 'over')));
      const { api, daemon } = await start(t);
      await atRest(api, session, 'after.');
      assert.ok((await saidIn(api, session)).startsWith(`ready.${streamed}after.`));
      await wentThrough(api, session, { boxesOf, box });
      await archived(api, session);
      await daemon.kill('SIGTERM');
    });

    it('keep their injected secrets: the same authority is trusted, and the header is added', async (t) => {
      const first = await start(t);
      const injection = { hosts: ['localhost'], header: 'x-key', format: 'k={value}' };
      const put = await first.api('PUT', 'P/secrets/edge', { value: 'a-sesame-of-the-edge', injection });
      assert.ok(put.status < 300, JSON.stringify(put.body));
      const session = await beginWorker(first.api, '!say ready.', { env: { EDGE: { $secret: 'edge' } } });
      const ask = `!exec echo $EDGE; node -e '${askText}' ${portOf()}`;
      const box = await stream(first.api, session, boxesOf, { before: `${ask}\n`, behind: `${ask}\n!say after.` });
      await first.daemon.kill('SIGKILL');
      const { api, daemon } = await start(t);
      await atRest(api, session, 'after.');
      assert.match(daemon.stderr(), /session\.taken_up/);
      const asked = 'svc-injected-secret:edge\nGOT as somebody\nexit 0';
      assert.equal(await saidIn(api, session), `ready.${asked}${streamed}${asked}after.`);
      assert.deepEqual(heardKeys, ['k=a-sesame-of-the-edge', 'k=a-sesame-of-the-edge']);
      await wentThrough(api, session, { boxesOf, box });
      await archived(api, session);
      await daemon.kill('SIGTERM');
    });

    it('ask an open question anew, and go on with the answer', async (t) => {
      const first = await start(t);
      const session = await beginWorker(first.api, '!say ready.', {
        harness: 'harness-b',
        environment: { name: 'prompted', image: { kind: 'preset', name: 'base' }, approvals: 'prompt' },
      });
      await atRest(first.api, session, 'ready.');
      const [box] = await running(boxesOf, session);
      assert.ok(box !== undefined);
      await first.api('POST', `P/sessions/${session}/messages`, { text: '!ask remove the file\n!say after.' });
      await eventually('it asks', async () => (await stateOf(first.api, session)) === 'waiting_permission');
      const open = async (api: Api): Promise<string> => {
        const { body } = await api('GET', `P/sessions/${session}`);
        return (body['permissions'] as unknown as { id: string }[]).map(({ id }) => id).join();
      };
      const before = await open(first.api);
      await first.daemon.kill('SIGKILL');
      const { api, daemon } = await start(t);
      await eventually('it asks again', async () => {
        const now = await open(api);
        return now !== '' && now !== before && (await stateOf(api, session)) === 'waiting_permission';
      });
      const decide = (id: string) => api('POST', `P/sessions/${session}/permissions/${id}`, { decision: 'allow' });
      assert.equal((await decide(before)).status, 409);
      assert.ok((await decide(await open(api))).status < 300);
      await atRest(api, session, 'after.');
      assert.equal(await saidIn(api, session), 'ready.permission onceafter.');
      await wentThrough(api, session, { boxesOf, box });
      await archived(api, session);
      await daemon.kill('SIGTERM');
    });
  });
}
