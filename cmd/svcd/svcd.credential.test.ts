// What looks like a credential, or stands where the reference to one belongs, is quoted nowhere: not in an answer, a
// diagnostic, an excerpt, a line of the log or a row. One recognizable token is written into many places of trees, requests
// and deliveries; then all that came back, all that was logged and the whole database are searched for it. The content of a
// tree's files, and the body of an event, are data that somebody handed over to be kept: they alone hold it.

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLog } from '../../internal/base/log/log.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { emptyHome, runSvc } from '../svc/testkit.ts';

const token = 'ghp_CANARYaZ09qWeRtYuIoPlKjHgFdSaCANARY';
/** In one of two halves as well: a message that cuts it has quoted it. */
const halves = ['CANARYaZ09qWeRt', 'lKjHgFdSaCANARY'] as const;
const holds = (text: string): boolean => halves.some((half) => text.includes(half));

const base = 'name: a\nharness: harness-a\nenvironment: {name: default, image: {kind: preset, name: base}}\n';
const agent = (more: string): string => `${base}${more}\n`;
const hook = (more: string): string =>
  agent(`triggers:\n  - event: webhook.received\n    endpoint: e\n    routing: {kind: spawn}\n${more}`);
const mount = (more: string): string =>
  agent(`mounts:\n  - kind: git\n    repository: o/r\n    mountPath: /work\n${more}`);
const tool = (more: string): string =>
  agent(`tools:\n  t:\n    kind: mcp_remote\n    url: https://h.example/\n${more}`);

/** An agent's document, by the place at which the token stands in it. */
const places: { readonly [place: string]: string } = {
  'bearer token of an endpoint': hook(`    auth: {kind: bearer, token: ${token}}`),
  'reference of an endpoint': hook(`    auth: {kind: bearer, secretRef: {name: ${token}}}`),
  'text for the reference of an endpoint': hook(`    auth: {kind: bearer, secretRef: ${token}}`),
  'reference of an endpoint by $secret': hook(`    auth: {kind: bearer, secretRef: {$secret: [${token}]}}`),
  'name of the secret of an endpoint': hook(`    auth: {kind: bearer_token, secretRef: ${token}}`),
  'whole of an endpoint’s auth': hook(`    auth: ${token}`),
  'kind of an endpoint’s auth': hook(`    auth: {kind: ${token}}`),
  'key of an endpoint’s auth': hook(`    auth: {kind: none, ${token}: x}`),
  'list for an endpoint’s auth': hook(`    auth: [${token}]`),
  'name of an endpoint': agent(
    `triggers:\n  - {event: webhook.received, endpoint: [${token}], routing: {kind: spawn}}`,
  ),
  'event of a trigger': agent(`triggers:\n  - {event: ${token}, routing: {kind: spawn}}`),
  'routing of a trigger': agent(`triggers:\n  - {event: codehost.push, connection: c, routing: {kind: ${token}}}`),
  'connection of a trigger': agent(
    `triggers:\n  - {event: codehost.push, connection: [${token}], routing: {kind: spawn}}`,
  ),
  'name of the connection of a trigger': agent(
    `triggers:\n  - {event: codehost.push, connection: ${token}, routing: {kind: spawn}}`,
  ),
  'clause of where': hook(`    where: {$.a: {${token}: 1}}`),
  'path of where': hook(`    where: {"${token}": {eq: [1]}}`),
  'cron of a heartbeat': agent(
    `triggers:\n  - {kind: heartbeat, cron: "${token}", timezone: UTC, routing: {kind: spawn}}`,
  ),
  'time zone of a heartbeat': agent(
    `triggers:\n  - {kind: heartbeat, cron: "0 0 * * *", timezone: ${token}, routing: {kind: spawn}}`,
  ),
  'value in env': agent(`env: {API_TOKEN: [${token}]}`),
  'name in env': agent(`env: {"${token} ": x}`),
  'reference in env': agent(`env: {API_TOKEN: {$secret: [${token}]}}`),
  'name of the secret in env': agent(`env: {API_TOKEN: {$secret: ${token}}}`),
  'reference of another form in env': agent(`env: {API_TOKEN: {secret: ${token}}}`),
  'reference with more in env': agent(`env: {API_TOKEN: {$secret: a, value: ${token}}}`),
  'auth of a mount': mount(`    auth: {kind: token, token: ${token}}`),
  'reference of a mount': mount(`    auth: {kind: token, secretRef: [${token}]}`),
  'repository of a mount': mount('').replace('o/r', `https://x:${token}@h.example/r`),
  'path of a mount': mount('').replace('/work', token),
  'capability of a mount': mount(`    capabilities: {${token}: write}`),
  'header of a remote tool': tool(`    headers: {authorization: Bearer ${token}}`),
  'auth of a remote tool': tool(`    auth: {kind: bearer, token: ${token}}`),
  'name of the secret of a remote tool': tool(`    auth: {kind: bearer, token: {$secret: ${token}}}`),
  'user of a remote tool’s URL': tool('').replace('https://h', `https://${token}:${token}@h`),
  'URL of a remote tool': tool('').replace('https://h.example/', token),
  'name of the connection of a tool': agent(`tools: {t: {kind: connection, provider: errtrack, connection: ${token}}}`),
  'implementation of a tool': agent(`tools: {t: {kind: local, implementation: ${token}}}`),
  'alias of a tool': agent(`tools: {"${token} x": {kind: local, implementation: ping}}`),
  harness: agent('').replace('harness: harness-a', `harness: ${token}`),
  model: agent(`model: {provider: ${token}, id: x}`),
  'spend cap': agent(`spendCaps: {dailyUsd: ${token}}`),
  'unknown field': agent(`apiKey: ${token}`),
  'unknown field that is a token': agent(`${token}: x`),
  'name of an identity': agent(`identity: ${token}`),
  import: agent(`imports: [${token}]`),
  'name of a file': agent(`instructions: {file: ${token}}`),
  variable: agent(`variables: {"a b": ${token}}`),
  'token of a variable that is not there': agent(`instructions: "{{ $${token} }}"`),
  'name of an agent': base.replace('name: a', `name: ${token}!`),
  'a duplicate key': agent(`env: {${token}: a, ${token}: b}`),
  'an alias': agent(`env: *${token}`),
  'a tag': agent(`env: !${token} x`),
  'a line that is no YAML': agent(`env: {token: ${token}\n  : : ]`),
  'a quote without an end': agent(`token: "${token}`),
  'a second document': `${base}---\n${token}\n`,
  'whole document': `${token}\n`,
};

