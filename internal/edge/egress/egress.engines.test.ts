// What sessions in boxes of real engines reach through the daemon's edges, and what shows of their secrets: the edge with its
// list and its injections, repositories through the git channel, hundreds of attempts to get out, and a search of all that
// an engine keeps. One daemon an engine. Precondition: root and the engines; `make test-engines` installs them.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer as createPlain, type IncomingMessage, type Server as PlainServer } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { promisify } from 'node:util';
import { lacking, startEngine, testImage, type TestEngine } from '../../adapters/engine/engine-testkit.ts';
import { createLog } from '../../base/log/log.ts';
import { answered, type Attempt, attemptArgv, attempts, neighbourSockets } from '../../base/testkit/attempts.ts';
import { CodehostSimulator } from '../../base/testkit/codehost-simulator.ts';
import { createHostBench, type HostBench } from '../../flows/session-host/host-testkit.ts';
import { type ModelStub, startModelStub } from '../../flows/session-host/model-testkit.ts';
import { appKey, appPublicKey } from '../mcp/codehost-testkit.ts';
import { SessionAuthority } from './authority.ts';

const run = promisify(execFile);
const plainSecret = `plain-${'p'.repeat(24)}-sesame`;
const edgeSecret = `edge-${'e'.repeat(24)}-sesame`;
const modelKey = `model-${'m'.repeat(24)}-sesame`;

/** Asks a host over TLS through the edge, as clients do that know of proxies, and prints what was answered. */
const askText = [
  `const [host,port,headers]=JSON.parse(process.argv[1]);const http=require("node:http"),https=require("node:https"),tls=require("node:tls");`,
  `const proxy=new URL(process.env.HTTPS_PROXY);const q=http.request({host:proxy.hostname,port:proxy.port,method:"CONNECT",path:host+":"+port});`,
  `q.on("connect",(r,s)=>{if(r.statusCode!==200)return console.log("GOT",r.statusCode,r.headers["x-svc-egress"]);`,
  `https.request({host,port,path:"/in",headers,createConnection:()=>tls.connect({socket:s,servername:host})},(m)=>{let t="";m.on("data",(d)=>t+=d).on("end",()=>console.log("GOT",m.statusCode,t))}).on("error",(e)=>console.log("GOT",e.code)).end()}).end()`,
].join('');

type HostBenchBody = Awaited<ReturnType<HostBench['view']>>['body'];

