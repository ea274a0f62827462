// What commands show of a thing beside its settings: who an agent is to people, why something was done, that a
// repository does not follow its source, and by what a thing is asked for.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { callSvc, emptyHome } from './testkit.ts';

let home: Awaited<ReturnType<typeof emptyHome>>;
let daemon: TestDaemon;
before(async () => {
  home = await emptyHome();
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
});
after(async () => {
  await daemon?.stop();
  await home?.remove();
});

async function told(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await callSvc(home.path, args, { env: { SVC_DATA_DIR: daemon.dataDir } });
  assert.equal(code, 0, stderr);
  return stdout;
}

const agent = (name: string, more = ''): string =>
  `name: ${name}\nharness: harness-a\nenvironment: { name: e, image: { kind: preset, name: base } }\n${more}`;
const apply = async (name: string, more: string): Promise<void> => {
  const content = agent(name, more);
  const files = [{ path: `.svc/agents/${name}.yaml`, content }];
  assert.equal((await daemon.api('POST', 'P/apply', { files, prune: false })).status, 200);
};

test('an agent is shown as people see it, and one without an identity by its name alone', async () => {
  await apply('reader', 'identity: { displayName: "Ann\\e[31m", username: ann, description: Reads what is new }\n');
  await apply('plain', '');
  const shown = await told('agent', 'show', 'reader');
  assert.match(shown, /^display name: +Ann\S*\nusername: +ann\ndescription: +Reads what is new\nid:/m);
  assert.doesNotMatch(shown, /\u001b/);
  assert.equal(JSON.parse(await told('agent', 'show', 'reader', '--json')).identity.username, 'ann');
  assert.doesNotMatch(await told('agent', 'show', 'plain'), /display name|username/);
});

test('the audit says why, and a pinned repository is not said to be synced', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-shown-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  await mkdir(join(dir, '.svc/agents'), { recursive: true });
  await writeFile(join(dir, '.svc/agents/swept.yaml'), agent('swept'));
  await told('repo', 'add', 'fleet', '--path', dir, '--wait');
  assert.match(await told('repo', 'list'), /^fleet .* synced /m);
  await told('repo', 'suspend', 'fleet', '--reason', 'freeze for the release');
  const audited = await told('audit', 'list', '--subject', 'fleet');
  assert.match(audited, /^AT +WHO +ACTION +SUBJECT +WHY +REQUEST$/m);
  assert.match(audited, /repository\.suspended +Repository fleet +freeze for the release /);
  assert.match(audited, /repository\.created +Repository fleet +- /);
  await told('repo', 'resume', 'fleet');
  await told('repo', 'sync', 'fleet', '--wait');
  // A folder has no commits that it could be held to: this stands for a repository of git.
  await daemon.ctx.db.query(`update svc.repositories set pinned_commit = '3f9c2d1' where name = 'fleet'`);
  assert.match(await told('repo', 'list'), /^fleet .* pinned /m);
});

test('what a list of names tells is what its commands take: ids of tokens, and of people who have no address', async () => {
  for (const name of ['laptop', 'laptop']) await told('token', 'create', name);
  const { body: listed } = await daemon.api('GET', '/api/v1/tokens');
  const tokens = listed as unknown as { readonly items: readonly { readonly id: string; readonly name: string }[] };
  const names = (await told('token', 'list', '-o', 'name')).trimEnd().split('\n');
  assert.deepEqual(
    names,
    tokens.items.map(({ id }) => `token/${id}`),
  );
  for (const { id } of tokens.items.filter(({ name }) => name === 'laptop'))
    await told('token', 'revoke', names.find((one) => one.endsWith(id))?.slice('token/'.length) ?? '', '--yes');
  await told('member', 'set', 'ann@example.org', '--org', '--role', 'member');
  await told('member', 'set', 'ann@example.org', '--role', 'viewer');
  // Who comes by a provider of sign-in has a name, and perhaps no address.
  await daemon.ctx.db.query(`update svc.principals set name = 'Ann', email = null where email = 'ann@example.org'`);
  const [member = ''] = (await told('member', 'list', '-o', 'name')).trimEnd().split('\n');
  await told('member', 'remove', member.slice('member/'.length), '--yes');
  assert.equal(await told('member', 'list', '-o', 'name'), '');
});

test('a list of names tells revisions and resources as commands take them, and where nothing has a name it says so', async (t) => {
  assert.equal(await told('agent', 'history', 'reader', '-o', 'name'), 'agent/reader@1\n');
  const dir = await mkdtemp(join(tmpdir(), 'svc-names-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  await mkdir(join(dir, '.svc/agents'), { recursive: true });
  await writeFile(join(dir, '.svc/agents/a.yaml'), agent('a'));
  assert.equal(await told('compile', dir, '-o', 'name'), 'agent/a\nenvironment/e\n');
  const nameless = await callSvc(home.path, ['overview', '-o', 'name'], { env: { SVC_DATA_DIR: daemon.dataDir } });
  assert.deepEqual(
    [nameless.code, nameless.stdout, nameless.stderr],
    [0, '', 'nothing here has a name; -o json tells all of it\n'],
  );
});