/** One that applies, with a warning about the line that the token stands in. */
const warned = hook(`    auth: {kind: bearer, secretRef: {name: is-missing}} # ${token}`);

/** Tables that keep what was handed over to be kept, as it was: files of a tree that applies, and bodies of events. */
const kept: readonly string[] = ['svc.blobs', 'svc.event_bodies'];

describe('a token in the place of something else', () => {
  const told: { readonly where: string; readonly text: string }[] = [];
  const lines: string[] = [];
  let daemon: TestDaemon;
  let path = '';
  const api = async (where: string, ...call: Parameters<TestDaemon['api']>) => {
    const { status, body } = await daemon.api(...call);
    told.push({ where, text: JSON.stringify(body) ?? '' });
    return { status, body };
  };
  before(async () => {
    daemon = await startTestDaemon({ log: createLog('debug', { write: (line: string) => void lines.push(line) }) });
    path = join(daemon.dataDir, 'tree');
    await mkdir(join(path, '.svc', 'agents'), { recursive: true });
  });
  after(() => daemon.stop());

  it('is quoted by no apply, sync, validation or command', { timeout: 600_000 }, async () => {
    const home = await emptyHome();
    const file = join(path, '.svc', 'agents', 'a.yaml');
    // The endpoint is there, and has another proof than what the places name.
    const open = { path: '.svc/agents/k.yaml', content: hook('    auth: {kind: none}').replace('name: a', 'name: k') };
    assert.equal((await api('endpoint', 'POST', 'P/apply', { files: [open] })).status, 200);
    await writeFile(file, base);
    assert.equal((await api('add', 'POST', 'P/repositories', { name: 'r', path, intervalSeconds: 3_600 })).status, 201);
    let runs = 1;
    const settled = async (): Promise<void> => {
      for (let waited = 0; ; waited += 30) {
        const { rows } = await daemon.ctx.db.query<{ n: number }>(
          `select count(*)::int as n from svc.reconciles where repository_name = 'r' and status <> 'running'`,
        );
        if ((rows[0]?.n ?? 0) >= runs) return;
        assert.ok(waited < 60_000);
        await sleep(30);
      }
    };
    await settled();
    const seen = { refused: 0, cli: 0 };
    for (const [place, content] of [...Object.entries(places), ['a comment', warned] as const]) {
      const files = [{ path: '.svc/agents/b.yaml', content: content.replace('name: a\n', 'name: b\n') }];
      // Whether it is refused is another matter; where it is, nothing of it is kept.
      const { status } = await api(`apply: ${place}`, 'POST', 'P/apply', { files, prune: false, dryRun: true });
      if (status === 422) seen.refused += 1;
      await writeFile(file, content);
      if (status === 422 || content === warned) {
        assert.equal((await api(`sync: ${place}`, 'POST', 'P/repositories/r/sync')).status, 202);
        runs += 1;
        await settled();
      }
      // A process of its own costs a quarter of a second: every eighth place.
      if ((seen.cli += 1) % 8 !== 0) continue;
      for (const command of ['validate', 'compile']) {
        const ran = await runSvc(home.path, [command, path]);
        const shown = command === 'compile' && ran.code === 0 ? '' : ran.stdout;
        told.push({ where: `svc ${command}: ${place}`, text: `${shown}${ran.stderr}` });
      }
    }
    await home.remove();
    assert.ok(seen.refused > 30, `${seen.refused} refused`);
    const { body } = await api('runs', 'GET', 'P/reconciles?limit=200');
    for (const run of body['items'] as unknown as { id: string }[]) await api('run', 'GET', `P/reconciles/${run.id}`);
    await api('repository', 'GET', 'P/repositories/r');
    await api('doctor', 'GET', 'P/doctor');
    await api('audit', 'GET', 'P/audit?limit=200');
  });

  it('is quoted by no request that is refused', async () => {
    const calls: [string, string, unknown][] = [
      ['POST', 'P/repositories', { name: 'x', url: `https://u:${token}@h.example/r` }],
      [
        'POST',
        'P/repositories',
        { name: 'x', url: 'https://h.example/r', auth: { kind: 'token', secretRef: [token] } },
      ],
      ['POST', 'P/repositories', { name: 'x', url: 'https://h.example/r', auth: { kind: 'token', token: token } }],
      ['POST', 'P/repositories', { name: 'x', url: 'https://h.example/r', auth: { kind: 'token', secretRef: token } }],
      [
        'POST',
        'P/repositories',
        { name: 'x', url: 'https://h.example/r', auth: { kind: 'connection', connection: token } },
      ],
      ['PATCH', 'P/repositories/r', { auth: { kind: 'token', secretRef: token } }],
      ['POST', 'P/repositories', { name: 'x', url: 'https://h.example/r', auth: token }],
      ['POST', 'P/repositories/probe', { url: `https://${token}@h.example/r` }],
      ['POST', 'P/repositories/probe', { url: 'https://h.example/r', auth: { kind: 'token', secretRef: token } }],
      ['POST', 'P/connections', { provider: 'codehost', name: 'c', credentials: token }],
      ['POST', 'P/connections', { provider: token, name: 'c', credentials: {} }],
      ['POST', 'P/connections', { provider: 'codehost', name: 'c', credentials: { [token]: 'x' } }],
      [
        'POST',
        'P/connections',
        { provider: 'codehost', name: 'c', config: { appId: token }, credentials: { webhookSecret: 1 } },
      ],
      ['PUT', 'P/secrets/s', { value: [token] }],
      ['PUT', 'P/secrets/s', { value: 'x', [token]: 'x' }],
      ['PUT', 'P/secrets/s', { value: 'x', expiresAt: token }],
      ['POST', 'P/endpoints', { name: [token] }],
      ['POST', 'P/triggers/explain', { event: 'codehost.push', payload: token }],
      ['POST', 'P/triggers/explain', { event: 'codehost.push', payload: {}, connection: token }],
      ['POST', 'P/receivers', { name: 'x', kind: 'chat', connection: token, channel: 'C1' }],
      ['POST', 'P/apply', { files: token }],
      ['POST', 'P/apply', { files: [{ path: '.svc/agents/x.yaml', content: base }], context: token }],
      ['POST', 'P/apply', token],
      ['POST', 'P/agents/a/sessions', { message: [token] }],
    ];
    for (const [method, target, body] of calls) {
      const { status } = await api(`${method} ${target}`, method, target, body);
      // A probe says in its answer what is wrong.
      assert.ok((status >= 400 && status < 500) || target.endsWith('/probe'), `${method} ${target} ${status}`);
    }
    const headers = { authorization: `Bearer ${token}` };
    told.push({
      where: 'a wrong token',
      text: JSON.stringify(await daemon.api('GET', 'P/agents', undefined, { token: null, headers })),
    });
  });

  it('stands in no answer, no line of the log, and no row but those that keep what was handed over', async () => {
    assert.deepEqual(
      told.filter((one) => holds(one.text)).map((one) => `${one.where}: ${one.text.slice(0, 600)}`),
      [],
    );
    assert.deepEqual(lines.filter(holds), []);
    // What looks for it finds it where it is.
    await daemon.ctx.db.query(`create table svc.found_by_the_search as select $1::text as text, null::bytea as bytes`, [
      token,
    ]);
    await daemon.ctx.db.query(`insert into svc.found_by_the_search (bytes) values ($1::bytea)`, [Buffer.from(token)]);
    const { rows: tables } = await daemon.ctx.db.query<{ name: string }>(
      `select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p') and not c.relispartition and n.nspname not in ('pg_catalog', 'information_schema')`,
    );
    const found: string[] = [];
    for (const { name } of tables.filter((one) => !kept.includes(one.name))) {
      const { rows } = await daemon.ctx.db.query<{ row: string }>(
        `select left(t::text, 400) as row from ${name} t where t::text ~ $1::text limit 3`,
        [[...halves, ...halves.map((half) => Buffer.from(half).toString('hex'))].join('|')],
      );
      found.push(...rows.map(({ row }) => (name === 'svc.found_by_the_search' ? name : `${name}: ${row}`)));
    }
    assert.deepEqual(found, ['svc.found_by_the_search', 'svc.found_by_the_search']);
  });
});