for (const name of ['docker', 'podman'] as const) {
  const missing = lacking(name);
  describe(`from boxes of ${name}`, { skip: missing !== null && missing }, () => {
    let engine: TestEngine;
    let bench: HostBench;
    let stub: ModelStub;
    let sim: CodehostSimulator;
    let web: PlainServer;
    let secure: Server;
    let log = '';
    const heard: string[] = [];
    let seen: IncomingMessage[] = [];
    const own = getCACertificates('default');
    const portOf = (server: PlainServer | Server): number => (server.address() as AddressInfo).port;

    before(async () => {
      stub = await startModelStub();
      sim = await new CodehostSimulator({ appPublicKey }).start();
      await sim.repository('acme/app', { 'README.md': '# app\n' });
      await sim.repository('acme/reads', { 'README.md': '# reads\n' });
      const trusted = await SessionAuthority.make('upstream', () => new Date());
      setDefaultCACertificates([...own, trusted.certificate]);
      web = createPlain((request, response) => {
        heard.push(String(request.headers.host));
        response.end('allowed');
      });
      secure = createServer(
        { SNICallback: (_host, done) => done(null, trusted.contextOf('localhost')) },
        (message, response) => {
          seen.push(message);
          response.end(`as ${message.headers['x-key'] === undefined ? 'nobody' : 'somebody'}`);
        },
      );
      for (const server of [web, secure]) {
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
      }
      engine = await startEngine(name);
      bench = await createHostBench({
        log: createLog('trace', { write: (line: string) => void (log += line) }),
        config: {
          sandbox: 'docker',
          allowPrivateNetwork: true,
          secretEnv: () => modelKey,
          file: {
            providers: { model: { 'provider-a': { baseUrl: stub.url } }, codehost: { writeSpacingMs: 0 } },
            sandboxes: {
              docker: { socket: engine.socket, fence: 'required' },
              presets: { base: { image: testImage } },
              network: { allow: [`localhost:${portOf(web)}`, `localhost:${portOf(secure)}`] },
            },
          },
        },
      });
      const { api } = bench.daemon;
      const connected = await api('POST', 'P/connections', {
        provider: 'codehost',
        name: 'code',
        config: { apiUrl: sim.origin, appId: '1', installationId: '1', botLogin: 'svc-app[bot]' },
        credentials: { webhookSecret: 'a-secret-of-the-hook', privateKey: appKey },
      });
      assert.ok(connected.status < 300, JSON.stringify(connected.body));
      const injection = { hosts: ['localhost'], header: 'x-key', format: 'k={value}' };
      for (const [secret, body] of Object.entries({
        plain: { value: plainSecret },
        edge: { value: edgeSecret, injection },
      })) {
        const { status } = await api('PUT', `P/secrets/${secret}`, body);
        assert.ok(status < 300, String(status));
      }
      const mount = (repository: string, contents: string) => ({
        kind: 'git',
        repository,
        mountPath: `/workspace/${repository.split('/')[1]}`,
        auth: { kind: 'codehostApp', capabilities: { contents } },
      });
      await bench.apply({
        worker: {
          model: { provider: 'provider-a', id: 'claude-opus-4-8' },
          env: { PLAIN: { $secret: 'plain' }, EDGE: { $secret: 'edge' } },
          environment: {
            name: 'base',
            image: { kind: 'preset', name: 'base' },
            steps: ['echo built > /usr/built'],
            setup: [{ name: 's', commands: ['test -n "$PLAIN" && echo set > $HOME/set'], cache: { key: 'k' } }],
          },
          tools: { svc: { kind: 'local', implementation: 'svc' } },
          mounts: [mount('acme/app', 'write'), mount('acme/reads', 'read')],
        },
        small: {
          environment: { name: 'small', image: { kind: 'preset', name: 'base' }, resources: { memoryMB: 384 } },
        },
      });
    });
    after(async () => {
      setDefaultCACertificates(own);
      await bench?.stop();
      await engine?.stop();
      await stub?.stop();
      await sim?.stop();
      web?.close();
      secure?.close();
    });

    const deniedOf = (body: HostBenchBody): readonly object[] | undefined =>
      (body['egress'] as unknown as { denied?: readonly object[] } | undefined)?.denied;
    const isAtRest = ({ state, said }: { state: string; said: string }, end: string): boolean =>
      state === 'failed' || (state === 'idle' && said.endsWith(end));
    const started = async (script: string, agent = 'worker'): Promise<{ session: string; said: string }> => {
      const session = await bench.start(agent, `${script}\n!say .the-end.`);
      const view = await bench.until(session, (one) => isAtRest(one, '.the-end.'));
      assert.equal(view.state, 'idle', view.reason ?? '');
      return { session, said: view.said };
    };
    const boxesOf = async (session: string): Promise<{ Id: string }[]> => {
      const filters = encodeURIComponent(JSON.stringify({ label: [`svc/session=${session}`] }));
      return (await engine.api('GET', `/v1.41/containers/json?filters=${filters}`)).body as { Id: string }[];
    };

    it('a secret with hosts is a placeholder inside, its header is added at the edge, and refusals are told', async () => {
      seen = [];
      const ask = (headers: object, port = portOf(secure), host = 'localhost'): string =>
        `!exec node -e '${askText}' '${JSON.stringify([host, port, headers])}'`;
      const { session, said } = await started(
        [
          '!exec echo $EDGE $HTTPS_PROXY $https_proxy; test "$PLAIN" && echo inline',
          ask({}),
          ask({ 'X-Key': 'svc-injected-secret:edge' }),
          ask({}, 443, 'evil.example'),
          '!exec for f in $NODE_EXTRA_CA_CERTS $SSL_CERT_FILE $REQUESTS_CA_BUNDLE $CURL_CA_BUNDLE $GIT_SSL_CAINFO; do grep -c BEGIN $f | grep -v "^0" >/dev/null && echo trusts; done',
        ].join('\n'),
      );
      assert.match(said, /^svc-injected-secret:edge http:\/\/127\.0\.0\.1:4404 http:\/\/127\.0\.0\.1:4404\ninline\n/);
      assert.match(said, /GOT 200 as somebody\n.*GOT 403 .*GOT 403 denied\n/s);
      assert.deepEqual(
        seen.map(({ headers }) => headers['x-key']),
        [`k=${edgeSecret}`],
      );
      assert.equal(said.split('trusts\n').length - 1, 5, said);
      const noted = await bench.until(session, ({ body }) => body['egress'] !== undefined);
      assert.deepEqual(noted.body['egress'], { denied: [{ host: 'evil.example', count: 1 }] });
      assert.deepEqual(noted.body['sandbox']?.['notEnforced'], []);
      const { body: audit } = await bench.daemon.api('GET', 'P/audit?action=secret.access');
      assert.match(JSON.stringify(audit), /edge-injection/);
    });

    it('repositories are streamed in, fetched and pushed through the git channel, as far as their mount may', async () => {
      const { said } = await started(
        [
          '!exec cd app && git rev-parse --is-inside-work-tree && git status --short && git log --format=%s && cat README.md && stat -c %u README.md .git/config',
          '!exec cd app && git config user.email a@b && git config user.name a && echo new > new && git add new && git commit -qm new && git push -q origin HEAD:refs/heads/topic && git fetch -q && echo pushed $(git rev-parse HEAD)',
          '!exec cd reads && git fetch -q && echo fetched; git -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; git push origin HEAD:refs/heads/x 2>&1 | grep -o "does not have the capability contents: write"',
          '!exec git clone -q $(cd app; git config remote.origin.url | sed s/app.git/other.git/) other 2>&1 | tail -1; grep -r "gh""s_" /workspace /home/user | head -1',
        ].join('\n'),
      );
      assert.match(said, /^true\nBegin\n# app\n1000\n1000\n/, said);
      const pushed = /pushed ([0-9a-f]{40})/.exec(said)?.[1];
      const app = await sim.repository('acme/app');
      assert.equal(await app.branch('topic'), pushed, said);
      assert.match(said, /fetched\n.*does not have the capability contents: write/s);
      assert.match(said, /fatal: .*not found/);
      assert.doesNotMatch(said, /ghs_/);
    });

    it('none of hundreds of attempts to get out is answered but the host of the list', async () => {
      const { daemon } = bench;
      const neighbour = await started('!say ready');
      const wanted = attempts({
        daemonPort: Number(new URL(daemon.url).port),
        databasePort: Number(new URL(daemon.database.url).port || 5432),
        openPort: portOf(web),
        otherPorts: [portOf(secure), Number(new URL(sim.origin).port), Number(new URL(stub.url).port)],
        sockets: [engine.socket, ...neighbourSockets(daemon.dataDir, neighbour.session)],
      });
      assert.ok(wanted.length >= 400, `${wanted.length} attempts`);
      const open: Attempt[] = [
        ['get', `http://localhost:${portOf(web)}/`],
        ['connect', `localhost:${portOf(web)}`],
      ];
      const [file, flag, source, given] = attemptArgv('node', [...wanted, ...open]);
      heard.length = 0;
      const session = await bench.start('worker', `!exec ${file} ${flag} '${source}' ${given}\n!say .the-end.`);
      const view = await bench.until(session, (one) => isAtRest(one, '.the-end.'));
      assert.deepEqual(answered(view.said), { count: wanted.length + 2, open });
      assert.deepEqual([...new Set(heard)], [`localhost:${portOf(web)}`]);
      await bench.until(session, ({ body }) => (deniedOf(body)?.length ?? 0) > 10);
    });

    it('a box without memory ends its turn in those words, and the session goes on', async () => {
      const session = await bench.start('small', '!say ready');
      await bench.until(session, ({ state }) => state === 'idle');
      const hold = 'const held=[]; for(;;) held.push(Buffer.alloc(16777216, 1))';
      await bench.send(
        session,
        `!exec test -e once || { touch once; echo 1000 > /proc/$PPID/oom_score_adj; echo 0 > /proc/$$/oom_score_adj; node -e '${hold}'; sleep 60; }\n!say survived`,
      );
      const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('survived'));
      assert.deepEqual(
        (await bench.turns(session)).map(({ state, error }) => [state, error]).slice(-2),
        [
          ['lost', 'out of memory (384 MB)'],
          ['done', null],
        ],
        view.reason ?? '',
      );
    });

    it('no secret is in what the engine keeps of a session: boxes, programs, events, images, volumes, logs', async () => {
      const since = Math.floor(Date.now() / 1000) - 600;
      const { session, said } = await started(
        '!exec test "$PLAIN" && echo has it\n!model hello\n!call svc svc_session_get {}',
      );
      assert.match(said, /has it\n/);
      assert.equal(stub.asked.at(-1)?.headers['x-api-key'], modelKey);
      const { daemon } = bench;
      const master = (await readFile(join(daemon.dataDir, 'master.key'), 'utf8')).trim().split(':')[1] ?? '';
      const tokens = [...sim.tokens.keys()];
      const secrets = [plainSecret, edgeSecret, modelKey, daemon.token, master, appKey.slice(60, 100), ...tokens];
      assert.ok(tokens.length > 0 && secrets.every((one) => one.length > 16));
      const found = (text: string, where: string): void => {
        for (const [index, one] of secrets.entries()) assert.ok(!text.includes(one), `secret ${index} is in ${where}`);
      };
      const get = async (path: string): Promise<unknown> => {
        const { body } = await engine.api('GET', `/v1.41${path}`);
        found(JSON.stringify(body), path);
        return body;
      };
      const [box] = await boxesOf(session);
      assert.ok(box);
      const inspected = (await get(`/containers/${box.Id}/json`)) as { ExecIDs: string[] | null };
      for (const exec of inspected.ExecIDs ?? []) await get(`/exec/${exec}/json`);
      await get(`/containers/${box.Id}/top`);
      await get(`/containers/${box.Id}/logs?stdout=true&stderr=true`);
      await get('/containers/json?all=true');
      await get('/volumes');
      const images = (await get('/images/json?all=true')) as { Id: string; RepoTags: string[] | null }[];
      assert.ok(images.some(({ RepoTags }) => (RepoTags ?? []).some((tag) => tag.includes('svc-image-'))));
      for (const { Id } of images) {
        await get(`/images/${Id}/json`);
        await get(`/images/${Id}/history`);
      }
      let events = '';
      // One of the engines sometimes answers with none of them.
      for (let tries = 0; tries < 20 && !events.includes('status'); tries += 1) {
        const path = `/v1.41/events?since=${since}&until=${Math.floor(Date.now() / 1000)}&stream=false`;
        events = JSON.stringify((await engine.api('GET', path)).body);
      }
      assert.match(events, /status/);
      found(events, 'events');
      found(log, 'the log of the daemon');
      // Arguments of all processes, and all files below the engine and the daemon but the two that are for keys: layers of images,
      // volumes of sessions, records, archives of the setup cache.
      const { stdout: processes } = await run('ps', ['-eo', 'args', '-ww'], { maxBuffer: 1 << 26 });
      found(processes, 'arguments');
      const pattern = secrets.join('\n');
      const roots = [join(engine.socket, '..'), daemon.dataDir];
      const grep = `exec grep -rlaF --exclude=master.key --exclude=client.json --exclude-dir=pgdata --exclude-dir=postgres -D skip -f - "$@"`;
      const searched = execFile('/bin/sh', ['-c', grep, 'sh', ...roots], { maxBuffer: 1 << 20 });
      let names = '';
      searched.stdout?.on('data', (part: string) => (names += part));
      searched.stdin?.end(pattern);
      await once(searched, 'close');
      assert.equal(names, '');
      // What is looked for would be found: it is in the memory of the program that was given it.
      const pids = (await readdir('/proc')).filter((one) => /^\d+$/.test(one));
      const environments = await Promise.all(
        pids.map((pid) => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')),
      );
      assert.ok(environments.some((one) => one.includes(plainSecret)));
    });
  });
}
