// What a command line makes of a server that means it ill, or is none: nothing steers the terminal, nothing is thrown at people.

import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { startTrickle } from '../../internal/base/testkit/trickle.ts';
import { callSvc, emptyHome, type Ran } from './testkit.ts';

const p = '/api/v1/orgs/acme/projects/ops';

let home: Awaited<ReturnType<typeof emptyHome>>;
let server: Server;
let answer: (path: string) => unknown;

before(async () => {
  home = await emptyHome();
  server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer((request.url ?? '').replace(/\?.*$/, ''))));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await home.remove();
});

function svc(...args: readonly string[]): Promise<Ran> {
  const { port } = server.address() as AddressInfo;
  const env = { SVC_URL: `http://127.0.0.1:${port}`, SVC_TOKEN: 'svc_t0ken', SVC_ORG: 'acme', SVC_PROJECT: 'ops' };
  return callSvc(home.path, args, { env });
}

test('nothing that a server says steers the terminal, whatever member it stands in', async () => {
  const evil = 'x\u001b]0;t\u0007\u009b2J\u202e\r\u0000';
  const run = { id: evil, status: evil, reason: evil, detail: evil, startedAt: evil, stages: [{ name: evil, ms: 1 }] };
  const id = '01a2222a-171c-7000-8b90-9b114ba753fc';
  const answers: { readonly [path: string]: unknown } = {
    [`${p}/reconciles`]: { items: [{ ...run, repository: 'fleet' }], nextCursor: null },
    [`${p}/reconciles/${id}`]: run,
    [`${p}/connections/team`]: { id: evil, name: 'team', provider: 'chat', status: evil, config: { [evil]: evil } },
    [`${p}/secrets/db`]: { name: evil, scope: evil, expiresAt: null, description: evil, injection: null },
    [`${p}/audit/export`]: { action: evil },
    '/api/v1/me': { id: evil, name: evil, kind: 'user', orgs: [{ slug: evil, role: evil, projects: [] }] },
  };
  answer = (path) => answers[path];
  for (const args of ['reconcile logs', `reconcile show ${id}`, 'connection show team', 'secret show db', 'whoami']) {
    for (const format of [[], ['--json'], ['-o', 'yaml'], ['-o', 'wide']]) {
      const { code, stdout, stderr } = await svc(...args.split(' '), ...format);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /x/);
      assert.doesNotMatch(`${stdout}${stderr}`, /[^\P{C}\n\t]/u, args);
    }
  }
  const { stdout } = await svc('audit', 'export');
  assert.doesNotMatch(stdout, /[^\P{C}\n]/u);
  assert.deepEqual(JSON.parse(stdout), { action: evil });
});

test('a value is revealed to the byte to a program', async () => {
  const exact = 'a\u001b[1mb\r\u200e';
  answer = () => ({ value: exact });
  assert.equal((await svc('secret', 'reveal', 'db')).stdout, `${exact}\n`);
});

test('a server that answers with other things than svcd does is said to, and no command breaks over it', async () => {
  const id = '01a2222a-171c-7000-8b90-9b114ba753fc';
  const commands = [
    'whoami',
    'overview',
    'agent show a',
    `event show ${id}`,
    `reconcile show ${id}`,
    'console --print',
  ];
  for (const odd of [{ status: 'ok' }, null, [], 'up']) {
    answer = () => odd;
    for (const args of ['whoami', 'overview', ...(odd === null ? commands : [])]) {
      const { code, stderr, stdout } = await svc(...args.split(' '));
      assert.deepEqual([code, stdout], [1, ''], args);
      assert.match(stderr, /^svc: http:\/\/127\.0\.0\.1:\d+ answered with something that this command cannot read/);
    }
    const { code, stderr } = await svc('whoami', '--json');
    assert.deepEqual([code, JSON.parse(stderr).code], [1, 'unexpected-answer']);
    const looked = await svc('doctor');
    assert.equal(looked.code, 1);
    assert.match(looked.stdout, /^✗ server +what answers at http:\/\/127\.0\.0\.1:\d+ is no svcd$/m);
  }
});

test('doctor says of an answer that is cut off, or does not end in time, that there is none', async (t) => {
  const cut = createServer((_, response) => {
    response.writeHead(200, { 'content-length': '100' }).write('{');
    setTimeout(() => response.destroy(), 50);
  });
  await new Promise<void>((resolve) => cut.listen(0, '127.0.0.1', resolve));
  t.after(() => cut.close());
  const slow = await startTrickle(t);
  for (const [url, why] of [
    [`http://127.0.0.1:${(cut.address() as AddressInfo).port}`, /UND_ERR_SOCKET/],
    [slow.url, /no answer in 10\.0s/],
  ] as const) {
    const { code, stdout, stderr } = await callSvc(home.path, ['doctor'], {
      env: { SVC_URL: url, SVC_TOKEN: 'svc_t' },
    });
    assert.equal(code, 1, stderr);
    assert.match(stdout, new RegExp(`✗ server +${url} cannot be reached \\(${why.source}\\)\n +→ start svcd`));
  }
});
